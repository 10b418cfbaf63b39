//! Requests that fail on their way: the same end, no second load balancer, and nothing left behind.

use std::time::Duration;

use ccm_cluster::await_absent;
use ccm_e2e::openstack_lab::{Act, Fault, Of, Planned, until};
use serde_json::json;

use crate::rig::{Inventory, Rig};
use crate::service_look::{await_served, change, delete, serve, serve_whole, services};
use crate::stage::LIMIT;

/// So that nobody waits for a cloud that is well again.
pub(crate) const IMPATIENT: [&str; 5] = [
    "--limit=retry-delay=20ms",
    "--limit=max-retry-delay=100ms",
    "--limit=max-pause=100ms",
    "--limit=breaker-first-pause=50ms",
    "--limit=breaker-pause=200ms",
];

/// What goes wrong once with each kind of request that is not a login, with a name for it.
pub(crate) fn once_each() -> [(&'static str, Fault); 4] {
    [
        // As where somebody else was faster.
        ("conflict", Fault::next(Of::Writes, Act::Answer(409)).each()),
        ("broken", Fault::next(Of::All, Act::Answer(500)).each()),
        ("slow", Fault::next(Of::All, Act::Delay(Duration::from_secs(2))).each()),
        // It was done, and nobody heard of it.
        ("cut", Fault::next(Of::All, Act::Hangup).each().after()),
    ]
}

/// A Service is made and deleted while a fault waits for its requests; returns how many it struck.
async fn life(rig: &Rig, before: &Inventory, name: &str, fault: Fault) -> usize {
    let planned: Planned = rig.proxy.plan(fault);
    serve(rig.client(), name, json!({})).await;
    await_served(rig.client(), name).await;
    assert_eq!(rig.tenant.balancers().await.unwrap().len(), 1, "after {fault:?}");
    delete(rig.client(), name).await;
    await_absent(&services(rig.client()), name, LIMIT).await.unwrap();
    let is_as_before = async || Ok(rig.tenant.inventory().await? == *before);
    let waited = until(LIMIT, is_as_before).await;
    waited.unwrap_or_else(|error| panic!("something is left behind after {fault:?}: {error:#}"));
    rig.proxy.heal();
    planned.struck()
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn each_write_of_a_services_life_may_be_done_without_anybody_hearing_of_it() {
    let (rig, _, before, host) = Rig::ready(["n1", "n2"], &IMPATIENT).await;
    let mut writes = 0;
    for first in 1.. {
        let fault = Fault::next(Of::Writes, Act::Hangup).after().at(first);
        if life(&rig, &before, &format!("web-{first}"), fault).await == 0 {
            break;
        }
        writes = first;
    }
    assert!(writes >= 4, "load balancer and floating IP are made and deleted: {writes}");
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn each_kind_of_request_may_be_refused_once_or_answered_in_part() {
    let (rig, _, before, host) = Rig::ready(["n1", "n2"], &IMPATIENT).await;
    for (name, act) in [("refused", Act::Answer(503)), ("limited", Act::Answer(429)), ("cut", Act::Truncate)] {
        let fault = Fault::next(Of::All, act).each();
        let struck = life(&rig, &before, name, if act == Act::Truncate { fault.after() } else { fault }).await;
        assert!(struck >= 8, "{struck} kinds of requests");
    }
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn each_kind_of_request_of_an_update_and_of_a_deletion_may_go_wrong_once() {
    let (rig, _, before, host) = Rig::ready(["n1", "n2"], &IMPATIENT).await;
    for (name, fault) in once_each() {
        serve_whole(rig.client(), name, json!({})).await;
        let planned = rig.proxy.plan(fault);
        change(rig.client(), name, &json!({ "spec": { "ports": [{ "port": 81 }] } })).await;
        let is_changed = async || {
            let listeners = rig.tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await?;
            Ok(listeners.len() == 1 && listeners[0]["protocol_port"] == 81)
        };
        let waited = until(LIMIT, is_changed).await;
        waited.unwrap_or_else(|error| panic!("the port is not changed after {fault:?}: {error:#}"));
        await_served(rig.client(), name).await;
        assert_eq!(rig.tenant.balancers().await.unwrap().len(), 1, "after {fault:?}");
        delete(rig.client(), name).await;
        await_absent(&services(rig.client()), name, LIMIT).await.unwrap();
        let waited = until(LIMIT, async || Ok(rig.tenant.inventory().await? == before)).await;
        waited.unwrap_or_else(|error| panic!("something is left behind after {fault:?}: {error:#}"));
        rig.proxy.heal();
        assert!(planned.struck() >= 4, "{fault:?} struck {} kinds of requests", planned.struck());
    }
    rig.end(host).await;
}
