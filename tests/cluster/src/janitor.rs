//! Leaves no process and no file behind.
//!
//! Destructors do not run when the owner is killed, and `PR_SET_PDEATHSIG` fires when the *thread* that spawned a
//! process ends, which runtimes do at will. So a small script holds the read end of a pipe whose write end only the
//! owner has. The kernel closes it however the owner ends; then the script kills the process group that all components
//! are members of, and removes the folder.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

const SCRIPT: &str = include_str!("janitor.sh");

/// Guards one folder and one process group.
#[derive(Debug)]
pub(crate) struct Janitor {
    script: Child,
    group: i32,
}

impl Janitor {
    /// Starts to guard `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let mut script = Command::new("bash")
            .args(["-c", SCRIPT, "ccm-cluster-janitor"])
            .arg(folder)
            .current_dir(folder)
            .process_group(0) // Ctrl-C on the terminal is for the owner
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start bash, which cleans up after the control plane")?;
        let mut group = String::new();
        let read = match script.stdout.take() {
            Some(stdout) => BufReader::new(stdout).read_line(&mut group),
            None => Ok(0),
        };
        let group = read.context("cannot read from the janitor").and_then(|_| {
            group.trim_end().parse().with_context(|| format!("the janitor said {group:?}, not a process group"))
        });
        match group {
            Ok(group) => Ok(Self { script, group }),
            Err(error) => {
                script.kill().and_then(|()| script.wait()).ok();
                Err(error)
            }
        }
    }

    /// The process group that every component has to join.
    pub(crate) const fn group(&self) -> i32 {
        self.group
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        self.script.wait().ok();
    }
}
