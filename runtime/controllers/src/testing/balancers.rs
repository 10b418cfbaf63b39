//! A cloud in plain Rust behind `LoadBalancers`: real enough to have load balancers, with answers by script and a log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Annotation, AnnotationRole, Backend, CallFuture, Descriptor, Failure, Ingress, LoadBalancerSource, LoadBalancers,
    Mark, NodeSelector as _, Outcome, Problem, Reaction, Service, Standing, ValueKind, Wish,
};
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::task::yield_now;

use crate::store::{FirstList, Node};
use crate::view::selector::NodeLabels;

/// On a Service: which Nodes take traffic, by their labels.
pub(crate) const NODES: &str = "fake.io/nodes";

/// A load balancer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Balancer {
    pub(crate) ip: String,
    pub(crate) ports: Vec<u16>,
    pub(crate) hosts: Vec<String>,
}

/// What an exchange exchanges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    /// Digest of the component. The log names it after each call, where there is one.
    pub(crate) component: String,
    pub(crate) revision: String,
    pub(crate) configuration: String,
    /// Annotations that it reads beside those of all versions.
    pub(crate) annotations: Vec<&'static str>,
    /// What `locks` says beside those of all versions.
    pub(crate) locks: Vec<String>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By `name uid`.
    balancers: BTreeMap<String, Balancer>,
    made: usize,
    calls: Vec<String>,
    /// Names of Services that were ensured unhurriedly.
    unhurried: Vec<String>,
    seen: Vec<Service>,
    scripts: BTreeMap<String, VecDeque<Outcome>>,
    running: Vec<String>,
    most: usize,
    version: Version,
    refused: BTreeSet<String>,
    on_probation: bool,
    judgement: Option<Result<Vec<Problem>, Failure>>,
    /// What a survey says of it.
    hidden: BTreeMap<String, Failure>,
    marks: BTreeMap<String, Option<String>>,
    nodes: Option<Store<Node>>,
    /// It asked for Nodes by their labels.
    selects: bool,
}

/// The cloud, and the provider of the moment. What its [`LoadBalancerSource`] gives stays the version that it was.
#[derive(Clone)]
pub(crate) struct FakeBalancers {
    pub(crate) name: &'static str,
    pub(crate) surveys: bool,
    /// What an operation on each load balancer takes.
    pub(crate) delay: Duration,
    /// The same for each mark.
    pub(crate) mark_delay: Duration,
    /// What `locks` says for all Services.
    pub(crate) locks: Vec<String>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) version: Option<Version>,
}

impl Default for FakeBalancers {
    fn default() -> Self {
        Self {
            name: "fake",
            surveys: false,
            delay: Duration::ZERO,
            mark_delay: Duration::ZERO,
            locks: vec![],
            state: Arc::default(),
            version: None,
        }
    }
}

fn annotation(name: &str, role: AnnotationRole) -> Annotation {
    let (name, purpose) = (name.to_owned(), String::new());
    Annotation { name, purpose, kind: ValueKind::Text, default: None, allowed: vec![], role }
}

/// Ends an operation, also one that is dropped.
struct Running<'a>(&'a FakeBalancers, String);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let place = state.running.iter().position(|running| *running == self.1).unwrap();
        state.running.remove(place);
    }
}

impl FakeBalancers {
    /// Answers of the next calls of `operation` for the Service called `name`, without any effect.
    pub(crate) fn script(&self, operation: &str, name: &str, outcomes: impl IntoIterator<Item = Outcome>) {
        self.state.lock().scripts.entry(format!("{operation} {name}")).or_default().extend(outcomes);
    }

    pub(crate) fn fail(&self, operation: &str, name: &str, failures: impl IntoIterator<Item = Failure>) {
        self.script(operation, name, failures.into_iter().map(Outcome::failed));
    }

    /// What `validate` says from now on.
    pub(crate) fn judge(&self, judgement: Result<Vec<Problem>, Failure>) {
        self.state.lock().judgement = Some(judgement);
    }

    /// What is left of a script is not answered any more.
    pub(crate) fn forget_script(&self, operation: &str, name: &str) {
        self.state.lock().scripts.remove(&format!("{operation} {name}"));
    }

