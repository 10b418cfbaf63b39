//! 2.8 and 7.7: the address that a kubelet asks for with `--node-ip`. The numbers are those of the behaviour reference.

use ccm_cluster::NodeFixture;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::look::{
    PROVIDED_IP, addresses, annotate, await_event, await_untainted, create, get, told_once, with_addresses,
};
use crate::stage::Stage;

/// A Node whose kubelet asks for an address, what the cloud has, and what the Node gets, or what people are told.
struct Case {
    number: &'static str,
    asked: &'static str,
    cloud: &'static [&'static str],
    wanted: Result<&'static [&'static str], &'static str>,
}

const fn case(
    number: &'static str,
    asked: &'static str,
    cloud: &'static [&'static str],
    wanted: Result<&'static [&'static str], &'static str>,
) -> Case {
    Case { number, asked, cloud, wanted }
}

const SEVERAL: &[&str] = &[
    "InternalIP 10.1.1.1",
    "InternalIP 10.2.2.2",
    "InternalIP fd00::1",
    "InternalIP fd00::2",
    "ExternalIP 55.55.55.55",
    "Hostname h",
];

/// No Node gets an address that another one has and its kubelet does not ask for.
const CASES: [Case; 22] = [
    case(
        "case_7",
        "10.0.0.1",
        &["InternalIP 10.0.0.1", "ExternalIP 5.5.5.5"],
        Ok(&["InternalIP 10.0.0.1", "ExternalIP 5.5.5.5", "Hostname KUBELET"]),
    ),
    case("case_8", "invalid-ip", &["InternalIP 10.0.0.1"], Err("\"invalid-ip\", which is not an IP address")),
    case("case_9", "10.0.0.2", &["InternalIP 10.0.0.1"], Err("no address of this machine that is 10.0.0.2")),
    case("case_63", "10.1.1.1", &["InternalIP 10.1.1.1", "Hostname h"], Ok(&["InternalIP 10.1.1.1", "Hostname h"])),
    case(
        "case_64",
        "55.55.55.55",
        &["InternalIP 10.1.1.64", "ExternalIP 55.55.55.55", "Hostname h"],
        Ok(&["ExternalIP 55.55.55.55", "InternalIP 10.1.1.64", "Hostname h"]),
    ),
    case(
        "case_65",
        "55.55.55.65",
        &[
            "InternalIP 10.1.1.1",
            "ExternalIP 9.9.9.9",
            "InternalIP 55.55.55.65",
            "ExternalIP 55.55.55.65",
            "Hostname h",
        ],
        Ok(&["InternalIP 55.55.55.65", "ExternalIP 55.55.55.65", "Hostname h"]),
    ),
    case(
        "case_66",
        "10.1.1.1",
        &["InternalIP 10.1.1.1", "ExternalIP 9.9.9.9", "InternalDNS i", "ExternalDNS e", "Hostname h"],
        Ok(&["InternalIP 10.1.1.1", "ExternalIP 9.9.9.9", "InternalDNS i", "ExternalDNS e", "Hostname h"]),
    ),
    case("case_67", "10.1.1.1", SEVERAL, Ok(&["InternalIP 10.1.1.1", "ExternalIP 55.55.55.55", "Hostname h"])),
    case("case_68", "10.3.3.3", SEVERAL, Err("no address of this machine that is 10.3.3.3")),
    case("case_69", "fd00:0:0::2", SEVERAL, Ok(&["InternalIP fd00::2", "ExternalIP 55.55.55.55", "Hostname h"])),
    case(
        "case_70",
        "10.1.1.1,fd00::1",
        &["InternalIP 10.1.1.1", "Hostname h"],
        Err("no address of this machine that is fd00::1"),
    ),
    case(
        "case_71",
        "10.1.1.1,fd00::1",
        &["InternalIP 10.1.1.1", "InternalIP fd00::1", "Hostname h"],
        Ok(&["InternalIP 10.1.1.1", "InternalIP fd00::1", "Hostname h"]),
    ),
    case(
        "case_72",
        "10.1.1.1,fd00::1",
        &["InternalIP fd00::1", "InternalIP 10.1.1.1", "Hostname h"],
        Ok(&["InternalIP 10.1.1.1", "InternalIP fd00::1", "Hostname h"]),
    ),
    case(
        "case_73",
        "10.2.2.2,fd00::2",
        &["InternalIP 10.1.1.1", "InternalIP 10.2.2.2", "InternalIP fd00::1", "InternalIP fd00::2"],
        Ok(&["InternalIP 10.2.2.2", "InternalIP fd00::2", "Hostname KUBELET"]),
    ),
    case(
        "case_74",
        "10.2.2.2,fd00::2",
        SEVERAL,
        Ok(&["InternalIP 10.2.2.2", "InternalIP fd00::2", "ExternalIP 55.55.55.55", "Hostname h"]),
    ),
    case(
        "case_75",
        "fd00::1,10.1.1.1",
        SEVERAL,
        Ok(&["InternalIP fd00::1", "InternalIP 10.1.1.1", "ExternalIP 55.55.55.55", "Hostname h"]),
    ),
    case(
        "case_76",
        "55.55.55.55,fd00::1",
        &["InternalIP 10.1.1.1", "InternalIP fd00::1", "ExternalIP 55.55.55.55", "ExternalIP 9.9.9.9", "Hostname h"],
        Ok(&["ExternalIP 55.55.55.55", "InternalIP fd00::1", "Hostname h"]),
    ),
    case("case_77, a space", "10.1.1.1, fd00::1", SEVERAL, Err("which is not an IP address")),
    case("case_77, empty", "", SEVERAL, Err("which is not an IP address")),
    case("case_77, three", "10.1.1.1,fd00::1,fd00::2", SEVERAL, Err("one IPv4 and one IPv6 address")),
    case("case_77, one family", "10.1.1.1,10.2.2.2", SEVERAL, Err("one IPv4 and one IPv6 address")),
    case("case_77, unspecified", "0.0.0.0,::", SEVERAL, Err("of two addresses none may be unspecified")),
];

