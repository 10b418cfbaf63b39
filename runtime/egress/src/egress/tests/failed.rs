//! What is told of a request that failed: all that finds it again in the cloud's log, and no secret.

use ccm_cloud::{FailedRequest, Failure, Reaction};

use super::*;

/// What a failure of the call is told to be about.
fn told(call: &CallScope) -> Option<Arc<FailedRequest>> {
    call.failed.of_whole(Failure::new(Reaction::Retry, "no request is named")).request
}

fn get(path: &str) -> Request {
    Request { path: path.to_owned(), ..request(Method::Get, Effect::Read) }
}

#[tokio::test]
async fn a_refused_request_is_told_with_place_status_id_and_how_often_it_was_sent() {
    let rig = Rig::new(|_| Reply::Bytes(reply("503 Service Unavailable", "x-request-id: req-7\r\n", "{}")));
    let (call, before) = (call(), Instant::now());
    assert_eq!(rig.egress.send(get("/things/7?x=not-told"), &call).await.unwrap_err().reason, TransportReason::Denied);
    let refused = told(&call).unwrap();
    assert_eq!((refused.sent, refused.error, refused.status), (0, Some("denied"), None));
    assert_eq!((refused.origin.as_str(), refused.path.as_str()), ("", ""), "what was not checked is not told");

    let with = |name: &str, part| vec![(name.to_owned(), vec![part])];
    let query = with("token", Part::Bytes(b"of-a-guest".to_vec()));
    assert_eq!(rig.egress.send(Request { query, ..get("/things/7") }, &call).await.unwrap().status, 503);
    assert_eq!(rig.cloud.take()[0].line, "GET /things/7?token=of-a-guest");
    let request = told(&call).unwrap();
    assert!(request.at >= before && request.at <= Instant::now());
    let expected = FailedRequest {
        endpoint: "api".to_owned(),
        origin: rig.cloud.url().trim_end_matches('/').to_owned(),
        operation: "DO IT".to_owned(),
        method: "GET",
        path: "/things/7".to_owned(),
        status: Some(503),
        error: None,
        held: None,
        limit: None,
        request_id: Some("req-7".to_owned()),
        sent: 3,
        at: request.at,
    };
    assert_eq!(*request, expected);

    let query = with("t", Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain });
    assert_eq!(rig.egress.send(Request { query, ..get("/") }, &call).await.unwrap().status, 503);
    assert_eq!(rig.cloud.take()[0].line, "GET /?t=token-Vahgh5eeweiF");
    assert_eq!(told(&call).unwrap().path, "/");
}

#[tokio::test]
async fn what_was_answered_well_is_not_told_though_it_was_repeated() {
    let rig = Rig::new(failing(|| status("503 Service Unavailable")));
    let call = call();
    assert_eq!(rig.egress.send(get("/"), &call).await.unwrap().status, 200);
    assert_eq!(told(&call), None);
}

#[tokio::test]
async fn a_request_without_a_usable_answer_is_told_with_what_is_known() {
    type Case<'a> = (fn() -> Reply, Option<u16>, Option<&'a str>, &'a str);
    let cases: [Case<'_>; 3] = [
        (|| Reply::Bytes(vec![]), None, None, "other"),
        (|| Reply::Stall(vec![]), None, None, "timeout"),
        (
            || Reply::Bytes(reply("200 OK", "x-request-id: req-7\r\n", " ".repeat(2001))),
            Some(200),
            Some("req-7"),
            "too-large",
        ),
    ];
    for (answer, status, id, error) in cases {
        let rig = Rig::with(Cloud::start(move |_| answer()), Arc::default(), Arc::new(Alone), |settings| {
            (settings.limits.response_bytes, settings.retry.attempts) = (2000, 1);
        });
        let call = call();
        rig.egress.send(post(Effect::Once), &call).await.unwrap_err();
        let request = told(&call).unwrap();
        assert_eq!((request.status, request.request_id.as_deref(), request.error), (status, id, Some(error)));
        assert_eq!((request.method, request.sent), ("POST", 1), "{error}");
    }
    let rig =
        Rig::with(Cloud::start_after(std::future::pending(), |_| ok("{}")), Arc::default(), Arc::new(Alone), |_| {});
    let call = call();
    rig.egress.send(post(Effect::Once), &call).await.unwrap_err();
    let request = told(&call).unwrap();
    assert_eq!((request.error, request.status, request.sent), (Some("connect"), None, 3));
}

