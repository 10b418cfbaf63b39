use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::cloud::Cloud;
use crate::http::{CaptureSource, Effect};
use crate::testing::{FakeCloud, Reply};
use crate::types::Reaction;

const KEYSTONE: Cloud = Cloud::new("identity").exceptions(unknown_application_credential);
const NOVA: Cloud = Cloud::new("compute").prepare(with_token).session(Session::new("token", login).opened(bind));
const NEUTRON: Cloud = NOVA.at("network");

const LOGIN: &str = "identity POST /v3/auth/tokens";
const BIND: &str = "bind compute https://nova.example";
const GET: &str = "compute GET /servers";

fn with_token(request: Request) -> Request {
    request.header_secret("x-auth-token", "", "token")
}

fn login() -> Request {
    let token = CaptureSource::Header("x-subject-token".to_owned());
    // Marked as one that reads by the session, and the session of the request itself is not used.
    NOVA.at("identity")
        .post("/v3/auth/tokens")
        .of(KEYSTONE.session(Session::new("token", login)))
        .capture("token", token, None)
}

fn bind(_answer: &Answer) -> Result<(), Failure> {
    NOVA.bind("https://nova.example")
}

fn unknown_application_credential(answer: &Answer) -> Option<Failure> {
    (answer.status() == 404).then(|| answer.failure(Reaction::Unauthorized))
}

fn logged_in() -> FakeCloud {
    FakeCloud::new().with_credential("token")
}

fn good() -> Reply {
    Reply::json(200, "[]")
}

#[test]
fn without_a_token_the_login_comes_first_and_its_answer_binds_endpoints() {
    let fake = FakeCloud::new().on(LOGIN, Reply::status(201)).on(GET, good());
    assert_eq!(NOVA.get("/servers").send().expect("an answer").status(), 200);
    assert_eq!(fake.lines(), [LOGIN, BIND, GET]);
    assert_eq!(fake.requests()[0].effect, Effect::Read, "a login is allowed in a call that only looks");
}

#[test]
fn whether_a_base_url_ends_in_a_version_is_known_as_soon_as_it_is_bound() {
    let fake = FakeCloud::new();
    assert_eq!(NOVA.base_path(), None);
    for (url, path) in
        [("https://nova.example", ""), ("https://nova.example/", ""), ("https://nova.example/v2.1/", "/v2.1")]
    {
        NOVA.bind(url).expect("it is granted");
        assert_eq!(NOVA.base_path().as_deref(), Some(path), "{url}");
    }
    assert_eq!(fake.requests(), []);
}

#[test]
fn with_a_token_nobody_logs_in() {
    let fake = logged_in().on(GET, good());
    assert!(NOVA.get("/servers").send().is_ok());
    assert_eq!(fake.lines(), [GET]);
}

#[test]
fn a_refused_token_is_renewed_once_and_the_request_repeated() {
    let post = "compute POST /servers";
    let fake = logged_in().on(post, Reply::status(401)).on(LOGIN, Reply::status(201)).on(post, Reply::status(202));
    let answer = NOVA.post("/servers").json(&["x"]).send().expect("an answer");
    assert_eq!(answer.status(), 202);
    assert_eq!(fake.lines(), [post, "forget token", LOGIN, BIND, post]);
    let requests = fake.requests();
    assert_eq!(requests[0], requests[2], "body and all");
}

#[test]
fn a_token_that_another_call_renewed_meanwhile_needs_no_login() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn counted() -> Request {
        CALLS.fetch_add(1, Ordering::Relaxed);
        login()
    }
    // The host drops only the token that this call has used; here, under another name, there is nothing to drop.
    let cloud = NOVA.session(Session::new("renewed", counted));
    let fake = FakeCloud::new().keeps("renewed").on(GET, Reply::status(401)).on(GET, good());
    assert_eq!(cloud.get("/servers").send().expect("an answer").status(), 200);
    assert_eq!(fake.lines(), [GET, "forget renewed", GET]);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
}

/// Another call has logged in, and bound nothing yet; or the host kept the token.
#[test]
fn a_token_without_its_catalogue_gets_the_answer_of_its_login_again() {
    let unbound = || Reply::lost(TransportReason::Unbound, false);
    let fake = logged_in().on(GET, unbound()).on(LOGIN, Reply::status(201)).on(GET, good());
    assert_eq!(NOVA.get("/servers").send().expect("an answer").status(), 200);
    assert_eq!(fake.lines(), [GET, LOGIN, BIND, GET]);
    assert_eq!(fake.requests()[1].share_ms, u32::MAX, "however old it is");

    let fake = logged_in().always(GET, unbound()).on(LOGIN, Reply::status(201));
    assert_eq!(NOVA.get("/servers").send().expect_err("still unbound").reaction, Reaction::Unsupported);
    assert_eq!(fake.lines(), [GET, LOGIN, BIND, GET], "and no further");
}

