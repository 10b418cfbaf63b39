//! Hot swap: another component takes over while the host works, and a bad one never does.

mod compare;
mod gate;
mod load;
mod peers;
mod preview;
mod probation;
mod replay;
mod routes;
mod sleeper;
mod sources;
mod tools;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ccm_cluster::NodeFixture;
use ccm_e2e::manifest::put_config_map;
use ccm_e2e::successor::successor;
use kube::Client;
use serde_json::Value;

use crate::look::await_untainted;
use crate::stage::{Actor, LIMIT};

const NAMESPACE: &str = "kube-system";
const MAP: &str = "provider";
/// The ConfigMap, as a source.
const SOURCE: &str = "configmap:kube-system/provider";
/// So that nobody waits for what is meant for people and kubelets; proven with the first call.
const QUICK: [&str; 4] =
    ["--provider-poll=100ms", "--provider-settle=50ms", "--provider-probation=0s", "--provider-probation-calls=1"];

/// A good component of this version.
fn version(version: &str) -> Vec<u8> {
    component(&[("version", version)])
}

fn component(fields: &[(&str, &str)]) -> Vec<u8> {
    successor(fields).unwrap()
}

/// Puts a component into the ConfigMap.
async fn put(client: &Client, bytes: Vec<u8>) {
    put_config_map(client, NAMESPACE, MAP, [("p.wasm".to_owned(), bytes)]).await.unwrap();
}

/// Writes a file at once.
fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// What the page says of the only provider; nothing while the port is not open.
async fn status(host: &Actor) -> Value {
    let Ok((200, text)) = host.page("/providerz?format=json").await else { return Value::Null };
    let all: Value = serde_json::from_str(&text).unwrap();
    all.as_object().unwrap().values().next().cloned().unwrap_or_default()
}

/// Waits until the page says what it should; returns it.
async fn await_status(host: &Actor, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waited = ccm_e2e::host::until(LIMIT, async || {
        last = status(host).await;
        Ok(!last.is_null() && holds(&last))
    });
    if let Err(error) = waited.await {
        panic!("{what}: {error:#}; {last:#}; {}", host.log_text());
    }
    last
}

async fn await_version(host: &Actor, version: &str) -> Value {
    await_status(host, version, |status| status["serving"]["version"] == version).await
}

/// A Node that registers now is initialised by this version.
async fn serves(client: &Client, node: &str, version: &str) {
    NodeFixture::new(node).internal_ip("10.0.0.1").register(client).await.unwrap();
    let node = await_untainted(client, node).await;
    assert_eq!(node.metadata.labels.unwrap()["successor.io/version"], version);
}

/// A file for a component, which is there.
fn file(stage: &crate::stage::Stage, bytes: &[u8]) -> (PathBuf, String) {
    let path = stage.file("provider/p.wasm", bytes);
    let flag = format!("--provider={}", path.display());
    (path, flag)
}

const SECOND: Duration = Duration::from_secs(1);
