//! Merges lookups that wait at the same time into one call of the provider.
//!
//! A controller asks for one node at a time; the cloud is asked for all nodes that wait. The first lookup of a quiet moment
//! waits for [`BatchSettings::linger`], so that a burst becomes one call; while calls are under way the next batch gathers.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::instrument::WithSubscriber as _;
use tracing::{Instrument as _, Span};

use crate::{Described, Failure, FindError, Finding, Instance, Instances, Need, Reaction, SPANS, current_span};

/// How lookups are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// Most nodes in one call. Default 500: about 1 MiB of arguments, and one page more or less of any cloud's listing.
    pub max_nodes: NonZeroUsize,
    /// Most calls at the same time. Default 4. Further lookups wait and make the next batch larger.
    pub max_calls: NonZeroUsize,
    /// How long the first lookup of a batch waits for others. Default 20 ms, which nobody sees on a Node.
    pub linger: Duration,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            max_nodes: NonZeroUsize::MIN.saturating_add(499),
            max_calls: NonZeroUsize::MIN.saturating_add(3),
            linger: Duration::from_millis(20),
        }
    }
}

/// How often one batch is halved. Nine halvings find one bad node among 500; a provider that crashes on every node is not
/// asked 500 times.
const MAX_SPLITS: usize = 24;
/// Most links of a span, as OpenTelemetry's specification has it.
const MAX_LINKS: usize = 128;

struct Lookup {
    node: Arc<dyn Described>,
    need: Need,
    answer: oneshot::Sender<Result<Found, Failure>>,
    /// Who asks, where that is traced.
    span: Option<Span>,
}

/// A finding that is no failure.
type Found = Option<Box<Instance>>;

/// Asks one provider for single nodes; the calls are merged. Cheap to clone.
#[derive(Clone)]
pub struct Batcher {
    queue: mpsc::Sender<Lookup>,
}

impl Batcher {
    /// The handle, and the work behind it, which ends when the last handle is gone. The caller owns and runs the work;
    /// dropping it ends the calls.
    pub fn new<I: Instances>(instances: Arc<I>, settings: BatchSettings) -> (Self, impl Future<Output = ()> + Send) {
        // Callers wait when it is full; twice a batch keeps the next one ready.
        let room = settings.max_nodes.get().saturating_mul(2).min(Semaphore::MAX_PERMITS);
        let (queue, lookups) = mpsc::channel(room);
        (Self { queue }, run(instances, settings, lookups))
    }

    /// The instance behind one node; none when the cloud says that it does not exist.
    ///
    /// # Errors
    ///
    /// The failure for this node, or for the whole call that it was part of.
    pub async fn find(&self, node: impl Described + 'static, need: Need) -> Result<Found, Failure> {
        self.ask(Arc::new(node), need).await
    }

    /// The same for a node that is shared.
    pub(crate) async fn ask(&self, node: Arc<dyn Described>, need: Need) -> Result<Found, Failure> {
        let (answer, answered) = oneshot::channel();
        let stopped = || Failure::new(Reaction::Retry, "the lookup ended without an answer");
        if self.queue.send(Lookup { node, need, answer, span: current_span() }).await.is_err() {
            return Err(stopped());
        }
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }
}

async fn run<I: Instances>(instances: Arc<I>, settings: BatchSettings, mut lookups: mpsc::Receiver<Lookup>) {
    let mut ready = VecDeque::new();
    // A task per call: they compute side by side, and a panic in one is not the end of the others.
    let mut calls = JoinSet::new();
    let mut open = true;
    while open || !calls.is_empty() {
        tokio::select! {
            first = lookups.recv(), if open && calls.len() < settings.max_calls.get() => match first {
                Some(first) => ready.extend(gather(first, &mut lookups, settings).await),
                None => open = false,
            },
            Some(ended) = calls.join_next() => {
                if let Err(panic) = ended {
                    tracing::error!(%panic, "a lookup ended by itself");
                }
            }
        }
        while calls.len() < settings.max_calls.get() {
            let Some(batch) = ready.pop_front() else { break };
            // A plan keeps silent, and so does what it asks for.
            calls.spawn(call(Arc::clone(&instances), batch).with_current_subscriber());
        }
    }
}

/// One batch per need, together at most [`BatchSettings::max_nodes`] lookups.
async fn gather(first: Lookup, lookups: &mut mpsc::Receiver<Lookup>, settings: BatchSettings) -> Vec<Vec<Lookup>> {
    let end = tokio::time::Instant::now() + settings.linger;
    let mut waiting = vec![first];
    while waiting.len() < settings.max_nodes.get() {
        match tokio::time::timeout_at(end, lookups.recv()).await {
            Ok(Some(lookup)) => waiting.push(lookup),
            Ok(None) | Err(_) => break,
        }
    }
    let mut batches: Vec<Vec<Lookup>> = Vec::new();
    for lookup in waiting {
        match batches.iter_mut().find(|batch| batch.first().is_some_and(|other| other.need == lookup.need)) {
            Some(batch) => batch.push(lookup),
            None => batches.push(vec![lookup]),
        }
    }
    batches
}

