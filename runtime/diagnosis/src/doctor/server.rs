//! The API server: whether it answers, which version it is, and how far its clock is from ours.

use std::ops::RangeInclusive;

use ccm_apiserver::{api_error_text, causes};
use http::Request;
use http::header::DATE;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::jiff::fmt::rfc2822;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::finding::{Check, Finding};
use crate::ask::{ANSWER, Access};

/// The oldest minor version of Kubernetes 1 that has what the manifests need: admission policies.
const OLDEST: u32 = 30;
/// Minor versions that are supported: docs/guides/install.md.
const SUPPORTED: RangeInclusive<u32> = 33..=37;
/// Clocks that differ by more than this make certificates wrong.
pub(super) const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(60);

/// The API server's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    /// What is added to ours.
    ahead: SignedDuration,
}

impl Clock {
    /// The time there.
    pub(super) fn now(self) -> Timestamp {
        let ours = Timestamp::now();
        ours.checked_add(self.ahead).unwrap_or(ours)
    }
}

/// Asks the API server at `place` who it is. Without an answer there is no clock.
pub(super) async fn reach(client: &Client, place: &str) -> (Vec<Finding>, Option<Clock>) {
    let check = Check::ApiServer;
    let unreachable =
        |why: String| (vec![check.wrong(format!("{place} cannot be reached: {why}"), Access::way_out())], None);
    let Ok(request) = Request::get("/version").body(Body::empty()) else {
        return unreachable("it has no address that can be asked".to_owned());
    };
    let answer = match tokio::time::timeout(ANSWER, client.send(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return unreachable(api_error_text(&error)),
        Err(_elapsed) => return unreachable(format!("no answer within {ANSWER:?}")),
    };
    let status = answer.status();
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(ToOwned::to_owned);
    if status == http::StatusCode::UNAUTHORIZED {
        let fix = "log in again, or give a kubeconfig with credentials that have not expired";
        return (vec![check.wrong(format!("{place} refuses the credentials (401)"), fix)], None);
    }
    let body = match tokio::time::timeout(ANSWER, answer.into_body().collect_bytes()).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return unreachable(causes(&error)),
        Err(_elapsed) => return unreachable(format!("no answer within {ANSWER:?}")),
    };
    let is_status = || {
        serde_json::from_slice::<Value>(&body).is_ok_and(|body| body.get("kind").is_some_and(|kind| kind == "Status"))
    };
    if status == http::StatusCode::FORBIDDEN && is_status() {
        let found = format!("{place} does not let you read its version (403)");
        let fix =
            "bind the ClusterRole system:public-info-viewer to the user of the kubeconfig, or give another kubeconfig";
        let (clock, told) = clocks(date.as_deref(), Timestamp::now());
        return (vec![check.unjudged(found, fix), told], Some(clock));
    }
    let info = serde_json::from_slice::<Info>(&body).ok().filter(|_| status.is_success());
    let Some(info) = info else {
        let fix =
            "check whether --kubeconfig and --master lead to an API server, and not to a proxy or another service";
        return (vec![check.wrong(format!("{place} does not say its version (status {status})"), fix)], None);
    };
    let (clock, told) = clocks(date.as_deref(), Timestamp::now());
    (vec![version(place, &info), told], Some(clock))
}

fn version(place: &str, info: &Info) -> Finding {
    let check = Check::ApiServer;
    // Some vendors write 33+.
    let digits: String = info.minor.chars().take_while(char::is_ascii_digit).collect();
    let told = format!("{place} is Kubernetes {}", info.git_version);
    let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
    match (info.major.as_str(), digits.parse::<u32>()) {
        ("1", Ok(minor)) if minor < OLDEST => check.wrong(
            format!("{told}, older than 1.{OLDEST}, and the manifests of wasm-ccm need that"),
            format!("upgrade the cluster to a version from 1.{first} to 1.{last}"),
        ),
        ("1", Ok(minor)) if minor < *first => check.wrong(
            format!("{told}, and wasm-ccm supports 1.{first} to 1.{last}"),
            "upgrade the cluster; until then docs/guides/install.md lists what an older API server lacks",
        ),
        ("1", Ok(minor)) if minor <= *last => check.good(told),
        _ => check.unjudged(
            format!("{told}, and this version of wasm-ccm knows none after 1.{last}"),
            "take a newer wasm-ccm, or read its release notes before you rely on this one",
        ),
    }
}

