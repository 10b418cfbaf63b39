//! Several replicas, one after the other or at the same time: what one of them finds out about a component, the others know.

use ccm_e2e::manifest;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{MAP, NAMESPACE, QUICK, SOURCE, await_status, await_version, component, put, serves, status, version};
use crate::look::{await_event, told};
use crate::stage::{Actor, LIMIT, Stage};

const SHARED: &str = "wasm-ccm-components";
/// One that holds its Lease for as long as a test takes.
pub(super) const ELECTED: [&str; 2] = ["--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=5m"];
/// A probation that ends only by what a component does wrong.
const LONG: [&str; 3] = ["--provider-poll=100ms", "--provider-settle=50ms", "--provider-probation=1h"];

/// What the replicas know of the only source.
async fn known(client: &Client) -> Value {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = maps.get_opt(SHARED).await.unwrap();
    let entry = map.and_then(|map| map.data?.into_values().next());
    entry.map_or(Value::Null, |entry| serde_json::from_str(&entry).unwrap())
}

/// As in a cluster whose ConfigMap was restored as our manifests have it.
pub(super) async fn forget_what_replicas_share(client: &Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let none = Patch::Merge(json!({ "data": null }));
    maps.patch(SHARED, &PatchParams::default(), &none).await.unwrap();
}

pub(super) async fn await_known(client: &Client, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waited = ccm_e2e::host::until(LIMIT, async || {
        last = known(client).await;
        Ok(holds(&last))
    });
    if let Err(error) = waited.await {
        panic!("{what}: {error:#}; {last:#}");
    }
    last
}

/// Another replica refuses the component with this digest.
async fn refuse_elsewhere(client: &Client, digest: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let (key, entry) = maps.get(SHARED).await.unwrap().data.unwrap().into_iter().next().unwrap();
    let mut entry: Value = serde_json::from_str(&entry).unwrap();
    let refusal = json!({ "digest": digest, "reason": "it lied", "at": "2026-01-01T00:00:00Z" });
    entry["refused"].as_array_mut().unwrap().push(refusal);
    let patch = Patch::Merge(json!({ "data": { key: entry.to_string() } }));
    maps.patch(SHARED, &PatchParams::default(), &patch).await.unwrap();
}

/// Its first call for a Node that is new ends in a trap.
fn bad(version: &str) -> Vec<u8> {
    component(&[("version", version), ("behaviour", "trap"), ("when", "new")])
}

/// Waits until the first version serves again, and the page says what was refused: the slot tells before the keeper.
async fn await_back(host: &Actor) -> Value {
    let is_back = |status: &Value| status["serving"]["version"] == "1" && status["refused"]["step"] == "probation";
    await_status(host, "the first version serves again", is_back).await
}

/// A new pod once took as its first component, which counts as proven, what a running host had refused.
#[tokio::test]
async fn a_component_that_a_replica_refused_is_taken_by_a_new_pod_only_when_nobody_serves() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let flags = || [source.as_str()].into_iter().chain(LONG).chain(ELECTED);
    let first = stage.start(flags());
    first.await_log(LIMIT, &["this process leads"]).await.unwrap();
    put(client, bad("2")).await;
    await_version(&first, "2").await;
    for node in 0..4 {
        serves(client, &format!("n{node}"), "1").await;
    }
    let digest = await_back(&first).await["refused"]["digest"].clone();
    let entry = await_known(client, "refused", |entry| !entry["refused"][0].is_null()).await;
    assert_eq!((&entry["source"], &entry["refused"][0]["digest"]), (&json!(SOURCE), &digest), "{entry:#}");
    let reason = entry["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("3 of its first "), "{entry:#}");

    let second = stage.start(flags());
    let says = ["failed its probation before", "3 of its first ", "another replica serves"];
    second.await_log(LIMIT, &says).await.unwrap();
    let (code, text) = second.page("/readyz").await.unwrap();
    assert!(code == 503 && text.contains("another replica serves"), "{code} {text}");
    first.end().await;
    second
        .await_log(LIMIT, &["no replica leads: this process loads a component that was refused before"])
        .await
        .unwrap();
    second.ready().await;
    assert_eq!(status(&second).await["serving"]["version"], "2");
    // What is better is taken at once.
    put(client, version("3")).await;
    await_version(&second, "3").await;
    second.end().await;
}

/// A Deployment and its component are often changed at once: the new pod takes as its first one what the old pod has on probation.
#[tokio::test]
async fn a_new_pod_whose_first_component_the_leader_refuses_afterwards_begins_anew_without_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let flags = || [source.as_str()].into_iter().chain(LONG).chain(ELECTED);
    let leader = stage.start(flags());
    leader.await_log(LIMIT, &["this process leads"]).await.unwrap();
    put(client, bad("2")).await;
    await_version(&leader, "2").await;
    let mut pod = stage.start(flags());
    pod.ready().await;
    assert_eq!(status(&pod).await["serving"]["version"], "2");
    for node in 0..4 {
        serves(client, &format!("n{node}"), "1").await;
    }
    await_event(client, MAP, "Warning", "ProviderRefusedElsewhere", &["another replica refused it: 3 of its first "])
        .await;
    assert_eq!(pod.wait(LIMIT).await.unwrap().code(), Some(1));
    assert!(pod.log_text().contains("this process ends"), "{}", pod.log_text());
    let pod = stage.start(flags());
    pod.await_log(LIMIT, &["failed its probation before", "another replica serves"]).await.unwrap();
    assert_eq!(pod.page("/readyz").await.unwrap().0, 503);
    // It serves as soon as there is a better one.
    put(client, version("3")).await;
    pod.ready().await;
    pod.end().await;
    leader.end().await;
}

