//! The arguments of `run` as upstream's flags are written: booleans with or without a value, the last one of several counts,
//! underscores for dashes, and flags that have nothing to set here.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use super::upstream::{INERT, Inert, Kind, boolean};

#[cfg(test)]
mod tests;

/// Arguments for the parser, and flags that it is not told of.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) known: Vec<OsString>,
    /// Each with why it does nothing, in the order in which they were given.
    pub(crate) ignored: Vec<&'static Inert>,
}

/// Sorts the arguments of `command`, which come after its name.
///
/// # Errors
///
/// A flag without the value that it needs, or with one that it cannot have: a sentence that names the flag. The value is not
/// repeated.
pub(crate) fn sort(command: &Command, given: impl IntoIterator<Item = OsString>) -> Result<Arguments, String> {
    let mut given = given.into_iter();
    let mut sorted = Arguments::default();
    while let Some(word) = given.next() {
        let Some((name, value)) = word.to_str().and_then(flag) else {
            sorted.known.push(word);
            continue;
        };
        if let Some(inert) = INERT.iter().find(|inert| inert.name == name) {
            let value = match (value, inert.kind) {
                (Some(value), _) => value.to_owned(),
                (None, Kind::Bool) => "true".to_owned(),
                (None, _) => {
                    let next = given.next().ok_or_else(|| format!("the flag --{name} needs a value"))?;
                    next.to_string_lossy().into_owned()
                }
            };
            if !inert.kind.takes(&value) {
                return Err(format!("the value of --{name} is none that upstream takes"));
            }
            sorted.ignored.retain(|other| other.name != name);
            if inert.already.is_none() || inert.already != boolean(&value) {
                sorted.ignored.push(inert);
            }
            continue;
        }
        let Some(argument) = command.get_arguments().find(|argument| argument.get_long() == Some(name.as_str())) else {
            // Not ours: the parser says so, and repeats it as it was given.
            sorted.known.push(word);
            continue;
        };
        match (argument.get_action(), value) {
            (ArgAction::SetTrue, value) => {
                let is = value.map_or(Some(true), boolean);
                let is = is.ok_or_else(|| format!("--{name} is either true or false"))?;
                let flag = OsString::from(format!("--{name}"));
                // The last one counts.
                sorted.known.retain(|earlier| *earlier != flag);
                if is {
                    sorted.known.push(flag);
                }
            }
            // `--flag` alone says true, and never takes the next word.
            (_, None) if argument.is_require_equals_set() => sorted.known.push(format!("--{name}").into()),
            (_, Some(value)) if argument.is_require_equals_set() => {
                let value = boolean(value).map_or_else(|| value.to_owned(), |is| is.to_string());
                sorted.known.push(format!("--{name}={value}").into());
            }
            (_, Some(value)) => sorted.known.push(format!("--{name}={value}").into()),
            (_, None) => {
                sorted.known.push(format!("--{name}").into());
                // Whatever it is, it is no flag.
                sorted.known.extend(given.next());
            }
        }
    }
    Ok(sorted)
}

/// Name and value of a word that is a flag, the name as upstream knows it.
fn flag(word: &str) -> Option<(String, Option<&str>)> {
    let flag = word.strip_prefix("--").filter(|flag| !flag.is_empty())?;
    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    Some((name.replace('_', "-"), value))
}

/// One line for all flags without effect; none when there are none.
pub(crate) fn told(ignored: &[&Inert]) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for inert in ignored {
        let flag = format!("--{}", inert.name);
        match reasons.iter_mut().find(|(why, _)| *why == inert.why) {
            Some((_, flags)) => flags.push(flag),
            None => reasons.push((inert.why, vec![flag])),
        }
    }
    let told = reasons.iter().map(|(why, flags)| format!("{} ({why})", flags.join(", ")));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("flags without effect here: {}", told.join("; ")))
}
