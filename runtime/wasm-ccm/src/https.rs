//! Ports with TLS: certificates from files, connections up to a number, HTTP/1.1 on each.

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
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// Then no more connections are taken, and those that there are end with the answer under way.
    pub(crate) stop: CancellationToken,
}

impl Port {
    /// Serves until it is stopped and all connections have ended.
    pub(crate) async fn serve<A, F>(self, answer: A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Page> + Send + 'static,
    {
        let Self { name, listener, tls, connections, head_timeout, stop } = self;
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
        while connections.join_next().await.is_some() {}
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
