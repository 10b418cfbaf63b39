//! Reads annotations, which people write: whatever does not fit is told with name, value and what is allowed.
//!
//! Every cloud's manager that came before has its own habits: what one refuses, another warns of, and a third takes for its
//! default. [`Invalid`] says which, annotation by annotation, so that Services need no change.
//!
//! ```
//! use ccm_sdk::annotations::{Invalid, Reader};
//! use ccm_sdk::types::{Problem, Service};
//!
//! struct Wants {
//!     idle_seconds: Option<i64>,
//!     proxy_protocol: bool,
//! }
//!
//! fn read(service: &Service) -> (Wants, Vec<Problem>) {
//!     let mut reader = Reader::of(&service.annotations);
//!     let wants = Wants {
//!         idle_seconds: reader.number("mycloud.example/idle-seconds", 30..=600, Invalid::Refuse),
//!         proxy_protocol: reader.flag("mycloud.example/proxy", Invalid::Warn("false")).unwrap_or(false),
//!     };
//!     (wants, reader.problems)
//! }
//! ```

use std::ops::RangeInclusive;

use crate::quoted;
use crate::types::{Attributes, Problem};
use crate::words::Word;

/// What becomes of a value that does not fit. In each case it reads as if it were not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid<'t> {
    /// The object is refused.
    Refuse,
    /// A warning says what is taken instead.
    Warn(&'t str),
    /// Nobody is told.
    Ignore,
}

/// Reads the annotations of a Service or Node one by one, and collects all that is wrong.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    annotations: &'a Attributes,
    /// What was wrong so far.
    pub problems: Vec<Problem>,
}

/// The field of an annotation: `metadata.annotations[NAME]`.
pub fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// Longest part of a value in a message, in characters.
const SHOWN: usize = 100;

impl<'a> Reader<'a> {
    /// Of these.
    pub fn of(annotations: &'a Attributes) -> Self {
        Self { annotations, problems: vec![] }
    }

