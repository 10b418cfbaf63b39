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
//!         Descriptor::new("nowhere", "0.1.0")
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
//! # What is where
//!
//! Most of a provider is the same for every cloud, and is here. What is left is what your cloud calls its things.
//!
//! | your provider | is written with |
//! |---|---|
//! | says what it needs from whoever runs the cluster: URL, token, settings | [`describe`] |
//! | reads a configuration file, of YAML or INI | [`config`], [`words!`](macro@crate::words), [`duration`] |
//! | asks the cloud, and reads its answers and its lists | [`Cloud`], [`records!`], [`paging`] |
//! | logs in, in one way or another | [`Session`], [`credential`] |
//! | signs its requests, by HMAC or by a private key | [`sign`] |
//! | finds the machines behind the cluster's Nodes, and says that one is gone only with proof | [`find`] |
//! | gives Nodes their labels | [`label`] |
//! | reads what people write on a Service: annotations, and which clients it lets in | [`annotations`](mod@annotations), [`cidr`] |
//! | changes a cloud that takes one write at a time | [`steps`] |
//! | tells people what became of it | [`Done`], [`events`], [`log`] |
//!
//! A *Node* is a machine of the cluster, as Kubernetes knows it; its *provider ID* names the machine in your cloud. A *Service* of
//! type `LoadBalancer` asks for a load balancer; *annotations* are texts on it that say how. The *host* is the program that runs
//! your provider: it talks to Kubernetes, keeps the credentials, and calls you.
//!
//! # Talking to a cloud
//!
//! A [`Cloud`] is an endpoint with all that its requests have in common; a [`Request`] is built by chaining, and an [`Answer`] is
//! read as JSON or turned into a failure that tells the host what to do. [`paging`] reads whole lists, [`Session`] keeps the
//! token of a login. `docs/guides/write-a-provider.md` has an example.
//!
//! # Load balancers
//!
//! Implement [`load_balancers::Guest`], name it in the line that exports, and name the capability in `offers`. An
//! [`Outcome`](load_balancers::Outcome) is built with `done`, `gone` and `failed`, [`Ingress`](types::Ingress) with `ip` and
//! `hostname`. [`load_balancer_survey`], [`load_balancer_orphan`] and [`cluster`] are further traits of the same kind.
//!
//! # Tests
//!
//! Off WebAssembly there is no host behind the imports ([`settings`], [`cache`], [`clock`], [`log`], …): calling one panics. Keep decisions
//! in functions that take what they decide on, and call imports only in the methods of the `Guest` traits. For what talks to a
//! cloud, the module `testing` (with the feature of that name) has a cloud made of a script.

#[cfg(target_family = "wasm")]
mod allocator;
pub mod annotations;
mod answer;
#[doc(hidden)]
pub mod bindings;
pub mod cache;
pub mod cidr;
pub mod clock;
mod cloud;
pub mod config;
pub mod credential;
mod decode_error;
pub mod describe;
mod done;
pub mod duration;
pub mod events;
mod export;
mod failure;
pub mod find;
mod guard;
pub mod label;
pub mod log;
mod node;
pub mod ordered;
mod outcome;
pub mod paging;
mod panic;
mod part;
pub mod percent;
mod quoted;
pub mod record;
mod request;
mod route;
mod session;
pub mod settings;
pub mod sign;
mod status;
pub mod steps;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport;
pub mod words;

pub use answer::{Answer, Unanswered};
pub use cloud::Cloud;
pub use done::{Done, Warning};
#[doc(hidden)]
pub use guard::Guarded;
pub use quoted::quoted;
pub use request::{Request, Session};
pub use session::send_all;

#[doc(hidden)]
pub use serde;

// The contract, under its own names. `cache`, `clock`, `events`, `log` and `settings` have wrappers of the same name above.
pub use bindings::cluster::exports::ccm::cloud::cluster;
pub use bindings::load_balancer_orphan::exports::ccm::cloud::load_balancer_orphan;
pub use bindings::load_balancer_survey::exports::ccm::cloud::load_balancer_survey;
pub use bindings::load_balancers::exports::ccm::cloud::load_balancers;
pub use bindings::provider::ccm::cloud::{credentials, http, nodes, types};
pub use bindings::provider::exports::ccm::cloud::{instances, meta};
pub use bindings::routes::exports::ccm::cloud::routes;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/write-a-provider.md")]
struct Guide;
