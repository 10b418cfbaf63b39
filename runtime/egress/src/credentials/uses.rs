//! The places where a credential may stand.

mod pin;

use std::collections::BTreeMap;

use ccm_cloud::{Credential, CredentialUse, Place};

pub(crate) use pin::Pin;

use crate::error::Refusal;

/// What `meta.describe` declared of all credentials.
pub(crate) struct Uses(BTreeMap<String, Vec<CredentialUse>>);

/// A place in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot<'a> {
    /// Name of the endpoint.
    pub endpoint: &'a str,
    /// Path of the request, without the base URL's.
    pub path: &'a str,
    /// Part of the request.
    pub place: At<'a>,
}

/// Part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At<'a> {
    /// The header of that name.
    Header(&'a str),
    /// The query value of that name.
    Query(&'a str),
    /// The body.
    Body,
}

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header {name:?}"),
            Self::Query(name) => write!(f, "the query value {name:?}"),
            Self::Body => f.write_str("the body"),
        }
    }
}

impl Uses {
    pub(super) fn new(declared: &[Credential]) -> Self {
        Self(declared.iter().map(|credential| (credential.name.clone(), credential.uses.clone())).collect())
    }

    /// Whether there is such a credential.
    #[must_use]
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a credential may stand at `header` of requests to `endpoint`: then the header is not one that a provider may
    /// not set.
    #[must_use]
    pub(crate) fn declares_header(&self, endpoint: &str, header: &str) -> bool {
        let here = |used: &CredentialUse| {
            used.endpoint == endpoint && matches!(&used.place, Place::Header(name) if name.eq_ignore_ascii_case(header))
        };
        self.0.values().flatten().any(here)
    }

    /// Whether the value itself may stand at `spot`.
    ///
    /// # Errors
    ///
    /// [`Refusal`], which names the credential and the place.
    pub(crate) fn check_secret(&self, name: &str, spot: Spot<'_>) -> Result<(), Refusal> {
        let uses = self.of(name)?;
        if uses.iter().any(|used| used.place == Place::Signing) {
            return Err(Refusal::Denied(format!("credential {name:?} is a key for signing: it never leaves itself")));
        }
        check_spot(name, uses, spot)
    }

    /// Whether a signature by `name` may stand at `spot`.
    ///
    /// # Errors
    ///
    /// As [`check_secret`](Self::check_secret).
    pub(crate) fn check_signature(&self, name: &str, spot: Spot<'_>) -> Result<(), Refusal> {
        let uses = self.of(name)?;
        let signs = |used: &CredentialUse| {
            used.place == Place::Signing && used.endpoint == spot.endpoint && fits(used, spot.path)
        };
        if !uses.iter().any(signs) {
            return Err(Refusal::Denied(format!(
                "credential {name:?} is not declared for signing requests to endpoint {:?}",
                spot.endpoint
            )));
        }
        check_spot(name, uses, spot)
    }

    /// Whether the value may be part of what is signed for `endpoint`: the signature does not show it.
    ///
    /// # Errors
    ///
    /// As [`check_secret`](Self::check_secret).
    pub(crate) fn check_signed(&self, name: &str, endpoint: &str) -> Result<(), Refusal> {
        if self.of(name)?.iter().any(|used| used.endpoint == endpoint) {
            return Ok(());
        }
        Err(Refusal::Denied(format!("credential {name:?} is not declared for endpoint {endpoint:?}")))
    }

    /// Whether both may be in one request, as the halves of a pair are.
    pub(super) fn may_meet(&self, name: &str, other: &str) -> bool {
        let of = |name: &str| self.0.get(name).map(Vec::as_slice).unwrap_or_default();
        let meets = |one: &CredentialUse, two: &CredentialUse| {
            one.endpoint == two.endpoint && one.path.as_ref().is_none_or(|path| fits(two, path))
        };
        of(name).iter().any(|one| of(other).iter().any(|two| meets(one, two)))
    }

    /// Whether it is a key at all.
    pub(super) fn signs_somewhere(&self, name: &str) -> Result<(), Refusal> {
        if self.of(name)?.iter().any(|used| used.place == Place::Signing) {
            return Ok(());
        }
        Err(Refusal::Denied(format!("credential {name:?} is not declared for signing")))
    }

    fn of(&self, name: &str) -> Result<&[CredentialUse], Refusal> {
        let uses = self.0.get(name).map(Vec::as_slice);
        uses.ok_or_else(|| Refusal::Unknown(format!("credential {name:?} is not declared by the provider")))
    }
}

