//! Services and backends, on their way into a guest.

use ccm_cloud::{
    Backend, Ingress, IpFamily, IpMode, PortStatus, Protocol, Service, ServicePort, ServiceType, TrafficPolicy, Wish,
};

use super::{Entering, is_declared, to_address};
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::load_balancer_survey;

pub(crate) fn wish(wish: Wish, entering: &Entering<'_>) -> load_balancer_survey::Wish {
    load_balancer_survey::Wish { service: service(wish.service, entering), backends: wish.backends }
}

pub(crate) fn service(service: Service, entering: &Entering<'_>) -> types::Service {
    let mut annotations = service.annotations;
    annotations.retain(|name, _| is_declared(name, entering.declared));
    let object = format!("{}/{}", service.namespace, service.name);
    let of = ("Service", object.as_str());
    let field = |name: &str, text: String| entering.field(of, name, text);
    let annotations = entering.texts(of, "annotation", annotations);
    let labels = entering.texts(of, "label", service.labels);
    let source_ranges = service.source_ranges.into_iter();
    types::Service {
        name: service.name,
        namespace: service.namespace,
        uid: service.uid,
        kind: match service.kind {
            ServiceType::LoadBalancer => types::ServiceType::LoadBalancer,
            ServiceType::NodePort => types::ServiceType::NodePort,
            ServiceType::ClusterIp => types::ServiceType::ClusterIp,
            ServiceType::ExternalName => types::ServiceType::ExternalName,
        },
        deleting: service.deleting,
        labels,
        annotations,
        ports: service.ports.into_iter().map(|one| port(one, field)).collect(),
        ip_families: service.ip_families.into_iter().map(ip_family).collect(),
        external_traffic_policy: match service.external_traffic_policy {
            TrafficPolicy::Cluster => types::TrafficPolicy::Cluster,
            TrafficPolicy::Local => types::TrafficPolicy::Local,
        },
        health_check_node_port: service.health_check_node_port,
        client_ip_affinity_seconds: service.client_ip_affinity_seconds,
        requested_ip: service.requested_ip.map(|ip| field("spec.loadBalancerIP", ip)),
        source_ranges: source_ranges.map(|range| field("spec.loadBalancerSourceRanges", range)).collect(),
        load_balancer_class: service.load_balancer_class.map(|class| field("spec.loadBalancerClass", class)),
        ingress: service.ingress.into_iter().map(ingress).collect(),
        more: service.more.into_iter().collect(),
    }
}

/// `field` takes secrets out of the text of a field.
fn port(port: ServicePort, field: impl Fn(&str, String) -> String) -> types::ServicePort {
    let ServicePort { name, protocol: carries, app_protocol, port, node_port } = port;
    let name = field("spec.ports[].name", name);
    let app_protocol = app_protocol.map(|word| field("spec.ports[].appProtocol", word));
    types::ServicePort { name, protocol: protocol(carries), app_protocol, port, node_port }
}

const fn protocol(protocol: Protocol) -> types::Protocol {
    match protocol {
        Protocol::Tcp => types::Protocol::Tcp,
        Protocol::Udp => types::Protocol::Udp,
        Protocol::Sctp => types::Protocol::Sctp,
    }
}

const fn ip_family(family: IpFamily) -> types::IpFamily {
    match family {
        IpFamily::V4 => types::IpFamily::Ipv4,
        IpFamily::V6 => types::IpFamily::Ipv6,
    }
}

fn ingress(ingress: Ingress) -> types::Ingress {
    let Ingress { ip, hostname, ip_mode, ports } = ingress;
    let status =
        |PortStatus { port, protocol: carries, error }| types::PortStatus { port, protocol: protocol(carries), error };
    types::Ingress {
        ip,
        hostname,
        ip_mode: ip_mode.map(|mode| match mode {
            IpMode::Vip => types::IpMode::Vip,
            IpMode::Proxy => types::IpMode::Proxy,
        }),
        ports: ports.into_iter().map(status).collect(),
        more: vec![],
    }
}

/// Backends that calls share.
pub(crate) fn backends<'a>(backends: impl Iterator<Item = &'a Backend>) -> Vec<types::Backend> {
    let backend = |Backend { name, provider_id, addresses }: &Backend| types::Backend {
        name: name.clone(),
        provider_id: provider_id.clone(),
        addresses: addresses.iter().cloned().map(to_address).collect(),
        more: vec![],
    };
    backends.map(backend).collect()
}
