//! What was asked and answered, and how often.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::settings::Settings;

/// A request and its answer. Tokens are not kept.
#[derive(Debug, Clone, Serialize)]
pub struct Exchange {
    /// From 1.
    pub number: u64,
    /// When it came, in milliseconds since the start, by the clock of the cloud.
    pub at_ms: u64,
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// None: the document has no such operation.
    pub endpoint: Option<Endpoint>,
    /// Its body, cut.
    pub request: String,
    /// What was answered; None: nothing, or nothing yet.
    pub status: Option<u16>,
    /// The body of the answer, cut.
    pub response: String,
    /// Whether something changed.
    pub had_effect: bool,
    /// What struck it.
    pub fault: Option<Fault>,
    /// What is against the document.
    pub violations: Vec<String>,
}

/// How often something was asked and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counters {
    /// Requests of each endpoint, whatever became of them.
    pub requests: BTreeMap<Endpoint, usize>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, usize>,
    /// Requests that change nothing.
    pub reads: usize,
    /// Requests that would change something.
    pub writes: usize,
    /// Requests that changed something.
    pub effects: usize,
    /// Requests that no operation of the document is like.
    pub outside: usize,
    /// Answers 429, planned ones included.
    pub too_many: usize,
    /// Answers 401: no token, or one that is not valid.
    pub strangers: usize,
}

#[derive(Default)]
pub(crate) struct Log {
    kept: VecDeque<Exchange>,
    numbers: u64,
    counters: Counters,
    violations: Vec<String>,
}

/// Violations that are kept; a test fails at the first.
const KEPT_VIOLATIONS: usize = 1_000;

impl Log {
    /// Returns its number.
    pub(crate) fn begin(&mut self, mut exchange: Exchange, settings: &Settings) -> u64 {
        self.numbers += 1;
        exchange.number = self.numbers;
        let counters = &mut self.counters;
        match exchange.endpoint {
            Some(endpoint) => {
                *counters.requests.entry(endpoint).or_default() += 1;
                *if endpoint.is_write() { &mut counters.writes } else { &mut counters.reads } += 1;
            }
            None => counters.outside += 1,
        }
        self.note(self.numbers, &exchange.method, &exchange.uri, &exchange.violations);
        self.kept.push_back(exchange);
        while self.kept.len() > settings.kept_exchanges {
            self.kept.pop_front();
        }
        self.numbers
    }

    /// Something became of it.
    pub(crate) fn with(&mut self, number: u64, change: impl FnOnce(&mut Exchange)) {
        let first = self.kept.front().map_or(u64::MAX, |first| first.number);
        let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(exchange) = place.and_then(|place| self.kept.get_mut(place)) {
            change(exchange);
        }
    }

    pub(crate) fn had_effect(&mut self, number: u64) {
        self.counters.effects += 1;
        self.with(number, |exchange| exchange.had_effect = true);
    }

    pub(crate) fn answered(&mut self, number: u64, status: u16, response: String) {
        *self.counters.statuses.entry(status).or_default() += 1;
        match status {
            401 => self.counters.strangers += 1,
            429 => self.counters.too_many += 1,
            _ => (),
        }
        self.with(number, |exchange| {
            exchange.status = Some(status);
            exchange.response = response;
        });
    }

    pub(crate) fn wrong_answer(&mut self, number: u64, method: &str, uri: &str, wrong: &[String]) {
        let wrong: Vec<String> = wrong.iter().map(|wrong| format!("answer: {wrong}")).collect();
        self.note(number, method, uri, &wrong);
        self.with(number, |exchange| exchange.violations.extend(wrong));
    }

    fn note(&mut self, number: u64, method: &str, uri: &str, violations: &[String]) {
        let room = KEPT_VIOLATIONS.saturating_sub(self.violations.len());
        let noted = violations.iter().map(|wrong| format!("#{number} {method} {uri}: {wrong}"));
        self.violations.extend(noted.take(room));
    }

    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.kept.iter()
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Counts from nothing. Violations stay.
    pub(crate) fn reset(&mut self) {
        self.counters = Counters::default();
        self.kept.clear();
    }
}

/// The beginning of a body.
pub(crate) fn cut(bytes: &[u8], most: usize) -> String {
    let shown = bytes.get(..most).unwrap_or(bytes);
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if bytes.len() > most {
        text.push('…');
    }
    text
}