    /// The load balancer with this ID, which stands in `fake.io/id`, is marked with this UID from now on.
    pub(crate) fn mark_with(&self, id: &str, uid: Option<&str>) {
        self.state.lock().marks.insert(id.to_owned(), uid.map(str::to_owned));
    }

    /// The process that it runs in has these Nodes.
    pub(crate) fn watch(&self, nodes: Store<Node>) {
        let mut state = self.state.lock();
        (state.nodes, state.selects) = (Some(nodes), false);
    }

    /// The backends that a Service has by its selector, the annotation [`NODES`], and what was asked for that.
    fn chosen(&self, service: &Service, backends: &[Backend]) -> (Vec<String>, BTreeMap<String, Vec<String>>) {
        let Some(selector) = service.annotations.get(NODES) else { return (names(backends), BTreeMap::new()) };
        let nodes = {
            let mut state = self.state.lock();
            state.selects = true;
            state.nodes.clone().unwrap()
        };
        let matching = NodeLabels::new(nodes, FirstList::there()).matching(selector).unwrap();
        let hosts = names(backends).into_iter().filter(|name| matching.contains(name)).collect();
        (hosts, BTreeMap::from([(selector.clone(), matching)]))
    }

    /// `ensure web: n0 n1`, without `locks`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.state.lock().calls.clone()
    }

    /// Calls since the last time.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().calls)
    }

    /// Services that were ensured behind all other work, since the last time.
    pub(crate) fn take_unhurried(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unhurried)
    }

    pub(crate) fn count(&self, operation: &str) -> usize {
        self.calls().iter().filter(|call| call.starts_with(operation)).count()
    }

    /// The Services as the last calls had them.
    pub(crate) fn seen(&self) -> Vec<Service> {
        self.state.lock().seen.clone()
    }

    pub(crate) fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.state.lock().balancers.clone()
    }

    pub(crate) fn lose(&self, name: &str) {
        self.state.lock().balancers.retain(|key, _| !key.starts_with(&format!("{name} ")));
    }

    /// A survey does not know how it stands; with none it knows again.
    pub(crate) fn hide(&self, name: &str, why: Option<Failure>) {
        let mut state = self.state.lock();
        match why {
            Some(why) => drop(state.hidden.insert(name.into(), why)),
            None => drop(state.hidden.remove(name)),
        }
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Balancer)) {
        let mut state = self.state.lock();
        let (_, balancer) = state.balancers.iter_mut().find(|(key, _)| key.starts_with(&format!("{name} "))).unwrap();
        change(balancer);
    }

    /// Most operations that ran at the same time.
    pub(crate) fn most(&self) -> usize {
        self.state.lock().most
    }

    pub(crate) fn forget_most(&self) {
        self.state.lock().most = 0;
    }

    pub(crate) fn configure(&self, configuration: &str, revision: &str) {
        let version = &mut self.state.lock().version;
        (version.configuration, version.revision) = (configuration.into(), revision.into());
    }

    /// Another component serves from now on.
    pub(crate) fn exchange(&self, version: Version) {
        self.state.lock().version = version;
    }

    /// The same, of the same revision and with the same configuration.
    pub(crate) fn exchange_component(&self, component: &str) {
        self.state.lock().version.component = component.into();
    }

    /// What this component wrote is not to be trusted.
    pub(crate) fn refuse(&self, component: &str) {
        self.state.lock().refused.insert(component.into());
    }

    /// Whether the component is not proven yet.
    pub(crate) fn try_out(&self, on_probation: bool) {
        self.state.lock().on_probation = on_probation;
    }

    fn version(&self) -> Version {
        self.version.clone().unwrap_or_else(|| self.state.lock().version.clone())
    }

    /// A call for the log.
    fn told(&self, call: String) -> String {
        match self.version().component {
            component if component.is_empty() => call,
            component => format!("{call} by {component}"),
        }
    }

    fn begin(&self, operation: &str, service: &Service, hosts: &[String]) -> Running<'_> {
        let told = format!("{operation} {}", service.name);
        let told = if hosts.is_empty() { told } else { format!("{told}: {}", hosts.join(" ")) };
        let told = self.told(told);
        let mut state = self.state.lock();
        state.calls.push(told);
        state.seen.push(service.clone());
        let key = key(service);
        assert!(!state.running.contains(&key), "two operations on {key} at the same time");
        state.running.push(key.clone());
        state.most = state.most.max(state.running.len());
        Running(self, key)
    }

    fn make(&self, service: &Service, hosts: Vec<String>) -> Balancer {
        let mut state = self.state.lock();
        let ip = state.balancers.get(&key(service)).map(|balancer| balancer.ip.clone());
        let ip = ip.unwrap_or_else(|| {
            state.made += 1;
            format!("{}.{}", if self.name == "blue" { "198.51.100" } else { "192.0.2" }, state.made)
        });
        let balancer = wanted(service, hosts, ip);
        state.balancers.insert(key(service), balancer.clone());
        balancer
    }

    fn scripted(&self, operation: &str, name: &str) -> Option<Outcome> {
        self.state.lock().scripts.get_mut(&format!("{operation} {name}"))?.pop_front()
    }
}

