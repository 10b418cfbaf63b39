//! What a Service says of its load balancer, and who is believed: not the configuration, nor exports, nor whoever may change
//! annotations.

use std::time::Duration;

use ccm_cluster::await_absent;
use ccm_e2e::balancer_cloud::{BalancerCloud, Kind};
use ccm_e2e::host::component;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::look::await_event;
use crate::service_look::{
    FINALIZER, QUICK, annotated, await_served, await_service, balanced, balancing, change, cloud, delete,
    has_finalizer, ips, is_served, owned, recorded, serve, serve_whole, services, the, told, two_nodes,
};
use crate::stage::{Actor, LIMIT, Stage, cloudlycke};

const CLASS: &str = "balancer.example/web";

/// Waits until as many Services are stranded.
async fn await_stranded(host: &Actor, many: f64) {
    let labels = ["reason=\"Stranded\""];
    host.await_count("ccm_services_not_ready", &labels, LIMIT, |stranded| stranded == many).await.unwrap();
}

/// A flag with a typing error, or a provider that is gone, once deleted every load balancer of that class.
#[tokio::test]
async fn a_class_or_a_provider_that_is_not_configured_any_more_deletes_nothing_and_all_is_well_when_it_is_back() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let right = format!("--load-balancer-class={CLASS}");
    let host = balancing(&stage, &cloud, &[&right]);
    let names = ["a", "b"];
    for name in names {
        serve_whole(client, name, json!({ "spec": { "loadBalancerClass": CLASS } })).await;
    }
    host.end().await;
    let (balancers, writes) = (ids(&cloud), cloud.write_requests());
    let before = [the(client, "a").await, the(client, "b").await];

    let misspelt = format!("--load-balancer-class={CLASS}s");
    // Both without the class and without the provider.
    type Start<'a> = Box<dyn Fn() -> Actor + 'a>;
    let hosts: [(&str, Start<'_>); 3] = [
        ("does not serve the class", Box::new(|| balancing(&stage, &cloud, &[&misspelt]))),
        ("does not serve the class", Box::new(|| balancing(&stage, &cloud, &[]))),
        (
            "is not configured here",
            Box::new(|| {
                stage.start(
                    [format!("--provider={}", cloudlycke().display()), right.clone()]
                        .iter()
                        .map(String::as_str)
                        .chain(QUICK),
                )
            }),
        ),
    ];
    for (why, start) in hosts {
        let host = start();
        await_stranded(&host, 2.0).await;
        for name in names {
            await_event(client, name, "Warning", "LoadBalancerStranded", &["\"balancer\"", why]).await;
        }
        host.end().await;
        assert_eq!((cloud.write_requests(), ids(&cloud)), (writes, balancers.clone()), "{why}");
        assert_eq!([the(client, "a").await, the(client, "b").await], before, "{why}");
    }

    let host = balancing(&stage, &cloud, &[&right]);
    host.idle("service", 2).await;
    await_stranded(&host, 0.0).await;
    assert_eq!(cloud.write_requests(), writes);
    assert_eq!([the(client, "a").await, the(client, "b").await], before);
    host.end().await;

    // Who goes takes its load balancer along, and who gives it up leaves it.
    let host = balancing(&stage, &cloud, &[]);
    await_stranded(&host, 2.0).await;
    delete(client, "a").await;
    await_absent(&services(client), "a", LIMIT).await.unwrap();
    change(client, "b", &annotated([("wasm-ccm.io/orphan", "balancer")])).await;
    await_service(client, "b", |service| !has_finalizer(service) && recorded(service).is_none()).await;
    await_stranded(&host, 0.0).await;
    delete(client, "b").await;
    await_absent(&services(client), "b", LIMIT).await.unwrap();
    let left: Vec<String> = cloud.balancers().into_iter().map(|balancer| balancer.spec.owner).collect();
    assert_eq!(left, [before[1].uid().unwrap()]);
    host.end().await;
}

