//! A provider with everything around it recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ccm_cloud::{
    Alone, Descriptor, EventSink, Failure, FindError, Finding, Instance, InstanceState, Instances as _, Need, Node,
    Reaction, Source,
};
use ccm_cloud::{Severity, Subject};
use ccm_egress::Door;
use ccm_egress::cache::Cache;
use ccm_egress::credentials::{CredentialSource, Credentials};
use ccm_egress::endpoints::{Bindings, Endpoints, OperatorGrants};
use ccm_egress::network::{Network, NetworkParts, NetworkSettings};
use ccm_egress::settings::Settings;
use ccm_sandbox::{CallEnd, CallObserver, Limits, LoadError, Provider, Sandbox};
use parking_lot::Mutex;

/// Components that the recipes build, below `target/`.
pub(crate) const HOSTILE: &str = "guests/hostile.wasm";
pub(crate) const HOSTILE_WASI: &str = "guests/hostile-wasi.wasm";
pub(crate) const CLOUDLYCKE: &str = "providers/cloudlycke.wasm";

pub(crate) fn component(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `./just test`, which builds it first", path.display()))
}

/// What the host was told.
#[derive(Default)]
pub(crate) struct Record {
    ends: Mutex<Vec<CallEnd>>,
    events: Mutex<Vec<Event>>,
}

/// An Event as the sink got it.
pub(crate) type Event = (Subject, Severity, String, String);

impl Record {
    /// Ends of calls since the last time that somebody asked.
    pub(crate) fn take_ends(&self) -> Vec<CallEnd> {
        std::mem::take(&mut *self.ends.lock())
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock())
    }
}

impl CallObserver for Record {
    fn call_ended(&self, provider: &str, end: CallEnd) {
        assert_eq!(provider, "hostile");
        self.ends.lock().push(end);
    }
}

impl EventSink for Record {
    fn emit(&self, about: Subject, severity: Severity, reason: String, message: String) {
        self.events.lock().push((about, severity, reason, message));
    }
}

/// A provider that runs.
pub(crate) struct Rig {
    pub(crate) provider: Provider,
    pub(crate) record: Arc<Record>,
}

impl Rig {
    pub(crate) async fn hostile(limits: Limits) -> Self {
        Self::with_settings(HOSTILE, limits, Settings::default()).await
    }

    pub(crate) async fn with_settings(name: &str, limits: Limits, settings: Settings) -> Self {
        Self::of(component(name), limits, settings).await.unwrap()
    }

    pub(crate) async fn of(bytes: Vec<u8>, limits: Limits, settings: Settings) -> Result<Self, LoadError> {
        let component = Sandbox::try_new().unwrap().load(bytes, limits, true).await?;
        let record = Arc::new(Record::default());
        let network = network(component.descriptor(), &OperatorGrants::default(), BTreeMap::new());
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        let door = Door { settings, cache, network: Some(network), ..Door::closed() };
        let provider = component.into_provider(door, Some(Arc::clone(&record) as _), Some(Arc::clone(&record) as _));
        Ok(Self { provider, record })
    }

    pub(crate) async fn find(&self, names: &[&str]) -> Result<Vec<Finding>, FindError> {
        self.provider.find(names.iter().map(|name| node(name)).collect(), Need::Metadata).await
    }

    /// The failure of a call that gave no answer, and the word that metrics have for it. A call after it is answered.
    pub(crate) async fn attack(&self, name: &str) -> (FindError, &'static str) {
        let error = self.find(&[name]).await.unwrap_err();
        let end = self.end();
        assert_eq!(self.find(&["good"]).await, Ok(vec![found("good", &[])]), "the call after {name}");
        assert_eq!(self.end().outcome, "ok");
        (error, end.outcome)
    }

    /// What the guest wrote on the first node.
    pub(crate) async fn labels(&self, node: Node, need: Need) -> BTreeMap<String, String> {
        match self.provider.find(vec![node], need).await.unwrap().remove(0) {
            Finding::Found(instance) => instance.labels,
            other => panic!("{other:?}"),
        }
    }

    /// The end of the only call since the last time that somebody asked.
    pub(crate) fn end(&self) -> CallEnd {
        let ends = self.record.take_ends();
        let [end] = ends.as_slice() else { panic!("not one call ended but {ends:?}") };
        *end
    }
}

/// The network of a provider, with these grants.
pub(crate) fn network(
    descriptor: &Descriptor,
    operator: &OperatorGrants,
    credentials: BTreeMap<String, CredentialSource>,
) -> Network {
    let settings = NetworkSettings::default();
    let nowhere = |_: &Source| None;
    let endpoints =
        Endpoints::resolve(&descriptor.endpoints, operator, nowhere, settings.client, Bindings::default()).unwrap();
    let least = settings.limits.min_credential_bytes;
    let parts = NetworkParts {
        provider: descriptor.name.clone(),
        endpoints,
        credentials: Credentials::new(descriptor, credentials, vec![], Arc::default(), least),
        settings,
        leadership: Arc::new(Alone),
        observer: None,
    };
    Network::new(parts, descriptor)
}

pub(crate) fn node(name: &str) -> Node {
    Node { name: name.to_owned(), uid: format!("uid of {name}"), ..Node::default() }
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What a well-behaved guest answers.
pub(crate) fn found(name: &str, labels: &[(&str, &str)]) -> Finding {
    Finding::Found(Box::new(Instance {
        provider_id: format!("hostile://{name}"),
        instance_type: String::new(),
        addresses: vec![],
        zone: String::new(),
        region: String::new(),
        labels: map(labels),
        state: InstanceState::Running,
    }))
}

pub(crate) fn crashed(message: &str) -> FindError {
    FindError::Crashed(Failure::new(Reaction::Retry, message))
}
