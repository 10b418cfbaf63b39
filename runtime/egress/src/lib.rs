//! What a provider may use of the world outside its sandbox. Files are named after the imports of the contract.
//!
//! | import | here | today |
//! |---|---|---|
//! | `settings` | [`settings`] | files and settings that the provider declared and the operator gave |
//! | `cache` | [`cache`] | bounded bytes with a life time, per provider |
//! | `log` | [`log`] | bounded in lines and length, control characters escaped |
//! | `http` | [`http`] | no endpoint can be granted yet: every request is denied |
//!
//! One [`Door`] per provider. It is shared by all calls of that provider; what belongs to a single call ([`log::CallLog`])
//! is made for it.

pub mod budget;
pub mod cache;
pub mod config_file;
pub mod credentials;
pub mod encoding;
pub mod http;
pub mod log;
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
}
