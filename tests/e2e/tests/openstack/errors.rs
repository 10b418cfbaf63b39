//! Load balancers in ERROR.

use ccm_cluster::await_absent;
use ccm_e2e::openstack_lab::{Act, Fault, Of, id, until};
use serde_json::json;

use crate::look::await_event;
use crate::rig::Rig;
use crate::service_look::{annotated, await_service, change, delete, ips, is_served, serve_whole, services};
use crate::stage::LIMIT;

const DELETION: Of = Of::Operation("DELETE load-balancer/v2.0/lbaas/loadbalancers/*");
const RECREATE: &str = "loadbalancer.openstack.org/recreate-on-error";

/// The ID of the only load balancer.
async fn the_balancer(rig: &Rig) -> String {
    let balancers = rig.tenant.balancers().await.unwrap();
    assert_eq!(balancers.len(), 1, "{balancers:#?}");
    id(&balancers[0]).unwrap()
}

/// Octavia's own word for a load balancer with which something went wrong.
async fn fails(rig: &Rig, id: &str) {
    let statement = format!("update load_balancer set provisioning_status = 'ERROR' where id = '{id}'");
    rig.lab.sql("octavia", &statement).await.unwrap();
}

/// The Go manager asks until it is gone, for ever, and serves no other Service meanwhile.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_load_balancer_that_goes_into_error_while_it_is_deleted_is_deleted_again() {
    let (rig, _, before, host) = Rig::ready(["n1"], &[]).await;
    serve_whole(rig.client(), "web", json!({})).await;
    let balancer = the_balancer(&rig).await;

    // Octavia says that it deletes, and then fails.
    let accepted = rig.proxy.plan(Fault::every(DELETION, Act::Answer(204)));
    delete(rig.client(), "web").await;
    until(LIMIT, async || Ok(accepted.struck() >= 1)).await.unwrap();
    fails(&rig, &balancer).await;
    let so_far = accepted.struck();
    until(LIMIT, async || Ok(accepted.struck() > so_far)).await.unwrap();
    rig.proxy.heal();
    await_absent(&services(rig.client()), "web", LIMIT).await.unwrap();
    rig.end_as(&before, host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_load_balancer_in_error_is_reported_and_made_anew_with_consent_alone_and_keeps_its_floating_ip() {
    let (rig, _, before, host) = Rig::ready(["n1"], &[]).await;
    let addresses = ips(&serve_whole(rig.client(), "web", json!({})).await);
    let old = the_balancer(&rig).await;

    fails(&rig, &old).await;
    change(rig.client(), "web", &json!({ "spec": { "ports": [{ "port": 81 }] } })).await;
    let told = await_event(rig.client(), "web", "Warning", "LoadBalancerInError", &[&old, RECREATE]).await;
    assert!(told.contains("ERROR"), "{told}");
    assert_eq!(the_balancer(&rig).await, old);

    change(rig.client(), "web", &annotated([(RECREATE, "true")])).await;
    let is_anew = async || {
        let balancers = rig.tenant.balancers().await?;
        Ok(balancers.len() == 1
            && balancers[0]["id"] != old.as_str()
            && balancers[0]["provisioning_status"] == "ACTIVE")
    };
    until(LIMIT, is_anew).await.unwrap();
    let service = await_service(rig.client(), "web", is_served).await;
    assert_eq!(ips(&service), addresses);
    rig.remove("web").await;
    rig.end_as(&before, host).await;
}
