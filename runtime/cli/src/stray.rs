//! Words that belong to no flag. Such a word may be a secret whose flag was forgotten, as the second of two after `--credential`: it is told
//! by its place, and never repeated.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};

use super::{Cli, upstream};

/// The same error, with the place of the word instead of the word. `words` are those of the command line.
pub(crate) fn silenced(error: clap::Error, words: &[OsString]) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    // A flag is repeated, without its value.
    let named = text(ContextKind::InvalidArg).filter(|name| !name.starts_with('-'));
    let stray = match error.kind() {
        ErrorKind::UnknownArgument => named,
        // The first words were those of an object.
        ErrorKind::TooManyValues => named.and_then(|_| text(ContextKind::InvalidValue)),
        _ => None,
    };
    let Some(stray) = stray.cloned() else { return error };
    let mut cli = Cli::command();
    cli.build();
    let named = words.get(1).and_then(|name| cli.find_subcommand_mut(name));
    let Some(command) = named else { return cli.error(ErrorKind::UnknownArgument, "a word belongs to no flag") };
    let told = told(command, words.get(2..).unwrap_or_default(), &stray);
    command.error(ErrorKind::UnknownArgument, told)
}

fn told(command: &Command, words: &[OsString], stray: &str) -> String {
    // The last one that is no value of a flag: what stands where a word is wanted comes first.
    let (mut flag, mut is_value, mut place) = (None, false, None);
    for (number, word) in (1..).zip(words) {
        let word = word.to_string_lossy();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if let Some(known) = Flag::of(command, &word) {
            is_value = known.takes_next;
            flag = Some((number, known));
        } else if word == stray {
            place = Some((number, flag.clone()));
        }
    }
    let name = command.get_name();
    let (place, advice) = match place {
        None => (format!("a word after `{name}`"), ALONE.to_owned()),
        Some((number, None)) => (format!("word {number} after `{name}`"), ALONE.to_owned()),
        Some((number, Some((before, flag)))) => {
            let advice = match (flag.is_switch, before + 1 == number) {
                (true, true) => {
                    format!(
                        "{0} takes no value from the next word: leave the word out, or write {0}=VALUE if it takes one",
                        flag.name
                    )
                }
                (false, _) => format!(
                    "{} takes one word: put a value with spaces in quotation marks, and for a second value write the flag again",
                    flag.name
                ),
                (true, false) => ALONE.to_owned(),
            };
            (format!("word {number} after `{name}`, behind {},", flag.name), advice)
        }
    };
    format!("{place} belongs to no flag; it is not repeated here, as it may be a secret. {advice}")
}

const ALONE: &str = "Write the flag that it is for before it, or leave it out";

/// A flag that the command knows. Nothing in it is what somebody wrote.
#[derive(Clone)]
struct Flag {
    /// As it is documented.
    name: String,
    /// The next word is its value.
    takes_next: bool,
    /// It is on or off.
    is_switch: bool,
}

impl Flag {
    fn of(command: &Command, word: &str) -> Option<Self> {
        let (name, value) = upstream::flag(word).unwrap_or_default();
        if let Some(needs_value) = upstream::inert_needs_value(&name) {
            let takes_next = needs_value && value.is_none();
            return Some(Self { name: format!("--{name}"), takes_next, is_switch: !needs_value });
        }
        let short = word.strip_prefix('-').and_then(|rest| rest.chars().next()).filter(|letter| *letter != '-');
        let is_it = |arg: &&clap::Arg| {
            (!name.is_empty() && arg.get_long() == Some(name.as_str())) || (short.is_some() && arg.get_short() == short)
        };
        let arg = command.get_arguments().find(is_it)?;
        let takes = arg.get_action().takes_values() && !arg.is_require_equals_set();
        let is_alone = if short.is_some() { word.chars().count() == 2 } else { value.is_none() };
        Some(Self {
            name: arg.get_long().map_or_else(|| word.chars().take(2).collect(), |long| format!("--{long}")),
            takes_next: takes && is_alone,
            is_switch: !takes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_from;

    fn told(words: &[&str]) -> String {
        let words = ["wasm-ccm"].iter().chain(words).map(OsString::from);
        parse_from(words).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_word_that_belongs_to_no_flag_is_told_by_its_place_and_never_repeated() {
        let (one, alone) = ("takes one word", "Write the flag that it is for before it");
        let cases: [(&[&str], &str, &str); 12] = [
            (&["run", "hunter2"], "word 1 after `run` belongs", alone),
            (&["run", "hunter2", "--setting", "hunter2"], "word 1 after `run` belongs", alone),
            (&["run", "--provider=a", "--credential", "t", "hunter2"], "word 4 after `run`, behind --credential,", one),
            // It is the value of a flag before it.
            (&["run", "--setting", "hunter2", "hunter2"], "word 3 after `run`, behind --setting,", one),
            (
                &["run", "--credential=hunter2", "--setting", "a=b", "hunter2"],
                "word 4 after `run`, behind --setting,",
                one,
            ),
            // Sorted out before the parser sees them.
            (&["run", "--feature-gates", "A=true", "hunter2"], "word 3 after `run`, behind --feature-gates,", one),
            (
                &["plan", "--kube_api_qps", "5", "node", "n1", "hunter2"],
                "word 5 after `plan`, behind --kube-api-qps,",
                one,
            ),
            (
                &["run", "--leader-elect", "hunter2"],
                "behind --leader-elect,",
                "--leader-elect takes no value from the next word",
            ),
            (&["run", "-v", "4", "hunter2"], "word 3 after `run`, behind --v,", one),
            (&["doctor", "--online", "--beside=x", "hunter2"], "word 3 after `doctor`, behind --beside,", one),
            (&["explain", "service", "web", "hunter2"], "word 3 after `explain` belongs", alone),
            (&["check", "hunter2", "-o", "json", "hunter2"], "word 4 after `check`, behind --output,", one),
        ];
        for (words, place, advice) in cases {
            let told = told(words);
            assert!(told.contains(place) && told.contains(advice), "{words:?}: {told}");
            assert!(!told.contains("hunter2"), "{words:?}: {told}");
            let usage = format!("Usage: wasm-ccm {} ", words[0]);
            assert!(told.contains(&usage), "{told}");
        }
    }
}
