//! Health and metrics over HTTPS on upstream's port: `/livez`, `/healthz`, `/readyz`, `/metrics`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::health::Health;
use crate::leader::Seen;
use crate::metrics::ProcessMetrics;

/// Connections at the same time; more wait. Probes and scrapers need a handful.
const MAX_CONNECTIONS: usize = 64;
/// A client that has not finished its handshake or its request head by then is dropped.
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
}

impl Pages {
    fn answer(&self, request: &Request<impl Sized>) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain; charset=utf-8";
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
            path if let Some((status, text)) =
                path.strip_prefix("/healthz/").and_then(|name| self.health.one(name)) =>
            {
                page(status, TEXT, text)
            }
            _ => page(StatusCode::NOT_FOUND, TEXT, "try /livez, /healthz, /readyz or /metrics\n".to_owned()),
        }
    }
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// A certificate and key of the operator's, or new ones for `localhost` that live in memory.
///
/// # Errors
///
/// Names the file that cannot be used.
pub(crate) fn tls(files: Option<(&Path, &Path)>) -> Result<TlsAcceptor> {
    let (chain, key) = match files {
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .with_context(|| format!("--tls-cert-file {}", certificate.display()))?;
            let key = PrivateKeyDer::from_pem_file(key)
                .with_context(|| format!("--tls-private-key-file {}", key.display()))?;
            (chain, key)
        }
        None => {
            let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
            let made = rcgen::generate_simple_self_signed(names).context("making a certificate for localhost")?;
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
            (vec![made.cert.der().clone()], key)
        }
    };
    let mut config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Binds the address, so that a port in use is an error at start.
///
/// # Errors
///
/// Names the address.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another with --bind-address and --secure-port"))
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: TlsAcceptor, pages: Pages) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // Closed never: this function holds it.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the health port");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (tls, pages) = (tls.clone(), pages.clone());
        connections.spawn(async move {
            let _place = place;
            converse(stream, tls, pages).await;
        });
    }
}

/// Serves one connection to its end.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, tls: TlsAcceptor, pages: Pages) {
    let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await else { return };
    let answer = service_fn(move |request| {
        let response = pages.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the health port ended");
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;

    use super::*;

    fn pages() -> Pages {
        let mut registry = Registry::default();
        let process = ProcessMetrics::register(&mut registry);
        let (readiness, health) = (Readiness::default(), Health::new([]));
        Pages { readiness, health, leader: None, registry: Arc::new(registry), process }
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
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        (tls(Some((&certificate, &key))).unwrap(), TlsConnector::from(Arc::new(client)))
    }

    fn localhost() -> ServerName<'static> {
        ServerName::try_from("localhost").unwrap()
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
            tokio::join!(converse(near, acceptor, pages()), client);
            let took = begun.elapsed();
            assert!((HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_millis(50)).contains(&took), "{name}: {took:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_beyond_the_most_waits_for_another_to_end() {
        let (acceptor, connector) = trusted();
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
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
