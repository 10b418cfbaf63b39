//! System tests: a real API server, the real host with the least permissions, real components.
//!
//! | module | shows, by section of the behaviour reference |
//! | --- | --- |
//! | `initialise` | what a Node has after its initialisation (2.3 to 2.7, 7.1, 7.2) |
//! | `provided_ip` | the address that a kubelet asks for (2.8, 7.7) |
//! | `waiting` | Nodes that cannot be initialised yet, what people are told, and how they go on |
//! | `order` | writes: their order, their number, Events, batches (2.3, 2.11) |
//! | `labels` | pairs of old and new labels (2.9, 7.3) |
//! | `refresh` | addresses ever after (2.10, 7.4, 7.6) |
//! | `foreign_addresses` | addresses that a provider gives, and that are not the Node's or the Service's |
//! | `node_lifecycle` | Nodes whose machine is gone or switched off (3, 7.8, 7.9, A-18 to A-21) |
//! | `services` | whose Services are served, what people are told, restarts that cost nothing (4) |
//! | `classes` | load balancer classes that a provider serves |
//! | `service_faults` | Services, clouds and API servers that change, fail and go in the middle of it |
//! | `service_recovery` | load balancers that somebody breaks at the cloud |
//! | `selection` | Nodes that are chosen by their labels, and Nodes that nobody knows |
//! | `verification` | load balancers that are compared with the cloud |
//! | `crash_points` | a process that is killed at every step of what it does for a Service |
//! | `walkthrough` | the walk-through of Cloudlycke about Services, A-06, A-12, A-14 to, A-26 |
//! | `routes` | routes to pods, and what Nodes are told of their network (5, A-22 to A-24) |
//! | `whole_cluster` | a firewall that follows Services and Nodes |
//! | `webhook` | Services that are refused before they are there |
//! | `faults` | an API server that is away, other writers, Nodes that come again, the end of the process |
//! | `api_server` | one that refuses what belongs to a namespace, falls silent, or was restored from a backup |
//! | `sources` | where providers come from |
//! | `by_hand` | a host that is run by hand, as the guide says |
//! | `refused` | providers that are not taken, and their repair |
//! | `regions` | several providers of one component: two regions of one cloud |
//! | `reload` | a configuration that changes while the host works, and one that is refused |
//! | `swap` | providers that are exchanged while the host works, and those that are refused or rolled back |
//! | `flags` | flags that no other test needs: each changes what is seen |
//! | `mistakes` | flags and files that cannot be |
//! | `inspect` | `wasm-ccm inspect` |
//! | `doctor` | `wasm-ccm doctor`: each check with what makes it fail |
//! | `explain` | `wasm-ccm explain`: Services and Nodes that are stuck, with a leader and without |
//! | `status` | the status page, with a healthy and a broken provider, also in a browser |
//! | `hostile` | providers that crash, WASI |
//! | `hello` | providers of other tool chains |
//! | `acceptance` | the walk-through of Cloudlycke, A-01 to A-11 |
//! | `access` | who may read the health port where it asks for a token |
//! | `manifests` | what `manifests/` has is taken by the API server, started as it says, and allows what is needed and no more |
//! | `metrics` | health and metrics (2.11) |
//! | `credentials` | where secrets come from, their rotation, and that nobody sees them |
//! | `digitalocean` | DigitalOcean: its component, and a simulator that checks every exchange against the vendor's OpenAPI document |
//! | `grants` | endpoints, variables, files: what works, what is refused and how that is said |

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod acceptance;
mod access;
mod api_server;
mod by_hand;
mod bytes;
mod classes;
mod cloud;
mod cluster_controller;
mod collector;
mod completion;
mod crash_points;
mod credentials;
mod digitalocean;
mod doctor;
mod explain;
mod faults;
mod flags;
mod foreign_addresses;
mod grants;
mod hello;
mod hostile;
mod initialise;
mod inspect;
mod labels;
mod leader;
mod look;
mod manifests;
mod metrics;
mod mistakes;
mod node_lifecycle;
mod order;
mod provided_ip;
mod records;
mod refresh;
mod refused;
mod regions;
mod reload;
mod routes;
mod selection;
mod service_faults;
mod service_look;
mod service_recovery;
mod services;
mod sources;
mod stage;
mod status;
mod stopping;
mod swap;
mod verification;
mod waiting;
mod walkthrough;
mod way;
mod webhook;
