//! Places in the network that a provider declared, and where they are: what the operator gave for each of them.
//!
//! The base URL of an endpoint is, in this order: `--endpoint NAME=URL`, a key of the cloud-config, what the provider found in
//! a service catalogue ([`Endpoints::bind`]), the provider's default. The last two count only where the operator allows the
//! host.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Problem, Source};
use parking_lot::Mutex;
use url::Url;

use crate::addresses::{AddressRules, Lookup, system_lookup};
use crate::client::{ClientCertificate, ClientSettings, EndpointClient, Proxy, TlsOptions, denied};
use crate::hosts::{HostPattern, HostRules};
use crate::http::TransportError;
use crate::paths;

/// Longest base URL, in bytes.
pub const MAX_BASE_URL: usize = 2048;

/// A value of the operator's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As it stands there.
    pub value: String,
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
    /// `--proxy NAME=URL`
    pub proxies: BTreeMap<String, Proxy>,
    /// `HTTPS_PROXY` and `NO_PROXY`, where granted; for endpoints without a proxy of their own.
    pub environment_proxy: Option<Proxy>,
}

/// What the operator gave for one endpoint.
#[derive(Debug, Clone, Default)]
pub struct EndpointGrant {
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
pub struct Base {
    /// Itself.
    pub url: Url,
    /// Who said so, in words.
    pub origin: String,
}

/// Base URLs that providers found. Clones share them; who swaps a provider hands them on.
#[derive(Debug, Clone, Default)]
pub struct Bindings(Arc<Mutex<BTreeMap<String, Url>>>);

impl Bindings {
    /// Forgets all of them. They end together with the captured credentials that they were found with.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

struct Endpoint {
    grant: EndpointGrant,
    /// The provider's, where the operator allows its host; otherwise what to give.
    default: Result<Base, String>,
    client: EndpointClient,
}

/// All endpoints of one provider.
pub struct Endpoints {
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
    pub fn resolve(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        found: impl Fn(&Source) -> Option<Found>,
        settings: ClientSettings,
        bindings: Bindings,
    ) -> Result<Self, Vec<Problem>> {
        Self::resolve_with(declared, operator, found, settings, bindings, &system_lookup())
    }

    pub(crate) fn resolve_with(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        found: impl Fn(&Source) -> Option<Found>,
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
        for (endpoint, grant) in declared.iter().zip(grants) {
            let default = default_base(endpoint, operator, &rules);
            if let (None, Err(advice)) = (&grant.base_url, &default) {
                problems.push(problem(&endpoint.name, advice.clone(), false));
            }
            let EndpointGrant { tls, proxy, allow_http, .. } = grant.clone();
            let lookup = Arc::clone(lookup);
            let name = &endpoint.name;
            let client = EndpointClient::new(name, tls, proxy, allow_http, operator.addresses, settings, lookup);
            check_tls(name, &grant.tls, &client, &mut problems);
            endpoints.insert(name.clone(), Endpoint { grant, default, client });
        }
        if problems.iter().any(|problem| problem.fatal) {
            return Err(problems);
        }
        Ok(Self { endpoints, rules, addresses: operator.addresses, bindings, warnings: problems })
    }

    /// What the operator should know although it works: endpoints without a base URL, trust in anybody.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// What the operator gave for an endpoint.
    #[must_use]
    pub fn grant(&self, name: &str) -> Option<&EndpointGrant> {
        self.endpoints.get(name).map(|endpoint| &endpoint.grant)
    }

    /// Where requests to an endpoint go.
    ///
    /// # Errors
    ///
    /// Denied when it is not declared, has no base URL, or one that is no longer allowed.
    pub fn base(&self, name: &str) -> Result<Base, TransportError> {
        let endpoint = self.endpoint(name)?;
        if let Some(base) = &endpoint.grant.base_url {
            return Ok(base.clone());
        }
        if let Some(url) = self.bindings.0.lock().get(name) {
            // It may have been found under other rules: it outlives the provider and its configuration.
            self.allow(name, url, endpoint.grant.allow_http)?;
            return Ok(Base { url: url.clone(), origin: "found by the provider".to_owned() });
        }
        endpoint.default.clone().map_err(|advice| denied(format!("endpoint `{name}` {advice}")))
    }

    /// The client of an endpoint, for URLs below [`Endpoints::base`].
    ///
    /// # Errors
    ///
    /// Denied when it is not declared; see [`EndpointClient::get`].
    pub fn client(&self, name: &str) -> Result<reqwest::Client, TransportError> {
        self.endpoint(name)?.client.get()
    }

