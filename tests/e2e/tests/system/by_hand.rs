//! "Run it by hand" of `docs/guides/install.md`, with the words of the guide.

use ccm_e2e::host::Host;
use ccm_e2e::manifest;

use crate::access;
use crate::bytes;
use crate::doctor::doctor;
use crate::stage::{Actor, Stage};

/// The words of the command that begins so, after the name of the program and the kubeconfig, which a test has elsewhere.
fn words(guide: &str, command: &str) -> Vec<String> {
    let start = format!("$ target/release/wasm-ccm {command} --kubeconfig ~/.kube/config ");
    let mut lines = guide.lines().filter_map(|line| line.strip_prefix(&start));
    let (Some(line), None) = (lines.next(), lines.next()) else { panic!("the guide has not one line {start:?}") };
    line.split(' ').map(str::to_owned).collect()
}

/// The host of the guide once wanted a token from whoever looked into it, and `doctor` judged an account that nobody had made.
#[tokio::test]
async fn a_host_that_is_run_by_hand_as_the_guide_says_can_be_looked_into() {
    let guide = std::fs::read_to_string(manifest::folder().join("../docs/guides/install.md")).unwrap();
    let stage = Stage::bare(ccm_cluster::Settings::default()).await;
    manifest::apply(stage.client(), "base/components.yaml").await.unwrap();
    let component = [("cloudlycke.wasm".to_owned(), bytes::cloudlycke())];
    manifest::put_config_map(stage.client(), "kube-system", "cloudlycke", component).await.unwrap();

    let kubeconfig = stage.cluster.kubeconfig();
    let command_line = ["run".to_owned()].into_iter().chain(words(&guide, "run"));
    let host: Actor = Host::start_pod(&kubeconfig, [], command_line).unwrap().into();
    host.ready().await;
    assert_eq!(access::page(&host, "/", None).await.0, 200);
    assert!(access::page(&host, "/readyz", None).await.1.contains("[+]nodes ok\n"));
    let flags = words(&guide, "doctor");
    let answer = doctor(&kubeconfig, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    for check in ["rights", "providers"] {
        assert!(answer.are_all(check, "good"), "{check}: {}", answer.text);
    }
    host.end().await;
}
