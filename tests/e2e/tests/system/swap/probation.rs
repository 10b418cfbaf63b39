//! Components that pass the gate and are no good: the last good one returns, and nothing is lost meanwhile.

use ccm_cluster::{NodeFixture, await_absent};
use ccm_e2e::alerts;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{MAP, SOURCE, await_status, await_version, component, file, put, replace, serves, status, version};
use crate::bytes::gzip;
use crate::look::{await_event, await_untainted, nodes};
use crate::service_look::{await_service, delete, ips, recorded, serve, services};
use crate::stage::{LIMIT, Stage};

/// A probation that ends only by what a component does wrong.
const LONG: [&str; 4] =
    ["--provider-poll=100ms", "--provider-settle=50ms", "--provider-probation=1h", "--limit=call-cpu=200ms"];

/// One that finds what exists, and is no good for what is new.
fn bad(version: &str, behaviour: &str) -> Vec<u8> {
    component(&[("version", version), ("behaviour", behaviour), ("when", "new")])
}

#[tokio::test]
async fn a_component_that_crashes_or_hangs_is_rolled_back_and_not_tried_again_before_it_changes() {
    let stage = Stage::new().await;
    let client = stage.client();
    let good = version("1");
    put(client, good.clone()).await;
    let source = format!("--provider={SOURCE}");
    let state = stage.folder().join("state");
    let state = format!("--state-dir={}", state.display());
    // The first one is proven at once.
    let proving = [&source, &state, "--provider-probation=0s", "--provider-probation-calls=1"];
    let host = stage.start(proving);
    serves(client, "first", "1").await;
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    host.end().await;

    let host = stage.start([source.as_str(), &state].into_iter().chain(LONG));
    host.ready().await;
    let before = alerts::scrape(&host).await.unwrap();
    for (index, behaviour) in ["trap", "loop", "too-few"].into_iter().enumerate() {
        let number = format!("{}", index + 2);
        put(client, bad(&number, behaviour)).await;
        // Exchanged once more; two for each that was rolled back before.
        let generation = 2 + 2 * u64::try_from(index).unwrap();
        await_status(&host, behaviour, |status| status["generation"].as_u64() >= Some(generation)).await;
        // Initialised by the last good one, whoever serves.
        for node in 0..4 {
            serves(client, &format!("{behaviour}-{node}"), "1").await;
        }
        let says = [format!("cloudlycke {number} (sha256:"), "cloudlycke 1 (sha256:".to_owned()];
        let says = [says[0].as_str(), "failed its probation", &says[1], "serves again"];
        await_event(client, MAP, "Warning", "ProviderRolledBack", &says).await;
        let status = status(&host).await;
        assert_eq!((&status["serving"]["version"], &status["phase"]), (&json!("1"), &json!("proven")), "{behaviour}");
        assert_eq!(status["refused"]["step"], "probation");
    }
    let rolled_back = host.count("ccm_provider_loads_total", &["result=\"rolled-back\""]).await.unwrap();
    assert_eq!(rolled_back, 3.0);
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMProviderRolledBack", &[[&before], [&after]]).await.unwrap();
    host.end().await;

    // The bad one is still there, and known.
    let host = stage.start([source.as_str(), &state].into_iter().chain(LONG));
    host.ready().await;
    let refused = await_status(&host, "known", |status| !status["refused"].is_null()).await;
    let reason = refused["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains("failed its probation before (3 of its first"), "{refused}");
    assert_eq!(refused["refused"]["step"], "probation");
    // Packed in another way it is the same one, and nobody is told of it twice.
    put(client, gzip(&bad("4", "too-few"))).await;
    serves(client, "after-restart", "1").await;
    assert_eq!(host.count("ccm_provider_loads_total", &["result=\"rejected\""]).await.unwrap(), 1.0);
    // Two who write the source in turn do no harm: it stays refused after another one lay there, and so do those before it.
    put(client, component(&[("name", "other")])).await;
    await_status(&host, "another", |status| status["refused"]["step"] == "identity").await;
    for (number, behaviour) in [("4", "too-few"), ("2", "trap")] {
        put(client, bad(number, behaviour)).await;
        let known = await_status(&host, behaviour, |status| {
            status["refused"]["reason"].as_str().is_some_and(|reason| reason.contains("failed its probation before"))
        });
        assert_eq!(known.await["generation"], 1, "{behaviour}");
        put(client, version("1")).await;
        await_status(&host, "as before", |status| status["refused"].is_null()).await;
    }
    put(client, version("5")).await;
    await_version(&host, "5").await;
    serves(client, "changed", "5").await;
    host.end().await;
}

#[tokio::test]
async fn the_last_good_component_serves_after_a_restart_whose_source_is_gone_or_garbage() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &version("1"));
    let state = format!("--state-dir={}", stage.folder().join("state").display());
    let flags =
        [flag.as_str(), &state, "--provider-poll=100ms", "--provider-probation=0s", "--provider-probation-calls=1"];
    let host = stage.start(flags);
    serves(client, "n1", "1").await;
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    host.end().await;
    for (name, garbage) in [("garbage", Some(b"garbage".as_slice())), ("gone", None)] {
        match garbage {
            Some(garbage) => replace(&path, garbage),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let host = stage.start(flags);
        host.ready().await;
        serves(client, name, "1").await;
        await_status(&host, name, |status| !status["refused"].is_null()).await;
        host.end().await;
    }
    // One that came while no host ran is taken over, on probation.
    std::fs::write(&path, version("2")).unwrap();
    let host = stage.start(flags);
    await_version(&host, "2").await;
    serves(client, "n2", "2").await;
    host.end().await;
}

/// There is no other to return to.
#[tokio::test]
async fn a_first_component_is_proven_at_once_and_kept() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &version("1"));
    let state = format!("--state-dir={}", stage.folder().join("state").display());
    let mut flags = vec![flag.as_str(), &state, "--provider-poll=100ms", "--provider-settle=50ms"];
    flags.extend(["--provider-probation=0s", "--provider-probation-calls=4", "--provider-probation-faults=1"]);
    let host = stage.start(flags.iter().copied());
    host.ready().await;
    replace(&path, &component(&[("version", "2"), ("behaviour", "trap")]));
    await_version(&host, "2").await;
    serves(client, "n1", "1").await;
    // The page has the refusal a moment after the exchange.
    let is_back = |status: &Value| status["serving"]["version"] == "1" && status["refused"]["step"] == "probation";
    let back = await_status(&host, "the first one serves again", is_back).await;
    assert_eq!(back["phase"], "proven", "{back}");
    host.end().await;

    std::fs::remove_file(&path).unwrap();
    let host = stage.start(flags.iter().copied());
    host.ready().await;
    serves(client, "n2", "1").await;
    host.end().await;
}

