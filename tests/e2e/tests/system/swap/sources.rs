//! Where a new component is seen.

use std::os::unix::fs::symlink;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;

use super::{MAP, NAMESPACE, QUICK, SOURCE, await_status, await_version, file, put, replace, serves, status, version};
use crate::look::await_event;
use crate::stage::{LIMIT, Stage};

#[tokio::test]
async fn an_update_of_a_config_map_is_taken_through_the_watch_and_its_deletion_keeps_what_runs() {
    let stage = Stage::new().await;
    let client = stage.client();
    put(client, version("1")).await;
    let host = stage.start([&format!("--provider={SOURCE}")].into_iter().map(String::as_str).chain(QUICK));
    host.ready().await;
    await_event(client, MAP, "Normal", "ProviderLoaded", &["cloudlycke 1 (sha256:"]).await;
    serves(client, "n1", "1").await;

    put(client, version("2")).await;
    await_version(&host, "2").await;
    await_event(client, MAP, "Normal", "ProviderLoaded", &["cloudlycke 2 (sha256:", "in place of cloudlycke 1"]).await;
    serves(client, "n2", "2").await;

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    drop(maps.delete(MAP, &DeleteParams::default()).await.unwrap());
    let says = ["does not exist", "cloudlycke 2", "continues to serve"];
    await_event(client, MAP, "Warning", "ProviderRejected", &says).await;
    let gone = await_status(&host, "gone", |status| status["refused"]["step"] == "source").await;
    assert_eq!(gone["serving"]["version"], "2");
    assert_eq!(host.page("/readyz").await.unwrap().0, 200, "what runs is ready");
    serves(client, "n3", "2").await;

    put(client, version("2")).await;
    await_status(&host, "back", |status| status["refused"].is_null()).await;
    put(client, version("3")).await;
    await_version(&host, "3").await;
    assert_eq!(status(&host).await["generation"], 3, "what came back as it was is no exchange");
    host.end().await;
}

/// As kubelet does it: a new folder, then a link to it in the place of the old link.
#[tokio::test]
async fn the_switch_of_a_mounted_config_map_is_seen_through_its_links() {
    let stage = Stage::new().await;
    let client = stage.client();
    let mount = stage.folder().join("mount");
    let publish = |number: &str| {
        let data = format!("..2026_{number}");
        std::fs::create_dir_all(mount.join(&data)).unwrap();
        std::fs::write(mount.join(&data).join("p.wasm"), version(number)).unwrap();
        symlink(&data, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    publish("1");
    symlink("..data/p.wasm", mount.join("p.wasm")).unwrap();
    let flag = format!("--provider={}", mount.display());
    let host = stage.start([flag.as_str()].into_iter().chain(QUICK));
    host.ready().await;
    serves(client, "n1", "1").await;
    publish("2");
    std::fs::remove_dir_all(mount.join("..2026_1")).unwrap();
    await_version(&host, "2").await;
    serves(client, "n2", "2").await;
    host.end().await;
}

#[tokio::test]
async fn a_file_is_taken_however_it_is_replaced_and_never_by_half() {
    let stage = Stage::new().await;
    let (path, flag) = file(&stage, &version("1"));
    let flags = ["--provider-poll=50ms", "--provider-settle=6s", "--provider-probation=0s"];
    let host = stage.start([flag.as_str()].into_iter().chain(flags));
    host.ready().await;
    // In place, with the same length.
    std::fs::write(&path, version("2")).unwrap();
    await_version(&host, "2").await;
    replace(&path, &version("3"));
    await_version(&host, "3").await;
    std::fs::remove_file(&path).unwrap();
    await_status(&host, "gone", |status| status["refused"]["step"] == "source").await;
    std::fs::write(&path, version("4")).unwrap();
    await_version(&host, "4").await;

    // A slow copy: each part comes sooner than the source has settled, and the last one later than it settles without them.
    let whole = version("5");
    for end in (1..=16).map(|part| whole.len() * part / 16) {
        std::fs::write(&path, &whole[..end]).unwrap();
        tokio::time::sleep(super::SECOND / 2).await;
    }
    await_version(&host, "5").await;
    let rejected = host.count("ccm_provider_loads_total", &["result=\"rejected\"", "step=\"parse\""]).await.unwrap();
    assert_eq!(rejected, 0.0, "half a file was looked at");
    // Counted a moment after the exchange.
    let taken = host.await_count("ccm_provider_loads_total", &["result=\"taken\""], LIMIT, |taken| taken >= 5.0).await;
    assert_eq!(taken.unwrap(), 5.0);
    host.end().await;
}
