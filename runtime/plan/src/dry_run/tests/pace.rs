//! Who may change one Service does not decide how often the cloud is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::Stream;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};

use super::*;

/// An API server with one Service that somebody changes each second, and how often.
fn restless() -> (Client, Arc<AtomicUsize>) {
    let changes: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&changes);
    let service = tower::service_fn(move |request: Request<Body>| {
        let changes = Arc::clone(&counted);
        async move {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
            let body = match (request.uri().path(), is_watch) {
                ("/api/v1/services", true) => StreamBody::new(watch_of(changes)).boxed_unsync(),
                (_, true) => std::future::pending().await,
                (path, false) => {
                    let items = if path == "/api/v1/services" { vec![web(0)] } else { vec![] };
                    let list = json!({ "metadata": { "resourceVersion": "7" }, "items": items });
                    Full::new(Bytes::from(list.to_string())).boxed_unsync()
                }
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    (sealed(&Client::new(service, "default")), changes)
}

fn web(changes: usize) -> Value {
    let version = (8 + changes).to_string();
    let metadata = json!({ "namespace": "default", "name": "web", "resourceVersion": version });
    json!({ "metadata": metadata, "spec": { "type": "LoadBalancer" } })
}

fn watch_of(changes: Arc<AtomicUsize>) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    futures::stream::unfold(changes, |changes| async move {
        tokio::time::sleep(SECOND).await;
        let change = changes.fetch_add(1, Ordering::Relaxed) + 1;
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", web(change));
        Some((Ok(Frame::data(Bytes::from(event))), changes))
    })
}

/// Each change once had all load balancers of the account compared with the cloud.
#[tokio::test(start_paused = true)]
async fn a_service_that_somebody_changes_each_second_for_an_hour_is_looked_at_some_twenty_times() {
    let (client, changes) = restless();
    let Bench { parts, registry, _readers } = bench(client, vec![]).await;
    assert!(tokio::time::timeout(3_600 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let changes = changes.load(Ordering::Relaxed);
    assert!(changes > 1_000, "{changes} changes");
    // Nodes, routes and the cluster: each 5 min, although nobody is told of these changes.
    let looks = looks(&registry).checked_sub(3 * 12).unwrap();
    assert!((10..=25).contains(&looks), "{looks} looks");
}
