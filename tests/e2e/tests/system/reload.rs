//! A configuration that changes while the host works: it takes effect without a restart, and a bad one never does.

use std::os::unix::fs::symlink;
use std::path::Path;

use ccm_cluster::NodeFixture;
use ccm_e2e::alerts;
use ccm_e2e::host::until;
use ccm_e2e::manifest::put_config_map;
use serde_json::{Value, json};

use crate::cloud::{Cloud, SCRIPT, ask, send};
use crate::look::{await_all_untainted, await_event, once_each, synced};
use crate::stage::{Actor, LIMIT, Stage, scripted};

const NAMESPACE: &str = "kube-system";
const MAP: &str = "provider";
const QUICK: [&str; 2] = ["--provider-poll=100ms", "--provider-settle=50ms"];

/// The cloud-config of a project, with its token.
fn config(cloud: &str, project: &str) -> String {
    format!("[Global]\napi-url = \"{cloud}\"\nmood = {project}\ntoken = token-of-{project}\n")
}

/// A host whose component is in the ConfigMap, where its Events go, with these flags.
async fn start(stage: &Stage, flags: &[&str]) -> Actor {
    let bytes = std::fs::read(scripted()).unwrap();
    put_config_map(stage.client(), NAMESPACE, MAP, [("p.wasm".to_owned(), bytes)]).await.unwrap();
    let source = format!("--provider=configmap:{NAMESPACE}/{MAP}");
    let fixed = ["--cloud-provider=scripted", "--node-status-update-frequency=1h", &source];
    let grants = ["--allow-http", "--allow-loopback"];
    let host = stage.start(fixed.iter().chain(&grants).chain(&QUICK).chain(flags).copied());
    host.ready().await;
    host
}

/// The project that a call is told of, and the token of the request that it sends.
async fn asked_as(stage: &Stage, host: &Actor, cloud: &Cloud, node: &str) -> (String, String) {
    let label = format!("project of {node}");
    let script = [json!({ "setting": "mood" }), json!({ "log": label }), send(&format!("/machines/{node}"))];
    ask(stage, host, node, script).await;
    let told = host.await_log(LIMIT, &[&label]).await.unwrap();
    let project = ["one", "two", "three"].into_iter().find(|project| told.contains(*project));
    let first = format!("GET /machines/{node} HTTP/1.1");
    let request = cloud.seen().into_iter().find(|request| request.starts_with(&first)).unwrap();
    let token = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap_or_default();
    (project.unwrap_or_else(|| panic!("{told}")).to_owned(), token.to_owned())
}

fn of(project: &str) -> (String, String) {
    (project.to_owned(), format!("token-of-{project}"))
}

async fn await_page(host: &Actor, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waited = until(LIMIT, async || {
        let (_, text) = host.page("/providerz?format=json").await?;
        let all: Value = serde_json::from_str(&text)?;
        last = all.as_object().and_then(|all| all.values().next().cloned()).unwrap_or_default();
        Ok(holds(&last))
    });
    if let Err(error) = waited.await {
        panic!("{what}: {error:#}; {last:#}; {}", host.log_text());
    }
    last
}

#[tokio::test]
async fn a_changed_cloud_config_takes_effect_without_a_restart_and_no_node_is_lost_or_initialised_twice() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let file = stage.file("cloud.conf", config(&cloud.url(), "one"));
    let host = start(&stage, &[&format!("--cloud-config={}", file.display())]).await;
    assert_eq!(asked_as(&stage, &host, &cloud, "a").await, of("one"));

    // Nodes register all the time meanwhile.
    let mut generation = 1;
    for (round, project) in ["two", "three", "one", "two"].into_iter().enumerate() {
        for number in 0..5 {
            let node = NodeFixture::new(format!("n{round}-{number}")).internal_ip("10.0.0.1");
            node.register(client).await.unwrap();
        }
        generation += 1;
        stage.file("cloud.conf", config(&cloud.url(), project));
        await_page(&host, project, |page| page["generation"] == generation).await;
    }
    let says = ["scripted", "serves with the changed configuration", "cloud.conf"];
    await_event(client, MAP, "Normal", "ProviderConfigured", &says).await;
    assert_eq!(asked_as(&stage, &host, &cloud, "b").await, of("two"));
    let nodes = await_all_untainted(client, 20).await;
    host.events_written().await;
    let mut told = synced(client).await;
    told.retain(|name, _| nodes.contains_key(name));
    assert_eq!(told, once_each(nodes.values()));
    let page = await_page(&host, "proven", |page| page["phase"] == "proven").await;
    assert!(page["refusedConfiguration"].is_null(), "{page:#}");
    assert_eq!(host.count("ccm_provider_configurations_total", &["result=\"taken\""]).await.unwrap(), 4.0);

    // Another token alone is no exchange.
    let text = config(&cloud.url(), "two").replace("token-of-two", "token-of-later");
    stage.file("cloud.conf", text);
    assert_eq!(asked_as(&stage, &host, &cloud, "c").await, ("two".to_owned(), "token-of-later".to_owned()));
    assert_eq!(await_page(&host, "a page", |page| !page.is_null()).await["generation"], generation);
    for token in ["token-of-one", "token-of-two", "token-of-three", "token-of-later"] {
        assert!(!host.log_text().contains(token), "{token} is in the log");
    }
    host.end().await;
}

