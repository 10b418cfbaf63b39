//! Which Node gets which pod CIDR.

use std::sync::Arc;

use super::{pods, ranges};
use crate::route::allotments::allotments;
use crate::store::Node;
use crate::testing::Draft;

/// Text of the CIDR, Node, and why it gets no route.
fn judged(nodes: Vec<Draft>, texts: &[&str], routes: &[(&str, &str)]) -> Vec<(String, String, Option<String>)> {
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(|draft| Arc::new(draft.object())).collect();
    let has_route = |network: &ipnet::IpNet, node: &str| routes.contains(&(network.to_string().as_str(), node));
    let allotments = allotments(&nodes, &ranges(texts), has_route);
    let shown = allotments.into_iter().map(|allotment| {
        (
            allotment.text.to_string(),
            allotment.node.name.to_string(),
            allotment.network.err().map(|failure| failure.to_string()),
        )
    });
    shown.collect()
}

fn refusals(nodes: Vec<Draft>, routes: &[(&str, &str)]) -> Vec<(String, String)> {
    let judged = judged(nodes, &["10.244.0.0/16", "fd00::/48"], routes);
    judged.into_iter().filter_map(|(_, node, why)| Some((node, why?))).collect()
}

#[test]
fn a_cidr_of_another_family_outside_or_unreadable_gets_no_route_and_the_error_says_what_is_wrong() {
    let cases = [
        ("10.244.3.0/24", None),
        ("10.245.3.0/24", Some("spec.podCIDRs: 10.245.3.0/24 lies outside of --cluster-cidr (10.244.0.0/16)")),
        ("10.0.0.0/8", Some("spec.podCIDRs: 10.0.0.0/8 lies outside of --cluster-cidr (10.244.0.0/16)")),
        ("169.254.0.0/16", Some("spec.podCIDRs: 169.254.0.0/16 lies outside of --cluster-cidr (10.244.0.0/16)")),
        ("fd00::/64", Some("spec.podCIDRs: fd00::/64 is of another IP family than --cluster-cidr (10.244.0.0/16)")),
        ("10.244.3.0", Some("spec.podCIDRs: \"10.244.3.0\" is no network")),
    ];
    for (cidr, expected) in cases {
        let judged = judged(vec![pods("n", &[cidr])], &["10.244.0.0/16"], &[]);
        assert_eq!(judged[0].2.as_deref(), expected, "{cidr}");
    }
}

#[test]
fn of_two_nodes_with_one_cidr_the_older_one_has_it() {
    let nodes = || vec![pods("young", &["10.244.0.0/24"]).aged(10), pods("old", &["10.244.0.0/24"]).aged(99)];
    let young = "spec.podCIDRs: 10.244.0.0/24 overlaps with 10.244.0.0/24 of Node old".to_owned();
    assert_eq!(refusals(nodes(), &[]), [("young".to_owned(), young)]);
    // Whoever has the route keeps it: pods run behind it.
    let lost = refusals(nodes(), &[("10.244.0.0/24", "young")]);
    assert_eq!(lost[0].0, "old");
    let born =
        |name| pods(name, &["10.244.0.0/24"]).with("/metadata", "creationTimestamp", "2026-01-01T00:00:00Z".into());
    let same = refusals(vec![born("b"), born("a")], &[]);
    assert_eq!(same[0].0, "b");
}

#[test]
fn networks_inside_of_each_other_are_no_two_nodes_and_others_beside_them_are_left_alone() {
    let nodes = vec![
        pods("wide", &["10.244.0.0/23"]).aged(50),
        pods("low", &["10.244.0.0/24"]).aged(90),
        pods("high", &["10.244.1.0/24"]).aged(10),
        pods("beside", &["10.244.2.0/24"]).aged(1),
        pods("both", &["10.244.3.0/24", "fd00::/64"]).aged(1),
    ];
    // The wide one loses against an older one, and then stands in nobody's way.
    assert_eq!(refusals(nodes, &[]).iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["wide"]);
}

#[test]
fn case_232_a_cidr_that_is_listed_twice_or_in_two_spellings_is_one() {
    let judged = judged(vec![pods("n", &["fd00::/64", "fd00:0:0:0::/64", "fd00::/64"])], &["fd00::/48"], &[]);
    assert_eq!(judged, [("fd00::/64".to_owned(), "n".to_owned(), None)]);
}

#[test]
fn five_thousand_nodes_with_one_cidr_are_judged_at_once() {
    let nodes = (0..5_000).map(|i| pods(&format!("n{i}"), &["10.244.0.0/24"])).collect();
    assert_eq!(refusals(nodes, &[]).len(), 4_999);
}
