//! One Node, once: ask the cloud about it, for a deletion twice (the second proof), and draw the conclusions.

mod second_proof;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiError, EventRecorder, EventRequest, cut, node_reference};
use ccm_cloud::{Failure, Instance, InstanceState, Keeper, Lookups, Need, Reaction, Severity};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::deletion::Deletion;
use super::deletion_budget::{Deletions, Grant, Spent};
use super::history::{DELETING, PROVIDER_ID, REPORTER};
use super::journal::Journal;
use super::memory::{HeldBy, Memory, NextLook, Topic};
use super::metrics::NodeLifecycleMetrics;
use super::node_state::{Identity, NodeState, ShutdownTaint, age, corrected_taints, node_state};
use super::settings::NodeLifecycleSettings;
use crate::node::write::{NodeWriter, WriteError};
use crate::queue::Verdict;
use crate::reaction;
use crate::store::Node;
use crate::view::node::{Waiting, provider_id};

/// Most bytes of an error in an Event.
const MAX_ERROR: usize = 800;
/// Shortest wait before a Node is looked at again.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// Everything that a sync uses, shared by all of them.
pub(crate) struct Syncer {
    pub(crate) store: Store<Node>,
    pub(crate) lookups: Lookups,
    pub(crate) writer: NodeWriter,
    /// One permit per Node that is being written.
    pub(crate) writes: Semaphore,
    pub(crate) budget: Deletions,
    /// None where nobody shares anything: a restart knows what the Events tell.
    pub(crate) journal: Option<Journal>,
    pub(crate) recorder: EventRecorder,
    pub(crate) memory: Memory,
    pub(crate) metrics: NodeLifecycleMetrics,
    pub(crate) settings: NodeLifecycleSettings,
}

impl Syncer {
    /// Works on the Node called `name`.
    pub(crate) async fn sync(&self, name: &str) -> Verdict {
        self.sync_unless(name, || false).await
    }

    /// The same, unless it is not Ready and has to wait: then nothing is done before it is woken.
    pub(crate) async fn sync_unless(&self, name: &str, has_to_wait: impl Fn() -> bool) -> Verdict {
        let Some(node) = self.store.get(&ObjectRef::new(name)) else {
            self.memory.forget(name);
            return Verdict::Done;
        };
        if !self.is_ours(&node) {
            self.memory.forget(name);
            return Verdict::Done;
        }
        match node_state(&node) {
            NodeState::Deleting => {
                self.memory.forget(name);
                Verdict::Done
            }
            NodeState::Ready => {
                self.memory.forget_machine(name);
                match self.set_taint(&node, ShutdownTaint::Away).await {
                    Ok(()) => Verdict::Done,
                    Err(_) => Verdict::Backoff,
                }
            }
            NodeState::NotReady if has_to_wait() => Verdict::Done,
            // Boxed: at the start all Nodes are looked at, and there is nothing to do for most.
            NodeState::NotReady => Box::pin(self.not_ready(node)).await,
        }
    }

    async fn not_ready(&self, node: Arc<Node>) -> Verdict {
        let step = self.memory.step(&node, Instant::now());
        // Clouds list a machine some time after it runs, and a kubelet that has just registered is never Ready.
        let rest = self.settings.min_age.saturating_sub(age(&node));
        if !rest.is_zero() {
            return after(rest);
        }
        match step {
            NextLook::Deleted => Verdict::Done,
            NextLook::Wait(wait) => after(wait),
            NextLook::Look => self.look(node).await,
            NextLook::LookAgain => self.second_proof(node).await,
        }
    }

    /// Nothing is known of the machine.
    async fn look(&self, node: Arc<Node>) -> Verdict {
        let answer = self.ask(&node, Need::Existence).await;
        let Some(node) = self.unless_changed(&node) else { return Verdict::Done };
        match self.present(&node, answer).await {
            Some(verdict) => verdict,
            None => self.first_absent(&node),
        }
    }

