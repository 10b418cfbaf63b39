//! The places where a credential may stand: those that the component declares, as far as they need no grant or have one.

mod pin;

use std::collections::BTreeMap;

use ccm_cloud::{Credential, CredentialUse, Place};

pub(crate) use pin::Pin;

use super::grant::{UseGrant, UseGrants, Within, needs_no_grant};
use crate::error::CredentialRefusal;
use crate::http::CaptureSource;
use crate::one_line::{line, pasted};

/// Longest pointer in a message, in bytes.
const MAX_SHOWN: usize = 256;

/// What `meta.describe` declared of all credentials, and what the operator grants of it.
pub(crate) struct Uses {
    declared: BTreeMap<String, Vec<CredentialUse>>,
    granted: UseGrants,
    /// Credentials of the same value, each name with the others: the component chooses the names.
    others: BTreeMap<String, Vec<String>>,
}

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
    pub(super) fn new(declared: &[Credential], granted: UseGrants) -> Self {
        let declared = declared.iter().map(|credential| (credential.name.clone(), credential.uses.clone()));
        Self { declared: declared.collect(), granted, others: BTreeMap::new() }
    }

    /// The same, where each of these credentials has its value from this place: two names of one value are one credential.
    pub(super) fn valued<P: PartialEq>(mut self, places: &[(&str, P)]) -> Self {
        for (name, place) in places {
            let others = places.iter().filter(|(other, same)| other != name && same == place);
            self.others.insert((*name).to_owned(), others.map(|(other, _)| (*other).to_owned()).collect());
        }
        self
    }

    /// Whether there is such a credential.
    #[must_use]
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    /// The grants, as flags, without which a credential cannot be used as the component declares. None where it needs none.
    /// Grants replace what needs none: whoever names one use names all.
    #[must_use]
    pub(crate) fn missing(&self, name: &str) -> Vec<String> {
        let declared = self.declared.get(name).map(Vec::as_slice).unwrap_or_default();
        // What is nowhere allowed needs no grant either: a body without a path.
        let wants = declared.iter().filter(|used| used.place != Place::Body || used.path.is_some());
        wants.filter(|used| !self.is_granted(name, used)).map(|used| flag(name, &UseGrant::of(used))).collect()
    }

    fn is_granted(&self, name: &str, used: &CredentialUse) -> bool {
        match self.granted.get(name) {
            Some(granted) => granted.iter().any(|grant| grant.covers(used)),
            None => {
                let others = || self.others.get(name).into_iter().flatten();
                let names = others().map(String::as_str).chain([name]);
                let uses: Vec<_> = names.filter_map(|name| self.declared.get(name)).flatten().cloned().collect();
                // Whoever names one use names all, also under another name.
                !others().any(|other| self.granted.contains_key(other)) && needs_no_grant(&uses)
            }
        }
    }

    fn grants(&self, name: &str) -> &[UseGrant] {
        self.granted.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a component may see what is answered to a request with this credential in its body, or a signature by it. Such a request is a
    /// login, whose answer has another secret.
    #[must_use]
    pub(crate) fn shows_answer(&self, name: &str, endpoint: &str, path: &str) -> bool {
        self.grants(name).iter().any(|grant| grant.shows_answer(endpoint, path))
    }

    /// Whether this credential, or a signature by it, may stand at this place of the body of requests to a path.
    ///
    /// # Errors
    ///
    /// [`CredentialRefusal::Denied`], with the grant that is missing.
    pub(crate) fn check_body(
        &self,
        name: &str,
        endpoint: &str,
        path: &str,
        at: &Within,
    ) -> Result<(), CredentialRefusal> {
        if self.grants(name).iter().any(|grant| grant.is_within(endpoint, path, at)) {
            return Ok(());
        }
        let place = match at {
            Within::Json(pointer) => format!("at {:?} of a JSON body", line(pointer, MAX_SHOWN)),
            Within::Form(field) => format!("in the field {:?} of a form", line(field, MAX_SHOWN)),
            Within::Other => "in a body that is neither JSON nor a form".to_owned(),
        };
        let flag = flag(name, &UseGrant::within(endpoint, path, at));
        let is_body = |grant: &&UseGrant| grant.is_whole_body();
        let instead: Vec<String> =
            self.grants(name).iter().filter(is_body).map(|grant| self::flag(name, grant)).collect();
        let instead = if instead.is_empty() { String::new() } else { format!(" in place of {}", instead.join(" ")) };
        Err(CredentialRefusal::Denied(format!(
            "credential {name:?} is not granted {place}: if that is where the cloud's logins have it, the operator gives {flag}{instead}"
        )))
    }

    /// Whether an answer may give this credential its value, at this place.
    ///
    /// # Errors
    ///
    /// [`CredentialRefusal::Denied`], with the grant that is missing.
    pub(crate) fn check_capture(
        &self,
        name: &str,
        endpoint: &str,
        path: &str,
        source: &CaptureSource,
    ) -> Result<(), CredentialRefusal> {
        self.of(name)?;
        if self.grants(name).iter().any(|grant| grant.captures(endpoint, path, source)) {
            return Ok(());
        }
        let flags: Vec<String> =
            self.missing(name).into_iter().chain([flag(name, &UseGrant::capture(endpoint, path, source))]).collect();
        Err(CredentialRefusal::Denied(format!(
            "nothing may be captured as credential {name:?} there: if the cloud's logins give it so, the operator gives {}",
            flags.join(" ")
        )))
    }

    /// Whether a key may sign whatever the component says.
    pub(crate) fn signs_anything(&self, name: &str, endpoint: &str, path: &str) -> bool {
        self.grants(name).iter().any(|grant| grant.signs_anything(endpoint, path))
    }

    /// Why a key does not sign what says something else than the request.
    pub(crate) fn refused_signing(&self, name: &str, spot: Spot<'_>) -> CredentialRefusal {
        let declared = self.declared.get(name).map(Vec::as_slice).unwrap_or_default();
        let all = declared.iter().map(|used| match used.place {
            Place::Signing if used.endpoint == spot.endpoint => flag(name, &UseGrant::of(used).wider()),
            _ => flag(name, &UseGrant::of(used)),
        });
        CredentialRefusal::Denied(format!(
            "the key {name:?} signs only lines that say what the request says, (request-target) among them; if the cloud wants something else signed, the operator gives {}",
            all.collect::<Vec<_>>().join(" ")
        ))
    }

    /// Whether a credential may stand at `header` of requests to `endpoint`: then the header is not one that a provider may
    /// not set.
    #[must_use]
    pub(crate) fn declares_header(&self, endpoint: &str, header: &str) -> bool {
        let here = |used: &CredentialUse| {
            used.endpoint == endpoint && matches!(&used.place, Place::Header(name) if name.eq_ignore_ascii_case(header))
        };
        self.declared.values().flatten().any(here)
    }

    /// Whether a credential belongs into the query value of that name of requests to `endpoint`. Some clouds do not mind the case of a name.
    #[must_use]
    pub(crate) fn declares_query(&self, endpoint: &str, query: &str) -> bool {
        let here = |used: &CredentialUse| {
            used.endpoint == endpoint && matches!(&used.place, Place::Query(name) if name.eq_ignore_ascii_case(query))
        };
        self.declared.values().flatten().any(here)
    }

    /// Whether the value itself may stand at `spot`.
    ///
    /// # Errors
    ///
    /// [`CredentialRefusal`], which names the credential and the place.
    pub(crate) fn check_secret(&self, name: &str, spot: Spot<'_>) -> Result<(), CredentialRefusal> {
        let uses = self.of(name)?;
        if uses.iter().any(|used| used.place == Place::Signing) {
            return Err(CredentialRefusal::Denied(format!(
                "credential {name:?} is a key for signing: it never leaves itself"
            )));
        }
        self.check_spot(name, uses, spot)
    }

    /// Whether a signature by `name` may stand at `spot`.
    ///
    /// # Errors
    ///
    /// As [`check_secret`](Self::check_secret).
    pub(crate) fn check_signature(&self, name: &str, spot: Spot<'_>) -> Result<(), CredentialRefusal> {
        let uses = self.of(name)?;
        let signs = |used: &CredentialUse| {
            used.place == Place::Signing && used.endpoint == spot.endpoint && fits(used, spot.path)
        };
        let Some(used) = uses.iter().find(|used| signs(used)) else {
            return Err(CredentialRefusal::Denied(format!(
                "credential {name:?} is not declared for signing requests to endpoint {:?}",
                spot.endpoint
            )));
        };
        self.check_granted(name, used)?;
        self.check_spot(name, uses, spot)
    }

    /// Whether the value may be part of what is signed for `endpoint`: the signature does not show it.
    ///
    /// # Errors
    ///
    /// As [`check_secret`](Self::check_secret).
    pub(crate) fn check_signed(&self, name: &str, endpoint: &str) -> Result<(), CredentialRefusal> {
        let Some(used) = self.of(name)?.iter().find(|used| used.endpoint == endpoint) else {
            return Err(CredentialRefusal::Denied(format!(
                "credential {name:?} is not declared for endpoint {endpoint:?}"
            )));
        };
        let mut here = self.of(name)?.iter().filter(|used| used.endpoint == endpoint);
        if here.any(|used| self.is_granted(name, used)) { Ok(()) } else { self.check_granted(name, used) }
    }

    fn check_granted(&self, name: &str, used: &CredentialUse) -> Result<(), CredentialRefusal> {
        if self.is_granted(name, used) {
            return Ok(());
        }
        Err(CredentialRefusal::Denied(format!(
            "credential {name:?} is not granted for {}: without a grant, a credential stands in one header of one endpoint, which is for credentials and nothing else, as authorization is; the operator gives {}",
            tell(used),
            self.missing(name).join(" ")
        )))
    }

    fn check_spot(&self, name: &str, uses: &[CredentialUse], spot: Spot<'_>) -> Result<(), CredentialRefusal> {
        let is_here = |used: &&CredentialUse| {
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
        let mut here = uses.iter().filter(is_here).peekable();
        let Some(first) = here.peek().copied() else {
            return Err(CredentialRefusal::Denied(format!(
                "credential {name:?} is not declared for {} of requests to endpoint {:?}, path {:?}",
                spot.place, spot.endpoint, spot.path
            )));
        };
        if here.any(|used| self.is_granted(name, used)) { Ok(()) } else { self.check_granted(name, first) }
    }

    /// Whether both may be in one request, as the halves of a pair are.
    pub(super) fn may_meet(&self, name: &str, other: &str) -> bool {
        let of = |name: &str| self.declared.get(name).map(Vec::as_slice).unwrap_or_default();
        let meets = |one: &CredentialUse, two: &CredentialUse| {
            one.endpoint == two.endpoint && one.path.as_ref().is_none_or(|path| fits(two, path))
        };
        of(name).iter().any(|one| of(other).iter().any(|two| meets(one, two)))
    }

    /// Whether it is a key at all.
    pub(super) fn signs_somewhere(&self, name: &str) -> Result<(), CredentialRefusal> {
        if self.of(name)?.iter().any(|used| used.place == Place::Signing) {
            return Ok(());
        }
        Err(CredentialRefusal::Denied(format!("credential {name:?} is not declared for signing")))
    }

    fn of(&self, name: &str) -> Result<&[CredentialUse], CredentialRefusal> {
        let uses = self.declared.get(name).map(Vec::as_slice);
        uses.ok_or_else(|| CredentialRefusal::Unknown(format!("credential {name:?} is not declared by the provider")))
    }
}

fn flag(name: &str, grant: &UseGrant) -> String {
    pasted("--credential-use", &format!("{name}={grant}"))
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
mod tests;
