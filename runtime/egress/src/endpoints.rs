//! Places in the network that a provider declared, and where they are: what the operator gave for each of them.
//!
//! The base URL of an endpoint is, in this order: `--endpoint NAME=URL`, a key of the cloud-config, what the provider found in
//! a service catalogue ([`Endpoints::bind`]), the provider's default. The last two count only where the operator allows the
//! host.

mod base_url;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Problem, Source};
use parking_lot::Mutex;
use url::Url;

use crate::addresses::{AddressRules, Lookup, system_lookup};
use crate::client::{ClientCertificate, ClientSettings, EndpointClient, InlinePem, Proxy, TlsFile, TlsOptions};
use crate::error::{TransportError, TransportReason};
use crate::hosts::{HostPattern, HostRules};
use crate::one_line::line;

pub(crate) use base_url::MAX_BASE_URL;
use base_url::{NO_HTTP, parse_base};

/// A value of the operator's configuration. No `Debug`: a component may name the key of a secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredText {
    /// As it stands there.
    pub value: String,
    /// Whether it is a credential or looks like a secret: then no message shows it.
    pub is_secret: bool,
    /// Where, in words: "key auth-url of `[Global]` in /etc/cloud.conf".
    pub origin: String,
}

/// What the operator says about endpoints on the command line. No `Debug`: a URL may have a password in it until it is checked.
#[derive(Clone, Default)]
pub struct OperatorGrants {
    /// `--endpoint NAME=URL`
    pub base_urls: BTreeMap<String, String>,
    /// `--allow-host`
    pub hosts: Vec<HostPattern>,
    /// `--allow-http`
    pub allow_http: bool,
    /// `--allow-loopback`
    pub addresses: AddressRules,
    /// `--allow-skip-verification`
    pub allow_skip_verification: bool,
    /// `--proxy NAME=URL`
    pub proxies: BTreeMap<String, Proxy>,
    /// `HTTPS_PROXY` and `NO_PROXY`, where granted; for endpoints without a proxy of their own.
    pub environment_proxy: Option<Proxy>,
}

impl OperatorGrants {
    /// What is wrong with the base URLs, whatever the provider declares: known before there is one.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let wrong = |(name, text): (&String, &String)| {
            let why = self.base_url(text).err()?;
            Some(problem(name, format!("--endpoint {name}=...: the URL {why}"), true))
        };
        self.base_urls.iter().filter_map(wrong).collect()
    }

    /// A base URL as the operator allows it; otherwise what is wrong, to follow the words "the URL".
    fn base_url(&self, text: &str) -> Result<Url, String> {
        let url = parse_base(text.trim(), self.allow_http)?;
        self.addresses.check_url(&url).map_err(|error| format!("leads to a place that is refused: {error}"))?;
        Ok(url)
    }
}

/// What the operator gave for one endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointGrant {
    /// Where it is.
    pub base_url: Option<Base>,
    /// How it is reached.
    pub proxy: Option<Proxy>,
    /// Whom it trusts.
    pub tls: TlsOptions,
    /// Whether it may be `http`.
    pub allow_http: bool,
}

/// A base URL: scheme, host, port and path, nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    /// Itself.
    pub url: Url,
    /// Who said so, in words.
    pub origin: String,
}

/// Base URLs that providers found: each lasts until another takes its place. Clones share them; a provider that takes the
/// place of another one begins with a [copy](Self::copy).
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings(Arc<Mutex<BTreeMap<String, Url>>>);

impl Bindings {
    /// The same of now, which notices nothing of what is bound here later.
    #[must_use]
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}

/// An endpoint and its base URL. A request resolves it once, so all its attempts go to the place that it was checked for.
pub(crate) struct Target<'a> {
    endpoint: &'a Endpoint,
    /// Where requests to it go.
    pub(crate) base: Base,
}

impl Target<'_> {
    /// The client, for URLs below [`base`](Self::base). Each attempt asks for it, because its files may have changed.
    ///
    /// # Errors
    ///
    /// See [`EndpointClient::get`].
    pub(crate) fn client(&self) -> Result<reqwest::Client, TransportError> {
        self.endpoint.client.get()
    }

    /// What the operator gave for it.
    pub(crate) const fn grant(&self) -> &EndpointGrant {
        &self.endpoint.grant
    }

    /// What connects to it.
    pub(crate) const fn transport(&self) -> &EndpointClient {
        &self.endpoint.client
    }
}

/// Why an endpoint has no base URL unless one is bound.
#[derive(Clone)]
struct NoBase {
    /// Unbound, or denied where only a grant is missing.
    reason: TransportReason,
    /// What the operator can give, to follow the endpoint's name.
    advice: String,
}