/// Asks for one batch and hands the findings out. A batch that crashes the provider is halved until the nodes that do it
/// stand alone: the others get their answer.
async fn call<I: Instances>(instances: Arc<I>, batch: Vec<Lookup>) {
    let mut splits = 0;
    let mut waiting = vec![batch];
    while let Some(mut batch) = waiting.pop() {
        // Whoever stopped waiting needs no answer.
        batch.retain(|lookup| !lookup.answer.is_closed());
        let Some(need) = batch.first().map(|lookup| lookup.need) else { continue };
        let nodes = batch.iter().map(|lookup| lookup.node.describe()).collect();
        match instances.find(nodes, need).instrument(span(&batch)).await {
            Ok(findings) => hand_out(batch, findings),
            Err(FindError::Crashed(failure)) if batch.len() > 1 && splits < MAX_SPLITS => {
                splits += 1;
                tracing::warn!(nodes = batch.len(), error = %failure, "provider crashed on a batch of nodes, asking for halves");
                let rest = batch.split_off(batch.len() / 2);
                waiting.extend([rest, batch]);
            }
            Err(error) => {
                let failure = error.into_failure();
                for lookup in batch {
                    reply(lookup, Err(failure.clone()));
                }
            }
        }
    }
}

/// The span of a call for many: part of the trace of whoever asked first, and linked to the others.
fn span(batch: &[Lookup]) -> Span {
    let mut asking = batch.iter().filter_map(|lookup| lookup.span.as_ref());
    let Some(first) = asking.next() else { return Span::none() };
    let nodes = i64::try_from(batch.len()).unwrap_or(i64::MAX);
    let span = tracing::info_span!(target: SPANS, parent: first, "lookup", ccm.nodes = nodes);
    for other in asking.take(MAX_LINKS) {
        span.follows_from(other);
    }
    span
}

/// Findings stand in the order of the nodes. When their number is not that of the nodes, nobody knows whose they are: a
/// machine that exists could be taken for an absent one.
fn hand_out(batch: Vec<Lookup>, findings: Vec<Finding>) {
    if findings.len() != batch.len() {
        let text = format!("the provider gave {} findings for {} nodes", findings.len(), batch.len());
        for lookup in batch {
            reply(lookup, Err(Failure::new(Reaction::Retry, text.clone())));
        }
        return;
    }
    let mut findings = findings.into_iter();
    for lookup in batch {
        let answer = match findings.next() {
            Some(Finding::Found(instance)) => Ok(Some(instance)),
            Some(Finding::Absent) => Ok(None),
            Some(Finding::Unknown(failure)) => Err(failure),
            None => Err(Failure::new(Reaction::Retry, "the provider gave no finding for this node")),
        };
        reply(lookup, answer);
    }
}

