//! Credentials that change while the provider runs: the next request has the new value.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use ccm_cloud::{ConfigFormat, Finding, Instances as _, Need, Node};
use ccm_egress::config::{CredentialSource, Object};
use ccm_sandbox::Provider;
use futures::FutureExt as _;
use hyper::Response;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::rig::{map, node};
use crate::server::{Server, full};
use crate::setup::{SCRIPTED, Setup, secret};

/// A provider that sends the credential `token`, and what the cloud gets of it.
struct Sender {
    provider: Provider,
    seen: Arc<Mutex<Vec<String>>>,
    _server: Server,
}

impl Sender {
    async fn start(source: CredentialSource) -> Self {
        let seen = Arc::new(Mutex::new(vec![]));
        let seeing = Arc::clone(&seen);
        let server = Server::start(move |request| {
            let value = request.headers().get("authorization").unwrap().to_str().unwrap().to_owned();
            seeing.lock().push(value.clone());
            let answer = Response::builder().header("x-echo", value).body(full("{}")).unwrap();
            async move { Ok(answer) }.boxed()
        })
        .await;
        let setup = Setup::default().endpoint("api", server.url("")).credential("token", source);
        Self { provider: setup.start(SCRIPTED).await, seen, _server: server }
    }

    /// What the cloud gets with the next request. What it sends back is hidden from the guest, old or new.
    async fn sends(&self) -> String {
        let script = r#"[{"send": {"path": "/", "headers": [["authorization", [{"secret": "token"}]]]}}]"#;
        let node = Node { annotations: map(&[("scripted.example/script", script)]), ..node("n") };
        let findings = self.provider.find(vec![node], Need::Metadata).await.unwrap();
        let [Finding::Found(instance)] = findings.as_slice() else { panic!("{findings:?}") };
        let answer: serde_json::Value = serde_json::from_str(&instance.labels["0"]).unwrap();
        assert_eq!(answer["headers"]["x-echo"], "(credential token)");
        self.seen.lock().pop().unwrap()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_file_counts_however_it_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("token"), "value-one\n");
    let sender = Sender::start(CredentialSource::file(at("token"))).await;
    assert_eq!(sender.sends().await, "value-one");
    assert_eq!(sender.sends().await, "value-one");
    write(&at("token"), "value-two\n");
    assert_eq!(sender.sends().await, "value-two", "written over, at once and of the same length");
    write(&at("new"), "value-three");
    std::fs::rename(at("new"), at("token")).unwrap();
    assert_eq!(sender.sends().await, "value-three", "renamed");
    std::fs::remove_file(at("token")).unwrap();
    assert_eq!(sender.sends().await, "value-three", "between two steps of whoever changes it");
}

/// As the kubelet does.
#[tokio::test]
async fn the_switch_of_a_mounted_secret_counts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, value) in [("..1", "value-one"), ("..2", "value-two")] {
        std::fs::create_dir(at(version)).unwrap();
        write(&at(version).join("token"), value);
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/token", at("token")).unwrap();
    let sender = Sender::start(CredentialSource::file(at("token"))).await;
    assert_eq!(sender.sends().await, "value-one");
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    std::fs::remove_dir_all(at("..1")).unwrap();
    assert_eq!(sender.sends().await, "value-two");
}

#[tokio::test]
async fn a_key_of_the_cloud_config_counts_and_a_file_that_cannot_be_read_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.conf");
    let config = |value: &str| format!("[Global]\nauth-url = https://cloud.example\ntoken = \"{value}\"\n");
    write(&path, &config("value-one"));
    let key = "Global.token".to_owned();
    let sender = Sender::start(CredentialSource::config_key(path.clone(), ConfigFormat::Ini, &key)).await;
    assert_eq!(sender.sends().await, "value-one");
    write(&path, &config("value-two"));
    assert_eq!(sender.sends().await, "value-two");
    for broken in ["[Global\n", "", "[Global]\nauth-url = https://cloud.example\n"] {
        write(&path, broken);
        assert_eq!(sender.sends().await, "value-two", "{broken:?}");
    }
    write(&path, &config("value-three"));
    assert_eq!(sender.sends().await, "value-three");
}

#[tokio::test]
async fn a_watched_secret_counts() {
    let holds = |value: &str| Object::Is(Arc::new([("token".to_owned(), secret(value))].into()));
    let (newest, object) = watch::channel(holds("value-one"));
    let (name, key) = ("secret:kube-system/cloud/token".to_owned(), "token".to_owned());
    let sender = Sender::start(CredentialSource::Watched { name, key, object, keeper: Arc::new(()) }).await;
    assert_eq!(sender.sends().await, "value-one");
    newest.send_replace(holds("value-two"));
    assert_eq!(sender.sends().await, "value-two");
    let Object::Is(last) = holds("value-two") else { unreachable!() };
    for lost in [Object::Absent, Object::Unseen { last: Some(last), why: "no right".into() }] {
        newest.send_replace(lost);
        assert_eq!(sender.sends().await, "value-two", "it may be back");
    }
    newest.send_replace(holds("value-three"));
    assert_eq!(sender.sends().await, "value-three");
}
