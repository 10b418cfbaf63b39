//! Takes the values of credentials out of what a cloud answers and of what is logged.
//!
//! A cloud may send back what it was sent: as it was, or encoded by some program in between. So every value is looked for
//! in all forms that common programs write.

mod forms;

use std::borrow::Cow;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use parking_lot::{Mutex, RwLock};
use zeroize::{Zeroize, Zeroizing};

use forms::forms;

use crate::one_line::line;
use crate::secret::{Secret, can_be_guessed};

type Form = Zeroizing<Vec<u8>>;
/// A bit for each two bytes.
type Pairs = [u64; 1 << 10];

/// Most pieces that are replaced in one text. With a name in each of a million places, it would take many times its memory, which nobody
/// counts: where there are more, nothing of it is left.
const MOST_PIECES: usize = 100_000;
/// What is left of it.
const EVERYTHING: &str = "(credentials)";
/// Longest name in a placeholder, in bytes.
const MAX_NAME: usize = 64;

/// Finds the values of credentials and puts [`placeholder`]s in their place. No `Debug`. Cloning shares what it looks for.
///
/// The lists of what is looked for are wiped when it is built. What the search itself keeps in memory is not: the library
/// holds the values taken apart, and has no way to wipe them.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// All look at the same time: what one finds must not be hidden by what another has replaced.
    searches: Vec<Arc<Search>>,
    /// These look only at what is left: see [`then`](Self::then).
    rest: Vec<Arc<Search>>,
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
        values: impl FnOnce() -> Vec<(String, Secret, Origin)>,
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
        let redactor =
            Redactor::of(values.iter().map(|(name, value, origin)| (name.as_str(), value.expose(), *origin)))?;
        *self.newest.write() = Some((version, redactor.clone()));
        Ok(redactor)
    }
}

/// What is looked for together.
struct Search {
    automaton: NFA,
    /// Where it begins, and which two bytes lead away from there, a bit for each two: nearly all do not, and need no look at the automaton.
    start: StateID,
    pairs: Box<Pairs>,
    /// The two bytes that stand anywhere within the first `shortest` bytes of something that it looks for.
    within: Box<Pairs>,
    values: Vec<Value>,
    /// By number of the needle, which of the values is its.
    owners: Vec<usize>,
    shortest: usize,
}

/// A value of a credential, as far as its search has to know it.
struct Value {
    name: String,
    placeholder: String,
    can_be_guessed: bool,
    origin: Origin,
}

/// Where a value comes from, and with it what it means that somebody writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The operator gave it, and it is good.
    Given,
    /// The operator gave it once. Who kept it may have written it anywhere.
    Old,
    /// A cloud made it up: it may be what the cloud calls something else.
    Captured,
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
    format!("(credential {})", line(name, MAX_NAME))
}

