//! The arguments of a command as upstream's flags are written: booleans with or without a value, the last one of several counts,
//! underscores for dashes.
//!
//! Some flags of upstream have nothing to set here. Stock manifests carry them, so `run` and `plan` take them, and one line says why they do
//! nothing.

use std::ffi::OsString;

use ccm_rollout::config::duration;
use clap::{ArgAction, Command};

use super::{PLAN, RUN};

#[cfg(test)]
mod tests;

/// Arguments for the parser, and flags that it is not told of.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub known: Vec<OsString>,
    /// Each with why it does nothing, in the order in which they were given.
    pub ignored: Vec<&'static Inert>,
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
    let takes_inert = [RUN, PLAN].contains(&command.get_name());
    while let Some(word) = given.next() {
        let Some((name, value)) = word.to_str().and_then(flag) else {
            sorted.known.push(word);
            continue;
        };
        if let Some(inert) = INERT.iter().find(|inert| takes_inert && inert.name == name) {
            let value = match (value, inert.kind) {
                (Some(value), _) => value.to_owned(),
                (None, Kind::Bool) => "true".to_owned(),
                (None, _) => {
                    let next = next_value(command, &name, &mut given)?;
                    let next = next.ok_or_else(|| format!("the flag --{name} needs a value"))?;
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
                sorted.known.extend(next_value(command, &name, &mut given)?);
            }
        }
    }
    Ok(sorted)
}

/// The next word, as the value of a flag. Where that is a flag itself, the value was forgotten: `--webhooks --provider FILE` once took the name of
/// the second flag as the value of the first.
///
/// # Errors
///
/// It begins as a flag. It is repeated only where it is the name of one.
fn next_value(
    command: &Command,
    name: &str,
    given: &mut impl Iterator<Item = OsString>,
) -> Result<Option<OsString>, String> {
    let Some(word) = given.next() else { return Ok(None) };
    if !word.as_encoded_bytes().starts_with(b"--") {
        return Ok(Some(word));
    }
    let is_known = |next: &str| {
        let is_ours = command.get_arguments().any(|argument| argument.get_long() == Some(next));
        is_ours || inert_needs_value(next).is_some()
    };
    let next = word.to_str().and_then(flag).map(|(next, _)| next).filter(|next| is_known(next));
    let follows =
        next.map_or_else(|| "what follows it begins with --".to_owned(), |next| format!("--{next} follows it"));
    Err(format!("the flag --{name} needs a value, and {follows}: give it one, as in --{name}=VALUE, or leave it out"))
}

/// Whether a flag without effect needs a value; none where it is no such flag.
pub(crate) fn inert_needs_value(name: &str) -> Option<bool> {
    INERT.iter().find(|inert| inert.name == name).map(|inert| inert.kind != Kind::Bool)
}

/// Name and value of a word that is a flag, the name as upstream knows it.
pub(crate) fn flag(word: &str) -> Option<(String, Option<&str>)> {
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

/// What the value of a flag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Number,
    Duration,
    Text,
}

impl Kind {
    /// Whether upstream would take this value.
    fn takes(self, value: &str) -> bool {
        match self {
            Self::Bool => boolean(value).is_some(),
            Self::Number => value.parse::<f64>().is_ok(),
            Self::Duration => duration::parse(value).is_ok(),
            Self::Text => true,
        }
    }
}

/// A boolean as Go's flags take it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A flag without effect.
#[derive(Debug)]
pub(crate) struct Inert {
    pub name: &'static str,
    kind: Kind,
    /// A value that asks for what happens anyway: nothing is said about it.
    already: Option<bool>,
    /// Why it does nothing.
    why: &'static str,
}

const fn inert(name: &'static str, kind: Kind, why: &'static str) -> Inert {
    Inert { name, kind, already: None, why }
}

/// A boolean that is what is asked for, when it is this.
const fn always(name: &'static str, is: bool, why: &'static str) -> Inert {
    Inert { name, kind: Kind::Bool, already: Some(is), why }
}

