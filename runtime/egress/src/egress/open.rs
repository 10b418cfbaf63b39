//! Opens the [`Egress`] of a provider: endpoints, credentials, and what the provider before it leaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ccm_cloud::{Descriptor, Leadership, Problem};
use parking_lot::Mutex;

use super::{Egress, NetworkSettings};
use crate::carryover::Carryover;
use crate::configuration::Configuration;
use crate::credentials::{CredentialSource, Credentials, Pin, UseGrants};
use crate::effect::DryRun;
use crate::endpoints::{EndpointGrant, Endpoints, OperatorGrants};
use crate::hosts::HostRules;
use crate::observe::ExchangeObserver;
use crate::process_secrets::ProcessSecrets;
use crate::secret::Secret;
use crate::share::SharedAnswers;

/// What the operator gives a provider for its requests.
pub struct EgressConfig {
    /// Files, variables and settings: base URLs, TLS files and credentials are found in them.
    pub configuration: Configuration,
    /// Where requests may go.
    pub grants: OperatorGrants,
    /// Credentials whose places the operator named. The others are found in the configuration.
    pub credentials: BTreeMap<String, CredentialSource>,
    /// Uses of credentials beyond what needs no grant (`--credential-use`).
    pub credential_uses: UseGrants,
    /// Secrets that no credential declares, with a name: no request carries them, and no answer shows them.
    pub hidden: Vec<(String, Secret)>,
    /// Where its secrets are kept from all guests of the process.
    pub secrets: ProcessSecrets,
    /// Whether a component may use credentials in more places than the first one, and mark a dry run in another way (`--allow-grant-change`).
    pub allow_wider_use: bool,
    /// Limits, budget, retries and connections.
    pub settings: NetworkSettings,
    /// Whether this process may change the cloud.
    pub leadership: Arc<dyn Leadership>,
    /// Is told of every exchange.
    pub observer: Option<Arc<dyn ExchangeObserver>>,
    /// Digest of the component: what it learns of secrets counts for all its tries and configurations. Empty: for this one alone.
    pub component: String,
}

impl EgressConfig {
    /// Grants nothing.
    #[must_use]
    pub fn new(leadership: Arc<dyn Leadership>) -> Self {
        Self {
            configuration: Configuration::default(),
            grants: OperatorGrants::default(),
            credentials: BTreeMap::new(),
            credential_uses: UseGrants::new(),
            hidden: vec![],
            secrets: ProcessSecrets::default(),
            allow_wider_use: false,
            settings: NetworkSettings::default(),
            leadership,
            observer: None,
            component: String::new(),
        }
    }
}

/// The provider that another one replaces.
#[derive(Clone, Copy)]
pub struct Predecessor<'a> {
    /// What it declares.
    pub descriptor: &'a Descriptor,
    /// Its requests.
    pub egress: Option<&'a Egress>,
    /// Whether it has the same configuration: only then its tokens and addresses are of any use, since they are those of an account.
    pub is_configured_alike: bool,
}

/// Why a provider gets no egress, with the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Endpoints that cannot work.
    #[error("{}", listed(.0))]
    Endpoints(Vec<Problem>),
    /// An endpoint that the provider before it did not have.
    #[error("it wants to reach endpoint {endpoint}, as the one before did not: {advice}")]
    NewEndpoint {
        /// Its name.
        endpoint: String,
        /// What would let it.
        advice: String,
    },
    /// The cloud-config leads an endpoint to a host that the operator did not name when the process started.
    #[error(
        "endpoint {endpoint}: the configuration names another host ({host}) than the one before; while the host runs, only a flag grants that: give --endpoint {endpoint}=URL or --allow-host {host}, or restart the host to use what the cloud-config says"
    )]
    NewHost {
        /// The endpoint.
        endpoint: String,
        /// Its new host.
        host: String,
    },
    /// Whoever stands between could read more than before.
    #[error(
        "endpoint {endpoint}: with the changed configuration it {what}; while the host runs, only --allow-grant-change grants that: give it, or restart the host to use what the cloud-config says"
    )]
    LessTrust {
        /// The endpoint.
        endpoint: String,
        /// What changes, as the end of a sentence about the endpoint.
        what: &'static str,
    },
    /// More uses of credentials than the first component has.
    #[error(
        "it wants to use {} where the component that was loaded first did not; if that is right, run with --allow-grant-change",
        .0.join(", ")
    )]
    WiderUse(Vec<String>),
    /// Credentials of the operator in more places than need no grant.
    #[error(
        "it uses a credential in more than one header or endpoint, or in a place that is not for credentials; if you agree, give {}{}",
        .0.join(" "), of_bodies(.0)
    )]
    UngrantedUse(Vec<String>),
    /// Credentials that are missing or cannot be used.
    #[error("{}", .0.join("; "))]
    Credentials(Vec<String>),
}

