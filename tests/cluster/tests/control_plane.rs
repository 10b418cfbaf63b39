//! The harness itself: it serves, survives faults, and leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "clippy.toml allows it in test functions, but not in their helpers")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::FileTypeExt as _,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use ccm_cluster::{
    ControlPlane, NodeFixture, Settings, UNINITIALIZED_TAINT, User, await_absent, await_all, await_node, await_object,
    ensure_binaries, poll_until, register_nodes,
};
use futures::FutureExt as _;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod, Service},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": "value" } })).unwrap()
}

/// Processes whose working folder is `folder`, also after the folder was removed: all of ours run there.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|path| fs::read_link(path.join("cwd")).is_ok_and(|cwd| is_in(&cwd, folder))).collect()
}

fn is_in(cwd: &Path, folder: &Path) -> bool {
    cwd.to_str().is_some_and(|cwd| cwd.trim_end_matches(" (deleted)") == folder.to_str().unwrap())
}

/// Otherwise tests of another version would test this one.
#[tokio::test]
async fn the_api_server_has_the_version_of_go_mod_or_the_one_that_is_asked_for() {
    let pinned = || {
        let versions = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane/go.mod")).unwrap();
        let line = versions.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
        line.unwrap().split(' ').next().unwrap().to_owned()
    };
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // Of programs that somebody else built, nothing is known.
    let of_others = given("KUBEBUILDER_ASSETS").map(|_| "1".to_owned());
    let wanted = of_others.or_else(|| given("KUBERNETES")).unwrap_or_else(pinned);
    let cluster = ControlPlane::start(Settings::default()).await.unwrap();
    let version = cluster.client().apiserver_version().await.unwrap();
    let found = version.git_version.trim_start_matches('v');
    assert!(found == wanted || found.starts_with(&format!("{wanted}.")), "{found} is not {wanted}");
    assert!(found.starts_with(&format!("{}.{}.", version.major, version.minor)), "{version:?}");
}

