//! Health and metrics over HTTPS on upstream's port: `/livez`, `/healthz`, `/readyz`, `/providerz`, `/metrics`.
//! Upstream's `/configz` is not among them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::header::ACCEPT;
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::https::{MinTls, Page, Port, TEXT, page, read_pair};
use crate::leader::Seen;
use crate::metrics::ProcessMetrics;
use ccm_rollout::status::ProviderStatuses;

/// Connections at the same time; more wait. Probes and scrapers need a handful.
const MAX_CONNECTIONS: usize = 64;
/// A client that has not finished its request head by then is dropped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What must be true before the process is ready, and why it is not.
#[derive(Clone, Default)]
pub(crate) struct Readiness {
    checks: Arc<Mutex<BTreeMap<String, Result<(), String>>>>,
}

impl Readiness {
    /// Says how a check stands.
    pub(crate) fn set(&self, check: &str, state: Result<(), String>) {
        self.checks.lock().insert(check.to_owned(), state);
    }

    /// Whether all checks pass, and a line per check.
    fn report(&self) -> (bool, String) {
        let checks = self.checks.lock();
        let line = |(name, state): (&String, &Result<(), String>)| match state {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(why) => format!("[-]{name} not ready: {why}\n"),
        };
        let text = checks.iter().map(line).collect();
        (!checks.is_empty() && checks.values().all(Result::is_ok), text)
    }
}

/// What is served.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) readiness: Readiness,
    pub(crate) health: Health,
    /// None without leader election.
    pub(crate) leader: Option<Seen>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) process: ProcessMetrics,
    pub(crate) providers: ProviderStatuses,
}

impl Pages {
    fn answer(&self, request: &Request<impl Sized>) -> Page {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served\n".to_owned());
        }
        match request.uri().path() {
            "/livez" | "/healthz" => {
                let (status, text) = self.health.all(request.uri().query().unwrap_or_default());
                page(status, TEXT, text)
            }
            "/readyz" => {
                let (mut ready, mut text) = self.readiness.report();
                // Whoever stands by is ready, unless it never could lead: a rollout of such must not look like a good one.
                if let Some(leader) = &self.leader {
                    if let Some(why) = leader.trouble() {
                        ready = false;
                        text += &format!("[-]leader election not ready: {why}\n");
                    }
                    text += &format!("{}\n", leader.line());
                }
                page(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, TEXT, text)
            }
            "/metrics" => {
                self.process.refresh();
                let mut text = String::new();
                match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
                    Ok(()) => page(StatusCode::OK, OPEN_METRICS, text),
                    Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics: {error}\n")),
                }
            }
            "/providerz" => {
                const JSON: &str = "application/json";
                // A browser or `curl` gets text; a program says what it wants.
                let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let wants = request.uri().query().unwrap_or_default().split('&').any(|part| part == "format=json");
                if wants || accepts.starts_with(JSON) {
                    page(StatusCode::OK, JSON, self.providers.json())
                } else {
                    page(StatusCode::OK, TEXT, self.providers.text())
                }
            }
            path if let Some((status, text)) =
                path.strip_prefix("/healthz/").and_then(|name| self.health.one(name)) =>
            {
                page(status, TEXT, text)
            }
            _ => {
                page(StatusCode::NOT_FOUND, TEXT, "try /livez, /healthz, /readyz, /providerz or /metrics\n".to_owned())
            }
        }
    }
}

/// A certificate and key of the operator's, or new ones for `localhost` that live in memory.
///
/// # Errors
///
/// Names the file that cannot be used.
pub(crate) fn tls(files: Option<(&Path, &Path)>, least: MinTls) -> Result<TlsAcceptor> {
    let (chain, key) = match files {
        Some((certificate, key)) => read_pair(("--tls-cert-file", certificate), ("--tls-private-key-file", key))?,
        None => {
            let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
            let made = rcgen::generate_simple_self_signed(names).context("making a certificate for localhost")?;
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
            (vec![made.cert.der().clone()], key)
        }
    };
    let mut config = least.server().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Pages) {
    let stop = CancellationToken::new();
    let (name, connections) = ("health", MAX_CONNECTIONS);
    let (head_timeout, grace) = (HEAD_TIMEOUT, Duration::ZERO);
    Port { name, listener, tls, connections, head_timeout, stop, grace }.serve(answering(pages)).await;
}