#[tokio::test]
async fn a_configuration_that_cannot_be_is_refused_with_its_place_and_the_one_before_goes_on() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let file = stage.file("cloud.conf", config(&cloud.url(), "one"));
    let host = start(&stage, &[&format!("--cloud-config={}", file.display())]).await;
    let elsewhere = cloud.url().replace("127.0.0.1", "localhost");
    let good = config(&cloud.url(), "two");
    let cases = [
        (good.replace("mood = two", "mood two"), vec!["cloud.conf", "line 3"]),
        (good.replace("[Global]", "[Global"), vec!["cloud.conf", "line 1"]),
        (
            config(&elsewhere, "two"),
            vec!["endpoint api", "another host (localhost)", "--allow-host localhost", "restart"],
        ),
        (good.replace("token-of-two", "short"), vec!["token", "less than 8 bytes", "cloud.conf"]),
        (
            format!("{good}more-file = /etc/hostname\n"),
            vec!["/etc/hostname", "--allow-file \"/etc/hostname\" grants it"],
        ),
    ];
    let count = cases.len();
    let before = alerts::scrape(&host).await.unwrap();
    for (number, (text, says)) in cases.into_iter().enumerate() {
        stage.file("cloud.conf", text);
        let says =
            [&["the changed configuration", "step grants", "continues to serve with the old configuration"], &says[..]]
                .concat();
        await_event(client, MAP, "Warning", "ProviderConfigurationRejected", &says).await;
        let page = await_page(&host, "refused", |page| page["refusedConfiguration"]["step"] == "grants").await;
        assert_eq!((&page["generation"], &page["refused"]), (&json!(1), &Value::Null), "{page:#}");
        assert_eq!(asked_as(&stage, &host, &cloud, &format!("n{number}")).await, of("one"));
    }
    let rejected = ["result=\"rejected\"", "step=\"grants\""];
    let all = host.count("ccm_provider_configurations_total", &rejected).await.unwrap();
    assert_eq!(all, f64::from(u32::try_from(count).unwrap()), "each is told once");
    assert!(host.page("/providerz").await.unwrap().1.contains("  config      refused at grants, "));
    assert_eq!(host.page("/readyz").await.unwrap().0, 200, "what serves is ready");
    let after = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMConfigurationRefused", &[[&before], [&after]]).await.unwrap();

    stage.file("cloud.conf", config(&cloud.url(), "one"));
    await_page(&host, "mended", |page| page["refusedConfiguration"].is_null() && page["generation"] == 1).await;
    stage.file("cloud.conf", good);
    await_page(&host, "taken", |page| page["generation"] == 2).await;
    assert_eq!(asked_as(&stage, &host, &cloud, "last").await, of("two"));
    host.end().await;
}

/// Its machines look absent. The one before could not say that they are there, since its token was revoked.
#[tokio::test]
async fn a_wrong_project_is_refused_also_where_the_one_before_cannot_answer_any_more() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    let file = stage.file("cloud.conf", config(&cloud.url(), "one"));
    let host = start(&stage, &[&format!("--cloud-config={}", file.display())]).await;
    let node = NodeFixture::new("n1").internal_ip("10.0.0.1").annotation(SCRIPT, "HEAD /of/one/n1");
    node.register(client).await.unwrap();
    await_all_untainted(client, 1).await;

    cloud.revoke("token-of-one");
    stage.file("cloud.conf", config(&cloud.url(), "two"));
    let page = await_page(&host, "refused", |page| page["refusedConfiguration"]["step"] == "compare").await;
    assert_eq!(page["generation"], json!(1), "{page:#}");
    host.end().await;
}

/// As the kubelet does it: a new folder, then a link to it in the place of the old link.
fn publish(mount: &Path, number: usize, config: &str, token: &str) {
    let data = format!("..{number}");
    std::fs::create_dir_all(mount.join(&data)).unwrap();
    std::fs::write(mount.join(&data).join("cloud.conf"), config).unwrap();
    std::fs::write(mount.join(&data).join("token"), token).unwrap();
    symlink(&data, mount.join("..data_tmp")).unwrap();
    std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
}

/// The new secret went with the old ID until the process was started anew.
#[tokio::test]
async fn a_secret_in_a_file_and_its_id_in_the_cloud_config_never_go_out_as_a_mixed_pair() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let mount = stage.folder().join("mount");
    let publish_project = |number, project| {
        let config = format!("[Global]\napi-url = \"{}\"\nmood = {project}\n", cloud.url());
        publish(&mount, number, &config, &format!("token-of-{project}"));
    };
    publish_project(0, "one");
    for name in ["cloud.conf", "token"] {
        symlink(Path::new("..data").join(name), mount.join(name)).unwrap();
    }
    let config = format!("--cloud-config={}", mount.join("cloud.conf").display());
    let token = format!("--credential=token=file:{}", mount.join("token").display());
    let host = start(&stage, &[&config, &token]).await;
    assert_eq!(asked_as(&stage, &host, &cloud, "first").await, of("one"));
    for number in 1..=8 {
        let project = ["one", "two", "three"][number % 3];
        publish_project(number, project);
        let mut calls = 0;
        loop {
            calls += 1;
            let (told, token) = asked_as(&stage, &host, &cloud, &format!("n{number}-{calls}")).await;
            assert_eq!(token, format!("token-of-{told}"), "a mixed pair");
            if told == project {
                break;
            }
            assert!(calls < 200, "{project} is not in use: {}", host.log_text());
        }
    }

    // Half of it: the new secret is there, and the cloud-config is broken. Both stay.
    publish(&mount, 9, "[Global\n", "token-of-nobody");
    host.await_log(LIMIT, &["ProviderConfigurationRejected", "cloud.conf", "line 1"]).await.unwrap();
    assert_eq!(asked_as(&stage, &host, &cloud, "half").await, of("three"));
    host.await_log(LIMIT, &["changed credentials are not used yet", "cloud.conf"]).await.unwrap();
    host.end().await;
}