fn name(index: usize) -> String {
    format!("n{index}")
}

/// An address of the table for this Node. No two machines have the same host name.
fn of(text: &str, node: &str) -> String {
    if text == "Hostname h" { format!("Hostname h-{node}") } else { text.to_owned() }
}

/// The cloud as the table has it.
fn config() -> String {
    let address = |text: &str| {
        let (kind, address) = text.split_once(' ').unwrap();
        json!({ "type": kind, "address": address })
    };
    let machine = |(index, case): (usize, &Case)| -> Value {
        let addresses = case.cloud.iter().map(|text| address(&of(text, &name(index))));
        json!({ "name": name(index), "addresses": addresses.collect::<Vec<_>>() })
    };
    json!({ "instances": CASES.iter().enumerate().map(machine).collect::<Vec<_>>() }).to_string()
}

#[tokio::test]
async fn the_address_that_a_kubelet_asks_for_comes_first_or_the_node_waits_untouched() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.configured(&config(), &[]);
    host.ready().await;
    let mut before: Vec<Node> = vec![];
    for (index, case) in CASES.iter().enumerate() {
        let fixture = NodeFixture::new(name(index)).annotation(PROVIDED_IP, case.asked);
        before.push(create(client, &with_addresses(fixture, &["Hostname KUBELET", "InternalIP 10.99.0.1"])).await);
    }
    for (case, before) in CASES.iter().zip(&before) {
        let (number, name) = (case.number, before.name_any());
        match case.wanted {
            Ok(wanted) => {
                let wanted: Vec<String> = wanted.iter().map(|text| of(text, &name)).collect();
                assert_eq!(addresses(&await_untainted(client, &name).await), wanted, "{number}");
            }
            Err(part) => {
                let told = await_event(client, &name, "Warning", "SyncNodeFailed", &[part]).await;
                assert!(told.contains(PROVIDED_IP) && told.contains(&name), "{number}: {told}");
                assert_eq!(get(client, &name).await, *before, "{number}: byte for byte as before");
            }
        }
    }
    // What is put right goes on at once, whether it waited for a change or with back-off.
    for (case, before) in CASES.iter().zip(&before).filter(|(case, _)| case.wanted.is_err()) {
        let name = before.name_any();
        annotate(client, &name, PROVIDED_IP, Some(case.cloud[0].split_once(' ').unwrap().1)).await;
        assert_eq!(addresses(&await_untainted(client, &name).await)[0], case.cloud[0], "{}", case.number);
        await_event(client, &name, "Normal", "Synced", &[]).await;
        let said = told_once(client, &name).await;
        assert_eq!(said, ["Warning SyncNodeFailed", "Normal Synced"], "{}", case.number);
    }
    host.end().await;
}

/// Nobody configured anything: the provider itself takes the addresses from the annotation.
#[tokio::test]
async fn cloudlycke_confirms_what_the_kubelet_says_of_itself_unless_it_is_no_address() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = stage.cloudlycke(&[]);
    let cases = [
        ("single", "10.0.0.1", vec!["InternalIP 10.0.0.1", "ExternalIP 10.0.0.1", "Hostname single"]),
        (
            "dual",
            "fd00::1,10.0.0.2",
            vec!["InternalIP fd00::1", "ExternalIP fd00::1", "InternalIP 10.0.0.2", "Hostname dual"],
        ),
    ];
    for (name, ips, wanted) in cases {
        NodeFixture::new(name).provided_node_ip(ips).register(client).await.unwrap();
        assert_eq!(addresses(&await_untainted(client, name).await), wanted, "{name}");
    }
    let before = NodeFixture::new("wrong").annotation(PROVIDED_IP, "not-an-ip").register(client).await.unwrap();
    await_event(client, "wrong", "Warning", "SyncNodeFailed", &["\"not-an-ip\"", PROVIDED_IP, "(invalid)"]).await;
    assert_eq!(get(client, "wrong").await, before);
    annotate(client, "wrong", PROVIDED_IP, None).await;
    await_untainted(client, "wrong").await;
    host.end().await;
}
