//! A file for as long as a component is on trial. If it is there when a process starts, the one before has died meanwhile: killed, out of
//! memory, or with its machine. Nobody could judge the component then, and it may be the reason.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What the component is refused for.
pub(crate) const DIED: &str = "the process ended without notice while the component was on probation: it was killed, ran out of memory, or lost its machine; if that was for another reason, rebuild the component";

/// What such a file says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trial {
    /// Whose it is.
    pub(super) source: String,
    /// `sha256:…` of the unpacked component.
    pub(super) digest: String,
}

#[derive(Default)]
struct Files {
    open: BTreeSet<PathBuf>,
    /// Those that cannot be removed, which was told.
    stuck: BTreeSet<PathBuf>,
    has_ended: bool,
}

/// The files of this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Trials(Arc<Mutex<Files>>);

impl Trials {
    /// The process ends in order: nobody on trial is to blame for that. Whoever is on trial in a process that ends in another way is refused
    /// by the next one.
    pub fn end_in_order(&self) {
        let files = {
            let mut files = self.0.lock();
            files.has_ended = true;
            files.open.clone()
        };
        for file in files {
            self.end(&file, std::fs::remove_file(&file));
        }
    }

    /// Such a file is about to be written. Returns whether it may be.
    pub(super) fn begin(&self, file: &Path) -> bool {
        let mut files = self.0.lock();
        if !files.has_ended {
            files.open.insert(file.to_owned());
        }
        !files.has_ended
    }

    /// Its component was judged, or has gone. Tells once that the file could not be removed, and returns whether it did now.
    pub(super) fn end(&self, file: &Path, removed: io::Result<()>) -> bool {
        let mut files = self.0.lock();
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let is_new = files.stuck.insert(file.to_owned());
                if is_new {
                    let file = file.display();
                    tracing::warn!(
                        %file,
                        %error,
                        "cannot remove the file that names the component on probation: the next process refuses that component; check --state-dir, and remove the file"
                    );
                }
                is_new
            }
            _ => {
                files.open.remove(file);
                files.stuck.remove(file);
                false
            }
        }
    }
}