impl Redactor {
    /// Looks for these values, given by name. White space around a value does not count. Of two equal values, the first name
    /// counts.
    ///
    /// # Errors
    /// When there are gigabytes of them.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, TooLarge> {
        Self::of(values.into_iter().map(|(name, value)| (name, value, Origin::Given)))
    }

    /// The same, for values that do not all come from the operator.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    fn of<'a>(values: impl Iterator<Item = (&'a str, &'a [u8], Origin)>) -> Result<Self, TooLarge> {
        let mut needles: Vec<Form> = Vec::new();
        let (mut known, mut owners) = (Vec::new(), Vec::new());
        for (name, value, origin) in values {
            if !value.trim_ascii().is_empty() {
                needles.append(&mut forms(value));
                owners.resize(needles.len(), known.len());
                let (name, placeholder) = (name.to_owned(), placeholder(name));
                known.push(Value { name, placeholder, can_be_guessed: can_be_guessed(value), origin });
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
        let search = Search::new(automaton, &needles, known, owners, shortest);
        Ok(Self { searches: vec![Arc::new(search)], rest: vec![] })
    }

    /// Looks for what either looks for, at the same time: one after the other would miss a value of which the first has
    /// replaced a part.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let both = |one: &[Arc<Search>], two: &[Arc<Search>]| one.iter().chain(two).map(Arc::clone).collect();
        Self { searches: both(&self.searches, &other.searches), rest: both(&self.rest, &other.rest) }
    }

    /// Looks for what the other looks for only in what is left: a component has a say in what becomes a captured credential. One that it
    /// chose and that overlaps a secret of the operator would show byte by byte how that begins.
    #[must_use]
    pub(crate) fn then(&self, other: &Self) -> Self {
        let rest = self.rest.iter().chain(&other.searches).chain(&other.rest);
        Self { searches: self.searches.clone(), rest: rest.map(Arc::clone).collect() }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.searches.is_empty() && self.rest.is_empty()
    }

    /// Whether the bytes hold a value of another name than this one.
    #[must_use]
    pub(crate) fn finds_other_than(&self, name: &str, bytes: &[u8]) -> bool {
        self.first(bytes, |value| value.name != name).is_some()
    }

    /// The name and the origin of a value in the bytes that nobody comes upon by himself: of several, one that is given, if there is one.
    #[must_use]
    pub(crate) fn finds_unguessable(&self, bytes: &[u8]) -> Option<(&str, Origin)> {
        let mut other: Option<&Value> = None;
        let given = self.first(bytes, |value| {
            if !value.can_be_guessed && value.origin != Origin::Given {
                other.get_or_insert(value);
            }
            !value.can_be_guessed && value.origin == Origin::Given
        });
        given.or(other).map(|value| (value.name.as_str(), value.origin))
    }

    fn first<'a>(&'a self, bytes: &[u8], mut is_meant: impl FnMut(&'a Value) -> bool) -> Option<&'a Value> {
        let able = self.searches.iter().chain(&self.rest).filter(|search| bytes.len() >= search.shortest);
        able.filter_map(|search| {
            let (mut searches, mut steps) = ([(&**search, search.start)], Steps { bytes, at: 0 });
            while let Some((_, byte)) = steps.next(&searches) {
                let [(search, state)] = &mut searches;
                *state = search.automaton.next_state(Anchored::No, *state, byte);
                let all = if search.automaton.is_match(*state) { search.automaton.match_len(*state) } else { 0 };
                let mut owners = (0..all).filter_map(|index| search.owner(*state, index));
                if let Some(value) = owners.find(|value| is_meant(value)) {
                    return Some(value);
                }
            }
            None
        })
        .next()
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
        let first = pieces(&self.searches, bytes);
        let pieces = if self.rest.is_empty() { first } else { filled(first, &self.rest, bytes) };
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
}

/// All bytes that belong to any value, in order. Of values that end at the same byte only the longest counts, so the time does not depend on
/// how often the others are found.
fn pieces<'a>(searches: &'a [Arc<Search>], bytes: &[u8]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let able = searches.iter().filter(|search| bytes.len() >= search.shortest);
    let mut searches: Vec<(&Search, StateID)> = able.map(|search| (&**search, search.start)).collect();
    if searches.is_empty() {
        return pieces;
    }
    let mut steps = Steps { bytes, at: 0 };
    while let Some((end, byte)) = steps.next(&searches) {
        let mut longest: Option<(usize, &str)> = None;
        for (search, state) in &mut searches {
            *state = search.automaton.next_state(Anchored::No, *state, byte);
            if search.automaton.is_match(*state) {
                // The first of them is the longest.
                let found = search.found(*state, 0);
                longest = longest.filter(|(length, _)| *length >= found.0).or(Some(found));
            }
        }
        if let Some((length, placeholder)) = longest {
            add(Piece { start: end.saturating_sub(length), end, placeholder }, &mut pieces);
            if pieces.len() > MOST_PIECES {
                return everything(bytes);
            }
        }
    }
    pieces
}

/// The bytes that searches have to look at, one after the other.
struct Steps<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Steps<'_> {
    /// The next one, and where it ends. Where all searches are where they began, bytes with which nothing begins are passed over: most are
    /// such, and this is done with all that comes from a cloud.
    fn next(&mut self, searches: &[(&Search, StateID)]) -> Option<(usize, u8)> {
        if searches.iter().all(|(search, state)| *state == search.start) {
            self.at = self.at.saturating_add(passed(searches, self.bytes.get(self.at..)?));
        }
        let byte = *self.bytes.get(self.at)?;
        self.at = self.at.saturating_add(1);
        Some((self.at, byte))
    }
}

