//! What whoever asks about one Service is told.

use std::num::NonZeroUsize;

use ccm_cloud::{FailedRequest, Reaction};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::explain::{CloudRequest, Next, ServiceExplanation};
use crate::queue::{Place, Question, places};
use crate::service::ServiceView;
use crate::troubles::{Listed, ServiceTrouble};

/// Without a queue, which alone knows when the next try is.
fn view(bench: &Bench) -> ServiceView {
    let (places, questions) = places();
    drop(questions);
    ServiceView { syncer: Arc::downgrade(&bench.syncer), places }
}

/// What is said while the queue says this of each Service.
pub(super) async fn placed<T>(bench: &Bench, place: Place, asks: impl AsyncFnOnce(&ServiceView) -> T) -> T {
    let (places, mut questions) = places();
    let queue = async {
        while let Some(Question { keys, answer }) = questions.recv().await {
            assert!(answer.send(vec![place; keys.len()]).is_ok(), "somebody waits for it");
        }
    };
    let view = ServiceView { syncer: Arc::downgrade(&bench.syncer), places };
    tokio::select! {
        () = queue => panic!("it answers for as long as somebody may ask"),
        said = asks(&view) => said,
    }
}

async fn explained(bench: &Bench, name: &str) -> ServiceExplanation {
    view(bench).explain("default", name).await.expect("the controller is there")
}

fn failed_request() -> FailedRequest {
    FailedRequest {
        endpoint: "api".into(),
        origin: "https://api.example".into(),
        operation: "POST /balancers".into(),
        method: "POST",
        path: "/v2/balancers".into(),
        status: Some(503),
        error: None,
        held: None,
        limit: None,
        request_id: Some("r-7".into()),
        sent: 3,
        at: Instant::now(),
    }
}

/// How often the last try is said to have failed.
async fn tries(bench: &Bench) -> u32 {
    explained(bench, "web").await.last_try.map_or(0, |last| last.tries)
}

#[tokio::test(start_paused = true)]
async fn tries_that_fail_are_counted_until_one_does_not() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let retry = || failure(Reaction::Retry, "the cloud fails");
    bench.cloud.fail("ensure", "web", [retry(), retry(), failure(Reaction::Pending, "creating"), retry()]);
    for wanted in [1, 2, 2, 3, 0] {
        bench.sync("web").await;
        assert_eq!(tries(&bench).await, wanted);
        tokio::time::advance(Duration::from_secs(600)).await;
        bench.catch_up();
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_says_what_was_decided_what_failed_and_how_that_is_reacted_to() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let refused = "POST /balancers: 503 Service Unavailable (request ID r-7)";
    let request = Some(Arc::new(failed_request()));
    bench.cloud.fail("ensure", "web", [Failure { request, ..failure(Reaction::Quota, refused) }]);
    let before = explained(&bench, "web").await;
    assert_eq!((before.provider.as_deref(), before.decision, before.last_try), (Some("fake"), None, None));
    bench.sync("web").await;
    // Our own write wakes it: that run only waits, and decides nothing.
    bench.catch_up();
    bench.sync("web").await;
    tokio::time::advance(Duration::from_secs(7)).await;
    let told = explained(&bench, "web").await;
    let decision = told.decision.unwrap();
    assert_eq!(decision.text, "ensure the load balancer with fake: nothing is recorded of it");
    assert_eq!(decision.seconds_ago.round(), 7.0);
    let last = told.last_try.unwrap();
    assert_eq!(last.message, format!("failed to ensure load balancer: {refused} (quota)"));
    assert_eq!((last.reaction.as_str(), last.seconds_ago.round(), last.tries), ("quota", 7.0, 1));
    let request = last.request.unwrap();
    assert!(request.at.ends_with('Z') && request.at.len() == "2026-11-26T10:00:00Z".len(), "{}", request.at);
    let expected = CloudRequest {
        operation: "POST /balancers".into(),
        method: "POST".into(),
        endpoint: "api".into(),
        origin: "https://api.example".into(),
        path: "/v2/balancers".into(),
        status: Some(503),
        error: None,
        held: None,
        limit: None,
        request_id: Some("r-7".into()),
        sent: 3,
        seconds_ago: request.seconds_ago,
        at: request.at.clone(),
    };
    assert_eq!((request.seconds_ago.round(), request), (7.0, expected));
    assert_eq!((told.not_ready.as_deref(), told.is_wanted), (Some("QuotaExceeded"), true));
    assert_eq!(told.next, Next::Unknown, "no queue runs");
    tokio::time::advance(Duration::from_secs(600)).await;
    bench.sync("web").await;
    let served = explained(&bench, "web").await;
    assert_eq!((served.last_try, served.not_ready), (None, None), "what is over is not told");
}

