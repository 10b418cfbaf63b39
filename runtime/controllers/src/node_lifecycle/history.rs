//! Deletions from before the start, by this controller's last process or by the last leader. They count against the budget, so that a restart
//! does not begin with a full one. They are read from the [`journal`](super::journal), and from the Events that are written for them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use ccm_apiserver::{ApiError, ApiGate, NODE_EVENTS, Purpose};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

/// Upstream's name of this controller, in Events and in `metadata.managedFields`.
pub(crate) const REPORTER: &str = "cloud-node-lifecycle-controller";

/// Upstream's reason of the Event of each deletion.
pub(crate) const DELETING: &str = "DeletingNode";

/// Annotation of that Event: the provider ID that the Node had, empty when it had none. The Node is gone, and somebody has to know
/// whose it was.
pub(crate) const PROVIDER_ID: &str = "wasm-ccm.io/provider-id";

const LIST: Purpose = Purpose { verb: "list", resource: "events" };

/// A deletion of before the start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Past {
    pub(crate) at: Instant,
    /// UID of the Node.
    pub(crate) uid: String,
    /// What [`PROVIDER_ID`] says; none in Events of versions that did not say it.
    pub(crate) provider_id: Option<String>,
}

/// Which Nodes were deleted within the last `period`, by the Events. Confirmed ones are among them: the Event does not tell.
///
/// # Errors
///
/// The Events cannot be read.
pub(crate) async fn deletions(gate: &ApiGate, period: Duration) -> Result<Vec<Past>, ApiError> {
    let api = Api::<Event>::namespaced(gate.client(), NODE_EVENTS);
    let params = ListParams::default().fields(&format!("reason={DELETING}"));
    let events = gate.read(LIST, api.list(&params)).await?;
    let deletion = |event: Event| {
        let ours = event.reporting_controller.as_deref() == Some(REPORTER) && event.reason.as_deref() == Some(DELETING);
        let provider_id = event.metadata.annotations.and_then(|mut annotations| annotations.remove(PROVIDER_ID));
        let past = Past { at: before_now(event.event_time?.0)?, uid: event.regarding?.uid?, provider_id };
        (ours && past.at.elapsed() < period).then_some(past)
    };
    Ok(events.items.into_iter().filter_map(deletion).collect())
}

/// A time of another process; none where it is longer ago than the clock of this one reaches. One that lies ahead is of a clock that
/// differs: it counts as now.
pub(crate) fn before_now(time: Timestamp) -> Option<Instant> {
    Instant::now().checked_sub(Duration::try_from(Timestamp::now().duration_since(time)).unwrap_or_default())
}

/// Each deletion once, also where it was told in two places, the oldest first.
pub(crate) fn in_order(deletions: impl IntoIterator<Item = Past>) -> Vec<Past> {
    let mut last = BTreeMap::<String, Past>::new();
    for past in deletions {
        match last.entry(past.uid.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(past)),
            Entry::Occupied(mut entry) if entry.get().at < past.at => drop(entry.insert(past)),
            Entry::Occupied(_) => {}
        }
    }
    let mut deletions: Vec<_> = last.into_values().collect();
    deletions.sort();
    deletions
}
