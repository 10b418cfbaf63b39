//! Traces (`--trace-otlp`): who hears of spans, and who sends them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_cli::RunArgs;
use ccm_rollout::host_pod;
use ccm_traces::{Identity, Sender, Settings, TraceLayer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long the end of a process waits for a collector. The Lease is handed on already.
const LAST_BATCH: Duration = Duration::from_secs(2);

/// What is sent where; none where the operator wants no traces.
///
/// # Errors
///
/// Names the variable that cannot be used.
pub(crate) fn open(args: &RunArgs) -> Result<Option<(TraceLayer, Sender)>> {
    if !args.trace_otlp {
        return Ok(None);
    }
    let variable = |name: &str| std::env::var(name).ok();
    let Some(settings) = Settings::read(variable).context("--trace-otlp")? else { return Ok(None) };
    let pod = host_pod(variable).unwrap_or_default();
    let identity = Identity {
        cluster: args.cluster_name.clone(),
        namespace: pod.namespace.unwrap_or_default(),
        pod: pod.name.unwrap_or_default(),
    };
    ccm_traces::open(settings, &identity).context("--trace-otlp").map(Some)
}

/// Sends while the process runs. No task of the process depends on it: one that panics ends nothing.
pub(crate) struct Sending {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Begins.
    pub(crate) fn start(sender: Sender) -> Self {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tracing::info!(endpoint = sender.endpoint(), "traces are sent");
        tasks.spawn(sender.run(stop.clone()));
        Self { tasks, stop }
    }

    /// Sends what still waits, for [`LAST_BATCH`] at most.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        drop(tokio::time::timeout(LAST_BATCH, self.tasks.join_next()).await);
    }
}
