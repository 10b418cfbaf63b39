use std::convert::Infallible;
use std::iter;

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};

use super::super::finding::{Judgement, Report};
use super::*;

/// What a pod answers, in parts.
type Page = fn() -> Box<dyn Iterator<Item = Bytes> + Send>;

/// An API server whose Lease n1 holds, and the metrics of the hosts there by the names of their pods.
fn server<const N: usize>(pages: [(&'static str, Page); N]) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let page = pages.iter().find(|(pod, _)| path.contains(&format!("/pods/https:{pod}:"))).map(|(_, page)| *page);
        let (code, body) = match page {
            Some(page) => {
                let frames = page().map(|part| Ok::<_, Infallible>(Frame::data(part)));
                (200, Either::Left(StreamBody::new(stream::iter(frames))))
            }
            None if path.ends_with("/leases/ccm") => {
                let lease = json!({ "metadata": { "name": "ccm" }, "spec": { "holderIdentity": "n1_1" } });
                (200, Either::Right(Full::from(lease.to_string())))
            }
            None => (404, Either::Right(Full::from(json!({ "code": 404, "message": path }).to_string()))),
        };
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
    });
    Client::new(service, "default")
}

fn peers() -> PeerSettings {
    PeerSettings { namespace: "kube-system".to_owned(), lease: "ccm".to_owned(), identity: None }
}

