//! One run for a plan.

use ccm_cloud::Reaction;
use tokio_util::sync::CancellationToken;

use super::{Bench, Call, failure, many, route};
use crate::rehearsal::Rehearsed;
use crate::testing::Draft;

async fn bench(nodes: impl IntoIterator<Item = Draft>) -> Bench {
    let mut bench = Bench::new(|settings| settings.batch = std::num::NonZeroUsize::new(4).unwrap());
    bench.listed_with(nodes).await;
    bench
}

async fn rehearsed(bench: &mut Bench, stopped: &CancellationToken) -> Rehearsed {
    let rehearsal = bench.controller.take().unwrap().rehearsal();
    assert_eq!(rehearsal.providers().collect::<Vec<_>>(), ["fake"]);
    rehearsal.rehearse("fake", stopped).await
}

#[track_caller]
fn assert_unknown(told: &Rehearsed, part: &str) {
    assert!(told.unknown.as_ref().is_some_and(|why| why.contains(part)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn routes_are_changed_and_the_nodes_told_and_nothing_is_left_to_say() {
    let mut bench = bench(many(3)).await;
    bench.cloud.has([route("10.244.9.0/24", Some("gone"))]);
    assert_eq!(rehearsed(&mut bench, &CancellationToken::new()).await, Rehearsed::default());
    assert_eq!((bench.changes().len(), bench.cloud.routes().len(), bench.api.count("PATCH")), (1, 3, 3));
}

/// A cloud that keeps all routes in one object was shown several requests, each with other routes and none of them as it would be sent.
#[tokio::test(start_paused = true)]
async fn after_a_change_that_was_stopped_neither_halves_of_it_nor_other_routes_are_asked_for() {
    let mut bench = bench(many(12)).await;
    let stopped = CancellationToken::new();
    // As the wall does with the first request of the first call.
    let (cloud, stop) = (std::sync::Arc::clone(&bench.cloud), stopped.clone());
    cloud.changes.lock().extend((0..99).map(|_| failure(Reaction::Retry).into()));
    let watched = async {
        while cloud.calls.lock().iter().all(|(_, call)| !matches!(call, Call::Change(..))) {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    *bench.cloud.takes.lock() = std::time::Duration::from_secs(1);
    let (told, ()) = tokio::join!(rehearsed(&mut bench, &stopped), watched);
    assert!(told.unknown.is_some(), "{told:?}");
    assert_eq!(bench.changes().len(), 1, "{:?}", bench.changes());
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_does_not_say_or_does_not_take_is_not_known() {
    let mut unseen = bench(many(1)).await;
    unseen.cloud.looks.lock().push_back(failure(Reaction::Unauthorized));
    assert_unknown(&rehearsed(&mut unseen, &CancellationToken::new()).await, "no");
    assert_eq!(unseen.changes(), []);
    let mut refused = bench(many(1)).await;
    refused.cloud.refused.lock().insert("10.244.0.0/24".to_owned(), failure(Reaction::Quota));
    assert_unknown(&rehearsed(&mut refused, &CancellationToken::new()).await, "no");
    // A cloud that is at work: `run` looks again, and tells the Node then.
    let mut pending = bench(many(1)).await;
    pending.cloud.refused.lock().insert("10.244.0.0/24".to_owned(), failure(Reaction::Pending));
    assert_unknown(&rehearsed(&mut pending, &CancellationToken::new()).await, "routes are being changed");
}

#[tokio::test(start_paused = true)]
async fn what_another_controller_does_is_nothing_to_do() {
    let mut all = bench(many(1)).await;
    all.cloud.looks.lock().push_back(failure(Reaction::Elsewhere));
    assert_eq!(rehearsed(&mut all, &CancellationToken::new()).await, Rehearsed::default());
    let mut one = bench(many(1)).await;
    one.cloud.refused.lock().insert("10.244.0.0/24".to_owned(), failure(Reaction::Elsewhere));
    assert_eq!(rehearsed(&mut one, &CancellationToken::new()).await, Rehearsed::default());
    assert_eq!(one.api.count("PATCH"), 0);
}

/// It was once told as nothing to do.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_told_of_its_network_is_not_known() {
    let mut bench = bench(many(1)).await;
    bench.api.refuse("/status", 403, 1);
    assert_unknown(&rehearsed(&mut bench, &CancellationToken::new()).await, "the condition of a Node's network");
}
