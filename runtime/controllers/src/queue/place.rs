//! Where a key stands in a queue: who wants to know asks the task of the queue, which has no lock and copies nothing for it.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Questions that wait for the queue, which answers at once.
const BOUND: usize = 16;
/// A queue that does not answer by then is stuck, and the answer is that nobody knows.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is worked on, for so long.
    Running(Duration),
    /// Its next run is planned, in so long.
    Planned(Duration),
    /// Neither: it waits for a change of its object.
    Idle,
}

/// Asks one queue. Cheap to clone.
pub(crate) struct Places<K>(mpsc::Sender<Question<K>>);

/// What somebody wants to know.
pub(crate) struct Question<K> {
    pub(crate) keys: Vec<K>,
    pub(crate) answer: oneshot::Sender<Vec<Place>>,
}

/// Goes to the queue.
pub(crate) type Questions<K> = mpsc::Receiver<Question<K>>;

/// The two ends.
pub(crate) fn places<K>() -> (Places<K>, Questions<K>) {
    let (sender, receiver) = mpsc::channel(BOUND);
    (Places(sender), receiver)
}

impl<K> Places<K> {
    /// Where a key stands; none where the queue does not say, since it does not run or is stuck.
    pub(crate) async fn of(&self, key: K) -> Option<Place> {
        self.of_all(vec![key]).await?.pop()
    }

    /// The same of several, in one question.
    pub(crate) async fn of_all(&self, keys: Vec<K>) -> Option<Vec<Place>> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.0.send(Question { keys, answer }).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, asked).await.ok().flatten()
    }
}

impl<K> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
