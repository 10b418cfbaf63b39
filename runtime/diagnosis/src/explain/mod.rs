//! `wasm-ccm explain`: from an object to the reason, in one command. Reads, and writes nothing.
//!
//! | module | does |
//! |---|---|
//! | [`target`] | which object is asked about |
//! | [`page`] | what a running host says of it, on its health port |
//! | [`leader`] | finds the leader, and asks it |
//! | [`reason`] | what follows, with what the object and its Events say: what is wrong, when the next try is, what to do |
//! | [`advice`] | what to do about each reaction |
//! | [`failed_request`] | the request to the cloud behind a failure, in words |
//! | [`text`] | for people |
//!
//! What nobody says is told to be unknown, with what was tried.

mod advice;
mod failed_request;
mod leader;
mod page;
mod reason;
mod target;
mod text;

use anyhow::{Result, bail};
use http::Uri;
use k8s_openapi::api::core::v1::Service;
use kube::Client;

use crate::ask::objects::{Object, Unread};
use crate::ask::{Access, Cluster, answered, events, objects};
use crate::paste::Paste;
use crate::plain::without_keys;
use leader::{Asked, Place};
use reason::Facts;

pub use page::{Answer, AskedOfDryRun, Explained, WouldWrite, asked};
pub use reason::Explanation;
pub use target::{Target, Wanted};

/// What is explained, and whom it is asked of.
pub struct ExplainSettings {
    /// The object, as the command line names it.
    pub wanted: Wanted,
    /// The health port of a host; without it, the leader is found.
    pub address: Option<Uri>,
    /// How to reach the API server.
    pub access: Access,
    /// Namespace of the Lease and of the pods of the host.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
}

/// Says why an object is as it is.
///
/// # Errors
///
/// There is no such object, or the API server cannot be asked with these flags and no address of a host is given.
pub async fn explain(settings: ExplainSettings) -> Result<Explanation> {
    let ExplainSettings { wanted, address, access, namespace, lease } = settings;
    let paste = Paste::new(&access).with_host(address.as_ref(), &namespace, &lease);
    let mut tried = vec![];
    let connected = match access.connect().await {
        Ok(cluster) => Some(cluster),
        Err(error) if address.is_some() => {
            tried.push(without_keys(&error, &format!("the API server: {error:#}")));
            None
        }
        Err(error) => return Err(error),
    };
    let target = wanted.target(connected.as_ref().map(|cluster| cluster.client.default_namespace()));
    let silent = match &connected {
        Some(cluster) => silence(cluster).await,
        None => None,
    };
    let is_silent = silent.is_some();
    tried.extend(silent);
    let client = connected.map(|cluster| cluster.client).filter(|_| !is_silent);
    let cluster = client.as_ref().map(|client| Place { client, namespace: &namespace, lease: &lease });
    let Asked { answer, place, refusals, lead, tried: in_vain, .. } = match (&address, cluster) {
        (Some(address), cluster) => leader::at(address, cluster, &target).await,
        (None, Some(cluster)) => cluster.found(&target).await,
        (None, None) => Asked::default(),
    };
    tried.extend(in_vain);
    let (mut object, mut told, mut rejections) = (Object::Unread, vec![], vec![]);
    if let Some(client) = &client {
        // The condition of a component that nobody took is in no object.
        let rejected = async {
            match answer.is_none() && refusals.is_empty() {
                true => events::rejections(client, &namespace).await,
                false => Ok(vec![]),
            }
        };
        let read = tokio::join!(objects::of(client, &target), events::of(client, &target), rejected);
        let mut or_tried = |why: String| tried.push(why);
        object = read.0.unwrap_or_else(|Unread { why, is_forbidden }| {
            or_tried(why);
            if is_forbidden { Object::Forbidden } else { Object::Unread }
        });
        told = read.1.map_err(&mut or_tried).unwrap_or_default();
        rejections = read.2.map_err(&mut or_tried).unwrap_or_default();
    }
    let knows = answer.as_ref().is_some_and(|answer| {
        let services = answer.service.as_ref().and_then(|service| service.uid.as_ref());
        services.or_else(|| answer.node.as_ref().and_then(|node| node.uid.as_ref())).is_some()
    });
    // A Service that went by force still has a load balancer, which the leader takes away.
    if matches!(object, Object::Missing) && !knows {
        let client = client.as_ref();
        bail!("there is no {target}{}: look with kubectl get {}", elsewhere(client, &target).await, target.listing());
    }
    let explanation = reason::explain(Facts {
        target,
        object,
        answer,
        asked: place,
        refusals,
        rejections,
        events: told,
        lead,
        is_addressed: address.is_some(),
        is_silent,
        tried,
        namespace,
    });
    Ok(explanation.completed(&paste))
}

/// Why the API server cannot be asked; none where it can.
async fn silence(cluster: &Cluster) -> Option<String> {
    let why = match answered(cluster.client.apiserver_version()).await {
        Ok(_) => return None,
        Err(why) => why,
    };
    Some(format!("the API server at {} does not answer: {why}; {}", cluster.place, Access::way_out()))
}

/// Where a Service of this name is, if it is in another namespace.
async fn elsewhere(client: Option<&Client>, target: &Target) -> String {
    let (Some(client), Target::Service { name, .. }) = (client, target) else { return String::new() };
    let found: Vec<Service> = objects::services_named(client, name).await.unwrap_or_default();
    let places: Vec<&str> = found.iter().filter_map(|one| one.metadata.namespace.as_deref()).collect();
    match places.as_slice() {
        [] => String::new(),
        places => format!(" (there is one in {}: -n NAMESPACE)", places.join(", ")),
    }
}
