//! 7.4/42 to 45 and 7.6: the periodic refresh.

use std::num::NonZeroUsize;
use std::time::Duration;

use ccm_cloud::{AddressKind, Failure, Finding, Reaction};
use serde_json::json;
use tokio::time::Instant;

use super::{Bench, GET, STATUS, status_body};
use crate::node::NodeSettings;
use crate::pulse::Pulses;
use crate::store::FirstList;
use crate::testing::{FakeCloud, Log, address, found, node};

fn internal(values: &'static [&str]) -> Finding {
    found(|instance| {
        instance.addresses = values.iter().map(|value| address(AddressKind::InternalIp, value)).collect();
    })
}

/// Name, private address, public ones of both versions.
const DUAL: [(AddressKind, &str); 4] = [
    (AddressKind::Hostname, "node0"),
    (AddressKind::InternalIp, "10.0.0.1"),
    (AddressKind::ExternalIp, "203.0.113.1"),
    (AddressKind::ExternalIp, "2001:db8::1"),
];

#[tokio::test(start_paused = true)]
async fn addresses_of_one_node_are_written_when_they_differ() {
    let dual = || found(|instance| instance.addresses = DUAL.map(|(kind, value)| address(kind, value)).to_vec());
    let entry = |value: &str| json!({ "type": "InternalIP", "address": value });
    let plain = || node("node0").provider_id("fake://1");
    let cases = [
        ("case_41_42 the taint is there", plain().tainted(), internal(&["a"]), None),
        ("case_43 the cloud names none", plain().address("InternalIP", "a"), internal(&[]), None),
        (
            "case_44 two of one type, unchanged",
            plain().address("InternalIP", "a").address("InternalIP", "b"),
            internal(&["a", "b"]),
            None,
        ),
        (
            "do_278 two public ones, unchanged",
            DUAL.into_iter().fold(plain(), |node, (kind, value)| node.address(kind.as_str(), value)),
            dual(),
            None,
        ),
        (
            "case_45 one more",
            plain().address("InternalIP", "a"),
            internal(&["a", "b"]),
            Some(json!([entry("a"), entry("b")])),
        ),
        ("2.7/1 none before", plain(), internal(&["a"]), Some(json!([entry("a")]))),
        ("2.7/4 the provided address is not listed", plain().provided_ip("10.0.0.9"), internal(&["10.0.0.1"]), None),
        ("case_57 the machine is gone", plain().address("InternalIP", "a"), Finding::Absent, None),
    ];
    for (name, draft, finding, wanted) in cases {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [finding]);
        bench.add(draft);
        bench.refresh().await;
        let calls: Vec<_> = bench.api.calls().into_iter().map(|call| (call.line, call.body)).collect();
        let wanted: Vec<_> = wanted.into_iter().map(|addresses| (STATUS.to_owned(), status_body(&addresses))).collect();
        assert_eq!(calls, wanted, "{name}");
    }
}

fn hundred(bench: &mut Bench) {
    for i in 0..100 {
        let name = format!("n{i:02}");
        bench.cloud.answer(&name, [internal(&["10.0.0.1"])]);
        bench.add(node(&name).provider_id("fake://1"));
    }
}

/// Upstream makes 100 calls, one per node, and the width decides how long they take. Here all nodes are in one call and the
/// width bounds writes only.
#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_are_each_asked_about_once_whatever_the_width() {
    for (name, width) in [("case_52", 1), ("case_53", 5), ("case_54", 10), ("case_55", 30)] {
        let settings = NodeSettings { concurrent_status_updates: width, ..NodeSettings::default() };
        let mut bench = Bench::with(FakeCloud::slow(Duration::from_millis(10)), settings);
        hundred(&mut bench);
        let begun = Instant::now();
        bench.refresh().await;
        assert!(begun.elapsed() <= Duration::from_millis(40), "{name}: {:?}", begun.elapsed());
        let names: Vec<String> = (0..100).map(|i| format!("n{i:02}")).collect();
        assert_eq!((bench.cloud.asked(), bench.cloud.calls().len()), (names, 1), "{name}");
        assert_eq!(bench.api.count("/status"), 100, "{name}");
    }
}

