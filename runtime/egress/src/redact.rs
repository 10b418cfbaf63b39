//! Takes the values of credentials out of what a cloud answers and of what is logged.
//!
//! A cloud may send back what it was sent: as it was, or encoded by some program in between. So every value is looked for
//! in all forms that common programs write.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use zeroize::{Zeroize, Zeroizing};

use crate::encoding::Encoding;

/// A shorter value would be found in ordinary text.
const MIN_VALUE: usize = 6;

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
    /// Looks for these values, given by name. White space around a value does not count, and a value that is shorter than
    /// 6 bytes without it is left out. Of two equal values, the first name counts.
    ///
    /// # Errors
    /// When there are gigabytes of them.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, TooLarge> {
        let mut needles: Vec<Form> = Vec::new();
        let mut placeholders = Vec::new();
        for (name, value) in values {
            let value = value.trim_ascii();
            if value.len() >= MIN_VALUE {
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
    let mut forms = vec![Zeroizing::new(value.to_vec())];
    let mut left = MAX_FORMS.saturating_sub(value.len());
    let mut add = |form: Form| {
        if form.len() <= left && !forms.contains(&form) {
            left = left.saturating_sub(form.len());
            forms.push(form);
        }
    };
    for encoding in [Encoding::JsonString, Encoding::Url, Encoding::UrlLowerCase, Encoding::Hex] {
        // The one that fails is a JSON string of what is no text: no JSON can hold it.
        encoding.encode(value).into_iter().for_each(&mut add);
    }
    if let Ok(mut hex) = Encoding::Hex.encode(value) {
        hex.make_ascii_uppercase();
        add(hex);
    }
    base64(value, &mut add);
    percent(value, &mut add);
    if let Ok(text) = std::str::from_utf8(value) {
        json(text, &mut add);
    }
    forms
}

/// Base64 by itself and in the middle of something longer: only what does not depend on the neighbours, but with the last
/// character and the padding where the value comes last.
fn base64(value: &[u8], add: &mut impl FnMut(Form)) {
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
                add(Zeroizing::new(form.to_vec()));
                add(percent_encoded(form, "-._", false, true));
                add(percent_encoded(form, "-._", false, false));
            }
        }
    }
}

