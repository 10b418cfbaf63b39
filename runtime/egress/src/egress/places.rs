//! What a request may contain besides credentials, and where these may stand: each credential only in its places, no login but the operator's,
//! and signed text only if it says the same as the request.

use url::Url;

use super::bodies::{self, Body, Unreadable};
use super::render::MAX_SIGNATURES;
use super::{Egress, key};
use crate::credentials::{At, Spot, Within};
use crate::endpoints::Target;
use crate::error::TransportError;
use crate::http::{Part, Request, SignedPart};
use crate::login_names::{is_login_header, is_login_value};
use crate::one_line::line;

/// Longest name in a message, in bytes.
const MAX_SHOWN: usize = 64;
/// The same of a base URL.
const MAX_URL: usize = 256;

impl Egress {
    /// Whether each secret and each signature stands where it may, and nothing stands where it must not.
    pub(super) fn check_places(&self, request: &Request, base: &Url) -> Result<(), TransportError> {
        let uses = self.credentials.uses();
        let mut signatures = 0_usize;
        for (place, parts) in places(request) {
            let spot = Spot { endpoint: &request.endpoint, path: &request.path, place };
            for part in parts {
                match part {
                    Part::Bytes(_) => {}
                    Part::Secret { credential, .. } => uses.check_secret(credential, spot)?,
                    Part::Signature { key, data, .. } => {
                        signatures = signatures.saturating_add(1);
                        if signatures > MAX_SIGNATURES {
                            let why = format!("more than {MAX_SIGNATURES} signatures in one request");
                            return Err(TransportError::denied(why));
                        }
                        uses.check_signature(key, spot)?;
                        for signed in data {
                            match signed {
                                SignedPart::Bytes(_) => {}
                                SignedPart::Secret { credential, .. } => {
                                    uses.check_signed(credential, &request.endpoint)?;
                                }
                                SignedPart::Target if matches!(place, At::Query(_)) => {
                                    let why = "a signature in the query cannot sign the query".to_owned();
                                    return Err(TransportError::denied(why));
                                }
                                SignedPart::Target => {}
                            }
                        }
                        if !uses.signs_anything(key, &request.endpoint, &request.path) && !is_true(data, request, base)
                        {
                            return Err(uses.refused_signing(key, spot).into());
                        }
                    }
                }
            }
        }
        self.check_logins(request)?;
        self.check_body(request)
    }

    /// A credential in a body goes only where the operator says that the endpoint is. A grant names the endpoint, and the component gives it that
    /// name: at a host that is granted, it could find or declare the address of an object store, which stores the whole body for its author.
    pub(super) fn check_address_of_body(request: &Request, target: &Target<'_>) -> Result<(), TransportError> {
        if !is_secret(&request.body) || target.grant().base_url.is_some() {
            return Ok(());
        }
        let (name, origin) = (line(&request.endpoint, MAX_SHOWN), &target.base.origin);
        let why = format!(
            "the body has a credential, and the base URL of endpoint {name:?} is {origin}: a credential in a body goes only where the operator says that the endpoint is; if the cloud's logins are at {}, the operator gives --endpoint {name}=URL",
            line(target.base.url.as_str(), MAX_URL)
        );
        Err(TransportError::denied(why))
    }

    /// A login carries a credential of the operator, or one that was got with one, where the cloud looks for it, and has nothing else that
    /// looks like a login: else a component could log in to an account of its author's own, and send there what it is trusted with.
    fn check_body(&self, request: &Request) -> Result<(), TransportError> {
        let Some(capture) = &request.capture else {
            return if is_secret(&request.body) { self.check_login_body(request) } else { Ok(()) };
        };
        if !carries_credential(request) {
            let why = format!(
                "the request carries no credential, so nothing is captured from its answer as {:?}: a login is made with a credential of the operator, or with one that was captured by such a login",
                line(&capture.credential, MAX_SHOWN)
            );
            return Err(TransportError::denied(why));
        }
        self.check_login_body(request)
    }

