//! Takes the values of credentials out of what a cloud answers and of what is logged.
//!
//! A cloud may send back what it was sent: as it was, or encoded by some program in between. So every value is looked for
//! in all forms that common programs write.

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use parking_lot::{Mutex, RwLock};
use zeroize::{Zeroize, Zeroizing};

use crate::encoding::Encoding;
use crate::secret::Secret;

/// A shorter form would be found in ordinary text. The value itself is looked for however short it is: the host takes none
/// below `min-credential-bytes`, unless the operator wants it so.
const MIN_FORM: usize = 4;

/// Bytes of the forms of one value, besides those in which a request can carry it. Only a large file full of special
/// characters has more; then the rarest forms are left out, so that a few of those do not take hundreds of megabytes.
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
const SENT: [Encoding; 5] =
    [Encoding::JsonString, Encoding::Url, Encoding::UrlLowerCase, Encoding::Base64, Encoding::Base64PercentEncoded];

type Form = Zeroizing<Vec<u8>>;

/// Finds the values of credentials and puts [`placeholder`]s in their place. No `Debug`. Cloning shares what it looks for.
///
/// The lists of what is looked for are wiped when it is built. What the search itself keeps in memory is not: the library
/// holds the values taken apart, and has no way to wipe them.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// All look at the same time: what one finds must not be hidden by what another has replaced.
    searches: Vec<Arc<Search>>,
}

/// A redactor that is built again when there are other values.
#[derive(Default)]
pub(crate) struct RedactorCache {
    newest: RwLock<Option<(u64, Redactor)>>,
    turn: Mutex<()>,
}

impl RedactorCache {
    /// The redactor of this version of the values. It takes milliseconds to build, so one builds it for all who wait.
    pub(crate) fn get(
        &self,
        version: impl Fn() -> u64,
        values: impl FnOnce() -> Vec<(String, Secret)>,
    ) -> Result<Redactor, TooLarge> {
        let kept = || {
            let now = version();
            self.newest.read().as_ref().filter(|(of, _)| *of == now).map(|(_, redactor)| redactor.clone())
        };
        if let Some(redactor) = kept() {
            return Ok(redactor);
        }
        let _turn = self.turn.lock();
        if let Some(redactor) = kept() {
            return Ok(redactor);
        }
        // Asked before the values are: a later one is built again, and none is missed.
        let version = version();
        let values = values();
        let redactor = Redactor::new(values.iter().map(|(name, value)| (name.as_str(), value.expose())))?;
        *self.newest.write() = Some((version, redactor.clone()));
        Ok(redactor)
    }
}

/// What is looked for together.
struct Search {
    automaton: NFA,
    placeholders: Vec<String>,
    /// By number of the needle, which of the placeholders is its.
    owners: Vec<usize>,
    shortest: usize,
}

/// What is replaced. One that begins before the last one ends is what follows of the same stretch.
struct Piece<'a> {
    start: usize,
    end: usize,
    placeholder: &'a str,
}

/// There are more values than can be looked for.
#[derive(Debug, thiserror::Error)]
#[error("the credentials are too large to be kept out of answers and logs")]
pub struct TooLarge;

/// What stands where the value of this credential was.
#[must_use]
pub(crate) fn placeholder(name: &str) -> String {
    format!("(credential {name})")
}

