//! From a provider's request to the bytes that are sent: credentials and signatures are filled in here, at the last moment.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue};
use reqwest::Url;
use zeroize::Zeroizing;

use super::{Egress, NetworkLimits, Used};
use crate::encoding::Encoding;
use crate::error::{TransportError, TransportReason};
use crate::headers;
use crate::http::{Part, Request, SignedPart};
use crate::paths;
use crate::redact::{Redactor, placeholder};
use crate::secret::Secret;
use crate::signature::Algorithm;
use crate::signed::Full;

/// Most signatures of a request. Those that there are need one. A signature with a long RSA key takes the host several
/// milliseconds, which are not counted as the guest's: so the number of requests is what bounds them.
pub(super) const MAX_SIGNATURES: usize = 4;

/// How often a request is made anew because credentials changed meanwhile.
const RENDERINGS: usize = 4;

/// A request, ready to be sent.
pub(super) struct Rendered {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The captured credentials in it.
    pub(super) used: Used,
    /// Every secret value in it, by name, and its signatures.
    carried: Vec<(String, Secret)>,
    signatures: Vec<Zeroizing<Vec<u8>>>,
    /// What the provider wrote into a login; a request that captures nothing needs none of it.
    written: Vec<u8>,
    /// Of the credentials, when it was made.
    version: u64,
    /// Of the given ones: what the answer gives belongs to them.
    pub(super) edition: u64,
}

impl Rendered {
    /// What the provider itself said in the request.
    pub(super) fn told(&self) -> &[u8] {
        &self.written
    }
}

/// Everything that the provider wrote.
fn written(request: &Request) -> Vec<u8> {
    let mut written = request.path.clone().into_bytes();
    let named = request.query.iter().chain(&request.headers).map(|(name, parts)| (name.as_str(), parts));
    for (name, parts) in named.chain([("", &request.body)]) {
        written.push(b'\n');
        written.extend_from_slice(name.as_bytes());
        written.push(b'\n');
        for part in parts {
            match part {
                Part::Bytes(bytes) => written.extend_from_slice(bytes),
                Part::Secret { .. } | Part::Signature { .. } => written.push(b'\n'),
            }
        }
    }
    written
}

/// What is gathered while parts are filled in.
struct Filling<'a> {
    egress: &'a Egress,
    /// Path and query, once they are known.
    target: Option<String>,
    used: Used,
    carried: Vec<(String, Secret)>,
    signatures: Vec<Zeroizing<Vec<u8>>>,
}

impl Egress {
    /// Fills in what the provider may not see, all of one edition: a new secret never goes with an old ID.
    pub(super) fn render(&self, request: &Request, base: &Url) -> Result<Rendered, TransportError> {
        for _ in 0..RENDERINGS {
            let edition = self.credentials.edition();
            let rendered = self.fill_in(request, base, edition)?;
            if self.credentials.edition_held() == edition {
                return Ok(rendered);
            }
        }
        let why = "the credentials changed while the request was made, again and again; the host tries again";
        Err(TransportError::unsent(TransportReason::UnknownCredential, why.to_owned()))
    }

    fn fill_in(&self, request: &Request, base: &Url, edition: u64) -> Result<Rendered, TransportError> {
        let mut filling =
            Filling { egress: self, target: None, used: Vec::new(), carried: Vec::new(), signatures: Vec::new() };
        let query = filling.query(request)?;
        let url = paths::url(base, &request.path, query.as_ref().map(|query| query.as_str()))?;
        let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        Room::url(self.limits()).check(target.len())?;
        filling.target = Some(target);
        let headers = filling.headers(request)?;
        let body = filling.fill(&request.body, Room::body(self.limits()))?;
        let Filling { used, carried, signatures, .. } = filling;
        // Not before: to look at a credential may change it.
        let version = self.credentials.version();
        let written = if request.capture.is_some() { written(request) } else { Vec::new() };
        Ok(Rendered { url, headers, body: body.to_vec(), used, carried, signatures, written, version, edition })
    }

    /// Replaces what this very request carried and the redactor of all credentials does not know: signatures, and values that
    /// were changed so often since that nobody remembers them. Most requests have none of either, and building costs a
    /// millisecond.
    pub(super) fn of_request(&self, rendered: &Rendered) -> Result<Redactor, TransportError> {
        let mut values: Vec<(&str, &[u8])> = Vec::new();
        if self.credentials.version() != rendered.version {
            let all = self.credentials.redactor()?;
            let is_known =
                |name: &str, value: &Secret| *all.bytes(value.expose().to_vec()) == *placeholder(name).as_bytes();
            let carried = rendered.carried.iter().filter(|(name, value)| !is_known(name, value));
            values.extend(carried.map(|(name, value)| (name.as_str(), value.expose())));
        }
        let (mut first, rest): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(name, _)| self.credentials.is_given(name));
        first.extend(rendered.signatures.iter().map(|signature| ("signature", signature.as_slice())));
        // One that is sent a thousand times is one.
        let mut seen = BTreeSet::new();
        first.retain(|(_, value)| seen.insert(*value));
        Ok(Redactor::new(first)?.then(&Redactor::new(rest)?))
    }
}

/// How much may be filled in. Looked at with every piece: a guest names a large secret a million times in a few bytes each.
#[derive(Clone, Copy)]
pub(super) struct Room {
    bytes: usize,
    what: &'static str,
    limit: &'static str,
}

impl Room {
    pub(super) const fn url(limits: &NetworkLimits) -> Self {
        Self { bytes: limits.url_bytes, what: "path and query have", limit: "url-bytes" }
    }

