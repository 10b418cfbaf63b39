//! 7.3: pairs of labels.

use serde_json::{Value, json};

use super::{Bench, OBJECT};
use crate::node::labels::is_reserved;
use crate::queue::Verdict;
use crate::testing::{Draft, node};

const OLD: [&str; 3] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
];
const NEW: [&str; 3] =
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"];

fn labelled(node: Draft, names: [&str; 3], values: [&str; 3]) -> Draft {
    names.into_iter().zip(values).fold(node, |node, (name, value)| node.label(name, value))
}

#[tokio::test(start_paused = true)]
async fn the_new_label_follows_the_old_one_in_one_patch_or_none() {
    let right = ["us-west-1a", "us-west", "t1.micro"];
    let plain = || node("node0");
    let all = || Some(json!({ NEW[0]: right[0], NEW[1]: right[1], NEW[2]: right[2] }));
    let cases: [(&str, Draft, Option<Value>); 6] = [
        ("case_31 only the old ones", labelled(plain(), OLD, right), all()),
        ("case_32 all consistent", labelled(labelled(plain(), OLD, right), NEW, right), None),
        ("case_33 the new ones are wrong", labelled(labelled(plain(), OLD, right), NEW, ["a", "b", "c"]), all()),
        ("case_34 only the new ones", labelled(plain(), NEW, right), None),
        ("case_35 no labels", plain(), None),
        (
            "2.9 one pair of three",
            labelled(labelled(plain(), OLD, right), NEW, [right[0], "b", right[2]]),
            Some(json!({ NEW[1]: right[1] })),
        ),
    ];
    for (name, draft, wanted) in cases {
        let mut bench = Bench::new();
        bench.add(draft);
        let version = bench.api.json("node0")["metadata"]["resourceVersion"].clone();
        assert_eq!(bench.sync("node0").await, Verdict::Done, "{name}");
        let calls: Vec<(String, Value)> = bench.api.calls().into_iter().map(|call| (call.line, call.body)).collect();
        let wanted: Vec<(String, Value)> = wanted
            .into_iter()
            .map(|labels| (OBJECT.into(), json!({ "metadata": { "resourceVersion": version, "labels": labels } })))
            .collect();
        assert_eq!(calls, wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_35_an_unknown_node_is_a_success_without_a_write() {
    let bench = Bench::new();
    assert_eq!(bench.sync("nobody").await, Verdict::Done);
    assert_eq!(bench.api.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn labels_that_cannot_be_written_are_tried_again() {
    for (status, verdict) in [(500, Verdict::Backoff), (404, Verdict::Done)] {
        let mut bench = Bench::new();
        bench.add(labelled(node("node0"), OLD, ["a", "b", "c"]));
        bench.api.refuse(OBJECT, status, 1);
        assert_eq!(bench.sync("node0").await, verdict, "{status}");
    }
}

/// The patch once was bound to nothing: a Node that was created anew under the name got the old one's zone.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_changed_meanwhile_is_not_given_labels_that_were_decided_before() {
    let mut bench = Bench::new();
    bench.add(labelled(node("node0"), OLD, ["a", "b", "c"]));
    bench.api.script(OBJECT, |api| {
        api.edit("node0", &json!({ "metadata": { "uid": "another", "labels": null } }));
        None
    });
    assert_eq!(bench.sync("node0").await, Verdict::Backoff);
    assert_eq!(bench.api.json("node0")["metadata"]["labels"], json!(null));
}

#[test]
fn names_of_kubernetes_are_reserved() {
    let cases = [
        ("kubernetes.io/x", true),
        ("k8s.io/x", true),
        ("topology.kubernetes.io/x", true),
        ("a.k8s.io/x", true),
        ("k8snio/x", false),
        ("app.k8snio/x", false),
        ("topology.k8s.cp/x", false),
        ("mykubernetes.io/x", false),
        ("kubernetes.io", false),
        ("", false),
    ];
    for (name, reserved) in cases {
        assert_eq!(is_reserved(name), reserved, "{name}");
    }
}
