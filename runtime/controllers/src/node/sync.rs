//! One Node, once: initialise it, or keep its pairs of labels consistent.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiError, EventRecorder, EventRequest, cut, node_reference};
use ccm_cloud::{FailedRequest, Failure, Instance, Lookups, Need, Reaction, Severity};
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::addresses::ProvidedIpError;
use super::holders::Holders;
use super::labels;
use super::memory::{KnownFailure, Memory};
use super::metrics::NodeMetrics;
use super::settings::NodeSettings;
use super::unknown_annotations::UnknownAnnotations;
use super::write::{NodeWriter, Order, WriteError, Written};
use crate::queue::Verdict;
use crate::reaction;
use crate::store::Node;
use crate::view::node::{Waiting, is_uninitialized, provider_id};

/// Upstream's name of this controller in Events.
const REPORTER: &str = "cloud-node-controller";
/// Most bytes of an error in an Event, which leaves room for what is done about it.
const MAX_ERROR: usize = 800;

/// Everything that a sync uses, shared by all of them.
pub(crate) struct Syncer {
    pub(crate) store: Store<Node>,
    pub(crate) lookups: Lookups,
    pub(crate) writer: NodeWriter,
    pub(crate) holders: Arc<Holders>,
    /// One permit per Node that is being written.
    pub(crate) writes: Semaphore,
    pub(crate) recorder: EventRecorder,
    pub(crate) memory: Memory,
    pub(crate) metrics: NodeMetrics,
    pub(crate) unknown_annotations: UnknownAnnotations,
    pub(crate) settings: NodeSettings,
}

/// Why a Node was not initialised.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("the machine of node {name} could not be determined: {failure}")]
    Lookup { name: String, failure: Failure },
    #[error("the cloud has no machine for node {0}")]
    Absent(String),
    #[error("neither the cloud nor the Node says a provider ID for node {0}")]
    NoProviderId(String),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl SyncError {
    /// Whether only a change of the Node helps: what it asks for is wrong.
    pub(crate) fn is_invalid(&self) -> bool {
        self.reaction() == Reaction::Invalid.as_str()
    }

    /// For metrics and people.
    pub(crate) fn reaction(&self) -> &'static str {
        match self {
            Self::Lookup { failure, .. } => failure.reaction.as_str(),
            Self::Absent(_) => "absent",
            Self::NoProviderId(_) => Reaction::Retry.as_str(),
            Self::Write(WriteError::ProvidedIp { reason: ProvidedIpError::NotListed(_), .. }) => {
                Reaction::Retry.as_str()
            }
            Self::Write(WriteError::ProvidedIp { .. }) => Reaction::Invalid.as_str(),
            Self::Write(WriteError::Refused { .. } | WriteError::Machine { .. }) => Reaction::Conflict.as_str(),
            Self::Write(WriteError::Api(_) | WriteError::Unanswered(_)) => "api",
        }
    }

    /// The request to the cloud behind it.
    fn request(&self) -> Option<Arc<FailedRequest>> {
        match self {
            Self::Lookup { failure, .. } => failure.request.clone(),
            _ => None,
        }
    }

    /// Whether another controller takes care of the Node, so that this is no failure at all.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Lookup { failure, .. } if failure.reaction == Reaction::Elsewhere)
    }

    /// Whether the Node would be as it should be but for a cloud or an API server that did not do what it was asked for.
    pub(crate) fn leaves_open(&self) -> bool {
        match self {
            Self::Lookup { failure, .. } => reaction::leaves_open(failure.reaction),
            Self::Write(error) => error.api().is_some(),
            Self::Absent(_) | Self::NoProviderId(_) => false,
        }
    }

    /// Whether people should be told: not about other people's Nodes, and not about an API server that could not take the
    /// Event either.
    fn deserves_warning(&self) -> bool {
        match self {
            Self::Write(error) => error.api().is_none_or(ApiError::is_refusal),
            _ => !self.is_elsewhere(),
        }
    }
}

