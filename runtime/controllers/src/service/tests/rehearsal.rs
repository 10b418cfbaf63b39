//! The work on one Service for a plan.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_cloud::{LoadBalancerSource, LoadBalancers, Reaction};
use serde_json::json;

use super::restart::{surveying, three};
use super::*;
use crate::rehearsal::Rehearsed;
use crate::service::ServiceRehearsal;
use crate::testing::Version;

fn named(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ("default".to_owned(), (*name).to_owned())).collect()
}

/// What a plan says of a Service that nobody keeps anything from.
async fn rehearsed(bench: &Bench, name: &str) -> Rehearsed {
    let rehearsal = ServiceRehearsal::of(Arc::clone(&bench.syncer), &named(&[name]), || {}).await;
    rehearsal.rehearse("default", name, &CancellationToken::new(), || {}).await
}

#[track_caller]
fn assert_unknown(told: &Rehearsed, part: &str) {
    assert!(told.unknown.as_ref().is_some_and(|why| why.contains(part)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_is_told_with_its_decision_and_one_that_is_served_has_nothing_to_do() {
    let mut bench = three(FakeBalancers::default()).await.restart();
    bench.catch_up();
    let told = rehearsed(&bench, "a").await;
    assert_eq!(told, Rehearsed::decided("do nothing with fake: it is as it was ensured"));
    assert_eq!(bench.cloud.calls().iter().filter(|call| call.starts_with("ensure")).count(), 0);
    assert_eq!(rehearsed(&bench, "nowhere").await, Rehearsed::default());
    bench.add(service("new"));
    let told = rehearsed(&bench, "new").await;
    assert_eq!(told, Rehearsed::decided("ensure the load balancer with fake: nothing is recorded of it"));
    bench.add(service("theirs").with("/spec", "loadBalancerClass", json!("other.example/lb")));
    assert_eq!(rehearsed(&bench, "theirs").await, Rehearsed::decided("do nothing: no provider here serves it"));
}

#[tokio::test(start_paused = true)]
async fn what_differs_at_the_cloud_is_found_with_a_survey_and_without() {
    for cloud in [FakeBalancers::default(), surveying()] {
        let mut bench = three(cloud).await.restart();
        bench.cloud.lose("a");
        bench.catch_up();
        let told = rehearsed(&bench, "a").await;
        let missing = "ensure the load balancer with fake: the cloud has no such load balancer any more";
        assert_eq!(told, Rehearsed::decided(missing));
    }
}

/// A dry run once asked about each load balancer of the account whenever somebody changed one Service.
#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_about_those_that_are_planned_alone() {
    for (cloud, asked) in [(FakeBalancers::default(), ["get b"]), (surveying(), ["survey 1"])] {
        let mut bench = three(cloud).await.restart();
        bench.catch_up();
        rehearsed(&bench, "b").await;
        assert_eq!(bench.cloud.take_calls(), asked);
    }
}

/// A dry run that compares many with a slow cloud would otherwise pass for one that hangs.
#[tokio::test(start_paused = true)]
async fn who_watches_hears_of_each_step_of_the_comparison() {
    for cloud in [FakeBalancers::default(), surveying()] {
        let mut bench = three(cloud).await;
        bench.settings.survey_size = NonZeroUsize::MIN;
        let mut bench = bench.restart();
        bench.catch_up();
        let steps = Cell::new(0);
        let goes_on = || steps.set(steps.get() + 1);
        ServiceRehearsal::of(Arc::clone(&bench.syncer), &named(&["a", "b", "c"]), goes_on).await;
        assert_eq!(steps.get(), 3);
    }
}

/// It may differ.
#[tokio::test(start_paused = true)]
async fn a_service_whose_load_balancer_nobody_could_see_is_not_known() {
    let mut bench = three(surveying()).await.restart();
    bench.catch_up();
    bench.cloud.hide("a", Some(failure(Reaction::Retry, "503 of the cloud")));
    assert_unknown(&rehearsed(&bench, "a").await, "503 of the cloud");
    assert_eq!(rehearsed(&bench, "b").await.unknown, None);
    bench.cloud.fail("survey", "", [failure(Reaction::Unauthorized, "401 of the cloud")]);
    assert_unknown(&rehearsed(&bench, "b").await, "401 of the cloud");

    let mut bench = three(FakeBalancers::default()).await.restart();
    bench.catch_up();
    bench.cloud.fail("get", "a", [failure(Reaction::Retry, "500 of the cloud")]);
    assert_unknown(&rehearsed(&bench, "a").await, "500 of the cloud");
    // What is to be done anyway, is done whatever that look would have said.
    bench.cloud.fail("get", "a", [failure(Reaction::Retry, "500 of the cloud")]);
    bench.edit("a", &json!({ "spec": { "ports": [{ "port": 443 }] } }));
    assert_eq!(rehearsed(&bench, "a").await.unknown, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_or_a_write_that_fails_is_not_known() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", [failure(Reaction::Quota, "no more addresses")]);
    let told = rehearsed(&bench, "web").await;
    assert_eq!(told.decision.as_deref(), Some("ensure the load balancer with fake: nothing is recorded of it"));
    assert_unknown(&told, "failed to ensure load balancer: no more addresses");
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.api.refuse(STATUS, 403, 1);
    assert_unknown(&rehearsed(&bench, "web").await, "failed to add load balancer cleanup finalizer");
    assert_eq!(bench.cloud.count("ensure"), 0);
}

/// A component that is not the leader's. A plan lets nobody wait for others; whoever waits all the same does not pass for done.
#[tokio::test(start_paused = true)]
async fn with_another_revision_of_the_provider_all_are_ensured_again_or_wait_and_none_passes_for_done() {
    let changed = "the provider has another revision or configuration";
    for (first, decision, unknown) in [
        (0, format!("ensure the load balancer with fake: {changed}"), None),
        (
            1,
            format!("do nothing with fake: {changed}, and other Services go first"),
            Some(format!("{changed}, and other Services go first")),
        ),
    ] {
        let mut bench = three(FakeBalancers::default()).await;
        bench.settings.revision_first = first;
        let mut bench = bench.restart();
        bench.catch_up();
        bench.cloud.exchange(Version { component: "2".into(), revision: "2".into(), ..Version::default() });
        let rehearsal = ServiceRehearsal::of(Arc::clone(&bench.syncer), &named(&["a", "b", "c"]), || {}).await;
        for name in ["a", "b", "c"] {
            let told = rehearsal.rehearse("default", name, &CancellationToken::new(), || {}).await;
            assert_eq!(told, Rehearsed { decision: Some(decision.clone()), unknown: unknown.clone() }, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_left_alone_until_its_provider_is_configured_again_is_not_known() {
    let bench = three(FakeBalancers::default()).await;
    let api = bench.api;
    let mut bench = Bench::serving(
        api,
        Arc::new(FakeBalancers { name: "other", ..FakeBalancers::default() }),
        vec![],
        ServiceSettings::default(),
    );
    bench.catch_up();
    assert_unknown(&rehearsed(&bench, "a").await, "the provider that has it is not configured");
}

/// Is another provider whenever it is asked for.
struct Restless(Arc<FakeBalancers>, AtomicUsize);

impl LoadBalancerSource for Restless {
    fn load_balancers(&self) -> Arc<dyn LoadBalancers> {
        let configuration = self.1.fetch_add(1, Ordering::Relaxed).to_string();
        self.0.exchange(Version { configuration, ..Version::default() });
        self.0.load_balancers()
    }
}

/// After eight runs of which each asked for another one, nothing was known, and the plan said that there was nothing to do.
#[tokio::test(start_paused = true)]
async fn a_service_on_which_the_work_does_not_end_is_not_known() {
    let cloud = Arc::new(FakeBalancers::default());
    let provider = Arc::new(Restless(Arc::clone(&cloud), AtomicUsize::new(0)));
    let member = LoadBalancerMember { provider, classes: vec![] };
    let mut bench = Bench::serving(FakeApi::new(), cloud, vec![member], ServiceSettings::default());
    bench.add(service("web"));
    assert_unknown(&rehearsed(&bench, "web").await, "changes at this moment");
    assert_eq!(bench.cloud.count("ensure"), 0);
    // Who watches hears of each: with a slow cloud, all of them take long.
    let runs = Cell::new(0);
    let rehearsal = ServiceRehearsal::of(Arc::clone(&bench.syncer), &named(&["web"]), || {}).await;
    rehearsal.rehearse("default", "web", &CancellationToken::new(), || runs.set(runs.get() + 1)).await;
    assert_eq!(runs.get(), 8);
    // Where a change of the cloud was stopped, what follows depends on the answer.
    let taken = |bench: &Bench| bench.syncer.members[&0].provider.load_balancers().configuration();
    let stopped = CancellationToken::new();
    stopped.cancel();
    let rehearsal = ServiceRehearsal::of(Arc::clone(&bench.syncer), &named(&["web"]), || {}).await;
    let before: usize = taken(&bench).parse().unwrap();
    rehearsal.rehearse("default", "web", &stopped, || {}).await;
    let once = taken(&bench).parse::<usize>().unwrap() - before;
    rehearsal.rehearse("default", "web", &CancellationToken::new(), || {}).await;
    let again = taken(&bench).parse::<usize>().unwrap() - before - once;
    assert!(again > 4 * once, "{once} and {again}");
}
