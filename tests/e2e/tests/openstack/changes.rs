//! Changes of a load balancer that serves.

use ccm_e2e::openstack_lab::{Exchange, until};
use serde_json::{Value, json};

use crate::balancers::{calls, members, shown};
use crate::rig::Rig;
use crate::service_look::{annotated, await_served, change, merge, serve_whole};
use crate::stage::LIMIT;

const TIMEOUT: &str = "loadbalancer.openstack.org/timeout-client-data";
/// To see what differs, to see it again when something was made whose ID others need, and to see that it is done.
const READS: usize = 14;
const MONITOR: &str = "loadbalancer.openstack.org/enable-health-monitor";

/// A second port, health monitors, and another time limit, each with the writes that it takes.
fn steps() -> [(Value, &'static [&'static str]); 3] {
    let ports = json!([{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }]);
    [
        (json!({ "spec": { "ports": ports } }), &["POST pools", "PUT pools/*/members", "POST listeners"]),
        (annotated([(MONITOR, "true")]), &["POST healthmonitors", "POST healthmonitors"]),
        (annotated([(TIMEOUT, "60000")]), &["PUT listeners/*", "PUT listeners/*"]),
    ]
}

/// What is written to Octavia.
fn writes(all: &[Exchange]) -> Vec<String> {
    let writes = all.iter().filter(|exchange| exchange.is_write());
    writes.map(|write| write.operation.replace("load-balancer/v2.0/lbaas/", "")).collect()
}

/// Port and time limit of each listener, and the port of each that has a monitor behind it.
async fn seen(rig: &Rig) -> (Vec<(i64, i64)>, Vec<i64>) {
    let list = async |kind: &str| rig.tenant.list("load-balancer", &format!("/v2.0/lbaas/{kind}"), kind).await.unwrap();
    let (listeners, pools) = (list("listeners").await, list("pools").await);
    let number = |listener: &Value, field: &str| listener[field].as_i64().unwrap();
    let mut times: Vec<_> =
        listeners.iter().map(|one| (number(one, "protocol_port"), number(one, "timeout_client_data"))).collect();
    let is_watched = |listener: &&Value| {
        pools.iter().any(|pool| pool["id"] == listener["default_pool_id"] && pool["healthmonitor_id"].is_string())
    };
    let mut watched: Vec<_> = listeners.iter().filter(is_watched).map(|one| number(one, "protocol_port")).collect();
    times.sort_unstable();
    watched.sort_unstable();
    (times, watched)
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_service_that_serves_grows_at_once_or_step_by_step_to_the_same_end_and_no_member_leaves_meanwhile() {
    let (rig, servers, before, host) = Rig::ready(["n1", "n2"], &[]).await;
    let mut addresses = servers.map(|server| server.address).to_vec();
    addresses.sort();
    // At once, a listener that changes takes one write, whatever changes.
    let whole = steps().into_iter().fold(json!({}), |mut whole, (step, _)| {
        merge(&mut whole, step);
        whole
    });
    let at_once: &[&str] = &[
        "POST pools",
        "POST healthmonitors",
        "PUT listeners/*",
        "PUT pools/*/members",
        "POST healthmonitors",
        "POST listeners",
    ];
    for (name, steps) in [("at-once", vec![(whole, at_once)]), ("by-step", steps().to_vec())] {
        serve_whole(rig.client(), name, json!({ "spec": { "ports": [{ "name": "http", "port": 80 }] } })).await;
        let begun = rig.proxy.mark();
        let last = steps.len();
        for (number, (step, expected)) in (1..).zip(&steps) {
            let mark = rig.proxy.mark();
            change(rig.client(), name, step).await;
            until(LIMIT, async || Ok(writes(&rig.proxy.since(mark)).len() >= expected.len())).await.unwrap();
            await_served(rig.client(), name).await;
            let all = rig.proxy.since(mark);
            let (mut wrote, mut expected) = (writes(&all), expected.to_vec());
            wrote.sort();
            expected.sort_unstable();
            assert_eq!(wrote, expected, "{name}, step {number} of {last}");
            let calls = calls(&all);
            let most = READS + wrote.len();
            assert!(calls.len() <= most, "{name}, step {number}: {} calls:\n{}", calls.len(), shown(&calls));
            rig.settled().await;
        }
        assert_eq!(seen(&rig).await, (vec![(80, 60_000), (443, 60_000)], vec![80, 443]), "{name}");
        assert_eq!(members(&rig.tenant).await, [(80, addresses.clone()), (443, addresses.clone())], "{name}");
        // Nothing that served went, and whoever wrote members wrote all of them.
        for write in rig.proxy.since(begun).iter().filter(|exchange| exchange.is_write()) {
            assert!(!write.operation.starts_with("DELETE "), "{write:?}");
            let named = |address: &&String| write.request.contains(address.as_str());
            assert!(!write.operation.ends_with("/members") || addresses.iter().filter(named).count() == 2, "{write:?}");
        }
        rig.remove(name).await;
    }
    rig.end_as(&before, host).await;
}
