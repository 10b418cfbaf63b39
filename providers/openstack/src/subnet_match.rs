//! Which subnets an operator means by a pattern of names and an expression of tags.
//!
//! | pattern | matches |
//! |---|---|
//! | `a*`, `a?`, `[abc]`, `{a,b}` | a name as a file name; `*` is any run without `/` |
//! | `~expression` | a regular expression: `. * + ? {2} {2,} {2,5} | ( ) [ ] ^ $ \d \D \w \W \s \S` |
//! | `!pattern` | the others |
//!
//! The whole name must match. Tags: `a,b` is one of them, `&a,b` both, `!` in front the others.

use ccm_sdk::quoted;

/// A subnet that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    negated: bool,
    name: Option<Expression>,
    tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tags {
    negated: bool,
    all: bool,
    tags: Vec<String>,
}

/// What a regular expression is made of.
const KNOWN: &str = r"; a regular expression has . * + ? {n} {n,} {n,m} | ( ) [ ] ^ $ \d \D \w \W \s \S";

impl Pattern {
    /// # Errors
    ///
    /// The pattern of names is none.
    pub(crate) fn parse(name: &str, tags: &str) -> Result<Self, String> {
        let (negated, rest) = name.strip_prefix('!').map_or((false, name), |rest| (true, rest));
        let known = if rest.starts_with('~') { KNOWN } else { "" };
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
        Ok(Self { negated, name: expression, tags })
    }

    pub(crate) fn matches(&self, name: &str, tags: &[String]) -> bool {
        self.name.as_ref().is_none_or(|expression| expression.matches(name) != self.negated) && self.tags.match_(tags)
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
}

impl Expression {
    fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let mut effort = Effort { steps: MOST_STEPS, within: 0 };
        let end = text.len();
        self.run(&text, 0, &mut effort, &mut |at, _| at == end)
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
        let parsed = regular(&mut letters, 0)?;
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
        let Some(left) = effort.steps.checked_sub(1).filter(|_| effort.within < MOST_WITHIN) else { return false };
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
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
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

fn regular(letters: &mut Letters<'_>, depth: usize) -> Option<Expression> {
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
                continue;
            }
            '{' => {
                let last = all.last_mut()?.last_mut().filter(|item| (item.least, item.most) == (1, 1))?;
                (last.least, last.most) = times(letters)?;
                continue;
            }
            '.' => What::Any,
            '^' => What::Start,
            '$' => What::End,
            '[' => set(letters)?,
            '(' if depth < DEEPEST => {
                let group = regular(letters, depth + 1)?;
                letters.next().filter(|letter| *letter == ')')?;
                What::Group(group)
            }
            '\\' => escaped(letters.next()?)?,
            // Brackets without the other one.
            '(' | ')' | '}' | ']' => return None,
            other => What::Letter(other),
        };
        all.last_mut()?.push(once(what));
    }
    Some(Expression(all))
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
        's' => vec![(' ', ' '), ('\t', '\r')],
        other if other.is_ascii_alphanumeric() => return None,
        _ => return Some(What::Letter(letter)),
    };
    Some(What::Set { negated: letter.is_ascii_uppercase(), ranges })
}

