//! One call of one provider, and what follows from its answer.
//!
//! | answer | next call | people see |
//! |---|---|---|
//! | good | a change, the period | |
//! | some objects failed | the soonest that their reactions say | a Warning Event at each of them |
//! | all failed | what its reaction says | a line in the log, a metric |
//! | none: an object that [cannot be read](super::unread) may have open ports and may have been told before | the same | the same, and a Warning Event at that object |
//!
//! Where a whole call failed since the cloud or a person has to do something first, a change of the cluster does not call
//! again before the time; and not either where the cloud throttled, whatever it did. What a single object lacks, such as a
//! quota, does not hold up the others: a change calls for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ccm_apiserver::{EventRecorder, EventRequest, cut, node_reference, service_reference};
use ccm_cloud::{Cluster, ClusterSubject, Failure, Reaction, Severity};
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::memory::{About, Memory};
use super::metrics::ClusterMeters;
use super::settings::{ClusterNodes, ClusterSettings};
use super::unread::{LeftOut, Untold};
use crate::hold::{Hold, Releases};
use crate::metrics::now_seconds;
use crate::queue::Verdict;
use crate::reaction;
use crate::store::Node;
use crate::view::node::cloud_node;
use crate::view::service::cloud_service;
use crate::waking::Woken;

/// Who says so in Events.
const REPORTER: &str = "cloud-cluster-controller";
/// Most bytes of an error in an Event, which leaves room for what is done about it.
const MAX_ERROR: usize = 800;
/// Most Events that one call writes: where thousands of objects fail for one reason, people look at a few. The others have
/// their turn with the next calls.
pub(super) const MAX_EVENTS: usize = 50;

/// What is wrong with an object.
pub(crate) type SubjectFailure = (ClusterSubject, Failure);

/// A provider.
pub(crate) struct Member {
    cluster: Arc<dyn Cluster>,
    nodes: ClusterNodes,
    meters: ClusterMeters,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: Memory,
    hold: Hold,
}

impl Member {
    pub(crate) fn new(cluster: Arc<dyn Cluster>, nodes: ClusterNodes, meters: ClusterMeters) -> Self {
        Self { cluster, nodes, meters, state: Mutex::default() }
    }

    fn owns(&self, node: &ccm_cloud::Node) -> bool {
        let is_own = |id: &str| self.cluster.descriptor().owns(id);
        self.nodes == ClusterNodes::All || node.provider_id.as_deref().is_some_and(is_own)
    }
}

/// The cluster, as a provider is told of it.
struct Seen {
    nodes: Vec<ccm_cloud::Node>,
    services: Vec<ccm_cloud::Service>,
    untold: Untold,
}

/// Everything that a sync uses, shared by all of them.
pub(crate) struct Syncer {
    pub(crate) nodes: Store<Node>,
    pub(crate) services: Store<Service>,
    pub(crate) left_out: LeftOut,
    pub(crate) members: HashMap<Arc<str>, Member>,
    pub(crate) recorder: EventRecorder,
    pub(crate) settings: ClusterSettings,
}

impl Woken for Syncer {
    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.keys()
    }

    fn release(&self, name: &str) {
        if let Some(member) = self.members.get(name) {
            member.state.lock().hold.release();
        }
    }
}

impl Syncer {
    /// Calls the provider called `name`.
    pub(crate) async fn sync(&self, name: &str) -> Verdict {
        let Some(member) = self.members.get(name) else { return Verdict::Done };
        let begun = match member.state.lock().hold.begin() {
            Ok(begun) => begun,
            Err(left) => return Verdict::After(left),
        };
        let seen = self.seen(member);
        if let Some(failure) = &seen.untold.held {
            let verdict = self.failed(member, begun, failure);
            self.tell(member, &seen.untold.objects, verdict).await;
            return verdict;
        }
        let called = Instant::now();
        let (untold, answer) = self.told(member, seen).await;
        member.meters.duration.observe(called.elapsed().as_secs_f64());
        match answer {
            Ok(failures) => self.answered(member, begun, untold.into_iter().chain(failures)).await,
            Err(failure) => self.failed(member, begun, &failure),
        }
    }

