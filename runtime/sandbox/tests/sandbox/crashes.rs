//! Calls without an answer are counted: a new provider is judged by them.

#[path = "../../../../tests/successor/fill.rs"]
mod fill;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_cloud::{Instances as _, LoadBalancers as _, Need, Service};
use ccm_egress::ProviderContext;
use ccm_sandbox::{Limits, Provider, Sandbox};
use serde_json::json;

use crate::cloud::{Cloud, ok};
use crate::rig::{Grants, Scripted, backends, component, map, node, service};

const SUCCESSOR: &str = "guests/successor.wasm";

/// `tests/successor` lists the behaviours.
async fn behaving(behaviour: &str) -> Provider {
    let bytes = fill::fill(component(SUCCESSOR), &[("version", "2"), ("behaviour", behaviour)]).unwrap();
    let limits = Limits { call_cpu: Duration::from_millis(200), ..Limits::default() };
    let component = Sandbox::try_new().unwrap().load(bytes, limits, false).await.unwrap();
    component.into_provider(ProviderContext::closed(), None, None)
}

#[tokio::test]
async fn a_crash_an_endless_loop_and_a_broken_answer_are_counted_and_failures_are_not() {
    for (behaviour, last) in [
        ("trap", Some("the provider crashed")),
        ("loop", Some("more than 200ms of computing")),
        ("too-few", Some("the provider's answer breaks")),
        ("unknown", None),
        ("refuse", None),
        ("good", None),
    ] {
        let provider = behaving(behaviour).await;
        for calls in 1..=2 {
            drop(provider.find(vec![node("a"), node("b")], Need::Existence).await);
            let ((all, crashes), text) = (provider.crashes(), provider.last_crash());
            assert_eq!((all, crashes), (calls, if last.is_some() { calls } else { 0 }), "{behaviour}");
            let expected = last.map_or_else(String::new, |last| format!("instances.find: {last}"));
            assert!(text.starts_with(&expected) && text.is_empty() == last.is_none(), "{behaviour}: {text}");
        }
        let outcome = provider.ensure(service("web"), backends(&["a"])).await;
        let ((_, crashes), text) = (provider.crashes(), provider.last_crash());
        assert_eq!(crashes == 3, last.is_some(), "{behaviour}: {outcome:?}");
        assert_eq!(text.starts_with("load-balancers.ensure: "), last.is_some(), "{behaviour}: {text}");
        // Whoever may write Services makes a webhook ask as often as it likes.
        drop(provider.validate(service("web"), None, true).await);
        assert_eq!(provider.crashes().1, crashes, "{behaviour}");
    }
}

/// What was sent may not show yet: whoever began anew at once would do it a second time.
#[tokio::test]
async fn it_is_known_whether_work_for_the_cluster_without_an_answer_had_begun_to_change_the_cloud() {
    for (method, effect, end, half_done) in [
        ("post", "once", json!({ "crash": {} }), true),
        ("put", "repeatable", json!({ "crash": {} }), true),
        ("get", "read", json!({ "crash": {} }), false),
        ("post", "once", json!({ "fail": "it says so itself" }), false),
    ] {
        let cloud = Cloud::start(|_| ok("{}"));
        let Scripted(provider) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
        let send = json!({ "send": { "method": method, "effect": effect, "path": "/firewalls" } });
        let has_answer = end.get("fail").is_some();
        let script = json!({ "reconcile": { "steps": [send, end] } }).to_string();
        let web = Service { annotations: map(&[("scripted.example/script", &script)]), ..service("web") };
        let noted = Arc::new(AtomicBool::new(false));
        let answer = provider.reconcile_noting(vec![], vec![web], Arc::clone(&noted)).await;
        assert_eq!(answer.is_ok(), has_answer, "{effect}");
        assert_eq!((cloud.take().len(), noted.load(Ordering::Relaxed)), (1, half_done), "{effect}");
    }
}