    pub(super) const fn headers(limits: &NetworkLimits) -> Self {
        Self { bytes: limits.headers.bytes, what: "the headers have", limit: "header-bytes" }
    }

    const fn body(limits: &NetworkLimits) -> Self {
        Self { bytes: limits.request_bytes, what: "the body has", limit: "request-bytes" }
    }

    /// Of a whole request, at most.
    const fn signed(limits: &NetworkLimits) -> Self {
        let bytes = limits.request_bytes.saturating_add(limits.url_bytes).saturating_add(limits.headers.bytes);
        Self { bytes, what: "what is signed has", limit: "request-bytes" }
    }

    pub(super) fn check(self, bytes: usize) -> Result<(), TransportError> {
        let Self { bytes: most, what, limit } = self;
        if bytes <= most {
            return Ok(());
        }
        Err(TransportError::too_large(format!("{what} more than {most} bytes (limit {limit})")))
    }

    fn append(self, to: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TransportError> {
        self.check(to.len().saturating_add(bytes.len()))?;
        to.extend_from_slice(bytes);
        Ok(())
    }
}

impl Filling<'_> {
    fn query(&mut self, request: &Request) -> Result<Option<Zeroizing<String>>, TransportError> {
        if request.query.is_empty() {
            return Ok(None);
        }
        let mut query = Zeroizing::new(String::new());
        for (name, parts) in &request.query {
            let value = self.fill(parts, Room::url(self.egress.limits()))?;
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(&paths::encode(name.as_bytes()));
            query.push('=');
            query.push_str(&Zeroizing::new(paths::encode(&value)));
            Room::url(self.egress.limits()).check(query.len())?;
        }
        Ok(Some(query))
    }

    fn headers(&mut self, request: &Request) -> Result<HeaderMap, TransportError> {
        let room = Room::headers(self.egress.limits());
        let uses = self.egress.credentials.uses();
        let mut map = HeaderMap::new();
        let mut bytes = 0_usize;
        for (name, parts) in &request.headers {
            let value = self.fill(parts, room)?;
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
            room.check(bytes)?;
            let declared = uses.declares_header(&request.endpoint, name);
            let (name, mut value): (_, HeaderValue) = headers::check_request_header(name, &value, declared)?;
            value.set_sensitive(parts.iter().any(|part| !matches!(part, Part::Bytes(_))));
            if map.try_append(name, value).is_err() {
                return Err(TransportError::too_large("too many headers".to_owned()));
            }
        }
        Ok(map)
    }

    fn fill(&mut self, parts: &[Part], room: Room) -> Result<Zeroizing<Vec<u8>>, TransportError> {
        let mut filled = Zeroizing::new(Vec::new());
        for part in parts {
            match part {
                // As it is: what has a secret in it was refused, and whether there is room depends on nothing else.
                Part::Bytes(bytes) => room.append(&mut filled, bytes)?,
                Part::Secret { credential, encoding } => {
                    room.append(&mut filled, &self.secret(credential, *encoding)?)?;
                }
                Part::Signature { key, algorithm, data, encoding } => {
                    let signature = self.signature(key, *algorithm, data, *encoding)?;
                    room.append(&mut filled, &signature)?;
                }
            }
        }
        Ok(filled)
    }

    fn secret(&mut self, credential: &str, encoding: Encoding) -> Result<Zeroizing<Vec<u8>>, TransportError> {
        let (value, generation) = self.egress.credentials.value_held(credential)?;
        self.used.extend(generation.map(|generation| (credential.to_owned(), generation)));
        let known = self.carried.iter().any(|(name, other)| name == credential && other.expose() == value.expose());
        if !known {
            self.carried.push((credential.to_owned(), value.clone()));
        }
        encoding.encode(value.expose()).map_err(|error| {
            TransportError::unsent(
                TransportReason::UnknownCredential,
                format!("credential {credential:?} cannot be encoded: {error}"),
            )
        })
    }

    fn signature(
        &mut self,
        key: &str,
        algorithm: Algorithm,
        data: &[SignedPart],
        encoding: Encoding,
    ) -> Result<Zeroizing<Vec<u8>>, TransportError> {
        let mut signed = Zeroizing::new(Vec::new());
        let room = Room::signed(self.egress.limits());
        for part in data {
            match part {
                SignedPart::Bytes(bytes) => room.append(&mut signed, bytes)?,
                SignedPart::Secret { credential, encoding } => {
                    room.append(&mut signed, &self.secret(credential, *encoding)?)?;
                }
                SignedPart::Target => {
                    room.append(&mut signed, self.target.as_deref().unwrap_or_default().as_bytes())?;
                }
            }
        }
        let signature = Zeroizing::new(self.egress.credentials.sign(key, algorithm, &signed)?);
        let encoded = encoding.encode(&signature).map_err(|error| {
            TransportError::unsent(
                TransportReason::UnknownCredential,
                format!("the signature of {key:?} cannot be encoded: {error}"),
            )
        })?;
        if self.egress.credentials.is_given(key) {
            let remembered = self.egress.credentials.signed().remember(&signature);
            remembered.map_err(|Full(wait)| TransportError {
                retry_after: Some(wait),
                ..TransportError::unsent(
                    TransportReason::Throttled,
                    format!("so many requests were signed with {key:?} and other keys within 15 minutes that the host cannot remember another signature, which it would have to keep out of answers: it is not sent before one of them has ended"),
                )
            })?;
        }
        self.signatures.push(signature);
        Ok(encoded)
    }
}
