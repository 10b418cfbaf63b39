//! Components that do as they are told, and a cloud that remembers who did what.

mod cluster;
mod machines;
mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ccm_cloud::{
    Backend, CallFuture, Descriptor, Failure, Ingress, LoadBalancers, Mark, Node, Outcome, Problem, Reaction, Service,
    Standing, Wish,
};
use ccm_egress::SourceState;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

pub(crate) use self::machines::GONE;
use super::{News, ProbationSettings, Refusals, Slot};
use crate::component::{Component, Crashes};
use crate::release::{Release, Version};

impl<C: Component> Slot<C> {
    /// Whoever serves, or returns when that fails.
    pub(crate) fn proven(&self) -> Arc<C> {
        self.components().proven.component
    }

    /// A component that was compared with whoever is proven now.
    pub(crate) fn put(&self, release: Release<C>) -> Option<Duration> {
        self.put_against(&self.components().proven.version.digest, release, false)
    }

    /// The same with a configuration that the proven one cannot do with.
    pub(crate) fn put_apart(&self, release: Release<C>) -> Option<Duration> {
        self.put_against(&self.components().proven.version.digest, release, true)
    }
}

/// What a component does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// What it should.
    Right,
    /// Gives no answer.
    Crash,
    /// Gives no answer after it has changed the cloud.
    CrashAfterwards,
    /// Has changed the cluster's part of the cloud when its time is over.
    TimeOutAfterwards,
    /// Never answers questions.
    Hang,
    /// Finds no machine and no load balancer.
    Lose,
    /// Cannot tell.
    Fail,
    /// Says no.
    Refuse,
    /// Wants others to wait.
    Throttle,
    /// The same in the middle of work on routes or the whole cluster.
    Pause,
    /// Calls load balancers by another name.
    Rename,
    /// The same with [some](is_of_a_kind) Services.
    RenameSome,
    /// Makes a second load balancer, and finds that one.
    Double,
    /// Says that it deleted, and does not.
    Leave,
    /// Does not have the interface.
    Lack,
    /// Says that somebody else takes care of the Service.
    Elsewhere,
    /// Says of every load balancer that it is another Service's.
    Disown,
    /// Gives Nodes the provider IDs of machines that do not exist.
    Misname,
}

/// A load balancer, and the version of the component that changed it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balancer {
    pub(crate) uid: String,
    pub(crate) by: String,
    address: String,
}

/// The load balancers by their names, and the routes.
#[derive(Default)]
pub(crate) struct Cloud {
    /// Node by network, and the version that changed it last.
    pub(crate) routes: Mutex<BTreeMap<String, (String, String)>>,
    pub(crate) balancers: Mutex<BTreeMap<String, Balancer>>,
    made: AtomicU32,
    /// Whether it answers anybody.
    pub(crate) is_down: AtomicBool,
    /// Whoever has an earlier configuration than this one is refused: its credentials were revoked.
    pub(crate) oldest: AtomicU32,
}

impl Cloud {
    fn answers(&self, configuration: u32) -> Result<(), Failure> {
        if configuration < self.oldest.load(Ordering::Relaxed) {
            Err(Failure::new(Reaction::Unauthorized, "these credentials were revoked"))
        } else if self.is_down.load(Ordering::Relaxed) {
            Err(Failure::new(Reaction::Retry, "the cloud is down"))
        } else {
            Ok(())
        }
    }

    fn bring(&self, name: &str, uid: &str, by: &str) -> Vec<Ingress> {
        let mut balancers = self.balancers.lock();
        let balancer = balancers.entry(name.to_owned()).or_insert_with(|| Balancer {
            uid: uid.to_owned(),
            by: String::new(),
            address: format!("192.0.2.{}", self.made.fetch_add(1, Ordering::Relaxed) % 250),
        });
        by.clone_into(&mut balancer.by);
        vec![at(&balancer.address)]
    }
}

