//! What `manifests/` has: the real API server takes it, the real host starts as it says, and it may do what it does and no more.

mod chart;
mod dry_run;
mod fence;
mod image;
mod overlay;
mod uninstall;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use ccm_cluster::{
    NodeFixture, Settings, UNINITIALIZED_TAINT, User, await_absent, await_all, poll_until, register_nodes,
};
use ccm_e2e::host::{SERVICE_ACCOUNT, component, program};
use ccm_e2e::manifest;
use ccm_sim_digitalocean::{DigitalOcean, Droplet, Endpoint, TOKEN};
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::access;
use crate::cloud::data;
use crate::look::{STATE, addresses, await_untainted, nodes, patch, patch_status};
use crate::mistakes::ended;
use crate::service_look::{await_served, await_service, ips, serve, services};
use crate::stage::{LIMIT, Stage};
use overlay::{Manifests, deployment, start};

const CLOUDLYCKE: &str = "overlays/cloudlycke";
const DIGITALOCEAN: &str = "overlays/digitalocean";

/// A cluster that no other tests get afterwards: a policy fences the account of the host for a moment longer than it is there.
fn apart(settings: Settings) -> Settings {
    Settings { api_server_flags: vec!["--event-ttl=59m".to_owned()], ..settings }
}

/// Applies a folder, and waits until the API server has read its rules.
async fn apply(stage: &Stage, manifests: &Manifests, folder: &str) -> Vec<DynamicObject> {
    let objects = manifests.build(folder).await;
    manifest::apply_all(stage.client(), &objects).await.unwrap();
    stage.allowed().await;
    objects
}

#[tokio::test]
async fn every_manifest_is_taken_as_it_is() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let manifests = Manifests::new();
    let folders = manifests.folders();
    know_kinds_of_others(stage.client()).await;
    for folder in ["base", CLOUDLYCKE, DIGITALOCEAN] {
        assert!(folders.contains(&folder.to_owned()), "{folder} is not among {folders:?}");
    }
    for folder in folders {
        let folder = if manifests.is_component(&folder) {
            let around = json!({ "resources": ["../base"], "components": [format!("../{folder}")] });
            manifests.write("around/kustomization.yaml", around.to_string());
            "around".to_owned()
        } else {
            folder
        };
        let objects = manifests.build(&folder).await;
        manifest::apply_all(stage.client(), &objects).await.unwrap_or_else(|error| panic!("{folder}: {error:#}"));
    }
    manifest::apply(stage.client(), "optional/credential-secret.yaml").await.unwrap();

    // What is misspelt is not.
    let mut objects = manifests.build("base").await;
    let ours = objects.iter_mut().find(|object| object.types.as_ref().unwrap().kind == "Deployment").unwrap();
    ours.data["spec"]["template"]["spec"]["hostNetwrok"] = json!(true);
    let error = manifest::apply_all(stage.client(), &objects).await.unwrap_err();
    assert!(format!("{error:#}").contains("hostNetwrok"), "{error:#}");
}

/// The kinds of others that our manifests use: group, version, kind. What may stand in them is not looked at.
const KINDS_OF_OTHERS: [(&str, &str, &str); 4] = [
    ("cert-manager.io", "v1", "Certificate"),
    ("cert-manager.io", "v1", "Issuer"),
    ("monitoring.coreos.com", "v1", "PodMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
];

async fn know_kinds_of_others(client: &Client) {
    let definition = |(group, version, kind): (&str, &str, &str)| {
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        let any = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let version = json!({ "name": version, "served": true, "storage": true, "schema": any });
        let names = json!({ "kind": kind, "plural": plural, "singular": singular });
        serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": { "group": group, "scope": "Namespaced", "names": names, "versions": [version] },
        }))
    };
    let definitions: Vec<DynamicObject> = KINDS_OF_OTHERS.map(|kind| definition(kind).unwrap()).into();
    manifest::apply_all(client, &definitions).await.unwrap();
    let known = async {
        for (group, version, kind) in KINDS_OF_OTHERS {
            let kind = GroupVersionKind::gvk(group, version, kind);
            while kube::discovery::pinned_kind(client, &kind).await.is_err() {}
        }
    };
    assert!(tokio::time::timeout(LIMIT, known).await.is_ok(), "kinds of others are never served");
}

/// What Pod Security has against a pod, in a namespace that warns of all that is not restricted.
async fn warnings(client: &Client, spec: &Value) -> Vec<String> {
    let pod = json!({ "metadata": { "name": "ours" }, "spec": spec });
    let path = "/api/v1/namespaces/restricted/pods?dryRun=All&fieldValidation=Strict";
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(pod.to_string().into_bytes())).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), 201);
    answer.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