fn percent(value: &[u8], add: &mut impl FnMut(Form)) {
    for kept in KEPT {
        for plus in [false, true] {
            let mut lower = percent_encoded(value, kept, plus, false);
            add(percent_encoded(value, kept, plus, true));
            add(lower.clone());
            lower.make_ascii_lowercase();
            add(lower);
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

fn json(text: &str, add: &mut impl FnMut(Form)) {
    for escaped in ESCAPED {
        for ascii in [false, true] {
            for slash in [false, true] {
                for upper in [false, true] {
                    add(json_escaped(text, escaped, ascii, slash, upper));
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
mod tests {
    use base64::prelude::BASE64_STANDARD_NO_PAD;

    use super::*;

    const SPECIAL: &str = r#"k/+="<>&ü~* Z9"#;
    const BASE64: &str = "??>>~~ü?xy";

    fn redactor(values: &[(&str, &str)]) -> Redactor {
        Redactor::new(values.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
    }

    #[test]
    fn a_value_is_found_in_every_form_that_programs_write() {
        // Written by Python, and by hand where that has no such form.
        let cases = [
            ("plain", SPECIAL, r#"k/+="<>&ü~* Z9"#),
            ("JSON", SPECIAL, r#"k/+=\"<>&ü~* Z9"#),
            ("JSON, Python", SPECIAL, r#"k/+=\"<>&\u00fc~* Z9"#),
            ("JSON, upper-case digits", SPECIAL, r#"k/+=\"<>&\u00FC~* Z9"#),
            ("JSON, slashes", SPECIAL, r#"k\/+=\"<>&ü~* Z9"#),
            ("JSON, PHP", SPECIAL, r#"k\/+=\"<>&\u00fc~* Z9"#),
            ("JSON, Go", SPECIAL, r#"k/+=\"\u003c\u003e\u0026ü~* Z9"#),
            ("JSON, Go, all ASCII", SPECIAL, r#"k\/+=\"\u003c\u003e\u0026\u00fc~* Z9"#),
            ("JSON, upper-case Go", SPECIAL, r#"k/+=\"\u003C\u003E\u0026ü~* Z9"#),
            ("JSON, Gson", SPECIAL, r#"k/+\u003d\"\u003c\u003e\u0026ü~* Z9"#),
            ("JSON, .NET", SPECIAL, r#"k/\u002B=\u0022\u003C\u003E\u0026\u00FC~* Z9"#),
            ("RFC 3986", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~%2A%20Z9"#),
            ("RFC 3986, lower-case digits", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc~%2a%20Z9"#),
            ("RFC 3986, lower case", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc~%2a%20z9"#),
            ("Python quote", SPECIAL, r#"k/%2B%3D%22%3C%3E%26%C3%BC~%2A%20Z9"#),
            ("Java", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC%7E*+Z9"#),
            ("Java, lower-case digits", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*+Z9"#),
            ("Java, lower case", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*+z9"#),
            ("CloudStack", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*%20z9"#),
            ("form with ~ and *", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~*+Z9"#),
            ("form without", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC%7E%2A+Z9"#),
            ("JavaScript", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~*%20Z9"#),
            ("Go path", SPECIAL, r#"k%2F+=%22%3C%3E&%C3%BC~%2A%20Z9"#),
            ("browser query", SPECIAL, r#"k/+=%22%3C%3E&%C3%BC~*%20Z9"#),
            ("hex", SPECIAL, r#"6b2f2b3d223c3e26c3bc7e2a205a39"#),
            ("upper-case hex", SPECIAL, r#"6B2F2B3D223C3E26C3BC7E2A205A39"#),
            ("Base64", BASE64, r#"Pz8+Pn5+w7w/eHk="#),
            ("Base64, no padding", BASE64, r#"Pz8+Pn5+w7w/eHk"#),
            ("URL-safe Base64", BASE64, r#"Pz8-Pn5-w7w_eHk="#),
            ("URL-safe Base64, no padding", BASE64, r#"Pz8-Pn5-w7w_eHk"#),
            ("Base64 in a URL", BASE64, r#"Pz8%2BPn5%2Bw7w%2FeHk%3D"#),
            ("Base64 in a URL, lower-case digits", BASE64, r#"Pz8%2bPn5%2bw7w%2feHk%3d"#),
            ("URL-safe Base64 in a URL", BASE64, r#"Pz8-Pn5-w7w_eHk%3D"#),
        ];
        for (form, value, text) in cases {
            let redactor = redactor(&[("key", value)]);
            assert_eq!(redactor.text(text), "(credential key)", "{form}");
            for (before, after) in [("\"", "\""), ("a=1&s=", "&b=2"), ("", "\n"), ("x: ", "")] {
                let text = format!("{before}{text}{after}");
                assert_eq!(redactor.text(&text), format!("{before}(credential key){after}"), "{form}");
                assert_eq!(redactor.bytes(text.into_bytes()), format!("{before}(credential key){after}").as_bytes());
            }
        }
    }

    #[test]
    fn in_the_middle_of_base64_only_what_the_neighbours_share_is_left() {
        let cases = [
            ("Pz8+Pn5+w7w/eHk=", "{}"),
            ("Pz8-Pn5-w7w_eHk=", "{}"),
            ("Pz8+Pn5+w7w/eHl6", "{}l6"),
            ("Pz8-Pn5-w7w_eHl6", "{}l6"),
            ("Pz8+Pn5+w7w/eHl6eg==", "{}l6eg=="),
            ("Pz8-Pn5-w7w_eHl6eg==", "{}l6eg=="),
            ("eD8/Pj5+fsO8P3h5", "eD{}"),
            ("eD8_Pj5-fsO8P3h5", "eD{}"),
            ("eD8/Pj5+fsO8P3h5eg==", "eD{}eg=="),
            ("eD8_Pj5-fsO8P3h5eg==", "eD{}eg=="),
            ("eD8/Pj5+fsO8P3h5eno=", "eD{}eno="),
            ("eD8_Pj5-fsO8P3h5eno=", "eD{}eno="),
            ("eHk/Pz4+fn7DvD94eQ==", "eHk{}"),
            ("eHk_Pz4-fn7DvD94eQ==", "eHk{}"),
            ("eHk/Pz4+fn7DvD94eXo=", "eHk{}Xo="),
            ("eHk_Pz4-fn7DvD94eXo=", "eHk{}Xo="),
            ("eHk/Pz4+fn7DvD94eXp6", "eHk{}Xp6"),
            ("eHk_Pz4-fn7DvD94eXp6", "eHk{}Xp6"),
        ];
        let redactor = redactor(&[("key", BASE64)]);
        for (text, left) in cases {
            assert_eq!(redactor.text(text), left.replace("{}", "(credential key)"), "{text}");
        }
    }

    #[test]
    fn any_bytes_are_found_anywhere_in_base64_and_hex() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 32).unwrap() % below
        };
        for round in 0..1000 {
            let mut bytes =
                |length: usize| (0..length).map(|_| u8::try_from(random(256)).unwrap()).collect::<Vec<u8>>();
            let mut value = bytes(6 + round % 60);
            // White space at its ends would be trimmed.
            value[0] |= 0x80;
            *value.last_mut().unwrap() |= 0x80;
            let (before, after) = (bytes(round % 50), bytes(round / 7 % 50));
            let whole = [before.as_slice(), &value, &after].concat();
            let redactor = Redactor::new([("key", value.as_slice())]).unwrap();
            let shared = |text: String| {
                let redacted = redactor.text(&text).into_owned();
                let (start, end) = redacted.split_once("(credential key)").expect(&text);
                assert!(text.starts_with(start) && text.ends_with(end), "{redacted}");
                (start.len(), text.len() - end.len())
            };
            let (start, end) = (before.len(), before.len() + value.len());
            assert_eq!(shared(Encoding::Hex.encode(&whole).unwrap().escape_ascii().to_string()), (start * 2, end * 2));
            for text in
                [BASE64_STANDARD_NO_PAD.encode(&whole), BASE64_STANDARD.encode(&whole), BASE64_URL_SAFE.encode(&whole)]
            {
                let (first, last) = ((start * 8).div_ceil(6), end * 8 / 6);
                let (from, to) = shared(text.clone());
                // One more where the neighbour's bits happen to be zero, and the padding at the end.
                let most = if after.is_empty() { text.len() } else { last + usize::from(end * 8 % 6 != 0) };
                assert!(from == first && (last..=most).contains(&to), "{from} to {to} of {text}");
                assert!(!after.is_empty() || to == text.len(), "{text}");
            }
            assert_eq!(redactor.bytes(whole), [before.as_slice(), b"(credential key)", &after].concat());
        }
    }

    #[test]
    fn the_longest_of_several_values_counts_and_the_first_name_of_equal_ones() {
        let redactor = redactor(&[
            ("short", "token-12"),
            ("long", "token-12345678"),
            ("user", "administrator"),
            ("again", "administrator"),
        ]);
        let cases = [
            ("token-12345678", "(credential long)"),
            ("token-1234567", "(credential short)34567"),
            ("token-12 token-12345678", "(credential short) (credential long)"),
            ("token-12token-12", "(credential short)(credential short)"),
            ("user=administrator&key=token-12", "user=(credential user)&key=(credential short)"),
            ("Basic YWRtaW5pc3RyYXRvcjp0b2tlbi0xMjM0NTY3OA==", "Basic (credential user)jp(credential long)"),
        ];
        for (text, redacted) in cases {
            assert_eq!(redactor.text(text), redacted);
        }
    }

    #[test]
    fn what_holds_no_value_is_not_even_copied() {
        let redactor = redactor(&[("key", "SecretExample-9876543210_XyZ"), ("other", SPECIAL)]);
        let long = r#"{"listzonesresponse":{"count":1,"zone":[{"id":"0c1d2e3f","name":"Zürich & co"}]}}"#.repeat(100);
        for text in ["", "k", "SecretExample-9876543210_Xy", "secret example", "(credential key)", &long] {
            assert!(matches!(redactor.text(text), Cow::Borrowed(same) if same == text), "{text}");
            let bytes = text.as_bytes().to_vec();
            let address = bytes.as_ptr();
            let after = redactor.bytes(bytes);
            assert_eq!((after.as_slice(), after.as_ptr()), (text.as_bytes(), address));
        }
    }

    #[test]
    fn white_space_around_a_value_does_not_count_and_short_values_are_left_out() {
        let cases = [
            (" \n", true, "", ""),
            ("12345", true, "12345", "12345"),
            (" 12345 \n", true, "12345", "12345"),
            ("123456", false, "x123456x", "x(credential key)x"),
            ("s3cr3t-v\n", false, "Bearer s3cr3t-v", "Bearer (credential key)"),
            // The line break was encoded with it.
            ("s3cr3t-v\n", false, "czNjcjN0LXYK", "(credential key)K"),
        ];
        for (value, empty, text, redacted) in cases {
            let redactor = redactor(&[("key", value)]);
            assert_eq!((redactor.is_empty(), redactor.text(text).as_ref()), (empty, redacted), "{value:?}");
        }
        assert!(redactor(&[]).is_empty());
    }

    #[test]
    fn a_value_that_is_no_text_leaves_text_behind() {
        // The second byte of "é" and what follows.
        let redactor = Redactor::new([("key", b"\xa9secret".as_slice())]).unwrap();
        assert_eq!(redactor.text("caf\u{e9}secret!"), "caf\u{fffd}(credential key)!");
    }

    #[test]
    fn the_forms_of_a_large_value_stay_within_bounds() {
        let large = SPECIAL.repeat(2000);
        let forms = forms(large.as_bytes());
        assert!(forms.iter().map(|form| form.len()).sum::<usize>() <= MAX_FORMS, "{} forms", forms.len());
        let huge = SPECIAL.repeat(20_000);
        assert_eq!(redactor(&[("key", &huge)]).text(&huge), "(credential key)");
    }
}
