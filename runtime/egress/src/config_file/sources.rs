//! From a declared source to the value that it has, and to words for where that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ccm_cloud::{Credential, Source};

use super::ConfigFile;
use super::keys::Key;
use super::secret_names::looks_secret;
use super::value::FoundValue;

/// Whether a grant is for this variable: by its name, or by a pattern that ends in `*`, as in `DO_*`.
#[must_use]
pub fn grants(grant: &str, name: &str) -> bool {
    grant.strip_suffix('*').map_or(grant == name, |prefix| name.starts_with(prefix))
}

/// Environment variables that the operator grants to a provider. Values of others are not even held.
#[derive(Clone, Default)]
pub struct Environment {
    granted: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Environment {
    /// `variables` as far as one of these [`grants`] them.
    #[must_use]
    pub fn new(granted: &[String], variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_granted = |name: &str| granted.iter().any(|grant| grants(grant, name));
        let mut environment = Self::default();
        for (name, value) in variables {
            if is_granted(&name) {
                environment.granted.insert(name, value);
            } else {
                environment.others.insert(name);
            }
        }
        environment
    }

    /// The value of a granted variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.granted.get(name).map(String::as_str)
    }

    /// Variables that the source names and that exist, but are not granted: the operator may have forgotten them.
    #[must_use]
    pub fn withheld(&self, source: &Source) -> Vec<String> {
        source.environment_variables.iter().filter(|name| self.others.contains(*name)).cloned().collect()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("granted", &self.granted.keys()).finish_non_exhaustive()
    }
}

/// A value and where it came from.
#[derive(Clone)]
pub struct Found {
    /// What the source says.
    pub value: FoundValue,
    /// Where, for people: `cloud-config:Global.api-url (line 3)`, `environment variable DO_TOKEN`.
    pub place: String,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    /// Its name, and the path in it.
    File(String, Vec<String>),
    Variable(String),
    Setting(String),
}

impl Found {
    /// The single value.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            FoundValue::Text(text) => Some(text),
            FoundValue::Blank | FoundValue::List(_) | FoundValue::Mapping => None,
        }
    }

    /// What the operator gives for the setting `name`.
    pub(crate) fn by_hand(name: &str, value: &str) -> Self {
        let value = FoundValue::Text(value.to_owned());
        Self { value, place: format!("settings.{name}"), origin: Origin::Setting(name.to_owned()) }
    }

    /// Whether it is, or looks like, a secret: as a guest sees it in the file. Then no message may show it.
    #[must_use]
    pub fn is_secret(&self, credentials: &[Credential], files: &BTreeMap<String, ConfigFile>) -> bool {
        let mut sources = credentials.iter().map(|credential| &credential.value);
        match &self.origin {
            Origin::Setting(name) => looks_secret(name),
            Origin::Variable(name) => {
                looks_secret(name) || sources.any(|source| source.environment_variables.contains(name))
            }
            Origin::File(name, path) => {
                let mut keys = sources.flat_map(|source| &source.keys).filter_map(|key| key.split_once(':'));
                files.get(name).is_some_and(|file| {
                    file.looks_secret(path) || keys.any(|(of, key)| of == name && file.covers(&Key::parse(key), path))
                })
            }
        }
    }
}

/// The value of a source: the first of its keys, then of its granted environment variables, that has one. An empty
/// value counts only where no other has more to say, so that `x =` hides a default but not what another file says.
#[must_use]
pub fn resolve(
    source: &Source,
    files: &BTreeMap<String, ConfigFile>,
    settings: &BTreeMap<String, String>,
    environment: &Environment,
) -> Option<Found> {
    let in_files = source.keys.iter().filter_map(|key| in_file(key, files, settings));
    let in_environment = source.environment_variables.iter().filter_map(|name| {
        let value = FoundValue::Text(environment.get(name)?.to_owned());
        let origin = Origin::Variable(name.clone());
        Some(Found { value, place: format!("environment variable {name}"), origin })
    });
    let mut empty = None;
    for found in in_files.chain(in_environment) {
        if found.text() != Some("") {
            return Some(found);
        }
        empty = empty.or(Some(found));
    }
    empty
}

fn in_file(key: &str, files: &BTreeMap<String, ConfigFile>, settings: &BTreeMap<String, String>) -> Option<Found> {
    let (file, key) = key.split_once(':')?;
    let path = Key::parse(key).fill(settings)?;
    let value = files.get(file)?.value_at(&path)?;
    let place = format!("{file}:{} (line {})", path.join("."), value.line());
    Some(Found { value: value.found(), place, origin: Origin::File(file.to_owned(), path) })
}

/// Where a key leads in the files: settings are filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// Declared name of the file.
    pub file: String,
    /// The parts of the key. One may have a dot in it, as the name of a cloud in `clouds.yaml`.
    pub path: Vec<String>,
}

/// Where `key` leads, if a single value is there that is not empty. The value itself is not copied.
#[must_use]
pub(crate) fn locate(
    key: &str,
    files: &BTreeMap<String, ConfigFile>,
    settings: &BTreeMap<String, String>,
) -> Option<KeyPlace> {
    let (file, key) = key.split_once(':')?;
    let path = Key::parse(key).fill(settings)?;
    files.get(file)?.value_at(&path)?.text().filter(|text| !text.is_empty())?;
    Some(KeyPlace { file: file.to_owned(), path })
}
