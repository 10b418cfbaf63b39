//! From an operator's record to what a provider may use: files, settings, endpoints, credentials.

mod carryover;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use ccm_cloud::{Descriptor, Leadership, NodeSelector, Problem, Source};
use ccm_egress::Door;
use ccm_egress::cache::Cache;
use ccm_egress::client::{ClientSettings, Proxy};
use ccm_egress::config_file::{ConfigFile, Environment, declared, locate, resolve};
use ccm_egress::credentials::{CredentialSource, Credentials, Pin};
use ccm_egress::endpoints::{self, Endpoints, OperatorGrants};
use ccm_egress::network::{Network, NetworkParts, NetworkSettings};
use ccm_egress::observe::ExchangeObserver;
use ccm_egress::secret::Secret;
use ccm_egress::settings::Settings;
use ccm_sandbox::Provider;
use kube::Client;

use crate::config::ProviderConfig;
use crate::config::grants::{CredentialPlace, variable_value};
use crate::pipeline::problem_text;
use carryover::Admitted;
pub use carryover::Carryover;

/// Where the environment names a proxy.
const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];

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
}

/// The files of a provider by their declared names: what the operator wrote, and where.
#[derive(Default)]
pub struct Files {
    /// What stands in them.
    pub parsed: BTreeMap<String, ConfigFile>,
    /// Where they are.
    pub paths: BTreeMap<String, PathBuf>,
}

/// The provider whose place another one takes.
pub struct Before<'a> {
    descriptor: &'a Descriptor,
    network: Option<&'a Network>,
}

impl<'a> From<&'a Provider> for Before<'a> {
    fn from(provider: &'a Provider) -> Self {
        Self { descriptor: provider.descriptor(), network: provider.network() }
    }
}

/// Opens the door of a provider. What is admitted counts once the provider is taken ([`Carryover::taken`]). Of the one `before` it
/// gets a copy of tokens and found addresses: what it does with them must not change what that one works with, which is its
/// witness and may return.
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
    before: Option<Before<'_>>,
) -> Result<(Door, Admitted)> {
    // Names that are no text are nobody's.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Environment::new(&config.grants.allow_env, variables);
    let parsed = &files.parsed;
    let mut settings = Settings {
        files: parsed.iter().map(|(name, file)| (name.clone(), file.for_guest(&declared(descriptor, name)))).collect(),
        cluster_name: shared.cluster_name.clone(),
        cluster_cidrs: shared.cluster_cidrs.clone(),
        ..Settings::default()
    };
    let values = settings.set_values(descriptor, &config.settings, parsed, &environment);
    let values = values.map_err(|problems| anyhow!(problem_text(&problems)))?;

    let given = Given { config, descriptor, files: &files, environment, values };
    given.tell_withheld();
    let operator = given.operator()?;
    let mut hidden: Vec<(String, Secret)> =
        parsed.iter().flat_map(|(name, file)| file.hidden(&declared(descriptor, name))).collect();
    let proxies = operator.proxies.values().chain(&operator.environment_proxy);
    hidden.extend(proxies.filter_map(|proxy| Some(("proxy".to_owned(), proxy.password()?.clone()))));
    let settings_of_client =
        ClientSettings { headers: config.limits.network.limits.headers, ..config.limits.network.client };
    let found = |source: &Source| given.found(source);
    let (captured, bindings) = match &before {
        Some(before) => (Arc::default(), before.network.map(|before| before.endpoints().bindings().copy())),
        None => (Arc::clone(&carryover.captured), Some(carryover.bindings.clone())),
    };
    let bindings = bindings.unwrap_or_default();
    let endpoints = Endpoints::resolve(&descriptor.endpoints, &operator, found, settings_of_client, bindings);
    let endpoints = endpoints.map_err(|problems| anyhow!(problem_text(&problems)))?;
    for Problem { field, message, .. } in endpoints.warnings() {
        tracing::warn!(provider = descriptor.name, field, problem = message, "endpoint");
    }
    if let Some(before) = &before {
        nowhere_new(&endpoints, descriptor, before.descriptor)?;
    }
    let sources = given.credentials(shared.client.as_ref()).await?;
    let by_hand = |name: &str| config.credentials.contains_key(name);
    let admitted = carryover.admit(&descriptor.name, Pin::new(descriptor, &sources, by_hand), &config.grants)?;
    let least = config.limits.network.limits.min_credential_bytes;
    let credentials = Credentials::new(descriptor, sources, hidden, captured, least);
    let problems = credentials.problems(descriptor);
    if !problems.is_empty() {
        bail!(problems.into_iter().map(told).collect::<Vec<_>>().join("; "));
    }
    if let Some(before) = before.and_then(|before| before.network) {
        credentials.inherit(before.credentials());
    }
    let parts = NetworkParts {
        provider: descriptor.name.clone(),
        endpoints,
        credentials,
        settings: NetworkSettings { trace: shared.trace_http, ..config.limits.network.clone() },
        leadership: Arc::clone(&shared.leadership),
        observer: shared.exchanges.clone(),
    };
    let door = Door {
        settings,
        cache: Cache::new(config.limits.cache_bytes),
        log: config.limits.log,
        network: Some(Network::with_budgets(parts, descriptor, &carryover.budgets)),
        nodes: shared.nodes.clone(),
        ..Door::closed()
    };
    Ok((door, admitted))
}

/// The first component may have endpoints that nobody uses. One that comes later has them where the one before had them, or
/// was granted them.
fn nowhere_new(endpoints: &Endpoints, descriptor: &Descriptor, before: &Descriptor) -> Result<()> {
    let is_known = |name: &str| {
        let of = |descriptor: &Descriptor| descriptor.endpoints.iter().find(|endpoint| endpoint.name == name).cloned();
        of(before).is_some_and(|known| of(descriptor).is_some_and(|new| new.default_base_url == known.default_base_url))
    };
    match endpoints.unreachable().find(|(name, _)| !is_known(name)) {
        Some((name, advice)) => bail!("it wants to reach endpoint {name}, as the one before did not: {advice}"),
        None => Ok(()),
    }
}

