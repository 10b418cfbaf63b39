//! The manager that vendors build with the Kubernetes framework in Go, to measure beside the host: the same API server, the same
//! Nodes, in the same minutes. Its source is `tests/cluster/control-plane/go-manager`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::process::{Child, Command};

/// The fastest flags that its users give, and no limit of the cloud: more than most operators dare.
const FASTEST: [&str; 3] = ["--concurrent-node-syncs=100", "--kube-api-qps=2000", "--kube-api-burst=4000"];

/// A running one. It ends with this.
#[derive(Debug)]
pub struct GoManager {
    _process: Child,
}

impl GoManager {
    /// Starts it with the fastest flags and the controllers of Nodes alone.
    ///
    /// # Errors
    ///
    /// The program is not built, or does not start.
    pub fn start(kubeconfig: &Path) -> Result<Self> {
        let program = program()?;
        let process = Command::new(&program)
            .args(["--cloud-provider=cloudlycke", "--leader-elect=false", "--secure-port=0"])
            .arg("--controllers=cloud-node-controller,cloud-node-lifecycle-controller")
            .args(FASTEST)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        Ok(Self { _process: process.with_context(|| format!("cannot start {}", program.display()))? })
    }
}

fn program() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/go-manager");
    path.canonicalize().with_context(|| format!("{} is not there: run `./just _go-manager`", path.display()))
}