struct Endpoint {
    grant: EndpointGrant,
    /// The provider's, where the operator allows its host.
    default: Result<Base, NoBase>,
    client: EndpointClient,
}

/// All endpoints of one provider.
pub(crate) struct Endpoints {
    endpoints: BTreeMap<String, Endpoint>,
    rules: HostRules,
    addresses: AddressRules,
    bindings: Bindings,
    warnings: Vec<Problem>,
}

impl Endpoints {
    /// Brings together what the provider declares, what the operator grants, and what `found` finds in the configuration.
    ///
    /// # Errors
    ///
    /// All that is wrong, at once.
    pub(crate) fn resolve(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        found: impl Fn(&Source) -> Option<ConfiguredText>,
        settings: ClientSettings,
        bindings: Bindings,
    ) -> Result<Self, Vec<Problem>> {
        Self::resolve_with(declared, operator, found, settings, bindings, &system_lookup())
    }

    pub(crate) fn resolve_with(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        found: impl Fn(&Source) -> Option<ConfiguredText>,
        settings: ClientSettings,
        bindings: Bindings,
        lookup: &Lookup,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = unknown_names(declared, operator);
        let mut rules = HostRules::new(operator.hosts.clone());
        let mut grants = Vec::new();
        for endpoint in declared {
            let grant = grant(endpoint, operator, &found, &mut problems);
            if let Some(base) = &grant.base_url {
                rules.configure(&base.url);
            }
            grants.push(grant);
        }
        let mut endpoints = BTreeMap::new();
        let mut nowhere = Vec::new();
        for (endpoint, grant) in declared.iter().zip(grants) {
            let default = default_base(endpoint, operator, &rules);
            if let (None, Err(none)) = (&grant.base_url, &default) {
                nowhere.push((endpoint, none.advice.clone()));
            }
            let EndpointGrant { tls, proxy, allow_http, .. } = grant.clone();
            let lookup = Arc::clone(lookup);
            let name = &endpoint.name;
            let client = EndpointClient::new(name, tls, proxy, allow_http, operator.addresses, settings, lookup);
            check_tls(name, &grant.tls, &client, &mut problems);
            endpoints.insert(name.clone(), Endpoint { grant, default, client });
        }
        let mut problems = told_once(problems);
        // One that leads somewhere may lead to the others.
        let leads_somewhere = nowhere.len() < endpoints.len();
        nowhere.retain(|(endpoint, _)| !(leads_somewhere && endpoint.is_found_elsewhere()));
        problems.extend(nowhere.into_iter().map(|(endpoint, advice)| problem(&endpoint.name, advice, false)));
        if problems.iter().any(|problem| problem.fatal) {
            // What is wrong must not drown in what is only not there.
            problems.retain(|problem| problem.fatal);
            return Err(problems);
        }
        Ok(Self { endpoints, rules, addresses: operator.addresses, bindings, warnings: problems })
    }

    /// What the operator should know although it works: endpoints without a base URL, trust in anybody.
    #[must_use]
    pub(crate) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Base URLs that the provider found.
    #[must_use]
    pub(crate) const fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Endpoints that no request can reach before something is found for them: their names, and what would let them.
    pub(crate) fn unreachable(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_bound = |name: &str| self.bindings.0.lock().contains_key(name);
        let open =
            self.endpoints.iter().filter(move |(name, endpoint)| endpoint.grant.base_url.is_none() && !is_bound(name));
        open.filter_map(|(name, endpoint)| Some((name.as_str(), endpoint.default.as_ref().err()?.advice.as_str())))
    }

    /// Endpoints and the base URLs that the operator gave for them, by name.
    pub(crate) fn configured(&self) -> impl Iterator<Item = (&str, &Url)> {
        self.endpoints
            .iter()
            .filter_map(|(name, endpoint)| Some((name.as_str(), &endpoint.grant.base_url.as_ref()?.url)))
    }

