//! What a signature says of a component besides its bytes: whose it is, and its place in the order of versions.
//!
//! ```text
//! wasm-ccm component statement 1
//! name: mycloud
//! counter: 7
//! digest: sha256:…
//! ```
//!
//! The signature covers these four lines, each with a line feed at its end. No component and nothing that others sign begins so.

use serde::{Deserialize, Serialize};

/// What every statement begins with, of whatever format.
const CONTEXT: &str = "wasm-ccm component statement ";
/// The format that is written and read here.
const FORMAT: &str = "1";
const LINES: usize = 4;

/// What a key has vouched for. Two are equal that say the same, whoever signed them.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// The name that the component gives itself.
    pub name: String,
    /// Grows with each version. Whoever was proven with one keeps those with lower ones out.
    pub counter: u64,
    /// The signature of the statement, in base64: whoever is told of it by others verifies it as well. Empty before anybody has signed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
}

impl PartialEq for Signed {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.counter) == (&other.name, other.counter)
    }
}

impl Signed {
    /// What is to be signed of a component with this name.
    #[must_use]
    pub fn new(name: impl Into<String>, counter: u64) -> Self {
        Self { name: name.into(), counter, signature: String::new() }
    }

    /// What is to be signed for the component with this digest.
    #[must_use]
    pub fn statement(&self, digest: &str) -> String {
        format!("{CONTEXT}{FORMAT}\nname: {}\ncounter: {}\ndigest: {digest}\n", self.name, self.counter)
    }
}

/// A signed component that was proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counted {
    /// As it was signed.
    #[serde(flatten)]
    pub(crate) signed: Signed,
    /// `sha256:…` of the unpacked component.
    pub(crate) digest: String,
}

/// What lies beside a component, when that is more than a signature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// What it says.
    pub(super) signed: Signed,
    /// Of the component that it is about.
    pub(super) digest: &'a str,
    /// The bytes that the signature covers.
    pub(super) text: &'a [u8],
    /// What follows them.
    pub(super) signature: &'a [u8],
}

impl<'a> Statement<'a> {
    /// None when it does not begin as one.
    ///
    /// # Errors
    ///
    /// What is wrong with one that does.
    pub(super) fn parse(beside: &'a [u8]) -> Result<Option<Self>, String> {
        if !beside.starts_with(CONTEXT.as_bytes()) {
            return Ok(None);
        }
        let ends = beside.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place + 1);
        let end = ends.take(LINES).last().unwrap_or_default();
        let (text, signature) = beside.split_at_checked(end).unwrap_or_default();
        let lines: Vec<&str> = std::str::from_utf8(text).unwrap_or_default().split_terminator('\n').collect();
        let [context, name, counter, digest] = lines.as_slice() else {
            return Err(format!("it has {} of {LINES} lines", lines.len()));
        };
        if context.strip_prefix(CONTEXT) != Some(FORMAT) {
            return Err(format!("its first line is not \"{CONTEXT}{FORMAT}\""));
        }
        let is_word = |text: &&str| !text.is_empty() && text.len() <= 253 && text.bytes().all(|b| b.is_ascii_graphic());
        let name = name.strip_prefix("name: ").filter(is_word).ok_or("its second line is not \"name: NAME\"")?;
        let counter = counter.strip_prefix("counter: ").and_then(number);
        let counter = counter.ok_or("its third line is not \"counter: N\", a number without leading zeros")?;
        let digest = digest.strip_prefix("digest: ").filter(|digest| is_digest(digest));
        let digest = digest.ok_or("its fourth line is not \"digest: sha256:\" and 64 digits")?;
        let signed = Signed::new(name, counter);
        Ok(Some(Self { signed, digest, text, signature }))
    }
}

/// As it is written, and in no other way.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}

/// Whether it is a digest as this program writes them.
pub(super) fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_as_it_is_written_and_what_follows_is_its_signature() {
        let signed = Signed::new("mycloud", 7);
        let digest = format!("sha256:{}", "0a".repeat(32));
        let text = signed.statement(&digest);
        assert_eq!(
            text,
            format!("wasm-ccm component statement 1\nname: mycloud\ncounter: 7\ndigest: {digest}\n"),
            "docs/guides/upgrade-a-provider.md shows it"
        );
        for signature in [&b""[..], b"base64\n", b"\0\n\n\xff"] {
            let beside = [text.as_bytes(), signature].concat();
            let wanted = Statement { signed: signed.clone(), digest: &digest, text: text.as_bytes(), signature };
            assert_eq!(Statement::parse(&beside), Ok(Some(wanted)));
        }
        for other in [&b""[..], b"wasm-ccm", b"\nwasm-ccm component statement 1\n", b"{}"] {
            assert_eq!(Statement::parse(other), Ok(None));
        }
    }

    #[test]
    fn a_statement_that_could_be_read_in_two_ways_is_none() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let good = Signed::new("mycloud", 7).statement(&digest);
        let cases = [
            ("statement 1", "statement 2", "first line"),
            ("statement 1\n", "statement 1\r\n", "first line"),
            ("name: mycloud", "name: ", "second line"),
            ("name: mycloud", "name: my cloud", "second line"),
            ("name: mycloud", "name:mycloud", "second line"),
            ("counter: 7", "counter: 07", "third line"),
            ("counter: 7", "counter: +7", "third line"),
            ("counter: 7", "counter: -7", "third line"),
            ("counter: 7", "counter: 7 ", "third line"),
            ("counter: 7", "counter: 18446744073709551616", "third line"),
            ("sha256:0a", "sha256:0A", "fourth line"),
            ("sha256:0a", "sha256:", "fourth line"),
            ("counter: 7\n", "", "it has 3 of 4 lines"),
        ];
        for (from, to, part) in cases {
            let beside = good.replace(from, to);
            let error = Statement::parse(beside.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{to:?}: {error}");
        }
    }
}