    /// Calls the provider called `name`, whatever it said before; none where there is none.
    pub(crate) async fn ask(&self, name: &str) -> Option<(Vec<SubjectFailure>, Result<Vec<SubjectFailure>, Failure>)> {
        let member = self.members.get(name)?;
        let seen = self.seen(member);
        match seen.untold.held.clone() {
            Some(failure) => Some((vec![], Err(failure))),
            None => Some(self.told(member, seen).await),
        }
    }

    /// The cluster as it is now.
    fn seen(&self, member: &Member) -> Seen {
        let ((nodes, services), mut untold) = self.left_out.beside(|| (self.nodes.state(), self.services.state()));
        let nodes = nodes.iter().map(|node| cloud_node(node)).filter(|node| member.owns(node)).collect();
        let (services, unreadable) = readable(services);
        untold.objects.extend(unreadable);
        Seen { nodes, services, untold }
    }

    /// Tells a provider what the cluster needs. Returns what is wrong with objects that it was not told of, and its answer.
    async fn told(
        &self,
        member: &Member,
        Seen { nodes, services, untold }: Seen,
    ) -> (Vec<SubjectFailure>, Result<Vec<SubjectFailure>, Failure>) {
        tracing::debug!(nodes = nodes.len(), services = services.len(), "the cluster's needs are told");
        let limit = self.settings.call_timeout;
        let answer =
            tokio::time::timeout(limit, member.cluster.reconcile(nodes, services)).await.unwrap_or_else(|_elapsed| {
                let name = &member.cluster.descriptor().name;
                Err(Failure::unanswered("cluster.reconcile", name, limit))
            });
        (untold.objects, answer)
    }

    /// The whole call failed.
    fn failed(&self, member: &Member, begun: Releases, failure: &Failure) -> Verdict {
        let verdict = reaction::verdict(failure, self.settings.slow_retry);
        member.meters.ended(failure.reaction.as_str());
        let mut state = member.state.lock();
        state.hold.hold(begun, verdict);
        // Neither is wrong: it takes its time, or is not this one's work.
        if matches!(failure.reaction, Reaction::Pending | Reaction::Elsewhere) {
            tracing::debug!(%failure, "the cluster as a whole is not served now");
            return verdict;
        }
        let message = format!("{failure} ({})", failure.reaction.as_str());
        let next = self.next_try(verdict);
        if state.memory.is_news(About::default(), &message, self.settings.repeat_warning) {
            tracing::warn!(error = message, next, "what the cluster needs as a whole was not kept");
        } else {
            tracing::debug!(error = message, next, "what the cluster needs as a whole was not kept");
        }
        verdict
    }

    /// The call has an answer; single objects may have failed.
    async fn answered(
        &self,
        member: &Member,
        begun: Releases,
        failures: impl Iterator<Item = (ClusterSubject, Failure)> + Send,
    ) -> Verdict {
        let failures: Vec<_> = failures.filter(|(_, failure)| failure.reaction != Reaction::Elsewhere).collect();
        member.meters.ended(if failures.is_empty() { "ok" } else { "partial" });
        member.meters.failing.set(i64::try_from(failures.len()).unwrap_or(i64::MAX));
        if !failures.iter().any(|(_, failure)| reaction::leaves_open(failure.reaction)) {
            member.meters.last_success.set(now_seconds());
        }
        let slow = self.settings.slow_retry;
        let verdicts = failures.iter().map(|(_, failure)| reaction::verdict(failure, slow));
        let next = verdicts.fold(Verdict::Done, soonest);
        if failures.iter().any(|(_, failure)| failure.reaction == Reaction::Throttled) {
            member.state.lock().hold.hold(begun, next);
        }
        if member.state.lock().memory.forget(&About::default()) {
            tracing::info!("what the cluster needs as a whole is kept again");
        }
        self.tell(member, &failures, next).await;
        next
    }

    /// Tells people what is wrong with objects.
    async fn tell(&self, member: &Member, failures: &[SubjectFailure], next: Verdict) {
        for request in self.news(member, failures, next) {
            self.recorder.record(request).await;
        }
    }

