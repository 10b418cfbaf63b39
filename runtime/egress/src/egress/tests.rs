//! Requests that change things, which no guest can send yet, and what hangs on the moment: leadership, deadlines, attempts.

mod behind_proxy;
mod beside_signature;
mod calls;
mod cloud;
mod failed;
mod forbidden;
mod guesses;
mod logins;
mod room;
mod rotation;
mod spans;
mod told;
mod walls;
mod ways;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use ccm_cloud::{Alone, Credential, CredentialUse, Descriptor, Place, Source};
use futures::future::join;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::render::MAX_SIGNATURES;
use super::*;
use crate::addresses::AddressRules;
use crate::budget::Class;
use crate::credentials::CredentialSource;
use crate::endpoints::OperatorGrants;
use crate::http::{Capture, CaptureSource, Encoding, Part, SignedPart};
use crate::observe::{BudgetLeft, Exchange};
use crate::secret::Secret;
use crate::signature::Algorithm;
use cloud::{Asked, Cloud, Reply, ok, reply};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// Remembers how exchanges ended.
#[derive(Default)]
struct Ends {
    told: Mutex<Vec<(String, String, &'static str)>>,
    /// How long the last one waited, and what was under way and free after it.
    waited: Mutex<Duration>,
    left: Mutex<(usize, u64)>,
    notify: Notify,
}

impl Ends {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.told.lock()).into_iter().map(|(.., outcome)| outcome).collect()
    }
}

impl ExchangeObserver for Ends {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        let (endpoint, operation) = (exchange.endpoint.to_owned(), exchange.operation.to_owned());
        *self.waited.lock() = exchange.waited;
        self.told.lock().push((endpoint, operation, exchange.outcome.as_str()));
        self.notify.notify_one();
    }

    fn budget(&self, left: BudgetLeft<'_>) {
        *self.left.lock() = (left.in_flight, left.tokens);
    }
}

#[derive(Default)]
struct Leader(AtomicBool);

impl Leader {
    fn new(leads: bool) -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(leads)))
    }
}

impl Leadership for Leader {
    fn may_write(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

struct Rig {
    cloud: Cloud,
    egress: Egress,
    ends: Arc<Ends>,
}

fn credential(name: &str, places: Vec<Place>) -> Credential {
    let used = |place| CredentialUse { endpoint: "api".to_owned(), place, path: Some("/".to_owned()) };
    let value = Source { keys: vec![], environment_variables: vec![] };
    let uses = places.into_iter().map(used).collect();
    Credential { name: name.to_owned(), purpose: String::new(), required: false, value, uses }
}

/// A value that never changes.
fn fixed(name: &str) -> CredentialSource {
    let value = Secret::new(format!("{name}-Vahgh5eeweiF").into_bytes());
    CredentialSource::Environment { variable: name.to_owned(), value }
}

impl Rig {
    fn new(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(Cloud::start(answer), Arc::default(), Arc::new(Alone), |_| {})
    }

    fn with(
        cloud: Cloud,
        ends: Arc<Ends>,
        leadership: Arc<dyn Leadership>,
        change: impl FnOnce(&mut NetworkSettings),
    ) -> Self {
        Self::given(cloud, ends, leadership, change, fixed("token"))
    }

    /// The same with the credential `token` from here.
    fn given(
        cloud: Cloud,
        ends: Arc<Ends>,
        leadership: Arc<dyn Leadership>,
        change: impl FnOnce(&mut NetworkSettings),
        token: CredentialSource,
    ) -> Self {
        let mut settings = NetworkSettings::default();
        settings.retry.min_delay = 5 * MS;
        settings.limits.request_time = S;
        settings.budget.breaker_failures = NonZeroU32::MAX;
        change(&mut settings);
        // One of them is where a provider finds it.
        let endpoint = |name: &str| ccm_cloud::Endpoint {
            name: name.to_owned(),
            purpose: String::new(),
            base_url: Source { keys: vec![], environment_variables: vec![] },
            default_base_url: None,
            tls: None,
        };
        let header = |name: &str| Place::Header(name.to_owned());
        let descriptor = Descriptor {
            endpoints: vec![endpoint("api"), endpoint("found")],
            credentials: vec![
                credential("token", vec![header("x-auth-token"), Place::Query("t".to_owned()), Place::Body]),
                credential("session", vec![header("x-session"), Place::Query("t".to_owned()), Place::Body]),
                credential("key", vec![Place::Signing, header("authorization"), Place::Body]),
            ],
            name: "test".to_owned(),
            version: String::new(),
            revision: String::new(),
            provider_id_schemes: vec![],
            files: vec![],
            settings: vec![],
            annotations: vec![],
            more: [("dry-run".to_owned(), "judge_only".to_owned())].into(),
            ..Descriptor::default()
        };
        let operator = OperatorGrants {
            base_urls: [("api".to_owned(), cloud.url())].into(),
            allow_http: true,
            addresses: AddressRules { loopback: true },
            ..OperatorGrants::default()
        };
        let given = [("token".to_owned(), token), ("key".to_owned(), fixed("key"))];
        let config = EgressConfig {
            credential_uses: walls::everything(),
            grants: operator,
            credentials: given.into(),
            settings,
            observer: Some(Arc::clone(&ends) as _),
            ..EgressConfig::new(leadership)
        };
        let egress = Egress::open(config, &descriptor, &Carryover::default(), None).unwrap();
        Self { cloud, egress, ends }
    }

    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.egress.send(request, &call()).await
    }
}

/// A call that may change the cloud.
fn call() -> CallScope {
    CallScope::new(Class::Write, false, false, None, 100, 1 << 20)
}

fn request(method: Method, effect: Effect) -> Request {
    Request {
        endpoint: "api".to_owned(),
        method,
        effect,
        path: "/".to_owned(),
        query: vec![],
        headers: vec![],
        body: vec![],
        operation: "DO IT".to_owned(),
        share: Duration::ZERO,
        capture: None,
    }
}

fn post(effect: Effect) -> Request {
    request(Method::Post, effect)
}

/// The headers of a login with the operator's credential.
fn token() -> Vec<(String, Vec<Part>)> {
    vec![("x-auth-token".to_owned(), vec![Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain }])]
}