    /// The newest state of the Node that is known, when it is still one to judge. Else its change wakes us.
    fn unless_changed(&self, asked: &Node) -> Option<Arc<Node>> {
        let name = asked.name_any();
        let newest = self.store.get(&ObjectRef::new(&name));
        let newest = newest
            .filter(|newest| node_state(newest) == NodeState::NotReady && Identity::of(newest) == Identity::of(asked));
        if newest.is_none() {
            self.memory.forget(&name);
        }
        newest
    }

    async fn ask(&self, node: &Arc<Node>, need: Need) -> Result<Option<Box<Instance>>, Failure> {
        let limit = self.settings.lookup_timeout;
        self.lookups.find(Waiting(Arc::clone(node)), need, limit).await
    }

    /// What follows from an answer other than absent; none for that one.
    async fn present(&self, node: &Arc<Node>, answer: Result<Option<Box<Instance>>, Failure>) -> Option<Verdict> {
        match answer {
            Ok(Some(instance)) => Some(self.found(node, instance.state).await),
            Ok(None) => {
                self.metrics.looked("absent");
                None
            }
            Err(failure) => Some(self.unknown(node, &failure)),
        }
    }

    async fn found(&self, node: &Arc<Node>, state: InstanceState) -> Verdict {
        let (word, taint) = match state {
            InstanceState::Running => ("running", Some(ShutdownTaint::Away)),
            InstanceState::Stopped => ("stopped", Some(ShutdownTaint::There)),
            InstanceState::Other => ("other", None),
        };
        self.metrics.looked(word);
        let wait = self.memory.found(&node.name_any(), word, Instant::now());
        if let Some(taint) = taint
            && let Err(error) = self.set_taint(node, taint).await
        {
            return after(wait.max(self.patience(&error)));
        }
        after(wait)
    }

    /// Nobody knows whether the machine is there: the Node stays as it is.
    fn unknown(&self, node: &Node, failure: &Failure) -> Verdict {
        let name = node.name_any();
        let word = failure.reaction.as_str();
        self.metrics.looked(word);
        let at_least = match reaction::verdict(failure, self.settings.slow_retry) {
            Verdict::After(delay) => delay,
            Verdict::Change => self.settings.max_monitor_period,
            Verdict::Done | Verdict::Backoff => Duration::ZERO,
        };
        let now = Instant::now();
        let wait = self.memory.unknown(&name, word, at_least, now);
        let why = cut(&failure.to_string(), MAX_ERROR).to_owned();
        self.memory.has_no_answer(&name, why, failure.request.clone());
        if failure.reaction != Reaction::Elsewhere && self.memory.is_news(&name, Topic::Unknown, word, now) {
            tracing::warn!(
                node = name,
                error = %failure,
                reaction = word,
                retry_in = ?wait,
                "the machine of a Node that is not Ready could not be determined; the Node stays"
            );
        }
        after(wait)
    }

    fn first_absent(&self, node: &Node) -> Verdict {
        let name = node.name_any();
        let now = Instant::now();
        if self.keeper(node).is_none() {
            if self.memory.is_news(&name, Topic::NoProviderId, "absent", now) {
                tracing::info!(
                    node = name,
                    "the cloud does not know the machine of a Node without provider ID; the Node stays, since nobody can \
                     ask about exactly that machine (--delete-nodes-without-provider-id)"
                );
            }
            return after(self.memory.still_absent(&name, Duration::ZERO, now));
        }
        self.metrics.first_absent.inc();
        let wait = self.memory.first_absent(&name, now);
        tracing::info!(
            node = name,
            provider_id = provider_id(node),
            "the cloud does not know the machine; it is asked again"
        );
        after(wait)
    }