fn set(letters: &mut Letters<'_>) -> Option<What> {
    let negated = letters.next_if(|letter| matches!(letter, '^' | '!')).is_some();
    let mut ranges = vec![];
    loop {
        let first = letters.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some(What::Set { negated, ranges });
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
mod tests {
    use super::*;

    fn is(name: &str, tags: &str, subnet: &str, has: &[&str]) -> bool {
        let has: Vec<String> = has.iter().map(|tag| (*tag).to_owned()).collect();
        Pattern::parse(name, tags).expect("a pattern").matches(subnet, &has)
    }

    #[test]
    fn os_136_137_names_match_as_a_whole_and_a_mark_of_exclamation_turns_it_round() {
        for (case, pattern, expected) in [
            ("os_136", "test-*", true),
            ("os_136", "~test-.*", true),
            ("os_137", "other*", false),
            ("os_137", "~other.*", false),
            ("os_137", "*", true),
            ("os_137", "~.*", true),
        ] {
            assert_eq!(is(pattern, "", "test-123", &[]), expected, "{case} {pattern}");
            assert_eq!(is(&format!("!{pattern}"), "", "test-123", &[]), !expected, "{case} !{pattern}");
        }
    }

    #[test]
    fn os_138_139_tags_are_one_of_or_all_and_turned_round() {
        let has = &["alice", "bob"];
        for (case, tags, expected) in [
            ("os_138", "alice", true),
            ("os_138", "other", false),
            ("os_139", "alice,bob", true),
            ("os_139", "alice,peter", true),
            ("os_139", "&alice,bob", true),
            ("os_139", "&alice,peter", false),
        ] {
            assert_eq!(is("", tags, "x", has), expected, "{case} {tags}");
            assert_eq!(is("", &format!("!{tags}"), "x", has), !expected, "{case} !{tags}");
        }
    }

    #[test]
    fn os_189_none_of_is_none_and_not_all_of_is_not_all() {
        let subnets: [&[&str]; 4] = [&["a"], &["b"], &["a", "b"], &[]];
        for (case, tags, expected) in
            [("os_189", "!a,b", [false, false, false, true]), ("os_189", "!&a,b", [true, true, false, true])]
        {
            assert_eq!(subnets.map(|has| is("", tags, "x", has)), expected, "{case} {tags}");
        }
    }

    #[test]
    fn os_140_a_pattern_and_tags_must_both_match() {
        for (case, name, tags, expected) in [
            ("os_140", "test-*", "alice", true),
            ("os_140", "test-*", "other", false),
            ("os_140", "other-*", "alice", false),
        ] {
            assert_eq!(is(name, tags, "test-123", &["alice", "bob"]), expected, "{case} {name} {tags}");
        }
    }

    #[test]
    fn patterns_have_classes_alternatives_and_repetitions_and_end() {
        for (pattern, name, expected) in [
            ("a?c", "abc", true),
            ("a*", "a/b", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("{pub,dmz}-*", "dmz-1", true),
            ("{pub,dmz}-*", "int-1", false),
            ("~(pub|dmz)-\\d+", "dmz-12", true),
            ("~(pub|dmz)-\\d+", "dmz-", false),
            ("~^a$", "a", true),
            ("~a.c", "xabc", false),
            ("~(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("a.c", "abc", false),
            ("~a{2}", "aa", true),
            ("~a{2}", "aaa", false),
            ("~a{2,}", "aaaa", true),
            ("~a{2,}", "a", false),
            ("~a{1,2}b", "aab", true),
            ("~a{1,2}b", "aaab", false),
            ("~(net|dmz)(-[0-9]{1,3}){2}", "dmz-1-255", true),
            ("~(net|dmz)(-[0-9]{1,3}){2}", "dmz-1-2550", false),
            ("~a{0}b", "b", true),
            // Each time another alternative.
            ("~(^|a){2}", "a", true),
        ] {
            assert_eq!(is(pattern, "", name, &[]), expected, "{pattern} {name}");
        }
        let wrong = [
            "~(", "~*", "~a)", "[", "{a", "~[", "~\\", "~{2}", "~a{2", "~a{}", "~a{,2}", "~a{2,1}", "~a{x}",
            "~a{1001}", "~a{2}*", "~\\b",
        ];
        for wrong in wrong {
            let message = Pattern::parse(wrong, "").expect_err(wrong);
            assert!(message.starts_with("invalid subnet regexp pattern"), "{message}");
            assert_eq!(message.contains("a regular expression has"), wrong.starts_with('~'), "{message}");
        }
    }

    /// Whoever writes one must not end the provider with it.
    #[test]
    fn the_deepest_pattern_ends() {
        for pattern in ["^".repeat(19_000), "(^){1000}".repeat(100), "((((^){9}){9}){9}){9}".to_owned()] {
            assert!(!is(&format!("~{pattern}x"), "", "y", &[]), "{pattern}");
        }
        assert!(is("~[a-z]{255}", "", &"a".repeat(255), &[]), "the longest name");
        assert!(is("~(a|b)*", "", &"ab".repeat(127), &[]), "the longest name");
        assert!(is("~((a)|(b|c))+", "", &"abc".repeat(40), &[]), "groups within groups");
    }
}
