//! What is not known, and what is known beside it.

use super::*;

fn note(message: &str) -> Write {
    let body = json!({ "status": { "conditions": [{ "message": message }] } });
    Write::Note { method: "PATCH".to_owned(), path: WEB.to_owned(), body }
}

fn metric(registry: &Registry, name: &str) -> i64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

/// With one write and a note, all that was pending before once looked as if it were done.
#[test]
fn what_is_known_beside_what_is_not_takes_nothing_away() {
    let (pending, _) = pending();
    let (finalizer, address) = (patch(json!({ "a": 1 })), patch(json!({ "b": 1 })));
    let first = ObjectPlan { more_may_follow: true, ..plan(vec![finalizer.clone(), address.clone(), note("x")]) };
    pending.looked(vec![first], None);
    let before = pending.list().writes;
    let new = patch(json!({ "c": 1 }));
    let failing = |writes| ObjectPlan { unknown: Some("the cloud said 500".to_owned()), ..plan(writes) };
    pending.looked(vec![failing(vec![finalizer, new.clone(), note("y")])], None);
    let writes = pending.list().writes;
    assert_eq!(writes.len(), 4, "{writes:#?}");
    assert!(before.iter().all(|one| writes.contains(one)), "{writes:#?}");
    assert!(writes[1].write.contains(r#"{"c":1}"#), "{writes:#?}");
    let object = Object { kind: Kind::Service, name: "default/web".to_owned() };
    assert!(pending.objects.lock()[&object].more_may_follow);
    for number in 0..9 {
        pending.looked(vec![failing(vec![patch(json!(number))])], None);
        assert_eq!(pending.list().writes.len(), 4, "what is carried along does not grow");
    }
    pending.looked(vec![plan(vec![address])], None);
    let writes = pending.list().writes;
    assert!(writes.len() == 1 && writes[0] == before[1], "{writes:#?}");
}

/// It once looked as if nothing were to be written before anybody had looked, and for ever where no component came.
#[test]
fn what_was_not_looked_at_is_not_known() {
    let mut registry = Registry::default();
    let pending = Pending::register(&mut registry, &[Kind::Node, Kind::Service, Kind::Cluster]);
    let unknown = |kind: &str| metric(&registry, &format!("ccm_dry_run_unknown_objects{{kind=\"{kind}\"}}"));
    assert_eq!(Kind::ALL.map(|kind| unknown(kind.as_str())), [1, 1, 0, 1], "no controller keeps routes");
    let node = || ObjectPlan { kind: Kind::Node, name: "n1".to_owned(), ..ObjectPlan::default() };
    pending.looked(vec![node()], None);
    assert_eq!((pending.of(Kind::Node, "n1").as_of, unknown("Node")), (None, 1), "there may be other ones");
    pending.looked(vec![node()], Some(Kind::Node));
    assert!(pending.of(Kind::Node, "n1").as_of.is_some());
    assert_eq!((pending.of(Kind::Service, "a/b").as_of, pending.list().as_of), (None, None));
    assert_eq!(Kind::ALL.map(|kind| unknown(kind.as_str())), [0, 1, 0, 1]);
    let unseen = pending.list().unknown;
    assert_eq!(unseen.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["Service", "Cluster"]);
    pending.looked(vec![ObjectPlan { unknown: Some("503".to_owned()), ..plan(vec![]) }], Some(Kind::Service));
    pending.looked(vec![], Some(Kind::Cluster));
    assert_eq!(Kind::ALL.map(|kind| unknown(kind.as_str())), [0, 1, 0, 0]);
    let oldest = pending.of(Kind::Node, "n1").as_of;
    assert!(oldest < pending.of(Kind::Service, "a/b").as_of);
    assert_eq!((pending.list().as_of, pending.list().unknown.len()), (oldest, 1));
    pending.looked(vec![node()], None);
    assert!(pending.of(Kind::Node, "n1").as_of > oldest);
}

#[test]
fn a_note_leaves_nothing_unsettled() {
    let (pending, _) = pending();
    pending.looked(vec![plan(vec![note("x")])], None);
    assert_eq!(pending.unsettled(Kind::Service), [""; 0]);
    assert_eq!(pending.names(Kind::Service), ["default/web"]);
    for open in [plan(vec![patch(Value::Null)]), ObjectPlan { unknown: Some(String::new()), ..plan(vec![]) }] {
        pending.looked(vec![plan(vec![])], None);
        pending.looked(vec![open], None);
        assert_eq!(pending.unsettled(Kind::Service), ["default/web"]);
        assert_eq!(pending.unsettled(Kind::Node), [""; 0]);
    }
}

/// Each look told the note anew while the cloud was at work, because it names the request.
#[test]
fn a_note_with_another_message_is_the_same_and_a_write_is_not() {
    let (pending, _) = pending();
    pending.looked(vec![plan(vec![note("r-1")])], None);
    let first = since(&pending);
    pending.looked(vec![plan(vec![note("r-2")])], None);
    assert_eq!(since(&pending), first);
    assert!(pending.list().writes[0].write.contains("r-2"), "the newest is shown");
    let patch = |message: &str| patch(json!({ "message": message }));
    pending.looked(vec![plan(vec![patch("r-1")])], None);
    let first = since(&pending);
    pending.looked(vec![plan(vec![patch("r-2")])], None);
    assert!(since(&pending) > first);
}

#[test]
fn one_of_several_is_known_before_the_look_ends() {
    let mut registry = Registry::default();
    let pending = Pending::register(&mut registry, &[Kind::Service]);
    pending.seen(plan(vec![patch(Value::Null)]));
    let of = pending.of(Kind::Service, "default/web");
    assert_eq!((of.writes.len(), of.as_of), (1, None));
    let written = || metric(&registry, "ccm_dry_run_pending_writes{kind=\"Service\",to=\"cluster\"}");
    assert_eq!((written(), metric(&registry, "ccm_dry_run_looks_total")), (1, 0));
    pending.ended(&[Kind::Service], Some(Kind::Service));
    assert!(pending.of(Kind::Service, "default/web").as_of.is_some());
    assert_eq!((written(), metric(&registry, "ccm_dry_run_looks_total")), (1, 1));
}
