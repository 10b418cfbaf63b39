//! The HTTP client of an endpoint: its own trust, proxy and connections. No redirects, no retries, no cookies, nothing from
//! the environment.

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::addresses::{AddressRules, Lookup, Resolver};
use crate::error::{TransportError, TransportReason, causes};
use crate::file_stamp::Stamp;
use crate::headers::HeaderLimits;
use crate::secret::Secret;

/// Largest TLS file, in bytes: all authorities that browsers trust take about 250 KiB.
const MAX_TLS_FILE: u64 = 1 << 20;

/// What is asked of every client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings {
    /// For name, connection and TLS together. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a connection waits for its next request. Default 60 s, less than most load balancers in front of clouds.
    pub idle_timeout: Duration,
    /// Connections that wait, per host. Default 100, as many as a budget lets be used at the same time: after a burst they
    /// need not be opened again for the next one.
    pub idle_connections: usize,
    /// Of an answer.
    pub headers: HeaderLimits,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            idle_connections: 100,
            headers: HeaderLimits::default(),
        }
    }
}

/// A file for TLS. What the configuration calls its path may be a secret, if the component names the wrong key: then
/// messages show where it stands instead.
#[derive(Clone)]
pub(crate) struct TlsFile {
    path: PathBuf,
    instead: Option<String>,
    /// Which key of the configuration names it, for messages.
    origin: Option<String>,
}

impl PartialEq for TlsFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.instead) == (&other.path, &other.instead)
    }
}

impl Eq for TlsFile {}

impl TlsFile {
    /// A file whose path nobody may see, and the words for it.
    #[must_use]
    pub(crate) fn hidden(path: PathBuf, instead: String) -> Self {
        Self { path, instead: Some(instead), origin: None }
    }

    /// A file that is named there.
    #[must_use]
    pub(crate) fn named(path: PathBuf, origin: String) -> Self {
        Self { path, instead: None, origin: Some(origin) }
    }
}

impl From<PathBuf> for TlsFile {
    fn from(path: PathBuf) -> Self {
        Self { path, instead: None, origin: None }
    }
}

impl fmt::Display for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instead {
            Some(words) => write!(f, "the file that {words} names"),
            None => match &self.origin {
                Some(origin) => write!(f, "{} ({origin})", self.path.display()),
                None => self.path.display().fmt(f),
            },
        }
    }
}

impl fmt::Debug for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsFile({self})")
    }
}

/// Whom an endpoint trusts, and what it shows. Files are read again when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// PEM. These authorities alone are trusted; without it those of the system are.
    pub ca_file: Option<TlsFile>,
    /// More of them, which stand in the configuration itself.
    pub ca_certificates: Option<InlinePem>,
    /// What the client shows.
    pub client: Option<ClientCertificate>,
    /// Trusts anybody.
    pub skip_verification: bool,
}

/// PEM that stands in the configuration. Certificates are no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InlinePem {
    pub pem: String,
    /// Where, in words.
    pub origin: String,
}

/// Files of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// PEM, the chain included.
    pub certificate: TlsFile,
    /// PEM, not encrypted.
    pub key: TlsFile,
}

impl TlsOptions {
    fn files(&self) -> impl Iterator<Item = &TlsFile> {
        let client = self.client.iter().flat_map(|client| [&client.certificate, &client.key]);
        self.ca_file.iter().chain(client)
    }

    /// Where the authorities stand that it trusts, in words; none for those of the system.
    #[must_use]
    pub(crate) fn authorities(&self) -> Option<String> {
        let file = self.ca_file.as_ref().map(ToString::to_string);
        file.or_else(|| self.ca_certificates.as_ref().map(|inline| inline.origin.clone()))
    }

    /// Every file that cannot be read, each with the reason.
    #[must_use]
    pub(crate) fn unreadable(&self) -> Vec<String> {
        self.files().filter_map(|file| read(file).err()).collect()
    }
}

fn read(tls: &TlsFile) -> Result<Zeroizing<Vec<u8>>, String> {
    let told = |error: io::Error| format!("{tls}: {error}");
    let file = std::fs::File::open(&tls.path).map_err(told)?;
    // Room for all of it at once: growing would leave copies of a key behind.
    let length = file.metadata().map_err(told)?.len().min(MAX_TLS_FILE);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(64)));
    file.take(MAX_TLS_FILE.saturating_add(1)).read_to_end(&mut bytes).map_err(told)?;
    if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_TLS_FILE) {
        return Err(format!("{tls}: larger than {MAX_TLS_FILE} bytes"));
    }
    Ok(bytes)
}

