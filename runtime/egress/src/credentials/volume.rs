//! Which files are replaced together, as far as paths tell.

use std::path::{Path, PathBuf};

/// What the kubelet switches to replace all files of a volume at once.
const SWITCHED: &str = "..data";

/// Where a file is, when its provider is opened.
pub(super) struct Volume {
    /// As it was named.
    folder: PathBuf,
    /// The volume of the kubelet, or else the folder, behind all links.
    mount: PathBuf,
}

impl Volume {
    pub(super) fn of(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(path).to_owned();
        let real = std::fs::canonicalize(path).ok().and_then(|real| Some(real.parent()?.to_owned()));
        let real = real.or_else(|| std::fs::canonicalize(&folder).ok()).unwrap_or_else(|| folder.clone());
        let volume = real.ancestors().find(|above| std::fs::symlink_metadata(above.join(SWITCHED)).is_ok());
        let mount = volume.unwrap_or(&real).to_owned();
        Self { folder, mount }
    }

    /// Whether one update may replace both. Links may be switched between two looks, so the names count as well.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.folder == other.folder || self.mount == other.mount
    }
}