#[tokio::test]
async fn the_last_good_component_waits_for_what_it_needs() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &component(&[("version", "1"), ("secret", "password")]));
    let secret = stage.file("password", "correct-horse-battery");
    let credential = format!("--credential=password=file:{}", secret.display());
    let state = format!("--state-dir={}", stage.folder().join("state").display());
    let quick = ["--provider-poll=100ms", "--provider-probation=0s", "--provider-probation-calls=1"];
    let flags = || [flag.as_str(), &state, &credential].into_iter().chain(quick);
    let host = stage.start(flags());
    serves(client, "n1", "1").await;
    await_status(&host, "proven", |status| status["phase"] == "proven").await;
    host.end().await;

    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&secret).unwrap();
    let host = stage.start(flags());
    host.await_log(LIMIT, &["last good component cannot be used", "No such file"]).await.unwrap();
    std::fs::write(&secret, "correct-horse-battery").unwrap();
    host.ready().await;
    serves(client, "n2", "1").await;
    host.end().await;
}

/// `absent` is what deletes Nodes, and `delete` what deletes load balancers.
#[tokio::test]
async fn nothing_is_deleted_on_the_word_of_a_component_on_probation_alone() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &version("1"));
    let flags = [
        &flag,
        "--provider-poll=100ms",
        "--provider-settle=50ms",
        // Longer than a busy machine takes for what follows.
        "--provider-probation=1h",
        "--provider-probation-calls=1",
        "--provider-probation-faults=1000",
        "--node-monitor-period=200ms",
        "--node-deletion-min-age=0s",
    ];
    let host = stage.start(flags);
    host.ready().await;
    serves(client, "n1", "1").await;
    serve(client, "web", json!({})).await;
    await_service(client, "web", |service| !ips(service).is_empty()).await;
    // Its kubelet is silent, so that its machine is asked for.
    let silent = NodeFixture::new("silent").internal_ip("10.0.0.2").not_ready();
    silent.register(client).await.unwrap();
    await_untainted(client, "silent").await;
    replace(&path, &component(&[("version", "2"), ("behaviour", "absent"), ("when", "exists")]));
    await_version(&host, "2").await;
    // From here on the new one is asked.
    let before = host.lookups().await;
    delete(client, "web").await;
    host.await_count("ccm_provider_calls_total", &["function=\"instances.find\""], LIMIT, |calls| calls > before + 5.0)
        .await
        .unwrap();
    assert_eq!(nodes(client).list(&Default::default()).await.unwrap().items.len(), 2, "nobody is gone");
    // Both find it before, and the last good one finds nothing afterwards.
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(status(&host).await["phase"], "probation");

    // What a component on probation cannot delete is deleted when the last good one is back.
    serve(client, "other", json!({})).await;
    await_service(client, "other", |service| !ips(service).is_empty()).await;
    replace(&path, &component(&[("version", "3"), ("behaviour", "cannot-delete")]));
    await_version(&host, "3").await;
    delete(client, "other").await;
    host.await_count(
        "ccm_provider_calls_total",
        &["function=\"load-balancers.ensure-deleted\"", "outcome=\"trap\""],
        LIMIT,
        |calls| calls >= 1.0,
    )
    .await
    .unwrap();
    await_service(client, "other", |service| service.metadata.deletion_timestamp.is_some()).await;
    replace(&path, &version("1"));
    await_version(&host, "1").await;
    await_absent(&services(client), "other", LIMIT).await.unwrap();
    host.end().await;
}

