//! Objects that the process has in memory anyway: whoever patches one of them needs no copy of the API server's.
//!
//! A dry run looks again and again at what stays pending. Beside another manager these can be all Nodes and all Services, and each look once read
//! every one of them to answer the same patch as before.

use std::sync::Arc;
use std::time::Duration;

use ccm_controllers::Node;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{self, Service};
use kube::api::ListParams;
use kube::client::Body;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api_server::{answer, content_type, object_of};
use crate::journal::{Journal, Stopped};
use crate::patch::JSON_PATCH;
use crate::planner::PlanParts;

/// For so long the API server counts as there, or as away, after it was asked. A look at a large cluster takes hours.
const ANSWER_HOLDS: Duration = Duration::from_secs(60);

/// A client on top of that of [`read_only`](crate::read_only), which is told of the object before it answers a patch. It reads the object itself
/// where the one in memory is not the one that is meant, for a JSON patch, and while the API server is away: then nobody knows whether the one in
/// memory is still as it was, and the answer is the failure of that read.
#[derive(Clone)]
pub(crate) struct Known {
    client: Client,
    journal: Arc<Journal>,
    nodes: Store<Node>,
    services: Store<Service>,
    server: Arc<Server>,
    is_unread: bool,
}

impl Known {
    pub(crate) fn of(PlanParts { client, journal, nodes, services, .. }: &PlanParts) -> Self {
        let (nodes, services) = (nodes.reader(), services.reader());
        let (client, journal, server) = (client.clone(), Arc::clone(journal), Arc::default());
        Self { client, journal, nodes, services, server, is_unread: false }
    }

    /// For a controller that reads no object again that it has patched: nothing is held of it, unless the patch is bound to a version.
    pub(crate) fn unread(self) -> Self {
        Self { is_unread: true, ..self }
    }

    pub(crate) fn client(self) -> Client {
        let namespace = self.client.default_namespace().to_owned();
        let this = Arc::new(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = Arc::clone(&this);
            async move { this.answer(request).await }
        });
        Client::new(service, namespace)
    }

    async fn answer(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        let path = request.uri().path().to_owned();
        let object = object_of(&path);
        let is_meant = request.method() == Method::PATCH && content_type(request.headers()) != JSON_PATCH;
        // It was written before, or would be gone.
        if !is_meant || self.journal.written.is_about(object) {
            return self.client.send(request).await;
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let known = match self.find(object).filter(|known| known.is_meant(&body)) {
            Some(known) if self.server.is_there(&self.client).await => Some(known),
            _ => None,
        };
        if self.is_unread && known.is_some() && body.pointer("/metadata/resourceVersion").is_none() {
            let metadata = body.get("metadata").cloned().unwrap_or_else(|| json!({}));
            let method = parts.method.to_string();
            self.journal.note(Stopped::Cluster { method, path, body, makes_ready: false });
            return Ok(answer(StatusCode::OK, &json!({ "metadata": metadata })));
        }
        if let Some(known) = known {
            self.journal.written.insert(object.to_owned(), Some(known.to_json()));
        }
        self.client.send(Request::from_parts(parts, Body::from(bytes))).await
    }

    /// The object with this path.
    fn find(&self, path: &str) -> Option<Found> {
        if let Some(name) = path.strip_prefix("/api/v1/nodes/") {
            return self.nodes.get(&ObjectRef::new(name)).map(Found::Node);
        }
        let (namespace, name) = path.strip_prefix("/api/v1/namespaces/")?.split_once("/services/")?;
        self.services.get(&ObjectRef::new(name).within(namespace)).map(Found::Service)
    }
}

/// Whether the API server is there, and when it was asked.
#[derive(Default)]
struct Server(Mutex<Option<(Instant, bool)>>);

impl Server {
    /// Asks for the name of one Node, unless that was done lately. Who asks at the same time waits for the same answer.
    async fn is_there(&self, client: &Client) -> bool {
        let mut asked = self.0.lock().await;
        if let Some((at, is_there)) = *asked
            && at.elapsed() < ANSWER_HOLDS
        {
            return is_there;
        }
        let nodes: Api<v1::Node> = Api::all(client.clone());
        let is_there = nodes.list_metadata(&ListParams::default().limit(1)).await.is_ok();
        *asked = Some((Instant::now(), is_there));
        is_there
    }
}

enum Found {
    Node(Arc<Node>),
    Service(Arc<Service>),
}

impl Found {
    /// Whether it has the UID and the version that a patch names.
    fn is_meant(&self, patch: &Value) -> bool {
        let (uid, version) = match self {
            Self::Node(node) => (node.uid.as_deref(), node.resource_version.as_deref()),
            Self::Service(service) => {
                let metadata = &service.metadata;
                (metadata.uid.as_deref(), metadata.resource_version.as_deref())
            }
        };
        let named = |name: &str| patch.get("metadata")?.get(name)?.as_str();
        let is_same = |name: &str, known: Option<&str>| named(name).is_none_or(|named| known == Some(named));
        is_same("uid", uid) && is_same("resourceVersion", version)
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Node(node) => node.to_json(),
            Self::Service(service) => json!(**service),
        }
    }
}

#[cfg(test)]
mod tests;
