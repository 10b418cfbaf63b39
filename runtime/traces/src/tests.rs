mod sampling;
mod sending;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use ccm_cloud::SPANS;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::layer::{Kind, Place, SpanData, Value};
use crate::metrics::Outcome;

mod secrets;

fn settings(variables: &[(&str, &str)]) -> anyhow::Result<Option<Settings>> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::read(|name| variables.get(name).cloned())
}

#[test]
fn the_variables_of_the_specification_say_where_spans_go() {
    let given = |variables: &[(&str, &str)]| settings(variables).unwrap().unwrap();
    assert_eq!(given(&[]).endpoint.as_str(), "http://localhost:4318/v1/traces");
    assert_eq!(given(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).endpoint.as_str(), "http://localhost:4318/v1/traces");
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/otlp/");
    assert_eq!(given(&[base]).endpoint.as_str(), "https://c.example/otlp/v1/traces");
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:pw@t.example:1/x?k=v");
    let both = given(&[base, of_traces]);
    assert_eq!((both.endpoint.as_str(), both.shown().as_str()), (of_traces.1, "https://t.example:1/x"));
    let headers = [base, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a%3Db, x-scope=2=3,")];
    let headers = given(&headers).headers;
    assert_eq!((headers["authorization"].as_bytes(), headers["x-scope"].as_bytes()), (&b"Bearer a=b"[..], &b"2=3"[..]));
    assert!(headers.values().all(reqwest::header::HeaderValue::is_sensitive));
    let one = given(&[
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "3000"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5"),
        ("OTEL_SERVICE_NAME", "mine"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%20b"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
    ]);
    let times = (one.timeout.as_secs(), one.delay.as_secs());
    assert_eq!(
        (times, one.queue.get(), one.batch.get(), one.resource["service.name"].as_str()),
        ((2, 3), 4, 5, "mine")
    );
    let certificate = ("OTEL_EXPORTER_OTLP_CERTIFICATE".to_owned(), "/ca.pem".to_owned());
    assert_eq!((one.certificate, one.resource["team"].as_str()), (Some(certificate), "a b"));
    assert!((one.share - 0.25).abs() < 1e-9);
    for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert!(settings(&[off, ("OTEL_TRACES_SAMPLER", "nonsense")]).unwrap().is_none(), "{off:?}");
    }
}

const COLLECTOR: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example");

#[test]
fn a_certificate_that_is_not_there_is_named_with_the_variable_that_names_it() {
    let other = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/not-there/all.pem");
    let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/not-there/traces.pem");
    for (variables, (name, file)) in [(&[other][..], other), (&[other, of_traces], of_traces)] {
        let error = open(settings(variables).unwrap().unwrap(), &Identity::default()).err().unwrap();
        assert_eq!(error.to_string(), format!("{name}: {file}"));
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_named_and_a_secret_is_not_shown() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")], "OTEL_EXPORTER_OTLP_ENDPOINT is no URL with http://"),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "10.0.0.1:4317")], "OTEL_EXPORTER_OTLP_ENDPOINT is no URL with http://"),
        (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "x")], "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no URL with http://"),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:99999")], "OTEL_EXPORTER_OTLP_ENDPOINT: invalid port number"),
        (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://")], "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: empty host"),
        (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not http/protobuf"),
        (&[("OTEL_TRACES_EXPORTER", "zipkin")], "OTEL_TRACES_EXPORTER: \"zipkin\" is none of otlp, none"),
        (&[("OTEL_TRACES_SAMPLER", "xray")], "OTEL_TRACES_SAMPLER: \"xray\" is none of always_on"),
        (
            &[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "1.5")],
            "OTEL_TRACES_SAMPLER_ARG: \"1.5\" is no number from 0 to 1",
        ),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "0")], "OTEL_BSP_MAX_QUEUE_SIZE: \"0\""),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "1048577")], "OTEL_BSP_MAX_QUEUE_SIZE: 1048577 is more than 1048576 spans"),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615")], "OTEL_BSP_MAX_QUEUE_SIZE: 18446744073709551615"),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "5s")], "OTEL_BSP_SCHEDULE_DELAY: \"5s\" is no number of milliseconds"),
        (
            &[COLLECTOR, ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,Geheimnis")],
            "OTEL_EXPORTER_OTLP_HEADERS: header 2 is not NAME=VALUE",
        ),
        (
            &[COLLECTOR, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=Geheimnis")],
            "OTEL_EXPORTER_OTLP_HEADERS: header 1 is not NAME=VALUE",
        ),
        (&[COLLECTOR, ("OTEL_EXPORTER_OTLP_HEADERS", "a=Geheimnis%0A")], "header 1 is not NAME=VALUE"),
    ];
    for (variables, wanted) in cases {
        let error = settings(variables).err().unwrap_or_else(|| panic!("{variables:?} is taken"));
        let told = format!("{error:#}");
        assert!(told.contains(wanted) && !told.contains("Geheimnis"), "{told}");
    }
}