/// With how many of these bytes nothing begins.
fn passed(searches: &[(&Search, StateID)], bytes: &[u8]) -> usize {
    let opens = |pair: Option<&[u8]>| searches.iter().any(|(search, _)| has(&search.pairs, pair));
    let within = |pair: Option<&[u8]>| searches.iter().any(|(search, _)| has(&search.within, pair));
    let shortest = searches.iter().map(|(search, _)| search.shortest).min().unwrap_or_default();
    let mut at = 0_usize;
    // Nothing begins in less than the shortest takes.
    while let Some(first) = bytes.get(at..at.saturating_add(shortest)) {
        // What begins at any of them but the last one would have the last two within its first bytes.
        if !within(first.get(shortest.saturating_sub(2)..)) {
            at = at.saturating_add(shortest.saturating_sub(1));
        } else if opens(bytes.get(at..at.saturating_add(2))) {
            break;
        } else {
            at = at.saturating_add(1);
        }
    }
    if bytes.len().saturating_sub(at) < shortest { bytes.len() } else { at }
}

fn everything<'a>(bytes: &[u8]) -> Vec<Piece<'a>> {
    vec![Piece { start: 0, end: bytes.len(), placeholder: EVERYTHING }]
}

/// With what is found in the gaps between.
fn filled<'a>(first: Vec<Piece<'a>>, rest: &'a [Arc<Search>], bytes: &[u8]) -> Vec<Piece<'a>> {
    let mut filled = Vec::with_capacity(first.len());
    let mut done = 0;
    let end = Piece { start: bytes.len(), end: bytes.len(), placeholder: "" };
    for piece in first.into_iter().chain([end]) {
        // A piece may go on with what belongs to the one before it.
        let gap = bytes.get(done..piece.start).unwrap_or_default();
        let within = pieces(rest, gap).into_iter();
        filled.extend(within.map(|Piece { start, end, placeholder }| Piece {
            start: start.saturating_add(done),
            end: end.saturating_add(done),
            placeholder,
        }));
        if filled.len() > MOST_PIECES {
            return everything(bytes);
        }
        done = done.max(piece.end);
        filled.push(piece);
    }
    filled.pop();
    filled
}

/// Adds a piece that ends after all others, and drops those inside it. Of pieces that overlap, each name stays once: a text that matches at
/// each byte would otherwise become many times as long.
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
    fn new(automaton: NFA, needles: &[Form], values: Vec<Value>, owners: Vec<usize>, shortest: usize) -> Self {
        // It is built for searches that begin anywhere.
        let start = automaton.start_state(Anchored::No).unwrap_or_default();
        let from = |state, byte| automaton.next_state(Anchored::No, state, byte);
        let mut pairs = Box::new([0_u64; 1 << 10]);
        for byte in 0_u8..=255 {
            let first = from(start, byte);
            // Where the second byte leads to by itself, the first one has opened nothing.
            let opens = |next: &u8| automaton.is_match(first) || from(first, *next) != from(start, *next);
            for next in (0_u8..=255).filter(|next| first != start && opens(next)) {
                note(byte, next, &mut pairs);
            }
        }
        let mut within = Box::new([0_u64; 1 << 10]);
        for pair in needles.iter().filter_map(|needle| needle.get(..shortest)).flat_map(|first| first.windows(2)) {
            if let [byte, next] = pair {
                note(*byte, *next, &mut within);
            }
        }
        Self { automaton, start, pairs, within, values, owners, shortest }
    }

    /// Length and placeholder of what is found in this state.
    fn found(&self, state: StateID, index: usize) -> (usize, &str) {
        let needle = self.automaton.match_pattern(state, index);
        let placeholder = self.owner(state, index).map_or("", |value| value.placeholder.as_str());
        (self.automaton.pattern_len(needle), placeholder)
    }

    fn owner(&self, state: StateID, index: usize) -> Option<&Value> {
        let needle = self.automaton.match_pattern(state, index);
        self.owners.get(needle.as_usize()).and_then(|owner| self.values.get(*owner))
    }
}

fn note(byte: u8, next: u8, pairs: &mut Pairs) {
    let (word, bit) = place(byte, next);
    if let Some(word) = pairs.get_mut(word) {
        *word |= bit;
    }
}

/// Whether these two bytes are noted. What is no pair may be anything.
fn has(pairs: &Pairs, pair: Option<&[u8]>) -> bool {
    let Some([byte, next]) = pair else { return true };
    let (word, bit) = place(*byte, *next);
    pairs.get(word).is_none_or(|word| word & bit != 0)
}

/// Where the bit of two bytes is.
fn place(byte: u8, next: u8) -> (usize, u64) {
    let pair = u16::from_be_bytes([byte, next]);
    (usize::from(pair / 64), 1_u64.wrapping_shl(u32::from(pair % 64)))
}

#[cfg(test)]
mod tests;
