//! What the operator lets a component do with a credential, beyond what needs no grant.
//!
//! A component says by itself where its credentials belong, and an attacker writes the component. So its word is enough only for what
//! cannot store a secret in somebody else's account: one header of one endpoint that is for credentials, or signing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ccm_cloud::{CredentialUse, Place};

use crate::http::CaptureSource;
use crate::login_names::is_for_credentials;

/// Grants by the names of credentials.
pub type UseGrants = BTreeMap<String, Vec<UseGrant>>;

/// One place of a credential, as `--credential-use NAME=...` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseGrant {
    endpoint: String,
    place: GrantedPlace,
    path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum GrantedPlace {
    Header(String),
    Query(String),
    /// The component sees only the status of such a request, unless the host captures a value of its answer. With `answer`, it sees the answer in any case.
    Body {
        within: Within,
        answer: bool,
    },
    /// Signs only texts that describe the request as it is sent. With `any`, it signs every text of the component.
    Signing {
        any: bool,
    },
    Capture(CaptureSource),
}

/// Where in a body a credential stands: a cloud ignores or stores what it does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Within {
    /// At this pointer of JSON.
    Json(String),
    /// The value of this field of a form.
    Form(String),
    /// Somewhere in a body that is neither.
    Other,
}

/// The text is no [`UseGrant`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is none of ENDPOINT:header:NAME, ENDPOINT:query:NAME, ENDPOINT:body:PATH, ENDPOINT:body+answer:PATH, ENDPOINT:body-json:POINTER, ENDPOINT:body-json+answer:POINTER:PATH, ENDPOINT:body-form:FIELD, ENDPOINT:body-form+answer:FIELD:PATH, ENDPOINT:signing, ENDPOINT:signing+any, ENDPOINT:capture-header:NAME, ENDPOINT:capture-json:POINTER, each with :PATH at its end where it holds for one path only"
)]
pub struct NoUseGrant(String);

impl UseGrant {
    /// The grant of a use that a component declares, as the operator writes it.
    #[must_use]
    pub fn of(used: &CredentialUse) -> Self {
        let place = match &used.place {
            Place::Header(name) => GrantedPlace::Header(name.clone()),
            Place::Query(name) => GrantedPlace::Query(name.clone()),
            Place::Body => GrantedPlace::Body { within: Within::Other, answer: false },
            Place::Signing => GrantedPlace::Signing { any: false },
        };
        Self { endpoint: used.endpoint.clone(), place, path: used.path.clone() }
    }

    /// The grants of a body that a component declares, where that is a form or JSON, with words in place of the field and the member.
    #[must_use]
    pub fn of_documents(used: &CredentialUse) -> [Self; 2] {
        [Within::Form("FIELD".to_owned()), Within::Json("POINTER".to_owned())].map(|within| Self {
            endpoint: used.endpoint.clone(),
            place: GrantedPlace::Body { within, answer: false },
            path: used.path.clone(),
        })
    }

    /// Whether it allows what a component declares.
    pub(super) fn covers(&self, used: &CredentialUse) -> bool {
        let place = match (&self.place, &used.place) {
            (GrantedPlace::Header(granted), Place::Header(name)) => granted.eq_ignore_ascii_case(name),
            (GrantedPlace::Query(granted), Place::Query(name)) => granted == name,
            (GrantedPlace::Body { .. }, Place::Body) | (GrantedPlace::Signing { .. }, Place::Signing) => true,
            _ => false,
        };
        place && self.endpoint == used.endpoint && (self.path.is_none() || self.path == used.path)
    }

    /// Whether the component may see what is answered to a request with the credential in its body.
    pub(super) fn shows_answer(&self, endpoint: &str, path: &str) -> bool {
        matches!(self.place, GrantedPlace::Body { answer: true, .. }) && self.is_at(endpoint, path)
    }

    /// Whether the credential may stand at this place of a body.
    pub(super) fn is_within(&self, endpoint: &str, path: &str, at: &Within) -> bool {
        matches!(&self.place, GrantedPlace::Body { within, .. } if within == at) && self.is_at(endpoint, path)
    }

    /// The grant of a place in a body: at each path for which the component declares the credential, where it can be written so. Then it is
    /// all that the bodies of the credential need.
    pub(super) fn within(endpoint: &str, path: &str, at: &Within) -> Self {
        let place = GrantedPlace::Body { within: at.clone(), answer: false };
        let is_whole = match at {
            Within::Json(pointer) => is_whole("body-json", pointer, None),
            Within::Form(field) => is_whole("body-form", field, None),
            Within::Other => false,
        };
        Self { endpoint: endpoint.to_owned(), place, path: (!is_whole).then(|| path.to_owned()) }
    }

    /// Whether it is the grant of a body that is neither JSON nor a form.
    pub(super) fn is_whole_body(&self) -> bool {
        matches!(self.place, GrantedPlace::Body { within: Within::Other, .. })
    }

    /// Whether it lets the credential sign whatever the component says.
    pub(super) fn signs_anything(&self, endpoint: &str, path: &str) -> bool {
        matches!(self.place, GrantedPlace::Signing { any: true }) && self.is_at(endpoint, path)
    }

