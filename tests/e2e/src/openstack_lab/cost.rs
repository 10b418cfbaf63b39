//! What requests amount to.

use super::{Exchange, Of};

/// Asks for one load balancer.
const LOOK: Of = Of::Operation("GET load-balancer/v2.0/lbaas/loadbalancers/*");

/// How many there were, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Those that ask, without polls.
    pub reads: usize,
    /// Those that change something, without logins.
    pub writes: usize,
    /// The writes among them that Octavia gets.
    pub octavia_writes: usize,
    /// Those that ask whether Octavia is done: looks at a load balancer after a write to Octavia. Their number is that of the seconds
    /// that Octavia takes.
    pub polls: usize,
    /// Those for a token.
    pub logins: usize,
}

impl Cost {
    /// Of exchanges in their order.
    #[must_use]
    pub fn of<'a>(exchanges: impl IntoIterator<Item = &'a Exchange>) -> Self {
        let mut cost = Self::default();
        for exchange in exchanges {
            let is_octavias = exchange.operation.contains(" load-balancer/");
            if Of::LOGINS.is(&exchange.operation) {
                cost.logins += 1;
            } else if exchange.is_write() {
                cost.writes += 1;
                cost.octavia_writes += usize::from(is_octavias);
            } else if cost.octavia_writes > 0 && LOOK.is(&exchange.operation) {
                cost.polls += 1;
            } else {
                cost.reads += 1;
            }
        }
        cost
    }

    /// Reads and writes.
    #[must_use]
    pub const fn calls(&self) -> usize {
        self.reads + self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(operation: &str) -> Exchange {
        Exchange {
            operation: operation.to_owned(),
            uri: String::new(),
            request: String::new(),
            status: Some(200),
            response: String::new(),
        }
    }

    #[test]
    fn a_look_is_a_poll_when_something_was_written_before_it_and_a_read_otherwise() {
        let look = "GET load-balancer/v2.0/lbaas/loadbalancers/*";
        let tree = "GET load-balancer/v2.0/lbaas/loadbalancers/*/status";
        let all = [
            "POST identity/v3/auth/tokens",
            look,
            tree,
            "POST network/v2.0/floatingips",
            look,
            "PUT load-balancer/v2.0/lbaas/pools/*/members",
            look,
            look,
            tree,
        ];
        let cost = Cost::of(&all.map(exchange));
        assert_eq!(cost, Cost { reads: 4, writes: 2, octavia_writes: 1, polls: 2, logins: 1 });
        assert_eq!(cost.calls(), 6);
    }
}
