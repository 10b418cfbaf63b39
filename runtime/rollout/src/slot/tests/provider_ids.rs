//! A new component proves itself with Nodes that have no provider ID yet. What is written there stays for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ccm_cloud::{Node, Reaction};

use super::*;
use crate::slot::ProbationSettings;
use crate::slot::testing::{Fake, GONE, new_node, release};

const MINUTE: ProbationSettings = ProbationSettings { time: Duration::from_secs(60), calls: 10, faults: 1 };

async fn seconds_pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// As the controller asks before it writes an ID.
async fn ask(rig: &Rig, nodes: Vec<Node>) -> Vec<Finding> {
    rig.slot.find(nodes, Need::Metadata).await.unwrap()
}

/// The ID that a Node gets, and the version that has found it.
fn id(finding: &Finding) -> (&str, String) {
    match finding {
        Finding::Found(machine) => (&machine.provider_id, finder(std::slice::from_ref(finding))),
        other => panic!("{other:?}"),
    }
}

fn asked(one: &Fake) -> Option<u32> {
    one.asked.lock().get("instances.find").copied()
}

/// They got IDs of machines that do not exist, and the proven one, which returned, said so of each: the Nodes were deleted.
#[tokio::test]
async fn no_node_gets_its_provider_id_on_the_word_of_a_component_on_probation_alone() {
    let (rig, _) = Rig::trying(Does::Misname, faults(2));
    for _ in 0..2 {
        assert!(rig.is_on_probation());
        let findings = ask(&rig, vec![new_node("a")]).await;
        assert_eq!(id(&findings[0]), ("cloud://a", "1".to_owned()), "the proven one is believed");
    }
    let why = rig.why("2").unwrap();
    let what = r#"it says that the machine of Node a is "cloud://2-a", the last good one says "cloud://a""#;
    assert!(why.ends_with(&format!("the last: instances.find: {what}")), "{why}");
}

/// It may be right, of machines that the last good one has never heard of, and be its repair.
#[tokio::test]
async fn where_the_last_good_one_does_not_know_the_machine_the_node_waits_until_the_new_one_is_proven() {
    let at_once = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };
    for (witness, told, why) in [
        (Does::Lose, Reaction::Retry, "it does not find the machine"),
        (Does::Fail, Reaction::Retry, "it cannot tell"),
        (Does::Crash, Reaction::Retry, "it crashed"),
        // The Node would wait for a change of its own, or another provider would be asked for it.
        (Does::Refuse, Reaction::Retry, "it says no"),
        (Does::Elsewhere, Reaction::Retry, "not mine"),
        (Does::Throttle, Reaction::Throttled, "slower"),
    ] {
        let (rig, _) = Rig::trying(Does::Right, at_once);
        rig.proven.does(witness);
        let recoveries = rig.slot.recoveries();
        let findings = ask(&rig, vec![new_node("a")]).await;
        let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{witness:?}: {findings:?}") };
        assert_eq!(failure.reaction, told, "{witness:?}: {failure}");
        let text = &failure.message;
        assert!(text.contains("on probation") && text.ends_with(why), "{text}");
        assert_eq!((rig.is_on_probation(), rig.why("2")), (false, None), "{witness:?}");
        assert!(recoveries.has_changed().unwrap(), "{witness:?}: whoever waits is woken");
        assert_eq!(id(&ask(&rig, vec![new_node("a")]).await[0]), ("cloud://a", "2".to_owned()), "{witness:?}");
    }
}

