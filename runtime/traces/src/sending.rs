//! The sender at work, from the begin of the process to its end.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::sender::Sender;

/// How long the end of a process waits for a collector. The Lease is handed on already.
const LAST_BATCH: Duration = Duration::from_secs(2);

/// Sends while the process runs. No task of the process depends on it: one that panics ends nothing.
pub struct Sending {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Sending {
    /// Begins.
    pub fn start(sender: Sender) -> Self {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tracing::info!(endpoint = sender.endpoint(), "traces are sent");
        tasks.spawn(sender.run(stop.clone()));
        Self { tasks, stop }
    }

    /// Sends what still waits, for 2 s at most.
    pub async fn end(mut self) {
        self.stop.cancel();
        drop(tokio::time::timeout(LAST_BATCH, self.tasks.join_next()).await);
    }
}
