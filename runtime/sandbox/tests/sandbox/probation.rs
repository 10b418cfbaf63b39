//! A new provider proves itself with machines, or the last good one returns.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{FindError, Finding, Instances as _, Need, Node, Reaction};
use ccm_sandbox::{Phase, ProbationSettings, Provider, Slot};
use tokio::task::JoinSet;

use crate::rig::{Record, map, node};
use crate::successor::{Works, answers, faults, find, finder, generation, is_on_probation, rolled_back};

/// The version that serves, whatever it would answer.
fn serving(slot: &Slot) -> String {
    slot.provider().descriptor().version.clone()
}

#[tokio::test]
async fn a_provider_is_proven_when_it_has_answered_often_enough_and_long_enough() {
    let works = Works::new();
    let settings = ProbationSettings { time: Duration::from_secs(60), calls: 3, faults: 1 };
    let slot = works.slot("good", "good", settings).await;
    tokio::time::pause();
    for _ in 0..5 {
        assert_eq!(answers(&slot).await, "2");
    }
    assert!(is_on_probation(&slot), "its time is not over");
    tokio::time::advance(Duration::from_secs(59)).await;
    answers(&slot).await;
    assert!(is_on_probation(&slot));
    tokio::time::advance(Duration::from_secs(1)).await;
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);

    let slot = works.slot("good", "good", settings).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    answers(&slot).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    answers(&slot).await;
    assert!(is_on_probation(&slot), "it was hardly ever asked");
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
}

/// Nodes that are well ask for nothing for minutes, and the state folder waits for who is proven.
#[tokio::test]
async fn a_probation_is_over_when_its_time_is_though_nobody_asks_anything_then() {
    let works = Works::new();
    let settings = ProbationSettings { time: Duration::from_secs(60), calls: 2, faults: 1 };
    let slot = Arc::new(works.slot("good", "good", settings).await);
    tokio::time::pause();
    let mut phases = slot.phases();
    let followed = Arc::clone(&slot);
    let mut following = JoinSet::new();
    following.spawn(async move { followed.follow().await });
    answers(&slot).await;
    assert!(
        tokio::time::timeout(Duration::from_secs(600), phases.changed()).await.is_err(),
        "it was hardly ever asked"
    );

    slot.exchange(works.version("3", "good").await, settings);
    phases.mark_unchanged();
    for _ in 0..2 {
        answers(&slot).await;
    }
    assert!(tokio::time::timeout(Duration::from_secs(59), phases.changed()).await.is_err());
    tokio::time::timeout(Duration::from_secs(2), phases.changed()).await.unwrap().unwrap();
    assert_eq!(*phases.borrow(), Phase::Proven);
}

