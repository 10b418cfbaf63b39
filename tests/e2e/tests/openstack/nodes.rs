//! Nodes and their servers.

use ccm_cluster::{NodeFixture, await_absent, await_node};
use ccm_e2e::openstack_lab::Of;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use crate::look::{PAIRS, addresses, await_event, await_untainted, get, nodes};
use crate::rig::{QUICK, Rig, initialised};
use crate::stage::LIMIT;

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn is_shut_down(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == SHUTDOWN)
}

fn assert_initialised(node: &Node, id: &str, address: &str) {
    assert_eq!(node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()), Some(id));
    let pairs = PAIRS.map(|(old, new)| [old, new].map(|label| node.labels().get(label).map(String::as_str)));
    assert_eq!(pairs, [[Some("m1.lab"); 2], [Some("nova"); 2], [Some("RegionOne"); 2]]);
    let addresses = addresses(node);
    assert!(addresses.contains(&format!("InternalIP {address}")), "{addresses:?}");
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_node_gets_what_nova_says_of_its_server_with_an_application_credential_and_a_few_requests() {
    let rig = Rig::new().await;
    let names = ["n1", "n2", "n3"];
    let servers = rig.tenant.boot(names).await.unwrap();
    let host = rig.host(&[]);
    host.ready().await;
    let mark = rig.proxy.mark();
    for name in names {
        NodeFixture::new(name).register(rig.client()).await.unwrap();
    }
    for (name, server) in names.iter().zip(&servers) {
        let node = await_untainted(rig.client(), name).await;
        assert_initialised(&node, &server.provider_id(), &server.address);
    }
    let asked = rig.proxy.since(mark);
    // Its server, and its ports. The Go manager needs four for each.
    assert!(asked.len() < 4 * names.len(), "{asked:#?}");
    assert!(asked.iter().all(|exchange| !exchange.is_write()), "{asked:#?}");
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_node_is_found_with_a_password_and_in_lists_that_come_in_pieces() {
    let rig = Rig::new().await;
    let names = ["n1", "n2", "n3", "n4", "n5"];
    let servers = rig.tenant.boot(names).await.unwrap();
    rig.proxy.page(2);
    // The host finds all of them, and looks at them together: fewer, or one after the other, are asked for by their names.
    for name in names {
        NodeFixture::new(name).register(rig.client()).await.unwrap();
    }
    let host = rig.start(&rig.configure(&rig.tenant.by_password(&rig.tenant.password), ""), &[]);
    for (name, server) in names.iter().zip(&servers) {
        let node = await_untainted(rig.client(), name).await;
        assert_initialised(&node, &server.provider_id(), &server.address);
    }
    let asked = rig.proxy.exchanges();
    let lists =
        asked.iter().filter(|exchange| Of::Operation("GET compute/v2.1/servers/detail").is(&exchange.operation));
    let further = lists.filter(|exchange| exchange.uri.contains("marker=")).count();
    assert!(further >= 2, "five servers are three pieces: {asked:#?}");
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_node_goes_when_nova_says_by_id_that_its_server_is_gone_and_one_that_is_stopped_stays_with_a_taint() {
    let rig = Rig::new().await;
    let client = rig.client();
    let names = ["n1", "n2", "n3"];
    let servers = rig.tenant.boot(names).await.unwrap();
    for (name, server) in names.iter().zip(&servers) {
        initialised(name, server).not_ready().register(client).await.unwrap();
    }
    let host = rig.host(&QUICK);
    host.await_count("ccm_node_lifecycle_looks_total", &["answer=\"running\""], LIMIT, |looks| looks >= 3.0)
        .await
        .unwrap();
    rig.tenant.switch(&servers[1].id, "os-stop").await.unwrap();
    await_node(client, "n2", LIMIT, is_shut_down).await.unwrap();
    let mark = rig.proxy.mark();
    rig.tenant.delete_server(&servers[0].id).await.unwrap();
    await_absent(&nodes(client), "n1", LIMIT).await.unwrap();
    let told = await_event(client, "n1", "Normal", "DeletingNode", &[]).await;
    assert_eq!(told, "Deleting node n1 because it does not exist in the cloud provider");
    let path = format!("/compute/v2.1/servers/{}", servers[0].id);
    let denied =
        rig.proxy.since(mark).into_iter().filter(|exchange| exchange.uri == path && exchange.status == Some(404));
    assert!(denied.count() >= 2, "asked twice, by ID");
    rig.tenant.switch(&servers[1].id, "os-start").await.unwrap();
    await_node(client, "n2", LIMIT, |node| !is_shut_down(node)).await.unwrap();
    assert!(!is_shut_down(&get(client, "n3").await));
    rig.end(host).await;
}