/// The cache is empty after a swap; the host keeps the answer with the token.
#[test]
fn what_a_login_answered_is_there_after_a_swap_without_another_login_and_without_its_secret() {
    let session = Session::new("token", login).opened(bind);
    let catalogue =
        || Reply::json(201, r#"{"token": {"project": {"id": "p-1"}}}"#).header("x-subject-token", "gAAAAA-1");
    let fake = FakeCloud::new().on(LOGIN, catalogue()).always(GET, good());
    assert!(NOVA.get("/servers").send().is_ok());
    fake.forget_cache();
    for _ in 0..2 {
        let answer = session.answer().expect("an answer");
        assert_eq!(answer.text_at("/token/project/id").as_deref(), Some("p-1"));
        assert_eq!(answer.header("x-subject-token"), Some("(credential token)"));
    }
    assert_eq!(fake.lines(), [LOGIN, BIND, GET, BIND, BIND]);

    // A token that was refused meanwhile takes the answer of its login with it.
    transport::forget("token");
    let fake = fake.on(LOGIN, Reply::json(201, r#"{"token": {"project": {"id": "p-2"}}}"#));
    let answer = session.answer().expect("an answer");
    assert_eq!(answer.text_at("/token/project/id").as_deref(), Some("p-2"));
    assert_eq!(fake.lines()[5..], ["forget token", LOGIN, BIND]);
}

#[test]
fn a_secret_in_the_body_is_not_in_what_a_login_answered() {
    fn login() -> Request {
        let token = CaptureSource::JsonPointer("/access/id".to_owned());
        KEYSTONE.post("/v3/auth/tokens").capture("token", token, None)
    }
    let _fake = FakeCloud::new().on(LOGIN, Reply::json(200, r#"{"access": {"id": "gAAAAA-1", "quota": 3}}"#));
    let answer = Session::new("token", login).answer().expect("an answer");
    assert_eq!(answer.body(), br#"{"access":{"id":"(credential token)","quota":3}}"#);
}

#[test]
fn without_a_token_what_a_login_answers_is_the_failure_of_that() {
    let fake = FakeCloud::new().on(LOGIN, Reply::status(503));
    let failure = Session::new("token", login).answer().expect_err("no token");
    assert_eq!(failure, Failure::retry("login failed: POST /v3/auth/tokens: 503"));
    assert_eq!(fake.lines(), [LOGIN]);
}

/// Another call's request got a 401 between this one's look and the sending.
#[test]
fn a_token_that_ended_before_the_request_left_is_as_good_as_refused() {
    let gone = || Reply::lost(TransportReason::UnknownCredential, false);
    let fake = logged_in().on(GET, gone()).on(GET, Reply::status(401)).on(LOGIN, Reply::status(201)).on(GET, good());
    assert_eq!(NOVA.get("/servers").send().expect("an answer").status(), 200);
    assert_eq!(fake.lines(), [GET, GET, "forget token", LOGIN, BIND, GET]);

    let fake = logged_in().always(GET, gone());
    assert_eq!(NOVA.get("/servers").send().expect_err("no token").reaction, Reaction::Unauthorized);
    assert_eq!(fake.lines(), [GET, GET], "and no further");
}

#[test]
fn what_may_have_arrived_is_not_sent_again() {
    for reason in [TransportReason::Denied, TransportReason::Unbound, TransportReason::UnknownCredential] {
        let fake = logged_in().on("compute POST /servers", Reply::lost(reason, true));
        assert!(NOVA.post("/servers").send().is_err());
        assert_eq!(fake.lines(), ["compute POST /servers"]);
    }
}

#[test]
fn a_fresh_token_that_is_refused_as_well_is_the_end() {
    let refused = || Reply::status(401).header("x-request-id", "req-1");
    let fake = logged_in().always(GET, refused()).on(LOGIN, Reply::status(201));
    let failure = NOVA.get("/servers").send().and_then(Answer::ok).expect_err("refused");
    assert_eq!(failure, Failure::unauthorized("GET /servers: 401, request id req-1: a fresh token was refused too"));
    assert_eq!(fake.lines(), [GET, "forget token", LOGIN, BIND, GET]);
}

#[test]
fn only_a_401_renews_the_token() {
    for status in [403, 404, 407, 500] {
        let fake = logged_in().on(GET, Reply::status(status));
        assert_eq!(NOVA.get("/servers").send().expect("an answer").status(), status);
        assert_eq!(fake.lines(), [GET], "{status}");
    }
    let fake = FakeCloud::new().on("identity GET /v3", Reply::status(401));
    assert_eq!(KEYSTONE.get("/v3").send().expect("an answer").status(), 401);
    assert_eq!(fake.lines(), ["identity GET /v3"], "without a session");
}

#[test]
fn a_login_that_fails_fails_the_request_before_it_is_sent() {
    for (reply, expected) in [
        (Reply::status(401), Failure::unauthorized("login failed: POST /v3/auth/tokens: 401")),
        (Reply::json(404, "{}"), Failure::unauthorized("login failed: POST /v3/auth/tokens: 404")),
        // Not `invalid`: a Node would wait for a change of its own, which mends no login.
        (Reply::status(400), Failure::unauthorized("login failed: POST /v3/auth/tokens: 400")),
        (Reply::status(503), Failure::retry("login failed: POST /v3/auth/tokens: 503")),
        (Reply::lost(TransportReason::Connect, true), Failure::retry("login failed: POST /v3/auth/tokens: no answer")),
    ] {
        let fake = FakeCloud::new().on(LOGIN, reply);
        let unanswered = NOVA.post("/servers").attempt().expect_err("no token");
        assert_eq!(unanswered.failure, expected);
        assert!(!unanswered.maybe_sent);
        assert_eq!(fake.lines(), [LOGIN]);
    }
}

#[test]
fn a_login_that_fails_after_a_401_fails_the_request() {
    let fake = logged_in().on(GET, Reply::status(401)).on(LOGIN, Reply::status(401));
    let failure = NOVA.get("/servers").send().expect_err("no token");
    assert_eq!(failure, Failure::unauthorized("login failed: POST /v3/auth/tokens: 401"));
    assert_eq!(fake.lines(), [GET, "forget token", LOGIN]);
}

#[test]
fn a_login_without_a_token_in_its_answer_does_not_go_on() {
    fn no_capture() -> Request {
        KEYSTONE.post("/v3/auth/tokens")
    }
    let fake = FakeCloud::new().on(LOGIN, Reply::status(201));
    let failure = NOVA.session(Session::new("token", no_capture)).get("/servers").send().expect_err("no token");
    let expected = "login failed: POST /v3/auth/tokens: 201: the answer brought no token, or it is spent already";
    assert_eq!(failure, Failure::retry(expected));
    assert_eq!(fake.lines(), [LOGIN]);
}

#[test]
fn a_login_that_cannot_be_built_says_why() {
    fn unconfigured() -> Request {
        Request::refused(Failure::invalid("username without a domain"))
    }
    let _fake = FakeCloud::new();
    let failure = NOVA.session(Session::new("token", unconfigured)).get("/servers").send().expect_err("no login");
    assert_eq!(failure, Failure::unauthorized("login failed: username without a domain"));
}

#[test]
fn a_batch_logs_in_once_and_repeats_only_what_was_refused() {
    let fake = FakeCloud::new()
        .on(LOGIN, Reply::status(201))
        .on("compute GET /a", good())
        .on("network GET /b", Reply::status(401))
        .on("compute GET /c", Reply::status(401))
        .on(LOGIN, Reply::status(201))
        .on("network GET /b", good())
        .on("compute GET /c", Reply::status(401))
        .on("identity GET /d", Reply::status(401));
    let requests = vec![NOVA.get("/a"), NEUTRON.get("/b"), NOVA.get("/c"), KEYSTONE.get("/d")];
    let statuses: Vec<_> = send_all(requests).into_iter().map(|answer| answer.expect("an answer").status()).collect();
    assert_eq!(statuses, [200, 200, 401, 401]);
    assert_eq!(
        fake.lines(),
        [
            LOGIN,
            BIND,
            "compute GET /a",
            "network GET /b",
            "compute GET /c",
            "identity GET /d",
            "forget token",
            LOGIN,
            BIND,
            "network GET /b",
            "compute GET /c",
        ]
    );
}

#[test]
fn in_a_batch_only_what_needs_the_token_fails_with_the_login() {
    let fake = FakeCloud::new().on(LOGIN, Reply::status(500)).on("identity GET /d", good());
    let results = send_all(vec![NOVA.get("/a"), KEYSTONE.get("/d"), NEUTRON.get("/b")]);
    let good: Vec<_> = results.iter().map(Result::is_ok).collect();
    assert_eq!(good, [false, true, false]);
    assert_eq!(fake.lines(), [LOGIN, "identity GET /d"]);
}
