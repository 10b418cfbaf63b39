//! What a dry run would write, as far as it knows by now: for the log, the status page, `explain` and the metrics.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::looking::Looking;
use crate::report::{Kind, ObjectPlan, Write, plain};

/// Most bytes of one write that are told; a body can be as long as a request.
const MAX_TOLD: usize = 4_096;
/// Most bytes of all writes that are kept to be told; of more than that, it is only kept where they go.
const MAX_KEPT: usize = 16 * 1_024 * 1_024;
/// What is told in the place of a write that is not kept.
const LEFT_OUT: &str =
    "(left out: a dry run keeps 16 MiB of what would be written; `wasm-ccm plan` shows all of one object)";
/// Most writes of one object that a look says in the log, as a number; the others are counted.
const MAX_LINES: usize = 64;

/// Changes with each write of anybody to an object, or is made up of the time: another value is no other write.
const FLEETING: [&str; 5] =
    ["resourceVersion", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "timeAdded"];
/// The same in a note: it tells how far the cloud is, and the ID of the request that said so.
const FLEETING_IN_NOTES: &str = "message";

/// Where a write goes that only the host reads.
const NOTE: &str = "note";
/// Where writes go.
const PLACES: [&str; 3] = ["cloud", "cluster", NOTE];
/// Why nothing is known of a kind.
const NOT_LOOKED_AT: &str = "not all of them were looked at yet";

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
        let help = "Objects of which a dry run does not know what it would write; a kind that was not looked at yet counts as one";
        registry.register("ccm_dry_run_unknown_objects", help, this.unknown.clone());
        let help = "Times that a dry run looked at objects and compared them with the cloud";
        registry.register("ccm_dry_run_looks", help, this.looks.clone());
        this
    }
}

/// A write that stays the same.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    /// Where it goes.
    to: &'static str,
    /// What it is, for people: the write itself may be large. None where it is left out.
    line: Option<String>,
    /// Of the write without what is fleeting.
    digest: u64,
    since: Timestamp,
}

/// How an object stands.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    writes: Vec<Standing>,
    /// Digests of those of the last look after which all was known: what is carried along does not grow while the cloud fails.
    certain: BTreeSet<u64>,
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
    /// When it was looked at last; of several kinds, of the one that was looked at longest ago. None before all of it was.
    pub as_of: Option<Timestamp>,
}

/// The first of what is pending, and how much there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingPage {
    /// The first of each list.
    pub list: PendingList,
    /// How many writes there are.
    pub writes: usize,
    /// How many of these are changes.
    pub changes: usize,
    /// Of how many writes it is left out what they are, because there are too many or too large ones.
    pub left_out: usize,
    /// Of how many objects it is not known what would be written.
    pub unknown: usize,
}

/// What would be written. Cheap to clone.
#[derive(Clone)]
pub struct Pending {
    objects: Arc<Mutex<BTreeMap<Object, Known>>>,
    /// Of each kind that is looked at, the time of the last look; none before all of that kind were looked at.
    as_of: Arc<Mutex<BTreeMap<Kind, Option<Timestamp>>>>,
    /// Bytes of all lines. It is changed with the objects locked.
    kept: Arc<AtomicUsize>,
    looking: Looking,
    metrics: PendingMetrics,
}

/// Which object it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: Kind,
    name: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