fn answering(pages: Pages) -> impl Fn(Request<Incoming>) -> std::future::Ready<Page> + Clone + Send {
    move |request| std::future::ready(pages.answer(&request))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::task::JoinSet;
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::https::{bind, converse};

    fn pages() -> Pages {
        let mut registry = Registry::default();
        let process = ProcessMetrics::register(&mut registry);
        let (readiness, health) = (Readiness::default(), Health::new([]));
        let providers = ProviderStatuses::default();
        Pages { readiness, health, leader: None, registry: Arc::new(registry), process, providers }
    }

    async fn get(pages: &Pages, path: &str) -> (u16, String) {
        use http_body_util::BodyExt as _;
        let response = pages.answer(&Request::get(path).body(()).unwrap());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn it_is_ready_when_every_check_says_so_and_else_says_why() {
        let pages = pages();
        assert_eq!(get(&pages, "/readyz").await, (503, String::new()));
        pages.readiness.set("provider x.wasm", Err("it is empty".into()));
        pages.readiness.set("nodes", Ok(()));
        assert_eq!(
            get(&pages, "/readyz").await,
            (503, "[+]nodes ok\n[-]provider x.wasm not ready: it is empty\n".into())
        );
        pages.readiness.set("provider x.wasm", Ok(()));
        assert_eq!(get(&pages, "/readyz").await, (200, "[+]nodes ok\n[+]provider x.wasm ok\n".into()));
        assert_eq!(get(&pages, "/livez").await, (200, "ok".into()));
    }

    #[tokio::test]
    async fn metrics_tell_the_memory_of_this_process() {
        let (status, text) = get(&pages(), "/metrics").await;
        let line = text.lines().find(|line| line.starts_with("process_resident_memory_bytes ")).unwrap().to_owned();
        let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(status == 200 && bytes > 1 << 20, "{line}");
    }

    /// The port's side and a client that trusts it.
    fn trusted() -> (TlsAcceptor, TlsConnector) {
        trusted_with(MinTls::default(), rustls::DEFAULT_VERSIONS)
    }

    fn trusted_with(
        least: MinTls,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> (TlsAcceptor, TlsConnector) {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder_with_protocol_versions(versions);
        let client = client.with_root_certificates(roots).with_no_client_auth();
        (tls(Some((&certificate, &key)), least).unwrap(), TlsConnector::from(Arc::new(client)))
    }

    fn localhost() -> ServerName<'static> {
        ServerName::try_from("localhost").unwrap()
    }

    #[tokio::test]
    async fn an_older_tls_than_the_least_is_refused() {
        let old = [&rustls::version::TLS12];
        for (least, versions, is_taken) in
            [(MinTls::V12, &old[..], true), (MinTls::V13, &old, false), (MinTls::V13, rustls::DEFAULT_VERSIONS, true)]
        {
            let (acceptor, connector) = trusted_with(least, versions);
            let (near, far) = tokio::io::duplex(1 << 16);
            let (port, client) = tokio::join!(acceptor.accept(near), connector.connect(localhost(), far));
            assert_eq!((port.is_ok(), client.is_ok()), (is_taken, is_taken), "{least:?}");
        }
    }

    const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_its_handshake_or_its_head_is_dropped() {
        for (name, is_greeted, says) in [
            ("nothing", false, &b""[..]),
            ("half a handshake", false, &[22, 3, 1, 0, 200, 1]),
            ("no request", true, b""),
            ("half a request", true, &PROBE[..PROBE.len() - 2]),
        ] {
            let (acceptor, connector) = trusted();
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let begun = Instant::now();
            let client = async {
                if is_greeted {
                    let mut stream = connector.connect(localhost(), far).await.unwrap();
                    stream.write_all(says).await.unwrap();
                    // Longer than any patience: what ends first is the port's.
                    drop(tokio::time::timeout(HEAD_TIMEOUT * 2, stream.read_to_end(&mut vec![])).await);
                } else {
                    far.write_all(says).await.unwrap();
                    drop(tokio::time::timeout(HEAD_TIMEOUT * 2, far.read_to_end(&mut vec![])).await);
                }
            };
            let port = converse(near, acceptor, answering(pages()), HEAD_TIMEOUT, CancellationToken::new());
            drop(tokio::join!(port, client));
            let took = begun.elapsed();
            assert!((HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_millis(50)).contains(&took), "{name}: {took:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_beyond_the_most_waits_for_another_to_end() {
        let (acceptor, connector) = trusted();
        let listener = bind(([127, 0, 0, 1], 0).into(), "").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut port = JoinSet::new();
        port.spawn(serve(listener, acceptor, pages()));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = Box::pin(async {
            let mut stream = connector.connect(localhost(), TcpStream::connect(address).await.unwrap()).await.unwrap();
            stream.write_all(PROBE).await.unwrap();
            let mut answer = vec![];
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        });
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut probe).await.is_err(), "served beyond the most");
        drop(idle.pop());
        let answer = tokio::time::timeout(HEAD_TIMEOUT / 2, probe).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}
