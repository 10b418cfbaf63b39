//! What to do about what a try came to, by the reaction.

use ccm_controllers::CloudRequest;

use super::target::Target;
use crate::throttled;

/// Who speaks of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The leader, which knows the request behind it, where there was one.
    Leader,
    /// The object: nobody could ask the leader.
    Object,
    /// The object, and nobody tries anything: none leads, or the host is a dry run.
    ObjectAlone,
}

/// What is known of a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) speaker: Speaker,
    /// The request behind it, where the host saw one fail.
    pub(super) request: Option<&'a CloudRequest>,
    /// How many tries have failed since the last one that did not; 0 where nobody says.
    pub(super) tries: u32,
    pub(super) target: &'a Target,
}

/// After so many failures in a row, waiting alone does not help.
const PATIENCE: u32 = 5;

/// What to do; nothing where the reaction is unknown, or where there is nothing to do before somebody tries again.
pub(super) fn of(reaction: &str, known: Known<'_>) -> Option<String> {
    let Known { speaker, request, target, .. } = known;
    let error = request.and_then(|request| request.error.as_deref()).unwrap_or_default();
    // What is left out where nobody tries anything.
    let (text, and_the_host) = match reaction {
        "retry" => return Some(retry(known)),
        "throttled" | "pending" if speaker == Speaker::ObjectAlone => return None,
        "throttled" => return Some(throttled::advice(request)),
        // The account and its credentials have no part in it: the host refused the request, or its answer.
        "unauthorized" if error == "denied" => (
            "grant what the message names, if the provider is to have it: docs/guides/configure-a-provider.md, \"Grants\"",
            "",
        ),
        "unauthorized" if error == "unknown-credential" => {
            ("give the credential that the message names (--credential)", "")
        }
        "quota" if error == "too-large" => {
            ("raise the limit of the host that the message names, if that size is right", "")
        }
        "pending" => ("wait: the cloud is at work", ""),
        "unauthorized" => match request.and_then(|request| request.status) {
            Some(401) => (
                "replace the credential (docs/guides/rotate-credentials.md)",
                "the host retries at once when it changes",
            ),
            Some(403) => (
                "give the credential the right that the message names; replace it only if it is wrong or expired (docs/guides/rotate-credentials.md)",
                "the host retries every minute",
            ),
            Some(407) => ("correct user and password in the URL of the proxy (--proxy, or HTTPS_PROXY)", ""),
            _ => (
                "rotate the credential if it is wrong or expired (docs/guides/rotate-credentials.md), or give it the right that it lacks",
                "the host retries every minute, and at once when the credential changes",
            ),
        },
        "conflict" => ("find out who else changes the same thing in the cloud", "the host retries"),
        "quota" => ("raise the limit of the account, or delete what nobody uses", "the host retries slowly"),
        "unsupported" => {
            ("take out what the cloud cannot do, or use another class or component", "the host retries slowly")
        }
        "elsewhere" => ("nothing here: another manager takes care of it", ""),
        "api" => ("check the API server and the rights of the host (manifests/base/rbac.yaml)", ""),
        "absent" => {
            ("check that the machine exists in the account and region of the provider, under the name of the Node", "")
        }
        "invalid" => {
            let kind = target.kind();
            return Some(format!(
                "correct the field that the message names on the {kind}: nothing is retried before it changes"
            ));
        }
        _ => return None,
    };
    Some(match (speaker, and_the_host) {
        (Speaker::ObjectAlone, _) | (_, "") => text.to_owned(),
        (_, and_the_host) => format!("{text}; {and_the_host}"),
    })
}

/// The cloud failed, or the component.
fn retry(Known { speaker, request, tries, .. }: Known<'_>) -> String {
    let text = match (speaker, request) {
        (Speaker::ObjectAlone, _) => {
            "when a host leads again, run this command again to see the request to the cloud; until then, do what the message says"
        }
        (Speaker::Object, _) => {
            "nothing for now: the host retries. Only the leader knows the request to the cloud: if it stays, do what the message says"
        }
        (Speaker::Leader, None) if tries > PATIENCE => {
            "this does not mend itself, and no request to the cloud is known to have failed: do what the message says, and look in the log of the host for what else the component says"
        }
        (Speaker::Leader, None) => {
            "nothing for now: the host retries. No request to the cloud is known to have failed: if it stays, do what the message says, and look in the log of the host for what else the component says"
        }
        (Speaker::Leader, Some(CloudRequest { status: Some(status), .. })) if is_clear_no(*status) => {
            "correct what the cloud's answer names: it refuses this request, so this is no outage; the host keeps retrying"
        }
        (Speaker::Leader, Some(request)) => {
            let check = match request {
                CloudRequest { request_id: Some(_), .. } => {
                    "check network, proxy and the cloud's status page; give the request ID to the cloud's support"
                }
                CloudRequest { status: Some(_), .. } => "check network, proxy and the cloud's status page",
                // What has no answer has no ID.
                _ => "check network and proxy: `wasm-ccm doctor --online` says what is in the way",
            };
            return if tries > PATIENCE {
                format!("the host retries, and waiting alone has not helped so far: {check}")
            } else {
                format!("nothing, if the cloud has an outage: the host retries; else {check}")
            };
        }
    };
    text.to_owned()
}

