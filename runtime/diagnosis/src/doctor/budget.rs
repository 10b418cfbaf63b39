//! The budget of requests: what the cloud says is left to the host that leads, as its page of metrics shows it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ccm_rollout::PeerSettings;
use ccm_status::Figures;
use http::Uri;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};

use super::finding::{Check, Finding};
use super::leases::Led;
use crate::ask::health_port::{client_of, page};
use crate::ask::lease;
use crate::ask::pods::{is_host, may_hold, port};

/// Where the figures are.
const METRICS: &str = "/metrics";
/// So many hosts are asked whether they lead.
const ASKED: usize = 3;
/// Less than this part of what the cloud allows is too little: that of the alert WasmCCMCloudBudgetExhausted.
const LOW: f64 = 0.05;

/// Why nothing is known, and the way out.
struct Silence {
    why: String,
    fix: String,
    /// Nobody said where the leader answers, and the way by the API server does not lead there, as with our manifests.
    is_usual: bool,
}

/// Whom to ask.
pub(super) struct Judge<'a> {
    pub(super) client: &'a Client,
    pub(super) peers: &'a PeerSettings,
    /// Those that live, or why they cannot be read.
    pub(super) pods: Result<&'a [Pod], &'a String>,
    pub(super) led: Led,
    /// The health port of the leader; without it, the leader is found.
    pub(super) address: Option<&'a Uri>,
}

impl Judge<'_> {
    /// Asks the leader.
    pub(super) async fn read(&self) -> Vec<Finding> {
        if self.led == Led::No && self.address.is_none() {
            return vec![Check::Budget.unjudged("not judged while nobody leads", "first let a host lead (see leases)")];
        }
        match self.figures().await {
            Ok((place, text)) => judge(&text, &place),
            Err(Silence { why, fix, is_usual }) => {
                let found = format!("what the cloud leaves to the leader is not known: {why}");
                // Where nothing is wrong, a cluster as our manifests make it is fine.
                vec![if is_usual { Check::Budget.note(found, fix) } else { Check::Budget.unjudged(found, fix) }]
            }
        }
    }

    /// Who answered, and what.
    async fn figures(&self) -> Result<(String, String), Silence> {
        let not_known = |why, fix| Silence { why, fix, is_usual: false };
        let usual = |why, fix| Silence { why, fix, is_usual: true };
        let Self { client, peers, address, .. } = self;
        let namespace = peers.namespace.as_str();
        if let Some(address) = address {
            let place = format!("the host at {address}");
            let asked = async { page(&client_of(address)?, METRICS, Some((client, namespace))).await };
            let text = asked.await.map_err(|why| {
                not_known(format!("{place}: {why}"), "do what the message says, or correct --address".to_owned())
            })?;
            return Ok((place, String::from_utf8_lossy(&text).into_owned()));
        }
        let pods = self.pods.map_err(|why| {
            not_known(why.clone(), format!("give a kubeconfig that may list pods in {namespace}, or --address"))
        })?;
        let hold = lease::look(client, namespace, &peers.lease).await;
        let hold =
            hold.map_err(|why| not_known(why, "give a kubeconfig that may read the Lease, or --address".to_owned()))?;
        let holder = hold.map(|hold| hold.holder).unwrap_or_default();
        let mut tried = vec![];
        // In the host network, those of one node cannot be told apart before they have answered: one may be a dry run.
        for pod in pods.iter().filter(|pod| is_host(pod) && may_hold(pod, &holder)).take(ASKED) {
            let (pod, port) = (pod.name_any(), port(pod));
            let path = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy{METRICS}");
            let place = format!("pod {namespace}/{pod}");
            let page = page(client, &path, Some((client, namespace))).await;
            match page.map(|text| String::from_utf8_lossy(&text).into_owned()) {
                Ok(text) if leads(&text, &peers.lease) => return Ok((place, text)),
                Ok(_) => tried.push((format!("{place} does not lead"), None)),
                Err(why) => {
                    let fix = format!(
                        "`kubectl -n {namespace} port-forward {pod} {port}`, and in another terminal doctor with --address=https://127.0.0.1:{port}"
                    );
                    tried.push((format!("{place}: {why}"), Some(fix)));
                }
            }
        }
        let fix = tried.iter_mut().find_map(|(_, fix)| fix.take()).unwrap_or_else(|| {
            "say with --address where the health port of the leader is, such as https://127.0.0.1:10258".to_owned()
        });
        let tried: Vec<String> = tried.into_iter().map(|(why, _)| why).collect();
        let nobody = || format!("the leader is no pod in {namespace}");
        Err(usual(if tried.is_empty() { nobody() } else { tried.join("; ") }, fix))
    }
}

