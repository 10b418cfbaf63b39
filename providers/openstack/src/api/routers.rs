//! The router that has the routes.

use std::time::Duration;

use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Request};
use serde::Serialize;

use super::NEUTRON;

ccm_sdk::records! {
    /// A router.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Router {
        pub(crate) id: String [id],
        /// `None` where the cloud's routers have no routes.
        pub(crate) routes: Option<Vec<Hop>>,
        pub(crate) tags: Vec<String>,
        pub(crate) revision: u64 = "revision_number",
        /// The network to the outside: the router's port there is seen by nobody but administrators.
        pub(crate) gateway: Option<Gateway> = "external_gateway_info",
    }

    /// Where a router leads to the outside.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Gateway {
        pub(crate) network_id: String,
    }

    /// A route.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Hop {
        pub(crate) destination: String,
        pub(crate) nexthop: String,
    }

    /// What the cloud can do.
    struct Extension {
        alias: String,
    }
}

#[derive(Serialize)]
struct Change<'a> {
    router: Routes<'a>,
}

#[derive(Serialize)]
struct Routes<'a> {
    routes: &'a [Hop],
}

/// The router now.
pub(crate) fn get(id: &str) -> Result<Router, Failure> {
    let found = NEUTRON.get("/routers/{id}").arg("id", id).send()?.optional()?;
    let missing = || {
        Failure::unauthorized(format!(
            "there is no router {id}, or it is another project's; correct router-id in [Route]"
        ))
    };
    found.ok_or_else(missing)?.json_at("/router")
}

/// Adds routes and leaves all others as they are; those that are there already do no harm.
pub(crate) fn add(id: &str, routes: &[Hop]) -> Result<(), Failure> {
    let body = Change { router: Routes { routes } };
    NEUTRON.put("/routers/{id}/add_extraroutes").arg("id", id).json(&body).send()?.done()
}

/// Removes routes; those that are not there do no harm.
pub(crate) fn remove(id: &str, routes: &[Hop]) -> Result<(), Failure> {
    let body = Change { router: Routes { routes } };
    NEUTRON.put("/routers/{id}/remove_extraroutes").arg("id", id).json(&body).send()?.done()
}

/// Replaces all routes, unless somebody has changed the router since it was read.
pub(crate) fn replace(router: &Router, routes: &[Hop]) -> Result<Answer, Failure> {
    let body = Change { router: Routes { routes } };
    super::if_unchanged(NEUTRON.put("/routers/{id}").arg("id", &router.id), router.revision).json(&body).send()
}

/// Puts a tag on the router.
pub(crate) fn tag(id: &str, tag: &str) -> Request {
    NEUTRON.put("/routers/{id}/tags/{tag}").arg("id", id).arg("tag", tag)
}

/// Takes a tag off.
pub(crate) fn untag(id: &str, tag: &str) -> Request {
    NEUTRON.delete("/routers/{id}/tags/{tag}").arg("id", id).arg("tag", tag)
}

#[derive(Serialize)]
struct Tags<'a> {
    tags: &'a [String],
}

/// Replaces all tags. Neutron does not say whether somebody else has changed them since they were read.
pub(crate) fn replace_tags(id: &str, tags: &[String]) -> Result<(), Failure> {
    NEUTRON.put("/routers/{id}/tags").arg("id", id).json(&Tags { tags }).send()?.done()
}

/// Whether routes can be added and removed without a look at the others.
pub(crate) fn is_atomic() -> Result<bool, Failure> {
    has_extension("extraroute-atomic")
}

/// Whether Neutron has an extension.
pub(crate) fn has_extension(alias: &str) -> Result<bool, Failure> {
    let request = NEUTRON.get("/extensions").query("fields", "alias").share(Duration::from_secs(3_600));
    let extensions: Vec<Extension> = request.send()?.json_at("/extensions")?;
    Ok(extensions.iter().any(|extension| extension.alias == alias))
}
