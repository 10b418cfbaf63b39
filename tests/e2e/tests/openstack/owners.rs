//! Whose a load balancer is: of another cluster with the same name, of another project, of somebody who made it by hand, of several Services.

use ccm_cluster::await_absent;
use ccm_e2e::openstack_lab::{Tenant, id, until};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::rig::{Rig, initialised};
use crate::service_look::{annotated, await_reason, await_served, delete, ips, merge, serve, serve_whole, services};
use crate::stage::{LIMIT, Stage};

const ID: &str = "loadbalancer.openstack.org/load-balancer-id";

/// What the Go manager and we call the load balancer of a Service in a cluster that has the name of all of them.
fn named(service: &str) -> String {
    format!("kube_service_kubernetes_default_{service}")
}

/// Makes one by hand, and waits until it is there.
async fn make_by_hand(tenant: &Tenant, name: &str, tags: &[String]) -> String {
    let wish = json!({ "name": name, "vip_subnet_id": tenant.subnet, "tags": tags });
    let made = tenant.user.make("load-balancer", "/v2.0/lbaas/loadbalancers", "loadbalancer", wish).await.unwrap();
    let made = id(&made).unwrap();
    let path = format!("/v2.0/lbaas/loadbalancers/{made}");
    let is_active =
        async || Ok(tenant.user.get("load-balancer", &path).await?["loadbalancer"]["provisioning_status"] == "ACTIVE");
    until(LIMIT, is_active).await.unwrap();
    made
}

/// The IDs of all load balancers, and the ports of the listeners of each.
async fn listeners(tenant: &Tenant) -> Vec<(String, Vec<i64>)> {
    let all = tenant.list("load-balancer", "/v2.0/lbaas/listeners", "listeners").await.unwrap();
    let balancers = tenant.balancers().await.unwrap();
    let of = |balancer: &Value| {
        let is_its = |listener: &&Value| listener["loadbalancers"][0]["id"] == balancer["id"];
        let mut ports: Vec<i64> =
            all.iter().filter(is_its).map(|listener| listener["protocol_port"].as_i64().unwrap()).collect();
        ports.sort_unstable();
        (id(balancer).unwrap(), ports)
    };
    balancers.iter().map(of).collect()
}

/// Under the Go manager both would use one load balancer, and who deletes first would delete the other one's.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn two_clusters_with_one_name_in_one_project_never_share_a_load_balancer() {
    let (rig, other) = (Rig::new().await, Stage::new().await);
    let [server] = rig.members(["n1"]).await;
    initialised("n1", &server).register(other.client()).await.unwrap();
    let before = rig.tenant.inventory().await.unwrap();
    let config = rig.configure(&rig.tenant.by_credential(), &rig.sections());
    let hosts = [rig.start(&config, &[]), rig.start_on(&other, &config, &[])];
    for host in &hosts {
        host.ready().await;
    }
    let first = serve_whole(rig.client(), "web", json!({})).await;
    let second = serve_whole(other.client(), "web", json!({})).await;
    assert_ne!(ips(&first), ips(&second));
    let balancers = rig.tenant.balancers().await.unwrap();
    assert_eq!(balancers.len(), 2, "{balancers:#?}");
    assert!(balancers.iter().all(|balancer| balancer["name"] == named("web").as_str()), "{balancers:#?}");

    rig.remove("web").await;
    let left = rig.tenant.balancers().await.unwrap();
    let tag = format!("kubernetes.io/service-uid/{}", second.uid().unwrap());
    assert!(left.len() == 1 && left[0]["tags"].as_array().unwrap().contains(&json!(tag)), "{left:#?}");
    let floating = rig.tenant.list("network", "/v2.0/floatingips", "floatingips").await.unwrap();
    assert_eq!(ips(&second), [floating[0]["floating_ip_address"].as_str().unwrap()]);

    delete(other.client(), "web").await;
    await_absent(&services(other.client()), "web", LIMIT).await.unwrap();
    let [one, two] = hosts;
    two.end().await;
    rig.end_as(&before, one).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn what_others_have_made_under_our_names_is_not_touched() {
    let rig = Rig::new().await;
    rig.members(["n1"]).await;
    // Somebody else's project has all of our names, and the project itself a load balancer that was made by hand.
    let neighbour = Tenant::new(&rig.lab).await.unwrap();
    make_by_hand(&neighbour, &named("web"), &[named("web")]).await;
    let by_hand = make_by_hand(&rig.tenant, &named("api"), &[]).await;
    let (before, theirs) = (rig.tenant.inventory().await.unwrap(), neighbour.inventory().await.unwrap());

    let host = rig.host(&[]);
    host.ready().await;
    serve_whole(rig.client(), "web", json!({})).await;
    serve(rig.client(), "api", json!({})).await;
    let told = await_reason(rig.client(), "api", "CloudConflict").await;
    assert!(told.contains(&by_hand) && told.contains(ID), "{told}");
    // No plan is empty as long as one of them waits.
    for name in ["web", "api"] {
        delete(rig.client(), name).await;
        await_absent(&services(rig.client()), name, LIMIT).await.unwrap();
    }
    until(LIMIT, async || Ok(rig.tenant.inventory().await? == before)).await.unwrap();
    assert_eq!(neighbour.inventory().await.unwrap(), theirs);
    neighbour.remove().await.unwrap();
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn services_share_a_load_balancer_and_it_goes_with_the_last_one_also_when_its_owner_goes_first() {
    let (rig, _, before, host) = Rig::ready(["n1"], &[]).await;
    let owner = serve_whole(rig.client(), "web", json!({})).await;
    let balancer = owner.annotations()[ID].clone();
    let mut differs = annotated([(ID, &balancer)]);
    merge(&mut differs, json!({ "spec": { "ports": [{ "port": 8443 }] } }));
    let sharer = serve_whole(rig.client(), "api", differs).await;
    assert_eq!(ips(&sharer), ips(&owner));
    assert_eq!(listeners(&rig.tenant).await, [(balancer.clone(), vec![80, 8443])]);

    rig.remove("web").await;
    assert_eq!(listeners(&rig.tenant).await, [(balancer, vec![8443])]);
    let sharer = await_served(rig.client(), "api").await;
    let floating = rig.tenant.list("network", "/v2.0/floatingips", "floatingips").await.unwrap();
    assert_eq!(ips(&sharer), [floating[0]["floating_ip_address"].as_str().unwrap()]);

    rig.remove("api").await;
    rig.end_as(&before, host).await;
}
