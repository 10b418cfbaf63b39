//! The certificate of a load balancer.
//!
//! A renewal by Let's Encrypt makes a certificate with a new ID and the same name, removes the old one, and changes load
//! balancers by itself. A Service that names the ID then names what is gone: what the load balancer has counts. The
//! annotation stays as people wrote it.

use std::time::Duration;

use ccm_sdk::annotations::field;
use ccm_sdk::cache;
use ccm_sdk::types::{Failure, Problem};

use crate::annotations as names;
use crate::api::balancers::Balancer;
use crate::api::certificates;
use crate::service_spec::Certificate;

/// A certificate that is missing is made by people, and one that is pending becomes verified.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How long it is known that one is missing: it is asked for alone until it is there, and no load balancer is written in vain.
const REMEMBERED: Duration = Duration::from_secs(3_600);

const LETS_ENCRYPT: &str = "lets_encrypt";

/// ID of the one that the Service names.
///
/// # Errors
///
/// None has that name, or the cloud cannot be asked.
fn resolve(certificate: &Certificate) -> Result<Option<String>, Failure> {
    let name = match certificate {
        Certificate::None => return Ok(None),
        Certificate::Id(id) => return Ok(Some(id.clone())),
        Certificate::Name(name) => name,
    };
    match certificates::named(name)? {
        Some(found) => usable(found).map(Some),
        None => {
            let message = format!(
                "certificate with name: {name:?} not found; annotation {} must be the name of a certificate of the account",
                names::CERTIFICATE_NAME
            );
            Err(Failure::retry(message).after(LOOK_AGAIN).annotation(names::CERTIFICATE_NAME))
        }
    }
}

/// The cloud refuses any other.
fn usable(found: certificates::Certificate) -> Result<String, Failure> {
    let what = match found.state.as_str() {
        "pending" => "is not verified yet",
        "error" => "could not be verified; make another one",
        // Also a word of tomorrow.
        _ => return Ok(found.id),
    };
    let message = format!("certificate {:?} {what}: {} has the state {:?}", found.name, found.id, found.state);
    let failure = if found.state == "pending" { Failure::pending(message) } else { Failure::retry(message) };
    Err(failure.after(LOOK_AGAIN).annotation(names::CERTIFICATE_NAME))
}

/// The one that the Service names, where a load balancer has it already: whatever its state is, it serves.
fn serving(certificate: &Certificate, balancer: &Balancer) -> Option<String> {
    let Certificate::Name(name) = certificate else { return None };
    let found = certificates::named(name).ok()??;
    balancer.forwarding_rules.iter().any(|rule| rule.certificate_id == found.id).then_some(found.id)
}

/// The one of a new load balancer.
///
/// # Errors
///
/// As [`resolve`], or it was missing before and is so still.
pub(crate) fn of_new(certificate: &Certificate) -> Result<Option<String>, Failure> {
    resolve(certificate)?.map(present).transpose()
}

/// One that was missing is looked for before a load balancer is asked for it again.
fn present(id: String) -> Result<String, Failure> {
    let was_missing = cache::get(&missing_key(&id)).is_some();
    if was_missing && is_missing(&id) { Err(missing(Some(&id))) } else { Ok(id) }
}

/// What a load balancer that exists should have.
#[derive(Debug, Default)]
pub(crate) struct ExpectedCertificate {
    /// ID of its certificate, if it should have one.
    pub(crate) id: Option<String>,
    /// What is wrong with what the Service names, which does not count.
    pub(crate) remark: Option<Problem>,
}

/// The one that a load balancer should have.
///
/// # Errors
///
/// As [`of_new`].
pub(crate) fn of_existing(certificate: &Certificate, balancer: &Balancer) -> Result<ExpectedCertificate, Failure> {
    let asked = match resolve(certificate) {
        Err(failure) => Some(serving(certificate, balancer).ok_or(failure)?),
        Ok(asked) => asked,
    };
    let Some(asked) = asked else { return Ok(ExpectedCertificate::default()) };
    let as_asked = |asked| Ok(ExpectedCertificate { id: Some(present(asked)?), remark: None });
    let mut ids = balancer.forwarding_rules.iter().map(|rule| &rule.certificate_id);
    // People write IDs in any case. What the load balancer has in another one does not differ.
    let asked = ids.clone().find(|id| id.eq_ignore_ascii_case(&asked)).cloned().unwrap_or(asked);
    let Some(has) = ids.find(|id| !id.is_empty() && **id != asked) else { return as_asked(asked) };
    let Some(present) = certificates::get(has)?.filter(|present| present.kind == LETS_ENCRYPT) else {
        return as_asked(asked);
    };
    match certificates::get(&asked)? {
        Some(other) if other.name != present.name => as_asked(asked),
        Some(_) => as_asked(present.id),
        None => {
            // A mistake looks like a certificate that was renewed: neither is there.
            let remark = matches!(certificate, Certificate::Id(_)).then(|| gone(&asked, &present, balancer));
            Ok(ExpectedCertificate { id: Some(present.id), remark })
        }
    }
}

fn gone(asked: &str, present: &certificates::Certificate, balancer: &Balancer) -> Problem {
    let message = format!(
        "annotation {} has the value {asked:?}, which is the ID of no certificate; load balancer {} keeps the one of Let's Encrypt that it has, {:?}: if that is its renewal, name it by {}: {:?}, which stays right, and else give the ID of one that exists",
        names::CERTIFICATE_ID,
        balancer.id,
        present.id,
        names::CERTIFICATE_NAME,
        present.name
    );
    Problem::harmless(field(names::CERTIFICATE_ID), message)
}

fn missing_key(id: &str) -> String {
    format!("missing certificate {id}")
}

/// Whether the cloud says that there is none with that ID, after it has not found something that a load balancer should have.
/// A token that may not read certificates, and trouble, prove nothing.
pub(crate) fn is_missing(id: &str) -> bool {
    let missing = matches!(certificates::get(id), Ok(None));
    if missing {
        cache::put(&missing_key(id), b"", REMEMBERED);
    } else {
        cache::forget(&missing_key(id));
    }
    missing
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
