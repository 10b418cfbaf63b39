//! A collector of traces on loopback. It decodes what arrives by the numbers of OTLP's messages, and knows nothing of how the host encodes them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::stage::LIMIT;

/// A request to the collector.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

/// A span that arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    pub(crate) trace_id: Vec<u8>,
    pub(crate) span_id: Vec<u8>,
    /// Empty for the root of a trace.
    pub(crate) parent_id: Vec<u8>,
    pub(crate) name: String,
    /// 1 is internal, 3 is a client.
    pub(crate) kind: u64,
    /// Nanoseconds since 1970.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// 2 is an error.
    pub(crate) status: u64,
    /// Traces that it is linked to.
    pub(crate) links: Vec<Vec<u8>>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
}

impl Received {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Takes spans until it is dropped.
pub(crate) struct Collector {
    url: String,
    deliveries: watch::Receiver<Vec<Delivery>>,
    _tasks: JoinSet<()>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (kept, deliveries) = watch::channel(vec![]);
        let kept = Arc::new(kept);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request: Request<Incoming>| receive(request, Arc::clone(&kept)));
                let connection = hyper::server::conn::http1::Builder::new();
                connections.spawn(async move {
                    // It ends when the host does.
                    connection.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { url, deliveries, _tasks: tasks }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.borrow().clone()
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Received> {
        self.deliveries().iter().flat_map(|delivery| decoded(&delivery.body)).collect()
    }

    /// Waits for a span, and returns it with its parents, the nearest first.
    pub(crate) async fn await_branch(&self, is_meant: impl Fn(&Received) -> bool) -> Vec<Received> {
        let mut deliveries = self.deliveries.clone();
        // A parent ends, and is sent, after its children.
        let branch = |deliveries: &[Delivery]| {
            let all: Vec<Received> = deliveries.iter().flat_map(|delivery| decoded(&delivery.body)).collect();
            all.iter().filter(|one| is_meant(one)).find_map(|one| branch(&all, one.clone()))
        };
        let found = async {
            loop {
                let found = branch(&deliveries.borrow_and_update());
                if let Some(found) = found {
                    return found;
                }
                deliveries.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(LIMIT, found).await;
        found.unwrap_or_else(|_| panic!("no such span: {:#?}", self.names()))
    }

    fn names(&self) -> Vec<String> {
        self.spans().into_iter().map(|one| format!("{} {:?}", one.name, one.attributes)).collect()
    }
}

/// A span and its parents, once all of them are there.
fn branch(all: &[Received], leaf: Received) -> Option<Vec<Received>> {
    let mut branch = vec![leaf];
    while let Some(child) = branch.last().filter(|one| !one.parent_id.is_empty()) {
        let parent = all.iter().find(|other| other.span_id == child.parent_id)?;
        branch.push(parent.clone());
    }
    Some(branch)
}

async fn receive(
    request: Request<Incoming>,
    kept: Arc<watch::Sender<Vec<Delivery>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    if let Ok(body) = body.collect().await {
        let delivery = Delivery { path: head.uri.path().to_owned(), headers: head.headers, body: body.to_bytes() };
        kept.send_modify(|deliveries| deliveries.push(delivery));
    }
    // An answer without any field has no bytes.
    Ok(Response::new(Full::default()))
}

/// `ExportTraceServiceRequest`.
fn decoded(body: &[u8]) -> Vec<Received> {
    let mut received = vec![];
    for of_resource in messages(body, 1) {
        let resource = messages(of_resource, 1).next().map(|resource| attributes(resource, 1)).unwrap_or_default();
        for span in messages(of_resource, 2).flat_map(|of_scope| messages(of_scope, 2)) {
            received.push(Received { resource: resource.clone(), ..self::span(span) });
        }
    }
    received
}

fn span(message: &[u8]) -> Received {
    let mut span = Received { attributes: attributes(message, 9), ..Received::default() };
    for field in fields(message) {
        match field {
            (1, Field::Bytes(id)) => span.trace_id = id.to_vec(),
            (2, Field::Bytes(id)) => span.span_id = id.to_vec(),
            (4, Field::Bytes(id)) => span.parent_id = id.to_vec(),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(time)) => span.start = time,
            (8, Field::Number(time)) => span.end = time,
            (13, Field::Bytes(link)) => span.links.extend(messages(link, 1).map(<[u8]>::to_vec)),
            (15, Field::Bytes(status)) => span.status = number(status, 3),
            (9 | 16, _) => {}
            other => panic!("a span has no such field: {other:?}"),
        }
    }
    span
}

/// Pairs of a name and a value, which is a text or a number.
fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let pair = |pair| {
        let value = messages(pair, 2).next().unwrap();
        let value = messages(value, 1).next().map_or_else(|| number(value, 3).to_string(), text);
        (text(messages(pair, 1).next().unwrap()), value)
    };
    messages(message, field).map(pair).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn number(message: &[u8], field: u64) -> u64 {
    let found = fields(message).into_iter().find_map(|found| match found {
        (number, Field::Number(value)) if number == field => Some(value),
        _ => None,
    });
    found.unwrap_or_default()
}

fn messages(message: &[u8], field: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |found| match found {
        (number, Field::Bytes(bytes)) if number == field => Some(bytes),
        _ => None,
    })
}

/// The fields of a message in protobuf's encoding.
fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = vec![];
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)),
            1 => Field::Number(u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut rest);
                Field::Bytes(take(&mut rest, usize::try_from(length).unwrap()))
            }
            5 => Field::Number(u64::from(u32::from_le_bytes(take(&mut rest, 4).try_into().unwrap()))),
            other => panic!("no such kind of field: {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn varint(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = take(rest, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, after) = rest.split_at(bytes);
    *rest = after;
    taken
}
