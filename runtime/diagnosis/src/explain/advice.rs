//! What to do about what a try came to, by the reaction.

use super::target::Target;

/// What to do; nothing where the reaction is unknown.
pub(super) fn of(reaction: &str, target: &Target) -> Option<String> {
    let object = match target {
        Target::Service { .. } => "Service",
        Target::Node { .. } => "Node",
    };
    let text = match reaction {
        "retry" => {
            "nothing, if the cloud has an outage: the host retries; else check network, proxy and the cloud's status, with the request ID"
        }
        "throttled" => {
            "wait: the cloud takes no more requests for now; if it stays, lower requests-per-second, or ask who else uses the account"
        }
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
            assert!(of(reaction.as_str(), &target).is_some(), "{reaction:?}");
            assert!(meaning(reaction.as_str()).is_some(), "{reaction:?}");
        }
        for reaction in ["api", "absent"] {
            assert!(of(reaction, &target).is_some() && meaning(reaction).is_some(), "{reaction}");
        }
        assert_eq!((of("", &target), meaning("")), (None, None));
        assert!(of("invalid", &target).unwrap().contains("Node"));
    }
}
