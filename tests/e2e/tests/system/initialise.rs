//! 2.3 to 2.7, 7.1 and 7.2: what a Node has after its initialisation, and what it had before and keeps.

use ccm_cluster::{NodeFixture, UNINITIALIZED_TAINT};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::look::{
    FIXTURE_TYPE, Machine, all_events, annotate, await_event, await_untainted, bare, create, get, patch, told_once,
    with_addresses,
};
use crate::stage::Stage;

/// Machines that the cloud knows more of than their kubelets do.
const CONFIG: &str = "
zone: cellar
region: house
instances:
  - name: hostname-of-cloud
    id: m-1
    instanceType: big
    zone: attic
    region: shed
    addresses:
      - {type: Hostname, address: node0.cloud.internal}
      - {type: InternalIP, address: 10.0.0.1}
      - {type: ExternalIP, address: 132.143.154.163}
  - name: hostname-of-kubelet
    addresses:
      - {type: InternalIP, address: 10.0.0.2}
      - {type: ExternalIP, address: 132.143.154.164}
  - name: no-addresses
    addresses: []
  - name: names-of-all-kinds
    addresses:
      - {type: InternalDNS, address: n.internal}
      - {type: ExternalDNS, address: n.example}
      - {type: InternalIP, address: 10.0.0.4}
      - {type: InternalIP, address: 10.0.0.5}
      - {type: InternalIP, address: 'fd00::4'}
";

fn node(name: &str) -> NodeFixture {
    NodeFixture::new(name).internal_ip("10.1.0.1")
}

