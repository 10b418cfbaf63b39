use std::collections::BTreeMap;

use super::*;
use crate::cloud::Cloud;
use crate::session::send_all;
use crate::testing::{FakeCloud, Reply, text};
use crate::types::Reaction;

const CLOUD: Cloud = Cloud::new("api").prepare(authorised);

fn authorised(request: Request) -> Request {
    request.header_secret("authorization", "Bearer ", "token")
}

fn finished(request: Request) -> http::Request {
    request.finish().expect("it can be built").raw
}

fn headers(request: &http::Request) -> Vec<(String, String)> {
    request.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_template_is_the_operation_and_the_path_has_the_arguments() {
    let request = finished(CLOUD.get("/v2/droplets/{id}").arg("id", 7).query("page", 2).query("tag_name", "a b"));
    assert_eq!(request.endpoint, "api");
    assert_eq!(request.operation, "GET /v2/droplets/{id}");
    assert_eq!(request.path, "/v2/droplets/7");
    assert_eq!(
        request.query,
        [("page".to_owned(), vec![Part::bytes("2")]), ("tag_name".to_owned(), vec![Part::bytes("a b")]),]
    );
    assert_eq!(headers(&request), [pair("authorization", "Bearer <token>"), pair("accept", "application/json")]);
    assert_eq!(finished(CLOUD.get("/").operation("listZones")).operation, "listZones");
}

#[test]
fn the_method_decides_the_effect_unless_told_otherwise() {
    for (request, method, effect) in [
        (CLOUD.get("/x"), Method::Get, Effect::Read),
        (CLOUD.head("/x"), Method::Head, Effect::Read),
        (CLOUD.post("/x"), Method::Post, Effect::Once),
        (CLOUD.put("/x"), Method::Put, Effect::Repeatable),
        (CLOUD.patch("/x"), Method::Patch, Effect::Once),
        (CLOUD.delete("/x"), Method::Delete, Effect::Repeatable),
        (CLOUD.post("/x").reads(), Method::Post, Effect::Read),
        (CLOUD.post("/x").repeatable(), Method::Post, Effect::Repeatable),
        (CLOUD.put("/x").once(), Method::Put, Effect::Once),
    ] {
        let request = finished(request);
        assert_eq!((request.method, request.effect), (method, effect), "{}", request.operation);
    }
}

#[test]
fn a_header_set_twice_has_the_later_value() {
    let request = finished(
        CLOUD
            .patch("/x")
            .json(&[1])
            .header("Content-Type", "application/merge-patch+json")
            .header("Accept", "text/plain"),
    );
    assert_eq!(
        headers(&request),
        [
            pair("Content-Type", "application/merge-patch+json"),
            pair("Accept", "text/plain"),
            pair("authorization", "Bearer <token>"),
        ]
    );
    assert_eq!(text(&request.body), "[1]");
}

#[test]
fn a_form_encodes_what_it_knows_and_leaves_the_rest_to_the_host() {
    let fields = vec![
        ("command".to_owned(), vec![Part::bytes("list&all=1")]),
        ("par[0].x".to_owned(), vec![Part::bytes("a b~ü")]),
        ("apiKey".to_owned(), vec![Part::secret("key", Encoding::Url)]),
    ];
    let request = finished(CLOUD.post("/").form(fields));
    assert_eq!(text(&request.body), "command=list%26all%3D1&par%5B0%5D.x=a%20b~%C3%BC&apiKey=<key>");
    assert_eq!(headers(&request)[0], pair("content-type", "application/x-www-form-urlencoded"));
}

#[test]
fn preparing_sees_the_whole_query_so_that_it_can_be_signed() {
    fn signed(request: Request) -> Request {
        let names: Vec<_> = request.query_so_far().iter().map(|(name, _)| name.clone()).collect();
        request.query("signature", names.join("+"))
    }
    let request = finished(CLOUD.prepare(signed).get("/").query("b", 1).query("a", 2));
    assert_eq!(request.query[2], ("signature".to_owned(), vec![Part::bytes("b+a")]));
}

#[test]
fn what_is_captured_and_shared_reaches_the_host() {
    let source = CaptureSource::Header("x-subject-token".to_owned());
    let expires = CaptureSource::JsonPointer("/token/expires_at".to_owned());
    let request = finished(
        CLOUD
            .post("/v3/auth/tokens")
            .capture("token", source.clone(), Some(expires.clone()))
            .capture_at_most(Duration::from_secs(60))
            .share(Duration::MAX),
    );
    let capture = Capture { credential: "token".to_owned(), source, expires: Some(expires), ttl_ms: Some(60_000) };
    assert_eq!(request.capture, Some(capture));
    assert_eq!(request.share_ms, u32::MAX);
}

#[test]
fn mistakes_come_out_when_it_is_sent_and_nothing_leaves() {
    let fake = FakeCloud::new();
    let no_json = BTreeMap::from([(vec![1], 1)]);
    for (request, expected) in [
        (CLOUD.get("/v2/droplets/{id}").arg("id", "../account"), Reaction::Invalid),
        (CLOUD.get("/v2/droplets/{id}"), Reaction::Unsupported),
        (CLOUD.post("/v2/droplets").json(&no_json), Reaction::Unsupported),
        (Request::refused(Failure::invalid("no region is configured")), Reaction::Invalid),
    ] {
        let unanswered = request.attempt().expect_err("a mistake");
        assert_eq!(unanswered.failure.reaction, expected, "{}", unanswered.failure.message);
        assert!(!unanswered.maybe_sent);
    }
    assert!(fake.lines().is_empty());
}

#[test]
fn a_batch_answers_in_order_and_one_mistake_does_not_stop_the_others() {
    let fake = FakeCloud::new()
        .on("api GET /v2/droplets/1", Reply::json(200, "1"))
        .on("api GET /v2/droplets/3", Reply::lost(http::TransportReason::Timeout, true))
        .on("api GET /v2/droplets/4", Reply::json(404, "{}"));
    let requests = ["1", "..", "3", "4"].map(|id| CLOUD.get("/v2/droplets/{id}").arg("id", id));
    let answers = send_all(requests.into());
    let statuses: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(Answer::status).map_err(|failure| failure.reaction)).collect();
    assert_eq!(statuses, [Ok(200), Err(Reaction::Invalid), Err(Reaction::Retry), Ok(404)]);
    assert!(fake.unused().is_empty());
    assert!(send_all(vec![]).is_empty());
}

