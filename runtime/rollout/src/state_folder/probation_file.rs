//! A file for as long as a component is on probation. If it is there when a process starts, the one before has died meanwhile: killed, out of
//! memory, or with its machine. Nobody could judge the component then, and it may be the reason: it counts as refused, and the other
//! replicas are told, unless one of them has proven it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What the component is refused for.
pub(crate) const DIED: &str = "the process ended without notice while the component was on probation: it was killed, ran out of memory, or lost its machine; if the component was not the cause, rebuild it: a new digest is accepted";

/// What such a file says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProbationFile {
    /// Whose it is.
    pub(super) source: String,
    /// `sha256:…` of the unpacked component.
    pub(super) digest: String,
}

#[derive(Default)]
struct Files {
    /// Those whose components are on probation, and what they say.
    open: BTreeMap<PathBuf, Vec<u8>>,
    /// Those that cannot be removed, which was told.
    stuck: BTreeSet<PathBuf>,
    has_ended: bool,
}

/// The files of this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct ProbationFiles(Arc<Mutex<Files>>);

impl ProbationFiles {
    /// The process ends in order: nobody on probation is to blame for that. Whoever is on probation in a process that ends in another way is refused
    /// by the next one. To be called before anything that takes long: who kills the process meanwhile says nothing about the component.
    pub fn end_in_order(&self) {
        let open = {
            let mut files = self.0.lock();
            files.has_ended = true;
            files.open.clone()
        };
        for file in open.into_keys() {
            self.tell(&file, &std::fs::remove_file(&file));
        }
    }

    /// The process ends since a task has panicked: whoever is on probation may be to blame, also when the process has begun to end in order.
    pub fn end_in_panic(&self) {
        for (file, text) in &self.0.lock().open {
            if let Err(error) = std::fs::write(file, text) {
                let file = file.display();
                tracing::warn!(%file, %error, "the panic does not count against the component on probation; check --state-dir");
            }
        }
    }

    /// Such a file is about to be written. Returns whether it may be.
    pub(super) fn begin(&self, file: &Path, text: &[u8]) -> bool {
        let mut files = self.0.lock();
        files.open.insert(file.to_owned(), text.to_vec());
        !files.has_ended
    }

    /// Its component was judged, or has gone. Tells once that the file could not be removed, and returns whether it did now.
    pub(super) fn end(&self, file: &Path, removed: &io::Result<()>) -> bool {
        if is_gone(removed) {
            self.0.lock().open.remove(file);
        }
        self.tell(file, removed)
    }

    fn tell(&self, file: &Path, removed: &io::Result<()>) -> bool {
        let mut files = self.0.lock();
        match removed {
            Err(error) if !is_gone(removed) => {
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
                files.stuck.remove(file);
                false
            }
        }
    }
}

fn is_gone(removed: &io::Result<()>) -> bool {
    removed.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::NotFound)
}
