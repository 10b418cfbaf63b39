//! Reading a file key by key without stopping at the first mistake.

use std::fmt::Display;

use ccm_sdk::types::Problem;
use serde_json::{Map, Value};

/// A mapping in the file. A value that does not fit is a problem and reads as if it were missing; so does `null`.
pub(super) struct Section<'p> {
    file: &'p str,
    /// Empty for the whole file.
    path: String,
    entries: Map<String, Value>,
    asked: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
}

/// Gives the whole file to `sections`; an empty one where there is none. Keys that it did not ask for are problems.
pub(super) fn read<T>(
    file: &str,
    text: Option<&str>,
    problems: &mut Vec<Problem>,
    sections: impl FnOnce(&mut Section<'_>) -> T,
) -> T {
    let value = match text.map(serde_json::from_str) {
        None => Value::Null,
        Some(Ok(value)) => value,
        Some(Err(error)) => {
            problems.push(Problem::fatal(file, format!("cannot be read: {error}")));
            Value::Null
        }
    };
    let mut root = Section { file, path: String::new(), entries: Map::new(), asked: vec![], problems };
    match value {
        Value::Null => {}
        Value::Object(entries) => root.entries = entries,
        other => root.wrong("", &format!("must be a mapping, not {}", kind(&other))),
    }
    root.finish(sections)
}

impl Section<'_> {
    /// Text under the key.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => self.mistyped(key, "a text", &other),
        }
    }

    /// Text under the key that means something.
    pub(super) fn parsed<T>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(key)?;
        parse(&text).map_err(|message| self.wrong(key, &message)).ok()
    }

    /// As [`parsed`](Self::parsed), for a key that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if matches!(self.entries.get(key), None | Some(Value::Null)) {
            self.wrong(key, "is missing");
        }
        self.parsed(key, parse)
    }

    /// `true` or `false` under the key.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(flag) => Some(flag),
            other => self.mistyped(key, "`true` or `false`", &other),
        }
    }

    /// One text or a list of texts under the key, each read by `parse`, with the path of each; `None` without the key.
    pub(super) fn one_or_many<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<(String, T)>> {
        let values = match self.take(key)? {
            Value::Array(values) => {
                values.into_iter().enumerate().map(|(index, value)| (format!("{key}[{index}]"), value)).collect()
            }
            value => vec![(key.to_owned(), value)],
        };
        let mut parsed = vec![];
        for (path, value) in values {
            match value {
                Value::String(text) => match parse(&text) {
                    Ok(value) => parsed.push((path, value)),
                    Err(message) => self.wrong(&path, &message),
                },
                other => self.wrong(&path, &format!("must be a text, not {}", kind(&other))),
            }
        }
        Some(parsed)
    }

    /// The mapping under the key.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> Option<T> {
        match self.take(key)? {
            Value::Object(entries) => Some(self.inner(key, entries).finish(read)),
            other => self.mistyped(key, "a mapping", &other),
        }
    }

    /// The list of mappings under the key, with the path of each.
    pub(super) fn sections<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Section<'_>) -> T,
    ) -> Option<Vec<(String, T)>> {
        let values = match self.take(key)? {
            Value::Array(values) => values,
            other => return self.mistyped(key, "a list", &other),
        };
        let mut items = vec![];
        for (index, value) in values.into_iter().enumerate() {
            let path = format!("{key}[{index}]");
            match value {
                Value::Object(entries) => {
                    let item = self.inner(&path, entries).finish(&mut read);
                    items.push((path, item));
                }
                other => self.wrong(&path, &format!("must be a mapping, not {}", kind(&other))),
            }
        }
        Some(items)
    }

    /// What is under the key will be refused.
    pub(super) fn wrong(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::fatal(self.field(key), message));
    }

    /// What is under the key is right, but nothing comes of it.
    pub(super) fn unused(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::harmless(self.field(key), message));
    }

    fn mistyped<T>(&mut self, key: &str, expected: &str, found: &Value) -> Option<T> {
        self.wrong(key, &format!("must be {expected}, not {}", kind(found)));
        None
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.entries.remove(key).filter(|value| !value.is_null())
    }

    fn inner(&mut self, key: &str, entries: Map<String, Value>) -> Section<'_> {
        let path = self.path_of(key);
        Section { file: self.file, path, entries, asked: vec![], problems: self.problems }
    }

    fn finish<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let result = read(&mut self);
        let message = format!("no such key; here can be: {}", self.asked.join(", "));
        for key in std::mem::take(&mut self.entries).keys() {
            self.wrong(key, &message);
        }
        result
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

/// The one of `choices` that is written like `text`.
///
/// # Errors
///
/// A message that lists them.
pub(crate) fn choice<T: Copy + Display>(text: &str, choices: &[T]) -> Result<T, String> {
    choices.iter().copied().find(|choice| choice.to_string() == text).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        format!("must be one of {}, not {text:?}", names.join(", "))
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "`true` or `false`",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
