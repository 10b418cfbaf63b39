//! Addresses that a provider gives, and that are the cluster's, another Node's or another Service's: each was once written.

use ccm_cluster::NodeFixture;
use serde_json::json;

use crate::look::{addresses, await_event, await_untainted, get, is_tainted};
use crate::service_look::{await_served, ips, serve, services};
use crate::stage::Stage;

/// A cloud that means ill. The API server of the tests has its Services in 10.96.0.0/16, and says so itself.
const CLOUD: &str = "
instances:
  - name: victim
    addresses: [{type: InternalIP, address: 10.0.0.7}]
  - name: thief
    addresses: [{type: InternalIP, address: 10.0.0.7}]
  - name: metadata
    addresses: [{type: InternalIP, address: 169.254.169.254}]
  - name: resolver
    addresses: [{type: ExternalIP, address: 10.96.0.10}]
loadBalancer:
  pool4: 10.96.77.0/24
";

#[tokio::test]
async fn what_is_the_clusters_or_anothers_is_not_written_and_people_hear_whose_it_is() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.configured(CLOUD, &[]);
    NodeFixture::new("victim").register(client).await.unwrap();
    let victim = await_untainted(client, "victim").await;
    assert!(addresses(&victim).contains(&"InternalIP 10.0.0.7".to_owned()), "{victim:?}");
    for (name, parts) in [
        ("thief", ["10.0.0.7, which is an address of node victim", "delete that Node if its machine is gone"]),
        ("metadata", ["169.254.169.254, which is a link-local address", "correct the machine in the cloud"]),
        ("resolver", ["10.96.0.10, which is in the range of Services, 10.96.0.0/16", "--service-cluster-ip-range"]),
    ] {
        NodeFixture::new(name).register(client).await.unwrap();
        await_event(client, name, "Warning", "SyncNodeFailed", &parts).await;
        let node = get(client, name).await;
        assert!(is_tainted(&node), "{name}");
        assert!(addresses(&node).iter().all(|address| address.starts_with("Hostname")), "{name}: {node:?}");
    }
    serve(client, "web", json!({})).await;
    let parts = ["which is in the range of Services, 10.96.0.0/16", "it is not written"];
    await_event(client, "web", "Warning", "SyncLoadBalancerFailed", &parts).await;
    assert_eq!(ips(&services(client).get("web").await.unwrap()), [""; 0]);
    host.end().await;
}

/// In the mode `nodes`, Cloudlycke's load balancers are the Nodes, and all Services have the same addresses. It declares that.
#[tokio::test]
async fn addresses_of_nodes_are_written_where_the_provider_declares_it_and_the_operator_grants_it() {
    let stage = Stage::new().await;
    let client = stage.client();
    NodeFixture::new("n1").internal_ip("10.0.0.7").register(client).await.unwrap();
    let config = "loadBalancer: {mode: nodes}\n";
    let host = stage.configured(config, &[]);
    serve(client, "web", json!({})).await;
    let parts = ["10.0.0.7, which is an address of node n1", "--allow-shared-address=nodes grants it"];
    await_event(client, "web", "Warning", "SyncLoadBalancerFailed", &parts).await;
    host.end().await;
    let host = stage.configured(config, &["--allow-shared-address=nodes,services"]);
    serve(client, "mail", json!({})).await;
    for name in ["web", "mail"] {
        assert_eq!(ips(&await_served(client, name).await), ["10.0.0.7"], "{name}");
    }
    host.end().await;
}
