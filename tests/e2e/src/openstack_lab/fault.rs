//! What goes wrong between a test's host and the lab, and when.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Which requests are meant: a method, and a service and path such as `network/v2.0/routers/*` in which a star is a part of the
/// path; an empty text is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Of {
    /// The method.
    pub method: &'static str,
    /// Service and path, without the query.
    pub path: &'static str,
}

impl Of {
    /// Logins at Keystone.
    pub const LOGINS: Self = Self { method: "POST", path: "identity/v3/auth/tokens" };
    /// All requests.
    pub const ALL: Self = Self { method: "", path: "" };

    /// Whether it is this operation, written as in [`Exchange::operation`](super::Exchange::operation).
    #[must_use]
    pub fn is(self, operation: &str) -> bool {
        let (method, path) = operation.split_once(' ').unwrap_or_default();
        (self.method.is_empty() || self.method == method) && (self.path.is_empty() || self.path == path)
    }
}

/// On which side of its effect it happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The lab never sees it.
    Before,
    /// The lab has answered.
    After,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// This status, with a body as OpenStack has for it.
    Answer(u16),
    /// Nothing for so long, then it goes on.
    Delay(Duration),
    /// Nothing until [`Planned::release`].
    Hold,
    /// The connection ends without an answer.
    Hangup,
    /// The connection ends in the middle of the answer's body.
    Truncate,
}

/// A fault for requests: the `first` of those that are meant, counted from 1, and the next ones, `times` in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which requests are counted.
    pub of: Of,
    /// The first that it happens to.
    pub first: usize,
    /// How many it happens to.
    pub times: usize,
    /// On which side of the effect.
    pub when: When,
    /// What happens.
    pub act: Act,
}

impl Fault {
    /// What happens to the next of these requests, before the lab sees it.
    #[must_use]
    pub const fn next(of: Of, act: Act) -> Self {
        Self { of, first: 1, times: 1, when: When::Before, act }
    }

    /// The same to all from now on.
    #[must_use]
    pub const fn every(of: Of, act: Act) -> Self {
        Self { of, first: 1, times: usize::MAX, when: When::Before, act }
    }

    /// The same after the lab has answered.
    #[must_use]
    pub const fn after(self) -> Self {
        Self { when: When::After, ..self }
    }
}

/// A fault that is to come, or has come. It stays when this is dropped.
pub struct Planned {
    struck: watch::Receiver<usize>,
    released: watch::Sender<bool>,
}

impl Planned {
    /// How many requests it has struck.
    #[must_use]
    pub fn struck(&self) -> usize {
        *self.struck.borrow()
    }

    /// Requests that are held go on, and later ones are not held.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

/// Faults as the proxy keeps them.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<Waiting>>);

struct Waiting {
    fault: Fault,
    seen: usize,
    struck: watch::Sender<usize>,
    released: watch::Receiver<bool>,
}

/// What one request meets.
pub(super) struct Due {
    pub(super) when: When,
    pub(super) act: Act,
    released: watch::Receiver<bool>,
}

impl Faults {
    pub(super) fn plan(&self, fault: Fault) -> Planned {
        let (struck, has_struck) = watch::channel(0);
        let (release, released) = watch::channel(false);
        self.0.lock().push(Waiting { fault, seen: 0, struck, released });
        Planned { struck: has_struck, released: release }
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Counts a request for all faults; the first one that is due happens to it.
    pub(super) fn take(&self, operation: &str) -> Option<Due> {
        let mut due = None;
        for waiting in self.0.lock().iter_mut().filter(|waiting| waiting.fault.of.is(operation)) {
            waiting.seen += 1;
            let Fault { first, times, when, act, .. } = waiting.fault;
            if due.is_none() && waiting.seen >= first && waiting.seen - first < times {
                waiting.struck.send_modify(|struck| *struck += 1);
                due = Some(Due { when, act, released: waiting.released.clone() });
            }
        }
        due
    }
}

impl Due {
    /// Waits as long as the fault says.
    pub(super) async fn wait(&mut self) {
        match self.act {
            Act::Delay(time) => tokio::time::sleep(time).await,
            // An error means that nobody is there who could release it.
            Act::Hold => drop(self.released.wait_for(|released| *released).await.is_ok()),
            Act::Answer(_) | Act::Hangup | Act::Truncate => {}
        }
    }
}
