//! What a dry run would write, as far as it knows by now: for the log, the status page, `explain` and the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::report::{ObjectPlan, Write, plain};

/// Most bytes of one write that are told; a body can be as long as a request.
const MAX_TOLD: usize = 4_096;

/// Changes with each write of anybody to an object, or is made up of the time: another value is no other write.
const FLEETING: [&str; 5] =
    ["resourceVersion", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "timeAdded"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    to: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Default)]
struct PendingMetrics {
    writes: Family<WriteLabels, Gauge>,
    unknown: Family<KindLabels, Gauge>,
    looks: Counter,
}

impl PendingMetrics {
    fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "Writes that a dry run keeps back, by the kind of their object and by where they go: `cloud`, `cluster`, or `note` for what only \
                    the host reads";
        registry.register("ccm_dry_run_pending_writes", help, this.writes.clone());
        let help = "Objects of which a dry run does not know what it would write";
        registry.register("ccm_dry_run_unknown_objects", help, this.unknown.clone());
        let help = "Times that a dry run looked at objects and compared them with the cloud";
        registry.register("ccm_dry_run_looks", help, this.looks.clone());
        this
    }
}

/// A write that stays the same.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    write: Write,
    /// The same without what is fleeting.
    lasting: Write,
    since: Timestamp,
}

/// How an object stands.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    writes: Vec<Standing>,
    /// More may follow, of which nobody knows.
    more_may_follow: bool,
    unknown: Option<String>,
}

/// A write that is kept back, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWrite {
    /// Kind and name, such as `Service default/web`.
    pub object: String,
    /// Where it goes and what it is, in one line of at most 4 KiB.
    pub write: String,
    /// When it was seen first.
    pub since: Timestamp,
    /// Whether it changes the cloud or the cluster, and is not only a note of the host to itself.
    pub is_change: bool,
}

/// All that is pending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingList {
    /// Changes first.
    pub writes: Vec<PendingWrite>,
    /// Objects of which it is not known what would be written, and why.
    pub unknown: Vec<(String, String)>,
    /// When something was looked at last; none before the first look.
    pub as_of: Option<Timestamp>,
}

/// What would be written. Cheap to clone.
#[derive(Clone)]
pub struct Pending {
    objects: Arc<Mutex<BTreeMap<Object, Known>>>,
    as_of: Arc<Mutex<Option<Timestamp>>>,
    metrics: PendingMetrics,
}

/// Which object it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: &'static str,
    name: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl Pending {
    /// Nothing is pending. The metrics are parts of `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = PendingMetrics::register(registry);
        let this = Self { objects: Arc::default(), as_of: Arc::default(), metrics };
        this.count(&BTreeMap::new());
        this
    }

    /// All of it.
    #[must_use]
    pub fn list(&self) -> PendingList {
        let objects = self.objects.lock();
        let mut list = PendingList { as_of: *self.as_of.lock(), ..PendingList::default() };
        for (object, known) in objects.iter() {
            list.writes.extend(known.writes.iter().map(|standing| standing.told(object)));
            list.unknown.extend(known.unknown.clone().map(|why| (object.to_string(), why)));
        }
        list.writes.sort_by_key(|write| !write.is_change);
        list
    }

    /// What is pending for one object: `Service` with `NAMESPACE/NAME`, or `Node`.
    #[must_use]
    pub fn of(&self, kind: &'static str, name: &str) -> PendingList {
        let object = Object { kind, name: name.to_owned() };
        let known = self.objects.lock().get(&object).cloned().unwrap_or_default();
        PendingList {
            writes: known.writes.iter().map(|standing| standing.told(&object)).collect(),
            unknown: known.unknown.map(|why| (object.to_string(), why)).into_iter().collect(),
            as_of: *self.as_of.lock(),
        }
    }

    /// Names of objects of a kind with a write, or of which something is not known.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let objects = self.objects.lock();
        objects.keys().filter(|object| object.kind == kind).map(|object| object.name.clone()).collect()
    }

    /// These objects were looked at. With `kind`, all of that kind were: what is not among them is gone.
    pub fn looked(&self, plans: Vec<ObjectPlan>, kind: Option<&'static str>) {
        let now = Timestamp::now();
        let mut objects = self.objects.lock();
        if let Some(kind) = kind {
            let is_gone = |object: &Object| object.kind == kind && !plans.iter().any(|plan| plan.name == object.name);
            let gone: Vec<Object> = objects.keys().filter(|object| is_gone(object)).cloned().collect();
            for object in gone {
                take(&mut objects, ObjectPlan { kind, name: object.name, ..ObjectPlan::default() }, now);
            }
        }
        for plan in plans {
            take(&mut objects, plan, now);
        }
        *self.as_of.lock() = Some(now);
        self.metrics.looks.inc();
        self.count(&objects);
    }

    fn count(&self, objects: &BTreeMap<Object, Known>) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for kind in ["Node", "Service", "Routes", "Cluster"] {
            let of_kind = || objects.iter().filter(|(object, _)| object.kind == kind).map(|(_, known)| known);
            for to in ["cloud", "cluster", "note"] {
                let writes = of_kind().flat_map(|known| &known.writes).filter(|one| one.write.parts().0 == to);
                self.metrics.writes.get_or_create(&WriteLabels { kind, to }).set(number(writes.count()));
            }
            let unknown = of_kind().filter(|known| known.unknown.is_some()).count();
            self.metrics.unknown.get_or_create(&KindLabels { kind }).set(number(unknown));
        }
    }
}

