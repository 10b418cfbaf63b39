//! Whether a dry run looks at this moment, and since when: for the status page and `/healthz/dry-run`.

use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::Pulses;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::dry_run::LOOPS;

/// What a dry run does at this moment. Cheap to clone.
#[derive(Clone, Default)]
pub struct Looking(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the look began that runs.
    since: Option<(Timestamp, Instant)>,
}

/// A look that runs. It ends when this is dropped.
pub struct Begun(Looking);

impl Looking {
    /// A look begins.
    #[must_use]
    pub fn begins(&self) -> Begun {
        self.0.lock().since = Some((Timestamp::now(), Instant::now()));
        Begun(self.clone())
    }

    /// Since when it looks, for people; none between two looks.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let (since, begun) = self.0.lock().since?;
        Some(format!("looking since {since:.0}, for {}", told(begun.elapsed())))
    }

    /// Why a dry run is stuck: its loop has not turned for more than so many of its periods.
    ///
    /// # Errors
    ///
    /// Says what it does.
    pub fn check(&self, pulses: &Pulses, periods: u32) -> Result<(), String> {
        pulses.check(LOOPS, periods).map_err(|why| match self.line() {
            Some(line) => format!("{why}; {line}"),
            None => why,
        })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.lock().since = None;
    }
}

fn told(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_says_since_when_it_runs_and_nothing_is_said_between_two() {
        let looking = Looking::default();
        for (after, time) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "119 min"), (86_400, "24 h")] {
            assert_eq!(looking.line(), None);
            let begun = looking.begins();
            tokio::time::advance(Duration::from_secs(after)).await;
            let line = looking.line().unwrap();
            assert!(line.starts_with("looking since 20") && line.ends_with(&format!("Z, for {time}")), "{line}");
            drop(begun);
        }
    }
}
