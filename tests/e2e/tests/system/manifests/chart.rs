//! The Helm chart: it renders what each overlay of kustomize does, refuses values that are wrong, and lives through an installation, an
//! upgrade, a rollback and a removal on the real API server.

mod values;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use ccm_cluster::{NodeFixture, Settings, register_nodes};
use ccm_e2e::host::component;
use ccm_e2e::manifest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::overlay::{BUILD, Manifests, deployment, start};
use super::{CLOUDLYCKE, apart};
use crate::look::await_untainted;
use crate::stage::Stage;

const PROVIDERS: [&str; 3] = ["cloudlycke", "digitalocean", "openstack"];
/// The placeholder of the base.
pub(super) const IMAGE: [&str; 2] = ["image.repository=registry.example/wasm-ccm", "image.tag=latest"];
/// What the chart alone writes on its objects.
pub(super) const LABELS: [&str; 3] = ["app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"];

/// Helm, with nothing of this machine's user.
pub(super) struct Helm {
    home: TempDir,
    kubeconfig: Option<String>,
}

impl Helm {
    pub(super) fn new(kubeconfig: Option<&Path>) -> Self {
        let kubeconfig = kubeconfig.map(|path| path.display().to_string());
        Self { home: tempfile::tempdir().unwrap(), kubeconfig }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("go-tools/run"));
        // Where it is given twice, the last one counts.
        command.args(["helm", "--namespace=kube-system"]).args(arguments).kill_on_drop(true);
        for place in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"] {
            command.env(place, self.home.path());
        }
        match &self.kubeconfig {
            Some(kubeconfig) => command.env("KUBECONFIG", kubeconfig),
            None => command.env_remove("KUBECONFIG"),
        };
        let run = tokio::time::timeout(BUILD, command.output()).await;
        let run = run.unwrap_or_else(|_| panic!("{command:?} runs on after {BUILD:?}"));
        run.unwrap()
    }

    /// What it prints, if all is well.
    pub(super) async fn good(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments).await;
        assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    }

    /// What the chart makes of these values.
    pub(super) async fn render(&self, chart: &str, values: &[&str]) -> Vec<DynamicObject> {
        let set: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let text = self.good(&[["template", "wasm-ccm", chart].as_slice(), &set].concat()).await;
        manifest::objects(&text).unwrap()
    }
}

/// A chart with these components.
pub(super) fn chart(manifests: &Manifests, providers: &[&str]) -> String {
    for provider in providers {
        let packed = manifest::packed(&component(&format!("providers/{provider}.wasm")).unwrap()).unwrap();
        manifests.write(&format!("chart/components/{provider}.wasm.gz"), &packed);
    }
    manifests.path("chart").display().to_string()
}

/// What it is, by kind, namespace and name. Lists that Kubernetes keeps by name have an order; base64 has no line breaks, and CEL no more
/// blanks than it needs: kustomize adds some.
pub(super) fn comparable(objects: Vec<DynamicObject>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for object in objects {
        let name = format!(
            "{} {}/{}",
            object.types.as_ref().unwrap().kind,
            object.namespace().unwrap_or_default(),
            object.name_any()
        );
        let mut object = serde_json::to_value(object).unwrap();
        for data in
            object.get_mut("binaryData").and_then(Value::as_object_mut).into_iter().flatten().map(|(_, data)| data)
        {
            *data = json!(data.as_str().unwrap().replace('\n', ""));
        }
        for validation in object.pointer_mut("/spec/validations").and_then(Value::as_array_mut).into_iter().flatten() {
            let words: Vec<&str> = validation["expression"].as_str().unwrap().split_whitespace().collect();
            validation["expression"] = json!(words.join(" "));
        }
        if let Some(pod) = object.pointer_mut("/spec/template/spec") {
            for list in ["/volumes", "/containers/0/volumeMounts"] {
                let list = pod.pointer_mut(list).unwrap().as_array_mut().unwrap();
                list.sort_by_key(|one| one["name"].as_str().unwrap().to_owned());
            }
        }
        assert!(all.insert(name.clone(), object).is_none(), "{name} twice");
    }
    all
}

