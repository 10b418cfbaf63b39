//! Another component comes while a piece of work is under way: what one said is not used with the other.

use ccm_cloud::Reaction;
use tokio::time::{advance, sleep};

use super::offer::{WEB, offering, with_other};
use super::restart::{at_once, surveying, sync_all, three};
use super::*;
use crate::testing::Version;

fn version(component: &str, revision: &str, locks: &[&str]) -> Version {
    let locks = locks.iter().map(ToString::to_string).collect();
    Version { component: component.into(), revision: revision.into(), locks, ..Version::default() }
}

/// `web` is there and not served yet; the old component serves.
fn bench(cloud: FakeBalancers) -> Bench {
    let mut bench = Bench::with(cloud, at_once());
    bench.cloud.exchange(version("old", "1", &["x"]));
    bench.add(service("web"));
    bench
}

fn names(name: &str) -> std::collections::BTreeSet<String> {
    [format!("0/{name}")].into()
}

fn writers(bench: &Bench, name: &str) -> String {
    bench.record(name).map(|record| record.by.to_string()).unwrap_or_default()
}

/// The new component once worked under the locks of the old one, beside somebody who held its own.
#[tokio::test(start_paused = true)]
async fn a_component_that_comes_while_a_turn_is_waited_for_has_locks_of_its_own() {
    for deletes in [false, true] {
        let mut bench = bench(FakeBalancers::default());
        if deletes {
            assert_eq!(bench.sync("web").await, Verdict::Done);
            bench.delete("web");
        }
        bench.cloud.take_calls();
        let call = if deletes { "delete web by new" } else { "ensure web: n0 n1 by new" };
        let (x, y) = (bench.syncer.locks.hold(names("x")).await, bench.syncer.locks.hold(names("y")).await);
        let waiting = bench.begin("web");
        sleep(Duration::from_secs(1)).await;
        bench.cloud.exchange(version("new", "1", &["y"]));
        drop(x);
        assert_eq!(waiting.await.unwrap(), Verdict::After(Duration::ZERO), "{call}");
        let waiting = bench.begin("web");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.cloud.calls(), [""; 0], "{call}: somebody else has its locks");
        drop(y);
        assert_eq!(waiting.await.unwrap(), Verdict::Done, "{call}");
        assert_eq!(bench.cloud.calls(), [call]);
        assert_eq!(bench.syncer.locks.len(), 0);
    }
}

/// Between the decision and the call a Service is written. The new component was called with what the old one had decided, or all
/// began anew.
#[tokio::test(start_paused = true)]
async fn what_a_component_has_decided_it_does_and_is_recorded_for() {
    for (revision, by_new) in [("1", vec![]), ("2", vec!["ensure web: n0 n1 by new"])] {
        let mut bench = bench(FakeBalancers::default());
        let cloud = Arc::clone(&bench.cloud);
        bench.api.script(STATUS, move |_| {
            cloud.exchange(version("new", revision, &["x"]));
            None
        });
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), ["ensure web: n0 n1 by old"]);
        assert_eq!(writers(&bench, "web"), "old");
        // Only another revision makes another load balancer of it.
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.take_calls(), by_new, "{revision}");
        assert_eq!(writers(&bench, "web"), if by_new.is_empty() { "old" } else { "new" });
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.calls(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_component_that_is_refused_before_its_call_is_not_called() {
    for deletes in [false, true] {
        let mut bench = bench(FakeBalancers::default());
        let patch = if deletes {
            assert_eq!(bench.sync("web").await, Verdict::Done);
            bench.delete("web");
            "GET /api/v1/namespaces/default/services/web"
        } else {
            STATUS
        };
        bench.cloud.take_calls();
        let cloud = Arc::clone(&bench.cloud);
        bench.api.script(patch, move |_| {
            cloud.refuse("old");
            cloud.exchange(version("new", "1", &["x"]));
            None
        });
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::ZERO));
        assert_eq!(bench.cloud.calls(), [""; 0]);
        assert_eq!(bench.sync("web").await, Verdict::Done);
        assert_eq!(bench.cloud.calls(), [if deletes { "delete web by new" } else { "ensure web: n0 n1 by new" }]);
    }
}

