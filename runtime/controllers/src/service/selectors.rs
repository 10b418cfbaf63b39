//! By which labels a provider chose among the Nodes for a Service.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Most selectors that are remembered of a Service: a call asks about no more. Each is tried on all Nodes whenever labels change.
const MAX_SELECTORS: usize = 16;

/// Those of the last calls. None: not known since the start.
#[derive(Default)]
pub(super) struct Selectors(Option<Arc<BTreeSet<String>>>);

impl Selectors {
    /// All of them, to be looked at while others change the entry.
    pub(super) fn known(&self) -> Option<Arc<BTreeSet<String>>> {
        self.0.clone()
    }

    /// Whether there are any.
    pub(super) fn is_chosen(&self) -> bool {
        self.0.as_ref().is_some_and(|known| !known.is_empty())
    }

    /// A call asked about these. Where it `has_failed`, it may not have come to those of before, so that these count too: unless all are more than
    /// one call can ask about, as those of a provider that asks about others each time. Returns all that count.
    pub(super) fn add(&mut self, asked: BTreeSet<String>, has_failed: bool) -> Arc<BTreeSet<String>> {
        let known = self.0.take().filter(|_| has_failed).unwrap_or_default();
        let before: Vec<&String> = known.difference(&asked).collect();
        let all = match before.len() + asked.len() > MAX_SELECTORS {
            true => asked,
            false => before.into_iter().cloned().chain(asked.iter().cloned()).collect(),
        };
        Arc::clone(self.0.insert(Arc::new(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_of_failed_calls_count_as_long_as_one_call_could_have_asked_about_all() {
        let some = |numbers: std::ops::Range<usize>| numbers.map(|number| format!("pool=p{number:02}")).collect();
        let mut selectors = Selectors::default();
        assert!(selectors.known().is_none() && !selectors.is_chosen());
        for (asked, has_failed, count) in [
            (0..10, false, 0..10),
            // It failed before it had asked about any.
            (0..0, true, 0..10),
            (5..12, true, 0..12),
            (12..16, true, 0..16),
            (0..16, true, 0..16),
            (16..17, true, 16..17),
            (20..36, true, 20..36),
            (36..52, true, 36..52),
            (3..5, false, 3..5),
            (0..0, false, 0..0),
        ] {
            let now = selectors.add(some(asked.clone()), has_failed);
            assert_eq!(*now, some(count), "{asked:?}");
            let is_chosen = !now.is_empty();
            assert_eq!((selectors.known(), selectors.is_chosen()), (Some(now), is_chosen), "{asked:?}");
        }
    }
}