    /// Whether the answer of a request may give the credential its value, at `source`.
    pub(super) fn captures(&self, endpoint: &str, path: &str, source: &CaptureSource) -> bool {
        let place = match (&self.place, source) {
            (GrantedPlace::Capture(CaptureSource::Header(granted)), CaptureSource::Header(name)) => {
                granted.eq_ignore_ascii_case(name)
            }
            (GrantedPlace::Capture(granted), source) => granted == source,
            _ => false,
        };
        place && self.is_at(endpoint, path)
    }

    /// The grant of a capture.
    pub(super) fn capture(endpoint: &str, path: &str, source: &CaptureSource) -> Self {
        let place = GrantedPlace::Capture(source.clone());
        Self { endpoint: endpoint.to_owned(), place, path: Some(path.to_owned()) }
    }

    /// The same with more: the answer, or signatures of anything.
    pub(super) fn wider(mut self) -> Self {
        match &mut self.place {
            GrantedPlace::Body { answer, .. } => *answer = true,
            GrantedPlace::Signing { any } => *any = true,
            GrantedPlace::Header(_) | GrantedPlace::Query(_) | GrantedPlace::Capture(_) => {}
        }
        self
    }

    fn is_at(&self, endpoint: &str, path: &str) -> bool {
        self.endpoint == endpoint && self.path.as_ref().is_none_or(|granted| granted == path)
    }
}

impl FromStr for UseGrant {
    type Err = NoUseGrant;

    fn from_str(text: &str) -> Result<Self, NoUseGrant> {
        let wrong = || NoUseGrant(text.to_owned());
        let (endpoint, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (kind, rest) = rest.split_once(':').map_or((rest, None), |(kind, rest)| (kind, Some(rest)));
        // A name, and a path where one follows.
        let named = |rest: Option<&str>| {
            let rest = rest.filter(|rest| !rest.is_empty())?;
            Some(match rest.split_once(":/") {
                Some((name, path)) => (name.to_owned(), Some(format!("/{path}"))),
                None => (rest.to_owned(), None),
            })
        };
        let path = |rest: Option<&str>| match rest {
            None => Some(None),
            Some(path) if path.starts_with('/') => Some(Some(path.to_owned())),
            Some(_) => None,
        };
        let (place, path) = match kind {
            "header" => named(rest).map(|(name, path)| (GrantedPlace::Header(name), path)),
            "query" => named(rest).map(|(name, path)| (GrantedPlace::Query(name), path)),
            "capture-header" => {
                named(rest).map(|(name, path)| (GrantedPlace::Capture(CaptureSource::Header(name)), path))
            }
            "capture-json" => named(rest)
                .map(|(pointer, path)| (GrantedPlace::Capture(CaptureSource::JsonPointer(pointer)), path))
                .filter(|_| rest.is_some_and(|rest| rest.starts_with('/'))),
            // A whole body may hold anything, so it needs the request that it is for.
            "body" | "body+answer" => path(rest)
                .filter(Option::is_some)
                .map(|path| (GrantedPlace::Body { within: Within::Other, answer: kind == "body+answer" }, path)),
            "body-json" | "body-json+answer" => named(rest)
                .filter(|(pointer, path)| pointer.starts_with('/') && is_whole(kind, pointer, path.as_deref()))
                .map(|(pointer, path)| {
                    (GrantedPlace::Body { within: Within::Json(pointer), answer: kind == "body-json+answer" }, path)
                }),
            "body-form" | "body-form+answer" => named(rest)
                .filter(|(field, path)| !field.is_empty() && is_whole(kind, field, path.as_deref()))
                .map(|(field, path)| {
                    (GrantedPlace::Body { within: Within::Form(field), answer: kind == "body-form+answer" }, path)
                }),
            "signing" | "signing+any" => {
                path(rest).map(|path| (GrantedPlace::Signing { any: kind == "signing+any" }, path))
            }
            _ => None,
        }
        .ok_or_else(wrong)?;
        if endpoint.is_empty()
            || matches!(&place, GrantedPlace::Header(name) | GrantedPlace::Query(name) if name.is_empty())
        {
            return Err(wrong());
        }
        Ok(Self { endpoint: endpoint.to_owned(), place, path })
    }
}

impl fmt::Display for UseGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = &self.endpoint;
        match &self.place {
            GrantedPlace::Header(name) => write!(f, "{endpoint}:header:{name}")?,
            GrantedPlace::Query(name) => write!(f, "{endpoint}:query:{name}")?,
            GrantedPlace::Body { within, answer } => {
                let answer = if *answer { "+answer" } else { "" };
                match within {
                    Within::Json(pointer) => write!(f, "{endpoint}:body-json{answer}:{pointer}")?,
                    Within::Form(field) => write!(f, "{endpoint}:body-form{answer}:{field}")?,
                    Within::Other => write!(f, "{endpoint}:body{answer}")?,
                }
            }
            GrantedPlace::Signing { any } => write!(f, "{endpoint}:signing{}", if *any { "+any" } else { "" })?,
            GrantedPlace::Capture(CaptureSource::Header(name)) => write!(f, "{endpoint}:capture-header:{name}")?,
            GrantedPlace::Capture(CaptureSource::JsonPointer(pointer)) => {
                write!(f, "{endpoint}:capture-json:{pointer}")?;
            }
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, ":{path}"))
    }
}