impl Pending {
    /// Nothing of these kinds was looked at. The metrics are parts of `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry, kinds: &[Kind]) -> Self {
        let metrics = PendingMetrics::register(registry);
        let as_of = kinds.iter().map(|kind| (*kind, None)).collect();
        let (as_of, looking) = (Arc::new(Mutex::new(as_of)), Looking::default());
        let this = Self { objects: Arc::default(), as_of, kept: Arc::default(), looking, metrics };
        Kind::ALL.into_iter().for_each(|kind| this.count(&BTreeMap::new(), kind));
        this
    }

    /// What the dry run does at this moment.
    #[must_use]
    pub const fn looking(&self) -> &Looking {
        &self.looking
    }

    /// All of it.
    #[must_use]
    pub fn list(&self) -> PendingList {
        self.first(usize::MAX).list
    }

    /// So many of each list, and the number of all: whoever shows a page does not copy what would be written to a large cluster.
    #[must_use]
    pub fn first(&self, most: usize) -> PendingPage {
        let objects = self.objects.lock();
        let as_of = self.as_of.lock();
        let writes = || objects.iter().flat_map(|(object, known)| known.writes.iter().map(move |one| (object, one)));
        let unseen = || as_of.iter().filter(|(_, at)| at.is_none());
        let unknown = || objects.iter().filter_map(|(object, known)| Some((object, known.unknown.as_ref()?)));
        let changes = writes().filter(|(_, one)| one.is_change());
        let notes = writes().filter(|(_, one)| !one.is_change());
        let unseen_kinds = unseen().map(|(kind, _)| (kind.as_str().to_owned(), NOT_LOOKED_AT.to_owned()));
        let unknown_objects = unknown().map(|(object, why)| (object.to_string(), why.clone()));
        PendingPage {
            list: PendingList {
                writes: changes.clone().chain(notes).take(most).map(|(object, one)| one.told(object)).collect(),
                unknown: unseen_kinds.chain(unknown_objects).take(most).collect(),
                // None is before any time.
                as_of: as_of.values().min().copied().flatten(),
            },
            writes: writes().count(),
            changes: changes.count(),
            left_out: writes().filter(|(_, one)| one.line.is_none()).count(),
            unknown: unseen().count().saturating_add(unknown().count()),
        }
    }

    /// What is pending for one object. The name of a Service is `NAMESPACE/NAME`.
    #[must_use]
    pub fn of(&self, kind: Kind, name: &str) -> PendingList {
        let object = Object { kind, name: name.to_owned() };
        let known = self.objects.lock().get(&object).cloned().unwrap_or_default();
        PendingList {
            writes: known.writes.iter().map(|standing| standing.told(&object)).collect(),
            unknown: known.unknown.map(|why| (object.to_string(), why)).into_iter().collect(),
            as_of: self.as_of.lock().get(&kind).copied().flatten(),
        }
    }

    /// Names of objects of a kind with a write, or of which something is not known.
    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        let objects = self.objects.lock();
        objects.keys().filter(|object| object.kind == kind).map(|object| object.name.clone()).collect()
    }

    /// Names of objects of a kind with a change, or of which something is not known. Beside another manager, notes stay pending for ever.
    pub(crate) fn unsettled(&self, kind: Kind) -> Vec<String> {
        let is_unsettled = |known: &Known| known.unknown.is_some() || known.writes.iter().any(Standing::is_change);
        let objects = self.objects.lock();
        let unsettled = objects.iter().filter(|(object, known)| object.kind == kind && is_unsettled(known));
        unsettled.map(|(object, _)| object.name.clone()).collect()
    }

    /// One of several objects was looked at.
    pub(crate) fn seen(&self, plan: ObjectPlan) {
        let object = Object { kind: plan.kind, name: plan.name.clone() };
        let mut objects = self.objects.lock();
        let before = objects.get(&object).map(Known::tally).unwrap_or_default();
        take(&mut objects, &self.kept, plan, Timestamp::now());
        let now = objects.get(&object).map(Known::tally).unwrap_or_default();
        // What differs: whoever counts all after each of many is not done in time.
        let kind = object.kind.as_str();
        for (to, place) in PLACES.into_iter().zip(0..) {
            let [before, now] = [before, now].map(|(writes, _)| writes.get(place).copied().unwrap_or_default());
            self.metrics.writes.get_or_create(&WriteLabels { kind, to }).inc_by(now - before);
        }
        self.metrics.unknown.get_or_create(&KindLabels { kind }).inc_by(now.1 - before.1);
    }

    /// A look at these kinds has ended. `all` was looked at as a whole.
    pub(crate) fn ended(&self, kinds: &[Kind], all: Option<Kind>) {
        let now = Some(Timestamp::now());
        for (kind, at) in self.as_of.lock().iter_mut() {
            if all == Some(*kind) || at.is_some() && kinds.contains(kind) {
                *at = now;
            }
        }
        self.metrics.looks.inc();
        let objects = self.objects.lock();
        kinds.iter().copied().chain(all).for_each(|kind| self.count(&objects, kind));
    }

    /// These objects were looked at. With `kind`, all of that kind were: what is not among them is gone.
    pub fn looked(&self, plans: Vec<ObjectPlan>, kind: Option<Kind>) {
        let now = Timestamp::now();
        let mut objects = self.objects.lock();
        if let Some(kind) = kind {
            let there: BTreeSet<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
            let is_gone = |object: &Object| object.kind == kind && !there.contains(object.name.as_str());
            let gone: Vec<Object> = objects.keys().filter(|object| is_gone(object)).cloned().collect();
            for object in gone {
                take(&mut objects, &self.kept, ObjectPlan { kind, name: object.name, ..ObjectPlan::default() }, now);
            }
        }
        let kinds: BTreeSet<Kind> = plans.iter().map(|plan| plan.kind).collect();
        let kinds: Vec<Kind> = kinds.into_iter().collect();
        for plan in plans {
            take(&mut objects, &self.kept, plan, now);
        }
        drop(objects);
        self.ended(&kinds, kind);
    }

    fn count(&self, objects: &BTreeMap<Object, Known>, kind: Kind) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let of_kind = || objects.iter().filter(|(object, _)| object.kind == kind).map(|(_, known)| known);
        for to in PLACES {
            let writes = of_kind().flat_map(|known| &known.writes).filter(|one| one.to == to);
            self.metrics.writes.get_or_create(&WriteLabels { kind: kind.as_str(), to }).set(number(writes.count()));
        }
        // What nobody has looked at is not nothing.
        let is_unseen = self.as_of.lock().get(&kind).is_some_and(Option::is_none);
        let unknown = of_kind().filter(|known| known.unknown.is_some()).count();
        self.metrics
            .unknown
            .get_or_create(&KindLabels { kind: kind.as_str() })
            .set(number(unknown.saturating_add(usize::from(is_unseen))));
    }
}

