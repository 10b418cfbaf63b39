//! Nodes as kubelets register them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::{ContainerImage, Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};

/// A kubelet that was started with `--cloud-provider=external` registers its Node with this taint, effect NoSchedule and
/// value "true".
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Requests of [`register_nodes`] at a time: enough to keep the API server busy, below its default limit of 200.
const REGISTER_AT_ONCE: usize = 64;

/// A Node as a kubelet with `--cloud-provider=external` registers it: uninitialised, ready, with host name, capacity
/// and images, 2.5 KB. Methods change what the test is about.
#[derive(Clone, Debug)]
pub struct NodeFixture {
    node: Node,
}

impl NodeFixture {
    /// A Node without IP address.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let labels = [
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", &name),
            ("kubernetes.io/os", "linux"),
        ];
        let node = Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                annotations: Some(
                    [("volumes.kubernetes.io/controller-managed-attach-detach".to_owned(), "true".to_owned())].into(),
                ),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec::default()),
            status: Some(status(&name)),
        };
        Self { node }.taint(UNINITIALIZED_TAINT, "true", "NoSchedule")
    }

    /// Adds an address of type InternalIP.
    #[must_use]
    pub fn internal_ip(self, ip: &str) -> Self {
        self.address("InternalIP", ip)
    }

    /// Adds an address.
    #[must_use]
    pub fn address(mut self, kind: &str, address: &str) -> Self {
        let address = NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
        self.status().addresses.get_or_insert_default().push(address);
        self
    }

    /// As with the kubelet's flag `--node-ip`: the address, and the annotation that asks the cloud to confirm it.
    /// Several, separated by commas, are dual stack.
    #[must_use]
    pub fn provided_node_ip(mut self, ips: &str) -> Self {
        for ip in ips.split(',') {
            self = self.internal_ip(ip);
        }
        self.annotation("alpha.kubernetes.io/provided-node-ip", ips)
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.node.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.node.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let value = (!value.is_empty()).then(|| value.to_owned());
        let taint = Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None };
        self.spec().taints.get_or_insert_default().push(taint);
        self
    }

    /// As with the kubelet's flag `--provider-id`.
    #[must_use]
    pub fn provider_id(mut self, id: &str) -> Self {
        self.spec().provider_id = Some(id.to_owned());
        self
    }

    /// As if the node IPAM controller had been there.
    #[must_use]
    pub fn pod_cidr(mut self, cidr: &str) -> Self {
        self.spec().pod_cidr = Some(cidr.to_owned());
        self.spec().pod_cidrs.get_or_insert_default().push(cidr.to_owned());
        self
    }

    /// Takes the taint away that waits for a cloud controller manager.
    #[must_use]
    pub fn initialized(mut self) -> Self {
        self.spec().taints.get_or_insert_default().retain(|taint| taint.key != UNINITIALIZED_TAINT);
        self
    }

    /// As a cloud controller manager leaves the addresses: the kubelet's host name comes after those that the cloud names.
    #[must_use]
    pub fn hostname_last(mut self) -> Self {
        self.status().addresses.get_or_insert_default().sort_by_key(|address| address.type_ == "Hostname");
        self
    }

    /// The condition Ready is false, as in the first seconds of a kubelet. With kwok it becomes true at once.
    #[must_use]
    pub fn not_ready(mut self) -> Self {
        for condition in self.status().conditions.iter_mut().flatten().filter(|condition| condition.type_ == "Ready") {
            *condition = node_condition("Ready", "False", "KubeletNotReady", "container runtime network not ready");
        }
        self
    }

    /// Lets kwok play the kubelet ([`Settings::kwok`](crate::Settings::kwok)).
    #[must_use]
    pub fn kwok(self) -> Self {
        self.annotation("kwok.x-k8s.io/node", "fake")
    }

    /// The object.
    pub fn build(self) -> Node {
        self.node
    }

    /// Creates the Node.
    ///
    /// # Errors
    /// What the API server says, for example that it exists already.
    pub async fn register(self, client: &Client) -> Result<Node> {
        let name = self.node.metadata.name.clone().unwrap_or_default();
        Api::all(client.clone())
            .create(&PostParams::default(), &self.node)
            .await
            .with_context(|| format!("cannot register node {name}"))
    }

    fn spec(&mut self) -> &mut NodeSpec {
        self.node.spec.get_or_insert_default()
    }

    fn status(&mut self) -> &mut NodeStatus {
        self.node.status.get_or_insert_default()
    }
}

