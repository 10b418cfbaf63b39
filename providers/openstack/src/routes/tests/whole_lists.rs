//! Clouds whose routers take only whole lists of routes: those of others are in them.

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
