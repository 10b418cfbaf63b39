//! What a dry run keeps, and what it says of it.

use serde_json::{Value, json};

use super::kept::{MAX_KEPT, MAX_LINES};
use super::standing::{MAX_TOLD, lasting};
use super::*;
use crate::report::Write;

mod limits;
mod unknown;

const WEB: &str = "/api/v1/namespaces/default/services/web/status";

/// All Services were looked at.
fn pending() -> (Pending, Registry) {
    let mut registry = Registry::default();
    let pending = Pending::register(&mut registry, &[Kind::Service]);
    pending.as_of.lock().insert(Kind::Service, Some(Timestamp::now()));
    pending.count(&Objects::default(), Kind::Service);
    (pending, registry)
}

fn patch(body: Value) -> Write {
    Write::Cluster { method: "PATCH".to_owned(), path: WEB.to_owned(), body }
}

fn plan(writes: Vec<Write>) -> ObjectPlan {
    ObjectPlan { kind: Kind::Service, name: "default/web".to_owned(), writes, ..ObjectPlan::default() }
}

fn since(pending: &Pending) -> Vec<Timestamp> {
    pending.list().writes.iter().map(|write| write.since).collect()
}

/// `since` is the time of the log line.
#[test]
fn a_write_is_new_once_until_it_is_another_one_or_goes() {
    let (pending, _) = pending();
    let bound = |version: &str, finalizer: &str| {
        let metadata = json!({ "resourceVersion": version, "finalizers": [finalizer] });
        patch(json!({ "metadata": metadata, "status": { "conditions": [{ "lastTransitionTime": version }] } }))
    };
    pending.looked(vec![plan(vec![bound("1", "a")])], None);
    let first = since(&pending);
    assert_eq!(first.len(), 1);
    pending.looked(vec![plan(vec![bound("2", "a")])], None);
    assert_eq!(since(&pending), first, "another version of the object is no other write");
    assert!(pending.list().writes[0].write.contains("\"resourceVersion\":\"2\""), "the newest is shown");
    pending.looked(vec![plan(vec![bound("2", "b")])], None);
    let second = since(&pending);
    assert!(second[0] > first[0], "{second:?}");
    pending.looked(vec![plan(vec![])], None);
    assert_eq!(pending.list().writes, []);
    pending.looked(vec![plan(vec![bound("2", "b")])], None);
    assert!(since(&pending)[0] > second[0], "it had gone");
}

#[test]
fn the_tests_of_a_json_patch_are_no_part_of_what_is_written() {
    let patch = |version: &str| json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": version }, { "op": "remove", "path": "/x" }]);
    assert_eq!(lasting(&patch("1"), &[]), lasting(&patch("2"), &[]));
    assert_eq!(lasting(&patch("1"), &[]), json!([{ "op": "remove", "path": "/x" }]));
}

/// A cloud in trouble once made all that would be written look as if it were done.
#[test]
fn while_it_is_not_known_what_would_be_written_what_was_known_stands() {
    let (pending, registry) = pending();
    let counted = |unknown: i64| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = format!("ccm_dry_run_unknown_objects{{kind=\"Service\"}} {unknown}");
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    };
    pending.looked(vec![plan(vec![patch(json!({ "a": 1 }))])], None);
    let before = pending.list().writes;
    pending.looked(vec![ObjectPlan { unknown: Some("the cloud said\n500".to_owned()), ..plan(vec![]) }], None);
    let web = "Service default/web".to_owned();
    let list = pending.of(Kind::Service, "default/web");
    assert_eq!((list.writes, list.unknown), (before, vec![(web, "the cloud said 500".to_owned())]));
    counted(1);
    pending.looked(vec![plan(vec![])], None);
    let list = pending.list();
    assert_eq!((list.writes, list.unknown), (vec![], vec![]));
    counted(0);
    assert!(list.as_of.is_some());
}

#[test]
fn what_is_no_more_among_all_of_its_kind_is_gone_and_no_other_kind() {
    let (pending, _) = pending();
    let of = |kind, name: &str| ObjectPlan { kind, name: name.to_owned(), ..plan(vec![patch(Value::Null)]) };
    pending.looked(vec![of(Kind::Routes, "a"), of(Kind::Routes, "b"), of(Kind::Cluster, "b")], None);
    pending.looked(vec![of(Kind::Routes, "a")], Some(Kind::Routes));
    assert_eq!(
        (pending.names(Kind::Routes), pending.names(Kind::Cluster)),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
}

#[test]
fn writes_are_counted_by_kind_and_place_and_notes_are_no_changes() {
    let (pending, registry) = pending();
    let note = Write::Note { method: "PATCH".to_owned(), path: WEB.to_owned(), body: Value::Null };
    let long = patch(json!({ "a": "ä".repeat(MAX_TOLD) }));
    pending.looked(vec![plan(vec![note, patch(Value::Null), long])], None);
    let list = pending.list().writes;
    assert_eq!(list.iter().map(|write| write.is_change).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(list[0].write, format!("cluster PATCH {WEB}"));
    assert!(list[1].write.len() <= MAX_TOLD + '…'.len_utf8() && list[1].write.ends_with('…'));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "ccm_dry_run_pending_writes{kind=\"Service\",to=\"cluster\"} 2",
        "ccm_dry_run_pending_writes{kind=\"Service\",to=\"note\"} 1",
        "ccm_dry_run_pending_writes{kind=\"Node\",to=\"cloud\"} 0",
        "ccm_dry_run_unknown_objects{kind=\"Routes\"} 0",
        "ccm_dry_run_looks_total 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}
