//! Where secrets come from, their rotation without a restart, and that nobody sees them.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::until;
use ccm_e2e::{alerts, manifest};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use serde_json::json;

use crate::cloud::{Cloud, ask, data};
use crate::look::{await_event, get, is_tainted};
use crate::stage::{Actor, LIMIT, Stage};

const ROLE: &str = "optional/credential-secret.yaml";
const FLAG: &str = "--credential=token=secret:kube-system/cloud/token";
/// What the host is told of its pod: Events about its credentials are there.
const POD: &str = "cloud-controller-manager-0";
const UNREADABLE: &str = "ccm_credential_unreadable";
const LABELS: [&str; 2] = ["provider=\"scripted\"", "credential=\"token\""];

fn secrets(stage: &Stage) -> Api<Secret> {
    Api::namespaced(stage.client().clone(), "kube-system")
}

/// Writes the Secret that [`ROLE`] is about.
async fn put(stage: &Stage, key: &str, value: &str) {
    let secret = Secret {
        metadata: ObjectMeta { name: Some("cloud".to_owned()), ..ObjectMeta::default() },
        string_data: Some(data(key, value)),
        ..Secret::default()
    };
    secrets(stage).patch("cloud", &PatchParams::apply("ccm-e2e"), &Patch::Apply(&secret)).await.unwrap();
}

/// As the host sees them.
async fn secrets_of_host(stage: &Stage) -> Api<Secret> {
    Api::namespaced(stage.cluster.client_of(stage.user()).await.unwrap(), "kube-system")
}

/// Waits until the host may read the Secret: the API server reads the rules a moment later.
async fn await_readable(secrets: &Api<Secret>) {
    let is_allowed = async || Ok(secrets.get("cloud").await.is_ok());
    until(LIMIT, is_allowed).await.unwrap_or_else(|error| panic!("the role does not help: {error:#}"));
}

/// Asks with one Node after the other until a request carries this token.
async fn asks_with(stage: &Stage, host: &Actor, cloud: &Cloud, round: &str, token: &str) {
    let wanted = format!("Bearer {token}");
    let mut number = 0;
    let asked = async || {
        number += 1;
        Ok(cloud.asked_for(stage, host, &format!("{round}{number}")).await == wanted)
    };
    until(LIMIT, asked).await.unwrap_or_else(|error| panic!("nobody asks with {token:?}: {error:#}"));
}

/// The metric is there before anything is lost, and nobody says that something is.
async fn assert_readable(host: &Actor) {
    let is_zero = async || Ok(host.metric_with(UNREADABLE, LABELS[1]).await.is_ok_and(|value| value == 0.0));
    until(LIMIT, is_zero).await.unwrap_or_else(|error| panic!("the metric is not 0: {error:#}"));
    let page = host.await_page("/readyz", 200, LIMIT).await.unwrap();
    assert!(!page.contains("unreadable"), "{page}");
}

/// Neither in the log nor in what the provider was told.
fn assert_hidden(host: &Actor, tokens: &[&str]) {
    let log = host.log_text();
    for token in tokens {
        assert!(!log.contains(token), "{token} is in the log:\n{log}");
    }
}

