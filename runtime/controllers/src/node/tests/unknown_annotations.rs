//! Annotations of Nodes that nobody declares.

use std::sync::Arc;

use ccm_cloud::{Annotation, AnnotationRole, Descriptor, ValueKind};
use serde_json::{Value, json};

use super::Bench;
use crate::node::unknown_annotations::UnknownAnnotations;
use crate::testing::{Draft, found, node};

const STATE: &str = "fake.example/instance-state";
const MISSPELT: &str = "fake.example/instance-stat";
/// A provider means it for Services, but does not say so.
const OF_SERVICES: &str = "fake.example/mode";
const SAID: &str = "Warning NodeAnnotationUnknown: provider fake does not know the annotation fake.example/instance-stat, which has no \
                    effect; fake.example/instance-state would be one";

fn descriptor() -> Arc<Descriptor> {
    let annotation = |name: &str| Annotation {
        name: name.to_owned(),
        purpose: String::new(),
        kind: ValueKind::Text,
        default: None,
        allowed: vec![],
        role: AnnotationRole::Asked,
    };
    let annotations = Vec::from([STATE, OF_SERVICES].map(annotation));
    Arc::new(Descriptor { name: "fake".to_owned(), annotations, ..Descriptor::default() })
}

/// One whose provider has said what it declares.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.syncer.unknown_annotations.knows([descriptor]);
    bench.cloud.answer("node0", [found(|_| ())]);
    bench
}

/// Another process comes, and knows nothing of what this one has said.
fn hand_over(bench: &mut Bench) {
    bench.syncer.unknown_annotations = UnknownAnnotations::default();
    bench.syncer.unknown_annotations.knows([descriptor]);
}

fn annotated(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

fn misspelt() -> Draft {
    node("node0").patched(&annotated(&json!({ MISSPELT: "stopped" })))
}

async fn told(bench: &mut Bench) -> Vec<String> {
    let events = bench.events().await;
    events.into_iter().filter(|event| event.contains("NodeAnnotationUnknown")).collect()
}

/// Whoever wrote it once heard nothing at all: the Node was initialised as if its machine ran.
#[tokio::test(start_paused = true)]
async fn a_misspelt_annotation_is_told_once_with_the_name_that_was_meant_whatever_becomes_of_the_node() {
    let mut bench = bench();
    bench.add(misspelt().tainted());
    bench.sync("node0").await;
    bench.catch_up("node0");
    bench.sync("node0").await;
    bench.edit("node0", &json!({ "metadata": { "labels": { "a": "b" } } }));
    bench.sync("node0").await;
    bench.refresh().await;
    assert_eq!(told(&mut bench).await, [SAID]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_written_on_an_initialised_node_is_told_and_again_after_it_was_mended() {
    let mut bench = bench();
    bench.add(node("node0").provider_id("fake://1"));
    bench.sync("node0").await;
    for annotations in [json!({ MISSPELT: "stopped" }), json!({ MISSPELT: null }), json!({ MISSPELT: "stopped" })] {
        bench.edit("node0", &annotated(&annotations));
        bench.sync("node0").await;
    }
    // The second is the same Event in the API server.
    assert_eq!(told(&mut bench).await, [format!("{SAID} (2 times)")]);
}

/// Thousands of Nodes would be told of again by each new leader.
#[tokio::test(start_paused = true)]
async fn what_a_process_before_told_is_not_told_again() {
    let mut bench = bench();
    bench.add(misspelt().tainted());
    bench.sync("node0").await;
    bench.catch_up("node0");
    for _ in 0..2 {
        hand_over(&mut bench);
        bench.sync("node0").await;
    }
    assert_eq!(told(&mut bench).await, [SAID]);
}

/// It is another Node, of which nobody has said anything.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_again_under_its_name_is_told_of_again() {
    let mut bench = bench();
    bench.add(misspelt().tainted());
    bench.sync("node0").await;
    bench.add(misspelt().tainted().with("/metadata", "uid", json!("another")));
    bench.sync("node0").await;
    let events = bench.events().await;
    assert_eq!(events.iter().filter(|event| *event == SAID).count(), 2, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_others_and_those_that_the_provider_declares_for_whatever_are_no_mistakes() {
    let mut bench = bench();
    for name in
        [OF_SERVICES, STATE, "mine", "example.com/mode", "fake.example.com/mdoe", "node.alpha.kubernetes.io/ttl"]
    {
        bench.add(node("node0").tainted().patched(&annotated(&json!({ name: "x" }))));
        bench.sync("node0").await;
    }
    // No provider here takes care of this one.
    bench.cloud.answer("foreign", [found(|_| ())]);
    bench.add(node("foreign").tainted().provider_id("other://1").patched(&annotated(&json!({ MISSPELT: "x" }))));
    bench.sync("foreign").await;
    assert_eq!(told(&mut bench).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_says_what_providers_declare_nothing_is_told_or_kept() {
    let mut bench = Bench::new();
    bench.cloud.answer("node0", [found(|_| ())]);
    bench.add(misspelt().tainted());
    bench.sync("node0").await;
    assert_eq!(told(&mut bench).await, [""; 0]);
}
