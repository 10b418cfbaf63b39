//! What to do about what a try came to, by the reaction.

use ccm_controllers::CloudRequest;

use super::target::Target;
use crate::throttled;

/// What to do; nothing where the reaction is unknown. `request`: the one behind it, where the host saw one fail.
pub(super) fn of(reaction: &str, request: Option<&CloudRequest>, target: &Target) -> Option<String> {
    let object = match target {
        Target::Service { .. } => "Service",
        Target::Node { .. } => "Node",
    };
    let error = request.and_then(|request| request.error.as_deref()).unwrap_or_default();
    let text = match reaction {
        "retry" if request.is_none() => {
            "nothing for now: the host retries. No request to the cloud is known to have failed: if it stays, do what the message says, and look in the log of the host for what else the component says"
        }
        "retry" => {
            "nothing, if the cloud has an outage: the host retries; else check network, proxy and the cloud's status, with the request ID"
        }
        "throttled" => return Some(throttled::advice(request)),
        // The account and its credentials have no part in it: the host refused the request, or its answer.
        "unauthorized" if error == "denied" => {
            "grant what the message names, if the provider is to have it: docs/guides/configure-a-provider.md, \"Grants\""
        }
        "unauthorized" if error == "unknown-credential" => "give the credential that the message names (--credential)",
        "quota" if error == "too-large" => "raise the limit of the host that the message names, if that size is right",
        "pending" => "wait: the cloud is at work",
        "unauthorized" => {
            "check and rotate the credential (docs/guides/rotate-credentials.md); the host retries at once when it changes"
        }
        "conflict" => "find out who else changes the same thing in the cloud; the host retries",
        "quota" => "raise the limit of the account, or delete what nobody uses; the host retries slowly",
        "unsupported" => {
            "take out what the cloud cannot do, or use another class or component; the host retries slowly"
        }
        "elsewhere" => "nothing here: another manager takes care of it",
        "api" => "check the API server and the rights of the host (manifests/base/rbac.yaml)",
        "absent" => {
            "check that the machine exists in the account and region of the provider, under the name of the Node"
        }
        "invalid" => {
            return Some(format!(
                "correct the field that the message names on the {object}: nothing is retried before it changes"
            ));
        }
        _ => return None,
    };
    Some(text.to_owned())
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

    #[test]
    fn there_is_something_to_do_about_each_reaction() {
        let target = Target::Node { name: "n1".into() };
        let all = [
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
        for reaction in all {
            assert!(of(reaction.as_str(), None, &target).is_some(), "{reaction:?}");
            assert!(meaning(reaction.as_str()).is_some(), "{reaction:?}");
        }
        for reaction in ["api", "absent"] {
            assert!(of(reaction, None, &target).is_some() && meaning(reaction).is_some(), "{reaction}");
        }
        assert_eq!((of("", None, &target), meaning("")), (None, None));
        assert!(of("invalid", None, &target).unwrap().contains("Node"));
    }

    /// Whoever read it looked for a firewall, and the component had never asked for anything.
    #[test]
    fn network_account_and_credentials_are_blamed_only_where_a_request_is_known_that_they_could_have_stopped() {
        let target = Target::Node { name: "n1".into() };
        let failed = |error: &str| CloudRequest { error: Some(error.into()), ..CloudRequest::default() };
        let answered = CloudRequest { status: Some(503), ..CloudRequest::default() };
        for (reaction, request, says, not) in [
            ("retry", None, "do what the message says", "network"),
            ("retry", Some(answered.clone()), "check network, proxy and the cloud's status", "No request"),
            ("unauthorized", None, "rotate the credential", "grant"),
            ("unauthorized", Some(answered.clone()), "rotate the credential", "grant"),
            ("unauthorized", Some(failed("denied")), "grant what the message names", "rotate"),
            ("unauthorized", Some(failed("unknown-credential")), "--credential", "rotate"),
            ("quota", Some(answered), "limit of the account", "host that"),
            ("quota", Some(failed("too-large")), "raise the limit of the host", "account"),
        ] {
            let told = of(reaction, request.as_ref(), &target).unwrap();
            assert!(told.contains(says) && !told.contains(not), "{reaction} {request:?}: {told}");
        }
    }
}