/// Creates Nodes, many at a time; returns them in the order of their creation.
///
/// # Errors
/// The first one that could not be created.
///
/// # Cancel safety
/// Some Nodes exist when the future is dropped.
pub async fn register_nodes(client: &Client, nodes: impl IntoIterator<Item = NodeFixture>) -> Result<Vec<Node>> {
    stream::iter(nodes).map(|node| node.register(client)).buffer_unordered(REGISTER_AT_ONCE).try_collect().await
}

fn status(name: &str) -> NodeStatus {
    NodeStatus {
        addresses: Some(vec![NodeAddress { type_: "Hostname".to_owned(), address: name.to_owned() }]),
        allocatable: Some(resources("3920m", "15652768Ki", "44236151k")),
        capacity: Some(resources("4", "16074656Ki", "48000164k")),
        conditions: Some(vec![
            node_condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
            node_condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            node_condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            node_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]),
        images: Some(vec![
            image("registry.example/kube-proxy", 'a', 31_000_000),
            image("registry.example/pause", 'b', 320_000),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            boot_id: "6f1f2bb2-6a52-4f0e-9d8f-0f2f6f1f2bb2".to_owned(),
            container_runtime_version: "containerd://2.1.4".to_owned(),
            kernel_version: "6.12.41-cloud-amd64".to_owned(),
            kubelet_version: "v1.36.1".to_owned(),
            machine_id: "0f3c5a2d6e7b4c1f9a8b7c6d5e4f3a2b".to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "Debian GNU/Linux 13 (trixie)".to_owned(),
            system_uuid: "0f3c5a2d-6e7b-4c1f-9a8b-7c6d5e4f3a2b".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn resources(cpu: &str, memory: &str, storage: &str) -> BTreeMap<String, Quantity> {
    [("cpu", cpu), ("memory", memory), ("ephemeral-storage", storage), ("hugepages-2Mi", "0"), ("pods", "110")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

fn node_condition(kind: &str, status: &str, reason: &str, message: &str) -> NodeCondition {
    let now = Some(Time(Timestamp::now()));
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: now.clone(),
        last_transition_time: now,
    }
}

fn image(name: &str, digit: char, size: i64) -> ContainerImage {
    let digest = digit.to_string().repeat(64);
    ContainerImage {
        names: Some(vec![format!("{name}@sha256:{digest}"), format!("{name}:v1")]),
        size_bytes: Some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_has_the_size_of_a_real_node() {
        let bytes = serde_json::to_vec(&NodeFixture::new("n1").internal_ip("10.0.0.1").build()).unwrap();
        assert!((2_200..2_800).contains(&bytes.len()), "{} bytes", bytes.len());
    }

    #[test]
    fn an_initialized_fixture_keeps_its_other_taints() {
        let node = NodeFixture::new("n1").taint("gpu", "", "NoExecute").initialized().build();
        let taint = Taint { key: "gpu".to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
        assert_eq!(node.spec.unwrap().taints, Some(vec![taint]));
    }

    #[test]
    fn several_provided_addresses_are_one_annotation() {
        let node = NodeFixture::new("n1").provided_node_ip("10.0.0.1,fd00::1").build();
        assert_eq!(node.metadata.annotations.unwrap()["alpha.kubernetes.io/provided-node-ip"], "10.0.0.1,fd00::1");
        let addresses: Vec<_> = node.status.unwrap().addresses.unwrap().into_iter().map(|a| a.address).collect();
        assert_eq!(addresses, ["n1", "10.0.0.1", "fd00::1"]);
    }
}
