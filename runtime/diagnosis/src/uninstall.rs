//! `wasm-ccm uninstall --plan`: what of wasm-ccm would be left in the cluster, and what removes it, in which order. It reads, and changes
//! nothing.
//!
//! | module | finds |
//! |---|---|
//! | [`manager`] | whether a host runs that still does its own work |
//! | [`services`] | finalizers, conditions and annotations of Services |
//! | [`nodes`] | taints and conditions of Nodes |
//! | [`installed`] | the objects of our manifests, by their names |
//! | [`remains`] | puts it in order, and tells it |
//!
//! Clouds are not asked: what is left there, the guide `docs/guides/remove.md` says.

mod installed;
mod manager;
mod nodes;
mod remains;
mod services;

use anyhow::{Error, Result};
use kube::Client;

use crate::ask::{Access, answered, lease, objects};
use crate::paste::Paste;
use remains::{Item, Step};

pub use remains::Remains;

/// What is looked at.
pub struct UninstallSettings {
    /// How to reach the API server.
    pub access: Access,
    /// Namespace of the Lease and of the pods of the host.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
}

/// Looks for what would be left.
///
/// # Errors
///
/// The API server cannot be reached. A list that it does not give is part of what is found.
pub async fn uninstall(settings: UninstallSettings) -> Result<Remains> {
    let UninstallSettings { access, namespace, lease } = settings;
    let paste = Paste::new(&access).with_host(None, &namespace, &lease);
    let cluster = access.connect().await?;
    let client = &cluster.client;
    if let Err(why) = answered(client.apiserver_version()).await {
        let (place, way_out) = (&cluster.place, Access::way_out());
        return Err(Error::msg(format!("the API server at {place} does not answer: {why}; {way_out}")));
    }
    let (manager, services, nodes, installed, lease) = tokio::join!(
        manager::find(client, &namespace, &lease),
        objects::services(client),
        objects::nodes(client),
        installed::find(client, &namespace),
        left_lease(client, &namespace, &lease),
    );
    let mut remains = Remains::new(manager);
    match services {
        Ok(all) => services::judge(&all, &mut remains),
        Err(why) => remains.unread(format!("Services: {why}")),
    }
    match nodes {
        Ok(all) => nodes::judge(&all, &mut remains),
        Err(why) => remains.unread(format!("Nodes: {why}")),
    }
    for one in installed {
        match one {
            Ok((step, item)) => remains.add(step, item),
            Err(unread) => remains.unread(unread),
        }
    }
    match lease {
        Ok(item) => item.into_iter().for_each(|item| remains.add(Step::Lease, item)),
        Err(unread) => remains.unread(unread),
    }
    Ok(remains.completed(&paste))
}

/// The Lease, unless another manager wrote it last: all cloud controller managers use the same.
async fn left_lease(client: &Client, namespace: &str, name: &str) -> Result<Option<Item>, String> {
    let hold = lease::look(client, namespace, name).await;
    let hold = hold.map_err(|why| format!("Lease {namespace}/{name}: {why}"))?;
    Ok(hold.filter(|hold| hold.stranger().is_none()).map(|hold| Item {
        object: format!("Lease {namespace}/{name}"),
        found: match hold.holder.as_str() {
            "" => "nobody holds it".to_owned(),
            holder => format!("the last holder is {holder}"),
        },
        command: format!("kubectl --namespace {namespace} delete lease {name}"),
    }))
}
