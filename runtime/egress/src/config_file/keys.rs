//! From a declared source to the value that it has, and to words for where that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ccm_cloud::{Credential, Source};

use super::secret_names::looks_secret;
use super::{ConfigFile, ini};

/// A key as descriptors write it: parts between dots, in which `{name}` stands for the value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key(Vec<Vec<Piece>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Setting(String),
}

impl Key {
    /// `key` without the name of its file.
    pub(super) fn parse(key: &str) -> Self {
        let mut parts = vec![Vec::new()];
        let mut rest = key;
        while let Some(char) = rest.chars().next() {
            let setting = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (piece, after) = match (char, setting) {
                (_, Some((name, after))) => (Piece::Setting(name.to_owned()), after),
                ('.', None) => {
                    parts.push(Vec::new());
                    rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
                (_, None) => {
                    let end = rest.char_indices().skip(1).find(|(_, char)| matches!(char, '.' | '{'));
                    let (text, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
                    (Piece::Text(text.to_owned()), after)
                }
            };
            rest = after;
            if let Some(part) = parts.last_mut() {
                part.push(piece);
            }
        }
        Self(parts)
    }

    /// Settings that it stands for.
    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().filter_map(|piece| match piece {
            Piece::Setting(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Its parts, with values for settings. None where a setting has none.
    fn fill(&self, settings: &BTreeMap<String, String>) -> Option<Vec<String>> {
        let part = |pieces: &Vec<Piece>| {
            let texts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => Some(text.as_str()),
                Piece::Setting(name) => settings.get(name).map(String::as_str).filter(|value| !value.is_empty()),
            });
            texts.collect::<Option<String>>()
        };
        self.0.iter().map(part).collect()
    }

    /// Whether it is the one at `path`, whatever its settings are.
    pub(super) fn covers(&self, path: &[String]) -> bool {
        self.0.len() == path.len() && self.0.iter().zip(path).all(|(pieces, part)| covers(pieces, part))
    }

    /// As [`covers`](Self::covers), where case does not count and a subsection may hold dots.
    pub(super) fn covers_ini(&self, path: &[String]) -> bool {
        let ([section, middle @ .., key], Some((path_section, path_name, path_key))) =
            (self.0.as_slice(), ini::parts(path))
        else {
            return false;
        };
        let name = match path_name {
            None => middle.is_empty(),
            Some(_) if middle.iter().any(|pieces| has_setting(pieces)) => true,
            Some(name) => {
                !middle.is_empty() && middle.iter().map(|pieces| text(pieces)).collect::<Vec<_>>().join(".") == name
            }
        };
        name && covers(&lower(section), &path_section.to_lowercase()) && covers(&lower(key), &path_key.to_lowercase())
    }
}

/// A part with a setting in it covers anything: better too much is hidden than too little.
fn covers(pieces: &[Piece], part: &str) -> bool {
    has_setting(pieces) || text(pieces) == part
}

fn has_setting(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Setting(_)))
}

fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) | Piece::Setting(text) => text.as_str(),
    });
    texts.collect()
}

fn lower(pieces: &[Piece]) -> Vec<Piece> {
    let lower = |piece: &Piece| match piece {
        Piece::Text(text) => Piece::Text(text.to_lowercase()),
        Piece::Setting(name) => Piece::Setting(name.clone()),
    };
    pieces.iter().map(lower).collect()
}

/// Environment variables that the operator grants to a provider. Values of others are not even held.
#[derive(Clone, Default)]
pub struct Environment {
    granted: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Environment {
    /// `variables` as far as they are granted: by their name, or by a pattern that ends in `*`, as in `DO_*`.
    #[must_use]
    pub fn new(grants: &[String], variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_granted = |name: &str| {
            grants.iter().any(|grant| grant.strip_suffix('*').map_or(grant == name, |prefix| name.starts_with(prefix)))
        };
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

/// What a source says. It may be a secret: no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub enum FoundValue {
    /// A single value.
    Text(String),
    /// An INI key without `=`.
    Blank,
    /// A list of single values.
    List(Vec<String>),
    /// A mapping, or a list of more than single values.
    Mapping,
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
pub struct KeyPlace {
    /// Declared name of the file.
    pub file: String,
    /// The parts of the key. One may have a dot in it, as the name of a cloud in `clouds.yaml`.
    pub path: Vec<String>,
}

/// Where `key` leads, if a single value is there that is not empty. The value itself is not copied.
#[must_use]
pub fn locate(
    key: &str,
    files: &BTreeMap<String, ConfigFile>,
    settings: &BTreeMap<String, String>,
) -> Option<KeyPlace> {
    let (file, key) = key.split_once(':')?;
    let path = Key::parse(key).fill(settings)?;
    files.get(file)?.value_at(&path)?.text().filter(|text| !text.is_empty())?;
    Some(KeyPlace { file: file.to_owned(), path })
}

/// Settings whose values the keys of a source need.
pub(crate) fn needs(source: &Source) -> BTreeSet<String> {
    let keys = source.keys.iter().filter_map(|key| key.split_once(':'));
    keys.flat_map(|(_, key)| Key::parse(key).settings().map(str::to_owned).collect::<Vec<_>>()).collect()
}
