use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ccm_serving::access::TOKEN_HEADER;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::ask::health_port::MAX_ANSWER;

const HOLDER: &str = "node-1_00000000-0000-0000-0000-000000000000";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// An API server with this Lease and these pods.
#[derive(Clone)]
struct Server {
    has_lease: bool,
    holder: &'static str,
    /// Whether the Lease is another one at each look.
    is_renewed: bool,
    /// The program that renews it.
    writer: &'static str,
    pods: Vec<Value>,
    /// What the proxy answers for each pod.
    status: u16,
    proxied: String,
    /// The same for single pods.
    of_each: Vec<(&'static str, String)>,
}

fn pod(name: &str, node: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "wasm-ccm" } },
        "spec": { "nodeName": node, "containers": [] } })
}

fn server() -> Server {
    Server {
        has_lease: true,
        holder: HOLDER,
        is_renewed: true,
        writer: "wasm-ccm",
        pods: vec![pod("ccm-b", "node-2"), pod("ccm-a", "node-1")],
        status: 200,
        proxied: answer(true),
        of_each: vec![],
    }
}

fn answer(leads: bool) -> String {
    let leader = format!("leader: this process, {HOLDER}");
    serde_json::to_string(&Answer { leads, leader, ..Answer::default() }).unwrap()
}

impl Server {
    fn client(self) -> Client {
        let looks = Arc::new(AtomicU32::new(0));
        let answer = move |request: Request<Body>| {
            let (status, body) = match request.uri().path() {
                LEASE if !self.has_lease => {
                    let none = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
                    (404, none.to_string())
                }
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
                    let of_pod = self.of_each.iter().find(|(pod, _)| path.contains(&format!("https:{pod}:")));
                    (self.status, of_pod.map_or(&self.proxied, |(_, told)| told).clone())
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
        let proxied = answer(true).replace(HOLDER, holder);
        let asked = Server { holder, pods, proxied, ..server() }.asked().await;
        assert_eq!(asked.tried, [""; 0], "{holder} {node}");
        assert_eq!(asked.place.as_deref(), Some("the leader, pod kube-system/ccm-a"));
        assert_eq!(asked.answer.unwrap().leader, format!("leader: this process, {holder}"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_work_is_told_with_the_way_out_and_is_no_answer() {
    let forbidden = json!({ "kind": "Status", "message": "pods \"ccm-a\" is forbidden:\u{1b}[2J\nuser" }).to_string();
    let long = " ".repeat(MAX_ANSWER + 1);
    let wordy = json!({ "message": "\u{fc}".repeat(MAX_ANSWER / 4) }).to_string();
    for (status, proxied, part) in [
        (403, forbidden, "needs the right to get pods/proxy"),
        (404, "try /livez".to_owned(), "an older version has no such page"),
        (503, "no".to_owned(), "it answers 503"),
        (503, wordy, "it answers 503 Service Unavailable: \u{fc}"),
        (200, "<html>".to_owned(), "something else than an explanation"),
        (200, "{\"leads\":7}".to_owned(), "something else than an explanation"),
        (200, long, "longer than 1048576 bytes"),
        (200, answer(false), "does not lead and knows nothing of objects: leader: this process"),
    ] {
        let asked = Server { status, proxied, ..server() }.asked().await;
        assert!(asked.answer.is_none() && asked.place.is_none(), "{part}");
        assert!(asked.tried[0].contains(part), "{:.500} does not say {part:?}", asked.tried[0]);
        assert!(asked.tried[0].len() < 1000, "{} bytes", asked.tried[0].len());
        assert!(!asked.tried.iter().any(|tried| tried.contains(char::is_control)), "{:?}", asked.tried);
        assert!(asked.tried[1].contains("kubectl -n kube-system port-forward ccm-a 10258"), "{:?}", asked.tried);
        assert!(asked.tried[2].ends_with(" leads"), "{:?}", asked.tried);
    }
}

/// Two hosts with two Leases on one node: the first one was asked, and what it did not know of was told to be nobody's.
#[tokio::test(start_paused = true)]
async fn a_host_on_the_same_node_that_leads_under_another_lease_is_not_believed() {
    let of_other = answer(true).replace(HOLDER, "node-1_11111111-1111-1111-1111-111111111111");
    let pods = vec![pod("ccm-other", "node-1"), pod("ccm-a", "node-1")];
    let of_each = vec![("ccm-other", of_other.clone()), ("ccm-a", answer(true))];
    let asked = Server { pods: pods.clone(), of_each, ..server() }.asked().await;
    assert_eq!(asked.place.as_deref(), Some("the leader, pod kube-system/ccm-a"), "{:?}", asked.tried);
    assert!(asked.tried[0].contains("ccm-other is not node-1_0000") && asked.tried.len() == 1, "{:?}", asked.tried);
    let asked = Server { pods, proxied: of_other, ..server() }.asked().await;
    assert!(asked.answer.is_none() && asked.place.is_none() && asked.tried.len() == 4, "{:?}", asked.tried);
    assert!(
        asked.tried[1].contains("leads under another Lease: leader: this process, node-1_1111"),
        "{:?}",
        asked.tried
    );
}

/// A host that takes the connection and says nothing, or never ends.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_slow_is_not_waited_for() {
    let endless = |_: Request<Body>| async {
        let body = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, Infallible>(hyper::body::Frame::data(hyper::body::Bytes::from_static(b" "))), ()))
        });
        Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(Box::pin(body))))
    };
    let silent = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
    let clients =
        [Client::new(tower::service_fn(endless), "default"), Client::new(tower::service_fn(silent), "default")];
    for client in clients {
        let began = tokio::time::Instant::now();
        let why = ask(&client, PROXY, None).await.unwrap_err();
        assert_eq!((why.as_str(), began.elapsed().as_secs()), ("no answer within 10s", 10));
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
        let part = format!("{HOLDER} leads, but no running pod in kube-system with the label ");
        assert!(asked.tried[0].starts_with(&part), "{:?}", asked.tried);
    }
}