/// Whether the host with these figures leads under this Lease.
fn leads(text: &str, lease: &str) -> bool {
    let leads = format!("leader_election_master_status{{name=\"{lease}\"}} 1");
    text.lines().any(|line| line == leads)
}

/// What is known of one endpoint.
#[derive(Debug, Default)]
struct Left {
    remaining: Option<f64>,
    limit: Option<f64>,
    is_down: bool,
    is_asked: bool,
}

/// `text` as Prometheus reads it.
fn judge(text: &str, place: &str) -> Vec<Finding> {
    let check = Check::Budget;
    let all = read(text);
    if all.is_empty() {
        let found = format!("{place} has asked no cloud since it started");
        return vec![check.note(found, "nothing, if its provider needs no cloud; else look whether it leads (see leases), and run doctor again later")];
    }
    let mut findings = vec![];
    for ([provider, endpoint], left) in &all {
        let about = [format!("Endpoint {endpoint} of {provider}")];
        if left.is_down {
            let found = format!("{place} considers it down, and sends only test requests");
            let fix = "doctor --online says whether it can be reached from here; the log of the host has the last errors, and its status page says when the next test is";
            findings.push(check.wrong(found, fix).about(about.clone()));
        }
        let Some(remaining) = left.remaining else { continue };
        let limit = left.limit.filter(|limit| *limit > 0.0);
        if limit.map_or(remaining <= 0.0, |limit| remaining / limit < LOW) {
            let of = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
            let until = "the cloud refuses all until it gives new ones";
            let found = match remaining <= 0.0 {
                true => format!("no request{of} is left: {until}"),
                false => format!("{remaining}{of} requests are left: when they are used up, {until}"),
            };
            let fix = "give the host a credential of its own account, so that nobody else uses its requests up, or lower requests-per-second with --limit: docs/guides/configure-a-provider.md, \"How the host asks a cloud\"";
            findings.push(check.wrong(found, fix).about(about));
        }
    }
    if findings.is_empty() {
        let told = |([provider, endpoint], left): (&[Cow<'_, str>; 2], &Left)| match (left.remaining, left.limit) {
            (Some(remaining), Some(limit)) => {
                format!("{remaining} of {limit} requests are left at {endpoint} of {provider}")
            }
            (Some(remaining), None) => format!("{remaining} requests are left at {endpoint} of {provider}"),
            (None, _) => format!("{endpoint} of {provider} names no limit"),
        };
        findings.push(check.good(all.iter().map(told).collect::<Vec<_>>().join("; ")));
    }
    findings
}

/// By provider and endpoint.
fn read(text: &str) -> BTreeMap<[Cow<'_, str>; 2], Left> {
    let figures = Figures::read(text);
    let of = |name: &str| {
        let values = figures.by(name, ["provider", "endpoint"]);
        values.into_iter().filter(|(labels, _)| labels.iter().all(|label| !label.is_empty()))
    };
    let mut all: BTreeMap<_, Left> = BTreeMap::new();
    for (key, value) in of("ccm_cloud_requests_remaining") {
        all.entry(key).or_default().remaining = Some(value);
    }
    for (key, value) in of("ccm_cloud_requests_limit") {
        all.entry(key).or_default().limit = Some(value);
    }
    for (key, value) in of("ccm_cloud_circuit_open") {
        all.entry(key).or_default().is_down = value > 0.0;
    }
    for (key, value) in of("ccm_cloud_requests_total") {
        all.entry(key).or_default().is_asked = value > 0.0;
    }
    all.retain(|_, left| left.is_asked || left.is_down || left.remaining.is_some());
    all
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server whose Lease n1 holds, and the metrics of the hosts there by the names of their pods.
    fn server(pages: &'static [(&'static str, &'static str)]) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let path = request.uri().path();
            let page = pages.iter().find(|(pod, _)| path.contains(&format!("/pods/https:{pod}:")));
            let (code, body) = match page {
                Some((_, page)) => (200, (*page).to_owned()),
                None if path.ends_with("/leases/ccm") => {
                    let lease = json!({ "metadata": { "name": "ccm" }, "spec": { "holderIdentity": "n1_1" } });
                    (200, lease.to_string())
                }
                None => (404, json!({ "code": 404, "message": path }).to_string()),
            };
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        });
        Client::new(service, "default")
    }

    async fn asked(pages: &'static [(&'static str, &'static str)]) -> Result<(String, String), String> {
        let pod = |(name, _): &(&str, &str)| -> Pod {
            let labels: Value = json!({ "app.kubernetes.io/name": "wasm-ccm" });
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": { "nodeName": "n1", "containers": [] } }))
                .unwrap()
        };
        let pods: Vec<Pod> = pages.iter().map(pod).collect();
        let peers = PeerSettings { namespace: "kube-system".to_owned(), lease: "ccm".to_owned(), identity: None };
        let client = server(pages);
        let judge = Judge { client: &client, peers: &peers, pods: Ok(&pods), led: Led::Yes, address: None };
        judge.figures().await.map_err(|silence| silence.why)
    }

    /// One beside the leader asks the cloud with another credential, or not at all.
    #[tokio::test]
    async fn of_the_hosts_on_the_node_of_the_leader_only_that_one_is_believed() {
        let leader = "leader_election_master_status{name=\"ccm\"} 1\nccm_x 1\n";
        let found =
            asked(&[("dry-run", "ccm_x 9\n"), ("leader", "leader_election_master_status{name=\"ccm\"} 1\nccm_x 1\n")]);
        assert_eq!(found.await, Ok(("pod kube-system/leader".to_owned(), leader.to_owned())));
        let others = asked(&[
            ("stands-by", "leader_election_master_status{name=\"ccm\"} 0\n"),
            ("of-another-lease", "leader_election_master_status{name=\"other\"} 1\n"),
        ]);
        let told = "pod kube-system/stands-by does not lead; pod kube-system/of-another-lease does not lead";
        assert_eq!(others.await, Err(told.to_owned()));
        assert_eq!(asked(&[]).await, Err("the leader is no pod in kube-system".to_owned()));
    }

    fn told(figures: &[(&str, &str)]) -> Vec<String> {
        let line =
            |(name, value): &(&str, &str)| format!("ccm_cloud_{name}{{provider=\"do\",endpoint=\"api\"}} {value}\n");
        let text: String = figures.iter().map(line).collect();
        let findings = judge(&format!("# HELP a b\nup 1\n{text}# EOF\n"), "pod a/b");
        findings
            .into_iter()
            .map(|one| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found))
            .collect()
    }

    #[test]
    fn less_than_a_twentieth_is_too_little_and_what_nobody_says_is_not_known() {
        let wrong =
            |left: &str| format!("Wrong Endpoint api of do: {left} the cloud refuses all until it gives new ones");
        let left = |remaining, limit| told(&[("requests_remaining", remaining), ("requests_limit", limit)]);
        assert_eq!(left("249", "5000"), [wrong("249 of 5000 requests are left: when they are used up,")]);
        assert_eq!(left("250", "5000"), ["Good : 250 of 5000 requests are left at api of do"]);
        assert_eq!(left("0", "5000"), [wrong("no request of 5000 is left:")]);
        assert_eq!(left("0", "0"), [wrong("no request is left:")]);
        assert_eq!(told(&[("requests_remaining", "1")]), ["Good : 1 requests are left at api of do"]);
        let requests = ("requests_total", "7");
        assert_eq!(told(&[requests]), ["Good : api of do names no limit"]);
        assert_eq!(told(&[requests, ("circuit_open", "0")]), ["Good : api of do names no limit"]);
        let down = told(&[requests, ("circuit_open", "1"), ("requests_remaining", "5000")]);
        assert_eq!(down, ["Wrong Endpoint api of do: pod a/b considers it down, and sends only test requests"]);
        assert_eq!(told(&[("circuit_open", "0")]), told(&[]));
        assert_eq!(told(&[]), ["Note : pod a/b has asked no cloud since it started"]);
        for garbage in [
            "<html>",
            "ccm_cloud_circuit_open{provider=\"a\"} 1",
            "ccm_cloud_circuit_open{provider=\"a\",endpoint=\"b\"} x",
            "{",
            "} ",
        ] {
            assert!(read(garbage).is_empty(), "{garbage}");
        }
    }

    #[test]
    fn endpoints_are_told_apart() {
        let text = "ccm_cloud_requests_remaining{endpoint=\"a\",provider=\"x\"} 0\nccm_cloud_requests_remaining{provider=\"y\",endpoint=\"a\"} 9\n";
        let findings = judge(text, "it");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].objects, ["Endpoint a of x"]);
        assert_eq!(read(text).len(), 2);
    }
    /// What stands in a label is the provider's.
    #[test]
    fn labels_are_read_by_their_whole_names_and_to_their_ends() {
        let text = "ccm_cloud_requests_remaining{other_endpoint=\"b\",provider=\"x \\\"y\\\"\",endpoint=\"a\"} 0\n";
        let findings = judge(text, "it");
        assert_eq!(findings[0].objects, ["Endpoint a of x \"y\""]);
    }
}
