//! A component that was built with WASI: everything is there, and everything is denied.

use ccm_cloud::Need;
use ccm_egress::Settings;
use ccm_sandbox::Limits;
use tracing::Level;

use crate::capture::{Capture, guest_line};
use crate::rig::{HOSTILE_WASI, Rig, map, node};

async fn rig() -> Rig {
    Rig::with_settings(HOSTILE_WASI, Limits::default(), Settings::default()).await
}

#[tokio::test]
async fn there_is_no_environment_no_file_and_no_network() {
    // The test itself has an environment.
    assert!(std::env::vars().count() > 0);
    let rig = rig().await;
    let cases = [
        ("wasi-env", "environment", "0"),
        ("wasi-fs", "root", "No such file or directory (os error 44)"),
        ("wasi-net", "network", "Permission denied (os error 2)"),
    ];
    for (question, name, answer) in cases {
        let expected = map(&[(&format!("hostile.example/{name}"), answer)]);
        assert_eq!(rig.labels(node(question), Need::Metadata).await, expected);
    }
}

#[tokio::test]
async fn what_a_guest_prints_is_a_line_of_its_log() {
    let log = Capture::start();
    let rig = rig().await;
    log.take();
    assert_eq!(rig.labels(node("wasi-stdout"), Need::Metadata).await, map(&[("hostile.example/stdout", "written")]));
    assert_eq!(log.take(), [guest_line(Level::INFO, "hostile on standard output")]);
}

#[tokio::test]
async fn it_survives_the_same_attacks() {
    let limits = Limits { call_cpu: std::time::Duration::from_millis(300), memory_bytes: 8 << 20, ..Limits::default() };
    let rig = Rig::with_settings(HOSTILE_WASI, limits, Settings::default()).await;
    for (attack, outcome) in [("spin", "out-of-cpu"), ("grow", "out-of-memory"), ("recurse", "trap"), ("panic", "trap")]
    {
        assert_eq!(rig.attack(attack).await.1, outcome, "{attack}");
    }
}