/// A holder that had died an hour before once led.
#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_leads_nowhere() {
    let asked = Server { is_renewed: false, pods: vec![], ..server() }.asked().await;
    let part = format!("nobody leads: {HOLDER} is in the Lease, and did not renew it in 15s");
    assert!(asked.tried[0].starts_with(&part), "{:?}", asked.tried);
    assert_eq!(asked.lead, Lead::Nobody);
    let asked = Server { is_renewed: false, status: 503, ..server() }.asked().await;
    assert_eq!((asked.tried[2].as_str(), asked.lead), (part.as_str(), Lead::Nobody));
}

/// A host that runs without election, or under another Lease, has none of this name, or leaves it free: that one leads nowhere was not known.
#[tokio::test]
async fn without_a_holder_and_without_a_host_that_answers_nobody_knows_who_leads() {
    let none = Server { has_lease: false, ..server() };
    let free = Server { holder: "", ..server() };
    for (lease, part) in [(none, "does not exist: no host has led, "), (free, "nobody holds the Lease ")] {
        for (server, lead) in [
            (Server { status: 503, ..lease.clone() }, Lead::Unseen),
            (Server { pods: vec![], ..lease.clone() }, Lead::Unseen),
            // It has not looked at its Lease before it has its component.
            (Server { proxied: answer(false), ..lease.clone() }, Lead::Unseen),
        ] {
            let asked = server.asked().await;
            assert_eq!((asked.lead, asked.answer.is_some()), (lead, false), "{:?}", asked.tried);
            assert!(asked.tried[0].contains(part), "{:?}", asked.tried);
            assert!(asked.tried[0].contains("--leader-elect=false"), "{:?}", asked.tried);
        }
        assert!(lease.asked().await.answer.unwrap().leads, "it was reached");
    }
}