/// At least one certificate.
fn certificates(pem: &[u8], origin: &impl fmt::Display) -> Result<Vec<reqwest::Certificate>, String> {
    let certificates =
        reqwest::Certificate::from_pem_bundle(pem).map_err(|error| format!("{origin}: {}", causes(&error)))?;
    if certificates.is_empty() { Err(format!("{origin}: no certificate in it")) } else { Ok(certificates) }
}

/// A proxy, which resolves names by itself: behind it, hosts are checked by name and not by address.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    login: Option<(String, Secret)>,
    /// Of the environment: for `https` only, and not for the hosts of this list.
    environment: Option<Option<String>>,
}

/// Why a text is no [`Proxy`]. It does not repeat the text, which may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// Not a URL.
    #[error("the proxy is not a URL; give `http://HOST:PORT`")]
    NotAUrl,
    /// SOCKS, for example.
    #[error("the scheme of the proxy must be http or https")]
    Scheme,
    /// Path, query or fragment.
    #[error("the proxy's URL has more than scheme, user, host and port")]
    More,
    /// Bytes that are not text.
    #[error("user and password of the proxy must be UTF-8 once they are percent-decoded")]
    Login,
}

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        // In the environment it often stands without a scheme.
        let parsed = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
        // The parser's error could not say more without the text.
        let mut url = parsed.ok().ok_or(ProxyError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ProxyError::Scheme);
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyError::More);
        }
        let decode =
            |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from).ok_or(ProxyError::Login);
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decode(user)?, Secret::new(decode(password.unwrap_or_default())?.into_bytes()))),
        };
        if url.set_username("").and_then(|()| url.set_password(None)).is_err() {
            return Err(ProxyError::NotAUrl);
        }
        Ok(Self { url, login, environment: None })
    }
}

impl Proxy {
    /// `HTTPS_PROXY` and `NO_PROXY`: requests to `http` and to the hosts of the list go without it.
    ///
    /// # Errors
    ///
    /// See [`ProxyError`].
    pub fn from_environment(https_proxy: &str, no_proxy: Option<&str>) -> Result<Self, ProxyError> {
        Ok(Self { environment: Some(no_proxy.map(ToOwned::to_owned)), ..https_proxy.parse()? })
    }

    /// The password in its URL, which must not be shown to anybody.
    #[must_use]
    pub fn password(&self) -> Option<&Secret> {
        self.login.as_ref().map(|(_, password)| password)
    }

    /// Scheme, host and port of this proxy, if requests to `url` go through it.
    #[must_use]
    pub(crate) fn before(&self, url: &Url) -> Option<String> {
        let is_in_the_way = match &self.environment {
            None => true,
            // As the HTTP client reads the list.
            Some(no_proxy) => {
                let rules = Matcher::builder().https(self.url.as_str()).no(no_proxy.as_deref().unwrap_or_default());
                rules.build().intercept(&url.as_str().parse().ok()?).is_some()
            }
        };
        is_in_the_way.then(|| self.url.origin().ascii_serialization())
    }

    fn name(&self) -> Option<String> {
        match self.url.host() {
            Some(Host::Domain(name)) => Some(name.to_owned()),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => None,
        }
    }

    fn to_reqwest(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = match &self.environment {
            None => reqwest::Proxy::all(self.url.clone())?,
            Some(no_proxy) => reqwest::Proxy::https(self.url.clone())?
                .no_proxy(no_proxy.as_deref().and_then(reqwest::NoProxy::from_string)),
        };
        Ok(match &self.login {
            Some((user, password)) => proxy.basic_auth(user, &String::from_utf8_lossy(password.expose())),
            None => proxy,
        })
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.url)
    }
}

/// The client of one endpoint.
pub(crate) struct EndpointClient {
    name: String,
    tls: TlsOptions,
    proxy: Option<Proxy>,
    allow_http: bool,
    settings: ClientSettings,
    resolver: Resolver,
    built: Mutex<Option<Built>>,
}