    fn check_login_body(&self, request: &Request) -> Result<(), TransportError> {
        let Request { endpoint, path, body, .. } = request;
        let own_login = |place: &str| {
            let why = format!(
                "{place:?} of the body looks like a login of the provider's own, which may not go with a credential; what is secret is declared as a credential"
            );
            Err(TransportError::denied(why))
        };
        // Nothing that the component wrote has it in it: it depends on all of that.
        let mark: String = key(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let unreadable = |Unreadable(why): Unreadable| {
            TransportError::denied(format!("the body has or goes with a credential, and is not sent: {why}"))
        };
        let said = content_type(request).map_err(unreadable)?;
        let read = bodies::read(body, &mark).and_then(|read| said.fits(&read).map(|()| read)).map_err(unreadable)?;
        let uses = self.credentials.uses();
        let names = body.iter().filter_map(|part| match part {
            Part::Bytes(_) => None,
            Part::Secret { credential, .. } => Some(credential),
            Part::Signature { key, .. } => Some(key),
        });
        match read {
            Body::Json(json) => {
                for (name, pointer) in names.zip(json.credentials) {
                    uses.check_body(name, endpoint, path, &Within::Json(pointer))?;
                }
                json.login.map_or(Ok(()), |place| own_login(&place))
            }
            Body::Form | Body::Other => {
                let places = if read == Body::Form && said != Said::Xml {
                    bodies::fields(body, &mark).map_err(unreadable)?
                } else {
                    vec![Within::Other; names.clone().count()]
                };
                for (name, place) in names.zip(places) {
                    uses.check_body(name, endpoint, path, &place)?;
                }
                if said != Said::Xml
                    && let Some(place) = bodies::login_of_form(body, &mark)
                {
                    return own_login(&place);
                }
                if said == Said::Form && read == Body::Other {
                    return Err(unreadable(Unreadable("it is not what its content-type says".to_owned())));
                }
                if read == Body::Other && !is_secret(body) {
                    let why = "the body of a login is neither JSON nor a form, and has no credential in it: nobody knows who asks by it";
                    return Err(TransportError::denied(why.to_owned()));
                }
                Ok(())
            }
        }
    }

    /// A place of credentials takes nothing else: who fills it with something of his own makes the cloud believe that he asks. Nor may such a
    /// login stand beside a credential: an honest cloud would file the secret in an attacker's account.
    fn check_logins(&self, request: &Request) -> Result<(), TransportError> {
        let uses = self.credentials.uses();
        let carries = carries_credential(request);
        for (name, parts) in &request.headers {
            let is_place = name.eq_ignore_ascii_case("authorization") || uses.declares_header(&request.endpoint, name);
            let same = request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count();
            let shown = || line(name, MAX_SHOWN);
            if is_secret(parts) {
                if same > 1 {
                    let why = format!("the header {:?} is a place of a credential, and stands there twice", shown());
                    return Err(TransportError::denied(why));
                }
                if !is_alone(parts) {
                    let why = format!(
                        "the header {:?} is a place of a credential, and has something else beside it than a scheme such as Bearer",
                        shown()
                    );
                    return Err(TransportError::denied(why));
                }
            } else if is_place && uses.declares_header(&request.endpoint, name) {
                let why = format!("the header {:?} is a place of a credential, and has none in it", shown());
                return Err(TransportError::denied(why));
            } else if carries && is_login_header(name) {
                let why = format!(
                    "the header {:?} looks like a login of the provider's own, which may not go with a credential; what is secret is declared as a credential",
                    shown()
                );
                return Err(TransportError::denied(why));
            }
        }
        for (name, parts) in request.query.iter().filter(|(_, parts)| !is_secret(parts)) {
            let shown = || line(name, MAX_SHOWN);
            if !parts.is_empty() && uses.declares_query(&request.endpoint, name) {
                let why = format!("the query value {:?} is a place of a credential, and has none in it", shown());
                return Err(TransportError::denied(why));
            }
            if carries && is_login_value(name) {
                let why = format!(
                    "the query value {:?} looks like a login of the provider's own, which may not go with a credential; what is secret is declared as a credential",
                    shown()
                );
                return Err(TransportError::denied(why));
            }
        }
        Ok(())
    }

    /// Why the component may not see what is answered, as the end of a sentence about it. A request with a credential in its body is a login,
    /// which is answered with another secret: that is captured, or the operator says that it is no login, or only the status is told. A
    /// redirect has the secret in `location` and in its text, and nothing is captured from it.
    pub(super) fn hides_answer(&self, request: &Request, status: u16) -> Option<&'static str> {
        if matches!(status, 300..=399) && (request.capture.is_some() || is_secret(&request.body)) {
            return Some("it is a redirect in answer to a login, and may have a token in it");
        }
        let uses = self.credentials.uses();
        let shows = |name: &str| uses.shows_answer(name, &request.endpoint, &request.path);
        let is_shown = request.capture.is_some()
            || request.body.iter().all(|part| match part {
                Part::Bytes(_) => true,
                Part::Secret { credential, .. } => shows(credential),
                Part::Signature { key, .. } => shows(key),
            });
        (!is_shown).then_some("the request has a credential in its body and captures nothing")
    }
}

fn places(request: &Request) -> impl Iterator<Item = (At<'_>, &Vec<Part>)> {
    let places = request.query.iter().map(|(name, parts)| (At::Query(name), parts));
    let places = places.chain(request.headers.iter().map(|(name, parts)| (At::Header(name), parts)));
    places.chain(std::iter::once((At::Body, &request.body)))
}

fn is_secret(parts: &[Part]) -> bool {
    parts.iter().any(|part| !matches!(part, Part::Bytes(_)))
}

