//! Services and their load balancers.

use std::time::Duration;

use ccm_cluster::await_absent;
use ccm_sim_digitalocean::{Command, DigitalOcean, Endpoint};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{Cloud, ID, await_balanced, await_members, is_served, members, of, start};
use crate::look::{await_event, nodes};
use crate::service_look::{
    annotated, await_reason, await_reason_with, await_service, change, delete, has_finalizer, ips, serve, services, the,
};
use crate::stage::{LIMIT, Stage};

const PREFIX: &str = "service.beta.kubernetes.io/do-loadbalancer-";
const DISOWN: &str = "service.kubernetes.io/do-loadbalancer-disown";

fn with(suffix: &str, value: &str) -> Value {
    annotated([(format!("{PREFIX}{suffix}").as_str(), value)])
}

/// `a` and the UID.
fn default_name(service: &Service) -> String {
    format!("a{}", service.uid().unwrap().replace('-', ""))[..32].to_owned()
}

#[tokio::test]
async fn do_256_257_258_a_service_has_a_load_balancer_that_follows_it_and_the_nodes_until_it_is_deleted() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.set(|settings| settings.provisioning = Duration::from_secs(1_000));
    members(client, &cloud, &[101, 102]).await;
    let host = start(&stage, &cloud, &[], &[]);

    serve(client, "web", json!({})).await;
    await_reason_with(client, "web", "CloudPending", &["currently being created"]).await;
    cloud.advance(Duration::from_secs(1_000));
    let (service, balancer) = await_balanced(client, &cloud, "web").await;
    assert_eq!(ips(&service), [balancer.ip.to_string()]);
    let spec = &balancer.spec;
    assert_eq!((spec.name.as_str(), spec.kind.as_str()), (default_name(&service).as_str(), "REGIONAL_NETWORK"));
    assert_eq!((spec.region.as_str(), &spec.droplet_ids[..]), ("nyc3", &[101, 102][..]));
    if cloud.is_calm() {
        assert_eq!((cloud.count(Endpoint::CreateBalancer), cloud.count(Endpoint::UpdateBalancer)), (1, 0), "one write");
    }
    assert_eq!((cloud.done(Endpoint::CreateBalancer), cloud.done(Endpoint::UpdateBalancer)), (1, 0));

    // Not in the first hour.
    cloud.advance(Duration::from_secs(3_600));
    change(client, "web", &with("size-unit", "3")).await;
    change(client, "web", &json!({ "spec": { "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }] } }))
        .await;
    let changed = |cloud: &DigitalOcean| {
        let spec = &cloud.balancers()[0].spec;
        (spec.size_unit, spec.forwarding_rules.len()) == (3, 2)
    };
    cloud.until(LIMIT, changed).await.unwrap();
    members(client, &cloud, &[103]).await;
    await_members(&cloud, &balancer.id, &[101, 102, 103]).await;
    nodes(client).delete("n101", &DeleteParams::default()).await.unwrap();
    await_members(&cloud, &balancer.id, &[102, 103]).await;
    assert_eq!(of(&cloud, &the(client, "web").await).spec.size_unit, 3, "what else there is stays");

    // What it asks for in vain changes nothing, and is told.
    let (writes, before) = (cloud.counters().writes, cloud.balancers().remove(0).spec);
    change(client, "web", &with("size-unit", "many")).await;
    let message = await_reason(client, "web", "InvalidService").await;
    assert!(message.contains("size-unit has the value \"many\""), "{message}");
    if cloud.is_calm() {
        assert_eq!(cloud.counters().writes, writes);
    }
    assert_eq!(cloud.balancers().remove(0).spec, before);

    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    assert_eq!((cloud.done(Endpoint::CreateBalancer), cloud.done(Endpoint::DeleteBalancer)), (1, 1));
    if cloud.is_calm() {
        assert_eq!(cloud.count(Endpoint::DeleteBalancer), 1);
    }
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_size_waits_for_its_hour_with_a_condition_that_says_until_when_and_nothing_else_waits() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[151]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    let (service, balancer) = await_balanced(client, &cloud, "web").await;
    change(client, "web", &with("size-unit", "3")).await;
    let waits = ["keeps the size 1 node until 20", "and gets 3 nodes then", "resized once every hour"];
    await_reason_with(client, "web", "CloudPending", &waits).await;
    change(client, "web", &with("deny-rules", "ip:203.0.113.9")).await;
    members(client, &cloud, &[152]).await;
    await_members(&cloud, &balancer.id, &[151, 152]).await;
    let denied = |cloud: &DigitalOcean| cloud.balancers()[0].spec.firewall.deny == ["ip:203.0.113.9"];
    cloud.until(LIMIT, denied).await.unwrap();
    await_reason_with(client, "web", "CloudPending", &waits).await;
    assert_eq!(ips(&the(client, "web").await), ips(&service), "traffic goes on");
    assert_eq!(cloud.balancers()[0].spec.size_unit, 1);

    // Who comes new asks at once.
    host.end().await;
    cloud.advance(Duration::from_secs(3_600));
    let host = start(&stage, &cloud, &[], &[]);
    cloud.until(LIMIT, |cloud| cloud.balancers()[0].spec.size_unit == 3).await.unwrap();
    await_balanced(client, &cloud, "web").await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn a_load_balancer_is_handed_from_one_service_to_another_without_losing_its_address() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[201]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "old", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "old").await;

    change(client, "old", &annotated([(DISOWN, "true")])).await;
    change(client, "old", &with("size-unit", "9")).await;
    serve(client, "new", annotated([(ID, &balancer.id)])).await;
    let (service, adopted) = await_balanced(client, &cloud, "new").await;
    assert_eq!((adopted.id.as_str(), ips(&service)), (balancer.id.as_str(), vec![balancer.ip.to_string()]));
    let renamed = |cloud: &DigitalOcean| cloud.balancers()[0].spec.name == default_name(&service);
    cloud.until(LIMIT, renamed).await.unwrap();
    delete(client, "old").await;
    await_absent(&services(client), "old", LIMIT).await.unwrap();
    let left = cloud.balancers();
    assert_eq!((left.len(), left[0].spec.size_unit, cloud.count(Endpoint::DeleteBalancer)), (1, 1, 0));
    assert_eq!(cloud.done(Endpoint::CreateBalancer), 1);
    delete(client, "new").await;
    await_absent(&services(client), "new", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn of_two_services_with_the_same_name_the_second_neither_takes_nor_deletes_the_load_balancer_of_the_first() {
    two_services_with_the_same_name(true).await;
}

#[tokio::test]
async fn the_same_holds_where_the_cloud_does_not_tell_the_tags_of_load_balancers() {
    two_services_with_the_same_name(false).await;
}

async fn two_services_with_the_same_name(tells: bool) {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.set(|settings| settings.tells_balancer_tags = tells);
    members(client, &cloud, &[251]).await;
    let host = start(&stage, &cloud, &[], &[]);
    let named = || with("name", "shop");
    serve(client, "first", named()).await;
    let (first, balancer) = await_balanced(client, &cloud, "first").await;
    let of_first = format!("wasm-ccm-service:{}:default:first", first.uid().unwrap());
    assert_eq!((balancer.spec.name.as_str(), &balancer.spec.tags), ("shop", &vec![of_first.clone()]));
    if cloud.is_calm() {
        assert_eq!(cloud.counters().writes, 1, "the tag costs no write of its own");
    }
    let effects = cloud.counters().effects;

    serve(client, "second", named()).await;
    let second = the(client, "second").await;
    let uids = [first.uid().unwrap(), second.uid().unwrap()];
    let whose = ["default/first", &uids[0], &uids[1]];
    let words = [&["\"shop\"", "default/second", &balancer.id, ID][..], if tells { &whose } else { &[] }].concat();
    await_reason_with(client, "second", "CloudConflict", &words).await;
    delete(client, "second").await;
    await_absent(&services(client), "second", LIMIT).await.unwrap();
    assert_eq!((cloud.balancers(), cloud.counters().effects), (vec![balancer.clone()], effects));

    // Left to whoever comes next, who says so.
    change(client, "first", &annotated([(DISOWN, "true")])).await;
    delete(client, "first").await;
    await_absent(&services(client), "first", LIMIT).await.unwrap();
    serve(client, "first", named()).await;
    await_reason(client, "first", "CloudConflict").await;
    change(client, "first", &annotated([(ID, &balancer.id)])).await;
    let (again, adopted) = await_balanced(client, &cloud, "first").await;
    let of_again = format!("wasm-ccm-service:{}:default:first", again.uid().unwrap());
    // What is not told is not changed.
    let tags = if tells { vec![of_again] } else { vec![of_first.clone()] };
    assert_eq!((adopted.id, adopted.spec.tags), (balancer.id, tags));
    assert_eq!(ips(&again), ips(&first));
    if tells {
        await_event(client, "first", "Warning", "LoadBalancerTakenOver", &[&of_first]).await;
    }
    delete(client, "first").await;
    await_absent(&services(client), "first", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    if cloud.is_calm() {
        // The one of its predecessor had gone from the load balancer, and not from the account.
        assert_eq!(cloud.tags(), [of_first], "a tag goes with its load balancer");
    }
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn what_somebody_changes_in_the_cloud_is_put_right_and_what_is_deleted_there_is_made_again() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[301]).await;
    let host = start(&stage, &cloud, &[], &["--service-verify-period=1s"]);
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;
    assert!(cloud.tamper(&balancer.id, |spec| spec.droplet_ids.clear()));
    await_members(&cloud, &balancer.id, &[301]).await;
    await_event(client, "web", "Warning", "LoadBalancerDrifted", &["droplets"]).await;

    cloud.command(Command::RemoveBalancer { id: balancer.id.clone() }).unwrap();
    let again = |service: &Service| is_served(service) && service.annotations().get(ID) != Some(&balancer.id);
    let service = await_service(client, "web", again).await;
    assert_eq!(ips(&service), [of(&cloud, &service).ip.to_string()]);
    await_event(client, "web", "Warning", "LoadBalancerRecreated", &[&balancer.id]).await;
    assert_eq!((cloud.balancers().len(), cloud.done(Endpoint::CreateBalancer)), (1, 2));
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn one_that_cannot_be_made_says_so_and_is_left_behind_by_nobody() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    cloud.set(|settings| settings.provisioning_fails = true);
    members(client, &cloud, &[401]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    await_reason_with(client, "web", "CloudFailed", &["unexpected status \"errored\""]).await;
    if cloud.is_calm() {
        assert_eq!(cloud.counters().writes, 1, "a PUT would change nothing");
    }
    assert_eq!(cloud.counters().effects, 1);
    // Deleted by its owner, also while it is like this.
    assert!(has_finalizer(&the(client, "web").await));
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    host.end().await;
    cloud.check().unwrap();
}
