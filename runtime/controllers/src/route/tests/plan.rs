//! What is done about routes, one run over a cloud that has some already. Cases of upstream's table.

use ccm_cloud::{Reaction, Route, RouteState};

use super::{Bench, Call, available, failure, pairs, pods, route, unavailable};
use crate::testing::{Draft, node};

fn stands(state: RouteState, route: Route) -> Route {
    Route { state, ..route }
}

/// Two Nodes of two families.
fn dual() -> [Draft; 2] {
    [pods("n1", &["10.244.1.0/24", "fd00:0:0:1::/64"]), pods("n2", &["10.244.2.0/24", "fd00:0:0:2::/64"])]
}

const DUAL: [(&str, &str); 4] =
    [("10.244.1.0/24", "n1"), ("10.244.2.0/24", "n2"), ("fd00:0:0:1::/64", "n1"), ("fd00:0:0:2::/64", "n2")];

fn single() -> [Draft; 2] {
    [pods("n1", &["10.244.1.0/24"]), pods("n2", &["10.244.2.0/24"])]
}

/// Network and Node, what the cloud has before, what is obsolete, what is wanted.
struct Case {
    name: &'static str,
    nodes: Vec<Draft>,
    before: Vec<Route>,
    obsolete: usize,
    wanted: usize,
    after: Vec<(&'static str, &'static str)>,
}