async fn asked<const N: usize>(pages: [(&'static str, Page); N]) -> Result<(String, Told), String> {
    let pod = |(name, _): &(&str, Page)| -> Pod {
        let labels: Value = json!({ "app.kubernetes.io/name": "wasm-ccm" });
        serde_json::from_value(
            json!({ "metadata": { "name": name, "labels": labels }, "spec": { "nodeName": "n1", "containers": [] } }),
        )
        .unwrap()
    };
    let pods: Vec<Pod> = pages.iter().map(pod).collect();
    let (client, peers) = (server(pages), peers());
    let judge =
        Judge { client: &client, peers: &peers, pods: Ok(&pods), led: Led::Yes, is_dry_run: false, address: None };
    judge.figures().await.map_err(|silence| silence.why)
}

fn page(text: &'static str) -> Box<dyn Iterator<Item = Bytes> + Send> {
    Box::new(iter::once(Bytes::from_static(text.as_bytes())))
}

/// One beside the leader asks the cloud with another credential, or not at all.
#[tokio::test]
async fn of_the_hosts_on_the_node_of_the_leader_only_that_one_is_believed() {
    let (place, told) = asked([
        ("dry-run", || page("ccm_cloud_requests_remaining{provider=\"a\",endpoint=\"b\"} 9\n")),
        ("leader", || {
            page(
                "leader_election_master_status{name=\"ccm\"} 1\nccm_cloud_requests_remaining{provider=\"a\",endpoint=\"b\"} 1\n",
            )
        }),
    ])
    .await
    .unwrap();
    let remaining: Vec<_> = told.endpoints.values().map(|left| left.remaining).collect();
    assert_eq!((place.as_str(), remaining), ("pod kube-system/leader", vec![Some(1.0)]));
    let others = asked([
        ("stands-by", || page("leader_election_master_status{name=\"ccm\"} 0\n")),
        ("of-another-lease", || page("leader_election_master_status{name=\"other\"} 1\n")),
    ]);
    let told = "pod kube-system/stands-by does not lead; pod kube-system/of-another-lease does not lead";
    assert_eq!(others.await.unwrap_err(), told);
    assert_eq!(asked([]).await.unwrap_err(), "the leader is no pod in kube-system");
}

const LEADER: &str = "leader_election_master_status{name=\"ccm\"} 1\n";
const LEFT: &str = "ccm_cloud_requests_remaining{provider=\"do\",endpoint=\"api\"} 5000\nccm_cloud_requests_limit{provider=\"do\",endpoint=\"api\"} 5000\n";

/// A histogram of a provider that has an operation for each object.
fn object() -> Bytes {
    static LINES: std::sync::LazyLock<Bytes> = std::sync::LazyLock::new(|| {
        let labels =
            format!("provider=\"do\",endpoint=\"api\",operation=\"GET /v2/load_balancers/{}\"", "x".repeat(60));
        let line = format!("ccm_cloud_request_duration_seconds_bucket{{{labels},le=\"0.001\"}} 1\n");
        format!("{}ccm_cloud_requests_total{{{labels},outcome=\"2xx\"}} 1\n", line.repeat(12)).into()
    });
    Bytes::clone(&LINES)
}

fn told_of(place: &str, told: &Told) -> Vec<(Judgement, String)> {
    judge(told, place).into_iter().map(|one| (one.judgement, one.found)).collect()
}

/// Of a page of more than 1 MiB, nothing was told. What counts stands behind the histograms.
#[tokio::test]
async fn the_page_of_a_large_cluster_is_read_to_its_end() {
    const OBJECTS: usize = 5_000 + 10_000;
    assert!((20 << 20..64 << 20).contains(&(OBJECTS * object().len())), "{}", object().len());
    let (place, told) = asked([("leader", || {
        let objects = iter::repeat_with(object).take(OBJECTS);
        Box::new(objects.chain([LEADER, LEFT].map(|text| Bytes::from_static(text.as_bytes()))))
    })])
    .await
    .unwrap();
    let good = "5000 of 5000 requests are left at api of do".to_owned();
    assert_eq!(told_of(&place, &told), [(Judgement::Good, good)]);
}

#[tokio::test]
async fn what_was_not_read_of_a_page_is_said_and_half_a_figure_is_none() {
    let endless = asked([("leader", || {
        // The last part that is read ends within a figure that would be an alarm.
        let many = (64 << 20) / object().len() - 1;
        let first = [LEADER, LEFT].map(|text| Bytes::from_static(text.as_bytes()));
        let last = Bytes::from_static(b"ccm_cloud_requests_remaining{provider=\"do\",endpoint=\"api\"} 5");
        Box::new(
            first
                .into_iter()
                .chain(iter::repeat_with(object).take(many))
                .chain([last])
                .chain(iter::repeat_with(|| Bytes::from_static(&[b'0'; 1 << 16]))),
        )
    })]);
    let (place, told) = endless.await.unwrap();
    let found = told_of(&place, &told);
    let good = "5000 of 5000 requests are left at api of do".to_owned();
    assert_eq!(found[0], (Judgement::Good, good));
    let [_, (Judgement::Unjudged, unread)] = found.as_slice() else { panic!("{found:?}") };
    assert!(unread.starts_with("pod kube-system/leader may have said more of its requests"), "{unread}");
    assert!(unread.ends_with("bytes was not read: it is longer than 67108864 bytes"), "{unread}");

    // It may lead, and may have asked a cloud.
    let silent: Page = || Box::new(iter::repeat_with(|| Bytes::from_static(&[b'x'; 1 << 16])));
    let unseen = asked([("leader", silent)]).await.unwrap_err();
    assert!(unseen.starts_with("whether pod kube-system/leader leads was not seen on its page"), "{unseen}");
    let told = Told { unread: Some("so".to_owned()), ..Told::default() };
    let alone = "it may have said more of its requests on its page of metrics: so".to_owned();
    assert_eq!(told_of("it", &told), [(Judgement::Unjudged, alone)]);
}

/// A page that stops in its middle.
#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_end_is_waited_for_a_minute_and_what_came_counts() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let first = [LEADER, LEFT].map(|text| Bytes::from_static(text.as_bytes()));
        let frames = stream::iter(first).chain(stream::pending());
        let body = StreamBody::new(frames.map(|part| Ok::<_, Infallible>(Frame::data(part))));
        Ok::<_, Infallible>(Response::new(body))
    });
    let (client, peers) = (Client::new(service, "default"), peers());
    let judge =
        Judge { client: &client, peers: &peers, pods: Ok(&[]), led: Led::Yes, is_dry_run: false, address: None };
    let told = judge.ask(&client, "/metrics").await.unwrap();
    let found = told_of("it", &told);
    assert_eq!(found[0].0, Judgement::Good);
    assert!(found[1].1.ends_with("bytes did not come within 60s"), "{found:?}");
}

