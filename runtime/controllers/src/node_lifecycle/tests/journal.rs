//! The notes of deletions: how many there may be, and what becomes of those beyond.

use std::ops::Range;
use std::time::Duration;

use ccm_apiserver::GRACE;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Bench;
use crate::node_lifecycle::journal::{Journal, JournalPlace};
use crate::node_lifecycle::recall::Recalled;

const PERIOD: Duration = Duration::from_secs(600);
const NAMESPACE: &str = "kube-system";
const MAP: &str = "wasm-ccm-components";
const NOTE: &str = "PATCH /api/v1/namespaces/kube-system/configmaps/wasm-ccm-components";
const EVENTS: &str = "GET /apis/events.k8s.io/v1/namespaces/default/events";
/// What the API server takes of a ConfigMap.
const MAP_BYTES: usize = 1 << 20;

/// So many, says the guide.
fn most() -> usize {
    let guide = include_str!("../../../../../docs/guides/node-deletion.md");
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = guide.split_once("the deletions beyond ").expect("the guide tells of them");
    let (number, _) = rest.split_once(" within the period.").expect("and of their number");
    number.replace(',', "").parse().expect("it is a number")
}

/// As long as UIDs and provider IDs are.
fn uid(node: usize) -> String {
    format!("{node:0>8}-0000-4000-8000-000000000000")
}

fn provider_id(node: usize) -> String {
    format!("openstack:///{}", uid(node))
}

fn journal(bench: &Bench) -> Journal {
    let place = JournalPlace { namespace: NAMESPACE.into(), config_map: MAP.into(), manager: "wasm-ccm".into() };
    Journal::new(bench.syncer.writer.gate.clone(), place, PERIOD)
}

/// A ConfigMap with nothing in it.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.api.with(|state| state.add_config_map(NAMESPACE, MAP));
    bench
}

/// Many at the same time are few requests.
async fn note(journal: &Journal, nodes: Range<usize>) {
    let notes = nodes.map(|node| async move { journal.note(&uid(node), &provider_id(node)).await });
    for noted in join_all(notes).await {
        noted.expect("it may be deleted");
    }
}

/// What the ConfigMap has.
fn noted(bench: &Bench) -> Vec<(String, Value)> {
    let mut all = vec![];
    bench.api.with(|state| {
        let data = state.config_map_data(NAMESPACE, MAP).iter();
        all = data.map(|(key, value)| (key.clone(), value.clone())).collect();
    });
    all
}

#[tokio::test(start_paused = true)]
async fn as_many_deletions_are_noted_as_the_guide_says_and_those_beyond_happen_all_the_same() {
    let (bench, most) = (bench(), most());
    let journal = journal(&bench);
    note(&journal, 0..most - 1).await;
    assert_eq!(journal.read().await.map(|past| past.len()).ok(), Some(most - 1));
    // One more has room, and two have not.
    note(&journal, most - 1..most + 2).await;
    let all = noted(&bench);
    assert_eq!(all.len(), most);
    let bytes: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    assert!(bytes < MAP_BYTES / 2, "{bytes} bytes beside what else the ConfigMap has");
    assert_eq!(journal.read().await.map(|past| past.len()).ok(), Some(most));
    // Where there is no room, there is nothing to write.
    let before = bench.api.count(NOTE);
    note(&journal, most + 2..most + 5).await;
    assert_eq!((noted(&bench).len(), bench.api.count(NOTE)), (most, before));
}

#[tokio::test(start_paused = true)]
async fn there_is_room_again_when_deletions_count_no_more() {
    let (bench, most) = (bench(), most());
    let journal = journal(&bench);
    note(&journal, 0..most + 1).await;
    assert_eq!(noted(&bench).len(), most);
    tokio::time::advance(PERIOD).await;
    note(&journal, most..most + 1).await;
    let keys: Vec<String> = noted(&bench).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [format!("node-deletion.wasm-ccm.{}", uid(most))], "what was there has gone with it");
}

/// It passed for noted, and the next leader would not have known of the deletion.
#[tokio::test(start_paused = true)]
async fn an_answer_of_something_in_between_is_no_note() {
    let bench = bench();
    let journal = journal(&bench);
    bench.api.interfere(NOTE, 200, "{}", 1);
    assert!(journal.note(&uid(0), &provider_id(0)).await.is_err());
    assert_eq!(noted(&bench).len(), 0);
    note(&journal, 0..1).await;
    assert_eq!(noted(&bench).len(), 1);
}

/// An API server that has just started forbids everything for a moment, and Nodes were deleted without a note.
#[tokio::test(start_paused = true)]
async fn a_right_that_seems_to_be_missing_is_waited_for_once() {
    let bench = bench();
    let journal = journal(&bench);
    bench.api.refuse(NOTE, 403, 3);
    note(&journal, 0..3).await;
    assert_eq!(noted(&bench).len(), 3);
    bench.api.refuse(NOTE, 403, 1_000);
    let begun = Instant::now();
    for node in 3..6 {
        note(&journal, node..node + 1).await;
    }
    assert_eq!((noted(&bench).len(), begun.elapsed().as_secs()), (3, 7), "it is missing");
}

/// They alone may know of further ones: whoever led before may have had no right to note anything, no ConfigMap, or no room at that time.
#[tokio::test(start_paused = true)]
async fn a_leader_waits_until_the_events_can_be_read_however_many_deletions_it_finds_noted() {
    for notes in [0, 1, most()] {
        let mut bench = bench();
        note(&journal(&bench), 0..notes).await;
        bench.api.refuse(EVENTS, 503, 1);
        bench.syncer.journal = Some(journal(&bench));
        let recalled = Recalled::begin(GRACE);
        assert!(recalled.recall(&bench.syncer).await.is_err(), "{notes}");
        assert!(recalled.recall(&bench.syncer).await.is_ok(), "{notes}: now they can");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_that_nobody_can_read_take_no_room_and_go_with_the_next_one() {
    let (bench, most) = (bench(), most());
    bench.api.with(|state| {
        let data = state.config_map_data(NAMESPACE, MAP);
        data.extend((0..most).map(|node| (format!("node-deletion.wasm-ccm.{}", uid(node)), json!("garbage"))));
    });
    let journal = journal(&bench);
    assert_eq!(journal.read().await.map(|past| past.len()).ok(), Some(0));
    note(&journal, most..most + 1).await;
    assert_eq!(noted(&bench).len(), 1);
}
