//! The forms in which a value may come back.

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use zeroize::Zeroizing;

use super::Form;
use crate::encoding::Encoding;

/// A shorter form would be found in ordinary text. The value itself is looked for however short it is: the host takes none
/// below `min-credential-bytes`, unless the operator wants it so.
const MIN_FORM: usize = 4;

/// Bytes of the forms of one value, besides those in which a request can carry it. Only a large file full of special
/// characters has more; then the rarest forms are left out, so that a few of those do not take hundreds of megabytes.
pub(super) const MAX_FORMS: usize = 256 << 10;

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

/// What programs write as entities in XML and HTML besides `&` and `<`: the double quote, the single quote.
const QUOTES: [(&str, &str); 7] = [
    ("\"", "'"),          // text in XML
    ("&quot;", "'"),      // attributes in XML; PHP
    ("&quot;", "&apos;"), // XML
    ("&quot;", "&#39;"),  // .NET, Ruby
    ("&#34;", "&#39;"),   // Go, Jinja
    ("&quot;", "&#x27;"), // Python
    ("&quot;", "&#039;"), // PHP
];

/// How a request carries a value, besides as it is and in hex.
pub(super) const SENT: [Encoding; 5] =
    [Encoding::JsonString, Encoding::Url, Encoding::UrlLowerCase, Encoding::Base64, Encoding::Base64PercentEncoded];

/// Every form of a value, each once; what is common comes first. A request carries it with the white space around it.
pub(super) fn forms(whole: &[u8]) -> Vec<Form> {
    let value = whole.trim_ascii();
    let mut forms = Forms { list: vec![Zeroizing::new(value.to_vec())], left: MAX_FORMS };
    for value in [value, whole] {
        for encoding in SENT.into_iter().chain([Encoding::Hex]) {
            // The one that fails is a JSON string of what is no text: no JSON can hold it.
            forms.sent(encoding.encode(value).unwrap_or_default());
        }
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
        markup(text, &mut forms);
    }
    for sent in SENT.iter().filter_map(|encoding| encoding.encode(value).ok()).filter(|sent| **sent != *value) {
        sent_back(&sent, &mut forms);
    }
    forms.list
}

/// Forms of one value.
struct Forms {
    list: Vec<Form>,
    /// Of [`MAX_FORMS`].
    left: usize,
}

impl Forms {
    /// Adds what a request can carry, however large.
    fn sent(&mut self, form: Form) {
        if form.len() >= MIN_FORM && !self.list.contains(&form) {
            self.list.push(form);
        }
    }

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

fn markup(text: &str, forms: &mut Forms) {
    for (double, single) in QUOTES {
        for greater in ["&gt;", ">"] {
            for ascii in [false, true] {
                for control in [false, true] {
                    forms.add(text.as_bytes(), || {
                        let mut form = Zeroizing::new(Vec::with_capacity(text.len().saturating_mul(6)));
                        for c in text.chars() {
                            match c {
                                '&' => form.extend(b"&amp;"),
                                '<' => form.extend(b"&lt;"),
                                '>' => form.extend(greater.as_bytes()),
                                '"' => form.extend(double.as_bytes()),
                                '\'' => form.extend(single.as_bytes()),
                                c if ascii && !c.is_ascii() => form.extend(format!("&#{};", u32::from(c)).as_bytes()),
                                c if control && c < ' ' => form.extend(format!("&#x{:X};", u32::from(c)).as_bytes()),
                                c => form.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                            }
                        }
                        form
                    });
                }
            }
        }
    }
}

/// `\uXXXX`, twice where UTF-16 needs it.
fn escape(c: char, upper: bool, form: &mut Form) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        form.extend(b"\\u");
        let digits = unit.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        form.extend(digits.map(|digit| hex_digit(digit, upper)));
    }
}
