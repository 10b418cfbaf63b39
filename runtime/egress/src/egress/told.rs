//! What metrics are told of exchanges, and the log of endpoints that are taken for dead.
//!
//! A component makes up names, and metrics keep them for ever. So names are counted for as long as the process lives, whichever components come
//! and go: one that is refused after a few requests is followed by the next one with other names.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use super::Egress;
use crate::observe::{BudgetLeft, Exchange, ExchangeOutcome};

/// Most endpoints that metrics tell apart.
pub(super) const MOST_ENDPOINTS: usize = 256;
/// The endpoint of those beyond, and of those that nobody declared.
const UNKNOWN: &str = "unknown";
/// The operation of those beyond the limit `operations`.
const OTHER: &str = "other";

/// Names that metrics were told.
#[derive(Default)]
pub(crate) struct Told {
    endpoints: Names,
    operations: Names,
}

/// Each is one line, and the parts of one are lines.
#[derive(Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    fn have(&self, parts: &[&str]) -> bool {
        self.0.lock().contains(&parts.join("\n"))
    }

    /// Whether it may be told: it was before, or there is room.
    fn take(&self, parts: &[&str], most: usize) -> bool {
        let name = parts.join("\n");
        let mut names = self.0.lock();
        names.contains(&name) || (names.len() < most && names.insert(name))
    }
}

impl Egress {
    pub(super) fn tell(
        &self,
        endpoint: &str,
        operation: &str,
        outcome: ExchangeOutcome,
        time: Duration,
        waited: Duration,
    ) {
        let provider = self.provider.as_str();
        let budget = self.budgets.get(endpoint);
        self.log_breaker(endpoint);
        let Some(observer) = &self.observer else { return };
        let is_known = |endpoint: &str| self.told.endpoints.take(&[provider, endpoint], MOST_ENDPOINTS);
        let endpoint = if budget.is_some() && is_known(endpoint) { endpoint } else { UNKNOWN };
        let operation = self.counted(endpoint, operation);
        observer.exchange_ended(Exchange { provider, endpoint, operation: &operation, outcome, time, waited });
        let Some(budget) = budget else { return };
        let left = budget.left();
        let waiting = left.waiting.write.saturating_add(left.waiting.initialise);
        let waiting = waiting.saturating_add(left.waiting.refresh);
        for endpoint in budget.endpoints().iter().filter(|endpoint| is_known(endpoint)) {
            observer.budget(BudgetLeft {
                provider,
                endpoint,
                remaining: left.remaining,
                limit: left.limit,
                open: left.open,
                tokens: left.tokens,
                in_flight: left.in_flight,
                waiting,
            });
        }
    }

    /// Says once that an endpoint is taken for dead, and once that it is back.
    fn log_breaker(&self, endpoint: &str) {
        let Some(is_open) = self.budgets.get(endpoint).map(|budget| budget.left().open) else { return };
        let provider = self.provider.as_str();
        let mut open = self.open.lock();
        if is_open && open.insert(endpoint.to_owned()) {
            tracing::warn!(
                provider,
                endpoint,
                "endpoint does not answer: the host sends only test requests until it does"
            );
        } else if !is_open && open.remove(endpoint) {
            tracing::info!(provider, endpoint, "endpoint answers again");
        }
    }

    /// The operation without secrets, or `other` when there are too many. One that was told before had no secret in it, and is not searched again.
    pub(super) fn counted<'a>(&self, endpoint: &str, operation: &'a str) -> Cow<'a, str> {
        let (provider, known) = (self.provider.as_str(), &self.told.operations);
        if known.have(&[provider, endpoint, operation]) {
            return Cow::Borrowed(operation);
        }
        let clean = self.secrets.veil().text(operation);
        let may_be_told = known.take(&[provider, endpoint, &*clean], self.limits().operations);
        if may_be_told { clean } else { Cow::Borrowed(OTHER) }
    }
}
