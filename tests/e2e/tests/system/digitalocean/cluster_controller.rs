//! What the cluster as a whole has: the public access firewall and its tag.

use ccm_sim_digitalocean::{DigitalOcean, Droplet, Endpoint, Firewall};
use serde_json::json;

use super::plan::all;
use super::{Cloud, ID, await_balanced, members, start};
use crate::look::await_event;
use crate::service_look::{annotated, change, delete, serve};
use crate::stage::{LIMIT, Stage};

const FIREWALL: [(&str, &str); 2] =
    [("PUBLIC_ACCESS_FIREWALL_NAME", "k8s-public"), ("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s-worker")];

/// What a firewall lets in: protocol, ports, and from where.
fn open(firewall: &Firewall) -> Vec<String> {
    let mut open: Vec<String> = firewall
        .spec
        .inbound_rules
        .iter()
        .map(|rule| {
            let sources = rule.sources.clone().unwrap_or_default();
            let from = [sources.addresses, sources.load_balancer_uids].concat();
            format!("{} {} from {}", rule.protocol, rule.ports, from.join(" "))
        })
        .collect();
    open.sort();
    open
}

async fn await_open(cloud: &DigitalOcean, wanted: &[&str]) {
    let is_open = |cloud: &DigitalOcean| cloud.firewalls().first().is_some_and(|firewall| open(firewall) == wanted);
    cloud.until(LIMIT, is_open).await.unwrap();
}

#[tokio::test]
async fn the_public_access_firewall_opens_what_services_need_and_nothing_else() {
    const NODE_PORT: &str = "tcp 30080 from 0.0.0.0/0 ::/0";
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[101]).await;
    // A tag has to be there before a firewall names it.
    cloud.put_droplet(Droplet { tags: vec!["k8s-worker".to_owned()], ..Droplet::new(102, "worker") });
    let host = start(&stage, &cloud, &FIREWALL, &["--cluster-period=1s"]);
    let node_port = json!({ "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }] } });
    serve(client, "ports", node_port).await;
    await_open(&cloud, &[NODE_PORT]).await;
    let firewall = cloud.firewalls().remove(0);
    assert_eq!((firewall.spec.name.as_str(), &firewall.spec.tags[..]), ("k8s-public", &["k8s-worker".to_owned()][..]));

    serve(client, "web", json!({ "spec": { "loadBalancerSourceRanges": ["192.0.2.0/24"] } })).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    let check = format!("tcp 10256 from {}", balancer.id);
    await_open(&cloud, &[&check, NODE_PORT, "tcp 80 from 192.0.2.0/24"]).await;

    // Somebody opens another one.
    let id = &firewall.id;
    assert!(
        cloud.tamper_firewall(id, |spec| spec.inbound_rules.iter_mut().for_each(|rule| rule.ports = "22".to_owned()))
    );
    await_open(&cloud, &[&check, NODE_PORT, "tcp 80 from 192.0.2.0/24"]).await;

    change(client, "ports", &annotated([("kubernetes.digitalocean.com/firewall-managed", "false")])).await;
    await_open(&cloud, &[&check, "tcp 80 from 192.0.2.0/24"]).await;
    delete(client, "web").await;
    await_open(&cloud, &[]).await;
    let looks = cloud.count(Endpoint::Firewalls);
    ccm_cluster::poll_until("two looks", LIMIT, || cloud.count(Endpoint::Firewalls) >= looks + 2).await.unwrap();
    await_open(&cloud, &[]).await;
    assert_eq!(cloud.firewalls().len(), 1);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn load_balancers_have_the_clusters_tag_also_those_that_are_taken_over() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[201]).await;
    let untagged = start(&stage, &cloud, &[], &[]);
    serve(client, "old", json!({})).await;
    let (_, old) = await_balanced(client, &cloud, "old").await;
    assert_eq!(old.spec.tags, [""; 0]);
    untagged.end().await;

    let host = start(&stage, &cloud, &[("DO_CLUSTER_ID", "0caf4c4e-e835")], &["--cluster-period=1s"]);
    let tag = "k8s:0caf4c4e-e835";
    let all_tagged = |cloud: &DigitalOcean, count: usize| {
        let balancers = cloud.balancers();
        balancers.len() == count && balancers.iter().all(|balancer| balancer.spec.tags == [tag])
    };
    cloud.until(LIMIT, |cloud| all_tagged(cloud, 1)).await.unwrap();
    serve(client, "new", json!({})).await;
    let (_, new) = await_balanced(client, &cloud, "new").await;
    assert_eq!((new.spec.tags, cloud.tags()), (vec![tag.to_owned()], vec![tag.to_owned()]));
    // One that is not there is nobody's harm.
    serve(client, "wrong", annotated([(ID, "6f0c9ab5-5d0c-4000-8000-000000000000")])).await;
    await_balanced(client, &cloud, "wrong").await;
    await_event(client, "wrong", "Warning", "LoadBalancerRecreated", &["6f0c9ab5-5d0c-4000-8000-000000000000"]).await;
    let looks = cloud.count(Endpoint::Balancers);
    ccm_cluster::poll_until("more looks", LIMIT, || cloud.count(Endpoint::Balancers) >= looks + 2).await.unwrap();
    assert!(all_tagged(&cloud, 3));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Counted where nothing fails: what is as it should be is looked at, and not written.
#[tokio::test]
async fn what_the_cluster_as_a_whole_has_is_written_once() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[301]).await;
    cloud.put_droplet(Droplet { tags: vec!["k8s-worker".to_owned()], ..Droplet::new(302, "worker") });
    let untagged = start(&stage, &cloud, &[], &[]);
    serve(client, "old", json!({})).await;
    await_balanced(client, &cloud, "old").await;
    untagged.end().await;

    let environment = [&FIREWALL[..], &[("DO_CLUSTER_ID", "0caf4c4e-e835")]].concat();
    let planned = all(&stage, &cloud, &environment, &[]).await;
    let writes = planned.writes("Cluster digitalocean");
    assert!(!writes.is_empty() && writes.iter().all(|write| write.starts_with("cloud POST /v2/")), "{planned:?}");
    assert_eq!(planned.object("Cluster digitalocean")["moreMayFollow"], true);
    let host = start(&stage, &cloud, &environment, &["--cluster-period=1s"]);
    let is_tagged = |cloud: &DigitalOcean| cloud.balancers()[0].spec.tags.contains(&"k8s:0caf4c4e-e835".to_owned());
    cloud.until(LIMIT, is_tagged).await.unwrap();
    assert_eq!(cloud.count(Endpoint::TagResources), 2, "the tag had to be made in between");
    serve(client, "new", json!({})).await;
    await_balanced(client, &cloud, "new").await;
    let looks = || (cloud.count(Endpoint::Balancers), cloud.count(Endpoint::Firewalls));
    let mut written = vec![];
    // The firewall follows the Service that has just come; then there is nothing more to do.
    while written.len() < 2 || written.last() != written.get(written.len() - 2) {
        assert!(written.len() < 8, "each look writes: {written:?}");
        let before = looks();
        let seen_again = || looks().0 >= before.0 + 2 && looks().1 >= before.1 + 2;
        ccm_cluster::poll_until("two more looks", LIMIT, seen_again).await.unwrap();
        written.push(cloud.counters().writes);
    }
    assert_eq!(cloud.firewalls().len(), 1);
    assert_eq!(cloud.count(Endpoint::TagResources), 2, "the other one was tagged at its creation");
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