/// What is to be said of flags that grant a body: the host sees what is in it only when a request is made.
fn of_bodies(flags: &[String]) -> &'static str {
    if flags.iter().any(|flag| flag.contains(":body:")) {
        "; in a body of JSON or of a form, the host then refuses the request, and names the flag for the member or the field, which takes the place of all flags of that credential with :body:"
    } else {
        ""
    }
}

fn listed(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    lines.join("; ")
}

impl Egress {
    /// Opens the egress of the provider that `descriptor` describes. It starts with the tokens and addresses that its
    /// predecessor found, as a copy, because the predecessor judges it and may return. Without a predecessor it shares
    /// those of `carryover`.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        config: EgressConfig,
        descriptor: &Descriptor,
        carryover: &Carryover,
        predecessor: Option<Predecessor<'_>>,
    ) -> Result<Self, OpenError> {
        let EgressConfig { configuration, grants, mut credentials, mut hidden, allow_wider_use, settings, .. } = config;
        let before = predecessor.map(|before| before.egress.filter(|_| before.is_configured_alike));
        let bindings = match before {
            Some(before) => before.map(|before| before.endpoints.bindings().copy()).unwrap_or_default(),
            None => carryover.bindings.clone(),
        };
        let found = |source: &_| configuration.text(descriptor, source);
        let endpoints = Endpoints::resolve(&descriptor.endpoints, &grants, found, settings.client, bindings)
            .map_err(OpenError::Endpoints)?;
        for Problem { field, message, .. } in endpoints.warnings() {
            tracing::warn!(provider = descriptor.name, field, problem = message, "endpoint");
        }
        if let Some(predecessor) = predecessor {
            check_endpoints(&endpoints, descriptor, predecessor.descriptor)?;
            if let Some(before) = predecessor.egress.filter(|_| !allow_wider_use) {
                check_hosts(&endpoints, &grants, before)?;
                check_trust(&endpoints, before)?;
            }
        }

        hidden.extend(configuration.hidden(descriptor));
        let proxies = grants.proxies.values().chain(&grants.environment_proxy);
        hidden.extend(proxies.filter_map(|proxy| Some(("proxy".to_owned(), proxy.password()?.clone()))));
        let named: Vec<String> = credentials.keys().cloned().collect();
        for credential in descriptor.credentials.iter().filter(|credential| !named.contains(&credential.name)) {
            if let Some(source) = configuration.credential(descriptor, &credential.value) {
                credentials.insert(credential.name.clone(), source);
            }
        }
        let pin = Pin::new(descriptor, &credentials, |name| named.iter().any(|named| named == name));
        let is_given = |endpoint: &str| grants.base_urls.contains_key(endpoint);
        let admission = carryover.admit(pin, is_given, allow_wider_use).map_err(OpenError::WiderUse)?;
        let captured = if before.is_some() { Arc::default() } else { carryover.captured() };
        let guesses = carryover.guesses(&config.component);
        let least = settings.limits.min_credential_bytes;
        let edition = configuration.edition(descriptor);
        let credentials =
            Credentials::new(descriptor, config.credential_uses, credentials, hidden, captured, least, edition);
        let ungranted = credentials.ungranted();
        if !ungranted.is_empty() {
            return Err(OpenError::UngrantedUse(ungranted));
        }
        let problems = credentials.problems(descriptor);
        if !problems.is_empty() {
            return Err(OpenError::Credentials(problems));
        }
        match before {
            Some(Some(before)) => credentials.inherit(&before.credentials),
            Some(None) => {}
            None => carryover.begin(credentials.account()),
        }
        let credentials = Arc::new(credentials);
        let secrets = config.secrets.with(&credentials);
        Ok(Self {
            provider: descriptor.name.clone(),
            budgets: carryover.budgets.of(descriptor, &settings.budget),
            shared: SharedAnswers::new(settings.limits.share_bytes),
            dry_run: DryRun::declared(descriptor),
            endpoints,
            credentials,
            secrets,
            admission,
            settings,
            leadership: config.leadership,
            observer: config.observer,
            told: Arc::clone(&carryover.told),
            open: Mutex::default(),
            guesses,
            asked_offline: AtomicBool::new(false),
        })
    }
}

