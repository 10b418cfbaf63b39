//! A bad component for every step of the gate: the one that serves goes on.

use ccm_e2e::successor::bare_successor;
use serde_json::json;

use super::{MAP, QUICK, SOURCE, await_status, await_version, component, put, serves, version};
use crate::bytes::gzip;
use crate::look::{all_events, await_event};
use crate::service_look::{await_service, ips, serve};
use crate::stage::{LIMIT, Stage};

fn wat(parts: &str) -> Vec<u8> {
    wat::parse_str(format!("(component (instance $i) {parts})")).unwrap()
}

/// A component that is refused: at which step, and what is said.
struct Bad {
    bytes: Vec<u8>,
    step: &'static str,
    says: &'static [&'static str],
}

fn bad(bytes: Vec<u8>, step: &'static str, says: &'static [&'static str]) -> Bad {
    Bad { bytes, step, says }
}

const META: &str = "(export \"ccm:cloud/meta@0.2.0\" (instance $i))";
const INSTANCES: &str = "(export \"ccm:cloud/instances@0.2.0\" (instance $i))";

fn all() -> Vec<Bad> {
    // Valid, and larger than any place that a call gets.
    let table = format!("(core module (table 2000000 funcref)) {META} {INSTANCES}");
    let import = format!("(import \"evil:door/open@1.0.0\" (instance)) {META} {INSTANCES}");
    vec![
        bad(vec![7; 300_000], "size", &["300000 bytes", "source-bytes"]),
        bad(gzip(&vec![0; 3 << 20]), "container", &["component-bytes"]),
        bad(b"\x1f\x8bnot really".to_vec(), "container", &["gzip stream is broken"]),
        bad(b"#!/bin/sh\n".to_vec(), "parse", &["not a WebAssembly component"]),
        bad(wat("(export \"ccm:cloud/meta@0.9.0\" (instance $i))"), "parse", &["ccm:cloud@0.9.0", "rebuild"]),
        bad(wat(&table), "compile", &["does not compile", "2000000"]),
        bad(wat(&import), "imports", &["evil:door/open@1.0.0"]),
        bad(wat(META), "exports", &["instances", "must export"]),
        bad(wat(&format!("{META} {INSTANCES}")), "exports", &["types differ"]),
        bad(component(&[("behaviour", "describe-traps")]), "describe", &["describe failed"]),
        bad(component(&[("behaviour", "describe-loops")]), "describe", &["call-cpu"]),
        bad(component(&[("name", "other")]), "identity", &["\"other\"", "--allow-provider-change"]),
        bad(
            component(&[("scheme", "other")]),
            "identity",
            &["provider IDs begin with other", "no provider would manage the existing Nodes"],
        ),
        bad(bare_successor(&[]).unwrap(), "identity", &["does not export load-balancers", "default/web"]),
        bad(component(&[("secret", "")]), "identity", &["cloud-config:password", "secret"]),
        bad(
            component(&[("secret", "password"), ("endpoint", "https://a.example")]),
            "grants",
            &["a.example", "--allow-host"],
        ),
        bad(component(&[("secret", "password"), ("behaviour", "complains")]), "check", &["complains on purpose"]),
    ]
}

#[tokio::test]
async fn a_bad_component_is_refused_at_its_step_and_the_one_that_serves_goes_on() {
    let stage = Stage::new().await;
    let client = stage.client();
    let good = |number: &str| component(&[("secret", "password"), ("version", number)]);
    put(client, good("1")).await;
    let config = stage.file("config.yaml", "password: correct-horse-battery\n");
    let flags = [
        format!("--provider={SOURCE}"),
        format!("--cloud-config={}", config.display()),
        "--limit=source-bytes=256KiB".to_owned(),
        "--limit=component-bytes=2MiB".to_owned(),
        "--limit=call-cpu=200ms".to_owned(),
    ];
    let host = stage.start(flags.iter().map(String::as_str).chain(QUICK));
    host.ready().await;
    serve(client, "web", json!({})).await;
    await_service(client, "web", |service| !ips(service).is_empty()).await;

    let cases = all();
    for (index, Bad { bytes, step, says }) in cases.iter().enumerate() {
        put(client, bytes.clone()).await;
        let note =
            await_event(client, MAP, "Warning", "ProviderRejected", &[says, &["continues to serve"][..]].concat())
                .await;
        assert!(note.contains(&format!("step {step} of the gate")), "{note}");
        let refused = await_status(&host, step, |status| {
            let refused = &status["refused"];
            refused["step"] == *step && says.iter().all(|part| refused["reason"].as_str().unwrap().contains(part))
        });
        assert_eq!(refused.await["serving"]["version"], "1");
        let (status, _) = host.page("/readyz").await.unwrap();
        assert_eq!(status, 200, "{step}");
        serves(client, &format!("n{index}"), "1").await;
    }
    let rejected = host.count("ccm_provider_loads_total", &["result=\"rejected\""]).await.unwrap();
    assert_eq!(rejected, f64::from(u32::try_from(cases.len()).unwrap()), "each once");
    let taken = all_events(client).await.into_iter().filter(|event| event.reason.as_deref() == Some("ProviderLoaded"));
    assert_eq!(taken.count(), 1);
    assert!(!host.log_text().contains("correct-horse"), "a secret is in the log");

    put(client, good("2")).await;
    await_version(&host, "2").await;
    serves(client, "last", "2").await;
    host.end().await;
}

#[tokio::test]
async fn an_operator_can_let_another_provider_take_over() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str(), "--allow-provider-change"].into_iter().chain(QUICK));
    host.ready().await;
    serves(client, "n1", "1").await;
    put(client, component(&[("name", "other"), ("scheme", "other"), ("version", "2")])).await;
    let status = await_version(&host, "2").await;
    assert_eq!(status["serving"]["name"], "other");
    serves(client, "n2", "2").await;
    host.end().await;
}

