use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_serving::access::AccessMetrics;
use ccm_serving::health::Check;
use clap::Parser;
use http::Response;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use ccm_cli::AccessArgs;

fn pages() -> Pages {
    let mut registry = Registry::default();
    let process = ProcessMetrics::register(&mut registry);
    let (readiness, health) = (Readiness::default(), Health::new([]));
    let providers = ProviderStatuses::default();
    let explainer = Explainer::default();
    let registry = Arc::new(registry);
    let configz = "{}".into();
    Pages {
        wall: None,
        readiness,
        health,
        leader: None,
        registry,
        process,
        providers,
        explainer,
        configz,
        dry_run: None,
        beside: Beside::default(),
    }
}

async fn get(pages: &Pages, path: &str) -> (u16, String) {
    read(pages, path, Some(Reader::Known)).await
}

async fn read(pages: &Pages, path: &str, reader: Option<Reader>) -> (u16, String) {
    use http_body_util::BodyExt as _;
    let request = reader.into_iter().fold(Request::get(path), |request, reader| request.extension(reader));
    let response = pages.answer(&request.body(()).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn it_is_ready_when_every_check_says_so_and_else_says_why() {
    let pages = pages();
    assert_eq!(get(&pages, "/readyz").await, (503, String::new()));
    pages.readiness.set("provider x.wasm", Err("it is empty".into()));
    pages.readiness.set("nodes", Ok(()));
    assert_eq!(get(&pages, "/readyz").await, (503, "[+]nodes ok\n[-]provider x.wasm not ready: it is empty\n".into()));
    pages.readiness.set("provider x.wasm", Ok(()));
    assert_eq!(get(&pages, "/readyz").await, (200, "[+]nodes ok\n[+]provider x.wasm ok\n".into()));
    assert_eq!(get(&pages, "/livez").await, (200, "ok".into()));
}

/// Whoever reaches the port learned the address of the registry, the name of the leader and what the API server and clouds say.
#[tokio::test]
async fn everybody_learns_that_it_is_not_ready_or_not_healthy_and_not_why() {
    let pages = pages();
    pages.readiness.set("provider registry.internal/x", Err("503 of https://cloud.internal".into()));
    pages.health.add(Check::new("leaderElection", || Err("it hangs".to_owned())));
    for reader in [Some(Reader::Anybody), None] {
        let (status, text) = read(&pages, "/readyz", reader).await;
        assert!(status == 503 && text.starts_with("not ready: ") && !text.contains("internal"), "{text}");
        for page in ["/livez", "/healthz?verbose"] {
            let text = "[-]leaderElection failed: reason withheld\nhealthz check failed\n";
            assert_eq!(read(&pages, page, reader).await, (500, text.to_owned()));
        }
    }
    assert!(get(&pages, "/readyz").await.1.contains("503 of https://cloud.internal"));
    assert!(get(&pages, "/livez").await.1.contains("it hangs"));
    pages.readiness.set("provider registry.internal/x", Ok(()));
    assert_eq!(read(&pages, "/readyz", None).await, (200, "ok".to_owned()));
}

/// An API server that knows one token, of somebody who may read everything.
struct OneToken;

impl Reviews for OneToken {
    async fn token(&self, token: &str, _: Option<&'static str>) -> Result<Option<UserInfo>, String> {
        Ok((token == "reader").then(UserInfo::default))
    }

    async fn access(&self, _: &UserInfo, _: &str) -> Result<bool, String> {
        Ok(true)
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    access: AccessArgs,
}

/// Also a page that nobody has written yet.
#[tokio::test]
async fn without_a_token_there_are_the_probes_and_no_other_page_whichever_comes() {
    let settings = Flags::parse_from(["run"]).access.settings();
    let wall = Arc::new(Wall::new(settings, OneToken, AccessMetrics::default()));
    let pages = pages();
    pages.readiness.set("nodes", Ok(()));
    pages.health.add(Check::new("leaderElection", || Ok(())));
    let served = answering::<()>(pages);
    let of_later = move |request: Request<()>| {
        let is_later = request.uri().path() == "/later";
        if is_later { std::future::ready(page(StatusCode::OK, TEXT, "secret")).boxed() } else { served(request) }
    };
    let answer = guarded(Some(wall), of_later.clone());
    let ask = async |path: &str, token: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {token}")).body(()).unwrap();
        answer(request).await.status().as_u16()
    };
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(ask(path, "").await, 200, "{path}");
    }
    let text = async |token: &str| {
        use http_body_util::BodyExt as _;
        let request = Request::get("/readyz").header("authorization", format!("Bearer {token}")).body(()).unwrap();
        answer(request).await.into_body().collect().await.unwrap().to_bytes()
    };
    assert_eq!((&*text("").await, &*text("reader").await), (&b"ok"[..], &b"[+]nodes ok\n"[..]));
    for path in [
        "/",
        "/metrics",
        "/providerz",
        "/configz",
        "/explain/v1/node/n1",
        "/healthz/leaderElection",
        "/livez/leaderElection",
        "/readyz/nodes",
        "/later",
    ] {
        assert_eq!((ask(path, "").await, ask(path, "other").await), (401, 401), "{path}");
        assert_eq!(ask(path, "reader").await, 200, "{path}");
    }
    let open = guarded(None::<Arc<Wall<OneToken>>>, of_later);
    for (path, length) in [("/metrics", None), ("/readyz", Some("[+]nodes ok\n".len()))] {
        use hyper::body::Body as _;
        let told = open(Request::get(path).body(()).unwrap()).await;
        assert_eq!(told.status(), 200, "where only this machine reaches the port");
        assert!(length.is_none_or(|length| told.body().size_hint().exact() == u64::try_from(length).ok()), "{path}");
    }
}

#[tokio::test]
async fn one_check_is_asked_for_on_each_of_the_pages_of_checks() {
    let pages = pages();
    pages.health.add(Check::new("service-lb-controller", || Err("it hangs".to_owned())));
    pages.readiness.set("nodes", Err("not listed".to_owned()));
    let hangs = "service-lb-controller failed: it hangs\n";
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(get(&pages, &format!("{path}/service-lb-controller")).await, (500, hangs.to_owned()), "{path}");
        assert_eq!(get(&pages, &format!("{path}/nobody")).await.0, 404, "{path}");
    }
    assert_eq!(get(&pages, "/readyz/nodes").await, (503, "nodes not ready: not listed\n".to_owned()));
    assert_eq!(get(&pages, "/healthz/nodes").await.0, 404);
}

