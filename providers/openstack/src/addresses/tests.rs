use super::*;
use crate::api::ports::FixedIp;
use crate::config::networking::sort_order;

const V6_ACCESS: &str = "2001:4800:790e:510:be76:4eff:fe04:82a8";
const V6_PUBLIC: &str = "2001:4800:780e:510:be76:4eff:fe04:84a8";

/// The server that the cases of the Go manager begin with; `public` is the name of its second network.
fn server(public: &str, also: &str, hostname: &str) -> Server {
    let text = format!(
        r#"{{"id": "s-1", "name": "node", "status": "ACTIVE", "accessIPv4": "50.56.176.99", "accessIPv6": "{V6_ACCESS}",
            "metadata": {{"name": "x" {hostname}}},
            "addresses": {{
                "private": [{{"OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:7c:1b:2b", "version": 4, "addr": "10.0.0.32", "OS-EXT-IPS:type": "fixed"}},
                            {{"version": 4, "addr": "50.56.176.36", "OS-EXT-IPS:type": "floating"}},
                            {{"version": 4, "addr": "10.0.0.31"}}],
                "{public}": [{{"version": 4, "addr": "50.56.176.35"}}, {{"version": 6, "addr": "{V6_PUBLIC}"}}] {also}}}}}"#
    );
    serde_json::from_str(&text).expect("a server")
}

const HOSTNAME: &str = r#", "hostname": "h.example""#;
const ALSO: &str = r#", "also-private": [{"version": 4, "addr": "10.0.0.64"}]"#;

fn port(addresses: &[&str]) -> Port {
    let fixed = |ip: &&str| FixedIp { subnet_id: String::new(), ip_address: (*ip).to_owned() };
    Port { status: "ACTIVE".to_owned(), fixed_ips: addresses.iter().map(fixed).collect(), ..Port::default() }
}

fn networking(public: &[&str], internal: &[&str], order: &str) -> Networking {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Networking { no_ipv6: false, public: names(public), internal: names(internal), order: sort_order(order).0 }
}

fn told(server: &Server, ports: &[Port], networking: &Networking) -> Vec<String> {
    let ports: Vec<&Port> = ports.iter().collect();
    words(&of(server, &ports, &[], networking))
}

fn words(addresses: &[Address]) -> Vec<String> {
    let word = |kind| match kind {
        AddressType::InternalIp => "int",
        AddressType::ExternalIp => "ext",
        _ => "host",
    };
    addresses.iter().map(|address| format!("{} {}", word(address.kind), address.value)).collect()
}

fn all(text: &str) -> Vec<String> {
    text.split(", ").map(|word| word.replace("V6A", V6_ACCESS).replace("V6P", V6_PUBLIC)).collect()
}

#[test]
fn os_028_to_033_addresses_are_internal_external_or_left_out_as_their_network_says() {
    let base = [port(&["10.0.0.32", "10.0.0.31"])];
    let also = [port(&["10.0.0.32", "10.0.0.31", "50.56.176.36"])];
    let no_v6 = Networking { no_ipv6: true, ..networking(&["public"], &[], "") };
    for (case, server, ports, networking, addresses) in [
        (
            "os_028",
            server("public", "", HOSTNAME),
            &base,
            networking(&["public"], &[], ""),
            "int 10.0.0.32, int 10.0.0.31, ext 50.56.176.99, ext V6A, host h.example, ext 50.56.176.36, ext 50.56.176.35, ext V6P",
        ),
        (
            "os_029",
            server("pub-net", "", ""),
            &base,
            networking(&["pub-net"], &[], ""),
            "int 10.0.0.32, int 10.0.0.31, ext 50.56.176.99, ext V6A, ext 50.56.176.36, ext 50.56.176.35, ext V6P",
        ),
        (
            "os_031",
            server("pub-net", ALSO, ""),
            &base,
            networking(&[], &["private", "also-private"], ""),
            "int 10.0.0.32, int 10.0.0.31, ext 50.56.176.99, ext V6A, int 10.0.0.64, ext 50.56.176.36",
        ),
        (
            "os_032",
            server("pub-net", ALSO, ""),
            &base,
            networking(&[], &["also-private"], ""),
            "ext 50.56.176.99, ext V6A, int 10.0.0.64, ext 50.56.176.36",
        ),
        (
            "os_033",
            server("public", "", HOSTNAME),
            &base,
            no_v6,
            "int 10.0.0.32, int 10.0.0.31, ext 50.56.176.99, host h.example, ext 50.56.176.36, ext 50.56.176.35",
        ),
    ] {
        assert_eq!(told(&server, ports, &networking), all(addresses), "{case}");
    }
    // An address of a port that a public network has as well is external alone.
    let server: Server = serde_json::from_str(
        r#"{"id": "s-1", "addresses": {"pub-net": [{"addr": "50.56.176.36"}], "private": [{"addr": "10.0.0.32"}]}}"#,
    )
    .expect("a server");
    let networking = networking(&["pub-net"], &[], "");
    assert_eq!(told(&server, &also, &networking), all("int 10.0.0.32, int 10.0.0.31, ext 50.56.176.36"));
}

