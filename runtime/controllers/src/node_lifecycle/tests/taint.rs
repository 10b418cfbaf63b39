//! The shutdown taint: when it is written, and that nobody else's is lost.

use std::time::Duration;

use ccm_cloud::{Finding, InstanceState};
use serde_json::{Value, json};

use super::{Bench, GET, PATCH, lost, ready, unknown};
use crate::node_lifecycle::node_state::SHUTDOWN;
use crate::queue::Verdict;
use crate::testing::{Log, found};

fn with_state(state: InstanceState) -> Finding {
    found(|instance| instance.state = state)
}

fn taints(bench: &Bench) -> Vec<String> {
    let name = |taint: &Value| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap());
    let spec = bench.api.json("node0")["spec"].clone();
    spec["taints"].as_array().map(|taints| taints.iter().map(name).collect()).unwrap_or_default()
}

fn shutdown() -> String {
    format!("{SHUTDOWN}:NoSchedule")
}

/// Deviation from case 113, where upstream reads the Node first.
#[tokio::test(start_paused = true)]
async fn case_113_a_ready_node_loses_the_taint_with_one_patch_and_without_it_nothing_is_sent() {
    let mut bench = Bench::new();
    bench.add(lost("node0").taint("mine").taint(SHUTDOWN).ready("True"));
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!((bench.api.lines(), taints(&bench)), (vec![PATCH.to_owned()], vec!["mine:NoSchedule".to_owned()]));
    let node = bench.api.node("node0");
    bench.seen(node);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!((bench.api.calls().len(), bench.cloud.calls().len()), (1, 0));
}

/// Case 115: a provider that does not tell the state says `Other`: no taint, and nothing is logged.
#[tokio::test(start_paused = true)]
async fn case_115_a_state_that_is_neither_leaves_the_taint_as_it_is() {
    for tainted in [false, true] {
        let log = Log::start();
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [with_state(InstanceState::Other)]);
        bench.add(if tainted { lost("node0").taint(SHUTDOWN) } else { lost("node0") });
        bench.syncs("node0", 3).await;
        assert_eq!((bench.api.calls().len(), bench.cloud.calls().len()), (0, 3));
        assert_eq!(log.lines(""), [""; 0]);
    }
}

/// QUIRK-11: upstream reads a tainted Node with each pass for ever.
#[tokio::test(start_paused = true)]
async fn a_stopped_machine_costs_one_patch() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [with_state(InstanceState::Stopped)]);
    bench.add(lost("node0").taint("mine"));
    bench.sync("node0").await;
    assert_eq!(taints(&bench), ["mine:NoSchedule".to_owned(), shutdown()]);
    let node = bench.api.node("node0");
    bench.seen(node);
    bench.syncs("node0", 20).await;
    assert_eq!(bench.api.lines(), [PATCH]);
    assert_eq!(bench.scraped("taints_total{change=\"added\"}"), 1.0);
}