#[tokio::test]
async fn the_build_is_among_the_metrics() {
    let (_, text) = get(&pages(), "/metrics").await;
    let line = text.lines().find(|line| line.starts_with("kubernetes_build_info{")).unwrap();
    for label in
        [concat!("git_version=\"v", env!("CARGO_PKG_VERSION"), "\""), "compiler=\"rustc\"", "platform=\"linux/"]
    {
        assert!(line.contains(label) && line.ends_with("} 1"), "{line}");
    }
}

#[tokio::test]
async fn the_page_for_people_tells_what_is_not_ready_in_the_words_of_readyz() {
    let pages = pages();
    pages.readiness.set("provider x.wasm", Err("it is <b>empty</b>".into()));
    pages.readiness.set("nodes", Ok(()));
    let response = pages.answer(&Request::get("/").body(()).unwrap()).await;
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!(header("content-security-policy"), ccm_status::POLICY);
    assert_eq!((header("x-content-type-options"), header("refresh")), ("nosniff", "15"));
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let (status, text) = get(&pages, "/").await;
    assert!(status == 200 && text.contains("1 check that fails"), "{text}");
    pages.health.add(Check::new("service-lb-controller", || Err("it hangs".to_owned())));
    let (_, both) = get(&pages, "/").await;
    assert!(both.contains("2 checks that fail"), "{both}");
    assert!(both.contains("<li>service-lb-controller failed: it hangs</li>"), "{both}");
    assert!(text.contains("<li>provider x.wasm not ready: it is &lt;b&gt;empty&lt;/b&gt;</li>"), "{text}");
    pages.health.add(Check::new("service-lb-controller", || Err("it hangs\n[-]other failed: no".to_owned())));
    let (_, still) = get(&pages, "/").await;
    assert!(still.contains("<li>service-lb-controller failed: it hangs [-]other failed: no</li>"), "{still}");
    assert!(still.contains("2 checks that fail"), "{still}");
    assert!(text.contains("leader: this process, without election"), "{text}");
}

#[tokio::test]
async fn metrics_tell_the_memory_of_this_process() {
    let (status, text) = get(&pages(), "/metrics").await;
    let line = text.lines().find(|line| line.starts_with("process_resident_memory_bytes ")).unwrap().to_owned();
    let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(status == 200 && bytes > 1 << 20, "{line}");
}

/// Alerts on restarts count its changes.
#[tokio::test]
async fn metrics_tell_since_when_the_process_runs_and_say_the_same_each_time() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = now();
    let pages = pages();
    let after = now();
    let said = async || {
        let (_, text) = get(&pages, "/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
        line.unwrap_or_else(|| panic!("not in {text}")).parse::<u64>().unwrap()
    };
    let started = said().await;
    assert!((before..=after).contains(&started), "{started} is not between {before} and {after}");
    assert_eq!(said().await, started);
}