fn key(service: &Service) -> String {
    format!("{} {}", service.name, service.uid)
}

fn names(backends: &[Backend]) -> Vec<String> {
    backends.iter().map(|backend| backend.name.clone()).collect()
}

fn ingress(balancer: &Balancer) -> Vec<Ingress> {
    vec![Ingress { ip: Some(balancer.ip.clone()), ..Ingress::default() }]
}

fn wanted(service: &Service, hosts: Vec<String>, ip: String) -> Balancer {
    Balancer { ip, ports: service.ports.iter().map(|port| port.port).collect(), hosts }
}

impl LoadBalancerSource for FakeBalancers {
    fn load_balancers(&self) -> Arc<dyn LoadBalancers> {
        Arc::new(Self { version: Some(self.version()), ..self.clone() })
    }

    fn is_taken_back(&self, component: &str) -> bool {
        self.state.lock().refused.contains(component)
    }

    fn is_on_probation(&self) -> bool {
        self.state.lock().on_probation
    }
}

impl LoadBalancers for FakeBalancers {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::new(Descriptor {
            name: self.name.into(),
            version: "1.0.0".into(),
            revision: self.version().revision,
            provider_id_schemes: vec![],
            annotations: [
                ("fake.io/mode", AnnotationRole::Asked),
                (NODES, AnnotationRole::Asked),
                ("fake.io/id", AnnotationRole::Both),
                ("fake.io/job-*", AnnotationRole::Written),
            ]
            .into_iter()
            .chain(self.version().annotations.into_iter().map(|name| (name, AnnotationRole::Asked)))
            .map(|(name, role)| annotation(name, role))
            .collect(),
            ..Descriptor::default()
        })
    }

    fn component(&self) -> String {
        self.version().component
    }

    fn configuration(&self) -> String {
        self.version().configuration
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        Box::pin(async move { Ok(service.name) })
    }

    fn locks(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            match self.scripted("locks", &service.name).and_then(|outcome| outcome.failure) {
                Some(failure) => Err(failure),
                None => Ok([self.locks.clone(), self.version().locks].concat()),
            }
        })
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            let _running = self.begin("get", &service, &[]);
            if let Some(outcome) = self.scripted("get", &service.name) {
                return outcome.failure.map_or(Ok(Some(outcome.ingress)), Err);
            }
            Ok(self.state.lock().balancers.get(&key(&service)).map(ingress))
        })
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        Box::pin(async move {
            let told = self.told(format!("mark {}", service.name));
            self.state.lock().calls.push(told);
            if let Some(failure) = self.scripted("mark", &service.name).and_then(|outcome| outcome.failure) {
                return Err(failure);
            }
            tokio::time::sleep(self.mark_delay).await;
            let named = |name: &str| service.annotations.get(name).map(|id| id.to_ascii_lowercase());
            let id = named("fake.io/id").filter(|id| self.state.lock().marks.contains_key(id));
            let id = id.or_else(|| named("fake.io/mode"));
            let known = id.and_then(|id| Some((self.state.lock().marks.get(&id).cloned()?, id)));
            Ok(known.map(|(uid, load_balancer)| Mark { load_balancer, uid }))
        })
    }

    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let (hosts, selected) = self.chosen(&service, &backends);
            let _running = self.begin("ensure", &service, &hosts);
            tokio::time::sleep(self.delay).await;
            if let Some(outcome) = self.scripted("ensure", &service.name) {
                return Outcome { selected, ..outcome };
            }
            // A process can end before this, and after.
            yield_now().await;
            let balancer = self.make(&service, hosts);
            yield_now().await;
            Outcome { ingress: ingress(&balancer), selected, ..Outcome::default() }
        })
    }

    fn ensure_unhurried(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        self.state.lock().unhurried.push(service.name.clone());
        self.ensure(service, backends)
    }

    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let (hosts, selected) = self.chosen(&service, &backends);
            let _running = self.begin("update", &service, &hosts);
            tokio::time::sleep(self.delay).await;
            if let Some(outcome) = self.scripted("update", &service.name) {
                return Outcome { selected, ..outcome };
            }
            match self.state.lock().balancers.get_mut(&key(&service)) {
                Some(balancer) => {
                    balancer.hosts = hosts;
                    Outcome { ingress: ingress(balancer), selected, ..Outcome::default() }
                }
                None => Outcome::failed(Failure::new(Reaction::Conflict, "there is no such load balancer")),
            }
        })
    }

    fn delete(&self, service: Service) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let _running = self.begin("delete", &service, &[]);
            tokio::time::sleep(self.delay).await;
            if let Some(outcome) = self.scripted("delete", &service.name) {
                return outcome;
            }
            yield_now().await;
            self.state.lock().balancers.remove(&key(&service));
            yield_now().await;
            Outcome::default()
        })
    }

    /// Without a script it has no such interface.
    fn orphan(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            let Some(outcome) = self.scripted("orphan", &service.name) else {
                return Err(Failure::new(Reaction::Unsupported, "no such interface"));
            };
            let _running = self.begin("orphan", &service, &[]);
            tokio::time::sleep(self.delay).await;
            outcome.failure.map_or(Ok(outcome.changes), Err)
        })
    }

    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(async move {
            let answer = {
                let online = if online { " online" } else { "" };
                let before = if before.is_some() { " changed" } else { "" };
                let told = self.told(format!("validate {}{before}{online}", service.name));
                let mut state = self.state.lock();
                state.calls.push(told);
                state.seen.push(service);
                state.judgement.clone().unwrap_or(Ok(vec![]))
            };
            tokio::time::sleep(self.delay).await;
            answer
        })
    }

    fn selects_nodes(&self) -> bool {
        self.state.lock().selects
    }

    fn surveys(&self) -> bool {
        self.surveys
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        Box::pin(async move {
            let told = self.told(format!("survey {}", wishes.len()));
            self.state.lock().calls.push(told);
            if let Some(outcome) = self.scripted("survey", "") {
                return outcome.failure.map_or(Ok(vec![]), Err);
            }
            let standing = |wish: Wish| {
                if let Some(why) = self.state.lock().hidden.get(&wish.service.name) {
                    return Standing::Unknown(why.clone());
                }
                let wished: Vec<Backend> =
                    wish.backends.iter().map(|index| backends[*index as usize].clone()).collect();
                let (hosts, _) = self.chosen(&wish.service, &wished);
                match self.state.lock().balancers.get(&key(&wish.service)) {
                    None => Standing::Missing,
                    Some(found) if *found == wanted(&wish.service, hosts, found.ip.clone()) => {
                        Standing::InStep(ingress(found))
                    }
                    Some(found) => {
                        Standing::Differs(vec![format!("hosts {:?} and ports {:?}", found.hosts, found.ports)])
                    }
                }
            };
            let standings = wishes.into_iter().map(standing).collect();
            tokio::time::sleep(self.delay).await;
            Ok(standings)
        })
    }
}
