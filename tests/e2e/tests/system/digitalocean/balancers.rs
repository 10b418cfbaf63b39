//! Services and their load balancers.

use std::time::Duration;

use ccm_cluster::{NodeFixture, await_absent};
use ccm_sim_digitalocean::{Act, Command, DigitalOcean, Endpoint, Fault, Requests, When};
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
    let before = cloud.balancers().remove(0).spec;
    change(client, "web", &with("size-unit", "many")).await;
    let message = await_reason(client, "web", "InvalidService").await;
    assert!(message.contains("size-unit has the value \"many\""), "{message}");
    assert_eq!(cloud.balancers().remove(0).spec, before);
    // Its droplets follow the Nodes all the same.
    members(client, &cloud, &[104]).await;
    await_members(&cloud, &balancer.id, &[102, 103, 104]).await;
    await_reason(client, "web", "InvalidService").await;
    assert_eq!(of(&cloud, &the(client, "web").await).spec.size_unit, 3);

    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    assert_eq!((cloud.done(Endpoint::CreateBalancer), cloud.done(Endpoint::DeleteBalancer)), (1, 1));
    cloud.settled(&stage).await;
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
    cloud.settled(&stage).await;
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
    cloud.settled(&stage).await;
    delete(client, "new").await;
    await_absent(&services(client), "new", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

#[tokio::test]
async fn of_two_services_with_the_same_name_the_second_neither_takes_nor_deletes_the_load_balancer_of_the_first() {
    Box::pin(two_services_with_the_same_name(true)).await;
}

#[tokio::test]
async fn the_same_holds_where_the_cloud_does_not_tell_the_tags_of_load_balancers() {
    Box::pin(two_services_with_the_same_name(false)).await;
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
    // Whose deletion was answered with nonsense leaves its tag behind.
    assert!(
        cloud.tags().contains(&of_first),
        "the one of its predecessor went from the load balancer, not from the account"
    );
    cloud.settled(&stage).await;
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
    cloud.settled(&stage).await;
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
    assert_eq!(cloud.counters().effects, 1);
    // Deleted by its owner, also while it is like this.
    assert!(has_finalizer(&the(client, "web").await));
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), []);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Once a 422 of unknown meaning was taken for a mistake of the Service, which waited for half a day; and its Nodes with it.
#[tokio::test]
async fn an_answer_that_nobody_foresaw_is_tried_again_and_the_nodes_do_not_wait_for_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[501]).await;
    let refuse = |of, times| {
        let fault = Fault::new(Requests::Of(of), 1, When::Before, Act::Status(422));
        drop(cloud.plan(Fault { times, ..fault }));
    };
    refuse(Endpoint::CreateBalancer, 2);
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    let (_, balancer) = await_balanced(client, &cloud, "web").await;

    // Not in the first hour.
    cloud.advance(Duration::from_secs(3_600));
    refuse(Endpoint::UpdateBalancer, 1_000);
    change(client, "web", &with("size-unit", "3")).await;
    await_reason(client, "web", "CloudFailed").await;
    members(client, &cloud, &[502]).await;
    await_members(&cloud, &balancer.id, &[501, 502]).await;
    assert_eq!(cloud.balancers()[0].spec.size_unit, 1);
    cloud.forget_faults();
    cloud.until(LIMIT, |cloud| cloud.balancers()[0].spec.size_unit == 3).await.unwrap();
    await_service(client, "web", is_served).await;
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Once one of them stopped every load balancer.
#[tokio::test]
async fn a_node_of_another_cloud_is_left_out_and_told_once() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[601]).await;
    let foreign = NodeFixture::new("foreign").initialized().provider_id("cloudlycke://m-1");
    foreign.address("ExternalIP", "198.51.100.7").register(client).await.unwrap();
    let host = start(&stage, &cloud, &[], &[]);
    for name in ["web", "api"] {
        serve(client, name, json!({})).await;
        let (_, balancer) = await_balanced(client, &cloud, name).await;
        assert_eq!(balancer.spec.droplet_ids, [601]);
    }
    members(client, &cloud, &[602]).await;
    for balancer in cloud.balancers() {
        await_members(&cloud, &balancer.id, &[601, 602]).await;
    }
    let named = ["behind no load balancer of DigitalOcean", "foreign (cloudlycke://m-1)"];
    host.await_log(LIMIT, &named).await.unwrap();
    let told = host.log().into_iter().filter(|line| named.iter().all(|part| line.contains(part))).count();
    assert_eq!(told, 1);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Counted where nothing fails: each request that is not needed, and each that is missing, is seen.