#[tokio::test(start_paused = true)]
async fn cases_216_to_231_routes_are_brought_to_what_the_nodes_say_in_one_change() {
    let in_place = |routes: &[(&str, &str)]| -> Vec<Route> {
        routes.iter().map(|(network, node)| route(network, Some(node))).collect()
    };
    let all = |state| -> Vec<Route> { in_place(&DUAL).into_iter().map(|route| stands(state, route)).collect() };
    let swapped =
        [("10.244.1.0/24", "n2"), ("10.244.2.0/24", "n1"), ("fd00:0:0:1::/64", "n2"), ("fd00:0:0:2::/64", "n1")];
    let one = ("10.244.1.0/24", "n1");
    let two = ("10.244.2.0/24", "n2");
    let extra = [("10.244.7.0/24", "gone"), ("fd00:0:0:7::/64", "gone")];
    let case = |name, nodes: &[Draft], before, obsolete, wanted, after: &[(&'static str, &'static str)]| Case {
        name,
        nodes: nodes.to_vec(),
        before,
        obsolete,
        wanted,
        after: after.to_vec(),
    };
    let cases = [
        case("case_216 without the Nodes' addresses", &dual(), all(RouteState::Incomplete), 0, 4, &DUAL),
        case("case_217 with addresses of before", &dual(), all(RouteState::Blackhole), 4, 4, &DUAL),
        case("case_218 none", &dual(), vec![], 0, 4, &DUAL),
        case("case_219 all right", &dual(), in_place(&DUAL), 0, 0, &DUAL),
        case("case_220 all at the wrong Node", &dual(), in_place(&swapped), 4, 4, &DUAL),
        case("case_221 two of four", &dual(), in_place(&DUAL[..2]), 0, 2, &DUAL),
        case("case_222 two of unknown Nodes", &dual(), in_place(&[&DUAL[..], &extra].concat()), 2, 0, &DUAL),
        case("case_223 all right", &single(), in_place(&[one, two]), 0, 0, &[one, two]),
        case(
            "case_224 addresses of before",
            &single(),
            in_place(&[one, two]).into_iter().map(|route| stands(RouteState::Incomplete, route)).collect(),
            0,
            2,
            &[one, two],
        ),
        case("case_225 one of two", &single(), in_place(&[one]), 0, 1, &[one, two]),
        case("case_226 none", &single(), vec![], 0, 2, &[one, two]),
        case("case_227 two of unknown Nodes", &single(), in_place(&[one, two, extra[0]]), 1, 0, &[one, two]),
        case("case_228 one right, one foreign", &single(), in_place(&[one, extra[0]]), 1, 1, &[one, two]),
        case("case_229 a Node without pod CIDR", &[pods("n1", &["10.244.1.0/24"]), node("n2")], vec![], 0, 1, &[one]),
        case(
            "case_230 a route to nowhere inside the range",
            &single(),
            [in_place(&[one, two]), vec![route("10.244.9.0/24", None)]].concat(),
            1,
            0,
            &[one, two],
        ),
        case(
            "case_231 a route to nowhere outside the range",
            &single(),
            [in_place(&[one, two]), vec![route("10.1.2.0/24", None)]].concat(),
            0,
            0,
            &[("10.1.2.0/24", "-"), one, two],
        ),
        case(
            "somebody else's, whatever it is called",
            &single(),
            [in_place(&[one, two, ("10.0.0.0/8", "gone"), ("0.0.0.0/0", "gone")]), vec![route("vpn", None)]].concat(),
            0,
            0,
            &[("0.0.0.0/0", "gone"), ("10.0.0.0/8", "gone"), one, two, ("vpn", "-")],
        ),
        case(
            "spelled otherwise",
            &dual()[..1],
            in_place(&[one, ("fd00:0:0:1:0:0:0:0/64", "n1")]),
            0,
            0,
            &[one, ("fd00:0:0:1:0:0:0:0/64", "n1")],
        ),
        case(
            "of a Node that comes up",
            &[pods("n1", &["10.244.1.0/24"]).with("/spec", "providerID", "".into())],
            in_place(&[one]),
            0,
            0,
            &[one],
        ),
    ];
    for Case { name, nodes, before, obsolete, wanted, after } in cases {
        let bench = Bench::once(nodes, |cloud| cloud.has(before)).await;
        let expected = if obsolete + wanted == 0 { vec![] } else { vec![(obsolete, wanted)] };
        let changes = bench.changes().into_iter().map(|call| match call {
            Call::Change(gone, made) => (gone.len(), made.len()),
            Call::GetAll(_) => unreachable!(),
        });
        assert_eq!(changes.collect::<Vec<_>>(), expected, "{name}");
        let mut after: Vec<_> = pairs(&after);
        after.sort();
        assert_eq!(bench.cloud.routes(), after, "{name}");
        assert_eq!(bench.looks(), [0], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_pod_cidr_is_told_nothing_unless_a_route_leads_to_it() {
    let bench = Bench::once([pods("n1", &["10.244.1.0/24"]), node("n2")], |_| {}).await;
    assert_eq!((bench.condition("n1"), bench.condition("n2")), (available(), None));
    let bench = Bench::once([node("n2")], |cloud| cloud.has([route("10.244.1.0/24", Some("n2"))])).await;
    assert_eq!((bench.cloud.routes(), bench.condition("n2")), (vec![], unavailable()));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_provider_id_waits_and_is_told_nothing() {
    let waits = pods("n1", &["10.244.1.0/24"]).with("/spec", "providerID", "".into());
    let bench = Bench::once([waits], |_| {}).await;
    assert_eq!((bench.changes(), bench.condition("n1"), bench.told()), (vec![], None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn of_two_nodes_with_one_cidr_one_has_the_route_and_the_other_is_told_why_not() {
    let old = pods("old", &["10.244.1.0/24"]).aged(99);
    let bench = Bench::once([pods("young", &["10.244.1.0/24"]).aged(10), old], |_| {}).await;
    assert_eq!(bench.cloud.routes(), pairs(&[("10.244.1.0/24", "old")]));
    assert_eq!((bench.condition("old"), bench.condition("young")), (available(), unavailable()));
    let told = "Could not create route 10.244.1.0/24 for node young: spec.podCIDRs: 10.244.1.0/24 overlaps with \
                10.244.1.0/24 of Node old (invalid)";
    assert_eq!(bench.told(), [told]);
    assert_eq!(bench.scraped(r#"ccm_routes{provider="fake",state="failing"}"#), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_another_controllers_work_is_left_as_it_is() {
    let bench = Bench::once(single(), |cloud| {
        cloud.refused.lock().insert("10.244.2.0/24".to_owned(), failure(Reaction::Elsewhere));
    })
    .await;
    assert_eq!((bench.condition("n1"), bench.condition("n2"), bench.told()), (available(), None, vec![]));
}

/// Each provider is told of its own Nodes: a route to another one's leads to nobody it knows.
#[test]
fn a_route_to_a_node_of_another_provider_is_left_alone() {
    let nodes = [pods("n1", &["10.244.1.0/24"]), pods("n2", &["10.244.2.0/24"]).provider_id("other://n2")];
    let nodes = nodes.map(|draft| std::sync::Arc::new(draft.object()));
    let routes = [route("10.244.2.0/24", None), route("10.244.3.0/24", None), route("10.244.2.0/24", Some("n1"))];
    let is_own = |node: &crate::store::Node| node.provider_id.as_deref() == Some("fake://n1");
    let plan = crate::route::plan::plan(&nodes, routes.to_vec(), &super::ranges(&["10.244.0.0/16"]), is_own);
    let items = plan.items.into_iter().map(|(network, item)| {
        let obsolete: Vec<_> = item.obsolete.into_iter().map(|route| route.node).collect();
        (network.to_string(), obsolete, item.wish.map(|wish| wish.node))
    });
    let expected = [
        ("10.244.1.0/24".to_owned(), vec![], Some("n1".to_owned())),
        ("10.244.2.0/24".to_owned(), vec![Some("n1".to_owned())], None),
        ("10.244.3.0/24".to_owned(), vec![None], None),
    ];
    assert_eq!((items.collect::<Vec<_>>(), plan.wants.len()), (expected.to_vec(), 1));
}
