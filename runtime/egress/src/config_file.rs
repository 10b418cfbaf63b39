//! Reads the files that a provider declares, finds values in them, and hides secrets from the provider.
//!
//! One parser per format, here and nowhere else, so that errors carry line and column and guests get JSON. INI is the
//! git-config dialect of Go's gcfg, with a parser of our own: gix-config takes `[section.sub]` and `\b`, which upstream
//! refuses, and does not say where a value stands.
//!
//! Keys are `section.key` or `section.subsection.key` in INI, where section and key ignore case and a subsection may
//! hold dots. In JSON and YAML they are paths through mappings with exact names, and numbers through lists; a name with
//! a dot in it is reached only through `{setting}`.

mod gcfg;
mod keys;
mod secret_names;
mod sources;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod veil;

use std::collections::BTreeMap;

use ccm_cloud::ConfigFormat;

use self::keys::Key;
pub(crate) use self::secret_names::{are_secret, looks_secret, words};
pub use self::sources::{Environment, Found, grants, resolve};
use self::tree::{Kind, Node};
pub use self::value::{ConfigFileError, FoundValue, MAX_CONFIG_FILE};
use self::value::{ConfigValue, Position};
use self::veil::FileVeil;
use crate::secret::Secret;

pub(crate) use self::keys::{canonical, needs};
pub(crate) use self::sources::locate;
pub(crate) use self::veil::{declared, veil_text};

/// A file, parsed. It holds secrets: no `Debug`.
#[derive(Clone)]
pub struct ConfigFile(Content);

#[derive(Clone)]
enum Content {
    Gcfg(gcfg::GcfgFile),
    Tree(Node),
}

/// The text of a file, if it may be one.
///
/// # Errors
///
/// It is too large, not UTF-8, or holds a NUL.
pub fn text(bytes: &[u8]) -> Result<&str, ConfigFileError> {
    if bytes.len() > MAX_CONFIG_FILE {
        return Err(ConfigFileError::TooLarge(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let place = Position::after(std::str::from_utf8(good).unwrap_or_default());
        let hint = if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") { " but UTF-16" } else { "" };
        place.error(format!("the text is not UTF-8{hint}; save it as UTF-8"))
    })?;
    match text.split_once('\0') {
        Some((before, _)) => Err(Position::after(before).error("a NUL byte cannot be part of a configuration")),
        None => Ok(text),
    }
}

impl ConfigFile {
    /// Parses the bytes of a file; none for one that says nothing: empty, or only comments.
    ///
    /// # Errors
    ///
    /// See [`ConfigFileError`].
    pub fn read(bytes: &[u8], format: ConfigFormat) -> Result<Option<Self>, ConfigFileError> {
        let text = text(bytes)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        // YAML allows the mark.
        if text.starts_with('\u{feff}') && format != ConfigFormat::Yaml {
            let message = "the file begins with a byte-order mark (BOM); save it as UTF-8 without one";
            return Err(Position::after("").error(message));
        }
        let node = match format {
            ConfigFormat::Ini => return Ok(gcfg::parse(text)?.map(|file| Self(Content::Gcfg(file)))),
            ConfigFormat::Json => tree::json(text)?,
            ConfigFormat::Yaml => tree::yaml(text)?,
        };
        let what = match node.kind {
            Kind::Null => return Ok(None),
            Kind::Mapping(_) => return Ok(Some(Self(Content::Tree(node)))),
            Kind::List(_) => "a list",
            Kind::Typed { .. } | Kind::Text(_) => "a single value",
        };
        let place = Position { line: node.line, column: 1 };
        Err(place.error(format!("the file must be a mapping of names to values, not {what}")))
    }

    /// The value of a key: in INI that of its last occurrence. A list or a mapping is a value without text; `null` is
    /// none.
    #[cfg(test)]
    fn value(&self, key: &str) -> Option<ConfigValue<'_>> {
        self.value_at(&key.split('.').collect::<Vec<_>>())
    }

    /// The value at the parts of a key (see `KeyPlace`) for the host's own use; none where it is missing, empty, a list
    /// or a mapping.
    #[must_use]
    pub fn secret_at(&self, path: &[impl AsRef<str>]) -> Option<Secret> {
        let text = self.value_at(path)?.text()?;
        (!text.is_empty()).then(|| Secret::new(text.as_bytes().to_vec()))
    }

    /// What a provider gets: JSON without secrets, in the form that `settings.file` promises. Values of `declared` keys
    /// (key to name of the credential, see `declared`) and of keys that look secret are placeholders, and so are
    /// passwords in URLs and private keys, wherever they are. Empty values stay as they are: they hide nothing, and a
    /// provider must see that they are empty. In a declared key `{name}` stands for anything.
    #[must_use]
    pub fn for_guest(&self, declared: &BTreeMap<String, String>) -> String {
        self.veiled(declared).0.to_string()
    }

    /// Sections of an INI file without a key, as they are written, with the line: nobody else hears of them.
    #[must_use]
    pub fn empty_sections(&self) -> &[String] {
        match &self.0 {
            Content::Gcfg(file) => &file.empty,
            Content::Tree(_) => &[],
        }
    }

    /// What [`for_guest`](Self::for_guest) leaves out, each with the name of the credential, or with its key.
    #[must_use]
    pub fn hidden(&self, declared: &BTreeMap<String, String>) -> Vec<(String, Secret)> {
        self.veiled(declared).1
    }

    fn veiled(&self, declared: &BTreeMap<String, String>) -> (serde_json::Value, Vec<(String, Secret)>) {
        let mut veil = FileVeil::new(declared);
        let json = match &self.0 {
            Content::Gcfg(file) => file.entries.iter().map(|entry| entry.veiled(&mut veil)).collect(),
            Content::Tree(root) => root.veiled(&mut veil, &mut Vec::new(), None),
        };
        (json, veil.hidden)
    }

    fn value_at(&self, path: &[impl AsRef<str>]) -> Option<ConfigValue<'_>> {
        match &self.0 {
            Content::Gcfg(file) => gcfg::find(&file.entries, path).last().map(gcfg::GcfgVariable::value),
            Content::Tree(root) => root.at(path)?.value(),
        }
    }

    /// Whether the runtime takes what is at `path` for a secret.
    fn looks_secret(&self, path: &[String]) -> bool {
        match &self.0 {
            Content::Gcfg(_) => path.last().is_some_and(|key| looks_secret(key)),
            Content::Tree(_) => path.iter().any(|name| looks_secret(name)),
        }
    }

    /// Whether `key` is the one at `path`.
    fn covers(&self, key: &Key, path: &[String]) -> bool {
        match &self.0 {
            Content::Gcfg(_) => key.covers_gcfg(path),
            Content::Tree(_) => key.covers(path),
        }
    }
}

/// A JSON text for a guest, with what looks secret hidden.
pub(crate) fn json_for_guest(text: &str) -> Result<String, ConfigFileError> {
    let root = tree::json(text)?;
    let nothing = BTreeMap::new();
    let mut veil = FileVeil::new(&nothing);
    let json = root.veiled(&mut veil, &mut Vec::new(), None);
    Ok(if veil.hidden.is_empty() { text.to_owned() } else { json.to_string() })
}