#[tokio::test]
async fn the_chart_and_each_overlay_differ_in_the_labels_of_the_chart_only() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &PROVIDERS);
    let overlays =
        manifests.folders().into_iter().filter_map(|folder| folder.strip_prefix("overlays/").map(str::to_owned));
    assert_eq!(overlays.collect::<Vec<_>>(), PROVIDERS, "an overlay has no part in the chart");
    for settings in ["", "REGION=nyc3\nDO_CLUSTER_ID=<a&b>\n"] {
        for provider in PROVIDERS {
            let named = format!("provider={provider}");
            let mut values = vec![named.as_str(), IMAGE[0], IMAGE[1]];
            if provider != "cloudlycke" && !settings.is_empty() {
                manifests.write(&format!("overlays/{provider}/settings.env"), settings);
                values.extend(["settings.REGION=nyc3", "settings.DO_CLUSTER_ID=<a&b>"]);
            }
            let theirs = comparable(manifests.build(&format!("overlays/{provider}")).await);
            let mut ours = comparable(helm.render(&chart, &values).await);
            for (name, object) in &mut ours {
                let labels = object["metadata"]["labels"].as_object_mut().unwrap();
                for label in LABELS {
                    assert!(labels.remove(label).is_some(), "{provider}: {name} has no label {label}");
                }
                if labels.is_empty() {
                    object["metadata"].as_object_mut().unwrap().remove("labels");
                }
            }
            assert!(theirs.len() > 12, "{:?}", theirs.keys());
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{provider}");
            for (name, object) in &theirs {
                assert_eq!(&ours[name], object, "{provider}: {name}");
            }
        }
    }
}

