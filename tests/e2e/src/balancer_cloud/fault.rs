//! What goes wrong, and when: for a test that ends the host at every step.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::watch;

use super::Kind;

/// Which requests are counted until the one that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// All.
    All,
    /// Those that change something.
    Writes,
    /// Those of a kind.
    Of(Kind),
}

impl Requests {
    const fn has(self, kind: Kind) -> bool {
        match self {
            Self::All => true,
            Self::Writes => kind.is_write(),
            // Kinds have no `==` in a constant function.
            Self::Of(own) => own as u8 == kind as u8,
        }
    }
}

/// On which side of the effect it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The request has had no effect.
    Before,
    /// The request has had its effect, and nobody knows.
    After,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// No answer until [`Planned::release`]. A client that goes away takes its request along: one that is held before its
    /// effect never has it.
    Hold,
    /// This status instead of the answer.
    Answer(u16),
    /// The connection ends without an answer.
    Hangup,
}

/// A fault for one request, the `nth` of these from now, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What is counted.
    pub of: Requests,
    /// Which one of them.
    pub nth: usize,
    /// On which side of its effect.
    pub when: When,
    /// What happens to it.
    pub act: Act,
}

/// A fault that is to come, or has come.
pub struct Planned {
    reached: watch::Receiver<bool>,
    released: watch::Sender<bool>,
}

impl Planned {
    /// Waits until its request is there, and, where it is for after the effect, has had that.
    ///
    /// # Errors
    ///
    /// No such request came within `limit`.
    pub async fn reached(&mut self, limit: Duration) -> Result<()> {
        let waited = tokio::time::timeout(limit, self.reached.wait_for(|reached| *reached)).await;
        waited.with_context(|| format!("the request did not come within {limit:?}"))?.context("the cloud is gone")?;
        Ok(())
    }

    /// Waits until its request is over: answered, or gone with its client.
    ///
    /// # Errors
    ///
    /// It was not within `limit`.
    pub async fn over(&mut self, limit: Duration) -> Result<()> {
        // The other end goes with the request.
        let waited = tokio::time::timeout(limit, self.reached.wait_for(|_| false)).await;
        waited.map(drop).with_context(|| format!("the request was not over within {limit:?}"))
    }

    /// Whether its request is there already.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        *self.reached.borrow()
    }

    /// A request that is held goes on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

/// A fault as the cloud keeps it.
pub(super) struct Waiting {
    fault: Fault,
    reached: watch::Sender<bool>,
    released: watch::Receiver<bool>,
}

pub(super) fn plan(fault: Fault) -> (Waiting, Planned) {
    let (reached, is_reached) = watch::channel(false);
    let (release, released) = watch::channel(false);
    (Waiting { fault, reached, released }, Planned { reached: is_reached, released: release })
}

/// The fault for this request, taken out of those that wait. Counts it for the others.
pub(super) fn take(waiting: &mut Vec<Waiting>, kind: Kind) -> Option<Waiting> {
    let mut due = None;
    for (place, waiting) in waiting.iter_mut().enumerate() {
        if waiting.fault.of.has(kind) {
            waiting.fault.nth = waiting.fault.nth.saturating_sub(1);
            if waiting.fault.nth == 0 && due.is_none() {
                due = Some(place);
            }
        }
    }
    due.map(|place| waiting.remove(place))
}

/// What stands in place of the answer.
pub(super) enum Instead {
    Status(u16),
    Nothing,
}

impl Waiting {
    /// Lets it happen when it is for this side of the effect. None: the request goes on.
    pub(super) async fn strike(&mut self, when: When) -> Option<Instead> {
        if self.fault.when != when {
            return None;
        }
        self.reached.send_replace(true);
        match self.fault.act {
            Act::Hold => {
                // An error means that nobody is there any more to release it.
                if self.released.wait_for(|released| *released).await.is_err() {
                    std::future::pending::<()>().await;
                }
                None
            }
            Act::Answer(status) => Some(Instead::Status(status)),
            Act::Hangup => Some(Instead::Nothing),
        }
    }
}
