//! Who may read the health port where it asks for a token: service accounts with and without rights, on the real API server.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::until;
use ccm_e2e::manifest;

use crate::look::await_untainted;
use crate::mistakes::run;
use crate::stage::{Actor, LIMIT, RIVAL, Stage};

const ON_LOOPBACK: &str = "--authentication-on-loopback";
const OURS: &str = "x-wasm-ccm-token";

/// A token of an account in kube-system, as `kubectl create token` makes it.
pub(crate) async fn token(stage: &Stage, account: &str, audiences: &[&str]) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client().clone(), "kube-system");
    let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
    let request = TokenRequest { spec: TokenRequestSpec { audiences, ..Default::default() }, ..Default::default() };
    accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap().status.unwrap().token
}

/// Status and text of a page for whoever sends this header.
pub(crate) async fn page(host: &Actor, path: &str, header: Option<(&str, &str)>) -> (u16, String) {
    host.page_with(path, header.as_slice()).await.unwrap()
}

async fn status(host: &Actor, path: &str, header: Option<(&str, &str)>) -> u16 {
    page(host, path, header).await.0
}

/// Waits until the API server has read the rules that were applied: until then it says no.
async fn await_reader(host: &Actor, header: (&str, &str)) {
    until(LIMIT, async || Ok(status(host, "/metrics", Some(header)).await == 200)).await.unwrap();
}

async fn plain_account(stage: &Stage, name: &str) {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client().clone(), "kube-system");
    accounts.create(&PostParams::default(), &account).await.unwrap();
}

#[tokio::test]
async fn case_259_pages_are_for_those_who_may_and_probes_for_everybody_and_no_token_is_in_the_log() {
    let stage = Stage::new().await;
    manifest::apply(stage.client(), "base/reader.yaml").await.unwrap();
    plain_account(&stage, "plain").await;
    let reader = token(&stage, "wasm-ccm-reader", &[]).await;
    let bound = token(&stage, "wasm-ccm-reader", &["wasm-ccm"]).await;
    let plain = token(&stage, "plain", &[]).await;
    // Refusals do not count for long: the API server reads rules a moment later.
    let flags = [ON_LOOPBACK, "--authorization-webhook-cache-unauthorized-ttl=10ms", "--leader-elect=true", "--v=9"];
    let host = stage.cloudlycke(&flags);
    host.ready().await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n1").await;
    let bearer = |token: &str| format!("Bearer {token}");
    let (reads, reads_not, wrong) = (bearer(&reader), bearer(&plain), bearer("not-a-token-that-anybody-has"));
    let not_meant = bearer(&bound);
    await_reader(&host, ("authorization", &reads)).await;

    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(status(&host, path, None).await, 200, "{path}");
    }
    // Every user of a cluster may get /readyz itself, and learns as little as everybody.
    for header in [None, Some(("authorization", wrong.as_str())), Some(("authorization", reads_not.as_str()))] {
        assert_eq!(page(&host, "/readyz", header).await, (200, "ok".to_owned()), "{header:?}");
    }
    let checks = async || {
        let (_, text) = page(&host, "/readyz", Some(("authorization", &reads))).await;
        Ok(text.contains("[+]nodes ok\n") && text.contains("leader: this process"))
    };
    until(LIMIT, checks).await.unwrap();
    let closed = [
        "/metrics",
        "/providerz",
        "/configz",
        "/explain/v1/node/n1",
        "/healthz/leaderElection",
        "/healthz/cloud-node-controller",
        "/livez/service-lb-controller",
        "/readyz/nodes",
    ];
    for path in closed {
        assert_eq!(status(&host, path, None).await, 401, "{path}");
        assert_eq!(status(&host, path, Some(("authorization", &wrong))).await, 401, "{path}");
        let (code, text) = page(&host, path, Some(("authorization", &reads_not))).await;
        let told =
            format!("User \"system:serviceaccount:kube-system:plain\" cannot get path {path:?}: bind a ClusterRole");
        assert!(code == 403 && text.starts_with(&told), "{path}: {code} {text}");
        assert_eq!(status(&host, path, Some(("authorization", &reads))).await, 200, "{path}");
    }
    // Also what does not exist.
    assert_eq!(status(&host, "/elsewhere", None).await, 401);
    assert_eq!(status(&host, "/elsewhere", Some(("authorization", &reads))).await, 403);

    // What comes through the proxy of the API server is good for nobody else, and nothing else is taken there.
    assert_eq!(status(&host, "/metrics", Some((OURS, &bound))).await, 200);
    assert_eq!(status(&host, "/metrics", Some((OURS, &reader))).await, 401);
    assert_eq!(status(&host, "/metrics", Some(("authorization", &not_meant))).await, 401);

    // Kept answers, and what was counted.
    let (_, metrics) = page(&host, "/metrics", Some(("authorization", &reads))).await;
    for part in [
        "ccm_health_port_refusals_total{reason=\"no-token\"} ",
        "ccm_health_port_refusals_total{reason=\"wrong-token\"} ",
        "ccm_health_port_refusals_total{reason=\"forbidden\"} ",
        "running_managed_controllers{name=\"cloud-node\",manager=\"cloud-controller-manager\"} 1",
        "running_managed_controllers{name=\"service\",manager=\"cloud-controller-manager\"} 1",
        "kubernetes_build_info{",
    ] {
        assert!(metrics.contains(part), "no {part} in:\n{metrics}");
    }
    let counted = |labels: &[&str]| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    let server = format!("host=\"{}\"", stage.cluster.url().trim_start_matches("https://"));
    for labels in [
        [server.as_str(), "method=\"GET\"", "code=\"200\""],
        // Reviews.
        [&server, "method=\"POST\"", "code=\"201\""],
        // The election and the controllers.
        [&server, "method=\"PUT\"", "code=\"200\""],
        [&server, "method=\"PATCH\"", "code=\"200\""],
    ] {
        assert!(counted(&labels) >= 1.0, "{labels:?} in:\n{metrics}");
    }

    let log = host.stop().await;
    for token in [&reader, &bound, &plain, "not-a-token-that-anybody-has"] {
        assert!(!log.contains(token), "a token is in the log");
    }
}

