//! Flags of `run` that another command has not. The parser only knows the flag of that command whose name is the most alike, which is for something
//! else: for `check --provider=FILE` it proposed `--provider-key`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};

use super::{Cli, RUN, upstream};

/// The same error, with what to do instead of such a flag. `words` are those of the command line.
pub(crate) fn advised(error: clap::Error, words: &[OsString]) -> clap::Error {
    let flag = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => flag.strip_prefix("--"),
        _ => None,
    };
    let Some(flag) = flag else { return error };
    let flag = flag.replace('_', "-");
    let mut cli = Cli::command();
    cli.build();
    let has = |command: &Command, flag: &str| command.get_arguments().any(|argument| argument.get_long() == Some(flag));
    let is_of_run = |flag: &str| {
        cli.find_subcommand(RUN).is_some_and(|run| has(run, flag)) || upstream::inert_needs_value(flag).is_some()
    };
    let named = words.get(1).and_then(|name| name.to_str());
    let (true, Some(command)) = (is_of_run(&flag), named.and_then(|name| cli.find_subcommand(name))) else {
        return error;
    };
    // All at once: who brings the flags of a manifest has many.
    let mut flags: Vec<String> = vec![];
    for (flag, _) in words.iter().skip(2).filter_map(|word| word.to_str().and_then(upstream::flag)) {
        if is_of_run(&flag) && !has(command, &flag) && !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    let told = told(command, flags);
    let command = command.get_name().to_owned();
    cli.find_subcommand_mut(command).map_or(error, |command| command.error(ErrorKind::UnknownArgument, told))
}

/// What to do instead of these flags.
fn told(command: &Command, flags: Vec<String>) -> String {
    let name = command.get_name();
    let words: Vec<String> = command.get_positionals().map(|word| word.get_id().as_str().to_uppercase()).collect();
    let words = words.join(" ");
    let (mut told, mut others) = (vec![], vec![]);
    for flag in flags {
        let advice = match (flag.as_str(), words.starts_with("FILE")) {
            ("provider", true) => format!("write the component's file without a flag, wasm-ccm {name} {words}"),
            ("providers", true) => {
                format!(
                    "it takes one component, by its file, wasm-ccm {name} {words}; `doctor --providers-only --providers=FILE` judges a list"
                )
            }
            _ => {
                others.push(format!("--{flag}"));
                continue;
            }
        };
        told.push(format!("--{flag} is a flag of `run`, and `{name}` has none of that name: {advice}"));
    }
    let of_run = match others.as_slice() {
        [] => None,
        [flag] => Some(format!("{flag} is a flag of `run`, and `{name}` has none of that name: leave it out")),
        _ => Some(format!(
            "{} are flags of `run`, and `{name}` has none of these names: leave them out",
            others.join(", ")
        )),
    };
    told.extend(of_run);
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_from;

    #[test]
    fn a_flag_of_run_that_a_command_has_not_is_told_with_what_to_do_and_no_other_flag_is_proposed() {
        let cases: [(&[&str], &str); 12] = [
            (&["check", "--provider=a.wasm"], "write the component's file without a flag, wasm-ccm check FILE\n"),
            (&["check", "--provider", "a.wasm"], "without a flag, wasm-ccm check FILE\n"),
            (
                &["check", "--providers=a.yaml"],
                "by its file, wasm-ccm check FILE; `doctor --providers-only --providers=FILE` judges a list\n",
            ),
            (&["push", "--provider=a.wasm"], "without a flag, wasm-ccm push FILE TARGET\n"),
            (&["inspect", "--provider=a.wasm"], "without a flag, wasm-ccm inspect FILE\n"),
            (&["check", "a.wasm", "--cluster-cidr=10.0.0.0/8"], "`check` has none of that name: leave it out\n"),
            (&["doctor", "--cluster-cidr=10.0.0.0/8"], "`doctor` has none of that name: leave it out\n"),
            (&["explain", "--provider=a.wasm", "node", "n"], "`explain` has none of that name: leave it out\n"),
            // `run` takes it without effect.
            (&["doctor", "--use-service-account-credentials=true"], "`doctor` has none of that name: leave it out\n"),
            (&["doctor", "--kube_api_qps", "5"], "--kube-api-qps is a flag of `run`, and `doctor` has none of that"),
            (
                &["doctor", "--allocate-node-cidrs", "--cluster_cidr=10.0.0.0/8", "--profiling", "--profiling=false"],
                "--allocate-node-cidrs, --cluster-cidr, --profiling are flags of `run`, and `doctor` has none of these names: leave them out\n",
            ),
            (
                &["check", "--kube-api-qps=5", "--provider=a.wasm", "--kubeconfig=k"],
                "without a flag, wasm-ccm check FILE; --kube-api-qps is a flag of `run`, and `check` has none of that name: leave it out\n",
            ),
        ];
        for (words, advice) in cases {
            let told = ["wasm-ccm"].iter().chain(words).map(OsString::from);
            let told = parse_from(told).err().unwrap().to_string();
            assert!(told.contains(advice) && !told.contains("tip:"), "{words:?}: {told}");
            assert!(told.contains(&format!("Usage: wasm-ccm {} [OPTIONS]", words[0])), "{words:?}: {told}");
        }
    }

    #[test]
    fn a_misspelt_flag_is_still_told_with_the_one_that_was_meant() {
        let words = ["wasm-ccm", "check", "a.wasm", "--allow-hosts=b"].map(OsString::from);
        let told = parse_from(words).err().unwrap().to_string();
        assert!(told.contains("'--allow-host'"), "{told}");
    }
}
