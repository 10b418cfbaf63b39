//! TLS certificates.

use std::time::Duration;

use ccm_sdk::types::Failure;

use crate::api::{CLOUD, PER_PAGE, about, paging};

/// Certificates change every few months; a hundred Services with the same one ask once.
const SHARE: Duration = Duration::from_secs(30);

ccm_sdk::records! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Certificate {
        pub(crate) id: String [id],
        pub(crate) name: String,
        /// `custom` or `lets_encrypt`.
        pub(crate) kind: String = "type",
        /// `pending`, `verified` or `error`.
        pub(crate) state: String,
    }
}

pub(crate) fn get(id: &str) -> Result<Option<Certificate>, Failure> {
    let answer = CLOUD.get("/v2/certificates/{id}").arg("id", id).share(SHARE).send()?.optional()?;
    answer.map(|answer| about(answer.json_at("/certificate")?, |found: &Certificate| &found.id, id)).transpose()
}

/// Names are unique in an account.
pub(crate) fn named(name: &str) -> Result<Option<Certificate>, Failure> {
    let found = CLOUD
        .get("/v2/certificates")
        .query("name", name)
        .share(SHARE)
        .list::<Certificate>(paging("/certificates", PER_PAGE))?;
    Ok(found.into_iter().find(|certificate| certificate.name == name))
}
