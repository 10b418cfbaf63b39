//! Keeps the addresses of all initialised Nodes as the cloud has them.
//!
//! All Nodes are asked about at once, so that the lookups become few calls; the width bounds writes only. What fails waits
//! for the next run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Need;
use futures::StreamExt as _;
use futures::stream;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::memory::Unrefreshed;
use super::sync::{SyncError, Syncer};
use super::write::Written;
use crate::metrics::now_seconds;
use crate::pulse::Pulses;
use crate::store::{FirstList, Node};
use crate::view::node::{is_uninitialized, provider_id};

/// Most Nodes that are asked about at the same time: as many as fit into the batches that may run at once, so that a larger
/// cluster is not copied as a whole.
const WINDOW: usize = 2_000;
/// Name of the loop, for the watchdog.
pub(crate) const LOOP: &str = "addresses of Nodes";
/// The loop turns with each Node, and no Node takes longer: its lookup and its write have limits of their own. Between two runs it turns so often.
const MIN_PERIOD: Duration = Duration::from_secs(300);
/// Most failures of one run that are logged one by one.
const MAX_LOGGED: usize = 20;

/// What became of one Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refreshed {
    Updated,
    Unchanged,
    Absent,
    Elsewhere,
    Failed,
}

impl Refreshed {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Absent => "absent",
            Self::Elsewhere => "elsewhere",
            Self::Failed => "failed",
        }
    }
}

/// Refreshes until `shutdown`: at once when the store is ready, then each time
/// [`NodeSettings::refresh_interval`](super::NodeSettings::refresh_interval) after the end of the run before.
pub(crate) async fn run(syncer: &Syncer, first_list: FirstList, pulses: &Pulses, shutdown: &CancellationToken) {
    let work = async {
        if !first_list.complete().await {
            return;
        }
        let settings = &syncer.settings;
        let period = settings.lookup_timeout.max(MIN_PERIOD);
        let pulse = pulses.begin(LOOP, period);
        loop {
            refresh(syncer, || pulse.beat()).await;
            let (mut left, waited) = (settings.refresh_interval, Instant::now());
            while !left.is_zero() {
                tokio::time::sleep(left.min(MIN_PERIOD)).await;
                pulse.beat();
                left = settings.refresh_interval.saturating_sub(waited.elapsed());
            }
        }
    };
    shutdown.run_until_cancelled(work).await;
}

/// One run over all Nodes; says after each one that it goes on. A failure that lasts is logged once, however many runs it lasts for.
pub(crate) async fn refresh(syncer: &Syncer, goes_on: impl Fn()) {
    let nodes = syncer.store.state_filter(|node| !is_uninitialized(node));
    let asked = nodes.len();
    let writes = Semaphore::new(syncer.settings.refresh_width());
    let (mut open, mut known) = (0_usize, 0_usize);
    let mut before = syncer.memory.unrefreshed(HashMap::new());
    let had_failures = !before.is_empty();
    let (mut failures, mut news) = (HashMap::new(), 0_usize);
    let mut outcomes = stream::iter(nodes).map(|node| refresh_node(syncer, node, &writes)).buffer_unordered(WINDOW);
    while let Some((name, outcome)) = outcomes.next().await {
        goes_on();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.is_elsewhere() => Refreshed::Elsewhere,
            Err(error) => {
                open += usize::from(error.leaves_open());
                let mut failure = before.remove(&name).unwrap_or_default();
                if std::mem::replace(&mut failure.reaction, error.reaction()) != error.reaction() {
                    news += 1;
                    if news <= MAX_LOGGED {
                        tracing::warn!(node = name, %error, "addresses not refreshed; the host goes on, and says when all are");
                    }
                }
                Box::pin(tell(syncer, &name, &error, &mut failure)).await;
                failures.insert(name, failure);
                Refreshed::Failed
            }
        };
        // What is not this process's to refresh is as good as refreshed.
        known += usize::from(matches!(outcome, Refreshed::Updated | Refreshed::Unchanged | Refreshed::Elsewhere));
        syncer.metrics.refreshed(outcome.as_str());
    }
    let failed = failures.len();
    if news > MAX_LOGGED {
        tracing::warn!(failed, asked, "addresses of more nodes were not refreshed");
    }
    if failed == 0 && had_failures {
        tracing::info!(asked, "addresses of all nodes are refreshed again");
    }
    syncer.memory.unrefreshed(failures);
    // Of several clouds, one that answers must not hide one that does not.
    if open == 0 && (asked == 0 || known > 0) {
        syncer.metrics.last_refresh.set(now_seconds());
    }
    tracing::debug!(asked, failed, "addresses refreshed");
}

/// Tells people at a Node that what it asks for is wrong, once for each reason until it is put right.
async fn tell(syncer: &Syncer, name: &str, error: &SyncError, failure: &mut Unrefreshed) {
    if !error.is_invalid() {
        return;
    }
    let Some(node) = syncer.store.get(&ObjectRef::new(name)) else { return };
    // A provider may call a foreign ID a mistake.
    let is_foreign = syncer.lookups.keeper(provider_id(&node)).is_none();
    if !is_foreign && failure.told.is_news(&error.to_string(), Duration::MAX) {
        syncer.refused(&node, error).await;
    }
}

/// Refreshes one Node, and says which.
pub(crate) async fn refresh_node(
    syncer: &Syncer,
    node: Arc<Node>,
    writes: &Semaphore,
) -> (String, Result<Refreshed, SyncError>) {
    let name = node.name_any();
    let outcome = match syncer.find(&node, Need::Refresh).await {
        Ok(Some(found)) => {
            let written = Box::pin(write(syncer, Arc::clone(&node), &found.addresses, writes)).await;
            if let Err(error) = &written {
                Box::pin(syncer.kept(&node, error)).await;
            }
            written
        }
        Ok(None) => Ok(Refreshed::Absent),
        Err(error) => Err(error),
    };
    (name, outcome)
}

async fn write(
    syncer: &Syncer,
    asked: Arc<Node>,
    addresses: &[ccm_cloud::Address],
    writes: &Semaphore,
) -> Result<Refreshed, SyncError> {
    let _permit = writes.acquire().await;
    // The cloud took its time: the store may have a newer state by now.
    let newest = syncer.store.get(&ObjectRef::new(&asked.name_any()));
    let Some(node) = newest.filter(|newest| newest.uid == asked.uid) else {
        return Ok(Refreshed::Unchanged);
    };
    match syncer.writer.update_addresses(node, addresses).await? {
        Written::Changed(_) => Ok(Refreshed::Updated),
        Written::Nothing | Written::Gone => Ok(Refreshed::Unchanged),
    }
}