/// A survey of the old component once put its addresses into the status, as if the new one had seen them.
#[tokio::test(start_paused = true)]
async fn what_one_component_found_in_the_cloud_says_nothing_to_another() {
    let cloud = FakeBalancers { delay: Duration::from_secs(2), ..surveying() };
    cloud.exchange(version("old", "1", &[]));
    let bench = three(cloud).await;
    bench.cloud.change("a", |balancer| balancer.ip = "198.51.100.7".into());
    bench.cloud.lose("b");
    let mut bench = bench.restart();
    let exchange = async {
        sleep(Duration::from_secs(1)).await;
        bench.cloud.exchange_component("new");
    };
    tokio::join!(bench.survey(), exchange);
    assert_eq!(bench.cloud.take_calls(), ["survey 3 by old"]);
    assert_eq!(sync_all(&mut bench).await, [""; 0]);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    // What it finds itself counts.
    bench.survey().await;
    assert_eq!(bench.cloud.take_calls(), ["survey 3 by new"]);
    assert_eq!(sync_all(&mut bench).await, ["ensure b: n0 n1 by new"]);
    assert_eq!(bench.json("a")["status"]["loadBalancer"]["ingress"][0]["ip"], "198.51.100.7");
}

/// What waits for a change of the Service, or for a back-off, does so only for the component that failed.
#[tokio::test(start_paused = true)]
async fn what_a_component_could_not_do_is_tried_at_once_by_the_one_that_came_meanwhile() {
    for reaction in [Reaction::Invalid, Reaction::Retry, Reaction::Quota] {
        for deletes in [false, true] {
            let mut bench = bench(FakeBalancers { delay: Duration::from_secs(2), ..FakeBalancers::default() });
            if deletes {
                assert_eq!(bench.sync("web").await, Verdict::Done);
                bench.delete("web");
            }
            let operation = if deletes { "delete" } else { "ensure" };
            bench.cloud.fail(operation, "web", [failure(reaction, "a defect of the old component")]);
            bench.cloud.take_calls();
            let under_way = bench.begin("web");
            sleep(Duration::from_secs(1)).await;
            bench.cloud.exchange_component("new");
            assert_eq!(under_way.await.unwrap(), Verdict::After(Duration::ZERO), "{reaction:?} {operation}");
            bench.catch_up();
            assert_eq!(bench.sync("web").await, Verdict::Done);
            let done: Vec<String> = bench.cloud.calls().iter().map(|call| call.replace(": n0 n1", "")).collect();
            assert_eq!(done, [format!("{operation} web by old"), format!("{operation} web by new")]);
            let reasons = bench.reasons().await;
            assert!(!reasons.iter().any(|reason| reason.ends_with("Failed")), "{reasons:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_exchange_costs_neither_a_call_nor_a_write() {
    let cloud = surveying();
    cloud.exchange(version("old", "1", &[]));
    let mut bench = three(cloud).await;
    let before = bench.patches();
    for restarts in [false, true] {
        bench.cloud.exchange_component(if restarts { "newest" } else { "new" });
        if restarts {
            bench = bench.restart();
            bench.survey().await;
            bench.cloud.take_calls();
        }
        assert_eq!(sync_all(&mut bench).await, [""; 0]);
        advance(Duration::from_secs(60)).await;
    }
    assert_eq!((bench.patches(), writers(&bench, "a")), (before, "old".into()));
}

/// The mark that one read decides what another is told.
#[tokio::test(start_paused = true)]
async fn whose_a_load_balancer_is_every_component_says_for_itself() {
    let mut bench = with_other(FakeBalancers::default()).await;
    bench.cloud.exchange_component("old");
    bench.cloud.mark_with("lb-3", Some(WEB));
    bench.add(offering("web", WEB, "lb-3"));
    bench.cloud.fail("locks", "web", [failure(Reaction::Retry, "down")]);
    let Verdict::After(delay) = bench.sync("web").await else { panic!("done without its locks") };
    assert_eq!(bench.cloud.take_calls(), ["mark web by old"]);
    bench.cloud.exchange_component("new");
    advance(delay).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.take_calls(), ["mark web by new", "ensure web: n0 n1 by new"]);
}