/// A Node that waits is asked about every few milliseconds: its machine was invented, and ten such answers in an outage of the last good one
/// proved the component that had invented it.
#[tokio::test(start_paused = true)]
async fn what_the_last_good_one_cannot_judge_proves_nothing_for_ten_times_the_probation() {
    for silent in [Does::Fail, Does::Throttle, Does::Elsewhere, Does::Crash] {
        let (rig, _) = Rig::trying(Does::Misname, MINUTE);
        rig.proven.does(silent);
        for _ in 0..59 {
            ask(&rig, vec![new_node("a")]).await;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(rig.is_on_probation(), "{silent:?}");
        // It answers once, and is silent again: that may be an outage, too.
        rig.proven.does(Does::Lose);
        ask(&rig, vec![new_node("a")]).await;
        rig.proven.does(silent);
        for _ in 0..59 {
            ask(&rig, vec![new_node("a")]).await;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(rig.is_on_probation(), "{silent:?}");
        // One that is silent for so long may be what the new one repairs.
        for _ in 0..20 {
            ask(&rig, vec![new_node("a")]).await;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert!(!rig.is_on_probation(), "{silent:?}");
    }
}

/// Ten answers about other Nodes proved the component after a minute.
#[tokio::test(start_paused = true)]
async fn other_good_answers_prove_nothing_while_the_last_good_one_is_silent_about_a_new_node() {
    let ask_both = async |rig: &Rig| {
        ask(rig, vec![new_node("a"), node("b")]).await;
        ask(rig, vec![node("c")]).await;
    };
    for silent in [Does::Fail, Does::Throttle, Does::Elsewhere, Does::Crash] {
        let (rig, _) = Rig::trying(Does::Misname, MINUTE);
        rig.proven.does(silent);
        for _ in 0..60 {
            ask_both(&rig).await;
            assert!(rig.is_on_probation(), "{silent:?}");
            seconds_pass(10).await;
        }
        ask_both(&rig).await;
        assert!(!rig.is_on_probation(), "{silent:?}: it may be what the new one repairs");
    }
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    rig.proven.does(Does::Fail);
    for _ in 0..12 {
        ask_both(&rig).await;
        seconds_pass(10).await;
    }
    assert!(rig.is_on_probation());
    rig.proven.does(Does::Right);
    ask_both(&rig).await;
    assert!(!rig.is_on_probation(), "it confirms, and nobody waits any more");
}

/// It has an answer about another new Node in the same batch.
#[tokio::test(start_paused = true)]
async fn what_the_last_good_one_says_of_one_new_node_does_not_end_its_silence_about_another() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    *rig.proven.no_word_of.lock() = Some("a");
    for _ in 0..60 {
        let findings = ask(&rig, vec![new_node("a"), new_node("b")]).await;
        assert!(matches!(findings.as_slice(), [Finding::Unknown(_), Finding::Found(_)]), "{findings:?}");
        assert!(rig.is_on_probation());
        seconds_pass(10).await;
    }
    ask(&rig, vec![new_node("a"), new_node("b")]).await;
    assert!(!rig.is_on_probation());
}

/// Two new Nodes sufficed, each of which was asked about in a call of its own.
#[tokio::test(start_paused = true)]
async fn what_is_said_of_one_new_node_in_another_call_does_not_end_the_silence_about_the_first() {
    let ask_each = async |rig: &Rig| {
        let findings = ask(rig, vec![new_node("a")]).await;
        assert!(matches!(findings.as_slice(), [Finding::Unknown(_)]), "{findings:?}");
        assert_eq!(id(&ask(rig, vec![new_node("b")]).await[0]).0, "cloud://b", "both say the same");
    };
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    *rig.proven.no_word_of.lock() = Some("a");
    for _ in 0..60 {
        ask_each(&rig).await;
        assert!(rig.is_on_probation());
        seconds_pass(10).await;
    }
    ask_each(&rig).await;
    assert!(!rig.is_on_probation());
}

/// The last good one is silent about all of them: the new one is its repair, and an autoscaler makes Nodes all the time.
#[tokio::test(start_paused = true)]
async fn nodes_that_join_again_and_again_do_not_hold_the_probation_for_longer_than_one() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    rig.proven.does(Does::Fail);
    for second in (0..600).step_by(10) {
        ask(&rig, vec![new_node("a")]).await;
        ask(&rig, vec![new_node(&format!("n{}", second / 60))]).await;
        assert!(rig.is_on_probation(), "{second} s");
        seconds_pass(10).await;
    }
    for number in 0..15 {
        ask(&rig, vec![new_node("a")]).await;
        ask(&rig, vec![new_node(&format!("m{number}"))]).await;
        seconds_pass(10).await;
    }
    assert!(!rig.is_on_probation());
}

/// The new one finds its machine, and cannot tell a moment later.
#[tokio::test(start_paused = true)]
async fn a_node_that_the_new_one_is_silent_about_for_a_moment_still_waits_until_it_has_its_id() {
    let (rig, new) = Rig::trying(Does::Right, MINUTE);
    *rig.proven.no_word_of.lock() = Some("a");
    ask(&rig, vec![new_node("a")]).await;
    for _ in 0..12 {
        ask(&rig, vec![node("b")]).await;
        seconds_pass(10).await;
    }
    for silent in [Does::Fail, Does::Throttle] {
        new.does(silent);
        ask(&rig, vec![new_node("a")]).await;
        new.does(Does::Right);
        ask(&rig, vec![node("b")]).await;
        assert!(rig.is_on_probation(), "{silent:?}");
    }
    ask(&rig, vec![node("a")]).await;
    assert!(!rig.is_on_probation(), "somebody has written it");
}

/// A pause of the cloud was enough for the ID of the next Node, which a component had invented.
#[tokio::test(start_paused = true)]
async fn a_node_that_waited_in_vain_and_was_deleted_does_not_end_the_wait_of_another() {
    let (rig, _) = Rig::trying(Does::Misname, MINUTE);
    rig.proven.does(Does::Throttle);
    for _ in 0..=60 {
        ask(&rig, vec![new_node("a")]).await;
        seconds_pass(10).await;
    }
    seconds_pass(7 * 60).await;
    for _ in 0..12 {
        ask(&rig, vec![new_node("b")]).await;
        ask(&rig, vec![node("c")]).await;
        assert!(rig.is_on_probation());
        seconds_pass(10).await;
    }
}

/// The new one crashed, and the word of the last good one counted: nobody asks about the Node again for a while.
#[tokio::test(start_paused = true)]
async fn a_node_that_gets_its_id_where_the_new_one_fails_waits_no_more() {
    let (rig, new) = Rig::trying(Does::Right, ProbationSettings { faults: 2, ..MINUTE });
    *rig.proven.no_word_of.lock() = Some("a");
    assert!(matches!(ask(&rig, vec![new_node("a")]).await.as_slice(), [Finding::Unknown(_)]));
    *rig.proven.no_word_of.lock() = None;
    new.does(Does::Crash);
    assert_eq!(id(&ask(&rig, vec![new_node("a")]).await[0]), ("cloud://a", "1".to_owned()));
    new.does(Does::Right);
    for _ in 0..10 {
        assert!(rig.is_on_probation());
        ask(&rig, vec![node("b")]).await;
        seconds_pass(10).await;
    }
    assert!(!rig.is_on_probation());
}

/// It was throttled once, and the Node was deleted.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_asked_about_no_more_holds_the_probation_only_for_a_while() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    rig.proven.does(Does::Throttle);
    ask(&rig, vec![new_node("a")]).await;
    for _ in 0..10 {
        ask(&rig, vec![node("b")]).await;
    }
    let follow = async |minutes: u64| {
        drop(tokio::time::timeout(Duration::from_secs(60 * minutes), rig.slot.follow()).await);
    };
    follow(6).await;
    assert!(rig.is_on_probation(), "it may be asked about again");
    follow(2).await;
    assert!(!rig.is_on_probation(), "though nobody asks anything then");
}

