//! Where the control plane's programs are. `control-plane/build` knows the pinned versions, the cache, `KUBERNETES` and
//! `KUBEBUILDER_ASSETS`; this module runs it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::{process::Command, sync::OnceCell};

const BUILD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane/build");

/// A cold build takes 6 minutes on two idle cores; a busy machine may take several times that.
const BUILD_TIMEOUT: Duration = Duration::from_mins(40);

static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();

/// Builds what is missing of the control plane, and returns the folder of its programs. The script runs once per
/// process; its progress goes to standard error.
///
/// # Errors
/// The script failed (it says why on standard error) or took longer than 40 minutes.
///
/// # Cancel safety
/// The build is ended when the future is dropped; what was finished stays in the cache.
pub async fn ensure_binaries() -> Result<&'static Path> {
    FOLDER.get_or_try_init(build).await.map(PathBuf::as_path)
}

async fn build() -> Result<PathBuf> {
    let script = Command::new(BUILD_SCRIPT)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {BUILD_SCRIPT}"))?;
    let output = tokio::time::timeout(BUILD_TIMEOUT, script.wait_with_output())
        .await
        .with_context(|| format!("{BUILD_SCRIPT} did not end within {BUILD_TIMEOUT:?}"))??;
    if !output.status.success() {
        bail!("{BUILD_SCRIPT} failed ({}), its standard error says why", output.status);
    }
    let folder = String::from_utf8(output.stdout).context("the build script printed a folder that is not UTF-8")?;
    Ok(PathBuf::from(folder.trim_end()))
}

/// The path of one program.
pub(crate) fn program(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} does not exist; unset KUBEBUILDER_ASSETS to have it built, or put a {name} of Kubernetes 1.33 or later there",
            path.display()
        );
    }
    Ok(path)
}
