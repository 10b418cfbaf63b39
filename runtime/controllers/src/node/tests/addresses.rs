//! 7.4 and 7.7: which addresses, and whether they differ.

use ccm_cloud::{Address, AddressKind};

use crate::node::addresses::{ProvidedIpError, differ, filter, wanted};
use crate::testing::{address, node};

const INTERNAL: AddressKind = AddressKind::InternalIp;
const EXTERNAL: AddressKind = AddressKind::ExternalIp;
const HOST: AddressKind = AddressKind::Hostname;
const INTERNAL_DNS: AddressKind = AddressKind::InternalDns;
const EXTERNAL_DNS: AddressKind = AddressKind::ExternalDns;

type ExpectedAddress = (AddressKind, &'static str);

fn list(entries: &[ExpectedAddress]) -> Vec<Address> {
    entries.iter().map(|(kind, value)| address(*kind, value)).collect()
}

#[test]
fn addresses_differ_when_any_entry_or_the_order_does() {
    let two = [(INTERNAL, "10.0.0.1"), (EXTERNAL, "132.143.154.163")];
    let three = [(INTERNAL, "10.0.0.1"), (EXTERNAL, "132.143.154.163"), (HOST, "h")];
    let cases: [(&str, &[ExpectedAddress], &[ExpectedAddress], bool); 8] = [
        ("case_36 equal", &two, &two, false),
        ("case_37 another external IP", &two, &[two[0], (EXTERNAL, "132.143.154.164")], true),
        ("case_38 the old has a hostname more", &three, &two, true),
        ("case_39 the new has a hostname more", &two, &three, true),
        ("case_40 types swapped", &two, &[(EXTERNAL, "10.0.0.1"), (INTERNAL, "132.143.154.163")], true),
        (
            "QUIRK-03 two of one type, equal",
            &[(INTERNAL, "a"), (INTERNAL, "b")],
            &[(INTERNAL, "a"), (INTERNAL, "b")],
            false,
        ),
        (
            "QUIRK-03 two of one type, other order",
            &[(INTERNAL, "a"), (INTERNAL, "b")],
            &[(INTERNAL, "b"), (INTERNAL, "a")],
            true,
        ),
        ("none at all", &[], &[], false),
    ];
    for (name, old, new, changed) in cases {
        let draft = old.iter().fold(node("n"), |node, (kind, value)| node.address(kind.as_str(), value));
        assert_eq!(differ(&draft.object(), &list(new)), changed, "{name}");
    }
}

#[test]
fn an_entry_of_a_kind_that_nobody_defines_counts_as_a_difference() {
    let odd = node("n").address("Strange", "x").address("InternalIP", "10.0.0.1").object();
    assert!(differ(&odd, &list(&[(INTERNAL, "10.0.0.1")])));
}

/// Upstream leaves it to each provider not to list an address twice, and has a helper for that.
#[test]
fn addresses_stand_in_the_order_of_the_cloud_and_each_once() {
    // What the kubelet says, what the cloud does, and what stands on the Node.
    type Row<'a> = (&'a str, &'a [ExpectedAddress], &'a [ExpectedAddress], &'a [ExpectedAddress]);
    let rows: [Row<'_>; 6] = [
        ("case_59 nothing", &[], &[], &[]),
        ("case_60 two different ones", &[], &[(EXTERNAL, "b"), (INTERNAL, "a")], &[(EXTERNAL, "b"), (INTERNAL, "a")]),
        (
            "case_60 alike but for the type",
            &[],
            &[(EXTERNAL, "a"), (INTERNAL, "a")],
            &[(EXTERNAL, "a"), (INTERNAL, "a")],
        ),
        ("case_61 the same one twice", &[], &[(INTERNAL, "a"), (INTERNAL, "a")], &[(INTERNAL, "a")]),
        (
            "case_61 the same one twice, others between",
            &[(HOST, "h"), (HOST, "h")],
            &[(INTERNAL, "a"), (EXTERNAL, "b"), (INTERNAL, "a"), (INTERNAL, "c")],
            &[(INTERNAL, "a"), (EXTERNAL, "b"), (INTERNAL, "c"), (HOST, "h")],
        ),
        (
            "case_62 one that is known and one that is new",
            &[(HOST, "h")],
            &[(HOST, "h"), (INTERNAL, "a")],
            &[(HOST, "h"), (INTERNAL, "a")],
        ),
    ];
    for (name, kubelet, cloud, stand) in rows {
        let node = kubelet.iter().fold(node("n"), |node, (kind, value)| node.address(kind.as_str(), value)).object();
        let stand = Some(list(stand)).filter(|stand| !stand.is_empty());
        assert_eq!(wanted(&list(cloud), &node), Ok(stand), "{name}");
    }
}

#[test]
fn every_hostname_of_the_kubelet_is_kept_at_the_end_when_the_cloud_has_none() {
    let node = node("n").address("Hostname", "a").address("InternalIP", "10.9.9.9").address("Hostname", "b").object();
    let cloud = list(&[(INTERNAL, "10.0.0.1")]);
    let kept = list(&[(INTERNAL, "10.0.0.1"), (HOST, "a"), (HOST, "b")]);
    assert_eq!(wanted(&cloud, &node), Ok(Some(kept)));
    assert_eq!(wanted(&[], &node), Ok(None));
}

#[test]
fn the_filter_puts_provided_addresses_first_and_drops_others_of_their_kinds() {
    let dual = [(INTERNAL, "10.0.0.1"), (INTERNAL, "fd00::1"), (HOST, "h")];
    let dual_six_first = [(INTERNAL, "fd00::1"), (INTERNAL, "10.0.0.1"), (HOST, "h")];
    let many =
        [(INTERNAL, "10.0.0.1"), (INTERNAL, "10.0.0.2"), (INTERNAL, "fd00::1"), (INTERNAL, "fd00::2"), (HOST, "h")];
    let cases: [(&str, &[ExpectedAddress], &str, &[ExpectedAddress]); 16] = [
        ("case_63", &[(INTERNAL, "10.1.1.1"), (HOST, "h")], "10.1.1.1", &[(INTERNAL, "10.1.1.1"), (HOST, "h")]),
        (
            "case_64",
            &[(INTERNAL, "10.1.1.1"), (EXTERNAL, "55.55.55.55"), (HOST, "h")],
            "55.55.55.55",
            &[(EXTERNAL, "55.55.55.55"), (INTERNAL, "10.1.1.1"), (HOST, "h")],
        ),
        (
            "case_65",
            &[
                (INTERNAL, "10.1.1.1"),
                (EXTERNAL, "55.55.55.55"),
                (INTERNAL, "55.55.55.55"),
                (EXTERNAL, "10.1.1.1"),
                (HOST, "h"),
            ],
            "55.55.55.55",
            &[(EXTERNAL, "55.55.55.55"), (INTERNAL, "55.55.55.55"), (HOST, "h")],
        ),
        (
            "case_66",
            &[(INTERNAL, "10.1.1.1"), (EXTERNAL, "55.55.55.55"), (INTERNAL_DNS, "i"), (EXTERNAL_DNS, "e"), (HOST, "h")],
            "10.1.1.1",
            &[(INTERNAL, "10.1.1.1"), (EXTERNAL, "55.55.55.55"), (INTERNAL_DNS, "i"), (EXTERNAL_DNS, "e"), (HOST, "h")],
        ),
        (
            "case_67",
            &[
                (INTERNAL, "10.1.1.1"),
                (INTERNAL, "10.2.2.2"),
                (INTERNAL, "10.3.3.3"),
                (EXTERNAL, "55.55.55.55"),
                (HOST, "h"),
            ],
            "10.1.1.1",
            &[(INTERNAL, "10.1.1.1"), (EXTERNAL, "55.55.55.55"), (HOST, "h")],
        ),
        (
            "case_69",
            &[(INTERNAL, "10.1.1.1"), (INTERNAL, "2600:1f14:1d4:d101::ba3d"), (HOST, "h")],
            "2600:1f14:1d4:d101:0:0:0:ba3d",
            &[(INTERNAL, "2600:1f14:1d4:d101::ba3d"), (HOST, "h")],
        ),
        ("case_71", &dual, "10.0.0.1,fd00::1", &dual),
        ("case_72", &dual_six_first, "10.0.0.1,fd00::1", &dual),
        ("case_73", &many, "10.0.0.2,fd00::1", &[(INTERNAL, "10.0.0.2"), (INTERNAL, "fd00::1"), (HOST, "h")]),
        (
            "case_74",
            &[(INTERNAL, "10.0.0.1"), (INTERNAL, "fd00::1"), (EXTERNAL, "55.55.55.55"), (HOST, "h")],
            "10.0.0.1,fd00::1",
            &[(INTERNAL, "10.0.0.1"), (INTERNAL, "fd00::1"), (EXTERNAL, "55.55.55.55"), (HOST, "h")],
        ),
        (
            "case_75",
            &[
                (INTERNAL, "10.0.0.1"),
                (EXTERNAL, "55.55.55.55"),
                (INTERNAL, "fd00::1"),
                (EXTERNAL, "2600::1"),
                (HOST, "h"),
            ],
            "fd00::1,10.0.0.1",
            &[
                (INTERNAL, "fd00::1"),
                (INTERNAL, "10.0.0.1"),
                (EXTERNAL, "55.55.55.55"),
                (EXTERNAL, "2600::1"),
                (HOST, "h"),
            ],
        ),
        (
            "case_76",
            &[
                (INTERNAL, "10.0.0.1"),
                (EXTERNAL, "55.55.55.55"),
                (INTERNAL, "fd00::1"),
                (EXTERNAL, "2600::1"),
                (HOST, "h"),
            ],
            "55.55.55.55,fd00::1",
            &[(EXTERNAL, "55.55.55.55"), (INTERNAL, "fd00::1"), (HOST, "h")],
        ),
        ("2.8 leading zeros in the annotation", &[(INTERNAL, "10.0.0.1")], "010.000.00.001", &[(INTERNAL, "10.0.0.1")]),
        ("2.8 leading zeros of the cloud", &[(INTERNAL, "10.0.0.01")], "10.0.0.1", &[(INTERNAL, "10.0.0.01")]),
        (
            "2.8 IPv4 inside IPv6",
            &[(INTERNAL, "::ffff:10.0.0.1")],
            "::ffff:10.00.0.1",
            &[(INTERNAL, "::ffff:10.0.0.1")],
        ),
        (
            "2.8 IPv4 inside IPv6 is IPv4",
            &[(INTERNAL, "10.0.0.1"), (EXTERNAL, "fd00::1")],
            "::ffff:10.0.0.1,fd00::1",
            &[(INTERNAL, "10.0.0.1"), (EXTERNAL, "fd00::1")],
        ),
    ];
    for (name, cloud, provided, kept) in cases {
        assert_eq!(filter(&list(cloud), provided), Ok(list(kept)), "{name}");
    }
}

#[test]
fn the_filter_refuses_what_it_cannot_satisfy() {
    let cloud = list(&[(INTERNAL, "10.1.1.1"), (INTERNAL, "0.0.0.0"), (INTERNAL, "::"), (HOST, "h")]);
    let not_an_ip = |text: &str| ProvidedIpError::NotAnIp(text.into());
    let families = |text: &str| ProvidedIpError::Families(text.into());
    let cases = [
        ("case_68 not listed", "10.2.2.2", ProvidedIpError::NotListed("10.2.2.2".parse().unwrap())),
        (
            "case_70 two families, one listed",
            "10.1.1.1,fd00::1",
            ProvidedIpError::NotListed("fd00::1".parse().unwrap()),
        ),
        ("case_77 a space after the comma", "10.1.1.1, fd00::1", not_an_ip("10.1.1.1, fd00::1")),
        ("case_77 empty", "", not_an_ip("")),
        ("case_77 three addresses", "10.1.1.1,fd00::1,10.1.1.1", families("10.1.1.1,fd00::1,10.1.1.1")),
        ("case_77 one family", "10.1.1.1,10.1.1.2", families("10.1.1.1,10.1.1.2")),
        ("case_77 both unspecified", "0.0.0.0,::", ProvidedIpError::Unspecified("0.0.0.0,::".into())),
        ("2.8 one of two unspecified", "10.1.1.1,::", ProvidedIpError::Unspecified("10.1.1.1,::".into())),
        ("2.8 an octet too large", "10.1.1.256", not_an_ip("10.1.1.256")),
        ("2.8 an empty octet", "10..1.1", not_an_ip("10..1.1")),
        ("2.8 a zone", "fe80::1%eth0", not_an_ip("fe80::1%eth0")),
        ("2.8 a trailing comma", "10.1.1.1,", not_an_ip("10.1.1.1,")),
    ];
    for (name, provided, error) in cases {
        assert_eq!(filter(&cloud, provided), Err(error), "{name}");
    }
}
