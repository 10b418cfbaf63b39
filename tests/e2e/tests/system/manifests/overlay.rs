//! What an operator and a kubelet do with our manifests: components into overlays, `kustomize build`, apply; then a pod's
//! volumes and environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccm_e2e::host::{Host, component};
use ccm_e2e::manifest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, KeyToPath, PodSpec, Secret, ServiceAccount, Volume};
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::stage::{Actor, Stage};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "wasm-ccm";
/// The pod that the host is told to be.
const POD: &str = "wasm-ccm-0";

/// For a tool that Go may have to compile.
pub(crate) const BUILD: Duration = Duration::from_secs(600);

/// A copy of `manifests/` in which every overlay has its component.
pub(crate) struct Manifests(TempDir);

impl Manifests {
    pub(crate) fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        copy(&manifest::folder(), this.0.path());
        // What somebody put there.
        let components = this.path("chart/components");
        std::fs::remove_dir_all(&components).unwrap();
        std::fs::create_dir(components).unwrap();
        for overlay in std::fs::read_dir(this.0.path().join("overlays")).unwrap() {
            let overlay = overlay.unwrap();
            // As `./just overlay NAME` does.
            let name = format!("{}.wasm", overlay.file_name().to_string_lossy());
            let packed = manifest::packed(&component(&format!("providers/{name}")).unwrap()).unwrap();
            std::fs::write(overlay.path().join(format!("{name}.gz")), packed).unwrap();
        }
        this
    }

    /// Every folder that kustomize can build. The chart has folders of its neighbours once more.
    pub(crate) fn folders(&self) -> Vec<String> {
        let mut found = vec![];
        let mut open = vec![self.0.path().to_owned()];
        while let Some(folder) = open.pop() {
            if folder.join("kustomization.yaml").is_file() {
                found.push(folder.strip_prefix(self.0.path()).unwrap().display().to_string());
            }
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|path| path.is_dir() && !path.ends_with("chart")));
        }
        found.sort();
        found
    }

    /// Whether a folder is a component of kustomize, which is of use in an overlay only.
    pub(crate) fn is_component(&self, folder: &str) -> bool {
        let text = std::fs::read_to_string(self.0.path().join(folder).join("kustomization.yaml")).unwrap();
        text.lines().any(|line| line == "kind: Component")
    }

    /// Writes a file of an overlay, or of the chart.
    pub(crate) fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Where a file or folder of the copy is.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// What `kustomize build` makes of a folder.
    pub(crate) async fn build(&self, folder: &str) -> Vec<DynamicObject> {
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize");
        let folder = self.0.path().join(folder);
        let mut command = Command::new("go");
        command.args(["tool", "kustomize", "build"]).arg(&folder).current_dir(tool).kill_on_drop(true);
        let run = tokio::time::timeout(BUILD, command.output()).await;
        let run = run.unwrap_or_else(|_| panic!("{command:?} runs on after {BUILD:?}"));
        let run = run.unwrap_or_else(|error| panic!("Go 1.26 (https://go.dev/dl): {error}"));
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{}: {errors}", folder.display());
        manifest::objects(&String::from_utf8(run.stdout).unwrap()).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// Our Deployment among the objects.
pub(crate) fn deployment(objects: &[DynamicObject]) -> Value {
    let is_ours = |object: &&DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == "Deployment");
    serde_json::to_value(objects.iter().find(is_ours).unwrap()).unwrap()
}

/// What a kubelet makes of the applied Deployment.
pub(crate) struct Pod {
    /// Where each volume of the container is here, by where the container has it.
    pub(crate) mounts: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) arguments: Vec<String>,
    /// A token of its service account.
    pub(crate) token: String,
}

/// Starts what the applied Deployment describes, as its service account, with these flags besides.
pub(crate) async fn start(stage: &Stage, more: &[&str]) -> Actor {
    let Pod { mounts, environment, arguments, token } = pod(stage).await;
    let here = |argument: String| mounts.iter().fold(argument, |text, (path, here)| text.replace(path, here));
    let arguments = arguments.into_iter().map(here).chain(more.iter().map(|flag| (*flag).to_owned()));
    Host::start_pod(&kubeconfig(stage, &token), environment, arguments).unwrap().into()
}