/// A version of the component.
pub(crate) struct Fake {
    version: String,
    /// Which one it was opened with, see [`is_narrow`].
    pub(crate) configuration: u32,
    does: Mutex<Does>,
    /// The same for calls that change load balancers, where it is another thing.
    when_changing: Mutex<Option<Does>>,
    cloud: Arc<Cloud>,
    crashes: Mutex<Crashes>,
    last_crash: Mutex<String>,
    /// How often its cache was emptied.
    pub(crate) forgot: AtomicU32,
    /// Whether it answers from memory, where everything was there.
    pub(crate) remembers: AtomicBool,
    /// The load balancers that it has in its memory.
    memory: Mutex<BTreeMap<String, Balancer>>,
    /// A route that the cloud has from the next question for routes on: network, Node, version.
    pub(crate) comes: Mutex<Option<(String, (String, String))>>,
    /// How often each function was called.
    pub(crate) asked: Mutex<BTreeMap<&'static str, u32>>,
    /// The Node about whose machine it has no answer.
    pub(crate) no_word_of: Mutex<Option<&'static str>>,
    /// Of its provider IDs.
    pub(crate) scheme: Mutex<&'static str>,
    /// Its credentials.
    pub(crate) sources: watch::Sender<Vec<SourceState>>,
    /// Grows when its cloud answers again.
    pub(crate) recovered: watch::Sender<u64>,
}

impl Fake {
    pub(crate) fn new(version: &str, does: Does, cloud: &Arc<Cloud>) -> Arc<Self> {
        Self::of(version, does, cloud, 0)
    }

    /// With this configuration.
    pub(crate) fn of(version: &str, does: Does, cloud: &Arc<Cloud>, configuration: u32) -> Arc<Self> {
        Arc::new(Self {
            version: version.to_owned(),
            configuration,
            does: Mutex::new(does),
            when_changing: Mutex::default(),
            cloud: Arc::clone(cloud),
            crashes: Mutex::default(),
            last_crash: Mutex::default(),
            forgot: AtomicU32::new(0),
            remembers: AtomicBool::new(false),
            memory: Mutex::default(),
            comes: Mutex::default(),
            asked: Mutex::default(),
            no_word_of: Mutex::default(),
            scheme: Mutex::new("cloud"),
            sources: watch::Sender::default(),
            recovered: watch::Sender::default(),
        })
    }

    /// The same with another configuration.
    pub(crate) fn configured(&self, configuration: u32) -> Arc<Self> {
        Self::of(&self.version, *self.does.lock(), &self.cloud, configuration)
    }

    /// Whether its configuration lets it have to do with this Service.
    fn knows(&self, service: &Service) -> Result<(), Failure> {
        if is_narrow(self.configuration) && is_of_a_kind(&service.uid) {
            return Err(Failure::new(Reaction::Invalid, "its configuration has no network for it"));
        }
        Ok(())
    }

    pub(crate) fn does(&self, does: Does) {
        *self.does.lock() = does;
    }

    pub(crate) fn is(&self, does: Does) -> bool {
        *self.does.lock() == does
    }

    pub(crate) fn does_when_changing(&self, does: Does) {
        *self.when_changing.lock() = Some(does);
    }

    /// It answers from memory what the cloud holds now, until it forgets.
    pub(crate) fn remember(&self) {
        self.memory.lock().clone_from(&self.cloud.balancers.lock());
        self.remembers.store(true, Ordering::Relaxed);
    }

    /// Where it finds this load balancer.
    fn place(&self, name: &str) -> Option<Vec<Ingress>> {
        let known = if self.remembers.load(Ordering::Relaxed) { &self.memory } else { &self.cloud.balancers };
        known.lock().get(name).map(|balancer| vec![at(&balancer.address)])
    }

    /// What it does this time.
    fn acts(&self, function: &'static str) -> Does {
        *self.asked.lock().entry(function).or_default() += 1;
        self.crashes.lock().calls += 1;
        *self.does.lock()
    }

    fn crashed(&self, function: &'static str) -> Failure {
        let text = format!("{function}: it crashed");
        self.last_crash.lock().clone_from(&text);
        self.crashes.lock().count += 1;
        Failure::new(Reaction::Retry, text)
    }

    fn own_name(&self, service: &Service) -> String {
        match *self.does.lock() {
            Does::Rename => format!("{}-{}", self.version, service.uid),
            Does::RenameSome if is_of_a_kind(&service.uid) => format!("{}-{}", self.version, service.uid),
            Does::Double => format!("second-{}", service.uid),
            _ => service.uid.clone(),
        }
    }

