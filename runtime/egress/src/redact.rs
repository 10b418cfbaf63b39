//! Takes the values of credentials out of what a cloud answers and of what is logged.
//!
//! A cloud may send back what it was sent: as it was, or encoded by some program in between. So every value is looked for
//! in all forms that common programs write.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use zeroize::{Zeroize, Zeroizing};

use crate::encoding::Encoding;

/// A shorter form would be found in ordinary text. The value itself is looked for however short it is: the host takes none
/// below `min-credential-bytes`, unless the operator wants it so.
const MIN_FORM: usize = 4;

/// Bytes of all forms of one value. Only a large file full of special characters has more; then the rarest forms are left
/// out, so that a few of those do not take hundreds of megabytes.
const MAX_FORMS: usize = 256 << 10;

/// What programs leave as it is when they percent-encode, besides letters and digits.
const KEPT: [&str; 13] = [
    "-._~",                         // RFC 3986; Go's QueryEscape
    "-._*",                         // Java, HTML forms
    "-._~*",                        // mixtures of the two
    "-._",                          // PHP, old Python
    "-._~/",                        // Python's quote
    "-._~!*'()",                    // JavaScript's encodeURIComponent
    "-._~$&+=:@",                   // Go's PathEscape
    "-._~!$&'()*+,;=:@",            // RFC 3986: segments
    "-._~!$&'()*+,;=:@/",           // RFC 3986: paths
    "-._~!$&'()*+,;=:@/?",          // RFC 3986: queries
    "-._~!$&'()*+,;=:@/?#",         // JavaScript's encodeURI
    "-._~!$&()*+,;=:@/?%[]\\^`{|}", // browsers: queries
    "-._~!$&'()*+,;=:@/%[]\\^|",    // browsers: paths
];

/// What programs write as `\uXXXX` in JSON besides control characters: none, Go, Gson, .NET.
const ESCAPED: [&str; 4] = ["", "<>&\u{2028}\u{2029}", "<>&='\u{2028}\u{2029}", "<>&'\"+`\u{2028}\u{2029}"];

/// How a request carries a value, besides as it is.
const SENT: [Encoding; 5] =
    [Encoding::JsonString, Encoding::Url, Encoding::UrlLowerCase, Encoding::Base64, Encoding::Base64PercentEncoded];

type Form = Zeroizing<Vec<u8>>;

/// Finds the values of credentials and puts [`placeholder`]s in their place. No `Debug`.
///
/// The lists of what is looked for are wiped when it is built. What the search itself keeps in memory is not: the library
/// holds the values taken apart, and has no way to wipe them.
pub struct Redactor {
    /// None: nothing to look for.
    search: Option<AhoCorasick>,
    /// By number of the needle.
    placeholders: Vec<String>,
    shortest: usize,
}

/// There are more values than can be looked for.
#[derive(Debug, thiserror::Error)]
#[error("the credentials are too large to be kept out of answers and logs")]
pub struct TooLarge;

/// What stands where the value of this credential was.
#[must_use]
pub fn placeholder(name: &str) -> String {
    format!("(credential {name})")
}

impl Redactor {
    /// Looks for these values, given by name. White space around a value does not count. Of two equal values, the first name
    /// counts.
    ///
    /// # Errors
    /// When there are gigabytes of them.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, TooLarge> {
        let mut needles: Vec<Form> = Vec::new();
        let mut placeholders = Vec::new();
        for (name, value) in values {
            let value = value.trim_ascii();
            if !value.is_empty() {
                needles.append(&mut forms(value));
                placeholders.resize(needles.len(), placeholder(name));
            }
        }
        let Some(shortest) = needles.iter().map(|needle| needle.len()).min() else {
            return Ok(Self { search: None, placeholders, shortest: 0 });
        };
        // Not a DFA: it would be quicker in answers of many megabytes, and takes far longer to build.
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(needles.iter().map(|needle| needle.as_slice()));
        #[expect(clippy::map_err_ignore, reason = "the library counts states")]
        let search = built.map_err(|_| TooLarge)?;
        Ok(Self { search: Some(search), placeholders, shortest })
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    /// The bytes without the values. No copy when there is none; else what came in is wiped.
    #[must_use]
    pub fn bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self.replaced(&bytes) {
            Some(replaced) => {
                bytes.zeroize();
                replaced
            }
            None => bytes,
        }
    }

    /// The text without the values. No copy when there is none.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.replaced(text.as_bytes()) {
            // A value that is no text may begin or end within a character.
            Some(replaced) => Cow::Owned(
                String::from_utf8(replaced)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
            None => Cow::Borrowed(text),
        }
    }

    /// None: nothing was found.
    fn replaced(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let search = self.search.as_ref().filter(|_| bytes.len() >= self.shortest)?;
        let mut found = search.find_iter(bytes).peekable();
        found.peek()?;
        let mut replaced = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for hit in found {
            replaced.extend_from_slice(bytes.get(done..hit.start()).unwrap_or_default());
            let placeholder = self.placeholders.get(hit.pattern().as_usize()).map_or("", String::as_str);
            replaced.extend_from_slice(placeholder.as_bytes());
            done = hit.end();
        }
        replaced.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Some(replaced)
    }
}

/// Every form of a value, each once; what is common comes first.
fn forms(value: &[u8]) -> Vec<Form> {
    let mut forms = Forms { list: vec![Zeroizing::new(value.to_vec())], left: MAX_FORMS.saturating_sub(value.len()) };
    for encoding in [Encoding::JsonString, Encoding::Url, Encoding::UrlLowerCase, Encoding::Hex] {
        // The one that fails is a JSON string of what is no text: no JSON can hold it.
        forms.add(value, || encoding.encode(value).unwrap_or_default());
    }
    forms.add(value, || {
        let mut hex = Encoding::Hex.encode(value).unwrap_or_default();
        hex.make_ascii_uppercase();
        hex
    });
    base64(value, true, &mut forms);
    percent(value, &mut forms);
    if let Ok(text) = std::str::from_utf8(value) {
        json(text, &mut forms);
    }
    for sent in SENT.iter().filter_map(|encoding| encoding.encode(value).ok()).filter(|sent| **sent != *value) {
        sent_back(&sent, &mut forms);
    }
    forms.list
}

