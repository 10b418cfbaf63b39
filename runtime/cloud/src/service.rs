//! A Kubernetes Service as far as making its load balancer needs it.

use serde::Serialize;

use crate::{Address, Attributes};

/// `spec.type`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub enum ServiceType {
    /// `LoadBalancer`
    LoadBalancer,
    /// `NodePort`
    NodePort,
    /// `ClusterIP`, the default.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// `ExternalName`
    ExternalName,
}

/// `protocol` of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// The default.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Messages in several streams.
    Sctp,
}

impl Protocol {
    /// The word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

/// An entry of `spec.ipFamilies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum IpFamily {
    /// `IPv4`
    #[serde(rename = "IPv4")]
    V4,
    /// `IPv6`
    #[serde(rename = "IPv6")]
    V6,
}

/// `spec.externalTrafficPolicy`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub enum TrafficPolicy {
    /// Every Node takes traffic, the default.
    #[default]
    Cluster,
    /// Only Nodes with a ready endpoint take traffic.
    Local,
}

/// An entry of `spec.ports`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ServicePort {
    /// Empty only when the Service has a single port.
    pub name: String,
    /// What it carries.
    pub protocol: Protocol,
    /// `appProtocol`
    pub app_protocol: Option<String>,
    /// The port at the load balancer.
    pub port: u16,
    /// The port at every Node. Absent when `spec.allocateLoadBalancerNodePorts` is false.
    pub node_port: Option<u16>,
}

/// Whether kube-proxy may short-cut traffic to the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum IpMode {
    /// It may.
    #[serde(rename = "VIP")]
    Vip,
    /// It must not: the load balancer changes the traffic.
    Proxy,
}

/// An entry of `status.loadBalancer.ingress[].ports`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct PortStatus {
    /// The port at the load balancer.
    pub port: u16,
    /// What it carries.
    pub protocol: Protocol,
    /// A CamelCase reason when this port does not work.
    pub error: Option<String>,
}

/// An entry of `status.loadBalancer.ingress`: where clients reach the Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Ingress {
    /// An address.
    pub ip: Option<String>,
    /// A host name.
    pub hostname: Option<String>,
    /// Only with `ip`; Kubernetes takes `VIP` when it is not said.
    pub ip_mode: Option<IpMode>,
    /// State of single ports; mostly empty.
    pub ports: Vec<PortStatus>,
}

/// The contract's `service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Service {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.uid`
    pub uid: String,
    /// `spec.type`
    pub kind: ServiceType,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`
    pub labels: Attributes,
    /// `metadata.annotations`. All of them on this side of the contract; a component gets only those that it declared.
    pub annotations: Attributes,
    /// `spec.ports`
    pub ports: Vec<ServicePort>,
    /// `spec.ipFamilies`, in order of preference.
    pub ip_families: Vec<IpFamily>,
    /// `spec.externalTrafficPolicy`
    pub external_traffic_policy: TrafficPolicy,
    /// `spec.healthCheckNodePort`, only with the traffic policy `Local` and only when it is not 0.
    pub health_check_node_port: Option<u16>,
    /// `spec.sessionAffinity: ClientIP`, with its time-out in seconds; absent for `None`.
    pub client_ip_affinity_seconds: Option<u32>,
    /// `spec.loadBalancerIP`, where it says anything.
    pub requested_ip: Option<String>,
    /// `spec.loadBalancerSourceRanges`: checked, normalised, each once. Empty means everybody.
    pub source_ranges: Vec<String>,
    /// `spec.loadBalancerClass`
    pub load_balancer_class: Option<String>,
    /// What `status.loadBalancer` says now.
    pub ingress: Vec<Ingress>,
    /// Room for growth: [`Self::TAKEN_OVER`].
    pub more: Attributes,
}

impl Service {
    /// In `more`: the annotations that the provider writes lead to a load balancer that no Service of this cluster has, and that is for
    /// this one to take over. The value is the UID of its mark, empty where nobody knows whose it was.
    pub const TAKEN_OVER: &'static str = "taken-over";
}

/// A Node that a load balancer should send traffic to: the contract's `backend`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Backend {
    /// `metadata.name`
    pub name: String,
    /// `spec.providerID`
    pub provider_id: Option<String>,
    /// `status.addresses`; entries of kinds that Kubernetes does not define are left out.
    pub addresses: Vec<Address>,
}