fn reply(lookup: Lookup, answer: Result<Found, Failure>) {
    // An error means that nobody waits any more.
    drop(lookup.answer.send(answer));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use parking_lot::Mutex;
    use tracing::{Dispatch, Event, Metadata, Subscriber, span};

    use super::*;
    use crate::{InstanceState, Node};

    /// Takes 50 ms; crashes on nodes whose name begins with `poison`.
    #[derive(Default)]
    struct SlowCloud {
        calls: Mutex<Vec<(usize, Need)>>,
        running: AtomicUsize,
        most: AtomicUsize,
    }

    impl Instances for SlowCloud {
        async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
            self.calls.lock().push((nodes.len(), need));
            self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            assert!(!nodes.iter().any(|node| node.name == "bug"), "a bug of the host");
            if nodes.iter().any(|node| node.name.starts_with("poison")) {
                return Err(FindError::Crashed(Failure::new(Reaction::Retry, "trap")));
            }
            Ok(nodes.iter().map(|node| Finding::Found(Box::new(machine(&node.name)))).collect())
        }
    }

    fn machine(id: &str) -> Instance {
        Instance {
            provider_id: format!("test://{id}"),
            instance_type: String::new(),
            addresses: vec![],
            zone: String::new(),
            region: String::new(),
            labels: Default::default(),
            state: InstanceState::Running,
        }
    }

    fn node(name: impl Into<String>) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    /// Runs `asks` against a fresh cloud until all have an answer.
    async fn answers(
        settings: BatchSettings,
        asks: Vec<(String, Need)>,
    ) -> (Arc<SlowCloud>, Vec<Result<Found, Failure>>) {
        let cloud = Arc::new(SlowCloud::default());
        let (lookups, work) = Batcher::new(Arc::clone(&cloud), settings);
        let asking = async move {
            let all = asks.into_iter().map(|(name, need)| lookups.find(node(name), need));
            join_all(all).await
        };
        let ((), answers) = tokio::join!(work, asking);
        (cloud, answers)
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_that_wait_together_are_one_call_and_each_gets_its_own_answer() {
        let asks = (0..300).map(|i| (format!("n{i}"), Need::Metadata)).collect();
        let (cloud, answers) = answers(BatchSettings::default(), asks).await;
        assert_eq!(*cloud.calls.lock(), [(300, Need::Metadata)]);
        for (i, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.unwrap().unwrap().provider_id, format!("test://n{i}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_call_is_larger_and_no_more_calls_run_than_set() {
        let settings = BatchSettings {
            max_nodes: NonZeroUsize::new(10).unwrap(),
            max_calls: NonZeroUsize::new(2).unwrap(),
            ..BatchSettings::default()
        };
        let asks = (0..95).map(|i| (format!("n{i}"), Need::Metadata)).collect();
        let (cloud, answers) = answers(settings, asks).await;
        assert!(answers.iter().all(Result::is_ok));
        let sizes: Vec<usize> = cloud.calls.lock().iter().map(|(size, _)| *size).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 95);
        assert_eq!((sizes.iter().max(), cloud.most.load(Ordering::SeqCst)), (Some(&10), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_is_never_asked_together_with_anything_else() {
        let asks = vec![("a".into(), Need::Metadata), ("b".into(), Need::Proof), ("c".into(), Need::Metadata)];
        let (cloud, _) = answers(BatchSettings::default(), asks).await;
        assert_eq!(*cloud.calls.lock(), [(2, Need::Metadata), (1, Need::Proof)]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_that_crashes_the_provider_does_not_keep_the_others_from_their_answer() {
        let asks = (0..64).map(|i| (if i == 37 { "poison".into() } else { format!("n{i}") }, Need::Metadata)).collect();
        let (cloud, answers) = answers(BatchSettings::default(), asks).await;
        let failed: Vec<usize> = answers.iter().enumerate().filter(|(_, a)| a.is_err()).map(|(i, _)| i).collect();
        assert_eq!(failed, [37]);
        assert_eq!(cloud.calls.lock().len(), 13, "1 whole, then 6 times two halves");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_crashes_on_every_node_is_not_asked_for_each_of_them() {
        let asks = (0..500).map(|i| (format!("poison-{i}"), Need::Metadata)).collect();
        let (cloud, answers) = answers(BatchSettings::default(), asks).await;
        assert!(answers.iter().all(Result::is_err));
        assert!(cloud.calls.lock().len() <= 2 * MAX_SPLITS + 1, "{} calls", cloud.calls.lock().len());
    }

    /// Gives one finding less than it was asked for: the first node's is missing, and all others stand one place too early.
    struct ShortCloud;

    impl Instances for ShortCloud {
        async fn find(&self, nodes: Vec<Node>, _: Need) -> Result<Vec<Finding>, FindError> {
            let answer = |node: &Node| match node.name.as_str() {
                "gone" => Finding::Absent,
                name => Finding::Found(Box::new(machine(name))),
            };
            Ok(nodes.iter().skip(1).map(answer).collect())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_finding_too_few_is_no_answer_for_any_node() {
        let (lookups, work) = Batcher::new(Arc::new(ShortCloud), BatchSettings::default());
        let asking =
            async move { join_all(["a", "b", "gone"].map(|name| lookups.find(node(name), Need::Proof))).await };
        let ((), answers) = tokio::join!(work, asking);
        for answer in answers {
            assert_eq!(answer.unwrap_err().message, "the provider gave 2 findings for 3 nodes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_of_any_size_can_be_set() {
        let settings = BatchSettings { max_nodes: NonZeroUsize::MAX, ..BatchSettings::default() };
        let (_, answers) = answers(settings, vec![("a".to_owned(), Need::Metadata)]).await;
        assert!(answers.iter().all(Result::is_ok));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_one_call_is_a_failure_of_its_nodes_alone() {
        let one = BatchSettings { max_nodes: NonZeroUsize::MIN, ..BatchSettings::default() };
        let asks = ["a", "bug", "b"].map(|name| (name.to_owned(), Need::Metadata)).to_vec();
        let (_, answers) = answers(one, asks).await;
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }

    /// Says something at each call.
    struct LoudCloud;

    impl Instances for LoudCloud {
        async fn find(&self, nodes: Vec<Node>, _: Need) -> Result<Vec<Finding>, FindError> {
            tracing::warn!("somebody asks");
            Ok(nodes.iter().map(|_| Finding::Absent).collect())
        }
    }

    /// Counts lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    /// Each look of a dry run once said again what the one before had said.
    #[tokio::test(start_paused = true)]
    async fn a_call_says_as_much_as_the_work_that_it_belongs_to() {
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        for (says, expected) in [(Dispatch::none(), 0), (Dispatch::new(lines.clone()), 1)] {
            let (lookups, work) = Batcher::new(Arc::new(LoudCloud), BatchSettings::default());
            let asking = async move { lookups.find(node("a"), Need::Metadata).await };
            let ((), answer) = tokio::join!(work.with_subscriber(says), asking);
            answer.unwrap();
            assert_eq!(lines.0.load(Ordering::SeqCst), expected);
        }
    }
}
