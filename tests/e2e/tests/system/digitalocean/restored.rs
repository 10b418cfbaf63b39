//! Services that come from a backup or an export, with the ID of a load balancer.

use ccm_cluster::await_absent;
use ccm_sim_digitalocean::{DigitalOcean, Endpoint};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{Cloud, ID, await_balanced, is_served, members, start};
use crate::look::await_event;
use crate::service_look::{
    annotated, await_reason_with, await_service, change, delete, has_finalizer, ips, recorded, serve, services, the,
    told,
};
use crate::stage::{LIMIT, Stage};

const NAME: &str = "service.beta.kubernetes.io/do-loadbalancer-name";

/// What a backup has of a Service.
async fn backup(client: &Client, name: &str) -> Value {
    serde_json::to_value(the(client, name).await).unwrap()
}

/// As a backup tool makes it again: without what only a cluster knows, with finalizers and annotations, and with the status, of which
/// nothing is left out.
async fn restore(client: &Client, backup: &Value) -> Service {
    let name = backup["metadata"]["name"].as_str().unwrap();
    let mut service = backup.clone();
    service["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| ["name", "annotations", "finalizers"].contains(&field.as_str()));
    service["metadata"]["labels"] = json!({ "velero.io/restore-name": "restore-1" });
    service["spec"].as_object_mut().unwrap().retain(|field, _| !field.starts_with("clusterIP"));
    for port in service["spec"]["ports"].as_array_mut().unwrap() {
        port.as_object_mut().unwrap().remove("nodePort");
    }
    let service: Service = serde_json::from_value(service).unwrap();
    let service = services(client).create(&PostParams::default(), &service).await.unwrap();
    let status = json!({ "status": backup["status"] });
    services(client).patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    service
}

/// The cluster loses it, as with its etcd: nobody deletes anything.
async fn lose(client: &Client, name: &str) {
    change(client, name, &json!({ "metadata": { "finalizers": null } })).await;
    drop(services(client).delete(name, &DeleteParams::default()).await.unwrap());
    await_absent(&services(client), name, LIMIT).await.unwrap();
}

/// Waits until a restored Service has its old load balancer again, and the tag or the name of that is its own. What was restored looks
/// as if it were served, but for whom.
async fn await_taken_over(client: &Client, before: &Service, id: &str) -> Service {
    let said = &recorded(before).unwrap().message;
    let is_new = |now: &Service| recorded(now).is_some_and(|now| now.status == "True" && now.message != *said);
    let is_own =
        |now: &Service| is_new(now) && is_served(now) && now.annotations().get(ID).is_some_and(|own| own == id);
    await_service(client, &before.name_any(), is_own).await
}

fn ids(cloud: &DigitalOcean) -> Vec<String> {
    cloud.balancers().into_iter().map(|balancer| balancer.id).collect()
}

/// They once had new load balancers with new addresses, and the old ones were paid for for ever.
#[tokio::test]
async fn restored_services_have_their_load_balancers_and_addresses_again_by_the_mark_at_the_cloud() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[501]).await;
    let mut host = start(&stage, &cloud, &[], &[]);
    // One is marked by its default name, the other by a tag.
    serve(client, "web", json!({})).await;
    serve(client, "shop", annotated([(NAME, "shop")])).await;
    let names = ["web", "shop"];
    let mut before = vec![];
    for name in names {
        before.push(await_balanced(client, &cloud, name).await);
    }
    let balancers = ids(&cloud);
    let backups = [backup(client, "web").await, backup(client, "shop").await];
    host.signal("KILL").await.unwrap();
    host.wait(LIMIT).await.unwrap();
    for name in names {
        lose(client, name).await;
    }
    for backup in &backups {
        restore(client, backup).await;
    }
    let host = start(&stage, &cloud, &[], &[]);
    for (name, (service, balancer)) in names.into_iter().zip(&before) {
        let parts = [balancer.id.as_str(), ID, "wasm-ccm.io/orphan: digitalocean"];
        await_event(client, name, "Normal", "LoadBalancerAdopted", &parts).await;
        let now = await_taken_over(client, service, &balancer.id).await;
        assert_ne!(now.uid(), service.uid());
        assert_eq!(ips(&now), ips(service), "{name}");
    }
    assert_eq!((ids(&cloud), cloud.done(Endpoint::CreateBalancer)), (balancers, 2));
    // They are marked with the new UIDs, and go with their Services.
    let of_web = the(client, "web").await.uid().unwrap().replace('-', "");
    let renamed =
        |cloud: &DigitalOcean| cloud.balancers().iter().any(|one| one.spec.name == format!("a{of_web}")[..32]);
    cloud.until(LIMIT, renamed).await.unwrap();
    cloud.settled(&stage).await;
    for name in names {
        delete(client, name).await;
        await_absent(&services(client), name, LIMIT).await.unwrap();
    }
    assert_eq!(cloud.balancers(), []);
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// Two clusters in one account: a backup of the one in the other once took the load balancer away from the first.
#[tokio::test]
async fn a_service_that_is_restored_in_another_cluster_leaves_the_load_balancer_alone_until_its_tag_is_taken_off() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[503]).await;
    let mut host = start(&stage, &cloud, &[("DO_CLUSTER_ID", "c-1")], &[]);
    let names = ["web", "shop"];
    serve(client, "web", json!({})).await;
    serve(client, "shop", annotated([(NAME, "shop")])).await;
    for name in names {
        await_balanced(client, &cloud, name).await;
    }
    let backups = [backup(client, "web").await, backup(client, "shop").await];
    host.signal("KILL").await.unwrap();
    host.wait(LIMIT).await.unwrap();
    for name in names {
        lose(client, name).await;
    }
    let before = cloud.balancers();
    assert!(before.iter().all(|balancer| balancer.spec.tags.contains(&"k8s:c-1".to_owned())), "{before:#?}");

    let host = start(&stage, &cloud, &[("DO_CLUSTER_ID", "c-2")], &["--cluster-period=1s"]);
    for (name, backup) in names.into_iter().zip(&backups) {
        restore(client, backup).await;
        let id = backup["metadata"]["annotations"][ID].as_str().unwrap();
        let words = [id, "another cluster", "k8s:c-1", ID, "wasm-ccm.io/orphan: digitalocean"];
        await_reason_with(client, name, "CloudConflict", &words).await;
    }
    members(client, &cloud, &[504]).await;
    delete(client, "shop").await;
    await_absent(&services(client), "shop", LIMIT).await.unwrap();
    assert_eq!(cloud.balancers(), before);
    host.events_written().await;
    for name in names {
        let told = told(client, name).await;
        assert!(!told.iter().any(|line| line.contains("LoadBalancerAdopted")), "{told:?}");
    }

    // Forced.
    let id = backups[0]["metadata"]["annotations"][ID].as_str().unwrap();
    assert!(cloud.tamper(id, |spec| spec.tags.clear()));
    change(client, "web", &annotated([("wasm-ccm.io/ensure", "now")])).await;
    let has_it = |now: &Service| is_served(now) && now.annotations().get(ID).is_some_and(|own| own == id);
    await_service(client, "web", has_it).await;
    let renamed = |cloud: &DigitalOcean| {
        cloud.balancers().iter().any(|one| one.id == id && before.iter().all(|old| old.spec.name != one.spec.name))
    };
    cloud.until(LIMIT, renamed).await.unwrap();
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!(ids(&cloud).len(), 1, "that of the other one stays");
    // A look at the whole cluster from before the deletion may still be making the tag for it.
    host.end().await;
    cloud.settled(&stage).await;
    cloud.check().unwrap();
}

