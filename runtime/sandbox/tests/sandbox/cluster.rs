//! Work on the cluster as a whole.

use ccm_cloud::{Cluster as _, ClusterSubject, Failure, Reaction, Service};
use ccm_egress::Settings;
use ccm_sandbox::Limits;
use serde_json::json;

use crate::cloud::{Cloud, ok};
use crate::rig::{Grants, REPORT, Rig, Scripted, component, map, node, service};
use crate::setup::SESSION;

fn failed(message: &str) -> Failure {
    Failure::new(Reaction::Retry, message)
}

#[tokio::test]
async fn failures_of_single_objects_come_back_beside_each_other() {
    let rig = Rig::hostile(Limits::default()).await;
    let failures = rig.provider.reconcile(vec![node("a"), node("b")], vec![service("web")]).await;
    let web = ClusterSubject::Service { namespace: "default".into(), name: "web".into() };
    let expected = [
        (ClusterSubject::Node("a".into()), failed("bad Node")),
        (ClusterSubject::Node("b".into()), failed("bad Node")),
        (web, failed("bad Service")),
    ];
    assert_eq!(failures, Ok(expected.to_vec()));
    assert_eq!(rig.end().function, "cluster.reconcile");
    assert_eq!(rig.provider.reconcile(vec![], vec![]).await, Ok(vec![]));
    let refused = rig.provider.reconcile(vec![node("refuse")], vec![]).await;
    assert_eq!(refused, Err(Failure::new(Reaction::Unauthorized, "no")));
}

#[tokio::test]
async fn a_failure_of_an_object_that_was_not_asked_about_is_no_answer() {
    let rig = Rig::hostile(Limits::default()).await;
    let said = |what: &str| {
        failed(&format!(
            "cluster.reconcile of hostile: the provider's answer breaks the contract: it gave a failure of {what}, which \
             is not in the call{REPORT}"
        ))
    };
    let nodes = rig.provider.reconcile(vec![node("a"), node("stranger")], vec![]).await;
    assert_eq!(nodes, Err(said("the Node not-of-this-call")));
    let services = rig.provider.reconcile(vec![], vec![service("stranger")]).await;
    assert_eq!(services, Err(said("the Service default/not-of-this-call")));
    let crashed = rig.provider.reconcile(vec![node("panic")], vec![]).await.unwrap_err();
    assert!(crashed.message.starts_with("cluster.reconcile of hostile: the provider crashed"), "{crashed}");
}

#[tokio::test]
async fn it_may_change_the_cloud() {
    let cloud = Cloud::start(|_| ok("{}"));
    let Scripted(provider) = Scripted::new(Grants::of(&[("api", cloud.url())])).await;
    let send = json!({ "send": { "method": "post", "effect": "once", "path": "/firewalls" } });
    let script = json!({ "reconcile": { "steps": [send] } }).to_string();
    let web = Service { annotations: map(&[("scripted.example/script", &script)]), ..service("web") };
    let failures = provider.reconcile(vec![], vec![web]).await.unwrap();
    assert!(failures[0].1.message.contains("\"status\":200"), "{failures:?}");
    assert_eq!(cloud.take().len(), 1);
}

#[tokio::test]
async fn a_component_without_it_says_so() {
    let rig = Rig::of(component(SESSION), Limits::default(), Settings::default()).await.unwrap();
    let text = "the provider session does not export cluster";
    let failure = rig.provider.reconcile(vec![], vec![]).await.unwrap_err();
    assert_eq!(failure, Failure::new(Reaction::Unsupported, text));
}
