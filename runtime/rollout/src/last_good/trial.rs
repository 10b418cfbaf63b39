//! A file for as long as a component is on trial. If it is there when a process starts, the one before has died meanwhile: killed, out of
//! memory, or with its machine. Nobody could judge the component then, and it may be the reason.

use std::collections::BTreeSet;
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
    has_ended: bool,
}

/// The files of this process. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Trials(Arc<Mutex<Files>>);

impl Trials {
    /// Such a file is about to be written. Returns whether it may be.
    pub(super) fn begin(&self, file: &Path) -> bool {
        let mut files = self.0.lock();
        if !files.has_ended {
            files.open.insert(file.to_owned());
        }
        !files.has_ended
    }

    /// Its component was judged, or has gone.
    pub(super) fn end(&self, file: &Path) {
        self.0.lock().open.remove(file);
    }

    /// Whoever drops this says that the process ends in order.
    pub(crate) fn orderly_end(&self) -> OrderlyEnd {
        OrderlyEnd(self.clone())
    }
}

/// The end of a process that was not killed: when this is dropped, no component is on trial any more, and none is to blame.
#[must_use = "the process would seem to end at once"]
pub struct OrderlyEnd(Trials);

impl Drop for OrderlyEnd {
    fn drop(&mut self) {
        // A panic of the host may be the component's doing.
        if std::thread::panicking() {
            return;
        }
        let mut files = self.0.0.lock();
        files.has_ended = true;
        for file in std::mem::take(&mut files.open) {
            if let Err(error) = std::fs::remove_file(&file) {
                tracing::warn!(file = %file.display(), %error, "the component on probation will count as refused");
            }
        }
    }
}