fn strs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_secret_that_is_rotated_counts_with_the_next_request_and_no_restart() {
    let stage = Stage::new().await;
    manifest::apply(stage.client(), ROLE).await.unwrap();
    // As `kubectl create secret --from-file` leaves it.
    put(&stage, "token", "first-token\n").await;
    await_readable(&secrets_of_host(&stage).await).await;
    let cloud = Cloud::start().await;
    let pod = [("POD_NAMESPACE", "kube-system"), ("POD_NAME", POD)];
    let host = stage.scripted(&pod, &[&strs(&cloud.flags())[..], &[FLAG, "--trace-http", "--v=4"]].concat());
    host.ready().await;
    assert_eq!(cloud.asked_for(&stage, &host, "a").await, "Bearer first-token");
    assert_readable(&host).await;
    let before = alerts::scrape(&host).await.unwrap();
    put(&stage, "token", "second-token").await;
    asks_with(&stage, &host, &cloud, "b", "second-token").await;
    host.await_log(LIMIT, &["credential changed", "token", "secret:kube-system/cloud/token"]).await.unwrap();
    let told = host.await_log(LIMIT, &["answer: ", "(credential token)"]).await.unwrap();
    assert!(told.contains("Bearer (credential token)"), "what the cloud sends back is cleaned: {told}");

    // Somebody deletes it by mistake: what was good may still be.
    secrets(&stage).delete("cloud", &DeleteParams::default()).await.unwrap();
    let mut number = 0;
    while !host.log_text().contains("credential cannot be read") {
        assert_eq!(cloud.asked_for(&stage, &host, &format!("c{number}")).await, "Bearer second-token");
        number += 1;
        assert!(number < 200, "nobody complains that the Secret is gone");
    }
    // A restart would be an outage, and nothing else shows it.
    let why = ["secret:kube-system/cloud/token", "there is no such Secret; create it"];
    host.await_count(UNREADABLE, &LABELS, LIMIT, |count| count == 1.0).await.unwrap();
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMCredentialUnreadable", &[[&before], [&after]]).await.unwrap();
    let told = await_event(stage.client(), POD, "Warning", "ProviderCredentialUnreadable", &why).await;
    let page = host.await_page("/readyz", 200, LIMIT).await.unwrap();
    let line =
        page.lines().find(|line| line.contains("credential unreadable since")).unwrap_or_else(|| panic!("{page}"));
    assert!(why.iter().all(|part| line.contains(part)), "{line}");
    let status = host.page("/").await.unwrap().1;
    assert!(status.contains("1 credential that cannot be read"), "{status}");
    put(&stage, "token", "third-token").await;
    asks_with(&stage, &host, &cloud, "d", "third-token").await;
    host.await_count(UNREADABLE, &LABELS, LIMIT, |count| count == 0.0).await.unwrap();
    assert_readable(&host).await;
    host.events_written().await;
    let events = Api::<Event>::all(stage.client().clone()).list(&ListParams::default()).await.unwrap().items;
    let lost = events.iter().filter(|event| event.reason.as_deref() == Some("ProviderCredentialUnreadable"));
    assert_eq!(lost.map(|event| event.series.as_ref().map_or(1, |series| series.count)).sum::<i32>(), 1, "{events:?}");
    for token in ["first-token", "second-token", "third-token"] {
        assert!(![&told, &page, &status].iter().any(|text| text.contains(token)), "{token} is in {told}{page}{status}");
    }
    assert_hidden(&host, &["first-token", "second-token", "third-token"]);
    host.end().await;
}

#[tokio::test]
async fn a_secret_that_may_not_be_read_or_is_not_there_yet_keeps_the_process_waiting_until_it_is() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let flags = cloud.flags();
    let host = stage.scripted(&[], &[&strs(&flags)[..], &[FLAG]].concat());
    let not_taken = "provider not taken";
    let forbidden = ["secret:kube-system/cloud/token", "forbidden", "right to get, list and watch", ROLE];
    host.await_log(LIMIT, &[&[not_taken], &forbidden[..]].concat()).await.unwrap();
    let page = host.await_page("/readyz", 503, LIMIT).await.unwrap();
    assert!(forbidden.iter().all(|part| page.contains(part)), "{page}");

    manifest::apply(stage.client(), ROLE).await.unwrap();
    let create = "kubectl create secret generic cloud --namespace kube-system --from-file=token=FILE";
    host.await_log(LIMIT, &[not_taken, "the Secret does not exist", create]).await.unwrap();
    assert!(host.page("/readyz").await.unwrap().1.contains(create));
    put(&stage, "token", "late-token").await;
    host.ready().await;
    assert_eq!(cloud.asked_for(&stage, &host, "a").await, "Bearer late-token");

    let other = "--credential=token=secret:kube-system/cloud/tokn";
    let lost = stage.scripted(&[], &[&strs(&flags)[..], &[other]].concat());
    lost.await_log(LIMIT, &[not_taken, "no such key, it has [", "token", "add the key"]).await.unwrap();
    lost.stop().await;
    // Permissions were lacking on purpose.
    host.stop().await;
}