/// Whether the cloud says with this status that the request is not to be sent again as it is. Without those of credentials (401, 403), of
/// what is not there (404), of a proxy (407), of time (408), and of what may be otherwise soon (409, 423, 425, 429).
const fn is_clear_no(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 404 | 407..=409 | 423 | 425 | 429)
}

/// What the host does about it by itself; nothing where the reaction is unknown.
pub(super) fn meaning(reaction: &str) -> Option<&'static str> {
    Some(match reaction {
        "retry" => "the host tries again, each time a bit later",
        "throttled" => "the host tries again when the cloud allows it",
        "pending" => "the host looks again until the cloud is done",
        "unauthorized" => "the host tries again slowly, and at once with another credential",
        "conflict" => "the host reads again what there is, and tries again",
        "quota" | "unsupported" => "the host tries again slowly",
        "invalid" => "the host does not try again before the object changes",
        "elsewhere" => "the host leaves it alone",
        "api" | "absent" => "the host asks again, each time a bit later",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ccm_cloud::Reaction;

    use super::*;

    fn node() -> Target {
        Target::Node { name: "n1".into() }
    }

    /// What the leader says of one failure.
    fn by_leader<'a>(request: Option<&'a CloudRequest>, target: &'a Target) -> Known<'a> {
        Known { speaker: Speaker::Leader, request, tries: 1, target }
    }

    const ALL: [Reaction; 9] = [
        Reaction::Retry,
        Reaction::Throttled,
        Reaction::Pending,
        Reaction::Unauthorized,
        Reaction::Invalid,
        Reaction::Conflict,
        Reaction::Quota,
        Reaction::Unsupported,
        Reaction::Elsewhere,
    ];

    #[test]
    fn there_is_something_to_do_about_each_reaction() {
        let target = node();
        let known = by_leader(None, &target);
        for reaction in ALL {
            assert!(of(reaction.as_str(), known).is_some(), "{reaction:?}");
            assert!(meaning(reaction.as_str()).is_some(), "{reaction:?}");
        }
        for reaction in ["api", "absent"] {
            assert!(of(reaction, known).is_some() && meaning(reaction).is_some(), "{reaction}");
        }
        assert_eq!((of("", known), meaning("")), (None, None));
        assert!(of("invalid", known).unwrap().contains("Node"));
    }

    /// Whoever read it looked for a firewall, and the component had never asked for anything.
    #[test]
    fn network_account_and_credentials_are_blamed_only_where_a_request_is_known_that_they_could_have_stopped() {
        let target = node();
        let failed = |error: &str| CloudRequest { error: Some(error.into()), ..CloudRequest::default() };
        let answered = CloudRequest { status: Some(503), ..CloudRequest::default() };
        let named = CloudRequest { request_id: Some("r-1".into()), ..answered.clone() };
        for (reaction, request, says, not) in [
            ("retry", None, "do what the message says", "network"),
            ("retry", Some(named), "give the request ID to the cloud's support", "doctor"),
            // Whoever had no connection looked for an ID that nobody gave.
            ("retry", Some(failed("connect")), "`wasm-ccm doctor --online`", "request ID"),
            ("retry", Some(answered.clone()), "check network, proxy and the cloud's status page", "request ID"),
            ("unauthorized", None, "rotate the credential", "grant"),
            ("unauthorized", Some(answered.clone()), "rotate the credential", "grant"),
            ("unauthorized", Some(failed("denied")), "grant what the message names", "rotate"),
            ("unauthorized", Some(failed("unknown-credential")), "--credential", "rotate"),
            ("quota", Some(answered), "limit of the account", "host that"),
            ("quota", Some(failed("too-large")), "raise the limit of the host", "account"),
        ] {
            let told = of(reaction, by_leader(request.as_ref(), &target)).unwrap();
            assert!(told.contains(says) && !told.contains(not), "{reaction} {request:?}: {told}");
        }
    }

    /// A new credential helped against none of them but the first.
    #[test]
    fn a_credential_is_to_be_replaced_only_where_the_cloud_refuses_it_as_such() {
        let target = node();
        let told = |status, speaker| {
            let request = CloudRequest { status, ..CloudRequest::default() };
            of("unauthorized", Known { speaker, ..by_leader(Some(&request), &target) }).unwrap()
        };
        for (status, starts) in [
            (Some(401), "replace the credential (docs/guides/rotate-credentials.md); the host retries at once"),
            (
                Some(403),
                "give the credential the right that the message names; replace it only if it is wrong or expired",
            ),
            (Some(407), "correct user and password in the URL of the proxy"),
            // Some clouds have other words for a login that they refuse.
            (
                Some(404),
                "rotate the credential if it is wrong or expired (docs/guides/rotate-credentials.md), or give it the right",
            ),
            (
                None,
                "rotate the credential if it is wrong or expired (docs/guides/rotate-credentials.md), or give it the right",
            ),
        ] {
            let told = told(status, Speaker::Leader);
            assert!(told.starts_with(starts), "{status:?}: {told}");
        }
        assert!(told(Some(403), Speaker::Leader).ends_with("; the host retries every minute"));
    }

    /// At the 14th failure in a row it was still "nothing for now".
    #[test]
    fn what_fails_again_and_again_does_not_mend_itself() {
        let target = node();
        for (tries, starts) in [(0, "nothing for now"), (5, "nothing for now"), (6, "this does not mend itself")] {
            let told = of("retry", Known { tries, ..by_leader(None, &target) }).unwrap();
            assert!(told.starts_with(starts), "{tries}: {told}");
        }
    }

    /// It was an outage of the cloud that may be over soon, after 14 answers that said what is wrong.
    #[test]
    fn a_clear_no_of_the_cloud_is_no_outage() {
        let target = node();
        let told = |status, tries| {
            let request =
                CloudRequest { status: Some(status), request_id: Some("r-1".into()), ..CloudRequest::default() };
            of("retry", Known { tries, ..by_leader(Some(&request), &target) }).unwrap()
        };
        for status in [400, 402, 405, 410, 412, 413, 415, 422, 451, 499] {
            for tries in [1, 6] {
                let told = told(status, tries);
                let starts = "correct what the cloud's answer names: it refuses this request, so this is no outage";
                assert!(told.starts_with(starts), "{status}: {told}");
            }
        }
        // These may be over by themselves, or are not about the request. Of a proxy is the 407.
        for status in [399, 401, 403, 404, 407, 408, 409, 423, 425, 429, 500, 503] {
            assert!(told(status, 1).starts_with("nothing, if the cloud has an outage"), "{status}");
        }
    }

    #[test]
    fn after_many_failures_nobody_is_told_to_do_nothing() {
        let target = node();
        let answered = CloudRequest { status: Some(503), ..CloudRequest::default() };
        let named = CloudRequest { request_id: Some("r-1".into()), ..answered.clone() };
        for (request, says) in [
            (named, "check network, proxy and the cloud's status page; give the request ID to the cloud's support"),
            (answered, "check network, proxy and the cloud's status page"),
            (CloudRequest::default(), "check network and proxy: `wasm-ccm doctor --online` says what is in the way"),
        ] {
            let told = |tries| of("retry", Known { tries, ..by_leader(Some(&request), &target) }).unwrap();
            let few = format!("nothing, if the cloud has an outage: the host retries; else {says}");
            assert_eq!((told(0), told(5)), (few.clone(), few));
            assert_eq!(told(6), format!("the host retries, and waiting alone has not helped so far: {says}"));
        }
    }

    /// Nobody had asked the leader, and the message held the failed request.
    #[test]
    fn only_a_leader_says_that_no_request_is_known() {
        let target = node();
        for speaker in [Speaker::Object, Speaker::ObjectAlone] {
            let told = of("retry", Known { speaker, ..by_leader(None, &target) }).unwrap();
            let says = match speaker {
                Speaker::ObjectAlone => "when a host leads again, run this command again to see the request",
                _ => "Only the leader knows the request to the cloud",
            };
            assert!(told.contains(says), "{told}");
            assert!(!told.contains("is known to have failed"), "{told}");
        }
        for reaction in ALL {
            let told = of(reaction.as_str(), Known { speaker: Speaker::ObjectAlone, ..by_leader(None, &target) });
            assert!(!told.iter().any(|told| told.contains("the host")), "{told:?}");
        }
    }
}
