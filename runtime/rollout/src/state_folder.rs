//! The last good component in a folder, for a host that starts while its source is gone or broken.
//!
//! What is kept is the component itself. It passes the gate again and is compiled again: compiled code is never loaded.

mod probation_file;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use crate::ledger::Counters;
use crate::slot::Refusals;
use crate::source::{Packed, SIGNATURE};
pub(crate) use probation_file::DIED;
use probation_file::ProbationFile;
pub use probation_file::ProbationFiles;

/// Ending of the file with the component.
const COMPONENT: &str = "wasm";
/// Ending of the file with what is remembered beside it.
const MEMORY: &str = "json";
/// Ending of the file that is there while a component is on probation, as older hosts wrote it, too.
const PROBATION: &str = "trial";

/// Where it is kept.
#[derive(Clone)]
pub(crate) struct StateFolder {
    /// Without ending.
    stem: PathBuf,
    source: String,
    probation_files: ProbationFiles,
}

/// Makes the folder where it is not there yet, and looks whether files can be written to it. Returns whether it was made.
///
/// # Errors
///
/// What does not work, and what follows from that.
pub async fn prepare(folder: &Path) -> Result<bool> {
    let what = || {
        format!(
            "--state-dir {}: cannot be written to, so that no component is kept there and this process could not start again without its \
             source; name a folder that this user may write to, or leave the flag out",
            folder.display()
        )
    };
    let is_there = fs::try_exists(folder).await.unwrap_or(false);
    fs::create_dir_all(folder).await.with_context(what)?;
    let file = folder.join(format!(".{}.new", std::process::id()));
    fs::write(&file, b"").await.with_context(what)?;
    fs::remove_file(&file).await.with_context(what)?;
    Ok(!is_there)
}

/// What is known beside the component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    /// Whose it is: another source may have the same name after a change of flags.
    source: String,
    /// Components that failed their probation.
    #[serde(default)]
    pub(crate) refused: Refusals,
    /// The highest counters of signed components that were proven, here or at other replicas.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub(crate) counters: Counters,
}

impl Remembered {
    /// Nothing yet.
    pub(crate) fn of(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }
}

impl StateFolder {
    /// In this folder, for this source.
    pub(crate) fn new(folder: &Path, source: &str, probation_files: &ProbationFiles) -> Self {
        // Sources are paths, and paths are no names.
        let name = format!("{:x}", Sha256::digest(source));
        Self {
            stem: folder.join(name.get(..16).unwrap_or(&name)),
            source: source.to_owned(),
            probation_files: probation_files.clone(),
        }
    }

    /// Notes that the component with this digest is on probation from now on.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be written.
    pub(crate) async fn begin_probation(&self, digest: &str) -> Result<()> {
        let file = self.file(PROBATION);
        let text = serde_json::to_vec(&ProbationFile { source: self.source.clone(), digest: digest.to_owned() })?;
        if self.probation_files.begin(&file, &text) {
            self.write(PROBATION, &text).await?;
            if !self.probation_files.begin(&file, &text) {
                // The process has begun to end meanwhile.
                self.probation_files.end_in_order();
            }
        }
        Ok(())
    }

    /// No component is on probation any more.
    pub(crate) async fn end_probation(&self) {
        let file = self.file(PROBATION);
        let removed = fs::remove_file(&file).await;
        if removed.is_ok()
            && let Some(folder) = file.parent()
            && let Ok(folder) = fs::File::open(folder).await
        {
            // Otherwise a machine that loses its power may bring the file back, and whoever was proven seems to be to blame.
            folder.sync_all().await.ok();
        }
        self.probation_files.end(&file, &removed);
    }

    /// Digest of the component that was on probation when the process before this one died.
    pub(crate) async fn died_on_probation(&self) -> Option<String> {
        let text = self.read(PROBATION).await.ok().flatten()?;
        let candidate: ProbationFile = serde_json::from_slice(&text).ok()?;
        Some(candidate.digest).filter(|_| candidate.source == self.source)
    }

    /// The component, as if it were read from the source; none when nothing was kept yet.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be read.
    pub(crate) async fn component(&self) -> Result<Option<Packed>> {
        let bytes = self.read(COMPONENT).await?;
        let Some(bytes) = bytes else { return Ok(None) };
        let signature = self.read(&signature_of(&bytes)).await?;
        Ok(Some(Packed { bytes, signature, uid: None }))
    }

    /// Whether it holds no component, not even one that cannot be read.
    pub(crate) async fn is_empty(&self) -> bool {
        matches!(self.component().await, Ok(None))
    }

    /// What is remembered of the source. What cannot be read counts for nothing, and that is told: a disk that fails is no reason to leave the
    /// cluster without a provider.
    pub(crate) async fn remembered(&self) -> Remembered {
        let read = self.read(MEMORY).await.and_then(|text| {
            let known = text.map(|text| serde_json::from_slice::<Remembered>(&text)).transpose();
            known.with_context(|| format!("reading {}", self.file(MEMORY).display()))
        });
        let known = read.unwrap_or_else(|error| {
            let (source, error) = (self.source.as_str(), format!("{error:#}"));
            tracing::warn!(
                source,
                error,
                "this replica does not know any more which components were refused, and which counters were proven, unless the other replicas or the last good component tell; check --state-dir"
            );
            None
        });
        known.filter(|known| known.source == self.source).unwrap_or_else(|| Remembered::of(&self.source))
    }

    /// Keeps a component and its signature, or the ones before when that fails half-way.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be written.
    pub(crate) async fn keep(&self, bytes: &[u8], signature: Option<&[u8]>) -> Result<()> {
        let before = self.read(COMPONENT).await.ok().flatten().map(|before| signature_of(&before));
        let name = signature_of(bytes);
        if let Some(signature) = signature {
            self.write(&name, signature).await?;
        }
        // From here on it is this one.
        self.write(COMPONENT, bytes).await?;
        let stale = before.filter(|before| *before != name || signature.is_none());
        if let Some(stale) = stale {
            // Nobody asks for it any more.
            fs::remove_file(self.file(&stale)).await.ok();
        }
        Ok(())
    }

    /// Remembers what was refused, and the counters that were proven.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be written.
    pub(crate) async fn remember(&self, remembered: &Remembered) -> Result<()> {
        self.write(MEMORY, &serde_json::to_vec(remembered)?).await
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.stem.with_extension(ending)
    }

    async fn read(&self, ending: &str) -> Result<Option<Vec<u8>>> {
        let file = self.file(ending);
        match fs::read(&file).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }

    /// Whole or not at all.
    async fn write(&self, ending: &str, bytes: &[u8]) -> Result<()> {
        let file = self.file(ending);
        let half = self.file(&format!("{ending}.new"));
        let what = || format!("writing {}", file.display());
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).await.with_context(what)?;
        }
        let mut open = fs::File::create(&half).await.with_context(what)?;
        open.write_all(bytes).await.with_context(what)?;
        // Without it, a machine that loses its power may keep the name and lose what is behind it.
        open.sync_all().await.with_context(what)?;
        fs::rename(&half, &file).await.with_context(what)
    }
}

/// Ending of the file with the signature of this component: each has its own, so that component and signature never belong to
/// different ones.
fn signature_of(component: &[u8]) -> String {
    let digest = format!("{:x}", Sha256::digest(component));
    format!("{}{SIGNATURE}", digest.get(..16).unwrap_or(&digest))
}

#[cfg(test)]
mod tests;
