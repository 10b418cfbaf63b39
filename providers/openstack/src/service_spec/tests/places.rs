//! Who says where a load balancer, its members and its floating IP are.

use super::super::place::{By, Floating, Place};
use super::*;

const DMZ: (&str, &str) = (names::CLASS, "dmz");

/// One with the class `dmz`.
fn with_class(own: &Class, class: Class) -> Config {
    let mut config = config();
    config.balancers.place = own.clone();
    config.classes = vec![("dmz".to_owned(), class)];
    config
}

fn own() -> Class {
    Class {
        network: "net-own".to_owned(),
        subnet: "sub-own".to_owned(),
        floating_network: "out-own".to_owned(),
        floating_subnet_id: "out-sub-own".to_owned(),
        ..Class::default()
    }
}

fn class() -> Class {
    Class {
        network: "net-class".to_owned(),
        subnet: "sub-class".to_owned(),
        member_subnet: "mem-class".to_owned(),
        floating_network: "out-class".to_owned(),
        floating_subnet: "out-*".to_owned(),
        ..Class::default()
    }
}

/// Network, subnet, subnet of the members.
fn place_of(network: &str, subnet: &str, members: &str) -> Place {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Place { network: some(network), subnet: some(subnet), member_subnet: some(members), port: None }
}

/// The Go manager's members moved from one subnet to another with its calls (Q31).
#[test]
fn a_place_is_that_of_the_class_the_annotation_or_the_configuration_and_what_a_class_leaves_empty_it_does_not_say() {
    let asked = [(names::NETWORK, "net-asked"), (names::SUBNET, "sub-asked"), (names::MEMBER_SUBNET, "mem-asked")];
    let of = |more: &[(&'static str, &'static str)]| [&asked[..], more].concat();
    let internal = (names::INTERNAL, "true");
    let members = |place: Class| Class { member_subnet: "mem-own".to_owned(), ..place };
    for (case, config, annotations, expected) in [
        ("the configuration", with_class(&own(), class()), vec![], ("net-own", "sub-own", "sub-own")),
        ("and its members", with_class(&members(own()), class()), vec![], ("net-own", "sub-own", "mem-own")),
        ("annotations", with_class(&own(), class()), of(&[]), ("net-asked", "sub-asked", "mem-asked")),
        (
            "members without a place",
            with_class(&own(), class()),
            of(&[])[..2].to_vec(),
            ("net-asked", "sub-asked", "sub-own"),
        ),
        ("nothing at all", with_class(&Class::default(), class()), vec![], ("", "", "")),
        ("a class", with_class(&own(), class()), vec![DMZ], ("net-class", "sub-class", "mem-class")),
        (
            "a class before annotations",
            with_class(&own(), class()),
            of(&[DMZ]),
            ("net-class", "sub-class", "mem-asked"),
        ),
        (
            "annotations before a class",
            with_class(&own(), class()),
            of(&[DMZ, internal]),
            ("net-asked", "sub-asked", "mem-asked"),
        ),
        ("an empty class", with_class(&members(own()), Class::default()), vec![DMZ], ("net-own", "sub-own", "mem-own")),
        (
            "an empty class, and annotations",
            with_class(&own(), Class::default()),
            of(&[DMZ]),
            ("net-asked", "sub-asked", "mem-asked"),
        ),
        (
            "an empty class, internal",
            with_class(&own(), Class::default()),
            vec![DMZ, internal],
            ("net-own", "sub-own", "sub-own"),
        ),
    ] {
        let (network, subnet, members) = expected;
        assert_eq!(spec_of(&config, &service(&annotations)).place, place_of(network, subnet, members), "{case}");
    }
}

#[test]
fn a_floating_ip_is_from_the_class_the_annotation_or_the_configuration_and_what_a_class_leaves_empty_it_does_not_say() {
    let subnet = |id: &str| Choice::Subnet(id.to_owned());
    let matching = |name: &str, tags: &str| Choice::Matching(name.to_owned(), tags.to_owned());
    let network = [(names::FLOATING_NETWORK, "out-asked")];
    let of = |more: &[(&'static str, &'static str)]| [&network[..], more].concat();
    let (id, name, tags) = (
        (names::FLOATING_SUBNET_ID, "out-sub-asked"),
        (names::FLOATING_SUBNET, "asked-*"),
        (names::FLOATING_SUBNET_TAGS, "a,b"),
    );
    for (case, class, annotations, network, choice, by) in [
        ("the configuration", class(), vec![], "out-own", subnet("out-sub-own"), By::Configuration),
        ("annotations", class(), of(&[id]), "out-asked", subnet("out-sub-asked"), By::Service),
        ("a name that is asked for", class(), of(&[name]), "out-asked", matching("asked-*", ""), By::Service),
        ("tags that are asked for", class(), of(&[tags]), "out-asked", matching("", "a,b"), By::Service),
        ("an ID before a name", class(), of(&[id, name, tags]), "out-asked", subnet("out-sub-asked"), By::Service),
        ("a class", class(), of(&[id, DMZ]), "out-class", matching("out-*", ""), By::Class("dmz".to_owned())),
        ("an empty class", Class::default(), vec![DMZ], "out-own", subnet("out-sub-own"), By::Configuration),
        (
            "an empty class, and annotations",
            Class::default(),
            of(&[id, DMZ]),
            "out-asked",
            subnet("out-sub-asked"),
            By::Service,
        ),
    ] {
        let expected = Floating { network: Some(network.to_owned()), choice, by };
        assert_eq!(spec_of(&with_class(&own(), class), &service(&annotations)).floating, expected, "{case}");
    }
}
