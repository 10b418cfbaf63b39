//! More Nodes than may be deleted at once.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{FailedRequest, Failure, Finding, Need, Reaction};

use super::{Bench, lost};
use crate::explain::{HeldDeletion, Next};
use crate::node_lifecycle::{DeletionBudget, NodeLifecycleSettings, NodeLifecycleView};
use crate::queue::{Place, Question, places};
use crate::testing::{found, node};
use crate::troubles::HeldNode;

const HELD: &str = "held_nodes{provider=\"fake\"}";

fn bench(absent: usize, settings: NodeLifecycleSettings) -> Bench {
    let mut bench = Bench::with(settings);
    for i in 0..absent {
        let name = format!("n{i:02}");
        bench.cloud.answer(&name, [Finding::Absent]);
        bench.add(lost(&name));
    }
    bench
}

/// Syncs all of them, so many seconds after the last time.
async fn all(bench: &Bench, absent: usize, seconds: u64) -> usize {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    for i in 0..absent {
        let name = format!("n{i:02}");
        if bench.api.has(&name) {
            bench.sync(&name).await;
        }
    }
    (0..absent).filter(|i| !bench.api.has(&format!("n{i:02}"))).count()
}

#[tokio::test(start_paused = true)]
async fn no_more_nodes_are_deleted_in_ten_minutes_than_the_limit_and_the_others_are_held() {
    let mut bench = bench(6, NodeLifecycleSettings::default());
    assert_eq!(all(&bench, 6, 0).await, 0);
    assert_eq!(all(&bench, 6, 5).await, 3);
    assert_eq!(bench.scraped(HELD), 3.0);
    let proofs = bench.cloud.needs().iter().filter(|need| **need == Need::Proof).count();
    assert_eq!(proofs, 3, "who may not delete needs no proof");
    for _ in 0..9 {
        assert_eq!(all(&bench, 6, 60).await, 3);
    }
    assert_eq!(all(&bench, 6, 60).await, 6);
    assert_eq!(bench.scraped(HELD), 0.0);
    let events = bench.events().await;
    let held = "Warning NodeDeletionHeld: Node n04 is not deleted although it does not exist in the cloud provider: no \
                more than 3 of the 6 nodes of provider fake are deleted within 600s. If the machines exist, scale the host \
                to zero replicas at once, because the next Node is deleted as soon as the limit allows. If they are gone, wait, or \
                restart with --confirm-node-deletions=n04";
    assert_eq!(events.iter().filter(|event| *event == held).count(), 1, "{events:#?}");
    assert_eq!(events.iter().filter(|event| event.contains("NodeDeletionHeld")).count(), 3, "one each");
}

#[tokio::test(start_paused = true)]
async fn ten_percent_are_those_of_the_nodes_that_are_ours() {
    let mut bench = bench(8, NodeLifecycleSettings::default());
    for i in 0..52 {
        bench.add(node(&format!("ours{i}")).ready("True").provider_id("fake://x"));
        bench.add(node(&format!("foreign{i}")).ready("True").provider_id("aws:///z/i"));
        bench.add(node(&format!("nobody{i}")).ready("True"));
    }
    all(&bench, 8, 0).await;
    assert_eq!(all(&bench, 8, 5).await, 6, "of 60");
}

