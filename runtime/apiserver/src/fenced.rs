//! A client whose bytes leave only while this process may write.
//!
//! A gate looks before a request begins. Between that look and the network lie a queue, another task, perhaps a handshake,
//! and whatever stops the process for a while. So the last look is here, right before the socket takes the bytes. What the
//! kernel has not sent when a connection is given up is thrown away: a network that comes back must not deliver it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ccm_cloud::Leadership;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use crate::connection::{Pings, authorised};
use crate::metrics::ApiMetrics;

/// A client that sends nothing, not even a handshake, while this process may not write.
///
/// # Errors
///
/// The configuration cannot be used.
pub fn fenced_client(
    config: &Config,
    pings: Pings,
    fence: Arc<dyn Leadership>,
    metrics: &ApiMetrics,
) -> kube::Result<Client> {
    let connector = Connector { tcp: pings.tcp(), fence };
    let connector = config.rustls_https_connector_with_connector(connector)?;
    authorised(config, HttpClient::builder(TokioExecutor::new()).build(connector), metrics)
}

/// Makes connections that are fenced.
#[derive(Clone)]
struct Connector {
    tcp: HttpConnector,
    fence: Arc<dyn Leadership>,
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let fence = Arc::clone(&self.fence);
        let connecting = self.tcp.call(uri).map_err(BoxError::from);
        async move { Ok(Stream::new(connecting.await?, fence)?) }.boxed()
    }
}

/// A fenced connection.
struct Stream {
    tcp: TokioIo<TcpStream>,
    fence: Arc<dyn Leadership>,
}

impl Stream {
    fn new(tcp: TokioIo<TcpStream>, fence: Arc<dyn Leadership>) -> io::Result<Self> {
        tcp.inner().set_zero_linger()?;
        Ok(Self { tcp, fence })
    }

    fn check(&self) -> io::Result<()> {
        if !self.fence.time_left().is_zero() {
            return Ok(());
        }
        let why = "not sent: this process may not write now, another one may be the leader";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.tcp.connected()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.tcp).poll_write_vectored(context, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    const PINGS: Pings = Pings { period: Duration::from_secs(30), timeout: Duration::from_secs(15) };

    /// Open or closed. That a write may begin says nothing about its bytes.
    #[derive(Default)]
    struct Fence(AtomicBool);

    impl Fence {
        fn open(&self, is: bool) {
            self.0.store(is, Ordering::SeqCst);
        }
    }

    impl Leadership for Fence {
        fn may_write(&self) -> bool {
            true
        }

        fn time_left(&self) -> Duration {
            if self.0.load(Ordering::SeqCst) { Duration::from_secs(1) } else { Duration::ZERO }
        }
    }

    /// A server that answers everything, and counts what it reads.
    async fn server(tasks: &mut JoinSet<()>) -> (Config, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let read = Arc::new(Mutex::new(0));
        let count = Arc::clone(&read);
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                    *count.lock() += bytes;
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
                }
            }
        });
        (config, read)
    }

    #[tokio::test]
    async fn no_byte_leaves_while_the_fence_is_closed_not_on_an_open_connection_either() {
        let mut tasks = JoinSet::new();
        let (config, read) = server(&mut tasks).await;
        let fence = Arc::new(Fence::default());
        let metrics = ApiMetrics::register(&mut prometheus_client::registry::Registry::default());
        let client = fenced_client(&config, PINGS, Arc::clone(&fence) as Arc<dyn Leadership>, &metrics).unwrap();
        let ask = async || client.request_text(http::Request::get("/version").body(vec![]).unwrap()).await;
        for _ in 0..2 {
            let error = crate::error_text::causes(&ask().await.unwrap_err());
            assert!(error.contains("another one may be the leader"), "{error}");
            let before = *read.lock();
            fence.open(true);
            assert_eq!(ask().await.unwrap(), "{}");
            assert!(*read.lock() > before);
            // As if the process had been stopped between the look of a gate and this one.
            fence.open(false);
            let before = *read.lock();
            assert!(ask().await.is_err());
            assert_eq!(*read.lock(), before);
        }
    }

    #[tokio::test]
    async fn what_the_kernel_has_not_sent_when_a_connection_ends_is_thrown_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = Stream::new(TokioIo::new(tcp), Arc::new(Fence::default())).unwrap();
        assert_eq!(stream.tcp.inner().linger().unwrap(), Some(Duration::ZERO));
    }
}