#[tokio::test]
async fn values_become_flags_and_parts_of_the_pod_and_a_provider_of_ones_own_has_its_patterns() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &[]);
    let values = json!({
        "provider": "mycloud",
        "component": { "configMap": "mine" },
        "own": { "serviceAnnotations": "^(wasm-ccm|mycloud)[.]io/", "nodeLabels": "^mycloud[.]io/" },
        "image": { "repository": "r.example/ccm", "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always", "pullSecrets": ["pull"] },
        "replicas": 3,
        "settings": { "MY_REGION": "one" },
        "env": [from_secret("MY_HEADERS", "mine", "headers")],
        "credentials": { "secretName": "my-secret" },
        "loadBalancerClasses": ["mycloud.example/lb"],
        "grants": {
            "allowHosts": ["a.example"], "allowEnv": ["MY_*"], "allowAnnotations": ["b.example/*"],
            "allowSharedAddresses": ["nodes"], "credentialUses": ["token=api:header:X-Token"],
        },
        "flags": ["--v=4"],
        "resources": { "limits": { "memory": "1Gi" } },
        "tolerations": [{ "key": "mine", "operator": "Exists" }],
        "nodeSelector": { "disk": "fast" },
        "monitoring": { "rules": true, "dashboard": true, "docsUrl": "https://docs.example/ccm/", "labels": { "release": "prometheus" } },
    });
    manifests.write("values.json", values.to_string().as_bytes());
    let file = manifests.path("values.json").display().to_string();
    let objects = manifest::objects(&helm.good(&["template", "wasm-ccm", &chart, "--values", &file]).await).unwrap();
    let ours = deployment(&objects);
    let (spec, pod) = (&ours["spec"], &ours["spec"]["template"]["spec"]);
    let container = &pod["containers"][0];
    assert_eq!(spec["replicas"], 3);
    assert_eq!(container["image"], format!("r.example/ccm@sha256:{}", "0".repeat(64)));
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
    assert_eq!(container["resources"], json!({ "limits": { "memory": "1Gi" } }));
    assert_eq!(pod["nodeSelector"], json!({ "disk": "fast" }));
    let variables = container["env"].as_array().unwrap();
    assert_eq!(variables[0]["name"], "POD_NAMESPACE");
    assert_eq!(variables[3..], [from_secret("MY_HEADERS", "mine", "headers")]);
    assert_eq!(pod["tolerations"].as_array().unwrap().last().unwrap()["key"], "mine");
    let flags = [
        "run",
        "--provider=/provider",
        "--bind-address=127.0.0.1",
        "--state-dir=/state",
        "--cloud-provider=mycloud",
        "--load-balancer-class=mycloud.example/lb",
        "--allow-host=a.example",
        "--allow-env=MY_*",
        "--allow-annotation=b.example/*",
        "--allow-shared-address=nodes",
        "--credential-use=token=api:header:X-Token",
        "--v=4",
    ];
    assert_eq!(container["args"], json!(flags));
    let volume = |name: &str| pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == name).unwrap();
    assert_eq!(volume("provider")["configMap"]["name"], "mine");
    assert_eq!(volume("credentials")["secret"], json!({ "secretName": "my-secret" }));
    let all = comparable(objects);
    let own =
        |name: &str| all[&format!("ValidatingAdmissionPolicy /{name}")]["spec"]["variables"][0]["expression"].clone();
    assert_eq!(own("wasm-ccm-nodes"), r#""^mycloud[.]io/""#);
    assert_eq!(own("wasm-ccm-services"), r#""^(wasm-ccm|mycloud)[.]io/""#);
    let settings = container["envFrom"][0]["configMapRef"]["name"].as_str().unwrap();
    assert_eq!(all[&format!("ConfigMap kube-system/{settings}")]["data"], json!({ "MY_REGION": "one" }));
    assert!(!all.contains_key("ConfigMap kube-system/wasm-ccm-provider"), "{:?}", all.keys());
    let rules = all["PrometheusRule kube-system/wasm-ccm"]["spec"]["groups"][0]["rules"].as_array().unwrap();
    let (link, path) = (|rule: &Value| rule["annotations"]["runbook_url"].as_str().unwrap().to_owned(), runbooks());
    let linked: Vec<String> = path.iter().map(|path| format!("https://docs.example/ccm/{path}")).collect();
    assert!(rules.len() > 15 && rules.iter().map(link).eq(linked), "{rules:?}");
    for name in ["PrometheusRule kube-system/wasm-ccm", "ConfigMap kube-system/wasm-ccm-dashboard"] {
        assert_eq!(all[name]["metadata"]["labels"]["release"], "prometheus", "{name}");
    }
}

fn from_secret(name: &str, secret: &str, key: &str) -> Value {
    json!({ "name": name, "valueFrom": { "secretKeyRef": { "name": secret, "key": key } } })
}

/// A secret in `settings` would stand in a ConfigMap.
#[tokio::test]
async fn the_guide_takes_the_headers_for_a_collector_from_a_secret_with_the_chart_as_with_kustomize() {
    let guide = std::fs::read_to_string(manifest::folder().join("../docs/guides/traces.md")).unwrap();
    // With the address of the step before, the host would not start.
    let (_, secret) = guide.split_once("put `OTEL_EXPORTER_OTLP_HEADERS` into a Secret").unwrap();
    let said = secret.split_once("```").unwrap().0;
    assert!(said.contains("must then begin with `https://`, or be a loopback\naddress that you name"), "{said}");
    let block = |start: &str| {
        let (_, text) = guide.split_once(&format!("```yaml\n{start}")).unwrap_or_else(|| panic!("no {start:?}"));
        format!("{start}{}", text.split_once("```").unwrap().0)
    };
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let patch = block("- target: {kind: Deployment, name: wasm-ccm}\n  patch: |\n    - op: add\n");
    manifests.write("around/kustomization.yaml", format!("resources: [../{CLOUDLYCKE}]\npatches:\n{patch}"));
    manifests.write("values.yaml", block("env:\n"));
    let (chart, file) = (chart(&manifests, &["cloudlycke"]), manifests.path("values.yaml").display().to_string());
    let values = ["provider=cloudlycke", IMAGE[0], IMAGE[1]].join(",");
    let ours = helm.good(&["template", "wasm-ccm", &chart, "--set", &values, "--values", &file]).await;
    let of =
        |objects: &[DynamicObject]| deployment(objects)["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let ours = of(&manifest::objects(&ours).unwrap());
    assert_eq!(ours, of(&manifests.build("around").await));
    let last = ours.as_array().unwrap().last().unwrap();
    assert_eq!(*last, from_secret("OTEL_EXPORTER_OTLP_HEADERS", "otlp", "headers"));
}

/// What `runbook_url` of each alert says in the manifests.
fn runbooks() -> Vec<String> {
    let rules = std::fs::read_to_string(manifest::folder().join("monitoring/rules.yaml")).unwrap();
    let links = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: "));
    links.map(str::to_owned).collect()
}

/// The YAML text that a guide has for a file of that name.
pub(super) fn of_guide(guide: &str, file: &str) -> String {
    let guide = std::fs::read_to_string(manifest::folder().join("../docs/guides").join(guide)).unwrap();
    let (_, text) = guide.split_once(&format!("```yaml\n# {file}")).unwrap();
    let (_, text) = text.split_once('\n').unwrap();
    text.split_once("```").unwrap().0.to_owned()
}

/// A host that does not exist once stood in every alert.
#[tokio::test]
async fn runbooks_are_paths_of_the_repository_until_kustomize_or_the_chart_is_given_an_address() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &["cloudlycke"]);
    let values = ["provider=cloudlycke", IMAGE[0], IMAGE[1], "monitoring.rules=true"];
    let rules = "PrometheusRule kube-system/wasm-ccm";
    let links = |objects: Vec<DynamicObject>| -> Vec<String> {
        let all = comparable(objects);
        let rules = all[rules]["spec"]["groups"][0]["rules"].as_array().unwrap();
        rules.iter().map(|rule| rule["annotations"]["runbook_url"].as_str().unwrap().to_owned()).collect()
    };
    let paths = runbooks();
    assert!(paths.len() > 15, "{paths:?}");
    assert_eq!(links(helm.render(&chart, &values).await), paths);
    assert_eq!(links(manifests.build("monitoring").await), paths);

    let text = of_guide("alerts.md", "kustomization.yaml").replace("PATH/manifests/monitoring", "../monitoring");
    manifests.write("around/kustomization.yaml", text);
    manifests.write("around/docs-address.yaml", of_guide("alerts.md", "docs-address.yaml"));
    let objects = manifests.build("around").await;
    assert!(objects.iter().all(|object| object.name_any() != "docs-address"), "what is only for kustomize is applied");
    let linked: Vec<String> =
        paths.iter().map(|path| format!("https://git.example.com/wasm-ccm/blob/main/{path}")).collect();
    assert_eq!(links(objects), linked);
}