#[tokio::test(start_paused = true)]
async fn services_that_are_not_ours_or_not_there_are_told_apart() {
    let mut bench = Bench::new();
    bench.add(service("theirs").with("/spec", "loadBalancerClass", json!("other.example/lb")));
    bench.add(service("internal").with("/spec", "type", json!("ClusterIP")));
    for name in ["theirs", "internal"] {
        bench.sync(name).await;
    }
    assert_eq!(explained(&bench, "nobody").await, ServiceExplanation::default());
    let theirs = explained(&bench, "theirs").await;
    assert_eq!((theirs.provider, theirs.class.as_deref()), (None, Some("other.example/lb")));
    assert_eq!(theirs.decision.unwrap().text, "do nothing: no provider here serves it");
    let internal = explained(&bench, "internal").await;
    assert!(internal.uid.is_some() && !internal.is_wanted, "{internal:?}");
}

/// The Service that comes after one with the same name is another one.
#[tokio::test(start_paused = true)]
async fn a_service_that_took_a_name_over_is_told_nothing_of_the_one_before() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Invalid, "of the first")]);
    bench.sync("web").await;
    let first = explained(&bench, "web").await;
    assert!(first.last_try.is_some());
    let mut next = Service::clone(&bench.syncer.store.get(&key("web")).unwrap());
    next.metadata.uid = Some("another".into());
    next.metadata.finalizers = None;
    bench.store.apply_watcher_event(&Event::Apply(next));
    let told = explained(&bench, "web").await;
    assert_eq!((told.uid.as_deref(), told.last_try, told.decision), (Some("another"), None, None));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_gone_says_nothing() {
    let bench = Bench::new();
    let (places, _questions) = places();
    let view = ServiceView { syncer: Arc::downgrade(&bench.syncer), places };
    drop(bench);
    assert_eq!(view.explain("default", "web").await, None);
}

#[tokio::test(start_paused = true)]
async fn of_all_services_those_that_are_not_ready_are_listed_by_name_with_the_reason_and_the_next_try() {
    let mut bench = Bench::new();
    for name in ["web", "fine", "api", "zoo"] {
        bench.add(service(name));
    }
    let refused = |reaction| [failure(reaction, "the cloud refuses")];
    for (name, reaction) in [("web", Reaction::Quota), ("api", Reaction::Invalid), ("zoo", Reaction::Quota)] {
        bench.cloud.fail("ensure", name, refused(reaction));
    }
    for name in ["web", "fine", "api", "zoo"] {
        bench.sync(name).await;
    }
    let troubles = |most| bench.syncer.memory.troubles(most);
    let Listed { all, first } = troubles(2);
    let told = |reaction: &str| Some(format!("failed to ensure load balancer: the cloud refuses ({reaction})"));
    let [api, web] = <[ServiceTrouble; 2]>::try_from(first).expect("two of them");
    let expected = |name: &str, reason, why, next| {
        let name = format!("default/{name}");
        ServiceTrouble { name, reason, why, next, waits_for_turn: None }
    };
    let [of_api, of_web] = [("api", "InvalidService", "invalid"), ("web", "QuotaExceeded", "quota")];
    let expected = |(name, reason, why): (&str, _, _), next| expected(name, reason, told(why), next);
    assert_eq!((all, &api, &web), (3, &expected(of_api, Next::OnChange), &expected(of_web, Next::Unknown)));
    // The queue knows when, and that one is under way.
    let (places, mut questions) = places();
    let view = ServiceView { syncer: Arc::downgrade(&bench.syncer), places };
    let queue = async {
        let Question { keys, answer } = questions.recv().await.expect("it is asked");
        assert_eq!(keys, [key("api"), key("web")]);
        answer.send(vec![Place::Planned(Duration::from_secs(43_200)), Place::Running(Duration::from_secs(7))])
    };
    let (listed, asked) = tokio::join!(view.troubles(2), queue);
    assert!(asked.is_ok(), "somebody waits for it");
    let listed = listed.expect("the controller is there").first;
    assert_eq!(listed, [expected(of_api, Next::OnChangeOr(43_200.0)), expected(of_web, Next::Running(7.0))]);
    tokio::time::advance(Duration::from_secs(600)).await;
    bench.sync("web").await;
    let names: Vec<_> = bench.syncer.memory.troubles(9).first.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["default/api", "default/zoo"], "what is well again is not listed");
}

