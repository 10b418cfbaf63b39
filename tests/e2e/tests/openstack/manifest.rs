//! What an operator has who applies our overlay.

use ccm_cluster::{NodeFixture, Settings};
use ccm_e2e::manifest;
use ccm_e2e::openstack_lab::{Of, until};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::look::await_untainted;
use crate::overlay::{Manifests, start};
use crate::rig::{CONFIG, Rig};
use crate::service_look::{await_served, ips, serve};
use crate::stage::{LIMIT, Stage};

/// The Secret and the `cloud.conf` of the Go manager are all that is needed.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn the_overlay_takes_the_secret_of_the_go_manager_with_either_login() {
    // The account of the host is fenced by policies: no other test gets this cluster afterwards.
    let apart = Settings { api_server_flags: vec!["--event-ttl=59m".to_owned()], ..Settings::default() };
    let rig = Rig::on(Stage::bare(apart).await).await;
    let client = rig.client();
    let [one, two] = rig.tenant.boot(["n1", "n2"]).await.unwrap();
    rig.configure(&rig.tenant.by_credential(), &rig.sections());
    let text = std::fs::read_to_string(rig.stage.folder().join("cloud.conf")).unwrap();
    let secret = json!({ "metadata": { "name": CONFIG }, "stringData": { "cloud.conf": text } });
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let objects = Manifests::new().build("overlays/openstack").await;
    manifest::apply_all(client, &objects).await.unwrap();
    rig.stage.allowed().await;

    // The lab is on this machine, and speaks no TLS.
    let host = start(&rig.stage, &["--allow-http", "--allow-loopback"]).await;
    NodeFixture::new("n1").internal_ip(&one.address).register(client).await.unwrap();
    let node = await_untainted(client, "n1").await;
    assert_eq!(node.spec.unwrap().provider_id, Some(one.provider_id()));
    serve(client, "web", json!({})).await;
    let service = await_served(client, "web").await;
    let floating = rig.tenant.list("network", "/v2.0/floatingips", "floatingips").await.unwrap();
    assert_eq!(ips(&service), [floating[0]["floating_ip_address"].as_str().unwrap()]);

    // The kubelet writes another version of the Secret.
    let mounted = rig.stage.folder().join("pod/cloud-config/cloud.conf");
    let written = rig.configure(&rig.tenant.by_password(&rig.tenant.password), &rig.sections());
    std::fs::copy(written, mounted).unwrap();
    let logs_in_with_it = async || {
        let logins = rig.proxy.exchanges().into_iter().filter(|exchange| Of::LOGINS.is(&exchange.operation));
        Ok(logins.into_iter().any(|login| login.request.contains(&rig.tenant.password) && login.status == Some(201)))
    };
    until(LIMIT, logs_in_with_it).await.unwrap();
    NodeFixture::new("n2").internal_ip(&two.address).register(client).await.unwrap();
    await_untainted(client, "n2").await;
    rig.end_unsettled(host, "it has the flags of its pod, and files that only that has").await;
}
