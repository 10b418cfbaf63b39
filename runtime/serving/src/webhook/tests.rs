//! Requests as API servers send them, and as they should not. Cases of upstream's framework: `case NNN`.

use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;

const S: Duration = Duration::from_secs(1);

/// Lets every Service through, with a warning.
struct Unsure;

impl Reviewer for Unsure {
    async fn review(&self, _service: &Service, _before: Option<&Service>, _limit: Duration) -> Decision {
        Decision { warnings: vec!["not checked".to_owned()], ..Decision::default() }
    }
}

/// Remembers how much time it is given.
#[derive(Default)]
struct Timed(Mutex<Vec<Duration>>);

impl Reviewer for Timed {
    async fn review(&self, _service: &Service, _before: Option<&Service>, limit: Duration) -> Decision {
        self.0.lock().push(limit);
        Decision::default()
    }
}

fn webhook(change: impl FnOnce(&mut Settings)) -> Arc<Webhook<Unsure>> {
    webhook_of(Unsure, change)
}

fn webhook_of<R: Reviewer>(reviewer: R, change: impl FnOnce(&mut Settings)) -> Arc<Webhook<R>> {
    let mut settings = Settings {
        address: ([127, 0, 0, 1], 0).into(),
        files: Files { certificate: ("", "".into()), key: ("", "".into()) },
        client_ca: None,
        min_tls: Default::default(),
        reload_period: S,
        timeout: 8 * S,
        request_bytes: 1 << 20,
        reviews: NonZeroUsize::MIN,
        online: false,
    };
    change(&mut settings);
    Webhook::new(settings, reviewer, &mut Registry::default())
}