    /// Gives an endpoint the base URL that the provider found in a service catalogue. Where the operator configured one, that
    /// one stays, and this is no error: a catalogue often names addresses that only work inside of the cloud.
    ///
    /// # Errors
    ///
    /// Denied when the endpoint is not declared, or its URL not allowed.
    pub fn bind(&self, name: &str, url: &str) -> Result<(), TransportError> {
        let endpoint = self.endpoint(name)?;
        if endpoint.grant.base_url.is_some() {
            return Ok(());
        }
        let allow_http = endpoint.grant.allow_http;
        let url = parse_base(url, allow_http)
            .map_err(|problem| denied(format!("endpoint `{name}` cannot be bound: the URL {problem}")))?;
        self.allow(name, &url, allow_http)?;
        self.bindings.0.lock().insert(name.to_owned(), url);
        Ok(())
    }

    fn allow(&self, name: &str, url: &Url, allow_http: bool) -> Result<(), TransportError> {
        if url.scheme() != "https" && !allow_http {
            return Err(denied(format!("endpoint `{name}`: the URL {NO_HTTP}")));
        }
        if !self.rules.allow(url) {
            let message = format!("endpoint `{name}`: {}", not_allowed(url));
            return Err(denied(message));
        }
        self.addresses.check_url(url).map_err(|error| denied(format!("endpoint `{name}`: {error}")))
    }

    fn endpoint(&self, name: &str) -> Result<&Endpoint, TransportError> {
        self.endpoints.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.endpoints.keys().map(String::as_str).collect();
            denied(format!("the provider declares no endpoint `{}`, only {known:?}", crate::log::line(name, 64)))
        })
    }
}

const NO_HTTP: &str = "is http, which needs --allow-http";

fn not_allowed(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("the host {host} is not allowed; --allow-host {host} would allow it")
}