/// What the watchdog hears of a large cluster whose cloud is slow.
#[tokio::test(start_paused = true)]
async fn a_refresh_says_after_each_node_that_it_goes_on() {
    let mut bench = Bench::new();
    hundred(&mut bench);
    let turns = std::cell::Cell::new(0);
    super::refreshing::refresh(&bench.syncer, || turns.set(turns.get() + 1)).await;
    assert_eq!(turns.get(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_is_not_done_any_more_is_noticed_after_its_periods() {
    let settings = NodeSettings { refresh_interval: Duration::from_secs(3_600), ..NodeSettings::default() };
    let bench = Bench::with(FakeCloud::default(), settings);
    let (pulses, stop) = (Pulses::default(), tokio_util::sync::CancellationToken::new());
    let work = super::refreshing::run(&bench.syncer, FirstList::there(), &pulses, &stop);
    let mut work = std::pin::pin!(work);
    let check = || pulses.check(crate::NodeController::LOOPS, 6);
    for _ in 0..10 {
        assert!(tokio::time::timeout(Duration::from_secs(3_600), work.as_mut()).await.is_err());
        assert_eq!(check(), Ok(()));
    }
    // However seldom it is done: while it waits, it says so every 5 min.
    tokio::time::advance(Duration::from_secs(6 * 300 + 1)).await;
    let why = check().unwrap_err();
    assert!(why.starts_with("its loop addresses of Nodes has not turned for "), "{why}");
    assert!(futures::poll!(work.as_mut()).is_pending());
    assert_eq!(check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn case_249_writes_of_the_refresh_are_as_many_at_a_time_as_set() {
    for (updates, syncs, wanted) in [(3, 16, 3), (0, 4, 4)] {
        let concurrent_syncs = NonZeroUsize::new(syncs).unwrap();
        let settings = NodeSettings { concurrent_status_updates: updates, concurrent_syncs, ..NodeSettings::default() };
        let mut bench = Bench::with(FakeCloud::default(), settings);
        hundred(&mut bench);
        bench.api.silence("PATCH");
        drop(tokio::time::timeout(Duration::from_secs(5), bench.refresh()).await);
        assert_eq!(bench.api.count("/status"), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn case_56_one_node_that_fails_does_not_keep_the_others() {
    let mut bench = Bench::new();
    hundred(&mut bench);
    bench.cloud.answer("n37", [Finding::Unknown(Failure::new(Reaction::Retry, "away"))]);
    bench.cloud.answer("n38", [Finding::Unknown(Failure::new(Reaction::Elsewhere, "not mine"))]);
    bench.refresh().await;
    assert_eq!(bench.api.count("/status"), 98);
    let counted = ["updated", "failed", "elsewhere"].map(|outcome| bench.metrics.node.refreshes(outcome));
    assert_eq!(counted, [98, 1, 1]);
}

/// Up to twenty lines were logged again in each period.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_refreshed_is_logged_once_and_again_when_the_reason_is_another() {
    let log = Log::start();
    let mut bench = Bench::new();
    hundred(&mut bench);
    let fails = |bench: &Bench, reaction| bench.cloud.answer("n37", [Finding::Unknown(Failure::new(reaction, "away"))]);
    let told = || [log.lines("addresses not refreshed").len(), log.lines("are refreshed again").len()];
    for (reaction, wanted) in [(Reaction::Retry, [1, 0]), (Reaction::Retry, [1, 0]), (Reaction::Quota, [2, 0])] {
        fails(&bench, reaction);
        bench.refresh().await;
        assert_eq!(told(), wanted, "{reaction:?}");
    }
    bench.cloud.answer("n37", [internal(&["10.0.0.1"])]);
    for _ in 0..2 {
        bench.refresh().await;
        assert_eq!(told(), [2, 1]);
    }
    fails(&bench, Reaction::Quota);
    bench.refresh().await;
    assert_eq!(told(), [3, 1]);
}

/// A wrong value of an annotation on a Node that had been initialised was one line of the log.
#[tokio::test(start_paused = true)]
async fn what_a_node_asks_for_in_vain_after_its_initialisation_is_told_once_for_each_reason_until_it_is_put_right() {
    let mut bench = Bench::new();
    bench.add(node("node0").provider_id("fake://1").address("InternalIP", "10.0.0.1"));
    let wrong = |why: &str| Finding::Unknown(Failure::new(Reaction::Invalid, why));
    let away = || Finding::Unknown(Failure::new(Reaction::Retry, "away"));
    let right = || internal(&["10.0.0.1"]);
    // What each refresh meets, and how many Events wait then.
    let runs = [
        (wrong("stoped is no state"), 1),
        (wrong("stoped is no state"), 1),
        // The cloud has no answer for a while.
        (away(), 1),
        (wrong("stoped is no state"), 1),
        (wrong("stop is no state"), 2),
        (right(), 2),
        (wrong("stop is no state"), 3),
    ];
    for (index, (answer, waiting)) in runs.into_iter().enumerate() {
        bench.cloud.answer("node0", [answer]);
        bench.refresh().await;
        assert_eq!(bench.metrics.events.waiting.get(), waiting, "{index}");
        tokio::time::advance(Duration::from_secs(3_600)).await;
    }
    assert_eq!(bench.api.count("PATCH"), 0);
    let says = |why: &str| {
        format!(
            "Warning SyncNodeFailed: the machine of node node0 could not be determined: {why} (invalid): the Node keeps the \
             addresses that it has, and the next refresh asks again"
        )
    };
    let twice = format!("{} (2 times)", says("stop is no state"));
    assert_eq!(bench.events().await, [says("stoped is no state"), twice]);
}

/// Several managers share a cluster, and a provider may call an ID of another one a mistake.
#[tokio::test(start_paused = true)]
async fn a_refresh_tells_nothing_of_a_node_whose_provider_id_is_nobodys_here() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [Finding::Unknown(Failure::new(Reaction::Invalid, "no ID of mine"))]);
    bench.add(node("node0").provider_id("other://1"));
    bench.refresh().await;
    assert_eq!(bench.events().await, [""; 0]);
}

/// The last success is of all Nodes. One that is wrong itself would keep it for ever, and says so elsewhere.
#[tokio::test(start_paused = true)]
async fn a_refresh_is_a_success_when_the_cloud_had_an_answer_about_every_node() {
    let unknown = |reaction| Some(Finding::Unknown(Failure::new(reaction, "away")));
    let cases = [
        ("all are known", [None, None], true),
        ("a cloud does not answer", [unknown(Reaction::Retry), None], false),
        ("credentials are refused", [unknown(Reaction::Unauthorized), None], false),
        ("no cloud answers", [unknown(Reaction::Retry), unknown(Reaction::Throttled)], false),
        ("one is wrong itself", [unknown(Reaction::Invalid), None], true),
        ("nothing was learnt", [unknown(Reaction::Invalid), Some(Finding::Absent)], false),
        ("one is not ours", [unknown(Reaction::Elsewhere), Some(Finding::Absent)], true),
    ];
    for (case, answers, is_success) in cases {
        let mut bench = Bench::new();
        for (name, answer) in ["node0", "node1"].into_iter().zip(answers) {
            bench.cloud.answer(name, [answer.unwrap_or_else(|| internal(&["10.0.0.1"]))]);
            bench.add(node(name).provider_id(&format!("fake://{name}")));
        }
        bench.refresh().await;
        assert_eq!(bench.metrics.node.last_refresh.get() > 0.0, is_success, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_58_tainted_nodes_are_not_asked_about() {
    let mut bench = Bench::new();
    bench.cloud.answer("plain", [internal(&["10.0.0.1"])]);
    bench.add(node("tainted").tainted());
    bench.add(node("plain").provider_id("fake://1"));
    bench.refresh().await;
    assert_eq!(bench.cloud.asked(), ["plain"]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_reads_the_node_and_writes_again() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [internal(&["10.0.0.1"])]);
    bench.add(node("node0").provider_id("fake://1"));
    bench.api.script(STATUS, |api| {
        api.edit("node0", &json!({ "status": { "addresses": [{ "type": "Hostname", "address": "late" }] } }));
        None
    });
    bench.refresh().await;
    assert_eq!(bench.api.lines(), [STATUS, GET, STATUS]);
    assert_eq!(bench.api.json("node0")["status"]["addresses"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_first_run_is_at_once_and_the_next_one_a_period_after_its_end() {
    let mut bench = Bench::with(FakeCloud::slow(Duration::from_secs(60)), NodeSettings::default());
    bench.cloud.answer("node0", [internal(&["10.0.0.1"])]);
    bench.add(node("node0").provider_id("fake://1"));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut calls = vec![];
    let watch = async {
        for pause in [1, 350, 15] {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            calls.push(bench.cloud.calls().len());
        }
        stop.cancel();
    };
    let pulses = Pulses::default();
    tokio::join!(super::refreshing::run(&bench.syncer, FirstList::there(), &pulses, &stop), watch);
    assert_eq!(calls, [1, 1, 2], "after 1 s, 351 s and 366 s; the first run ends after 60 s");
}

/// What is held for a Node that waits for its write must not grow with the cluster.
#[tokio::test(start_paused = true)]
async fn while_writes_are_slow_no_more_nodes_are_asked_about_than_the_window_has() {
    let settings = NodeSettings { concurrent_status_updates: 1, ..NodeSettings::default() };
    let mut bench = Bench::with(FakeCloud::default(), settings);
    for i in 0..2_500 {
        let name = format!("n{i:04}");
        bench.cloud.answer(&name, [internal(&["10.0.0.1"])]);
        bench.add(node(&name).provider_id("fake://1"));
    }
    bench.api.silence("/status");
    drop(tokio::time::timeout(Duration::from_secs(1), bench.refresh()).await);
    assert_eq!((bench.cloud.asked().len(), bench.api.count("/status")), (2_000, 1));
}

/// A cloud that is down once filled the log with a line per Node and run.
#[tokio::test(start_paused = true)]
async fn the_first_twenty_failures_of_a_run_are_logged_one_by_one_and_the_rest_as_a_number() {
    for (failing, lines, summary) in [(20, 20, None), (21, 20, Some("failed=21 asked=22"))] {
        let log = Log::start();
        let mut bench = Bench::new();
        for i in 0..=failing {
            let name = format!("n{i:02}");
            let failure = Finding::Unknown(Failure::new(Reaction::Retry, "down"));
            bench.cloud.answer(&name, [if i == failing { internal(&[]) } else { failure }]);
            bench.add(node(&name).provider_id("fake://1"));
        }
        bench.refresh().await;
        assert_eq!(log.lines("addresses not refreshed").len(), lines, "{failing}");
        let told = log.lines("addresses of more nodes were not refreshed");
        assert_eq!(told.len(), usize::from(summary.is_some()), "{told:?}");
        assert!(told.iter().all(|line| summary.is_some_and(|summary| line.contains(summary))), "{told:?}");
        assert_eq!(bench.metrics.node.refreshes("failed"), failing);
    }
}

/// A provider that serves gives a Node the address of the metadata service: the Node keeps what it has, and people hear of it once.
#[tokio::test(start_paused = true)]
async fn an_address_that_no_machine_has_is_not_written_and_told_once() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [internal(&["169.254.169.254"])]);
    bench.add(node("node0").provider_id("fake://1").address("InternalIP", "10.0.0.1"));
    bench.refresh().await;
    bench.refresh().await;
    assert_eq!(bench.api.count("PATCH"), 0);
    let told = bench.events().await;
    let [event] = told.as_slice() else { panic!("{told:?}") };
    for part in ["Warning NodeAddressRefused", "169.254.169.254", "a link-local address", "correct the machine"] {
        assert!(event.contains(part), "{event}");
    }
}

/// Neither had it by what the store said: both got it.
#[tokio::test(start_paused = true)]
async fn of_two_nodes_that_are_given_one_address_in_the_same_run_one_gets_it() {
    let mut bench = Bench::keeping_apart();
    for (name, before) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
        bench.cloud.answer(name, [internal(&["10.0.0.7"])]);
        bench.add(node(name).ready("True").provider_id(&format!("fake://{name}")).address("InternalIP", before));
    }
    // The store shows none of the writes.
    for _ in 0..2 {
        bench.refresh().await;
        let addresses = ["a", "b"].map(|name| bench.api.json(name)["status"]["addresses"][0]["address"].clone());
        let having = addresses.iter().filter(|address| **address == "10.0.0.7").count();
        assert_eq!(having, 1, "{addresses:?}");
    }
    bench.catch_up("a");
    bench.catch_up("b");
    bench.refresh().await;
    let having = ["a", "b"].map(|name| bench.api.json(name)["status"]["addresses"][0]["address"].clone());
    assert_eq!(having.iter().filter(|address| **address == "10.0.0.7").count(), 1, "{having:?}");
}

/// An API server that dies before it answers takes the watch along: by what the store said nobody had the address, and a second Node got it.
#[tokio::test(start_paused = true)]
async fn an_address_that_a_lost_answer_may_have_given_is_no_other_nodes_before_the_store_can_show_it() {
    for is_new in [false, true] {
        let mut bench = Bench::keeping_apart();
        for name in ["a", "b"] {
            bench.cloud.answer(name, [internal(&["10.0.0.7"])]);
            let draft = node(name).ready("True").provider_id(&format!("fake://{name}"));
            let is_tainted = is_new && name == "a";
            bench.add(if is_tainted { draft.tainted() } else { draft });
        }
        bench.api.lose_answer("PATCH /api/v1/nodes/a/status");
        if is_new {
            bench.sync("a").await;
            // A Node that waits keeps what it is the first to be told, and this one waits no more.
            bench.edit("a", &json!({ "spec": { "taints": null }, "status": { "addresses": null } }));
            assert_eq!(bench.api.json("a")["status"].get("addresses"), None);
        } else {
            bench.cloud.answer("b", [internal(&[])]);
            bench.refresh().await;
            assert_eq!(bench.api.json("a")["status"]["addresses"][0]["address"], "10.0.0.7");
            bench.cloud.answer("b", [internal(&["10.0.0.7"])]);
        }
        bench.cloud.answer("a", [internal(&[])]);
        bench.refresh().await;
        assert!(bench.api.json("b")["status"]["addresses"].is_null(), "{is_new}");
        tokio::time::advance(Duration::from_secs(60)).await;
        bench.refresh().await;
        assert_eq!(bench.api.json("b")["status"]["addresses"][0]["address"], "10.0.0.7", "not for ever: {is_new}");
    }
}
