//! Whether a dry run looks at this moment, since when, and which call it waits for: for the status page and `/healthz/dry-run`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Descriptor;
use ccm_controllers::{Pulse, Pulses};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::dry_run::LOOPS;
use crate::report::plain;

/// What a dry run does at this moment. Cheap to clone.
#[derive(Clone, Default)]
pub struct Looking(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the look began that runs.
    since: Option<(Timestamp, Instant)>,
    /// Calls of providers that run, in the order in which they began.
    calls: BTreeMap<u64, Call>,
    begun: u64,
    /// Beats with each of them, where somebody watches.
    pulse: Option<Arc<Pulse>>,
}

impl State {
    fn goes_on(&self) {
        if let Some(pulse) = &self.pulse {
            pulse.beat();
        }
    }
}

struct Call {
    operation: &'static str,
    provider: Arc<Descriptor>,
    begun: Instant,
}

/// A call that runs.
struct Running(Looking, u64);

/// A look that runs. It ends when this is dropped.
pub struct Begun(Looking);

impl Looking {
    /// A look begins.
    #[must_use]
    pub fn begins(&self) -> Begun {
        self.0.lock().since = Some((Timestamp::now(), Instant::now()));
        Begun(self.clone())
    }

    /// The same, and says with each call that begins or ends that it goes on.
    pub(crate) fn begins_watched(&self, pulse: &Arc<Pulse>) -> Begun {
        self.0.lock().pulse = Some(Arc::clone(pulse));
        self.begins()
    }

    /// Does a call of a provider.
    pub(crate) async fn during<T>(
        &self,
        operation: &'static str,
        provider: Arc<Descriptor>,
        call: impl Future<Output = T>,
    ) -> T {
        let number = {
            let mut state = self.0.lock();
            state.begun = state.begun.wrapping_add(1);
            let number = state.begun;
            state.goes_on();
            state.calls.insert(number, Call { operation, provider, begun: Instant::now() });
            number
        };
        let _running = Running(self.clone(), number);
        call.await
    }

    /// Since when it looks, for people, and which call it waits for; none between two looks.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let state = self.0.lock();
        let (since, begun) = state.since?;
        // The last one: whoever looks waits no longer for a lookup that has had its time, and that may still run.
        let waits = state.calls.values().next_back().map(|Call { operation, provider, begun }| {
            format!(", waiting for {operation} of {} for {}", plain(&provider.name), told(begun.elapsed()))
        });
        Some(format!("looking since {since:.0}, for {}{}", told(begun.elapsed()), waits.unwrap_or_default()))
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

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.calls.remove(&self.1);
        state.goes_on();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        (state.since, state.pulse) = (None, None);
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
    async fn the_call_that_began_last_is_named_until_it_ends() {
        let looking = Looking::default();
        let _begun = looking.begins();
        let call = async |operation: &'static str, name: &str, seconds: u64| {
            let provider = Arc::new(Descriptor { name: name.to_owned(), ..Descriptor::default() });
            looking.during(operation, provider, tokio::time::sleep(Duration::from_secs(seconds))).await;
        };
        let told = async {
            let mut ends = vec![];
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(61)).await;
                ends.push(looking.line().unwrap().split_once("Z, for ").unwrap().1.to_owned());
            }
            ends
        };
        let calls = async { tokio::join!(call("find", "red", 160), call("get", "blue", 100)) };
        let (ends, _) = tokio::join!(told, calls);
        let wanted = ["61 s, waiting for get of blue for 61 s", "2 min, waiting for find of red for 2 min", "3 min"];
        assert_eq!(ends, wanted);
        assert!(tokio::time::timeout(Duration::from_secs(5), call("find", "red", 9)).await.is_err());
        assert!(looking.line().unwrap().ends_with("Z, for 3 min"), "it was dropped");
    }

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
