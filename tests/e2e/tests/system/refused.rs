//! Providers that are not taken: the process stays up and says so, nothing is written, and a repair needs no restart.

use ccm_cluster::{NodeFixture, poll_until};
use ccm_e2e::alerts;
use futures::future::join_all;

use crate::bytes::{Bad, Place, bad_files, bad_in_cluster, cloudlycke, gzip};
use crate::look::{all_events, await_event, await_untainted, get, once_each, synced};
use crate::stage::{Actor, LIMIT, Stage};

const REFUSED: &str = "provider not taken";

/// Waits until a host has said why it has no provider, and looks at its pages.
async fn is_refused(host: &Actor, name: &str, source: &str, says: &[&str]) {
    let complaints = || host.log().into_iter().filter(|line| line.contains(REFUSED)).collect::<Vec<_>>();
    poll_until("the error", LIMIT, || !complaints().is_empty()).await.unwrap();
    for line in complaints() {
        let line = line.replace("\\\"", "\"");
        for part in [&["\"ERROR\"", source], says].concat() {
            assert!(line.contains(part), "{name}: {line} does not say {part:?}");
        }
    }
    let (status, page) = host.page("/readyz").await.unwrap();
    assert_eq!(status, 503, "{name}");
    for part in [&[source, "not ready"], says].concat() {
        assert!(page.contains(part), "{name}: {page} does not say {part:?}");
    }
    assert_eq!(host.page("/livez").await.unwrap().0, 200, "{name}");
}

/// A cloud-config that the provider refuses, and what is right in its place.
const WRONG_CONFIG: &str = "mode: adaptive\nmodes: adaptive\nzone: 'no label'\n";
const RIGHT_CONFIG: &str = "mode: adaptive\n";

#[tokio::test]
async fn a_provider_that_cannot_be_taken_is_named_with_the_way_out_and_read_again_until_it_is_right() {
    let stage = Stage::new().await;
    let client = stage.client();
    let before = NodeFixture::new("n0").internal_ip("10.0.0.1").register(client).await.unwrap();
    let folder = stage.folder().join("providers");
    let config = |text: &str| stage.file("config.yaml", text);
    let mut cases: Vec<Bad> = bad_files().into_iter().chain(bad_in_cluster()).collect();
    cases.push(Bad {
        name: "config",
        place: Place::File(cloudlycke()),
        flags: vec![format!("--cloud-config={}", config(WRONG_CONFIG).display())],
        says: vec!["its configuration is wrong", "modes", "zone", "no label"],
        repair: Place::File(cloudlycke()),
    });

    let mut hosts = vec![];
    for case in &cases {
        let source = case.place.put(&folder, Some(client), case.name).await;
        let flags = [format!("--provider={source}")].into_iter().chain(case.flags.clone());
        hosts.push((stage.start(flags), source));
    }
    let refused =
        cases.iter().zip(&hosts).map(|(case, (host, source))| is_refused(host, case.name, source, &case.says));
    join_all(refused).await;
    assert_eq!(get(client, "n0").await, before, "nothing is written");
    let told = all_events(client).await;
    assert!(told.iter().all(|event| event.reason.as_deref() == Some("ProviderRejected")), "nor is any Event: {told:?}");

    config(RIGHT_CONFIG);
    for case in &cases {
        case.repair.put(&folder, Some(client), case.name).await;
    }
    for (host, _) in hosts {
        host.ready().await;
        host.await_log(LIMIT, &["provider taken"]).await.unwrap();
        host.events_written().await;
        host.end().await;
    }
    await_untainted(client, "n0").await;
    assert_eq!(synced(client).await, once_each([&before]), "by whichever of them was first, once");
}

#[tokio::test]
async fn a_config_map_that_comes_late_and_is_wrong_at_first_needs_no_restart() {
    let stage = Stage::new().await;
    let client = stage.client();
    let before = NodeFixture::new("n0").internal_ip("10.0.0.1").register(client).await.unwrap();
    let source = "configmap:kube-system/late";
    let host = stage.start([format!("--provider={source}")]);
    is_refused(&host, "absent", source, &["does not exist"]).await;
    let without = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMProviderNotServing", &[[&without]]).await.unwrap();
    let put = async |place: Place| place.put(stage.folder(), Some(client), "late").await;
    put(Place::Map(vec![("p.wasm.gz", b"no gzip".to_vec())])).await;
    host.await_log(LIMIT, &[REFUSED, source, "not a WebAssembly component"]).await.unwrap();
    await_event(client, "late", "Warning", "ProviderRejected", &["step source", "nothing serves"]).await;
    await_event(client, "late", "Warning", "ProviderRejected", &["step parse", "nothing serves"]).await;
    assert_eq!(get(client, "n0").await, before);
    put(Place::Map(vec![("p.wasm.gz", gzip(&cloudlycke()))])).await;
    host.ready().await;
    await_untainted(client, "n0").await;
    await_event(client, "n0", "Normal", "Synced", &[]).await;
    host.end().await;
}

/// `manifests/base` lets the host read ConfigMaps of its own namespace only.
#[tokio::test]
async fn a_config_map_that_the_host_may_not_read_is_an_error_like_any_other() {
    let stage = Stage::new().await;
    let host = stage.start(["--provider=configmap:default/elsewhere"]);
    is_refused(&host, "elsewhere", "configmap:default/elsewhere", &["did not give the ConfigMap", "forbidden"]).await;
    host.stop().await;
}
