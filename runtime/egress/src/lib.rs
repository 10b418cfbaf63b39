//! What a provider may use of the world outside its sandbox. Files are named after the imports of the contract.
//!
//! | import | here | what |
//! |---|---|---|
//! | `http` | [`Egress`] | the way of a request: endpoint, credentials, budget, shared answers, retries |
//! | `credentials` | [`Egress`] | secrets and signatures as parts of a request; tokens that answers give |
//! | `settings` | [`Settings`] | files and settings that the provider declared and the operator gave |
//! | `cache` | [`Cache`] | bounded bytes with a life time, per provider |
//! | `log` | [`CallLog`] | bounded in lines and length, control characters escaped |
//!
//! [`Egress::open`] makes the egress of a provider from what the operator gives ([`EgressConfig`]) and what the component
//! declares. A [`ProviderContext`] is everything that one provider may use; its calls share it. What belongs to a single call
//! ([`CallLog`], [`CallScope`]) is made for it.

mod addresses;
mod answer;
mod budget;
mod cache;
mod call;
mod captured;
mod carryover;
mod client;
mod config_file;
mod configuration;
mod context;
mod credentials;
mod effect;
mod egress;
mod encoding;
mod endpoints;
mod error;
mod failed_requests;
mod file_stamp;
#[cfg(test)]
mod fuzz;
mod headers;
mod hosts;
mod json_pointer;
mod log;
mod login_names;
mod long_work;
mod memory;
mod one_line;
mod paths;
mod process_secrets;
mod redact;
mod retry;
mod secret;
mod settings;
mod share;
mod signature;
mod signed;

pub mod http;
pub mod observe;

pub use budget::Class;
pub use cache::Cache;
pub use call::CallScope;
pub use carryover::Carryover;
pub use context::ProviderContext;
pub use credentials::SourceState;
pub use egress::{Barrier, Blocked, Egress, EgressConfig, OpenError, Predecessor, Way};
pub use error::{CredentialRefusal, TransportError, TransportReason};
pub use failed_requests::FailedRequests;
pub use log::{CallLog, Level, LogLimits};
pub use memory::{CallMemory, MemoryBudget, MemoryShare, NoRoom};
pub use one_line::{line, pasted};
pub use process_secrets::{ProcessSecrets, Veil};
pub use settings::Settings;

/// What the operator gives a provider: files, grants, credentials and limits.
pub mod config {
    pub use crate::addresses::AddressRules;
    pub use crate::budget::BudgetSettings;
    pub use crate::client::{ClientSettings, Proxy, ProxyError};
    pub use crate::config_file::{
        ConfigFile, ConfigFileError, Environment, Found, FoundValue, MAX_CONFIG_FILE, grants, resolve, text,
    };
    pub use crate::configuration::{Configuration, Files};
    pub use crate::credentials::{
        CredentialSource, NoUseGrant, Object, SourceError, UseGrant, UseGrants, needs_no_grant,
    };
    pub use crate::egress::{NetworkLimits, NetworkSettings};
    pub use crate::endpoints::OperatorGrants;
    pub use crate::headers::HeaderLimits;
    pub use crate::hosts::HostPattern;
    pub use crate::retry::RetrySettings;
    pub use crate::secret::Secret;
}