impl Redactor {
    /// Looks for these values, given by name. White space around a value does not count. Of two equal values, the first name
    /// counts.
    ///
    /// # Errors
    /// When there are gigabytes of them.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, TooLarge> {
        let mut needles: Vec<Form> = Vec::new();
        let (mut placeholders, mut owners) = (Vec::new(), Vec::new());
        for (name, value) in values {
            if !value.trim_ascii().is_empty() {
                needles.append(&mut forms(value));
                owners.resize(needles.len(), placeholders.len());
                placeholders.push(placeholder(name));
            }
        }
        let Some(shortest) = needles.iter().map(|needle| needle.len()).min() else {
            return Ok(Self::default());
        };
        // Not a DFA: it would be quicker in answers of many megabytes, and takes far longer to build.
        let built =
            NFA::builder().match_kind(MatchKind::Standard).build(needles.iter().map(|needle| needle.as_slice()));
        #[expect(clippy::map_err_ignore, reason = "the library counts states")]
        let automaton = built.map_err(|_| TooLarge)?;
        Ok(Self { searches: vec![Arc::new(Search { automaton, placeholders, owners, shortest })] })
    }

    /// Looks for what either looks for, at the same time: one after the other would miss a value of which the first has
    /// replaced a part.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self { searches: self.searches.iter().chain(&other.searches).map(Arc::clone).collect() }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.searches.is_empty()
    }

    /// Whether the bytes hold a value of another name than this one.
    #[must_use]
    pub(crate) fn finds_other_than(&self, name: &str, bytes: &[u8]) -> bool {
        let own = placeholder(name);
        self.searches.iter().any(|search| {
            let mut state = search.start();
            bytes.iter().any(|byte| {
                state = search.automaton.next_state(Anchored::No, state, *byte);
                search.automaton.is_match(state)
                    && (0..search.automaton.match_len(state)).any(|index| search.found(state, index).1 != own)
            })
        })
    }

    /// The bytes without the values. No copy when there is none; else what came in is wiped.
    #[must_use]
    pub(crate) fn bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
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
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
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
        let pieces = self.pieces(bytes);
        if pieces.is_empty() {
            return None;
        }
        let mut replaced = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for piece in pieces {
            replaced.extend_from_slice(bytes.get(done..piece.start).unwrap_or_default());
            replaced.extend_from_slice(piece.placeholder.as_bytes());
            done = piece.end;
        }
        replaced.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Some(replaced)
    }

    /// All bytes that belong to any value, in order. Of values that end at the same byte only the longest counts, so the
    /// time does not depend on how often the others are found.
    fn pieces(&self, bytes: &[u8]) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        let able = self.searches.iter().filter(|search| bytes.len() >= search.shortest);
        let mut searches: Vec<(&Search, StateID)> = able.map(|search| (&**search, search.start())).collect();
        if searches.is_empty() {
            return pieces;
        }
        for (end, byte) in (1_usize..).zip(bytes) {
            let mut longest: Option<(usize, &str)> = None;
            for (search, state) in &mut searches {
                *state = search.automaton.next_state(Anchored::No, *state, *byte);
                if search.automaton.is_match(*state) {
                    // The first of them is the longest.
                    let found = search.found(*state, 0);
                    longest = longest.filter(|(length, _)| *length >= found.0).or(Some(found));
                }
            }
            if let Some((length, placeholder)) = longest {
                add(Piece { start: end.saturating_sub(length), end, placeholder }, &mut pieces);
            }
        }
        pieces
    }
}

/// Adds what ends after all others. What lies within it is said by it. Each name counts once in a stretch of values that
/// overlap: else a text that matches at each byte would become many times as long.
fn add<'a>(piece: Piece<'a>, pieces: &mut Vec<Piece<'a>>) {
    while pieces.pop_if(|other| other.start >= piece.start).is_some() {}
    let mut start = piece.start;
    let mut said = false;
    for other in pieces.iter().rev() {
        if other.end <= start {
            break;
        }
        said |= other.placeholder == piece.placeholder;
        start = other.start;
    }
    match pieces.last_mut().filter(|_| said) {
        Some(last) => last.end = piece.end,
        None => pieces.push(piece),
    }
}

impl Search {
    fn start(&self) -> StateID {
        // It is built for searches that begin anywhere.
        self.automaton.start_state(Anchored::No).unwrap_or_default()
    }

    /// Length and placeholder of what is found in this state.
    fn found(&self, state: StateID, index: usize) -> (usize, &str) {
        let needle = self.automaton.match_pattern(state, index);
        let owner = self.owners.get(needle.as_usize()).and_then(|owner| self.placeholders.get(*owner));
        (self.automaton.pattern_len(needle), owner.map_or("", String::as_str))
    }
}

/// Every form of a value, each once; what is common comes first. A request carries it with the white space around it.
fn forms(whole: &[u8]) -> Vec<Form> {
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

#[cfg(test)]
mod tests;