    /// The value as it is.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.annotations.iter().find_map(|(other, value)| (other == name).then_some(value.as_str()))
    }

    /// The value without blanks around it; an empty one is as if it were not there.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.raw(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Values that are joined by commas.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.text(name).unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// Yes or no, in all the ways in which Go's `strconv.ParseBool` reads them.
    pub fn flag(&mut self, name: &str, invalid: Invalid<'_>) -> Option<bool> {
        match self.raw(name)? {
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            _ => self.unfit(name, "\"true\", \"false\"", invalid),
        }
    }

    /// One of a few words.
    pub fn word<T: Word>(&mut self, name: &str, invalid: Invalid<'_>) -> Option<T> {
        let text = self.text(name)?;
        T::parse(text).or_else(|| self.unfit(name, &T::ALL.join(", "), invalid))
    }

    /// A whole number of a range.
    pub fn number(&mut self, name: &str, range: RangeInclusive<i64>, invalid: Invalid<'_>) -> Option<i64> {
        let number = self.text(name)?.parse().ok().filter(|number| range.contains(number));
        number.or_else(|| {
            let allowed = if *range.end() < i64::from(i32::MAX) {
                format!("whole numbers from {} to {}", range.start(), range.end())
            } else {
                format!("whole numbers from {}", range.start())
            };
            self.unfit(name, &allowed, invalid)
        })
    }

    /// Whatever `parse` makes of it; its error is the message.
    pub fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        invalid: Invalid<'_>,
    ) -> Option<T> {
        parse(self.raw(name)?).map_err(|message| self.tell(name, message, invalid)).ok()
    }

    /// The value does not fit.
    #[inline(never)]
    pub fn unfit<T>(&mut self, name: &str, allowed: &str, invalid: Invalid<'_>) -> Option<T> {
        let shown: String = self.raw(name).unwrap_or_default().chars().take(SHOWN).collect();
        let mut message = format!("annotation {name} has the value {}", quoted(&shown));
        if let Invalid::Warn(instead) = invalid {
            message.push_str(&format!(", and {instead} is taken"));
        }
        message.push_str("; allowed are ");
        message.push_str(allowed);
        self.tell(name, message, invalid);
        None
    }

    /// The object is refused for this annotation.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.problems.push(Problem::fatal(field(name), message));
    }

    /// This annotation may not mean what whoever wrote it thinks.
    pub fn warn(&mut self, name: &str, message: impl Into<String>) {
        self.problems.push(Problem::harmless(field(name), message));
    }

    fn tell(&mut self, name: &str, message: String, invalid: Invalid<'_>) {
        match invalid {
            Invalid::Refuse => self.refuse(name, message),
            Invalid::Warn(_) => self.warn(name, message),
            Invalid::Ignore => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::words! {
        enum Pace { Slow = "slow", Fast = "fast" }
    }

    fn annotations(values: &[(&str, &str)]) -> Attributes {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_fits_is_read_and_what_is_missing_or_empty_is_not_there() {
        let values = annotations(&[
            ("a", " x "),
            ("b", " "),
            ("t", "T"),
            ("f", "0"),
            ("w", "fast"),
            ("n", "30"),
            ("l", "x, y,,z "),
            ("d", "1m"),
        ]);
        let mut reader = Reader::of(&values);
        assert_eq!(
            (reader.raw("a"), reader.text("a"), reader.text("b"), reader.text("?")),
            (Some(" x "), Some("x"), None, None)
        );
        let flags = ["t", "f", "?"].map(|name| reader.flag(name, Invalid::Refuse));
        assert_eq!(flags, [Some(true), Some(false), None]);
        assert_eq!(reader.word("w", Invalid::Refuse), Some(Pace::Fast));
        assert_eq!(["n", "?"].map(|name| reader.number(name, 1..=30, Invalid::Refuse)), [Some(30), None]);
        assert_eq!(reader.list("l").collect::<Vec<_>>(), ["x", "y", "z"]);
        let minute = reader.parsed("d", crate::duration::parse, Invalid::Refuse);
        assert_eq!((minute, reader.problems), (Some(std::time::Duration::from_secs(60)), vec![]));
    }

    #[test]
    fn what_does_not_fit_is_refused_warned_of_or_ignored_as_the_provider_says() {
        let values = annotations(&[("x", "maybe")]);
        for (invalid, expected) in [
            (
                Invalid::Refuse,
                vec![Problem::fatal(
                    field("x"),
                    "annotation x has the value \"maybe\"; allowed are \"true\", \"false\"",
                )],
            ),
            (
                Invalid::Warn("true"),
                vec![Problem::harmless(
                    field("x"),
                    "annotation x has the value \"maybe\", and true is taken; allowed are \"true\", \"false\"",
                )],
            ),
            (Invalid::Ignore, vec![]),
        ] {
            let mut reader = Reader::of(&values);
            assert_eq!((reader.flag("x", invalid), &reader.problems), (None, &expected));
        }
        let mut reader = Reader::of(&values);
        assert_eq!(reader.word::<Pace>("x", Invalid::Refuse), None);
        assert_eq!(reader.number("x", 2..=10, Invalid::Refuse), None);
        assert_eq!(reader.number("x", 0..=i64::MAX, Invalid::Refuse), None);
        assert_eq!(reader.parsed("x", |_| Err::<(), _>("its own words".to_owned()), Invalid::Refuse), None);
        let ends: Vec<_> = reader.problems.iter().filter_map(|problem| problem.message.split("; ").last()).collect();
        let allowed = ["slow, fast", "whole numbers from 2 to 10", "whole numbers from 0"]
            .map(|text| format!("allowed are {text}"));
        assert_eq!(ends[..3], allowed);
        assert_eq!(ends[3], "its own words");
    }

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let values = annotations(&[("x", &"y".repeat(10_000))]);
        let mut reader = Reader::of(&values);
        assert_eq!(reader.flag("x", Invalid::Refuse), None);
        assert!(reader.problems[0].message.len() < 200);
    }
}
