//! Names that only one call at a time may hold.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// All names that somebody holds or waits for.
#[derive(Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashMap<String, Lock>>>);

/// Holds its names until it is dropped.
pub(crate) struct Held {
    locks: Locks,
    names: BTreeSet<String>,
    guards: Vec<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Waits until it holds all `names`. Names are taken in their order, so that two who want the same ones never wait for
    /// each other; whoever came first is served first.
    pub(crate) async fn hold(&self, names: BTreeSet<String>) -> Held {
        let mut held = Held { locks: self.clone(), names, guards: Vec::new() };
        for name in &held.names {
            let lock = Arc::clone(self.0.lock().entry(name.clone()).or_default());
            held.guards.push(lock.lock_owned().await);
        }
        held
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guards.clear();
        let mut locks = self.locks.0.lock();
        for name in &self.names {
            // Nobody but the map has it: whoever waits has a copy.
            if locks.get(name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                locks.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn names_in_common_wait_others_do_not_and_nobody_waits_for_ever() {
        let locks = Locks::default();
        let begun = Instant::now();
        let work = async |wanted: &[&str]| {
            let _held = locks.hold(names(wanted)).await;
            sleep(Duration::from_secs(1)).await;
            begun.elapsed().as_secs()
        };
        let ends = tokio::join!(work(&["a", "b"]), work(&["b", "a"]), work(&["c"]), work(&["b"]), work(&[]));
        // The second one does not ask for `b` before it has `a`.
        assert_eq!(ends, (1, 3, 1, 2, 1));
        assert_eq!(locks.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_waiting_leaves_nothing_behind() {
        let locks = Locks::default();
        let held = locks.hold(names(&["b"])).await;
        let waiting = locks.hold(names(&["a", "b"]));
        assert!(timeout(Duration::from_secs(1), waiting).await.is_err());
        let free = timeout(Duration::from_secs(1), locks.hold(names(&["a"]))).await;
        assert!(free.is_ok(), "what it had is free again");
        drop((free, held));
        assert_eq!(locks.len(), 0);
    }
}