/// `kubectl get service web -o yaml`, another name, and all annotations stay: applied again and again, as GitOps does.
#[tokio::test]
async fn a_copy_with_the_id_of_a_living_services_load_balancer_has_one_of_its_own() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[502]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    let (web, of_web) = await_balanced(client, &cloud, "web").await;
    let mut copy = backup(client, "web").await;
    copy["metadata"]["name"] = json!("copy");
    restore(client, &copy).await;
    let parts = ["default/web", of_web.id.as_str(), ID, "wasm-ccm.io/orphan: digitalocean"];
    await_event(client, "copy", "Warning", "LoadBalancerNotAdopted", &parts).await;
    let is_own = |now: &Service| is_served(now) && now.annotations().get(ID).is_some_and(|id| *id != of_web.id);
    let own = await_service(client, "copy", is_own).await;
    for _ in 0..2 {
        change(client, "copy", &annotated([(ID, &of_web.id)])).await;
        let again = await_service(client, "copy", is_own).await;
        assert_eq!((again.annotations().get(ID), ips(&again)), (own.annotations().get(ID), ips(&own)));
    }
    assert_eq!((cloud.balancers().len(), cloud.done(Endpoint::CreateBalancer)), (2, 2));
    assert_eq!(ips(&the(client, "web").await), ips(&web));
    host.events_written().await;
    let told = told(client, "copy").await;
    let not_adopted: Vec<_> = told.iter().filter(|line| line.contains("LoadBalancerNotAdopted")).collect();
    assert!(matches!(not_adopted[..], [once] if !once.ends_with(" times)")), "{told:?}");

    // Its owner gives it up, and then it is to be had.
    change(client, "web", &annotated([("wasm-ccm.io/orphan", "digitalocean")])).await;
    await_service(client, "web", |service| !has_finalizer(service)).await;
    delete(client, "copy").await;
    await_absent(&services(client), "copy", LIMIT).await.unwrap();
    restore(client, &copy).await;
    let has_it = |now: &Service| is_served(now) && now.annotations().get(ID) == Some(&of_web.id);
    let now = await_service(client, "copy", has_it).await;
    assert_eq!(ips(&now), ips(&web));
    delete(client, "web").await;
    await_absent(&services(client), "web", LIMIT).await.unwrap();
    assert_eq!((ids(&cloud), cloud.done(Endpoint::CreateBalancer)), (vec![of_web.id], 2));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// What the Event of one that was taken over says: the provider once found it again by its name.
