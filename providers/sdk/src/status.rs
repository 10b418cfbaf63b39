//! Maps a status, or a missing answer, to the reaction of the host. No other module does.

use crate::http::{TransportError, TransportReason};
use crate::types::{Failure, Reaction};

/// `absent`: the cloud itself says that the thing does not exist.
pub(crate) fn reaction(status: u16, absent: bool) -> Reaction {
    match status {
        // 403 and 407 as well: the credentials do not suffice, and a person has to change that.
        401 | 403 | 407 => Reaction::Unauthorized,
        402 | 507 => Reaction::Quota,
        _ if absent => Reaction::Conflict,
        // Something on the way does not know the way, or the cloud wants the request once more.
        404 | 410 | 408 | 421 | 425 => Reaction::Retry,
        405 | 406 | 501 | 505 => Reaction::Unsupported,
        409 | 412 | 423 | 428 => Reaction::Conflict,
        429 => Reaction::Throttled,
        // 400, 413, 422 and those that nobody has defined, too: the same words blame the object, the account, the operator's
        // settings, or what has just not been there. Only the provider can tell, in its exceptions: the object would not be
        // tried again for half a day.
        _ => Reaction::Retry,
    }
}

/// Whether the cloud says no to the request as such, for a reason that is not known.
pub(crate) fn is_no(status: u16) -> bool {
    (400..=499).contains(&status)
        && !matches!(status, 404 | 408 | 410 | 421 | 425)
        && reaction(status, false) == Reaction::Retry
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        let reaction = match error.reason {
            // Neither is the object wrong, nor can it never work: a grant or a credential is missing. A person has to add
            // it, and until then it is worth an alarm and a slow retry.
            TransportReason::Denied | TransportReason::UnknownCredential => Reaction::Unauthorized,
            // Neither now nor later: the cloud does not have the service, or nobody said where it is.
            TransportReason::Unbound => Reaction::Unsupported,
            // A certificate is often renewed without anybody touching this configuration.
            TransportReason::Connect | TransportReason::Tls | TransportReason::Timeout | TransportReason::Other => {
                Reaction::Retry
            }
            // The limit is the operator's; what the cloud has may become less. To fetch it again soon is a waste.
            TransportReason::TooLarge => Reaction::Quota,
            TransportReason::Throttled => Reaction::Throttled,
            TransportReason::ReadOnly => Reaction::Unsupported,
        };
        Self { retry_after_ms: error.retry_after_ms, ..Self::new(reaction, error.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_reaction() {
        for (status, expected) in [
            (100, Reaction::Retry),
            (302, Reaction::Retry),
            (400, Reaction::Retry),
            (401, Reaction::Unauthorized),
            (402, Reaction::Quota),
            (403, Reaction::Unauthorized),
            (404, Reaction::Retry),
            (405, Reaction::Unsupported),
            (406, Reaction::Unsupported),
            (407, Reaction::Unauthorized),
            (408, Reaction::Retry),
            (409, Reaction::Conflict),
            (410, Reaction::Retry),
            (412, Reaction::Conflict),
            (413, Reaction::Retry),
            (414, Reaction::Retry),
            (415, Reaction::Retry),
            (418, Reaction::Retry),
            (421, Reaction::Retry),
            (422, Reaction::Retry),
            (423, Reaction::Conflict),
            (425, Reaction::Retry),
            (428, Reaction::Conflict),
            (429, Reaction::Throttled),
            (431, Reaction::Retry),
            (499, Reaction::Retry),
            (500, Reaction::Retry),
            (501, Reaction::Unsupported),
            (502, Reaction::Retry),
            (503, Reaction::Retry),
            (504, Reaction::Retry),
            (505, Reaction::Unsupported),
            (507, Reaction::Quota),
            (511, Reaction::Retry),
            (599, Reaction::Retry),
            (999, Reaction::Retry),
        ] {
            assert_eq!(reaction(status, false), expected, "{status}");
        }
    }

    #[test]
    fn a_no_is_what_neither_credentials_nor_time_will_change() {
        let no = |status: &u16| is_no(*status);
        let said: Vec<u16> =
            [399, 400, 401, 403, 404, 408, 409, 413, 418, 422, 425, 429, 499, 500].into_iter().filter(no).collect();
        assert_eq!(said, [400, 413, 418, 422, 499]);
    }

    #[test]
    fn what_the_cloud_says_is_gone_is_a_conflict_with_what_the_caller_believed() {
        for status in [404, 410, 431] {
            assert_eq!(reaction(status, true), Reaction::Conflict, "{status}");
        }
        assert_eq!(reaction(401, true), Reaction::Unauthorized, "refused credentials prove nothing");
    }

    #[test]
    fn a_missing_answer_has_its_reaction_and_keeps_the_time_to_wait() {
        for (reason, expected) in [
            (TransportReason::Denied, Reaction::Unauthorized),
            (TransportReason::Unbound, Reaction::Unsupported),
            (TransportReason::UnknownCredential, Reaction::Unauthorized),
            (TransportReason::Connect, Reaction::Retry),
            (TransportReason::Tls, Reaction::Retry),
            (TransportReason::Timeout, Reaction::Retry),
            (TransportReason::TooLarge, Reaction::Quota),
            (TransportReason::Throttled, Reaction::Throttled),
            (TransportReason::ReadOnly, Reaction::Unsupported),
            (TransportReason::Other, Reaction::Retry),
        ] {
            let error =
                TransportError { reason, maybe_sent: false, retry_after_ms: Some(7), message: "why".to_owned() };
            let failure = Failure { retry_after_ms: Some(7), ..Failure::new(expected, "why") };
            assert_eq!(Failure::from(error), failure, "{reason:?}");
        }
    }
}