    /// Endpoints and what the operator gave for them, by name.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&str, &EndpointGrant)> {
        self.endpoints.iter().map(|(name, endpoint)| (name.as_str(), &endpoint.grant))
    }

    /// Where requests to an endpoint go now.
    ///
    /// # Errors
    ///
    /// Denied when it is not declared, or has a base URL that is not allowed; unbound when it has none.
    pub(crate) fn target(&self, name: &str) -> Result<Target<'_>, TransportError> {
        let endpoint = self.endpoint(name)?;
        Ok(Target { endpoint, base: self.base(name, endpoint)? })
    }

    /// The path of its base URL, without a slash at the end; none where there is no base URL that it may use.
    pub(crate) fn base_path(&self, name: &str) -> Option<String> {
        let target = self.target(name).ok()?;
        Some(target.base.url.path().trim_end_matches('/').to_owned())
    }

    fn base(&self, name: &str, endpoint: &Endpoint) -> Result<Base, TransportError> {
        if let Some(base) = &endpoint.grant.base_url {
            return Ok(base.clone());
        }
        if let Some(url) = self.bindings.0.lock().get(name) {
            // It may have been found under other rules: it outlives the provider and its configuration.
            self.allow(name, url, endpoint.grant.allow_http)?;
            return Ok(Base { url: url.clone(), origin: "found by the provider".to_owned() });
        }
        let unsent = |none: NoBase| TransportError::unsent(none.reason, format!("endpoint `{name}` {}", none.advice));
        endpoint.default.clone().map_err(unsent)
    }

    /// Gives an endpoint the base URL that the provider found in a service catalogue. Where the operator configured one, that
    /// one stays, and this is no error: a catalogue often names addresses that only work inside of the cloud.
    ///
    /// # Errors
    ///
    /// Denied when the endpoint is not declared, or its URL not allowed.
    pub(crate) fn bind(&self, name: &str, url: &str) -> Result<(), TransportError> {
        let endpoint = self.endpoint(name)?;
        if endpoint.grant.base_url.is_some() {
            return Ok(());
        }
        let allow_http = endpoint.grant.allow_http;
        let url = parse_base(url, allow_http).map_err(|problem| {
            TransportError::denied(format!("endpoint `{name}` cannot be bound: the URL {problem}"))
        })?;
        self.allow(name, &url, allow_http)?;
        self.bindings.0.lock().insert(name.to_owned(), url);
        Ok(())
    }

    fn allow(&self, name: &str, url: &Url, allow_http: bool) -> Result<(), TransportError> {
        if url.scheme() != "https" && !allow_http {
            return Err(TransportError::denied(format!("endpoint `{name}`: the URL {NO_HTTP}")));
        }
        // First what no grant allows: the other refusal names a flag.
        self.addresses.check_url(url).map_err(|error| TransportError::denied(format!("endpoint `{name}`: {error}")))?;
        if !self.rules.allow(url) {
            let message = format!("endpoint `{name}`: {}", not_allowed(url));
            return Err(TransportError::denied(message));
        }
        Ok(())
    }

    fn endpoint(&self, name: &str) -> Result<&Endpoint, TransportError> {
        self.endpoints.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.endpoints.keys().map(String::as_str).collect();
            TransportError::denied(format!("the provider declares no endpoint `{}`, only {known:?}", line(name, 64)))
        })
    }
}

fn not_allowed(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("the host {host} is not allowed; --allow-host {host} would allow it")
}

fn problem(name: &str, message: String, fatal: bool) -> Problem {
    Problem { field: format!("endpoints.{name}"), message, fatal }
}

/// What is wrong with several endpoints alike, as with a file that all of them trust, is said once and names them all.
fn told_once(problems: Vec<Problem>) -> Vec<Problem> {
    let mut once: Vec<Problem> = vec![];
    for problem in problems {
        let same = once.iter_mut().find(|told| told.fatal == problem.fatal && told.message == problem.message);
        match same {
            Some(told) if told.field == problem.field => {}
            Some(told) => {
                let name = problem.field.strip_prefix("endpoints.").unwrap_or(&problem.field);
                told.field = format!("{}, {name}", told.field);
            }
            None => once.push(problem),
        }
    }
    once
}

fn unknown_names(declared: &[ccm_cloud::Endpoint], operator: &OperatorGrants) -> Vec<Problem> {
    let known: Vec<&str> = declared.iter().map(|endpoint| endpoint.name.as_str()).collect();
    let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {known:?}") };
    let flags = operator.base_urls.keys().map(|name| ("--endpoint", name));
    flags
        .chain(operator.proxies.keys().map(|name| ("--proxy", name)))
        .filter(|(_, name)| !known.contains(&name.as_str()))
        .map(|(flag, name)| problem(name, format!("{flag} {name}=...: the provider has no such endpoint, {has}"), true))
        .collect()
}

