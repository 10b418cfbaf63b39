use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use serde_json::{Value, json};

use super::*;

const HOLDER: &str = "node-1_00000000-0000-0000-0000-000000000000";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// An API server with this Lease and these pods.
#[derive(Clone)]
struct Server {
    holder: &'static str,
    /// Whether the Lease is another one at each look.
    is_renewed: bool,
    /// The program that renews it.
    writer: &'static str,
    pods: Vec<Value>,
    /// What the proxy answers for each pod.
    status: u16,
    proxied: String,
}

fn pod(name: &str, node: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "wasm-ccm" } },
        "spec": { "nodeName": node, "containers": [] } })
}

fn server() -> Server {
    Server {
        holder: HOLDER,
        is_renewed: true,
        writer: "wasm-ccm",
        pods: vec![pod("ccm-b", "node-2"), pod("ccm-a", "node-1")],
        status: 200,
        proxied: answer(true),
    }
}

fn answer(leads: bool) -> String {
    serde_json::to_string(&Answer { leads, leader: "leader: x".into(), ..Answer::default() }).unwrap()
}

impl Server {
    fn client(self) -> Client {
        let looks = Arc::new(AtomicU32::new(0));
        let answer = move |request: Request<Body>| {
            let (status, body) = match request.uri().path() {
                LEASE => {
                    let look = if self.is_renewed { looks.fetch_add(1, Ordering::Relaxed) } else { 0 };
                    let renewed = format!("2026-11-26T10:00:00.{look:06}Z");
                    let spec =
                        json!({ "holderIdentity": self.holder, "renewTime": renewed, "leaseDurationSeconds": 15 });
                    let fields = json!({ "f:spec": { "f:renewTime": {} } });
                    let metadata = json!({ "managedFields": [{ "manager": self.writer, "fieldsV1": fields }] });
                    (200, json!({ "metadata": metadata, "spec": spec }).to_string())
                }
                PODS => (200, json!({ "metadata": {}, "items": self.pods }).to_string()),
                path if path.starts_with(PODS) && path.ends_with(":10258/proxy/explain/v1/service/default/web") => {
                    (self.status, self.proxied.clone())
                }
                path => panic!("nobody asks for {path}"),
            };
            std::future::ready(Ok::<_, Infallible>(
                Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap(),
            ))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    async fn asked(self) -> Asked {
        let web = Target::Service { namespace: "default".into(), name: "web".into() };
        let client = self.client();
        Place { client: &client, namespace: "kube-system", lease: "cloud-controller-manager" }.found(&web).await
    }
}

#[tokio::test]
async fn the_pod_of_the_holder_is_asked_through_the_api_server() {
    for (holder, node) in [(HOLDER, "node-1"), (HOLDER, "node-1.example"), ("ccm-a_0", "elsewhere")] {
        let pods = vec![pod("ccm-b", "node-2"), pod("ccm-a", node)];
        let asked = Server { holder, pods, ..server() }.asked().await;
        assert_eq!(asked.tried, [""; 0], "{holder} {node}");
        assert_eq!(asked.place.as_deref(), Some("the leader, pod kube-system/ccm-a"));
        assert_eq!(asked.answer.unwrap().leader, "leader: x");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_work_is_told_with_the_way_out_and_is_no_answer() {
    let forbidden = json!({ "kind": "Status", "message": "pods \"ccm-a\" is forbidden:\u{1b}[2J\nuser" }).to_string();
    let long = " ".repeat(MAX_ANSWER + 1);
    for (status, proxied, part) in [
        (403, forbidden, "needs the right to get pods/proxy"),
        (404, "try /livez".to_owned(), "an older version has no such page"),
        (503, "no".to_owned(), "it answers 503"),
        (200, "<html>".to_owned(), "something else than an explanation"),
        (200, "{\"leads\":7}".to_owned(), "something else than an explanation"),
        (200, long, "longer than 1048576 bytes"),
        (200, answer(false), "does not lead and knows nothing of objects: leader: x"),
    ] {
        let asked = Server { status, proxied, ..server() }.asked().await;
        assert!(asked.answer.is_none() && asked.place.is_none(), "{part}");
        assert!(asked.tried[0].contains(part), "{:?} does not say {part:?}", asked.tried);
        assert!(!asked.tried.iter().any(|tried| tried.contains(char::is_control)), "{:?}", asked.tried);
        assert!(asked.tried[1].contains("kubectl -n kube-system port-forward ccm-a 10258"), "{:?}", asked.tried);
        assert!(asked.tried[2].ends_with(" leads"), "{:?}", asked.tried);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_pod_is_told_and_a_dead_pod_is_not_asked() {
    let mut ended = pod("ccm-a", "node-1");
    ended["status"] = json!({ "phase": "Failed" });
    let mut going = pod("ccm-a", "node-1");
    going["metadata"]["deletionTimestamp"] = json!("2026-11-26T10:00:00Z");
    for pods in [vec![], vec![pod("ccm-a", "node-3")], vec![ended], vec![going]] {
        let asked = Server { pods, ..server() }.asked().await;
        assert!(asked.answer.is_none() && asked.tried.len() == 1, "{:?}", asked.tried);
        let part = format!("{HOLDER} leads, and is no pod in kube-system that lives");
        assert!(asked.tried[0].starts_with(&part), "{:?}", asked.tried);
    }
}

/// A holder that had died an hour before once led.
#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_leads_nowhere() {
    let asked = Server { is_renewed: false, pods: vec![], ..server() }.asked().await;
    let part = format!("nobody leads: {HOLDER} is in the Lease, and did not renew it in 15s");
    assert!(asked.tried[0].starts_with(&part), "{:?}", asked.tried);
    let asked = Server { is_renewed: false, status: 503, ..server() }.asked().await;
    assert_eq!(asked.tried[2], part);
}

#[tokio::test]
async fn another_manager_in_the_lease_is_told_and_not_asked() {
    let asked = Server { writer: "openstack-cloud-controller-manager", ..server() }.asked().await;
    assert!(asked.answer.is_none() && asked.tried.len() == 1, "{:?}", asked.tried);
    assert!(
        asked.tried[0].contains("is no host of wasm-ccm but openstack-cloud-controller-manager"),
        "{:?}",
        asked.tried
    );
}

/// A host that refuses its first component does not take the Lease: what it refused was in no explanation.
#[tokio::test]
async fn while_nobody_leads_hosts_are_asked_what_they_refuse() {
    let refusal = Refusal { source: "cloud.wasm".into(), reason: "it is not signed".into(), ..Refusal::default() };
    let page = Answer { refusals: vec![refusal.clone()], ..Answer::default() };
    let proxied = serde_json::to_string(&page).unwrap();
    let asked = Server { holder: "", proxied, ..server() }.asked().await;
    assert_eq!(asked.refusals, [refusal]);
    assert!(
        asked.tried[0].starts_with("nobody holds the Lease kube-system/cloud-controller-manager"),
        "{:?}",
        asked.tried
    );
    let asked = Server { holder: "", pods: vec![], ..server() }.asked().await;
    assert_eq!(asked.tried[1], "no pod of a host lives in kube-system");
}

#[test]
fn an_address_is_that_of_a_port_and_nothing_else() {
    for text in ["https://127.0.0.1:10258", "https://127.0.0.1:10258/", "127.0.0.1:10258", "host.example"] {
        assert_eq!(address(text).unwrap().scheme_str(), Some("https"), "{text}");
    }
    for text in ["", "http://127.0.0.1:10258", "https://u:hunter2@host", "https://host/metrics", "https://"] {
        let error = address(text).unwrap_err().to_string();
        assert!(error.starts_with("--address is no address") && !error.contains("hunter2"), "{text}: {error}");
    }
}
