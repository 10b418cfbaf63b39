//! The open connections of a port: how many there may be, and which one has to go when another one comes.
//!
//! Handshakes have places of their own, more of them. On a loopback address, the kubelet is one peer with all processes of its node: one of
//! them that opens connections as fast as it can must not have taken every place before the handshake of a probe is done. A probe that has
//! made its handshake asks at once, and others would have to make as many handshakes meanwhile as there are places.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Peer;

/// So many times the places are for handshakes, and so many at most: each is a file that is open.
const FOR_HANDSHAKES: usize = 4;
const MOST_HANDSHAKES: usize = 256;

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Since then it makes its handshake.
    Greeting(Instant),
    /// Since then it waits for a request: from the end of its handshake, or of the answer before.
    Idle(Instant),
    /// Since then its request is answered.
    Answering(Instant),
}

/// Tells what one connection is at. Bytes do not count: whoever sends one now and then would never be idle.
#[derive(Clone)]
pub(super) struct Activity {
    state: Arc<Mutex<State>>,
    all: Connections,
}

impl Activity {
    /// Its handshake is done. Ends another one that waits or is answered, if there are as many as there may be.
    pub(super) fn greeted(&self) -> Option<Peer> {
        let mut places = self.all.0.lock();
        let evicted = places.make_room(Kind::Greeted);
        *self.state.lock() = State::Idle(Instant::now());
        evicted
    }

    /// A request has come.
    pub(super) fn begins(&self) {
        *self.state.lock() = State::Answering(Instant::now());
    }

    /// Its answer is ready.
    pub(super) fn ends(&self) {
        *self.state.lock() = State::Idle(Instant::now());
    }
}

/// Which places a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Greeting,
    Greeted,
}

impl State {
    const fn kind(self) -> Kind {
        match self {
            Self::Greeting(_) => Kind::Greeting,
            Self::Idle(_) | Self::Answering(_) => Kind::Greeted,
        }
    }
}

struct Open {
    peer: Peer,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

struct Places {
    most: usize,
    open: Vec<Open>,
}

impl Places {
    /// Ends one connection if there are as many of its kind as there may be: of the peer that has the most, one that waits rather than one
    /// that is answered, and of those the one that has done so for the longest. A peer that opens hundreds takes places away from itself
    /// alone.
    fn make_room(&mut self, kind: Kind) -> Option<Peer> {
        self.open.retain(|open| !open.task.is_finished());
        let most = match kind {
            Kind::Greeting => self.most.saturating_mul(FOR_HANDSHAKES).min(MOST_HANDSHAKES),
            Kind::Greeted => self.most,
        };
        let states = self.open.iter().enumerate().map(|(place, open)| (place, open.peer, *open.state.lock()));
        let meant: Vec<(usize, Peer, State)> = states.filter(|(.., state)| state.kind() == kind).collect();
        if meant.len() < most {
            return None;
        }
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        for (_, peer, _) in &meant {
            let count = of_peer.entry(*peer).or_default();
            *count = count.saturating_add(1);
        }
        let many = |peer: &Peer| of_peer.get(peer).copied().unwrap_or_default();
        let (place, peer, _) = meant.iter().min_by_key(|(_, peer, state)| (Reverse(many(peer)), *state))?;
        self.open.swap_remove(*place).task.abort();
        Some(*peer)
    }
}

/// Those that are open, at most so many. Clones share them.
#[derive(Clone)]
pub(super) struct Connections(Arc<Mutex<Places>>);

impl Connections {
    /// At most so many wait for a request or are answered.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Places { most: most.max(1), open: vec![] })))
    }

    /// Ends one that makes its handshake, if there are as many as there may be.
    pub(super) fn make_room(&self) -> Option<Peer> {
        self.0.lock().make_room(Kind::Greeting)
    }

    /// Of a new connection, which makes its handshake first.
    pub(super) fn activity(&self) -> Activity {
        Activity { state: Arc::new(Mutex::new(State::Greeting(Instant::now()))), all: self.clone() }
    }

    /// Takes in what `spawn` begins: it has its place before it can do anything.
    pub(super) fn add(&self, peer: Peer, activity: &Activity, spawn: impl FnOnce() -> AbortHandle) {
        let mut places = self.0.lock();
        let (state, task) = (Arc::clone(&activity.state), spawn());
        places.open.push(Open { peer, state, task });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    /// Opens one for each of these last parts of an address, a second after each other.
    async fn opened(connections: &Connections, peers: impl IntoIterator<Item = u8>) -> (Vec<Activity>, JoinSet<()>) {
        let (mut activities, mut tasks) = (vec![], JoinSet::new());
        for peer in peers {
            let activity = connections.activity();
            connections.add(address(peer), &activity, || tasks.spawn(std::future::pending()));
            activities.push(activity);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        (activities, tasks)
    }

    /// The same, with their handshakes: nobody has to go for them.
    async fn greeted(connections: &Connections, peers: impl IntoIterator<Item = u8>) -> (Vec<Activity>, JoinSet<()>) {
        let (activities, tasks) = opened(connections, peers).await;
        for activity in &activities {
            assert_eq!(activity.greeted(), None);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        (activities, tasks)
    }

    fn address(last: u8) -> Peer {
        Peer::new([192, 0, 2, last].into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_for_its_request_for_the_longest_goes() {
        let connections = Connections::new(3);
        let (activities, mut tasks) = greeted(&connections, [1, 2, 3]).await;
        activities[0].begins();
        activities[0].ends();
        activities[1].begins();
        let next = connections.activity();
        assert_eq!(next.greeted(), Some(address(3)), "the first was answered since, the second is answered now");
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(next.greeted(), None, "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_the_most_goes_first_even_if_others_wait_for_longer() {
        let connections = Connections::new(4);
        let (activities, _tasks) = greeted(&connections, [1, 2, 2, 3]).await;
        activities[1].begins();
        activities[2].begins();
        assert_eq!(connections.activity().greeted(), Some(address(2)));
    }

    /// Whoever opened as many as there are places, without a word, ended all probes that were not done with their handshake.
    #[tokio::test(start_paused = true)]
    async fn handshakes_have_four_times_the_places_and_take_none_of_those_who_have_made_theirs() {
        let connections = Connections::new(2);
        let (_asking, mut asking) = greeted(&connections, [1, 2]).await;
        let (greeting, mut tasks) = opened(&connections, 3..10).await;
        assert_eq!(connections.make_room(), None, "seven of eight places are taken");
        let (_last, _more) = opened(&connections, [10]).await;
        assert_eq!(connections.make_room(), Some(address(3)), "the one whose handshake lasts the longest");
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert!(asking.try_join_next().is_none(), "who asks goes on");

        assert_eq!(greeting[6].greeted(), Some(address(1)), "one more that asks takes the place of one that does not");
        assert!(asking.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(connections.make_room(), None, "six make their handshake still");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_handshakes_are_made_at_once_than_leave_files_to_the_process() {
        let connections = Connections::new(usize::MAX);
        let (_greeting, _tasks) = opened(&connections, 0..=254).await;
        assert_eq!(connections.make_room(), None);
        let (_last, _more) = opened(&connections, [255]).await;
        assert_eq!(connections.make_room(), Some(address(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_ended_has_no_place() {
        let connections = Connections::new(1);
        let (_ended, mut tasks) = greeted(&connections, [1]).await;
        tasks.shutdown().await;
        assert_eq!(connections.activity().greeted(), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let [a, b, c] =
            ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"].map(|text| Peer::new(text.parse().unwrap()));
        assert!(a == b && a != c, "{a:?} {b:?} {c:?}");
        assert_eq!(Peer::new("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
