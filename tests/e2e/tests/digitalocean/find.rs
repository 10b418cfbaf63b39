//! Nodes are deleted on the word of the cloud alone: an answer to a question by ID that says that the droplet is not there.

use std::time::Duration;

use ccm_cloud::{Finding, Instances as _, Need, Node};
use ccm_sim_digitalocean::{Act, Droplet, Endpoint, Fault, Requests, When};

use crate::rig::{Rig, skip};

const FAULTS: &[(When, Act)] = &[
    (When::Before, Act::Hangup),
    (When::Before, Act::Hold),
    (When::Before, Act::TooMany(Some(5))),
    (When::Before, Act::Status(401)),
    (When::Before, Act::Status(404)),
    (When::Before, Act::Status(500)),
    (When::Before, Act::Html(404)),
    (When::Before, Act::Html(502)),
    (When::After, Act::Html(200)),
    (When::After, Act::Truncated),
    (When::After, Act::UnknownEnum),
    (When::After, Act::ExtraFields),
];

/// In no listing, with the ID of none that is there.
const GONE: u64 = 77;
/// Left out of listings that do not ask for it.
const GPU: u64 = 9;

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    for id in 1..=8 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.put_droplet(Droplet { gpu: true, ..Droplet::new(GPU, "gpu") });
    rig.nodes.set((1..=8).chain([GPU, GONE]));
    rig
}

fn nodes(ids: &[u64]) -> Vec<Node> {
    let node = |id: &u64| Node {
        name: format!("node-{id}"),
        uid: format!("uid-{id}"),
        provider_id: Some(format!("digitalocean://{id}")),
        ..Node::default()
    };
    let mut nodes: Vec<Node> = ids.iter().map(node).collect();
    // One that nobody has looked for yet, and one that has no droplet.
    for name in ["node-8", "stranger"] {
        nodes.push(Node { name: name.to_owned(), uid: name.to_owned(), ..Node::default() });
    }
    nodes
}

/// What is said of each Node. That one is absent has its proof among the requests of this call.
async fn find(rig: &Rig, ids: &[u64], need: Need, fault: Option<Fault>) -> Vec<Option<bool>> {
    skip(Duration::from_secs(2 * 3_600)).await;
    rig.cloud.reset_counters();
    let mut planned = fault.map(|fault| rig.cloud.plan(fault));
    let held = planned.as_mut().filter(|_| fault.is_some_and(|fault| fault.act == Act::Hold));
    let found = rig.impatient(held, rig.provider.find(nodes(ids), need)).await;
    rig.cloud.forget_faults();
    let Ok(found) = found else { return vec![None; ids.len() + 2] };
    assert_eq!(found.len(), ids.len() + 2);
    let known = found.iter().enumerate().map(|(place, finding)| match finding {
        Finding::Found(_) => Some(true),
        Finding::Unknown(_) => None,
        Finding::Absent => {
            let id = ids.get(place).unwrap_or_else(|| panic!("a name is no proof: {fault:?}"));
            let uri = format!("/v2/droplets/{id}");
            let said = rig.cloud.exchanges().into_iter().any(|exchange| {
                let by_cloud = !matches!(exchange.fault, Some(Fault { act: Act::Html(_), .. }));
                exchange.endpoint == Some(Endpoint::Droplet)
                    && exchange.uri == uri
                    && exchange.status == Some(404)
                    && by_cloud
            });
            assert!(said, "nobody said of {id} that it is gone: {need:?} {fault:?}");
            Some(false)
        }
    });
    known.collect()
}

#[tokio::test]
async fn absent_is_said_of_what_the_cloud_said_it_of_whatever_fails() {
    let rig = rig().await;
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        // A few are asked for one by one; more in listings.
        for ids in [&[1, GPU, GONE][..], &[1, 2, 3, 4, 5, GPU, GONE][..]] {
            let good = find(&rig, ids, need, None).await;
            let requests = rig.requests();
            let (there, others) = good.split_at(ids.len() - 1);
            assert!(there.iter().all(|found| *found == Some(true)), "{need:?} {ids:?}: {good:?}");
            assert_eq!(others[0], Some(false), "{need:?} {ids:?}: {good:?}");
            assert_eq!(others[2], None, "{need:?} {ids:?}: {good:?}");
            for nth in 1..=requests {
                for &(when, act) in FAULTS {
                    for times in [1, 3] {
                        let fault = Fault { times, ..Fault::new(Requests::All, nth, when, act) };
                        let found = find(&rig, ids, need, Some(fault)).await;
                        let lied = act == Act::Status(404);
                        for (place, id) in ids.iter().enumerate().filter(|(_, id)| **id != GONE) {
                            assert!(lied || found[place] != Some(false), "{id} is there: {need:?} {fault:?}");
                        }
                    }
                }
            }
        }
    }
    rig.cloud.check().unwrap();
}

/// So are all droplets of the cluster to its token.
#[tokio::test]
async fn an_account_with_other_droplets_than_the_clusters_proves_nothing() {
    let rig = rig().await;
    rig.nodes.set([101, 102, GONE]);
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        assert_eq!(find(&rig, &[GONE], need, None).await[0], None, "{need:?}");
    }
    rig.nodes.set([101, 2, GONE]);
    assert_eq!(find(&rig, &[GONE], Need::Proof, None).await[0], Some(false), "it sees one of them");
}

/// To a token of another account every droplet of ours is gone.
#[tokio::test]
async fn an_account_without_any_droplet_proves_nothing() {
    let rig = Rig::start(&[]).await;
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        assert_eq!(find(&rig, &[GONE], need, None).await, [None; 3], "{need:?}");
    }
}

#[tokio::test]
async fn a_token_that_is_not_let_in_proves_nothing() {
    let rig = rig().await;
    assert!(rig.cloud.revoke(ccm_sim_digitalocean::TOKEN));
    for need in [Need::Metadata, Need::Existence, Need::Proof] {
        let found = find(&rig, &[1, GPU, GONE], need, None).await;
        assert!(found.iter().all(Option::is_none), "{need:?}: {found:?}");
    }
}