/// QUIRK-11: upstream keeps the taint until the Node is Ready.
#[tokio::test(start_paused = true)]
async fn a_machine_that_runs_again_loses_the_taint_though_its_node_is_not_ready() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [with_state(InstanceState::Running)]);
    bench.add(lost("node0").taint(SHUTDOWN));
    bench.sync("node0").await;
    assert_eq!((bench.api.lines(), taints(&bench)), (vec![PATCH.to_owned()], vec![]));
    assert_eq!(bench.api.json("node0")["spec"], json!({ "providerID": "fake://node0" }));
    assert_eq!(bench.scraped("taints_total{change=\"removed\"}"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn case_78_80_taints_that_are_alike_are_other_taints() {
    let alike = json!([{ "key": SHUTDOWN, "effect": "NoExecute" }, { "key": "shutdown", "effect": "NoSchedule" }]);
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [with_state(InstanceState::Running), with_state(InstanceState::Stopped)]);
    bench.add(lost("node0").with("/spec", "taints", alike));
    bench.syncs("node0", 2).await;
    let all = [format!("{SHUTDOWN}:NoExecute"), "shutdown:NoSchedule".into(), shutdown()];
    assert_eq!((taints(&bench), bench.api.lines()), (all.to_vec(), vec![PATCH.to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn taints_of_other_writers_are_never_lost() {
    for state in [InstanceState::Stopped, InstanceState::Running] {
        let mut bench = Bench::new();
        bench.cloud.answer("node0", [with_state(state)]);
        let draft = lost("node0").taint("mine");
        bench.add(if state == InstanceState::Running { draft.taint(SHUTDOWN) } else { draft });
        bench.api.script(PATCH, |api| {
            let mut taints = vec![json!({ "key": "late", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" })];
            taints.push(json!({ "key": SHUTDOWN, "effect": "PreferNoSchedule" }));
            api.edit("node0", &json!({ "spec": { "taints": taints } }));
            None
        });
        bench.sync("node0").await;
        let mut all = vec!["late:NoExecute".to_owned(), format!("{SHUTDOWN}:PreferNoSchedule")];
        // The other writer removed ours; where it is not wanted, there is nothing left to write.
        let mut lines = vec![PATCH, GET];
        if state == InstanceState::Stopped {
            all.push(shutdown());
            lines.push(PATCH);
        }
        assert_eq!((taints(&bench), bench.api.lines()), (all, lines.into_iter().map(str::to_owned).collect()));
        if state == InstanceState::Stopped {
            assert_eq!(bench.api.json("node0")["spec"]["taints"][0]["timeAdded"], "2026-01-01T00:00:00Z");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_becomes_ready_meanwhile_gets_no_taint() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [with_state(InstanceState::Stopped)]);
    bench.add(lost("node0"));
    bench.api.script(PATCH, |api| {
        api.edit("node0", &ready("True"));
        None
    });
    bench.sync("node0").await;
    assert_eq!((bench.api.lines(), taints(&bench)), (vec![PATCH.to_owned(), GET.to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_cannot_be_written_is_tried_again() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [with_state(InstanceState::Stopped)]);
    bench.add(lost("node0"));
    bench.api.refuse(PATCH, 422, 1);
    let verdict = bench.sync("node0").await;
    assert_eq!(verdict, Verdict::After(Duration::from_secs(60)));
    assert_eq!(bench.scraped("taints_total{change=\"failed\"}"), 1.0);
    bench.syncs("node0", 1).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    bench.sync("node0").await;
    assert_eq!(taints(&bench), [shutdown()]);
    // A Ready Node has no cloud to wait for.
    bench.ready("node0", "True");
    bench.api.refuse(PATCH, 500, 1);
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert_eq!(bench.sync("node0").await, Verdict::Done);
    assert_eq!(taints(&bench), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tainted_on_an_answer_that_is_none() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [unknown(ccm_cloud::Reaction::Unsupported)]);
    bench.add(lost("node0").taint(SHUTDOWN));
    bench.syncs("node0", 3).await;
    assert_eq!(bench.api.calls(), []);
}

/// It was told with each attempt, hundreds of times an hour.
#[tokio::test(start_paused = true)]
async fn a_taint_that_a_ready_node_keeps_is_told_once_and_again_when_it_comes_again() {
    let log = Log::start();
    let mut bench = Bench::new();
    bench.add(lost("node0").taint(SHUTDOWN));
    bench.ready("node0", "True");
    let told = || log.lines("shutdown taint not written").len();
    bench.api.refuse(PATCH, 500, 5);
    for _ in 0..5 {
        assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    }
    assert_eq!(told(), 1);
    assert_eq!((bench.sync("node0").await, taints(&bench).len()), (Verdict::Done, 0));
    // Another time, as the store sees it.
    bench.edit("node0", &json!({ "spec": { "taints": [{ "key": SHUTDOWN, "effect": "NoSchedule" }] } }));
    bench.api.refuse(PATCH, 500, 1);
    assert_eq!((bench.sync("node0").await, told()), (Verdict::Backoff, 2));
    // While it lasts, it is told again now and then.
    tokio::time::advance(bench.syncer.settings.repeat_warning).await;
    bench.api.refuse(PATCH, 500, 1);
    assert_eq!((bench.sync("node0").await, told()), (Verdict::Backoff, 3));
    assert_eq!(bench.scraped("not_ready_nodes"), 0.0);
}