fn status(text: &'static str) -> Reply {
    Reply::Bytes(reply(text, "", "{}"))
}

/// Fails once.
fn failing(failure: fn() -> Reply) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let count = AtomicUsize::new(0);
    move |_| if count.fetch_add(1, Ordering::SeqCst) == 0 { failure() } else { ok("{}") }
}

#[tokio::test]
async fn what_must_happen_once_is_not_repeated_when_it_may_have_happened() {
    use Effect::{Once, Read, Repeatable};
    // effect, what happens first, how the attempts ended, and the error in the end with whether something may have been sent
    type Case = (Effect, fn() -> Reply, &'static [&'static str], Option<(TransportReason, bool)>);
    let lost: fn() -> Reply = || Reply::Bytes(vec![]);
    let cut: fn() -> Reply = || Reply::Bytes(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\nhalf".to_vec());
    let silent: fn() -> Reply = || Reply::Stall(vec![]);
    let cases: [Case; 17] = [
        (Once, || status("503 Service Unavailable"), &["5xx"], None),
        (Once, || status("502 Bad Gateway"), &["5xx"], None),
        (Once, || status("504 Gateway Timeout"), &["5xx"], None),
        (Repeatable, || status("503 Service Unavailable"), &["5xx", "2xx"], None),
        (Read, || status("503 Service Unavailable"), &["5xx", "2xx"], None),
        (Once, || status("429 Too Many Requests"), &["429", "2xx"], None),
        (Repeatable, || status("429 Too Many Requests"), &["429", "2xx"], None),
        (Repeatable, || status("500 Internal Server Error"), &["5xx"], None),
        (Repeatable, || status("409 Conflict"), &["4xx"], None),
        (Once, lost, &["other"], Some((TransportReason::Other, true))),
        (Repeatable, lost, &["other", "2xx"], None),
        (Once, cut, &["other"], Some((TransportReason::Other, true))),
        (Repeatable, cut, &["other", "2xx"], None),
        (Read, cut, &["other", "2xx"], None),
        (Once, silent, &["timeout"], Some((TransportReason::Timeout, true))),
        (Repeatable, silent, &["timeout", "2xx"], None),
        (Read, silent, &["timeout", "2xx"], None),
    ];
    for (number, (effect, first, ends, error)) in cases.into_iter().enumerate() {
        let rig = Rig::new(failing(first));
        let answer = rig.send(post(effect)).await;
        assert_eq!(rig.ends.take(), ends, "case {number}, {effect:?}");
        assert_eq!(rig.cloud.take().len(), ends.len(), "case {number}, {effect:?}");
        let told = answer.err().map(|error| (error.reason, error.maybe_sent));
        assert_eq!(told, error, "case {number}, {effect:?}");
    }
}

