//! What the host says of a provider on `/providerz?format=json`.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// How a provider stands; empty while the host does not say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ProviderPage {
    /// Who serves.
    pub serving: Serving,
    /// `probation` or `proven`.
    pub phase: String,
    /// Since when it is in its phase.
    pub since: Timestamp,
    /// Grows with every exchange.
    pub generation: u64,
    /// Of the last exchange.
    pub times: Times,
}

/// A component.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Serving {
    /// What it says of itself.
    pub version: String,
    /// `sha256:…`
    pub digest: String,
}

/// In milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Times {
    /// From the first look to bytes that stay the same.
    pub read_ms: f64,
    /// The compiler.
    pub compile_ms: f64,
    /// All other steps of the gate from the unpacked bytes on, and the exchange.
    pub takeover_ms: f64,
    /// The exchange itself.
    pub exchange_ms: f64,
    /// From there to the end of the first call that began on the new component.
    pub first_call_ms: Option<f64>,
}
