//! Whether a file is still the one that was read.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file that changed so shortly before it was read may change again without its time stamp telling.
const UNSETTLED: Duration = Duration::from_millis(100);

/// What tells one state of a file from the next: an overwrite, a rename, the switch of a link, as in mounted Secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of now, and whether the next change will certainly have another one. Taken before the file is read.
    pub(crate) fn of(path: &Path) -> std::io::Result<(Self, bool)> {
        Self::at(path, SystemTime::now())
    }

    fn at(path: &Path, now: SystemTime) -> std::io::Result<(Self, bool)> {
        let meta = std::fs::metadata(path)?;
        // Not the time of modification: that one can be set back.
        let changed = (meta.ctime(), meta.ctime_nsec());
        let stamp = Self { device: meta.dev(), inode: meta.ino(), length: meta.len(), changed };
        let seconds = u64::try_from(changed.0).unwrap_or_default();
        let since = Duration::new(seconds, u32::try_from(changed.1).unwrap_or_default());
        let age = now.duration_since(UNIX_EPOCH).unwrap_or_default().checked_sub(since);
        // A clock that was set back does not make every look a new one.
        Ok((stamp, age.is_none_or(|age| age > UNSETTLED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_just_changed_is_not_settled_whatever_its_time_of_modification_says() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_modified(UNIX_EPOCH).unwrap();
        let (first, settled) = Stamp::of(file.path()).unwrap();
        assert!(!settled);
        let later = SystemTime::now() + 2 * UNSETTLED;
        let (second, settled) = Stamp::at(file.path(), later).unwrap();
        assert!(first == second && settled);
        std::fs::write(file.path(), "more").unwrap();
        assert!(Stamp::of(file.path()).unwrap().0 != first);
    }
}