/// Kubelet's own addresses, as Cloudlycke gives them back.
fn machine(provider_id: &str, addresses: &[&'static str]) -> Machine {
    Machine { zone: "cellar", region: "house", ..Machine::new(provider_id, addresses) }
}

/// Each with the Node as its kubelet registers it, and what the cloud says of its machine.
fn cases() -> Vec<(Node, Machine)> {
    vec![
        // 7.1/1 and 5: the cloud's host name takes the place of the kubelet's; zone, region and type are the machine's.
        (
            with_addresses(node("hostname-of-cloud"), &["Hostname overridden", "InternalIP 10.9.9.9"]),
            Machine {
                instance_type: "big",
                zone: "attic",
                region: "shed",
                ..machine(
                    "cloudlycke://m-1",
                    &["Hostname node0.cloud.internal", "InternalIP 10.0.0.1", "ExternalIP 132.143.154.163"],
                )
            },
        ),
        // 7.1/2: the kubelet's host name comes last when the cloud has none.
        (
            with_addresses(node("hostname-of-kubelet"), &["Hostname nodeoverriden"]),
            machine(
                "cloudlycke://hostname-of-kubelet",
                &["InternalIP 10.0.0.2", "ExternalIP 132.143.154.164", "Hostname nodeoverriden"],
            ),
        ),
        // 2.7, step 2: a cloud without addresses leaves the Node's as they are.
        (node("no-addresses").build(), machine("cloudlycke://no-addresses", &[])),
        // 2.7: all kinds, several of one, in the cloud's order.
        (
            node("names-of-all-kinds").build(),
            machine(
                "cloudlycke://names-of-all-kinds",
                &[
                    "InternalDNS n.internal",
                    "ExternalDNS n.example",
                    "InternalIP 10.0.0.4",
                    "InternalIP 10.0.0.5",
                    "InternalIP fd00::4",
                    "Hostname names-of-all-kinds",
                ],
            ),
        ),
        // 7.1/3, 7.2/17: no provider ID before; nothing configured.
        (
            node("plain").build(),
            machine("cloudlycke://plain", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname plain"]),
        ),
        // The demonstration's names have short IDs.
        (
            node("node-c7-2").build(),
            machine("cloudlycke://n-c7-2", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname node-c7-2"]),
        ),
        // 7.1/6, 7.2/18: other taints in their order; value and effect of ours do not matter, nor does how often it is there.
        (
            node("tainted")
                .taint("gpu", "yes", "NoSchedule")
                .taint(UNINITIALIZED_TAINT, "", "NoExecute")
                .taint("node.kubernetes.io/not-ready", "", "NoSchedule")
                .taint("gpu", "yes", "NoExecute")
                .not_ready()
                .build(),
            machine("cloudlycke://tainted", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname tainted"]),
        ),
        // 7.1/10, 7.2/15: a provider ID that is there stays.
        (
            node("preset").provider_id("cloudlycke://preset-by-kubelet").build(),
            machine(
                "cloudlycke://preset-by-kubelet",
                &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname preset"],
            ),
        ),
        (
            node("kind").provider_id("kind://docker/kind/kind-worker").build(),
            machine("kind://docker/kind/kind-worker", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname kind"]),
        ),
        // 7.2/22: a label of the user's stays, also with another value.
        (
            node("own-label").label("cloudlycke.io/mode", "mine").build(),
            Machine {
                mode: None,
                ..machine(
                    "cloudlycke://own-label",
                    &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname own-label"],
                )
            },
        ),
        // 2.5, steps 3 to 5: type, zone and region overwrite.
        (
            node("labelled")
                .label("topology.kubernetes.io/zone", "wrong")
                .label("beta.kubernetes.io/instance-type", "wrong")
                .label("team", "cloud")
                .build(),
            machine("cloudlycke://labelled", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname labelled"]),
        ),
        // Annotations of the provider.
        (
            node("annotated")
                .annotation("cloudlycke.io/zone", "z-1")
                .annotation("cloudlycke.io/region", "r-1")
                .annotation("cloudlycke.io/instance-type", "t-1")
                .annotation("someone.example/else", "stays")
                .pod_cidr("10.244.7.0/24")
                .build(),
            Machine {
                instance_type: "t-1",
                zone: "z-1",
                region: "r-1",
                ..machine(
                    "cloudlycke://annotated",
                    &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname annotated"],
                )
            },
        ),
        // An address that the kubelet knows stays the external one.
        (
            node("external").address("ExternalIP", "198.51.100.7").build(),
            machine("cloudlycke://external", &["InternalIP 10.1.0.1", "ExternalIP 198.51.100.7", "Hostname external"]),
        ),
    ]
}

#[tokio::test]
async fn a_node_gets_what_the_cloud_says_of_its_machine_and_keeps_everything_else() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.configured(CONFIG, &[]);
    host.ready().await;
    let cases = cases();
    let mut before = vec![];
    for (node, _) in &cases {
        before.push(create(client, node).await);
    }
    for ((_, machine), before) in cases.iter().zip(&before) {
        let name = before.metadata.name.as_deref().unwrap();
        let after = await_untainted(client, name).await;
        assert_eq!(bare(&after), machine.applied_to(before), "{name}");
        await_event(client, name, "Normal", "Synced", &["Node synced successfully"]).await;
        assert_eq!(told_once(client, name).await, ["Normal Synced"], "{name}");
    }
    host.end().await;
}

/// The demonstration's two machines (Cloudlycke 1.3 and 1.7) and a third that it did not know.
#[tokio::test]
async fn the_machines_of_the_demonstration_get_exactly_their_six_labels() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.configured("mode: fixture", &[]);
    let cases = [
        ("master-c2-1", "cloudlycke://m-c2-1", "vbox.vm.512mb.1cpu", "192.168.20.10"),
        ("node-c2-1", "cloudlycke://n-c2-1", "vbox.vm.1g.2cpu", "192.168.20.11"),
        ("node-c2-2", "cloudlycke://n-c2-2", FIXTURE_TYPE, "192.168.20.12"),
    ];
    for (name, provider_id, instance_type, ip) in cases {
        let before = NodeFixture::new(name).provided_node_ip(ip).register(client).await.unwrap();
        let after = await_untainted(client, name).await;
        let addresses = [format!("InternalIP {ip}"), format!("ExternalIP {ip}"), format!("Hostname {name}")];
        let addresses = addresses.map(|text| &*text.leak());
        let machine = Machine { instance_type, mode: Some("fixture"), ..Machine::new(provider_id, &addresses) };
        assert_eq!(bare(&after), machine.applied_to(&before), "{name}");
    }
    host.end().await;
}

/// 2.3, step 3; 7.1/4, 7.2/16.
#[tokio::test]
async fn a_node_without_the_taint_is_not_asked_about() {
    let stage = Stage::new().await;
    let client = stage.client();
    // The next refresh of addresses is far away.
    let host = stage.cloudlycke(&["--node-status-update-frequency=1h"]);
    host.refreshed().await;
    let mut before = vec![];
    for name in ["n0", "n1", "n2"] {
        before.push(NodeFixture::new(name).internal_ip("10.0.0.1").initialized().register(client).await.unwrap());
    }
    // Another one whose change shows that the ones before it were looked at.
    let zones = json!({ "failure-domain.beta.kubernetes.io/zone": "z" });
    patch(client, "n2", &json!({ "metadata": { "labels": zones } })).await;
    let has_zone =
        |node: &Node| node.metadata.labels.as_ref().is_some_and(|l| l.contains_key("topology.kubernetes.io/zone"));
    ccm_cluster::await_node(client, "n2", crate::stage::LIMIT, has_zone).await.unwrap();
    for node in &before[..2] {
        assert_eq!(get(client, node.metadata.name.as_deref().unwrap()).await, *node);
    }
    assert_eq!(host.lookups().await, 0.0);
    host.end().await;
}

/// Somebody else's Node: not an error that anybody has to repair.
#[tokio::test]
async fn a_node_of_another_cloud_keeps_its_taint_without_a_warning_until_it_is_adopted() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    host.ready().await;
    let foreign = node("foreign").provider_id("aws:///eu-north-1a/i-1").register(client).await.unwrap();
    // Twice, so that a second look at the first Node is over as well.
    annotate(client, "foreign", "someone.example/else", Some("1")).await;
    let foreign_again = annotate(client, "foreign", "someone.example/else", None).await;
    for fence in ["fence-1", "fence-2"] {
        node(fence).register(client).await.unwrap();
        await_event(client, fence, "Normal", "Synced", &[]).await;
    }
    host.events_written().await;
    assert_eq!(get(client, "foreign").await, foreign_again);
    assert_eq!(bare(&foreign), bare(&foreign_again));
    assert_eq!(all_events(client).await.len(), 2, "only the fences'");
    assert!(!host.log_text().contains("node not initialised"), "nor does the log warn");
    host.end().await;

    let host = stage.configured("adoptForeign: true", &[]);
    let after = await_untainted(client, "foreign").await;
    let machine =
        Machine::new("aws:///eu-north-1a/i-1", &["InternalIP 10.1.0.1", "ExternalIP 10.1.0.1", "Hostname foreign"]);
    assert_eq!(bare(&after), machine.applied_to(&foreign));
    host.end().await;
}
