//! `completion` and `man`: their flags, and what shells and `man` know of the command line, made from its definition.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Generator, Shell, generate};

use super::Cli;

/// Flags of `completion`.
#[derive(Args)]
pub struct CompletionArgs {
    /// The shell.
    shell: CompletionShell,
}

/// Shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionShell {
    /// For a line in `~/.bashrc`.
    Bash,
    /// As a file `_wasm-ccm` in a folder of `fpath`.
    Zsh,
    /// As a file `wasm-ccm.fish` in the folder `completions` of its configuration.
    Fish,
}

/// Flags of `man`.
#[derive(Args)]
pub struct ManArgs {
    /// The folder for the pages; it is created if it does not exist.
    pub folder: PathBuf,
}

impl CompletionArgs {
    /// The script for the shell.
    ///
    /// # Errors
    ///
    /// It is no text.
    pub fn script(&self) -> Result<String> {
        Ok(match self.shell {
            // clap_complete 4.6 calls a program with a hyphen one thing where it looks for its commands, and another where it completes them.
            CompletionShell::Bash => script(Shell::Bash)?.replace("wasm__subcmd__ccm", "wasm__ccm"),
            CompletionShell::Zsh => script(Shell::Zsh)?,
            CompletionShell::Fish => script(Shell::Fish)?,
        })
    }
}

fn script(shell: impl Generator) -> Result<String> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = vec![];
    generate(shell, &mut command, name, &mut script);
    Ok(String::from_utf8(script)?)
}

impl ManArgs {
    /// Writes the man pages into the folder, which is made where it is not there.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn write(&self) -> Result<()> {
        let folder = &self.folder;
        let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
        written.with_context(|| format!("the man pages cannot be written to {}", folder.display()))
    }
}
