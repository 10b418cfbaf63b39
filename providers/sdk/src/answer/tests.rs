use serde::Deserialize;

use super::*;
use crate::cloud::Cloud;
use crate::testing::{FakeCloud, Reply};

const CLOUD: Cloud = Cloud::new("api").message(message).exceptions(exceptions);

#[derive(Debug, Deserialize)]
struct ErrorBody {
    message: String,
}

fn message(answer: &Answer) -> Option<String> {
    answer.parse().ok().map(|body: ErrorBody| body.message)
}

/// One of each kind: another reaction, a wait of its own, words of its own.
fn exceptions(answer: &Answer) -> Option<Failure> {
    match answer.status() {
        403 if answer.says("LIMIT") => Some(answer.failure(Reaction::Quota)),
        403 if answer.says("previous actions") => {
            Some(answer.failure(Reaction::Conflict).after(std::time::Duration::from_secs(5)))
        }
        418 => Some(Failure::elsewhere("the teapot belongs to another controller")),
        _ => None,
    }
}

fn answered(cloud: Cloud, reply: Reply) -> Answer {
    let _fake = FakeCloud::new().on("api GET /x", reply.header("x-request-id", "r1"));
    cloud.get("/x").send().expect("any status is an answer")
}

#[test]
fn only_200_to_299_is_good() {
    for status in [200, 201, 202, 204, 299] {
        assert!(answered(CLOUD, Reply::status(status)).ok().is_ok(), "{status}");
    }
    assert_eq!(answered(CLOUD, Reply::status(204)).done(), Ok(()));
    assert_eq!(answered(CLOUD, Reply::status(500)).done(), Err(Failure::retry("GET /x: 500, request id r1")));
    for status in [100, 199, 300, 304, 400, 404, 500] {
        assert!(answered(CLOUD, Reply::status(status)).ok().is_err(), "{status}");
    }
}

#[test]
fn a_failure_says_what_was_tried_the_request_id_and_the_words_of_the_cloud() {
    let body = r#"{"message": "There is already\n a load balancer\twith that name\u0007"}"#;
    let failure = answered(CLOUD, Reply::json(422, body)).ok().expect_err("not good");
    let expected = "GET /x: 422, request id r1: There is already a load balancer with that name";
    assert_eq!(failure, Failure::retry(expected));
    let failure = answered(CLOUD, Reply::json(422, "<html>")).ok().expect_err("not good");
    assert_eq!(failure, Failure::retry("GET /x: 422, request id r1"));
}