/// The bytes were decoded once with the types that OpenTelemetry makes of its own definitions, and had all of this in the right place.
#[test]
fn a_span_is_encoded_as_the_definition_of_otlp_has_it() {
    let place = |trace, span| Place { trace, span };
    let at = |nanos| UNIX_EPOCH + Duration::from_nanos(nanos);
    let span = SpanData {
        place: place(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, 0x1112_1314_1516_1718),
        parent: Some(0x2122_2324_2526_2728),
        name: "GET /v2/droplets".to_owned(),
        kind: Kind::Client,
        start: at(1_800_000_000_000_000_001),
        end: at(1_800_000_001_500_000_000),
        attributes: vec![
            ("http.response.status_code", Value::Number(503)),
            ("negative", Value::Number(-1)),
            ("ccm.request_id", Value::Text("r-1".to_owned())),
            ("empty", Value::Text(String::new())),
        ],
        links: vec![place(1, 2)],
        error: Some("no answer".to_owned()),
        is_sampled: true,
    };
    let bytes = encode::request(&[("service.name".to_owned(), Value::Text("wasm-ccm".to_owned()))], &[span]);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, ENCODED);
}

const ENCODED: &str = "0a95020a1c0a1a0a0c736572766963652e6e616d65120a0a087761736d2d63636d12f4010a0a0a087761736d2d63636d12e5010a100102\
    030405060708090a0b0c0d0e0f1012081112131415161718220821222324252627282a10474554202f76322f64726f706c657473300339\
    0100b49376e2fa1841002f1ced76e2fa184a200a19687474702e726573706f6e73652e7374617475735f636f6465120318f7034a170a08\
    6e65676174697665120b18ffffffffffffffffff014a170a0e63636d2e726571756573745f696412050a03722d314a0b0a05656d707479\
    12020a006a210a10000000000000000000000000000000011208000000000000000235010100007a0d12096e6f20616e73776572180285\
    0101010000";

