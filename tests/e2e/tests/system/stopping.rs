//! The end of a process whose disk does not answer.

use std::process::Command;
use std::time::Duration;

use ccm_e2e::host::Host;
use tokio::time::Instant;

use crate::mistakes::KUBECONFIG;
use crate::stage::{LIMIT, cloudlycke};

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// It waited for its state folder, and no signal counted: Kubernetes killed it after 30 s. A pipe that nobody writes to is a disk that does
/// not answer.
#[tokio::test]
async fn sigterm_ends_a_process_whose_state_folder_hangs_within_the_time_of_an_end_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (kubeconfig, state) = (folder.path().join("kubeconfig"), folder.path().join("state"));
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    std::fs::create_dir(&state).unwrap();
    let source = cloudlycke();
    // As the state folder names it: the beginning of the digest of the source.
    let named = folder.path().join("source");
    std::fs::write(&named, source.display().to_string()).unwrap();
    let digest = run("sha256sum", &[named.to_str().unwrap()]);
    let pipe = state.join(format!("{}.json", &digest[..16]));
    run("mkfifo", &[pipe.to_str().unwrap()]);
    let flags = [format!("--provider={}", source.display()), format!("--state-dir={}", state.display())];
    let mut host = Host::start(&kubeconfig, flags).unwrap();
    host.await_page("/livez", 200, LIMIT).await.unwrap();
    let begun = Instant::now();
    let ended = host.terminate().await.unwrap();
    let log = host.log_text();
    assert!(ended.success() && log.contains("SIGTERM: stopping") && log.contains("\"stopped\""), "{ended}: {log}");
    assert!(!log.contains("waiting for the API server"), "its folder has answered: {log}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