/// Out of memory, say: nobody is left to judge it, and it once was the first thing that the next process took again.
#[tokio::test]
async fn a_component_on_probation_when_the_process_is_killed_is_refused_afterwards() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let flags = [format!("--provider={SOURCE}"), format!("--state-dir={}", stage.folder().join("state").display())];
    let flags = || flags.iter().map(String::as_str).chain(LONG);
    let host = stage.start(flags());
    host.ready().await;
    put(client, version("2")).await;
    await_version(&host, "2").await;
    // Not one that ends in order.
    host.end().await;
    let mut host = stage.start(flags());
    let again = await_version(&host, "2").await;
    assert_eq!(again["phase"], "probation", "{again:#}");
    host.signal("KILL").await.unwrap();
    host.wait(LIMIT).await.unwrap();

    let host = stage.start(flags());
    host.ready().await;
    let refused = await_status(&host, "refused", |status| !status["refused"].is_null()).await;
    assert_eq!((&refused["serving"]["version"], &refused["refused"]["step"]), (&json!("1"), &json!("probation")));
    let reason = refused["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains("the process ended without notice while the component was on probation"), "{reason}");
    let entry = await_known(client, "told", |entry| !entry["refused"][0].is_null()).await;
    assert_eq!(entry["refused"][0]["digest"], refused["refused"]["digest"], "{entry:#}");
    host.end().await;
}

#[tokio::test]
async fn without_the_config_map_one_warning_names_the_way_out_and_everything_works() {
    let stage = Stage::new().await;
    let client = stage.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    maps.delete(SHARED, &DeleteParams::default()).await.unwrap();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str()].into_iter().chain(LONG));
    let says = ["ConfigMap kube-system/wasm-ccm-components does not exist", "apply your overlay again"];
    await_event(client, MAP, "Warning", "ProviderNotShared", &says).await;
    put(client, bad("2")).await;
    await_version(&host, "2").await;
    for node in 0..4 {
        serves(client, &format!("n{node}"), "1").await;
    }
    await_event(client, MAP, "Warning", "ProviderRolledBack", &["failed its probation"]).await;
    let told = host.log().into_iter().filter(|line| says.iter().all(|part| line.contains(part))).count();
    assert_eq!(told, 1, "{}", host.log_text());
    // The rest follows when it is there.
    manifest::apply_base(client).await.unwrap();
    let entry = await_known(client, "told", |entry| !entry["refused"][0].is_null()).await;
    assert_eq!(entry["refused"][0]["digest"], status(&host).await["refused"]["digest"], "{entry:#}");
    host.end().await;
}

/// A standby makes no calls, and once kept two components in memory until it led.
#[tokio::test]
async fn what_the_leader_proves_is_proven_at_the_standby() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let flags = || [source.as_str()].into_iter().chain(QUICK).chain(ELECTED);
    let leader = stage.start(flags());
    leader.await_log(LIMIT, &["this process leads"]).await.unwrap();
    let standby = stage.start(flags());
    standby.ready().await;
    put(client, version("2")).await;
    for host in [&leader, &standby] {
        await_status(host, "on probation", |status| {
            status["serving"]["version"] == "2" && status["phase"] == "probation"
        })
        .await;
    }
    serves(client, "n1", "2").await;
    for host in [&leader, &standby] {
        await_status(host, "proven", |status| status["serving"]["version"] == "2" && status["phase"] == "proven").await;
    }
    assert_eq!(known(client).await["proven"], status(&leader).await["serving"]["digest"]);
    assert_eq!(standby.lookups().await, 0.0);
    standby.end().await;
    leader.end().await;
}

#[tokio::test]
async fn what_another_replica_refuses_goes_where_it_is_on_probation_and_stays_with_one_warning_where_it_is_proven() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let source = format!("--provider={SOURCE}");
    let host = stage.start([source.as_str()].into_iter().chain(LONG));
    host.ready().await;
    // The last that it writes by itself: whoever leads says so.
    await_known(client, "named", |entry| !entry["proven"].is_null() && !entry["naming"].is_null()).await;
    let proven = status(&host).await["serving"]["digest"].as_str().unwrap().to_owned();
    refuse_elsewhere(client, &proven).await;
    let says = "another replica refused it: it lied";
    await_event(client, MAP, "Warning", "ProviderRefusedElsewhere", &["cloudlycke 1 (sha256:", says]).await;

    // It is the last good one still. Each of these writes says once more that it was refused.
    for number in ["2", "3"] {
        put(client, version(number)).await;
        let candidate = await_version(&host, number).await;
        assert_eq!(candidate["phase"], "probation", "{candidate:#}");
        let digest = candidate["serving"]["digest"].as_str().unwrap();
        refuse_elsewhere(client, digest).await;
        let back = await_back(&host).await;
        assert_eq!(back["phase"], "proven", "{back:#}");
        let failed = format!("cloudlycke {number} (sha256:");
        let says = [failed.as_str(), "failed its probation", "cloudlycke 1 (sha256:", "serves again", says];
        await_event(client, MAP, "Warning", "ProviderRolledBack", &says).await;
        serves(client, &format!("n{number}"), "1").await;
    }
    host.events_written().await;
    let told = told(client, MAP).await;
    let told: Vec<_> = told.iter().filter(|line| line.starts_with("Warning ProviderRefusedElsewhere")).collect();
    assert!(told.len() == 1 && !told[0].ends_with(" times)"), "{told:?}");
    host.end().await;
}
