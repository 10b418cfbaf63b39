//! The import `credentials`: what a provider can do with secrets without ever holding one.
//!
//! A credential goes only where `meta.describe` says ([`Uses`]). One that is declared for signing is a key: the key
//! itself never leaves the host, only signatures made with it, which go to its other places.

mod edition;
mod grant;
mod readable;
mod rotation;
mod source;
#[cfg(test)]
mod tests;
mod uses;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use ccm_cloud::Descriptor;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use edition::{Edition, ToldFile};
pub(crate) use grant::Within;
pub use grant::{NoUseGrant, UseGrant, UseGrants, needs_no_grant};
pub use readable::SourceState;
pub use source::{CredentialSource, Object, SourceError};
pub(crate) use uses::{At, Pin, Spot, Uses};
use volume::Volume;

use crate::captured::{Captured, Generation, ValueTooLarge};
use crate::error::CredentialRefusal;
use crate::redact::{Origin, Redactor, RedactorCache, TooLarge};
use crate::secret::Secret;
use crate::signature::{Algorithm, Digest, PrivateKey};
use crate::signed::Signed;

/// Shortest credential, in bytes, unless set otherwise: replacing shorter values would destroy answers.
pub(crate) const MIN_CREDENTIAL_BYTES: usize = 8;
/// Largest credential, in bytes: every form of it is kept in memory.
pub(crate) const MAX_CREDENTIAL_BYTES: usize = 64 << 10;
/// A shorter secret of the configuration that is no credential is left in answers: it would be found in ordinary text.
const MIN_HIDDEN_BYTES: usize = 6;
/// Values of one credential that were valid before and are still replaced in answers.
const OLD_VALUES: usize = 4;

/// The credentials of one provider.
pub(crate) struct Credentials {
    uses: Uses,
    given: BTreeMap<String, Given>,
    /// What the given ones belong to.
    edition: Edition,
    /// Whoever takes other values, or wants to know that nobody does.
    turn: Mutex<()>,
    captured: Arc<Captured>,
    /// Secrets of the configuration that nobody declared: they are used for nothing, and still replaced.
    hidden: Vec<(String, Secret)>,
    min_bytes: usize,
    /// What was signed with the given ones a short time ago.
    signed: Signed,
    /// Of the given and the hidden ones.
    redactor: RedactorCache,
    /// Counts values that others may wait for.
    rotations: watch::Sender<u64>,
    /// Those in use, and whether their sources can be read.
    sources: watch::Sender<Vec<SourceState>>,
}

/// A credential that the operator gave.
struct Given {
    source: CredentialSource,
    /// Where it is, if it is in a file.
    volume: Option<Volume>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest value, and how often it changed.
    value: Option<Secret>,
    changes: u64,
    old: Vec<Secret>,
    /// Parsed once per value: parsing an RSA key takes longer than signing with it.
    key: Option<Result<Arc<PrivateKey>, String>>,
    /// What is said once, until it is another.
    trouble: Option<String>,
}

/// Why the result of a login is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStored {
    /// It is too large.
    #[error(transparent)]
    TooLarge(#[from] ValueTooLarge),
    /// The login was made with other values.
    #[error(
        "the credentials changed during this login: what it gave is not used, and the next login uses the new ones"
    )]
    Outdated,
}

impl Credentials {
    /// The credentials that `descriptor` declares, with the values that the operator gave, and those that answers gave.
    #[must_use]
    pub(crate) fn new(
        descriptor: &Descriptor,
        granted: UseGrants,
        given: BTreeMap<String, CredentialSource>,
        hidden: Vec<(String, Secret)>,
        captured: Arc<Captured>,
        min_bytes: usize,
        edition: Edition,
    ) -> Self {
        let places: Vec<_> = given.iter().map(|(name, source)| (name.as_str(), source.place())).collect();
        let uses = Uses::new(&descriptor.credentials, granted).valued(&places);
        let hidden = hidden.into_iter().filter(|(_, value)| value.weight() >= MIN_HIDDEN_BYTES).collect();
        let given = given.into_iter().map(|(name, source)| {
            let volume = source.path().map(Volume::of);
            (name, Given { source, volume, state: Mutex::default() })
        });
        Self {
            uses,
            given: given.collect(),
            edition,
            turn: Mutex::default(),
            captured,
            hidden,
            min_bytes,
            signed: Signed::default(),
            redactor: RedactorCache::default(),
            rotations: watch::Sender::new(0),
            sources: watch::Sender::default(),
        }
    }