#[tokio::test]
async fn the_chart_has_the_version_of_the_host_and_lints() {
    let (manifests, helm) = (Manifests::new(), Helm::new(None));
    let chart = chart(&manifests, &["cloudlycke"]);
    let text = helm.good(&["show", "chart", &chart]).await;
    for key in ["version", "appVersion"] {
        assert!(text.lines().any(|line| line == format!("{key}: {}", env!("CARGO_PKG_VERSION"))), "{key}: {text}");
    }
    let values = ["provider=cloudlycke", IMAGE[0], IMAGE[1]].join(",");
    helm.good(&["lint", &chart, "--strict", "--set", &values]).await;
}

/// The images of the Deployment as it stands.
async fn image(client: &Client) -> String {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    let spec = deployments.get("wasm-ccm").await.unwrap().spec.unwrap().template.spec.unwrap();
    spec.containers.into_iter().next().unwrap().image.unwrap()
}

/// Whether an object of the chart is there.
async fn exists(client: &Client, object: &DynamicObject) -> bool {
    let kind = kube::core::GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let (resource, _) = kube::discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.get_opt(&object.name_any()).await.unwrap().is_some()
}

/// The component that the pods mount.
async fn mounted(client: &Client) -> Vec<u8> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let map = maps.get("wasm-ccm-provider").await.unwrap();
    map.binary_data.unwrap().remove("cloudlycke.wasm.gz").unwrap().0
}