/// The first answers of an outage proved the component: the last good one had had no answer long before.
#[tokio::test(start_paused = true)]
async fn a_silence_of_before_does_not_make_the_next_one_long() {
    for (questions, pause) in [(1, 15 * 60), (55, 2 * 60 * 60)] {
        let (rig, _) = Rig::trying(Does::Misname, MINUTE);
        rig.proven.does(Does::Throttle);
        for _ in 0..questions {
            ask(&rig, vec![new_node("a")]).await;
            seconds_pass(10).await;
        }
        seconds_pass(pause).await;
        for _ in 0..40 {
            ask(&rig, vec![new_node("a")]).await;
            seconds_pass(10).await;
        }
        assert!(rig.is_on_probation(), "{questions} answers, and {pause} s later");
    }
}

/// Each delay is twice as long as all before, and others are answered about meanwhile, in calls of their own: one that has its ID, another new
/// one, and one that is gone. Where the configurations differ, the new one finds another machine, or fails with the whole call.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_asked_about_less_and_less_often_holds_the_probation_all_the_time() {
    for (does, is_apart) in [(Does::Misname, false), (Does::Misname, true), (Does::Lack, true)] {
        let rig = Rig::new(MINUTE);
        let new = Fake::of("2", Does::Right, &rig.cloud, u32::from(is_apart));
        if is_apart {
            rig.slot.put_apart(release(Arc::clone(&new))).unwrap();
        } else {
            rig.slot.put(release(Arc::clone(&new))).unwrap();
            *rig.proven.no_word_of.lock() = Some("a");
        }
        for second in 0..600 {
            if [0, 69, 208].contains(&second) {
                new.does(does);
                let findings = ask(&rig, vec![new_node("a")]).await;
                assert!(matches!(findings.as_slice(), [Finding::Unknown(_)]), "{findings:?}");
                new.does(Does::Right);
            }
            if second % 5 == 0 {
                for other in [node("b"), new_node("c"), node(GONE)] {
                    ask(&rig, vec![other]).await;
                }
            }
            assert!(rig.is_on_probation(), "{second} s, {does:?}, apart: {is_apart}");
            seconds_pass(1).await;
        }
        // Nobody has asked about it for seven minutes.
        seconds_pass(208 + 7 * 60 - 600).await;
        ask(&rig, vec![node("b")]).await;
        // Who is at odds and apart is withdrawn.
        let serves = if is_apart { "1" } else { "2" };
        assert_eq!((rig.is_on_probation(), rig.serving().as_str(), rig.why("2")), (false, serves, None));
    }
}

