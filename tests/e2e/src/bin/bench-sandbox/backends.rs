//! What a large cluster costs the guest: a load balancer of DigitalOcean with 5,000 droplets, the most that Kubernetes is made for.
//!
//! Time in the guest is that of the call without that of its exchanges. Pages of listings come at the same time, so that their times do
//! not add up: those are taken from what the host has kept a moment ago, and copying them into the guest counts as the guest's.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ccm_cloud::{
    Address, AddressKind, Alone, Backend, LoadBalancers as _, Outcome, Protocol, Service, ServicePort, ServiceType,
};
use ccm_e2e::measure::{Distribution, count};
use ccm_e2e::report::{Report, Target};
use ccm_egress::config::{CredentialSource, NetworkSettings, OperatorGrants, Secret};
use ccm_egress::observe::{self, BudgetLeft, Exchange, ExchangeObserver};
use ccm_egress::{Cache, Carryover, Egress, EgressConfig, ProviderContext};
use ccm_sandbox::{CallEnd, CallObserver, Limits, Provider, Sandbox};
use ccm_sim_digitalocean::{DigitalOcean, Droplet, Quota, Settings, TOKEN};
use parking_lot::Mutex;

const BACKENDS: u64 = 5_000;
const CALLS: usize = 40;

const CPU: Target = Target::AtMost(20.0);
const MEMORY: Target = Target::AtMost(67_108_864.0);

/// Where the provider writes which load balancer it has made.
const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

/// What a call came to.
#[derive(Default)]
struct Watch {
    end: Mutex<Option<CallEnd>>,
    exchanges: Mutex<(usize, Duration)>,
}

impl CallObserver for Watch {
    fn call_ended(&self, _: &str, end: CallEnd) {
        *self.end.lock() = Some(end);
    }
}

impl ExchangeObserver for Watch {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        if exchange.outcome != observe::ExchangeOutcome::Shared {
            let (exchanges, time) = &mut *self.exchanges.lock();
            *exchanges = exchanges.saturating_add(1);
            *time = time.saturating_add(exchange.time).saturating_add(exchange.waited);
        }
    }

    fn budget(&self, _: BudgetLeft<'_>) {}
}