    async fn hold(&self, node: &Node, keeper: Keeper, Spent { limit, nodes }: Spent) -> Verdict {
        let name = node.name_any();
        let now = Instant::now();
        let provider = self.lookups.name_of(keeper);
        let by = HeldBy { provider: provider.to_owned(), spent: Spent { limit, nodes } };
        let wait = self.memory.held(&name, by, now);
        if self.memory.is_news(&name, Topic::Held, "held", now) {
            let period = self.budget.settings().period;
            tracing::warn!(
                node = name,
                provider,
                limit,
                nodes,
                ?period,
                "deletion held: the limit of deletions is reached"
            );
            let whose = match keeper {
                Keeper::Provider(_) => format!("of provider {provider}"),
                Keeper::Any => "without provider ID".to_owned(),
            };
            let message = format!(
                "Node {name} is not deleted although it does not exist in the cloud provider: no more than {limit} of the \
                 {nodes} nodes {whose} are deleted within {period:?}. If the machines exist, scale the host to zero replicas at once, because the next \
                 Node is deleted as soon as the limit allows. If they are gone, wait, or restart with --confirm-node-deletions={name}"
            );
            self.record(node, Severity::Warning, "NodeDeletionHeld", message).await;
        }
        after(wait)
    }

    async fn delete(&self, node: &Arc<Node>, grant: Grant<'_>) -> Verdict {
        let name = node.name_any();
        let valid_until = Instant::now() + self.settings.proof_validity;
        let journal = self.journal.as_ref().filter(|_| grant.is_counted());
        if let Some(journal) = journal
            && let Err(error) = Box::pin(journal.note(uid(node), provider_id(node).unwrap_or_default())).await
        {
            return Box::pin(self.not_noted(node, error)).await;
        }
        let permit = self.writes.acquire().await;
        let deleted = Box::pin(self.writer.delete(Arc::clone(node), valid_until)).await;
        drop(permit);
        let now = Instant::now();
        let is_deleted = match &deleted {
            Ok(deletion) => *deletion == Deletion::Done,
            Err(error) => error.api().is_some_and(ApiError::is_unanswered),
        };
        if let Some(journal) = journal.filter(|_| !is_deleted) {
            journal.forget(uid(node));
        }
        match deleted {
            Ok(Deletion::Done) => {
                grant.spend(now);
                self.memory.deleted(&name);
                self.metrics.deletion("deleted");
                tracing::info!(
                    node = name,
                    provider_id = provider_id(node),
                    "node deleted: its machine does not exist"
                );
                self.told_deletion(node, now).await;
                Verdict::Done
            }
            Ok(Deletion::Unneeded) => {
                self.metrics.deletion("unneeded");
                self.memory.forget(&name);
                tracing::info!(node = name, "node not deleted: it is Ready, gone, or another one now");
                Verdict::Done
            }
            Ok(Deletion::Late) => after(self.memory.still_absent(&name, Duration::ZERO, now)),
            Err(error) => {
                if is_deleted {
                    grant.spend(now);
                }
                self.metrics.deletion("failed");
                let wait = self.memory.still_absent(&name, self.patience(&error), now);
                self.failed(node, &error, wait).await;
                after(wait)
            }
        }
    }

    /// The next leader would not know of the deletion: the Node stays for now.
    async fn not_noted(&self, node: &Node, error: ApiError) -> Verdict {
        let (name, now) = (node.name_any(), Instant::now());
        self.metrics.deletion("failed");
        let outcome = error.outcome();
        let text = error.to_string();
        let wait = self.memory.still_absent(&name, self.patience(&WriteError::Api(error)), now);
        if self.memory.is_news(&name, Topic::DeletionFailed, outcome, now) {
            tracing::warn!(node = name, error = text, retry_in = ?wait, "node not deleted: that cannot be noted before");
            if outcome != ApiError::Closed.outcome() {
                let error = cut(&text, MAX_ERROR);
                let message = format!("Failed deleting node {name}: the next leader could not know of it: {error}");
                self.record(node, Severity::Warning, "DeletingNodeFailed", message).await;
            }
        }
        after(wait)
    }

    async fn failed(&self, node: &Node, error: &WriteError, retry_in: Duration) {
        let (name, now) = (node.name_any(), Instant::now());
        let outcome = error.api().map_or("invalid", ApiError::outcome);
        if !self.memory.is_news(&name, Topic::DeletionFailed, outcome, now) {
            tracing::debug!(node = name, %error, ?retry_in, "node not deleted");
            return;
        }
        tracing::warn!(node = name, %error, ?retry_in, "node not deleted");
        // Who may not write has no Events either.
        if outcome == ApiError::Closed.outcome() {
            return;
        }
        self.told_deletion(node, now).await;
        let text = error.to_string();
        let message = format!("Failed deleting node {name}: {}", cut(&text, MAX_ERROR));
        self.record(node, Severity::Warning, "DeletingNodeFailed", message).await;
    }

