//! Connections to the API server that are given up when it falls silent.
//!
//! A watch says nothing for minutes when nothing changes, so silence alone tells nothing. The API server is asked for a sign of life
//! (HTTP/2 PING), as Go's client does. Where a proxy in between speaks HTTP/1.1 alone, TCP asks for it.

use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::BoxFuture;
use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceBuilder};

use crate::counted::CountLayer;
use crate::metrics::ApiMetrics;

/// Longest time to connect, including the handshake, unless the configuration sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Probes of TCP within [`Pings::timeout`].
const PROBES: u32 = 3;

/// When a silent connection is given up. Together no more than 45 s by default, as Go's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pings {
    /// `--kube-api-ping-period`: from the last sign of life to the question. Default 30 s.
    pub period: Duration,
    /// `--kube-api-ping-timeout`: from the question to the end of the connection. Default 15 s.
    pub timeout: Duration,
}

impl Pings {
    /// Makes connections that TCP itself gives up when nobody is at the other end.
    pub(crate) fn tcp(self) -> HttpConnector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_keepalive(Some(self.period));
        tcp.set_keepalive_interval(Some(self.timeout / PROBES));
        tcp.set_keepalive_retries(Some(PROBES));
        tcp.set_tcp_user_timeout(Some(self.timeout));
        tcp
    }
}

/// A client for watches and reads. All of them share one connection where the API server speaks HTTP/2.
///
/// # Errors
///
/// The configuration cannot be used.
pub fn client(config: &Config, pings: Pings, metrics: &ApiMetrics) -> Result<Client> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    let builder = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).context("tls-server-name of the kubeconfig")?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    let connector = builder.enable_all_versions().wrap_connector(pings.tcp());
    let connector = Bounded { connector, limit: config.connect_timeout.unwrap_or(CONNECT_TIMEOUT) };
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(pings.period)
        .http2_keep_alive_timeout(pings.timeout)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    Ok(authorised(config, client, metrics)?)
}

/// Adds the address and the credentials of the configuration to an HTTP client, and counts its requests.
///
/// # Errors
///
/// The configuration cannot be used.
pub(crate) fn authorised<C>(config: &Config, client: HttpClient<C, Body>, metrics: &ApiMetrics) -> kube::Result<Client>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let service = ServiceBuilder::new()
        .layer(CountLayer::new(config, metrics))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// A connector with a time limit, for the handshake too.
#[derive(Clone)]
struct Bounded<C> {
    connector: C,
    limit: Duration,
}

impl<C> Service<Uri> for Bounded<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Response: Send + 'static,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.connector.call(uri), self.limit);
        let connected = async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_elapsed) => Err(format!("no connection within {limit:?}").into()),
            }
        };
        Box::pin(connected)
    }
}
