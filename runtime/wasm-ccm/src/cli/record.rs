//! What belongs to one provider, beside its source: flags of `run`, and of tools that do a part of its work.

use std::path::PathBuf;

use anyhow::Result;
use ccm_rollout::Trust;
use ccm_rollout::config::limits::LimitSettings;
use ccm_rollout::config::{ProviderRecord, Wasi, load_balancer_class};
use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _};

use super::grants::{GrantArgs, once_each};
use super::pair;

/// What a component is held to, whatever its configuration.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub(crate) struct ComponentArgs {
    /// The name that the component must have.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cloud_provider: Option<String>,
    /// A limit, such as memory-bytes=64MiB (docs/reference/limits.md lists them all); may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) limit: Vec<(String, String)>,
    /// What a component that imports WASI gets; deny-all by default.
    #[arg(long, value_name = "WASI", value_parser = wasi())]
    pub(crate) wasi: Option<Wasi>,
    /// A public key (Ed25519, PEM). Only components that one of the keys signed are taken, and those of --provider-digest. May be
    /// given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) provider_key: Vec<PathBuf>,
    /// The digest (sha256:...) of an unpacked component that is taken; may be given several times.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) provider_digest: Vec<String>,
}

/// How a provider is configured, and what it is granted.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub(crate) struct ConfigArgs {
    /// The provider's configuration file.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud_config: Option<PathBuf>,
    /// A setting that the provider declares; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) setting: Vec<String>,
    #[command(flatten)]
    pub(crate) grants: GrantArgs,
}

/// All of one provider but its source.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// A load balancer class that the provider serves in addition to Services without a class; may be given several times.
    #[arg(long, value_name = "CLASS", value_parser = load_balancer_class, help_heading = "Provider")]
    pub(crate) load_balancer_class: Vec<String>,
    /// Take a new component with another name or other provider IDs than the one that serves, or without an interface that
    /// objects depend on.
    #[arg(long, help_heading = "Provider")]
    pub(crate) allow_provider_change: bool,
}

impl ComponentArgs {
    /// The record of a provider from this source that is not configured.
    ///
    /// # Errors
    ///
    /// A limit cannot be.
    pub(crate) fn record(&self, source: String) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            source,
            name: self.cloud_provider.clone(),
            trust: Trust { keys: self.provider_key.clone(), digests: self.provider_digest.clone() },
            wasi: self.wasi.unwrap_or_default(),
            limits: LimitSettings::from_pairs(&self.limit)?,
            ..ProviderRecord::default()
        })
    }
}

impl ConfigArgs {
    /// Puts the configuration into a record.
    ///
    /// # Errors
    ///
    /// A flag that takes each name once has one twice.
    pub(crate) fn configure(&self, record: ProviderRecord) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            cloud_config: self.cloud_config.clone(),
            settings: once_each("--setting", &self.setting)?,
            grants: self.grants.settings()?,
            credentials: once_each("--credential", &self.grants.credential)?,
            ..record
        })
    }
}

impl RecordArgs {
    /// The record of the provider from this source.
    ///
    /// # Errors
    ///
    /// A flag that takes each name once has one twice, or a limit cannot be.
    pub(crate) fn record(&self, source: String) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            allow_provider_change: self.allow_provider_change,
            load_balancer_classes: self.load_balancer_class.clone(),
            ..self.config.configure(self.component.record(source)?)?
        })
    }
}

/// What a component that asks for WASI gets.
pub(super) fn wasi() -> impl clap::builder::TypedValueParser<Value = Wasi> {
    PossibleValuesParser::new(["deny-all", "off"]).try_map(|text| text.parse::<Wasi>())
}