/// Why the API server refuses a pod, in a namespace that takes only what is baseline.
async fn refusal(client: &Client, spec: &Value) -> String {
    let pod = json!({ "metadata": { "name": "ours" }, "spec": spec });
    let path = "/api/v1/namespaces/baseline/pods?dryRun=All&fieldValidation=Strict";
    let request = http::Request::post(path).header("content-type", "application/json");
    match client.request_text(request.body(pod.to_string().into_bytes()).unwrap()).await {
        Err(kube::Error::Api(status)) => status.message,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn pods_are_restricted_but_for_the_network_of_their_node() {
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let label = |name: &str, value: &str| (format!("pod-security.kubernetes.io/{name}"), value.to_owned());
    for (level, mode) in [("restricted", "warn"), ("baseline", "enforce")] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(level.to_owned());
        namespace.metadata.labels = Some([label(mode, level), label(&format!("{mode}-version"), "latest")].into());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }

    let manifests = Manifests::new();
    for folder in ["base", CLOUDLYCKE, DIGITALOCEAN] {
        let mut spec = deployment(&manifests.build(folder).await)["spec"]["template"]["spec"].clone();
        let against = [
            "host namespaces (hostNetwork=true)",
            r#"hostPort (container \"wasm-ccm\" uses hostPort 10258)"#,
            r#"probe or lifecycle host (container \"wasm-ccm\" uses probe or lifecycle host \"127.0.0.1\")"#,
        ];
        let told = format!(r#"299 - "would violate PodSecurity \"restricted:latest\": {}""#, against.join(", "));
        assert_eq!(warnings(client, &spec).await, [told], "{folder}");
        // Baseline is too strict as well, and has nothing else against them.
        let refused = r#"pods "ours" is forbidden: violates PodSecurity "baseline:latest": "#;
        let told = format!("{refused}{}", against.join(", ").replace('\\', ""));
        assert_eq!(refusal(client, &spec).await, told, "{folder}");
        // All of that comes of one thing.
        spec["hostNetwork"] = json!(false);
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            assert!(spec["containers"][0][probe]["httpGet"].as_object_mut().unwrap().remove("host").is_some());
        }
        assert_eq!(warnings(client, &spec).await, [""; 0], "{folder}");
    }
}

/// Before any Node is initialised, and one per node: the pods that come after them must find room as well.
#[tokio::test]
async fn pods_run_before_nodes_are_initialised_and_a_rollout_needs_no_third_node() {
    let stage = Stage::bare(apart(Settings::everything())).await;
    let client = stage.client();
    let fixture = |name: &str| {
        let fixture = NodeFixture::new(name).internal_ip("10.0.0.1").label("node-role.kubernetes.io/control-plane", "");
        fixture
            .taint("node-role.kubernetes.io/control-plane", "", "NoSchedule")
            .taint("node.kubernetes.io/network-unavailable", "", "NoSchedule")
            .kwok()
    };
    register_nodes(client, ["c1", "c2"].map(fixture)).await.unwrap();
    let manifests = Manifests::new();
    let objects = apply(&stage, &manifests, DIGITALOCEAN).await;

    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let running = |image: &'static str| {
        move |all: &BTreeMap<String, Pod>| {
            let is_running = |pod: &&Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|one| one.image.as_deref());
                phase == Some("Running") && images.eq([image]) && pod.metadata.deletion_timestamp.is_none()
            };
            let places = all.values().filter(is_running).filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
            all.len() == 2 && places.collect::<BTreeSet<&str>>() == BTreeSet::from(["c1", "c2"])
        }
    };
    let ours = watcher::Config::default().labels("app.kubernetes.io/name=wasm-ccm");
    await_all(&pods, ours.clone(), LIMIT, running("registry.example/wasm-ccm:latest")).await.unwrap();

    let mut newer = objects;
    let ours_too = newer.iter_mut().find(|object| object.types.as_ref().unwrap().kind == "Deployment").unwrap();
    ours_too.data["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/wasm-ccm:newer");
    manifest::apply_all(client, &newer).await.unwrap();
    await_all(&pods, ours, LIMIT, running("registry.example/wasm-ccm:newer")).await.unwrap();
}

// === Rights ===

/// `group/resource verb`, with the namespace where a right is one of a namespace only.
type Rights = BTreeSet<String>;

fn right(group: &str, resource: &str, verb: &str, namespace: &str) -> String {
    format!("{group}/{resource} {verb} {namespace}").trim_end().to_owned()
}

/// All that the objects allow.
fn granted(objects: &[DynamicObject]) -> Rights {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Rights::new();
    for object in objects.iter().filter(|object| object.types.as_ref().unwrap().kind.ends_with("Role")) {
        let namespace = object.namespace().unwrap_or_default();
        for rule in object.data["rules"].as_array().unwrap() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    rights.extend(texts(&rule["verbs"]).iter().map(|verb| right(&group, &resource, verb, &namespace)));
                }
            }
        }
    }
    rights
}

