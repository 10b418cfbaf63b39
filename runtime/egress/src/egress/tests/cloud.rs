//! A cloud on this machine: remembers what it is asked, answers by a closure, and breaks the rules of HTTP where a test wants it.
//! The tests of `ccm-sandbox` use it as well.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A request, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `GET /path?query`
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// What is done with a request.
pub(crate) enum Reply {
    /// These bytes, and the connection ends.
    Bytes(Vec<u8>),
    /// What comes out after a while.
    Late(Duration, Box<dyn FnOnce() -> Vec<u8> + Send>),
    /// These bytes, and nothing after them for ever.
    Stall(Vec<u8>),
}

/// An answer whose length fits.
pub(crate) fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn ok(body: &str) -> Reply {
    Reply::Bytes(reply("200 OK", "content-type: application/json\r\n", body))
}

type Responder = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// Ends when it is dropped.
pub(crate) struct Cloud {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: JoinSet<()>,
}

impl Cloud {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let socket = socket();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(1024).unwrap();
        Self::new(address, std::future::ready(listener), answer)
    }

    /// Refuses connections until `opens` is over.
    pub(crate) fn start_after(
        opens: impl Future<Output = ()> + Send + 'static,
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let socket = socket();
        let address = socket.local_addr().unwrap();
        let listener = async move {
            opens.await;
            socket.listen(1024).unwrap()
        };
        Self::new(address, listener, answer)
    }

    fn new(
        address: SocketAddr,
        listener: impl Future<Output = TcpListener> + Send + 'static,
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::default());
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&asked), Arc::new(answer)));
        Self { address, asked, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came since the last time that somebody asked.
    pub(crate) fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// A place where nobody listens yet, and nobody else will.
fn socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
}

async fn accept(listener: impl Future<Output = TcpListener> + Send, asked: Arc<Mutex<Vec<Asked>>>, answer: Responder) {
    let listener = listener.await;
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&asked), Arc::clone(&answer)));
    }
}

async fn serve(mut stream: TcpStream, all: Arc<Mutex<Vec<Asked>>>, answer: Responder) {
    let Some(asked) = read(&mut stream).await else {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok();
        return;
    };
    all.lock().push(asked.clone());
    let reply = answer(&asked);
    let stalls = matches!(reply, Reply::Stall(_));
    let bytes = match reply {
        Reply::Bytes(bytes) | Reply::Stall(bytes) => bytes,
        Reply::Late(time, bytes) => {
            tokio::time::sleep(time).await;
            bytes()
        }
    };
    // The other side may have gone away, which is the point of some tests.
    let written = stream.write_all(&bytes).await;
    if stalls && written.is_ok() {
        std::future::pending::<()>().await;
    }
    stream.shutdown().await.ok();
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let begins_tls = bytes.first() == Some(&0x16);
        if begins_tls || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes.drain(..head + 4).collect()).unwrap();
    let mut lines = text.trim_end().split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let mut asked = Asked { line, headers: lines.filter_map(header).collect(), body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    asked.body = String::from_utf8(bytes).unwrap();
    Some(asked)
}