pub(crate) async fn bench(sandbox: &Sandbox, report: &mut Report) -> Result<()> {
    let cloud = DigitalOcean::start(Settings {
        quota: Quota { per_hour: 1_000_000, per_minute: 1_000_000 },
        provisioning: Duration::ZERO,
        ..Settings::default()
    });
    let cloud = cloud.await?;
    for id in 1..=BACKENDS {
        cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    let watch = Arc::new(Watch::default());
    let provider = provider(sandbox, &cloud, &watch).await?;
    let mut service = service();
    let known: Arc<[Backend]> = (1..=BACKENDS).map(|id| backend(id, true)).collect();
    let nameless: Arc<[Backend]> = (1..=BACKENDS).map(|id| backend(id, false)).collect();
    let fewer: Arc<[Backend]> = known.iter().skip(1).cloned().collect();

    let made = until_done(&provider, &service, &known).await?;
    for (name, value) in made.annotations {
        service.annotations.insert(name, value.context("an annotation was taken away")?);
    }
    ensure!(service.annotations.contains_key(ID), "the load balancer was not noted");
    service.ingress = made.ingress;

    // In turn, so that there is always something to change.
    let mut guest = BTreeMap::from([("unchanged", vec![]), ("changed", vec![]), ("by_name", vec![])]);
    let mut memory = 0;
    for _ in 0..CALLS {
        // Several calls read the whole account; the next one finds all of it.
        until_done(&provider, &service, &nameless).await?;
        for (name, backends, exchanges) in
            [("by_name", &nameless, 1), ("changed", &fewer, 2), ("changed", &known, 2), ("unchanged", &known, 1)]
        {
            *watch.exchanges.lock() = (0, Duration::ZERO);
            let outcome = provider.ensure(service.clone(), Arc::clone(backends)).await;
            if let Some(failure) = outcome.failure {
                bail!("{name}: {failure}");
            }
            let (asked, in_cloud) = *watch.exchanges.lock();
            let end = watch.end.lock().take().context("nobody said that the call is over")?;
            memory = memory.max(end.memory);
            ensure!(asked == exchanges, "{name}: {asked} exchanges instead of {exchanges}");
            let time = end.time.saturating_sub(in_cloud).as_secs_f64() * 1e3;
            guest.get_mut(name).context("no such figure")?.push(time);
        }
    }
    cloud.check()?;
    for (name, times) in guest {
        let times = Distribution::of(times);
        report.figure(format!("5000_backends_{name}_p50"), times.percentile(50), "ms", Some(CPU));
        report.figure(format!("5000_backends_{name}_p90"), times.percentile(90), "ms", None);
    }
    report.figure("5000_backends_memory", count(memory), "bytes", Some(MEMORY));
    Ok(())
}

/// As the controller: again after the time that the failure asks for.
async fn until_done(provider: &Provider, service: &Service, backends: &Arc<[Backend]>) -> Result<Outcome> {
    let mut failures = vec![];
    while failures.len() < 10 {
        let outcome = provider.ensure(service.clone(), Arc::clone(backends)).await;
        let Some(failure) = outcome.failure else { return Ok(outcome) };
        tokio::time::sleep(failure.retry_after.unwrap_or_default()).await;
        failures.push(failure);
    }
    bail!("not done: {failures:?}")
}

async fn provider(sandbox: &Sandbox, cloud: &DigitalOcean, watch: &Arc<Watch>) -> Result<Provider> {
    let path = ccm_e2e::host::component("providers/digitalocean.wasm")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let component = sandbox.load(bytes, Limits::default(), false).await?;
    let descriptor = component.descriptor();
    let mut grants = OperatorGrants { allow_http: true, ..OperatorGrants::default() };
    grants.addresses.loopback = true;
    grants.base_urls.insert("api".to_owned(), cloud.url());
    let mut settings = NetworkSettings::default();
    (settings.budget.per_second, settings.budget.burst) = (Some(f64::INFINITY), Some(NonZeroU32::MAX));
    // Else those of the provider count.
    (settings.budget.per_minute, settings.budget.per_hour) = (Some(NonZeroU32::MAX), Some(NonZeroU32::MAX));
    let token = CredentialSource::Environment {
        variable: "DO_ACCESS_TOKEN".to_owned(),
        value: Secret::new(TOKEN.as_bytes().to_vec()),
    };
    let credentials = BTreeMap::from([("access-token".to_owned(), token)]);
    let observer = Some(Arc::clone(watch) as _);
    let config = EgressConfig { grants, credentials, settings, observer, ..EgressConfig::new(Arc::new(Alone)) };
    let egress = Egress::open(config, descriptor, &Carryover::default(), None)?;
    let context =
        ProviderContext { cache: Cache::new(Cache::DEFAULT_BYTES), egress: Some(egress), ..ProviderContext::closed() };
    Ok(component.into_provider(context, None, Some(Arc::clone(watch) as _)))
}

fn service() -> Service {
    let port = |port| ServicePort {
        name: format!("p{port}"),
        protocol: Protocol::Tcp,
        app_protocol: None,
        port,
        node_port: Some(30_000 + port),
    };
    Service {
        name: "web".to_owned(),
        namespace: "default".to_owned(),
        uid: "3c8a1d2e-0000-4000-8000-000000000000".to_owned(),
        kind: ServiceType::LoadBalancer,
        ports: vec![port(80), port(443)],
        ..Service::default()
    }
}

fn backend(id: u64, known: bool) -> Backend {
    let (high, low) = (id / 250, id % 250);
    Backend {
        name: format!("node-{id}"),
        provider_id: known.then(|| format!("digitalocean://{id}")),
        addresses: vec![
            Address::new(AddressKind::Hostname, format!("node-{id}")),
            Address::new(AddressKind::InternalIp, format!("10.8.{high}.{low}")),
            Address::new(AddressKind::ExternalIp, format!("198.19.{high}.{low}")),
        ],
    }
}
