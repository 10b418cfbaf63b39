//! Secrets that a component writes into its requests itself, and tokens that are made of what it wrote beside a login. The host never tells it
//! one: it learned the secret elsewhere, or it guesses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Egress, key};
use crate::error::{TransportError, TransportReason};
use crate::http::{Part, Request};
use crate::one_line::line;
use crate::process_secrets::Veil;
use crate::redact::Origin;
use crate::share::Key;

/// So many requests with a secret, and no more are sent: each of them tells the component that it wrote one.
const MOST: usize = 3;
/// Longest name of a header or a query value in a message, in bytes.
const MAX_SHOWN: usize = 64;

/// What a component has learned of secrets so far. All tries of a component share it: one that never passes its gate, and is tried again
/// every minute, would else begin each time anew.
#[derive(Default)]
pub(crate) struct Guesses {
    /// Requests into which it wrote a secret, and different echoes.
    times: AtomicUsize,
    /// Digests of what logins gave that was in their own request, each with what the provider had written: no more of them than guesses.
    echoes: Mutex<BTreeSet<Key>>,
}

impl Egress {
    /// Whether the provider still sends requests.
    pub(super) fn check_trust(&self) -> Result<(), TransportError> {
        if self.guesses.times.load(Ordering::SeqCst) < MOST {
            return Ok(());
        }
        if self.guesses.echoes.lock().is_empty() {
            return Err(TransportError::denied(format!(
                "the provider wrote secrets into {MOST} requests, and sends no more requests: the log of the host names the secrets and the places; use another component, or other secrets, and restart the host"
            )));
        }
        // It may be honest: a proxy that repeats what it gets is there for as long as nobody mends it, and is not told from a search.
        Err(TransportError::denied(format!(
            "logins gave back what the provider wrote beside them, or it wrote secrets into requests, {MOST} times: it sends no more requests; the log of the host names the credentials; let the endpoint be the cloud and nothing that repeats requests, or use another component, and restart the host"
        )))
    }

    /// Refuses a captured value that the provider had in its request. It chose what it wrote, and a cloud may give the same value in each login:
    /// so it learns of that value as of a secret that it guesses. To be told the same of the same text again says nothing new, and does not count:
    /// while a cloud repeats a header, an honest provider logs in as ever, and it has to go on once the cloud is well.
    pub(super) fn echoed(&self, credential: &str, value: &[u8], written: &[u8], least: usize) -> TransportError {
        let new = usize::from(self.guesses.echoes.lock().insert(key((value, written))));
        let times = self.guesses.times.fetch_add(new, Ordering::SeqCst).saturating_add(new);
        let why = format!(
            "what it gives as {credential:?} was in the request: at least {least} bytes of it have to be the cloud's own (limit min-credential-bytes); check that the cloud answers, and nothing that repeats requests"
        );
        if new == 0 {
            tracing::debug!(provider = self.provider, credential, "login refused again: {why}");
        } else {
            tracing::error!(provider = self.provider, credential, times, most = MOST, "login refused: {why}");
        }
        TransportError::unsent(TransportReason::Other, why)
    }

    /// Refuses a request into which the provider wrote a secret, of whichever provider of the process. Nothing waits before this, and the next
    /// request is looked at after it: so there are no more than [`MOST`].
    pub(super) fn check_guesses(&self, request: &Request) -> Result<(), TransportError> {
        let veil = self.secrets.veil();
        self.look(&veil, request.path.as_bytes(), || "the path".to_owned())?;
        let named = [("query value", &request.query), ("header", &request.headers)];
        for (what, list) in named {
            for (name, _) in list {
                self.look(&veil, name.as_bytes(), || format!("the name of a {what}"))?;
            }
            for (name, parts) in list {
                for bytes in written(parts) {
                    self.look(&veil, &bytes, || format!("the {what} {:?}", line(name, MAX_SHOWN)))?;
                }
            }
        }
        for bytes in written(&request.body) {
            self.look(&veil, &bytes, || "the body".to_owned())?;
        }
        Ok(())
    }

    /// The same for something else that requests will have in them.
    pub(super) fn check_guess(&self, bytes: &[u8], place: impl FnOnce() -> String) -> Result<(), TransportError> {
        self.look(&self.secrets.veil(), bytes, place)
    }

    fn look(&self, veil: &Veil, bytes: &[u8], place: impl FnOnce() -> String) -> Result<(), TransportError> {
        if bytes.is_empty() {
            return Ok(());
        }
        match veil.finds(bytes) {
            Ok(None) => Ok(()),
            Ok(Some((name, origin))) => Err(self.guessed(name, origin, &place())),
            Err(error) => Err(TransportError::denied(error.to_string())),
        }
    }

    /// What the operator gave is held against the component. It may have come by anything else honestly: a tenant wrote an old token into an
    /// annotation, or a cloud calls something as it calls a session. That is not sent either, and does not end the work of the provider.
    fn guessed(&self, credential: &str, origin: Origin, place: &str) -> TransportError {
        if origin != Origin::Given {
            let what = if origin == Origin::Old { "an old value" } else { "a captured value" };
            let why = format!(
                "{what} of the credential {credential:?} stands in {place}: this request is not sent; take the value out of the object that has it, or of the cloud"
            );
            tracing::warn!(provider = self.provider, credential, place, "request refused: {why}");
            return TransportError::denied(why);
        }
        let times = self.guesses.times.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        let why = format!(
            "the provider wrote the value of the credential {credential:?} itself into {place}: only the host may put it into a request, and this one is not sent"
        );
        tracing::error!(provider = self.provider, credential, place, times, most = MOST, "request refused: {why}");
        TransportError::denied(why)
    }
}

/// What the provider wrote without a break.
fn written(parts: &[Part]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    parts.split(|part| !matches!(part, Part::Bytes(_))).map(|parts| match parts {
        [Part::Bytes(bytes)] => Cow::Borrowed(bytes.as_slice()),
        parts => {
            let pieces = parts.iter().map(|part| if let Part::Bytes(bytes) = part { bytes.as_slice() } else { &[] });
            Cow::Owned(pieces.collect::<Vec<_>>().concat())
        }
    })
}