/// The first component may have endpoints that nobody uses. A later one has them where its predecessor had them, or was
/// granted them.
fn check_endpoints(endpoints: &Endpoints, descriptor: &Descriptor, before: &Descriptor) -> Result<(), OpenError> {
    let is_known = |name: &str| {
        let of = |descriptor: &Descriptor| descriptor.endpoints.iter().find(|endpoint| endpoint.name == name).cloned();
        of(before).is_some_and(|known| of(descriptor).is_some_and(|new| new.default_base_url == known.default_base_url))
    };
    match endpoints.unreachable().find(|(name, _)| !is_known(name)) {
        Some((endpoint, advice)) => {
            Err(OpenError::NewEndpoint { endpoint: endpoint.to_owned(), advice: advice.to_owned() })
        }
        None => Ok(()),
    }
}

/// Who may write the cloud-config while the host runs must not lead credentials to another host: where they go is granted by flags. Other
/// paths and ports of a host are no grant of their own.
fn check_hosts(endpoints: &Endpoints, grants: &OperatorGrants, before: &Egress) -> Result<(), OpenError> {
    for (endpoint, url) in endpoints.configured().filter(|(name, _)| !grants.base_urls.contains_key(*name)) {
        let mut rules = HostRules::new(grants.hosts.clone());
        if let Some((_, known)) = before.configured().find(|(name, _)| *name == endpoint) {
            rules.configure(known);
        }
        if !rules.allow(url) {
            let (endpoint, host) = (endpoint.to_owned(), url.host_str().unwrap_or_default().to_owned());
            return Err(OpenError::NewHost { endpoint, host });
        }
    }
    Ok(())
}

/// Nor may they let others read them on the way.
fn check_trust(endpoints: &Endpoints, before: &Egress) -> Result<(), OpenError> {
    for (endpoint, new) in endpoints.grants() {
        let Some((_, old)) = before.endpoints.grants().find(|(name, _)| *name == endpoint) else { continue };
        let is_encrypted = |grant: &EndpointGrant| grant.base_url.as_ref().map(|base| base.url.scheme() == "https");
        let pem = |grant: &EndpointGrant| grant.tls.ca_certificates.as_ref().map(|inline| inline.pem.clone());
        let what = if new.tls.skip_verification && !old.tls.skip_verification {
            "does not verify the certificate of the server any more"
        } else if new.tls.ca_file != old.tls.ca_file || pem(new) != pem(old) {
            "trusts other certificate authorities"
        } else if is_encrypted(old) == Some(true) && is_encrypted(new) == Some(false) {
            "is not encrypted any more"
        } else {
            continue;
        };
        return Err(OpenError::LessTrust { endpoint: endpoint.to_owned(), what });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
