//! What a provider may use of the world outside its sandbox. Files are named after the imports of the contract.
//!
//! | import | here | what |
//! |---|---|---|
//! | `http` | [`network`] | the way of a request: [`endpoints`], [`credentials`], [`budget`], [`share`], [`client`] |
//! | `credentials` | [`credentials`] | secrets and signatures as parts; [`capture`] for those that answers give |
//! | `settings` | [`settings`] | files and settings that the provider declared and the operator gave |
//! | `cache` | [`cache`] | bounded bytes with a life time, per provider |
//! | `log` | [`log`] | bounded in lines and length, control characters escaped |
//!
//! One [`Door`] per provider. It is shared by all calls of that provider; what belongs to a single call ([`log::CallLog`],
//! [`call::CallScope`]) is made for it.

use std::sync::Arc;

use ccm_cloud::NodeSelector;

pub mod addresses;
pub mod answer;
pub mod budget;
pub mod cache;
pub mod call;
pub mod capture;
pub mod client;
pub mod config_file;
mod configuration;
pub mod credentials;
mod effect;
pub mod encoding;
pub mod endpoints;
mod file_stamp;
pub mod headers;
pub mod hosts;
pub mod http;
pub mod log;
pub mod network;
pub mod observe;
pub mod paths;
pub mod redact;
pub mod retry;
pub mod secret;
pub mod settings;
pub mod share;
pub mod signature;

/// All that one provider may use.
pub struct Door {
    /// What the operator configured for it.
    pub settings: settings::Settings,
    /// Bytes that outlive a call.
    pub cache: cache::Cache,
    /// How much a call may log.
    pub log: log::LogLimits,
    /// The cloud; none while the provider is asked who it is.
    pub network: Option<network::Network>,
    /// The cluster's Nodes; none while nobody watches them.
    pub nodes: Option<Arc<dyn NodeSelector>>,
    /// Schemes of the provider IDs that it is told of: its own, once it has said who it is.
    pub schemes: Vec<String>,
}

impl Door {
    /// Nothing is granted.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            settings: settings::Settings::default(),
            cache: cache::Cache::new(0),
            log: log::LogLimits::default(),
            network: None,
            nodes: None,
            schemes: vec![],
        }
    }
}
