//! The open connections of a port: how many there may be, and which one has to go when another one comes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

use super::Peer;

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Since then it waits for a request: from its beginning, or from the end of the answer before.
    Idle(Instant),
    /// Since then its request is answered.
    Answering(Instant),
}

/// Tells what one connection is at. Bytes do not count: whoever sends one now and then would never be idle.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

impl Activity {
    /// Of a new connection.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State::Idle(Instant::now()))))
    }

    /// A request has come.
    pub(super) fn begins(&self) {
        *self.0.lock() = State::Answering(Instant::now());
    }

    /// Its answer is ready.
    pub(super) fn ends(&self) {
        *self.0.lock() = State::Idle(Instant::now());
    }
}

struct Open {
    peer: Peer,
    activity: Activity,
    task: AbortHandle,
}

/// Those that are open, at most so many.
pub(super) struct Connections {
    most: usize,
    open: HashMap<Id, Open>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), open: HashMap::new() }
    }

    /// Ends one connection if there are as many as there may be: of the peer that has the most, one that waits for a request rather
    /// than one that is answered, and of those the one that has done so for the longest. A peer that opens hundreds takes places
    /// away from itself alone.
    pub(super) fn make_room(&mut self) -> Option<Peer> {
        if self.open.len() < self.most {
            return None;
        }
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        for open in self.open.values() {
            let count = of_peer.entry(open.peer).or_default();
            *count = count.saturating_add(1);
        }
        let rank = |open: &Open| {
            let many = of_peer.get(&open.peer).copied().unwrap_or_default();
            (std::cmp::Reverse(many), *open.activity.0.lock())
        };
        let (id, _) = self.open.iter().map(|(id, open)| (*id, rank(open))).min_by_key(|(_, rank)| *rank)?;
        let evicted = self.open.remove(&id)?;
        evicted.task.abort();
        Some(evicted.peer)
    }

    pub(super) fn add(&mut self, peer: Peer, activity: Activity, task: AbortHandle) {
        self.open.insert(task.id(), Open { peer, activity, task });
    }

    pub(super) fn ended(&mut self, id: Id) {
        self.open.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    /// Opens one for each of these last parts of an address, a second after each other.
    async fn opened(most: usize, peers: &[u8]) -> (Connections, Vec<Activity>, JoinSet<()>) {
        let (mut connections, mut activities, mut tasks) = (Connections::new(most), vec![], JoinSet::new());
        for peer in peers {
            let activity = Activity::new();
            activities.push(activity.clone());
            connections.add(address(*peer), activity, tasks.spawn(std::future::pending()));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        (connections, activities, tasks)
    }

    fn address(last: u8) -> Peer {
        Peer::new([192, 0, 2, last].into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_for_its_request_for_the_longest_goes() {
        let (mut connections, activities, mut tasks) = opened(3, &[1, 2, 3]).await;
        activities[0].begins();
        activities[0].ends();
        activities[1].begins();
        assert_eq!(
            connections.make_room(),
            Some(address(3)),
            "the first was answered since, the second is answered now"
        );
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(connections.make_room(), None, "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_the_most_goes_first_even_if_others_wait_for_longer() {
        let (mut connections, activities, _tasks) = opened(4, &[1, 2, 2, 3]).await;
        activities[1].begins();
        activities[2].begins();
        assert_eq!(connections.make_room(), Some(address(2)));
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let [a, b, c] =
            ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"].map(|text| Peer::new(text.parse().unwrap()));
        assert!(a == b && a != c, "{a:?} {b:?} {c:?}");
        assert_eq!(Peer::new("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
