//! Which of two states of an object is the newer one: the one rule for all who compare what the store shows with what they wrote.
//!
//! Resource versions are in order, but an etcd that is restored from a backup goes on from lower ones. So a complete list counts whatever
//! versions it has, when it began after the state that it is compared with was known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many lists of a reflector have begun, and which is in the store. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    stored: AtomicU64,
}

/// What is known of the age of a state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age {
    /// The number of the list that it is as new as, at least.
    list: u64,
    version: Option<u64>,
}

impl Lists {
    /// A list begins, perhaps one that fails.
    pub(super) fn begins(&self) {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// The list that began last is in the store.
    pub(super) fn is_stored(&self) {
        self.0.stored.store(self.0.begun.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Of a state that the store shows now, by its resource version.
    pub(crate) fn shown(&self, version: Option<&str>) -> Age {
        Age { list: self.0.stored.load(Ordering::Relaxed), version: number(version) }
    }

    /// Of a state that the API server has answered now: no list that has begun so far is newer.
    pub(crate) fn answered(&self, version: Option<&str>) -> Age {
        Age { list: self.0.begun.load(Ordering::Relaxed), version: number(version) }
    }
}

impl Age {
    /// Of a state that took the place of one of the other age.
    pub(crate) fn after(self, other: Self) -> Self {
        Self { list: self.list.max(other.list), ..self }
    }

    /// Whether a state of this age counts against one of the other age.
    pub(crate) fn is_as_new_as(self, other: Self) -> bool {
        self.list > other.list || self.version >= other.version
    }
}

/// Resource versions in order, as far as the API server's are numbers, which they are.
fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_newer_than_a_lower_version_until_a_list_that_began_later_says_otherwise() {
        let lists = Lists::default();
        lists.begins();
        lists.is_stored();
        let written = lists.answered(Some("100"));
        assert!(!lists.shown(Some("99")).is_as_new_as(written));
        assert!(lists.shown(Some("100")).is_as_new_as(written));
        // The watch breaks. What was written while a list is read may not be in it.
        lists.begins();
        let meanwhile = lists.answered(Some("50"));
        assert!(!lists.shown(Some("49")).is_as_new_as(written), "the list is not there yet");
        lists.is_stored();
        assert!(lists.shown(Some("49")).is_as_new_as(written), "etcd was restored");
        assert!(!lists.shown(Some("49")).is_as_new_as(meanwhile));
        assert!(lists.shown(Some("51")).is_as_new_as(meanwhile));
        // One that fails counts for nothing but for what is written meanwhile.
        lists.begins();
        lists.begins();
        lists.is_stored();
        assert!(lists.shown(Some("1")).is_as_new_as(meanwhile));
    }
}
