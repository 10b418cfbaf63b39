//! What a dry run would write, as far as it knows by now: for the log, the status page, `explain` and the metrics.

mod kept;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::looking::Looking;
use crate::pending::kept::{Known, Object, Objects, Tally};
use crate::pending::standing::Standing;
use crate::report::{Kind, ObjectPlan};

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
    /// Whether it deletes the object.
    pub deletes: bool,
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
    objects: Arc<Mutex<Objects>>,
    /// Of each kind that is looked at, the time of the last look; none before all of that kind were looked at.
    as_of: Arc<Mutex<BTreeMap<Kind, Option<Timestamp>>>>,
    looking: Looking,
    metrics: PendingMetrics,
}

impl Pending {
    /// Nothing of these kinds was looked at. The metrics are parts of `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry, kinds: &[Kind]) -> Self {
        let metrics = PendingMetrics::register(registry);
        let as_of = kinds.iter().map(|kind| (*kind, None)).collect();
        let (as_of, looking) = (Arc::new(Mutex::new(as_of)), Looking::default());
        let this = Self { objects: Arc::default(), as_of, looking, metrics };
        Kind::ALL.into_iter().for_each(|kind| this.count(&Objects::default(), kind));
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
        let unknown_objects = unknown().map(|(object, why)| (object.to_string(), why.to_string()));
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
            unknown: known.unknown.map(|why| (object.to_string(), why.into_string())).into_iter().collect(),
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
        let mut objects = self.objects.lock();
        objects.take(plan, Timestamp::now());
        // What is too much now may be that of another kind.
        Kind::ALL.into_iter().for_each(|kind| self.count(&objects, kind));
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
        Kind::ALL.into_iter().for_each(|kind| self.count(&objects, kind));
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
                objects.take(ObjectPlan { kind, name: object.name, ..ObjectPlan::default() }, now);
            }
        }
        let kinds: BTreeSet<Kind> = plans.iter().map(|plan| plan.kind).collect();
        let kinds: Vec<Kind> = kinds.into_iter().collect();
        for plan in plans {
            objects.take(plan, now);
        }
        drop(objects);
        self.ended(&kinds, kind);
    }

    fn count(&self, objects: &Objects, kind: Kind) {
        // Not one by one: whoever counts all after each of many is not done in time.
        let Tally { writes, unknown } = objects.tally(kind);
        for (to, count) in PLACES.into_iter().zip(writes) {
            self.metrics.writes.get_or_create(&WriteLabels { kind: kind.as_str(), to }).set(count);
        }
        // What nobody has looked at is not nothing.
        let is_unseen = self.as_of.lock().get(&kind).is_some_and(Option::is_none);
        let unknown = unknown.saturating_add(i64::from(is_unseen));
        self.metrics.unknown.get_or_create(&KindLabels { kind: kind.as_str() }).set(unknown);
    }
}

#[cfg(test)]
mod tests;