impl Syncer {
    /// Works on the Node called `name`.
    pub(crate) async fn sync(&self, name: &str) -> Verdict {
        let Some(node) = self.store.get(&ObjectRef::new(name)) else {
            self.memory.forget(name);
            self.holders.forget(name);
            self.unknown_annotations.forget(name);
            return Verdict::Done;
        };
        self.holders.note(&node);
        let keeper = self.lookups.keeper(provider_id(&node));
        if let Some(message) = self.unknown_annotations.news(&node, keeper) {
            tracing::warn!(node = name, "{message}");
            Box::pin(self.record(&node, Severity::Warning, "NodeAnnotationUnknown", message)).await;
        }
        if !is_uninitialized(&node) {
            let is_our_work = self.memory.was_unanswered(&node);
            self.memory.forget(name);
            if is_our_work {
                self.untainted(&node);
                Box::pin(self.initialised(&node)).await;
            }
            return Box::pin(self.reconcile_labels(&node)).await;
        }
        if !self.memory.is_waiting(&node) {
            return Verdict::Done;
        }
        match self.initialise(&node).await {
            Ok(()) => Verdict::Done,
            Err(error) => Box::pin(self.failed(&node, &error)).await,
        }
    }

    /// The machine behind a Node, with a provider ID; none when the cloud has none.
    pub(crate) async fn find(&self, node: &Arc<Node>, need: Need) -> Result<Option<Box<Instance>>, SyncError> {
        let name = node.name_any();
        let limit = self.settings.lookup_timeout;
        let asked = self.lookups.find(Waiting(Arc::clone(node)), need, limit);
        let found = asked.await.map_err(|failure| SyncError::Lookup { name: name.clone(), failure })?;
        let Some(mut found) = found else { return Ok(None) };
        if found.provider_id.is_empty() {
            let own = provider_id(node).ok_or(SyncError::NoProviderId(name))?;
            found.provider_id = own.to_owned();
        }
        Ok(Some(found))
    }

    async fn initialise(&self, node: &Arc<Node>) -> Result<(), SyncError> {
        let found = self.find(node, Need::Metadata).await?.ok_or_else(|| SyncError::Absent(node.name_any()))?;
        // Boxed behind the permit: thousands may wait for it, few write.
        let permit = self.writes.acquire().await;
        let written = Box::pin(self.write(node, &found)).await?;
        drop(permit);
        if let Some(written) = written {
            Box::pin(self.initialised(&written)).await;
        }
        Ok(())
    }

    /// The taint was removed by us.
    fn untainted(&self, node: &Node) {
        if let Some(age) = age(node) {
            self.metrics.taint_removal_delay.observe(age);
        }
    }

    /// Nothing is left to do.
    async fn initialised(&self, node: &Node) {
        if let Some(age) = age(node) {
            self.metrics.initial_sync_delay.observe(age);
        }
        tracing::info!(provider_id = provider_id(node), "node initialised");
        self.record(node, Severity::Normal, "Synced", "Node synced successfully".into()).await;
    }

    /// Returns the Node when it was initialised here and now.
    async fn write(&self, node: &Arc<Node>, found: &Instance) -> Result<Option<Box<Node>>, SyncError> {
        let order = self.settings.order();
        let written = match self.writer.initialise(Arc::clone(node), found, order).await {
            Ok(Written::Changed(written)) => written,
            Ok(Written::Nothing | Written::Gone) => return Ok(None),
            Err(error) => {
                if matches!(error, WriteError::Unanswered(_)) {
                    self.memory.unanswered(node);
                }
                return Err(error.into());
            }
        };
        self.memory.finished(&written);
        self.untainted(&written);
        if order == Order::TaintFirst {
            let base = Arc::new(Node::clone(&written));
            if let Err(error) = self.writer.update_addresses(base, &found.addresses).await {
                tracing::warn!(%error, "addresses not written, they wait for the next refresh");
            }
        }
        Ok(Some(written))
    }

    async fn reconcile_labels(&self, node: &Node) -> Verdict {
        let corrections = labels::corrections(&node.labels);
        if corrections.is_empty() {
            return Verdict::Done;
        }
        let _permit = self.writes.acquire().await;
        match Box::pin(self.writer.set_labels(node, &corrections)).await {
            Ok(_) => Verdict::Done,
            Err(error) => {
                tracing::warn!(%error, "labels not reconciled");
                self.after_write_error(&error)
            }
        }
    }

