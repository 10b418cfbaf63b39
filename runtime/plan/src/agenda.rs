//! When a dry run looks at what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    /// All routes.
    Routes,
    /// The cluster as a whole.
    Cluster,
}

/// What is to be looked at, and when.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BTreeMap<Look, Instant>,
    /// Until when a look is held back: of all Services, also those at single ones.
    held: BTreeMap<Look, Instant>,
}

impl Agenda {
    /// Then at the latest, unless it is held back. Further changes until then are seen by the same look, and do not put it off.
    pub(crate) fn by(&mut self, look: Look, at: Instant) {
        let due = self.due.entry(look).or_insert(at);
        *due = at.min(*due);
    }

    /// Not before then, whoever asks.
    pub(crate) fn hold(&mut self, look: Look, until: Instant) {
        self.held.insert(look, until);
    }

    /// When the next look is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.iter().map(|(look, due)| when(&self.held, look, *due)).min()
    }

    /// What is to be looked at now. It is then no more on the agenda.
    pub(crate) fn take(&mut self, now: Instant) -> BTreeSet<Look> {
        let Self { due, held } = self;
        let taken = due.extract_if(.., |look, due| when(held, look, *due) <= now).map(|(look, _)| look).collect();
        held.retain(|_, until| *until > now);
        taken
    }
}

fn when(held: &BTreeMap<Look, Instant>, look: &Look, due: Instant) -> Instant {
    let of_all = matches!(look, Look::Service(..)).then(|| held.get(&Look::Services)).flatten();
    of_all.into_iter().chain(held.get(look)).copied().fold(due, Instant::max)
}

/// How long each object waits for its next look, whatever happens to it: whoever may change one Service must not decide how often the cloud is
/// asked. The time doubles until an object is left in peace for twice as long.
#[derive(Debug)]
pub(crate) struct Pace {
    shortest: Duration,
    longest: Duration,
    /// The time of each, and until when it counts.
    waits: HashMap<String, (Duration, Instant)>,
}

impl Pace {
    pub(crate) fn between(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest: longest.max(shortest), waits: HashMap::new() }
    }

    /// These are looked at now: how long each waits until the next time.
    pub(crate) fn looked(&mut self, names: Vec<String>, now: Instant) -> Vec<(String, Duration)> {
        self.waits.retain(|_, (_, until)| *until >= now);
        let wait = |name: String| {
            let before = self.waits.get(&name).map(|(wait, _)| wait.saturating_mul(2).min(self.longest));
            let wait = before.unwrap_or(self.shortest);
            self.waits.insert(name.clone(), (wait, now + wait.saturating_mul(2)));
            (name, wait)
        };
        names.into_iter().map(wait).collect()
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

    #[tokio::test(start_paused = true)]
    async fn what_is_held_back_is_not_due_and_all_services_hold_each_back() {
        let now = Instant::now();
        let of = |name: &str| Look::Service("shop".to_owned(), name.to_owned());
        let mut agenda = Agenda::default();
        agenda.hold(Look::Services, now + 5 * SECOND);
        agenda.hold(of("noisy"), now + 9 * SECOND);
        for look in [of("noisy"), of("web"), Look::Services, Look::Nodes] {
            agenda.by(look, now + SECOND);
        }
        assert_eq!((agenda.next(), agenda.take(now + SECOND)), (Some(now + SECOND), BTreeSet::from([Look::Nodes])));
        assert_eq!(agenda.next(), Some(now + 5 * SECOND));
        assert_eq!(agenda.take(now + 5 * SECOND), BTreeSet::from([of("web"), Look::Services]));
        assert_eq!(agenda.next(), Some(now + 9 * SECOND));
        assert_eq!(agenda.take(now + 9 * SECOND), BTreeSet::from([of("noisy")]));
        assert_eq!((agenda.next(), agenda.held.len()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn each_waits_for_itself_and_who_is_left_in_peace_waits_no_longer_than_others() {
        let begun = Instant::now();
        let mut pace = Pace::between(5 * SECOND, 18 * SECOND);
        let mut waits = |names: &[&str], at: u32| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            pace.looked(names, begun + at * SECOND).into_iter().map(|(_, wait)| wait.as_secs()).collect::<Vec<_>>()
        };
        assert_eq!([waits(&["a", "b"], 0), waits(&["a", "b"], 5), waits(&["a", "b"], 15)], [[5; 2], [10; 2], [18; 2]]);
        assert_eq!(waits(&["a", "b", "c"], 33), [18, 18, 5]);
        assert_eq!([waits(&["a", "b"], 51), waits(&["a", "b"], 87)], [[18; 2]; 2], "twice as long is not yet peace");
        assert_eq!(waits(&["a", "b", "d"], 105), [18, 18, 5]);
        assert_eq!(waits(&["a"], 142), [5]);
        assert_eq!(pace.waits.len(), 1, "nobody is kept in mind for ever");
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
