//! Which subnets an operator means by a pattern of names and an expression of tags.
//!
//! | pattern | matches |
//! |---|---|
//! | `a*`, `a?`, `[abc]`, `{a,b}` | a name as a file name; `*` is any run without `/` |
//! | `~expression` | a regular expression: `. * + ? {2} {2,} {2,5} | ( ) (?: ) (?i) [ ] ^ $ \d \D \w \W \s \S`, and `?` behind a repetition |
//! | `!pattern` | the others |
//!
//! The whole name must match. Tags: `a,b` is one of them, `&a,b` both, `!` in front the others.

use ccm_sdk::quoted;

/// A subnet that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    negated: bool,
    name: Option<Expression>,
    /// Of a regular expression, the first match has to be the whole name, as in Go: that of `pub|public` in "public" is "pub".
    is_regular: bool,
    tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tags {
    negated: bool,
    all: bool,
    tags: Vec<String>,
}

/// What a regular expression is made of.
const KNOWN: &str = r"; a regular expression has . * + ? {n} {n,} {n,m} | ( ) (?: ) (?i) [ ] ^ $ \d \D \w \W \s \S";

impl Pattern {
    /// # Errors
    ///
    /// The pattern of names is none.
    pub(crate) fn parse(name: &str, tags: &str) -> Result<Self, String> {
        let (negated, rest) = name.strip_prefix('!').map_or((false, name), |rest| (true, rest));
        let is_regular = rest.starts_with('~');
        let known = if is_regular { KNOWN } else { "" };
        let wrong = || format!("invalid subnet regexp pattern {}{known}", quoted(name));
        let expression = match rest.strip_prefix('~') {
            Some(expression) => Some(Expression::regular(expression).ok_or_else(wrong)?),
            None if rest.is_empty() => None,
            None => Some(Expression::glob(rest).ok_or_else(wrong)?),
        };
        let (none, rest) = tags.strip_prefix('!').map_or((false, tags), |rest| (true, rest));
        let (all, rest) = rest.strip_prefix('&').map_or((false, rest), |rest| (true, rest));
        let listed = rest.split(|letter: char| letter == ',' || letter.is_whitespace()).filter(|tag| !tag.is_empty());
        let tags = Tags { negated: none, all, tags: listed.map(str::to_owned).collect() };
        Ok(Self { negated, name: expression, is_regular, tags })
    }

    /// A name that nobody knows of whether it matches is chosen by neither sign.
    pub(crate) fn matches(&self, name: &str, tags: &[String]) -> bool {
        let fits = |expression: &Expression| {
            expression.matches(name, self.is_regular).is_some_and(|matches| matches != self.negated)
        };
        self.name.as_ref().is_none_or(fits) && self.tags.match_(tags)
    }
}

impl Tags {
    fn match_(&self, tags: &[String]) -> bool {
        if self.tags.is_empty() {
            return true;
        }
        let has = |tag: &String| tags.contains(tag);
        let matches = if self.all { self.tags.iter().all(has) } else { self.tags.iter().any(has) };
        matches != self.negated
    }
}

/// A regular expression: alternatives of sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expression(Vec<Vec<Item>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    what: What,
    least: usize,
    most: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Letter(char),
    Any,
    /// A run of file names has no slash.
    NoSlash,
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
        /// Sets within it.
        sets: Vec<Self>,
        /// Also ASCII letters of another case. The tables of all others are large.
        folds: bool,
    },
    Group(Expression),
    Start,
    End,
}

/// Most steps of a match: an expression can take for ever.
const MOST_STEPS: usize = 20_000;
/// Most of them within each other: each takes a part of the stack, which is half a megabyte. The letters of the longest name need less.
const MOST_WITHIN: usize = 600;
/// Deepest groups.
const DEEPEST: usize = 16;
/// Most repetitions by number, as in Go.
const MOST_TIMES: usize = 1_000;

/// How much a match may still take.
struct Effort {
    steps: usize,
    within: usize,
    /// It took more: that nothing was found says nothing.
    is_over: bool,
}

impl Expression {
    /// None: it takes too long to know.
    fn matches(&self, text: &str, only_first: bool) -> Option<bool> {
        let text: Vec<char> = text.chars().collect();
        let mut effort = Effort { steps: MOST_STEPS, within: 0, is_over: false };
        let (end, mut last) = (text.len(), None);
        self.run(&text, 0, &mut effort, &mut |at, _| {
            last = Some(at);
            only_first || at == end
        });
        let found = last == Some(end);
        (found || !effort.is_over).then_some(found)
    }

    fn run(
        &self,
        text: &[char],
        at: usize,
        effort: &mut Effort,
        then: &mut dyn FnMut(usize, &mut Effort) -> bool,
    ) -> bool {
        self.0.iter().any(|sequence| run(sequence, text, at, effort, then))
    }

