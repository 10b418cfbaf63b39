//! What exists in the cluster, for a provider.

use std::sync::Arc;

use ccm_cloud::{Backend, Descriptor, Node, Service};
use ccm_controllers::{
    ClusterNodes, FirstList, ReflectorHandle, cloud_backends, cloud_node, is_uninitialized, recorded_service,
    routed_node,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::sample::sample;

/// Labels that say of which kind a Node is.
const KINDS: [&str; 3] =
    ["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"];

/// All objects, or some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampled<T> {
    /// How many there are.
    pub total: usize,
    /// All of these, or a sample with every kind.
    pub items: Vec<T>,
}

/// What exists.
pub trait Inventory: Send + Sync {
    /// Waits until it is known.
    fn complete(&self) -> BoxFuture<'_, ()>;

    /// What is not known yet, and why.
    fn missing(&self) -> Option<String>;

    /// Nodes whose provider ID begins with one of these, at most so many.
    fn nodes(&self, prefixes: &[String], most: usize) -> Sampled<Node>;

    /// Those of them that were initialised and whose kubelets report: their machines are there.
    fn working_nodes(&self, prefixes: &[String], most: usize) -> Sampled<Node>;

    /// Services whose load balancer the provider has by their record, at most so many.
    fn services(&self, provider: &Descriptor, most: usize) -> Sampled<Service>;

    /// A Node as it is now, as long as it has a provider ID.
    fn node(&self, name: &str) -> Option<Node>;

    /// A Service as it is now, as long as the provider has its load balancer.
    fn service(&self, provider: &Descriptor, namespace: &str, name: &str) -> Option<Service>;

    /// The Nodes behind load balancers.
    fn backends(&self) -> Arc<[Backend]>;

    /// All Nodes to which routes of the provider may lead; none where nobody keeps routes.
    fn routed(&self, provider: &Descriptor) -> Option<Vec<Node>>;
}

/// What the reflectors have.
#[derive(Clone)]
pub struct StoreInventory {
    nodes: ReflectorHandle<ccm_controllers::Node>,
    /// None where no controller works on them: then no load balancer is looked after.
    services: Option<ReflectorHandle<v1::Service>>,
    /// To which Nodes a provider's routes lead. None where no controller keeps routes.
    routed: Option<ClusterNodes>,
}

impl StoreInventory {
    /// Of these reflectors, which somebody runs. `routed`: which Nodes a provider is told when it is asked for routes, if it is.
    #[must_use]
    pub const fn new(
        nodes: ReflectorHandle<ccm_controllers::Node>,
        services: Option<ReflectorHandle<v1::Service>>,
        routed: Option<ClusterNodes>,
    ) -> Self {
        Self { nodes, services, routed }
    }

    fn sampled_nodes(
        &self,
        prefixes: &[String],
        most: usize,
        is_meant: impl Fn(&ccm_controllers::Node) -> bool,
    ) -> Sampled<Node> {
        let mut nodes = self.nodes.reader().state();
        let is_own = |node: &ccm_controllers::Node| {
            let id = node.provider_id.as_deref().unwrap_or_default();
            prefixes.iter().any(|prefix| id.starts_with(prefix.as_str()))
        };
        nodes.retain(|node| !node.is_deleting && is_own(node) && is_meant(node));
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let total = nodes.len();
        let kind = |node: &Arc<ccm_controllers::Node>| {
            (scheme(node).map(ToOwned::to_owned), KINDS.map(|label| node.labels.get(label).map(ToOwned::to_owned)))
        };
        let items = sample(nodes, most, kind).iter().map(|node| cloud_node(node)).collect();
        Sampled { total, items }
    }

    fn lists(&self) -> impl Iterator<Item = (&'static str, FirstList)> {
        let services = self.services.as_ref().map(|services| ("Services", services.first_list()));
        [("Nodes", self.nodes.first_list())].into_iter().chain(services)
    }
}

fn scheme(node: &ccm_controllers::Node) -> Option<&str> {
    node.provider_id.as_deref()?.split_once("://").map(|(scheme, _)| scheme)
}

