//! Programs that should end by themselves.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// Runs a program to its end, without input. What it writes is returned as far as `command` says that it is piped.
///
/// # Errors
///
/// It does not start, or it had not ended within `limit`: then it is killed, and the error says what it wrote.
pub fn finish(command: &mut Command, limit: Duration) -> Result<Output> {
    let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
    let pid = child.id().to_string();
    let (end, ended) = channel::<()>();
    let watcher = thread::spawn(move || {
        let runs_on = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if runs_on {
            // Nobody has waited for it yet, so that its number is still its own.
            Command::new("kill").args(["-KILL", &pid]).status().ok();
        }
        runs_on
    });
    let output = child.wait_with_output();
    drop(end);
    let runs_on = watcher.join().unwrap_or(true);
    let output = output.with_context(|| format!("{command:?}"))?;
    let said = || String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    ensure!(!runs_on, "{command:?} runs on after {limit:?}; it says:\n{}", said());
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn what_ends_in_time_is_returned_with_all_that_it_wrote() {
        let output = finish(&mut shell("echo out; echo err >&2; exit 3"), LIMIT).unwrap();
        assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(3), &b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn what_does_not_end_is_killed_and_named_with_what_it_wrote() {
        let error = finish(&mut shell("echo begun; exec sleep 3600"), Duration::from_millis(500)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("sleep 3600") && error.contains("runs on after 500ms") && error.contains("begun"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(format!("{:#}", finish(&mut Command::new("/no/such"), LIMIT).unwrap_err()).contains("/no/such"));
    }
}
