//! A component is refused after it has served: what it wrote is repaired by the one that comes back, and nothing else is touched.

use ccm_cloud::Reaction;
use serde_json::json;
use tokio::sync::watch;

use super::restart::{garbled, surveying, sync_all, three};
use super::whole::{World, seconds};
use super::*;

const GOOD: &str = "0123456789ab";
const BAD: &str = "ba9876543210";

/// `a`, `b` and `c` as the good component has made them.
async fn good(cloud: FakeBalancers) -> Bench {
    cloud.exchange_component(GOOD);
    three(cloud).await
}

fn record(bench: &Bench, name: &str) -> String {
    condition(&bench.json(name), RECORDED)["message"].as_str().unwrap().to_owned()
}

fn writers(bench: &Bench, name: &str) -> String {
    bench.record(name).map(|record| record.by.to_string()).unwrap_or_default()
}

fn port(port: u16) -> Value {
    json!({ "spec": { "ports": [{ "port": port }] } })
}

/// The bad component is refused, and the good one is back.
fn roll_back(bench: &Bench) {
    bench.cloud.refuse(BAD);
    bench.cloud.exchange_component(GOOD);
}

#[tokio::test(start_paused = true)]
async fn a_record_names_the_component_and_an_ensure_by_another_one_replaces_it() {
    let mut bench = good(FakeBalancers::default()).await;
    assert!(record(&bench, "a").ends_with(&format!(" by={GOOD}")), "{}", record(&bench, "a"));
    bench.cloud.exchange_component(BAD);
    // Its hosts are from another one than the rest.
    bench.pass([node("n0")]).await;
    assert_eq!(writers(&bench, "a"), format!("{GOOD},{BAD}"));
    bench.edit("a", &port(443));
    bench.sync("a").await;
    assert_eq!((writers(&bench, "a"), writers(&bench, "b")), (BAD.into(), format!("{GOOD},{BAD}")));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_names_nobody_is_as_good_as_ever_and_is_not_written_for_that() {
    let mut bench = three(FakeBalancers::default()).await;
    let (before, patches) = (record(&bench, "a"), bench.patches());
    assert!(!before.contains(" by="), "{before}");
    bench.cloud.exchange_component(GOOD);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    let mut bench = bench.restart();
    bench.cloud.refuse(BAD);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!((record(&bench, "a"), bench.patches()), (before, patches));
    // It comes along with whatever else is written.
    bench.pass([node("n0")]).await;
    assert_eq!(writers(&bench, "a"), GOOD);
}

#[tokio::test(start_paused = true)]
async fn what_a_refused_component_wrote_is_ensured_again_and_nothing_else() {
    for restarts in [false, true] {
        let mut bench = good(FakeBalancers::default()).await;
        bench.cloud.exchange_component(BAD);
        bench.edit("a", &port(443));
        bench.sync("a").await;
        // It was nothing but a defect of the component: the record looks as well as any other one.
        bench.cloud.change("a", |balancer| balancer.ports = vec![1]);
        if restarts {
            bench = bench.restart();
        }
        roll_back(&bench);
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, [format!("ensure a: n0 n1 by {GOOD}")], "{restarts}");
        assert_eq!(bench.cloud.balancers()["a uid-a"].ports, [443]);
        assert_eq!(writers(&bench, "a"), GOOD);
        assert_eq!(sync_all(&mut bench).await, [""; 0], "{restarts}");
        let mut bench = bench.restart();
        assert_eq!(sync_all(&mut bench).await, [""; 0], "{restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_that_a_refused_component_wrote_are_ensured_again() {
    for restarts in [false, true] {
        let mut bench = good(FakeBalancers::default()).await;
        bench.cloud.exchange_component(BAD);
        bench.syncer.backends.replace(backends([node("n0")]));
        bench.sync("b").await;
        bench.syncer.backends.replace(backends([node("n0"), node("n1")]));
        bench.sync("b").await;
        if restarts {
            bench = bench.restart();
        }
        roll_back(&bench);
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, [format!("ensure b: n0 n1 by {GOOD}")], "{restarts}");
        assert_eq!(sync_all(&mut bench).await, [""; 0], "{restarts}");
    }
}

/// Nor is it held back as a repair that people undo.
#[tokio::test(start_paused = true)]
async fn a_second_rollback_is_repaired_as_soon_as_the_first() {
    let mut bench = good(FakeBalancers::default()).await;
    for round in 0..3 {
        bench.cloud.exchange_component(&format!("bad{round}"));
        bench.edit("a", &port(443 + round));
        bench.sync("a").await;
        bench.cloud.refuse(&format!("bad{round}"));
        bench.cloud.exchange_component(GOOD);
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, [format!("ensure a: n0 n1 by {GOOD}")], "{round}");
    }
}

/// Where nobody else is there, a refused component serves after all: each sync would be an ensure, and each ensure a sync.
#[tokio::test(start_paused = true)]
async fn a_refused_component_that_serves_does_not_doubt_itself() {
    let mut bench = good(FakeBalancers::default()).await;
    bench.cloud.refuse(GOOD);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    let mut bench = bench.restart();
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
}

