//! The provider of DigitalOcean as it runs, in the sandbox and behind the door of the host, against a cloud that fails; without
//! Kubernetes. What is tested here is what only all of them together can get wrong.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod account;
mod annotations;
mod cluster;
mod crowd;
mod faults;
mod find;
mod life;
mod listing;
mod owners;
mod quota;
mod rig;
mod size;
mod still;
mod survey;
mod wish;
