//! Whether the loops of the controllers turn.
//!
//! Each loop says so itself, within a period that it names, also when it has nothing to do. A loop that does not is stuck: nothing that it
//! waits for takes so long, since all of that has limits of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often an idle queue says that it turns.
pub(crate) const QUEUE_PERIOD: Duration = Duration::from_secs(10);

struct Turn {
    last: Instant,
    pace: Pace,
    /// Which of the loops with this name it is.
    number: u64,
}

/// How often a loop turns.
#[derive(Debug, Clone, Copy)]
struct Pace {
    period: Duration,
    /// Besides, how long it may wait for one thing.
    wait: Duration,
}

impl Pace {
    const fn limit(self, periods: u32) -> Duration {
        self.period.saturating_mul(periods).saturating_add(self.wait)
    }
}

/// The loops of this process that run, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pulses(Arc<Mutex<Turns>>);

#[derive(Default)]
struct Turns {
    begun: u64,
    running: HashMap<&'static str, Turn>,
}

impl Pulses {
    /// A loop that begins now and turns at least once in each `period`.
    #[must_use]
    pub fn begin(&self, name: &'static str, period: Duration) -> Pulse {
        self.begin_waiting(name, period, Duration::ZERO)
    }

    /// The same of a loop that turns with each thing that it waits for, of which each has a limit of its own: `wait` at most. However many periods
    /// count, it waits for one of them at a time.
    #[must_use]
    pub fn begin_waiting(&self, name: &'static str, period: Duration, wait: Duration) -> Pulse {
        let mut turns = self.0.lock();
        turns.begun = turns.begun.wrapping_add(1);
        let number = turns.begun;
        turns.running.insert(name, Turn { last: Instant::now(), pace: Pace { period, wait }, number });
        Pulse { name, number, pulses: self.clone() }
    }

    /// Why a loop with one of these names is stuck: it has not turned for more than so many of its periods. None of them need run.
    ///
    /// # Errors
    ///
    /// Names the loop.
    pub fn check(&self, names: &[&str], periods: u32) -> Result<(), String> {
        let now = Instant::now();
        for (name, turn) in self.0.lock().running.iter().filter(|(name, _)| names.contains(name)) {
            let (silent, limit) = (now.saturating_duration_since(turn.last), turn.pace.limit(periods));
            if silent > limit {
                return Err(format!(
                    "its loop {name} has not turned for {} s; the limit is {} s (--controller-watchdog-periods)",
                    silent.as_secs(),
                    limit.as_secs()
                ));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Pulses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().running.keys()).finish()
    }
}

/// A loop that runs. Dropping it says that the loop has ended.
///
/// Whatever still has that of a loop that began before another one of the same name says nothing about that other one: a client, for example,
/// is dropped by tasks of its own, some time after its loop.
#[derive(Debug)]
pub struct Pulse {
    name: &'static str,
    number: u64,
    pulses: Pulses,
}

impl Pulse {
    /// The loop turns.
    pub fn beat(&self) {
        if let Some(turn) = self.pulses.0.lock().running.get_mut(self.name).filter(|turn| turn.number == self.number) {
            turn.last = Instant::now();
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        let mut turns = self.pulses.0.lock();
        if turns.running.get(self.name).is_some_and(|turn| turn.number == self.number) {
            turns.running.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use prometheus_client::registry::Registry;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::metrics::QueueMetrics;
    use crate::queue::{self, QueueSettings, Verdict};

    const S: Duration = Duration::from_secs(1);
    const PERIODS: u32 = 6;

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_does_not_turn_is_noticed_after_its_periods_and_one_without_work_is_not() {
        let metrics = QueueMetrics::register(&mut Registry::default());
        let (pulses, stop) = (metrics.pulses(), CancellationToken::new());
        let (_sender, keys) = mpsc::channel::<String>(1);
        let reconcile = async |_: String| Verdict::Done;
        let reconcile = |key: String| Box::pin(reconcile(key));
        let queue = queue::run(keys, reconcile, QueueSettings::default(), metrics.of("Nodes"), stop.clone());
        let mut queue = std::pin::pin!(queue);
        assert_eq!(pulses.check(&["Nodes"], PERIODS), Ok(()), "it has not begun");
        // It has nothing to do for an hour.
        for _ in 0..60 {
            assert!(tokio::time::timeout(60 * S, queue.as_mut()).await.is_err());
            assert_eq!(pulses.check(&["Nodes"], PERIODS), Ok(()));
        }
        // Nobody lets it turn.
        tokio::time::advance(60 * S).await;
        assert_eq!(pulses.check(&["Nodes"], PERIODS), Ok(()));
        tokio::time::advance(S).await;
        let told = "its loop Nodes has not turned for 61 s; the limit is 60 s (--controller-watchdog-periods)";
        assert_eq!(pulses.check(&["service", "Nodes"], PERIODS), Err(told.to_owned()));
        assert_eq!(pulses.check(&["Nodes"], PERIODS + 1), Ok(()));
        assert_eq!(pulses.check(&["service"], PERIODS), Ok(()), "that of another controller");
        assert!(poll!(queue.as_mut()).is_pending());
        assert_eq!(pulses.check(&["Nodes"], PERIODS), Ok(()), "it turns again");
        stop.cancel();
        queue.await.unwrap();
        tokio::time::advance(3_600 * S).await;
        assert_eq!(pulses.check(&["Nodes"], PERIODS), Ok(()), "it has ended, and is not stuck");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_of_a_loop_hides_nothing_of_the_next_one_with_its_name() {
        let pulses = Pulses::default();
        let check = || pulses.check(&["looks"], PERIODS).is_ok();
        let left = pulses.begin("looks", S);
        let next = pulses.begin("looks", S);
        tokio::time::advance(7 * S).await;
        left.beat();
        assert!(!check(), "the next one has not turned");
        drop(left);
        assert!(!check(), "nor has it ended");
        next.beat();
        assert!(check());
        drop(next);
        tokio::time::advance(7 * S).await;
        assert!(check(), "it has ended");
    }
}