    fn glob(text: &str) -> Option<Self> {
        let mut letters = text.chars().peekable();
        let parsed = glob(&mut letters, 0)?;
        letters.next().is_none().then_some(parsed)
    }

    fn regular(text: &str) -> Option<Self> {
        let mut letters = text.chars().peekable();
        let parsed = regular(&mut letters, 0, false)?;
        letters.next().is_none().then_some(parsed)
    }
}

fn run(
    sequence: &[Item],
    text: &[char],
    at: usize,
    effort: &mut Effort,
    then: &mut dyn FnMut(usize, &mut Effort) -> bool,
) -> bool {
    match sequence.split_first() {
        Some((item, rest)) => item.run((item.least, item.most), rest, text, at, effort, then),
        None => then(at, effort),
    }
}

impl Item {
    /// So many times, and what is behind it.
    fn run(
        &self,
        (least, most): (usize, usize),
        rest: &[Self],
        text: &[char],
        at: usize,
        effort: &mut Effort,
        then: &mut dyn FnMut(usize, &mut Effort) -> bool,
    ) -> bool {
        let Some(left) = effort.steps.checked_sub(1).filter(|_| effort.within < MOST_WITHIN) else {
            effort.is_over = true;
            return false;
        };
        effort.steps = left;
        effort.within = effort.within.saturating_add(1);
        let found = match &self.what {
            What::Start => (at == 0 || least == 0) && run(rest, text, at, effort, then),
            What::End => (at == text.len() || least == 0) && run(rest, text, at, effort, then),
            What::Group(_) if most == 0 => run(rest, text, at, effort, then),
            What::Group(group) => {
                let mut after = |next: usize, effort: &mut Effort| {
                    // What takes nothing need not be taken again.
                    if next == at && least == 0 {
                        return false;
                    }
                    let times = (least.saturating_sub(1), most.saturating_sub(1));
                    self.run(times, rest, text, next, effort, then)
                };
                group.run(text, at, effort, &mut after) || (least == 0 && run(rest, text, at, effort, then))
            }
            one => {
                let taken = text.iter().skip(at).take(most).take_while(|letter| one.is(**letter)).count();
                (least..=taken).rev().any(|taken| run(rest, text, at.saturating_add(taken), effort, then))
            }
        };
        effort.within = effort.within.saturating_sub(1);
        found
    }
}

impl What {
    fn is(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => letter != '\n',
            Self::NoSlash => letter != '/',
            Self::Set { negated, ranges, sets, folds } => {
                let has = |letter: char| {
                    ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter))
                        || sets.iter().any(|set| set.is(letter))
                };
                let folded = || has(letter.to_ascii_lowercase()) || has(letter.to_ascii_uppercase());
                (has(letter) || (*folds && folded())) != *negated
            }
            Self::Group(_) | Self::Start | Self::End => false,
        }
    }
}

type Letters<'t> = std::iter::Peekable<std::str::Chars<'t>>;

const fn once(what: What) -> Item {
    Item { what, least: 1, most: 1 }
}

fn glob(letters: &mut Letters<'_>, depth: usize) -> Option<Expression> {
    let mut all = vec![vec![]];
    while let Some(letter) = letters.peek().copied() {
        if depth > 0 && letter == '}' {
            break;
        }
        letters.next();
        if depth > 0 && letter == ',' {
            all.push(vec![]);
            continue;
        }
        let item = match letter {
            '*' => Item { what: What::NoSlash, least: 0, most: usize::MAX },
            '?' => once(What::NoSlash),
            '[' => once(set(letters)?),
            '{' if depth < DEEPEST => {
                let group = glob(letters, depth + 1)?;
                letters.next().filter(|letter| *letter == '}')?;
                once(What::Group(group))
            }
            '{' => return None,
            other => once(What::Letter(other)),
        };
        all.last_mut()?.push(item);
    }
    Some(Expression(all))
}

