//! `wasm-ccm`: a Kubernetes cloud controller manager whose providers are WebAssembly components.
//!
//! This crate is the only one that knows all others. It takes the command line of `ccm-cli`, puts the parts together, and joins what must not know each other.
//!
//! | module | does |
//! |---|---|
//! | [`run`] | `run`: builds the process, spawns what runs, ends it in order |
//! | [`access`] | who may read the pages of the health port |
//! | [`supervision`] | which controllers run, and whether their loops turn |
//! | [`stores`] | what the process knows of the cluster |
//! | [`controllers`] | the controllers that `--controllers` selects |
//! | [`pages`], [`status`] | the pages of the health port, the one for people among them |
//! | [`logging`] | who listens to lines of the log, and to spans |
//! | [`tasks`] | all tasks of the process, and how they end |
//! | [`check`], [`plan`], [`push`] | the commands of these names |
//! | [`inspect`] | `inspect` and `annotations`: what a component says of itself |
//! | [`dry_run`] | `run --dry-run`: what keeps the process from writing, and what it shows instead |
//! | [`diagnose`] | `doctor`, `explain` and `uninstall`, which `ccm-diagnosis` does |
//! | [`exit`] | the exit codes of commands that judge something |

mod access;
mod check;
mod controllers;
mod diagnose;
mod dry_run;
mod exit;
mod inspect;
mod logging;
mod output;
mod pages;
mod plan;
mod push;
mod run;
mod status;
mod stores;
mod supervision;
mod tasks;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use ccm_cli::{Command, CompletionArgs, ManArgs, NewArgs};
use ccm_cloud::is_plain;
use ccm_diagnosis::{Paste, without_keys};
use exit::Verdict;

/// glibc's allocator keeps twice the memory in use after a component is compiled and the first lists are read.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // kube and the health server share one TLS provider; an error means that it is installed already.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (command, ignored) = match ccm_cli::command() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let paste = Paste::new(&command.access());
    let code = |ended| code(ended, &paste);
    let ended = match command {
        Command::Run(args) => run::run(*args, ignored),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Annotations(args) => return code(inspect::annotations(&args)),
        Command::Check(args) => return code(check::check(&args)),
        Command::Push(args) => push::push(&args),
        Command::Doctor(args) => return code(diagnose::doctor(&args)),
        Command::Explain(args) => return code(diagnose::explain(&args)),
        Command::Completion(args) => completion(&args),
        Command::Man(args) => man(&args),
        Command::Plan(args) => return code(plan::plan(&args)),
        Command::Uninstall(args) => return code(diagnose::uninstall(&args)),
        Command::New(args) => new_provider(&args),
        Command::ProvidersSchema => print_schema(),
    };
    code(ended.map(|()| Verdict::Good))
}

/// The exit code; prints the error.
fn code(ended: anyhow::Result<Verdict>, paste: &Paste) -> ExitCode {
    match ended {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            // If this fails, nobody reads.
            drop(writeln!(std::io::stderr(), "error: {}", paste.complete(&one_line(&error))));
            ExitCode::FAILURE
        }
    }
}

/// The causes in one line, without keys and what moves a terminal. Some parsers add a drawing of the file, which is left out.
fn one_line(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let lines: Vec<&str> = causes.iter().filter_map(|cause| cause.lines().next()).collect();
    without_keys(error, &lines.join(": ")).replace(|c| !is_plain(c), " ")
}

fn new_provider(args: &NewArgs) -> anyhow::Result<()> {
    ccm_scaffold::check_name(&args.name)?;
    let here = std::env::current_dir()?;
    let sdk = match &args.sdk {
        Some(sdk) => sdk.clone(),
        None => ccm_scaffold::sdk_near(&here)
            .context("--sdk is needed outside of a checkout of wasm-ccm: its folder providers/sdk, or URL#REV of its repository")?
            .display()
            .to_string(),
    };
    let folder = ccm_scaffold::create(&here, &args.name, &sdk)?;
    output::print(&format!("{}: a provider that builds; its README.md says what to do next", folder.display()))?;
    Ok(())
}

fn completion(args: &CompletionArgs) -> anyhow::Result<()> {
    output::print(args.script()?.trim_end())?;
    Ok(())
}

fn man(args: &ManArgs) -> anyhow::Result<()> {
    args.write()?;
    output::print(&format!("{0}: man {0}/wasm-ccm.1 shows the first page", args.folder.display()))?;
    Ok(())
}

fn print_schema() -> anyhow::Result<()> {
    output::print(&serde_json::to_string_pretty(&ccm_rollout::config::schema())?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// A kubeconfig that is no YAML once printed a drawing of the file over five lines.
    #[test]
    fn an_error_is_one_line() {
        let error = anyhow::anyhow!("line 1: expected a list\n --> <input>:1:11\n  |").context("--kubeconfig x");
        assert_eq!(one_line(&error), "--kubeconfig x: line 1: expected a list");
    }

    /// A client key of a kubeconfig without line breaks was in the error three times.
    #[test]
    fn no_key_is_in_an_error() {
        let bytes = b"-----BEGIN PRIVATE KEY-----\\nMIIhunter2\\n-----END PRIVATE KEY-----\\n";
        let error = PrivateKeyDer::from_pem_slice(bytes).unwrap_err();
        let error = anyhow::Error::new(error).context("--kubeconfig x");
        assert_eq!(one_line(&error), "--kubeconfig x: it is not PEM, or has lost its line breaks");
    }

    /// What a component, a cloud or an API server says cleared the screen.
    #[test]
    fn nothing_in_an_error_moves_the_terminal() {
        let error = anyhow::anyhow!("no\r\u{1b}[2J\u{9b}31mred\u{202e}\tend").context("provider x");
        assert_eq!(one_line(&error), "provider x: no  [2J 31mred  end");
    }
}
