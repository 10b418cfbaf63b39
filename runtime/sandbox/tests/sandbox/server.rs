//! A server on loopback that answers as a test says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What is told to end the connection.
#[derive(Debug, thiserror::Error)]
#[error("the server hangs up")]
pub(crate) struct HangUp;

pub(crate) type Body = BoxBody<Bytes, HangUp>;
pub(crate) type Asked = Request<Bytes>;
pub(crate) type Answered = Result<Response<Body>, HangUp>;

/// Serves until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(Asked) -> BoxFuture<'static, Answered> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = Arc::clone(&answer);
                    async move {
                        let (head, body) = request.into_parts();
                        let Ok(body) = body.collect().await else { return Err(HangUp) };
                        answer(Request::from_parts(head, body.to_bytes())).await
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                connections.spawn(async move {
                    // It ends when the other side does, or when the service hangs up.
                    let _end = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A whole body.
pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed()
}

/// A body that breaks off.
pub(crate) fn broken_off(beginning: impl Into<Bytes>) -> Body {
    StreamBody::new(stream::iter([Ok(Frame::data(beginning.into())), Err(HangUp)])).boxed()
}
