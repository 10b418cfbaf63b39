//! One running program of the control plane, and its log.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result};

/// Lines of a log that an error shows.
const LOG_TAIL: usize = 25;

/// A program that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Component {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Component {
    /// Starts `program` in `folder` as a member of the process group `group`, its output appended to `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(
        name: &'static str,
        program: &Path,
        flags: impl IntoIterator<Item = S>,
        folder: &Path,
        log: PathBuf,
        group: i32,
    ) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write the log {}", log.display()))?;
        let errors = output.try_clone()?;
        let child = Command::new(program)
            .args(flags)
            .current_dir(folder)
            .process_group(group)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name, child, log })
    }

    /// An error with the end of the log when the program is no longer running.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.ended(status)),
        }
    }

    fn ended(&self, status: ExitStatus) -> anyhow::Error {
        anyhow::anyhow!("{} ended by itself ({status}); {}", self.name, self.log_tail())
    }

    /// Where the log is, and its last lines.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_TAIL)..).unwrap_or_default();
        format!("last lines of {}:\n{}", self.log.display(), tail.join("\n"))
    }
}

/// Kills, as a crash would, and reaps: afterwards the program's ports and files are free.
impl Drop for Component {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