    /// Where each may stand.
    #[must_use]
    pub(crate) const fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The grants, as flags, that the given ones lack.
    #[must_use]
    pub(crate) fn ungranted(&self) -> Vec<String> {
        self.given.keys().flat_map(|name| self.uses.missing(name)).collect()
    }

    /// Those that answers gave. Looks at the given ones first: when one has changed, what was got with it ends.
    #[must_use]
    pub(crate) fn captured(&self) -> &Captured {
        self.look();
        &self.captured
    }

    /// Begins with a copy of what answers gave to the one `before`, so that there is no login for an exchange: from then on
    /// each has its own. Not so where the operator has given another value since: what was got with the old one must end.
    pub(crate) fn inherit(&self, before: &Self) {
        let differs = |(name, given): (&String, &Given)| {
            let own = self.read(name, given).map(|(value, _)| value);
            let other = before.given.get(name).map(|given| before.read(name, given).map(|(value, _)| value));
            matches!((own, other), (Ok(own), Some(Ok(other))) if own.expose() != other.expose())
        };
        if !self.given.iter().any(differs) {
            self.captured.copy(before.captured());
        }
    }

    /// Digest of the files of the configuration, as the provider is told of them, and of the given values: tokens and addresses belong to
    /// them.
    #[must_use]
    pub(crate) fn account(&self) -> [u8; 32] {
        self.look();
        let mut account = digest::Context::new(&digest::SHA256);
        let mut add = |part: &[u8]| {
            account.update(&part.len().to_be_bytes());
            account.update(part);
        };
        self.edition.shown().for_each(|shown| add(shown.as_bytes()));
        for (name, given) in &self.given {
            add(name.as_bytes());
            add(given.state.lock().value.as_ref().map(Secret::expose).unwrap_or_default());
        }
        let mut digest = [0; 32];
        digest.iter_mut().zip(account.finish().as_ref()).for_each(|(to, from)| *to = *from);
        digest
    }

    /// What is wrong with the credentials now, each with its name: required ones without a value, values that cannot be used.
    #[must_use]
    pub(crate) fn problems(&self, descriptor: &Descriptor) -> Vec<String> {
        let mut problems = Vec::new();
        for declared in &descriptor.credentials {
            let name = &declared.name;
            match self.given.get(name) {
                Some(_) => {
                    if let Err(CredentialRefusal::Unknown(why) | CredentialRefusal::Denied(why)) = self.value(name) {
                        problems.push(why);
                    }
                }
                None if declared.required => problems.push(format!(
                    "credential {name:?}: the provider needs it ({}); give it with --credential {name}=file:PATH or env:VARIABLE (for run, plan and doctor, also secret:NAMESPACE/NAME/KEY){}",
                    declared.purpose,
                    keys(&declared.value.keys)
                )),
                None => {}
            }
        }
        problems
    }

