//! Counts the calls of a provider, and those without an answer.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::CallError;

/// Whoever may write Services can make a guest judge them, and crash: this function does not count.
pub(crate) const VALIDATE: &str = "load-balancers.validate";

/// Counts; they wrap around.
#[derive(Default)]
pub(crate) struct Tally {
    calls: AtomicU32,
    crashes: AtomicU32,
    last: Mutex<String>,
}

impl Tally {
    /// A call is over. One that waited too long is no crash: the cloud may be slow. Nor is one that found no memory: others may have it.
    pub(crate) fn ended(&self, function: &'static str, error: Option<&CallError>) {
        if function == VALIDATE {
            return;
        }
        if let Some(error) = error.filter(|error| !matches!(error, CallError::OutOfTime(_) | CallError::OutOfRoom(..)))
        {
            *self.last.lock() = format!("{function}: {error}");
            self.crashes.fetch_add(1, Ordering::Relaxed);
        }
        // After the crash, so that no reader sees more crashes than calls.
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// All calls, and those without an answer.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let crashes = self.crashes.load(Ordering::Relaxed);
        (self.calls.load(Ordering::Relaxed), crashes)
    }

    /// The last call without an answer, in words.
    pub(crate) fn last_crash(&self) -> String {
        self.last.lock().clone()
    }
}
