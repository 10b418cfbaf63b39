//! How programs write a value, by an encoder that shares nothing with the one that hides them, and the search for all of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use aho_corasick::AhoCorasick;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD, Engine};

/// Bytes of a piece that is looked for: what is left of a value that was cut counts as well.
const PIECE: usize = 16;

/// Every way in which `value` may be written.
pub(crate) fn forms(value: &str) -> Vec<(&'static str, String)> {
    let mut forms = vec![("plain", value.to_owned())];
    forms.push(("hex", hex(value.as_bytes())));
    forms.push(("HEX", hex(value.as_bytes()).to_uppercase()));
    for before in 0..3 {
        let shifted = [&b"\0\0"[..before], value.as_bytes()].concat();
        // Characters that hold bits of the neighbours are of no use.
        let (first, last) = ((before * 8).div_ceil(6), shifted.len() * 8 / 6);
        forms.push(("base64", BASE64_STANDARD_NO_PAD.encode(&shifted)[first..last].to_owned()));
        forms.push(("base64 for URLs", BASE64_URL_SAFE_NO_PAD.encode(&shifted)[first..last].to_owned()));
    }
    for (name, kept) in
        [("RFC 3986", "-._~"), ("JavaScript", "-_.!~*'()"), ("paths", "-._~!$&'()*+,;=:@/"), ("Java", "-._*")]
    {
        let upper = percent(value, kept);
        forms.push((name, upper.replace("%20", "+")));
        forms.push((name, lower_escapes(&upper)));
        forms.push((name, upper));
    }
    let json = json(value);
    forms.push(("JSON, PHP", json.replace('/', "\\/")));
    forms.push(("JSON, ASCII", ascii(&json)));
    forms.push(("JSON, Go", ascii_of(&json, "<>&")));
    forms.push(("JSON", json));
    forms
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn percent(value: &str, kept: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").unwrap();
        }
        text
    })
}

/// `%3c` for `%3C`; letters of the value stay.
fn lower_escapes(text: &str) -> String {
    let mut pieces = text.split('%');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| format!("{text}%{}{}", piece[..2].to_lowercase(), &piece[2..]))
}

/// The inside of a JSON string.
pub(crate) fn json(value: &str) -> String {
    let quoted = serde_json::to_string(value).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

pub(crate) fn ascii(json: &str) -> String {
    let others: BTreeSet<char> = json.chars().filter(|c| !c.is_ascii()).collect();
    ascii_of(json, &String::from_iter(others))
}

pub(crate) fn ascii_of(json: &str, escaped: &str) -> String {
    json.chars().fold(String::new(), |mut text, c| {
        match c {
            c if escaped.contains(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04x}").unwrap();
                }
            }
            c => text.push(c),
        }
        text
    })
}

/// Looks for values in whatever form, whole or in pieces.
pub(crate) struct Scan {
    search: AhoCorasick,
    /// By number of the pattern: of which value, in which form.
    names: Vec<String>,
}

impl Scan {
    pub(crate) fn new<'a>(canaries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut patterns, mut names) = (vec![], vec![]);
        for (canary, value) in canaries {
            for (form, text) in forms(value) {
                assert!(text.len() >= PIECE, "{canary} is too short to be told from other text");
                for piece in text.as_bytes().windows(PIECE) {
                    patterns.push(piece.to_vec());
                    names.push(format!("{canary} ({form})"));
                }
            }
        }
        Self { search: AhoCorasick::new(patterns).unwrap(), names }
    }

    /// What was found, with a little of what stands around it.
    pub(crate) fn find(&self, place: &str, bytes: &[u8]) -> Option<String> {
        let hit = self.search.find(bytes)?;
        let around = &bytes[hit.start().saturating_sub(60)..bytes.len().min(hit.end() + 60)];
        let name = &self.names[hit.pattern().as_usize()];
        Some(format!("{place} holds {name}: …{}…", String::from_utf8_lossy(around)))
    }
}