    /// Whether the operator gave it, so that no answer can.
    #[must_use]
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Those that have a value from the operator, each with its source.
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        let having = self.given.iter().filter(|(_, given)| given.state.lock().value.is_some());
        having.map(|(name, given)| (name.clone(), given.source.to_string())).collect()
    }

    /// Another number whenever a value changes.
    #[must_use]
    pub(crate) fn version(&self) -> u64 {
        self.given_changes().wrapping_add(self.captured.changes().rotate_left(32))
    }

    /// Another number whenever a given value changes.
    #[must_use]
    pub(crate) fn given_changes(&self) -> u64 {
        self.given.values().map(|given| given.state.lock().changes).sum()
    }

    /// Another number whenever given values change, all at once: what was done between two equal ones was done with values of one edition.
    /// Takes what the sources hold first.
    pub(crate) fn edition(&self) -> u64 {
        self.look();
        self.edition_held()
    }

    /// The same of the values that are held, whatever the sources hold by now.
    pub(crate) fn edition_held(&self) -> u64 {
        let _turn = self.turn.lock();
        self.given_changes()
    }

    /// Stores what a login gave in which values of this [`edition`](Self::edition) went out; not if there are others by now.
    ///
    /// # Errors
    ///
    /// See [`NotStored`].
    pub(crate) fn store(
        &self,
        edition: u64,
        name: &str,
        value: Secret,
        life: Option<Duration>,
    ) -> Result<(), NotStored> {
        self.look();
        // Nobody takes other values before it is stored, and whoever does then ends it.
        let _turn = self.turn.lock();
        if self.given_changes() != edition {
            return Err(NotStored::Outdated);
        }
        Ok(self.captured.store(name, value, life)?)
    }

    /// The value of a credential now.
    ///
    /// # Errors
    ///
    /// It is not declared, was not given, or its source cannot be read.
    pub(crate) fn value(&self, name: &str) -> Result<Secret, CredentialRefusal> {
        self.look();
        self.value_held(name).map(|(value, _)| value)
    }

    /// The value that is held, whatever its source holds by now: for who has taken the [`edition`](Self::edition) a moment ago. To look at
    /// files takes longer than all else that a request needs. A captured one has its generation with it.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value).
    pub(crate) fn value_held(&self, name: &str) -> Result<(Secret, Option<Generation>), CredentialRefusal> {
        if !self.uses.knows(name) {
            return Err(CredentialRefusal::Unknown(format!("credential {name:?} is not declared by the provider")));
        }
        if let Some(given) = self.given.get(name) {
            return Self::of_state(name, given).map(|(value, _)| (value, None)).map_err(CredentialRefusal::Unknown);
        }
        let captured = self.captured.value(name).map(|(value, generation)| (value, Some(generation)));
        captured.ok_or_else(|| CredentialRefusal::Unknown(format!("credential {name:?} has no value: {NO_VALUE}")))
    }

    /// The value of a given credential, and how often it has changed.
    fn read(&self, name: &str, given: &Given) -> Result<(Secret, u64), String> {
        self.look();
        Self::of_state(name, given)
    }

    fn of_state(name: &str, given: &Given) -> Result<(Secret, u64), String> {
        let state = given.state.lock();
        let value = state.value.clone().ok_or_else(|| {
            state.trouble.clone().unwrap_or_else(|| format!("credential {name:?} has no value: {NO_VALUE}"))
        })?;
        Ok((value, state.changes))
    }

    /// The parsed key of a credential.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value), and when it is no key.
    pub(crate) fn key(&self, name: &str) -> Result<Arc<PrivateKey>, CredentialRefusal> {
        let unknown = |why: String| CredentialRefusal::Unknown(format!("credential {name:?} is no private key: {why}"));
        let Some(given) = self.given.get(name) else {
            let value = self.value(name)?;
            return PrivateKey::parse(&value).map(Arc::new).map_err(|error| unknown(error.to_string()));
        };
        let (value, changes) = self.read(name, given).map_err(CredentialRefusal::Unknown)?;
        if let Some(key) = given.state.lock().key.clone() {
            return key.map_err(unknown);
        }
        let key = PrivateKey::parse(&value).map(Arc::new).map_err(|error| error.to_string());
        let mut state = given.state.lock();
        // Somebody may have changed the value meanwhile.
        if state.changes == changes {
            state.key = Some(key.clone());
        }
        drop(state);
        key.map_err(unknown)
    }

    /// The algorithm that fits a key.
    ///
    /// # Errors
    ///
    /// As [`key`](Self::key); [`CredentialRefusal::Denied`] when it is not declared for signing.
    pub(crate) fn key_algorithm(&self, name: &str) -> Result<Algorithm, CredentialRefusal> {
        self.uses.signs_somewhere(name)?;
        Ok(self.key(name)?.algorithm())
    }

    /// Digest of the public half of a key.
    ///
    /// # Errors
    ///
    /// As [`key_algorithm`](Self::key_algorithm).
    pub(crate) fn fingerprint(&self, name: &str, digest: Digest) -> Result<Vec<u8>, CredentialRefusal> {
        self.uses.signs_somewhere(name)?;
        Ok(self.key(name)?.fingerprint(digest))
    }

    /// A signature by the credential `name`, which is a shared secret or a private key.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value), and when algorithm and key do not fit.
    pub(crate) fn sign(&self, name: &str, algorithm: Algorithm, data: &[u8]) -> Result<Vec<u8>, CredentialRefusal> {
        let unknown = |why: String| CredentialRefusal::Unknown(format!("credential {name:?} cannot sign: {why}"));
        match algorithm {
            Algorithm::HmacSha1 | Algorithm::HmacSha256 | Algorithm::HmacSha512 => {
                crate::signature::sign(&self.value(name)?, algorithm, data).map_err(|error| unknown(error.to_string()))
            }
            _ => self.key(name)?.sign(algorithm, data).map_err(|error| unknown(error.to_string())),
        }
    }

    /// Signatures that are secrets for a while.
    pub(crate) const fn signed(&self) -> &Signed {
        &self.signed
    }

    /// Replaces the values of all credentials, of now and of shortly before.
    ///
    /// # Errors
    ///
    /// There are too many of them: then nothing may be shown at all.
    pub(crate) fn redactor(&self) -> Result<Redactor, TooLarge> {
        // Two: a login builds only what is small again.
        Ok(self.given_redactor()?.then(&self.captured.redactor()?))
    }

    /// The same without captured values: those are whatever a cloud says.
    ///
    /// # Errors
    ///
    /// As [`redactor`](Self::redactor).
    pub(crate) fn given_redactor(&self) -> Result<Redactor, TooLarge> {
        let given = || {
            let hidden = self.hidden.iter().map(|(name, value)| (name.clone(), value.clone(), Origin::Given));
            let mut values: Vec<(String, Secret, Origin)> = hidden.collect();
            for (name, given) in &self.given {
                let state = given.state.lock();
                values.extend(state.value.iter().map(|value| (name.clone(), value.clone(), Origin::Given)));
                values.extend(state.old.iter().map(|value| (name.clone(), value.clone(), Origin::Old)));
            }
            values
        };
        self.redactor.get(|| self.given_changes(), given)
    }
}

