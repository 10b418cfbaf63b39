//! A component that this replica rejected, and another one has proven.

use ccm_cloud::{Backend, Descriptor, Service};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::*;
use crate::compare::{Inventory, Sampled};

/// The Nodes of the cluster, and how often they were compared.
#[derive(Default)]
struct Seen {
    nodes: Vec<Node>,
    looks: usize,
}

#[derive(Clone, Default)]
struct Nodes(Arc<Mutex<Seen>>);

impl Inventory for Nodes {
    fn complete(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn nodes(&self, _: &[String], _: usize) -> Sampled<Node> {
        let mut seen = self.0.lock();
        seen.looks += 1;
        Sampled { total: seen.nodes.len(), items: seen.nodes.clone() }
    }

    fn working_nodes(&self, _: &[String], _: usize) -> Sampled<Node> {
        Sampled::default()
    }

    fn services(&self, _: &Descriptor, _: usize) -> Sampled<Service> {
        Sampled::default()
    }

    fn node(&self, _: &str) -> Option<Node> {
        None
    }

    fn service(&self, _: &Descriptor, _: &str, _: &str) -> Option<Service> {
        None
    }

    fn backends(&self) -> Arc<[Backend]> {
        Arc::default()
    }

    fn routed(&self, _: &Descriptor) -> Option<Vec<Node>> {
        None
    }
}

/// Version 2, which says that there is no machine `flaky`.
fn finds_less() -> Vec<u8> {
    let component = std::fs::read(ccm_built::component("guests/successor.wasm").unwrap()).unwrap();
    fill::fill(component, &[("version", "2"), ("behaviour", "absent"), ("when", "flaky*")]).unwrap()
}

fn proven(component: &[u8]) -> Judgement {
    Judgement::Proven(format!("sha256:{:x}", Sha256::digest(component)))
}

/// A standby with version 1 in a cluster with the Node `flaky`.
async fn standby() -> (Process, Slot<Provider>, Nodes) {
    let (mut process, nodes) = (Process::new().await, Nodes::default());
    let provider_id = Some("cloudlycke://flaky".to_owned());
    nodes.0.lock().nodes = vec![Node { name: "flaky".to_owned(), provider_id, ..Node::default() }];
    Arc::get_mut(&mut process.keeper.surroundings).unwrap().inventory = Some(Box::new(nodes.clone()));
    process.place.is_led();
    let slot = process.keeper.bootstrap().await.unwrap();
    (process, slot, nodes)
}

/// It stayed with the one before until its restart: the replicas had different components, and each failover ensured load balancers again.
#[tokio::test(start_paused = true)]
async fn what_was_rejected_here_by_chance_is_taken_when_another_replica_has_proven_it() {
    let (mut process, slot, nodes) = standby().await;
    let place = process.place.clone();
    let done = process.runs(async {
        std::fs::write(place.source(), finds_less()).unwrap();
        place.has_told("Warning ProviderRejected").await;
        // It was the cloud that showed less.
        nodes.0.lock().nodes.clear();
        tokio::time::sleep(LONG).await;
        assert_eq!(slot.standing().serving().version, "1", "a difference is final here");
        place.hears(proven(&finds_less())).await;
        place.comes("the proof", || slot.standing().proven.version == "2").await;
        assert!(!slot.standing().is_on_probation());
    });
    done.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_differs_here_for_good_is_compared_once_more_each_time_that_another_replica_proves_it() {
    // The leader may have proven it before this replica sees it.
    for is_proven_first in [false, true] {
        let (mut process, slot, nodes) = standby().await;
        let place = process.place.clone();
        let looks = || nodes.0.lock().looks;
        let done = process.runs(async {
            if is_proven_first {
                place.hears(proven(&finds_less())).await;
            }
            std::fs::write(place.source(), finds_less()).unwrap();
            place.has_told("Warning ProviderRejected").await;
            // Two looks each time.
            for _ in 0..2 {
                place.hears(proven(&finds_less())).await;
                tokio::time::sleep(LONG).await;
                assert_eq!((slot.standing().serving().version.as_str(), looks()), ("1", 4), "{is_proven_first}");
            }
            place.hears(proven(&version("1"))).await;
            tokio::time::sleep(LONG).await;
            assert_eq!(looks(), 4, "{is_proven_first}");
            place.hears(proven(&finds_less())).await;
            tokio::time::sleep(LONG).await;
            assert_eq!((slot.standing().serving().version.as_str(), looks()), ("1", 6), "{is_proven_first}");
        });
        done.await.unwrap();
    }
}
