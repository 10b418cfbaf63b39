//! Nodes that wait out a back-off are tried again at once when the cloud answers again, those of the lifecycle controller too.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::{mpsc, watch};

use crate::store::Node;

/// Keys that wait for the queue, which takes them at once.
const BOUND: usize = 64;

/// The keys that come in, and those of all Nodes of which `is_waiting` is so whenever one of `recoveries` grows; and a way to put in others.
/// The future does the work and ends with `keys`, or when nobody takes them any more.
pub(crate) fn merge(
    mut keys: mpsc::Receiver<ObjectRef<Node>>,
    recoveries: Vec<watch::Receiver<u64>>,
    store: Store<Node>,
    is_waiting: impl Fn(&Node) -> bool,
) -> (mpsc::Receiver<ObjectRef<Node>>, mpsc::WeakSender<ObjectRef<Node>>, impl Future<Output = ()>) {
    let (sender, merged) = mpsc::channel(BOUND);
    let others = sender.downgrade();
    let work = async move {
        let mut waiting: FuturesUnordered<_> = recoveries.into_iter().map(changed).collect();
        loop {
            tokio::select! {
                key = keys.recv() => {
                    let Some(key) = key else { return };
                    if sender.send(key).await.is_err() {
                        return;
                    }
                }
                Some(recovery) = waiting.next(), if !waiting.is_empty() => {
                    // None: whoever counts is gone.
                    let Some(recovery) = recovery else { continue };
                    waiting.push(changed(recovery));
                    for node in store.state().iter().filter(|node| is_waiting(node)) {
                        if sender.send(ObjectRef::new(&node.name_any())).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    };
    (merged, others, work)
}

async fn changed(mut recovery: watch::Receiver<u64>) -> Option<watch::Receiver<u64>> {
    recovery.changed().await.ok().map(|()| recovery)
}