/// Takes what is known of an object by now, and tells what is new.
fn take(objects: &mut BTreeMap<Object, Known>, plan: ObjectPlan, now: Timestamp) {
    let ObjectPlan { kind, name, decision, writes, more_may_follow, unknown } = plan;
    let object = Object { kind, name };
    let before = objects.remove(&object).unwrap_or_default();
    // Not known is not nothing: what was known before stands until something else is.
    let stays = unknown.is_some() && writes.is_empty();
    let (writes, more_may_follow) = match stays {
        true => (before.writes.clone(), before.more_may_follow),
        false => (writes.into_iter().map(|write| Standing::of(write, &before, now)).collect(), more_may_follow),
    };
    let is_in = |all: &[Standing], one: &Standing| all.iter().any(|other| other.lasting == one.lasting);
    let decision = plain(&decision.unwrap_or_default());
    for one in writes.iter().filter(|one| !is_in(&before.writes, one)) {
        tracing::info!(%object, write = one.line(), decision, more_may_follow, "dry run: would be written");
    }
    for one in before.writes.iter().filter(|one| !is_in(&writes, one)) {
        tracing::info!(%object, write = one.line(), "dry run: would no longer be written");
    }
    match (&before.unknown, &unknown) {
        (None, Some(why)) => tracing::warn!(%object, why = plain(why), "dry run: what would be written is not known"),
        (Some(_), None) => tracing::info!(%object, "dry run: what would be written is known"),
        _ => {}
    }
    if !writes.is_empty() || unknown.is_some() {
        objects.insert(object, Known { writes, more_may_follow, unknown: unknown.map(|why| plain(&why)) });
    }
}

impl Standing {
    fn of(write: Write, before: &Known, now: Timestamp) -> Self {
        let lasting = write.with_body(lasting(write.parts().3));
        let known = before.writes.iter().find(|known| known.lasting == lasting);
        Self { since: known.map_or(now, |known| known.since), write, lasting }
    }

    fn line(&self) -> String {
        let (to, method, path, body) = self.write.parts();
        let mut line = plain(&format!("{to} {method} {path}"));
        if !body.is_null() {
            line = format!("{line} {body}");
        }
        if line.len() > MAX_TOLD {
            line.truncate(line.floor_char_boundary(MAX_TOLD));
            line.push('…');
        }
        line
    }

    fn told(&self, object: &Object) -> PendingWrite {
        let is_change = !matches!(self.write, Write::Note { .. });
        PendingWrite { object: object.to_string(), write: self.line(), since: self.since, is_change }
    }
}

impl Write {
    /// The same with another body.
    fn with_body(&self, new: Value) -> Self {
        let mut this = self.clone();
        let (Self::Cloud { body, .. } | Self::Cluster { body, .. } | Self::Note { body, .. }) = &mut this;
        *body = new;
        this
    }
}

/// A body without what is fleeting in it: also the tests of a JSON patch, which name the state that it is bound to.
fn lasting(body: &Value) -> Value {
    match body {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !FLEETING.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), lasting(value))).collect())
        }
        Value::Array(items) => {
            let is_test = |item: &&Value| item.get("op").and_then(Value::as_str) == Some("test");
            Value::Array(items.iter().filter(|item| !is_test(item)).map(lasting).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WEB: &str = "/api/v1/namespaces/default/services/web/status";

    fn pending() -> (Pending, Registry) {
        let mut registry = Registry::default();
        (Pending::register(&mut registry), registry)
    }

    fn patch(body: Value) -> Write {
        Write::Cluster { method: "PATCH".to_owned(), path: WEB.to_owned(), body }
    }

    fn plan(writes: Vec<Write>) -> ObjectPlan {
        ObjectPlan { kind: "Service", name: "default/web".to_owned(), writes, ..ObjectPlan::default() }
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
        assert_eq!(lasting(&patch("1")), lasting(&patch("2")));
        assert_eq!(lasting(&patch("1")), json!([{ "op": "remove", "path": "/x" }]));
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
        let list = pending.of("Service", "default/web");
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
        pending.looked(vec![of("Routes", "a"), of("Routes", "b"), of("Cluster", "b")], None);
        pending.looked(vec![of("Routes", "a")], Some("Routes"));
        assert_eq!((pending.names("Routes"), pending.names("Cluster")), (vec!["a".to_owned()], vec!["b".to_owned()]));
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
}