/// An API server that writes down all that the host asks.
struct Audit {
    _folder: TempDir,
    log: PathBuf,
    user: String,
}

impl Audit {
    fn new() -> (Self, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
        let user = User::service_account(SERVICE_ACCOUNT.0, SERVICE_ACCOUNT.1).name;
        let rules = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": [user] }, { "level": "None" }],
        });
        std::fs::write(&policy, rules.to_string()).unwrap();
        let flags =
            vec![format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
        (Self { _folder: folder, log, user }, Settings { api_server_flags: flags, ..Settings::default() })
    }

    /// What was asked for, and what of it was refused.
    fn used(&self, allowed: &Rights) -> (Rights, Rights) {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may not be complete yet.
        let text = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let (mut used, mut refused) = (Rights::new(), Rights::new());
        for entry in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            assert_eq!(entry["user"]["username"], self.user);
            let object = &entry["objectRef"];
            let part = |name: &str| object[name].as_str().unwrap_or_default();
            let resource = match part("subresource") {
                "" => part("resource").to_owned(),
                below => format!("{}/{below}", part("resource")),
            };
            // The version of the API needs no right of this ServiceAccount.
            if resource.is_empty() {
                continue;
            }
            let in_namespace =
                |namespace: &str| right(part("apiGroup"), &resource, entry["verb"].as_str().unwrap(), namespace);
            // A right in one namespace, where that is enough.
            let right = Some(in_namespace(part("namespace"))).filter(|right| allowed.contains(right));
            let right = right.unwrap_or_else(|| in_namespace(""));
            if entry["annotations"]["authorization.k8s.io/decision"] != "allow" {
                refused.insert(right.clone());
            }
            used.insert(right);
        }
        (used, refused)
    }
}

/// The host does everything that it can, and each right of its ServiceAccount is used.
#[tokio::test]
async fn the_service_account_may_do_what_the_host_does_and_nothing_else() {
    let (audit, settings) = Audit::new();
    let stage = Stage::bare(settings).await;
    let client = stage.client();
    let objects = apply(&stage, &Manifests::new(), CLOUDLYCKE).await;
    NodeFixture::new("busy").internal_ip("10.0.0.1").register(client).await.unwrap();
    let host = start(
        &stage,
        &[
            "--node-deletion-min-age=0s",
            "--node-deletion-second-look=100ms",
            "--node-monitor-period=1s",
            "--authentication-on-loopback",
        ],
    )
    .await;

    // A kubelet that writes all the time, and a Node that is initialised again and again: its Event happens again, and some write
    // of ours meets one of the kubelet's, so that the Node is read.
    let allowed = granted(&objects);
    let kubelet = async {
        for heartbeat in 0_u64.. {
            patch_status(client, "busy", &json!({ "phase": format!("{heartbeat}") })).await;
        }
    };
    let taint = json!([{ "key": UNINITIALIZED_TAINT, "value": "true", "effect": "NoSchedule" }]);
    let both_met = async {
        while !["/nodes get", "events.k8s.io/events patch"].iter().all(|one| audit.used(&allowed).0.contains(*one)) {
            await_untainted(client, "busy").await;
            patch(client, "busy", &json!({ "spec": { "taints": taint } })).await;
        }
    };
    tokio::select! {
        () = kubelet => unreachable!(),
        met = tokio::time::timeout(LIMIT, both_met) => met.unwrap(),
    }
    let busy = await_untainted(client, "busy").await;
    assert!(addresses(&busy).contains(&"ExternalIP 10.0.0.1".to_owned()), "{busy:?}");

    // A machine that is gone.
    let gone = NodeFixture::new("gone").initialized().provider_id("cloudlycke://gone").not_ready();
    gone.annotation(STATE, "deleted").register(client).await.unwrap();
    await_absent(&nodes(client), "gone", LIMIT).await.unwrap();

    // A Service that goes while nobody looks, and without its finalizer.
    serve(client, "web", json!({})).await;
    await_served(client, "web").await;
    host.signal("STOP").await.unwrap();
    let bare = json!({ "metadata": { "finalizers": null } });
    services(client).patch("web", &PatchParams::default(), &Patch::Merge(&bare)).await.unwrap();
    services(client).delete("web", &DeleteParams::default()).await.unwrap();
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    host.signal("CONT").await.unwrap();

    // Somebody reads the health port.
    let token = format!("Bearer {}", access::token(&stage, "wasm-ccm-reader", &[]).await);
    let (status, _) = access::page(&host, "/providerz", Some(("authorization", &token))).await;
    assert_eq!(status, 200);

    let all = poll_until("every right to be used", LIMIT, || audit.used(&allowed).0 == allowed).await;
    assert!(all.is_ok(), "never used: {:?}", allowed.difference(&audit.used(&allowed).0));
    host.end().await;
    assert_eq!(audit.used(&allowed), (allowed.clone(), Rights::new()), "used and refused");
}

