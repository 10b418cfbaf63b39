//! What a call sees, and what is left of it.

use std::collections::BTreeMap;

use ccm_cloud::{Capability, Instances as _, Need, Node};
use ccm_egress::Settings;
use ccm_sandbox::{Limits, TICK};

use crate::rig::{HOSTILE, Rig, found, map, node};

#[tokio::test]
async fn findings_come_back_one_per_node_and_in_order() {
    let rig = Rig::hostile(Limits::default()).await;
    let names: Vec<String> = (0..500).map(|i| format!("n{}", (i * 7) % 500)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let expected: Vec<_> = names.iter().map(|name| found(name, &[])).collect();
    assert_eq!(rig.find(&names).await, Ok(expected));
    assert_eq!(rig.find(&[]).await, Ok(vec![]));
}

#[tokio::test]
async fn the_other_functions_answer_too() {
    let rig = Rig::hostile(Limits::default()).await;
    assert_eq!(rig.provider.check(true).await.unwrap(), Ok(vec![]));
    assert_eq!(rig.provider.offers().await.unwrap(), Ok(Vec::<Capability>::new()));
    let functions: Vec<_> = rig.record.take_ends().into_iter().map(|end| (end.function, end.outcome)).collect();
    assert_eq!(functions, [("meta.check", "ok"), ("meta.offers", "ok")]);
}

#[tokio::test]
async fn every_call_starts_with_fresh_memory() {
    let rig = Rig::hostile(Limits::default()).await;
    let many: Vec<Node> = (0..2_000).map(|i| node(&format!("a node with quite a long name, number {i}"))).collect();
    rig.find(&["small"]).await.unwrap();
    let first = rig.end();
    rig.provider.find(many, Need::Metadata).await.unwrap();
    let large = rig.end();
    rig.find(&["small"]).await.unwrap();
    let last = rig.end();
    assert!(large.memory > first.memory, "{} bytes for many nodes, {} for one", large.memory, first.memory);
    assert_eq!(last.memory, first.memory);
    assert_eq!((first.function, first.outcome), ("instances.find", "ok"));
    assert!(first.memory > 0 && first.cpu <= TICK && !first.time.is_zero(), "{first:?}");
}

#[tokio::test]
async fn calls_at_the_same_time_do_not_mix() {
    let rig = Rig::hostile(Limits::default()).await;
    let names: Vec<String> = (0..50).map(|i| format!("n{i}")).collect();
    let answers = names.iter().map(|name| rig.provider.find(vec![node(name)], Need::Existence));
    // All are begun before the first one is asked for its answer.
    let mut begun: Vec<_> = answers.map(Box::pin).collect();
    for (future, name) in begun.iter_mut().zip(&names).rev() {
        assert_eq!(future.await, Ok(vec![found(name, &[])]));
    }
}

#[tokio::test]
async fn only_declared_annotations_and_the_kubelets_address_reach_a_guest() {
    let rig = Rig::hostile(Limits::default()).await;
    let annotations = map(&[
        ("hostile.example/mood", "grim"),
        ("alpha.kubernetes.io/provided-node-ip", "10.0.0.1"),
        ("alpha.kubernetes.io/provided-node-ip.old", "10.0.0.2"),
        ("hostile.exampl", "no"),
        ("not.hostile.example/mood", "no"),
        ("vault.example/token", "secret"),
    ]);
    let node = Node { annotations, ..node("annotations") };
    assert_eq!(
        rig.labels(node, Need::Metadata).await,
        map(&[("hostile.example/mood", "grim"), ("alpha.kubernetes.io/provided-node-ip", "10.0.0.1")])
    );
}

#[tokio::test]
async fn a_guest_reads_its_files_and_settings_and_no_others() {
    // What it asks for besides is there: a variable of this process, and a file of this machine.
    assert!(std::env::var_os("PATH").is_some() && std::fs::exists("/etc/passwd").unwrap());
    let settings = Settings {
        files: map(&[("cloud-config", r#"{"mood":"gay"}"#)]),
        values: map(&[("mood", "gay")]),
        cluster_name: "blue".to_owned(),
        cluster_cidrs: vec!["10.0.0.0/16".to_owned(), "fd00::/48".to_owned()],
    };
    let given = Rig::with_settings(HOSTILE, Limits::default(), settings).await;
    assert_eq!(
        given.labels(node("settings"), Need::Metadata).await,
        map(&[
            ("hostile.example/setting", "gay"),
            ("hostile.example/undeclared-setting", "none"),
            ("hostile.example/file", r#"{"mood":"gay"}"#),
            ("hostile.example/undeclared-file", "none"),
            ("hostile.example/cluster-name", "blue"),
            ("hostile.example/cluster-cidrs", "10.0.0.0-16_fd00---48"),
        ])
    );
    let nothing = Rig::hostile(Limits::default()).await;
    assert_eq!(
        nothing.labels(node("settings"), Need::Metadata).await,
        map(&[
            ("hostile.example/setting", "none"),
            ("hostile.example/undeclared-setting", "none"),
            ("hostile.example/file", "none"),
            ("hostile.example/undeclared-file", "none"),
            ("hostile.example/cluster-name", ""),
            ("hostile.example/cluster-cidrs", ""),
        ])
    );
}

#[tokio::test]
async fn the_cache_outlives_calls_and_reads_empty_where_a_proof_is_needed() {
    let rig = Rig::hostile(Limits::default()).await;
    let cache = |value: &str| map(&[("hostile.example/cache", value)]);
    let read = async |need| rig.labels(node("cache-read"), need).await;
    assert_eq!(read(Need::Metadata).await, cache("none"));
    assert_eq!(rig.labels(node("cache"), Need::Metadata).await, cache("hoarded"));
    assert_eq!(read(Need::Existence).await, cache("hoarded"));
    assert_eq!(read(Need::Proof).await, cache("none"));
    assert_eq!(read(Need::Metadata).await, cache("hoarded"));
    let other = Rig::hostile(Limits::default()).await;
    assert_eq!(other.labels(node("cache-read"), Need::Metadata).await, cache("none"), "of another provider");
}

#[tokio::test]
async fn the_clock_tells_the_time_and_what_is_left_of_the_call() {
    let labels = |remaining: &str| -> BTreeMap<String, String> {
        map(&[("hostile.example/now", "true"), ("hostile.example/remaining", remaining)])
    };
    let rig = Rig::hostile(Limits::default()).await;
    assert_eq!(rig.labels(node("clock"), Need::Metadata).await, labels("true"));
    // More than the 60 s that the guest holds for possible.
    let endless = Limits { call_time: std::time::Duration::MAX, ..Limits::default() };
    let rig = Rig::hostile(endless).await;
    assert_eq!(rig.labels(node("clock"), Need::Metadata).await, labels("false"));
}
