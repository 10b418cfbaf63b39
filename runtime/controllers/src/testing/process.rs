//! What the binary does with a controller of Nodes.

use std::pin::Pin;
use std::time::Duration;

use ccm_apiserver::EventWriter;
use tokio_util::sync::CancellationToken;

use crate::queue::GivenUp;
use crate::store::{Node, Reflector};

/// Runs a controller with its reflector and its Events for `time`, then stops them in order.
pub(crate) async fn run_for<W>(
    time: Duration,
    controller: impl FnOnce(CancellationToken) -> W,
    nodes: Reflector<Node>,
    events: EventWriter,
) where
    W: Future<Output = Result<(), GivenUp>> + Send + 'static,
{
    let (stop, drain) = (CancellationToken::new(), CancellationToken::new());
    let (controller, nodes) = (sendable(controller(stop.clone())), sendable(nodes.run(stop.clone())));
    let events = sendable(events.run(drain.clone()));
    let work = async {
        drop(tokio::join!(controller, nodes).0);
        drain.cancel();
    };
    let timer = async {
        tokio::time::sleep(time).await;
        stop.cancel();
    };
    tokio::join!(work, timer, events);
}

/// The binary spawns them.
fn sendable<F: Future + Send + 'static>(future: F) -> Pin<Box<F>> {
    Box::pin(future)
}
