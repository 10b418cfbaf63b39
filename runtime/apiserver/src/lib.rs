//! The way to the API server.
//!
//! | module | does |
//! |---|---|
//! | `config` | where the API server is, and who asks: `--kubeconfig`, `--master`, the pod's service account |
//! | `connection` | connections for watches and reads, which are given up when the API server falls silent |
//! | `fenced` | connections for writes, from which no byte leaves after the leadership ended |

mod config;
mod connection;
mod fenced;

pub use config::config;
pub use connection::{Pings, client};
pub use fenced::fenced_client;
