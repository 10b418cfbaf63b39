//! `--load-balancer-class`: whose Services a provider serves.

use std::time::Duration;

use serde_json::{Value, json};

use crate::service_look::{await_served, balancing, change, cloud, is_served, owned, serve, the, two_nodes};
use crate::stage::Stage;

#[tokio::test]
async fn services_with_a_class_of_the_flags_are_served_beside_those_without_one_and_no_others_are() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let of = |class: &str| json!({ "spec": { "loadBalancerClass": class } });
    let other = serve(client, "other", of("example.com/other")).await;
    let host = balancing(&stage, &cloud, &["--load-balancer-class=example.com/fast", "--load-balancer-class=slow"]);
    host.ready().await;
    let none: Value = json!({});
    for (name, differs) in [("fast", of("example.com/fast")), ("slow", of("slow")), ("none", none)] {
        serve(client, name, differs).await;
        await_served(client, name).await;
    }
    // A change of it is no reason either, and one that is served shows that it was looked at.
    change(client, "other", &json!({ "spec": { "sessionAffinity": "ClientIP" } })).await;
    change(client, "none", &json!({ "spec": { "ports": [{ "port": 443 }] } })).await;
    cloud
        .await_balancers(crate::stage::LIMIT, |all| all.iter().any(|one| one.spec.ports[0]["port"] == 443))
        .await
        .unwrap();
    assert_eq!(cloud.balancers().len(), 3);
    let left = the(client, "other").await;
    assert!(owned(&cloud, &other).is_empty() && !is_served(&left));
    assert_eq!((left.metadata.finalizers, left.metadata.annotations), (None, None));
    host.end().await;
}
