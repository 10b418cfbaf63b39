//! What was deleted before the start is asked until it is known: with a budget that nobody has touched, this leader would delete as many
//! Nodes as the last one did, once more. Nodes that are not Ready wait until then, and are woken. A Ready Node is never deleted, and does not wait.
//!
//! | the API server | what follows |
//! |---|---|
//! | does not answer, or something in between does | it is asked again |
//! | says that a right is missing | the same, until it has said so for the grace and nothing else went wrong meanwhile: one that has just started says so before it has read the rules, however long it was away before |
//! | says no for another reason, such as that there is no ConfigMap | nothing stands there |
//!
//! A period after the controller began, nobody asks any more: what was deleted before that counts no more.

use std::collections::HashSet;
use std::time::Duration;

use ccm_apiserver::ApiError;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::history::{self, Past};
use super::sync::Syncer;
use crate::store::Node;

/// How long nobody asks again what was deleted before, after the API server did not say: at first. It doubles with each time.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// And at most.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Since when the API server says of a place that the right to read it is missing, and nothing else.
type Denied = Mutex<Option<Instant>>;

/// Whether it is known what was deleted before the start.
pub(super) struct Recalled {
    began: Instant,
    /// So long a right must be missing.
    grace: Duration,
    waiting: Mutex<Waiting>,
    notes: Denied,
    events: Denied,
}

/// Who waits for it.
#[derive(Default)]
struct Waiting {
    is_known: bool,
    /// Names of Nodes.
    nodes: HashSet<String>,
}

impl Recalled {
    /// Nothing is known yet, and the controller begins.
    pub(super) fn begin(grace: Duration) -> Self {
        let (waiting, notes, events) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { began: Instant::now(), grace, waiting, notes, events }
    }

    /// Asks until it is known, and then wakes the Nodes that wait.
    pub(super) async fn learn(&self, syncer: &Syncer, woken: &mpsc::WeakSender<ObjectRef<Node>>) {
        let mut pause = MIN_PAUSE;
        syncer.memory.wait_for_recall(Some(Instant::now()));
        while let Err(error) = Box::pin(self.recall(syncer)).await {
            if pause == MIN_PAUSE {
                let period = syncer.settings.budget.period;
                tracing::warn!(
                    %error,
                    "not known what was deleted before the start: no Node is deleted or tainted until it is, for {period:?} at most"
                );
            }
            let next = Instant::now() + pause;
            syncer.memory.wait_for_recall(Some(next));
            tokio::time::sleep_until(next).await;
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
        syncer.memory.wait_for_recall(None);
        if pause > MIN_PAUSE {
            tracing::info!("Nodes that are not Ready wait no longer for what was deleted before the start");
        }
        let waiting = {
            let mut waiting = self.waiting.lock();
            waiting.is_known = true;
            std::mem::take(&mut waiting.nodes)
        };
        // None: no Node runs any more.
        let Some(woken) = woken.upgrade() else { return };
        for name in waiting {
            if woken.send(ObjectRef::new(&name)).await.is_err() {
                return;
            }
        }
    }

    /// Whether a Node has to wait until it is known.
    pub(super) fn has_to_wait(&self, name: &str) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.is_known {
            waiting.nodes.insert(name.to_owned());
        }
        !waiting.is_known
    }

    /// Counts what was deleted before the start.
    ///
    /// # Errors
    ///
    /// It is not known what was noted, or what the Events tell: no Node may be deleted yet. What was not noted, for lack of a right, of a
    /// ConfigMap or of room, the Events alone tell.
    pub(super) async fn recall(&self, syncer: &Syncer) -> Result<(), ApiError> {
        let period = syncer.settings.budget.period;
        let noted = async {
            match &syncer.journal {
                Some(journal) => journal.read().await,
                None => Ok(vec![]),
            }
        };
        let (noted, told) = tokio::join!(noted, history::deletions(&syncer.writer.gate, period));
        let is_over = self.began.elapsed() >= period;
        // Each is heard, whatever is said of the other one.
        let (noted, told) = (self.heard(&self.notes, noted, is_over), self.heard(&self.events, told, is_over));
        let (noted, told) = (noted?, told?);
        let mut deletions = Vec::new();
        match noted {
            Ok(noted) => deletions.extend(noted),
            Err(error) if error.is_unanswered() => counts_no_more(&error),
            Err(error) => {
                if let Some(journal) = &syncer.journal {
                    journal.tell(&error);
                }
            }
        }
        match told {
            Ok(told) => deletions.extend(told),
            Err(error) if error.is_unanswered() => counts_no_more(&error),
            Err(error) => tracing::warn!(
                %error,
                "deletions of Nodes from before the start cannot be read (list events in the namespace default): only those count that were noted before they happened"
            ),
        }
        history::in_order(deletions).iter().for_each(|past| count(syncer, past));
        Ok(())
    }

    /// What the API server says of a place.
    ///
    /// # Errors
    ///
    /// Nothing that can be relied on, unless the time for that is over.
    fn heard(
        &self,
        denied: &Denied,
        answer: Result<Vec<Past>, ApiError>,
        is_over: bool,
    ) -> Result<Result<Vec<Past>, ApiError>, ApiError> {
        let mut denied = denied.lock();
        let is_certain = match &answer {
            Err(error) if error.is_denied() => denied.get_or_insert_with(Instant::now).elapsed() >= self.grace,
            answer => {
                *denied = None;
                !answer.as_ref().is_err_and(ApiError::is_unanswered)
            }
        };
        match answer {
            Err(error) if !is_certain && !is_over => Err(error),
            answer => Ok(answer),
        }
    }
}

fn counts_no_more(error: &ApiError) {
    tracing::warn!(%error, "it stays unknown what was deleted before the start, which counts no more by now");
}

/// Counts a deletion of before the start.
fn count(syncer: &Syncer, past: &Past) {
    let Syncer { lookups, budget, .. } = syncer;
    match &past.provider_id {
        // Nobody knows whose it was: rather one too many than one budget twice.
        None => lookups.keepers().for_each(|keeper| budget.recall(keeper, past)),
        Some(id) => {
            // Nobody's: of a provider that is not configured any more.
            if let Some(keeper) = lookups.keeper(Some(id.as_str()).filter(|id| !id.is_empty())) {
                budget.recall(keeper, past);
            }
        }
    }
}
