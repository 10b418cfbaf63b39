//! The work on one Service, for a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use super::backends::Backends;
use super::entry::ServiceEntry;
use super::key::Key;
use super::ownership::Work;
use super::plan::Reason;
use super::syncer::Syncer;
use super::{ServiceController, verify};
use crate::queue::Verdict;
use crate::rehearsal::Rehearsed;

/// How often the work on a Service begins anew at once, when something has changed meanwhile.
const MOST_RUNS: usize = 8;
/// What is said of a Service on which the work does not end.
const UNFINISHED: &str = "the Service, or what it depends on, changes at this moment";

/// A service controller that does its work only when it is asked to.
pub struct ServiceRehearsal {
    syncer: Arc<Syncer>,
    /// How these stand in the cloud is not known: why.
    unseen: HashMap<Key, String>,
}

impl ServiceController {
    /// Takes the Nodes that there are, and compares these Services, by namespace and name, with the cloud, as at the start of a process. They
    /// can be rehearsed from then on. Both stores must be complete. `goes_on` hears of each step.
    pub async fn rehearsal(self, names: &[(String, String)], goes_on: impl Fn()) -> ServiceRehearsal {
        let Self { syncer, sources, .. } = self;
        syncer.backends.replace(Backends::select(&sources.nodes.state()));
        ServiceRehearsal::of(syncer, names, goes_on).await
    }
}

impl ServiceRehearsal {
    pub(super) async fn of(syncer: Arc<Syncer>, names: &[(String, String)], goes_on: impl Fn()) -> Self {
        let asked: HashSet<Key> = names.iter().map(|(namespace, name)| Key::new(name).within(namespace)).collect();
        let see = |member: &usize| verify::seen(&syncer, *member, |key| asked.contains(key), &goes_on);
        let surveyed: Vec<_> = syncer.members.keys().map(see).collect();
        let unseen = join_all(surveyed).await.into_iter().flatten().collect();
        Self { syncer, unseen }
    }

    /// Does what there is to do for a Service. `stopped` is cancelled when a change of the cloud is kept from leaving: then the work does not
    /// begin anew, because what follows depends on the answer. `goes_on` hears of the end of each run.
    pub async fn rehearse(
        &self,
        namespace: &str,
        name: &str,
        stopped: &CancellationToken,
        goes_on: impl Fn(),
    ) -> Rehearsed {
        let key = Key::new(name).within(namespace);
        let mut verdict = Verdict::Done;
        for _ in 0..MOST_RUNS {
            verdict = Box::pin(self.syncer.sync(&key)).await;
            goes_on();
            if !matches!(verdict, Verdict::After(Duration::ZERO)) || stopped.is_cancelled() {
                break;
            }
        }
        self.rehearsed(&key, verdict)
    }

    fn rehearsed(&self, key: &Key, verdict: Verdict) -> Rehearsed {
        let syncer = &self.syncer;
        let Some(service) = syncer.store.get(key) else { return Rehearsed::default() };
        let work = syncer.work(key, &syncer.memory.newest(key, Arc::clone(&service)));
        let (decided, why) = syncer.memory.with(key, ServiceEntry::last).unwrap_or_default();
        let plan = decided.unwrap_or_else(|| syncer.plan_of(&service, work));
        let unseen = || self.unseen.get(key).filter(|_| plan.is_nothing()).cloned();
        let waits = || (plan.reason == Reason::WaitsForOthers).then(|| plan.reason.to_string());
        let strands = || matches!(work, Work::Stranded(_)).then(|| plan.reason.to_string());
        // The host would look again before anything changes. Whatever it has found out so far, that is not all.
        let is_open = || matches!(verdict, Verdict::After(_) | Verdict::Backoff).then(|| UNFINISHED.to_owned());
        let unknown = why.or_else(unseen).or_else(waits).or_else(strands).or_else(is_open);
        Rehearsed { decision: Some(plan.to_string()), unknown }
    }
}

impl ServiceEntry {
    /// The last decision, and what the last try came to, if it failed or the cloud is at work.
    fn last(&mut self) -> (Option<super::plan::Plan>, Option<String>) {
        let decision = self.last_run.decision.as_ref().map(|(plan, _)| plan.clone());
        (decision, self.why().map(ToOwned::to_owned))
    }
}
