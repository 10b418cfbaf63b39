//! Load balancers that somebody breaks at the cloud, and that come back.

use ccm_cluster::{NodeFixture, register_nodes};
use ccm_e2e::balancer_cloud::{Balancer, Kind};
use futures::future::join_all;
use kube::Client;
use serde_json::json;

use crate::look::await_event;
use crate::service_look::{assert_one_each, await_served, balanced, owned, serve_whole};
use crate::stage::{LIMIT, Stage};

async fn join(client: &Client, name: &str) {
    let node = NodeFixture::new(name).initialized().provider_id(&format!("balancer://{name}"));
    register_nodes(client, [node]).await.unwrap();
}

/// The balancer is there, so that nobody makes it again, and yet no update will ever succeed.
#[tokio::test]
async fn what_somebody_deleted_comes_back_with_the_second_try_after_a_node_joins() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    // How the cloud answers a change of the members of a pool that is gone. None: all of the balancer is gone.
    let cases = [("not-found", Some(404)), ("conflict", Some(409)), ("unprocessable", Some(422)), ("all", None)];
    for (name, status) in cases {
        let [balancer] = owned(&cloud, &serve_whole(client, name, json!({})).await).try_into().unwrap();
        match status {
            Some(status) => cloud.lose_pool(&balancer.id, status),
            None => cloud.lose(&balancer.id),
        }
    }

    join(client, "n3").await;
    let has_all = |balancer: &Balancer| balancer.spec.members == ["n1", "n2", "n3"];
    cloud.await_balancers(LIMIT, |all| all.len() == cases.len() && all.iter().all(has_all)).await.unwrap();
    join_all(cases.map(|(name, _)| await_served(client, name))).await;
    assert_one_each(client, &cloud).await;
    let pools = cases.iter().filter(|(_, status)| status.is_some()).count();
    assert_eq!(
        (cloud.count(Kind::Members), cloud.count(Kind::Replace)),
        (pools, pools),
        "one try each, then an ensure"
    );
    for (name, _) in cases.iter().filter(|(_, status)| status.is_some()) {
        await_event(client, name, "Warning", "UpdateLoadBalancerFailed", &["has no pool"]).await;
        await_event(client, name, "Normal", "EnsuredLoadBalancer", &[]).await;
    }

    // From now on an update is enough again.
    join(client, "n4").await;
    let has_four = |balancer: &Balancer| balancer.spec.members.len() == 4;
    cloud.await_balancers(LIMIT, |all| all.len() == cases.len() && all.iter().all(has_four)).await.unwrap();
    assert_eq!((cloud.count(Kind::Members), cloud.count(Kind::Replace)), (pools + cases.len(), pools));
    host.end().await;
}
