//! Requests that wait for their turn, the most urgent first.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::settings::{Class, PerClass};

/// The class first, then the order of arrival.
pub(super) type Number = (Class, u64);

/// Waiting requests. Only the first one may go, and it wakes the next one when it leaves.
#[derive(Default)]
pub(super) struct WaitQueue {
    waiting: BTreeMap<Number, Arc<Notify>>,
    next: u64,
}

impl WaitQueue {
    pub(super) fn join(&mut self, class: Class) -> (Number, Arc<Notify>) {
        let number = (class, self.next);
        self.next = self.next.wrapping_add(1);
        let wake = Arc::new(Notify::new());
        self.waiting.insert(number, Arc::clone(&wake));
        (number, wake)
    }

    pub(super) fn leave(&mut self, number: Number) {
        let was_first = self.is_first(number);
        self.waiting.remove(&number);
        if was_first {
            self.wake_first();
        }
    }

    pub(super) fn is_first(&self, number: Number) -> bool {
        self.waiting.first_key_value().is_some_and(|(first, _)| *first == number)
    }

    /// How many requests would go before a new one of `class`.
    pub(super) fn ahead(&self, class: Class) -> usize {
        self.waiting.range(..=(class, u64::MAX)).count()
    }

    pub(super) fn wake_first(&self) {
        if let Some((_, wake)) = self.waiting.first_key_value() {
            wake.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        for wake in self.waiting.values() {
            wake.notify_one();
        }
    }

    pub(super) fn count(&self) -> PerClass<usize> {
        let mut count = PerClass::default();
        for (class, _) in self.waiting.keys() {
            match class {
                Class::Write => count.write += 1,
                Class::Initialise => count.initialise += 1,
                Class::Refresh => count.refresh += 1,
            }
        }
        count
    }
}
