//! What is not as it should be, of all objects: how many there are, and the first by name. For a page about the whole.
//!
//! | | |
//! |---|---|
//! | cost | one pass over each memory and over the stored Nodes; one question to each queue, for what is returned; only that is copied |
//! | locks | those of the memories, one after the other, for the time of a pass |
//! | secrets | none: what is said of a failure is what Events and conditions say |
//! | not known | a controller that does not run says nothing at all |

use std::collections::BTreeMap;
use std::time::Duration;

use crate::explain::{HeldDeletion, Next};
use crate::queue::Places;

/// The first of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// How many there are.
    pub all: usize,
    /// The first of them by name.
    pub first: Vec<T>,
}

/// A Service that is not as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceTrouble {
    /// `namespace/name`.
    pub name: String,
    /// The reason of its condition `LoadBalancerReady`.
    pub reason: &'static str,
    /// What was tried and what came of it, or else what was decided, where that is known.
    pub why: Option<String>,
    /// When there is work on it next.
    pub next: Next,
    /// For how long the try under way has waited for its turn: only so many Services are worked on at a time. None where it does not wait.
    pub waits_for_turn: Option<Duration>,
}

/// A Node that waits for its initialisation.
#[derive(Debug, Clone, PartialEq)]
pub struct UninitialisedNode {
    /// Its name.
    pub name: String,
    /// Why the last try failed, where one did.
    pub why: Option<String>,
    /// How the host reacts to that, by the contract's name.
    pub reaction: Option<&'static str>,
    /// For how long every provider has said that it is not its own.
    pub unclaimed: Option<Duration>,
    /// When there is work on it next.
    pub next: Next,
}

/// A Node that is not Ready.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadyNode {
    /// Its name.
    pub name: String,
    /// The cloud's last answer about its machine, such as `running` and `absent`, or the reaction to the failure; none where it was not asked.
    pub answer: Option<&'static str>,
    /// Why the cloud gave no answer.
    pub failure: Option<String>,
    /// When it is looked at next.
    pub next: Next,
}

/// A Node whose deletion exceeds a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldNode {
    /// Its name.
    pub name: String,
    /// Which budget.
    pub by: HeldDeletion,
}

/// What the controllers of this process know; none where the controller does not run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Troubles {
    /// Services that are not as they should be.
    pub services: Option<Listed<ServiceTrouble>>,
    /// Nodes that wait for their initialisation.
    pub uninitialised: Option<Listed<UninitialisedNode>>,
    /// Names of the Nodes that no manager is asked to initialise.
    pub unmanaged: Option<Listed<String>>,
    /// Nodes that are not Ready.
    pub unready: Option<Listed<UnreadyNode>>,
    /// Deletions that exceed a budget.
    pub held: Option<Listed<HeldNode>>,
}

impl<T> Listed<T> {
    /// Says when there is work on each of the first, as the queue says it. What waits for a change has said so.
    pub(crate) async fn placed<K>(
        mut self,
        places: &Places<K>,
        key: impl Fn(&T) -> K,
        next: impl Fn(&mut T) -> &mut Next,
    ) -> Self {
        let keys: Vec<K> = self.first.iter().map(key).collect();
        // A queue that is stuck would make whoever asks wait for nothing.
        let found = if keys.is_empty() { None } else { places.of_all(keys).await };
        for (one, place) in self.first.iter_mut().zip(found.unwrap_or_default()) {
            let next = next(one);
            *next = Next::of(Some(place), *next == Next::OnChange);
        }
        self
    }
}

/// Counts all, and keeps the first by name.
pub(crate) struct Lister<T> {
    most: usize,
    all: usize,
    first: BTreeMap<String, T>,
}

impl<T> Lister<T> {
    /// At most so many are kept.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, all: 0, first: BTreeMap::new() }
    }

    /// One more, which is told only where it is kept.
    pub(crate) fn add(&mut self, name: String, tell: impl FnOnce(String) -> T) {
        self.all = self.all.saturating_add(1);
        let is_full = self.first.len() >= self.most;
        if is_full && self.first.last_key_value().is_none_or(|(last, _)| *last <= name) {
            return;
        }
        self.first.insert(name.clone(), tell(name));
        if is_full {
            self.first.pop_last();
        }
    }

    /// What there is.
    pub(crate) fn listed(self) -> Listed<T> {
        Listed { all: self.all, first: self.first.into_values().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_first_by_name_are_kept_in_order() {
        for (most, kept) in [(0, vec![]), (2, vec!["a", "b"]), (9, vec!["a", "b", "c", "d"])] {
            let mut told = 0;
            let mut lister = Lister::new(most);
            for name in ["c", "a", "d", "b"] {
                lister.add(name.to_owned(), |name| {
                    told += 1;
                    name
                });
            }
            let Listed { all, first } = lister.listed();
            assert_eq!((all, first.iter().map(String::as_str).collect::<Vec<_>>()), (4, kept), "{most}");
            assert!(told <= 4 && (most > 0 || told == 0), "what is not kept is not told: {told}");
        }
    }
}
