//! What a test makes in the cluster, and what it sees there.

use std::collections::BTreeMap;

use ccm_cluster::{NodeFixture, UNINITIALIZED_TAINT, await_all, await_node};
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::stage::LIMIT;

/// The six labels of a machine.
pub(crate) const PAIRS: [(&str, &str); 3] = [
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];
pub(crate) const MODE: &str = "cloudlycke.io/mode";
pub(crate) const STATE: &str = "cloudlycke.io/instance-state";
pub(crate) const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Of a fixture's capacity.
pub(crate) const FIXTURE_TYPE: &str = "vbox.vm.16g.4cpu";

pub(crate) fn nodes(client: &Client) -> Api<Node> {
    Api::all(client.clone())
}

pub(crate) async fn get(client: &Client, name: &str) -> Node {
    nodes(client).get(name).await.unwrap()
}

pub(crate) async fn create(client: &Client, node: &Node) -> Node {
    nodes(client).create(&PostParams::default(), node).await.unwrap()
}

/// Changes spec or metadata of a Node, as somebody else.
pub(crate) async fn patch(client: &Client, name: &str, patch: &Value) -> Node {
    nodes(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Changes the status of a Node, as its kubelet.
pub(crate) async fn patch_status(client: &Client, name: &str, status: &Value) -> Node {
    let patch = json!({ "status": status });
    nodes(client).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

pub(crate) async fn annotate(client: &Client, name: &str, annotation: &str, value: Option<&str>) -> Node {
    patch(client, name, &json!({ "metadata": { "annotations": { annotation: value } } })).await
}

/// A Node whose kubelet reports exactly these addresses, each as `TYPE ADDRESS`.
pub(crate) fn with_addresses(fixture: NodeFixture, addresses: &[&str]) -> Node {
    let mut node = fixture.build();
    node.status.as_mut().unwrap().addresses = Some(addresses.iter().map(|text| address(text)).collect());
    node
}

fn address(text: &str) -> NodeAddress {
    let (kind, address) = text.split_once(' ').unwrap();
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

/// Each as `TYPE ADDRESS`.
pub(crate) fn addresses(node: &Node) -> Vec<String> {
    let entries = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    entries.map(|entry| format!("{} {}", entry.type_, entry.address)).collect()
}

pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == UNINITIALIZED_TAINT)
}

pub(crate) async fn await_untainted(client: &Client, name: &str) -> Node {
    await_node(client, name, LIMIT, |node| !is_tainted(node)).await.unwrap()
}

/// Waits until there are this many Nodes and none is tainted.
pub(crate) async fn await_all_untainted(client: &Client, count: usize) -> BTreeMap<String, Node> {
    let done = |all: &BTreeMap<String, Node>| all.len() == count && !all.values().any(is_tainted);
    await_all(&nodes(client), watcher::Config::default(), LIMIT, done).await.unwrap()
}

/// A Node without what changes with every write.
pub(crate) fn bare(node: &Node) -> Value {
    let mut node = node.clone();
    node.metadata.managed_fields = None;
    node.metadata.resource_version = None;
    serde_json::to_value(node).unwrap()
}

/// What the cloud knows of a machine.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) provider_id: String,
    pub(crate) instance_type: &'static str,
    pub(crate) zone: &'static str,
    pub(crate) region: &'static str,
    /// Value of the additional label; none where the Node had one before.
    pub(crate) mode: Option<&'static str>,
    /// What the Node has in the end; empty: what it had.
    pub(crate) addresses: Vec<&'static str>,
}

impl Machine {
    /// What Cloudlycke says of a fixture that nobody configured anything for.
    pub(crate) fn new(provider_id: &str, addresses: &[&'static str]) -> Self {
        Self {
            provider_id: provider_id.to_owned(),
            instance_type: FIXTURE_TYPE,
            zone: "virtualbox",
            region: "virtualbox",
            mode: Some("adaptive"),
            addresses: addresses.to_vec(),
        }
    }

    /// The Node as it must be after its initialisation: as before but for what the cloud says, and without the taint.
    pub(crate) fn applied_to(&self, before: &Node) -> Value {
        let mut node = before.clone();
        let labels = node.metadata.labels.get_or_insert_default();
        for ((old, new), value) in PAIRS.into_iter().zip([self.instance_type, self.zone, self.region]) {
            labels.insert(old.to_owned(), value.to_owned());
            labels.insert(new.to_owned(), value.to_owned());
        }
        labels.extend(self.mode.map(|mode| (MODE.to_owned(), mode.to_owned())));
        let spec = node.spec.get_or_insert_default();
        spec.provider_id = Some(self.provider_id.clone());
        spec.taints = spec.taints.take().map(|mut taints| {
            taints.retain(|taint| taint.key != UNINITIALIZED_TAINT);
            taints
        });
        spec.taints = spec.taints.take().filter(|taints| !taints.is_empty());
        if !self.addresses.is_empty() {
            node.status.get_or_insert_default().addresses =
                Some(self.addresses.iter().map(|text| address(text)).collect());
        }
        bare(&node)
    }
}

// === Events ===

fn events_api(client: &Client) -> Api<Event> {
    Api::all(client.clone())
}

/// All Events that a host wrote; the API server has some of its own.
pub(crate) async fn all_events(client: &Client) -> Vec<Event> {
    let all: Vec<Event> = Api::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter(|event| event.reporting_instance.as_deref() == Some("wasm-ccm")).collect()
}

/// Events about a Node.
pub(crate) async fn events_about(client: &Client, name: &str) -> Vec<Event> {
    all_events(client).await.into_iter().filter(|event| is_about(event, name)).collect()
}

/// Each Event about an object as `TYPE REASON: NOTE`, in order of time, with how often it was said where that is more than once.
pub(crate) async fn told(client: &Client, name: &str) -> Vec<String> {
    let mut events = events_about(client, name).await;
    events.sort_by_key(|event| event.event_time.clone());
    let line = |event: Event| {
        let times = event.series.map(|series| format!(" ({} times)", series.count)).unwrap_or_default();
        let part = Option::unwrap_or_default;
        format!("{} {}: {}{times}", part(event.type_), part(event.reason), part(event.note))
    };
    events.into_iter().map(line).collect()
}

/// What was said of an object, as types and reasons in order of time.
///
/// # Panics
///
/// Something was said more than once.
pub(crate) async fn told_once(client: &Client, name: &str) -> Vec<String> {
    let told = told(client, name).await;
    assert!(told.iter().all(|line| !line.ends_with(" times)")), "said more than once of {name}: {told:?}");
    told.into_iter().map(|line| line.split_once(':').map(|(what, _)| what.to_owned()).unwrap_or(line)).collect()
}

fn is_about(event: &Event, name: &str) -> bool {
    event.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some(name))
}

/// Waits for an Event about a Node that has this type and reason and says all of `parts`; returns its text.
pub(crate) async fn await_event(client: &Client, name: &str, kind: &str, reason: &str, parts: &[&str]) -> String {
    let fits = |event: &&Event| {
        let note = event.note.as_deref().unwrap_or_default();
        is_about(event, name)
            && (event.type_.as_deref(), event.reason.as_deref()) == (Some(kind), Some(reason))
            && parts.iter().all(|part| note.contains(part))
    };
    let there = |all: &BTreeMap<String, Event>| all.values().find(&fits).is_some();
    let waited = await_all(&events_api(client), watcher::Config::default(), LIMIT, there).await;
    let all = waited.unwrap_or_else(|error| panic!("no {kind} {reason} about {name} says {parts:?}: {error:#}"));
    all.values().find(&fits).and_then(|event| event.note.clone()).unwrap()
}

/// UIDs of the Nodes that `Synced` was said of, by name: one per Event.
pub(crate) async fn synced(client: &Client) -> BTreeMap<String, Vec<String>> {
    let mut synced: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in all_events(client).await.into_iter().filter(|event| event.reason.as_deref() == Some("Synced")) {
        let about = event.regarding.unwrap();
        let count = event.series.map_or(1, |series| series.count);
        let uids = synced.entry(about.name.unwrap()).or_default();
        uids.extend((0..count).map(|_| about.uid.clone().unwrap()));
    }
    synced
}

/// What [`synced`] must be when each of these Nodes was initialised exactly once.
pub(crate) fn once_each<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> BTreeMap<String, Vec<String>> {
    nodes.into_iter().map(|node| (node.name_any(), vec![node.uid().unwrap()])).collect()
}
