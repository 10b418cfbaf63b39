//! Cases 157 to 171: runs, retries, and what is remembered between them.

use ccm_apiserver::ApiError;
use ccm_cloud::{Failure, Reaction};
use serde_json::json;

use super::*;
use crate::service::condition::told;
use crate::service::error::{SyncError, Task};

#[tokio::test(start_paused = true)]
async fn cases_157_and_166_a_good_service_is_done_after_one_run() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.sync("web").await, Verdict::Done, "our own writes wake it");
    assert_eq!((bench.cloud.calls().len(), bench.patches()), (1, 2));
    assert_eq!(bench.metrics.service.calls("ensure", "ok"), 1);
}

#[tokio::test(start_paused = true)]
async fn case_158_a_changed_service_is_ensured_as_it_is_now() {
    let mut bench = Bench::new();
    bench.add(service("web").with("/spec", "loadBalancerIP", json!("192.168.1.1")));
    bench.sync("web").await;
    bench.edit("web", &json!({ "spec": { "loadBalancerIP": "192.168.1.11" } }));
    bench.sync("web").await;
    let asked: Vec<_> = bench.cloud.seen().into_iter().map(|service| service.requested_ip.unwrap()).collect();
    assert_eq!(asked, ["192.168.1.1", "192.168.1.11"]);
}

#[tokio::test(start_paused = true)]
async fn case_159_a_conflict_on_the_status_is_warned_of_and_tried_again() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    bench.api.refuse(STATUS, 409, 1);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_starts(
        bench.events().await.last().unwrap(),
        "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to update load balancer status: the object was \
         changed by somebody else at the same time (api): retried in ",
    );
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_160_a_service_that_is_gone_needs_no_status() {
    let mut bench = Bench::new();
    bench.add(finalized("web"));
    bench.api.refuse(STATUS, 404, 1);
    assert_eq!(bench.sync("web").await, Verdict::Done);
}

/// The API server takes no new finalizer for what is being deleted, and the watch has not said yet that it is.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_deleted_before_it_has_its_finalizer_is_no_failure() {
    let mut bench = Bench::new();
    bench.add(service("web").with("/metadata", "finalizers", json!(["example.com/other"])));
    bench.api.delete_service("web");
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert!(bench.cloud.balancers().is_empty());
    assert!(!bench.reasons().await.iter().any(|reason| reason.ends_with("Failed")));
}

/// Case 161 is a key that cannot be parsed: here a key is a namespace and a name from the start.
#[tokio::test(start_paused = true)]
async fn cases_161_and_163_a_key_without_a_service_is_done() {
    let mut bench = Bench::new();
    assert_eq!(bench.sync("invalid/key/string").await, Verdict::Done);
    assert_eq!((bench.cloud.calls().len(), bench.api.calls().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn cases_162_and_165_a_service_that_went_without_its_finalizer_takes_its_load_balancer_with_it() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.api.destroy_service("web");
    bench.catch_up();
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.balancers().len(), bench.syncer.memory.len()), (0, 0));
    assert_eq!(bench.reasons().await[2..], ["DeletingLoadBalancer", "DeletedLoadBalancer"]);
}

#[tokio::test(start_paused = true)]
async fn case_164_a_service_that_is_gone_is_remembered_until_the_cloud_let_go() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.api.destroy_service("web");
    bench.catch_up();
    bench.cloud.fail("delete", "web", [failure(Reaction::Retry, "the cloud is down")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)));
    assert_eq!(bench.syncer.memory.len(), 1);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.balancers().len(), bench.syncer.memory.len()), (0, 0));
    let events = bench.events().await;
    assert!(
        events.iter().any(|event| event.starts_with(
            "Warning DeleteLoadBalancerFailed: Error deleting load balancer: failed to delete load balancer: the cloud is \
              down (retry): retried with back-off, next in "
        )),
        "{events:?}"
    );
}

