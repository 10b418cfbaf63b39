//! A value of a file, its position, and what is wrong with it.

/// Largest file, in bytes. The cloud-configs of the five clouds stay below 10 KiB.
pub const MAX_CONFIG_FILE: usize = 1 << 20;

/// Why a file cannot be used, in one line that shows nothing of what is in the file. The caller says which file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// Larger than [`MAX_CONFIG_FILE`].
    #[error("it has {0} bytes, the limit is {MAX_CONFIG_FILE}")]
    TooLarge(usize),
    /// Something in it is wrong.
    #[error("line {line}, column {column}: {message}")]
    At {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong, and often what would be right.
        message: String,
    },
}

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    /// Where what follows `before` begins.
    pub(super) fn after(before: &str) -> Self {
        let line = before.matches('\n').count().saturating_add(1);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
        Self { line, column }
    }

    pub(super) fn error(self, message: impl Into<String>) -> ConfigFileError {
        ConfigFileError::At { line: self.line, column: self.column, message: message.into() }
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

/// A value in a file. It may be a secret: no `Debug`.
#[derive(Clone)]
pub(super) struct ConfigValue<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) line: usize,
}

#[derive(Clone)]
pub(super) enum Shape<'a> {
    Text(&'a str),
    Blank,
    /// The text of each item that has one.
    List(Vec<Option<&'a str>>),
    Mapping,
}

impl<'a> ConfigValue<'a> {
    /// A single value as text, numbers and booleans as they are written. None for a key without `=`, a list, a mapping.
    pub(super) fn text(&self) -> Option<&'a str> {
        match &self.shape {
            Shape::Text(text) => Some(text),
            Shape::Blank | Shape::List(_) | Shape::Mapping => None,
        }
    }

    /// Line where it stands, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// A copy that outlives the file.
    pub(super) fn found(&self) -> FoundValue {
        match &self.shape {
            Shape::Text(text) => FoundValue::Text((*text).to_owned()),
            Shape::Blank => FoundValue::Blank,
            Shape::Mapping => FoundValue::Mapping,
            Shape::List(items) => {
                let texts: Option<Vec<String>> = items.iter().map(|text| text.map(str::to_owned)).collect();
                texts.map_or(FoundValue::Mapping, FoundValue::List)
            }
        }
    }
}