/// The same provider, whose configuration has no load balancers any more.
#[tokio::test]
async fn a_provider_that_makes_no_load_balancers_any_more_says_so_of_those_that_it_has() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let host = stage.cloudlycke(&QUICK);
    let before = serve_whole(client, "web", json!({})).await;
    host.end().await;
    let host = stage.configured("loadBalancer: {mode: none}\n", &QUICK);
    await_stranded(&host, 1.0).await;
    let parts = ["\"cloudlycke\"", "makes no load balancers"];
    await_event(client, "web", "Warning", "LoadBalancerStranded", &parts).await;
    assert_eq!(the(client, "web").await, before);
    host.end().await;
    let host = stage.cloudlycke(&QUICK);
    host.idle("service", 1).await;
    assert_eq!(the(client, "web").await, before);
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    host.end().await;
}

/// What `kubectl get -o yaml` shows, without what `kubectl` and people leave out.
async fn exported(stage: &Stage, name: &str) -> Value {
    let mut export = serde_json::to_value(the(stage.client(), name).await).unwrap();
    let metadata = export["metadata"].as_object_mut().unwrap();
    for name in ["managedFields", "resourceVersion", "creationTimestamp"] {
        metadata.remove(name);
    }
    export["apiVersion"] = json!("v1");
    export["kind"] = json!("Service");
    export
}

fn ports(cloud: &BalancerCloud, service: &Service) -> Vec<u64> {
    owned(cloud, service)
        .iter()
        .flat_map(|balancer| &balancer.spec.ports)
        .filter_map(|port| port["port"].as_u64())
        .collect()
}

fn ids(cloud: &BalancerCloud) -> Vec<String> {
    cloud.balancers().into_iter().map(|balancer| balancer.id).collect()
}

/// The record once was an annotation, which came back with every export: nothing seemed to have changed, and nothing reached the cloud.
#[tokio::test]
async fn an_export_that_is_edited_and_applied_again_reaches_the_cloud() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    serve_whole(client, "web", json!({})).await;
    let export = exported(&stage, "web").await;
    let applied = ["apply", "replace", "apply"];
    for (round, port) in [443, 8_443, 80].into_iter().enumerate() {
        let mut edited = export.clone();
        edited["spec"]["ports"][0]["port"] = json!(port);
        let way = applied[round];
        if way == "apply" {
            services(client).patch("web", &PatchParams::default(), &Patch::Merge(&edited)).await.unwrap();
        } else {
            let mut newer: Service = serde_json::from_value(edited).unwrap();
            newer.metadata.resource_version = the(client, "web").await.resource_version();
            services(client).replace("web", &PostParams::default(), &newer).await.unwrap();
        }
        let service = the(client, "web").await;
        cloud.await_balancers(LIMIT, |_| ports(&cloud, &service) == [port]).await.unwrap();
        let service = await_served(client, "web").await;
        assert_eq!(u64::try_from(service.spec.unwrap().ports.unwrap()[0].port).unwrap(), port, "{way}");
    }
    // The status of an export reaches nothing, and neither does one of a new Service.
    let mut twin = export;
    twin["metadata"] = json!({ "name": "twin" });
    twin["spec"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("clusterIP"));
    twin["spec"]["ports"][0].as_object_mut().unwrap().remove("nodePort");
    let twin: Service = serde_json::from_value(twin).unwrap();
    let created = services(client).create(&PostParams::default(), &twin).await.unwrap();
    assert!(ips(&created).is_empty() && recorded(&created).is_none(), "{created:?}");
    let served = await_served(client, "twin").await;
    assert_ne!(ips(&served), ips(&the(client, "web").await));
    host.end().await;
}

