//! The files of a configuration and the given credentials are one edition: a request carries values of a single one.
//!
//! A pair, such as an ID in the cloud-config and its secret in a file, is replaced in two places. What sources hold is taken all at once,
//! from a moment in which none of them changed.
//!
//! When the files no longer say what the provider was opened with, values that belong to them wait: this provider keeps the values that it has
//! until the provider with the new configuration takes over.
//!
//! | waits | why |
//! |---|---|
//! | a value in one of the files, in their volume, or in a file that they name | it is replaced with them |
//! | a value that may go out in one request with one that waits, or with one that cannot be read | the two may be a pair |
//! | anything else, such as a token in another volume | does not wait: the value before may expire, however long nobody mends the files |

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccm_cloud::ConfigFormat;
use parking_lot::Mutex;

use super::source::{Mark, all};
use super::volume::Volume;
use super::{Credentials, Given, Unusable};
use crate::config_file::{ConfigFile, MAX_CONFIG_FILE};
use crate::file_stamp::Stamp;
use crate::secret::Secret;

/// How often everything is read anew because something changed meanwhile.
const READINGS: usize = 4;

/// The files that a provider was told of, as it was told.
#[derive(Default)]
pub(crate) struct Edition {
    files: Vec<ToldFile>,
    /// Where they are.
    volumes: Vec<Volume>,
    /// The marks of everything at the last look: what waits then waits until one of them is another.
    seen: Mutex<Option<Vec<Mark>>>,
    /// Why values wait, as it was logged last.
    told: Mutex<Option<String>>,
    /// How often everything was read.
    #[cfg(test)]
    readings: std::sync::atomic::AtomicU32,
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
        Self { volumes: files.iter().map(|file| Volume::of(&file.path)).collect(), files, ..Self::default() }
    }

    /// What the provider was told of the files.
    pub(super) fn shown(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.shown.as_str())
    }

    /// What the files say, where that is not what the provider was told.
    fn differs(&self) -> Option<Differs> {
        let says: Vec<Option<String>> = self.files.iter().map(ToldFile::says).collect();
        let place = self.files.iter().zip(&says).position(|(told, says)| says.as_ref() != Some(&told.shown))?;
        let path = self.files.get(place)?.path.display();
        Some(Differs { why: format!("{path} differs from the configuration in use"), says })
    }

    /// Whether a credential belongs to the files, which differ.
    fn holds(&self, given: &Given, differs: &Differs) -> bool {
        let Some((volume, path)) = given.volume.as_ref().zip(given.source.path()) else { return false };
        let name = serde_json::Value::from(path.to_string_lossy()).to_string();
        let mut texts = self.files.iter().map(|told| &told.shown).chain(differs.says.iter().flatten());
        self.volumes.iter().any(|of_files| of_files.is_with(volume)) || texts.any(|text| text.contains(&name))
    }
}

impl ToldFile {
    /// What the file tells the provider now.
    fn says(&self) -> Option<String> {
        let mut open = std::fs::File::open(&self.path).ok()?;
        let bytes = all(&mut open, MAX_CONFIG_FILE.saturating_add(1)).ok()?;
        Some(ConfigFile::read(&bytes, self.format).ok()??.for_guest(&self.declared))
    }
}

/// The files do not tell the provider what it was told.
struct Differs {
    why: String,
    /// What each of them says; none where it says nothing that can be used.
    says: Vec<Option<String>>,
}

/// What all sources hold, of one moment.
struct Reading {
    values: Vec<Result<Secret, Unusable>>,
    differs: Option<Differs>,
    /// The marks of that moment; none where there was none, or a change may not show in them.
    marks: Option<Vec<Mark>>,
    is_torn: bool,
}

