//! A provider with everything around it recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{
    Alone, Backend, Descriptor, EventSink, Failure, FindError, Finding, Ingress, Instance, InstanceState,
    Instances as _, Leadership, Need, Node, Reaction, Service, Severity, Subject,
};
use ccm_egress::config::{AddressRules, CredentialSource, NetworkSettings, OperatorGrants, Secret, UseGrants};
use ccm_egress::{Cache, Carryover, Egress, EgressConfig, OpenError, ProviderContext, Settings};
use ccm_sandbox::{CallEnd, CallObserver, Limits, LoadError, Provider, Sandbox};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Components that the recipes build, below `target/`.
pub(crate) const HOSTILE: &str = "guests/hostile.wasm";
pub(crate) const SCRIPTED: &str = "guests/scripted.wasm";
pub(crate) const HOSTILE_WASI: &str = "guests/hostile-wasi.wasm";
pub(crate) const CLOUDLYCKE: &str = "providers/cloudlycke.wasm";

pub(crate) fn component(name: &str) -> Vec<u8> {
    std::fs::read(ccm_built::component(name).unwrap()).unwrap()
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
        assert!(["hostile", "scripted", "cloudlycke"].contains(&provider), "{provider}");
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
        let egress = egress(component.descriptor(), Grants::default());
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        let context = ProviderContext { settings, cache, egress: Some(egress), ..ProviderContext::closed() };
        let provider = component.into_provider(context, Some(Arc::clone(&record) as _), Some(Arc::clone(&record) as _));
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

/// What the operator grants a provider, and what it knows.
pub(crate) struct Grants {
    pub(crate) operator: OperatorGrants,
    /// Names and values.
    pub(crate) credentials: Vec<(&'static str, String)>,
    pub(crate) settings: NetworkSettings,
    pub(crate) leadership: Arc<dyn Leadership>,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            operator: OperatorGrants::default(),
            credentials: vec![],
            settings: NetworkSettings::default(),
            leadership: Arc::new(Alone),
        }
    }
}

impl Grants {
    /// Endpoints on this machine; their hosts are allowed.
    pub(crate) fn of(endpoints: &[(&str, String)]) -> Self {
        let base_urls = endpoints.iter().map(|(name, url)| ((*name).to_owned(), url.clone())).collect();
        let addresses = AddressRules { loopback: true };
        let operator = OperatorGrants { base_urls, allow_http: true, addresses, ..OperatorGrants::default() };
        Self { operator, ..Self::default() }
    }

    pub(crate) fn credential(mut self, name: &'static str, value: &str) -> Self {
        self.credentials.push((name, value.to_owned()));
        self
    }
}

/// The egress of a provider, with these grants.
pub(crate) fn egress(descriptor: &Descriptor, grants: Grants) -> Egress {
    try_egress(descriptor, grants).unwrap()
}

pub(crate) fn try_egress(descriptor: &Descriptor, grants: Grants) -> Result<Egress, OpenError> {
    let Grants { operator, credentials, settings, leadership } = grants;
    let given = |(name, value): (&str, String)| {
        let variable = format!("SCRIPTED_{name}");
        (name.to_owned(), CredentialSource::Environment { variable, value: Secret::new(value.into_bytes()) })
    };
    let credentials = credentials.into_iter().map(given).collect();
    let config = EgressConfig {
        grants: operator,
        credentials,
        credential_uses: granted(),
        settings,
        ..EgressConfig::new(leadership)
    };
    Egress::open(config, descriptor, &Carryover::default(), None)
}

