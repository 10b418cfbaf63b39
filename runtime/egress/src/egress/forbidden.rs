//! Changes that are not sent because this process may not change the cloud: whoever forbids them is told what they would have been.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use ccm_cloud::ForbiddenChange;

use super::Egress;
use crate::call::CallScope;
use crate::http::{Part, Request};
use crate::paths;
use crate::redact::placeholder;

/// Most bytes that are told of a body that is longer than what its call may still tell.
const CUT_BODY_BYTES: usize = 4 << 10;

impl Egress {
    /// Tells the leadership of a change that passed every other check. `is_after_another`: an earlier one of the call was not sent either.
    pub(super) fn tell_forbidden(&self, request: &Request, call: &CallScope, is_after_another: bool) {
        if !call.notes_forbidden() {
            return;
        }
        let veil = self.secrets.veil();
        let clean = |mut text: String| {
            veil.clean(&mut text);
            text
        };
        self.leadership.forbade(ForbiddenChange {
            provider: self.provider.clone(),
            endpoint: request.endpoint.clone(),
            method: request.method.as_str(),
            target: clean(target(request)),
            body: told(clean(text(&request.body)), call),
            operation: clean(request.operation.clone()),
            is_after_another,
        });
    }
}

/// As much of a body as the call may still tell. What is left of one that is too long is text: its start, its length, and a digest that
/// tells it from others. It is clean before it is cut: no place for half a secret.
fn told(body: String, call: &CallScope) -> String {
    if call.takes_told(body.len()) {
        return body;
    }
    let start = &body[..body.floor_char_boundary(CUT_BODY_BYTES)];
    let start = if call.takes_told(start.len()) { start } else { "" };
    let digest = digest(&SHA256, body.as_bytes());
    let digest: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{start}… ({} bytes, SHA-256 {digest}…)", body.len())
}

/// Path and query.
fn target(request: &Request) -> String {
    let mut target = request.path.clone();
    for (place, (name, value)) in request.query.iter().enumerate() {
        let (sign, name) = (if place == 0 { '?' } else { '&' }, paths::encode(name.as_bytes()));
        let value: String = value.iter().map(|part| shown(part, paths::encode)).collect();
        // Writing to a String cannot fail.
        _ = write!(target, "{sign}{name}={value}");
    }
    target
}

/// What the provider wrote, with names in the places that the host would fill in.
fn text(parts: &[Part]) -> String {
    parts.iter().map(|part| shown(part, |bytes| String::from_utf8_lossy(bytes).into_owned())).collect()
}

fn shown(part: &Part, bytes: impl Fn(&[u8]) -> String) -> String {
    match part {
        Part::Bytes(written) => bytes(written),
        Part::Secret { credential, .. } => placeholder(credential),
        Part::Signature { .. } => placeholder("signature"),
    }
}
