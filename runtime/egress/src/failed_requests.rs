//! The requests of one call that failed, so that whoever is told of the call's failure learns which request to the cloud it was.

use std::collections::VecDeque;
use std::sync::Arc;

use ccm_cloud::{FailedRequest, Failure, Reaction};
use parking_lot::Mutex;

/// So many are kept, the newest. A call that goes on after eight failures has not failed because of the first.
const KEPT: usize = 8;

/// The newest requests of a call that failed. Cloning shares it.
#[derive(Clone, Default)]
pub struct FailedRequests(Arc<Mutex<VecDeque<Arc<FailedRequest>>>>);

impl FailedRequests {
    /// One more.
    pub(crate) fn note(&self, request: &Arc<FailedRequest>) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(request));
    }

    /// A failure of the whole call, with the request that it is about.
    #[must_use]
    pub fn of_whole(&self, mut failure: Failure) -> Failure {
        self.explain(&mut failure, true);
        failure
    }

    /// Adds to a failure of the call the request that it is about: the newest that its message names. Where it names none, the newest of all, but
    /// only if the failure `is_of_whole` call, since it may be another object's; none that only found nothing, with which most calls go on; and
    /// none to what is no failure at all.
    pub fn explain(&self, failure: &mut Failure, is_of_whole: bool) {
        let has_failed = !matches!(failure.reaction, Reaction::Pending | Reaction::Elsewhere);
        let kept = self.0.lock();
        let named = kept.iter().rev().find(|request| request.is_named_in(&failure.message));
        let newest = || kept.iter().rev().find(|request| is_of_whole && has_failed && !request.is_only_absent());
        failure.request = named.or_else(newest).map(Arc::clone);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn request(method: &'static str, status: u16, id: Option<&str>) -> Arc<FailedRequest> {
        Arc::new(FailedRequest {
            endpoint: "api".into(),
            origin: "https://api.example".into(),
            operation: format!("{method} /things/{{id}}"),
            method,
            path: "/things/7".into(),
            status: Some(status),
            error: None,
            held: None,
            limit: None,
            request_id: id.map(ToOwned::to_owned),
            sent: 1,
            at: Instant::now(),
        })
    }

    /// The status of the request that a failure with this message is about.
    fn status(requests: &[Arc<FailedRequest>], message: &str, is_of_whole: bool) -> Option<u16> {
        status_of(requests, Failure::new(Reaction::Retry, message), is_of_whole)
    }

    fn status_of(requests: &[Arc<FailedRequest>], mut failure: Failure, is_of_whole: bool) -> Option<u16> {
        let all = FailedRequests::default();
        requests.iter().for_each(|request| all.note(request));
        all.explain(&mut failure, is_of_whole);
        failure.request.and_then(|request| request.status)
    }

    #[test]
    fn a_failure_is_about_the_request_that_its_message_names() {
        let (first, second) = (request("POST", 503, Some("r-1")), request("PUT", 500, Some("r-12")));
        let all = [first, second, request("GET", 404, Some("r-3"))];
        for (message, is_of_whole, wanted) in [
            ("POST /things: 503 Service Unavailable (request ID r-1): full", false, Some(503)),
            ("PUT /things: 500 Internal Server Error (request ID r-12)", true, Some(500)),
            ("no such network: GET /things: 404 Not Found (request ID r-3)", true, Some(404)),
            // It names none: the last that is no mere question.
            ("the load balancer has no address", true, Some(500)),
            // Of several objects, nobody knows whose it was.
            ("the machine is in no zone", false, None),
        ] {
            assert_eq!(status(&all, message, is_of_whole), wanted, "{message}");
        }
        // The cloud is at work: what has failed before was no reason.
        for (reaction, wanted) in [(Reaction::Pending, None), (Reaction::Elsewhere, None), (Reaction::Quota, Some(500))]
        {
            assert_eq!(status_of(&all, Failure::new(reaction, "creating"), true), wanted, "{reaction:?}");
        }
        let nameless = [request("POST", 502, None), request("PUT", 504, None)];
        assert_eq!(status(&nameless, "POST /things/{id}: 502 Bad Gateway", false), Some(502));
        assert_eq!(status(&[], "POST /things/{id}: 502 Bad Gateway", true), None);
    }

    #[test]
    fn a_call_that_fails_again_and_again_keeps_the_newest() {
        let all: Vec<_> = (0..40_u16).map(|number| request("POST", 500 + number, Some(&number.to_string()))).collect();
        assert_eq!(status(&all, "(request ID 31)", true), Some(539), "it is gone");
        assert_eq!(status(&all, "(request ID 32)", true), Some(532));
    }
}
