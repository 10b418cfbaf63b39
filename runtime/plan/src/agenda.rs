//! When a dry run looks at what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// One Node.
    Node(String),
    /// All Nodes.
    Nodes,
    /// Nodes that are not settled.
    NodesAgain,
    /// One Service, by namespace and name.
    Service(String, String),
    /// All Services.
    Services,
    /// Services that are not settled.
    ServicesAgain,
    /// All routes.
    Routes,
    /// The cluster as a whole.
    Cluster,
}

/// What is to be looked at, and when.
#[derive(Debug, Default)]
pub(crate) struct Agenda(BTreeMap<Look, Instant>);

impl Agenda {
    /// Then at the latest. Further changes until then are seen by the same look, and do not put it off.
    pub(crate) fn by(&mut self, look: Look, at: Instant) {
        let due = self.0.entry(look).or_insert(at);
        *due = at.min(*due);
    }

    /// When the next look is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// What is to be looked at now. It is then no more on the agenda.
    pub(crate) fn take(&mut self, now: Instant) -> BTreeSet<Look> {
        self.0.extract_if(.., |_, due| *due <= now).map(|(look, _)| look).collect()
    }
}

/// How long until objects are looked at again that have a pending write, or of which something is not known: as long as `run` waits after a
/// failure.
#[derive(Debug)]
pub(crate) struct Waits {
    shortest: Duration,
    longest: Duration,
    next: Duration,
    known: BTreeSet<String>,
}

impl Waits {
    pub(crate) fn between(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest, next: shortest, known: BTreeSet::new() }
    }

    /// The time until these are looked at again; none where there are none. It doubles until there is one more of them.
    pub(crate) fn until_next(&mut self, unsettled: BTreeSet<String>) -> Option<Duration> {
        let is_new = !unsettled.is_subset(&self.known);
        self.next =
            if is_new { self.shortest } else { self.next.saturating_mul(2).min(self.longest.max(self.shortest)) };
        self.known = unsettled;
        (!self.known.is_empty()).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_look_is_due_once_and_at_its_earliest_time_whatever_comes_meanwhile() {
        let now = Instant::now();
        let mut agenda = Agenda::default();
        assert_eq!((agenda.next(), agenda.take(now)), (None, BTreeSet::new()));
        let node = Look::Node("n1".to_owned());
        agenda.by(Look::Nodes, now + 9 * SECOND);
        for after in [3, 2, 5] {
            agenda.by(node.clone(), now + after * SECOND);
        }
        assert_eq!(agenda.next(), Some(now + 2 * SECOND));
        assert_eq!(agenda.take(now + SECOND), BTreeSet::new());
        assert_eq!(agenda.take(now + 2 * SECOND), BTreeSet::from([node]));
        assert_eq!(agenda.next(), Some(now + 9 * SECOND));
    }

    /// Writes that stay for days are asked about no more often than what fails for days.
    #[test]
    fn what_stays_unsettled_is_looked_at_ever_more_seldom_and_what_comes_anew_soon() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let mut waits = Waits::between(5 * SECOND, 18 * SECOND);
        assert_eq!(waits.until_next(set(&[])), None);
        let seconds = |waits: &mut Waits, names: &[&str]| waits.until_next(set(names)).unwrap().as_secs();
        assert_eq!([0; 5].map(|_: i32| seconds(&mut waits, &["a", "b"])), [5, 10, 18, 18, 18]);
        assert_eq!(seconds(&mut waits, &["a"]), 18, "one that settles hastens nothing");
        assert_eq!(seconds(&mut waits, &["a", "c"]), 5);
        assert_eq!(waits.until_next(set(&[])), None);
        assert_eq!(seconds(&mut waits, &["a"]), 5, "it had settled");
    }
}