/// It was said to be the host's own limit, whoever had set it.
#[tokio::test]
async fn what_a_quota_holds_back_is_told_with_whose_it_is_and_until_when() {
    let too_many = || Reply::Bytes(reply("429 Too Many Requests", "x-request-id: req-7\r\nretry-after: 42\r\n", "{}"));
    for attempts in [1, 3] {
        let rig = Rig::with(Cloud::start(move |_| too_many()), Arc::default(), Arc::new(Alone), |settings| {
            settings.retry.attempts = attempts;
        });
        // The answer itself, where it is the last try, and then no turn for another one.
        let first = if attempts == 1 { (Some(429), None, 1) } else { (None, Some("throttled"), 1) };
        for wanted in [first, (None, Some("throttled"), 0)] {
            let call = call();
            let _answer = rig.egress.send(get("/"), &call).await;
            let told = told(&call).unwrap();
            assert_eq!(((told.status, told.error, told.sent), told.limit), (wanted, None));
            let held = told.held.as_deref().unwrap_or_default();
            assert!(
                held.starts_with("the cloud asked for no requests for another 4") && held.ends_with(" s (429)"),
                "{held}"
            );
        }
    }
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Alone), |settings| {
        settings.budget.per_minute = NonZeroU32::new(1);
    });
    rig.egress.send(get("/"), &call()).await.unwrap();
    let call = call();
    rig.egress.send(get("/"), &call).await.unwrap_err();
    let own = told(&call).unwrap();
    assert_eq!((own.error, own.sent, own.limit), (Some("throttled"), 0, Some("requests-per-minute")));
    assert!(
        own.held.as_deref().is_some_and(|held| held.starts_with("the host sends 1 requests in 60 s")),
        "{:?}",
        own.held
    );
}

/// A change is not sent by a process that does not lead any more, and one that waits too long for its turn is not sent either.
#[tokio::test]
async fn what_was_never_sent_says_so() {
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Leader::new(false), |_| {});
    let standby = call();
    rig.egress.send(post(Effect::Once), &standby).await.unwrap_err();
    assert_eq!(told(&standby).map(|request| (request.sent, request.error)), Some((0, Some("read-only"))));
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Wavering(AtomicUsize::new(0))), |_| {});
    let late = call();
    rig.egress.send(post(Effect::Once), &late).await.unwrap_err();
    assert_eq!(told(&late).map(|request| (request.sent, request.error)), Some((0, Some("read-only"))));
    assert_eq!(rig.cloud.take(), []);
}

/// Leads when it is asked first.
struct Wavering(AtomicUsize);

impl Leadership for Wavering {
    fn may_write(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) == 0
    }
}

/// It had no request of its own, and was told of none.
#[tokio::test]
async fn who_shares_an_answer_is_told_of_the_same_request() {
    let late =
        || Reply::Late(50 * MS, Box::new(|| reply("500 Internal Server Error", "x-request-id: req-7\r\n", "{}")));
    let rig = Rig::with(Cloud::start(move |_| late()), Arc::default(), Arc::new(Alone), |settings| {
        (settings.retry.attempts, settings.limits.request_time) = (1, 60 * S)
    });
    let ask = || Request { share: 60 * S, ..get("/things") };
    let (one, other) = (call(), call());
    let (first, second) = join(rig.egress.send(ask(), &one), rig.egress.send(ask(), &other)).await;
    assert_eq!((first.unwrap().status, second.unwrap().status, rig.cloud.take().len()), (500, 500, 1));
    assert!(told(&one).is_some() && told(&one) == told(&other), "{:?}", told(&other));
}

#[tokio::test]
async fn no_secret_is_in_what_is_told_of_a_request() {
    const TOKEN: &str = "token-Vahgh5eeweiF";
    let rig = Rig::new(|_| Reply::Bytes(reply("400 Bad Request", &format!("x-request-id: {TOKEN}\r\n"), TOKEN)));
    let call = call();
    let in_path = Request { operation: format!("GET {TOKEN}"), ..get(&format!("/{TOKEN}")) };
    for request in [Request { headers: token(), ..get("/") }, in_path] {
        let _refused = rig.egress.send(request, &call).await;
        let told = format!("{:?}", told(&call).unwrap());
        assert!(!told.contains(TOKEN) && told.contains("(credential token)"), "{told}");
    }
}