#[tokio::test]
async fn another_manager_in_the_lease_is_told_and_not_asked() {
    let asked = Server { writer: "openstack-cloud-controller-manager", ..server() }.asked().await;
    assert!(asked.answer.is_none() && asked.tried.len() == 1, "{:?}", asked.tried);
    assert_eq!(asked.lead, Lead::Stranger);
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

/// The first one that refused something ended the search, and nobody was said to work while another one led under its own Lease.
#[tokio::test]
async fn one_that_refuses_its_component_does_not_hide_one_that_leads() {
    let refusal = |source: &str| Refusal { source: source.into(), ..Refusal::default() };
    let refuses = |sources: &[&str]| {
        let refusals = sources.iter().map(|source| refusal(source)).collect();
        serde_json::to_string(&Answer { refusals, ..Answer::default() }).unwrap()
    };
    let without = Server { has_lease: false, ..server() };
    let of_each = vec![("ccm-b", refuses(&["cloud.wasm"])), ("ccm-a", answer(true))];
    let asked = Server { of_each, ..without.clone() }.asked().await;
    assert_eq!(asked.place.as_deref(), Some("pod kube-system/ccm-a"), "{:?}", asked.tried);
    assert_eq!((asked.answer.map(|answer| answer.leads), asked.refusals), (Some(true), vec![]));
    // Without one that leads, what each of them refuses is told, and once.
    let of_each = vec![("ccm-b", refuses(&["cloud.wasm"])), ("ccm-a", refuses(&["cloud.wasm", "other.wasm"]))];
    let asked = Server { of_each, ..without }.asked().await;
    assert_eq!((asked.lead, asked.answer.is_none(), asked.tried.len()), (Lead::Unseen, true, 3), "{:?}", asked.tried);
    assert_eq!(asked.refusals, ["cloud.wasm", "other.wasm"].map(refusal));
}

const PROXY: &str = "/api/v1/namespaces/kube-system/pods/https:ccm-a:10258/proxy/explain/v1/service/default/web";
const TOKEN_PATH: &str = "/api/v1/namespaces/kube-system/serviceaccounts/wasm-ccm-reader/token";

/// An API server that makes tokens, and a host behind its proxy that wants one. `made` answers who wants a token made.
fn guarded(made: (u16, Value), refusal: Option<(u16, &'static str)>) -> Client {
    let respond = move |request: Request<Body>| {
        let made = made.clone();
        async move {
            let path = request.uri().path().to_owned();
            let mut response = Response::builder();
            let (status, body) = match path.as_str() {
                TOKEN_PATH => {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let asked: Value = serde_json::from_slice(&body).unwrap();
                    assert_eq!(asked["spec"]["audiences"], json!(["wasm-ccm"]), "good for nobody else");
                    assert_eq!(asked["spec"]["expirationSeconds"], 600);
                    (made.0, made.1.to_string())
                }
                PROXY => match request.headers().get(TOKEN_HEADER).map(|value| value.to_str().unwrap()) {
                    None => {
                        response = response.header("www-authenticate", "Bearer realm=\"wasm-ccm\"");
                        (401, "this page needs a token\n".to_owned())
                    }
                    Some("short-lived") => {
                        refusal.map_or_else(|| (200, answer(true)), |(status, text)| (status, text.to_owned()))
                    }
                    Some(other) => panic!("{other}"),
                },
                path => panic!("nobody asks for {path}"),
            };
            Ok::<_, Infallible>(response.status(status).body(Body::from(body.into_bytes())).unwrap())
        }
    };
    Client::new(tower::service_fn(respond), "default")
}

#[tokio::test]
async fn a_host_that_wants_a_token_gets_one_that_is_good_for_it_alone() {
    let status = json!({ "token": "short-lived", "expirationTimestamp": "2026-01-01T00:00:00Z" });
    let made = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": { "audiences": [] }, "status": status });
    let path = PROXY;
    let client = guarded((201, made.clone()), None);
    assert!(ask(&client, path, Some((&client, "kube-system"))).await.unwrap().leads);
    let no_api_server = ask(&client, path, None).await.unwrap_err();
    assert!(no_api_server.contains("say with --kubeconfig"), "{no_api_server}");
    let forbidden = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "serviceaccounts \"wasm-ccm-reader\" is\nforbidden" });
    let mut empty = made.clone();
    empty["status"]["token"] = json!("");
    for (made, refusal, part) in [
        (
            (403, forbidden),
            None,
            "forbidden (403 Forbidden): apply the manifests of this version, and let your user create serviceaccounts/token",
        ),
        ((201, empty), None, "a token of the ServiceAccount kube-system/wasm-ccm-reader is none"),
        (
            (201, made.clone()),
            Some((403, "User \"reader\" cannot get\u{1b} path\n")),
            "it answers 403 Forbidden: User \"reader\" cannot get path",
        ),
        ((201, made), Some((503, "the API server has not answered a TokenReview")), "has not answered a TokenReview"),
    ] {
        let client = guarded(made, refusal);
        let why = ask(&client, path, Some((&client, "kube-system"))).await.unwrap_err();
        assert!(why.contains(part) && !why.contains(char::is_control) && !why.contains("short-lived"), "{why}");
        assert!(!why.contains("pods/proxy"), "{why}");
    }
}