fn problem(name: &str, message: String, fatal: bool) -> Problem {
    Problem { field: format!("endpoints.{name}"), message, fatal }
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
    found: &impl Fn(&Source) -> Option<Found>,
    problems: &mut Vec<Problem>,
) -> EndpointGrant {
    let name = &endpoint.name;
    let found = |source: &Source| {
        let Found { value, origin } = found(source)?;
        let value = value.trim();
        (!value.is_empty()).then(|| Found { value: value.to_owned(), origin })
    };
    let mut wrong = |message: String| problems.push(problem(name, message, true));
    let given = match operator.base_urls.get(name) {
        Some(value) => Some(Found { value: value.trim().to_owned(), origin: format!("--endpoint {name}=...") }),
        None => found(&endpoint.base_url),
    };
    let base_url = given.and_then(|Found { value, origin }| {
        let checked = parse_base(&value, operator.allow_http).and_then(|url| {
            operator.addresses.check_url(&url).map_err(|error| format!("leads to a place that is refused: {error}"))?;
            Ok(url)
        });
        match checked {
            Ok(url) => Some(Base { url, origin }),
            Err(problem) => {
                wrong(format!("{origin}: the URL {problem}"));
                None
            }
        }
    });
    let mut tls = TlsOptions::default();
    if let Some(sources) = &endpoint.tls {
        tls.ca_file = found(&sources.ca_file).map(|found| found.value.into());
        tls.client = match (found(&sources.client_certificate), found(&sources.client_key)) {
            (Some(certificate), Some(key)) => {
                Some(ClientCertificate { certificate: certificate.value.into(), key: key.value.into() })
            }
            (None, None) => None,
            (Some(one), None) => {
                wrong(format!("{}: a client certificate without its key", one.origin));
                None
            }
            (None, Some(one)) => {
                wrong(format!("{}: the key of a client certificate that is not given", one.origin));
                None
            }
        };
        if let Some(Found { value, origin }) = found(&sources.skip_verification) {
            match boolean(&value) {
                Some(skip) => tls.skip_verification = skip,
                None => wrong(format!("{origin}: {:?} is neither true nor false", crate::log::line(&value, 64))),
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
    if tls.ca_file.is_none() && tls.client.is_none() {
        return;
    }
    let unreadable = tls.unreadable();
    if unreadable.is_empty() {
        problems.extend(client.get().err().map(|error| problem(name, error.message, true)));
    }
    problems.extend(unreadable.into_iter().map(|message| problem(name, message, true)));
}

/// The default of the provider, or what the operator would have to give.
fn default_base(endpoint: &ccm_cloud::Endpoint, operator: &OperatorGrants, rules: &HostRules) -> Result<Base, String> {
    let name = &endpoint.name;
    let mut advice = format!("has no base URL: give --endpoint {name}=URL");
    if !endpoint.base_url.keys.is_empty() {
        advice = format!("{advice}, or one of the keys {:?}", endpoint.base_url.keys);
    }
    let Some(default) = &endpoint.default_base_url else { return Err(advice) };
    let url = parse_base(default, operator.allow_http)
        .map_err(|problem| format!("{advice}; the provider's default {problem}"))?;
    if !rules.allow(&url) {
        return Err(format!("{advice}; for the provider's default {url}, {}", not_allowed(&url)));
    }
    operator.addresses.check_url(&url).map_err(|error| format!("{advice}; the provider's default: {error}"))?;
    Ok(Base { url, origin: "the provider's default".to_owned() })
}

/// A base URL, or what is wrong, to follow the words "the URL". Never repeats the text: there may be a password in it.
fn parse_base(text: &str, allow_http: bool) -> Result<Url, String> {
    if text.len() > MAX_BASE_URL {
        return Err(format!("is longer than {MAX_BASE_URL} bytes"));
    }
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("has spaces, control characters or backslashes".to_owned());
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("https") => {}
        Some("http") if allow_http => {}
        Some("http") => return Err(NO_HTTP.to_owned()),
        Some(_) | None => return Err("must begin with https://".to_owned()),
    }
    let url = Url::parse(text).map_err(|error| format!("cannot be read: {error}"))?;
    // `http:/x?://` and the like: what counts is what the parser saw.
    if url.scheme() != "https" && !(allow_http && url.scheme() == "http") {
        return Err("must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
        return Err("has a user or password in it; secrets are credentials".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or fragment".to_owned());
    }
    // A slash at the end, or two, make no difference: they are cut before a path is appended.
    let path = url.path().trim_end_matches('/');
    if !path.is_empty() {
        paths::check(path).map_err(|problem| format!("has a path that {problem}"))?;
    }
    if url.host_str().is_none_or(|host| host.split('.').rev().skip(1).any(str::is_empty)) {
        return Err("has no proper host".to_owned());
    }
    Ok(url)
}

/// The parser drops an empty user: `https://@host`.
fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest).trim_start_matches('/');
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ccm_cloud::TlsSources;

    use super::*;
    use crate::client::transport_error;
    use crate::http::TransportReason;

    fn source(key: &str) -> Source {
        Source { keys: vec![key.to_owned()], environment_variables: vec![] }
    }

    fn declared(name: &str, default: Option<&str>) -> ccm_cloud::Endpoint {
        let key = |what: &str| source(&format!("cloud:{name}.{what}"));
        ccm_cloud::Endpoint {
            name: name.to_owned(),
            purpose: String::new(),
            base_url: key("url"),
            default_base_url: default.map(ToOwned::to_owned),
            tls: Some(TlsSources {
                ca_file: key("ca"),
                client_certificate: key("cert"),
                client_key: key("key"),
                skip_verification: key("skip"),
            }),
        }
    }

    fn operator(base_urls: &[(&str, &str)], hosts: &[&str]) -> OperatorGrants {
        OperatorGrants {
            base_urls: base_urls.iter().map(|&(name, url)| (name.to_owned(), url.to_owned())).collect(),
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            ..OperatorGrants::default()
        }
    }

    fn resolve_sharing(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        config: &[(&str, &str)],
        bindings: &Bindings,
    ) -> Result<Endpoints, Vec<Problem>> {
        let found = |source: &Source| {
            let (key, value) = config.iter().find(|(key, _)| source.keys.iter().any(|wanted| wanted == key))?;
            Some(Found { value: (*value).to_owned(), origin: (*key).to_owned() })
        };
        Endpoints::resolve(declared, operator, found, ClientSettings::default(), bindings.clone())
    }

    fn resolve(
        declared: &[ccm_cloud::Endpoint],
        operator: &OperatorGrants,
        config: &[(&str, &str)],
    ) -> Result<Endpoints, Vec<Problem>> {
        resolve_sharing(declared, operator, config, &Bindings::default())
    }

    fn told(problems: &[Problem]) -> Vec<(&str, &str, bool)> {
        problems.iter().map(|p| (p.field.as_str(), p.message.as_str(), p.fatal)).collect()
    }

    #[test]
    fn the_operator_comes_before_the_catalogue_and_the_catalogue_before_the_default() {
        let flag: &[(&str, &str)] = &[("api", "https://flag.test:8443/a")];
        let key: &[(&str, &str)] = &[("cloud:api.url", " https://key.test/b/ ")];
        let cases = [
            (flag, key, true, "https://flag.test:8443/a", "--endpoint api=..."),
            (&[], key, true, "https://key.test/b/", "cloud:api.url"),
            (&[], &[], true, "https://catalogue.allowed.test/c", "found by the provider"),
            (&[], &[], false, "https://default.allowed.test/", "the provider's default"),
            (&[], &[("cloud:api.url", " ")], false, "https://default.allowed.test/", "the provider's default"),
        ];
        for (flags, config, bind, url, origin) in cases {
            let declared = [declared("api", Some("https://default.allowed.test"))];
            let endpoints = resolve(&declared, &operator(flags, &["*.allowed.test"]), config).unwrap();
            if bind {
                assert_eq!(endpoints.bind("api", "https://catalogue.allowed.test/c"), Ok(()));
            }
            let base = endpoints.base("api").unwrap();
            assert_eq!((base.url.as_str(), base.origin.as_str()), (url, origin));
            assert_eq!(told(endpoints.warnings()), []);
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_and_no_password_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.pem").display().to_string();
        let endpoints = ["a", "b", "c", "d", "e"].map(|name| declared(name, None));
        let mut operator = operator(&[("a", "https://me:hush@host.test"), ("x", "https://host.test")], &[]);
        operator.proxies.insert("y".to_owned(), "proxy.test".parse().unwrap());
        let config = [
            ("cloud:b.url", "http://host.test"),
            ("cloud:b.cert", "/cert.pem"),
            ("cloud:c.url", "https://169.254.169.254/latest"),
            ("cloud:c.skip", "maybe"),
            ("cloud:d.url", "https://host.test/?token=hush"),
            ("cloud:d.key", "/key.pem"),
            ("cloud:e.url", "https://host.test/"),
            ("cloud:e.ca", missing.as_str()),
        ];
        let problems = resolve(&endpoints, &operator, &config).err().unwrap();
        let fatal: Vec<&Problem> = problems.iter().filter(|problem| problem.fatal).collect();
        let all = fatal.iter().map(|p| format!("{}: {}", p.field, p.message)).collect::<Vec<_>>().join("\n");
        let expected = [
            r#"endpoints.x: --endpoint x=...: the provider has no such endpoint, it has ["a", "b", "c", "d", "e"]"#,
            r#"endpoints.y: --proxy y=...: the provider has no such endpoint, it has ["a", "b", "c", "d", "e"]"#,
            "endpoints.a: --endpoint a=...: the URL has a user or password in it; secrets are credentials",
            "endpoints.b: cloud:b.url: the URL is http, which needs --allow-http",
            "endpoints.b: cloud:b.cert: a client certificate without its key",
            "endpoints.c: cloud:c.url: the URL leads to a place that is refused: 169.254.169.254 is a link-local address",
            r#"endpoints.c: cloud:c.skip: "maybe" is neither true nor false"#,
            "endpoints.d: cloud:d.url: the URL has a query or fragment",
            "endpoints.d: cloud:d.key: the key of a client certificate that is not given",
            &format!("endpoints.e: {missing}: No such file or directory (os error 2)"),
        ];
        assert_eq!(all, expected.join("\n"));
    }

    #[test]
    fn without_a_base_url_requests_are_denied_with_what_to_give() {
        let endpoints = [declared("api", Some("https://api.cloud.test/v2")), declared("dns", None)];
        let endpoints = resolve(&endpoints, &operator(&[], &["other.test"]), &[]).unwrap();
        let api = "has no base URL: give --endpoint api=URL, or one of the keys [\"cloud:api.url\"]; for the provider's default \
                   https://api.cloud.test/v2, the host api.cloud.test is not allowed; --allow-host api.cloud.test would allow it";
        let dns = "has no base URL: give --endpoint dns=URL, or one of the keys [\"cloud:dns.url\"]";
        assert_eq!(told(endpoints.warnings()), [("endpoints.api", api, false), ("endpoints.dns", dns, false)]);
        for (name, advice) in [("api", api), ("dns", dns)] {
            assert_eq!(endpoints.base(name), Err(denied(format!("endpoint `{name}` {advice}"))));
        }
        let error = endpoints.base("ap\ni").unwrap_err();
        assert_eq!(error.message, r#"the provider declares no endpoint `ap\ni`, only ["api", "dns"]"#);
        assert_eq!(endpoints.client("x").unwrap_err().reason, TransportReason::Denied);
    }

    #[test]
    fn a_default_is_held_to_the_rules_of_all_others() {
        let cases = [
            ("http://api.allowed.test", "is http, which needs --allow-http"),
            ("https://127.0.0.1", "--allow-loopback would grant"),
            ("https://me@api.allowed.test", "user or password"),
            ("nonsense", "must begin with https://"),
        ];
        for (default, part) in cases {
            let operator = operator(&[], &["*.allowed.test", "127.0.0.1"]);
            let endpoints = resolve(&[declared("api", Some(default))], &operator, &[]).unwrap();
            let message = endpoints.base("api").unwrap_err().message;
            assert!(message.contains(part), "{default}: {message:?} does not say {part:?}");
        }
    }

    #[test]
    fn a_provider_binds_only_what_it_declared_and_only_to_allowed_hosts() {
        let hosts = ["*.allowed.test", "169.254.169.254", "127.0.0.1", "[::1]", "[fd00:ec2::254]", "port.test:8443"];
        let endpoints = resolve(
            &[declared("auth", None), declared("api", None)],
            &operator(&[("auth", "https://cloud.test:5000/v3")], &hosts),
            &[],
        )
        .unwrap();
        let refused = [
            ("https://evil.test/", "--allow-host evil.test would allow it"),
            ("https://allowed.test/", "not allowed"),
            ("https://allowed.test.evil.test/", "not allowed"),
            ("https://evil.test/#.allowed.test", "query or fragment"),
            ("https://evil.test/x.allowed.test", "not allowed"),
            ("https://port.test/", "not allowed"),
            ("https://x.cloud.test:5000/", "not allowed"),
            ("https://[fd00::1]/", "--allow-host [fd00::1] would allow it"),
            ("http://api.allowed.test/", "needs --allow-http"),
            ("http://cloud.test:5000/", "needs --allow-http"),
            ("ftp://api.allowed.test/", "must begin with https://"),
            ("//api.allowed.test/", "must begin with https://"),
            ("api.allowed.test", "must begin with https://"),
            ("https:api.allowed.test", "must begin with https://"),
            ("file:///etc/passwd", "must begin with https://"),
            ("", "must begin with https://"),
            ("https://", "cannot be read"),
            ("https://api.allowed.test@evil.test/", "user or password"),
            ("https://evil.test@api.allowed.test/", "user or password"),
            ("https://me:hush@api.allowed.test/", "user or password"),
            ("https://@api.allowed.test/", "user or password"),
            ("https://:@api.allowed.test/", "user or password"),
            ("https://api.allowed.test/?x=1", "query or fragment"),
            ("https://api.allowed.test/#x", "query or fragment"),
            ("https://evil.test\\.allowed.test/", "backslashes"),
            ("https://evil.test\t.allowed.test/", "control characters"),
            ("https://api.allowed.test/\r\nhost: evil.test", "control characters"),
            (" https://api.allowed.test/", "spaces"),
            ("https://api.allowed.test/a//b", "empty segment"),
            ("https://api.allowed.test/a%2fb", "encoded slash"),
            ("https://api.allowed.test/%(project_id)s", "two hex digits"),
            ("https://..allowed.test/", "no proper host"),
            ("https://169.254.169.254/latest", "link-local"),
            ("https://0xa9fea9fe/latest", "link-local"),
            ("https://[::ffff:169.254.169.254]/", "link-local"),
            ("https://[fd00:ec2::254]/", "metadata service"),
            ("https://127.0.0.1/", "loopback"),
            ("https://127.1/", "loopback"),
            ("https://[::1]/", "loopback"),
        ];
        for (url, part) in refused {
            let error = endpoints.bind("api", url).unwrap_err();
            assert!(error.message.contains(part), "{url:?}: {:?} does not say {part:?}", error.message);
            assert!(!error.message.contains("hush"), "{}", error.message);
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{url:?}");
        }
        let long = format!("https://api.allowed.test/{}", "x".repeat(MAX_BASE_URL));
        assert!(endpoints.bind("api", &long).unwrap_err().message.contains("longer than 2048 bytes"));
        assert!(
            endpoints.bind("other", "https://api.allowed.test/").unwrap_err().message.contains("declares no endpoint")
        );
        assert!(endpoints.base("api").is_err(), "nothing of it was bound");

        let allowed = [
            ("https://api.allowed.test", "https://api.allowed.test/"),
            ("https://A.b.Allowed.test:8774/v2.1/", "https://a.b.allowed.test:8774/v2.1/"),
            ("https://cloud.test:8774/v2.1", "https://cloud.test:8774/v2.1"),
            ("https://port.test:8443", "https://port.test:8443/"),
            ("https://api.allowed.test/a/../b", "https://api.allowed.test/b"),
        ];
        for (url, base) in allowed {
            assert_eq!(endpoints.bind("api", url), Ok(()), "{url}");
            assert_eq!(endpoints.base("api").unwrap().url.as_str(), base);
        }
        assert_eq!(endpoints.bind("auth", "https://evil.test/"), Ok(()), "ignored: the operator's stays");
        assert_eq!(endpoints.base("auth").unwrap().url.as_str(), "https://cloud.test:5000/v3");
    }

    #[test]
    fn a_binding_survives_a_swap_and_is_held_to_the_rules_of_then() {
        let bindings = Bindings::default();
        let old = [declared("api", None)];
        let first = resolve_sharing(&old, &operator(&[], &["api.test"]), &[], &bindings).unwrap();
        first.bind("api", "https://api.test/v2").unwrap();
        drop(first);
        let second = resolve_sharing(&old, &operator(&[], &["*.test"]), &[], &bindings).unwrap();
        assert_eq!(second.base("api").unwrap().url.as_str(), "https://api.test/v2");
        let narrower = resolve_sharing(&old, &operator(&[], &["other.test"]), &[], &bindings).unwrap();
        assert!(narrower.base("api").unwrap_err().message.contains("--allow-host api.test would allow it"));
        let other = resolve_sharing(&[declared("dns", None)], &operator(&[], &["*.test"]), &[], &bindings).unwrap();
        assert!(other.base("api").unwrap_err().message.contains("declares no endpoint"));
        bindings.clear();
        assert!(second.base("api").unwrap_err().message.contains("has no base URL"));
    }

    #[test]
    fn what_is_given_for_an_endpoint_stays_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let made = rcgen::generate_simple_self_signed(["api.test".to_owned()]).unwrap();
        std::fs::write(&path, made.cert.pem()).unwrap();
        let mut operator = operator(&[("a", "https://a.test"), ("b", "https://b.test")], &[]);
        operator.environment_proxy = Some(Proxy::from_environment("http://everywhere.test", None).unwrap());
        operator.proxies.insert("b".to_owned(), "http://special.test".parse().unwrap());
        let config = [("cloud:a.ca", path.to_str().unwrap()), ("cloud:b.skip", "Yes")];
        let endpoints = resolve(&["a", "b"].map(|name| declared(name, None)), &operator, &config).unwrap();
        let (a, b) = (endpoints.grant("a").unwrap(), endpoints.grant("b").unwrap());
        assert_eq!(a.tls, TlsOptions { ca_file: Some(path), ..TlsOptions::default() });
        assert_eq!(b.tls, TlsOptions { skip_verification: true, ..TlsOptions::default() });
        let proxies = [a, b].map(|grant| format!("{:?}", grant.proxy.as_ref().unwrap()));
        assert_eq!(proxies, ["Proxy(http://everywhere.test/)", "Proxy(http://special.test/)"]);
        let [warning] = endpoints.warnings() else { panic!("{:?}", endpoints.warnings()) };
        assert!(warning.field == "endpoints.b" && warning.message.starts_with("trusts anybody"), "{warning:?}");
    }

    #[tokio::test]
    async fn an_allowed_name_that_leads_to_a_metadata_service_is_still_denied() {
        let mut operator = operator(&[("api", "http://api.test")], &[]);
        operator.allow_http = true;
        for (ip, granted) in [("169.254.169.254", false), ("169.254.169.254", true), ("127.0.0.1", false)] {
            operator.addresses.loopback = granted;
            let address = SocketAddr::new(ip.parse().unwrap(), 0);
            let lookup: Lookup = Arc::new(move |_| Box::pin(std::future::ready(Ok(vec![address]))));
            let endpoints = Endpoints::resolve_with(
                &[declared("api", None)],
                &operator,
                |_| None,
                ClientSettings::default(),
                Bindings::default(),
                &lookup,
            );
            let endpoints = endpoints.unwrap();
            let url = paths::url(&endpoints.base("api").unwrap().url, "/latest/meta-data", None).unwrap();
            let error = endpoints.client("api").unwrap().get(url).send().await.unwrap_err();
            let error = transport_error(error, "GET /latest/meta-data");
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{ip}: {error}");
        }
    }
}
