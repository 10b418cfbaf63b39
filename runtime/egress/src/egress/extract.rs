//! Extracts a captured credential from an answer.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Number;

use super::Egress;
use crate::error::{TransportError, TransportReason};
use crate::http::{Capture, CaptureSource};
use crate::json_pointer;
use crate::redact::Redactor;
use crate::secret::Secret;

impl Egress {
    /// Stores the credential that the provider wants captured, for a request with given credentials of this `edition`.
    pub(super) fn capture(
        &self,
        capture: &Capture,
        headers: &HeaderMap,
        body: &[u8],
        own: &Redactor,
        edition: u64,
    ) -> Result<(), TransportError> {
        let failed = |why: String| TransportError::unsent(TransportReason::Other, why);
        let missing = |source: &CaptureSource| match source {
            CaptureSource::Header(name) => format!("it has no header {name:?} to capture as {:?}", capture.credential),
            CaptureSource::JsonPointer(pointer) => {
                format!("its body has nothing at {pointer:?} to capture as {:?}", capture.credential)
            }
        };
        let value = find(&capture.source, headers, body).ok_or_else(|| failed(missing(&capture.source)))?;
        let least = self.limits().min_credential_bytes;
        if value.weight() < least {
            let why = format!(
                "what it gives as {:?} has less than {least} bytes (limit min-credential-bytes)",
                capture.credential
            );
            return Err(failed(why));
        }
        // A provider that captures what a cloud echoes could send it to places that are not declared for it.
        let all = self.credentials.redactor()?.and(own);
        if all.finds_other_than(&capture.credential, value.expose()) {
            let why = format!(
                "what it gives as {:?} is another credential or has one in it, and may not become a new one",
                capture.credential
            );
            return Err(failed(why));
        }
        let said = capture.expires.as_ref().and_then(|source| find(source, headers, body)).and_then(|text| life(&text));
        let life = match (said, capture.ttl) {
            (Some(said), Some(most)) => Some(said.min(most)),
            (said, most) => said.or(most),
        };
        let stored = self.credentials.store(edition, &capture.credential, value, life);
        stored.map_err(|error| failed(error.to_string()))
    }
}

fn find(source: &CaptureSource, headers: &HeaderMap, body: &[u8]) -> Option<Secret> {
    let text = match source {
        CaptureSource::Header(name) => headers.get(name)?.as_bytes().to_vec(),
        // A list or an object is no credential, and may be as large as the answer: it is not read.
        CaptureSource::JsonPointer(pointer) => match json_pointer::find(body, pointer)?.get() {
            text if text.starts_with('"') => serde_json::from_str::<String>(text).ok()?.into_bytes(),
            number => serde_json::from_str::<Number>(number).ok()?.to_string().into_bytes(),
        },
    };
    Some(Secret::new(text)).filter(|value| !value.expose().is_empty())
}

/// The remaining life time: RFC 3339, or seconds from now.
fn life(text: &Secret) -> Option<Duration> {
    let text = std::str::from_utf8(text.expose()).ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let end: Timestamp = text.parse().ok()?;
    Some(Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default())
}