/// Every use of a credential that guests declare: what they may do is tested elsewhere.
pub(crate) fn granted() -> UseGrants {
    let uses: [(&str, &[&str]); 6] = [
        (
            "token",
            &[
                "api:header:authorization",
                "compute:header:x-auth-token",
                "identity:capture-header:x-subject-token:/v3/auth/tokens",
            ],
        ),
        ("password", &["identity:body+answer:/v3/auth/tokens", "identity:body-json+answer:/password:/v3/auth/tokens"]),
        (
            "session",
            &[
                "api:header:x-auth-token",
                "identity:header:x-auth-token",
                "found:header:x-auth-token",
                "api:capture-header:x-subject-token",
                "identity:capture-header:x-subject-token",
                "api:capture-json:/t",
            ],
        ),
        (
            "api-key",
            &[
                "api:query:apiKey",
                "api:body+answer:/client/api",
                "api:body-json+answer:/key:/client/api",
                "api:body-form+answer:apiKey:/client/api",
            ],
        ),
        (
            "secret-key",
            &[
                "api:signing+any",
                "api:query:signature",
                "api:body+answer:/client/api",
                "api:body-form+answer:signature:/client/api",
            ],
        ),
        ("key", &["api:signing+any", "api:header:authorization"]),
    ];
    let parsed = |uses: &[&str]| uses.iter().map(|used| used.parse().unwrap()).collect();
    uses.map(|(name, uses)| (name.to_owned(), parsed(uses))).into()
}

/// The guest that does what a script says.
pub(crate) struct Scripted(pub(crate) Provider);

impl Scripted {
    pub(crate) async fn new(grants: Grants) -> Self {
        Self::with_limits(grants, Limits::default()).await
    }

    pub(crate) async fn with_limits(grants: Grants, limits: Limits) -> Self {
        let component = Sandbox::try_new().unwrap().load(component(SCRIPTED), limits, true).await.unwrap();
        let egress = egress(component.descriptor(), grants);
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        Self(component.into_provider(
            ProviderContext { cache, egress: Some(egress), ..ProviderContext::closed() },
            None,
            None,
        ))
    }

    /// What came of each step.
    pub(crate) async fn run(&self, steps: Value) -> Vec<Value> {
        self.run_for(Need::Metadata, steps).await
    }

    pub(crate) async fn run_for(&self, need: Need, steps: Value) -> Vec<Value> {
        let count = steps.as_array().unwrap().len();
        let annotations = map(&[("scripted.example/script", &steps.to_string())]);
        let findings = self.0.find(vec![Node { annotations, ..node("script") }], need).await.unwrap();
        let [Finding::Found(instance)] = findings.as_slice() else { panic!("{findings:?}") };
        (0..count).map(|step| serde_json::from_str(&instance.labels[&step.to_string()]).unwrap()).collect()
    }

    /// What came of the only step: a request.
    pub(crate) async fn send(&self, request: Value) -> Value {
        self.run(json!([{ "send": request }])).await.remove(0)
    }
}

pub(crate) fn node(name: &str) -> Node {
    Node { name: name.to_owned(), uid: format!("uid of {name}"), ..Node::default() }
}

pub(crate) fn service(name: &str) -> Service {
    let (namespace, uid) = ("default".to_owned(), format!("uid of {name}"));
    Service { name: name.to_owned(), namespace, uid, ..Service::default() }
}

/// Where clients reach a Service: an address.
pub(crate) fn at(ip: &str) -> Ingress {
    Ingress { ip: Some(ip.to_owned()), ..Ingress::default() }
}

pub(crate) fn backends(names: &[&str]) -> Arc<[Backend]> {
    names.iter().map(|&name| Backend { name: name.to_owned(), ..Backend::default() }).collect()
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

/// A call of the hostile guest that gave no answer.
pub(crate) fn crashed(message: &str) -> FindError {
    FindError::Crashed(Failure::new(Reaction::Retry, format!("instances.find of hostile: {message}")))
}

/// What is said after a limit.
pub(crate) const RAISE: &str = "; raise the limit if the provider needs more";
/// What is said after an answer that breaks the contract.
pub(crate) const REPORT: &str = "; use another version of it, or report this to its author";
/// What is said after a crash.
pub(crate) const LOGGED: &str = "; what it logged before may say why";