/// A dry run was once asked for what the leader has, and nobody leading was told as if it should.
#[tokio::test]
async fn a_dry_run_is_asked_only_where_its_address_is_given() {
    let service =
        tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(std::io::Error::other("asked")) });
    let (client, peers) = (Client::new(service, "default"), peers());
    let read = async |led, is_dry_run, address: Option<&Uri>| {
        let judge = Judge { client: &client, peers: &peers, pods: Ok(&[]), led, is_dry_run, address };
        let [finding] = judge.read().await.try_into().unwrap();
        (finding.judgement, finding.found, finding.fix.unwrap())
    };
    for led in [Led::Yes, Led::No, Led::Unseen, Led::Unknown] {
        let (judgement, found, fix) = read(led, true, None).await;
        let told = "not judged: this is a dry run, which does not lead";
        assert_eq!((judgement, found.as_str()), (Judgement::Note, told), "{led:?}");
        assert!(fix.starts_with("nothing; with --address, "), "{fix}");
    }
    let (judgement, found, _) = read(Led::No, false, None).await;
    assert_eq!((judgement, found.as_str()), (Judgement::Unjudged, "not judged while nobody leads"));
    let (judgement, found, fix) = read(Led::Unseen, false, None).await;
    assert_eq!((judgement, found.as_str()), (Judgement::Unjudged, "not judged while no host is seen to lead"));
    assert!(fix.contains("--address") && !fix.contains("let a host lead"), "{fix}");
    // Whoever works is found by its Lease, for which the API server is asked.
    assert!(read(Led::Yes, false, None).await.1.contains("asked"));

    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    for led in [Led::Yes, Led::No, Led::Unseen] {
        let host = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Uri = format!("https://{}", host.local_addr().unwrap()).parse().unwrap();
        let mut asked = tokio::task::JoinSet::new();
        asked.spawn(async move { host.accept().await.is_ok() });
        let (judgement, found, _) = read(led, true, Some(&address)).await;
        assert!(asked.try_join_next().is_some_and(Result::unwrap), "{led:?}: {found}");
        let told = format!("what the cloud leaves to the leader is not known: the host at {address}: ");
        assert!(judgement == Judgement::Unjudged && found.starts_with(&told), "{led:?}: {found}");
    }
}

#[tokio::test]
async fn the_way_to_a_leader_that_the_api_server_does_not_reach_has_its_own_port() {
    for (args, port) in [(json!([]), 10_258), (json!(["run", "--secure-port=10268"]), 10_268)] {
        let pod = json!({
            "metadata": { "name": "unreached", "labels": { "app.kubernetes.io/name": "wasm-ccm" } },
            "spec": { "nodeName": "n1", "containers": [{ "name": "wasm-ccm", "args": args }] },
        });
        let pods = [serde_json::from_value(pod).unwrap()];
        let (client, peers) = (server([]), peers());
        let judge =
            Judge { client: &client, peers: &peers, pods: Ok(&pods), led: Led::Yes, is_dry_run: false, address: None };
        let [finding] = judge.read().await.try_into().unwrap();
        let fix = format!(
            "`kubectl -n kube-system port-forward unreached {port}`, and in another terminal the same command with --address=https://127.0.0.1:{port}"
        );
        assert_eq!((finding.judgement, finding.fix), (Judgement::Note, Some(fix)), "{args}");
    }
}

/// Whoever has the port decides what stands there.
#[test]
fn no_more_endpoints_are_kept_than_a_host_has() {
    let mut told = Told::default();
    for number in 0..MOST + 5 {
        told.take(&format!("ccm_cloud_requests_remaining{{provider=\"a\",endpoint=\"{number}\"}} 9"), "ccm");
    }
    assert_eq!(told.endpoints.len(), MOST);
    assert_eq!(told.unread.as_deref(), Some("it names more than 64 endpoints"));
    told.take("ccm_cloud_requests_limit{provider=\"a\",endpoint=\"0\"} 10", "ccm");
    assert_eq!(told.endpoints[&["a", "0"].map(str::to_owned)].limit, Some(10.0), "what is told of those counts");
}

/// The lines, and the bytes of the longer form.
fn printed(text: &str) -> (Vec<String>, usize) {
    let report = Report::new(judge(&read(text), "the host at https://203.0.113.7:10258"));
    let (text, json) = (report.text(), crate::shown(serde_json::to_string_pretty(&report).unwrap()));
    (text.lines().map(str::to_owned).collect(), text.len().max(json.len()))
}