    /// The Event comes when the outcome is known, so that no Node is announced that is then found to be Ready.
    async fn told_deletion(&self, node: &Node, now: Instant) {
        let name = node.name_any();
        if self.memory.is_news(&name, Topic::Deleting, "deleting", now) {
            let message = format!("Deleting node {name} because it does not exist in the cloud provider");
            let id = provider_id(node).unwrap_or_default().to_owned();
            self.record_with(node, Severity::Normal, DELETING, message, [(PROVIDER_ID.to_owned(), id)].into()).await;
        }
    }

    /// Corrects the shutdown taint, where the store says that it must be.
    async fn set_taint(&self, node: &Arc<Node>, wanted: ShutdownTaint) -> Result<(), WriteError> {
        let name = node.name_any();
        if corrected_taints(node, wanted).is_none() {
            self.memory.taint_is_right(&name);
            return Ok(());
        }
        let _permit = self.writes.acquire().await;
        match Box::pin(self.writer.set_shutdown_taint(Arc::clone(node), wanted)).await {
            Ok(false) => {
                self.memory.taint_is_right(&name);
                Ok(())
            }
            Ok(true) => {
                self.memory.taint_is_right(&name);
                let change = if wanted == ShutdownTaint::There { "added" } else { "removed" };
                self.metrics.tainted(change);
                tracing::info!(node = name, "shutdown taint {change}");
                Ok(())
            }
            Err(error) => {
                self.metrics.tainted("failed");
                let outcome = error.api().map_or("invalid", ApiError::outcome);
                if self.memory.is_taint_news(&name, outcome, Instant::now()) {
                    tracing::warn!(node = name, %error, "shutdown taint not written; the host retries");
                }
                Err(error)
            }
        }
    }

    /// Whether its provider ID is one of ours. Without one, nobody else's either.
    pub(super) fn is_ours(&self, node: &Node) -> bool {
        self.lookups.keeper(provider_id(node)).is_some()
    }

    /// Whether an absent machine is a reason to delete the Node.
    pub(super) fn may_delete(&self, node: &Node) -> bool {
        self.keeper(node).is_some()
    }

    /// Whose budget the deletion of the Node is of. Nobody's where an absent machine is no reason to delete it.
    fn keeper(&self, node: &Node) -> Option<Keeper> {
        let id = provider_id(node);
        if id.is_none() && !self.settings.delete_without_provider_id {
            return None;
        }
        self.lookups.keeper(id)
    }

    /// How long the API server is left alone after an error at least.
    fn patience(&self, error: &WriteError) -> Duration {
        match error.api() {
            Some(error) if error.is_denied() => Duration::ZERO,
            Some(ApiError::Refused { .. } | ApiError::Closed) => self.settings.slow_retry.max(reaction::MIN_SLOW_RETRY),
            Some(ApiError::Unavailable { retry_after: Some(wait), .. }) => reaction::bounded(*wait),
            _ => Duration::ZERO,
        }
    }

    async fn record(&self, node: &Node, severity: Severity, reason: &str, message: String) {
        self.record_with(node, severity, reason, message, BTreeMap::new()).await;
    }

    async fn record_with(
        &self,
        node: &Node,
        severity: Severity,
        reason: &str,
        message: String,
        annotations: BTreeMap<String, String>,
    ) {
        let about = node_reference(&node.name_any(), uid(node));
        let (reason, action) = (reason.into(), "Delete");
        let request = EventRequest { about, severity, reason, action, message, reporter: REPORTER, annotations };
        self.recorder.record(request).await;
    }
}

fn uid(node: &Node) -> &str {
    node.uid.as_deref().unwrap_or_default()
}

fn after(wait: Duration) -> Verdict {
    Verdict::After(wait.max(MIN_WAIT))
}