#[test]
fn words_of_the_cloud_are_cut_to_one_short_line() {
    for (words, expected) in [
        ("x".repeat(300), "x".repeat(300)),
        ("x".repeat(301), format!("{}…", "x".repeat(299))),
        ("ü".repeat(301), format!("{}…", "ü".repeat(299))),
        (" \n a \r\n b ".to_owned(), "a b".to_owned()),
    ] {
        assert_eq!(one_line(&words), expected);
    }
    assert_eq!(answered(CLOUD, Reply::json(400, r#"{"message": " \n"}"#)).message(), None);
}

#[test]
fn exceptions_come_before_the_status() {
    for (status, words, expected) in [
        (403, "token has no scope", Reaction::Unauthorized),
        (403, "droplet limit exceeded", Reaction::Quota),
        (403, "processes previous actions", Reaction::Conflict),
        (418, "", Reaction::Elsewhere),
    ] {
        let body = format!(r#"{{"message": "{words}"}}"#);
        let failure = answered(CLOUD, Reply::json(status, body)).ok().expect_err("not good");
        assert_eq!(failure.reaction, expected, "{words}");
        assert!(failure.message.starts_with(&format!("GET /x: {status}, request id r1")), "{}", failure.message);
        assert_eq!(failure.message.matches("r1").count(), 1, "{}", failure.message);
    }
}

#[test]
fn the_time_to_wait_comes_from_the_header() {
    for (header, expected) in [
        ("7", Some(7_000)),
        (" 0 ", Some(0)),
        ("99999999999", Some(u32::MAX)),
        ("18446744073709551615", Some(u32::MAX)),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
    ] {
        for (status, reaction) in [(429, Reaction::Throttled), (503, Reaction::Retry)] {
            let failure = answered(CLOUD, Reply::status(status).header("Retry-After", header)).ok();
            let failure = failure.expect_err("not good");
            assert_eq!((failure.reaction, failure.retry_after_ms), (reaction, expected), "{header}");
        }
    }
}

#[test]
fn only_the_cloud_itself_can_say_that_something_does_not_exist() {
    for (reply, absent) in [
        (Reply::json(404, r#"{"id": "not_found"}"#), true),
        (Reply::json(410, r#" {"state": "deleted"}"#), true),
        (Reply::status(404), false),
        (Reply::json(404, "<html>404</html>"), false),
        (Reply::json(404, r#"{"id": "#), false),
        (Reply::json(404, "\"default backend - 404\""), false),
        (Reply::json(404, "404"), false),
        (Reply::json(400, "{}"), false),
        (Reply::json(403, "{}"), false),
        (Reply::json(500, "{}"), false),
    ] {
        let answer = answered(CLOUD, reply);
        let status = answer.status();
        match answer.clone().optional() {
            Ok(found) => assert!(absent && found.is_none(), "{status}"),
            Err(failure) => assert!(!absent, "{status}: {}", failure.message),
        }
        let expected = if absent { Reaction::Conflict } else { reaction(status) };
        assert_eq!(answer.ok().expect_err("not good").reaction, expected, "{status}");
    }
    assert!(answered(CLOUD, Reply::status(204)).optional().expect("good").is_some());
}

fn reaction(status: u16) -> Reaction {
    status::reaction(status, false)
}

#[test]
fn a_cloud_can_have_its_own_way_of_saying_that_something_does_not_exist() {
    fn entity_does_not_exist(answer: &Answer) -> bool {
        answer.status() == 431 && answer.says("entity does not exist")
    }
    let cloud = CLOUD.absent(entity_does_not_exist);
    let gone = Reply::json(431, r#"{"message": "Invalid parameter id, or entity does not exist"}"#);
    assert!(answered(cloud, gone).optional().expect("the cloud's word").is_none());
    assert!(answered(cloud, Reply::json(431, r#"{"message": "page too large"}"#)).optional().is_err());
    assert!(answered(cloud, Reply::json(404, "{}")).optional().is_err());
}

#[test]
fn json_is_read_from_good_answers_only_and_never_quoted() {
    assert_eq!(answered(CLOUD, Reply::json(200, "[1, 2]")).json::<Vec<u8>>(), Ok(vec![1, 2]));
    let failure = answered(CLOUD, Reply::json(500, "[1, 2]")).json::<Vec<u8>>().expect_err("not good");
    assert_eq!(failure, Failure::retry("GET /x: 500, request id r1"));
    let failure = answered(CLOUD, Reply::json(200, r#"[1, "secret"]"#)).json::<Vec<u8>>().expect_err("no number");
    let expected = "GET /x: 200, request id r1: the answer is not as expected at [1], line 1 column 12: expected u8";
    assert_eq!(failure, Failure::retry(expected));
    assert_eq!(answered(CLOUD, Reply::json(300, "[3]")).parse::<Vec<u8>>(), Ok(vec![3]), "Keystone's versions");
}

#[test]
fn headers_are_found_whatever_their_case() {
    let answer = answered(CLOUD, Reply::status(200).header("X-Query-Limit", "5"));
    assert_eq!(answer.header("x-query-limit"), Some("5"));
    assert_eq!(answer.header("X-QUERY-LIMIT"), Some("5"));
    assert_eq!(answer.header("x-query"), None);
}
