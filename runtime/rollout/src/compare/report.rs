//! What has come of a comparison.

use std::fmt;

use serde::Serialize;

/// Most differences that a text shows.
const SHOWN: usize = 5;
/// Most bytes of these: an Event has room for 1,024, and more is said in it.
const SHOWN_BYTES: usize = 600;

/// How many objects of a kind were compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// That there are.
    pub total: usize,
    /// Of which the answers of both could be compared.
    pub compared: usize,
}

/// An object about which the new component answers otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `Node`, `Service` or `Route`
    pub kind: &'static str,
    /// `NAME`, `NAMESPACE/NAME`, or the network that the route leads to.
    pub name: String,
    /// What the new one says, and the last good one.
    pub what: String,
}

impl Difference {
    pub(super) fn new(kind: &'static str, name: &str, what: String) -> Self {
        Self { kind, name: name.to_owned(), what }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.name, self.what)
    }
}

/// What has come of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Machines.
    pub nodes: Compared,
    /// Load balancers.
    pub services: Compared,
    /// Networks that routes lead to, with the Node behind each.
    pub routes: Compared,
    /// Seen twice. Nodes come first, each kind in the order of its names.
    pub differences: Vec<Difference>,
}

impl Report {
    /// How much was compared, in words.
    #[must_use]
    pub fn extent(&self) -> String {
        let of = |Compared { total, compared }: Compared, kind: &str| format!("{compared} of {total} {kind}");
        let (nodes, services) = (of(self.nodes, "Nodes"), of(self.services, "Services"));
        match self.routes.total {
            0 => format!("{nodes} and {services}"),
            _ => format!("{nodes}, {services} and {}", of(self.routes, "routes")),
        }
    }

    /// The first differences, and how many more there are.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut told = String::new();
        let mut shown = 0;
        for difference in self.differences.iter().take(SHOWN) {
            let next = difference.to_string();
            if shown > 0 && told.len() + next.len() > SHOWN_BYTES {
                break;
            }
            told = if shown == 0 { next } else { told + "; " + &next };
            shown += 1;
        }
        match self.differences.len() - shown {
            0 => told,
            more => format!("{told}; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_differences_are_shown_and_the_rest_is_counted_and_all_fits_into_an_event() {
        let difference =
            |number: usize, what: &str| Difference { kind: "Node", name: format!("n{number}"), what: what.into() };
        let report = |many: usize, what: &str| Report {
            differences: (0..many).map(|number| difference(number, what)).collect(),
            ..Report::default()
        };
        assert_eq!(report(1, "lost").summary(), "Node n0: lost");
        assert_eq!(report(5, "lost").summary().matches("lost").count(), 5);
        let told = report(500, "lost").summary();
        assert!(told.starts_with("Node n0: lost; Node n1: lost") && told.ends_with("; and 495 more"), "{told}");
        let long = report(500, &"x".repeat(250)).summary();
        assert!(long.len() < SHOWN_BYTES + 40 && long.ends_with("and 498 more"), "{}", long.len());
    }
}