/// The queue looks at it again after hours, and a change of the Service or of the configuration is worked on at once.
#[tokio::test(start_paused = true)]
async fn a_stranded_service_waits_for_a_change_and_what_failed_before_is_not_why() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Retry, "the cloud fails")]);
    bench.sync("web").await;
    bench.edit("web", &json!({ "spec": { "loadBalancerClass": "other.io/lb" } }));
    assert_eq!(bench.sync("web").await, Verdict::Change);
    let resync = Place::Planned(bench.settings.queue.resync);
    let (told, listed) = placed(&bench, resync, async |view| {
        (view.explain("default", "web").await.unwrap(), view.troubles(9).await.unwrap().first)
    })
    .await;
    let (decision, next) = ("leave the load balancer alone with fake: ", Next::OnChangeOr(43_200.0));
    assert_eq!((told.not_ready.as_deref(), told.last_try, told.next), (Some("Stranded"), None, next));
    assert_starts(&told.decision.unwrap().text, decision);
    let [web] = <[ServiceTrouble; 1]>::try_from(listed).expect("one of them");
    assert_eq!((web.reason, web.next), ("Stranded", next));
    assert_starts(&web.why.unwrap(), decision);
    // It is deleted, and that fails: this is what counts from then on.
    bench.delete("web");
    bench.cloud.fail("delete", "web", [failure(Reaction::Retry, "the cloud fails again")]);
    bench.sync("web").await;
    let soon = Place::Planned(Duration::from_secs(5));
    let listed = placed(&bench, soon, async |view| view.troubles(9).await.unwrap().first).await;
    assert_eq!(listed[0].next, Next::In(5.0));
    assert!(listed[0].why.as_deref().unwrap().contains("the cloud fails again"), "{listed:?}");
}

/// Of many that a cloud keeps waiting, most looked as if a call of theirs hung.
#[tokio::test(start_paused = true)]
async fn a_try_that_waits_for_its_turn_says_so_and_one_that_has_it_does_not() {
    let settings = ServiceSettings { concurrent_syncs: NonZeroUsize::MIN, ..ServiceSettings::default() };
    let mut bench = Bench::with(FakeBalancers { delay: Duration::from_secs(90), ..Default::default() }, settings);
    for name in ["api", "web"] {
        bench.add(service(name));
        bench.cloud.fail("ensure", name, [failure(Reaction::Retry, "the cloud fails")]);
        bench.sync(name).await;
    }
    tokio::time::advance(Duration::from_secs(600)).await;
    let runs = [bench.begin("api"), bench.begin("web")];
    let waits = async |seconds| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let running = Place::Running(Duration::from_secs(60));
        placed(&bench, running, async |view| {
            let listed = view.troubles(9).await.unwrap().first;
            let mut told = vec![];
            for service in listed {
                let name = service.name.trim_start_matches("default/");
                let waited = view.explain("default", name).await.unwrap().waits_for_turn_seconds;
                let listed = service.waits_for_turn.map(|time| time.as_secs_f64().round());
                assert_eq!(listed, waited.map(f64::round));
                told.push((name.to_owned(), waited.map(f64::round)));
            }
            told
        })
        .await
    };
    let of = |name: &str, waited| (name.to_owned(), waited);
    assert_eq!(waits(60).await, [of("api", None), of("web", Some(60.0))]);
    // The first one is well again.
    assert_eq!(waits(40).await, [of("web", None)]);
    runs.iter().for_each(JoinHandle::abort);
}
