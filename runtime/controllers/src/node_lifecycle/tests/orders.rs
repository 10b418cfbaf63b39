//! All answers of the cloud and all changes of the Node, in every order: a Node is deleted only when it did not exist, twice
//! in a row, and was not Ready at the end.
//!
//! Each step is a pair of what happens to the Node and of what the provider answers next. All sequences of four steps are
//! run, after which the world stands still for three more looks.

use std::time::Duration;

use ccm_cloud::{Failure, FindError, Finding, Instances, Need, Node, Reaction};
use parking_lot::Mutex;
use serde_json::json;

use super::{Bench, lost, ready, unlimited};
use crate::node_lifecycle::NodeLifecycleSettings;
use crate::queue::Verdict;
use crate::testing::found;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    Present,
    Absent,
    Unknown,
    Trap,
    TimeOut,
    TooFew,
    Panic,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    None,
    Ready,
    NotReady,
    /// Deleted and registered again, with a machine; the store sees it at once.
    Again,
    /// The same, but the store sees it only after this look.
    AgainUnseen,
    /// Ready in the API server; the store does not know.
    ReadyUnseen,
}

const ANSWERS: [Mood; 7] =
    [Mood::Present, Mood::Absent, Mood::Unknown, Mood::Trap, Mood::TimeOut, Mood::TooFew, Mood::Panic];
const CHANGES: [Change; 6] =
    [Change::None, Change::Ready, Change::NotReady, Change::Again, Change::AgainUnseen, Change::ReadyUnseen];

/// Answers as it is told, and remembers what it answered about which Node.
struct Moody {
    next: Mutex<Mood>,
    /// UID, what for, and whether the answer was absent.
    given: Mutex<Vec<(String, Need, bool)>>,
}

impl Instances for Moody {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let answer = *self.next.lock();
        let given = |node: &Node| (node.uid.clone(), need, answer == Mood::Absent);
        self.given.lock().extend(nodes.iter().map(given));
        match answer {
            Mood::Present => Ok(nodes.iter().map(|_| found(|_| ())).collect()),
            Mood::Absent => Ok(nodes.iter().map(|_| Finding::Absent).collect()),
            Mood::Unknown => Err(FindError::Failed(Failure::new(Reaction::Retry, "5xx"))),
            Mood::Trap => Err(FindError::Crashed(Failure::new(Reaction::Retry, "unreachable"))),
            Mood::TimeOut => std::future::pending().await,
            Mood::TooFew => Ok(vec![]),
            Mood::Panic => panic!("a bug of the host"),
        }
    }
}

struct World {
    bench: Bench<Moody>,
    births: usize,
}

impl World {
    fn new() -> Self {
        let settings = NodeLifecycleSettings {
            lookup_timeout: Duration::from_secs(2),
            budget: unlimited(),
            ..NodeLifecycleSettings::default()
        };
        let cloud = Moody { next: Mutex::new(Mood::Present), given: Mutex::default() };
        let mut bench = Bench::of(cloud, settings);
        bench.add(lost("node0"));
        Self { bench, births: 0 }
    }

    /// Returns whether the store has to learn of it later.
    fn change(&mut self, change: Change) -> bool {
        let exists = self.bench.api.has("node0");
        match change {
            Change::Ready if exists => self.bench.ready("node0", "True"),
            Change::NotReady if exists => self.bench.ready("node0", "False"),
            Change::ReadyUnseen if exists => {
                self.bench.api.edit("node0", &ready("True"));
                return true;
            }
            Change::Again | Change::AgainUnseen => {
                self.births += 1;
                let node = lost("node0").with("/metadata", "uid", json!(format!("uid-{}", self.births)));
                let node = self.bench.api.add(node.0);
                if change == Change::AgainUnseen {
                    return true;
                }
                self.bench.seen(node);
            }
            _ => {}
        }
        false
    }

    /// One look, as the queue would have it: at the time that the last one asked for.
    async fn look(&mut self, change: Change, answer: Mood) {
        let is_late = self.change(change);
        *self.bench.cloud.next.lock() = answer;
        let before = self.bench.api.has("node0").then(|| self.bench.api.json("node0"));
        let verdict = self.bench.sync("node0").await;
        if let Some(before) = before.filter(|_| !self.bench.api.has("node0")) {
            self.justified(&before);
        }
        if is_late && self.bench.api.has("node0") {
            let node = self.bench.api.node("node0");
            self.bench.seen(node);
        }
        match verdict {
            Verdict::After(wait) => tokio::time::advance(wait).await,
            verdict => assert_eq!(verdict, Verdict::Done),
        }
    }

    /// The Node was deleted: it was not Ready, and its last two answers, about exactly this one, were absent; the last was a
    /// proof.
    fn justified(&self, node: &serde_json::Value) {
        assert_ne!(node["status"]["conditions"][0]["status"], "True", "a Ready Node was deleted");
        let given = self.bench.cloud.given.lock();
        let uid = node["metadata"]["uid"].as_str().unwrap();
        let about: Vec<(Need, bool)> =
            given.iter().filter(|(about, ..)| about == uid).map(|(_, need, absent)| (*need, *absent)).collect();
        assert_eq!(about[about.len().saturating_sub(2)..], [(Need::Existence, true), (Need::Proof, true)]);
    }
}

/// Runs the sequence; says whether a Node was deleted in the end.
async fn run(steps: &[(Change, Mood)]) -> bool {
    let mut world = World::new();
    for (change, answer) in steps {
        world.look(*change, *answer).await;
    }
    !world.bench.api.has("node0")
}

/// One answer in each step, with all that may happen to the Node.
#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_that_exists_or_was_not_absent_twice() {
    let mut deleted = 0;
    let mut runs = 0;
    for first in ANSWERS {
        for second in ANSWERS {
            for third in [Mood::Present, Mood::Absent, Mood::Trap, Mood::TooFew] {
                for at_first in CHANGES {
                    for at_second in CHANGES {
                        let steps = [
                            (Change::None, first),
                            (at_first, second),
                            (at_second, third),
                            (Change::None, Mood::Absent),
                        ];
                        runs += 1;
                        deleted += usize::from(run(&steps).await);
                    }
                }
            }
        }
    }
    assert_eq!(runs, 7_056);
    assert!(deleted > runs / 20, "only {deleted} of {runs} runs put it to the test");
}

/// A pseudo-random walk is long enough to meet what short ones do not. The seed is part of the message.
#[tokio::test(start_paused = true)]
async fn long_walks_delete_nothing_that_exists_either() {
    let mut deletions = vec![];
    for seed in 1..40_u64 {
        let mut state = seed;
        let mut draw = |below: usize| {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(below).unwrap()).unwrap()
        };
        let mut world = World::new();
        for _ in 0..60 {
            // Absent half of the time, and most of the time nothing happens: else nothing would ever be deleted.
            let answer = if draw(2) == 0 { Mood::Absent } else { ANSWERS[draw(ANSWERS.len())] };
            let change = if draw(3) > 0 { Change::None } else { CHANGES[draw(CHANGES.len())] };
            let has = world.bench.api.has("node0");
            let change = if has { change } else { Change::Again };
            world.look(change, answer).await;
        }
        deletions.push(world.bench.api.count("DELETE"));
    }
    assert!(deletions.iter().filter(|count| **count > 0).count() > 30, "they hardly put it to the test: {deletions:?}");
}
