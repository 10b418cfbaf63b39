//! What is kept of many and of large writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use k8s_openapi::jiff::Timestamp;

use super::PLACES;
use super::standing::{Standing, short};
use crate::report::{Kind, ObjectPlan, plain};

/// Most bytes of all writes that are kept to be told, as they stand in memory. With more than that, the longest of the objects with the most are
/// left out: it is only kept where those go. Where that is too much as well, only how many they are.
pub(super) const MAX_KEPT: usize = 16 * 1_024 * 1_024;
/// Most writes of one object that a look says in the log, as a number; the others are counted.
pub(super) const MAX_LINES: usize = 64;

/// What is said of an object with so many writes that not even where they go is kept.
const TOO_MANY: &str = "those of all objects are more than a dry run keeps; `wasm-ccm plan` shows all of one object";

/// Which object it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// How an object stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Known {
    pub(super) writes: Vec<Standing>,
    /// More may follow, of which nobody knows.
    pub(super) more_may_follow: bool,
    pub(super) unknown: Option<Box<str>>,
    /// There were too many writes to keep which ones they are.
    had_too_many: bool,
}

/// How many writes go to each of [`PLACES`], and of how many objects something is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) writes: [i64; 3],
    pub(super) unknown: i64,
}

/// All objects of which something is known.
#[derive(Debug)]
pub(super) struct Objects {
    known: BTreeMap<Object, Known>,
    /// How many bytes are kept of each, where there are any.
    sizes: BTreeSet<(usize, Object)>,
    /// Of all of them.
    pub(super) bytes: usize,
    /// The most of that.
    pub(super) most: usize,
    tallies: BTreeMap<Kind, Tally>,
}

impl Default for Objects {
    fn default() -> Self {
        let (known, sizes, tallies) = Default::default();
        Self { known, sizes, bytes: 0, most: MAX_KEPT, tallies }
    }
}

impl Deref for Objects {
    type Target = BTreeMap<Object, Known>;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl Objects {
    /// Takes what is known of an object by now, and tells what is new.
    pub(super) fn take(&mut self, plan: ObjectPlan, now: Timestamp) {
        let ObjectPlan { kind, name, decision, writes, more_may_follow, unknown } = plan;
        let object = Object { kind, name };
        let before = self.remove(&object);
        let without = |some: &[Standing], others: &[Standing]| -> Vec<Standing> {
            let others: BTreeSet<u64> = others.iter().map(|other| other.digest).collect();
            some.iter().filter(|one| !others.contains(&one.digest)).cloned().collect()
        };
        let is_known = unknown.is_none();
        let mut writes: Vec<Standing> =
            writes.iter().map(|write| Standing::of(write, &object, &before, now, is_known)).collect();
        if unknown.is_some() {
            // A note would only say so as well.
            writes.retain(Standing::is_change);
            // Not known is not nothing: what was known before stands until something else is.
            let certain: Vec<Standing> = before.writes.iter().filter(|one| one.is_certain).cloned().collect();
            writes.extend(without(&certain, &writes));
        }
        writes.shrink_to_fit();
        let more_may_follow = more_may_follow || unknown.is_some() && before.more_may_follow;
        let decision = plain(&decision.unwrap_or_default());
        let (mut new, gone) = (without(&writes, &before.writes), without(&before.writes, &writes));
        let why = unknown.as_deref().map(plain);
        let was_known = before.unknown.is_none();
        if !writes.is_empty() || why.is_some() {
            let (unknown, had_too_many) = (why.clone().map(short), before.had_too_many);
            self.insert(object.clone(), Known { writes, more_may_follow, unknown, had_too_many });
        }
        let kept = self.known.get_mut(&object);
        let is_still_too_much = before.had_too_many && kept.is_some_and(Known::has_too_many_still);
        if is_still_too_much {
            // Nobody knows which of them are new.
            new.clear();
        }
        for write in new.iter().take(MAX_LINES) {
            tracing::info!(%object, write = %write.text(), decision, more_may_follow, "dry run: would be written");
        }
        for write in gone.iter().take(MAX_LINES) {
            tracing::info!(%object, write = %write.text(), "dry run: would no longer be written");
        }
        let more = [&new, &gone].map(|all| all.len().saturating_sub(MAX_LINES)).iter().sum::<usize>();
        if more > 0 {
            tracing::info!(%object, more, "dry run: there are more such writes than the log shows");
        }
        match why {
            Some(why) if was_known => tracing::warn!(%object, why, "dry run: what would be written is not known"),
            None if !was_known && !is_still_too_much => {
                tracing::info!(%object, "dry run: what would be written is known")
            }
            _ => {}
        }
    }

    /// What there is of a kind.
    pub(super) fn tally(&self, kind: Kind) -> Tally {
        self.tallies.get(&kind).copied().unwrap_or_default()
    }

    fn remove(&mut self, object: &Object) -> Known {
        let known = self.known.remove(object).unwrap_or_default();
        let bytes = known.bytes();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.sizes.remove(&(bytes, object.clone()));
        self.count(object.kind, known.tally(), i64::saturating_sub);
        known
    }

    fn insert(&mut self, object: Object, known: Known) {
        self.has(object, known);
        // Whoever has much to write hides nobody who has little, whichever of them came first.
        while self.bytes > self.most
            && let Some((_, object)) = self.sizes.last().cloned()
        {
            let mut known = self.remove(&object);
            known.cut(&object);
            self.has(object, known);
        }
    }

    fn has(&mut self, object: Object, known: Known) {
        let bytes = known.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > 0 {
            self.sizes.insert((bytes, object.clone()));
        }
        self.count(object.kind, known.tally(), i64::saturating_add);
        self.known.insert(object, known);
    }

    fn count(&mut self, kind: Kind, one: Tally, step: fn(i64, i64) -> i64) {
        let all = self.tallies.entry(kind).or_default();
        all.writes.iter_mut().zip(one.writes).for_each(|(all, one)| *all = step(*all, one));
        all.unknown = step(all.unknown, one.unknown);
    }
}

impl Known {
    fn tally(&self) -> Tally {
        let number =
            |to| self.writes.iter().filter(|one| one.to == to).fold(0, |count: i64, _| count.saturating_add(1));
        Tally { writes: PLACES.map(number), unknown: i64::from(self.unknown.is_some()) }
    }

    /// How many bytes are kept of its writes.
    pub(super) fn bytes(&self) -> usize {
        let lines = self.writes.iter().filter_map(|one| one.line.as_ref()).map(|line| line.len());
        lines.fold(self.writes.capacity().saturating_mul(size_of::<Standing>()), usize::saturating_add)
    }

    /// Whether there are too many writes to keep which ones they are, as before.
    fn has_too_many_still(&mut self) -> bool {
        self.had_too_many &= self.writes.is_empty();
        self.had_too_many
    }

    /// Leaves out the last of its longest writes. Where all of them are left out, only their number stays, and that it is not known which they
    /// are.
    fn cut(&mut self, object: &Object) {
        let longest = self.writes.iter_mut().filter_map(|one| Some((one.line.as_ref()?.len(), one)));
        if let Some((_, write)) = longest.max_by_key(|(bytes, _)| *bytes) {
            write.line = None;
            return;
        }
        let why = format!("it has {} writes, and {TOO_MANY}", self.writes.len());
        if !self.had_too_many {
            tracing::warn!(%object, why, "dry run: what would be written is not known");
        }
        let unknown = Some(why.into_boxed_str());
        *self = Self { writes: vec![], more_may_follow: self.more_may_follow, unknown, had_too_many: true };
    }
}
