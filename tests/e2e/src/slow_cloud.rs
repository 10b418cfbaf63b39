//! A cloud for benchmarks, in a process of its own: neither its work nor its memory is measured. It answers at once, or under
//! `/later` after [`THINKS`].

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// How long a cloud is taken to think.
pub const THINKS: Duration = Duration::from_millis(50);
/// Bytes of an answer.
pub const BODY: usize = 1_024;
/// The argument with which a benchmark starts itself once more, as the cloud.
const SERVE: &str = "serve";

/// The cloud, as the benchmark sees it.
#[derive(Debug)]
pub struct SlowCloud {
    /// Its base URL.
    pub url: String,
    /// Ends with this.
    _process: Child,
}

/// Serves, if this process was started for that. Call it first of all.
///
/// # Errors
///
/// It cannot listen.
pub fn serve_if_asked() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve())?;
    }
    Ok(())
}

impl SlowCloud {
    /// Starts this program once more. Its `main` begins with [`serve_if_asked`].
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.arg(SERVE).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = process.stdout.take().context("the server has no output")?;
        let address = BufReader::new(out).lines().next_line().await?.context("the server did not start")?;
        Ok(Self { url: format!("http://{address}"), _process: process })
    }
}

/// Answers until who started it is gone.
async fn serve() -> Result<()> {
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let body = machine();
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let body = body.clone();
            async move {
                if Path::new(request.uri().path()).starts_with("/later") {
                    tokio::time::sleep(THINKS).await;
                }
                let answer = hyper::Response::builder()
                    .header("content-type", "application/json; charset=utf-8")
                    .header("x-request-id", "3c8a1d2e-0000-4000-8000-000000000000");
                answer.body(Full::new(body))
            }
        });
        connections.spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            // A client that leaves is not the server's error.
            http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

/// What a cloud says of a machine.
fn machine() -> Bytes {
    let machine = json!({ "droplet": {
        "id": 3_164_444, "name": "node-1", "memory": 1024, "vcpus": 1, "disk": 25, "locked": false, "status": "active",
        "size_slug": "s-1vcpu-1gb", "region": { "slug": "nyc3", "name": "New York 3", "available": true },
        "networks": { "v4": [
            { "ip_address": "10.128.192.124", "netmask": "255.255.0.0", "gateway": "nil", "type": "private" },
            { "ip_address": "192.241.165.154", "netmask": "255.255.255.0", "gateway": "192.241.165.1", "type": "public" },
        ]},
        "tags": ["k8s", "k8s:worker"], "features": ["backups", "private_networking"], "vpc_uuid": "760e09ef-dc84-11e8",
    }});
    // White space at the end is JSON, too.
    Bytes::from(format!("{machine:BODY$}", machine = machine.to_string()))
}
