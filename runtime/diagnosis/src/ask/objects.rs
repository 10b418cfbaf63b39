//! Nodes and Services, as the controllers judge them.

use std::sync::Arc;

use ccm_apiserver::lacks_right;
use ccm_controllers::{
    Node, asks_no_manager, is_deleting, is_load_balancer, is_uninitialized, load_balancer_class, needs_cleanup,
    published_addresses, ready_condition, was_ensured_here,
};
use k8s_openapi::api::core::v1::{Node as WholeNode, Service};
use kube::{Api, Client};

use super::api_server::{all, answered};
use crate::explain::Target;

/// The object that is asked about, as far as it matters.
#[derive(Debug)]
pub(crate) enum Object {
    /// The API server does not have it.
    Missing,
    /// The API server does not say.
    Unread,
    /// Whoever asks may not read it.
    Forbidden,
    Service(ServiceFacts),
    Node(NodeFacts),
}

impl Object {
    /// The UID; empty where nobody says it.
    pub(crate) fn uid(&self) -> &str {
        match self {
            Self::Missing | Self::Unread | Self::Forbidden => "",
            Self::Service(facts) => &facts.uid,
            Self::Node(facts) => &facts.uid,
        }
    }
}

/// What a Service says.
#[derive(Debug, Default)]
pub(crate) struct ServiceFacts {
    pub(crate) uid: String,
    pub(crate) is_load_balancer: bool,
    pub(crate) is_deleting: bool,
    /// A host of wasm-ccm has worked on it.
    pub(crate) is_known_here: bool,
    /// The load balancer has to go, and the finalizer waits for that.
    pub(crate) needs_cleanup: bool,
    pub(crate) class: Option<String>,
    pub(crate) addresses: Vec<String>,
    /// Status, reason and message of the condition `LoadBalancerReady`.
    pub(crate) ready: Option<(String, String, String)>,
}

/// What a Node says.
#[derive(Debug, Default)]
pub(crate) struct NodeFacts {
    pub(crate) uid: String,
    pub(crate) is_uninitialised: bool,
    /// As `doctor` and the status page judge it.
    pub(crate) asks_no_manager: bool,
    pub(crate) is_deleting: bool,
    /// Status and message of the condition `Ready`.
    pub(crate) ready: Option<(String, String)>,
}

impl ServiceFacts {
    /// What it says.
    pub(crate) fn of(service: &Service) -> Self {
        let ready = ready_condition(service);
        Self {
            uid: service.metadata.uid.clone().unwrap_or_default(),
            is_load_balancer: is_load_balancer(service),
            is_deleting: is_deleting(service),
            is_known_here: is_known_here(service),
            needs_cleanup: needs_cleanup(service),
            class: load_balancer_class(service).map(ToOwned::to_owned),
            addresses: published_addresses(service),
            ready: ready.map(|one| (one.status.clone(), one.reason.clone(), one.message.clone())),
        }
    }

    /// Whether its load balancer has to go, if it has one.
    pub(crate) const fn is_going(&self) -> bool {
        self.is_deleting || self.needs_cleanup
    }
}

impl NodeFacts {
    /// Whether its kubelet says that all is well.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(status, _)| status == "True")
    }

    fn of(whole: WholeNode) -> Result<Self, String> {
        let conditions = whole.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
        let ready = ready.map(|condition| (condition.status.clone(), condition.message.clone().unwrap_or_default()));
        // As the controllers have it.
        let node: Node = serde_json::to_value(whole)
            .and_then(serde_json::from_value)
            .map_err(|error| format!("the Node cannot be understood: {error}"))?;
        Ok(Self {
            uid: node.uid.as_deref().unwrap_or_default().to_owned(),
            is_uninitialised: is_uninitialized(&node),
            asks_no_manager: asks_no_manager(&node),
            is_deleting: node.is_deleting,
            ready,
        })
    }
}

/// Whether a host of wasm-ccm has worked on it: it has our condition, or our record. All cloud controller managers use the same finalizer.
pub(crate) fn is_known_here(service: &Service) -> bool {
    ready_condition(service).is_some() || was_ensured_here(service)
}