#[test]
fn os_030_an_address_of_a_port_on_a_public_network_is_there_once_and_external() {
    let server = server("pub-net", "", "");
    let ports = [port(&["10.0.0.32", "50.56.176.35"])];
    let expected =
        "int 10.0.0.32, ext 50.56.176.99, ext V6A, ext 50.56.176.36, int 10.0.0.31, ext 50.56.176.35, ext V6P";
    assert_eq!(told(&server, &ports, &networking(&["pub-net"], &[], "")), all(expected));
}

#[test]
fn os_034_addresses_are_sorted_by_networks_and_then_by_number() {
    let order = "10.0.0.0/8, 50.56.176.0/24, 2001:4800::/32";
    let expected = "int 10.0.0.31, int 10.0.0.32, ext 50.56.176.35, ext 50.56.176.36, ext 50.56.176.99, ext V6P, ext V6A, host h.example";
    let server = server("public", "", HOSTNAME);
    assert_eq!(
        told(&server, &[port(&["10.0.0.32", "10.0.0.31"])], &networking(&["public"], &[], order)),
        all(expected)
    );
}

#[test]
fn os_035_what_is_no_network_is_left_out_of_the_order() {
    let read = |text: &str| {
        let (order, wrong) = sort_order(text);
        (order.iter().map(ToString::to_string).collect::<Vec<_>>(), wrong)
    };
    assert_eq!(read(""), (vec![], vec![]));
    let wrong = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    assert_eq!(read("10.0.0.0/244, x 10.0.0.1"), (vec![], wrong(&["10.0.0.0/244", "x", "10.0.0.1"])));
    assert_eq!(read("10.0.0.0/8 x,fd00::/8"), (wrong(&["10.0.0.0/8", "fd00::/8"]), wrong(&["x"])));
}

#[test]
fn os_036_the_first_network_has_the_highest_place() {
    let networking = networking(&[], &[], "192.168.100.0/24, 2001:4800:790e::/64");
    for (ip, place) in
        [("2001:4800:790e::82a8", 1), ("2001:cafe:babe::82a8", 0), ("192.168.100.200", 2), ("192.168.101.123", 0)]
    {
        assert_eq!(priority(ip.parse().expect("an address"), &networking), place, "{ip}");
    }
    for value in ["", "host.example"] {
        let address = Address { kind: AddressType::Hostname, value: value.to_owned() };
        assert_eq!(order(&address, &networking), (Reverse(0), 0));
    }
}

/// By the names of their networks, in which they are found. The host name comes first.
const MIXED: [(&str, &str); 13] = [
    ("a-public", "2001:4800:780e:510:be76:4eff:fe04:84a8"),
    ("b-private", "fd08:1374:fcee:916b:be76:4eff:fe04:84a8"),
    ("c-private", "192.168.0.1"),
    ("d-private", "fd08:1374:fcee:916b:be76:4eff:fe04:82a8"),
    ("e-private", "10.0.0.32"),
    ("f-private", "172.16.0.1"),
    ("g-public", "2001:4800:790e:510:be76:4eff:fe04:82a8"),
    ("h-private", "10.0.0.31"),
    ("i-public", "50.56.176.37"),
    ("j-public", "50.56.176.36"),
    ("k-public", "50.56.176.35"),
    ("l-private", "192.168.1.1"),
    ("m-public", "50.56.176.99"),
];

fn sorted(order_text: &str) -> Vec<String> {
    let networks: serde_json::Map<String, serde_json::Value> =
        MIXED.iter().map(|&(network, ip)| (network.to_owned(), serde_json::json!([{ "addr": ip }]))).collect();
    let server = serde_json::json!({ "id": "s-1", "metadata": { "hostname": "h.example" }, "addresses": networks });
    let server: Server = serde_json::from_value(server).expect("a server");
    let public: Vec<&str> = MIXED.iter().map(|(network, _)| *network).filter(|name| name.ends_with("public")).collect();
    of(&server, &[], &[], &networking(&public, &[], order_text)).into_iter().map(|address| address.value).collect()
}

