//! One provider takes the place of another while calls are under way.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Finding, Instances as _, LoadBalancers as _, Need, Node};
use ccm_sandbox::{Phase, ProbationSettings, Slot};
use futures::FutureExt as _;
use hyper::Response;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::rig::{Grants, Scripted, backends, map, node, service};
use crate::server::{Server, full};
use crate::successor::{Works, answers, faults, find, finder, generation, is_on_probation};

/// A probation that the first answer ends.
const SHORT: ProbationSettings = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };

/// A cloud that answers when it is let, and tells when it is asked.
pub(crate) async fn slow_cloud() -> (Server, Arc<Semaphore>, Arc<Semaphore>) {
    let (asked, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (tells, waits) = (Arc::clone(&asked), Arc::clone(&go));
    let server = Server::start(move |_| {
        let (tells, waits) = (Arc::clone(&tells), Arc::clone(&waits));
        async move {
            tells.add_permits(1);
            waits.acquire().await.unwrap().forget();
            Ok(Response::new(full("{}")))
        }
        .boxed()
    });
    (server.await, asked, go)
}

#[tokio::test]
async fn a_call_that_waits_for_the_cloud_ends_on_its_own_provider_which_is_freed_then() {
    let (cloud, asked, go) = slow_cloud().await;
    let Scripted(old) = Scripted::new(Grants::of(&[("api", cloud.url(""))])).await;
    let old = Arc::new(old);
    let freed = Arc::downgrade(&old);
    let slot = Arc::new(Slot::new(old, None));
    let annotations = map(&[("scripted.example/script", &json!([{ "send": { "path": "/" } }]).to_string())]);
    let (caller, waiting) = (Arc::clone(&slot), Node { annotations, ..node("slow") });
    let mut calls = JoinSet::new();
    calls.spawn(async move { caller.find(vec![waiting], Need::Metadata).await });
    asked.acquire().await.unwrap().forget();

    let new = Works::new().version("2", "good").await;
    slot.exchange(new, SHORT);
    assert_eq!(answers(&slot).await, "2", "while the other call waits");
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
    assert!(freed.upgrade().is_some(), "it was freed under a call that runs");

    go.add_permits(1);
    let findings = calls.join_next().await.unwrap().unwrap().unwrap();
    let [Finding::Found(instance)] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(instance.provider_id, "scripted://slow");
    assert!(instance.labels["0"].contains("200"), "{}", instance.labels["0"]);
    assert!(freed.upgrade().is_none(), "somebody keeps it after its last call");
}

#[tokio::test]
async fn the_last_good_one_is_kept_as_long_as_the_new_one_is_on_probation() {
    let works = Works::new();
    let old = works.version("1", "good").await;
    let freed = Arc::downgrade(&old);
    let slot = Slot::new(old, None);
    slot.exchange(works.version("2", "good").await, ProbationSettings { calls: 2, ..SHORT });
    assert_eq!(answers(&slot).await, "2");
    assert_eq!(slot.last_good().unwrap().descriptor().version, "1");
    assert!(freed.upgrade().is_some());
    assert_eq!(answers(&slot).await, "2");
    assert_eq!(slot.last_good().unwrap().descriptor().version, "2");
    assert!(freed.upgrade().is_none());
}

#[tokio::test]
async fn a_provider_that_failed_is_freed() {
    let works = Works::new();
    let slot = Slot::new(works.version("1", "good").await, None);
    let bad = works.version("2", "trap").await;
    let freed = Arc::downgrade(&bad);
    slot.exchange(bad, faults(1));
    assert_eq!(answers(&slot).await, "1");
    assert!(freed.upgrade().is_none());
}

#[tokio::test]
async fn an_endless_loop_holds_nobody_up_and_counts_against_nobody_else() {
    let works = Works::new();
    let old = works.version("1", "loop").await;
    let freed = Arc::downgrade(&old);
    let slot = Arc::new(Slot::new(old, None));
    let caller = Arc::clone(&slot);
    let mut looping = JoinSet::new();
    looping.spawn(async move { find(&caller, &["a"]).await });
    tokio::task::yield_now().await;
    let first_calls = slot.first_calls();
    slot.exchange(works.version("2", "good").await, ProbationSettings { calls: 2, ..SHORT });
    assert_eq!(*first_calls.borrow(), None);
    assert_eq!(answers(&slot).await, "2");
    let first_call = *first_calls.borrow();
    assert!(first_call.is_some(), "a call that began on the new one has ended");
    let error = looping.join_next().await.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("call-cpu"), "{error}");
    assert!(is_on_probation(&slot), "it is judged by what the one before did");
    assert_eq!(answers(&slot).await, "2");
    assert_eq!(*first_calls.borrow(), first_call, "only the first one is that");
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
    assert!(freed.upgrade().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_every_answer_is_whole_and_of_the_provider_of_the_moment() {
    const EXCHANGES: usize = 60;
    let works = Works::new();
    let versions =
        [works.version("0", "good").await, works.version("1", "good").await, works.version("2", "good").await];
    let slot = Arc::new(Slot::new(Arc::clone(&versions[0]), None));
    let answered = Arc::new(Semaphore::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (slot, answered) = (Arc::clone(&slot), Arc::clone(&answered));
        callers.spawn(async move {
            let mut exchanges = 0;
            while exchanges < EXCHANGES {
                let before = generation(&slot);
                let version = finder(&find(&slot, &["a", "b", "c"]).await.unwrap());
                let after = generation(&slot);
                answered.add_permits(1);
                // Generation 1 is that of version 0.
                let served = (before..=after).map(|generation| ((generation - 1) % 3).to_string());
                assert!(served.clone().any(|other| other == version), "{version} between {before} and {after}");
                exchanges = usize::try_from(after - 1).unwrap();
            }
        });
    }
    for exchange in 1..=EXCHANGES {
        slot.exchange(Arc::clone(&versions[exchange % 3]), faults(1));
        // While others are under way: most began before the exchange.
        answered.acquire().await.unwrap().forget();
    }
    callers.join_all().await;
    assert_eq!(generation(&slot), 1 + u64::try_from(EXCHANGES).unwrap());
    assert!(is_on_probation(&slot));
}

#[tokio::test]
async fn the_generation_grows_with_exchanges_and_rollbacks_and_with_nothing_else() {
    let works = Works::new();
    let slot = Slot::new(works.version("1", "good").await, None);
    let mut generations = slot.generations();
    assert_eq!(*generations.borrow_and_update(), 1);
    slot.exchange(works.version("2", "good").await, SHORT);
    assert!(generations.has_changed().unwrap());
    assert_eq!(*generations.borrow_and_update(), 2);
    answers(&slot).await;
    assert_eq!(*slot.phases().borrow(), Phase::Proven);
    assert!(!generations.has_changed().unwrap(), "it is the same provider");
    slot.exchange(works.version("3", "trap").await, SHORT);
    assert_eq!(*generations.borrow_and_update(), 3);
    assert_eq!(answers(&slot).await, "2");
    assert_eq!(*generations.borrow_and_update(), 4);
}

#[tokio::test]
async fn what_a_slot_says_of_itself_is_of_the_provider_of_the_moment() {
    use ccm_cloud::Capability;
    let works = Works::new();
    let cloudlycke = works.cloudlycke().await;
    cloudlycke.offers().await.unwrap().unwrap();
    let slot = Slot::new(works.version("7", "good").await, None);
    assert!(slot.has(Capability::LoadBalancers) && !slot.has(Capability::Cluster));
    assert_eq!((slot.surveys(), slot.provider().descriptor().version.as_str()), (false, "7"));
    slot.exchange(cloudlycke, faults(1));
    assert!(slot.surveys());
    assert_eq!(ccm_cloud::LoadBalancers::descriptor(&slot).version, slot.provider().descriptor().version);
    assert_eq!(slot.name(service("web")).await, Ok("default-web".to_owned()));
    assert_eq!(slot.survey(backends(&[]), vec![]).await, Ok(vec![]));
}
