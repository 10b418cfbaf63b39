//! What goes wrong between a test's host and the lab, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Which requests are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// All.
    All,
    /// Those that are to change something at the cloud. A login is no change.
    Writes,
    /// Those with this method, service and path, in which every ID is a star: `PUT network/v2.0/routers/*`.
    Operation(&'static str),
}

impl Of {
    /// Logins at Keystone.
    pub const LOGINS: Self = Self::Operation("POST identity/v3/auth/tokens");

    /// Whether it is this operation, written as in [`Exchange::operation`](super::Exchange::operation).
    #[must_use]
    pub fn is(self, operation: &str) -> bool {
        match self {
            Self::All => true,
            Self::Writes => !operation.starts_with("GET ") && !operation.contains(" identity/"),
            Self::Operation(meant) => operation == meant,
        }
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
    /// Whether every operation is counted by itself: the same happens to each of them.
    pub each: bool,
    /// On which side of the effect.
    pub when: When,
    /// What happens.
    pub act: Act,
}

impl Fault {
    /// What happens to the next of these requests, before the lab sees it.
    #[must_use]
    pub const fn next(of: Of, act: Act) -> Self {
        Self { of, first: 1, times: 1, each: false, when: When::Before, act }
    }

    /// The same to all from now on.
    #[must_use]
    pub const fn every(of: Of, act: Act) -> Self {
        Self { of, first: 1, times: usize::MAX, each: false, when: When::Before, act }
    }

    /// The same to the `first` of them.
    #[must_use]
    pub const fn at(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// The same to every operation.
    #[must_use]
    pub const fn each(self) -> Self {
        Self { each: true, ..self }
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
    seen: BTreeMap<String, usize>,
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
        self.0.lock().push(Waiting { fault, seen: BTreeMap::new(), struck, released });
        Planned { struck: has_struck, released: release }
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Counts a request for all faults; the first one that is due happens to it.
    pub(super) fn take(&self, operation: &str) -> Option<Due> {
        let mut due = None;
        for waiting in self.0.lock().iter_mut().filter(|waiting| waiting.fault.of.is(operation)) {
            let Fault { first, times, each, when, act, .. } = waiting.fault;
            let seen = waiting.seen.entry(if each { operation.to_owned() } else { String::new() }).or_default();
            *seen += 1;
            if due.is_none() && *seen >= first && *seen - first < times {
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