#[test]
fn os_037_to_040_sorting_keeps_the_order_of_what_no_network_has() {
    for (case, order, expected) in [
        (
            "os_037",
            "10.0.0.0/244",
            [
                "h.example",
                "2001:4800:780e:510:be76:4eff:fe04:84a8",
                "fd08:1374:fcee:916b:be76:4eff:fe04:84a8",
                "192.168.0.1",
                "fd08:1374:fcee:916b:be76:4eff:fe04:82a8",
                "10.0.0.32",
                "172.16.0.1",
                "2001:4800:790e:510:be76:4eff:fe04:82a8",
                "10.0.0.31",
                "50.56.176.37",
                "50.56.176.36",
                "50.56.176.35",
                "192.168.1.1",
                "50.56.176.99",
            ],
        ),
        (
            "os_038",
            "10.0.0.0/8",
            [
                "10.0.0.31",
                "10.0.0.32",
                "h.example",
                "2001:4800:780e:510:be76:4eff:fe04:84a8",
                "fd08:1374:fcee:916b:be76:4eff:fe04:84a8",
                "192.168.0.1",
                "fd08:1374:fcee:916b:be76:4eff:fe04:82a8",
                "172.16.0.1",
                "2001:4800:790e:510:be76:4eff:fe04:82a8",
                "50.56.176.37",
                "50.56.176.36",
                "50.56.176.35",
                "192.168.1.1",
                "50.56.176.99",
            ],
        ),
        (
            "os_039",
            "fd08:1374:fcee:916b::/64",
            [
                "fd08:1374:fcee:916b:be76:4eff:fe04:82a8",
                "fd08:1374:fcee:916b:be76:4eff:fe04:84a8",
                "h.example",
                "2001:4800:780e:510:be76:4eff:fe04:84a8",
                "192.168.0.1",
                "10.0.0.32",
                "172.16.0.1",
                "2001:4800:790e:510:be76:4eff:fe04:82a8",
                "10.0.0.31",
                "50.56.176.37",
                "50.56.176.36",
                "50.56.176.35",
                "192.168.1.1",
                "50.56.176.99",
            ],
        ),
        (
            "os_040",
            "50.56.176.0/24, 192.168.0.0/16, fd08::/16, 172.16.0.0/12, 10.0.0.0/8, 2001:4800:790e::/48",
            [
                "50.56.176.35",
                "50.56.176.36",
                "50.56.176.37",
                "50.56.176.99",
                "192.168.0.1",
                "192.168.1.1",
                "fd08:1374:fcee:916b:be76:4eff:fe04:82a8",
                "fd08:1374:fcee:916b:be76:4eff:fe04:84a8",
                "172.16.0.1",
                "10.0.0.31",
                "10.0.0.32",
                "2001:4800:790e:510:be76:4eff:fe04:82a8",
                "h.example",
                "2001:4800:780e:510:be76:4eff:fe04:84a8",
            ],
        ),
    ] {
        assert_eq!(sorted(order), expected, "{case}");
    }
}

#[test]
fn ports_come_in_the_order_of_the_servers_interfaces_and_only_those_that_work() {
    let server: Server = serde_json::from_str(
        r#"{"id": "s-1", "addresses": {"z-first": [{"addr": "10.9.0.5"}], "a-second": [{"addr": "10.1.0.5"}]}}"#,
    )
    .expect("a server");
    let down = Port { status: "DOWN".to_owned(), ..port(&["10.7.0.5"]) };
    // Neutron sorts them by IDs that are made up.
    let ports = [port(&["10.8.0.5"]), port(&["10.1.0.5"]), down, port(&["10.9.0.5"])];
    assert_eq!(told(&server, &ports, &Networking::default()), all("int 10.9.0.5, int 10.1.0.5, int 10.8.0.5"));
}

#[test]
fn addresses_within_trunks_are_those_of_their_networks() {
    let server = server("public", "", "");
    let on = |network: &str, address: &str| OnTrunk { network: network.to_owned(), address: address.to_owned() };
    let trunk = [on("vlan", "10.50.0.4"), on("public", "203.0.113.9"), on("hidden", "10.60.0.4")];
    let networking = networking(&["public"], &["private", "vlan"], "");
    let expected = "int 10.0.0.32, ext 50.56.176.99, ext V6A, ext 50.56.176.36, int 10.0.0.31, ext 50.56.176.35, ext V6P, \
                    ext 203.0.113.9, int 10.50.0.4";
    assert_eq!(words(&of(&server, &[&port(&["10.0.0.32"])], &trunk, &networking)), all(expected));
}
