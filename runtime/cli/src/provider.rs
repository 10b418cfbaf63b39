//! Flags that say what a provider is: its source, its configuration, its grants, and how it is exchanged. `run` has all of them, and the
//! tools that do a part of its work have some.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ccm_rollout::config::duration::{parse, parse_period};
use ccm_rollout::config::grants::GrantSettings;
use ccm_rollout::config::limit_preset::LimitPreset;
use ccm_rollout::config::limits::LimitSettings;
use ccm_rollout::config::{ProviderRecord, Wasi, load_balancer_class};
use ccm_rollout::{KeeperSettings, PeerSettings, ProbationSettings, Trust};
use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _};

/// The flags for a single provider, besides its source.
pub(super) const SINGLE: [&str; 24] = [
    "cloud_provider",
    "cloud_config",
    "setting",
    "limits",
    "limit",
    "wasi",
    "load_balancer_class",
    "endpoint",
    "allow_host",
    "allow_http",
    "allow_loopback",
    "allow_skip_verification",
    "proxy",
    "allow_env",
    "allow_file",
    "allow_annotation",
    "allow_shared_address",
    "credential",
    "credential_use",
    "allow_grant_change",
    "provider_key",
    "provider_digest",
    "allow_provider_change",
    "allow_downgrade",
];

/// The provider, or the list of them.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub struct ProviderArgs {
    /// Where the provider's component is: a file, a folder, or configmap:NAMESPACE/NAME[/KEY].
    #[arg(long, value_name = "SOURCE", required_unless_present = "providers")]
    pub provider: Option<String>,
    /// A YAML list of providers, instead of the flags for a single one.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "provider",
        conflicts_with_all = SINGLE
    )]
    pub providers: Option<PathBuf>,
    /// The one provider, if there is no list.
    #[command(flatten)]
    pub record: RecordArgs,
}

/// What a component is held to, whatever its configuration.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub struct ComponentArgs {
    /// The name that the component must have.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub cloud_provider: Option<String>,
    /// The defaults of the limits; standard by default. large-runtime is for a component that contains a large runtime of its language.
    #[arg(long, value_name = "PRESET", value_parser = limit_preset())]
    pub limits: Option<LimitPreset>,
    /// A limit, such as memory-bytes=64MiB (docs/reference/limits.md lists them all); may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub limit: Vec<(String, String)>,
    /// What a component that imports WASI gets; deny-all by default.
    #[arg(long, value_name = "WASI", value_parser = wasi())]
    pub wasi: Option<Wasi>,
    /// A public key (Ed25519 or ECDSA P-256, PEM). The host accepts only components that one of the keys signed, and those of --provider-digest.
    /// May be given several times.
    #[arg(long, value_name = "FILE")]
    pub provider_key: Vec<PathBuf>,
    /// The digest (sha256:...) of an unpacked component that the host accepts; may be given several times.
    #[arg(long, value_name = "DIGEST")]
    pub provider_digest: Vec<String>,
}

/// How a provider is configured, and what it is granted.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub struct ConfigArgs {
    /// The provider's configuration file.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// A setting that the provider declares; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub setting: Vec<String>,
    /// What the provider may do.
    #[command(flatten)]
    pub grants: GrantArgs,
}

/// All of one provider but its source.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub struct RecordArgs {
    #[command(flatten)]
    pub component: ComponentArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// A load balancer class that the provider serves in addition to Services without a class; may be given several times.
    #[arg(long, value_name = "CLASS", value_parser = load_balancer_class, help_heading = "Provider")]
    pub load_balancer_class: Vec<String>,
    /// Accept a new component with another name or other provider IDs than the one that serves, without an interface that
    /// objects depend on, or that finds less than the old one; and a first component that finds no existing object.
    #[arg(long, help_heading = "Provider")]
    pub allow_provider_change: bool,
    /// Accept a signed component whose counter is lower than that of a component that was proven before, or whose signature has none.
    #[arg(long, help_heading = "Provider")]
    pub allow_downgrade: bool,
}

