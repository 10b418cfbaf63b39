//! What is kept of many and of large writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use k8s_openapi::jiff::Timestamp;

use super::PLACES;
use super::standing::Standing;
use crate::report::{Kind, ObjectPlan, plain};

/// Most bytes of all writes that are kept to be told. With more than that, the longest of the objects with the most are left out: it is only
/// kept where those go.
pub(super) const MAX_KEPT: usize = 16 * 1_024 * 1_024;
/// Most writes of one object that a look says in the log, as a number; the others are counted.
pub(super) const MAX_LINES: usize = 64;

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
    /// Digests of those of the last look after which all was known: what is carried along does not grow while the cloud fails.
    certain: BTreeSet<u64>,
    /// More may follow, of which nobody knows.
    pub(super) more_may_follow: bool,
    pub(super) unknown: Option<String>,
}

/// All objects of which something is known.
#[derive(Debug, Default)]
pub(super) struct Objects {
    known: BTreeMap<Object, Known>,
    /// How many bytes are kept of each, where there are any.
    sizes: BTreeSet<(usize, Object)>,
    /// Of all of them.
    pub(super) bytes: usize,
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
            (None, Some(why)) => {
                tracing::warn!(%object, why = plain(why), "dry run: what would be written is not known")
            }
            (Some(_), None) => tracing::info!(%object, "dry run: what would be written is known"),
            _ => {}
        }
        if !writes.is_empty() || unknown.is_some() {
            self.insert(object, Known { writes, certain, more_may_follow, unknown: unknown.map(|why| plain(&why)) });
        }
    }

    fn remove(&mut self, object: &Object) -> Known {
        let known = self.known.remove(object).unwrap_or_default();
        let bytes = known.bytes();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.sizes.remove(&(bytes, object.clone()));
        known
    }

    fn insert(&mut self, object: Object, known: Known) {
        let bytes = known.bytes();
        self.bytes = self.bytes.saturating_add(bytes);
        self.known.insert(object.clone(), known);
        self.has(bytes, object);
        // Whoever has much to write hides nobody who has little, whichever of them came first.
        while self.bytes > MAX_KEPT
            && let Some((bytes, object)) = self.sizes.pop_last()
        {
            let cut = self.known.get_mut(&object).map(Known::cut).unwrap_or_default();
            self.bytes = self.bytes.saturating_sub(cut);
            self.has(bytes.saturating_sub(cut), object);
        }
    }

    fn has(&mut self, bytes: usize, object: Object) {
        if bytes > 0 {
            self.sizes.insert((bytes, object));
        }
    }
}

impl Known {
    /// How many writes go to each of [`PLACES`], and whether something is not known.
    pub(super) fn tally(&self) -> ([i64; 3], i64) {
        let number =
            |to| self.writes.iter().filter(|one| one.to == to).fold(0, |count: i64, _| count.saturating_add(1));
        (PLACES.map(number), i64::from(self.unknown.is_some()))
    }

    /// How many bytes are kept of it.
    fn bytes(&self) -> usize {
        self.writes.iter().filter_map(|one| one.line.as_ref()).map(String::len).sum()
    }

    /// Leaves out the last of its longest writes, and returns how many bytes that were.
    fn cut(&mut self) -> usize {
        let longest = self.writes.iter_mut().filter_map(|one| Some((one.line.as_ref()?.len(), one)));
        let Some((bytes, write)) = longest.max_by_key(|(bytes, _)| *bytes) else { return 0 };
        write.line = None;
        bytes
    }
}
