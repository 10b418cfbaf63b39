//! 2.3: what is written to a Node in which order, and how much (the target is 3 writes per Node, its Event included).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccm_cluster::{NodeFixture, Settings, await_all, poll_until, register_nodes};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::look::{addresses, all_events, await_all_untainted, is_tainted, nodes, once_each, synced};
use crate::stage::{LIMIT, Stage};

/// Fixtures with different addresses.
fn fixtures(count: usize) -> impl Iterator<Item = NodeFixture> {
    (0..count).map(|i| NodeFixture::new(format!("n{i}")).internal_ip(&format!("10.0.{}.{}", i / 250, i % 250 + 1)))
}

/// An API server that writes down who asked what.
struct Audit {
    _folder: TempDir,
    log: PathBuf,
}

impl Audit {
    fn new() -> (Self, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
        let rules = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{ "level": "Metadata", "verbs": ["create", "update", "patch", "delete"] }],
        });
        std::fs::write(&policy, rules.to_string()).unwrap();
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let flags = vec![flag("audit-policy-file", &policy), flag("audit-log-path", &log)];
        (Self { _folder: folder, log }, Settings { api_server_flags: flags, ..Settings::default() })
    }

    /// What `user` wrote so far, in order: the object's name, and `verb resource code`.
    fn writes(&self, user: &str) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        entries
            .filter(|entry| entry["user"]["username"] == user)
            .map(|entry| {
                let object = &entry["objectRef"];
                let resource = match part(&object["subresource"]).as_str() {
                    "" => part(&object["resource"]),
                    sub => format!("{}/{sub}", part(&object["resource"])),
                };
                let what = format!("{} {resource} {}", part(&entry["verb"]), entry["responseStatus"]["code"]);
                // An Event is called as its Node, and then by its time.
                let name = part(&object["name"]).split('.').next().unwrap_or_default().to_owned();
                (name, what)
            })
            .collect()
    }
}

#[tokio::test]
async fn two_hundred_nodes_take_three_writes_each_and_a_handful_of_lookups() {
    const COUNT: usize = 200;
    let (audit, settings) = Audit::new();
    let stage = Stage::with(settings).await;
    let client = stage.client();
    let before = register_nodes(client, fixtures(COUNT)).await.unwrap();
    let host = stage.cloudlycke(&["--node-status-update-frequency=1h"]);
    await_all_untainted(client, COUNT).await;
    let all_written = |written: f64| written >= COUNT as f64;
    host.await_count("ccm_events_written_total", &[], LIMIT, all_written).await.unwrap();
    host.events_written().await;
    // Whatever a second look at these Nodes would write is written by now: each is an own key of the queue.
    host.await_count("workqueue_depth", &[], LIMIT, |depth| depth == 0.0).await.unwrap();
    assert_eq!(synced(client).await, once_each(&before));
    assert!(host.lookups().await <= 5.0, "{} lookups", host.lookups().await);

    poll_until("the whole audit log", LIMIT, || audit.writes(stage.user()).len() >= 3 * COUNT).await.unwrap();
    host.end().await;
    let mut writes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, what) in audit.writes(stage.user()) {
        writes.entry(name).or_default().push(what);
    }
    let wanted = ["patch nodes/status 200", "patch nodes 200", "create events 201"].map(ToOwned::to_owned);
    let mut wanted: BTreeMap<_, _> = before.iter().map(|node| (node.name_any(), wanted.to_vec())).collect();
    // Once in the life of a cluster: how the component that leads names load balancers.
    wanted.insert("wasm-ccm-components".to_owned(), vec!["patch configmaps 200".to_owned()]);
    assert_eq!(writes, wanted);

    let event = all_events(client).await.remove(0);
    let about = event.regarding.clone().unwrap();
    let node = before.iter().find(|node| Some(node.name_any()) == about.name).unwrap();
    let seen = json!({
        "namespace": event.metadata.namespace,
        "type": event.type_,
        "reason": event.reason,
        "note": event.note,
        "reportingController": event.reporting_controller,
        "series": event.series,
        "regarding": about,
    });
    let wanted = json!({
        "namespace": "default",
        "type": "Normal",
        "reason": "Synced",
        "note": "Node synced successfully",
        "reportingController": "cloud-node-controller",
        "series": null,
        "regarding": { "apiVersion": "v1", "kind": "Node", "name": node.name_any(), "uid": node.uid() },
    });
    assert_eq!(seen, wanted);
}

fn has_cloud_addresses(node: &Node) -> bool {
    addresses(node).iter().any(|address| address.starts_with("ExternalIP"))
}

/// Watches from before the host starts until all Nodes are done; returns those that were seen without the taint and without
/// the cloud's addresses.
async fn seen_half_done(stage: &Stage, count: usize, flags: &[&str]) -> Vec<String> {
    register_nodes(stage.client(), fixtures(count)).await.unwrap();
    let mut half_done = std::collections::BTreeSet::new();
    let (all_tainted, listed) = tokio::sync::oneshot::channel();
    let mut all_tainted = Some(all_tainted);
    let nodes = nodes(stage.client());
    let watching = await_all(&nodes, watcher::Config::default(), LIMIT, |all| {
        if let Some(sender) = all_tainted.take() {
            sender.send(all.values().all(is_tainted)).unwrap();
        }
        half_done.extend(all.values().filter(|n| !is_tainted(n) && !has_cloud_addresses(n)).map(|n| n.name_any()));
        all.values().all(|node| !is_tainted(node) && has_cloud_addresses(node))
    });
    let playing = async {
        assert!(listed.await.unwrap(), "the watch sees everything from the beginning");
        stage.cloudlycke(flags)
    };
    let (watched, host) = tokio::join!(watching, playing);
    watched.unwrap();
    host.end().await;
    half_done.into_iter().collect()
}

/// 2.3, QUIRK-05: pods would be scheduled on a Node whose addresses are not known.
#[tokio::test]
async fn nobody_ever_sees_a_node_without_taint_and_without_the_addresses_of_its_cloud() {
    let stage = Stage::new().await;
    assert_eq!(seen_half_done(&stage, 30, &[]).await, Vec::<String>::new());
}

#[tokio::test]
async fn with_the_flag_for_it_the_taint_goes_before_the_addresses_come_as_upstream_does() {
    let stage = Stage::new().await;
    let mut wanted: Vec<String> = (0..30).map(|i| format!("n{i}")).collect();
    wanted.sort();
    assert_eq!(seen_half_done(&stage, 30, &["--untaint-before-addresses"]).await, wanted);
}

/// The limit of the batch is the operator's.
#[tokio::test]
async fn no_lookup_is_larger_than_the_operator_allows() {
    let stage = Stage::new().await;
    register_nodes(stage.client(), fixtures(30)).await.unwrap();
    let host = stage.cloudlycke(&["--lookup-batch-nodes=10", "--node-status-update-frequency=1h", "--v=4"]);
    await_all_untainted(stage.client(), 30).await;
    assert!(host.lookups().await >= 3.0, "{} lookups", host.lookups().await);
    host.await_log(LIMIT, &["machines looked up", "nodes=10"]).await.unwrap();
    let log = host.log();
    let sizes = log.iter().filter(|line| line.contains("machines looked up")).filter_map(|line| {
        let (_, rest) = line.split_once(" nodes=")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    });
    let sizes: Vec<u32> = sizes.collect();
    assert!(sizes.iter().all(|size| *size <= 10) && sizes.iter().sum::<u32>() >= 30, "{sizes:?}");
    host.end().await;
}
