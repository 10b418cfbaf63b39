//! The INI dialect of upstream's cloud-configs.

use std::str::Chars;

use serde_json::{Value, json};

use super::keys::parts;
use super::value::{ConfigFileError, ConfigValue, Position, Shape};
use super::veil::FileVeil;

/// Most keys of a file, and most characters of a name: each key repeats the names of its section for the provider.
const MAX_ENTRIES: usize = 10_000;
const MAX_NAME: usize = 200;

/// A key with its value, and where it stands. Names are spelled as in the file.
#[derive(Clone)]
pub(super) struct GcfgVariable {
    section: String,
    /// Of the subsection.
    name: Option<String>,
    key: String,
    /// None for a key without `=`.
    value: Option<String>,
    line: usize,
}

impl GcfgVariable {
    pub(super) fn value(&self) -> ConfigValue<'_> {
        ConfigValue { shape: self.value.as_deref().map_or(Shape::Blank, Shape::Text), line: self.line }
    }

    pub(super) fn veiled(&self, veil: &mut FileVeil<'_>) -> Value {
        let path: Vec<String> =
            [Some(&self.section), self.name.as_ref(), Some(&self.key)].into_iter().flatten().cloned().collect();
        let hiding = veil.hiding_gcfg(&path);
        let value = self.value.as_ref().map(|text| veil.text(text, hiding.as_ref(), &path));
        json!({ "section": self.section, "name": self.name, "key": self.key, "value": value, "line": self.line })
    }
}

/// Entries at section, key, and what is between them, in their order.
pub(super) fn find<'a>(
    entries: &'a [GcfgVariable],
    path: &[impl AsRef<str>],
) -> impl DoubleEndedIterator<Item = &'a GcfgVariable> {
    let (section, name, key) =
        parts(path).map_or_else(Default::default, |(s, n, k)| (s.to_lowercase(), n, k.to_lowercase()));
    entries.iter().filter(move |entry| {
        entry.section.to_lowercase() == section && entry.key.to_lowercase() == key && entry.name == name
    })
}

/// What is in a file.
#[derive(Clone)]
pub(super) struct GcfgFile {
    pub(super) entries: Vec<GcfgVariable>,
    /// Sections without a key, anywhere in the file, as they are written, with the line.
    pub(super) empty: Vec<String>,
}

/// Most empty sections that are told.
const MAX_EMPTY: usize = 16;

/// Headers that no key follows, each with its line.
#[derive(Default)]
struct Empty {
    headers: Vec<((String, Option<String>), usize)>,
    keys_before: usize,
    /// Whether the last header is among them.
    is_last: bool,
}

impl Empty {
    /// A header on this line, after so many keys of the whole file.
    fn header(&mut self, section: (String, Option<String>), line: usize, keys: usize) {
        self.end(keys);
        self.keys_before = keys;
        self.is_last = self.headers.len() < MAX_EMPTY;
        if self.is_last {
            self.headers.push((section, line));
        }
    }

    /// The last section ends after so many keys.
    fn end(&mut self, keys: usize) {
        if keys > self.keys_before && self.is_last {
            self.headers.pop();
        }
    }

    /// Those whose keys are nowhere else either.
    fn told(self, entries: &[GcfgVariable]) -> Vec<String> {
        let mut told: Vec<String> = vec![];
        for ((section, name), line) in self.headers {
            let is_it = |entry: &GcfgVariable| entry.section.eq_ignore_ascii_case(&section) && entry.name == name;
            if !entries.iter().any(is_it) {
                let name = name.map(|name| format!(" {name:?}")).unwrap_or_default();
                told.push(format!("[{section}{name}] (line {line})"));
            }
        }
        told
    }
}

/// All that is in it; none when there is not even a section.
pub(super) fn parse(text: &str) -> Result<Option<GcfgFile>, ConfigFileError> {
    let mut empty = Empty::default();
    let mut scanner = Scanner { rest: text.chars(), place: Position { line: 1, column: 1 } };
    let mut section: Option<(String, Option<String>)> = None;
    let mut entries = Vec::new();
    loop {
        scanner.skip_blanks();
        let place = scanner.place;
        match (scanner.peek(), &section) {
            (None, _) => break,
            (Some('\n'), _) => scanner.advance(),
            (Some(';' | '#'), _) => scanner.skip_comment(),
            (Some('['), _) => {
                let found = scanner.header()?;
                empty.header(found.clone(), place.line, entries.len());
                section = Some(found);
            }
            (Some(_), None) => return Err(place.error("expected a section like [Global] before anything else")),
            (Some(first), Some((section, name))) if first.is_alphabetic() => {
                if entries.len() >= MAX_ENTRIES {
                    return Err(place.error(format!("more than {MAX_ENTRIES} keys")));
                }
                let (section, name, key) = (section.clone(), name.clone(), scanner.name()?);
                let value = scanner.assignment()?;
                entries.push(GcfgVariable { section, name, key, value, line: place.line });
            }
            (Some(_), Some(_)) => {
                return Err(
                    place.error("expected a section like [Global], a key that begins with a letter, or a comment")
                );
            }
        }
    }
    empty.end(entries.len());
    let empty = empty.told(&entries);
    Ok(section.map(|_| GcfgFile { entries, empty }))
}