/// Both were zero, and each other's, without any test that would have failed.
#[tokio::test]
async fn metrics_tell_how_much_memory_calls_may_have_and_how_much_they_have_now() {
    const LIMIT: usize = 64 << 20;
    let calls = MemoryBudget::new(LIMIT, 1);
    let mut pages = pages();
    pages.process = pages.process.with_calls(calls.clone());
    let figures = async || {
        let (_, text) = get(&pages, "/metrics").await;
        ["limit", "given"].map(|name| {
            let series = format!("ccm_provider_memory_{name}_bytes ");
            let line = text.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap_or_else(|| panic!("no {series}in {text}")).parse::<usize>().unwrap()
        })
    };
    assert_eq!(figures().await, [LIMIT, 0]);
    let call = calls.share("x").try_begin(1 << 20).unwrap();
    assert_eq!(figures().await, [LIMIT, 1 << 20]);
    assert!(call.try_grow(2 << 20));
    let [limit, given] = figures().await;
    assert!(limit == LIMIT && (3 << 20..LIMIT).contains(&given), "{given}");
    drop(call);
    assert_eq!(figures().await, [LIMIT, 0]);
}

/// After some looks at a cluster in which this holder renews the Lease, or in which nobody has one.
async fn beside(holder: Option<&'static str>) -> Beside {
    let looks = AtomicUsize::new(0);
    let answer = move || {
        let renewed = looks.fetch_add(1, Ordering::Relaxed);
        let lease = holder.map(|holder| {
            json!({ "metadata": { "name": "ccm" }, "spec": { "holderIdentity": holder, "leaseTransitions": renewed } })
        });
        let none = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
        let status = if lease.is_some() { 200 } else { 404 };
        Response::builder().status(status).body(Body::from(lease.unwrap_or(none).to_string().into_bytes()))
    };
    let service = tower::service_fn(move |_: Request<Body>| std::future::ready(answer()));
    let (client, beside) = (Client::new(service, "default"), Beside::default());
    let look = beside.clone().follow(client, "kube-system".to_owned(), "ccm".to_owned());
    assert!(timeout(Duration::from_secs(12), look).await.is_err(), "it never ends");
    beside
}

/// It is legal. Whoever switched the other manager off and forgot `--dry-run` has to see it all the same.
#[tokio::test(start_paused = true)]
async fn a_dry_run_beside_nobody_is_ready_and_says_so_where_people_look() {
    let dry_run = Pending::register(&mut Registry::default(), &[]);
    let says = "beside nobody: no manager holds Lease kube-system/ccm";
    for (beside, is_said) in [(beside(None).await, true), (Beside::default(), false)] {
        let pages = Pages { dry_run: Some(dry_run.clone()), beside, ..pages() };
        pages.readiness.set("nodes", Ok(()));
        for path in ["/readyz?verbose", "/"] {
            let (status, text) = get(&pages, path).await;
            assert_eq!((status, text.contains(says)), (200, is_said), "{path}: {text}");
            assert!(text.contains("dry run: this process writes nothing"), "{path}: {text}");
        }
    }
    let pages = Pages { beside: beside(None).await, ..pages() };
    assert!(!get(&pages, "/readyz").await.1.contains(says), "it is no dry run");
}

/// Such a holder once was two checks of `/readyz`, one of which failed on the page for people.
#[tokio::test(start_paused = true)]
async fn what_the_holder_of_a_lease_calls_itself_is_no_check_and_one_short_line() {
    let holder = format!("other_1\n[-]component failed: \u{1b}[2Jno\n[+]dry-run ok{}", "x".repeat(1 << 20));
    let dry_run = Some(Pending::register(&mut Registry::default(), &[]));
    let pages = Pages { dry_run, beside: beside(Some(holder.leak())).await, ..pages() };
    pages.readiness.set("nodes", Ok(()));
    let (status, text) = get(&pages, "/readyz?verbose").await;
    let lines: Vec<&str> = text.lines().collect();
    let ["[+]nodes ok", _, line] = lines.as_slice() else { panic!("{text:.500}") };
    assert!(
        status == 200 && line.starts_with("beside other_1 [-]component failed:  [2Jno [+]dry-run okx"),
        "{line:.500}"
    );
    assert!(line.ends_with("x\u{2026}, which holds Lease kube-system/ccm") && line.len() < 400, "{line:.500}");
    let (_, page) = get(&pages, "/").await;
    assert!(!page.contains("that fail") && page.len() < 1 << 16, "{} bytes: {page:.2000}", page.len());
}
