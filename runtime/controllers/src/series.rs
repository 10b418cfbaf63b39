//! Which Events were written lately, so that a repetition raises a count instead of filling the API server.

use std::collections::HashMap;
use std::time::Duration;

use ccm_cloud::Severity;
use tokio::time::Instant;

use crate::events::{EventRequest, Object};

/// How long after its last occurrence an Event is raised. Half of the hour that API servers keep Events.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// Most Events that are remembered, about 300 bytes each. Beyond it the oldest is forgotten and a repetition becomes an
/// Event of its own.
const MAX_REMEMBERED: usize = 1_024;

/// What makes two Events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    object: Object,
    warning: bool,
    reason: String,
    message: String,
    reporter: &'static str,
}

impl SeriesKey {
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
pub(crate) struct Series {
    seen: HashMap<SeriesKey, (Occurrence, Instant)>,
}

impl Series {
    /// The Event that `key` was written as, if it may still be there.
    pub(crate) fn occurrence(&self, key: &SeriesKey, now: Instant) -> Option<Occurrence> {
        let (occurrence, last) = self.seen.get(key)?;
        (now.duration_since(*last) < MAX_AGE).then(|| occurrence.clone())
    }

    /// Remembers that `key` was written.
    pub(crate) fn happened(&mut self, key: SeriesKey, occurrence: Occurrence, now: Instant) {
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
    use crate::events::node_reference;

    fn key(message: &str) -> SeriesKey {
        SeriesKey::of(&EventRequest {
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
        let mut series = Series::default();
        let written = Occurrence { name: "n.1".into(), count: 1 };
        series.happened(key("a"), written.clone(), Instant::now());
        tokio::time::advance(MAX_AGE - Duration::from_secs(1)).await;
        assert_eq!(series.occurrence(&key("a"), Instant::now()), Some(written));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(series.occurrence(&key("a"), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_events_are_remembered_than_the_bound_and_the_oldest_goes_first() {
        let mut series = Series::default();
        for i in 0..=MAX_REMEMBERED {
            tokio::time::advance(Duration::from_millis(1)).await;
            series.happened(key(&i.to_string()), Occurrence { name: i.to_string(), count: 1 }, Instant::now());
        }
        assert_eq!(series.seen.len(), MAX_REMEMBERED);
        assert_eq!(series.occurrence(&key("0"), Instant::now()), None);
        assert!(series.occurrence(&key("1"), Instant::now()).is_some());
    }
}