/// `folds`: letters of another case fit too.
fn regular(letters: &mut Letters<'_>, depth: usize, mut folds: bool) -> Option<Expression> {
    let mut all: Vec<Vec<Item>> = vec![vec![]];
    while let Some(letter) = letters.peek().copied() {
        if depth > 0 && letter == ')' {
            break;
        }
        letters.next();
        let what = match letter {
            '|' => {
                all.push(vec![]);
                continue;
            }
            '*' | '+' | '?' => {
                let last = all.last_mut()?.last_mut().filter(|item| (item.least, item.most) == (1, 1))?;
                (last.least, last.most) = match letter {
                    '*' => (0, usize::MAX),
                    '+' => (1, usize::MAX),
                    _ => (0, 1),
                };
                // As few as will do is not built.
                if letters.peek() == Some(&'?') {
                    return None;
                }
                continue;
            }
            '{' => {
                let last = all.last_mut()?.last_mut().filter(|item| (item.least, item.most) == (1, 1))?;
                (last.least, last.most) = times(letters)?;
                if letters.peek() == Some(&'?') {
                    return None;
                }
                continue;
            }
            '.' => What::Any,
            '^' => What::Start,
            '$' => What::End,
            '[' => class(letters, folds)?,
            '(' if depth < DEEPEST => {
                let (inside, is_group) = flags(letters, folds)?;
                if !is_group {
                    folds = inside;
                    continue;
                }
                let group = regular(letters, depth + 1, inside)?;
                letters.next().filter(|letter| *letter == ')')?;
                What::Group(group)
            }
            '\\' => escaped(letters.next()?)?,
            // Brackets without the other one.
            '(' | ')' | '}' | ']' => return None,
            other if folds && !other.is_ascii() => return None,
            other if folds => What::Set { negated: false, ranges: vec![(other, other)], sets: vec![], folds },
            other => What::Letter(other),
        };
        all.last_mut()?.push(once(what));
    }
    Some(Expression(all))
}

/// Behind the opening bracket of a group: whether letters of another case fit from there on, and whether a group begins, which `(?i)`
/// does not.
fn flags(letters: &mut Letters<'_>, folds: bool) -> Option<(bool, bool)> {
    if letters.next_if_eq(&'?').is_none() {
        return Some((folds, true));
    }
    let folds = letters.next_if_eq(&'i').is_some() || folds;
    match letters.next()? {
        ':' => Some((folds, true)),
        ')' => Some((folds, false)),
        _ => None,
    }
}

/// How often, behind the opening bracket: `2}`, `2,}`, `2,5}`.
fn times(letters: &mut Letters<'_>) -> Option<(usize, usize)> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            '}' => break,
            letter => text.push(letter),
        }
    }
    let number =
        |text: &str| text.parse().ok().filter(|number: &usize| *number <= MOST_TIMES && !text.starts_with('+'));
    match text.split_once(',') {
        None => number(&text).map(|times| (times, times)),
        Some((least, "")) => Some((number(least)?, usize::MAX)),
        Some((least, most)) => Some((number(least)?, number(most)?)).filter(|(least, most)| least <= most),
    }
}

fn escaped(letter: char) -> Option<What> {
    let ranges = match letter.to_ascii_lowercase() {
        'd' => vec![('0', '9')],
        'w' => vec![('0', '9'), ('A', 'Z'), ('a', 'z'), ('_', '_')],
        's' => vec![(' ', ' '), ('\t', '\n'), ('\u{c}', '\r')],
        other if other.is_ascii_alphanumeric() => return None,
        _ => return Some(What::Letter(letter)),
    };
    Some(What::Set { negated: letter.is_ascii_uppercase(), ranges, sets: vec![], folds: false })
}

/// In brackets of a regular expression.
fn class(letters: &mut Letters<'_>, folds: bool) -> Option<What> {
    let negated = letters.next_if_eq(&'^').is_some();
    let (mut ranges, mut sets) = (vec![], vec![]);
    let mut is_first = true;
    loop {
        let first = match letters.next()? {
            ']' if !is_first => return Some(What::Set { negated, ranges, sets, folds }),
            // A class by its name, such as `[:alpha:]`.
            '[' if letters.peek() == Some(&':') => return None,
            '\\' => escaped(letters.next()?)?,
            letter => What::Letter(letter),
        };
        is_first = false;
        let What::Letter(first) = first else {
            sets.push(first);
            continue;
        };
        let mut last = first;
        if letters.next_if_eq(&'-').is_some() {
            match letters.peek()? {
                ']' => ranges.push(('-', '-')),
                _ => last = end_of_range(letters)?,
            }
        }
        if last < first || (folds && !last.is_ascii()) {
            return None;
        }
        ranges.push((first, last));
    }
}

fn end_of_range(letters: &mut Letters<'_>) -> Option<char> {
    match letters.next()? {
        '\\' => match escaped(letters.next()?)? {
            What::Letter(letter) => Some(letter),
            _ => None,
        },
        letter => Some(letter),
    }
}

/// In brackets of a name as a file name.
fn set(letters: &mut Letters<'_>) -> Option<What> {
    let negated = letters.next_if(|letter| matches!(letter, '^' | '!')).is_some();
    let mut ranges = vec![];
    loop {
        let first = letters.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some(What::Set { negated, ranges, sets: vec![], folds: false });
        }
        let first = if first == '\\' { letters.next()? } else { first };
        let mut last = first;
        if letters.peek() == Some(&'-') {
            letters.next();
            match letters.peek() {
                Some(']') => ranges.push(('-', '-')),
                _ => last = letters.next()?,
            }
        }
        if last < first {
            return None;
        }
        ranges.push((first, last));
    }
}

#[cfg(test)]
mod tests;
