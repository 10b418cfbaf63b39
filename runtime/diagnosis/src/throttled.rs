//! A used-up quota: whose it is, and what to do about it.

use ccm_controllers::CloudRequest;

use crate::plain::about;

/// What holds requests back is told as it was when the request was over: after so many seconds, how long ago that was is told as well.
const FRESH: f64 = 5.0;
/// The limit that holds back what has no time left.
const CALL_TIME: &str = "call-time";

/// What to do. `request`: the one that was refused or held back, where one is known.
pub(crate) fn advice(request: Option<&CloudRequest>) -> String {
    let is_of_cloud = |request: &&CloudRequest| request.status == Some(429) || request.held.is_some();
    let Some(request) = request.filter(is_of_cloud) else {
        return "wait: the cloud, or a limit of the host, lets no more requests through for now; `wasm-ccm doctor` says what the cloud leaves (budget)"
            .to_owned();
    };
    if request.limit.as_deref() == Some(CALL_TIME) {
        return format!(
            "wait; if it stays, the cloud takes too long for a call: raise the limit {CALL_TIME} with --limit"
        );
    }
    if let Some(limit) = &request.limit {
        return format!(
            "wait; if it stays, raise the host's own limit {limit} with --limit, as far as the cloud takes more"
        );
    }
    let held = request.held.as_deref().unwrap_or("the cloud takes no more requests for now");
    let when =
        if request.seconds_ago > FRESH { format!("{} ago, ", about(request.seconds_ago)) } else { String::new() };
    format!("wait: {when}{held}; if it stays, lower requests-per-second, or ask who else uses the account")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_the_cloud_or_a_limit_of_the_host_refuses_is_told_with_what_to_do_about_it() {
        let refused = CloudRequest { status: Some(429), ..CloudRequest::default() };
        let pause = "the cloud asked for no requests for another 30 s";
        let paused = CloudRequest { held: Some(pause.into()), ..refused.clone() };
        let held =
            CloudRequest { held: Some(pause.into()), error: Some("throttled".into()), ..CloudRequest::default() };
        let limit = Some("requests-per-minute".to_owned());
        let own = CloudRequest { limit, held: Some("the host sends 2 requests in 60 s".into()), ..held.clone() };
        let slow = CloudRequest { limit: Some("call-time".to_owned()), ..own.clone() };
        // The pause was once told minutes later as if it had begun just now.
        let fresh = CloudRequest { seconds_ago: 5.0, ..paused.clone() };
        let late = CloudRequest { seconds_ago: 30.2, ..paused.clone() };
        let long_ago = CloudRequest { seconds_ago: 600.0, ..held.clone() };
        let unknown = CloudRequest { held: None, ..held.clone() };
        let of_cloud = "lower requests-per-second, or ask who else uses the account";
        let of_either = "wait: the cloud, or a limit of the host, lets no more requests through for now; ";
        for (request, starts, says) in [
            (Some(refused), "wait: the cloud takes no more requests for now; ", of_cloud),
            (Some(paused), &format!("wait: {pause}; "), of_cloud),
            (Some(held), &format!("wait: {pause}; "), of_cloud),
            (Some(fresh), &format!("wait: {pause}; "), of_cloud),
            (Some(late), &format!("wait: 31 s ago, {pause}; "), of_cloud),
            (Some(long_ago), &format!("wait: 10 min ago, {pause}; "), of_cloud),
            (Some(own), "wait; ", "raise the host's own limit requests-per-minute with --limit"),
            (
                Some(slow),
                "wait; if it stays, the cloud takes too long for a call: ",
                "raise the limit call-time with --limit",
            ),
            // A leader of an older version does not say which, and another request than this one may have been refused.
            (Some(unknown), of_either, "doctor"),
            (Some(CloudRequest { status: Some(422), ..CloudRequest::default() }), of_either, "doctor"),
            (None, of_either, "doctor"),
        ] {
            let told = advice(request.as_ref());
            assert!(told.starts_with(starts) && told.contains(says), "{request:?}: {told}");
        }
    }
}
