use std::sync::atomic::{AtomicU64, Ordering};

use ccm_fake_api::scraped;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::core::Status;
use kube::core::response::{StatusDetails, StatusSummary};
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;

type FakeApi = ccm_fake_api::FakeApi<Node>;

const GET: Purpose = Purpose { verb: "get", resource: "nodes" };

struct Bench {
    api: FakeApi,
    gate: ApiGate,
    registry: Registry,
}

fn bench() -> Bench {
    let api = FakeApi::new();
    api.add(json!({ "metadata": { "name": "node0" } }));
    let mut registry = Registry::default();
    let metrics = ApiMetrics::register(&mut registry);
    let gate = ApiGate::new(api.client.clone(), metrics, ApiGateSettings::default());
    Bench { api, gate, registry }
}

/// A leadership that lasts for so many more milliseconds.
#[derive(Default)]
struct Term(AtomicU64);

impl Leadership for Term {
    fn may_write(&self) -> bool {
        !self.time_left().is_zero()
    }

    fn time_left(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

impl Bench {
    fn count(&self, outcome: &str) -> f64 {
        let labels = format!("{{verb=\"get\",resource=\"nodes\",outcome=\"{outcome}\"}}");
        scraped(&self.registry, &format!("ccm_api_requests_total{labels}"))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_the_gate_is_closed_but_reads_go_on() {
    let term = Arc::new(Term::default());
    let mut bench = bench();
    bench.gate = bench.gate.led_by(Arc::clone(&term) as Arc<dyn Leadership>);
    let nodes = Api::<Node>::all(bench.gate.client());
    assert!(matches!(bench.gate.write(GET, nodes.get("node0")).await, Err(ApiError::Closed)));
    assert_eq!(bench.api.lines(), [""; 0]);
    assert!(bench.gate.read(GET, nodes.get("node0")).await.is_ok());
    term.0.store(60_000, Ordering::SeqCst);
    assert!(bench.gate.write(GET, nodes.get("node0")).await.is_ok());
    assert!(bench.count("closed") == 1.0 && bench.count("ok") == 2.0);
}

/// Longer than that another process may write.
#[tokio::test(start_paused = true)]
async fn a_write_takes_no_longer_than_the_leadership_lasts() {
    let mut bench = bench();
    bench.gate = bench.gate.led_by(Arc::new(Term(AtomicU64::new(4_000))));
    bench.api.silence("node0");
    let nodes = Api::<Node>::all(bench.gate.client());
    for (is_write, seconds) in [(true, 4), (false, 10)] {
        let begun = Instant::now();
        let answer = match is_write {
            true => bench.gate.write(GET, nodes.get("node0")).await,
            false => bench.gate.read(GET, nodes.get("node0")).await,
        };
        assert!(matches!(answer, Err(ApiError::TimedOut(limit)) if limit == Duration::from_secs(seconds)));
        assert_eq!(begun.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_ends_at_the_time_limit_and_is_counted() {
    let bench = bench();
    bench.api.silence("node0");
    let nodes = Api::<Node>::all(bench.gate.client());
    let begun = Instant::now();
    let answer = bench.gate.write(GET, nodes.get("node0")).await;
    assert!(matches!(answer, Err(ApiError::TimedOut(limit)) if limit == Duration::from_secs(10)));
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(bench.count("timeout") == 1.0);
    let sum = scraped(&bench.registry, "ccm_api_request_duration_seconds_sum{verb=\"get\",resource=\"nodes\"}");
    assert!((10.0..10.1).contains(&sum), "{sum}");
}

#[tokio::test(start_paused = true)]
async fn each_status_has_its_own_error() {
    let cases = [
        (400, "refused"),
        (401, "refused"),
        (403, "refused"),
        (404, "not_found"),
        (409, "conflict"),
        (422, "refused"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
    ];
    for (status, outcome) in cases {
        let bench = bench();
        bench.api.refuse("node0", status, 1);
        let nodes = Api::<Node>::all(bench.gate.client());
        let error = bench.gate.write(GET, nodes.get("node0")).await.unwrap_err();
        assert_eq!(error.outcome(), outcome, "{status}");
        assert!(bench.count(outcome) == 1.0, "{status}");
    }
}

/// Each of them was once the API server's refusal, and so what it says of rights and of objects.
#[tokio::test(start_paused = true)]
async fn what_something_in_between_says_is_no_answer_whatever_its_status() {
    let page = format!("<html>User \"ccm\" cannot pass{}</html>", "x".repeat(10_000));
    let texts =
        ["", "Bad Request", "{}", r#"{ "message": "Forbidden" }"#, r#"{ "code": 403, "reason": "Forbidden" }"#, &page];
    for (status, text) in [400, 401, 403, 404, 409, 422].into_iter().flat_map(|status| texts.map(|text| (status, text)))
    {
        let bench = bench();
        bench.api.interfere("node0", status, text, 1);
        let nodes = Api::<Node>::all(bench.gate.client());
        let error = bench.gate.read(GET, nodes.get("node0")).await.unwrap_err();
        assert!(error.is_unanswered() && !error.is_denied() && !error.is_refusal(), "{status} {text}: {error}");
        assert!(error.to_string().len() < 500, "{error}");
    }
}

/// With API priority and fairness, the API server itself answers so, and people looked for a proxy.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_has_too_much_to_do_says_so_without_a_status_and_passes_for_nobody_else() {
    let bench = bench();
    bench.api.interfere("node0", 429, "Too many requests, please try again later.\n", 1);
    let nodes = Api::<Node>::all(bench.gate.client());
    let error = bench.gate.read(GET, nodes.get("node0")).await.unwrap_err();
    assert!(error.is_unanswered() && bench.count("unavailable") == 1.0, "{error}");
    let told = "the API server cannot serve this now (429): an answer without a Status: Too many requests, please try again later.";
    assert_eq!(error.to_string(), told);
}

#[test]
fn the_api_servers_wish_for_a_delay_is_kept() {
    let details: StatusDetails = serde_json::from_str(r#"{ "retryAfterSeconds": 7 }"#).unwrap();
    let status = Some(StatusSummary::Failure);
    let status = Status { status, code: 429, message: "busy".into(), details: Some(details), ..Status::default() };
    let error = ApiError::from(kube::Error::Api(Box::new(status)));
    assert!(matches!(error, ApiError::Unavailable { code: 429, retry_after: Some(after), .. } if after.as_secs() == 7));
}