#[tokio::test]
async fn explain_makes_a_token_for_the_host_where_it_wants_one_and_says_what_is_missing_where_it_cannot() {
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&[ON_LOOPBACK, "--authorization-webhook-cache-unauthorized-ttl=10ms"]);
    host.ready().await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n1").await;
    let address = format!("--address=https://127.0.0.1:{}", host.port());
    let explain = |kubeconfig: &std::path::Path| {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        run(&["explain", "node", "n1", &address, &kubeconfig])
    };
    // Without the account of this version's manifests.
    let (_, text, _) = explain(&stage.cluster.kubeconfig());
    let missing = "it wants a token, and a token of the ServiceAccount kube-system/wasm-ccm-reader cannot be made: ";
    assert!(text.contains(missing) && text.contains("apply the manifests of this version"), "{text}");

    manifest::apply(stage.client(), "base/reader.yaml").await.unwrap();
    let bound = token(&stage, "wasm-ccm-reader", &["wasm-ccm"]).await;
    await_reader(&host, (OURS, &bound)).await;
    let (code, text, stderr) = explain(&stage.cluster.kubeconfig());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{text}");
    assert!(text.contains("asked      the host at https://127.0.0.1:") && !text.contains("tried"), "{text}");
    // A user who may not make tokens.
    let (_, text, _) = explain(stage.cluster.kubeconfig_of(RIVAL).unwrap());
    assert!(text.contains("cannot be made: ") && text.contains("let your user create serviceaccounts/token"), "{text}");
    host.end().await;
}

/// Where the API server does not say, nobody gets in: no right to ask it, and nobody there.
#[tokio::test]
async fn without_an_answer_of_the_api_server_no_page_is_served_but_those_of_the_probes() {
    let stage = Stage::new().await;
    manifest::apply(stage.client(), "base/reader.yaml").await.unwrap();
    let reader = format!("Bearer {}", token(&stage, "wasm-ccm-reader", &[]).await);
    let header = Some(("authorization", reader.as_str()));
    let rival = format!("={}", stage.cluster.kubeconfig_of(RIVAL).unwrap().display());
    for (flag, review) in
        [("--authentication-kubeconfig", "TokenReview"), ("--authorization-kubeconfig", "SubjectAccessReview")]
    {
        // A user who may not create reviews.
        let host = stage.cloudlycke(&[ON_LOOPBACK, &format!("{flag}{rival}")]);
        host.ready().await;
        for _ in 0..2 {
            let (code, text) = page(&host, "/metrics", header).await;
            let told = format!("the API server has not answered a {review}, so nobody gets this page");
            assert!(code == 503 && text.starts_with(&told), "{code} {text}");
        }
        assert_eq!((status(&host, "/metrics", None).await, status(&host, "/livez", None).await), (401, 200));
        let log = host.stop().await;
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("does not say who may read")).collect();
        assert!(lines.len() == 1 && lines[0].contains("forbidden"), "once, and why: {lines:?}");
    }

    let short = ["--authentication-token-webhook-cache-ttl=1ms", "--authorization-webhook-cache-unauthorized-ttl=10ms"];
    let host = stage.cloudlycke(&[ON_LOOPBACK, short[0], short[1]]);
    host.ready().await;
    await_reader(&host, ("authorization", &reader)).await;
    stage.cluster.stop_api_server().await.unwrap();
    let (code, text) = page(&host, "/metrics", header).await;
    assert!(code == 503 && text.starts_with("the API server has not answered a TokenReview"), "{code} {text}");
    assert_eq!((status(&host, "/metrics", None).await, status(&host, "/livez", None).await), (401, 200));
    stage.cluster.start_api_server().await.unwrap();
    await_reader(&host, ("authorization", &reader)).await;
    host.await_log(LIMIT, &["answers reviews of the health port again"]).await.unwrap();
    host.stop().await;
}

/// Whoever had `--bind-address=0.0.0.0` before there was a wall opens a page by upstream's flag.
#[tokio::test]
async fn paths_that_are_always_allowed_need_no_token_and_all_others_do() {
    let stage = Stage::new().await;
    let host = stage.cloudlycke(&[ON_LOOPBACK, "--authorization-always-allow-paths=/readyz,/metrics,/healthz/*"]);
    host.await_page("/readyz", 200, LIMIT).await.unwrap();
    for (path, expected) in
        [("/metrics", 200), ("/healthz/x", 404), ("/healthz", 401), ("/livez", 401), ("/providerz", 401)]
    {
        assert_eq!(status(&host, path, None).await, expected, "{path}");
    }
    host.end().await;
}
