//! What the commands ask of the cluster, read and judged in one place.
//!
//! | module | asks for |
//! |---|---|
//! | [`api_server`] | the API server itself: where it is, who asks, how long an answer may take |
//! | [`health_port`] | pages of a host: by an address, or through the API server |
//! | [`series`] | of a page of metrics, the lines that count |
//! | [`lease`] | the Leases of managers: who holds one, and whether the holder renews it |
//! | [`pods`] | the pods that may be a host, or another manager |
//! | [`objects`] | Nodes and Services: their state, with the predicates of the controllers |
//! | [`events`] | the Events of an object |

pub(crate) mod api_server;
pub(crate) mod events;
pub(crate) mod health_port;
pub(crate) mod lease;
pub(crate) mod objects;
pub(crate) mod pods;
mod series;

pub use api_server::Access;
pub(crate) use api_server::{ANSWER, Cluster, answered};
pub use health_port::address;