/// They once waited for a restart of the host.
#[tokio::test]
async fn load_balancers_are_made_when_a_component_comes_that_can_and_are_stranded_when_one_comes_that_cannot() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, bare_successor(&[("version", "1")]).unwrap()).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str(), "--allow-provider-change"].into_iter().chain(QUICK));
    serves(client, "n1", "1").await;
    serve(client, "web", json!({})).await;
    host.await_log(LIMIT, &["no provider offers load balancers"]).await.unwrap();

    put(client, version("2")).await;
    let served = await_service(client, "web", |service| !ips(service).is_empty()).await;
    serves(client, "n2", "2").await;

    put(client, bare_successor(&[("version", "3")]).unwrap()).await;
    await_version(&host, "3").await;
    serve(client, "left-alone", json!({})).await;
    let stranded = ["reason=\"Stranded\""];
    host.await_count("ccm_services_not_ready", &stranded, LIMIT, |stranded| stranded == 1.0).await.unwrap();
    let stranded = await_service(client, "web", |service| service.metadata.finalizers.is_some()).await;
    assert_eq!(ips(&stranded), ips(&served), "it stays as it is");

    put(client, version("4")).await;
    await_service(client, "left-alone", |service| !ips(service).is_empty()).await;
    let stranded = ["reason=\"Stranded\""];
    host.await_count("ccm_services_not_ready", &stranded, LIMIT, |stranded| stranded == 0.0).await.unwrap();
    host.end().await;
}

#[tokio::test]
async fn what_was_refused_is_told_again_when_the_one_that_serves_was_there_between() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let host = stage.start([format!("--provider={SOURCE}")].iter().map(String::as_str).chain(QUICK));
    host.ready().await;
    for times in 1..=2 {
        put(client, component(&[("name", "other")])).await;
        let refused = await_status(&host, "refused", |status| status["refused"]["step"] == "identity").await;
        assert_eq!(refused["serving"]["version"], "1");
        let rejected = host.count("ccm_provider_loads_total", &["result=\"rejected\""]).await.unwrap();
        assert_eq!(rejected, f64::from(times));
        put(client, version("1")).await;
        await_status(&host, "taken back", |status| status["refused"].is_null()).await;
    }
    host.end().await;
}

/// Somebody who uploads a second broken one waits for an answer to that.
#[tokio::test]
async fn each_upload_that_cannot_be_unpacked_is_told_of_though_the_words_are_the_same() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let host = stage.start([format!("--provider={SOURCE}")].iter().map(String::as_str).chain(QUICK));
    host.ready().await;
    let whole = gzip(&version("2"));
    let mut since = vec![];
    for half in [1000, 2000] {
        put(client, whole.get(..half).unwrap().to_vec()).await;
        let refused = await_status(&host, "refused", |status| {
            let refused = &status["refused"];
            refused["step"] == "container" && !since.contains(&refused["since"])
        });
        since.push(refused.await["refused"]["since"].clone());
        let rejected = host.count("ccm_provider_loads_total", &["result=\"rejected\""]).await.unwrap();
        assert_eq!(rejected, f64::from(u32::try_from(since.len()).unwrap()));
    }
    host.end().await;
}
