//! A crowd of Nodes costs the cloud the pages of a listing, and not a request for each of them.

use std::time::Duration;

use ccm_cloud::{BatchSettings, Finding, Instances as _, Need, Node, Reaction};
use ccm_sim_digitalocean::{Droplet, Endpoint};
use futures::StreamExt as _;
use futures::stream;

use crate::rig::{Rig, skip};

/// The most that Kubernetes is made for.
const NODES: u64 = 5_000;
/// Has no divisor in common with them: Nodes come in another order than the pages have their droplets.
const STRIDE: u64 = 1_237;
/// How often a Node may be asked about until all pages are there.
const MOST_ROUNDS: usize = 5;

/// What the README says of them.
fn most_requests() -> usize {
    let readme = include_str!("../../../../README.md");
    let row = "| requests to the cloud to initialise 1,000 Nodes; 5,000 Nodes | **6**; at most ";
    let (_, rest) = readme.split_once(row).unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// As its kubelet registers it: the cloud has told nothing of its machine.
fn node(number: u64) -> Node {
    let name = format!("node-{number}");
    Node { uid: format!("uid-{name}"), name, ..Node::default() }
}

/// The Go manager sends more than the quota of an hour has.
#[tokio::test]
async fn five_thousand_nodes_that_join_together_are_found_with_as_few_requests_as_the_readme_says() {
    let rig = Rig::patient().await;
    for number in 1..=NODES {
        rig.cloud.put_droplet(Droplet::new(number, &format!("node-{number}")));
    }
    let BatchSettings { max_nodes, max_calls, .. } = BatchSettings::default();
    let ask = async |batch: Vec<u64>| {
        let nodes = batch.iter().copied().map(node).collect();
        let found = rig.provider.find(nodes, Need::Metadata).await.unwrap();
        batch.into_iter().zip(found).collect::<Vec<_>>()
    };
    let mut open: Vec<u64> = (0..NODES).map(|place| place * STRIDE % NODES + 1).collect();
    let mut rounds = 0;
    while !open.is_empty() {
        assert!(rounds < MOST_ROUNDS, "{} Nodes still wait", open.len());
        rounds += 1;
        let batches: Vec<Vec<u64>> = open.chunks(max_nodes.get()).map(<[u64]>::to_vec).collect();
        let answers: Vec<_> = stream::iter(batches).map(&ask).buffered(max_calls.get()).collect().await;
        let mut wait = Duration::ZERO;
        open.clear();
        for (number, finding) in answers.into_iter().flatten() {
            match finding {
                Finding::Found(droplet) => assert_eq!(droplet.provider_id, format!("digitalocean://{number}")),
                Finding::Unknown(failure) if failure.reaction == Reaction::Pending => {
                    wait = wait.max(failure.retry_after.unwrap());
                    open.push(number);
                }
                other => panic!("node-{number}: {other:?}"),
            }
        }
        skip(wait).await;
    }
    let (requests, most) = (rig.requests(), most_requests());
    assert!(requests <= most, "{requests} requests: {:?}", rig.cloud.counters());
    // There are 200 droplets on a page.
    assert!(rig.cloud.count(Endpoint::Droplets) >= 25, "{:?}", rig.cloud.counters());
    rig.cloud.check().unwrap();
}