/// That a foreign manager had the Lease was hidden from whoever asked a standby.
#[tokio::test(start_paused = true)]
async fn who_asks_one_that_does_not_lead_learns_who_has_the_lease() {
    let web = Target::Service { namespace: "default".into(), name: "web".into() };
    let of_page = |page: String| {
        let answer = move |_: Request<Body>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(page.clone().into_bytes()))))
        };
        Client::new(tower::service_fn(answer), "default")
    };
    let standing_by = |leads| of_page(answer(leads));
    let stranger = Server { writer: "openstack-cloud-controller-manager", ..server() };
    for (leads, server, lead, part) in [
        (
            false,
            stranger.clone(),
            Lead::Stranger,
            "is no host of wasm-ccm but openstack-cloud-controller-manager: two managers have one Lease",
        ),
        (false, Server { holder: "", ..server() }, Lead::Unseen, "nobody holds the Lease kube-system/cloud-"),
        (false, Server { is_renewed: false, ..server() }, Lead::Nobody, "nobody leads: node-1_0000"),
        (false, Server { has_lease: false, ..server() }, Lead::Unseen, "does not exist: no host has led, "),
        (false, server(), Lead::Maybe, "node-1_00000000-0000-0000-0000-000000000000 leads"),
        (true, stranger, Lead::Maybe, ""),
    ] {
        let client = server.client();
        let cluster = Place { client: &client, namespace: "kube-system", lease: "cloud-controller-manager" };
        let asked = through(&standing_by(leads), "the host at X".to_owned(), Some(cluster), &web).await;
        assert_eq!((asked.lead, asked.answer.is_some()), (lead, leads), "{part}: {:?}", asked.tried);
        let last = asked.tried.last().cloned().unwrap_or_default();
        assert!(last.contains(part) && (leads || asked.tried.len() == 2), "{part}: {:?}", asked.tried);
    }
    // One that knows who leads takes part under a Lease of another name.
    let elsewhere = Answer {
        leader: "leader: n9; this process, n8, stands by".into(),
        holder: Some("n9".into()),
        ..Answer::default()
    };
    for (page, lead) in
        [("no host".to_owned(), Lead::Unseen), (serde_json::to_string(&elsewhere).unwrap(), Lead::Maybe)]
    {
        let client = Server { has_lease: false, ..server() }.client();
        let cluster = Place { client: &client, namespace: "kube-system", lease: "cloud-controller-manager" };
        let asked = through(&of_page(page), "the host at X".to_owned(), Some(cluster), &web).await;
        assert_eq!((asked.lead, asked.answer.is_some()), (lead, false), "{:?}", asked.tried);
    }
}
