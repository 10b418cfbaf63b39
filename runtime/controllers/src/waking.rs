//! Says when to call a provider about the whole cluster, as for routes: shortly after changes that matter, so that one call serves several of
//! them; at regular intervals; and when its cloud answers again.
//!
//! What matters is the controller's own: of each object it keeps a mark, 8 bytes beside its key.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Names that wait for the queue, which takes them at once.
pub(crate) const BOUND: usize = 64;

/// Counters of providers by their names: each grows when a cloud answers again that did not, or when the provider was exchanged.
pub(crate) type Recoveries = Vec<(Arc<str>, watch::Receiver<u64>)>;

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How long nothing may have changed before it is told.
    pub(crate) debounce: Duration,
    /// How long a change may wait when changes do not end.
    pub(crate) max_wait: Duration,
    /// From one call without a cause to the next, up to a tenth more or less.
    pub(crate) period: Duration,
}

/// What changes in the cluster, as far as it matters.
pub(crate) trait Changes {
    /// Waits for the next one. Whether it matters; none when a reflector has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    async fn next(&mut self) -> Option<bool>;

    /// Takes all as seen.
    fn saw_all(&mut self);
}

/// Who is woken.
pub(crate) trait Woken {
    /// Names of the providers.
    fn names(&self) -> impl Iterator<Item = &Arc<str>>;

    /// This provider may be called at once.
    fn release(&self, name: &str);

    /// The next calls are due to a change, and not to the period.
    fn changed(&self) {}
}

/// The store of one kind, who changed in it, and what was seen of each object.
pub(crate) struct Watched<K: Lookup<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    pub(crate) keys: mpsc::Receiver<ObjectRef<K>>,
    marks: HashMap<ObjectRef<K>, u64>,
}

impl<K: Lookup<DynamicType = ()> + Clone + 'static> Watched<K> {
    pub(crate) fn new((store, keys): (Store<K>, mpsc::Receiver<ObjectRef<K>>)) -> Self {
        Self { store, keys, marks: HashMap::new() }
    }

    /// Whether what matters of the object is another thing than before.
    pub(crate) fn has_changed(&mut self, key: ObjectRef<K>, mark: impl Fn(&K) -> u64) -> bool {
        match self.store.get(&key) {
            Some(object) => {
                let now = mark(&object);
                self.marks.insert(key, now) != Some(now)
            }
            None => self.marks.remove(&key).is_some(),
        }
    }

    /// Takes all as seen.
    pub(crate) fn saw_all(&mut self, mark: impl Fn(&K) -> u64) {
        // These keys hold a UID and a resource version, other keys do not. Two keys are equal without them.
        self.marks = self.store.state().iter().map(|object| (ObjectRef::from_obj(&**object), mark(object))).collect();
    }
}

/// Equal values have equal marks, within this process. If a changed value gets the old mark (one in 2^64), the change waits for the next period.
pub(crate) fn mark(told: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    told.hash(&mut hasher);
    hasher.finish()
}

/// Since when something is to be told.
#[derive(Clone, Copy)]
struct Changed {
    first: Instant,
    last: Instant,
}

/// Puts the names of providers into `queue` until a reflector ends, or nobody takes names any more. Nothing before `listed` says
/// that the stores have all: whoever saw half of a cluster would take the other half away.
pub(crate) async fn run(
    woken: &impl Woken,
    mut changes: impl Changes,
    listed: impl Future<Output = bool>,
    recoveries: Recoveries,
    pace: Pace,
    queue: mpsc::Sender<Arc<str>>,
) {
    let mut listed = std::pin::pin!(listed);
    let mut recoveries: FuturesUnordered<_> = recoveries.into_iter().map(recovered).collect();
    let mut changed: Option<Changed> = None;
    // None until all is listed.
    let mut period: Option<Instant> = None;
    let due = |changed: Changed| later(changed.last, pace.debounce).min(later(changed.first, pace.max_wait));
    loop {
        let next = period.map(|period| changed.map_or(period, |changed| due(changed).min(period)));
        tokio::select! {
            // Also before all is listed: nobody reads a channel that is full, and the watch waits for all.
            matters = changes.next() => {
                let Some(matters) = matters else { return };
                // What comes before is part of the list.
                if matters && period.is_some() {
                    let now = Instant::now();
                    changed = Some(Changed { first: changed.map_or(now, |changed| changed.first), last: now });
                }
                continue;
            }
            complete = &mut listed, if period.is_none() => {
                if !complete {
                    return;
                }
                changes.saw_all();
            }
            Some(recovery) = recoveries.next(), if !recoveries.is_empty() => {
                // None: whoever counts is gone.
                let Some((name, recovery)) = recovery else { continue };
                woken.release(&name);
                if period.is_some() && queue.send(Arc::clone(&name)).await.is_err() {
                    return;
                }
                recoveries.push(recovered((name, recovery)));
                continue;
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        // All are told all there is: whatever the cause, the period begins anew.
        if changed.take().is_some() {
            woken.changed();
        }
        period = Some(later(Instant::now(), about(pace.period)));
        for name in woken.names() {
            if queue.send(Arc::clone(name)).await.is_err() {
                return;
            }
        }
    }
}

/// Waits until the counter of a provider grows. None: whoever counts is gone.
async fn recovered((name, mut recovery): (Arc<str>, watch::Receiver<u64>)) -> Option<(Arc<str>, watch::Receiver<u64>)> {
    recovery.changed().await.ok().map(|()| (name, recovery))
}

/// That long after `from`: a delay beyond the clock's end is as good as a year.
fn later(from: Instant, delay: Duration) -> Instant {
    from + delay.min(YEAR)
}

/// Up to a tenth more or less, so that clusters that started together do not ask together for ever.
fn about(period: Duration) -> Duration {
    let fifth = period.min(YEAR) / 5;
    let by_chance = ConstantBuilder::new().with_delay(fifth).with_jitter().build().next().unwrap_or(fifth);
    (period.min(YEAR) * 7 / 10).saturating_add(by_chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_differ_by_up_to_a_tenth() {
        let periods: Vec<Duration> = (0..100).map(|_| about(Duration::from_secs(300))).collect();
        let seconds = periods.iter().map(|period| period.as_secs_f64());
        assert!(seconds.clone().all(|seconds| (269.9..=330.1).contains(&seconds)), "{periods:?}");
        assert!(periods.iter().any(|period| *period != periods[0]));
        assert!(about(Duration::MAX) > Duration::ZERO, "the longest there is does no harm");
    }
}