struct Built {
    /// None where a file changed so shortly before that it may have changed again.
    stamps: Option<Vec<Option<Stamp>>>,
    client: reqwest::Client,
}

impl EndpointClient {
    /// Reads nothing yet.
    #[must_use]
    pub(crate) fn new(
        name: &str,
        tls: TlsOptions,
        proxy: Option<Proxy>,
        allow_http: bool,
        addresses: AddressRules,
        settings: ClientSettings,
        lookup: Lookup,
    ) -> Self {
        let resolver = Resolver::new(addresses, proxy.as_ref().and_then(Proxy::name), lookup);
        Self { name: name.to_owned(), tls, proxy, allow_http, settings, resolver, built: Mutex::new(None) }
    }

    /// The addresses of a name, as connections find them, before any rule is asked.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub(crate) async fn lookup(&self, name: &str) -> Result<(), String> {
        let found = self.resolver.lookup(name).await.map_err(|error| causes(&error))?;
        if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(()) }
    }

    /// The client, made anew when one of its files changed. New files that do not work (a certificate whose key is still to
    /// come) leave the client as it was, and are logged.
    ///
    /// # Errors
    ///
    /// `tls` when its files do not work, or the system has no authorities.
    pub(crate) fn get(&self) -> Result<reqwest::Client, TransportError> {
        self.try_get().map_err(|problem| {
            TransportError::unsent(TransportReason::Tls, format!("endpoint `{}`: {problem}", self.name))
        })
    }

    /// As [`get`](Self::get), for who names the endpoint.
    ///
    /// # Errors
    ///
    /// What does not work.
    pub(crate) fn try_get(&self) -> Result<reqwest::Client, String> {
        let found: Vec<Option<(Stamp, bool)>> = self.tls.files().map(|file| Stamp::of(&file.path).ok()).collect();
        let settled = found.iter().flatten().all(|(_, settled)| *settled);
        let stamps = settled.then(|| found.into_iter().map(|found| found.map(|(stamp, _)| stamp)).collect());
        let mut built = self.built.lock();
        match &mut *built {
            Some(built) if stamps.is_some() && built.stamps == stamps => Ok(built.client.clone()),
            Some(built) => {
                built.stamps = stamps;
                match self.build() {
                    Ok(client) => built.client = client,
                    Err(problem) => tracing::warn!(
                        endpoint = self.name,
                        "the changed TLS files do not work, the former stay in use: {problem}"
                    ),
                }
                Ok(built.client.clone())
            }
            None => {
                let client = self.build()?;
                *built = Some(Built { stamps, client: client.clone() });
                Ok(client)
            }
        }
    }

    fn build(&self) -> Result<reqwest::Client, String> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_rustls()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .https_only(!self.allow_http)
            .no_proxy()
            .dns_resolver(self.resolver.clone())
            .connect_timeout(self.settings.connect_timeout)
            .pool_idle_timeout(self.settings.idle_timeout)
            .pool_max_idle_per_host(self.settings.idle_connections)
            .http1_max_headers(self.settings.headers.count)
            .gzip(true)
            .user_agent(concat!("wasm-ccm/", env!("CARGO_PKG_VERSION")));
        let mut authorities = vec![];
        if let Some(file) = &self.tls.ca_file {
            authorities.extend(certificates(&read(file)?, file)?);
        }
        if let Some(InlinePem { pem, origin }) = &self.tls.ca_certificates {
            authorities.extend(certificates(pem.as_bytes(), origin)?);
        }
        if !authorities.is_empty() {
            builder = builder.tls_certs_only(authorities);
        }
        if let Some(ClientCertificate { certificate, key }) = &self.tls.client {
            let (first, second) = (read(certificate)?, read(key)?);
            let pem = Zeroizing::new([first.as_slice(), b"\n", second.as_slice()].concat());
            let identity = reqwest::Identity::from_pem(&pem)
                .map_err(|error| format!("{certificate} and {key}: {}", causes(&error)))?;
            builder = builder.identity(identity);
        }
        if self.tls.skip_verification {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.to_reqwest().map_err(|error| causes(&error.without_url()))?);
        }
        builder.build().map_err(|error| {
            let files: Vec<String> = self.tls.files().map(ToString::to_string).collect();
            let told = causes(&error);
            if files.is_empty() { told } else { format!("{}: {told}", files.join(", ")) }
        })
    }
}