/// A standby loads what the leader loads, and makes no calls with it: an hour without any says nothing.
#[tokio::test]
async fn the_time_of_a_probation_begins_with_the_first_call() {
    let works = Works::new();
    let minute = ProbationSettings { time: Duration::from_secs(60), calls: 2, faults: 1 };
    let slot = works.slot("good", "good", minute).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    for _ in 0..5 {
        assert_eq!(answers(&slot).await, "2");
        assert!(is_on_probation(&slot));
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
}

#[tokio::test]
async fn a_provider_that_gives_no_answers_goes_after_so_many_and_the_last_good_one_answers_meanwhile() {
    let works = Works::new();
    for (behaviour, why) in [
        ("trap", "3 of its first 3 calls gave no answer, the last: instances.find: the provider crashed"),
        ("loop", "3 of its first 3 calls gave no answer, the last: instances.find: more than 200ms of computing"),
        ("too-few", "3 of its first 3 calls gave no answer, the last: instances.find: the provider's answer breaks"),
    ] {
        let slot = works.slot("good", behaviour, faults(3)).await;
        for _ in 0..2 {
            assert_eq!(answers(&slot).await, "1", "{behaviour}");
            assert!(is_on_probation(&slot), "{behaviour}");
            assert_eq!(serving(&slot), "2", "{behaviour}");
        }
        assert_eq!(answers(&slot).await, "1", "{behaviour}");
        assert!(rolled_back(&slot).starts_with(why), "{behaviour}: {}", rolled_back(&slot));
        assert_eq!((serving(&slot), generation(&slot)), ("1".to_owned(), 3), "{behaviour}");
        assert_eq!(slot.last_good().unwrap().descriptor().version, "1");
        assert_eq!(answers(&slot).await, "1", "{behaviour}");
        assert_eq!(generation(&slot), 3, "{behaviour}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_find_what_the_last_good_one_finds_goes() {
    let works = Works::new();
    for (behaviour, last) in [
        ("absent", "it does not find the machine of Node b"),
        ("unknown", "Node b: the machine cannot be told on purpose"),
        ("elsewhere", "Node b: the machine is another cloud's on purpose"),
    ] {
        let slot = works.slot("good", behaviour, faults(2)).await;
        assert_eq!(answers(&slot).await, "1", "{behaviour}");
        assert!(is_on_probation(&slot), "{behaviour}");
        assert_eq!(answers(&slot).await, "1", "{behaviour}");
        let why =
            format!("2 of its first 2 calls failed where the one before did not, the last: instances.find: {last}");
        assert!(rolled_back(&slot).starts_with(&why), "{behaviour}: {}", rolled_back(&slot));
        assert_eq!(serving(&slot), "1", "{behaviour}");
    }
}

#[tokio::test]
async fn a_machine_is_absent_only_when_both_say_so() {
    let works = Works::new();
    let absent = works.version("2", "absent").await;
    let after = |one: Arc<Provider>| {
        let slot = Slot::new(one, None);
        slot.exchange(Arc::clone(&absent), faults(1));
        slot
    };
    let (agrees, good) = (works.version("1", "absent").await, works.version("1", "good").await);
    let mut undecided = vec![];
    for (one, word) in [("unknown", "cannot be told on purpose"), ("trap", "crashed"), ("throttled", "slower")] {
        undecided.push((works.version("1", one).await, word));
    }
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        let slot = after(Arc::clone(&agrees));
        assert_eq!(slot.find(vec![node("a")], need).await, Ok(vec![Finding::Absent]));
        assert!(is_on_probation(&slot), "they agree");

        for (one, word) in &undecided {
            let slot = after(Arc::clone(one));
            let findings = slot.find(vec![node("a")], need).await.unwrap();
            let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{word}: {findings:?}") };
            assert!(failure.message.contains("on probation") && failure.message.contains(word), "{}", failure.message);
            assert!(is_on_probation(&slot), "{word}: nobody knows who is right");
        }

        let slot = after(Arc::clone(&good));
        assert_eq!(finder(&slot.find(vec![node("a")], need).await.unwrap()), "1");
        rolled_back(&slot);
    }
}

/// The word of the new one counts for itself once it is proven.
#[tokio::test]
async fn a_provider_that_is_proven_is_believed() {
    let works = Works::new();
    let once = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };
    let slot = works.slot("absent", "absent", once).await;
    assert_eq!(find(&slot, &["a"]).await, Ok(vec![Finding::Absent]));
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
    slot.exchange(works.version("3", "good").await, once);
    assert_eq!(answers(&slot).await, "3");
}

/// Nodes keep their places in an answer, whoever gave it.
#[tokio::test]
async fn the_last_good_one_is_asked_for_those_machines_alone_that_the_new_one_does_not_find() {
    let works = Works::new();
    let marked = |name: &str, state: &str| Node {
        annotations: map(&[("cloudlycke.io/instance-state", state)]),
        capacity: map(&[("cpu", "2"), ("memory", "1Gi")]),
        ..node(name)
    };
    let nodes = vec![marked("a", "running"), marked("b", "deleted"), marked("c", "error"), marked("d", "running")];
    let ids = |findings: &[Finding]| {
        let id = |finding: &Finding| match finding {
            Finding::Found(instance) => {
                let by = instance.labels.get("successor.io/version").map_or("cloudlycke", String::as_str);
                format!("{} by {by}", instance.provider_id)
            }
            Finding::Absent => "absent".to_owned(),
            Finding::Unknown(failure) => failure.reaction.as_str().to_owned(),
        };
        findings.iter().map(id).collect::<Vec<_>>()
    };

    let slot = Slot::new(works.version("1", "good").await, None);
    slot.exchange(works.cloudlycke().await, faults(2));
    let findings = slot.find(nodes.clone(), Need::Existence).await.unwrap();
    let expected =
        ["cloudlycke://a by cloudlycke", "cloudlycke://b by 1", "cloudlycke://c by 1", "cloudlycke://d by cloudlycke"];
    assert_eq!(ids(&findings), expected);
    assert!(is_on_probation(&slot), "one call is one fault, however many machines are in it");

    let slot = Slot::new(works.cloudlycke().await, None);
    slot.exchange(works.version("2", "absent").await, faults(2));
    let findings = slot.find(nodes, Need::Existence).await.unwrap();
    let expected = ["cloudlycke://a by cloudlycke", "absent", "retry", "cloudlycke://d by cloudlycke"];
    assert_eq!(ids(&findings), expected);
}

#[tokio::test]
async fn a_cloud_that_asks_for_a_pause_is_left_alone_by_both() {
    let works = Works::new();
    let slot = works.slot("good", "throttled", faults(1)).await;
    let Err(FindError::Failed(failure)) = find(&slot, &["a"]).await else {
        panic!("the last good one asked the cloud")
    };
    assert_eq!((failure.reaction, failure.retry_after), (Reaction::Throttled, Some(Duration::from_secs(5))));
    assert!(is_on_probation(&slot));
}

#[tokio::test]
async fn where_both_fail_the_failure_of_the_new_one_is_told_and_only_crashes_count() {
    let works = Works::new();
    let slot = works.slot("throttled", "unknown", faults(1)).await;
    for _ in 0..3 {
        let findings = find(&slot, &["a"]).await.unwrap();
        let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{findings:?}") };
        assert!(failure.message.contains("cannot be told on purpose"), "{failure}");
    }
    assert!(is_on_probation(&slot));

    // Whatever ails the cloud, a crash is a provider's own.
    let slot = works.slot("throttled", "trap", faults(2)).await;
    for _ in 0..2 {
        assert!(is_on_probation(&slot));
        assert!(matches!(find(&slot, &["a"]).await, Err(FindError::Crashed(_))));
    }
    assert_eq!(serving(&slot), "1");
}

#[tokio::test]
async fn what_fails_in_place_of_another_newcomer_returns_to_the_last_that_was_proven() {
    let works = Works::new();
    let slot = works.slot("good", "good", faults(2)).await;
    assert_eq!(answers(&slot).await, "2");
    slot.exchange(works.version("3", "trap").await, faults(2));
    assert_eq!(slot.last_good().unwrap().descriptor().version, "1");
    for _ in 0..2 {
        assert!(is_on_probation(&slot));
        assert_eq!(answers(&slot).await, "1");
    }
    assert_eq!((serving(&slot), generation(&slot)), ("1".to_owned(), 4));
    assert!(rolled_back(&slot).contains("2 of its first 2 calls"), "{}", rolled_back(&slot));
}

#[tokio::test]
async fn a_first_provider_has_nobody_to_return_to_and_can_be_proven_all_the_same() {
    let works = Works::new();
    let once = ProbationSettings { time: Duration::ZERO, calls: 2, faults: 1 };
    let slot = Slot::new(works.version("1", "trap").await, Some(once));
    assert!(slot.last_good().is_none());
    for _ in 0..5 {
        assert!(matches!(find(&slot, &["a"]).await, Err(FindError::Crashed(_))));
        assert!(is_on_probation(&slot));
    }
    assert_eq!((serving(&slot), generation(&slot)), ("1".to_owned(), 1));

    let slot = Slot::new(works.version("1", "good").await, Some(once));
    answers(&slot).await;
    assert!(is_on_probation(&slot));
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
}

/// It has not proved itself, but two are asked rather than one.
#[tokio::test]
async fn a_first_provider_that_is_still_on_probation_is_a_witness_and_returns() {
    let works = Works::new();
    let (first, absent) = (works.version("1", "good").await, works.version("2", "absent").await);
    let slot = Slot::new(first, Some(faults(1)));
    slot.exchange(Arc::clone(&absent), faults(2));
    assert_eq!(slot.last_good().unwrap().descriptor().version, "1");
    assert_eq!(answers(&slot).await, "1");
    assert!(is_on_probation(&slot));
    assert_eq!(answers(&slot).await, "1");
    assert_eq!((serving(&slot), generation(&slot)), ("1".to_owned(), 3));
    rolled_back(&slot);

    let slot = Slot::new(works.version("1", "trap").await, Some(faults(1)));
    slot.exchange(absent, faults(1));
    let findings = find(&slot, &["a"]).await.unwrap();
    assert!(matches!(findings.as_slice(), [Finding::Unknown(_)]), "deleted on the word of one: {findings:?}");
}

/// To have served before is no proof: that it is kept as the last good one has to wait for its own probation.
#[tokio::test]
async fn a_first_provider_that_returns_goes_on_with_its_probation() {
    let works = Works::new();
    let twice = ProbationSettings { time: Duration::ZERO, calls: 2, faults: 1 };
    let slot = Slot::new(works.version("1", "good").await, Some(twice));
    slot.exchange(works.version("2", "absent").await, twice);
    assert_eq!(answers(&slot).await, "1");
    rolled_back(&slot);
    assert!(slot.last_good().is_none(), "it is not proven");
    for proven in [false, false, true] {
        let phase = slot.phases().borrow().clone();
        assert!(matches!(phase, Phase::RolledBack { is_proven, .. } if is_proven == proven), "{phase:?}");
        assert_eq!(answers(&slot).await, "1");
    }
    assert_eq!(slot.last_good().unwrap().descriptor().version, "1");
}

/// All of them began on the provider that fails, and all of them see that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_calls_at_the_same_time_roll_back_once() {
    let works = Works::new();
    for behaviour in ["trap", "absent"] {
        let slot = Arc::new(works.slot("good", behaviour, faults(3)).await);
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let slot = Arc::clone(&slot);
            calls.spawn(async move { answers(&slot).await });
        }
        assert_eq!(calls.join_all().await, ["1"; 16], "{behaviour}");
        assert_eq!((serving(&slot), generation(&slot)), ("1".to_owned(), 3), "{behaviour}");
        rolled_back(&slot);
    }
}