// === DigitalOcean ===

/// The simulator is on this machine, and speaks no TLS.
const SIMULATED: [&str; 2] = ["--allow-http", "--allow-loopback"];

/// Whoever runs DigitalOcean's own manager has its variables and its Secret; both count without a change of any Service.
#[tokio::test]
async fn the_overlay_for_digitalocean_takes_what_the_go_manager_takes() {
    let cloud = DigitalOcean::start(ccm_sim_digitalocean::Settings::default()).await.unwrap();
    let droplet =
        cloud.put_droplet(Droplet { private_v4: vec!["10.0.0.1".parse().unwrap()], ..Droplet::new(17, "n1") });
    let stage = Stage::bare(apart(Settings::default())).await;
    let client = stage.client();
    let mut secret = Secret { string_data: Some(data("access-token", TOKEN)), ..Secret::default() };
    secret.metadata.name = Some("digitalocean".to_owned());
    Api::namespaced(client.clone(), "kube-system").create(&PostParams::default(), &secret).await.unwrap();

    let manifests = Manifests::new();
    let settings = format!("DO_CLUSTER_ID=0caf4c4e\nREGION=nyc3\nDO_OVERRIDE_URL={}\n", cloud.url());
    manifests.write(&format!("{DIGITALOCEAN}/settings.env"), &settings);
    apply(&stage, &manifests, DIGITALOCEAN).await;
    let host = start(&stage, &SIMULATED).await;

    NodeFixture::new("n1").internal_ip("10.0.0.1").register(client).await.unwrap();
    let node = await_untainted(client, "n1").await;
    assert_eq!(node.spec.unwrap().provider_id, Some(format!("digitalocean://{droplet}")));
    serve(client, "web", json!({})).await;
    cloud.until(LIMIT, |cloud| !cloud.balancers().is_empty()).await.unwrap();
    assert!(cloud.set_speed(1_000.0));
    let service = await_service(client, "web", |service| !ips(service).is_empty()).await;
    let balancer = cloud.balancers().remove(0);
    assert_eq!(ips(&service), [balancer.ip.to_string()]);
    assert!(balancer.spec.tags.contains(&"k8s:0caf4c4e".to_owned()), "{:?}", balancer.spec.tags);

    // A variable that is set but does not count would be told.
    let log = host.log_text();
    assert!(!log.contains("not granted"), "{log}");
    await_served(client, "web").await;
    host.end().await;

    // The Service as the Go manager leaves it: without our conditions. Whoever takes it over changes nothing at the
    // cloud.
    let unsaid = json!({ "status": { "conditions": [] } });
    services(client).patch_status("web", &PatchParams::default(), &Patch::Merge(&unsaid)).await.unwrap();
    cloud.reset_counters();
    let host = start(&stage, &SIMULATED).await;
    let service = await_served(client, "web").await;
    assert_eq!(ips(&service), [balancer.ip.to_string()]);
    host.end().await;
    let asked: Vec<Endpoint> = cloud.counters().requests.into_keys().collect();
    let reads = [Endpoint::Regions, Endpoint::Droplets, Endpoint::Droplet, Endpoint::Balancers, Endpoint::Balancer];
    assert!(!asked.is_empty() && asked.iter().all(|endpoint| reads.contains(endpoint)), "{asked:?}");
    cloud.check().unwrap();
}

#[tokio::test]
async fn the_overlay_for_digitalocean_grants_all_variables_but_the_token_and_that_from_the_secret() {
    let file = component("providers/digitalocean.wasm").unwrap();
    let run = ended(Command::new(program().unwrap()).arg("inspect").arg("--output=json").arg(file));
    let known: Value = serde_json::from_slice(&run.stdout).unwrap();
    let mut declared = BTreeSet::new();
    variables(&known, &mut declared);
    assert!(declared.remove("DO_ACCESS_TOKEN"), "{known}");

    let ours = deployment(&Manifests::new().build(DIGITALOCEAN).await);
    let arguments = ours["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let list = arguments.iter().find_map(|text| text.as_str()?.strip_prefix("--allow-env=")).unwrap();
    let granted: BTreeSet<String> = list.split(',').map(str::to_owned).collect();
    // What Go programs take from their environment without being told.
    declared.extend(["HTTPS_PROXY", "NO_PROXY"].map(str::to_owned));
    assert_eq!(granted, declared);
}

/// The names of environment variables in what `inspect` says.
fn variables(of: &Value, found: &mut BTreeSet<String>) {
    match of {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "environmentVariables" {
                    found.extend(
                        value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)),
                    );
                } else {
                    variables(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| variables(item, found)),
        _ => {}
    }
}
