//! What of the cluster matters to providers: what changes what they are told (the records of the contract), so that heartbeats and
//! conditions wake nobody. When they are called is in [`waking`](crate::waking).

use std::sync::Arc;

use ccm_cloud::{Attributes, Cluster, Descriptor};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc;

use super::unread::LeftOut;
use crate::store::Node;
use crate::view::node::cloud_node;
use crate::view::service::cloud_service;
use crate::waking::{Changes, Watched, mark};

/// Reaches every provider, without being declared.
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// The annotations that providers declare at this moment.
struct Declared(Vec<Arc<Descriptor>>);

impl Declared {
    fn by(providers: &[Arc<dyn Cluster>]) -> Self {
        Self(providers.iter().map(|provider| provider.descriptor()).collect())
    }

    fn covers(&self, name: &str) -> bool {
        self.0.iter().flat_map(|provider| &provider.annotations).any(|annotation| annotation.covers(name))
    }
}

/// What changes in the cluster, as far as it matters to providers.
pub(super) struct Told {
    providers: Vec<Arc<dyn Cluster>>,
    nodes: Watched<Node>,
    services: Watched<Service>,
    left_out: LeftOut,
}

impl Told {
    pub(super) fn new(
        providers: Vec<Arc<dyn Cluster>>,
        nodes: (Store<Node>, mpsc::Receiver<ObjectRef<Node>>),
        services: (Store<Service>, mpsc::Receiver<ObjectRef<Service>>),
        left_out: LeftOut,
    ) -> Self {
        Self { providers, nodes: Watched::new(nodes), services: Watched::new(services), left_out }
    }
}

impl Changes for Told {
    async fn next(&mut self) -> Option<bool> {
        let Self { providers, nodes, services, left_out } = self;
        let declared = || Declared::by(providers);
        tokio::select! {
            key = nodes.keys.recv() => Some(nodes.has_changed(key?, |node| node_mark(node, &declared()))),
            key = services.keys.recv() => Some(services.has_changed(key?, |service| service_mark(service, &declared()))),
            // Of what is left out, nobody tells a key.
            () = left_out.changed() => Some(true),
        }
    }

    fn saw_all(&mut self) {
        let Self { providers, nodes, services, left_out } = self;
        left_out.saw_all();
        let declared = &Declared::by(providers);
        nodes.saw_all(|node| node_mark(node, declared));
        services.saw_all(|service| service_mark(service, declared));
    }
}

fn node_mark(node: &Node, declared: &Declared) -> u64 {
    let mut told = cloud_node(node);
    only_declared(&mut told.annotations, declared);
    mark(&told)
}

/// Another mark means that one of the providers, which describe themselves so, is told another thing of a Service.
#[must_use]
pub fn told_of_service(service: &Service, providers: Vec<Arc<Descriptor>>) -> u64 {
    service_mark(service, &Declared(providers))
}

fn service_mark(service: &Service, declared: &Declared) -> u64 {
    // What is wrong with it is told as well, see `Syncer::services`.
    let (mut told, wrong) = cloud_service(service);
    only_declared(&mut told.annotations, declared);
    mark(&(told, wrong.map(|failure| failure.message)))
}

fn only_declared(annotations: &mut Attributes, declared: &Declared) {
    annotations.retain(|name, _| name == PROVIDED_IP || declared.covers(name));
}