impl Credentials {
    /// Takes what the sources hold now, and nothing that belongs to what waits.
    pub(crate) fn look(&self) {
        let _turn = self.turn.lock();
        let before = self.marks();
        if self.edition.seen.lock().as_ref() == Some(&before.0) {
            return;
        }
        let Reading { values, differs, marks, is_torn } = self.read_together(before);
        let held = self.held(&values, differs.as_ref(), is_torn);
        let may_pass = values.iter().any(|value| value.as_ref().is_err_and(|error| error.may_pass));
        let mut waits = None;
        let (mut is_another, mut is_awaited) = (false, false);
        for (((name, given), read), held) in self.given.iter().zip(values).zip(held) {
            let value = match read {
                Ok(value) => value,
                Err(error) => {
                    given.complain(error.why);
                    continue;
                }
            };
            let unseen = given.source.unseen();
            match held {
                Some(why) => {
                    if !given.keeps_its_value(unseen.is_some()) {
                        given.complain(format!("credential {name:?} is not taken: {why}"));
                    }
                    if !given.holds(&value) {
                        waits = Some(why);
                    }
                }
                // What it has may be old, but is no other value: it holds back none that goes out with it.
                None if given.holds(&value) && unseen.is_some() => {}
                None => {
                    let taken = given.take(name, value);
                    is_another |= taken.is_another;
                    is_awaited |= taken.is_awaited;
                }
            }
            if let Some(why) = unseen {
                given.complain(format!("credential {name:?}: {why}"));
            }
        }
        self.tell_waiting(waits);
        self.tell_sources();
        // What waits is not read again for each request.
        *self.edition.seen.lock() = marks.filter(|_| !may_pass);
        if is_another {
            self.captured.end_all();
        }
        if is_awaited {
            self.rotations.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Why each of the values is not taken, whatever it is.
    fn held(
        &self,
        values: &[Result<Secret, Unusable>],
        differs: Option<&Differs>,
        is_torn: bool,
    ) -> Vec<Option<String>> {
        let torn = || "the sources changed while they were read, again and again; the host tries again".to_owned();
        // Nobody opens a provider with values of a moment in which the files are others.
        let unopened = differs.filter(|_| self.given.values().all(|given| given.state.lock().value.is_none()));
        if let Some(why) = is_torn.then(torn).or_else(|| unopened.map(|differs| differs.why.clone())) {
            return vec![Some(why); values.len()];
        }
        let all: Vec<_> = self.given.iter().zip(values).map(|((name, given), read)| (name, given, read)).collect();
        let of_itself = |(_, given, read): &(&String, &Given, &Result<Secret, Unusable>)| match read {
            // It keeps its value.
            Err(error) => given.state.lock().value.is_some().then(|| error.why.clone()),
            Ok(_) => differs.filter(|differs| self.edition.holds(given, differs)).map(|differs| differs.why.clone()),
        };
        let mut held: Vec<Option<String>> = all.iter().map(of_itself).collect();
        // Whoever keeps an old value keeps back what may go out with it, and that keeps back others in turn.
        let keeps_an_old_one = |(_, given, read): &(&String, &Given, &Result<Secret, Unusable>)| {
            read.as_ref().map_or(true, |value| !given.holds(value))
        };
        let mut keepers: Vec<(&str, String)> = vec![];
        loop {
            let known = keepers.len();
            keepers = all
                .iter()
                .zip(&held)
                .filter(|(one, _)| keeps_an_old_one(one))
                .filter_map(|((name, ..), why)| Some((name.as_str(), why.clone()?)))
                .collect();
            if keepers.len() == known {
                return held;
            }
            for ((name, ..), held) in all.iter().zip(&mut held).filter(|(_, held)| held.is_none()) {
                let keeper = keepers.iter().find(|(keeper, _)| self.uses.may_meet(name, keeper));
                *held = keeper.map(|(_, why)| why.clone());
            }
        }
    }

    /// What all sources hold, read while none of them changed.
    fn read_together(&self, (mut marks, mut is_settled): (Vec<Mark>, bool)) -> Reading {
        let mut readings = 0;
        loop {
            #[cfg(test)]
            self.edition.readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let values = self.given.iter().map(|(name, given)| given.fetch(name, self.min_bytes)).collect();
            let differs = self.edition.differs();
            let now = self.marks();
            readings += 1;
            let is_torn = now.0 != marks;
            if !is_torn || readings == READINGS {
                let marks = (is_settled && !is_torn).then_some(marks);
                return Reading { values, differs, marks, is_torn };
            }
            (marks, is_settled) = now;
        }
    }

    /// Of all sources and files, and whether the next change of any will certainly have another one.
    fn marks(&self) -> (Vec<Mark>, bool) {
        let mut is_settled = true;
        let mut of_file = |path: &PathBuf| {
            let stamp = Stamp::of(path);
            // That there is none shows as well as any other state.
            is_settled &= match &stamp {
                Ok((_, settled)) => *settled,
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            Mark::File(stamp.ok().map(|(stamp, _)| stamp))
        };
        let mut marks: Vec<Mark> = self.given.values().map(|given| given.source.mark(&mut of_file)).collect();
        marks.extend(self.edition.files.iter().map(|file| of_file(&file.path)));
        (marks, is_settled)
    }

    /// Says once why other values are not in use.
    fn tell_waiting(&self, why: Option<String>) {
        let mut told = self.edition.told.lock();
        if let Some(why) = why.as_ref().filter(|_| *told != why) {
            tracing::warn!(
                reason = why,
                "changed credentials are not used yet: what belongs together is used together"
            );
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

    /// The source can be read again, though what it holds is not taken. Returns whether there is a value in use. What is unseen stays told: it
    /// would be said again with each look.
    fn keeps_its_value(&self, is_unseen: bool) -> bool {
        let mut state = self.state.lock();
        let is_in_use = state.value.is_some();
        state.trouble.take_if(|_| is_in_use && !is_unseen);
        is_in_use
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
