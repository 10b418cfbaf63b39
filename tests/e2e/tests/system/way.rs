//! A way to the API server, past which a test sees requests go, and on which it holds some of them up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::stage::LIMIT;

/// On a slow one.
const SLOW: Duration = Duration::from_millis(300);

/// Lets everything through to the API server as one user.
pub(crate) struct Way {
    url: String,
    traffic: Arc<Traffic>,
    _port: JoinSet<()>,
}

struct Traffic {
    client: Client,
    /// How long a write of a Node's status takes.
    time: Duration,
    holds: Mutex<Vec<Hold>>,
    load: Mutex<Load>,
}

/// Writes that are under way, but for those of Leases, which nothing must hold up.
#[derive(Default)]
struct Load {
    now: usize,
    most: usize,
}

impl Load {
    fn begin(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }
}

/// Whether a request, by its method and path, is one of those.
type Picks = Box<dyn Fn(&Method, &str) -> bool + Send + Sync>;

struct Hold {
    picks: Picks,
    reached: mpsc::UnboundedSender<String>,
    /// Closed when they may go on.
    over: watch::Receiver<()>,
}

/// Requests that are held up until this is dropped.
pub(crate) struct Held {
    reached: mpsc::UnboundedReceiver<String>,
    _over: watch::Sender<()>,
}

impl Held {
    /// Waits for the next request that is held up; returns its path.
    pub(crate) async fn next(&mut self) -> String {
        let path = tokio::time::timeout(LIMIT, self.reached.recv()).await;
        path.unwrap_or_else(|_| panic!("no such request within {LIMIT:?}")).unwrap()
    }
}

impl Way {
    pub(crate) async fn to(client: Client) -> Self {
        Self::taking(Duration::ZERO, client).await
    }

    /// One on which each write, but for those of Leases, is under way for some time, so that several are at once.
    pub(crate) async fn slow(client: Client) -> Self {
        Self::taking(SLOW, client).await
    }

    async fn taking(time: Duration, client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let traffic = Arc::new(Traffic { client, time, holds: Mutex::default(), load: Mutex::default() });
        let (mut port, shared) = (JoinSet::new(), Arc::clone(&traffic));
        port.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let traffic = Arc::clone(&shared);
                let service = service_fn(move |request| pass(Arc::clone(&traffic), request));
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    // Whoever gives up waiting ends the connection.
                    http.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { url, traffic, _port: port }
    }

    /// The flag of a host that goes this way.
    pub(crate) fn flag(&self) -> String {
        format!("--master={}", self.url)
    }

    /// Holds up all requests that `picks` picks by method and path, from now on.
    pub(crate) fn hold(&self, picks: impl Fn(&Method, &str) -> bool + Send + Sync + 'static) -> Held {
        let (seen, reached) = mpsc::unbounded_channel();
        let (over, is_over) = watch::channel(());
        self.traffic.holds.lock().push(Hold { picks: Box::new(picks), reached: seen, over: is_over });
        Held { reached, _over: over }
    }

    /// Most writes that were under way at the same time, but for those of Leases.
    pub(crate) fn most_writes(&self) -> usize {
        self.traffic.load.lock().most
    }
}

impl Traffic {
    /// Waits as long as a test holds this request up.
    async fn held_up(&self, method: &Method, path: &str) {
        let over: Vec<watch::Receiver<()>> = {
            let mut holds = self.holds.lock();
            holds.retain(|hold| hold.over.has_changed().is_ok());
            let picked = holds.iter().filter(|hold| (hold.picks)(method, path));
            picked.filter(|hold| hold.reached.send(path.to_owned()).is_ok()).map(|hold| hold.over.clone()).collect()
        };
        for mut over in over {
            over.changed().await.ok();
        }
    }
}

async fn pass(traffic: Arc<Traffic>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    traffic.held_up(&parts.method, &path).await;
    let is_slow = parts.method != Method::GET && !path.contains("/leases");
    if is_slow {
        traffic.load.lock().begin();
        tokio::time::sleep(traffic.time).await;
    }
    // The client of this side has its own.
    parts.headers.remove(AUTHORIZATION);
    parts.headers.remove(HOST);
    let body = body.collect().await.unwrap().to_bytes();
    let answer = traffic.client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await;
    if is_slow {
        traffic.load.lock().now -= 1;
    }
    let mut answer = answer.unwrap_or_else(|_error| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    });
    answer.headers_mut().remove(TRANSFER_ENCODING);
    Ok(answer)
}