fn check_spot(name: &str, uses: &[CredentialUse], spot: Spot<'_>) -> Result<(), Refusal> {
    let is_here = |used: &CredentialUse| {
        used.endpoint == spot.endpoint
            && match (&used.place, spot.place) {
                (Place::Header(declared), At::Header(header)) => declared.eq_ignore_ascii_case(header),
                (Place::Query(declared), At::Query(query)) => declared == query,
                // A whole body may hold anything, so it needs the request that it is for.
                (Place::Body, At::Body) => used.path.is_some(),
                _ => false,
            }
            && fits(used, spot.path)
    };
    if uses.iter().any(is_here) {
        return Ok(());
    }
    Err(Refusal::Denied(format!(
        "credential {name:?} is not declared for {} of requests to endpoint {:?}, path {:?}",
        spot.place, spot.endpoint, spot.path
    )))
}

fn fits(used: &CredentialUse, path: &str) -> bool {
    used.path.as_ref().is_none_or(|declared| declared == path)
}

fn tell(used: &CredentialUse) -> String {
    let place = match &used.place {
        Place::Header(name) => format!("header {name:?}"),
        Place::Query(name) => format!("query value {name:?}"),
        Place::Body => "the body".to_owned(),
        Place::Signing => "signatures".to_owned(),
    };
    let path = used.path.as_ref().map(|path| format!(", path {path:?}")).unwrap_or_default();
    format!("{place} of requests to endpoint {:?}{path}", used.endpoint)
}

#[cfg(test)]
mod tests {
    use ccm_cloud::Source;

    use super::*;

    fn used(endpoint: &str, place: Place, path: Option<&str>) -> CredentialUse {
        CredentialUse { endpoint: endpoint.into(), place, path: path.map(Into::into) }
    }

    fn credential(name: &str, uses: Vec<CredentialUse>) -> Credential {
        Credential { name: name.into(), purpose: String::new(), required: false, value: Source::default(), uses }
    }

    fn uses() -> Uses {
        Uses::new(&[
            credential("token", vec![used("api", Place::Header("Authorization".into()), None)]),
            credential("password", vec![used("identity", Place::Body, Some("/v3/auth/tokens"))]),
            credential("anywhere", vec![used("identity", Place::Body, None)]),
            credential(
                "key",
                vec![
                    used("api", Place::Signing, None),
                    used("api", Place::Query("signature".into()), Some("/client/api")),
                ],
            ),
        ])
    }

    fn spot<'a>(endpoint: &'a str, path: &'a str, place: At<'a>) -> Spot<'a> {
        Spot { endpoint, path, place }
    }

    #[test]
    fn a_secret_stands_only_where_it_is_declared() {
        let cases = [
            ("token", spot("api", "/x", At::Header("authorization")), true),
            ("token", spot("api", "/x", At::Header("x-auth")), false),
            ("token", spot("api", "/x", At::Query("authorization")), false),
            ("token", spot("api", "/x", At::Body), false),
            ("token", spot("other", "/x", At::Header("authorization")), false),
            ("password", spot("identity", "/v3/auth/tokens", At::Body), true),
            ("password", spot("identity", "/v3/users", At::Body), false),
            ("anywhere", spot("identity", "/v3/users", At::Body), false),
            ("key", spot("api", "/client/api", At::Query("signature")), false),
            ("nobody", spot("api", "/x", At::Body), false),
        ];
        for (name, spot, allowed) in cases {
            assert_eq!(uses().check_secret(name, spot).is_ok(), allowed, "{name} {spot:?}");
        }
    }

    #[test]
    fn a_signature_stands_only_where_its_key_is_declared() {
        let cases = [
            ("key", spot("api", "/client/api", At::Query("signature")), true),
            ("key", spot("api", "/elsewhere", At::Query("signature")), false),
            ("key", spot("api", "/client/api", At::Query("Signature")), false),
            ("key", spot("api", "/client/api", At::Header("signature")), false),
            ("key", spot("other", "/client/api", At::Query("signature")), false),
            ("token", spot("api", "/x", At::Header("authorization")), false),
        ];
        for (name, spot, allowed) in cases {
            assert_eq!(uses().check_signature(name, spot).is_ok(), allowed, "{name} {spot:?}");
        }
        assert!(uses().check_signed("token", "api").is_ok());
        assert!(uses().check_signed("password", "api").is_err());
    }
}