/// With the longest back-off, each answer counted as the first one of an outage.
#[tokio::test(start_paused = true)]
async fn a_lone_node_with_the_longest_back_off_ends_the_probation_too() {
    let (rig, _) = Rig::trying(Does::Right, MINUTE);
    rig.proven.does(Does::Fail);
    // The sixth answer is the first good one.
    for _ in 0..14 {
        ask(&rig, vec![new_node("a")]).await;
        assert!(rig.is_on_probation());
        seconds_pass(1_000).await;
    }
    ask(&rig, vec![new_node("a")]).await;
    assert!(!rig.is_on_probation());
}

/// The last good one looked with the configuration of before, and found the machine of that name in another project.
#[tokio::test]
async fn where_the_configurations_differ_a_new_node_gets_neither_id() {
    let rig = Rig::new(faults(9));
    let new = Fake::of("2", Does::Misname, &rig.cloud, 1);
    rig.slot.put_apart(release(Arc::clone(&new))).unwrap();
    let findings = ask(&rig, vec![new_node("a"), node("b")]).await;
    let [Finding::Unknown(failure), Finding::Found(_)] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(failure.message.contains("another configuration"), "{failure}");
    new.does(Does::Right);
    assert_eq!(id(&ask(&rig, vec![new_node("a")]).await[0]).0, "cloud://a", "both say the same");
}

/// It crashed, and the word of the last good one counted alone.
#[tokio::test]
async fn where_the_one_with_the_other_configuration_fails_a_new_node_does_not_get_the_id_of_before() {
    for (does, is_remembered, why) in [
        (Does::Crash, false, "it crashed"),
        (Does::Crash, true, "it crashed"),
        (Does::Lack, false, "it has no such interface"),
        (Does::Fail, false, "it cannot tell"),
    ] {
        let rig = Rig::new(faults(9));
        rig.slot.put_apart(release(Fake::of("2", does, &rig.cloud, 1))).unwrap();
        if is_remembered {
            rig.proven.does(Does::Fail);
            rig.proven.remembers.store(true, Ordering::Relaxed);
        }
        let findings = ask(&rig, vec![new_node("a"), node("b")]).await;
        let [Finding::Unknown(failure), found] = findings.as_slice() else { panic!("{does:?}: {findings:?}") };
        let text = &failure.message;
        assert!(text.contains("another configuration") && text.ends_with(why), "{does:?}: {text}");
        assert_eq!(id(found), ("cloud://b", "1".to_owned()), "{does:?}: it has its ID");
    }
}

/// Thousands of Nodes come at once, and each question costs the cloud a listing.
#[tokio::test]
async fn the_last_good_one_is_asked_once_for_all_new_nodes_and_not_for_others() {
    let (rig, new) = Rig::trying(Does::Right, faults(1));
    ask(&rig, vec![node("a"), node("b")]).await;
    assert_eq!(asked(&rig.proven), None, "both have their IDs");
    let many: Vec<Node> = (0..500).map(|number| new_node(&format!("n{number}"))).collect();
    let findings = ask(&rig, many).await;
    assert_eq!((findings.len(), finder(&findings)), (500, "2".to_owned()), "both say the same");
    assert_eq!((asked(&new), asked(&rig.proven), rig.proven.forgot.load(Ordering::Relaxed)), (Some(2), Some(1), 0));

    rig.proven.does(Does::Lose);
    let findings = ask(&rig, vec![node("a"), new_node("b"), node("c")]).await;
    assert_eq!(id(&findings[0]), ("cloud://a", "2".to_owned()), "what has its ID hangs on nobody's word");
    assert!(matches!(findings[1], Finding::Unknown(_)), "{findings:?}");
    assert_eq!(id(&findings[2]), ("cloud://c", "2".to_owned()));
}

/// A machine that was made anew under the name of one that is gone, which the last good one remembers.
#[tokio::test]
async fn the_id_of_a_machine_that_is_gone_is_no_fault_of_the_new_one() {
    let (rig, _) = Rig::trying(Does::Right, faults(1));
    rig.proven.remembers.store(true, Ordering::Relaxed);
    let findings = ask(&rig, vec![new_node("a")]).await;
    assert_eq!(id(&findings[0]), ("cloud://a", "2".to_owned()));
    assert_eq!((rig.is_on_probation(), asked(&rig.proven)), (true, Some(2)));
}

/// The operator allows it with a flag, else the gate refuses it: the machines have other IDs then.
#[tokio::test]
async fn another_provider_that_takes_over_gives_ids_of_its_own() {
    let (rig, new) = Rig::trying(Does::Right, faults(1));
    *new.scheme.lock() = "other";
    let findings = ask(&rig, vec![new_node("a")]).await;
    assert_eq!(id(&findings[0]), ("other://a", "2".to_owned()));
    assert_eq!((rig.is_on_probation(), asked(&rig.proven)), (true, None));
}
