//! The files of a configuration and the given credentials are one edition: a request carries values of a single one.
//!
//! A pair, such as an ID in the cloud-config and its secret in a file, is replaced in two places. What sources hold is taken all at once,
//! from a moment in which none of them changed, and not while the files tell the provider something else than it was opened with: then
//! the provider with the new configuration takes over, and this one ends with the values that it has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_cloud::ConfigFormat;
use parking_lot::Mutex;

use super::source::{Mark, all};
use super::{Credentials, Given};
use crate::config_file::{ConfigFile, MAX_CONFIG_FILE};
use crate::file_stamp::Stamp;
use crate::secret::Secret;

/// How often everything is read anew because something changed meanwhile.
const READINGS: usize = 4;

/// The files that a provider was told of, as it was told.
#[derive(Default)]
pub(crate) struct Edition {
    files: Vec<ToldFile>,
    /// The marks of everything at the last look that left nothing open.
    seen: Mutex<Option<Vec<Mark>>>,
    /// Why values wait, as it was logged last.
    told: Mutex<Option<String>>,
}

/// A file of the configuration.
pub(crate) struct ToldFile {
    pub(crate) path: PathBuf,
    pub(crate) format: ConfigFormat,
    /// Keys that hold credentials.
    pub(crate) declared: BTreeMap<String, String>,
    /// What the provider gets of it.
    pub(crate) shown: String,
}

impl Edition {
    pub(crate) fn new(files: Vec<ToldFile>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Why the files do not tell the provider what it was told; none where they do.
    fn differs(&self) -> Option<String> {
        let differs = |file: &&ToldFile| {
            let shown = std::fs::File::open(&file.path).ok().and_then(|mut open| {
                let bytes = all(&mut open, MAX_CONFIG_FILE.saturating_add(1)).ok()?;
                let parsed = ConfigFile::read(&bytes, file.format).ok()??;
                Some(parsed.for_guest(&file.declared))
            });
            shown.as_ref() != Some(&file.shown)
        };
        let file = self.files.iter().find(differs)?;
        Some(format!("{} differs from the configuration in use", file.path.display()))
    }
}

impl Credentials {
    /// Takes what the sources hold now, all of it or nothing.
    pub(super) fn look(&self) {
        let _turn = self.turn.lock();
        let (marks, is_settled) = self.marks();
        if self.edition.seen.lock().as_ref() == Some(&marks) {
            return;
        }
        let (read, held) = self.read_together(marks.clone());
        // Whoever cannot be read keeps its value, and then nobody gets another one: the other half of a pair would not fit.
        let broken = self.given.values().zip(&read).find_map(|(given, read)| {
            let why = read.as_ref().err()?;
            given.state.lock().value.is_some().then(|| why.clone())
        });
        let held = held.or(broken);
        let is_open = held.is_some() || read.iter().any(Result::is_err);
        let mut waits = false;
        let (mut is_another, mut is_awaited) = (false, false);
        for ((name, given), read) in self.given.iter().zip(read) {
            match (read, &held) {
                (Err(why), _) => given.complain(why),
                (Ok(value), Some(_)) if given.holds(&value) => {}
                (Ok(_), Some(why)) => {
                    waits = true;
                    if given.state.lock().value.is_none() {
                        given.complain(format!("credential {name:?} is not taken: {why}"));
                    }
                }
                (Ok(value), None) => {
                    let taken = given.take(name, value);
                    is_another |= taken.is_another;
                    is_awaited |= taken.is_awaited;
                }
            }
        }
        self.tell_waiting(held.filter(|_| waits));
        *self.edition.seen.lock() = (is_settled && !is_open).then_some(marks);
        if is_another {
            self.captured.end_all();
        }
        if is_awaited {
            self.rotations.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// What all sources hold, read while none of them changed, and why that does not count.
    fn read_together(&self, mut marks: Vec<Mark>) -> (Vec<Result<Secret, String>>, Option<String>) {
        let mut read = Vec::new();
        for _ in 0..READINGS {
            read = self.given.iter().map(|(name, given)| given.fetch(name, self.min_bytes)).collect();
            let differs = self.edition.differs();
            let (now, _) = self.marks();
            if now == marks {
                return (read, differs);
            }
            marks = now;
        }
        (read, Some("the sources changed while they were read, again and again; the host tries again".to_owned()))
    }

    /// Of all sources and files, and whether the next change of any will certainly have another one.
    fn marks(&self) -> (Vec<Mark>, bool) {
        let mut is_settled = true;
        let mut of_file = |path: &PathBuf| {
            let stamp = Stamp::of(path).ok();
            is_settled &= stamp.is_some_and(|(_, settled)| settled);
            Mark::File(stamp.map(|(stamp, _)| stamp))
        };
        let mut marks: Vec<Mark> = self.given.values().map(|given| given.source.mark(&mut of_file)).collect();
        marks.extend(self.edition.files.iter().map(|file| of_file(&file.path)));
        (marks, is_settled)
    }

    /// Says once why other values are not in use.
    fn tell_waiting(&self, why: Option<String>) {
        let mut told = self.edition.told.lock();
        if let Some(why) = why.as_ref().filter(|_| *told != why) {
            tracing::warn!(reason = why, "changed credentials are not used yet: the host uses all of them or none");
        }
        *told = why;
    }
}

/// A value that was taken.
struct Taken {
    /// There was another value before.
    is_another: bool,
    /// There was another one, or it was in vain that somebody asked for one.
    is_awaited: bool,
}

impl Given {
    fn holds(&self, value: &Secret) -> bool {
        self.state.lock().value.as_ref().is_some_and(|old| old.expose() == value.expose())
    }

    /// A value that cannot be read any more does not end the old one: an update of a file is not one step everywhere.
    fn complain(&self, why: String) {
        let mut state = self.state.lock();
        if state.trouble.as_ref() != Some(&why) {
            tracing::warn!(error = why, kept = state.value.is_some(), "credential cannot be read");
            state.trouble = Some(why);
        }
    }

    fn take(&self, name: &str, value: Secret) -> Taken {
        let mut state = self.state.lock();
        let had_trouble = state.trouble.take().is_some();
        if state.value.as_ref().is_some_and(|old| old.expose() == value.expose()) {
            return Taken { is_another: false, is_awaited: false };
        }
        let old = state.value.replace(value);
        let is_another = old.is_some();
        if let Some(old) = old {
            state.remember(old);
            tracing::info!(credential = name, source = %self.source, "credential changed");
        }
        state.changes = state.changes.saturating_add(1);
        state.key = None;
        Taken { is_another, is_awaited: is_another || had_trouble }
    }
}

#[cfg(test)]
mod tests;