#[tokio::test]
async fn whoever_got_no_connection_tries_again_whatever_it_wants() {
    for effect in [Effect::Read, Effect::Repeatable, Effect::Once] {
        let ends = Arc::new(Ends::default());
        let first = Arc::clone(&ends);
        let cloud = Cloud::start_after(async move { first.notify.notified().await }, |_| ok("{}"));
        let rig = Rig::with(cloud, Arc::clone(&ends), Arc::new(Alone), |settings| settings.retry.min_delay = S);
        assert_eq!(rig.send(post(effect)).await.unwrap().status, 200, "{effect:?}");
        assert_eq!(ends.take(), ["connect", "2xx"], "{effect:?}");

        let cloud = Cloud::start_after(std::future::pending(), |_| ok("{}"));
        let rig = Rig::with(cloud, Arc::default(), Arc::new(Alone), |_| {});
        let error = rig.send(post(effect)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Connect, false), "{effect:?}");
        assert_eq!(rig.ends.take(), ["connect"; 3], "{effect:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_arrived_is_not_forgotten_when_the_next_one_is_not_sent() {
    // Answered, and then no turn: the cloud knows the request.
    let cases = [("429 Too Many Requests", Effect::Once), ("503 Service Unavailable", Effect::Repeatable)];
    for (line, effect) in cases {
        let rig = Rig::new(move |_| Reply::Bytes(reply(line, "retry-after: 90\r\n", "{}")));
        let error = rig.send(post(effect)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Throttled, true), "{line}: {error}");
        let delay = error.retry_after.unwrap();
        assert!((85 * S..=100 * S).contains(&delay), "{line}: {delay:?}");
        let second = rig.send(post(effect)).await.unwrap_err();
        assert_eq!((second.reason, second.maybe_sent), (TransportReason::Throttled, false), "{line}: {second}");
        assert_eq!(rig.cloud.take().len(), 1, "{line}");
    }
    // Lost, and then no leader.
    for (failure, reason) in [("lost", TransportReason::ReadOnly), ("503", TransportReason::ReadOnly)] {
        let leader = Leader::new(true);
        let loses = Arc::clone(&leader);
        let answer = move |_: &Asked| {
            loses.0.store(false, Ordering::SeqCst);
            if failure == "lost" { Reply::Bytes(vec![]) } else { status("503 Service Unavailable") }
        };
        let rig = Rig::with(Cloud::start(answer), Arc::default(), leader, |_| {});
        let error = rig.send(post(Effect::Repeatable)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (reason, true), "{failure}: {error}");
        assert_eq!(rig.cloud.take().len(), 1, "{failure}");
    }
}

#[tokio::test]
async fn a_call_that_may_only_look_changes_nothing_although_its_process_leads() {
    let rig = Rig::new(|_| ok("{}"));
    let looks = CallScope::new(Class::Write, true, false, None, 100, 1 << 20);
    for effect in [Effect::Repeatable, Effect::Once] {
        let error = rig.egress.send(post(effect), &looks).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::ReadOnly, false));
    }
    assert_eq!(rig.cloud.take(), []);
    for method in [Method::Put, Method::Patch, Method::Delete] {
        assert_eq!(rig.send(request(method, Effect::Read)).await.unwrap_err().reason, TransportReason::Denied);
        assert_eq!(rig.send(request(method, Effect::Once)).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn leadership_that_is_lost_while_a_change_waits_for_its_turn_counts() {
    let leader = Leader::new(true);
    let loses = Arc::clone(&leader);
    // The first request takes the only turn; while it is answered, the leader falls.
    let answer = move |_: &Asked| {
        let loses = Arc::clone(&loses);
        let answer = move || {
            loses.0.store(false, Ordering::SeqCst);
            reply("200 OK", "", "{}")
        };
        Reply::Late(100 * MS, Box::new(answer))
    };
    let rig = Rig::with(Cloud::start(answer), Arc::default(), leader, |settings| {
        settings.budget.concurrency = NonZeroUsize::MIN;
    });
    let (first, second) = join(rig.send(post(Effect::Once)), rig.send(post(Effect::Once))).await;
    assert_eq!(first.unwrap().status, 200);
    let error = second.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::ReadOnly, false), "{error}");
    assert_eq!(rig.cloud.take().len(), 1);
}