impl ComponentArgs {
    /// The record of a provider from this source that is not configured.
    ///
    /// # Errors
    ///
    /// A limit cannot be.
    pub fn record(&self, source: String) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            source,
            name: self.cloud_provider.clone(),
            trust: Trust { keys: self.provider_key.clone(), digests: self.provider_digest.clone() },
            wasi: self.wasi.unwrap_or_default(),
            limits_preset: self.limits.unwrap_or_default(),
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
    pub fn configure(&self, record: ProviderRecord) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            cloud_config: self.cloud_config.clone(),
            settings: once_each("--setting", &self.setting)?,
            grants: self.grants.settings()?,
            credentials: once_each("--credential", &self.grants.credential)?,
            credential_uses: several_each("--credential-use", &self.grants.credential_use)?,
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
    pub fn record(&self, source: String) -> Result<ProviderRecord> {
        Ok(ProviderRecord {
            allow_provider_change: self.allow_provider_change,
            allow_downgrade: self.allow_downgrade,
            load_balancer_classes: self.load_balancer_class.clone(),
            ..self.config.configure(self.component.record(source)?)?
        })
    }
}

/// What a component that asks for WASI gets.
pub(super) fn wasi() -> impl clap::builder::TypedValueParser<Value = Wasi> {
    PossibleValuesParser::new(["deny-all", "off"]).try_map(|text| text.parse::<Wasi>())
}

/// Which defaults the limits have.
pub(super) fn limit_preset() -> impl clap::builder::TypedValueParser<Value = LimitPreset> {
    PossibleValuesParser::new(LimitPreset::ALL.map(LimitPreset::as_str)).try_map(|text| text.parse::<LimitPreset>())
}

/// Grants as flags.
// No `Debug`: a URL may have a password in it. What is NAME=VALUE is split by us, as clap would repeat what has no `=`.
#[derive(Clone, Default, Args)]
#[command(next_help_heading = "Grants")]
pub struct GrantArgs {
    /// Base URL of an endpoint of the provider (`wasm-ccm inspect` shows them); may be given several times.
    #[arg(long, value_name = "NAME=URL")]
    pub endpoint: Vec<String>,
    /// Hosts of the provider's default URLs and of the cloud's service catalogue, such as api.example.org or *.example.org;
    /// comma-separated. A host in --endpoint needs no such grant.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allow_host: Vec<String>,
    /// Allow endpoints without TLS (http://).
    #[arg(long)]
    pub allow_http: bool,
    /// Allow endpoints on this machine (127.0.0.0/8, ::1).
    #[arg(long)]
    pub allow_loopback: bool,
    /// Allow the cloud-config to switch off the verification of certificates. Everyone on the path can then read the credentials.
    #[arg(long)]
    pub allow_skip_verification: bool,
    /// Proxy of an endpoint, or with the name * of all others; may be given several times. Behind a proxy, the host checks names
    /// only, not addresses.
    #[arg(long, value_name = "NAME=URL")]
    pub proxy: Vec<String>,
    /// Environment variables that the provider may use, such as DO_*, comma-separated; also HTTPS_PROXY and NO_PROXY.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub allow_env: Vec<String>,
    /// A file that the provider may read besides its cloud-config; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub allow_file: Vec<PathBuf>,
    /// Source of a credential of the provider: file:PATH, env:VARIABLE or secret:NAMESPACE/NAME/KEY; may be given several times.
    #[arg(long, value_name = "NAME=SOURCE")]
    pub credential: Vec<String>,
    /// Use of a credential beyond one header of one endpoint that is for credentials, such as password=identity:body:/v3/auth/tokens; may be
    /// given several times. `wasm-ccm inspect FILE` prints this flag for each use that the component declares. The uses that you name replace
    /// the one that needs no grant.
    #[arg(long, value_name = "NAME=ENDPOINT:PLACE")]
    pub credential_use: Vec<String>,
    /// Annotations that the provider may declare besides those of its own domain, such as example.com/size or example.com/*,
    /// comma-separated. Its own domain has the provider's name in it. With --cloud-provider, names such as
    /// service.beta.kubernetes.io/NAME-size, with that name, need no grant either.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub allow_annotation: Vec<String>,
    /// Whose addresses the load balancers of the provider may have, if it declares that they share them: nodes, services, or both, comma-separated.
    #[arg(long, value_name = "WHOSE", value_delimiter = ',')]
    pub allow_shared_address: Vec<String>,
    /// Accept a component that uses credentials in more places than the first component, marks a dry run in another way, or uses more
    /// annotations that are not its own, and a changed cloud-config that names another host for an endpoint or protects it less.
    #[arg(long)]
    pub allow_grant_change: bool,
}

