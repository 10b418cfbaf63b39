//! Keys of files, as descriptors write them.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{ConfigFormat, Source};

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
    pub(super) fn fill(&self, settings: &BTreeMap<String, String>) -> Option<Vec<String>> {
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
    pub(super) fn covers_gcfg(&self, path: &[String]) -> bool {
        let ([section, middle @ .., key], Some((path_section, path_name, path_key))) = (self.0.as_slice(), parts(path))
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

/// Section, name of the subsection, and key of a path in a git-config file.
pub(super) fn parts(path: &[impl AsRef<str>]) -> Option<(&str, Option<String>, &str)> {
    let [section, middle @ .., key] = path else { return None };
    let name = (!middle.is_empty()).then(|| middle.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("."));
    Some((section.as_ref(), name, key.as_ref()))
}

/// A path in the one form that all spellings of it have: a component chooses how it spells a key, and may do so in two ways.
pub(crate) fn canonical(path: &[String], format: ConfigFormat) -> Vec<String> {
    match (format, parts(path)) {
        (ConfigFormat::Ini, Some((section, name, key))) => {
            std::iter::once(section.to_lowercase()).chain(name).chain([key.to_lowercase()]).collect()
        }
        (ConfigFormat::Ini, None) => path.to_vec(),
        // A number in a list, also with zeros before it.
        (ConfigFormat::Json | ConfigFormat::Yaml, _) => {
            path.iter().map(|part| part.parse::<usize>().map_or_else(|_| part.clone(), |n| n.to_string())).collect()
        }
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

/// Settings whose values the keys of a source need.
pub(crate) fn needs(source: &Source) -> BTreeSet<String> {
    let keys = source.keys.iter().filter_map(|key| key.split_once(':'));
    keys.flat_map(|(_, key)| Key::parse(key).settings().map(str::to_owned).collect::<Vec<_>>()).collect()
}
