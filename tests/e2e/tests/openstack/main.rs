//! OpenStack: the real host and its component, a real API server, and the real services of `./just lab-openstack`, each test in a
//! project of its own. `./just test-openstack` runs them.
//!
//! | module | shows |
//! | --- | --- |
//! | `account` | logins, tokens, catalogues, and that no secret is seen |
//! | `nodes` | Nodes and their servers: initialised, switched off, gone |
//! | `balancers` | Services and their load balancers: made, changed, followed, deleted |
//! | `changes` | changes of a load balancer that serves: what is written, and that no member leaves meanwhile |
//! | `errors` | load balancers in ERROR: reported, made anew, deleted again |
//! | `owners` | whose a load balancer is: of another cluster, of another project, of several Services |
//! | `options` | other protocols, security groups, TLS |
//! | `routes` | routes through the router, and pairs on ports |
//! | `takeover` | what the Go manager has left: nothing of it is written |
//! | `manifest` | the overlay, with the Secret of the Go manager |
//! | `faults` | requests that fail on their way |
//! | `lab` | the lab itself |
//!
//! Where a test deletes a Service, and at its end, `wasm-ccm plan --all` has nothing to write (`settled`): what is ensured is stable.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod account;
mod balancers;
mod changes;
mod errors;
mod faults;
mod lab;
#[expect(dead_code, reason = "other system tests need more of it")]
#[path = "../system/look.rs"]
mod look;
mod manifest;
mod nodes;
mod options;
#[expect(dead_code, reason = "other system tests need more of it")]
#[path = "../system/manifests/overlay.rs"]
mod overlay;
mod owners;
mod rig;
mod routes;
#[expect(dead_code, unused_imports, reason = "other system tests need more of it")]
#[path = "../system/service_look.rs"]
mod service_look;
#[expect(dead_code, reason = "other system tests need more of it")]
#[path = "../system/stage.rs"]
mod stage;
mod takeover;
