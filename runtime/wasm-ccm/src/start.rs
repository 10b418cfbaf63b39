//! Starts the controllers: what they share, and what each takes from the command line.

mod node;
mod node_lifecycle;

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{BatchSettings, Batcher, Lookups, Member};
use ccm_controllers::{EventRecorder, FirstList, Metrics, Reflector, WriteGate};
use ccm_sandbox::Provider;
use k8s_openapi::api::core::v1::Node;

use crate::cli::RunArgs;
use crate::controller_names::{Controller, Selection};
use crate::serve::Readiness;
use crate::tasks::Tasks;

/// How many calls, one after the other, a lookup may wait for.
const LOOKUP_CALLS: u32 = 5;

/// Name of what must be true of the Nodes before the process is ready.
pub(crate) const NODES: &str = "nodes";

/// What controllers share.
pub(crate) struct Shared<'a> {
    args: &'a RunArgs,
    providers: Vec<Arc<Provider>>,
    lookups: Lookups,
    /// How long one lookup may take, with its waiting.
    lookup_timeout: Duration,
    gate: WriteGate,
    recorder: EventRecorder,
    metrics: Metrics,
    readiness: Readiness,
}

impl<'a> Shared<'a> {
    /// Puts the providers behind one question.
    pub(crate) fn new(
        tasks: &mut Tasks,
        args: &'a RunArgs,
        providers: Vec<Arc<Provider>>,
        gate: WriteGate,
        recorder: EventRecorder,
        metrics: Metrics,
        readiness: Readiness,
    ) -> Self {
        let batches = BatchSettings {
            max_nodes: args.lookup_batch_nodes,
            max_calls: args.lookup_batch_calls,
            linger: args.lookup_batch_linger,
        };
        let member = |provider: &Arc<Provider>| {
            let schemes = provider.descriptor().provider_id_schemes.clone();
            let (batcher, work) = Batcher::new(Arc::clone(provider), batches);
            // Its calls may take as long as they may: the end of the process does not wait for them.
            tasks.spawn_background("node lookups", work);
            Member { schemes, batcher }
        };
        let lookups = Lookups::new(providers.iter().map(member).collect());
        let call_time = providers.iter().map(|provider| provider.call_time()).max().unwrap_or_default();
        let lookup_timeout = call_time.saturating_mul(LOOKUP_CALLS);
        Self { args, providers, lookups, lookup_timeout, gate, recorder, metrics, readiness }
    }
}

/// Starts those that were asked for.
pub(crate) fn controllers(tasks: &mut Tasks, shared: &Shared<'_>, selection: &Selection, mut nodes: Reflector<Node>) {
    if !selection.watches_nodes() {
        return;
    }
    if selection.has(Controller::Node) {
        node::start(tasks, shared, &mut nodes);
    }
    if selection.has(Controller::NodeLifecycle) {
        node_lifecycle::start(tasks, shared, &mut nodes);
    }
    let readiness = follow(nodes.first_list(), shared.readiness.clone());
    let stop = tasks.stop.clone();
    tasks.spawn_controller("readiness of Nodes", async move {
        stop.run_until_cancelled(readiness).await;
        stop.cancelled().await;
    });
    let stop = tasks.stop.clone();
    tasks.spawn_controller("reflector of Nodes", nodes.run(stop));
}

/// Says how the list of Nodes stands until it is complete.
async fn follow(mut first_list: FirstList, readiness: Readiness) {
    while let Err(why) = first_list.state() {
        readiness.set(NODES, Err(why));
        if !first_list.changed().await {
            // The reflector is gone, which the process notices by itself.
            return;
        }
    }
    readiness.set(NODES, Ok(()));
}
