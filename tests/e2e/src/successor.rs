//! Components that take over from another one: `tests/successor`, and `tests/balancer`, with their forms filled out.

#[path = "../../successor/fill.rs"]
mod fill;

use anyhow::{Context as _, Result};

use crate::host::component;

/// A component with these fields; `tests/successor` lists them. It calls itself `cloudlycke` unless it is told otherwise.
///
/// # Errors
///
/// It was not built, or the form has no room.
pub fn successor(fields: &[(&str, &str)]) -> Result<Vec<u8>> {
    filled("guests/successor.wasm", fields)
}

/// The same without load balancers.
///
/// # Errors
///
/// It was not built, or the form has no room.
pub fn bare_successor(fields: &[(&str, &str)]) -> Result<Vec<u8>> {
    filled("guests/successor-bare.wasm", fields)
}

/// The provider of [`BalancerCloud`](crate::balancer_cloud::BalancerCloud) in a version that calls all things in the cloud otherwise, and
/// finds nothing of what the one before made.
///
/// # Errors
///
/// It was not built.
pub fn renamed_balancer() -> Result<Vec<u8>> {
    filled("guests/balancer.wasm", &[("prefix", "v2-")])
}

/// The same provider in a version that finds the load balancers, and says of the routes what is not so: `lost` finds none, `disowned` knows
/// no Node behind any.
///
/// # Errors
///
/// It was not built.
pub fn balancer_that_says(routes: &str) -> Result<Vec<u8>> {
    filled("guests/balancer.wasm", &[("routes", routes)])
}

fn filled(name: &str, fields: &[(&str, &str)]) -> Result<Vec<u8>> {
    let path = component(name)?;
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    fill::fill(bytes, fields).map_err(anyhow::Error::msg)
}