const NO_VALUE: &str = "nobody gave one, or it was captured and is spent";

fn keys(keys: &[String]) -> String {
    if keys.is_empty() { String::new() } else { format!(", or in the cloud-config as {}", keys.join(" or ")) }
}

impl State {
    /// For a while, what was valid before is still replaced in answers.
    fn remember(&mut self, old: Secret) {
        self.old.insert(0, old);
        self.old.truncate(OLD_VALUES);
    }
}

/// Why a source gives no value that can be used.
struct Unusable {
    why: String,
    /// The same source may give one at another time, though nothing of it shows a change.
    may_pass: bool,
}

impl Given {
    /// What the source holds, if it can be used.
    fn fetch(&self, name: &str, min_bytes: usize) -> Result<Secret, Unusable> {
        let unusable = |why: String| Err(Unusable { why, may_pass: false });
        match self.source.read() {
            Ok(Some(value)) if value.weight() < min_bytes.max(1) => unusable(format!(
                "credential {name:?} has less than {min_bytes} bytes ({}); values this short cannot be kept out of answers: check it, or lower the limit min-credential-bytes",
                self.source
            )),
            Ok(Some(value)) if value.expose().len() > MAX_CREDENTIAL_BYTES => {
                unusable(format!("credential {name:?} has more than {MAX_CREDENTIAL_BYTES} bytes ({})", self.source))
            }
            Ok(Some(value)) => Ok(value),
            Ok(None) => unusable(format!("credential {name:?} has no value: {}", self.source.lack())),
            Err(error) => Err(Unusable { why: format!("credential {name:?}: {error}"), may_pass: error.may_pass() }),
        }
    }
}