/// Forms of one value, within [`MAX_FORMS`].
struct Forms {
    list: Vec<Form>,
    left: usize,
}

impl Forms {
    /// Adds a form of `value`, which is never shorter than about that: what has no place is not even made.
    fn add(&mut self, value: &[u8], form: impl FnOnce() -> Form) {
        if value.len() > self.left {
            return;
        }
        let form = form();
        if form.len() >= MIN_FORM && form.len() <= self.left && !self.list.contains(&form) {
            self.left = self.left.saturating_sub(form.len());
            self.list.push(form);
        }
    }
}

/// Sent in one form and sent back in another: the body of a request as a string in the JSON of its answer.
fn sent_back(sent: &[u8], forms: &mut Forms) {
    base64(sent, false, forms);
    percent(sent, forms);
    for upper in [false, true] {
        let digits = || sent.iter().flat_map(|byte| [byte >> 4, byte & 15].map(|d| hex_digit(d, upper)));
        forms.add(sent, || Zeroizing::new(digits().collect()));
    }
    if let Ok(text) = std::str::from_utf8(sent) {
        json(text, forms);
    }
}

/// Base64 by itself and in the middle of something longer: only what does not depend on the neighbours, but with the last
/// character and the padding where the value comes last.
fn base64(value: &[u8], percent: bool, forms: &mut Forms) {
    for url_safe in [false, true] {
        for (before, skipped) in [(0, 0), (1, 2), (2, 3)] {
            let mut bytes = Zeroizing::new(Vec::with_capacity(value.len().saturating_add(before)));
            bytes.resize(before, 0);
            bytes.extend_from_slice(value);
            let alone = bytes.len().saturating_mul(8) / 6;
            let unpadded = bytes.len().saturating_mul(8).div_ceil(6);
            let engine = if url_safe { &BASE64_URL_SAFE } else { &BASE64_STANDARD };
            let mut encoded = Zeroizing::new(vec![0; bytes.len().div_ceil(3).saturating_mul(4)]);
            let padded = engine.encode_slice(&*bytes, &mut encoded).unwrap_or_default();
            for end in [alone, padded, unpadded] {
                let form = encoded.get(skipped..end).unwrap_or_default();
                forms.add(value, || Zeroizing::new(form.to_vec()));
                for upper in [true, false].into_iter().filter(|_| percent) {
                    forms.add(value, || percent_encoded(form, "-._", false, upper));
                }
            }
        }
    }
}

fn percent(value: &[u8], forms: &mut Forms) {
    for kept in KEPT {
        for plus in [false, true] {
            let lower = || percent_encoded(value, kept, plus, false);
            forms.add(value, || percent_encoded(value, kept, plus, true));
            forms.add(value, lower);
            forms.add(value, || {
                let mut lower = lower();
                lower.make_ascii_lowercase();
                lower
            });
        }
    }
}

/// With `plus` a space is `+`; `upper` is about the hex digits.
fn percent_encoded(value: &[u8], kept: &str, plus: bool, upper: bool) -> Form {
    let mut form = Zeroizing::new(Vec::with_capacity(value.len().saturating_mul(3)));
    for byte in value {
        match byte {
            b' ' if plus => form.push(b'+'),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(byte) => form.push(*byte),
            byte => {
                form.push(b'%');
                form.extend([byte >> 4, byte & 15].map(|digit| hex_digit(digit, upper)));
            }
        }
    }
    form
}

fn hex_digit(digit: u8, upper: bool) -> u8 {
    match digit {
        ..10 => b'0'.wrapping_add(digit),
        _ if upper => b'A'.wrapping_add(digit).wrapping_sub(10),
        _ => b'a'.wrapping_add(digit).wrapping_sub(10),
    }
}

fn json(text: &str, forms: &mut Forms) {
    for escaped in ESCAPED {
        for ascii in [false, true] {
            for slash in [false, true] {
                for upper in [false, true] {
                    forms.add(text.as_bytes(), || json_escaped(text, escaped, ascii, slash, upper));
                }
            }
        }
    }
}

/// `ascii`: all others are escaped; `slash`: it is `\/`; `upper` is about the hex digits.
fn json_escaped(text: &str, escaped: &str, ascii: bool, slash: bool, upper: bool) -> Form {
    let mut form = Zeroizing::new(Vec::with_capacity(text.len().saturating_mul(6)));
    for c in text.chars() {
        match c {
            c if escaped.contains(c) || (ascii && c >= '\u{7f}') => escape(c, upper, &mut form),
            '"' => form.extend(b"\\\""),
            '\\' => form.extend(b"\\\\"),
            '/' if slash => form.extend(b"\\/"),
            '\n' => form.extend(b"\\n"),
            '\r' => form.extend(b"\\r"),
            '\t' => form.extend(b"\\t"),
            '\u{8}' => form.extend(b"\\b"),
            '\u{c}' => form.extend(b"\\f"),
            ..' ' => escape(c, upper, &mut form),
            c => form.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    form
}

/// `\uXXXX`, twice where UTF-16 needs it.
fn escape(c: char, upper: bool, form: &mut Form) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        form.extend(b"\\u");
        let digits = unit.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        form.extend(digits.map(|digit| hex_digit(digit, upper)));
    }
}

#[cfg(test)]
mod tests;
