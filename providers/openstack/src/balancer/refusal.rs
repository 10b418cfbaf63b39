//! What a refusal blames. A Service waits for a change of its own only where it is certain that a field of it is wrong: with the same
//! status come what passes by itself, and what the operator has to mend.
//!
//! | the cloud says | what becomes of it |
//! |---|---|
//! | an address that the Service asks for is taken | is asked for again soon: it may be given up |
//! | a value of the Service is none that Octavia takes, or its provider has | waits for the Service to change |
//! | any other no | is asked for again slowly |

use std::time::Duration;

use ccm_sdk::Answer;
use ccm_sdk::types::{Failure, Reaction, Service};

use crate::annotations as names;
use crate::api::exceptions;

/// The field with the address that a Service asks for.
pub(super) const ADDRESS: &str = "spec.loadBalancerIP";
/// When to look again for what somebody may give up, or has yet to bring.
pub(super) const SOON: Duration = Duration::from_secs(60);
/// When to ask again for what was refused.
pub(super) const SLOWLY: Duration = Duration::from_secs(300);

/// Octavia's names of what annotations say.
const ATTRIBUTES: [(&str, &str); 17] = [
    ("lb_algorithm", names::METHOD),
    ("connection_limit", names::CONNECTION_LIMIT),
    ("timeout_client_data", names::TIMEOUT_CLIENT_DATA),
    ("timeout_member_connect", names::TIMEOUT_MEMBER_CONNECT),
    ("timeout_member_data", names::TIMEOUT_MEMBER_DATA),
    ("timeout_tcp_inspect", names::TIMEOUT_TCP_INSPECT),
    ("default_tls_container_ref", names::TLS_CONTAINER),
    ("vip_network_id", names::NETWORK),
    ("vip_subnet_id", names::SUBNET),
    ("vip_port_id", names::PORT),
    ("flavor_id", names::FLAVOR),
    ("availability_zone", names::AVAILABILITY_ZONE),
    ("subnet_id", names::MEMBER_SUBNET),
    ("delay", names::MONITOR_DELAY),
    ("timeout", names::MONITOR_TIMEOUT),
    ("max_retries", names::MONITOR_MAX_RETRIES),
    ("max_retries_down", names::MONITOR_MAX_RETRIES_DOWN),
];

/// Whether Octavia says no to a write as such. Its own failures, and what it is at work on, are something else.
pub(super) fn is_no(answer: &Answer) -> bool {
    matches!(answer.status(), 400 | 422 | 501) && exceptions(answer).is_none()
}

/// Whether a failure is a clear no to one thing: others may be had all the same.
pub(super) fn is_final(failure: &Failure) -> bool {
    match failure.reaction {
        Reaction::Conflict | Reaction::Invalid | Reaction::Quota | Reaction::Unsupported => true,
        Reaction::Retry => failure.retry_after_ms == Failure::retry("").after(SLOWLY).retry_after_ms,
        _ => false,
    }
}

/// A good answer to a write of Octavia, or what to make of it.
///
/// # Errors
///
/// It is none.
pub(super) fn judged(answer: Answer, service: &Service) -> Result<Answer, Failure> {
    // Its provider does not like an address, and Octavia says 500.
    if answer.status() == 500 && asks_for_named(&answer, service) {
        if answer.says("already allocated in subnet") {
            return Err(answer.failure(Reaction::Conflict).field(ADDRESS).after(SOON));
        }
        if answer.says("is not a valid ip for") {
            return Err(answer.failure(Reaction::Invalid).field(ADDRESS));
        }
    }
    if !is_no(&answer) {
        return answer.ok();
    }
    Err(match blamed(&answer, service) {
        Some(name) => answer.failure(Reaction::Invalid).annotation(name),
        None if answer.status() == 501 => answer.failure(Reaction::Unsupported).after(SLOWLY),
        None => answer.failure(Reaction::Retry).after(SLOWLY),
    })
}

/// Whether it is about the address that the Service asks for. One of IPv6 may come back in another spelling.
fn asks_for_named(answer: &Answer, service: &Service) -> bool {
    let asked = service.requested_ip.as_deref().filter(|asked| !asked.is_empty());
    asked.is_some_and(|asked| answer.says(asked) || asked.contains(':'))
}

/// The annotation whose value is certainly refused.
fn blamed(answer: &Answer, service: &Service) -> Option<&'static str> {
    let asked = |name: &str| service.annotation(name).map(str::trim).filter(|value| !value.is_empty());
    let is_refused = |(attribute, name): &&(&str, &str)| {
        asked(name).is_some_and(|value| {
            answer.says(&format!("invalid input for field/attribute {attribute}. value: '{value}'"))
                || (*name == names::METHOD && answer.says(&format!("does not support {value} algorithm")))
        })
    };
    ATTRIBUTES.iter().find(is_refused).map(|(_, name)| *name)
}

/// Tells two failures as one. It is tried again as the sooner of them would be, waits for the Service to change only where both do, and
/// names the field of the one that does.
pub(super) fn both<T>(failure: Failure, other: Result<T, Failure>) -> Failure {
    let Err(other) = other else { return failure };
    let message = format!("{}; {}", failure.message, other.message);
    let is_others = other.reaction == Reaction::Invalid && failure.reaction != Reaction::Invalid;
    let (one, two) = if is_others { (&other, &failure) } else { (&failure, &other) };
    let field = one.field.clone().or_else(|| two.field.clone());
    let sooner = if turn(&other) < turn(&failure) { other } else { failure };
    Failure { message, field, ..sooner }
}

/// Whose turn is first: a cloud that wants to be left alone is, and what is waited for stays.
fn turn(failure: &Failure) -> (u8, u32) {
    let place = match failure.reaction {
        Reaction::Throttled => 0,
        Reaction::Pending => 1,
        Reaction::Retry | Reaction::Conflict => 2,
        Reaction::Unauthorized | Reaction::Quota | Reaction::Unsupported => 3,
        Reaction::Invalid | Reaction::Elsewhere => 4,
    };
    (place, failure.retry_after_ms.unwrap_or(0))
}

/// A value that cannot be, of an annotation or of a place in the configuration. That one is for the operator to mend, at any time.
pub(super) fn of_value(annotation: &str, place: Option<String>, message: &str) -> Failure {
    match place {
        None => Failure::invalid(message).annotation(annotation),
        Some(place) => Failure::retry(format!("{place}: {message}")).after(SLOWLY),
    }
}
