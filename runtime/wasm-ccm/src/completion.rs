//! `wasm-ccm completion` and `wasm-ccm man`: what shells and `man` know of the command line, made from its definition.

use anyhow::{Context as _, Result};
use clap_complete::{Generator, Shell, generate};

use crate::output;
use ccm_cli::{CompletionArgs, CompletionShell, ManArgs};

/// Prints the script for a shell.
///
/// # Errors
///
/// Standard output cannot be written.
pub(crate) fn completion(args: &CompletionArgs) -> Result<()> {
    let script = match args.shell {
        // clap_complete 4.6 calls a program with a hyphen one thing where it looks for its commands, and another where it completes them.
        CompletionShell::Bash => script(Shell::Bash)?.replace("wasm__subcmd__ccm", "wasm__ccm"),
        CompletionShell::Zsh => script(Shell::Zsh)?,
        CompletionShell::Fish => script(Shell::Fish)?,
    };
    Ok(output::print(script.trim_end())?)
}

fn script(shell: impl Generator) -> Result<String> {
    let mut command = ccm_cli::definition();
    let name = command.get_name().to_owned();
    let mut script = vec![];
    generate(shell, &mut command, name, &mut script);
    Ok(String::from_utf8(script)?)
}

/// Writes the man pages into a folder, which is made where it is not there.
///
/// # Errors
///
/// The folder cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let folder = &args.folder;
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(ccm_cli::definition(), folder));
    written.with_context(|| format!("the man pages cannot be written to {}", folder.display()))?;
    output::print(&format!("{0}: man {0}/wasm-ccm.1 shows the first page", folder.display()))?;
    Ok(())
}
