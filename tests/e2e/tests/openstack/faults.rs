//! Requests that fail on their way: the same end, no second load balancer, and nothing left behind.

use ccm_cluster::await_absent;
use ccm_e2e::host::until;
use ccm_e2e::openstack_lab::{Act, Fault, Of, When};
use serde_json::json;

use crate::rig::Rig;
use crate::service_look::{await_served, delete, serve, services};
use crate::stage::LIMIT;

/// A request that is struck, of all but logins, counted from the beginning of what a Service goes through.
async fn one_fault_at_every_request(when: When, act: Act) {
    let rig = Rig::new().await;
    rig.members(["n1", "n2"]).await;
    let before = rig.tenant.inventory().await.unwrap();
    let host = rig.host(&[
        "--limit=request-time=5s",
        "--limit=retry-delay=20ms",
        "--limit=max-retry-delay=100ms",
        "--limit=max-pause=100ms",
        "--limit=breaker-first-pause=50ms",
        "--limit=breaker-pause=200ms",
    ]);
    host.ready().await;
    for first in 1.. {
        let planned = rig.proxy.plan(Fault { of: Of::ALL, first, times: 1, when, act });
        let name = format!("web-{first}");
        serve(rig.client(), &name, json!({})).await;
        await_served(rig.client(), &name).await;
        assert_eq!(rig.tenant.balancers().await.unwrap().len(), 1, "after {act:?} {when:?} request {first}");
        delete(rig.client(), &name).await;
        await_absent(&services(rig.client()), &name, LIMIT).await.unwrap();
        let is_as_before = async || Ok(rig.tenant.inventory().await? == before);
        until(LIMIT, is_as_before)
            .await
            .unwrap_or_else(|error| panic!("after {act:?} {when:?} request {first}: {error:#}"));
        rig.proxy.heal();
        if planned.struck() == 0 {
            assert!(first > 5, "a Service is more than {first} requests");
            break;
        }
    }
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn any_request_of_a_services_life_may_be_done_without_anybody_hearing_of_it() {
    one_fault_at_every_request(When::After, Act::Hangup).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn any_request_of_a_services_life_may_be_refused_for_the_moment() {
    one_fault_at_every_request(When::Before, Act::Answer(503)).await;
}
