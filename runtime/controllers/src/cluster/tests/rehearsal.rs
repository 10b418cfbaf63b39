//! One call for a plan.

use ccm_cloud::{ClusterSubject, Failure, Reaction};
use serde_json::json;

use super::{Bench, Setup, SyncResult, service};
use crate::rehearsal::Rehearsed;

async fn rehearsed(answers: Vec<SyncResult>, more: Option<serde_json::Value>) -> (Rehearsed, Bench) {
    let mut bench = Bench::new(Setup { answers, ..Setup::default() });
    bench.listed().await;
    if let Some(service) = more {
        bench.apply_service(service).await;
    }
    let rehearsal = bench.controller.take().unwrap().rehearsal();
    assert_eq!(rehearsal.providers().collect::<Vec<_>>(), ["fake"]);
    (rehearsal.rehearse("fake").await, bench)
}

fn failure(reaction: Reaction) -> Failure {
    Failure::new(reaction, "what the cloud said")
}

#[tokio::test(start_paused = true)]
async fn the_provider_is_called_once_with_the_cluster_of_now() {
    let (told, bench) = rehearsed(vec![], None).await;
    assert_eq!(told, Rehearsed::default());
    let calls = bench.cloud.calls.lock();
    assert_eq!(
        (calls.len(), &calls[0].nodes[..], &calls[0].services[..]),
        (1, &["n1".to_owned()][..], &["shop/web".to_owned()][..])
    );
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_not_known_and_says_of_what() {
    let (told, _) = rehearsed(vec![Err(failure(Reaction::Unauthorized))], None).await;
    assert_eq!(told, Rehearsed::unknown("what the cloud said"));
    let web = ClusterSubject::Service { namespace: "shop".into(), name: "web".into() };
    let answers = vec![
        (web, failure(Reaction::Retry)),
        (ClusterSubject::Node("n1".into()), failure(Reaction::Quota)),
        (ClusterSubject::Provider, failure(Reaction::Retry)),
    ];
    let (told, _) = rehearsed(vec![Ok(answers)], None).await;
    let wanted = "Service shop/web: what the cloud said; Node n1: what the cloud said; what the cloud said";
    assert_eq!(told, Rehearsed::unknown(wanted));
    // Left out of what the provider is told.
    let mut wrong = service("wrong");
    wrong["spec"]["ports"] = json!([{ "port": 70_000 }]);
    let (told, bench) = rehearsed(vec![], Some(wrong)).await;
    assert!(told.unknown.is_some_and(|why| why.starts_with("Service shop/wrong: ")));
    assert_eq!(bench.cloud.calls.lock()[0].services, ["shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn what_another_controller_does_is_nothing_to_do() {
    let one = (ClusterSubject::Node("n1".into()), failure(Reaction::Elsewhere));
    for answer in [Err(failure(Reaction::Elsewhere)), Ok(vec![one])] {
        let (told, _) = rehearsed(vec![answer], None).await;
        assert_eq!(told, Rehearsed::default());
    }
}