    /// What a question comes to that it answers rightly with `right`, and with `lost` when it finds nothing.
    async fn answer<T>(
        &self,
        function: &'static str,
        right: impl FnOnce() -> T,
        lost: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let does = self.acts(function);
        if self.remembers.load(Ordering::Relaxed) {
            return Ok(right());
        }
        match does {
            Does::Elsewhere => Err(Failure::new(Reaction::Elsewhere, "not mine")),
            Does::Crash => Err(self.crashed(function)),
            Does::Hang => std::future::pending().await,
            Does::Fail => Err(Failure::new(Reaction::Retry, "it cannot tell")),
            Does::Refuse => Err(Failure::new(Reaction::Invalid, "it says no")),
            Does::Lack => Err(Failure::new(Reaction::Unsupported, "it has no such interface")),
            Does::Throttle | Does::Pause => Err(Failure::new(Reaction::Throttled, "slower")),
            Does::Lose => self.cloud.answers(self.configuration).map(|()| lost()),
            _ => self.cloud.answers(self.configuration).map(|()| right()),
        }
    }

    async fn change(&self, function: &'static str, service: &Service, work: impl FnOnce() -> Vec<Ingress>) -> Outcome {
        let does = self.acts(function);
        if let Err(failure) = self.knows(service) {
            return Outcome::failed(failure);
        }
        let failure = match self.when_changing.lock().unwrap_or(does) {
            Does::Crash => self.crashed(function),
            Does::Fail => Failure::new(Reaction::Retry, "it cannot"),
            Does::Refuse => Failure::new(Reaction::Invalid, "it says no"),
            Does::Throttle => Failure::new(Reaction::Throttled, "slower"),
            Does::Elsewhere => Failure::new(Reaction::Elsewhere, "not mine"),
            does => match self.cloud.answers(self.configuration) {
                Err(failure) => failure,
                Ok(()) => {
                    let ingress = work();
                    if does != Does::CrashAfterwards {
                        return Outcome { ingress, ..Outcome::default() };
                    }
                    self.crashed(function)
                }
            },
        };
        assert!(!service.uid.is_empty(), "a Service without a UID");
        Outcome::failed(failure)
    }
}

impl LoadBalancers for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        let provider_id_schemes = vec![(*self.scheme.lock()).to_owned()];
        let name = "cloud".to_owned();
        Arc::new(Descriptor { name, version: self.version.clone(), provider_id_schemes, ..Descriptor::default() })
    }

    fn configuration(&self) -> String {
        String::new()
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        Box::pin(async move {
            match self.acts("name") {
                Does::Crash => Err(self.crashed("name")),
                Does::Rename | Does::RenameSome => Ok(self.own_name(&service)),
                _ => Ok(service.uid),
            }
        })
    }

    fn locks(&self, _service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(self.answer("locks", Vec::new, Vec::new))
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        let name = self.own_name(&service);
        let right = move || self.place(&name);
        Box::pin(async move {
            self.knows(&service)?;
            self.answer("get", right, || None).await
        })
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        let uid = if *self.does.lock() == Does::Disown { "another".to_owned() } else { service.uid };
        let mark = Mark { load_balancer: "lb".to_owned(), uid: Some(uid) };
        Box::pin(self.answer("get-mark", || Some(mark), || None))
    }

    fn ensure(&self, service: Service, _backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let name = self.own_name(&service);
            self.change("ensure", &service, || self.cloud.bring(&name, &service.uid, &self.version)).await
        })
    }

    fn ensure_unhurried(&self, service: Service, _backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let name = self.own_name(&service);
            self.change("ensure-unhurried", &service, || self.cloud.bring(&name, &service.uid, &self.version)).await
        })
    }

    fn update_backends(&self, service: Service, _backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let name = self.own_name(&service);
            self.change("update-backends", &service, || self.cloud.bring(&name, &service.uid, &self.version)).await
        })
    }

    fn delete(&self, service: Service) -> CallFuture<'_, Outcome> {
        Box::pin(async move {
            let (name, leaves) = (self.own_name(&service), *self.does.lock() == Does::Leave);
            let work = || {
                if !leaves {
                    self.cloud.balancers.lock().remove(&name);
                }
                vec![]
            };
            self.change("delete", &service, work).await
        })
    }

    fn validate(&self, _: Service, _: Option<Service>, _: bool) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(self.answer("validate", Vec::new, Vec::new))
    }

    fn selects_nodes(&self) -> bool {
        false
    }

    fn surveys(&self) -> bool {
        true
    }

    fn survey(&self, _backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        Box::pin(async move {
            let place = |wish: &Wish| self.place(&self.own_name(&wish.service));
            let stands = |wish: &Wish| place(wish).map_or(Standing::Missing, Standing::InStep);
            let right = || wishes.iter().map(stands).collect();
            self.answer("survey", right, || vec![Standing::Missing; wishes.len()]).await
        })
    }
}

