//! Extracts a captured credential from an answer.

use std::collections::HashSet;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Number;

use super::Egress;
use super::render::Rendered;
use crate::captured::{MAX_VALUE, ValueTooLarge};
use crate::error::{TransportError, TransportReason};
use crate::http::{Capture, CaptureSource};
use crate::json_pointer;
use crate::redact::Redactor;
use crate::secret::Secret;

impl Egress {
    /// Stores the credential that the provider wants captured, for a request with given credentials of its edition.
    pub(super) fn capture(
        &self,
        capture: &Capture,
        headers: &HeaderMap,
        body: &[u8],
        own: &Redactor,
        rendered: &Rendered,
    ) -> Result<(), TransportError> {
        // Of logins that were under way at the same time, the provider learns no more than of those one after another.
        self.check_trust()?;
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
        // What is compared with the request is small, whatever a cloud gives.
        if value.expose().len() > MAX_VALUE {
            return Err(failed(ValueTooLarge.to_string()));
        }
        // Before it is told whether this is a secret: what the provider made up itself would say whether it guessed one.
        if made_by_cloud(value.expose(), rendered.told()) < least {
            return Err(self.echoed(&capture.credential, value.expose(), rendered.told(), least));
        }
        // A provider that captures what a cloud echoes could send it to places that are not declared for it.
        let all = self.credentials.redactor()?.and(own);
        let is_signature = self.credentials.signed().replaced(value.expose()).is_some();
        if is_signature || all.finds_other_than(&capture.credential, value.expose()) {
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
        let stored = self.credentials.store(rendered.edition, &capture.credential, value, life);
        stored.map_err(|error| failed(error.to_string()))
    }
}

/// Bytes of a value that are in no run of four which the request has as well.
fn made_by_cloud(value: &[u8], request: &[u8]) -> usize {
    const RUN: usize = 4;
    // A request may have many times as many runs as a value.
    let runs: HashSet<&[u8]> = value.windows(RUN).collect();
    let told: HashSet<&[u8]> = request.windows(RUN).filter(|run| runs.contains(run)).collect();
    let mut own = vec![true; value.len()];
    for (start, run) in value.windows(RUN).enumerate().filter(|(_, run)| told.contains(run)) {
        own.iter_mut().skip(start).take(run.len()).for_each(|own| *own = false);
    }
    own.into_iter().filter(|own| *own).count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_request_had_is_not_the_clouds_making() {
        let cases = [
            ("gAAAAAB-token-of-the-cloud", "/v3/auth/tokens", 21),
            ("AAAAAAAAs", "name=AAAAAAAAs", 0),
            ("AAAAAAAAs", "first=AAAA&second=AAAAs", 0),
            ("prefix-AAAAAAAA-x7k", "name=AAAAAAAA", 11),
            ("abc", "abc", 3),
            ("12345678", "", 8),
        ];
        for (value, request, own) in cases {
            assert_eq!(made_by_cloud(value.as_bytes(), request.as_bytes()), own, "{value} {request}");
        }
    }
}