/// A problem of a credential, with its name once.
fn told((name, why): (String, String)) -> String {
    if why.starts_with("credential ") { why } else { format!("credential {name:?}: {why}") }
}

struct Given<'a> {
    config: &'a ProviderConfig,
    descriptor: &'a Descriptor,
    files: &'a Files,
    environment: Environment,
    /// Of settings, as they are: what keys are filled with.
    values: BTreeMap<String, String>,
}

impl Given<'_> {
    /// Where a URL or a file is said to be.
    fn found(&self, source: &Source) -> Option<endpoints::Found> {
        let files = &self.files.parsed;
        let found = resolve(source, files, &self.values, &self.environment)?;
        let value = found.text().filter(|text| !text.is_empty())?.to_owned();
        let is_secret = found.is_secret(&self.descriptor.credentials, files);
        Some(endpoints::Found { value, is_secret, origin: found.place })
    }

    fn operator(&self) -> Result<OperatorGrants> {
        let mut operator = self.config.grants.operator()?;
        if let Some(proxy) = operator.proxies.remove("*") {
            for endpoint in &self.descriptor.endpoints {
                operator.proxies.entry(endpoint.name.clone()).or_insert_with(|| proxy.clone());
            }
        }
        let variable = |names: [&str; 2]| names.into_iter().find_map(|name| self.environment.get(name));
        operator.environment_proxy = variable(PROXY_VARIABLES)
            .filter(|url| !url.is_empty())
            .map(|url| Proxy::from_environment(url, variable(["NO_PROXY", "no_proxy"])))
            .transpose()
            .map_err(|error| anyhow!("HTTPS_PROXY: {error}"))?;
        Ok(operator)
    }

    /// Where the values of credentials come from: the operator's word, else the first key or granted variable that has one.
    async fn credentials(&self, client: Option<&Client>) -> Result<BTreeMap<String, CredentialSource>> {
        let known: Vec<&str> = self.descriptor.credentials.iter().map(|credential| credential.name.as_str()).collect();
        if let Some(name) = self.config.credentials.keys().find(|name| !known.contains(&name.as_str())) {
            let known = if known.is_empty() { "it has none".to_owned() } else { format!("it knows {known:?}") };
            bail!("--credential {name}=...: the provider has no such credential, {known}; leave it out");
        }
        let mut sources = BTreeMap::new();
        for credential in &self.descriptor.credentials {
            let source = match self.config.credentials.get(&credential.name) {
                Some(place) => {
                    Some(by_hand(place, client).await.with_context(|| format!("credential {:?}", credential.name))?)
                }
                None => self.configured(&credential.value),
            };
            if let Some(source) = source {
                sources.insert(credential.name.clone(), source);
            }
        }
        Ok(sources)
    }

    fn configured(&self, source: &Source) -> Option<CredentialSource> {
        if let Some(key) = source.keys.iter().find_map(|key| locate(key, &self.files.parsed, &self.values)) {
            let path = self.files.paths.get(&key.file)?;
            let format = self.descriptor.files.iter().find(|declared| declared.name == key.file)?.format;
            return Some(CredentialSource::config_path(path.clone(), format, key.path));
        }
        source.environment_variables.iter().find_map(|variable| {
            let value = self.environment.get(variable).filter(|value| !value.is_empty())?;
            let value = Secret::new(value.as_bytes().to_vec());
            Some(CredentialSource::Environment { variable: variable.clone(), value })
        })
    }

    /// What somebody set and nobody granted: the operator may have forgotten it.
    fn tell_withheld(&self) {
        let descriptor = self.descriptor;
        let endpoints = descriptor.endpoints.iter().map(|endpoint| &endpoint.base_url);
        let tls = descriptor.endpoints.iter().filter_map(|endpoint| endpoint.tls.as_ref());
        let tls = tls.flat_map(|tls| [&tls.ca_file, &tls.client_certificate, &tls.client_key, &tls.skip_verification]);
        let settings = descriptor.settings.iter().map(|setting| &setting.value);
        // A place that the operator names leaves no question.
        let open = descriptor.credentials.iter().filter(|one| !self.config.credentials.contains_key(&one.name));
        let credentials = open.map(|credential| &credential.value);
        let proxy = Source { keys: vec![], environment_variables: PROXY_VARIABLES.map(str::to_owned).to_vec() };
        let sources = endpoints.chain(tls).chain(settings).chain(credentials).chain([&proxy]);
        let names: BTreeSet<String> = sources.flat_map(|source| self.environment.withheld(source)).collect();
        if !names.is_empty() {
            let names = names.into_iter().collect::<Vec<_>>().join(",");
            tracing::warn!(
                provider = descriptor.name,
                variables = names,
                "environment variables that could count for the provider are set but not granted; --allow-env grants them"
            );
        }
    }
}

async fn by_hand(place: &CredentialPlace, client: Option<&Client>) -> Result<CredentialSource> {
    Ok(match place {
        CredentialPlace::File(path) => CredentialSource::file(path.clone()),
        CredentialPlace::Environment(variable) => {
            CredentialSource::Environment { variable: variable.clone(), value: variable_value(variable)? }
        }
        CredentialPlace::Secret { namespace, name, key } => {
            let client = client.context("a Secret is read only by `run`; give file:PATH or env:VARIABLE here")?;
            secret::watched(client, namespace, name, key).await?
        }
    })
}
