//! Writes of the node controller: what is written in which order, and what happens when somebody else writes too.
//!
//! All patches are strategic merge patches, which cost the API server less than JSON merge patches
//! (docs/decisions/0003-three-writes-per-node.md), save where they would change the order of addresses. Lists are replaced as a
//! whole: taints since their type says so, addresses since the patch does. Whatever is decided from the state of a Node is bound to its `resourceVersion`; on a conflict the Node is read
//! again from the API server and everything is decided anew. The cloud is not asked again.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBackoff, ConstantBuilder};
use ccm_apiserver::{ApiError, ApiGate, Purpose};
use ccm_cloud::{Address, Instance};
use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::{Node as WholeNode, NodeAddress, Taint};
use kube::api::{Api, GetParams, PartialObjectMeta, Patch, PatchParams, Request};
use serde_json::{Map, Value, json};

use super::addresses::{self, ProvidedIpError};
use super::holders::{Holders, RefusedAddress};
use super::labels::{self, Labels};
use crate::cluster_addresses::AddressWrite;
use crate::store::Node;
use crate::view::node::{UNINITIALIZED, is_uninitialized, provider_id};

/// Attempts of one write against other writers, and the shortest and half the longest time between them, as upstream.
const MAX_ATTEMPTS: usize = 20;
const CONFLICT_DELAY: Duration = Duration::from_millis(50);

/// What the API server is to answer to a patch.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Name under which our changes stand in `metadata.managedFields`.
const FIELD_MANAGER: &str = "cloud-node-controller";

const GET: Purpose = Purpose { verb: "get", resource: "nodes" };
pub(crate) const PATCH: Purpose = Purpose { verb: "patch", resource: "nodes" };
const PATCH_STATUS: Purpose = Purpose { verb: "patch", resource: "nodes/status" };

/// Whether pods may be scheduled on a Node before it has the cloud's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Addresses, then everything else together with the removal of the taint.
    #[default]
    AddressesFirst,
    /// Upstream's order; addresses that cannot be written then wait for the next refresh.
    TaintFirst,
}

/// Why a Node was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("node {name} cannot have the addresses that its kubelet asks for: {reason}")]
    ProvidedIp { name: String, reason: ProvidedIpError },
    #[error("node {name} does not get its addresses: {reason}")]
    Refused { name: String, reason: RefusedAddress },
    #[error(
        "the provider says that the machine of node {name} is {id:?}, which is that of node {other}: correct the machine in the cloud, or delete that Node if its machine is gone"
    )]
    Machine { name: String, id: String, other: String },
    #[error("cannot write the Node: {0}")]
    Api(ApiError),
    /// The removal of the taint, of which nobody knows whether it was done.
    #[error("cannot write the Node: {0}")]
    Unanswered(ApiError),
}

impl WriteError {
    /// What the API server said, or did not say.
    pub(crate) const fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) | Self::Unanswered(error) => Some(error),
            Self::ProvidedIp { .. } | Self::Refused { .. } | Self::Machine { .. } => None,
        }
    }
}

/// How a write ended well.
#[derive(Debug)]
pub(crate) enum Written {
    /// As the API server has it now.
    Changed(Box<Node>),
    /// There was nothing to write, or somebody else did it.
    Nothing,
    /// The Node was deleted, or is another one of the same name.
    Gone,
}

/// Writes Nodes.
#[derive(Clone)]
pub(crate) struct NodeWriter {
    pub(crate) gate: ApiGate,
    pub(crate) api: Api<WholeNode>,
    manager: &'static str,
    /// None for whoever writes no addresses.
    holders: Option<Arc<Holders>>,
}

impl NodeWriter {
    pub(crate) fn new(gate: ApiGate, holders: Arc<Holders>) -> Self {
        Self { holders: Some(holders), ..Self::named(gate, FIELD_MANAGER) }
    }

    /// One that writes no addresses, under another name in `metadata.managedFields`.
    pub(crate) fn named(gate: ApiGate, manager: &'static str) -> Self {
        Self { api: Api::all(gate.client()), gate, manager, holders: None }
    }