const CERTIFICATES: &str = "the health port takes tokens, no client certificates and no front proxy";
const CIDRS: &str = "kube-controller-manager allocates the CIDRs of Nodes";
const CIPHERS: &str = "cipher suites and curves are those of rustls";
const GATES: &str = "there are no feature gates";
const HTTP_1: &str = "HTTP/1.1 is served";
const LOGS: &str = "log lines are written at once, to standard error";
const MIGRATION: &str =
    "there is no second lock: stop a controller in the one manager before it starts in the other (--controllers)";
const NOTHING: &str = "upstream does nothing with it either";
const PROFILES: &str = "there are no Go profiles";
const RATE: &str = "the client does not limit requests; the API server's priority and fairness does";
const SNI: &str = "there is one certificate for a port";
const SOCKETS: &str = "the port is not shared";

/// All of them, in upstream's order.
const INERT: &[Inert] = &[
    inert("min-resync-period", Kind::Duration, "there is no common resync: each controller has its own period"),
    inert("controller-start-interval", Kind::Duration, "controllers start together"),
    inert("kube-api-content-type", Kind::Text, "the API server is asked for JSON"),
    inert("kube-api-qps", Kind::Number, RATE),
    inert("kube-api-burst", Kind::Number, RATE),
    inert("feature-gates", Kind::Text, GATES),
    inert("external-cloud-volume-plugin", Kind::Text, NOTHING),
    always("use-service-account-credentials", false, "all controllers use one service account"),
    inert("allow-untagged-cloud", Kind::Bool, "the provider decides what a cluster needs in its cloud"),
    always("allocate-node-cidrs", false, CIDRS),
    inert("cidr-allocator-type", Kind::Text, CIDRS),
    inert("node-sync-period", Kind::Duration, NOTHING),
    always("profiling", false, PROFILES),
    always("contention-profiling", false, PROFILES),
    always("enable-leader-migration", false, MIGRATION),
    inert("leader-migration-config", Kind::Text, MIGRATION),
    inert("cert-dir", Kind::Text, "a certificate is made in memory; name another one with --tls-cert-file"),
    inert("tls-cipher-suites", Kind::Text, CIPHERS),
    inert("tls-curve-preferences", Kind::Text, CIPHERS),
    inert("tls-sni-cert-key", Kind::Text, SNI),
    always("disable-http2-serving", true, HTTP_1),
    always("permit-port-sharing", false, SOCKETS),
    always("permit-address-sharing", false, SOCKETS),
    inert("http2-max-streams-per-connection", Kind::Number, HTTP_1),
    inert("authentication-skip-lookup", Kind::Bool, CERTIFICATES),
    inert("authentication-tolerate-lookup-failure", Kind::Bool, CERTIFICATES),
    inert("client-ca-file", Kind::Text, CERTIFICATES),
    inert("requestheader-client-ca-file", Kind::Text, CERTIFICATES),
    inert("requestheader-allowed-names", Kind::Text, CERTIFICATES),
    inert("requestheader-uid-headers", Kind::Text, CERTIFICATES),
    inert("requestheader-username-headers", Kind::Text, CERTIFICATES),
    inert("requestheader-group-headers", Kind::Text, CERTIFICATES),
    inert("requestheader-extra-headers-prefix", Kind::Text, CERTIFICATES),
    inert("webhook-tls-cipher-suites", Kind::Text, CIPHERS),
    inert("webhook-tls-curve-preferences", Kind::Text, CIPHERS),
    inert("webhook-tls-sni-cert-key", Kind::Text, SNI),
    always("webhook-disable-http2-serving", true, HTTP_1),
    inert("vmodule", Kind::Text, "one verbosity applies to the whole process: --v"),
    inert("log-flush-frequency", Kind::Duration, LOGS),
    inert("log-text-split-stream", Kind::Bool, LOGS),
    inert("log-text-info-buffer-size", Kind::Text, LOGS),
    inert("log-json-split-stream", Kind::Bool, LOGS),
    inert("log-json-info-buffer-size", Kind::Text, LOGS),
];
