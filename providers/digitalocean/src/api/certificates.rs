//! TLS certificates.

use std::time::Duration;

use ccm_sdk::types::Failure;
use serde::Deserialize;

use crate::api::{CLOUD, about, list, or_default, paging};

/// Certificates change every few months; a hundred Services with the same one ask once.
const SHARE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Certificate {
    pub(crate) id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// `custom` or `lets_encrypt`.
    #[serde(default, deserialize_with = "or_default", rename = "type")]
    pub(crate) kind: String,
    /// `pending`, `verified` or `error`.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) state: String,
}

#[derive(Deserialize)]
struct One {
    certificate: Certificate,
}

list!(Many, certificates, Certificate, |certificate| certificate.id.clone());

pub(crate) fn get(id: &str) -> Result<Option<Certificate>, Failure> {
    let answer = CLOUD.get("/v2/certificates/{id}").arg("id", id).share(SHARE).send()?.optional()?;
    answer.map(|answer| about(answer.json::<One>()?.certificate, |found| &found.id, id)).transpose()
}

/// Names are unique in an account.
pub(crate) fn named(name: &str) -> Result<Option<Certificate>, Failure> {
    let found = CLOUD.get("/v2/certificates").query("name", name).share(SHARE).list::<Many>(paging())?;
    Ok(found.into_iter().find(|certificate| certificate.name == name))
}