/// The review of a new Service.
fn review(annotation: &str) -> Vec<u8> {
    let service = json!({
        "metadata": { "name": "web", "annotations": { "a": annotation } },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    let request = json!({ "uid": "7", "operation": "CREATE", "object": service });
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    review.to_string().into_bytes()
}

fn post(body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::post("/lb-service?timeout=10s").header(CONTENT_TYPE, JSON);
    request.body(Full::new(Bytes::from(body))).unwrap()
}

async fn text(page: Page) -> (u16, String) {
    let status = page.status().as_u16();
    let body = page.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Sends nothing more, ever.
fn endless() -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send> {
    StreamBody::new(futures::stream::pending())
}

/// What has no answer of ours is for the `failurePolicy`.
#[tokio::test]
async fn case_258_what_is_no_review_has_a_status_and_a_review_has_an_answer_with_its_uid() {
    let webhook = webhook(|_| {});
    let other = |kind: &str| Request::post(PATH).header(CONTENT_TYPE, kind).body(Full::new(Bytes::from(review(""))));
    let rows = [
        (Request::post("/other").body(Full::default()).unwrap(), 404, "try /lb-service"),
        (Request::get(PATH).body(Full::default()).unwrap(), 405, "only POST"),
        (Request::post(PATH).body(Full::new(Bytes::from(review("")))).unwrap(), 400, "content type"),
        (other("text/plain").unwrap(), 400, "content type"),
        (post(vec![]), 400, "body is empty"),
        (post(b"{".to_vec()), 400, "failed to decode admission request"),
        (post(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#.to_vec()), 400, "has no request"),
    ];
    for (request, status, part) in rows {
        let (got, said) = text(webhook.answer(request).await).await;
        assert!((got, said.contains(part)) == (status, true), "{got} {said:?}, not {status} {part:?}");
    }
    let page = webhook.answer(post(review(""))).await;
    assert_eq!(page.headers()[CONTENT_TYPE], JSON);
    let (status, said) = text(page).await;
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &answer["response"]["uid"], &answer["response"]["allowed"]), (200, &json!("7"), &json!(true)));
    assert_eq!(answer["response"]["warnings"], json!(["not checked"]));
    // QUIRK-26: a good one is counted as well.
    assert_eq!([200, 400, 404, 405].map(|code| webhook.metrics.requests(code)), [1, 5, 0, 1]);
}

#[tokio::test]
async fn a_review_that_is_too_large_is_refused_by_its_limit() {
    let (small, large) = (review(""), review("more than that"));
    let webhook = webhook(|settings| settings.request_bytes = small.len());
    assert_eq!(text(webhook.answer(post(small)).await).await.0, 200);
    let (status, said) = text(webhook.answer(post(large)).await).await;
    assert!(status == 413 && said.contains("--webhook-request-bytes"), "{status} {said}");
}

/// 2 MiB once became 200, for whoever reached the port: values without a type, and empty parts of a type with many members.
#[tokio::test]
async fn a_review_that_would_become_many_times_as_large_is_refused() {
    let webhook = webhook(|settings| settings.request_bytes = 2 << 20);
    let review = |object: String, before: String| {
        let objects = format!(r#""object":{object},"oldObject":{before}"#);
        let request = format!(r#"{{"uid":"7","operation":"UPDATE",{objects}}}"#);
        format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{request}}}"#).into_bytes()
    };
    let ports = |count: usize| format!(r#"{{"spec":{{"ports":[{}]}}}}"#, vec!["{}"; count].join(","));
    let values =
        format!(r#"{{"metadata":{{"managedFields":[{}]}}}}"#, vec![r#"{"fieldsV1":{"":0}}"#; 90_000].join(","));
    let rows = [
        (review(ports(600_000), "{}".to_owned()), 413),
        (review("{}".to_owned(), ports(600_000)), 413),
        (review(ports(5_000), ports(5_000)), 413),
        // What nobody reads takes no memory either.
        (review(values, "{}".to_owned()), 200),
        // More than any Service of 1,000 ports.
        (review(ports(4_000), ports(4_000)), 200),
    ];
    for (body, expected) in rows {
        let size = body.len();
        let (status, said) = text(webhook.answer(post(body)).await).await;
        assert_eq!(status, expected, "{size} bytes: {said}");
        assert_eq!(said.contains("--webhook-request-bytes"), expected == 413, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_and_a_turn_that_does_not_come_end_in_time() {
    let webhook = webhook(|settings| settings.timeout = 6 * S);
    let silent = Request::post("/lb-service").header(CONTENT_TYPE, JSON).body(endless()).unwrap();
    let begun = Instant::now();
    // The first takes the only place. The second one's API server waits for five seconds.
    let second = Request::post("/lb-service?timeout=5s").header(CONTENT_TYPE, JSON);
    let second = second.body(Full::new(Bytes::from(review("")))).unwrap();
    let late = async {
        tokio::task::yield_now().await;
        let answer = text(webhook.answer(second).await).await;
        (answer, begun.elapsed())
    };
    let (first, (second, waited)) = tokio::join!(webhook.answer(silent), late);
    let (first, took) = (text(first).await, begun.elapsed());
    assert!(first.0 == 408 && first.1.contains("within 6s"), "{first:?}");
    assert!(second.0 == 503 && second.1.contains("too many reviews"), "{second:?}");
    assert_eq!((took, waited), (6 * S, 4_500 * S / 1_000));
    assert_eq!(text(webhook.answer(post(review(""))).await).await.0, 200, "the place is free again");
}

#[tokio::test(start_paused = true)]
async fn more_reviews_at_the_same_time_are_a_setting() {
    let webhook = webhook(|settings| settings.reviews = NonZeroUsize::new(2).unwrap());
    let silent = Request::post("/lb-service").header(CONTENT_TYPE, JSON).body(endless()).unwrap();
    let second = async {
        tokio::task::yield_now().await;
        text(webhook.answer(post(review(""))).await).await.0
    };
    let begun = Instant::now();
    let (_, status) = tokio::join!(webhook.answer(silent), async { (second.await, begun.elapsed()) });
    assert_eq!(status, (200, Duration::ZERO));
}

#[test]
fn a_review_is_answered_before_the_api_server_gives_up() {
    let webhook = webhook(|settings| settings.timeout = 8 * S);
    for (query, limit) in [
        ("", 8 * S),
        ("timeout=30s", 8 * S),
        ("timeout=10s", 8 * S),
        ("timeout=5s", 4_500 * S / 1_000),
        ("a=b&timeout=1s", 900 * S / 1_000),
        ("timeout=0s", 8 * S),
        ("timeout=soon", 8 * S),
    ] {
        assert_eq!(webhook.limit(query), limit, "{query:?}");
    }
}

/// `--webhook-timeout` is for a whole review.
#[tokio::test(start_paused = true)]
async fn a_provider_has_the_time_that_a_slow_body_has_left() {
    let webhook = webhook_of(Timed::default(), |settings| settings.timeout = 8 * S);
    let late = futures::stream::once(async {
        sleep(3 * S).await;
        Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(review(""))))
    });
    let request = Request::post(PATH).header(CONTENT_TYPE, JSON).body(StreamBody::new(Box::pin(late))).unwrap();
    assert_eq!(text(webhook.answer(request).await).await.0, 200);
    assert_eq!(*webhook.reviewer.0.lock(), [5 * S]);
}

/// `--webhook-concurrent-reviews`: API servers keep connections for later.
#[tokio::test]
async fn the_port_has_eight_connections_for_each_review() {
    const LIMIT: Duration = Duration::from_secs(20);
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let webhook = webhook(|settings| settings.reviews = NonZeroUsize::MIN);
    let listener = webhook.bind().await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut port = JoinSet::new();
    port.spawn(webhook.serve(listener, CancellationToken::new()));
    let connect = async || TcpStream::connect(address).await.unwrap();
    // When its handshake is refused, all before it have been taken.
    let refused = async || {
        let mut stream = connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        drop(timeout(LIMIT, stream.read_to_end(&mut vec![])).await.expect("it is refused"));
    };
    let mut idle = vec![];
    for _ in 0..7 {
        idle.push(connect().await);
    }
    refused().await;
    let first = idle[0].try_read(&mut [0]).unwrap_err();
    assert_eq!(first.kind(), std::io::ErrorKind::WouldBlock, "there is room for it");
    idle.push(connect().await);
    refused().await;
    let gone = timeout(LIMIT, idle[0].read(&mut [0])).await.expect("it is closed");
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
}
