//! Requests that fail on their way: the same end, no second load balancer, and nothing left behind.

use ccm_cluster::await_absent;
use ccm_e2e::openstack_lab::{Act, Fault, Of, Planned, until};
use serde_json::json;

use crate::rig::{Inventory, Rig};
use crate::service_look::{await_served, delete, serve, services};
use crate::stage::LIMIT;

/// So that nobody waits for a cloud that is well again.
const IMPATIENT: [&str; 5] = [
    "--limit=retry-delay=20ms",
    "--limit=max-retry-delay=100ms",
    "--limit=max-pause=100ms",
    "--limit=breaker-first-pause=50ms",
    "--limit=breaker-pause=200ms",
];

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
