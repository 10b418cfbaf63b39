//! Ports with TLS: certificates from files, read once (the webhook's are read again when they change), a bounded number of connections, HTTP/1.1.
//!
//! Everybody who reaches a port can open connections, and leave them alone. So there are never more than so many; the next one takes
//! the place of the idlest. Handshakes have places of their own. Each part of an exchange has its time, and each connection its age.

mod connections;
#[cfg(test)]
mod tests;
mod write_timeout;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use connections::{Activity, Connections};
use write_timeout::WriteTimeout;

/// A client that has not finished its handshake by then is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer under way has when its connection is too old. No answer takes longer: reviews have 8 s.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// Longest head of a request, in bytes: twice the largest token. Whoever reaches a port can send one on each of its connections.
const MAX_HEAD: usize = 32 << 10;

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
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A browser takes no text for markup.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
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
        .map_err(without_lines)
        .with_context(|| what(certificate))?;
    Ok((chain, PrivateKeyDer::from_pem_file(key.1).map_err(without_lines).with_context(|| what(key))?))
}

/// What is wrong with a PEM file, without what stands in it: the library repeats the line, and in a file without line breaks that is the key.
pub(crate) fn without_lines(error: pem::Error) -> anyhow::Error {
    match error {
        pem::Error::IllegalSectionStart { .. } | pem::Error::MissingSectionEnd { .. } => anyhow::anyhow!(
            "it is not PEM: a -----BEGIN ...----- or -----END ...----- is missing, or has no line of its own; write the file again, with its \
             line breaks"
        ),
        other => other.into(),
    }
}

/// What is wrong with a certificate and a key that were read, each with its flag.
pub(crate) fn unfit(error: rustls::Error, certificate: (&str, &Path), key: (&str, &Path)) -> anyhow::Error {
    let what = |(flag, path): (&str, &Path)| format!("{flag} {}", path.display());
    let (certificate, key) = (what(certificate), what(key));
    match error {
        rustls::Error::InconsistentKeys(_) => anyhow::anyhow!(
            "{key} is not the private key of the certificate in {certificate}; give the key that the certificate was made for, and the \
             server's own certificate first in its file"
        ),
        other => anyhow::Error::from(other).context(format!("{certificate} and {key}")),
    }
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
    let mut config =
        least.server().with_no_client_auth().with_single_cert(chain, key).map_err(|error| match files {
            Some((certificate, key)) => unfit(error, ("--tls-cert-file", certificate), ("--tls-private-key-file", key)),
            None => error.into(),
        })?;
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

/// How long the client of a port may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the head of a request, from when the one before was answered.
    pub head: Duration,
    /// For reading, without taking any byte of its answer.
    pub write: Duration,
    /// Age of a connection after which it gets no more answers. Clients open another one.
    pub age: Duration,
}

/// Who is at the other end of a connection, among the extensions of its requests: in IPv6, everybody with the same first 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Whom an address belongs to: in IPv6, whoever has one has 2^64 of them.
    pub(crate) fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// A port.
pub struct Port {
    /// For messages.
    pub name: &'static str,
    /// Where connections come from.
    pub listener: TcpListener,
    /// Makes handshakes.
    pub tls: TlsAcceptor,
    /// At the same time, without those that make their handshake; one more takes the place of the idlest.
    pub connections: usize,
    /// What it waits for, and for how long.
    pub patience: Patience,
    /// Ends the port: it takes no more connections, and each open one closes after the answer under way.
    pub stop: CancellationToken,
    /// Longest time for these answers. After that, the connections close without them.
    pub grace: Duration,
}

impl Port {
    /// Serves until it is stopped and all connections have ended.
    pub async fn serve<A, F>(self, answer: A)
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Page> + Send + 'static,
    {
        let Self { name, listener, tls, connections, patience, stop, grace } = self;
        let open = Connections::new(connections);
        let mut connections = JoinSet::new();
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, port = name, "cannot accept a connection");
                    stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(100))).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            if let Some(oldest) = open.make_room() {
                tracing::debug!(port = name, peer = %oldest.0, "too many handshakes: the oldest is ended");
            }
            let (tls, answer, stop, activity) = (tls.clone(), answer.clone(), stop.clone(), open.activity());
            let (busy, peer) = (activity.clone(), Peer::new(peer.ip()));
            let answer = move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                answer(request)
            };
            let conversation = async move {
                if let Err(error) = converse(stream, tls, answer, patience, busy, stop).await {
                    tracing::debug!(%error, port = name, "connection ended");
                }
            };
            open.add(peer, &activity, || connections.spawn(conversation));
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
    patience: Patience,
    activity: Activity,
    stop: CancellationToken,
) -> hyper::Result<()>
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Page>,
{
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let Some(Ok(Ok(stream))) = stop.run_until_cancelled(handshake).await else { return Ok(()) };
    if let Some(idlest) = activity.greeted() {
        tracing::debug!(peer = %idlest.0, "too many connections: the idlest is closed");
    }
    let answer = service_fn(move |request| {
        activity.begins();
        let (answer, activity) = (answer(request), activity.clone());
        async move {
            let page = answer.await;
            activity.ends();
            Ok::<_, Infallible>(page)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_header_size(MAX_HEAD)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, patience.write)), answer);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        // Whoever stops the port says for how long it waits.
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return connection.await;
        }
        () = tokio::time::sleep(patience.age) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(LAST_ANSWER, connection).await.unwrap_or(Ok(()))
}