#[tokio::test]
async fn a_page_that_came_instead_of_json_may_stand_for_work_that_was_done() {
    let page = "<html><title>Blocked</title></html>";
    let rig = Rig::new(move |_| Reply::Bytes(reply("200 OK", "x-request-id: req-7\r\n", page)));
    let accept = vec![("accept".to_owned(), vec![Part::Bytes(b"application/json".to_vec())])];
    for effect in [Effect::Read, Effect::Repeatable, Effect::Once] {
        let error = rig.send(Request { headers: accept.clone(), ..post(effect) }).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Other, true), "{effect:?}");
        let start = "DO IT: 200 OK (request ID req-7), an HTML page \"Blocked\" instead of JSON";
        assert!(error.message.contains(start), "{error}");
        assert_eq!(rig.cloud.take().len(), 1, "{effect:?}");
    }
}

#[tokio::test]
async fn only_who_accepts_nothing_but_json_is_told_of_something_else() {
    let rig = Rig::new(|_| Reply::Bytes(reply("200 OK", "content-type: text/html\r\n", "<html></html>")));
    let cases = [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("application/problem+json,application/json;q=0.9", true),
        ("application/json, */*", true),
        ("application/json, text/html", false),
        ("application/json, text/plain, */*", false),
        ("*/*", false),
        ("text/plain", false),
        ("", false),
    ];
    for (accept, told) in cases {
        // In pieces, as a guest may write it.
        let parts = accept.as_bytes().chunks(7).map(|piece| Part::Bytes(piece.to_vec())).collect();
        let headers = vec![("Accept".to_owned(), parts)];
        let answer = rig.send(Request { headers, ..post(Effect::Read) }).await;
        assert_eq!(answer.is_err(), told, "{accept:?}: {answer:?}");
    }
    assert_eq!(rig.send(post(Effect::Read)).await.unwrap().summary, "DO IT: 200 OK");
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_does_not_wait_for_an_attempt_after_it() {
    let rig = Rig::with(Cloud::start(|_| Reply::Stall(vec![])), Arc::default(), Arc::new(Alone), |settings| {
        settings.limits.request_time = 60 * S;
    });
    let until = |time| CallScope::new(Class::Write, false, false, Some(Instant::now() + time), 100, 1 << 20);
    let start = Instant::now();
    let error = rig.egress.send(post(Effect::Read), &until(2 * S)).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Timeout, true), "{error}");
    assert!(start.elapsed() < 30 * S, "{:?}", start.elapsed());

    let rig =
        Rig::with(Cloud::start(|_| status("503 Service Unavailable")), Arc::default(), Arc::new(Alone), |settings| {
            (settings.retry.min_delay, settings.retry.max_delay) = (60 * S, 60 * S)
        });
    let start = Instant::now();
    assert_eq!(rig.egress.send(post(Effect::Read), &until(10 * S)).await.unwrap().status, 503);
    assert!(start.elapsed() < 30 * S, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_session_that_is_refused_is_spent_and_the_operators_token_is_not() {
    let answer = |asked: &Asked| match asked.header("x-session") {
        None => Reply::Bytes(reply("200 OK", "x-subject: session-Oob3eiwu\r\n", "{}")),
        Some(_) => status("401 Unauthorized"),
    };
    let rig = Rig::new(answer);
    let capture = Capture {
        credential: "session".to_owned(),
        source: CaptureSource::Header("x-subject".to_owned()),
        expires: None,
        ttl: None,
    };
    let call = call();
    let login = Request { headers: token(), capture: Some(capture), ..post(Effect::Read) };
    let answer = rig.egress.send(login, &call).await.unwrap();
    assert!(!format!("{answer:?}").contains("session-Oob3eiwu"), "{answer:?}");
    assert!(rig.egress.available("session", &call));
    let secret = |name: &str| vec![Part::Secret { credential: name.to_owned(), encoding: Encoding::Plain }];
    let headers = vec![("x-session".to_owned(), secret("session")), ("x-auth-token".to_owned(), secret("token"))];
    assert_eq!(rig.egress.send(Request { headers, ..post(Effect::Read) }, &call).await.unwrap().status, 401);
    assert_eq!(rig.cloud.take()[1].header("x-session"), Some("session-Oob3eiwu"));
    assert_eq!(["session", "token"].map(|name| rig.egress.available(name, &call)), [false, true]);
}

#[tokio::test]
async fn a_login_that_gives_nothing_to_capture_is_no_answer() {
    let rig = Rig::new(|_| ok(r#"{"token":{"id":["no text"]}}"#));
    let sources = [CaptureSource::Header("x-subject".into()), CaptureSource::JsonPointer("/token/id".into())];
    for source in sources {
        let capture = Capture { credential: "session".to_owned(), source, expires: None, ttl: None };
        let error =
            rig.send(Request { headers: token(), capture: Some(capture), ..post(Effect::Read) }).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Other, true), "{error}");
        assert!(error.message.starts_with("DO IT: 200 OK: it"), "{error}");
        assert_eq!(rig.cloud.take().len(), 1);
    }
}

#[tokio::test]
async fn a_few_words_do_not_become_a_large_request_nor_much_work() {
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Alone), |settings| {
        let limits = &mut settings.limits;
        (limits.request_bytes, limits.url_bytes, limits.headers.bytes) = (100, 100, 100);
    });
    let secret = |name: &str| Part::Secret { credential: name.to_owned(), encoding: Encoding::Hex };
    // A secret is as large as a file may be, and named in a few bytes. The last one has no value: nobody gets that far.
    let many = |name: &str| [vec![secret("token"); 3], vec![secret(name)]].concat();
    let signed = |name: &str| SignedPart::Secret { credential: name.to_owned(), encoding: Encoding::Hex };
    let signature = |data| Part::Signature {
        key: "key".to_owned(),
        algorithm: Algorithm::HmacSha256,
        data,
        encoding: Encoding::Hex,
    };
    let sign = vec![signature([vec![signed("token"); 9], vec![signed("session")]].concat())];
    let short = signature(vec![]);
    let named = |name: &str, parts| vec![(name.to_owned(), parts)];
    let empty = post(Effect::Once);
    let cases = [
        (Request { body: many("session"), ..empty.clone() }, "the body has more than 100 bytes (limit request-bytes)"),
        (Request { query: named("t", many("session")), ..empty.clone() }, "path and query have more than 100 bytes"),
        (
            Request { headers: named("x-auth-token", many("token")), ..empty.clone() },
            "the headers have more than 100 bytes (limit header-bytes)",
        ),
        (Request { body: sign, ..empty.clone() }, "what is signed has more than 300 bytes"),
    ];
    for (request, words) in cases {
        let error = rig.send(request).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::TooLarge, false), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    let error = rig.send(Request { body: vec![short.clone(); MAX_SIGNATURES + 1], ..empty.clone() }).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
    assert_eq!(rig.cloud.take(), []);
    assert_eq!(rig.send(Request { body: vec![short], ..empty }).await.unwrap().status, 200);
}

#[tokio::test]
async fn metrics_know_the_declared_endpoints_and_a_bounded_number_of_operations() {
    const MOST: usize = 5;
    let cloud = Cloud::start(|_| ok("{}"));
    let rig = Rig::with(cloud, Arc::default(), Arc::new(Alone), |settings| settings.limits.operations = MOST);
    for number in 0..MOST + 3 {
        rig.send(Request { operation: format!("GET /{number}"), ..post(Effect::Read) }).await.unwrap();
    }
    rig.send(Request { endpoint: "made-up".to_owned(), ..post(Effect::Read) }).await.unwrap_err();
    let told = std::mem::take(&mut *rig.ends.told.lock());
    let operations: BTreeSet<&str> = told.iter().map(|(_, operation, _)| operation.as_str()).collect();
    assert_eq!((operations.len(), operations.contains("other")), (MOST + 1, true));
    let endpoints: BTreeSet<&str> = told.iter().map(|(endpoint, ..)| endpoint.as_str()).collect();
    assert_eq!(endpoints, BTreeSet::from(["api", "unknown"]));
}
