//! The lab itself.

use std::path::Path;

use tokio::process::Command;

/// All labs have the same ports: tests would find the other one's services, and stop or fill them.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_second_lab_does_not_start_and_says_which_one_has_the_ports() {
    let other = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clouds/openstack/lab.py");
    let mut start = Command::new("python3");
    start.arg(program).arg("start").env("OPENSTACK_LAB", other.path().join("lab"));
    let run = start.output().await.unwrap();
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success() && told.contains("another lab has its ports: "), "{told}");
    assert!(told.contains("lab.py stop"), "nothing says what to do: {told}");
}
