//! What a token of selected scopes may do, and what it is not shown.
//!
//! Scopes of operations, and of the members of droplets, are those of the vendor's document. That the same holds for load
//! balancers is assumed. A droplet always has tags by the document, so that it has none of those that are not shown.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::document::Asked;
use crate::endpoint::Endpoint;

/// Members that a scope shows.
const MEMBERS: &[(&str, &str)] = &[("tags", "tag:read"), ("vpc_uuid", "vpc:read")];

/// What has such members, alone and in lists.
const OBJECTS: &[&str] = &["droplet", "load_balancer", "droplets", "load_balancers"];

impl Endpoint {
    /// What a token needs for it.
    pub(crate) const fn scope(self) -> &'static str {
        use Endpoint as E;
        match self {
            E::Account => "account:read",
            E::Regions => "regions:read",
            E::Vpcs | E::Vpc => "vpc:read",
            E::Droplets | E::Droplet => "droplet:read",
            E::Balancers | E::Balancer => "load_balancer:read",
            E::CreateBalancer => "load_balancer:create",
            E::UpdateBalancer | E::AddDroplets | E::RemoveDroplets | E::AddRules | E::RemoveRules => {
                "load_balancer:update"
            }
            E::DeleteBalancer => "load_balancer:delete",
            E::Certificates | E::Certificate => "certificate:read",
            E::Firewalls | E::Firewall => "firewall:read",
            E::CreateFirewall => "firewall:create",
            E::UpdateFirewall => "firewall:update",
            E::DeleteFirewall => "firewall:delete",
            E::Tags | E::Tag => "tag:read",
            E::CreateTag | E::TagResources => "tag:create",
            E::DeleteTag | E::UntagResources => "tag:delete",
        }
    }
}

/// Whether a token with these scopes may ask for it. None: all scopes.
pub(crate) fn allows(scopes: Option<&BTreeSet<String>>, asked: &Asked) -> bool {
    let Some(scopes) = scopes else { return true };
    // As the document has it of new droplets.
    let tags = asked.endpoint == Endpoint::CreateBalancer && asked.body.get("tags").is_some();
    scopes.contains(asked.endpoint.scope()) && (!tags || scopes.contains("tag:create"))
}

/// Takes out of an answer what a token with these scopes is not shown. None: all scopes.
pub(crate) fn hide(scopes: Option<&BTreeSet<String>>, body: &mut Value) {
    let Some(scopes) = scopes else { return };
    let Some(members) = body.as_object_mut() else { return };
    for (name, value) in members.iter_mut().filter(|(name, _)| OBJECTS.contains(&name.as_str())) {
        let is_droplet = name.starts_with("droplet");
        let objects = match value {
            Value::Array(objects) => objects.as_mut_slice(),
            object => std::slice::from_mut(object),
        };
        for object in objects.iter_mut().filter_map(Value::as_object_mut) {
            for (name, _) in MEMBERS.iter().filter(|(_, scope)| !scopes.contains(*scope)) {
                object.remove(*name);
                if is_droplet && *name == "tags" {
                    object.insert("tags".to_owned(), json!([]));
                }
            }
        }
    }
}
