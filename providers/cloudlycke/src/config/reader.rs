//! Reading a file key by key without stopping at the first mistake.
//!
//! What has a type parameter here is a thin shell around what has none: the compiler makes it once for each type.

use std::fmt::Display;

use ccm_sdk::quoted;
use ccm_sdk::types::Problem;

use super::value::{Mapping, Value};

/// A mapping in the file. A value that does not fit is a problem and reads as if it were missing; so does `null`.
pub(super) struct Section<'p> {
    file: &'p str,
    /// Empty for the whole file.
    path: String,
    entries: Mapping,
    asked: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Section<'p> {
    /// The whole file; empty where there is none. To be [finished](Self::finish) like any other.
    pub(super) fn whole(file: &'p str, text: Option<&str>, problems: &'p mut Vec<Problem>) -> Self {
        let value = match text.map(serde_json::from_str) {
            None => Value::Null,
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                problems.push(Problem::fatal(file, format!("cannot be read: {error}")));
                Value::Null
            }
        };
        let mut whole = Section { file, path: String::new(), entries: vec![], asked: vec![], problems };
        match value {
            Value::Null => {}
            Value::Mapping(entries) => whole.entries = entries,
            other => whole.wrong("", format!("must be a mapping, not {}", other.kind())),
        }
        whole
    }

    /// Keys that nobody asked for are problems.
    pub(super) fn finish(mut self) {
        let mut message = String::new();
        for key in &self.asked {
            message.push_str(if message.is_empty() { "no such key; here can be: " } else { ", " });
            message.push_str(key);
        }
        for (key, _) in std::mem::take(&mut self.entries) {
            self.wrong(&key, message.clone());
        }
    }

    /// Text under the key.
    #[inline(never)]
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::Text(text) => Some(text),
            other => self.mistyped(key, "a text", &other),
        }
    }

    /// Text under the key that means something.
    #[inline(never)]
    pub(super) fn parsed<T>(&mut self, key: &'static str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(&self.text(key)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(key, message);
                None
            }
        }
    }

    /// As [`parsed`](Self::parsed), for a key that must be there.
    pub(super) fn required<T>(&mut self, key: &'static str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
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
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(flag) => Some(flag),
            other => self.mistyped(key, "`true` or `false`", &other),
        }
    }

    /// One text or a list of texts under the key, each read by `parse`, with the path of each; `None` without the key.
    #[inline(never)]
    pub(super) fn one_or_many<T>(
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
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let mut section = self.inner(key);
        let result = read(&mut section);
        section.finish();
        result
    }

    /// The list of mappings under the key, with the path of each.
    pub(super) fn sections<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>) -> T,
    ) -> Option<Vec<(String, T)>> {
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
        Section { file: self.file, path, entries, asked: vec![], problems: self.problems }
    }

    /// What is under the key will be refused.
    pub(super) fn wrong(&mut self, key: &str, message: String) {
        self.problems.push(Problem::fatal(self.field(key), message));
    }

    /// What is under the key is right, but nothing comes of it.
    pub(super) fn unused(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::harmless(self.field(key), message));
    }

    fn mistyped<T>(&mut self, key: &str, expected: &str, found: &Value) -> Option<T> {
        self.wrong(key, format!("must be {expected}, not {}", found.kind()));
        None
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

#[inline(never)]
fn numbered(key: &str, values: Vec<Value>) -> Vec<(String, Value)> {
    values.into_iter().enumerate().map(|(index, value)| (format!("{key}[{index}]"), value)).collect()
}

/// The one of `choices` that is written like `text`.
///
/// # Errors
///
/// A message that lists them.
pub(crate) fn choice<T: Copy + Display>(text: &str, choices: &[T]) -> Result<T, String> {
    let found = choices.iter().copied().find(|choice| choice.to_string() == text);
    found.ok_or_else(|| none_of(text, &mut choices.iter().map(|choice| choice as &dyn Display)))
}

#[inline(never)]
fn none_of(text: &str, choices: &mut dyn Iterator<Item = &dyn Display>) -> String {
    let names: Vec<_> = choices.map(|choice| format!("`{choice}`")).collect();
    format!("must be one of {}, not {}", names.join(", "), quoted(text))
}
