//! What a provider is written with.
//!
//! A provider is a type that implements the traits of the interfaces it offers, and one line that exports them:
//!
//! ```
//! use ccm_sdk::instances::{self, Finding, Need};
//! use ccm_sdk::meta::{self, Capability, Descriptor};
//! use ccm_sdk::types::{Failure, Node, Problem};
//!
//! struct Nowhere;
//!
//! impl meta::Guest for Nowhere {
//!     fn describe() -> Descriptor {
//!         Descriptor {
//!             name: "nowhere".to_owned(),
//!             version: "0.1.0".to_owned(),
//!             revision: "1".to_owned(),
//!             provider_id_schemes: vec!["nowhere".to_owned()],
//!             files: vec![],
//!             endpoints: vec![],
//!             credentials: vec![],
//!             settings: vec![],
//!             annotations: vec![],
//!             more: vec![],
//!         }
//!     }
//!
//!     fn offers() -> Result<Vec<Capability>, Failure> {
//!         Ok(vec![])
//!     }
//!
//!     fn check(_online: bool) -> Result<Vec<Problem>, Failure> {
//!         Ok(vec![])
//!     }
//! }
//!
//! impl instances::Guest for Nowhere {
//!     fn find(nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, Failure> {
//!         Ok(nodes.iter().map(|_| Finding::Unknown(Failure::retry("nowhere has no machines"))).collect())
//!     }
//! }
//!
//! ccm_sdk::export!(Nowhere: meta, instances);
//! # fn main() {}
//! ```
//!
//! The component exports what the line names and nothing else; a trait that is named but not implemented does not compile.
//!
//! # Tests
//!
//! Off WebAssembly there is no host behind the imports ([`http`], [`settings`], [`clock`], [`log`], …): calling one panics. Keep
//! decisions in functions that take what they decide on, and call imports only in the methods of the `Guest` traits.

#[doc(hidden)]
pub mod bindings;
pub mod clock;
pub mod duration;
mod export;
mod failure;
mod guard;
pub mod log;
mod panic;
pub mod settings;

#[doc(hidden)]
pub use guard::Guarded;

// The contract, under its own names. `clock`, `log` and `settings` have wrappers of the same name above.
pub use bindings::cluster::exports::ccm::cloud::cluster;
pub use bindings::load_balancer_survey::exports::ccm::cloud::load_balancer_survey;
pub use bindings::load_balancers::exports::ccm::cloud::load_balancers;
pub use bindings::provider::ccm::cloud::{cache, credentials, events, http, nodes, types};
pub use bindings::provider::exports::ccm::cloud::{instances, meta};
pub use bindings::routes::exports::ccm::cloud::routes;
