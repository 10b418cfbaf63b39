//! Which request to the cloud a failure is about: the host has seen it, whatever the guest says.

use std::num::NonZeroU32;

use ccm_cloud::{Backend, Failure, FindError, Finding, Instances as _, LoadBalancers as _, Need, Node, Reaction};
use serde_json::{Value, json};

use crate::cloud::{Asked, Cloud, Reply, reply};
use crate::rig::{Grants, Scripted, map, node, service};

/// A cloud that says in each path which status it answers with, and gives each request an ID.
async fn guest() -> (Cloud, Scripted) {
    let cloud = Cloud::start(|asked: &Asked| {
        let (_, path) = asked.line.split_once("/status/").unwrap();
        let status = &path[..3];
        Reply::Bytes(reply(&format!("{status} So"), &format!("x-request-id: req-{status}\r\n"), "{}"))
    });
    let mut grants = Grants::of(&[("api", cloud.url())]);
    grants.settings.retry.attempts = 1;
    grants.settings.budget.breaker_failures = NonZeroU32::MAX;
    let guest = Scripted::new(grants).await;
    (cloud, guest)
}

fn post(status: u16) -> Value {
    json!({ "send": { "method": "post", "effect": "once", "path": format!("/status/{status}") } })
}

fn get(status: u16) -> Value {
    json!({ "send": { "path": format!("/status/{status}") } })
}

/// Status, method, path and ID of the request behind a failure.
fn told(failure: &Failure) -> Option<(u16, &str, &str, &str)> {
    let request = failure.request.as_deref()?;
    Some((request.status?, request.method, &request.path, request.request_id.as_deref()?))
}

#[tokio::test]
async fn a_failure_of_a_service_is_told_with_the_request_whatever_the_guest_says_of_it() {
    let (_cloud, Scripted(provider)) = guest().await;
    let refused = Some((503, "POST", "/status/503", "req-503"));
    // What a failure says last is then no answer of the cloud.
    let nameless = json!({ "available": "token" });
    for (steps, reaction, wanted) in [
        (json!([post(200), post(503), { "fail": "it does not work" }]), Reaction::Retry, refused),
        // With most that there are, it is no failure that something is not there. The message names neither.
        (json!([post(503), get(404), nameless, { "fail": "it does not work" }]), Reaction::Retry, refused),
        (json!([post(503), { "crash": {} }]), Reaction::Retry, refused),
        (json!([post(200), { "fail": "it does not work" }]), Reaction::Retry, None),
    ] {
        let script = json!({ "ensure": { "steps": steps }, "delete": { "steps": steps }, "get": { "steps": steps } });
        let web = || ccm_cloud::Service {
            annotations: map(&[("scripted.example/script", &script.to_string())]),
            ..service("web")
        };
        let ensured = provider.ensure(web(), Vec::<Backend>::new().into()).await.failure.unwrap();
        assert_eq!(ensured.reaction, reaction, "{steps}: {ensured}");
        assert_eq!(told(&ensured), wanted, "{steps}: {ensured}");
        let deleted = provider.delete(web()).await.failure.unwrap();
        assert_eq!(told(&deleted), wanted, "{steps}: {deleted}");
    }
    let reading = json!({ "get": { "steps": [get(503), { "fail": "it does not work" }] } }).to_string();
    let web = ccm_cloud::Service { annotations: map(&[("scripted.example/script", &reading)]), ..service("web") };
    let failure = provider.get(web).await.unwrap_err();
    assert_eq!(told(&failure), Some((503, "GET", "/status/503", "req-503")), "{failure}");
}

/// One call asks for many Nodes: a request that was for one of them says nothing about the others.
#[tokio::test]
async fn a_node_is_told_its_own_request_and_no_one_elses() {
    let (_cloud, Scripted(provider)) = guest().await;
    let scripted = |name: &str, steps: Value| Node {
        annotations: map(&[("scripted.example/script", &steps.to_string())]),
        ..node(name)
    };
    let named = |name| scripted(name, json!([get(500), { "fail": "answer" }]));
    let nameless = |name| scripted(name, json!([{ "fail": "no such zone" }]));
    let findings = provider.find(vec![named("a"), nameless("b")], Need::Metadata).await.unwrap();
    let of: Vec<_> = findings
        .iter()
        .map(|finding| if let Finding::Unknown(failure) = finding { told(failure) } else { panic!("{finding:?}") })
        .collect();
    assert_eq!(of, [Some((500, "GET", "/status/500", "req-500")), None]);
    let alone = scripted("c", json!([get(500), { "fail": "no such zone" }]));
    let findings = provider.find(vec![alone], Need::Metadata).await.unwrap();
    let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(told(failure), Some((500, "GET", "/status/500", "req-500")));
    let crashing = scripted("d", json!([get(500), { "crash": {} }]));
    let Err(FindError::Crashed(failure)) = provider.find(vec![crashing, nameless("e")], Need::Metadata).await else {
        panic!("it crashes")
    };
    assert_eq!(told(&failure), Some((500, "GET", "/status/500", "req-500")));
}
