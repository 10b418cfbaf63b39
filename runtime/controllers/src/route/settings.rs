//! How the route controller works.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::queue::QueueSettings;

/// How the route controller works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteSettings {
    /// How long no Node may have changed before routes are brought in step. Default 1 s: a pool of Nodes that joins is one call.
    pub debounce: Duration,
    /// How long a change may wait when changes do not end. Default 10 s, as upstream's period.
    pub max_wait: Duration,
    /// From one look at all routes without a cause to the next, up to a tenth more or less: what somebody changed in the cloud is
    /// put right. Default 5 min.
    pub period: Duration,
    /// Most routes, obsolete and wanted ones together, in one call of the provider. Default 2,000. Further ones are the next call.
    pub batch: NonZeroUsize,
    /// Most calls of one run for halves of failing batches, to find the routes that are wrong. Default 64: enough to find three among
    /// 2,000. What is left has failed with its batch, and is tried again.
    pub max_calls: NonZeroUsize,
    /// So many calls in a row that fail with `retry`, or have no answer, and the cloud is taken to be away: what is left waits. Default 8.
    /// With one call for each route, an outage would be paid for.
    pub max_failures: NonZeroUsize,
    /// Most Events of one run. Default 50: where thousands of Nodes fail for one reason, people look at a few.
    pub max_events: NonZeroUsize,
    /// How long one call may take, with its waiting for a turn. Default 5 min: a guard, calls have a limit of their own.
    pub call_timeout: Duration,
    /// When to look again at routes that the cloud is still at work on, unless it says when. Default 5 s.
    pub pending_look: Duration,
    /// When to try again what people have to repair. Default 1 min; less than 30 s counts as 30 s.
    pub slow_retry: Duration,
    /// When the same warning about the same Node is given again. Default 1 h.
    pub repeat_warning: Duration,
    /// Most conditions that are written at the same time. Default 128.
    pub concurrent_writes: NonZeroUsize,
    /// When calls, and single routes, are tried again that failed. Default: after 1 s, doubling up to 5 min, with up to as much
    /// again by chance.
    pub queue: QueueSettings,
}

impl Default for RouteSettings {
    fn default() -> Self {
        let number = |more| NonZeroUsize::MIN.saturating_add(more);
        Self {
            debounce: Duration::from_secs(1),
            max_wait: Duration::from_secs(10),
            period: Duration::from_secs(5 * 60),
            batch: number(1_999),
            max_calls: number(63),
            max_failures: number(7),
            max_events: number(49),
            call_timeout: Duration::from_secs(5 * 60),
            pending_look: Duration::from_secs(5),
            slow_retry: Duration::from_secs(60),
            repeat_warning: Duration::from_secs(60 * 60),
            concurrent_writes: number(127),
            queue: QueueSettings {
                min_backoff: Duration::from_secs(1),
                max_backoff: Duration::from_secs(5 * 60),
                ..QueueSettings::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As pages say it: in numbers, and in words.
    fn told(time: Duration) -> (String, &'static str) {
        let (seconds, words) = match time.as_secs() {
            1 => (1, "one second"),
            60 => (60, "every minute"),
            300 => (300, "every five minutes"),
            3_600 => (3_600, "once an hour"),
            other => (other, "no page says so"),
        };
        let number = if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        (number, words)
    }

    #[test]
    fn pages_say_of_routes_what_is_so_without_flags() {
        let guide = ("the guide", include_str!("../../../../docs/guides/routes.md"));
        let comparison = ("the comparison with upstream", include_str!("../../../../docs/compatibility.md"));
        let decision = ("decision 20", include_str!("../../../../docs/decisions/0020-routes-in-batches.md"));
        let settings = RouteSettings::default();
        let (debounce, first_look) = told(settings.debounce);
        let (max_wait, _) = told(settings.max_wait);
        let (period, every_period) = told(settings.period);
        let (first, _) = told(settings.queue.min_backoff);
        let (last, _) = told(settings.queue.max_backoff);
        let (_, every_slow_retry) = told(settings.slow_retry);
        let (_, once) = told(settings.repeat_warning);
        let (failures, batch) = (settings.max_failures, settings.batch.get());
        let batch = format!("{},{:03}", batch / 1_000, batch % 1_000);
        for ((name, page), said) in [
            // How often routes are compared.
            (guide, format!("compares all routes {first_look} after Nodes have changed and {every_period} (")),
            (
                comparison,
                format!(
                    "{debounce} after the last change of a Node that makes a route (pod CIDRs, addresses, provider ID), \
                     at the latest {max_wait} after the first, and every {period} plus or minus a tenth"
                ),
            ),
            // When what failed is tried again.
            (guide, format!("tried again together, after {first} at first and {last} at most.")),
            (guide, format!("ask for more routes; the host tries again {every_slow_retry} |")),
            (comparison, format!("a back-off for each route ({first} to {last})")),
            (
                comparison,
                format!("| {once} while it stays the same, without the time, for at most `--route-max-events`"),
            ),
            // What an outage costs.
            (decision, format!("stops after {failures} failures in a row (`--route-max-failures`)")),
            (decision, format!("an outage costs {failures} calls and not {batch}.")),
        ] {
            let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(page.contains(&said), "{name} does not say: {said}");
        }
    }
}
