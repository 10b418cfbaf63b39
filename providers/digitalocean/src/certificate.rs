//! The certificate of a load balancer.
//!
//! A renewal by Let's Encrypt makes a certificate with a new ID and the same name, removes the old one, and changes load
//! balancers by itself. A Service that names the ID then names what is gone: what the load balancer has counts. The
//! annotation stays as people wrote it.

use std::time::Duration;

use ccm_sdk::types::Failure;

use crate::annotations as names;
use crate::api::balancers::Balancer;
use crate::api::certificates;
use crate::asked::Certificate;

/// A certificate that is missing is made by people.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

const LETS_ENCRYPT: &str = "lets_encrypt";

/// ID of the one that the Service names.
///
/// # Errors
///
/// None has that name, or the cloud cannot be asked.
pub(crate) fn resolve(certificate: &Certificate) -> Result<Option<String>, Failure> {
    let name = match certificate {
        Certificate::None => return Ok(None),
        Certificate::Id(id) => return Ok(Some(id.clone())),
        Certificate::Name(name) => name,
    };
    match certificates::named(name)? {
        Some(found) => Ok(Some(found.id)),
        None => {
            let message = format!(
                "certificate with name: {name:?} not found; annotation {} must be the name of a certificate of the account",
                names::CERTIFICATE_NAME
            );
            Err(Failure::retry(message).after(LOOK_AGAIN).annotation(names::CERTIFICATE_NAME))
        }
    }
}

/// The one that a load balancer should have.
///
/// # Errors
///
/// As [`resolve`].
pub(crate) fn of_existing(certificate: &Certificate, balancer: &Balancer) -> Result<Option<String>, Failure> {
    let Some(asked) = resolve(certificate)? else { return Ok(None) };
    let mut ids = balancer.forwarding_rules.iter().map(|rule| &rule.certificate_id);
    let Some(has) = ids.find(|id| !id.is_empty() && **id != asked) else { return Ok(Some(asked)) };
    let Some(present) = certificates::get(has)?.filter(|present| present.kind == LETS_ENCRYPT) else {
        return Ok(Some(asked));
    };
    let renewed = certificates::get(&asked)?.is_none_or(|other| other.name == present.name);
    Ok(Some(if renewed { present.id } else { asked }))
}

/// The cloud does not find what a load balancer should have.
pub(crate) fn missing(certificate: Option<&str>) -> Failure {
    let message = match certificate {
        Some(id) => format!(
            "the cloud does not find certificate {id}, which the load balancer should have; annotations {} and {} say which",
            names::CERTIFICATE_ID,
            names::CERTIFICATE_NAME
        ),
        None => "the cloud does not find something that the load balancer should have: its VPC, subnet or droplets"
            .to_owned(),
    };
    let failure = Failure::retry(message).after(LOOK_AGAIN);
    if certificate.is_some() { failure.annotation(names::CERTIFICATE_ID) } else { failure }
}
