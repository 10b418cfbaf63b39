//! The image, unpacked by a tool that did not make it, as a container runtime starts it for the applied Deployment.

use std::fs::File;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ccm_cluster::{NodeFixture, Settings, poll_until};
use ccm_e2e::host::Port;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::overlay::{Manifests, Pod, pod};
use super::{CLOUDLYCKE, apart, apply};
use crate::look::await_untainted;
use crate::mistakes::ended;
use crate::stage::{LIMIT, Stage};

/// The folder that `umoci unpack` made.
const BUNDLE: &str = "WASM_CCM_BUNDLE";
/// The user of the image.
const USER: u32 = 65_532;
/// Where a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A container of runc; it ends when it is dropped.
struct Container {
    id: String,
    state: PathBuf,
    running: Child,
    log: PathBuf,
}

impl Container {
    /// Starts what `config` describes, in `folder`.
    fn start(folder: &Path, config: &Value) -> Self {
        let (state, log) = (folder.join("runc"), folder.join("container.log"));
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let id = format!("wasm-ccm-{}", std::process::id());
        let said = File::create(&log).unwrap();
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(&state).args(["run", "--bundle"]).arg(folder).arg(&id);
        runc.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let running = runc.spawn().unwrap_or_else(|error| panic!("runc: {error}; Debian: apt-get install runc"));
        Self { id, state, running, log }
    }

    fn runc(&self, arguments: &[&str]) -> Vec<u8> {
        let mut runc = std::process::Command::new("runc");
        ended(runc.arg("--root").arg(&self.state).args(arguments).arg(&self.id)).stdout
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// A file about the first process.
    fn proc(&self, name: &str) -> String {
        let state: Value = serde_json::from_slice(&self.runc(&["state"])).unwrap();
        std::fs::read_to_string(format!("/proc/{}/{name}", state["pid"])).unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.runc(&["delete", "--force"]);
    }
}

/// What the tool made of the image, with what a kubelet adds for the pod.
fn config(stage: &Stage, bundle: &Path, pod: Pod, more: &[String]) -> Value {
    let text = std::fs::read_to_string(bundle.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let process = &mut config["process"];
    assert_eq!(process["user"], json!({ "uid": USER, "gid": USER }));
    assert_eq!(process["args"], json!(["/usr/local/bin/wasm-ccm"]));
    process["terminal"] = json!(false);
    process["noNewPrivileges"] = json!(true);
    process["capabilities"] = json!({});
    process["args"].as_array_mut().unwrap().extend(pod.arguments.iter().chain(more).map(|argument| json!(argument)));
    let (host, port) = stage
        .cluster
        .url()
        .trim_start_matches("https://")
        .rsplit_once(':')
        .map_or_else(|| panic!("{}", stage.cluster.url()), |(host, port)| (host.to_owned(), port.to_owned()));
    let server = [("KUBERNETES_SERVICE_HOST".to_owned(), host), ("KUBERNETES_SERVICE_PORT".to_owned(), port)];
    let variables = pod.environment.into_iter().chain(server).map(|(name, value)| json!(format!("{name}={value}")));
    process["env"].as_array_mut().unwrap().extend(variables);

    config["root"] = json!({ "path": bundle.join("rootfs").canonicalize().unwrap(), "readonly": true });
    // That of the node, as the Deployment asks for.
    config["linux"]["namespaces"].as_array_mut().unwrap().retain(|namespace| namespace["type"] != "network");
    let mounts = config["mounts"].as_array_mut().unwrap();
    mounts.retain(|mount| mount["type"] != "cgroup");
    let account = stage.file("account/token", &pod.token).parent().unwrap().to_owned();
    std::fs::copy(stage.cluster.folder().join("ca.crt"), account.join("ca.crt")).unwrap();
    stage.file("account/namespace", "kube-system");
    chown(&pod.mounts["/state"], Some(USER), Some(USER)).unwrap();
    let own = pod.mounts.into_iter().chain([(ACCOUNT.to_owned(), account.display().to_string())]);
    mounts.extend(own.map(|(path, here)| {
        let mode = if path == "/state" { "rw" } else { "ro" };
        json!({ "destination": path, "type": "bind", "source": here, "options": ["bind", mode] })
    }));
    config
}

#[tokio::test]
#[ignore = "needs root, runc, and an image that `./just image-test` makes and names"]
async fn the_image_runs_as_non_root_on_a_read_only_root_and_initialises_nodes() {
    let bundle = PathBuf::from(std::env::var_os(BUNDLE).unwrap_or_else(|| panic!("{BUNDLE} names no folder")));
    let stage = Stage::bare(apart(Settings::default())).await;
    apply(&stage, &Manifests::new(), CLOUDLYCKE).await;
    let port = Port::take().unwrap();
    let pod = pod(&stage).await;
    let config = config(&stage, &bundle, pod, &[format!("--secure-port={}", port.number())]);
    let mut container = Container::start(stage.folder(), &config);
    let started = poll_until("the leader", LIMIT, || container.log().contains("this process leads")).await;
    assert!(started.is_ok(), "it does not start:\n{}", container.log());

    NodeFixture::new("n1").internal_ip("10.0.0.1").register(stage.client()).await.unwrap();
    await_untainted(stage.client(), "n1").await;
    let status = container.proc("status");
    for line in [&format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}"), "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line} is not in\n{status}");
    }
    let mounts = container.proc("mountinfo");
    let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    assert!(root.split(' ').nth(5).unwrap().split(',').any(|option| option == "ro"), "{root}");

    container.runc(&["kill"]);
    let ended = tokio::time::timeout(LIMIT + Duration::from_secs(1), container.running.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}: {}", container.log());
    assert!(!container.log().to_lowercase().contains("forbidden"), "{}", container.log());
}