    /// Nobody here takes care of a Node that does not say whose it is. Another manager may, which gives it a provider ID; else people
    /// wait for a Node that will never be ready.
    async fn unclaimed(&self, node: &Node) -> Verdict {
        let name = node.name_any();
        let left = self.settings.unclaimed_after.saturating_sub(self.memory.unclaimed(&name));
        if !left.is_zero() {
            return Verdict::After(left);
        }
        let message = format!(
            "no provider of this process knows node {name}, which has no provider ID: if it is a machine of one of their \
             clouds, give it the name that the machine has there, or set spec.providerID (kubelet --provider-id); if another \
             manager takes care of it, that one has not done so yet"
        );
        if self.memory.is_news(&name, &message, Duration::MAX) {
            tracing::warn!(node = name, "a Node without provider ID is not known to any provider");
            self.record(node, Severity::Warning, "SyncNodeFailed", message).await;
        }
        Verdict::Change
    }

    async fn failed(&self, node: &Node, error: &SyncError) -> Verdict {
        let verdict = match error {
            SyncError::Lookup { failure, .. } => reaction::verdict(failure, self.settings.slow_retry),
            SyncError::Write(error) => self.after_write_error(error),
            SyncError::Absent(_) | SyncError::NoProviderId(_) => Verdict::Backoff,
        };
        self.memory.failed(
            &node.name_any(),
            KnownFailure {
                message: cut(&error.to_string(), MAX_ERROR).to_owned(),
                reaction: error.reaction(),
                at: Instant::now(),
                tries: 1,
                request: error.request(),
                until_change: verdict == Verdict::Change,
            },
        );
        if error.is_elsewhere() && provider_id(node).is_none() {
            return self.unclaimed(node).await;
        }
        if !error.is_elsewhere() {
            self.metrics.failed(error.reaction());
        }
        let reason = format!("{} ({})", cut(&error.to_string(), MAX_ERROR), error.reaction());
        if !error.deserves_warning() {
            tracing::debug!(%error, "node not initialised");
        } else if self.memory.is_news(&node.name_any(), &reason, self.settings.repeat_warning) {
            let mut message = format!("{reason}: {}", reaction::describe(verdict));
            if verdict == Verdict::Backoff {
                // The delay itself is another one at each try: so would be the text, and each would be an Event of its own.
                message.push_str(&format!(", at the latest in {:?}", self.settings.queue.max_backoff));
            }
            tracing::warn!(error = message, "node not initialised");
            self.record(node, Severity::Warning, "SyncNodeFailed", message).await;
        }
        verdict
    }

    fn after_write_error(&self, error: &WriteError) -> Verdict {
        match error {
            // The cloud's list may still change; a wrong annotation stays wrong.
            WriteError::ProvidedIp { reason: ProvidedIpError::NotListed(_), .. } => Verdict::Backoff,
            WriteError::ProvidedIp { .. } => Verdict::Change,
            // Whoever has the address or the machine may go.
            WriteError::Refused { .. } | WriteError::Machine { .. } => Verdict::Backoff,
            WriteError::Api(error) | WriteError::Unanswered(error) => {
                reaction::after_api_error(error, self.settings.slow_retry)
            }
        }
    }

    /// An initialised Node keeps its addresses since the cloud's cannot be its own: says so, once in a while.
    pub(crate) async fn kept(&self, node: &Node, error: &SyncError) {
        let SyncError::Write(WriteError::Refused { .. }) = error else { return };
        let message = cut(&error.to_string(), MAX_ERROR).to_owned();
        if self.holders.is_news(&node.name, &message, self.settings.repeat_warning) {
            self.record(node, Severity::Warning, "NodeAddressRefused", message).await;
        }
    }

    /// An initialised Node is not refreshed, and stays so until somebody puts right what it asks for: says so, and that all the rest goes on.
    pub(crate) async fn refused(&self, node: &Node, error: &SyncError) {
        let reason = error.to_string();
        let reason = cut(&reason, MAX_ERROR);
        let message = format!(
            "{reason} ({}): the Node keeps the addresses that it has, and the next refresh asks again",
            error.reaction()
        );
        self.record(node, Severity::Warning, "SyncNodeFailed", message).await;
    }

    async fn record(&self, node: &Node, severity: Severity, reason: &str, message: String) {
        let about = node_reference(&node.name_any(), node.uid.as_deref().unwrap_or_default());
        let (reason, action, annotations) = (reason.into(), "Initialize", Default::default());
        let request = EventRequest { about, severity, reason, action, message, reporter: REPORTER, annotations };
        self.recorder.record(request).await;
    }
}

/// Seconds since the Node was created.
fn age(node: &Node) -> Option<f64> {
    Some(Timestamp::now().duration_since(node.created?).as_secs_f64().max(0.0))
}