/// Whether a credential in a header has no more before it than a scheme, with a space, and `token=`: a cloud that takes the first word of what
/// the component wrote there takes its author for whoever asks. What is signed says what it is for.
fn is_alone(parts: &[Part]) -> bool {
    if !parts.iter().any(|part| matches!(part, Part::Secret { .. })) {
        return true;
    }
    let mut before = Vec::new();
    let mut after = Vec::new();
    let mut is_before = true;
    for part in parts {
        match part {
            Part::Bytes(bytes) if is_before => before.extend_from_slice(bytes),
            Part::Bytes(bytes) => after.extend_from_slice(bytes),
            Part::Secret { .. } | Part::Signature { .. } => is_before = false,
        }
    }
    let quoted = before.strip_suffix(b"\"");
    let named = quoted.unwrap_or(&before);
    let scheme = named.strip_suffix(b"token=").unwrap_or(named);
    let is_scheme = match scheme.strip_suffix(b" ").unwrap_or(scheme) {
        [first, rest @ ..] => {
            scheme.ends_with(b" ")
                && first.is_ascii_alphabetic()
                && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        }
        [] => scheme.is_empty(),
    };
    let ends = if quoted.is_some() { &b"\""[..] } else { b"" };
    is_scheme && after == ends
}

/// What a request says that its body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Json,
    Xml,
    Form,
    /// Something that the host does not know.
    Other,
}

impl Said {
    /// A cloud reads a body by what is said of it. So what looks like JSON is said to be JSON.
    fn fits(self, body: &Body) -> Result<(), Unreadable> {
        let fits = match (self, body) {
            (Self::Nothing, _)
            | (Self::Json, Body::Json(_))
            | (Self::Xml | Self::Form | Self::Other, Body::Form | Body::Other) => true,
            // A single value is JSON too.
            (Self::Json, Body::Form) => true,
            (Self::Json, Body::Other) | (Self::Xml | Self::Form | Self::Other, Body::Json(_)) => false,
        };
        if fits { Ok(()) } else { Err(Unreadable("it is not what its content-type says".to_owned())) }
    }
}

fn content_type(request: &Request) -> Result<Said, Unreadable> {
    let mut said = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let Some((_, parts)) = said.next() else { return Ok(Said::Nothing) };
    let refused = |why: &str| Err(Unreadable(why.to_owned()));
    if said.next().is_some() {
        return refused("its content-type is there twice");
    }
    let text: Vec<u8> = parts
        .iter()
        .flat_map(|part| if let Part::Bytes(bytes) = part { bytes.as_slice() } else { &[] })
        .copied()
        .collect();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let (kind, more) = text.split_once(';').unwrap_or((&text, ""));
    let charset = more.split(';').filter_map(|one| one.trim().strip_prefix("charset="));
    if charset.map(|one| one.trim_matches('"')).any(|one| !["utf-8", "utf8"].contains(&one)) {
        return refused("its content-type has another charset than utf-8");
    }
    Ok(match kind.trim() {
        kind if kind.starts_with("multipart/") => return refused("the host does not read bodies of several parts"),
        kind if kind.ends_with("/json") || kind.ends_with("+json") => Said::Json,
        kind if kind.ends_with("/xml") || kind.ends_with("+xml") => Said::Xml,
        "application/x-www-form-urlencoded" => Said::Form,
        _ => Said::Other,
    })
}

fn carries_credential(request: &Request) -> bool {
    places(request).any(|(_, parts)| is_secret(parts))
}

/// Whether what is signed tells the truth about the request, and about its target in any case: lines as of HTTP signatures, each with what the
/// request itself says. Then the signature is good for nothing else.
fn is_true(data: &[SignedPart], request: &Request, base: &Url) -> bool {
    // No text has it, since no header can.
    const TARGET: &str = "\0";
    let mut text = String::new();
    for part in data {
        match part {
            SignedPart::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(bytes) if !bytes.contains(TARGET) => text.push_str(bytes),
                Ok(_) | Err(_) => return false,
            },
            SignedPart::Secret { .. } => return false,
            SignedPart::Target => text.push_str(TARGET),
        }
    }
    let target = format!("(request-target): {} {TARGET}", request.method.as_str().to_ascii_lowercase());
    let host = base.host_str().map(|host| base.port().map_or(host.to_owned(), |port| format!("{host}:{port}")));
    let plain = |parts: &[Part]| -> Option<Vec<u8>> {
        let bytes = parts.iter().map(|part| if let Part::Bytes(bytes) = part { Some(bytes.as_slice()) } else { None });
        bytes.collect::<Option<Vec<_>>>().map(|pieces| pieces.concat())
    };
    let is_said = |line: &str| {
        let Some((name, value)) = line.split_once(": ") else { return false };
        let mut headers = request.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        match name {
            "(request-target)" => line == target,
            "host" => host.as_deref() == Some(value),
            "content-length" => plain(&request.body).is_some_and(|body| body.len().to_string() == value),
            _ => headers.next().and_then(|(_, parts)| plain(parts)).is_some_and(|said| said == value.as_bytes()),
        }
    };
    text.split('\n').all(is_said) && text.split('\n').any(|line| line == target)
}
