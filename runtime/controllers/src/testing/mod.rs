//! What the tests of this crate stand on: objects, a cloud written in plain Rust, and the API server of `ccm-fake-api`.

mod balancers;
mod cloud;
mod objects;
mod process;

pub(crate) use ccm_fake_api::{Log, scraped};

pub(crate) use balancers::{FakeBalancers, NODES, Version};
pub(crate) use cloud::FakeCloud;
pub(crate) use objects::{Draft, address, found, node, service};
pub(crate) use process::run_for;

/// The API server, with Nodes as the store has them.
pub(crate) type FakeApi = ccm_fake_api::FakeApi<crate::store::Node>;
