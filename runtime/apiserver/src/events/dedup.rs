//! Which Events were written lately, so that a repetition raises a count instead of filling the API server.
//!
//! A cache with a clock or with frequencies, such as `quick_cache`, is not used: Events lose their use by age alone, and in a burst such
//! a cache keeps the first ones and gives up the new ones, which are those that repeat.

use std::collections::HashMap;
use std::time::Duration;

use ccm_cloud::Severity;
use tokio::time::Instant;

use super::request::{EventRequest, Object};

/// How long after its last occurrence an Event is raised. Half of the hour that API servers keep Events.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// Most Events that are remembered, about 300 bytes each. Beyond it the oldest is forgotten and a repetition becomes an
/// Event of its own.
const MAX_REMEMBERED: usize = 1_024;

/// What makes two Events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DedupKey {
    object: Object,
    warning: bool,
    reason: String,
    message: String,
    reporter: &'static str,
}

impl DedupKey {
    pub(crate) fn of(request: &EventRequest) -> Self {
        Self {
            object: Object::of(request),
            warning: request.severity == Severity::Warning,
            reason: request.reason.clone(),
            message: request.message.clone(),
            reporter: request.reporter,
        }
    }
}

/// An Event in the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub(crate) name: String,
    pub(crate) count: i32,
}

/// The Events of the last half hour.
#[derive(Default)]
pub(crate) struct EventDedup {
    seen: HashMap<DedupKey, (Occurrence, Instant)>,
}

impl EventDedup {
    /// The Event that `key` was written as, if it may still be there.
    pub(crate) fn occurrence(&self, key: &DedupKey, now: Instant) -> Option<Occurrence> {
        let (occurrence, last) = self.seen.get(key)?;
        (now.duration_since(*last) < MAX_AGE).then(|| occurrence.clone())
    }

    /// Remembers that `key` was written.
    pub(crate) fn happened(&mut self, key: DedupKey, occurrence: Occurrence, now: Instant) {
        if self.seen.len() >= MAX_REMEMBERED && !self.seen.contains_key(&key) {
            self.seen.retain(|_, (_, last)| now.duration_since(*last) < MAX_AGE);
            if self.seen.len() >= MAX_REMEMBERED {
                let oldest = self.seen.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone());
                if let Some(oldest) = oldest {
                    self.seen.remove(&oldest);
                }
            }
        }
        self.seen.insert(key, (occurrence, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::request::node_reference;

    fn key(message: &str) -> DedupKey {
        DedupKey::of(&EventRequest {
            about: node_reference("n", "u"),
            severity: Severity::Warning,
            reason: "SyncNodeFailed".into(),
            action: "Initialize",
            message: message.into(),
            reporter: "test",
            annotations: Default::default(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_forgotten_after_half_an_hour() {
        let mut dedup = EventDedup::default();
        let written = Occurrence { name: "n.1".into(), count: 1 };
        dedup.happened(key("a"), written.clone(), Instant::now());
        tokio::time::advance(MAX_AGE - Duration::from_secs(1)).await;
        assert_eq!(dedup.occurrence(&key("a"), Instant::now()), Some(written));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(dedup.occurrence(&key("a"), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_events_are_remembered_than_the_bound_and_the_oldest_goes_first() {
        let mut dedup = EventDedup::default();
        for i in 0..=MAX_REMEMBERED {
            tokio::time::advance(Duration::from_millis(1)).await;
            dedup.happened(key(&i.to_string()), Occurrence { name: i.to_string(), count: 1 }, Instant::now());
        }
        assert_eq!(dedup.seen.len(), MAX_REMEMBERED);
        assert_eq!(dedup.occurrence(&key("0"), Instant::now()), None);
        assert!(dedup.occurrence(&key("1"), Instant::now()).is_some());
    }
}