#[tokio::test]
async fn whoever_gives_up_what_was_taken_over_has_a_new_load_balancer_and_the_old_one_stays() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[503]).await;
    let mut host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    serve(client, "shop", annotated([(NAME, "shop")])).await;
    let names = ["web", "shop"];
    let (mut before, mut backups) = (vec![], vec![]);
    for name in names {
        before.push(await_balanced(client, &cloud, name).await);
        backups.push(backup(client, name).await);
    }
    host.signal("KILL").await.unwrap();
    host.wait(LIMIT).await.unwrap();
    for (name, backup) in names.into_iter().zip(&backups) {
        lose(client, name).await;
        restore(client, backup).await;
    }
    let host = start(&stage, &cloud, &[], &[]);
    for (name, (service, old)) in names.into_iter().zip(&before) {
        await_event(client, name, "Normal", "LoadBalancerAdopted", &["wasm-ccm.io/orphan: digitalocean"]).await;
        await_taken_over(client, service, &old.id).await;
        change(client, name, &annotated([("wasm-ccm.io/orphan", "digitalocean")])).await;
        let is_given_up = |now: &Service| !has_finalizer(now) && !now.annotations().contains_key(ID);
        await_service(client, name, is_given_up).await;
        change(client, name, &json!({ "metadata": { "annotations": { "wasm-ccm.io/orphan": null } } })).await;
        let has_another = |now: &Service| is_served(now) && now.annotations().get(ID).is_some_and(|id| *id != old.id);
        await_service(client, name, has_another).await;
        assert!(ids(&cloud).contains(&old.id), "{name}");
    }
    assert_eq!((cloud.balancers().len(), cloud.done(Endpoint::CreateBalancer)), (4, 4));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}

/// It is removed by force, and a backup makes it again under another name before anybody could delete anything.
#[tokio::test]
async fn a_service_restored_under_another_name_has_the_load_balancer_of_the_one_that_was_removed_by_force() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[504]).await;
    let host = start(&stage, &cloud, &[], &[]);
    serve(client, "web", json!({})).await;
    let (web, old) = await_balanced(client, &cloud, "web").await;
    let mut copy = backup(client, "web").await;
    copy["metadata"]["name"] = json!("copy");
    // No write of the host is under way, which would give the finalizer back. The host sees all of it at once.
    cloud.settled(&stage).await;
    host.signal("STOP").await.unwrap();
    lose(client, "web").await;
    restore(client, &copy).await;
    host.signal("CONT").await.unwrap();
    let has_it = |now: &Service| is_served(now) && now.annotations().get(ID) == Some(&old.id);
    let now = await_service(client, "copy", has_it).await;
    assert_eq!(ips(&now), ips(&web));
    host.events_written().await;
    assert_eq!((ids(&cloud), cloud.done(Endpoint::CreateBalancer)), (vec![old.id], 1));
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
