//! Lists that are written as a whole: what is others' is in them. Some clouds have nothing else for the routes of a router.

use super::*;

/// With the guard that the router was sent with, each time.
fn guards(cloud: &FakeCloud) -> Vec<Option<String>> {
    let lines = asked(cloud);
    let sent = lines.iter().zip(cloud.requests()).filter(|(line, _)| *line == REPLACE);
    let guard = |request: ccm_sdk::http::Request| {
        request.headers.iter().find(|(name, _)| name == "if-match").map(|(_, value)| text(value))
    };
    sent.map(|(_, request)| guard(request)).collect()
}

fn at(revision: u64, routes: &[(&str, &str)]) -> Reply {
    let routes: Vec<String> = routes
        .iter()
        .map(|(destination, hop)| format!(r#"{{"destination": "{destination}", "nexthop": "{hop}"}}"#))
        .collect();
    let routes = routes.join(",");
    Reply::json(
        200,
        format!(r#"{{"router": {{"id": "r-1", "routes": [{routes}], "tags": [], "revision_number": {revision}}}}}"#),
    )
}

const OWN: (&str, &str) = ("10.244.1.0/24", "10.1.0.5");
const STRANGERS: (&str, &str) = ("172.16.0.0/12", "10.1.0.2");
/// The same pods' network by another way, and another network by the same way.
const ASIDE: (&str, &str) = ("10.244.1.0/24", "10.1.0.6");
const BESIDE: (&str, &str) = ("10.244.2.0/24", "10.1.0.5");
const NEW: (&str, &str) = ("192.168.0.0/16", "10.1.0.3");

fn body(routes: &[(&str, &str)]) -> String {
    let routes: Vec<String> = routes
        .iter()
        .map(|(destination, hop)| format!(r#"{{"destination":"{destination}","nexthop":"{hop}"}}"#))
        .collect();
    format!(r#"{{"router":{{"routes":[{}]}}}}"#, routes.join(","))
}

fn stale() -> Reply {
    Reply::json(412, r#"{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "stale"}}"#)
}

fn cloud() -> FakeCloud {
    fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(EXTENSIONS, extensions(&["extraroute"]))
        .on(TAG, Reply::status(201))
        .on(PAIRS, Reply::json(200, "{}"))
}

#[test]
fn os_185_a_route_is_removed_from_the_list_alone_and_only_from_the_list_that_was_read() {
    let has = [STRANGERS, OWN, ASIDE, BESIDE];
    let cloud = cloud().on(ROUTER, at(5, &has)).on(ROUTER, at(9, &has)).on(REPLACE, Reply::json(200, "{}"));
    let changes = done(run(&[route(OWN.0, OWN.1)], &[]));
    assert_eq!(changes, ["route 10.244.1.0/24 via 10.1.0.5 removed"], "os_185");
    assert_eq!(body_of(&cloud, REPLACE), body(&[STRANGERS, ASIDE, BESIDE]), "os_185");
    assert_eq!(guards(&cloud), [Some("revision_number=9".to_owned())], "os_185");
}

#[test]
fn os_185_what_others_write_to_the_router_meanwhile_is_in_the_next_list_and_each_list_has_its_revision() {
    let of = |removes: bool| if removes { (vec![route(OWN.0, OWN.1)], vec![]) } else { (vec![], vec![wish(OWN.0)]) };
    for removes in [true, false] {
        let (obsolete, wanted) = of(removes);
        let before = |others: &[(&'static str, &'static str)]| [&[OWN][..usize::from(removes)], others].concat();
        let after = |others: &[(&'static str, &'static str)]| [others, &[OWN][..usize::from(!removes)]].concat();
        let cloud = cloud()
            .on(ROUTER, at(5, &before(&[STRANGERS])))
            .on(ROUTER, at(5, &before(&[STRANGERS])))
            .on(REPLACE, stale())
            .on(ROUTER, at(6, &before(&[STRANGERS, NEW])))
            .on(REPLACE, Reply::json(200, "{}"));
        done(run(&obsolete, &wanted));
        let guard = |revision: u64| Some(format!("revision_number={revision}"));
        assert_eq!(guards(&cloud), [guard(5), guard(6)], "os_185, removes: {removes}");
        assert_eq!(body_of(&cloud, REPLACE), body(&after(&[STRANGERS, NEW])), "os_185, removes: {removes}");
        // Whoever never holds still is left to the next call, with nothing lost.
        let cloud = self::cloud().always(ROUTER, at(7, &before(&[STRANGERS]))).always(REPLACE, stale());
        assert_eq!(failed(run(&obsolete, &wanted)).reaction, Reaction::Conflict, "os_185, removes: {removes}");
        assert_eq!(guards(&cloud), vec![guard(7); 4], "os_185, removes: {removes}");
    }
}

/// Tags say whose routes are. One that stays behind claims the next route to that network, whoever makes it.
#[test]
fn many_tags_that_go_are_not_in_the_list_and_those_of_people_and_of_other_routes_are() {
    let tag = |number: u8| format!("wasm-ccm-route:kubernetes:10.244.{number}.0_24");
    let there: Vec<String> = (1..=6).map(tag).chain(["people".to_owned()]).map(|tag| format!("\"{tag}\"")).collect();
    let obsolete: Vec<Route> = (1..=5).map(|number| route(&format!("10.244.{number}.0/24"), "10.1.0.5")).collect();
    let cloud = fake()
        .on(PORTS, ports_of(&[port(&[], 3)]))
        .on(ROUTER, router_with(&[], &there.join(",")))
        .on(EXTENSIONS, atomic())
        .on(REMOVE, Reply::json(200, "{}"))
        .on("network PUT /routers/r-1/tags", Reply::json(200, "{}"));
    assert_eq!(done(run(&obsolete, &[])).len(), 5);
    let body = body_of(&cloud, "network PUT /routers/r-1/tags");
    assert_eq!(body, format!(r#"{{"tags":["{}","people"]}}"#, tag(6)));
}

#[test]
fn a_route_whose_pair_stays_is_neither_removed_nor_told_as_removed_with_the_others() {
    let other = port(&["10.244.2.0/24"], 3).replace("p-1", "p-2").replace("s-1", "s-2").replace("10.1.0.5", "10.1.0.6");
    for aliases in [&["extraroute-atomic"][..], &["extraroute"]] {
        let cloud = fake()
            .on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3), other.clone()]))
            .on(PORTS, led_to(&["n-1"]))
            .always(ROUTER, at(9, &[OWN, ("10.244.2.0/24", "10.1.0.6"), STRANGERS]))
            .on(EXTENSIONS, extensions(aliases))
            .on(PAIRS, Reply::json(503, "{}"))
            .on("network PUT /ports/p-2", Reply::json(200, "{}"))
            .on(REMOVE, Reply::json(200, "{}"))
            .on(REPLACE, Reply::json(200, "{}"));
        let outcomes = run(&[route(OWN.0, OWN.1), route("10.244.2.0/24", "10.1.0.6")], &[]).expect("outcomes");
        let ended: Vec<_> = outcomes
            .iter()
            .map(|outcome| (outcome.failure.as_ref().map(|failure| failure.reaction), outcome.changes.len()))
            .collect();
        assert_eq!(ended, [(Some(Reaction::Retry), 0), (None, 2)], "{aliases:?}");
        let (line, left) = match aliases {
            ["extraroute"] => (REPLACE, vec![OWN, STRANGERS]),
            _ => (REMOVE, vec![("10.244.2.0/24", "10.1.0.6")]),
        };
        assert_eq!(body_of(&cloud, line), body(&left), "{aliases:?}");
    }
}