#[tokio::test]
async fn the_life_of_a_service_costs_one_write_for_each_thing_that_changes() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[501, 502]).await;
    let host = start(&stage, &cloud, &[], &[]);
    let (create, update, remove) = (Endpoint::CreateBalancer, Endpoint::UpdateBalancer, Endpoint::DeleteBalancer);
    let costs = |writes: [usize; 3]| assert_eq!([create, update, remove].map(|endpoint| cloud.count(endpoint)), writes);
    serve(client, "web", with("name", "shop")).await;
    let (service, balancer) = await_balanced(client, &cloud, "web").await;
    let own = format!("wasm-ccm-service:{}:default:web", service.uid().unwrap());
    assert_eq!((balancer.spec.tags, cloud.tags()), (vec![own.clone()], vec![own]));
    assert_eq!(cloud.counters().writes, 1, "the tag costs no write of its own");
    costs([1, 0, 0]);
    // Not in the first hour.
    cloud.advance(Duration::from_secs(3_600));
    change(client, "web", &with("size-unit", "3")).await;
    cloud.until(LIMIT, |cloud| cloud.balancers()[0].spec.size_unit == 3).await.unwrap();
    nodes(client).delete("n501", &DeleteParams::default()).await.unwrap();
    await_members(&cloud, &balancer.id, &[502]).await;
    costs([1, 2, 0]);
    change(client, "web", &with("size-unit", "many")).await;
    await_reason(client, "web", "InvalidService").await;
    costs([1, 2, 0]);
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    costs([1, 2, 1]);
    assert_eq!(cloud.tags(), [""; 0], "a tag goes with its load balancer");

    cloud.set(|settings| settings.provisioning_fails = true);
    serve(client, "broken", json!({})).await;
    await_reason_with(client, "broken", "CloudFailed", &["unexpected status \"errored\""]).await;
    assert_eq!((cloud.count(create), cloud.count(update)), (2, 2), "a PUT would change nothing");
    cloud.waits(&stage, "Service default/broken", "unexpected status").await;
    host.end().await;
    cloud.check().unwrap();
}

/// It once said no word where the prefix was misspelt, and cost a call where the rest was.
#[tokio::test]
async fn do_281_a_misspelt_annotation_is_told_with_the_name_that_was_meant_and_changes_nothing() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::calm().await;
    members(client, &cloud, &[701]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    await_balanced(client, &cloud, "web").await;
    cloud.reset_counters();
    let misspelt = "service.beta.kubernetes.io/do-loadbalacer-protocol";
    change(client, "web", &annotated([(format!("{PREFIX}protcol").as_str(), "http"), (misspelt, "http")])).await;
    let parts = [misspelt, "do-loadbalancer-protcol, which has no effect", &format!("{PREFIX}protocol would be one")];
    await_event(client, "web", "Warning", "LoadBalancerAnnotationUnknown", &parts).await;
    assert_eq!(cloud.counters().writes, 0);
    // It keeps nothing from what is written as it should be.
    change(client, "web", &with("size-unit", "many")).await;
    await_reason(client, "web", "InvalidService").await;
    cloud.waits(&stage, "Service default/web", "size-unit").await;
    host.end().await;
    cloud.check().unwrap();
}