    /// The Events to write.
    fn news(&self, member: &Member, failures: &[(ClusterSubject, Failure)], next: Verdict) -> Vec<EventRequest> {
        let mut state = member.state.lock();
        let mut still = HashSet::from([About::default()]);
        let mut news = vec![];
        let (mut told, mut left_out) = (0_usize, 0_usize);
        for (subject, failure) in failures.iter().filter(|(_, failure)| failure.reaction != Reaction::Pending) {
            let reason = format!("{} ({})", cut(&failure.to_string(), MAX_ERROR), failure.reaction.as_str());
            let Some((about, object)) = self.object(subject) else {
                tracing::debug!(?subject, error = reason, "it failed, and is gone");
                continue;
            };
            if told == MAX_EVENTS {
                left_out += usize::from(!state.memory.knows(&about));
            } else if state.memory.is_news(about.clone(), &reason, self.settings.repeat_warning) {
                told += 1;
                let message = format!("{reason}: {}", self.next_try(next));
                tracing::warn!(?subject, error = message, "what the cluster needs is not kept for this object");
                news.extend(object.map(|about| EventRequest {
                    about,
                    severity: Severity::Warning,
                    reason: "SyncClusterFailed".into(),
                    action: "SyncCluster",
                    message,
                    reporter: REPORTER,
                    annotations: Default::default(),
                }));
            }
            still.insert(about);
        }
        if left_out > 0 {
            tracing::warn!(left_out, failed = failures.len(), "more objects failed than are told about at once");
        }
        state.memory.keep(&still);
        news
    }

    /// What is told about; no reference for the provider itself. None when the object is gone.
    fn object(&self, subject: &ClusterSubject) -> Option<(About, Option<ObjectReference>)> {
        let uid = |uid: Option<&str>| uid.unwrap_or_default().to_owned();
        match subject {
            ClusterSubject::Call | ClusterSubject::Provider => {
                Some((["Provider".into(), String::new(), String::new(), String::new()], None))
            }
            ClusterSubject::Node(name) => {
                let uid = match self.nodes.get(&ObjectRef::new(name)) {
                    Some(node) => uid(node.uid.as_deref()),
                    None => self.left_out.uid(subject)?,
                };
                let object = node_reference(name, &uid);
                Some((["Node".into(), String::new(), name.clone(), uid], Some(object)))
            }
            ClusterSubject::Service { namespace, name } => {
                let key = ObjectRef::new(name).within(namespace);
                let uid = match self.services.get(&key) {
                    Some(service) => uid(service.metadata.uid.as_deref()),
                    None => self.left_out.uid(subject)?,
                };
                let object = service_reference(namespace, name, &uid);
                Some((["Service".into(), namespace.clone(), name.clone(), uid], Some(object)))
            }
        }
    }

    fn next_try(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Change => {
                format!("retried when something changes, at the latest after {:?}", self.settings.period)
            }
            verdict => reaction::describe(verdict),
        }
    }
}

/// All Services, and what is wrong with those that are left out: told without the part that cannot be read, such as its source ranges, a Service
/// could be opened to everybody.
fn readable(all: Vec<Arc<Service>>) -> (Vec<ccm_cloud::Service>, Vec<SubjectFailure>) {
    let (mut services, mut unreadable) = (vec![], vec![]);
    for service in all {
        let (told, wrong) = cloud_service(&service);
        // One without ports has nothing to open, and is fine.
        let has_ports = || service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).is_some_and(|p| !p.is_empty());
        match wrong.filter(|_| has_ports()) {
            Some(failure) => {
                let subject = ClusterSubject::Service { namespace: told.namespace, name: told.name };
                unreadable.push((subject, failure));
            }
            None => services.push(told),
        }
    }
    (services, unreadable)
}

/// Of two next calls the one that comes first: a back-off begins with less than any delay that is asked for.
fn soonest(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Backoff, _) | (_, Verdict::Backoff) => Verdict::Backoff,
        (Verdict::After(one), Verdict::After(other)) => Verdict::After(one.min(other)),
        (Verdict::After(delay), _) | (_, Verdict::After(delay)) => Verdict::After(delay),
        (Verdict::Change, _) | (_, Verdict::Change) => Verdict::Change,
        (Verdict::Done, Verdict::Done) => Verdict::Done,
    }
}
