//! Standard output, for the commands that print a result.

use std::io::{ErrorKind, Result, Write};

use serde::Serialize;

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
