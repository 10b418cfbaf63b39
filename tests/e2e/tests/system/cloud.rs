//! A cloud on this machine, and Nodes whose look-up makes the scripted provider ask it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ccm_cluster::NodeFixture;
use kube::api::DeleteParams;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::bytes::gzip;
use crate::look::nodes;
use crate::stage::{Actor, LIMIT, Stage};

/// The annotation with a Node's script.
pub(crate) const SCRIPT: &str = "scripted.example/script";

/// Sends every request back in the body of its answer, with the status 200, or 404 below `/absent/` and below `/of/NAME/` to who
/// has another token than `token-of-NAME`. Who has a token that is [revoked](Self::revoke) gets 401 everywhere. What is below `/bombs/`
/// is an [attack](bomb). Ends when it is dropped.
pub(crate) struct Cloud {
    pub(crate) address: SocketAddr,
    revoked: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Cloud {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    /// Where nobody listens, or a port is taken for it.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&seen);
        let revoked: Arc<Mutex<Vec<String>>> = Arc::default();
        let refused = Arc::clone(&revoked);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // One that never ends must not keep the others waiting.
            let mut answers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, refused) = (Arc::clone(&kept), Arc::clone(&refused));
                // Whoever goes away in the middle is no reason to end.
                answers.spawn(async move { answer(stream, &kept, &refused).await.ok() });
                while answers.try_join_next().is_some() {}
            }
        });
        Self { address, revoked, seen, _tasks: tasks }
    }

    /// This token is good for nothing from now on.
    pub(crate) fn revoke(&self, token: &str) {
        self.revoked.lock().push(token.to_owned());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The grants that it needs.
    pub(crate) fn flags(&self) -> [String; 3] {
        Self::flags_of(self.address)
    }

    /// The same for one that will be there.
    pub(crate) fn flags_of(address: SocketAddr) -> [String; 3] {
        [format!("--endpoint=api=http://{address}"), "--allow-http".to_owned(), "--allow-loopback".to_owned()]
    }

    /// Requests so far: first line and headers.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    /// Registers a Node whose look-up asks for its machine with the credential `token`, and returns the `authorization`
    /// that came here.
    pub(crate) async fn asked_for(&self, stage: &Stage, host: &Actor, node: &str) -> String {
        ask(stage, host, node, [send(&format!("/machines/{node}")), json!({ "log": "answer" })]).await;
        let first = format!("GET /machines/{node} HTTP/1.1");
        let request = self.seen().into_iter().find(|request| request.starts_with(&first));
        let request = request.unwrap_or_else(|| panic!("no {first}; the log:\n{}", host.log_text()));
        let header = request.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
        header.unwrap_or_else(|| panic!("no authorization in {request}"))
    }
}

/// A step that asks for `path`, with the credential `token`.
pub(crate) fn send(path: &str) -> Value {
    json!({ "send": { "path": path, "headers": [["authorization", ["Bearer ", { "secret": "token" }]]] } })
}

/// Registers a Node whose look-up does what the script says, and waits until it is done. Then the Node goes: what came of
/// the steps is seldom a label that a Node may have, and the look-up would be tried again. The first refresh of addresses has ended
/// before: it would look the Node up once more.
pub(crate) async fn ask(stage: &Stage, host: &Actor, node: &str, script: impl IntoIterator<Item = Value>) {
    host.refreshed().await;
    let done = format!("script of {node} is done");
    let script: Value = script.into_iter().chain([json!({ "log": done })]).collect();
    let fixture = NodeFixture::new(node).internal_ip("10.0.0.1").annotation(SCRIPT, &script.to_string());
    fixture.register(stage.client()).await.unwrap();
    host.await_log(LIMIT, &[&done]).await.unwrap();
    nodes(stage.client()).delete(node, &DeleteParams::default()).await.unwrap();
}

async fn answer(mut stream: TcpStream, seen: &Mutex<Vec<String>>, revoked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    if let Some((_, rest)) = request.split_once(" /bombs/") {
        return bomb(&mut stream, rest.split(' ').next().unwrap_or_default()).await;
    }
    let whose = request.split_once(" /of/").and_then(|(_, path)| path.split('/').next());
    let is_foreign = whose.is_some_and(|name| !request.contains(&format!("authorization: Bearer token-of-{name}\r\n")));
    let is_absent = is_foreign || request.contains(" /absent/");
    let is_revoked = revoked.lock().iter().any(|token| request.contains(&format!("authorization: Bearer {token}\r\n")));
    let status = match (is_revoked, is_absent) {
        (true, _) => "401 Unauthorized",
        (false, true) => "404 Not Found",
        (false, false) => "200 OK",
    };
    let length = request.len();
    let body = if request.starts_with("HEAD ") { "" } else { &request };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nx-request-id: req-7\r\nconnection: close\r\n\r\n{body}"
    );
    // Before the answer: who has that looks here.
    seen.lock().push(request);
    stream.write_all(answer.as_bytes()).await
}

/// What a cloud may do to a host that asks it: an answer that becomes a thousand times as large, ten thousand headers, a header or a body
/// without an end.
async fn bomb(stream: &mut TcpStream, kind: &str) -> std::io::Result<()> {
    let ok = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    match kind {
        "gzip" => {
            let body = gzip(&vec![0; 64 << 20]);
            let head = format!("{ok}content-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).await
        }
        "headers" => {
            let headers: String = (0..10_000).map(|number| format!("x-{number}: x\r\n")).collect();
            stream.write_all(format!("{ok}{headers}content-length: 0\r\n\r\n").as_bytes()).await
        }
        _ => {
            let head = if kind == "endless-header" { format!("{ok}x: ") } else { format!("{ok}\r\n") };
            stream.write_all(head.as_bytes()).await?;
            // Until whoever asked goes away.
            loop {
                stream.write_all(&[b'x'; 64 << 10]).await?;
            }
        }
    }
}

/// A Secret's data.
pub(crate) fn data(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}
