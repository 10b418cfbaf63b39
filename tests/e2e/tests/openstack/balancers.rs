//! Services and their load balancers.

use ccm_e2e::openstack_lab::{Exchange, Of, Tenant, until};
use serde_json::{Value, json};

use crate::rig::Rig;
use crate::service_look::{await_served, change, ips, serve_whole};
use crate::stage::LIMIT;

/// So many ports from 8000 on.
fn ports(count: u16) -> Value {
    json!({ "spec": { "ports": (0..count).map(|index| json!({ "name": format!("p{index}"), "port": 8000 + index })).collect::<Vec<_>>() } })
}

/// Requests without logins, and without those that ask whether Octavia is done.
pub(crate) fn calls(all: &[Exchange]) -> Vec<&Exchange> {
    const POLLS: Of = Of::Operation("GET load-balancer/v2.0/lbaas/loadbalancers/*");
    all.iter().filter(|exchange| ![POLLS, Of::LOGINS].iter().any(|of| of.is(&exchange.operation))).collect()
}

pub(crate) fn shown(calls: &[&Exchange]) -> String {
    let lines =
        calls.iter().map(|exchange| format!("{} -> {:?} ({})", exchange.operation, exchange.status, exchange.uri));
    lines.collect::<Vec<_>>().join("\n")
}

/// The address and port of every member, by the port of its listener.
pub(crate) async fn members(tenant: &Tenant) -> Vec<(i64, Vec<String>)> {
    let pools = tenant.list("load-balancer", "/v2.0/lbaas/pools", "pools").await.unwrap();
    let listeners = tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await.unwrap();
    let mut found = vec![];
    for listener in &listeners {
        let pool = pools
            .iter()
            .find(|pool| pool["listeners"][0]["id"] == listener["id"])
            .map_or("", |pool| pool["id"].as_str().unwrap());
        let path = format!("/v2.0/lbaas/pools/{pool}/members");
        let all = tenant.user.get("load-balancer", &path).await.unwrap_or_default();
        let mut all: Vec<String> = all["members"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|member| member["address"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        found.push((listener["protocol_port"].as_i64().unwrap(), all));
    }
    found.sort();
    found
}

async fn create_and_delete(count: u16) {
    let (rig, [one, two], before, host) = Rig::ready(["n1", "n2"], &[]).await;
    // On a busy machine Octavia may have no answer in time: the provider looks again then, as it should, and the calls say nothing.
    let mut attempts = 0;
    let (service, all) = loop {
        let mark = rig.proxy.mark();
        let service = serve_whole(rig.client(), "web", ports(count)).await;
        let all = rig.proxy.since(mark);
        if all.iter().all(|exchange| exchange.status.is_some()) {
            break (service, all);
        }
        attempts += 1;
        assert!(attempts < 4, "calls stay without an answer:\n{}", shown(&all.iter().collect::<Vec<_>>()));
        rig.remove("web").await;
    };
    let calls = calls(&all);
    let writes =
        calls.iter().filter(|exchange| exchange.is_write() && exchange.operation.contains(" load-balancer/")).count();
    assert!(calls.len() <= 8 && writes == 1, "{} calls, {writes} writes to Octavia:\n{}", calls.len(), shown(&calls));
    let balancers = rig.tenant.balancers().await.unwrap();
    assert_eq!(balancers.len(), 1, "{balancers:#?}");
    let floating = rig.tenant.list("network", "/v2.0/floatingips", "floatingips").await.unwrap();
    assert_eq!(floating.len(), 1, "{floating:#?}");
    assert_eq!(floating[0]["port_id"], balancers[0]["vip_port_id"]);
    assert_eq!(ips(&service), [floating[0]["floating_ip_address"].as_str().unwrap()]);
    let mut addresses = vec![one.address, two.address];
    addresses.sort();
    let wanted: Vec<_> = (0..count).map(|index| (8000 + i64::from(index), addresses.clone())).collect();
    assert_eq!(members(&rig.tenant).await, wanted);

    rig.remove("web").await;
    rig.end_as(&before, host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_service_with_one_port_gets_its_load_balancer_in_one_write_and_leaves_nothing_behind() {
    create_and_delete(1).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_service_with_ten_ports_gets_its_load_balancer_in_one_write_and_leaves_nothing_behind() {
    create_and_delete(10).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_load_balancer_follows_ports_and_nodes() {
    let rig = Rig::new().await;
    let [one] = rig.members(["n1"]).await;
    let host = rig.host(&[]);
    host.ready().await;
    serve_whole(rig.client(), "web", ports(1)).await;
    let mark = rig.proxy.mark();
    change(rig.client(), "web", &json!({ "spec": { "ports": [{ "name": "p0", "port": 9000 }] } })).await;
    until(LIMIT, async || Ok(members(&rig.tenant).await == [(9000, vec![one.address.clone()])])).await.unwrap();
    await_served(rig.client(), "web").await;
    let all = rig.proxy.since(mark);
    let calls = calls(&all);
    assert!(calls.len() <= 12, "{} calls:\n{}", calls.len(), shown(&calls));

    let mark = rig.proxy.mark();
    let [two] = rig.members(["n2"]).await;
    let mut both = vec![one.address, two.address];
    both.sort();
    until(LIMIT, async || Ok(members(&rig.tenant).await == [(9000, both.clone())])).await.unwrap();
    let all = rig.proxy.since(mark);
    let writes = all.iter().filter(|exchange| exchange.is_write()).count();
    assert_eq!(writes, 1, "one per pool");
    assert_eq!(rig.tenant.balancers().await.unwrap().len(), 1);
    rig.remove("web").await;
    assert!(rig.tenant.balancers().await.unwrap().is_empty());
    rig.end(host).await;
}