/// The base reads no Secret at all, and the optional role exactly one.
#[tokio::test]
async fn the_host_may_read_the_secret_of_the_optional_role_and_no_other() {
    let stage = Stage::new().await;
    put(&stage, "token", "some-token").await;
    let api = secrets_of_host(&stage).await;
    assert!(api.get("cloud").await.is_err(), "the base must not");
    manifest::apply(stage.client(), ROLE).await.unwrap();
    await_readable(&api).await;
    let one = ListParams::default().fields("metadata.name=cloud");
    assert_eq!(api.list(&one).await.unwrap().items.len(), 1);
    assert!(api.list(&ListParams::default()).await.is_err(), "all of them");
    assert!(api.get("other").await.is_err(), "another one");
    assert!(api.delete("cloud", &DeleteParams::default()).await.is_err(), "changing it");
}

#[tokio::test]
async fn credentials_come_from_files_which_may_change_and_from_variables() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let path = stage.folder().join("token");
    let from_file = format!("--credential=token=file:{}", path.display());
    let flags = cloud.flags();
    let mut host = stage.scripted(&[], &[&strs(&flags)[..], &[&from_file]].concat());
    // A mounted Secret may come late as well.
    host.await_log(LIMIT, &["provider not taken", "token", path.to_str().unwrap(), "No such file"]).await.unwrap();
    stage.file("token", "short");
    host.await_log(LIMIT, &["provider not taken", "less than 8 bytes", "min-credential-bytes"]).await.unwrap();
    stage.file("token", "token-of-the-file\n");
    host.ready().await;
    assert_eq!(cloud.asked_for(&stage, &host, "a").await, "Bearer token-of-the-file");
    stage.file("token", "newer-of-the-file\n");
    assert_eq!(cloud.asked_for(&stage, &host, "b").await, "Bearer newer-of-the-file");
    assert_hidden(&host, &["token-of-the-file", "newer-of-the-file"]);
    host.end().await;

    let environment = [("MY_TOKEN", "token-of-the-variable")];
    let from_variable = [&strs(&flags)[..], &["--credential=token=env:MY_TOKEN"]].concat();
    host = stage.scripted(&environment, &from_variable);
    assert_eq!(cloud.asked_for(&stage, &host, "c").await, "Bearer token-of-the-variable");
    assert_hidden(&host, &["token-of-the-variable"]);
    host.end().await;
}

/// Everything in one INI file, as providers of old have it.
#[tokio::test]
async fn the_cloud_config_names_endpoint_and_credential_and_may_change() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let config = |token: &str| {
        let text = format!("[Global]\napi-url = \"{}\"\ntoken = {token} ; not for the provider\n", cloud.url());
        stage.file("cloud.conf", text)
    };
    let flag = format!("--cloud-config={}", config("config-token-1").display());
    let host = stage.scripted(&[], &[&flag, "--allow-http", "--allow-loopback"]);
    assert_eq!(cloud.asked_for(&stage, &host, "a").await, "Bearer config-token-1");
    ask(&stage, &host, "reads", [json!({ "file": "cloud-config" }), json!({ "log": "the file" })]).await;
    let file = host.await_log(LIMIT, &["the file: ", "api-url"]).await.unwrap();
    assert!(file.contains("(credential token)"), "{file}");
    config("config-token-2");
    assert_eq!(cloud.asked_for(&stage, &host, "b").await, "Bearer config-token-2");
    assert_hidden(&host, &["config-token-1", "config-token-2"]);
    host.end().await;

    let flags: [(&[&str], &str); 2] = [
        (&[], "needs --allow-http"),
        (&["--allow-http"], "127.0.0.1 is a loopback address, which --allow-loopback would grant"),
    ];
    NodeFixture::new("waits").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    for (grants, says) in flags {
        let host = stage.scripted(&[], &[&[flag.as_str()], grants].concat());
        host.await_log(LIMIT, &["provider not taken", "endpoints.api", "api-url", "line 2", says]).await.unwrap();
        let page = host.await_page("/readyz", 503, LIMIT).await.unwrap();
        assert!(page.contains(says), "{page}");
        host.end().await;
    }
    assert!(is_tainted(&get(stage.client(), "waits").await), "nothing is written meanwhile");
}
