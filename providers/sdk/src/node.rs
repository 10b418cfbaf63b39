//! Nodes, Services and machines of which little is known: for tests, and for questions about machines whose Node is not at hand.

use crate::instances::{Instance, State};
use crate::types::{Node, Service, ServiceType, TrafficPolicy};

impl Node {
    /// One of which nothing but the name is known. The rest is said after it: `Node { provider_id, ..Node::named("a") }`.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            uid: String::new(),
            provider_id: None,
            system_uuid: None,
            addresses: vec![],
            labels: vec![],
            annotations: vec![],
            capacity: vec![],
            taints: vec![],
            more: vec![],
        }
    }
}

impl Node {
    /// The value of an annotation that `meta.describe` declares. Others are not here.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

impl Service {
    /// One of type `LoadBalancer` in the namespace `default`, without ports. The rest is said after it, as of [`Node::named`].
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            uid: format!("uid-{name}"),
            name,
            namespace: "default".to_owned(),
            kind: ServiceType::LoadBalancer,
            deleting: false,
            labels: vec![],
            annotations: vec![],
            ports: vec![],
            ip_families: vec![],
            external_traffic_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            client_ip_affinity_seconds: None,
            requested_ip: None,
            source_ranges: vec![],
            load_balancer_class: None,
            ingress: vec![],
            more: vec![],
        }
    }
}

impl Instance {
    /// One that exists, and nothing else is known. The rest is said after it, as of [`Node::named`]. What is empty leaves the
    /// Node as it is.
    pub fn new(provider_id: impl Into<String>, state: State) -> Self {
        Self {
            provider_id: provider_id.into(),
            instance_type: String::new(),
            addresses: vec![],
            zone: String::new(),
            region: String::new(),
            labels: vec![],
            state,
            more: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_name_has_nothing_else_but_what_is_said_after_it() {
        let node = Node { provider_id: Some("x://1".to_owned()), ..Node::named("a") };
        assert_eq!((node.name.as_str(), node.provider_id.as_deref(), node.system_uuid), ("a", Some("x://1"), None));
        assert!(node.uid.is_empty() && node.addresses.is_empty() && node.labels.is_empty() && node.taints.is_empty());
        assert!(node.annotations.is_empty() && node.capacity.is_empty() && node.more.is_empty());
    }
}
