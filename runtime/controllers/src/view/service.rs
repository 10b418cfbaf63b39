//! A Kubernetes Service as the cloud side sees it.

use ccm_cloud::{
    Failure, Ingress, IpFamily, IpMode, PortStatus, Protocol, Reaction, ServicePort, ServiceType, TrafficPolicy,
};
use k8s_openapi::api::core::v1::{self, LoadBalancerIngress, Service};

use super::source_ranges::source_ranges;

/// `sessionAffinityConfig.clientIP.timeoutSeconds` when it is not said.
const AFFINITY_SECONDS: u32 = 10_800;

/// Whether it is of the type `LoadBalancer`, of whatever class.
#[must_use]
pub fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Whether somebody has deleted it, and a finalizer keeps it.
#[must_use]
pub fn is_deleting(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

/// What can be read of the Service, and what is wrong with it. With the latter no load balancer can be made of it: what could
/// not be read is missing. To delete one it is good enough.
pub(crate) fn cloud_service(service: &Service) -> (ccm_cloud::Service, Option<Failure>) {
    let metadata = &service.metadata;
    let spec = service.spec.as_ref();
    let kind = match spec.and_then(|spec| spec.type_.as_deref()) {
        Some("LoadBalancer") => ServiceType::LoadBalancer,
        Some("NodePort") => ServiceType::NodePort,
        Some("ExternalName") => ServiceType::ExternalName,
        _ => ServiceType::ClusterIp,
    };
    let local = spec.and_then(|spec| spec.external_traffic_policy.as_deref()) == Some("Local");
    let mut wrong = None;
    let mut sound = |part: Result<Vec<ServicePort>, Failure>| part.map_err(|failure| wrong = Some(failure)).ok();
    let ports = sound(ports(spec)).unwrap_or_default();
    let source_ranges = match source_ranges(spec) {
        Ok(ranges) => ranges,
        Err(failure) => {
            wrong.get_or_insert(failure);
            vec![]
        }
    };
    let affinity = spec.filter(|spec| spec.session_affinity.as_deref() == Some("ClientIP")).map(|spec| {
        let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        let seconds = config.and_then(|client_ip| client_ip.timeout_seconds);
        seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(AFFINITY_SECONDS)
    });
    let view = ccm_cloud::Service {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        kind,
        deleting: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        ports,
        ip_families: spec.map(ip_families).unwrap_or_default(),
        external_traffic_policy: if local { TrafficPolicy::Local } else { TrafficPolicy::Cluster },
        health_check_node_port: spec
            .filter(|_| local && kind == ServiceType::LoadBalancer)
            .and_then(|spec| u16::try_from(spec.health_check_node_port?).ok())
            .filter(|port| *port != 0),
        client_ip_affinity_seconds: affinity,
        requested_ip: spec.and_then(|spec| spec.load_balancer_ip.clone()).filter(|ip| !ip.is_empty()),
        source_ranges,
        load_balancer_class: spec.and_then(|spec| spec.load_balancer_class.clone()),
        ingress: ingress(service),
        more: Default::default(),
    };
    (view, wrong)
}

fn ip_families(spec: &v1::ServiceSpec) -> Vec<IpFamily> {
    let family = |name: &String| match name.as_str() {
        "IPv4" => Some(IpFamily::V4),
        "IPv6" => Some(IpFamily::V6),
        _ => None,
    };
    spec.ip_families.iter().flatten().filter_map(family).collect()
}

/// A Service whose ports cannot be read, or that has none, must not empty its load balancer.
fn ports(spec: Option<&v1::ServiceSpec>) -> Result<Vec<ServicePort>, Failure> {
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    if ports.is_empty() {
        return Err(invalid("spec.ports".into(), "a load balancer needs at least one port"));
    }
    ports.iter().enumerate().map(|(index, port)| self::port(index, port)).collect()
}

fn port(index: usize, port: &v1::ServicePort) -> Result<ServicePort, Failure> {
    let field = |name: &str| format!("spec.ports[{index}].{name}");
    let number = |name: &str, value: i32| {
        u16::try_from(value).map_err(|_out| invalid(field(name), format!("{value} is no port: 1 to 65535 would be")))
    };
    let word = port.protocol.as_deref().unwrap_or("TCP");
    let protocol =
        protocol(word).ok_or_else(|| invalid(field("protocol"), format!("{word:?} is none of TCP, UDP and SCTP")))?;
    let node_port = number("nodePort", port.node_port.unwrap_or_default())?;
    Ok(ServicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol,
        app_protocol: port.app_protocol.clone(),
        port: number("port", port.port)?,
        node_port: (node_port != 0).then_some(node_port),
    })
}

fn protocol(word: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|protocol| protocol.as_str() == word)
}

fn invalid(field: String, message: impl Into<String>) -> Failure {
    Failure { field: Some(field), ..Failure::new(Reaction::Invalid, message) }
}

/// `status.loadBalancer.ingress`
pub(crate) fn ingress(service: &Service) -> Vec<Ingress> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default().iter().map(entry).collect()
}

/// The addresses and host names that `status.loadBalancer` gives to those who connect.
#[must_use]
pub fn published_addresses(service: &Service) -> Vec<String> {
    ingress(service).into_iter().filter_map(|place| place.ip.or(place.hostname)).collect()
}

fn entry(entry: &LoadBalancerIngress) -> Ingress {
    let port = |port: &v1::PortStatus| {
        Some(PortStatus {
            port: u16::try_from(port.port).ok()?,
            protocol: protocol(&port.protocol)?,
            error: port.error.clone(),
        })
    };
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Ingress {
        ip: text(&entry.ip),
        hostname: text(&entry.hostname),
        ip_mode: match entry.ip_mode.as_deref() {
            Some("VIP") => Some(IpMode::Vip),
            Some("Proxy") => Some(IpMode::Proxy),
            _ => None,
        },
        ports: entry.ports.iter().flatten().filter_map(port).collect(),
    }
}

/// The same list as the status would have it after it was written: the API server fills in what an address without a mode
/// means.
pub(crate) fn as_stored(ingress: &[Ingress]) -> Vec<Ingress> {
    let stored = |entry: &Ingress| {
        let ip_mode = entry.ip_mode.or_else(|| entry.ip.as_ref().map(|_| IpMode::Vip));
        Ingress { ip_mode, ..entry.clone() }
    };
    ingress.iter().map(stored).collect()
}
