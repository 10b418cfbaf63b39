//! What a dry run reads again while nothing changes: a cluster whose objects all have a write that stays pending.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::provider::{Fake, asks, cluster, served};
use super::*;
use crate::api_server::refusal;

const OBJECTS: usize = 20;

/// This API server, and how often it was asked for one object.
pub(super) fn counting(client: Client) -> (Client, Asked) {
    let asked: Asked = Arc::default();
    let told = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path();
        if path.starts_with("/api/v1/nodes/") || path.contains("/services/") {
            told.lock().push(format!("{} {path}", request.method()));
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), asked)
}

/// A Node that nobody initialises.
fn uninitialized(number: usize) -> Value {
    let taint = json!({ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" });
    json!({
        "metadata": { "name": format!("n{number:03}"), "uid": format!("n{number:03}"), "resourceVersion": "7" },
        "spec": { "taints": [taint] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// Beside another manager that writes other labels, every Node was read and held each minute, and every Service with each Node that came or went.
#[tokio::test(start_paused = true)]
async fn what_stays_pending_is_not_read_again_at_each_look() {
    let nodes = (0..OBJECTS).map(uninitialized).collect();
    let services = (0..OBJECTS).map(|number| served("red", &format!("s{number:03}"))).collect();
    let (client, asked) = counting(cluster(nodes, services));
    let Bench { mut parts, registry, _readers } = bench(client, vec![]).await;
    let red = Arc::new(Fake { makes: true, ..Fake::new("red", &parts.journal) });
    asks(&mut parts, &[&red]);
    let pending = parts.pending.clone();
    assert!(tokio::time::timeout(3_600 * SECOND, dry_run(parts)).await.is_err(), "it never ends");
    let looks = looks(&registry);
    assert!(looks >= 60, "{looks} looks");
    for kind in [Kind::Node, Kind::Service] {
        for name in pending.names(kind) {
            let list = pending.of(kind, &name);
            assert_eq!((list.writes.len(), list.unknown.len()), (1, 0), "{list:?}");
        }
        assert_eq!(pending.names(kind).len(), OBJECTS);
    }
    let asked = asked.lock();
    let of = |kind: &str| asked.iter().filter(|request| request.contains(kind)).count();
    assert_eq!((of("/nodes/"), of("/services/")), (0, 0), "{looks} looks");
}

/// This API server while it is there, and how often it was asked whether it is. Without it, the watches are silent.
fn leaving(client: Client, is_there: &Arc<AtomicBool>) -> (Client, Arc<AtomicUsize>) {
    let is_there = Arc::clone(is_there);
    let asked: Arc<AtomicUsize> = Arc::default();
    let told = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_question = format!("{}&", request.uri()).contains("limit=1&");
        told.fetch_add(usize::from(is_question), Ordering::Relaxed);
        let (client, is_there) = (client.clone(), is_there.load(Ordering::Relaxed));
        async move {
            if is_there {
                return client.send(request).await;
            }
            Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "the API server is away"))
        }
    });
    (Client::new(service, "default"), asked)
}

/// Its objects in memory once said for hours what would be written now, though nobody knew how they were by then.
#[tokio::test(start_paused = true)]
async fn without_the_api_server_what_is_pending_is_not_known_and_with_it_one_request_of_a_look_says_so() {
    let nodes = (0..OBJECTS).map(uninitialized).collect();
    let services = (0..OBJECTS).map(|number| served("red", &format!("s{number:03}"))).collect();
    let is_there = Arc::new(AtomicBool::new(true));
    let (client, asked) = leaving(cluster(nodes, services), &is_there);
    let Bench { mut parts, registry, _readers } = bench(client, vec![]).await;
    let red = Arc::new(Fake { makes: true, ..Fake::new("red", &parts.journal) });
    asks(&mut parts, &[&red]);
    let pending = parts.pending.clone();
    let mut work = std::pin::pin!(dry_run(parts));
    for there in [true, false, true] {
        is_there.store(there, Ordering::Relaxed);
        assert!(tokio::time::timeout(600 * SECOND, work.as_mut()).await.is_err(), "it never ends");
        for kind in [Kind::Node, Kind::Service] {
            assert_eq!(pending.names(kind).len(), OBJECTS);
            for name in pending.names(kind) {
                let list = pending.of(kind, &name);
                assert_eq!(list.unknown.is_empty(), there, "{list:?}");
                assert!(there || list.unknown[0].1.contains("the API server is away"), "{list:?}");
            }
        }
    }
    let (asked, looks) = (asked.load(Ordering::Relaxed), looks(&registry));
    assert!((1..=looks).contains(&asked), "{asked} questions in {looks} looks");
}