#[tokio::test(start_paused = true)]
async fn a_held_node_whose_machine_is_found_again_is_free_and_begins_anew() {
    let mut bench = bench(4, NodeLifecycleSettings::default());
    for ready in ["r0", "r1"] {
        bench.add(node(ready).ready("True").provider_id("fake://x"));
    }
    all(&bench, 4, 0).await;
    assert_eq!(all(&bench, 4, 5).await, 3);
    bench.cloud.answer("n03", [found(|_| ()), Finding::Absent]);
    all(&bench, 4, 60).await;
    assert_eq!(bench.scraped(HELD), 0.0);
    // The limit is free again, but one look is not enough.
    assert_eq!(all(&bench, 4, 600).await, 3);
    assert_eq!(all(&bench, 4, 5).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_node_is_deleted_beyond_the_limit_but_not_without_two_absent_answers() {
    let budget = DeletionBudget { percent: 0, min: 0, ..DeletionBudget::default() };
    let confirmed = ["n01", "n02"].map(str::to_owned).into();
    let bench = bench(4, NodeLifecycleSettings { budget, confirmed, ..NodeLifecycleSettings::default() });
    bench.cloud.answer("n02", [Finding::Absent, found(|_| ())]);
    assert_eq!(all(&bench, 4, 0).await, 0);
    assert_eq!(all(&bench, 4, 5).await, 1);
    assert!(!bench.api.has("n01"));
    assert_eq!(bench.scraped(HELD), 2.0, "n00 and n03; n02 is there");
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_node_is_deleted_although_the_first_attempt_had_no_answer() {
    let budget = DeletionBudget { percent: 0, min: 0, ..DeletionBudget::default() };
    let confirmed = ["n00"].map(str::to_owned).into();
    let bench = bench(1, NodeLifecycleSettings { budget, confirmed, ..NodeLifecycleSettings::default() });
    bench.api.refuse("DELETE /api/v1/nodes/n00", 503, 1);
    all(&bench, 1, 0).await;
    assert_eq!(all(&bench, 1, 5).await, 0, "no answer");
    assert_eq!((all(&bench, 1, 60).await, bench.scraped(HELD)), (1, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_costs_nothing_of_the_limit() {
    let budget = DeletionBudget { percent: 0, min: 1, ..DeletionBudget::default() };
    let bench = bench(2, NodeLifecycleSettings { budget, ..NodeLifecycleSettings::default() });
    bench.api.refuse("DELETE /api/v1/nodes/n00", 422, 1);
    all(&bench, 2, 0).await;
    assert_eq!(all(&bench, 2, 5).await, 1);
    assert!(bench.api.has("n00"));
}

/// Proofs of Nodes that exist after all once held another one for a minute.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_the_decision_about_others_is_not_held() {
    let budget = DeletionBudget { percent: 0, min: 1, ..DeletionBudget::default() };
    let settings = NodeLifecycleSettings { budget, ..NodeLifecycleSettings::default() };
    let mut bench = Bench::of(crate::testing::FakeCloud::slow(Duration::from_secs(1)), settings);
    bench.cloud.answer("a", [Finding::Absent, found(|_| ())]);
    bench.cloud.answer("b", [Finding::Absent]);
    bench.add(lost("a"));
    bench.add(lost("b"));
    tokio::join!(bench.sync("a"), bench.sync("b"));
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::join!(bench.sync("a"), bench.sync("b"));
    assert_eq!((bench.cloud.calls().len(), bench.scraped(HELD)), (2, 0.0));
    tokio::time::advance(Duration::from_secs(5)).await;
    bench.sync("b").await;
    assert_eq!((bench.api.has("a"), bench.api.has("b")), (true, false));
    let events = bench.events().await;
    assert_eq!(events, ["Normal DeletingNode: Deleting node b because it does not exist in the cloud provider"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_is_told_which_budget_holds_a_deletion_and_nothing_of_it_once_the_machine_is_back() {
    let bench = bench(4, NodeLifecycleSettings::default());
    let explained = |name: &str| {
        let node = bench.syncer.store.get(&kube::runtime::reflector::ObjectRef::new(name)).unwrap();
        bench.syncer.memory.explained(&node, Duration::from_secs(600))
    };
    all(&bench, 4, 0).await;
    assert_eq!(
        (explained("n03").absent_seconds_ago, explained("n03").held),
        (Some(0.0), None),
        "a second proof is to come"
    );
    assert_eq!(all(&bench, 4, 5).await, 2);
    let held = explained("n03");
    let by = HeldDeletion { provider: "fake".into(), limit: 2, nodes: 4, period_seconds: 600 };
    assert_eq!((held.answer.as_deref(), held.held), (Some("absent"), Some(by)));
    bench.cloud.answer("n03", [found(|_| ())]);
    all(&bench, 4, 60).await;
    let back = explained("n03");
    assert_eq!((back.answer.as_deref(), back.held, back.absent_seconds_ago), (Some("running"), None, None));
    let request = FailedRequest {
        endpoint: "api".into(),
        origin: "https://api.example".into(),
        operation: "GET /servers/{id}".into(),
        method: "GET",
        path: "/servers/n03".into(),
        status: Some(503),
        error: None,
        held: None,
        limit: None,
        request_id: Some("r-7".into()),
        sent: 3,
        at: tokio::time::Instant::now(),
    };
    let failure = Failure { request: Some(Arc::new(request)), ..Failure::new(Reaction::Retry, "no answer") };
    bench.cloud.answer("n03", [Finding::Unknown(failure)]);
    all(&bench, 4, 600).await;
    let lost = explained("n03");
    let request = lost.request.expect("the host saw it");
    assert_eq!(
        (lost.failure.as_deref(), request.status, request.request_id.as_deref()),
        (Some("no answer"), Some(503), Some("r-7"))
    );
}

#[tokio::test(start_paused = true)]
async fn all_nodes_that_are_not_ready_are_listed_by_name_and_so_are_the_deletions_that_are_held() {
    let mut bench = bench(4, NodeLifecycleSettings::default());
    bench.cloud.answer(
        "stuck",
        [
            Finding::Unknown(Failure::new(Reaction::Throttled, "too many requests")),
            Finding::Unknown(Failure::new(Reaction::Throttled, "too many requests")),
        ],
    );
    bench.add(lost("stuck"));
    bench.add(node("fine").ready("True").provider_id("fake://fine"));
    all(&bench, 4, 0).await;
    all(&bench, 4, 5).await;
    bench.sync("stuck").await;
    bench.sync("fine").await;
    let (unready, held) = bench.syncer.memory.troubles(3, Duration::from_secs(600));
    let names: Vec<_> = unready.first.iter().map(|node| (node.name.as_str(), node.answer)).collect();
    let gone = Some("absent");
    assert_eq!((unready.all, names), (5, vec![("n00", gone), ("n01", gone), ("n02", gone)]));
    assert_eq!(bench.scraped("not_ready_nodes"), 5.0, "the metric counts the same");
    let (unready, _) = bench.syncer.memory.troubles(9, Duration::from_secs(600));
    let stuck = unready.first.last().cloned().expect("the last by name");
    let why = stuck.failure.as_deref().is_some_and(|why| why.contains("too many requests"));
    assert!(stuck.name == "stuck" && stuck.answer == Some("throttled") && why, "{stuck:?}");
    let by = HeldDeletion { provider: "fake".into(), limit: 3, nodes: 6, period_seconds: 600 };
    assert_eq!(
        (held.all as f64, held.first),
        (bench.scraped(HELD), vec![HeldNode { name: "n03".into(), by: by.clone() }])
    );
    assert_eq!(by.to_string(), "no more than 3 of the 6 nodes of provider fake are deleted within 600 s");
    // When it is looked at next, the queue knows.
    let (places, mut questions) = places();
    let syncer = Arc::new(bench.syncer);
    let view = NodeLifecycleView { syncer: Arc::downgrade(&syncer), places };
    let queue = async {
        let Question { keys, answer } = questions.recv().await.expect("it is asked");
        answer.send(keys.iter().map(|_| Place::Planned(Duration::from_secs(47))).collect())
    };
    let (listed, asked) = tokio::join!(view.troubles(2), queue);
    assert!(asked.is_ok(), "somebody waits for it");
    let nexts: Vec<_> = listed.expect("the controller is there").0.first.iter().map(|node| node.next).collect();
    assert_eq!(nexts, [Next::In(47.0), Next::In(47.0)]);
}