#[tokio::test]
async fn the_chart_is_installed_upgraded_rolled_back_and_uninstalled_on_a_real_api_server() {
    let stage = Stage::bare(apart(Settings::everything())).await;
    let client = stage.client();
    let control = |name: &str| NodeFixture::new(name).internal_ip("10.0.0.1").initialized().kwok();
    register_nodes(client, ["c1", "c2"].map(control)).await.unwrap();
    let (manifests, helm) = (Manifests::new(), Helm::new(Some(&stage.cluster.kubeconfig())));
    let chart = chart(&manifests, &["cloudlycke"]);
    let first = ["provider=cloudlycke", IMAGE[0], "image.tag=one"].join(",");
    let wait = ["--wait", "--timeout=300s"];

    helm.good(&[&["install", "wasm-ccm", &chart, "--set", &first], wait.as_slice()].concat()).await;
    assert_eq!(image(client).await, "registry.example/wasm-ccm:one");
    let installed = manifest::objects(&helm.good(&["get", "manifest", "wasm-ccm"]).await).unwrap();
    assert_eq!(installed.len(), manifests.build(CLOUDLYCKE).await.len());
    // What was installed suffices for the host to do its work.
    stage.allowed().await;
    let host = start(&stage, &[]).await;
    NodeFixture::new("n1").internal_ip("10.0.0.1").register(client).await.unwrap();
    await_untainted(client, "n1").await;
    let log = host.log_text();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    host.end().await;

    // The replicas' records stay through all that follows.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let records = maps.get("wasm-ccm-components").await.unwrap().data;
    assert!(records.is_some(), "the host has recorded nothing");

    // Another version of the component.
    let old = mounted(client).await;
    let mut next = std::fs::read(component("providers/cloudlycke.wasm").unwrap()).unwrap();
    next.extend([0, 5, 4, b'n', b'e', b'x', b't']);
    manifests.write("next.wasm", &next);
    let next = manifest::packed(&manifests.path("next.wasm")).unwrap();
    manifests.write("chart/components/cloudlycke.wasm.gz", &next);
    assert_ne!(old, next);

    let second = ["provider=cloudlycke", IMAGE[0], "image.tag=two", "settings.A=b", "flags[0]=--v=4"].join(",");
    helm.good(&[&["upgrade", "wasm-ccm", &chart, "--set", &second], wait.as_slice()].concat()).await;
    assert_eq!(image(client).await, "registry.example/wasm-ccm:two");
    assert_eq!(mounted(client).await, next);
    assert_eq!(maps.get("wasm-ccm-components").await.unwrap().data, records);

    helm.good(&[&["rollback", "wasm-ccm", "1"], wait.as_slice()].concat()).await;
    assert_eq!(image(client).await, "registry.example/wasm-ccm:one");
    assert_eq!(mounted(client).await, old, "the component stays the new one");
    let names: Vec<String> =
        maps.list(&ListParams::default()).await.unwrap().iter().map(|map| map.name_any()).collect();
    assert!(!names.iter().any(|name| name.starts_with("wasm-ccm-settings")), "{names:?}");
    assert_eq!(maps.get("wasm-ccm-components").await.unwrap().data, records);
    for object in &installed {
        assert!(exists(client, object).await, "{} is not there", object.name_any());
    }

    helm.good(&["uninstall", "wasm-ccm", "--wait", "--timeout=300s"]).await;
    for object in &installed {
        assert!(!exists(client, object).await, "{} stays", object.name_any());
    }
}

/// A release is a Secret, which holds the component twice: in the chart, and in what was rendered.
#[tokio::test]
async fn a_release_has_room_for_the_largest_component() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let (manifests, helm) = (Manifests::new(), Helm::new(Some(&stage.cluster.kubeconfig())));
    let chart = chart(&manifests, &["openstack"]);
    let values = ["provider=openstack", IMAGE[0], IMAGE[1]].join(",");
    helm.good(&["install", "wasm-ccm", &chart, "--set", &values, "--wait=false"]).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let release = secrets.get("sh.helm.release.v1.wasm-ccm.v1").await.unwrap();
    let size: usize = release.data.unwrap().values().map(|data| data.0.len()).sum();
    assert!(size > 600_000, "{size} bytes: is the component in there?");
    helm.good(&["uninstall", "wasm-ccm", "--wait=false"]).await;
}
