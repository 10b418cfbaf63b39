//! Annotations that nobody declares.

use super::*;

const MISSPELT: &str = "fake.io/mdoe";

fn annotated(name: &str) -> Value {
    json!({ "metadata": { "annotations": { name: "fast" } } })
}

fn told(events: &[String]) -> Vec<&String> {
    events.iter().filter(|event| event.contains("LoadBalancerAnnotationUnknown")).collect()
}

/// Whoever wrote it once heard nothing at all.
#[tokio::test(start_paused = true)]
async fn a_misspelt_annotation_is_told_once_with_the_name_that_was_meant_and_costs_no_write() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.cloud.take_calls();
    let patches = bench.patches();
    bench.edit("web", &annotated(MISSPELT));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    tokio::time::advance(Duration::from_secs(3_600)).await;
    // Something else changes.
    bench.edit("web", &json!({ "metadata": { "labels": { "a": "b" } } }));
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!((bench.cloud.take_calls(), bench.patches()), (vec![], patches));
    let events = bench.events().await;
    assert_eq!(
        told(&events),
        [
            "Warning LoadBalancerAnnotationUnknown: provider fake does not know the annotation fake.io/mdoe, which has no effect; \
          fake.io/mode would be one"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_was_mended_and_is_misspelt_again_is_told_again() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    for annotations in [json!({ MISSPELT: "fast" }), json!({ MISSPELT: null }), json!({ MISSPELT: "fast" })] {
        bench.edit("web", &json!({ "metadata": { "annotations": annotations } }));
        bench.sync("web").await;
    }
    // The second is the same Event in the API server.
    let events = bench.events().await;
    assert!(told(&events)[0].ends_with("(2 times)"), "{events:?}");
}

/// Thousands of Services were told of again by each new leader.
#[tokio::test(start_paused = true)]
async fn what_a_process_before_told_is_not_told_again() {
    let mut bench = Bench::new();
    bench.add(service("web").patched(&annotated(MISSPELT)));
    bench.sync("web").await;
    let before = bench.events().await;
    assert_eq!(told(&before).len(), 1);
    let mut bench = bench.restart();
    bench.catch_up();
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(told(&bench.events().await), told(&before));
}

#[tokio::test(start_paused = true)]
async fn annotations_of_others_are_theirs() {
    let mut bench = Bench::new();
    let theirs = [
        "mine",
        "example.com/mode",
        "kubectl.kubernetes.io/last-applied-configuration",
        "fake.io.example.com/mdoe",
        "wasm-ccm.io/x",
        "fake.io/job-7",
    ];
    for name in theirs {
        bench.add(service("web").patched(&annotated(name)));
        bench.sync("web").await;
    }
    // Nobody serves this one.
    let unserved = service("db").with("/spec", "loadBalancerClass", json!("other")).patched(&annotated(MISSPELT));
    bench.add(unserved);
    bench.sync("db").await;
    let events = bench.events().await;
    assert_eq!(told(&events), Vec::<&String>::new());
}