    /// Gives a Node what the cloud knows of it and takes the taint away.
    pub(crate) async fn initialise(
        &self,
        node: Arc<Node>,
        found: &Instance,
        order: Order,
    ) -> Result<Written, WriteError> {
        let mut live = Live::new(node);
        let mut has_addresses = order == Order::TaintFirst;
        loop {
            if !is_uninitialized(&live.node) {
                return Ok(Written::Nothing);
            }
            let wanted = initial_addresses(&live.node, found)?;
            let machine = self.take_machine(&live.node, found)?;
            let write = self.check(&live.node, wanted.as_deref())?;
            let wanted = wanted.filter(|wanted| !has_addresses && addresses::differ(&live.node, wanted));
            let is_last = wanted.is_none();
            let sent = match wanted {
                Some(wanted) => self.patch_addresses(&live.node, &wanted).await.map(|node| (node, false)),
                None => self.patch_initial(&live.node, found).await.map(|node| (node, true)),
            };
            if may_be_done(&sent) {
                let written = if is_last { machine } else { write };
                written.into_iter().for_each(AddressWrite::done);
            }
            match sent {
                Ok((node, true)) => return Ok(Written::Changed(Box::new(node))),
                Ok((node, false)) => {
                    has_addresses = true;
                    live.node = Arc::new(node);
                }
                Err(error) if is_last && error.is_unanswered() => return Err(WriteError::Unanswered(error)),
                Err(error) => {
                    has_addresses = order == Order::TaintFirst;
                    if let Some(ended) = self.after(error, &mut live).await? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// Gives an initialised Node the cloud's addresses.
    pub(crate) async fn update_addresses(&self, node: Arc<Node>, cloud: &[Address]) -> Result<Written, WriteError> {
        let mut live = Live::new(node);
        loop {
            if is_uninitialized(&live.node) {
                return Ok(Written::Nothing);
            }
            let wanted = addresses::wanted(cloud, &live.node).map_err(|reason| provided_ip(&live.node, reason))?;
            let write = self.check(&live.node, wanted.as_deref())?;
            let Some(wanted) = wanted.filter(|wanted| addresses::differ(&live.node, wanted)) else {
                return Ok(Written::Nothing);
            };
            let sent = self.patch_addresses(&live.node, &wanted).await;
            if may_be_done(&sent) {
                write.into_iter().for_each(AddressWrite::done);
            }
            match sent {
                Ok(node) => return Ok(Written::Changed(Box::new(node))),
                Err(error) => {
                    if let Some(ended) = self.after(error, &mut live).await? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// Sets labels that were decided from this state of the Node.
    pub(crate) async fn set_labels(&self, node: &Node, labels: &Labels) -> Result<(), WriteError> {
        let body = json!({ "metadata": { "resourceVersion": node.resource_version, "labels": labels } });
        match self.patch(PATCH, &node.name_any(), &body).await {
            // Whoever is gone needs no labels.
            Ok(_) | Err(ApiError::NotFound) => Ok(()),
            Err(error) => Err(WriteError::Api(error)),
        }
    }

    /// Whether a Node may have the machine that was found, where it has none. That is kept for it as long as the result lives.
    fn take_machine(&self, node: &Node, found: &Instance) -> Result<Option<AddressWrite>, WriteError> {
        let id = Some(&found.provider_id).filter(|id| provider_id(node).is_none() && !id.is_empty());
        let (Some(holders), Some(id)) = (&self.holders, id) else { return Ok(None) };
        let taken = holders.take_machine(node, id);
        taken.map(Some).map_err(|other| WriteError::Machine { name: node.name_any(), id: id.clone(), other })
    }

    /// Whether a Node may have these addresses. They are kept for it as long as the result lives.
    fn check(&self, node: &Node, wanted: Option<&[Address]>) -> Result<Option<AddressWrite>, WriteError> {
        let (Some(holders), Some(wanted)) = (&self.holders, wanted) else { return Ok(None) };
        let write = holders.check(node, wanted);
        write.map(Some).map_err(|reason| WriteError::Refused { name: node.name_any(), reason })
    }

    /// Returns the Node as it is afterwards.
    async fn patch_addresses(&self, node: &Node, wanted: &[Address]) -> Result<Node, ApiError> {
        let entry =
            |address: &Address| NodeAddress { type_: address.kind.as_str().into(), address: address.value.clone() };
        let wanted: Vec<NodeAddress> = wanted.iter().map(entry).collect();
        let body = |addresses: Value| {
            json!({
                "metadata": { "resourceVersion": node.resource_version },
                "status": { "addresses": addresses },
            })
        };
        let patch = match whole_list(&wanted) {
            Some(list) => Patch::Strategic(body(list)),
            None => Patch::Merge(body(json!(wanted))),
        };
        let answer = self.send(PATCH_STATUS, &node.name_any(), &patch).await?;
        let mut changed = node.clone();
        changed.resource_version = answer.metadata.resource_version.map(Into::into);
        changed.addresses = wanted.into_iter().map(|one| (one.type_, one.address)).collect();
        Ok(changed)
    }

    /// Labels, provider ID and the removal of the taint, in one. Returns the Node as it is afterwards.
    async fn patch_initial(&self, node: &Node, found: &Instance) -> Result<Node, ApiError> {
        let labels = labels::initial(&node.labels, found);
        let answer = self.patch(PATCH, &node.name_any(), &initial_patch(node, found, &labels)).await?;
        let mut changed = node.clone();
        changed.resource_version = answer.metadata.resource_version.map(Into::into);
        changed.labels = changed.labels.with(&labels);
        changed.taints = others(node).cloned().collect();
        changed.provider_id.get_or_insert_with(|| found.provider_id.as_str().into());
        Ok(changed)
    }

    /// Sends a strategic merge patch. Only the metadata comes back: what else the Node has afterwards is known, since the patch holds
    /// for the resource version that was read, and the API server need not write out the whole Node.
    pub(crate) async fn patch(
        &self,
        purpose: Purpose,
        name: &str,
        body: &Value,
    ) -> Result<PartialObjectMeta<WholeNode>, ApiError> {
        self.send(purpose, name, &Patch::Strategic(body.clone())).await
    }

    async fn send(
        &self,
        purpose: Purpose,
        name: &str,
        patch: &Patch<Value>,
    ) -> Result<PartialObjectMeta<WholeNode>, ApiError> {
        let request = Request::new(self.api.resource_url());
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let request = match purpose.resource.split_once('/') {
            Some((_, subresource)) => request.patch_subresource(subresource, name, &params, patch),
            None => request.patch_metadata(name, &params, patch),
        };
        let sent = async {
            let mut request = request.map_err(kube::Error::BuildRequest)?;
            request.headers_mut().insert(ACCEPT, METADATA_ONLY);
            self.gate.client().request(request).await
        };
        // What is decided next is bound to the resource version of the answer: without one, a write would be bound to none.
        let answer: PartialObjectMeta<WholeNode> = self.gate.write(purpose, sent).await?;
        ApiError::unless_uid(answer, |answer| answer.metadata.uid.as_deref())
    }

    async fn get(&self, name: &str) -> Result<Node, kube::Error> {
        let request = Request::new(self.api.resource_url()).get(name, &GetParams::default());
        self.gate.client().request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// After a write that failed: reads the Node again when another writer was first. Returns how it ended, if it did.
    pub(crate) async fn after(&self, error: ApiError, live: &mut Live) -> Result<Option<Written>, WriteError> {
        match error {
            ApiError::NotFound => return Ok(Some(Written::Gone)),
            ApiError::Conflict => {}
            error => return Err(WriteError::Api(error)),
        }
        let Some(delay) = live.delays.next() else { return Err(WriteError::Api(ApiError::Conflict)) };
        tokio::time::sleep(delay).await;
        let name = live.node.name_any();
        let node = match self.gate.read(GET, self.get(&name)).await {
            Ok(node) => ApiError::unless_uid(node, |node| node.uid.as_deref()).map_err(WriteError::Api)?,
            Err(ApiError::NotFound) => return Ok(Some(Written::Gone)),
            Err(error) => return Err(WriteError::Api(error)),
        };
        if node.uid != live.node.uid {
            return Ok(Some(Written::Gone));
        }
        live.node = Arc::new(node);
        Ok(None)
    }
}

/// The newest state of a Node that is known, and how often it may be read again.
pub(crate) struct Live {
    pub(crate) node: Arc<Node>,
    delays: ConstantBackoff,
}

impl Live {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let delays =
            ConstantBuilder::new().with_delay(CONFLICT_DELAY).with_max_times(MAX_ATTEMPTS - 1).with_jitter().build();
        Self { node, delays }
    }
}

/// Whether the API server has taken a write, or may have. The watch may not tell for a while, since what lost the answer has lost that as well.
fn may_be_done<T>(sent: &Result<T, ApiError>) -> bool {
    sent.as_ref().err().is_none_or(ApiError::is_unanswered)
}

fn provided_ip(node: &Node, reason: ProvidedIpError) -> WriteError {
    WriteError::ProvidedIp { name: node.name_any(), reason }
}

/// As [`addresses::wanted`], and an address that the kubelet asks for must be among the cloud's even when these are none.
fn initial_addresses(node: &Node, found: &Instance) -> Result<Option<Vec<Address>>, WriteError> {
    let check = addresses::provided(node).map_or(Ok(()), |ip| addresses::filter(&found.addresses, ip).map(drop));
    check.and_then(|()| addresses::wanted(&found.addresses, node)).map_err(|reason| provided_ip(node, reason))
}

/// A list of addresses in a strategic merge patch that takes the place of the one that is there. Without the first entry, addresses
/// would be merged by type, and those of one type that has several would be lost. None when addresses of one type do not stand
/// together: with such a patch the API server would bring them together, and they would be written again at each refresh.
fn whole_list(wanted: &[NodeAddress]) -> Option<Value> {
    let mut seen = Vec::new();
    for address in wanted {
        if seen.last() != Some(&address.type_.as_str()) {
            if seen.contains(&address.type_.as_str()) {
                return None;
            }
            seen.push(&address.type_);
        }
    }
    Some(std::iter::once(json!({ "$patch": "replace" })).chain(wanted.iter().map(|address| json!(address))).collect())
}

/// Its taints without the one that waits for the initialisation.
fn others(node: &Node) -> impl Iterator<Item = &Taint> {
    node.taints.iter().filter(|taint| taint.key != UNINITIALIZED)
}

/// The body of [`NodeWriter::patch_initial`].
fn initial_patch(node: &Node, found: &Instance, labels: &Labels) -> Value {
    let mut metadata = json!({ "resourceVersion": node.resource_version });
    if let (false, Some(metadata)) = (labels.is_empty(), metadata.as_object_mut()) {
        metadata.insert("labels".into(), json!(labels));
    }
    let mut spec = Map::new();
    if provider_id(node).is_none() && !found.provider_id.is_empty() {
        spec.insert("providerID".into(), json!(found.provider_id));
    }
    let others: Vec<&Taint> = others(node).collect();
    spec.insert("taints".into(), if others.is_empty() { Value::Null } else { json!(others) });
    json!({ "metadata": metadata, "spec": spec })
}