pub(crate) async fn pod(stage: &Stage) -> Pod {
    let deployments: Api<Deployment> = Api::namespaced(stage.client().clone(), NAMESPACE);
    let deployment = deployments.get(NAME).await.unwrap();
    let spec = deployment.spec.unwrap().template.spec.unwrap();
    let root = stage.folder().join("pod");
    let mounts = volumes(stage, &spec, &root).await;
    let container = &spec.containers[0];
    let mut environment = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let map = config_map(stage, &source.config_map_ref.as_ref().unwrap().name).await;
        environment.extend(map.data.unwrap_or_default());
    }
    assert!(container.command.is_none(), "nobody here plays that part of a kubelet");
    environment.extend(container.env.iter().flatten().map(downward));
    let arguments = container.args.iter().flatten().cloned().collect();
    let token = token(stage, spec.service_account_name.as_ref().unwrap()).await;
    Pod { mounts, environment, arguments, token }
}

/// What a pod is told about itself.
fn downward(variable: &EnvVar) -> (String, String) {
    let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref()).unwrap();
    let value = match field.field_path.as_str() {
        "metadata.namespace" => NAMESPACE,
        "metadata.name" => POD,
        "metadata.uid" => "00000000-0000-0000-0000-000000000000",
        other => panic!("nobody here knows {other} of a pod"),
    };
    (variable.name.clone(), value.to_owned())
}

/// Puts the volumes of the container below `root`; returns where each is, by where the container has it.
async fn volumes(stage: &Stage, spec: &PodSpec, root: &Path) -> BTreeMap<String, String> {
    let mut mounts = BTreeMap::new();
    for mount in spec.containers[0].volume_mounts.iter().flatten() {
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name).unwrap();
        let folder = root.join(&mount.name);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, content) in files(stage, volume).await {
            std::fs::write(folder.join(name), content).unwrap();
        }
        mounts.insert(mount.mount_path.clone(), folder.display().to_string());
    }
    mounts
}

async fn files(stage: &Stage, volume: &Volume) -> BTreeMap<String, Vec<u8>> {
    let (all, items) = match (&volume.config_map, &volume.secret) {
        (Some(source), None) => {
            let map = config_map(stage, &source.name).await;
            let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
            let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
            (text.chain(binary).collect(), &source.items)
        }
        (None, Some(source)) => {
            let secrets: Api<Secret> = Api::namespaced(stage.client().clone(), NAMESPACE);
            let secret = secrets.get(source.secret_name.as_ref().unwrap()).await.unwrap();
            let data = secret.data.unwrap_or_default();
            (data.into_iter().map(|(key, value)| (key, value.0)).collect(), &source.items)
        }
        (None, None) if volume.empty_dir.is_some() => return BTreeMap::new(),
        _ => panic!("nobody here mounts the volume {}", volume.name),
    };
    let chosen = |KeyToPath { key, path, .. }: &KeyToPath| (path.clone(), BTreeMap::get(&all, key).cloned().unwrap());
    match items {
        Some(items) => items.iter().map(chosen).collect(),
        None => all,
    }
}

async fn config_map(stage: &Stage, name: &str) -> ConfigMap {
    Api::namespaced(stage.client().clone(), NAMESPACE).get(name).await.unwrap()
}

/// A token of the service account, as a pod of it gets.
async fn token(stage: &Stage, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client().clone(), NAMESPACE);
    assert_eq!(accounts.get(account).await.unwrap().name_any(), account);
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token
}

fn kubeconfig(stage: &Stage, token: &str) -> PathBuf {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "contexts": [{ "name": "pod", "context": { "cluster": "pod", "user": "pod" } }],
        "clusters": [{ "name": "pod", "cluster": {
            "server": stage.cluster.url(),
            "certificate-authority": stage.cluster.folder().join("ca.crt"),
        } }],
        "users": [{ "name": "pod", "user": { "token": token } }],
    });
    stage.file("pod.kubeconfig", config.to_string())
}