/// What the operator gave for `endpoint`.
fn grant(
    endpoint: &ccm_cloud::Endpoint,
    operator: &OperatorGrants,
    found: &impl Fn(&Source) -> Option<ConfiguredText>,
    problems: &mut Vec<Problem>,
) -> EndpointGrant {
    let name = &endpoint.name;
    let found = |source: &Source| {
        let found = found(source)?;
        let value = found.value.trim().to_owned();
        (!value.is_empty()).then_some(ConfiguredText { value, ..found })
    };
    let file = |source: &Source| {
        let ConfiguredText { value, is_secret, origin } = found(source)?;
        let file = if is_secret { TlsFile::hidden } else { TlsFile::named };
        Some(file(value.into(), origin))
    };
    let mut wrong = |message: String| problems.push(problem(name, message, true));
    let given = match operator.base_urls.get(name) {
        Some(value) => {
            Some(ConfiguredText { value: value.clone(), is_secret: false, origin: format!("--endpoint {name}=...") })
        }
        None => found(&endpoint.base_url),
    };
    let base_url = given.and_then(|ConfiguredText { value, is_secret, origin }| {
        // Its host would be shown, and asked for: what is secret is never taken for a URL.
        if is_secret {
            wrong(format!("{origin} is taken for a secret, not for a URL; give --endpoint {name}=URL"));
            return None;
        }
        operator
            .base_url(&value)
            .map_err(|problem| wrong(format!("{origin}: the URL {problem}")))
            .ok()
            .map(|url| Base { url, origin })
    });
    let mut tls = TlsOptions::default();
    if let Some(sources) = &endpoint.tls {
        tls.ca_file = file(&sources.ca_file);
        let origin = |source: &Source| found(source).map(|found| found.origin).unwrap_or_default();
        tls.client = match (file(&sources.client_certificate), file(&sources.client_key)) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                wrong(format!("{}: a client certificate without its key", origin(&sources.client_certificate)));
                None
            }
            (None, Some(_)) => {
                wrong(format!("{}: the key of a client certificate that is not given", origin(&sources.client_key)));
                None
            }
        };
        tls.ca_certificates = found(&sources.ca_certificates)
            .map(|ConfiguredText { value, origin, .. }| InlinePem { pem: value, origin });
        for (source, skips_if) in [(&sources.skip_verification, true), (&sources.verify, false)] {
            let Some(ConfiguredText { value, is_secret, origin }) = found(source) else { continue };
            match boolean(&value) {
                // The component says which key it is, and many a key is true.
                Some(value) if value == skips_if && !operator.allow_skip_verification => {
                    wrong(format!(
                        "{origin} says that anybody is trusted, whatever the certificate; that needs --allow-skip-verification"
                    ));
                }
                Some(value) => tls.skip_verification |= value == skips_if,
                None if is_secret => {
                    wrong(format!("{origin}: the value, which is not shown here, is neither true nor false"));
                }
                None => wrong(format!("{origin}: {:?} is neither true nor false", line(&value, 64))),
            }
        }
    }
    let proxy = operator.proxies.get(name).or(operator.environment_proxy.as_ref()).cloned();
    EndpointGrant { base_url, proxy, tls, allow_http: operator.allow_http }
}

/// As git-config and Go's YAML write them.
fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" | "y" => Some(true),
        "false" | "no" | "off" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

fn check_tls(name: &str, tls: &TlsOptions, client: &EndpointClient, problems: &mut Vec<Problem>) {
    if tls.skip_verification {
        let message =
            "trusts anybody: the server's certificate is not verified, and who stands in between reads all secrets";
        problems.push(problem(name, message.to_owned(), false));
    }
    if tls.ca_file.is_none() && tls.ca_certificates.is_none() && tls.client.is_none() {
        return;
    }
    let unreadable = tls.unreadable();
    if unreadable.is_empty() {
        problems.extend(client.try_get().err().map(|message| problem(name, message, true)));
    }
    problems.extend(unreadable.into_iter().map(|message| problem(name, message, true)));
}

/// The default of the provider, or what the operator would have to give.
fn default_base(endpoint: &ccm_cloud::Endpoint, operator: &OperatorGrants, rules: &HostRules) -> Result<Base, NoBase> {
    let name = &endpoint.name;
    let mut advice = format!("has no base URL: give --endpoint {name}=URL");
    if !endpoint.base_url.keys.is_empty() {
        advice = format!("{advice}, or one of the keys {:?}", endpoint.base_url.keys);
    }
    let Some(default) = &endpoint.default_base_url else {
        return Err(NoBase { reason: TransportReason::Unbound, advice });
    };
    let denied = |why: String| NoBase { reason: TransportReason::Denied, advice: format!("{advice}; {why}") };
    let url = parse_base(default, operator.allow_http)
        .map_err(|problem| denied(format!("the provider's default {problem}")))?;
    if !rules.allow(&url) {
        return Err(denied(format!("for the provider's default {url}, {}", not_allowed(&url))));
    }
    operator.addresses.check_url(&url).map_err(|error| denied(format!("the provider's default: {error}")))?;
    Ok(Base { url, origin: "the provider's default".to_owned() })
}
