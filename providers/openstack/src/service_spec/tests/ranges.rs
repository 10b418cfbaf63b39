//! Whom the source ranges of a Service let in.

use super::*;

fn only(networks: &[&str]) -> Ranges {
    Ranges::Only(networks.iter().map(|text| Cidr::masked(text).expect("a network")).collect())
}

/// Values that are none are refused; those that are good have to have an effect.
#[test]
fn the_annotation_keeps_out_whom_the_spec_would_and_the_spec_wins_over_it() {
    let own = "spec.loadBalancerSourceRanges".to_owned();
    let noted = field(names::SOURCE_RANGES);
    let none: Option<(String, bool)> = None;
    for (case, annotation, spec, family, expected, told) in [
        ("one", Some("10.0.0.0/8"), vec![], None, only(&["10.0.0.0/8"]), none.clone()),
        (
            "several, with blanks, and bits behind the prefix",
            Some(" 10.0.0.0/8, 192.168.1.7/24 "),
            vec![],
            None,
            only(&["10.0.0.0/8", "192.168.1.0/24"]),
            none.clone(),
        ),
        ("everybody", Some("0.0.0.0/0"), vec![], None, Ranges::Everybody, none.clone()),
        ("everybody beside others", Some("10.0.0.0/8,0.0.0.0/0"), vec![], None, Ranges::Everybody, none.clone()),
        ("neither", None, vec![], None, Ranges::Everybody, none.clone()),
        ("empty", Some(""), vec![], None, Ranges::Everybody, none.clone()),
        ("the spec is narrower", Some("10.0.0.0/8"), vec!["10.1.0.0/16"], None, only(&["10.1.0.0/16"]), none.clone()),
        ("the spec is wider", Some("10.1.0.0/16"), vec!["10.0.0.0/8"], None, only(&["10.0.0.0/8"]), none.clone()),
        (
            "the annotation is everybody",
            Some("0.0.0.0/0"),
            vec!["10.0.0.0/8"],
            None,
            only(&["10.0.0.0/8"]),
            none.clone(),
        ),
        ("the spec is everybody", Some("10.0.0.0/8"), vec!["0.0.0.0/0"], None, Ranges::Everybody, none.clone()),
        ("IPv6", Some("fd00::/8"), vec![], Some(IpFamily::Ipv6), only(&["fd00::/8"]), none.clone()),
        ("everybody of IPv6", Some("::/0"), vec![], Some(IpFamily::Ipv6), Ranges::Everybody, none.clone()),
        (
            "both families, for IPv6",
            Some("10.0.0.0/8,fd00::/8"),
            vec![],
            Some(IpFamily::Ipv6),
            only(&["fd00::/8"]),
            Some((noted.clone(), false)),
        ),
        (
            "both families, for IPv4",
            Some("10.0.0.0/8,fd00::/8"),
            vec![],
            None,
            only(&["10.0.0.0/8"]),
            Some((noted.clone(), false)),
        ),
        ("the other family alone", Some("::/0"), vec![], None, only(&[]), Some((noted.clone(), true))),
        ("no network, and no spec", Some("everybody"), vec![], None, only(&[]), Some((noted.clone(), true))),
        ("the other family alone, in the spec", None, vec!["fd00::/8"], None, only(&[]), Some((own.clone(), true))),
        (
            "the spec, where both are of the other family",
            Some("::/0"),
            vec!["fd00::/8"],
            None,
            only(&[]),
            Some((own, true)),
        ),
    ] {
        let mut service = service(annotation.map(|value| (names::SOURCE_RANGES, value)).as_slice());
        service.source_ranges = spec.into_iter().map(str::to_owned).collect();
        service.ip_families.extend(family);
        let (spec, problems) = read(&config(), "kubernetes", &service);
        assert_eq!(spec.ranges, expected, "{case}");
        let problems: Vec<_> = problems.into_iter().map(|problem| (problem.field, problem.fatal)).collect();
        assert_eq!(problems, told.into_iter().collect::<Vec<_>>(), "{case}");
    }
}