/// Such a page once was 16 MB on the terminal of whoever asked a false host.
#[test]
fn whatever_stands_on_a_page_a_terminal_gets_little_of_it() {
    let series = |name: &str, number: usize, size: usize, fill: &str, value: &str| {
        let endpoint = format!("{number}{}", fill.repeat(size));
        let provider = fill.repeat(size);
        format!("ccm_cloud_{name}{{provider=\"{provider}\",endpoint=\"{endpoint}\"}} {value}\n")
    };
    let label = "x".repeat(16_003);
    let line = |number| format!("ccm_cloud_circuit_open{{provider=\"p\",endpoint=\"{number:03}{label}\"}} 1\n");
    let long: String = (0..1000).map(line).collect();
    let (lines, bytes) = printed(&long);
    let unread = "unknown  budget      the host at https://203.0.113.7:10258 may have said more of its requests on its page of metrics: \
                  it names a provider or an endpoint with more than 256 bytes; fix: ";
    assert!(lines.len() == 2 && lines[0].starts_with(unread) && bytes < 1000, "{bytes} bytes: {:.300}", lines[0]);

    for (fill, size) in [("x", 252), ("\\\"", 252)] {
        let page = |name: &str, value: &str| -> String {
            (0..1000).map(|number| series(name, number, size, fill, value)).collect()
        };
        let largest = format!("{:?}", f64::MAX);
        let short = page("circuit_open", "1") + &page("requests_remaining", "1") + &page("requests_limit", &largest);
        let (lines, bytes) = printed(&short);
        // Those that are down, those that are to be told with figures, the others, what was not read, and the sum.
        assert!(lines.len() < 12 && bytes < 100_000, "{} lines, {bytes} bytes", lines.len());
        let (lines, bytes) = printed(&page("requests_remaining", &largest));
        assert!(lines.len() == 3 && bytes < 10_000, "{} lines, {bytes} bytes", lines.len());
    }
}

#[test]
fn the_first_endpoints_are_named_with_their_figures_and_the_others_counted() {
    let page = |name: &str, value: &str| -> String {
        let series = |number| format!("ccm_cloud_{name}{{provider=\"p\",endpoint=\"e{number}\"}} {value}\n");
        (1..=8).map(series).collect()
    };
    let down = "WRONG    budget      Endpoint e1 of p, Endpoint e2 of p, Endpoint e3 of p and 5 more: the host at https://203.0.113.7:10258 considers it down, ";
    let (lines, _) = printed(&page("circuit_open", "1"));
    assert!(lines.len() == 2 && lines[0].starts_with(down), "{lines:?}");

    let (lines, _) = printed(&page("requests_remaining", "0"));
    let one = "WRONG    budget      Endpoint e5 of p: no request is left: ";
    let others = "WRONG    budget      Endpoint e6 of p, Endpoint e7 of p, Endpoint e8 of p: less than 5% of the requests are left; fix: ";
    assert!(lines.len() == 7 && lines[4].starts_with(one) && lines[5].starts_with(others), "{lines:?}");

    let told =
        printed(&(page("requests_total", "1") + "ccm_cloud_requests_remaining{provider=\"p\",endpoint=\"e8\"} 9\n")).0;
    let good = "ok       budget      9 requests are left at e8 of p; e1 of p names no limit; e2 of p names no limit; e3 of p names no limit; e4 of p names no limit; and 3 more endpoints";
    assert_eq!(told[0], good);
}

/// By provider and endpoint.
fn read(text: &str) -> Told {
    let mut told = Told::default();
    text.lines().for_each(|line| told.take(line, "ccm"));
    told
}

fn told(figures: &[(&str, &str)]) -> Vec<String> {
    let line = |(name, value): &(&str, &str)| format!("ccm_cloud_{name}{{provider=\"do\",endpoint=\"api\"}} {value}\n");
    let text: String = figures.iter().map(line).collect();
    let findings = judge(&read(&format!("# HELP a b\nup 1\n{text}# EOF\n")), "pod a/b");
    findings.into_iter().map(|one| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found)).collect()
}

#[test]
fn less_than_a_twentieth_is_too_little_and_what_nobody_says_is_not_known() {
    let wrong = |left: &str| format!("Wrong Endpoint api of do: {left} the cloud refuses all until it gives new ones");
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
        assert!(read(garbage).endpoints.is_empty(), "{garbage}");
    }
}

#[test]
fn endpoints_are_told_apart() {
    let text = "ccm_cloud_requests_remaining{endpoint=\"a\",provider=\"x\"} 0\nccm_cloud_requests_remaining{provider=\"y\",endpoint=\"a\"} 9\n";
    let findings = judge(&read(text), "it");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].objects, ["Endpoint a of x"]);
    assert_eq!(read(text).endpoints.len(), 2);
}

/// What stands in a label is the provider's.
#[test]
fn labels_are_read_by_their_whole_names_and_to_their_ends() {
    let text = "ccm_cloud_requests_remaining{other_endpoint=\"b\",provider=\"x \\\"y\\\"\",endpoint=\"a\"} 0\n";
    let findings = judge(&read(text), "it");
    assert_eq!(findings[0].objects, ["Endpoint a of x \"y\""]);
}
