//! The request to the cloud behind a failure, for people: enough to find it in the log of the host, and for the support of the cloud.

use std::borrow::Cow;

use ccm_controllers::CloudRequest;
use http::StatusCode;

use crate::plain::about;

/// Where it went.
pub(super) fn place(request: &CloudRequest) -> String {
    let CloudRequest { operation, method, endpoint, origin, path, .. } = request;
    if origin.is_empty() {
        return format!("{operation} (endpoint {endpoint})");
    }
    let called = if *operation == format!("{method} {path}") { String::new() } else { format!("{operation}, ") };
    format!("{method} {origin}{path} ({called}endpoint {endpoint})")
}

/// What came of it, and when.
pub(super) fn outcome(request: &CloudRequest) -> String {
    let CloudRequest { status, error, held, request_id, sent, seconds_ago, at, .. } = request;
    let mut told = match (status, error) {
        (Some(status), _) => answered(*status),
        (None, Some(_)) if let Some(held) = held => format!("held back by the host: {held}"),
        (None, Some(error)) => unanswered(error).into_owned(),
        (None, None) => "not known".to_owned(),
    };
    // The status alone would be good.
    if let (Some(200..=299), Some(error)) = (status, error) {
        told += &format!(", and that was no answer to use: {error}");
    }
    match request_id {
        Some(id) => told += &format!(", request ID {id}"),
        None if status.is_some() => told += ", without a request ID",
        None => {}
    }
    if let (Some(_), Some(held)) = (status, held) {
        told += &format!("; {held}");
    }
    let times = match sent {
        0 => "not sent, ".to_owned(),
        1 => String::new(),
        times => format!("sent {times} times, "),
    };
    let when = if at.is_empty() { String::new() } else { format!(", at {at}") };
    format!("{told} ({times}{} ago{when})", about(*seconds_ago))
}

fn answered(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    format!("{status} {reason}").trim_end().to_owned()
}

fn unanswered(error: &str) -> Cow<'_, str> {
    let words = match error {
        "connect" => "no connection",
        "tls" => "no trusted connection (TLS)",
        "timeout" => "no answer in time",
        "denied" => "refused by the host: nobody granted it",
        "read-only" => "refused by the host: it may change nothing in the cloud",
        // A leader of an older version does not say which.
        "throttled" => "held back by the host: the cloud asked for a pause, or a limit of the host is used up",
        "unbound" => "refused by the host: the endpoint has no URL",
        "unknown-credential" => "refused by the host: a credential is missing",
        "too-large" => "larger than a limit of the host",
        "other" => "no answer",
        other => other,
    };
    Cow::Borrowed(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> CloudRequest {
        CloudRequest {
            operation: "POST /v2/load_balancers".into(),
            method: "POST".into(),
            endpoint: "api".into(),
            origin: "https://api.example".into(),
            path: "/v2/load_balancers".into(),
            status: Some(422),
            request_id: Some("r-1".into()),
            sent: 1,
            seconds_ago: 4.2,
            at: "2026-11-26T10:00:00Z".into(),
            ..CloudRequest::default()
        }
    }

    #[test]
    fn a_request_is_told_with_its_place_and_what_came_of_it() {
        let variable = CloudRequest {
            operation: "GET /things/{id}".into(),
            method: "GET".into(),
            path: "/v1/things/7".into(),
            ..request()
        };
        let lost = CloudRequest { status: None, request_id: None, error: Some("timeout".into()), sent: 3, ..request() };
        let refused = CloudRequest {
            origin: String::new(),
            path: String::new(),
            sent: 0,
            error: Some("denied".into()),
            ..lost.clone()
        };
        let pause = "the cloud asked for no requests for another 30 s";
        let throttled = CloudRequest { status: Some(429), held: Some(pause.into()), ..request() };
        let held = |held: Option<&str>| CloudRequest {
            error: Some("throttled".into()),
            held: held.map(Into::into),
            sent: 0,
            ..lost.clone()
        };
        let own = "the host sends 250 requests in 60 s; the next one can go in 7 s (limit requests-per-minute)";
        let broken = CloudRequest { status: Some(200), error: Some("other".into()), ..request() };
        let nameless = CloudRequest { status: Some(599), request_id: None, at: String::new(), ..request() };
        let post = "POST https://api.example/v2/load_balancers (endpoint api)";
        let ago = "5 s ago, at 2026-11-26T10:00:00Z)";
        for (request, wanted_place, wanted) in [
            (request(), post, format!("422 Unprocessable Entity, request ID r-1 ({ago}")),
            (
                variable,
                "GET https://api.example/v1/things/7 (GET /things/{id}, endpoint api)",
                format!("422 Unprocessable Entity, request ID r-1 ({ago}"),
            ),
            (lost.clone(), post, format!("no answer in time (sent 3 times, {ago}")),
            (
                refused,
                "POST /v2/load_balancers (endpoint api)",
                format!("refused by the host: nobody granted it (not sent, {ago}"),
            ),
            (throttled, post, format!("429 Too Many Requests, request ID r-1; {pause} ({ago}")),
            (held(Some(pause)), post, format!("held back by the host: {pause} (not sent, {ago}")),
            (held(Some(own)), post, format!("held back by the host: {own} (not sent, {ago}")),
            (
                held(None),
                post,
                format!(
                    "held back by the host: the cloud asked for a pause, or a limit of the host is used up (not sent, {ago}"
                ),
            ),
            (broken, post, format!("200 OK, and that was no answer to use: other, request ID r-1 ({ago}")),
            (nameless, post, "599, without a request ID (5 s ago)".to_owned()),
            (CloudRequest { status: None, request_id: None, ..request() }, post, format!("not known ({ago}")),
        ] {
            assert_eq!((place(&request).as_str(), outcome(&request)), (wanted_place, wanted));
        }
    }
}