/// A rollback once returned the code, and left the cloud as the bad one had made it.
#[tokio::test]
async fn what_a_refused_component_wrote_is_ensured_again_by_the_one_that_returns() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (path, flag) = file(&stage, &version("1"));
    let host = stage.start([flag.as_str()].into_iter().chain(LONG));
    host.ready().await;
    for name in ["web", "shop"] {
        serve(client, name, json!({})).await;
        await_service(client, name, |service| !ips(service).is_empty()).await;
    }
    let writer = |service: &Service| {
        let recorded = recorded(service)?;
        recorded.message.split(' ').find_map(|word| word.strip_prefix("by=")).map(ToOwned::to_owned)
    };
    let good = status(&host).await["serving"]["digest"].as_str().unwrap()[7..19].to_owned();
    for name in ["web", "shop"] {
        await_service(client, name, |service| writer(service).as_ref() == Some(&good)).await;
    }

    // It asks for other load balancers, which both find, and does not find the machines.
    replace(&path, &component(&[("version", "2"), ("revision", "2"), ("behaviour", "absent"), ("when", "new")]));
    let bad = await_version(&host, "2").await["serving"]["digest"].as_str().unwrap()[7..19].to_owned();
    for name in ["web", "shop"] {
        await_service(client, name, |service| writer(service).as_ref() == Some(&bad)).await;
    }
    for node in 0..3 {
        serves(client, &format!("n{node}"), "1").await;
    }
    await_version(&host, "1").await;
    for name in ["web", "shop"] {
        await_service(client, name, |service| writer(service).as_ref() == Some(&good)).await;
    }
    host.end().await;
}