impl GrantArgs {
    /// The flags as a record has them.
    ///
    /// # Errors
    ///
    /// A name stands there twice.
    pub fn settings(&self) -> Result<GrantSettings> {
        Ok(GrantSettings {
            endpoints: once_each("--endpoint", &self.endpoint)?,
            allow_hosts: self.allow_host.clone(),
            allow_http: self.allow_http,
            allow_loopback: self.allow_loopback,
            allow_skip_verification: self.allow_skip_verification,
            proxies: once_each("--proxy", &self.proxy)?,
            allow_env: self.allow_env.clone(),
            allow_files: self.allow_file.clone(),
            allow_annotations: self.allow_annotation.clone(),
            allow_shared_addresses: self.allow_shared_address.clone(),
            allow_grant_change: self.allow_grant_change,
        })
    }
}

/// The NAME=VALUE of a flag that takes each name once: the last one would win, and nobody would know.
///
/// # Errors
///
/// Names the flag, and the name where it certainly is one: the text may be a secret whose name was forgotten.
fn once_each(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for text in given {
        let (name, value) = assignment(text).with_context(|| {
            format!("{flag}: what is given is not NAME=VALUE; it is not repeated here, as it may be a secret")
        })?;
        // An empty value is not proof enough that a name stands before it: Base64 ends in `=` as well.
        let shown = if value.is_empty() { "a name" } else { name };
        ensure!(
            map.insert(name.to_owned(), value.to_owned()).is_none(),
            "{flag} {shown}=... is given twice; leave one out"
        );
    }
    Ok(map)
}

/// The NAME=VALUE of a flag that takes a name several times.
///
/// # Errors
///
/// What is given is no NAME=VALUE.
fn several_each(flag: &str, given: &[String]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut map = BTreeMap::<String, Vec<String>>::new();
    for text in given {
        let (name, value) = assignment(text).with_context(|| format!("{flag}: what is given is not NAME=VALUE"))?;
        map.entry(name.to_owned()).or_default().push(value.to_owned());
    }
    Ok(map)
}

fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    // As descriptors name things. URLs, sentences and what ends in `==` are none.
    let is_name =
        name == "*" || (!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
    (is_name && !(value.starts_with('=') && value.bytes().all(|b| b == b'='))).then_some((name, value))
}

/// When a source counts as changed, and how a new component proves itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exchange of providers")]
pub struct SwapArgs {
    /// Interval between checks of a file or folder; ConfigMaps (configmap:) are watched.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_period)]
    pub provider_poll: Duration,
    /// Time for which a source must not change before its content counts: it may be half written.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = parse)]
    pub provider_settle: Duration,
    /// Minimum time of a new component's probation, without a fault. Until then the host deletes a Node only if the last good
    /// component agrees, and goes back to that component if the new one fails.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse)]
    pub provider_probation: Duration,
    /// Good answers that a new component must give before its probation ends. Failures and calls of the admission webhook do not
    /// count.
    #[arg(long, value_name = "N", default_value_t = ProbationSettings::default().calls)]
    pub provider_probation_calls: u32,
    /// Calls without an answer, or calls that fail where the last good component has an answer, after which the host goes back to it.
    #[arg(long, value_name = "N", default_value_t = ProbationSettings::default().faults, value_parser = clap::value_parser!(u32).range(1..))]
    pub provider_probation_faults: u32,
    /// Folder for the last good component of each provider. With it, the host can start while the source is missing or broken.
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
}

impl SwapArgs {
    /// As the keepers take them. `peers`: where replicas meet.
    pub fn settings(&self, peers: PeerSettings) -> KeeperSettings {
        KeeperSettings {
            poll: self.provider_poll,
            settle: self.provider_settle,
            probation: ProbationSettings {
                time: self.provider_probation,
                calls: self.provider_probation_calls,
                faults: self.provider_probation_faults,
            },
            state_dir: self.state_dir.clone(),
            peers: Some(peers),
        }
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let pairs = ["api=a", "api=b"].map(str::to_owned);
        let error = once_each("--endpoint", &pairs).unwrap_err().to_string();
        assert_eq!(error, "--endpoint api=... is given twice; leave one out");
    }
}