#[tokio::test]
async fn a_dropped_control_plane_leaves_no_process_and_no_file() {
    let cluster = ControlPlane::start(Settings::default()).await.unwrap();
    let folder = cluster.folder().to_owned();
    assert!(fs::metadata(folder.join("etcd:0")).unwrap().file_type().is_socket(), "etcd needs no port");
    // Janitor, its anchor, etcd, kube-apiserver.
    assert_eq!(processes_in(&folder).len(), 4);

    let maps = Api::<ConfigMap>::default_namespaced(cluster.client().clone());
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    assert_eq!(maps.get("kept").await.unwrap().data, config_map("kept").data);
    cluster.check().unwrap();

    drop(cluster);
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_panic_leaves_no_process_and_no_file() {
    let mut folder = PathBuf::new();
    let body = async {
        let cluster = ControlPlane::start(Settings::default()).await.unwrap();
        folder = cluster.folder().to_owned();
        assert!(cluster.url().is_empty(), "this panic is part of the test");
    };
    AssertUnwindSafe(body).catch_unwind().await.unwrap_err();
    assert!(folder.is_absolute());
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_killed_owner_leaves_no_process_and_no_file() {
    ensure_binaries().await.unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_ccm-cluster")).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kubeconfig = Path::new(line.trim_end().strip_prefix("export KUBECONFIG=").unwrap());
    let folder = kubeconfig.parent().unwrap();
    // Janitor, its anchor, etcd, kube-apiserver, scheduler, controller manager, kwok.
    assert_eq!(processes_in(folder).len(), 7);

    owner.kill().unwrap(); // SIGKILL: no destructor runs
    owner.wait().unwrap();
    poll_until("processes and files gone", LIMIT, || !folder.exists() && processes_in(folder).is_empty())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_restarted_api_server_has_its_data_and_its_address() {
    let cluster = ControlPlane::start(Settings::default()).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client().clone());
    let before = maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();

    cluster.stop_api_server().await.unwrap();
    let address = cluster.url().replace("https://", "");
    let refused = tokio::net::TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    // Whoever waits for an object waits for the API server, too.
    let waiting = await_object(&maps, "late", LIMIT, |_: &ConfigMap| true);
    let restart = async {
        cluster.start_api_server().await.unwrap();
        assert_eq!(cluster.url().replace("https://", ""), address);
        assert_eq!(maps.get("kept").await.unwrap(), before);
        maps.create(&PostParams::default(), &config_map("late")).await.unwrap();
    };
    let (late, ()) = futures::join!(waiting, restart);
    assert_eq!(late.unwrap().data, config_map("late").data);
}

#[tokio::test]
async fn a_reset_leaves_what_was_there_after_the_start_and_nothing_else() {
    let mut cluster = ControlPlane::start(Settings { audit: true, ..Settings::default() }).await.unwrap();
    assert!(cluster.reset().await.is_err(), "nothing was remembered");
    cluster.remember().await.unwrap();
    let client = &cluster.client().clone();
    let (maps, nodes) = (Api::<ConfigMap>::default_namespaced(client.clone()), Api::<Node>::all(client.clone()));
    let services = Api::<Service>::default_namespaced(client.clone());
    let before = services.get("kubernetes").await.unwrap();
    for round in 0..3 {
        register_nodes(client, (0..150).map(|i| NodeFixture::new(format!("n{i}")))).await.unwrap();
        // One that nobody could delete through the API.
        let mut held = config_map("held");
        held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
        maps.create(&PostParams::default(), &held).await.unwrap();
        let spec =
            json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }], "clusterIP": "10.96.0.80" });
        let web = json!({ "metadata": { "name": "web" }, "spec": spec });
        services.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        services.patch("kubernetes", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        grant(client, json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] }])).await;
        assert!(cluster.writes().unwrap().len() >= 150);

        cluster.reset().await.unwrap();
        // The API server renews a Lease of its own now and then.
        let mut left = cluster.writes().unwrap();
        left.retain(|write| write.user != "system:apiserver");
        assert_eq!(left, [], "round {round}");
        assert_eq!(nodes.list(&ListParams::default().match_any()).await.unwrap().items.len(), 0, "round {round}");
        assert!(maps.get_opt("held").await.unwrap().is_none() && services.get_opt("web").await.unwrap().is_none());
        let after = services.get("kubernetes").await.unwrap();
        assert_eq!(
            (after.metadata.uid, after.metadata.labels),
            (before.metadata.uid.clone(), before.metadata.labels.clone())
        );
    }
    let webhook = json!({ "metadata": { "name": "unknown" } });
    let webhooks = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    webhooks.create(&PostParams::default(), &serde_json::from_value(webhook).unwrap()).await.unwrap();
    let error = cluster.reset().await.unwrap_err().to_string();
    assert!(error.contains("validatingwebhookconfigurations/unknown cannot be taken back"), "{error}");
}

#[tokio::test]
async fn a_user_may_do_what_rbac_says_and_no_more() {
    let user = User::service_account("kube-system", "cloud-controller-manager");
    let name = user.name.clone();
    let cluster = ControlPlane::start(Settings::default().user(user)).await.unwrap();
    let client = cluster.client_of(&name).await.unwrap();
    let nodes = Api::<Node>::all(client.clone());
    let kube::Error::Api(status) = nodes.get("n1").await.unwrap_err() else { unreachable!("the API server answers") };
    assert!(status.is_forbidden(), "{status:?}");
    assert!(status.message.contains(&name), "{}", status.message);

    grant(cluster.client(), json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] }]))
        .await;
    NodeFixture::new("n1").register(cluster.client()).await.unwrap();
    // The authorizer learns of the role a moment later; the wait lasts through refusals.
    await_node(&client, "n1", LIMIT, |_| true).await.unwrap();
    assert!(nodes.delete("n1", &DeleteParams::default()).await.is_err());
    assert!(cluster.kubeconfig_of("nobody").is_err());
}

