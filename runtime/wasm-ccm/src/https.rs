//! Ports with TLS: certificates from files, connections up to a number, HTTP/1.1 on each.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
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
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The oldest version of TLS that a port takes, by upstream's names. There is none before 1.2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinTls {
    /// 1.2.
    #[default]
    #[value(name = "VersionTLS12", aliases = ["VersionTLS10", "VersionTLS11"])]
    V12,
    /// 1.3.
    #[value(name = "VersionTLS13")]
    V13,
}

impl MinTls {
    /// Begins the configuration of a port.
    pub(crate) fn server(self) -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
        let newest = [&rustls::version::TLS13];
        rustls::ServerConfig::builder_with_protocol_versions(match self {
            Self::V12 => rustls::DEFAULT_VERSIONS,
            Self::V13 => &newest,
        })
    }
}

/// A whole answer.
pub(crate) type Page = Response<Full<Bytes>>;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer of this kind.
pub(crate) fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// A certificate with those that vouch for it, and its key.
pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads a pair; each file comes with the flag that named it.
///
/// # Errors
///
/// Names flag and file.
pub(crate) fn read_pair(certificate: (&str, &Path), key: (&str, &Path)) -> Result<Pair> {
    let what = |(flag, path): (&str, &Path)| format!("{flag} {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate.1)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| what(certificate))?;
    Ok((chain, PrivateKeyDer::from_pem_file(key.1).with_context(|| what(key))?))
}

/// Binds the address, so that a port in use is an error at start; `flags` choose another.
///
/// # Errors
///
/// Names the address.
pub(crate) async fn bind(address: SocketAddr, flags: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}; choose another with {flags}"))
}

/// A port.
pub(crate) struct Port {
    /// For messages.
    pub(crate) name: &'static str,
    pub(crate) listener: TcpListener,
    pub(crate) tls: TlsAcceptor,
    /// At the same time; more wait.
    pub(crate) connections: usize,
    /// How long the head of a request may take, from when the one before was answered.
    pub(crate) head_timeout: Duration,
    /// Then no more connections are taken, and those that there are end with the answer under way,
    pub(crate) stop: CancellationToken,
    /// and after this time in any case.
    pub(crate) grace: Duration,
}

impl Port {
    /// Serves until it is stopped and all connections have ended.
    pub(crate) async fn serve<A, F>(self, answer: A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Page> + Send + 'static,
    {
        let Self { name, listener, tls, connections, head_timeout, stop, grace } = self;
        let places = Arc::new(Semaphore::new(connections));
        let mut connections = JoinSet::new();
        let next = async || {
            // Closed never: this function holds it.
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
pub(crate) async fn converse<A, F>(
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
    use tokio_rustls::TlsConnector;

    use super::*;

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
}
