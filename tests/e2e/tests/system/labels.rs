//! 2.9 and 7.3: of a pair of labels the old one is right. The numbers are those of the behaviour reference.

use std::collections::BTreeMap;

use ccm_cluster::{NodeFixture, await_node};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::json;

use crate::look::{PAIRS, annotate, get, patch};
use crate::stage::{LIMIT, Stage};

/// A Node that is initialised, with old and new labels of these values.
fn node(name: &str, old: Option<&str>, new: Option<&str>) -> NodeFixture {
    let mut fixture = NodeFixture::new(name).internal_ip("10.0.0.1").initialized();
    for (old_name, new_name) in PAIRS {
        for (name, value) in [(old_name, old), (new_name, new)] {
            if let Some(value) = value {
                fixture = fixture.label(name, value);
            }
        }
    }
    fixture
}

/// Whether the pairs of labels have these values and all others are as before.
fn has(node: &Node, before: &Node, value: &str) -> bool {
    let mut wanted: BTreeMap<String, String> = before.labels().clone();
    for (old, new) in PAIRS {
        wanted.insert(old.to_owned(), value.to_owned());
        wanted.insert(new.to_owned(), value.to_owned());
    }
    *node.labels() == wanted
}

#[tokio::test]
async fn the_old_label_of_a_pair_is_right_and_nothing_is_written_when_both_agree() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&["--node-status-update-frequency=1h"]);
    host.refreshed().await;

    // Written: 31, only the old ones; 33, new ones that differ.
    for (number, name, new) in [("31", "only-old", None), ("33", "differ", Some("wrong"))] {
        let before = node(name, Some("right"), new).register(client).await.unwrap();
        await_node(client, name, LIMIT, |node| has(node, &before, "right"))
            .await
            .unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    // Not written: 32, all agree; 34, only the new ones; 35, none.
    let left_alone = [("agree", Some("a"), Some("a")), ("only-new", None, Some("b")), ("none", None, None)];
    let mut before = vec![];
    for (name, old, new) in left_alone {
        node(name, old, new).register(client).await.unwrap();
        // Looked at once more, after another change.
        before.push(annotate(client, name, "someone.example/else", Some("1")).await);
    }

    // Somebody edits a new label later, and all the Nodes above were looked at when that is undone.
    let (old, new) = PAIRS[1];
    let edited = patch(client, "differ", &json!({ "metadata": { "labels": { new: "edited" } } })).await;
    assert_eq!(edited.labels()[old], "right");
    await_node(client, "differ", LIMIT, |node| node.labels()[new] == "right").await.unwrap();
    let moved = patch(client, "differ", &json!({ "metadata": { "labels": { old: "moved" } } })).await;
    assert_eq!(moved.labels()[new], "right");
    await_node(client, "differ", LIMIT, |node| node.labels()[new] == "moved").await.unwrap();

    for before in before {
        assert_eq!(get(client, &before.name_any()).await, before);
    }
    // The host has its answers a moment after the Nodes have what was written.
    let patches =
        host.await_count("ccm_api_requests_total", &["verb=\"patch\""], LIMIT, |patches| patches >= 4.0).await;
    assert_eq!(patches.unwrap(), 4.0, "one write for each correction");
    host.end().await;
}
