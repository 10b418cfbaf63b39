//! How a test leaves its cluster and its cloud: what is ensured is stable.
//!
//! At its end, each test asks for this, or says why there is work left. A [`Cloud`] fails a test that does neither.

use std::thread;
use std::time::Duration;

use ccm_e2e::planned::{Planned, at_rest};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Cloud;
use super::plan::all;
use crate::stage::Stage;

/// For a host that is still at work: a plan takes a second, and other builds and tests may share the machine.
const SETTLES: Duration = Duration::from_secs(60);

/// Environment and flags.
type Configured = (Vec<(String, String)>, Vec<String>);

/// What a test has said of its end.
#[derive(Default)]
pub(super) struct Ending {
    /// How the last host was configured: environment and flags, as [`start`](super::start) takes them.
    configured: Mutex<Configured>,
    left: Mutex<Option<Left>>,
    /// Requests before the cloud stopped to fail at random.
    asked: Mutex<Option<usize>>,
}

/// How it leaves its cloud.
#[derive(Clone, Copy)]
enum Left {
    /// After so many effects, nothing was left to do.
    Settled(usize),
    /// With work to do.
    Open,
}

impl Cloud {
    /// `wasm-ccm plan --all`, configured as the last host, is empty, without notes: what was ensured is stable. To be asked last, while cluster
    /// and cloud stand; the host may still be at work.
    pub(crate) async fn settled(&self, stage: &Stage) {
        let (planned, effects) = self.await_plan(stage, Planned::is_empty).await;
        assert!(planned.is_empty(), "work is left: {planned:?}");
        *self.ending().left.lock() = Some(Left::Settled(effects));
    }

    /// The same before the first host has run: what a host would only note for itself is no change.
    pub(crate) async fn settled_but_for_notes(&self, stage: &Stage) {
        let (planned, effects) = self.await_plan(stage, Planned::changes_nothing).await;
        assert!(planned.changes_nothing(), "work is left: {planned:?}");
        *self.ending().left.lock() = Some(Left::Settled(effects));
    }

    /// The same where one object waits for a person: there is nothing to write, and the plan says of this one alone that something is not
    /// known, and `why`.
    pub(crate) async fn waits(&self, stage: &Stage, object: &str, why: &str) {
        let waits = |planned: &Planned| {
            let is_known = |(name, plan): &(String, Value)| {
                let says = plan["unknown"].as_str().is_some_and(|unknown| unknown.contains(why));
                name == object && plan["writes"] == json!([]) && says
            };
            (planned.code, planned.error.as_str()) == (Some(3), "")
                && planned.objects().len() == 1
                && planned.objects().iter().all(is_known)
        };
        let (planned, effects) = self.await_plan(stage, waits).await;
        assert!(waits(&planned), "{object} does not wait alone, for {why:?}: {planned:?}");
        *self.ending().left.lock() = Some(Left::Settled(effects));
    }

    /// There is work left, or nobody to ask: `why`.
    pub(crate) fn unsettled(&self, why: &str) {
        assert!(!why.is_empty());
        *self.ending().left.lock() = Some(Left::Open);
    }

    /// This is how the last host was configured.
    pub(super) fn configured_with(&self, environment: &[(&str, &str)], flags: &[&str]) {
        let environment = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        *self.ending().configured.lock() = (environment, flags.iter().map(|&flag| flag.to_owned()).collect());
    }

    /// Requests that could be struck by faults at random.
    pub(super) fn asked(&self) -> usize {
        self.ending().asked.lock().unwrap_or_else(|| self.exchanges().len())
    }

    /// The first plan that is this, else the last one that was made; and how many effects the cloud had then.
    async fn await_plan(&self, stage: &Stage, is_wanted: impl Fn(&Planned) -> bool) -> (Planned, usize) {
        let asked = self.asked();
        self.ending().asked.lock().get_or_insert(asked);
        // What is stable is to be seen; a plan that does not know is none.
        let mut faults = None;
        self.set(|settings| faults = settings.faults.take());
        let (environment, flags) = self.ending().configured.lock().clone();
        let environment: Vec<_> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let plan = || all(stage, self, &environment, &flags);
        let planned = at_rest(SETTLES, || self.counters().effects, plan, is_wanted).await;
        self.set(|settings| settings.faults = faults);
        planned
    }

    /// Fails a test that has not said how it leaves its cloud, or has changed it since.
    pub(super) fn check_ending(&self) {
        if thread::panicking() {
            return;
        }
        match *self.ending().left.lock() {
            None => panic!("ask for `cloud.settled(&stage)` at the end of the test, or say `cloud.unsettled(why)`"),
            Some(Left::Settled(effects)) => {
                assert_eq!(effects, self.counters().effects, "the cloud has changed after the test had come to rest");
            }
            Some(Left::Open) => {}
        }
    }
}

#[tokio::test]
#[should_panic(expected = "ask for `cloud.settled(&stage)`")]
async fn a_test_that_does_not_say_how_it_leaves_its_cloud_fails() {
    drop(Cloud::calm().await);
}