/// The delays of one key, by upstream's formula and up to as much again by chance.
#[tokio::test(start_paused = true)]
async fn case_167_a_plain_failure_is_tried_again_with_back_off() {
    // Whatever nobody foresaw is tried again after 5 min at most, with all that is added by chance.
    const MOST: u64 = 300;
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.cloud.fail("ensure", "web", vec![failure(Reaction::Retry, "down"); 9]);
    for floor in [5, 10, 20, 40, 80, 160, 300, 300, 300] {
        let Verdict::After(delay) = bench.sync("web").await else { panic!("no retry") };
        let range = Duration::from_secs(floor.min(MOST - MOST / 10))..=Duration::from_secs((2 * floor).min(MOST));
        assert!(range.contains(&delay), "{floor}: {delay:?}");
        // Not before.
        assert!(matches!(bench.sync("web").await, Verdict::After(_)));
        tokio::time::advance(delay).await;
    }
    assert_eq!((bench.cloud.count("ensure"), bench.sync("web").await), (9, Verdict::Done));
}

#[tokio::test(start_paused = true)]
async fn case_168_a_delay_that_the_provider_names_is_exact_and_leaves_the_back_off_alone() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    let pending = Failure { retry_after: Some(Duration::from_secs(42)), ..failure(Reaction::Pending, "creating") };
    bench.cloud.fail("ensure", "web", [pending.clone(), pending, failure(Reaction::Retry, "down")]);
    for _ in 0..2 {
        assert_eq!(bench.sync("web").await, Verdict::After(Duration::from_secs(42)));
        tokio::time::advance(Duration::from_secs(42)).await;
    }
    let Verdict::After(delay) = bench.sync("web").await else { panic!("no retry") };
    let first = Duration::from_secs(5)..=Duration::from_secs(10);
    assert!(first.contains(&delay), "the first delay of the back-off: {delay:?}");
}

/// Upstream's cache is a list with its own operations (case 169); what it is for is this.
#[tokio::test(start_paused = true)]
async fn case_169_memory_ends_with_the_services() {
    let mut bench = Bench::new();
    for i in 0..20 {
        bench.add(service(&format!("s{i}")));
        bench.sync(&format!("s{i}")).await;
    }
    assert_eq!(bench.syncer.memory.len(), 20);
    for i in 0..10 {
        bench.delete(&format!("s{i}"));
        bench.sync(&format!("s{i}")).await;
        bench.sync(&format!("s{i}")).await;
    }
    assert_eq!((bench.syncer.memory.len(), bench.cloud.balancers().len(), bench.syncer.locks.len()), (10, 10, 0));
    assert_eq!(bench.scraped("ccm_services_pending"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn case_170_the_load_balancer_of_a_service_that_was_created_anew_is_deleted_first() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.api.destroy_service("web");
    bench.add(service("web").with("/metadata", "uid", json!("another")));
    bench.cloud.fail("delete", "web", [failure(Reaction::Retry, "down")]);
    assert!(matches!(bench.sync("web").await, Verdict::After(_)), "nothing is made before the old one is gone");
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.cloud.calls()[1..], ["mark web", "delete web", "mark web", "delete web", "ensure web: n0 n1"]);
    let uids: Vec<_> = bench.cloud.seen()[1..].iter().map(|service| service.uid.clone()).collect();
    assert_eq!(uids, ["uid-web", "uid-web", "another"]);
    assert_eq!(bench.cloud.balancers().len(), 1);
}

/// In Go the delay is somewhere in a chain of errors (case 171). Here whatever wraps a failure is this one type, and keeps it.
#[test]
fn case_171_a_failure_keeps_its_delay_wherever_it_goes() {
    let failure = Failure { retry_after: Some(Duration::from_secs(9)), ..failure(Reaction::Throttled, "slow down") };
    for task in [Task::Read, Task::Lock, Task::Ensure, Task::Update, Task::Delete] {
        let error = SyncError::Cloud { task, failure: failure.clone() };
        assert_eq!(error.verdict(Duration::from_secs(60)), Verdict::After(Duration::from_secs(9)));
        assert!(told(&error, "later").contains("slow down (throttled): later"));
    }
    let error = ApiError::Unavailable { code: 429, message: "busy".into(), retry_after: Some(Duration::from_secs(9)) };
    let error = SyncError::Api { task: Task::WriteStatus, error };
    assert_eq!(error.verdict(Duration::from_secs(60)), Verdict::After(Duration::from_secs(9)));
}
