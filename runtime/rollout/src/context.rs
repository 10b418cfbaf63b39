//! From an operator's record to what a provider may use: files, settings, endpoints, credentials.

mod secret;
#[cfg(test)]
mod tests;
mod unread;
mod withheld;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use ccm_cloud::{Descriptor, Leadership, NodeSelector, Problem, way_out_of};
pub use ccm_egress::Carryover;
pub use ccm_egress::ProcessSecrets;
use ccm_egress::config::{
    ClientSettings, ConfigFile, Configuration, CredentialSource, Environment, Files, NetworkSettings, OperatorGrants,
    Proxy,
};
use ccm_egress::observe::ExchangeObserver;
use ccm_egress::{Cache, Egress, EgressConfig, Predecessor, ProviderContext, Settings};
use ccm_sandbox::Provider;
use kube::Client;
pub(crate) use unread::{Variables, unread};
pub use withheld::Withheld;

use crate::config::ProviderConfig;
use crate::config::grants::{CredentialPlace, variable_value};

/// Where the environment names a proxy.
const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// The hosts that are asked without it.
const PROXY_EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// What all providers of the process share.
#[derive(Clone)]
pub struct SharedContext {
    /// None without a cluster: then no credential can come from a Secret.
    pub client: Option<Client>,
    /// Whether this replica may write to the cloud.
    pub leadership: Arc<dyn Leadership>,
    /// Counts requests to clouds; none where nobody reads metrics.
    pub exchanges: Option<Arc<dyn ExchangeObserver>>,
    /// The Nodes of the cluster, by label selector; none without a cluster.
    pub nodes: Option<Arc<dyn NodeSelector>>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-cidr`.
    pub cluster_cidrs: Vec<String>,
    /// Whether requests and answers are logged, without secrets.
    pub trace_http: bool,
    /// Whether no request leaves to a cloud.
    pub offline: bool,
    /// What no provider of the process may say.
    pub secrets: ProcessSecrets,
}

/// Opens the context of a provider. What its credentials may be used for counts once the provider is taken
/// ([`Egress::pin_uses`]). `digest`: that of the component; empty where it is opened once and no more.
///
/// # Errors
///
/// All that is wrong with settings, endpoints or credentials, with the way out.
pub async fn open(
    config: &ProviderConfig,
    descriptor: &Descriptor,
    files: Files,
    carryover: &Carryover,
    shared: &SharedContext,
    before: Option<&Provider>,
    digest: &str,
) -> Result<ProviderContext> {
    let empty = empty_sections(&files);
    let environment = environment(config);
    let withheld = Withheld::of(config, descriptor, &environment);
    let mut configuration = Configuration::new(files, environment);
    let settings = configuration.settings(descriptor, &config.settings);
    let settings = settings.map_err(|problems| anyhow!(problem_text(&problems)))?;
    let (cluster_name, cluster_cidrs) = (shared.cluster_name.clone(), shared.cluster_cidrs.clone());
    if !withheld.is_empty() {
        tracing::warn!(
            provider = descriptor.name,
            variables = withheld.told(),
            "environment variables that could count for the provider are set but not granted; --allow-env grants them{}",
            withheld.caution()
        );
    }
    for told in &empty {
        tracing::warn!(provider = descriptor.name, "{told}");
    }
    let NetworkSettings { limits, client, .. } = config.limits.network;
    let egress = EgressConfig {
        grants: grants(config, descriptor, &configuration)?,
        credentials: credentials(config, descriptor, shared.client.as_ref()).await?,
        credential_uses: config.credential_uses.clone(),
        configuration,
        hidden: vec![],
        secrets: shared.secrets.clone(),
        allow_wider_use: config.grants.allow_grant_change,
        settings: NetworkSettings {
            client: ClientSettings { headers: limits.headers, ..client },
            trace: shared.trace_http,
            offline: shared.offline,
            ..config.limits.network.clone()
        },
        leadership: Arc::clone(&shared.leadership),
        observer: shared.exchanges.clone(),
        component: digest.to_owned(),
    };
    let before = before.map(|before| Predecessor {
        descriptor: before.descriptor(),
        egress: before.egress(),
        is_configured_alike: *before.files() == settings.files,
    });
    Ok(ProviderContext {
        settings: Settings { cluster_name, cluster_cidrs, ..settings },
        cache: Cache::new(config.limits.cache_bytes),
        log: config.limits.log,
        egress: Some(Egress::open(egress, descriptor, carryover, before)?),
        nodes: shared.nodes.clone(),
        ..ProviderContext::closed()
    })
}

/// Where requests may go, with the proxies of the environment.
fn grants(config: &ProviderConfig, descriptor: &Descriptor, configuration: &Configuration) -> Result<OperatorGrants> {
    let mut grants = config.grants.operator()?;
    if let Some(proxy) = grants.proxies.remove("*") {
        for endpoint in &descriptor.endpoints {
            grants.proxies.entry(endpoint.name.clone()).or_insert_with(|| proxy.clone());
        }
    }
    let variable = |names: [&str; 2]| names.into_iter().find_map(|name| configuration.variable(name));
    grants.environment_proxy = variable(PROXY_VARIABLES)
        .filter(|url| !url.is_empty())
        .map(|url| Proxy::from_environment(url, variable(PROXY_EXCEPTIONS)))
        .transpose()
        .map_err(|error| anyhow!("HTTPS_PROXY: {error}"))?;
    Ok(grants)
}

/// The credentials whose places the operator named.
async fn credentials(
    config: &ProviderConfig,
    descriptor: &Descriptor,
    client: Option<&Client>,
) -> Result<BTreeMap<String, CredentialSource>> {
    let known: Vec<&str> = descriptor.credentials.iter().map(|credential| credential.name.as_str()).collect();
    let mut sources = BTreeMap::new();
    let flags = config.credentials.keys().map(|name| ("--credential", name));
    let mut flags = flags.chain(config.credential_uses.keys().map(|name| ("--credential-use", name)));
    if let Some((flag, name)) = flags.find(|(_, name)| !known.contains(&name.as_str())) {
        let way_out = way_out_of(name, &known);
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it knows {known:?}") };
        bail!("{flag} {name}=...: the provider has no such credential, {known}; {way_out}");
    }
    let mut secrets: BTreeMap<(&str, &str), Vec<(&str, &str)>> = BTreeMap::new();
    for (credential, place) in &config.credentials {
        let source = match place {
            CredentialPlace::File(path) => CredentialSource::file(path.clone()),
            CredentialPlace::Environment(variable) => {
                let value = variable_value(variable).with_context(|| format!("credential {credential:?}"))?;
                CredentialSource::Environment { variable: variable.clone(), value }
            }
            CredentialPlace::Secret { namespace, name, key } => {
                secrets.entry((namespace, name)).or_default().push((credential, key));
                continue;
            }
        };
        sources.insert(credential.clone(), source);
    }
    for ((namespace, name), keys) in secrets {
        let client = client.with_context(|| {
            let credential = keys.first().map(|(credential, _)| *credential).unwrap_or_default();
            format!("credential {credential:?}: a Secret is read only by `run`; give file:PATH or env:VARIABLE here")
        })?;
        sources.extend(secret::watched(client, namespace, name, &keys).await?);
    }
    Ok(sources)
}

/// What the operator grants of the variables of this process. Names that are no text are nobody's.
pub(crate) fn environment(config: &ProviderConfig) -> Environment {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Environment::new(&config.grants.allow_env, variables)
}

/// What is to be said of sections without a key: a provider does not see that they are there.
pub(crate) fn empty_sections(files: &Files) -> Vec<String> {
    let of = |(name, file): (&String, &ConfigFile)| {
        let told = |section: &String| {
            format!(
                "{name}: the section {section} has no key, and counts as if it were not there; add a key, or remove it"
            )
        };
        file.empty_sections().iter().map(told).collect::<Vec<_>>()
    };
    files.parsed.iter().flat_map(of).collect()
}

/// Problems in one line.
pub(crate) fn problem_text(problems: &[Problem]) -> String {
    let told: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    told.join("; ")
}
