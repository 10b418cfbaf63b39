//! Routes through the router, and pairs on the ports of machines.

use ccm_e2e::openstack_lab::until;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::faults::{IMPATIENT, once_each};
use crate::look::{nodes, patch};
use crate::rig::Rig;
use crate::stage::LIMIT;

const FLAGS: [&str; 3] = ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16", "--controllers=*"];

/// The routes of the router, each as destination and next hop.
async fn routes(rig: &Rig) -> Vec<(String, String)> {
    let path = format!("/v2.0/routers/{}", rig.tenant.router);
    let router = rig.tenant.user.get("network", &path).await.unwrap();
    let text = |route: &Value, name: &str| route[name].as_str().unwrap().to_owned();
    let all = router["router"]["routes"].as_array().unwrap().iter();
    let mut all: Vec<_> = all.map(|route| (text(route, "destination"), text(route, "nexthop"))).collect();
    all.sort();
    all
}

/// The pairs of a machine's port.
async fn pairs(rig: &Rig, server: &str) -> Vec<Value> {
    let ports = rig.tenant.list("network", &format!("/v2.0/ports?device_id={server}"), "ports").await.unwrap();
    ports.iter().flat_map(|port| port["allowed_address_pairs"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_node_has_a_route_and_a_pair_and_both_go_with_it() {
    let rig = Rig::new().await;
    let [one, two] = rig.members(["n1", "n2"]).await;
    let before = rig.tenant.inventory().await.unwrap();
    for (name, cidr) in [("n1", "10.244.1.0/24"), ("n2", "10.244.2.0/24")] {
        patch(rig.client(), name, &json!({ "spec": { "podCIDR": cidr, "podCIDRs": [cidr] } })).await;
    }
    let host = rig.host(&FLAGS);
    let route = |cidr: &str, address: &str| (cidr.to_owned(), address.to_owned());
    let (first, second) = (route("10.244.1.0/24", &one.address), route("10.244.2.0/24", &two.address));
    let wanted = [first, second.clone()];
    until(LIMIT, async || Ok(routes(&rig).await == wanted)).await.unwrap();
    until(LIMIT, async || Ok(pairs(&rig, &one.id).await.len() == 1 && pairs(&rig, &two.id).await.len() == 1))
        .await
        .unwrap();
    assert_eq!(pairs(&rig, &one.id).await[0]["ip_address"], "10.244.1.0/24");

    nodes(rig.client()).delete("n1", &DeleteParams::default()).await.unwrap();
    until(LIMIT, async || Ok(routes(&rig).await == [second.clone()] && pairs(&rig, &one.id).await.is_empty()))
        .await
        .unwrap();
    assert_eq!(pairs(&rig, &two.id).await.len(), 1);
    nodes(rig.client()).delete("n2", &DeleteParams::default()).await.unwrap();
    until(LIMIT, async || Ok(routes(&rig).await.is_empty())).await.unwrap();
    rig.end_as(&before, host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn each_kind_of_request_for_routes_may_go_wrong_once() {
    let names = ["n1", "n2", "n3", "n4"];
    let flags = [&FLAGS[..], &IMPATIENT, &["--route-reconciliation-period=5s"]].concat();
    let (rig, servers, before, host) = Rig::ready(names, &flags).await;
    for ((_, fault), (name, server)) in once_each().into_iter().zip(names.iter().zip(&servers)) {
        let planned = rig.proxy.plan(fault);
        let cidr = "10.244.7.0/24";
        patch(rig.client(), name, &json!({ "spec": { "podCIDR": cidr, "podCIDRs": [cidr] } })).await;
        let wanted = [(cidr.to_owned(), server.address.clone())];
        let is_there = async || Ok(routes(&rig).await == wanted && pairs(&rig, &server.id).await.len() == 1);
        until(LIMIT, is_there).await.unwrap_or_else(|error| panic!("no route after {fault:?}: {error:#}"));
        nodes(rig.client()).delete(name, &DeleteParams::default()).await.unwrap();
        let is_as_before = async || Ok(rig.tenant.inventory().await? == before);
        let waited = until(LIMIT, is_as_before).await;
        waited.unwrap_or_else(|error| panic!("something is left behind after {fault:?}: {error:#}"));
        rig.proxy.heal();
        assert!(planned.struck() >= 2, "{fault:?} struck {} kinds of requests", planned.struck());
    }
    rig.end(host).await;
}
