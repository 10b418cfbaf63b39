//! `wasm-ccm plan --all` with the flags of a host: what is ensured is stable, so that it has nothing to write.

use std::path::Path;
use std::process::Stdio;

use ccm_e2e::host::program;
use tokio::process::Command;

use crate::stage::LIMIT;

/// What it said.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) code: Option<i32>,
    /// Of the standard output.
    pub(crate) text: String,
    pub(crate) error: String,
}

/// For all Nodes, Services and routes.
pub(crate) async fn plan(kubeconfig: &Path, flags: &[String]) -> Planned {
    let mut command = Command::new(program().unwrap());
    command.args(["plan", "--all", "--output=json", "--kubeconfig"]).arg(kubeconfig).args(flags);
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Planned { code: output.status.code(), text: text(output.stdout), error: text(output.stderr) }
}