/// `date` is what the API server said, at `here`.
fn clocks(date: Option<&str>, here: Timestamp) -> (Clock, Finding) {
    let check = Check::Clock;
    let there = date.and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let Some(there) = there else {
        let fix = "compare `date -u` here and on a machine of the control plane";
        return (Clock::default(), check.unjudged("the API server does not say what time it is", fix));
    };
    let ahead = there.duration_since(here);
    let told = |ahead: SignedDuration| format!("{:#}", SignedDuration::from_secs(ahead.as_secs().saturating_abs()));
    let finding = if ahead.abs() > CLOCKS_APART {
        let side = if ahead.is_negative() { "behind" } else { "ahead of" };
        check.wrong(
            format!("the clock of the API server is {} {side} the one of this machine", told(ahead)),
            "let NTP set both, for example with chrony; Leases, certificates and the ages of Nodes depend on them",
        )
    } else {
        check.good("the clocks of the API server and of this machine agree")
    };
    (Clock { ahead }, finding)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::doctor::finding::Judgement;

    /// An API server that answers with this.
    async fn answer(status: u16, date: Option<&'static str>, body: &'static str) -> Vec<Finding> {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            assert_eq!(request.uri().path(), "/version");
            let mut response = Response::builder().status(status);
            if let Some(date) = date {
                response = response.header(DATE, date);
            }
            Ok::<_, std::convert::Infallible>(response.body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        reach(&Client::new(service, "default"), "https://there").await.0
    }

    const NEW: &str = r#"{ "major": "1", "minor": "36+", "gitVersion": "v1.36.1", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }"#;

    #[tokio::test]
    async fn each_answer_of_an_api_server_has_its_judgement() {
        let old = NEW.replace("36+", "29").replace("v1.36.1", "v1.29.0").leak();
        let before = NEW.replace("36+", "31").replace("v1.36.1", "v1.31.2").leak();
        let first = NEW.replace("36+", "33").replace("v1.36.1", "v1.33.0").leak();
        let newer = NEW.replace("36+", "38").leak();
        let cases = [
            (200, NEW, Judgement::Good, "https://there is Kubernetes v1.36.1"),
            (200, old, Judgement::Wrong, "v1.29.0, older than 1.30"),
            (200, before, Judgement::Wrong, "v1.31.2, and wasm-ccm supports 1.33 to 1.37"),
            (200, first, Judgement::Good, "https://there is Kubernetes v1.33.0"),
            (200, newer, Judgement::Unjudged, "knows none after 1.37"),
            (403, r#"{ "kind": "Status" }"#, Judgement::Unjudged, "does not let you read its version"),
            (403, "<html>", Judgement::Wrong, "does not say its version (status 403"),
            (401, "{}", Judgement::Wrong, "refuses the credentials (401)"),
            (502, "<html>", Judgement::Wrong, "does not say its version (status 502"),
        ];
        for (status, body, judgement, part) in cases {
            let findings = answer(status, None, body).await;
            assert_eq!(findings[0].judgement, judgement, "{findings:?}");
            assert!(findings[0].found.contains(part), "{findings:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_is_not_waited_for() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        let began = tokio::time::Instant::now();
        let (findings, clock) = reach(&Client::new(service, "default"), "https://there").await;
        assert!(clock.is_none() && began.elapsed() < 2 * ANSWER);
        assert_eq!(findings[0].judgement, Judgement::Wrong);
        assert!(findings[0].found.ends_with("cannot be reached: no answer within 10s"), "{findings:?}");
    }

    #[test]
    fn clocks_may_differ_by_a_minute_and_no_more() {
        let here: Timestamp = "2026-11-26T10:00:00Z".parse().unwrap();
        let cases = [
            (Some("Thu, 26 Nov 2026 10:01:00 GMT"), Judgement::Good, "agree"),
            (Some("Thu, 26 Nov 2026 09:59:00 GMT"), Judgement::Good, "agree"),
            (Some("Thu, 26 Nov 2026 10:10:00 GMT"), Judgement::Wrong, "is 10m ahead of"),
            (Some("Thu, 26 Nov 2026 09:58:59 GMT"), Judgement::Wrong, "is 1m 1s behind"),
            (Some("yesterday"), Judgement::Unjudged, "does not say"),
            (None, Judgement::Unjudged, "does not say"),
        ];
        for (date, judgement, part) in cases {
            let (_, finding) = clocks(date, here);
            assert_eq!(finding.judgement, judgement, "{date:?}");
            assert!(finding.found.contains(part), "{finding:?}");
        }
    }

    #[tokio::test]
    async fn times_of_objects_are_compared_with_the_clock_that_wrote_them() {
        let (clock, _) = clocks(Some("Thu, 26 Nov 2026 10:10:00 GMT"), "2026-11-26T10:00:00Z".parse().unwrap());
        let ahead = clock.now().duration_since(Timestamp::now());
        assert_eq!(ahead.as_secs().saturating_add(1) / 2, 300, "{ahead}");
    }
}
