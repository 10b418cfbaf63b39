//! The component with all that the host puts around it, in front of a cloud in this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Alone, Descriptor, EventSink, NodeSelector, Severity, Subject};
use ccm_egress::config::{
    BudgetSettings, Configuration, CredentialSource, NetworkSettings, OperatorGrants, RetrySettings, Secret,
};
use ccm_egress::{Cache, Carryover, Egress, EgressConfig, ProviderContext};
use ccm_sandbox::{Limits, Provider, Sandbox};
use ccm_sim_digitalocean::{DigitalOcean, Planned, Quota, TOKEN};
use parking_lot::Mutex;
use tokio::time;

/// Longer than the host waits for an answer.
const NO_ANSWER: Duration = Duration::from_secs(31);

/// Events that the provider wrote: severity, reason and message.
#[derive(Default)]
pub(crate) struct Events(Mutex<Vec<(Severity, String, String)>>);

impl EventSink for Events {
    fn emit(&self, _: Subject, severity: Severity, reason: String, message: String) {
        self.0.lock().push((severity, reason, message));
    }
}

impl Events {
    pub(crate) fn take(&self) -> Vec<(Severity, String, String)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Provider IDs of the cluster's Nodes, whose names no test asks for.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<Vec<String>>);

impl Nodes {
    pub(crate) fn set(&self, ids: impl IntoIterator<Item = u64>) {
        *self.0.lock() = ids.into_iter().map(|id| format!("digitalocean://{id}")).collect();
    }
}

impl NodeSelector for Nodes {
    fn matching(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn provider_ids(&self, _: &[String], most: usize) -> Result<Vec<String>, String> {
        Ok(self.0.lock().iter().take(most).cloned().collect())
    }
}

pub(crate) struct Rig {
    pub(crate) provider: Provider,
    pub(crate) cloud: DigitalOcean,
    pub(crate) events: Arc<Events>,
    pub(crate) nodes: Arc<Nodes>,
}

impl Rig {
    /// With values for settings of the provider, in a cloud without quota.
    pub(crate) async fn start(given: &[(&str, &str)]) -> Self {
        Self::without_quota(Limits::default(), given).await
    }

    /// In such a cloud, for calls with which a host that is not optimised is busy for longer than a call may be.
    pub(crate) async fn patient() -> Self {
        Self::without_quota(Limits { call_cpu: Duration::from_secs(60), ..Limits::default() }, &[]).await
    }

    async fn without_quota(limits: Limits, given: &[(&str, &str)]) -> Self {
        let most = NonZeroU32::MAX;
        let budget = BudgetSettings {
            per_second: Some(f64::INFINITY),
            burst: Some(most),
            per_minute: Some(most),
            per_hour: Some(most),
            ..BudgetSettings::default()
        };
        Self::within(limits, Quota { per_hour: 1_000_000, per_minute: 1_000_000 }, budget, given).await
    }

    /// With the quota of production, and the budget that the host keeps by itself.
    pub(crate) async fn with_quota() -> Self {
        Self::within(Limits::default(), Quota::default(), BudgetSettings::default(), &[]).await
    }

    async fn within(limits: Limits, quota: Quota, budget: BudgetSettings, given: &[(&str, &str)]) -> Self {
        let settings = ccm_sim_digitalocean::Settings { quota, ..ccm_sim_digitalocean::Settings::default() };
        let cloud = DigitalOcean::start(settings).await.unwrap();
        let path = ccm_e2e::host::component("providers/digitalocean.wasm").unwrap();
        let bytes =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `./just test`", path.display()));
        let component = Sandbox::try_new().unwrap().load(bytes, limits, true).await.unwrap();
        let given = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let settings = Configuration::default().settings(component.descriptor(), &given).unwrap();
        let egress = egress(component.descriptor(), &cloud.url(), &budget);
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        let nodes = Arc::new(Nodes::default());
        let seen = Some(Arc::clone(&nodes) as Arc<dyn NodeSelector>);
        let context =
            ProviderContext { settings, cache, egress: Some(egress), nodes: seen, ..ProviderContext::closed() };
        let events = Arc::new(Events::default());
        let provider = component.into_provider(context, Some(Arc::clone(&events) as _), None);
        Self { provider, cloud, events, nodes }
    }

    /// A call in which requests may get no answer, without the time that it takes to find out.
    pub(crate) async fn impatient<T>(&self, planned: Option<&mut Planned>, call: impl Future<Output = T>) -> T {
        let Some(planned) = planned else { return call.await };
        let mut call = pin!(call);
        loop {
            tokio::select! {
                ended = &mut call => return ended,
                () = planned.again() => skip(NO_ANSWER).await,
            }
        }
    }

    /// A call that nobody waits for, and that spares a cloud which has asked for fewer requests, without the time that this takes.
    pub(crate) async fn hurried<T>(call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        loop {
            tokio::select! {
                ended = &mut call => return ended,
                () = time::sleep(Duration::from_millis(20)) => skip(Duration::from_secs(1)).await,
            }
        }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> usize {
        let counters = self.cloud.counters();
        counters.reads + counters.writes + counters.outside
    }
}

thread_local! {
    /// Whether a [`skip`] of this thread has stopped the clock: a second one may begin meanwhile.
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// The clocks of the host and of the cloud jump ahead.
pub(crate) async fn skip(by: Duration) {
    let is_first = !STOPPED.replace(true);
    if is_first {
        time::pause();
    }
    time::advance(by).await;
    if is_first {
        time::resume();
        STOPPED.set(false);
    }
}

fn egress(descriptor: &Descriptor, url: &str, budget: &BudgetSettings) -> Egress {
    let mut grants = OperatorGrants { allow_http: true, ..OperatorGrants::default() };
    grants.addresses.loopback = true;
    grants.base_urls.insert("api".to_owned(), url.to_owned());
    let mut settings = NetworkSettings::default();
    // Nothing waits for real: these are the only waits inside of a call.
    let soon = Duration::from_millis(1);
    settings.retry = RetrySettings { min_delay: soon, max_delay: soon, ..RetrySettings::default() };
    settings.budget =
        BudgetSettings { max_pause: soon, breaker_pause_min: soon, breaker_pause_max: soon, ..budget.clone() };
    let token = Secret::new(TOKEN.as_bytes().to_vec());
    let token = CredentialSource::Environment { variable: "DO_ACCESS_TOKEN".to_owned(), value: token };
    let credentials = BTreeMap::from([("access-token".to_owned(), token)]);
    let config = EgressConfig { grants, credentials, settings, ..EgressConfig::new(Arc::new(Alone)) };
    Egress::open(config, descriptor, &Carryover::default(), None).unwrap()
}