#[test]
fn a_request_that_may_have_arrived_says_so_where_it_must_not_be_repeated() {
    let lost = || Reply::lost(http::TransportReason::Timeout, true);
    let _fake = FakeCloud::new()
        .on("api POST /x", lost())
        .on("api PUT /x", lost())
        .on("api POST /x", Reply::lost(http::TransportReason::Connect, false));
    let unanswered = CLOUD.post("/x").attempt().expect_err("lost");
    assert!(unanswered.maybe_sent);
    assert_eq!(unanswered.failure.message, "POST /x: no answer; the request may have arrived");
    assert_eq!(CLOUD.put("/x").send().expect_err("lost").message, "PUT /x: no answer");
    let unanswered = CLOUD.post("/x").attempt().expect_err("lost");
    assert_eq!((unanswered.maybe_sent, &*unanswered.failure.message), (false, "POST /x: no answer"));
}

#[test]
fn values_of_a_link_replace_known_parameters_but_never_secrets() {
    let mut request =
        Request::get("api", "/").query("page", 1).query("tag", "x").query_secret("key", "token", Encoding::Plain);
    request.replace_query(vec![pair("page", "2"), pair("key", "stolen"), pair("new", "a"), pair("new", "b")]);
    let query: Vec<_> = request.query_so_far().iter().map(|(name, value)| (name.clone(), text(value))).collect();
    assert_eq!(
        query,
        [pair("tag", "x"), pair("key", "<token>"), pair("page", "2"), pair("new", "a"), pair("new", "b")]
    );
}
