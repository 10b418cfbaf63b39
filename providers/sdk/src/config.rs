//! Reads a configuration file key by key, and tells all mistakes in one go.
//!
//! The host has parsed the file, whatever it was written in ([`settings::file`](crate::settings::file)); here its keys get their
//! meaning. A value that does not fit is a problem, and reads as if it were missing. YAML, JSON and the INI dialect of Kubernetes'
//! old cloud-configs (gcfg) are read alike:
//!
//! ```
//! use std::time::Duration;
//!
//! use ccm_sdk::config::Section;
//! use ccm_sdk::types::Problem;
//! use ccm_sdk::{duration, settings};
//!
//! struct Config {
//!     zone: Option<String>,
//!     tls: bool,
//!     timeout: Duration,
//!     pools: Vec<(String, Option<String>)>,
//! }
//!
//! /// ```ini
//! /// [Global]
//! /// zone = north
//! /// tls                      ; without a value: yes
//! /// request-timeout = 90s
//! /// [Pool "gold"]
//! /// network = n-1
//! /// ```
//! fn read(text: Option<&str>) -> (Config, Vec<Problem>) {
//!     let mut problems = vec![];
//!     let mut root = Section::ini("cloud-config", text, &mut problems);
//!     let (zone, tls, timeout) = root.section("global", |global| {
//!         let timeout = global.parsed("request-timeout", duration::parse);
//!         (global.text("zone"), global.flag("tls").unwrap_or(false), timeout.unwrap_or(Duration::from_secs(60)))
//!     });
//!     let pools = root.named("pool", |pool| pool.text("network"));
//!     root.finish();
//!     (Config { zone, tls, timeout, pools }, problems)
//! }
//!
//! fn configured() -> (Config, Vec<Problem>) {
//!     read(settings::file("cloud-config").as_deref())
//! }
//! ```
//!
//! What has a type parameter here is a thin shell around what has none: the compiler makes it once for each type.

mod value;

use self::value::{Mapping, Value};
use crate::types::Problem;
use crate::words::nearest;