/// Why an object is not known.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) why: String,
    /// Whoever asks lacks the right.
    pub(crate) is_forbidden: bool,
}

/// The object.
///
/// # Errors
///
/// The API server does not give it: why.
pub(crate) async fn of(client: &Client, target: &Target) -> Result<Object, Unread> {
    let mut is_forbidden = false;
    let object = read(client, target, &mut is_forbidden).await;
    object.map_err(|why| Unread { why: format!("{target} cannot be read: {why}"), is_forbidden })
}

async fn read(client: &Client, target: &Target, is_forbidden: &mut bool) -> Result<Object, String> {
    let client = client.clone();
    let object = match target {
        Target::Service { namespace, name } => {
            let services = Api::<Service>::namespaced(client, namespace);
            let service = answered(noted(services.get_opt(name), is_forbidden)).await?;
            service.as_ref().map(ServiceFacts::of).map(Object::Service)
        }
        Target::Node { name } => {
            let nodes = Api::<WholeNode>::all(client);
            let node = answered(noted(nodes.get_opt(name), is_forbidden)).await?;
            node.map(NodeFacts::of).transpose()?.map(Object::Node)
        }
    };
    Ok(object.unwrap_or(Object::Missing))
}

/// The same, after it is noted whether the right was lacking.
async fn noted<T>(request: impl Future<Output = kube::Result<T>>, is_forbidden: &mut bool) -> kube::Result<T> {
    let answer = request.await;
    *is_forbidden = matches!(&answer, Err(kube::Error::Api(status)) if lacks_right(status));
    answer
}

/// All Nodes, as the controllers have them.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn nodes(client: &Client) -> Result<Vec<Arc<Node>>, String> {
    let nodes: Vec<Node> = all(client, "/api/v1/nodes", None).await?;
    Ok(nodes.into_iter().map(Arc::new).collect())
}

/// All Services.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn services(client: &Client) -> Result<Vec<Service>, String> {
    all(client, "/api/v1/services", None).await
}

/// All Services of this name, in whatever namespace.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn services_named(client: &Client, name: &str) -> Result<Vec<Service>, String> {
    all(client, "/api/v1/services", Some(&format!("metadata.name={name}"))).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whether_a_node_asks_for_a_manager_is_judged_as_everywhere() {
        let taints = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
        for (spec, metadata, asks_none) in [
            (json!({}), json!({ "name": "n1" }), true),
            (json!({ "providerID": "cloud://1" }), json!({ "name": "n1" }), false),
            (json!({ "taints": taints }), json!({ "name": "n1" }), false),
            (json!({}), json!({ "name": "n1", "deletionTimestamp": "2026-11-26T10:00:00Z" }), false),
        ] {
            let node = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            assert_eq!(NodeFacts::of(node).unwrap().asks_no_manager, asks_none, "{spec} {metadata}");
        }
    }

    #[tokio::test]
    async fn who_lacks_the_right_is_told_apart_from_an_api_server_that_fails() {
        let forbidden = r#"nodes "n1" is forbidden: User "poor" cannot get resource "nodes" in API group """#;
        for (code, reason, message, is_forbidden) in
            [(403, "Forbidden", forbidden, true), (403, "Forbidden", "no", false), (500, "InternalError", "no", false)]
        {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                "reason": reason, "code": code });
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                let body = kube::client::Body::from(status.to_string().into_bytes());
                let answer = http::Response::builder().status(code).body(body);
                std::future::ready(Ok::<_, std::convert::Infallible>(answer.unwrap()))
            });
            let client = Client::new(service, "default");
            let service = Target::Service { namespace: "shop".into(), name: "web".into() };
            for target in [Target::Node { name: "n1".into() }, service] {
                let unread = of(&client, &target).await.unwrap_err();
                assert!(unread.why.starts_with(&format!("{target} cannot be read: ")), "{}", unread.why);
                assert_eq!(unread.is_forbidden, is_forbidden, "{}", unread.why);
            }
        }
    }
}