/// Whoever may change Services may write annotations. One of them once said which provider has the load balancer.
#[tokio::test]
async fn an_annotation_neither_chooses_a_provider_nor_hides_a_change_and_is_taken_away() {
    let stage = Stage::new().await;
    let client = stage.client();
    two_nodes(client).await;
    let cloud = cloud(Duration::ZERO).await;
    let flags = cloud.flags();
    let after = |prefix: &str| flags.iter().find_map(|flag| flag.strip_prefix(prefix)).unwrap();
    let grants = json!({ "endpoints": { "api": after("--endpoint=api=") }, "allowHttp": true, "allowLoopback": true });
    let credentials = json!({ "token": after("--credential=token=") });
    let balancer = component("guests/balancer.wasm").unwrap();
    let first = json!({ "source": balancer, "grants": grants, "credentials": credentials });
    let second = json!({ "source": cloudlycke(), "loadBalancerClasses": ["cloudlycke.io/second"] });
    let file = stage.file("providers.yaml", json!([first, second]).to_string());
    let providers = format!("--providers={}", file.display());
    let start = || stage.start([providers.as_str()].into_iter().chain(QUICK));

    let host = start();
    let served = serve_whole(client, "web", json!({})).await;
    // What the release before would have written for the other provider: with the digest of the UID, and none else.
    let digest = recorded(&served).unwrap().message.split(' ').find_map(|part| part.strip_prefix("service=")).unwrap();
    let planted = annotated([("wasm-ccm.io/ensured", format!("v1:cloudlycke:{digest}:-:-").as_str())]);
    change(client, "web", &planted).await;
    host.end().await;
    let (balancers, writes) = (ids(&cloud), cloud.write_requests());
    let host = start();
    host.idle("service", 1).await;
    assert_eq!((ids(&cloud), cloud.write_requests()), (balancers, writes));
    change(client, "web", &json!({ "spec": { "ports": [{ "port": 443 }] } })).await;
    cloud.await_balancers(LIMIT, |_| ports(&cloud, &served) == [443]).await.unwrap();
    let is_clean = |service: &Service| is_served(service) && !service.annotations().contains_key("wasm-ccm.io/ensured");
    let now = await_service(client, "web", is_clean).await;
    assert_eq!(ips(&now), ips(&served));
    assert!(recorded(&now).unwrap().message.starts_with("v2 provider=balancer service="), "{now:?}");

    // A new one that says so itself, with the finalizer too.
    let mut new = planted;
    new["metadata"]["finalizers"] = json!([FINALIZER]);
    serve(client, "new", new).await;
    let new = await_service(client, "new", is_clean).await;
    assert_eq!(owned(&cloud, &new).len(), 1);
    host.end().await;
}

/// "Once more, please", and whoever writes the status is not believed either.
#[tokio::test]
async fn whoever_asks_for_it_or_replaces_the_record_has_the_load_balancer_looked_at_once_more() {
    let stage = Stage::new().await;
    let client = stage.client();
    let (cloud, host) = balanced(&stage).await;
    let first = serve_whole(client, "web", json!({})).await;
    let looks = cloud.count(Kind::Get);
    change(client, "web", &annotated([("wasm-ccm.io/ensure", "please")])).await;
    let is_done = |service: &Service| is_served(service) && !service.annotations().contains_key("wasm-ccm.io/ensure");
    await_service(client, "web", is_done).await;
    assert_eq!((cloud.count(Kind::Get) - looks, cloud.write_requests()), (1, 1), "it is as it should be");

    change(client, "web", &json!({ "spec": { "ports": [{ "port": 443 }] } })).await;
    cloud.await_balancers(LIMIT, |_| ports(&cloud, &first) == [443]).await.unwrap();
    await_served(client, "web").await;
    // Both come at once to who looks later.
    host.signal("STOP").await.unwrap();
    change(client, "web", &json!({ "spec": { "ports": [{ "port": 80, "nodePort": first.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port }] } })).await;
    let status = json!({ "status": { "conditions": first.status.as_ref().unwrap().conditions } });
    services(client).patch_status("web", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    host.signal("CONT").await.unwrap();
    cloud.await_balancers(LIMIT, |_| ports(&cloud, &first) == [80]).await.unwrap();
    await_served(client, "web").await;
    host.events_written().await;
    let warnings = told(client, "web").await.into_iter().filter(|line| line.starts_with("Warning"));
    assert_eq!(warnings.collect::<Vec<_>>(), [""; 0]);
    host.end().await;
}
