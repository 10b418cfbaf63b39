//! Ports with TLS: certificates from files, a bounded number of connections, HTTP/1.1.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A client that has not finished its handshake by then is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest version of TLS that a port takes, by upstream's names. There is none before 1.2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinTls {
    /// 1.2.
    #[default]
    V12,
    /// 1.3.
    V13,
}

impl MinTls {
    /// Begins the configuration of a port.
    pub fn server(self) -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
        let newest = [&rustls::version::TLS13];
        rustls::ServerConfig::builder_with_protocol_versions(match self {
            Self::V12 => rustls::DEFAULT_VERSIONS,
            Self::V13 => &newest,
        })
    }
}

/// A whole answer.
pub type Page = Response<Full<Bytes>>;

/// The kind of a page for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// An answer of this kind.
pub fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// A certificate with those that vouch for it, and its key.
pub type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads a pair; each file comes with the flag that named it.
///
/// # Errors
///
/// Names flag and file.
pub fn read_pair(certificate: (&str, &Path), key: (&str, &Path)) -> Result<Pair> {
    let what = |(flag, path): (&str, &Path)| format!("{flag} {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate.1)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| what(certificate))?;
    Ok((chain, PrivateKeyDer::from_pem_file(key.1).with_context(|| what(key))?))
}

/// A certificate and key of the operator's, or new ones for `localhost` that live in memory.
///
/// # Errors
///
/// Names the file that cannot be used.
pub fn acceptor(files: Option<(&Path, &Path)>, least: MinTls) -> Result<TlsAcceptor> {
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

/// Binds the address, so that a port in use is an error at start; `flags` choose another.
///
/// # Errors
///
/// Names the address.
pub async fn bind(address: SocketAddr, flags: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}; choose another with {flags}"))
}

/// A port.
pub struct Port {
    /// For messages.
    pub name: &'static str,
    /// Where connections come from.
    pub listener: TcpListener,
    /// Makes handshakes.
    pub tls: TlsAcceptor,
    /// At the same time; more wait.
    pub connections: usize,
    /// How long the head of a request may take, from when the one before was answered.
    pub head_timeout: Duration,
    /// Ends the port: it takes no more connections, and the open ones end with the answer under way,
    pub stop: CancellationToken,
    /// or after this time.
    pub grace: Duration,
}

impl Port {
    /// Serves until it is stopped and all connections have ended.
    pub async fn serve<A, F>(self, answer: A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Page> + Send + 'static,
    {
        let Self { name, listener, tls, connections, head_timeout, stop, grace } = self;
        let places = Arc::new(Semaphore::new(connections));
        let mut connections = JoinSet::new();
        let next = async || {
            // Never closed: this function owns it.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        while let Some(Some((place, accepted))) = stop.run_until_cancelled(next()).await {
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, port = name, "cannot accept a connection");
                    stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(100))).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            let (tls, answer, stop) = (tls.clone(), answer.clone(), stop.clone());
            connections.spawn(async move {
                let _place = place;
                if let Err(error) = converse(stream, tls, answer, head_timeout, stop).await {
                    tracing::debug!(%error, port = name, "connection ended");
                }
            });
        }
        drop(listener);
        let ending = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ending).await.is_err() {
            tracing::debug!(port = name, "connections that do not end are cut");
        }
    }
}

/// Serves one connection to its end.
async fn converse<A, F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tls: TlsAcceptor,
    answer: A,
    head_timeout: Duration,
    stop: CancellationToken,
) -> hyper::Result<()>
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Page>,
{
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let Some(Ok(Ok(stream))) = stop.run_until_cancelled(handshake).await else { return Ok(()) };
    let answer = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    if let Some(ended) = stop.run_until_cancelled(connection.as_mut()).await {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;

    use super::*;

    const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
    /// How long a test waits for what comes at once.
    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_port_that_is_stopped_answers_what_it_was_asked_and_waits_for_nobody_else() {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let chain = vec![made.cert.der().clone()];
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let client = TlsConnector::from(Arc::new(client));

        let listener = bind(([127, 0, 0, 1], 0).into(), "").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, tls) = (CancellationToken::new(), TlsAcceptor::from(Arc::new(config)));
        let (asked, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let answer = {
            let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
            move |_: Request<Incoming>| {
                let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
                async move {
                    asked.notify_one();
                    go.notified().await;
                    page(StatusCode::OK, TEXT, "done")
                }
            }
        };
        // Cuts the one that does not end.
        let grace = 10 * LIMIT;
        let port =
            Port { name: "test", listener, tls, connections: 4, head_timeout: 2 * grace, stop: stop.clone(), grace };
        let mut tasks = JoinSet::new();
        tasks.spawn(port.serve(answer));
        let connect = async || {
            let stream = TcpStream::connect(address).await.unwrap();
            client.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
        };
        let (mut asks, mut idles, mut dawdles) = (connect().await, connect().await, connect().await);
        asks.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        dawdles.write_all(b"GET / HT").await.unwrap();
        asked.notified().await;
        stop.cancel();
        let mut said = vec![];
        drop(tokio::time::timeout(LIMIT, idles.read_to_end(&mut said)).await.unwrap());
        assert_eq!(said, b"");
        go.notify_one();
        drop(tokio::time::timeout(LIMIT, asks.read_to_end(&mut said)).await.unwrap());
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("done"), "{said}");
        tokio::time::pause();
        tokio::time::advance(grace).await;
        tokio::time::resume();
        tokio::time::timeout(LIMIT / 2, tasks.join_next()).await.unwrap().unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
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
        (acceptor(Some((&certificate, &key)), least).unwrap(), TlsConnector::from(Arc::new(client)))
    }

    fn localhost() -> ServerName<'static> {
        ServerName::try_from("localhost").unwrap()
    }

    async fn answer(_: Request<Incoming>) -> Page {
        page(StatusCode::OK, TEXT, "ok")
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

    /// As a probe of the kubelet.
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
            let port = converse(near, acceptor, answer, HEAD_TIMEOUT, CancellationToken::new());
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
        let served = Port {
            name: "test",
            listener,
            tls: acceptor,
            connections: 4,
            head_timeout: HEAD_TIMEOUT,
            stop: CancellationToken::new(),
            grace: Duration::ZERO,
        };
        port.spawn(served.serve(answer));
        let mut idle = Vec::new();
        for _ in 0..4 {
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