/// Whether whoever has this configuration says no to [some](is_of_a_kind) Services.
pub(crate) const fn is_narrow(configuration: u32) -> bool {
    configuration % 2 == 1
}

/// Whether the Service with this UID is of the kind that [`Does::RenameSome`] is about.
pub(crate) fn is_of_a_kind(uid: &str) -> bool {
    matches!(uid, "y" | "z")
}

/// One that was initialised: with the provider ID that its machine has in the cloud.
pub(crate) fn node(name: &str) -> Node {
    Node { provider_id: Some(format!("cloud://{name}")), ..new_node(name) }
}

/// One that has no provider ID yet.
pub(crate) fn new_node(name: &str) -> Node {
    Node { name: name.to_owned(), ..Node::default() }
}

pub(crate) fn at(ip: &str) -> Ingress {
    Ingress { ip: Some(ip.to_owned()), hostname: None, ip_mode: None, ports: vec![] }
}

pub(crate) fn service(uid: &str) -> Service {
    Service { namespace: "default".to_owned(), name: uid.to_owned(), uid: uid.to_owned(), ..Service::default() }
}

/// A Service that was told where its load balancer is.
pub(crate) fn served(uid: &str) -> Service {
    Service { ingress: vec![at("192.0.2.0")], ..service(uid) }
}

pub(crate) fn release(component: Arc<Fake>) -> Release<Fake> {
    let digest = digest(&component.version);
    let version = Version { name: "cloud".into(), version: component.version.clone(), digest, signed: None };
    Release { component, version: Arc::new(version) }
}

/// A probation that ends with so many faults, and otherwise not before its minute is over.
pub(crate) fn faults(faults: u32) -> ProbationSettings {
    ProbationSettings { faults, ..ProbationSettings::default() }
}

/// A slot with its components, in which version 1 is proven.
pub(crate) struct Rig {
    pub(crate) slot: Slot<Fake>,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) proven: Arc<Fake>,
    pub(crate) news: mpsc::UnboundedReceiver<News>,
}

impl Rig {
    pub(crate) fn new(settings: ProbationSettings) -> Self {
        let cloud = Arc::<Cloud>::default();
        let proven = Fake::new("1", Does::Right, &cloud);
        let (slot, news) = Slot::new(release(Arc::clone(&proven)), Refusals::default(), settings);
        Self { slot, cloud, proven, news }
    }

    /// The same with version 2 on probation, which does this.
    pub(crate) fn trying(does: Does, settings: ProbationSettings) -> (Self, Arc<Fake>) {
        let rig = Self::new(settings);
        let new = rig.put("2", does);
        (rig, new)
    }

    pub(crate) fn put(&self, version: &str, does: Does) -> Arc<Fake> {
        let new = Fake::new(version, does, &self.cloud);
        assert!(self.slot.put(release(Arc::clone(&new))).is_some());
        new
    }

    /// The load balancers of the cloud: name, and who changed it last.
    pub(crate) fn balancers(&self) -> Vec<(String, String)> {
        let balancers = self.cloud.balancers.lock();
        balancers.iter().map(|(name, balancer)| (name.clone(), balancer.by.clone())).collect()
    }

    pub(crate) fn is_on_probation(&self) -> bool {
        self.slot.standing().is_on_probation()
    }

    /// The version that serves.
    pub(crate) fn serving(&self) -> String {
        self.slot.standing().serving().version.clone()
    }

    /// Why this version was refused.
    pub(crate) fn why(&self, version: &str) -> Option<String> {
        self.slot.standing().refused.why(&digest(version)).map(ToOwned::to_owned)
    }
}

/// That of a version.
pub(crate) fn digest(version: &str) -> String {
    format!("sha256:{version:f<64}")
}