/// Whether a place in a body is told in full. Without a path it is granted in every request for which the component declares the credential,
/// but not with the answer. A colon would be that of a path that lacks its slash, and a field with a slash a path that lacks its field.
fn is_whole(kind: &str, place: &str, path: Option<&str>) -> bool {
    let is_path = kind == "body-form" && place.starts_with('/');
    path.is_some() || !(kind.ends_with("+answer") || place.contains(':') || is_path)
}

/// Whether these uses need no grant: one header of one endpoint, which is for credentials and nothing else, and signatures for the same
/// endpoint.
#[must_use]
pub fn needs_no_grant(uses: &[CredentialUse]) -> bool {
    let Some(first) = uses.first() else { return true };
    let mut headers = uses.iter().filter_map(|used| match &used.place {
        Place::Header(name) => Some(name),
        Place::Query(_) | Place::Body | Place::Signing => None,
    });
    let header = headers.next();
    let is_safe = header.is_none_or(|header| is_for_credentials(header));
    is_safe
        && uses
            .iter()
            .all(|used| used.endpoint == first.endpoint && matches!(used.place, Place::Header(_) | Place::Signing))
        && headers.all(|other| header.is_some_and(|header| header.eq_ignore_ascii_case(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_understood_and_told_again() {
        for text in [
            "api:header:Authorization",
            "api:header:Authorization:/v2/servers",
            "api:query:apiKey",
            "api:query:apiKey:/client/api",
            "identity:body:/v3/auth/tokens",
            "api:body+answer:/client/api",
            "identity:body-json:/auth/password:/v3/auth/tokens",
            "identity:body-json:/auth/password",
            "identity:body-json+answer:/a~1b/0:/v3/auth/tokens",
            "identity:body-form:password:/login",
            "identity:body-form:password",
            "identity:body-form+answer:user[password]:/login",
            "api:signing",
            "api:signing:/client/api",
            "api:signing+any",
            "identity:capture-header:X-Subject-Token:/v3/auth/tokens",
            "identity:capture-json:/access/token/id",
            "identity:capture-json:/access/token/id:/v2.0/tokens",
        ] {
            assert_eq!(text.parse::<UseGrant>().map(|grant| grant.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_grant_is_refused_with_what_would_be_one() {
        for text in [
            "",
            "api",
            "api:",
            "api:anything",
            "api:header",
            "api:header:",
            ":header:x",
            "api:header::/path",
            "identity:body",
            "identity:body:",
            "identity:body:v3",
            "identity:body-json:/auth:v3",
            "identity:body-json+answer:/auth",
            "identity:body-json:auth",
            "identity:body-json:auth:/v3",
            "identity:body-json",
            "identity:body-form",
            "identity:body-form:/login",
            "identity:body-form::/login",
            "identity:body-form+answer:password",
            "identity:body-form:password:login",
            "api:signing:x",
            "identity:capture-json:id",
        ] {
            let error = text.parse::<UseGrant>().unwrap_err().to_string();
            assert!(error.contains("ENDPOINT:header:NAME"), "{text:?}: {error}");
        }
    }

    #[test]
    fn one_header_of_one_endpoint_and_signing_need_no_grant_and_everything_else_does() {
        let header = |name: &str| Place::Header(name.to_owned());
        let uses = |places: &[(&str, Place, Option<&str>)]| -> Vec<CredentialUse> {
            let used = |(endpoint, place, path): &(&str, Place, Option<&str>)| CredentialUse {
                endpoint: (*endpoint).to_owned(),
                place: place.clone(),
                path: path.map(Into::into),
            };
            places.iter().map(used).collect()
        };
        type Row<'a> = (&'a [(&'a str, Place, Option<&'a str>)], bool);
        let cases: [Row<'_>; 11] = [
            (&[], true),
            (&[("api", header("authorization"), None)], true),
            (&[("api", header("x-auth-token"), Some("/a")), ("api", header("X-Auth-Token"), Some("/b"))], true),
            (&[("api", header("x-object-meta-token"), None)], false),
            (&[("api", Place::Signing, None), ("api", header("x"), None)], false),
            (&[("api", Place::Signing, None), ("api", header("authorization"), None)], true),
            (&[("api", header("token"), None), ("api", header("x-token"), None)], false),
            (&[("api", header("token"), None), ("other", header("token"), None)], false),
            (&[("api", Place::Query("key".to_owned()), None)], false),
            (&[("api", header("token"), None), ("api", Place::Body, Some("/login"))], false),
            (&[("api", Place::Signing, None), ("other", Place::Signing, None)], false),
        ];
        for (places, expected) in cases {
            assert_eq!(needs_no_grant(&uses(places)), expected, "{places:?}");
        }
    }
}
