//! Standard output, for the commands that print a result.

use std::io::{ErrorKind, Result, Write};
use std::os::fd::{AsFd as _, OwnedFd};

use serde::Serialize;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

/// Writes `text` and an end of line. A closed pipe, as `head` leaves it, is not an error.
///
/// # Errors
///
/// Another reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    print_part(&format!("{text}\n")).map(drop)
}

/// The same without an end of line, where more follows. Says whether somebody still reads: to find out more would be for nobody.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn print_part(text: &str) -> Result<bool> {
    write(&mut std::io::stdout().lock(), text)
}

/// Waits until nobody reads standard output any more, whether or not there is something to write. Never ends where that cannot be: for a file.
pub(crate) async fn unread() {
    match std::io::stdout().as_fd().try_clone_to_owned() {
        Ok(out) => closed(out).await,
        Err(_) => std::future::pending().await,
    }
}

/// Waits until nobody can read what is written there. It stays as it is, so that whoever shares it may go on to write and to wait.
async fn closed(out: OwnedFd) {
    // Fails for a file, which has no other end.
    let Ok(out) = Sender::from_owned_fd_unchecked(out) else { return std::future::pending().await };
    // The only error that a pipe has.
    if out.ready(Interest::ERROR).await.is_err() {
        std::future::pending().await
    }
}

/// JSON that a terminal may show.
///
/// # Errors
///
/// It has a map with keys that are no texts.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(ccm_diagnosis::shown)
}

fn write(out: &mut impl Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Takes this many bytes, then fails.
    struct Full(usize, ErrorKind);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(self.1.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// It was noticed only with the next write, which in a cluster with nothing to show never comes.
    #[tokio::test]
    async fn a_closed_pipe_is_noticed_without_a_write_and_one_that_is_read_is_none() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let mut unread = std::pin::pin!(closed(writer.try_clone().unwrap().into()));
        let size = 4_096;
        let mut is_noticed = async || {
            // As long as the system tells of something new.
            for _ in 0..100 {
                tokio::select! {
                    biased;
                    () = &mut unread => return true,
                    () = tokio::task::yield_now() => {}
                }
            }
            false
        };
        assert!(!is_noticed().await, "nothing is written yet");
        writer.write_all(&vec![0; size]).unwrap();
        assert!(!is_noticed().await, "something waits");
        reader.read_exact(&mut vec![0; size]).unwrap();
        assert!(!is_noticed().await, "it was read");
        drop(reader);
        tokio::time::timeout(std::time::Duration::from_secs(60), unread).await.unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut never = std::pin::pin!(closed(file.into()));
        assert!(futures::poll!(never.as_mut()).is_pending());
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped_in_json() {
        assert_eq!(json(&["a\u{1b}\u{202e}b"]).unwrap(), "[\n  \"a\\u001b\\u202eb\"\n]");
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error_and_a_full_disk_is_one() {
        for room in [0, 3, 4] {
            assert!(!write(&mut Full(room, ErrorKind::BrokenPipe), "text\n").unwrap(), "{room}");
            let error = write(&mut Full(room, ErrorKind::StorageFull), "text\n").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{room}");
        }
        assert!(write(&mut Full(5, ErrorKind::StorageFull), "text\n").unwrap(), "it is read");
    }
}