/// Takes what is known of an object by now, and tells what is new.
fn take(objects: &mut BTreeMap<Object, Known>, kept: &AtomicUsize, plan: ObjectPlan, now: Timestamp) {
    let ObjectPlan { kind, name, decision, writes, more_may_follow, unknown } = plan;
    let object = Object { kind, name };
    let before = objects.remove(&object).unwrap_or_default();
    let without = |some: &[Standing], others: &[Standing]| -> Vec<Standing> {
        let others: BTreeSet<u64> = others.iter().map(|other| other.digest).collect();
        some.iter().filter(|one| !others.contains(&one.digest)).cloned().collect()
    };
    let mut writes: Vec<Standing> = writes.iter().map(|write| Standing::of(write, &before, now)).collect();
    if unknown.is_some() {
        // A note would only say so as well.
        writes.retain(Standing::is_change);
        // Not known is not nothing: what was known before stands until something else is.
        let certain = before.writes.iter().filter(|one| before.certain.contains(&one.digest));
        writes.extend(without(&certain.cloned().collect::<Vec<_>>(), &writes));
    }
    let certain = match &unknown {
        Some(_) => before.certain.clone(),
        None => writes.iter().map(|one| one.digest).collect(),
    };
    let more_may_follow = more_may_follow || unknown.is_some() && before.more_may_follow;
    let decision = plain(&decision.unwrap_or_default());
    let new = without(&writes, &before.writes);
    for write in new.iter().take(MAX_LINES) {
        tracing::info!(%object, write = %write.text(), decision, more_may_follow, "dry run: would be written");
    }
    let gone = without(&before.writes, &writes);
    for write in gone.iter().take(MAX_LINES) {
        tracing::info!(%object, write = %write.text(), "dry run: would no longer be written");
    }
    let more = [&new, &gone].map(|all| all.len().saturating_sub(MAX_LINES)).iter().sum::<usize>();
    if more > 0 {
        tracing::info!(%object, more, "dry run: there are more such writes than the log shows");
    }
    match (&before.unknown, &unknown) {
        (None, Some(why)) => tracing::warn!(%object, why = plain(why), "dry run: what would be written is not known"),
        (Some(_), None) => tracing::info!(%object, "dry run: what would be written is known"),
        _ => {}
    }
    let bytes = |line: &Option<String>| line.as_ref().map_or(0, String::len);
    let given_back = before.writes.iter().map(|one| bytes(&one.line)).sum();
    let mut total = kept.load(Ordering::Relaxed).saturating_sub(given_back);
    for write in &mut writes {
        let with_it = total.saturating_add(bytes(&write.line));
        match with_it <= MAX_KEPT {
            true => total = with_it,
            false => write.line = None,
        }
    }
    kept.store(total, Ordering::Relaxed);
    if !writes.is_empty() || unknown.is_some() {
        objects.insert(object, Known { writes, certain, more_may_follow, unknown: unknown.map(|why| plain(&why)) });
    }
}

impl Known {
    /// How many writes go to each of [`PLACES`], and whether something is not known.
    fn tally(&self) -> ([i64; 3], i64) {
        let number =
            |to| self.writes.iter().filter(|one| one.to == to).fold(0, |count: i64, _| count.saturating_add(1));
        (PLACES.map(number), i64::from(self.unknown.is_some()))
    }
}

impl Standing {
    fn of(write: &Write, before: &Known, now: Timestamp) -> Self {
        let (to, method, path, body) = write.parts();
        let fleeting: &[&str] = if to == NOTE { &[FLEETING_IN_NOTES] } else { &[] };
        let mut hasher = DefaultHasher::new();
        (to, method, &path, lasting(body, fleeting).to_string()).hash(&mut hasher);
        let digest = hasher.finish();
        let known = before.writes.iter().find(|known| known.digest == digest);
        Self { to, line: Some(line(to, method, &path, body)), digest, since: known.map_or(now, |known| known.since) }
    }

    fn told(&self, object: &Object) -> PendingWrite {
        let is_change = self.is_change();
        PendingWrite { object: object.to_string(), write: self.text().into_owned(), since: self.since, is_change }
    }

    fn text(&self) -> Cow<'_, str> {
        self.line.as_deref().map_or_else(|| Cow::Owned(format!("{} {LEFT_OUT}", self.to)), Cow::Borrowed)
    }

    fn is_change(&self) -> bool {
        self.to != NOTE
    }
}

fn line(to: &str, method: &str, path: &str, body: &Value) -> String {
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

/// A body without what is fleeting in it, `more` included: also the tests of a JSON patch, which name the state that it is bound to.
fn lasting(body: &Value, more: &[&str]) -> Value {
    match body {
        Value::Object(members) => {
            let is_fleeting = |name: &str| FLEETING.contains(&name) || more.contains(&name);
            let kept = members.iter().filter(|(name, _)| !is_fleeting(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), lasting(value, more))).collect())
        }
        Value::Array(items) => {
            let is_test = |item: &&Value| item.get("op").and_then(Value::as_str) == Some("test");
            Value::Array(items.iter().filter(|item| !is_test(item)).map(|item| lasting(item, more)).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