/// A mapping in the file, or a section of an INI one. `null` reads as if it were missing.
///
/// Keys of an INI file are asked for in lower case. A key that is there several times is a list to [`one_or_many`](Self::one_or_many);
/// to everything else the last one counts.
pub struct Section<'p> {
    file: &'p str,
    /// Of an INI file, where all values are texts. What only some files need is linked where it is used.
    ini: Option<fn(&str) -> Option<bool>>,
    /// Says what is with a key that nobody asked for, where such keys do no harm.
    forgives: Option<fn(&str, &[&'static str]) -> String>,
    /// Empty for the whole file.
    path: String,
    entries: Mapping,
    asked: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Section<'p> {
    /// The whole file of YAML or JSON; empty where there is none. To be [finished](Self::finish) like any other.
    pub fn whole(file: &'p str, text: Option<&str>, problems: &'p mut Vec<Problem>) -> Self {
        let mut whole = Self::new(file, problems);
        let value = whole.value(text);
        whole.take_mapping(value);
        whole
    }

    /// The same of an INI file, or of one of YAML or JSON.
    pub fn ini(file: &'p str, text: Option<&str>, problems: &'p mut Vec<Problem>) -> Self {
        let mut whole = Self::new(file, problems);
        match whole.value(text) {
            Value::List(entries) if value::is_ini(&entries) => {
                whole.ini = Some(flag);
                whole.entries = value::sections(entries);
            }
            value => whole.take_mapping(value),
        }
        whole
    }

    fn new(file: &'p str, problems: &'p mut Vec<Problem>) -> Self {
        Self { file, ini: None, forgives: None, path: String::new(), entries: vec![], asked: vec![], problems }
    }

    fn value(&mut self, text: Option<&str>) -> Value {
        match text.map(serde_json::from_str) {
            None => Value::Null,
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                self.wrong("", format!("cannot be read: {error}"));
                Value::Null
            }
        }
    }

    fn take_mapping(&mut self, value: Value) {
        match value {
            Value::Null => {}
            Value::Mapping(entries) => self.entries = entries,
            other => self.wrong("", format!("must be a mapping, not {}", other.kind())),
        }
    }

    /// Keys that nobody asks for are told and do no harm, for files that other programs read as well. Without it they are refused.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.forgives = Some(forgiven);
        self
    }

    /// Keys that nobody asked for are problems: they are misspelt, or of another version.
    pub fn finish(mut self) {
        let mut message = String::new();
        for key in &self.asked {
            message.push_str(if message.is_empty() { "no such key; here can be: " } else { ", " });
            message.push_str(key);
        }
        for (key, _) in std::mem::take(&mut self.entries) {
            match self.forgives {
                Some(forgiven) => self.unused(&key, &forgiven(&key, &self.asked)),
                None => self.wrong(&key, message.clone()),
            }
        }
    }

    /// Whether the key is there, whatever it has.
    pub fn is_there(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name == key)
    }

    /// What is under the key is for other programs.
    pub fn ignore(&mut self, key: &'static str) {
        drop(self.take(key));
    }

    /// Text under the key.
    #[inline(never)]
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take_last(key)? {
            Value::Text(text) => Some(text),
            other => self.mistyped(key, "a text", &other),
        }
    }

    /// Text under the key that means something.
    #[inline(never)]
    pub fn parsed<T>(&mut self, key: &'static str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(&self.text(key)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(key, message);
                None
            }
        }
    }

    /// As [`parsed`](Self::parsed), for a key that must be there.
    pub fn required<T>(&mut self, key: &'static str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        self.require(key);
        self.parsed(key, parse)
    }

    fn require(&mut self, key: &'static str) {
        if !self.entries.iter().any(|(name, value)| name == key && !value.is_null()) {
            self.wrong(key, "is missing".to_owned());
        }
    }

    /// `true` or `false` under the key.
    #[inline(never)]
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let found = self.take_last(key)?;
        let flag = match (&found, self.ini) {
            (Value::Bool(flag), _) => Some(*flag),
            (Value::Text(text), Some(read)) => read(text),
            _ => None,
        };
        flag.or_else(|| self.mistyped(key, "`true` or `false`", &found))
    }

    /// A whole number under the key.
    #[inline(never)]
    pub fn number(&mut self, key: &'static str) -> Option<i64> {
        let number = match self.take_last(key)? {
            Value::Number(Some(number)) => Some(number),
            Value::Text(text) if self.ini.is_some() => match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            other => return self.mistyped(key, "a whole number", &other),
        };
        if number.is_none() {
            self.wrong(key, "must be a whole number".to_owned());
        }
        number
    }

    /// One text or a list of texts under the key, each read by `parse`, with the path of each; `None` without the key.
    #[inline(never)]
    pub fn one_or_many<T>(
        &mut self,
        key: &'static str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<Vec<(String, T)>> {
        let values = match self.take(key)? {
            Value::List(values) => numbered(key, values),
            value => vec![(key.to_owned(), value)],
        };
        let mut parsed = vec![];
        for (path, value) in values {
            match value {
                Value::Text(text) => match parse(&text) {
                    Ok(value) => parsed.push((path, value)),
                    Err(message) => self.wrong(&path, message),
                },
                other => self.wrong(&path, format!("must be a text, not {}", other.kind())),
            }
        }
        Some(parsed)
    }

    /// The mapping under the key; an empty one without the key.
    pub fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let mut section = self.inner(key);
        let result = read(&mut section);
        section.finish();
        result
    }

    /// The mappings under the key, each with its name: `[Pool "gold"]` and `[Pool "silver"]` of an INI file, or a mapping of
    /// mappings.
    pub fn named<T>(&mut self, key: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<(String, T)> {
        let mut outer = self.inner(key);
        let mut found = vec![];
        for (name, value) in std::mem::take(&mut outer.entries) {
            let Some(mut section) = outer.item(&name, value) else { continue };
            let item = read(&mut section);
            section.finish();
            found.push((name, item));
        }
        found
    }

    /// The list of mappings under the key, with the path of each.
    pub fn sections<T>(&mut self, key: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Option<Vec<(String, T)>> {
        let mut items = vec![];
        for (path, value) in self.list(key)? {
            let Some(mut section) = self.item(&path, value) else { continue };
            let item = read(&mut section);
            section.finish();
            items.push((path, item));
        }
        Some(items)
    }

    #[inline(never)]
    fn inner(&mut self, key: &'static str) -> Section<'_> {
        let entries = match self.take(key) {
            None => vec![],
            Some(Value::Mapping(entries)) => entries,
            Some(other) => self.mistyped(key, "a mapping", &other).unwrap_or_default(),
        };
        self.below(key, entries)
    }

    #[inline(never)]
    fn list(&mut self, key: &'static str) -> Option<Vec<(String, Value)>> {
        match self.take(key)? {
            Value::List(values) => Some(numbered(key, values)),
            other => self.mistyped(key, "a list", &other),
        }
    }

    #[inline(never)]
    fn item(&mut self, path: &str, value: Value) -> Option<Section<'_>> {
        match value {
            Value::Mapping(entries) => Some(self.below(path, entries)),
            other => self.mistyped(path, "a mapping", &other),
        }
    }

    fn below(&mut self, key: &str, entries: Mapping) -> Section<'_> {
        let path = self.path_of(key);
        let Section { file, ini, forgives, .. } = *self;
        Section { file, ini, forgives, path, entries, asked: vec![], problems: self.problems }
    }

    /// What is under the key will be refused.
    pub fn wrong(&mut self, key: &str, message: String) {
        self.problems.push(Problem::fatal(self.field(key), message));
    }

    /// What is under the key is right, but nothing comes of it.
    pub fn unused(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::harmless(self.field(key), message));
    }

    fn mistyped<T>(&mut self, key: &str, expected: &str, found: &Value) -> Option<T> {
        self.wrong(key, format!("must be {expected}, not {}", found.kind()));
        None
    }

    fn take_last(&mut self, key: &'static str) -> Option<Value> {
        match self.take(key)? {
            Value::List(mut values) if self.ini.is_some() => values.pop(),
            value => Some(value),
        }
    }

    #[inline(never)]
    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        let mut found = Value::Null;
        // Of a key that is there twice the last one counts.
        self.entries.retain_mut(|(name, value)| {
            let is_asked = name == key;
            if is_asked {
                std::mem::swap(&mut found, value);
            }
            !is_asked
        });
        Some(found).filter(|value| !value.is_null())
    }

    fn field(&self, key: &str) -> String {
        match self.path_of(key) {
            path if path.is_empty() => self.file.to_owned(),
            path => format!("{}:{path}", self.file),
        }
    }

    fn path_of(&self, key: &str) -> String {
        match (self.path.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{key}", self.path),
        }
    }
}

/// A flag in an INI file.
fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn forgiven(key: &str, known: &[&'static str]) -> String {
    let near = nearest(key, known).map(|near| format!("; is it meant to be {near}?")).unwrap_or_default();
    format!("is not known, and has no effect{near}")
}

#[inline(never)]
fn numbered(key: &str, values: Vec<Value>) -> Vec<(String, Value)> {
    values.into_iter().enumerate().map(|(index, value)| (format!("{key}[{index}]"), value)).collect()
}

#[cfg(test)]
mod tests;