async fn grant(admin: &Client, rules: serde_json::Value) {
    let role = json!({ "metadata": { "name": "granted" }, "rules": rules });
    let binding = json!({
        "metadata": { "name": "granted" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "granted" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "kube-system", "name": "cloud-controller-manager" }],
    });
    let params = PostParams::default();
    Api::<ClusterRole>::all(admin.clone()).create(&params, &serde_json::from_value(role).unwrap()).await.unwrap();
    Api::<ClusterRoleBinding>::all(admin.clone())
        .create(&params, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_program_that_ends_at_start_is_reported_with_its_log() {
    let settings = Settings { api_server_flags: vec!["--no-such-flag".to_owned()], ..Settings::default() };
    let error = ControlPlane::start(settings).await.unwrap_err().to_string();
    assert!(error.contains("kube-apiserver ended by itself"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[tokio::test]
async fn a_wait_that_fails_shows_what_was_last_seen() {
    let logs = tempfile::tempdir().unwrap();
    let settings = Settings { logs: Some(logs.path().join("logs")), ..Settings::default() };
    let cluster = ControlPlane::start(settings).await.unwrap();
    let client = cluster.client();

    let node = NodeFixture::new("n1").internal_ip("10.0.0.1").not_ready().register(client).await.unwrap();
    let fixture = NodeFixture::new("n1").internal_ip("10.0.0.1").not_ready().build();
    assert_eq!(node.spec.unwrap().taints, fixture.spec.unwrap().taints, "nothing but the fixture's taints");
    let mut error = String::new();
    // Where the machine is so busy that nothing is seen within the first one, another one tells.
    for limit in [1_500, 15_000, 150_000].map(Duration::from_millis) {
        let never = |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some());
        error = await_node(client, "n1", limit, never).await.unwrap_err().to_string();
        if !error.contains("it does not exist") {
            break;
        }
    }
    assert!(error.contains("10.0.0.1") && !error.contains("managedFields"), "{error}");

    Api::<Node>::all(client.clone()).delete("n1", &DeleteParams::default()).await.unwrap();
    await_absent(&Api::<Node>::all(client.clone()), "n1", LIMIT).await.unwrap();

    drop(cluster);
    assert!(logs.path().join("logs/kube-apiserver.log").exists(), "asked-for logs stay");
}

#[tokio::test]
async fn pods_run_on_fake_nodes_once_the_cloud_taint_is_gone() {
    let cluster = ControlPlane::start(Settings::everything()).await.unwrap();
    let client = cluster.client();
    let fixtures = (1..=3).map(|i| NodeFixture::new(format!("n{i}")).internal_ip(&format!("10.0.0.{i}")).kwok());
    assert_eq!(register_nodes(client, fixtures).await.unwrap().len(), 3);
    // The node life cycle controller takes the not-ready taint of new nodes away; the cloud's stays.
    for name in ["n1", "n2", "n3"] {
        await_node(client, name, LIMIT, |node| taints(node) == [UNINITIALIZED_TAINT]).await.unwrap();
    }

    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "registry.example/web" }] },
            },
        },
    });
    Api::<Deployment>::default_namespaced(client.clone())
        .create(&PostParams::default(), &serde_json::from_value(deployment).unwrap())
        .await
        .unwrap();
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let unschedulable = |pods: &BTreeMap<String, Pod>| pods.len() == 2 && pods.values().all(is_unschedulable);
    await_all(&pods, watcher::Config::default(), LIMIT, unschedulable).await.unwrap();

    let nodes = Api::<Node>::all(client.clone());
    let untainted = json!({ "spec": { "taints": null } });
    nodes.patch("n2", &PatchParams::default(), &Patch::Merge(untainted)).await.unwrap();
    let running = |pods: &BTreeMap<String, Pod>| pods.len() == 2 && pods.values().all(|pod| phase(pod) == "Running");
    let pods = await_all(&pods, watcher::Config::default(), LIMIT, running).await.unwrap();
    for pod in pods.values() {
        assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n2"));
    }

    let addresses = |node: &Node| node.status.clone().unwrap().addresses;
    let fixture = NodeFixture::new("n2").internal_ip("10.0.0.2").build();
    assert_eq!(addresses(&nodes.get("n2").await.unwrap()), addresses(&fixture), "kwok writes no addresses");
    cluster.check().unwrap();
}

fn taints(node: &Node) -> Vec<&str> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).map(|taint| taint.key.as_str()).collect()
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}
