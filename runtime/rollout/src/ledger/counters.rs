//! The counters of the signed components that were proven: an older one that was signed as well is not taken any more.

use serde::{Deserialize, Serialize};

use crate::slot::Refusals;
use crate::trust::Counted;

/// Most that are remembered of a name. The highest one counts; those below it, when that was refused afterwards.
const MOST: usize = 4;
/// Most names: more than one there are only after a change of the provider.
const MOST_NAMES: usize = 8;

/// The highest counters, the highest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters(Vec<Counted>);

impl Counters {
    /// Whether no signed component was proven yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that somebody vouches for, and the others.
    pub(crate) fn split(&self, is_vouched: impl Fn(&Counted) -> bool) -> (Self, Self) {
        let (vouched, others) = self.0.iter().cloned().partition(is_vouched);
        (Self(vouched), Self(others))
    }

    /// With others, as they are: they are only to be found again.
    pub(crate) fn and(&self, others: &Self) -> Self {
        Self(self.0.iter().cloned().chain(others.missing_in(self)).collect())
    }

    /// Adds one. Returns whether it changes anything.
    pub(crate) fn add(&mut self, one: &Counted) -> bool {
        let before = self.0.clone();
        // Another key says the same, and the first one may be taken away.
        self.0.retain(|known| known != one || known.signed.signature == one.signed.signature);
        let of_name = |known: &&Counted| known.signed.name == one.signed.name;
        let is_first = !self.0.iter().any(|known| of_name(&known));
        let mut names: Vec<&str> = self.0.iter().map(|known| known.signed.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if self.0.contains(one) || (is_first && names.len() >= MOST_NAMES) {
            return false;
        }
        let place = self.0.partition_point(|known| known.signed.counter >= one.signed.counter);
        self.0.insert(place, one.clone());
        if self.0.iter().filter(of_name).count() > MOST
            && let Some(lowest) = self.0.iter().rposition(|known| of_name(&known))
        {
            self.0.remove(lowest);
        }
        self.0 != before
    }

    /// Adds those of somebody else. Returns whether that changes anything.
    pub(crate) fn merge(&mut self, others: &Self) -> bool {
        others.0.iter().filter(|one| self.add(one)).count() > 0
    }

    /// Those that somebody else does not know.
    pub(crate) fn missing_in(&self, other: &Self) -> Vec<Counted> {
        self.0.iter().filter(|one| !other.0.contains(one)).cloned().collect()
    }

    /// The highest one of a component with this name, or of any one where the name is not known. One that was refused after it had been
    /// proven does not count: those before it return.
    pub(crate) fn highest(&self, name: Option<&str>, refused: &Refusals) -> Option<&Counted> {
        let counts =
            |one: &&Counted| name.is_none_or(|name| one.signed.name == name) && refused.why(&one.digest).is_none();
        self.0.iter().find(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Signed;

    fn counted(name: &str, counter: u64, digest: &str) -> Counted {
        Counted { signed: Signed::new(name, counter), digest: digest.into() }
    }

    fn highest(counters: &Counters, name: Option<&str>, refused: &Refusals) -> Option<u64> {
        counters.highest(name, refused).map(|one| one.signed.counter)
    }

    #[test]
    fn the_highest_counter_of_a_name_counts_whatever_comes_after_it() {
        let (mut counters, nobody) = (Counters::default(), Refusals::default());
        assert_eq!((highest(&counters, None, &nobody), counters.is_empty()), (None, true));
        for (counter, is_new) in [(3, true), (3, false), (9, true), (5, true)] {
            assert_eq!(counters.add(&counted("a", counter, &counter.to_string())), is_new, "{counter}");
        }
        assert!(counters.add(&counted("b", 4, "b")));
        assert_eq!(highest(&counters, Some("a"), &nobody), Some(9));
        assert_eq!(highest(&counters, Some("b"), &nobody), Some(4), "each name has its own");
        assert_eq!(highest(&counters, Some("c"), &nobody), None);
        assert_eq!(highest(&counters, None, &nobody), Some(9), "of whoever does not say who it is");
    }

    /// A replica whose probation a component had passed by luck once kept all others from the one before.
    #[test]
    fn the_counter_of_a_component_that_was_refused_afterwards_does_not_count() {
        let (mut counters, mut refused) = (Counters::default(), Refusals::default());
        for counter in 1..=9 {
            counters.add(&counted("a", counter, &counter.to_string()));
        }
        refused.refuse("9", "it crashed".to_owned());
        assert_eq!(highest(&counters, Some("a"), &refused), Some(8));
    }

    /// It ended with the first key, though a second one had said the same.
    #[test]
    fn a_counter_that_another_key_signs_as_well_is_that_keys_from_then_on() {
        let mut counters = Counters::default();
        for signature in ["of the first key", "of the second key"] {
            let mut one = counted("a", 3, "sha256:a");
            signature.clone_into(&mut one.signed.signature);
            counters.add(&one);
        }
        let (vouched, others) = counters.split(|one| one.signed.signature == "of the second key");
        assert_eq!((highest(&vouched, None, &Refusals::default()), others.is_empty()), (Some(3), true));
    }

    #[test]
    fn no_more_is_remembered_than_counts() {
        let mut counters = Counters::default();
        for counter in 1..=100 {
            assert!(counters.add(&counted("a", counter, "")));
        }
        assert!(!counters.add(&counted("a", 1, "")), "it is too low to count");
        for name in 0..100 {
            counters.add(&counted(&format!("b{name}"), 200, ""));
        }
        assert_eq!(counters.0.len(), MOST + MOST_NAMES - 1);
        assert_eq!(highest(&counters, Some("a"), &Refusals::default()), Some(100));
    }

    #[test]
    fn what_two_know_is_the_same_whoever_is_told_first() {
        let mut sides = [Counters::default(), Counters::default()];
        for counter in 1..=6 {
            sides[usize::from(counter % 2 == 0)].add(&counted("a", counter, &counter.to_string()));
        }
        let [mut odd, mut even] = sides.clone();
        assert_eq!(odd.missing_in(&even).len(), 3);
        assert!(odd.merge(&sides[1]) && even.merge(&sides[0]));
        assert_eq!(odd, even);
        assert!(!odd.merge(&even) && odd.missing_in(&even).is_empty());
    }

    #[test]
    fn a_counter_is_written_as_it_is_documented() {
        let mut counters = Counters::default();
        counters.add(&counted("mycloud", u64::MAX, "sha256:a"));
        let text = r#"[{"name":"mycloud","counter":18446744073709551615,"digest":"sha256:a"}]"#;
        assert_eq!(serde_json::to_string(&counters).unwrap(), text);
        assert_eq!(serde_json::from_str::<Counters>(text).unwrap(), counters);
        "c2lnbmVk".clone_into(&mut counters.0[0].signed.signature);
        let text = text.replace(r#","digest""#, r#","signature":"c2lnbmVk","digest""#);
        assert_eq!(serde_json::to_string(&counters).unwrap(), text);
    }
}