impl Inventory for StoreInventory {
    fn complete(&self) -> BoxFuture<'_, ()> {
        async {
            for (_, list) in self.lists() {
                if !list.complete().await {
                    // The reflector has ended, and so does the process.
                    std::future::pending::<()>().await;
                }
            }
        }
        .boxed()
    }

    fn missing(&self) -> Option<String> {
        self.lists().find_map(|(kind, list)| list.state().err().map(|why| format!("{kind}: {why}")))
    }

    fn nodes(&self, prefixes: &[String], most: usize) -> Sampled<Node> {
        self.sampled_nodes(prefixes, most, |_| true)
    }

    fn working_nodes(&self, prefixes: &[String], most: usize) -> Sampled<Node> {
        self.sampled_nodes(prefixes, most, |node| node.ready.as_deref() == Some("True") && !is_uninitialized(node))
    }

    fn services(&self, provider: &Descriptor, most: usize) -> Sampled<Service> {
        let Some(services) = &self.services else { return Sampled::default() };
        let mut services = services.reader().state();
        services.retain(|service| recorded_service(service, provider).is_some());
        services.sort_by_cached_key(|service| (service.namespace(), service.name_any()));
        let total = services.len();
        let kind = |service: &Arc<v1::Service>| {
            let spec = service.spec.as_ref();
            let annotations = service.annotations().keys();
            let known =
                annotations.filter(|name| provider.annotations.iter().any(|annotation| annotation.covers(name)));
            (
                spec.and_then(|spec| spec.load_balancer_class.clone()),
                spec.and_then(|spec| spec.external_traffic_policy.clone()),
                spec.and_then(|spec| spec.ip_families.clone()),
                known.cloned().collect::<Vec<_>>(),
            )
        };
        let sampled = sample(services, most, kind);
        let items = sampled.iter().filter_map(|service| recorded_service(service, provider)).collect();
        Sampled { total, items }
    }

    fn node(&self, name: &str) -> Option<Node> {
        let node = self.nodes.reader().get(&ObjectRef::new(name))?;
        (!node.is_deleting && node.provider_id.is_some()).then(|| cloud_node(&node))
    }

    fn service(&self, provider: &Descriptor, namespace: &str, name: &str) -> Option<Service> {
        let service = self.services.as_ref()?.reader().get(&ObjectRef::new(name).within(namespace))?;
        recorded_service(&service, provider)
    }

    fn backends(&self) -> Arc<[Backend]> {
        cloud_backends(&self.nodes.reader().state())
    }

    fn routed(&self, provider: &Descriptor) -> Option<Vec<Node>> {
        let told = self.routed?;
        let is_own = |node: &&Arc<ccm_controllers::Node>| {
            told == ClusterNodes::All || node.provider_id.as_deref().is_some_and(|id| provider.owns(id))
        };
        Some(self.nodes.reader().state().iter().filter(is_own).map(|node| routed_node(node)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use ccm_controllers::{Metrics, Reflector};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// An API server with these Nodes.
    fn client(nodes: Vec<Value>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": nodes.clone() }).to_string();
            async move {
                if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                    std::future::pending().await
                }
                Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    fn node(name: &str, provider_id: Option<&str>, zone: &str) -> Value {
        json!({
            "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
            "spec": { "providerID": provider_id },
        })
    }

    #[tokio::test]
    async fn nodes_of_the_provider_are_there_when_the_list_is_complete_and_a_sample_has_every_zone() {
        let mut going = node("going", Some("fake://x"), "a");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut all = vec![node("new", None, "a"), node("foreign", Some("other://x"), "a"), going];
        all.extend((0..20).map(|number| node(&format!("n{number:02}"), Some("older://x"), "a")));
        all.push(node("alone", Some("fake://x"), "b"));
        for (name, ready, taints) in [
            ("works", "True", json!([])),
            ("silent", "Unknown", json!([])),
            (
                "uninitialised",
                "True",
                json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]),
            ),
        ] {
            let mut node = node(name, Some("fake://x"), "a");
            node["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
            node["spec"]["taints"] = taints;
            all.push(node);
        }
        let metrics = Metrics::register(&mut Registry::default());
        let nodes = Reflector::new(client(all), &metrics.store);
        let inventory = StoreInventory::new(nodes.handle(), None, Some(ClusterNodes::Own));
        assert_eq!(inventory.missing().unwrap(), "Nodes: the first list is not complete");
        assert!(inventory.complete().now_or_never().is_none());
        tokio::select! {
            () = nodes.run(CancellationToken::new()) => {}
            () = inventory.complete() => {}
        }
        assert_eq!(inventory.missing(), None);
        let prefixes = ["fake://", "older://"].map(ToOwned::to_owned);
        let whole = inventory.nodes(&prefixes, 100);
        assert_eq!((whole.total, whole.items.len(), whole.items[0].name.as_str()), (24, 24, "alone"));
        let working = inventory.working_nodes(&prefixes, 100).items;
        assert_eq!(working.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["works"]);
        let few = inventory.nodes(&prefixes, 4);
        assert!(
            few.total == 24 && few.items.len() == 4 && few.items.iter().any(|node| node.name == "alone"),
            "{few:?}"
        );
        assert_eq!(
            ["alone", "new", "going", "none"].map(|name| inventory.node(name).is_some()),
            [true, false, false, false]
        );
        assert_eq!(inventory.backends().len(), 26, "those of other clouds too");
        let provider = Descriptor { provider_id_schemes: vec!["fake".to_owned()], ..Descriptor::default() };
        let routed =
            |nodes| StoreInventory { routed: nodes, ..inventory.clone() }.routed(&provider).map(|all| all.len());
        assert_eq!([None, Some(ClusterNodes::Own), Some(ClusterNodes::All)].map(routed), [None, Some(5), Some(27)]);
    }
}
