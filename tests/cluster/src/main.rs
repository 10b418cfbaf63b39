//! Runs a whole control plane by hand: prints the line that points a client at it, and ends it at Ctrl-C or SIGTERM.

use std::io::Write as _;

use anyhow::{Result, bail};
use ccm_cluster::{ControlPlane, Settings, ensure_binaries};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<()> {
    if std::env::args().len() > 1 {
        bail!("ccm-cluster takes no arguments");
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let cluster = tokio::select! {
        started = start() => started?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };

    let mut out = std::io::stdout();
    writeln!(out, "export KUBECONFIG={}", cluster.kubeconfig().display())?;
    out.flush()?;
    writeln!(
        std::io::stderr(),
        "# {} was ready after {:.1} s; Ctrl-C ends it. kwok plays the kubelet of nodes with the annotation \
         kwok.x-k8s.io/node=fake.",
        cluster.url(),
        cluster.ready_after().as_secs_f64()
    )?;
    tokio::select! {
        _ = interrupt.recv() => {},
        _ = terminate.recv() => {},
    }
    cluster.check()
}

async fn start() -> Result<ControlPlane> {
    ensure_binaries().await?;
    ControlPlane::start(Settings::everything()).await
}