struct Scanner<'a> {
    rest: Chars<'a>,
    place: Position,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        if char == '\n' {
            self.place = Position { line: self.place.line.saturating_add(1), column: 1 };
        } else {
            self.place.column = self.place.column.saturating_add(1);
        }
        Some(char)
    }

    fn advance(&mut self) {
        self.next();
    }

    fn skip_while(&mut self, mut skips: impl FnMut(char) -> bool) {
        while self.peek().is_some_and(&mut skips) {
            self.advance();
        }
    }

    fn skip_blanks(&mut self) {
        self.skip_while(is_blank);
    }

    fn skip_comment(&mut self) {
        self.skip_while(|char| char != '\n');
    }

    /// Letters, digits and hyphens.
    fn name(&mut self) -> Result<String, ConfigFileError> {
        let start = self.place;
        let mut name = String::new();
        while let Some(char) = self.peek().filter(|&char| char.is_alphanumeric() || char == '-') {
            name.push(char);
            self.advance();
        }
        short(name, start)
    }

    /// `[section]` or `[section "name"]`, up to the end of its line.
    fn header(&mut self) -> Result<(String, Option<String>), ConfigFileError> {
        self.advance();
        self.skip_blanks();
        if !self.peek().is_some_and(char::is_alphabetic) {
            return Err(self.place.error("expected the name of a section, which begins with a letter"));
        }
        let section = self.name()?;
        self.skip_blanks();
        let name = if self.peek() == Some('"') { Some(self.subsection()?) } else { None };
        self.skip_blanks();
        if self.peek() != Some(']') {
            let message = "expected `]`; a section is written [name] or [name \"subsection\"], \
                           its name has letters, digits and hyphens";
            return Err(self.place.error(message));
        }
        self.advance();
        self.skip_blanks();
        match self.peek() {
            None | Some('\n' | ';' | '#') => Ok((section, name)),
            Some(_) => Err(self.place.error("expected the end of the line or a comment after `]`")),
        }
    }

    fn subsection(&mut self) -> Result<String, ConfigFileError> {
        let start = self.place;
        self.advance();
        let mut name = String::new();
        loop {
            let place = self.place;
            match self.peek() {
                None | Some('\n') => return Err(start.error(NO_END)),
                Some('"') => {
                    self.advance();
                    break;
                }
                Some('\\') => {
                    self.advance();
                    let escaped = self.next().filter(|char| matches!(char, '\\' | '"'));
                    name.push(
                        escaped
                            .ok_or_else(|| place.error(r#"unknown escape; the name of a subsection has \\ and \""#))?,
                    );
                }
                Some(char) => {
                    name.push(char);
                    self.advance();
                }
            }
        }
        if name.is_empty() {
            return Err(start.error("the name of a subsection cannot be empty"));
        }
        short(name, start)
    }

    /// What follows a key: nothing, or `=` and a value.
    fn assignment(&mut self) -> Result<Option<String>, ConfigFileError> {
        self.skip_blanks();
        match self.peek() {
            None | Some('\n' | ';' | '#') => Ok(None),
            Some('=') => {
                self.advance();
                self.skip_blanks();
                self.value().map(Some)
            }
            Some(_) => {
                let message = "expected `=` or the end of the line after a key, which has letters, digits and hyphens";
                Err(self.place.error(message))
            }
        }
    }

    fn value(&mut self) -> Result<String, ConfigFileError> {
        let mut value = String::new();
        // Blanks at the end do not count, unless they are in quotes or before a line that goes on.
        let mut end = 0;
        let mut quote: Option<Position> = None;
        loop {
            let place = self.place;
            match (self.peek(), quote) {
                (None | Some('\n'), Some(start)) => return Err(start.error(NO_END)),
                (None | Some('\n' | ';' | '#'), None) => break,
                (Some('"'), _) => {
                    self.advance();
                    quote = if quote.is_some() { None } else { Some(place) };
                    end = value.len();
                }
                (Some('\\'), _) => {
                    self.advance();
                    value.extend(if quote.is_some() {
                        Some(self.escape(place)?)
                    } else {
                        self.unquoted_escape(place)?
                    });
                    end = value.len();
                }
                (Some('\r'), _) => self.advance(),
                (Some(char), _) => {
                    self.advance();
                    value.push(char);
                    if quote.is_some() || !is_blank(char) {
                        end = value.len();
                    }
                }
            }
        }
        value.truncate(end);
        Ok(value)
    }

    fn escape(&mut self, start: Position) -> Result<char, ConfigFileError> {
        match self.next() {
            Some(char @ ('\\' | '"')) => Ok(char),
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            _ => Err(start.error(r#"unknown escape; in quotes there are \\, \", \n and \t"#)),
        }
    }

    /// None where the value goes on in the next line.
    fn unquoted_escape(&mut self, start: Position) -> Result<Option<char>, ConfigFileError> {
        if self.peek() == Some('\r') {
            self.advance();
        }
        match self.next() {
            Some('\n') => Ok(None),
            Some('"') => Ok(Some('"')),
            _ => {
                let message = "outside quotes a `\\` stands only before a quote or at the end of a line; \
                               put the value in quotes and write `\\\\`";
                Err(start.error(message))
            }
        }
    }
}

const NO_END: &str = "the quote that begins here has no end in its line";

fn short(name: String, start: Position) -> Result<String, ConfigFileError> {
    match name.chars().nth(MAX_NAME) {
        Some(_) => Err(start.error(format!("a name of more than {MAX_NAME} characters"))),
        None => Ok(name),
    }
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\r')
}
