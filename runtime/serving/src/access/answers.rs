//! What the API server answered a moment ago, and how many new questions it gets.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tokio::time::Instant;

use crate::https::Peer;

/// What a question is known by: a digest, so that no token stays in memory.
pub(super) type Key = [u8; 32];

/// What is known of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// The answer counts.
    Fresh(T),
    /// The answer let somebody in, and is too old.
    WasGood,
    Nothing,
}

/// So long after a question of somebody who was let in, another one about the same waits for its turn, as all do: the first one may have had
/// no answer, or nobody any more who waits for it.
const PAST: Duration = Duration::from_secs(1);

/// Of so many pages, whoever was let in asks without waiting for a turn. A person and a scraper read fewer at a time. A cluster lets any pod get
/// every path below `/api/` (ClusterRole `system:discovery`), and each one would be another question past the limit.
pub(super) const PAGES: usize = 16;

struct Kept<T> {
    answer: T,
    is_good: bool,
    until: Instant,
    /// When somebody asked about it last without waiting for a turn.
    past: Option<Instant>,
}

/// Answers, never more than so many.
pub(super) struct Answers<T> {
    most: usize,
    kept: HashMap<Key, Kept<T>>,
}

impl<T: Clone + PartialEq> Answers<T> {
    pub(super) fn new(most: NonZeroUsize) -> Self {
        Self { most: most.get(), kept: HashMap::new() }
    }

    /// Whoever gets [`Known::WasGood`] asks anew.
    pub(super) fn get(&mut self, key: &Key) -> Known<T> {
        let now = Instant::now();
        match self.kept.get_mut(key) {
            Some(kept) if kept.until > now => Known::Fresh(kept.answer.clone()),
            Some(kept) if kept.is_good && kept.past.is_none_or(|at| now.saturating_duration_since(at) >= PAST) => {
                kept.past = Some(now);
                Known::WasGood
            }
            _ => Known::Nothing,
        }
    }

    /// Keeps the answer to what was asked at this time. Where there is no room, what let nobody in goes before what did, and what ends first
    /// before the others. An answer that is as before is as good as before: nobody who was let in to one page loses that by another one, which
    /// may have no answer.
    pub(super) fn keep(&mut self, key: Key, answer: T, is_good: bool, asked: Instant, ttl: Duration) {
        let before = self.kept.remove(&key);
        let Some(until) = asked.checked_add(ttl) else { return };
        let is_good = is_good || before.as_ref().is_some_and(|before| before.is_good && before.answer == answer);
        if self.kept.len() >= self.most {
            let first = self.kept.iter().min_by_key(|(_, kept)| (kept.is_good, kept.until)).map(|(key, _)| *key);
            first.map(|first| self.kept.remove(&first));
        }
        let past = before.and_then(|before| before.past);
        self.kept.insert(key, Kept { answer, is_good, until, past });
    }

    /// This answer has let somebody in, unless there is another one by now.
    pub(super) fn let_in(&mut self, key: &Key, answer: &T) {
        if let Some(kept) = self.kept.get_mut(key).filter(|kept| kept.answer == *answer) {
            kept.is_good = true;
        }
    }

    /// Of what let somebody in with this answer, the newest [`PAGES`] stay good.
    pub(super) fn keep_newest(&mut self, answer: &T) {
        let mut good: Vec<_> = self.kept.values_mut().filter(|kept| kept.is_good && kept.answer == *answer).collect();
        good.sort_by_key(|kept| Reverse(kept.until));
        good.into_iter().skip(PAGES).for_each(|kept| kept.is_good = false);
    }

    /// The answer lets nobody in any more.
    pub(super) fn let_out(&mut self, key: &Key) {
        if let Some(kept) = self.kept.get_mut(key) {
            kept.is_good = false;
        }
    }

    /// Whether it was the answer to something, be it too old or not.
    pub(super) fn has(&self, answer: &T) -> bool {
        self.kept.values().any(|kept| kept.answer == *answer)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

/// After so long without a new question, a peer gets what is kept for such peers.
const QUIET: Duration = Duration::from_secs(10);

/// So many in a second, and as many at once after a quiet one. Half of them are kept for peers that have asked nothing for [`QUIET`]: whoever
/// sends thousands holds up itself, and not the scraper whose token was renewed.
pub(super) struct Bucket {
    per_second: f64,
    left: f64,
    at: Instant,
    /// Who took one within [`QUIET`], and when: never more than were given in this time.
    takers: HashMap<Option<Peer>, Instant>,
}

impl Bucket {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        let per_second = f64::from(per_second.get());
        Self { per_second, left: per_second, at: Instant::now(), takers: HashMap::new() }
    }

    /// Takes one for a peer, if there is one.
    pub(super) fn take(&mut self, peer: Option<Peer>) -> bool {
        let now = Instant::now();
        let grown = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        (self.left, self.at) = ((self.left + grown).min(self.per_second), now);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < QUIET;
        let kept = if self.takers.get(&peer).is_some_and(is_recent) { (self.per_second / 2.0).floor() } else { 0.0 };
        let has_one = self.left >= 1.0 + kept;
        if has_one {
            self.left -= 1.0;
            self.takers.retain(|_, at| is_recent(at));
            self.takers.insert(peer, now);
        }
        has_one
    }

    #[cfg(test)]
    pub(super) fn takers(&self) -> usize {
        self.takers.len()
    }
}
