//! The secrets of all providers of a process. What leaves a guest, for the log, for Kubernetes or for a cloud, shows no secret of any provider.
//! Exception: captured values are only taken out of what their own provider's guests say. A cloud chooses them, and one that gave `droplets` as
//! a token would change the requests of every other provider.
//!
//! A guest never sees its words with the secrets replaced: it could guess secrets, and see which guesses are right. So nothing is replaced in
//! what it sees again, which is its cache and what is answered to it.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::credentials::Credentials;
use crate::redact::{Origin, Redactor, TooLarge, placeholder};

/// Longest text that is looked at, in bytes. Everything that leaves a guest as text has a lower limit.
const MAX_TEXT: usize = 1 << 20;

/// What the providers of a process must not say. Cloning shares it.
#[derive(Clone, Default)]
pub struct ProcessSecrets {
    all: Arc<Mutex<Vec<Weak<Credentials>>>>,
    /// Whose captured values count as well.
    own: Weak<Credentials>,
    /// What the newest veil looks for: a veil is asked for several times in a call, and secrets change a few times a day.
    newest: Arc<RwLock<Option<Joined>>>,
}

/// What looks for the secrets of several credentials, and their versions when it was made. These are no credentials in use; but while they are
/// known here, no others are at their places in memory.
struct Joined {
    of: Vec<(Weak<Credentials>, u64)>,
    redactor: Arc<Redactor>,
}

impl ProcessSecrets {
    /// The same with these, while they are in use, for the provider that has them.
    #[must_use]
    pub(crate) fn with(self, credentials: &Arc<Credentials>) -> Self {
        let own = Arc::downgrade(credentials);
        let mut all = self.all.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Weak::clone(&own));
        drop(all);
        Self { own, newest: Arc::default(), ..self }
    }

    /// What replaces all that is secret now.
    #[must_use]
    pub fn veil(&self) -> Veil {
        let all: Vec<Arc<Credentials>> = self.all.lock().iter().filter_map(Weak::upgrade).collect();
        let is_of_all = |joined: &&Joined| {
            let is = |((of, version), one): (&(Weak<Credentials>, u64), &Arc<Credentials>)| {
                std::ptr::eq(of.as_ptr(), Arc::as_ptr(one)) && *version == self.version(one)
            };
            joined.of.len() == all.len() && joined.of.iter().zip(&all).all(is)
        };
        let newest = self.newest.read().as_ref().filter(is_of_all).map(|joined| Arc::clone(&joined.redactor));
        Veil { redactor: newest.map_or_else(|| self.join(&all), Ok), all }
    }

    fn join(&self, all: &[Arc<Credentials>]) -> Result<Arc<Redactor>, TooLarge> {
        // Asked before the values are: a later one is joined again, and none is missed.
        let of = all.iter().map(|one| (Arc::downgrade(one), self.version(one))).collect();
        let redactor = |one: &Arc<Credentials>| if self.is_own(one) { one.redactor() } else { one.given_redactor() };
        let redactors: Vec<Redactor> = all.iter().map(redactor).collect::<Result<_, _>>()?;
        let redactor = Arc::new(redactors.into_iter().reduce(|all, one| all.and(&one)).unwrap_or_default());
        *self.newest.write() = Some(Joined { of, redactor: Arc::clone(&redactor) });
        Ok(redactor)
    }

    fn is_own(&self, one: &Arc<Credentials>) -> bool {
        std::ptr::eq(Arc::as_ptr(one), self.own.as_ptr())
    }

    fn version(&self, one: &Arc<Credentials>) -> u64 {
        if self.is_own(one) { one.version() } else { one.given_changes() }
    }
}

/// Replaces what is secret. For one call, or one line: there may be other secrets later.
pub struct Veil {
    redactor: Result<Arc<Redactor>, TooLarge>,
    all: Vec<Arc<Credentials>>,
}

impl Veil {
    /// The text without secrets. No copy where there is none.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
        let text = match &self.redactor {
            Ok(redactor) => redactor.text(text),
            Err(error) => return Cow::Owned(error.to_string()),
        };
        self.all.iter().fold(text, |text, one| match one.signed().replaced(text.as_bytes()) {
            Some(replaced) => Cow::Owned(String::from_utf8_lossy(&replaced).into_owned()),
            None => text,
        })
    }

    /// Takes secrets out of a text.
    pub fn clean(&self, text: &mut String) {
        let veiled = match self.text(text) {
            Cow::Owned(veiled) => Some(veiled),
            Cow::Borrowed(same) if same.len() < text.len() => Some(same.to_owned()),
            Cow::Borrowed(_) => None,
        };
        if let Some(veiled) = veiled {
            *text = veiled;
        }
    }

    /// The name of a secret in the bytes and where that comes from, unless people come upon it by themselves: who writes a word that somebody
    /// took for a password does not give it away, and must not learn that it is one.
    ///
    /// # Errors
    ///
    /// Not all secrets can be looked for.
    pub(crate) fn finds(&self, bytes: &[u8]) -> Result<Option<(&str, Origin)>, &TooLarge> {
        if let Some(found) = self.redactor.as_ref()?.finds_unguessable(bytes) {
            return Ok(Some(found));
        }
        let is_signature = self.all.iter().any(|one| one.signed().replaced(bytes).is_some());
        Ok(is_signature.then_some(("signature", Origin::Given)))
    }

    /// What a guest gets in place of a text of the cluster that holds a secret of an operator; none where it holds none. Whoever wrote the
    /// text could otherwise have the guest write the secret into a request, and be blamed for it. A word that people come upon by themselves
    /// stays, as in requests. So does what a cloud made up: the text may be how the cloud calls something.
    #[must_use]
    pub fn kept_from_guests(&self, text: &str) -> Option<String> {
        // Where secrets cannot be looked for, nothing is sent.
        match self.redactor.as_ref().ok()?.finds_unguessable(text.as_bytes()) {
            Some((name, Origin::Given | Origin::Old)) => Some(placeholder(name)),
            Some((_, Origin::Captured)) | None => None,
        }
    }
}
