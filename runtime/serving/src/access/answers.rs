//! What the API server answered a moment ago, and how many new questions it gets.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tokio::time::Instant;

/// What a question is known by: a digest, so that no token stays in memory.
pub(super) type Key = [u8; 32];

/// What is known of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// The answer counts.
    Fresh(T),
    /// The answer was a good one, and is too old.
    WasGood,
    Nothing,
}

struct Kept<T> {
    answer: T,
    is_good: bool,
    until: Instant,
}

/// Answers, never more than so many.
pub(super) struct Answers<T> {
    most: usize,
    kept: HashMap<Key, Kept<T>>,
}

impl<T: Clone> Answers<T> {
    pub(super) fn new(most: NonZeroUsize) -> Self {
        Self { most: most.get(), kept: HashMap::new() }
    }

    pub(super) fn get(&self, key: &Key) -> Known<T> {
        match self.kept.get(key) {
            Some(kept) if kept.until > Instant::now() => Known::Fresh(kept.answer.clone()),
            Some(kept) if kept.is_good => Known::WasGood,
            _ => Known::Nothing,
        }
    }

    /// Keeps an answer. Where there is no room, a refusal goes before a good answer, and what ends first before the others.
    pub(super) fn keep(&mut self, key: Key, answer: T, is_good: bool, ttl: Duration) {
        let now = Instant::now();
        let Some(until) = now.checked_add(ttl).filter(|until| *until > now) else {
            self.kept.remove(&key);
            return;
        };
        if self.kept.len() >= self.most && !self.kept.contains_key(&key) {
            let first = self.kept.iter().min_by_key(|(_, kept)| (kept.is_good, kept.until)).map(|(key, _)| *key);
            first.map(|first| self.kept.remove(&first));
        }
        self.kept.insert(key, Kept { answer, is_good, until });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

/// So many in a second, and as many at once after a quiet one.
pub(super) struct Bucket {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        let per_second = f64::from(per_second.get());
        Self { per_second, left: per_second, at: Instant::now() }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self) -> bool {
        let now = Instant::now();
        let grown = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        (self.left, self.at) = ((self.left + grown).min(self.per_second), now);
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}