/// Whoever may write the status may take the name out of it.
#[tokio::test(start_paused = true)]
async fn this_process_knows_who_wrote_it_whatever_the_status_says() {
    for instead in [String::new(), format!(" by={GOOD}")] {
        let mut bench = good(FakeBalancers::default()).await;
        bench.cloud.exchange_component(BAD);
        bench.edit("a", &port(443));
        bench.sync("a").await;
        let text = record(&bench, "a").replace(&format!(" by={BAD}"), &instead);
        bench.edit("a", &json!({ "status": { "conditions": garbled(&bench, &text) } }));
        bench.cloud.take_calls();
        assert_eq!(sync_all(&mut bench).await, [""; 0], "it is no difference");
        roll_back(&bench);
        assert_eq!(sync_all(&mut bench).await, [format!("ensure a: n0 n1 by {GOOD}")], "{instead:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_refused_component_did_and_could_not_be_written_is_not_adopted() {
    for updates in [false, true] {
        let mut bench = good(FakeBalancers::default()).await;
        bench.cloud.exchange_component(BAD);
        let status = "PATCH /api/v1/namespaces/default/services/a/status";
        if updates {
            bench.syncer.backends.replace(backends([node("n0")]));
        } else {
            bench.edit("a", &port(443));
            // That it is not certain any more.
            bench.api.script(status, |_| None);
        }
        bench.api.refuse(status, 503, 1);
        assert!(matches!(bench.sync("a").await, Verdict::After(_)));
        roll_back(&bench);
        bench.syncer.memory.wake_all();
        bench.cloud.take_calls();
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.count("ensure a"), 1, "{updates}: {:?}", bench.cloud.calls());
        assert_eq!(writers(&bench, "a"), GOOD);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_stands_on_the_word_of_a_refused_component_is_looked_for_again() {
    let bench = good(surveying()).await;
    bench.cloud.exchange_component(BAD);
    bench.cloud.change("a", |balancer| balancer.ip = "198.51.100.7".into());
    let mut bench = bench.restart();
    bench.survey().await;
    bench.cloud.take_calls();
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "198.51.100.7");
    assert_eq!(writers(&bench, "a"), format!("{GOOD},{BAD}"));
    roll_back(&bench);
    assert_eq!(sync_all(&mut bench).await, [format!("ensure a: n0 n1 by {GOOD}")]);
}

/// A status that somebody changed is put right without the cloud: that says nothing of the load balancer.
#[tokio::test(start_paused = true)]
async fn a_component_that_only_mends_the_status_is_not_behind_the_load_balancer() {
    let mut bench = good(FakeBalancers::default()).await;
    bench.cloud.exchange_component(BAD);
    let mut conditions = bench.json("a")["status"]["conditions"].clone();
    conditions.as_array_mut().unwrap().retain(|condition| condition["type"] != READY);
    bench.edit("a", &json!({ "status": { "conditions": conditions } }));
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!((bench.condition("a")["reason"].clone(), writers(&bench, "a")), (json!("Ensured"), GOOD.into()));
    roll_back(&bench);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
}

/// It may have done half of it, before this process and the component were gone.
#[tokio::test(start_paused = true)]
async fn what_a_refused_component_failed_at_is_ensured_whatever_a_survey_says() {
    for operation in ["ensure", "update"] {
        let mut bench = good(surveying()).await;
        bench.cloud.exchange_component(BAD);
        match operation {
            "ensure" => bench.edit("a", &port(443)),
            _ => drop(bench.syncer.backends.replace(backends([node("n0")]))),
        }
        bench.cloud.fail(operation, "a", [failure(Reaction::Throttled, "half-way")]);
        assert!(matches!(bench.sync("a").await, Verdict::After(_)));
        bench.cloud.change("a", |balancer| {
            let (ports, hosts) =
                if operation == "ensure" { (vec![443], vec!["n0", "n1"]) } else { (vec![80], vec!["n0"]) };
            (balancer.ports, balancer.hosts) = (ports, hosts.into_iter().map(Into::into).collect());
        });
        let mut bench = bench.restart();
        roll_back(&bench);
        bench.survey().await;
        bench.cloud.take_calls();
        assert_eq!(bench.sync("a").await, Verdict::Done);
        assert_eq!(bench.cloud.count("ensure a"), 1, "{operation}: {:?}", bench.cloud.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_wakes_whatever_the_refused_component_wrote() {
    let cloud = FakeBalancers::default();
    cloud.exchange_component(GOOD);
    let mut world = World::new(cloud).service(service("web")).service(service("fine"));
    let exchanged: watch::Sender<u64> = world.exchanged.clone();
    world
        .run(async |world: &mut World| {
            world.addressed(&["web".into(), "fine".into()]).await;
            world.cloud.exchange_component(BAD);
            exchanged.send_replace(1);
            seconds(1).await;
            world.api.edit_service("web", &port(443));
            seconds(1).await;
            assert_eq!(world.cloud.calls().last().unwrap(), &format!("ensure web by {BAD}"));
            world.cloud.take_calls();
            world.cloud.refuse(BAD);
            world.cloud.exchange_component(GOOD);
            exchanged.send_replace(2);
            seconds(1).await;
            assert_eq!(world.cloud.calls(), [format!("ensure web by {GOOD}")]);
        })
        .await;
    // A process that starts later knows it from the status.
    world.cloud.refuse(GOOD);
    world.cloud.exchange_component("newer");
    world.cloud.take_calls();
    world.run(async |_: &mut World| seconds(5).await).await;
    let mut calls = world.cloud.calls();
    calls.sort();
    assert_eq!(calls, ["ensure fine by newer", "ensure web by newer"]);
}