/// A collector that answers with this status, with where else to go, and with how many spans it rejects.
struct Collector {
    url: String,
    status: Arc<AtomicU16>,
    elsewhere: Arc<Mutex<Option<String>>>,
    rejects: Arc<AtomicU8>,
    bodies: mpsc::UnboundedReceiver<Bytes>,
    _tasks: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        Self::start_with(None).await
    }

    async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (status, elsewhere) = (Arc::new(AtomicU16::new(200)), Arc::<Mutex<Option<String>>>::default());
        let rejects = Arc::new(AtomicU8::new(0));
        let (kept, bodies) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let answers = (Arc::clone(&status), Arc::clone(&elsewhere), Arc::clone(&rejects));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, kept, tls) = (answers.clone(), kept.clone(), tls.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let ((status, elsewhere, rejects), kept) = (answers.clone(), kept.clone());
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        kept.send(body).ok();
                        // Field 1 is a message with the number in field 1, and words in field 2.
                        let body = match rejects.load(Ordering::Relaxed) {
                            0 => vec![],
                            spans => {
                                [&[0x0a, 25, 0x08, spans, 0x12, 21], "too\nmany\u{202e}attributes".as_bytes()].concat()
                            }
                        };
                        let answer = Response::builder().status(status.load(Ordering::Relaxed));
                        let answer = elsewhere.lock().iter().fold(answer, |answer, url| answer.header("location", url));
                        Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap())
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                connections.spawn(async move {
                    match tls {
                        None => connection.serve_connection(TokioIo::new(stream), service).await.ok(),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => connection.serve_connection(TokioIo::new(stream), service).await.ok(),
                            // Whoever called does not trust it.
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { url, status, elsewhere, rejects, bodies, _tasks: tasks }
    }

    fn answers(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// Names of the spans of the next request, each a letter.
    async fn names(&mut self) -> Vec<String> {
        let body = self.bodies.recv().await.unwrap();
        String::from_utf8_lossy(&body).split("span:").skip(1).map(|rest| rest[..1].to_owned()).collect()
    }
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn with(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock()).lines().filter(|line| line.contains(words)).count()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a host with these variables has.
fn traced(variables: &[(&str, &str)]) -> (DefaultGuard, Sender, Lines) {
    let settings = settings(variables).unwrap().unwrap();
    let (layer, sender) = open(settings, &Identity::default()).unwrap();
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    let log = log.with_filter(filter_fn(|metadata| metadata.target() != SPANS));
    (tracing::subscriber::set_default(tracing_subscriber::registry().with(layer).with(log)), sender, lines)
}

fn span(name: &str) {
    drop(tracing::info_span!(target: SPANS, "x", otel.name = format!("span:{name}")));
}

#[tokio::test]
async fn a_collector_that_refuses_batches_is_told_of_once_and_the_loss_is_counted() {
    let mut collector = Collector::start().await;
    let (_guard, sender, lines) = traced(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
    ]);
    let (metrics, stop) = (sender.metrics(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(sender.run(stop.clone()));
    collector.answers(400);
    for _ in 0..3 {
        span("r");
        assert_eq!(collector.names().await, ["r"]);
    }
    // It is sent once those before have been counted.
    span("l");
    assert_eq!(collector.names().await, ["l"]);
    collector.answers(200);
    span("t");
    assert_eq!(collector.names().await, ["t"]);
    span("a");
    assert_eq!(collector.names().await, ["a"]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
    let counted = [Outcome::Sent, Outcome::NotTaken, Outcome::QueueFull].map(|outcome| metrics.counted(outcome));
    assert_eq!(counted, [2, 4, 0]);
    assert_eq!((lines.with("WARN"), lines.with("it answers 400 Bad Request")), (1, 1));
    assert_eq!(lines.with("the collector takes traces again"), 1);
}

#[tokio::test]
async fn a_collector_that_rejects_a_part_is_told_of_with_its_words() {
    let mut collector = Collector::start().await;
    collector.rejects.store(2, Ordering::Relaxed);
    let (_guard, sender, lines) = traced(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)]);
    let (metrics, stop) = (sender.metrics(), CancellationToken::new());
    for name in ["a", "b", "c"] {
        span(name);
    }
    // All that waits is sent at the end.
    stop.cancel();
    sender.run(stop).await;
    assert_eq!(collector.names().await, ["a", "b", "c"]);
    assert_eq!((metrics.counted(Outcome::Sent), metrics.counted(Outcome::NotTaken)), (1, 2));
    assert_eq!(lines.with("too many attributes"), 1);
}

/// Nobody sends: whoever ends a span goes on all the same.
#[tokio::test]
async fn what_finds_no_room_is_lost_and_counted() {
    let (_guard, sender, lines) = traced(&[("OTEL_BSP_MAX_QUEUE_SIZE", "2")]);
    (0..5).for_each(|_| span("x"));
    assert_eq!(sender.metrics().counted(Outcome::QueueFull), 3);
    assert_eq!(lines.with("span:"), 0);
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_the_end_for_one_request_alone() {
    // It accepts, and reads nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_guard, sender, lines) =
        traced(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]);
    let (metrics, stop) = (sender.metrics(), CancellationToken::new());
    span("x");
    stop.cancel();
    sender.run(stop).await;
    assert_eq!((metrics.counted(Outcome::NotTaken), lines.with("WARN")), (1, 1));
}

#[test]
fn what_is_no_span_of_a_trace_is_not_sent() {
    let (guard, mut sender, lines) = traced(&[]);
    drop(tracing::info_span!("of the log"));
    tracing::warn!("a line");
    tracing::info_span!(target: SPANS, "of a trace").in_scope(|| tracing::warn!("in it"));
    drop(guard);
    let mut names = vec![];
    while let Ok(span) = sender.next() {
        names.push(span.name);
    }
    assert_eq!((names.as_slice(), lines.with("WARN")), (&["of a trace".to_owned()][..], 2));
}
