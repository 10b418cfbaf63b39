//! A new provider proves itself with the cluster as a whole.

use std::sync::Arc;

use ccm_cloud::{Cluster as _, ClusterSubject, Failure, Reaction, Service};
use ccm_sandbox::Slot;
use serde_json::json;

use crate::cloud::{Cloud, ok};
use crate::rig::{Grants, Scripted, map, node, service};
use crate::successor::{Works, faults, is_on_probation, rolled_back};

async fn reconcile(slot: &Slot) -> Result<Vec<(ClusterSubject, Failure)>, Failure> {
    slot.reconcile(vec![node("a")], vec![service("web")]).await
}

#[tokio::test]
async fn the_last_good_one_does_what_a_new_one_fails_at_and_the_failures_count() {
    let works = Works::new();
    for (behaviour, why) in [
        ("refuse", "2 of its first 2 calls failed where the one before did not, the last: cluster.reconcile: "),
        ("unknown", "2 of its first 2 calls failed where the one before did not, the last: cluster.reconcile: "),
        ("trap", "2 of its first 2 calls gave no answer, the last: cluster.reconcile: the provider crashed"),
    ] {
        let slot = works.slot("good", behaviour, faults(2)).await;
        assert_eq!(reconcile(&slot).await, Ok(vec![]), "{behaviour}");
        assert!(is_on_probation(&slot), "{behaviour}");
        assert_eq!(reconcile(&slot).await, Ok(vec![]), "{behaviour}");
        assert!(rolled_back(&slot).starts_with(why), "{behaviour}: {}", rolled_back(&slot));
    }
}

#[tokio::test]
async fn what_both_fail_at_is_nobodys_fault_and_a_cloud_that_asks_for_a_pause_gets_it() {
    let works = Works::new();
    let slot = works.slot("refuse", "unknown", faults(1)).await;
    // Of the whole call it is more than of one Service.
    let failures = reconcile(&slot).await.unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    rolled_back(&slot);

    for (good, new, told) in [("unknown", "unknown", Reaction::Retry), ("good", "throttled", Reaction::Throttled)] {
        let slot = works.slot(good, new, faults(1)).await;
        assert_eq!(reconcile(&slot).await.unwrap_err().reaction, told, "{new}");
        assert!(is_on_probation(&slot), "{new}");
    }
}

/// What was sent may not show yet.
#[tokio::test]
async fn the_last_good_one_does_not_begin_anew_at_once_what_crashed_with_the_cloud_half_changed() {
    let works = Works::new();
    for (method, effect, is_done) in [("post", "once", false), ("get", "read", true)] {
        let cloud = Cloud::start(|_| ok("{}"));
        let Scripted(new) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
        let slot = Slot::new(works.version("1", "good").await, None);
        slot.exchange(Arc::new(new), faults(2));
        let send = json!({ "send": { "method": method, "effect": effect, "path": "/firewalls" } });
        let script = json!({ "reconcile": { "steps": [send, { "crash": {} }] } }).to_string();
        let web = || Service { annotations: map(&[("scripted.example/script", &script)]), ..service("web") };
        assert_eq!(slot.reconcile(vec![], vec![web()]).await.is_ok(), is_done, "{effect}");
        assert!(is_on_probation(&slot), "{effect}");
        drop(slot.reconcile(vec![], vec![web()]).await);
        assert!(rolled_back(&slot).contains("gave no answer"), "{}", rolled_back(&slot));
        assert_eq!(slot.reconcile(vec![], vec![web()]).await, Ok(vec![]), "{effect}");
    }
}