/// One after the other, 64 calls that compute without an end take 12.8 s; some Services waited for half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_hang_on_a_provider_that_was_rolled_back_are_answered_by_the_last_good_one() {
    let works = Works::new();
    let record = Arc::new(Record::default());
    let slot = Slot::new(works.version("1", "good").await, None);
    slot.exchange(works.watched("2", "loop", Some(Arc::clone(&record))).await, faults(1));
    let slot = Arc::new(slot);
    let mut calls = JoinSet::new();
    for _ in 0..64 {
        let slot = Arc::clone(&slot);
        calls.spawn(async move { answers(&slot).await });
    }
    assert_eq!(calls.join_all().await, ["1"; 64]);
    let to_the_end = record.take_ends().into_iter().filter(|end| end.outcome == "out-of-cpu").count();
    assert!((1..16).contains(&to_the_end), "{to_the_end} of 64 computed until they were stopped");
}

/// The gate asks it as well, and so may a probation that it failed.
#[tokio::test]
async fn what_a_provider_did_before_it_was_put_into_the_slot_does_not_count() {
    let works = Works::new();
    let slot = Slot::new(works.version("1", "good").await, None);
    let (bad, good) = (works.version("2", "trap").await, works.version("3", "good").await);
    for provider in [&bad, &good] {
        for _ in 0..5 {
            provider.find(vec![node("a")], Need::Existence).await.ok();
        }
    }
    slot.exchange(bad, faults(2));
    assert_eq!(answers(&slot).await, "1");
    assert!(is_on_probation(&slot));
    slot.exchange(good, ProbationSettings { time: Duration::ZERO, calls: 2, faults: 1 });
    assert_eq!(answers(&slot).await, "3");
    assert!(is_on_probation(&slot));
    assert_eq!(answers(&slot).await, "3");
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
}

/// What was under way when the last good one returned says nothing about who comes after it.
#[tokio::test]
async fn a_late_fault_of_a_provider_that_is_gone_changes_nothing() {
    let works = Works::new();
    let slot = Arc::new(works.slot("good", "loop", faults(1)).await);
    let third = works.version("3", "good").await;
    let mut late = JoinSet::new();
    let caller = Arc::clone(&slot);
    late.spawn(async move { answers(&caller).await });
    tokio::task::yield_now().await;
    slot.exchange(third, faults(1));
    assert_eq!(late.join_next().await.unwrap().unwrap(), "1");
    assert!(is_on_probation(&slot));
    assert_eq!((answers(&slot).await, generation(&slot)), ("3".to_owned(), 3));
}
