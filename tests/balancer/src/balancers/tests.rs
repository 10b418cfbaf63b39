use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::{Protocol, Reaction, ServicePort};

use super::*;
use crate::desired::IDLE;

/// As long as nothing else stands in the form.
const ID: &str = "balancer.example/id";
const LIST: &str = "api GET /v1/load-balancers";
const POST: &str = "api POST /v1/load-balancers";
const GET: &str = "api GET /v1/load-balancers/lb-1";
const PUT: &str = "api PUT /v1/load-balancers/lb-1";
const PUT_MEMBERS: &str = "api PUT /v1/load-balancers/lb-1/members";
const DELETE: &str = "api DELETE /v1/load-balancers/lb-1";

fn service(annotations: &[(&str, &str)]) -> Service {
    Service {
        namespace: "shop".to_owned(),
        uid: "u-1".to_owned(),
        annotations: annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ports: vec![ServicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            app_protocol: None,
            port: 80,
            node_port: Some(30_080),
        }],
        ..Service::named("web")
    }
}

/// Its node port is 30000 and the port.
pub(crate) fn node_port_service(port: u16) -> Service {
    let mut service = service(&[]);
    service.ports[0].port = port;
    service.ports[0].node_port = Some(30_000 + port);
    service
}

fn backends(names: &[&str]) -> Vec<Backend> {
    let backend = |name: &&str| Backend {
        name: (*name).to_owned(),
        provider_id: Some(format!("balancer://{name}")),
        addresses: vec![],
        more: vec![],
    };
    names.iter().map(backend).collect()
}

/// As the cloud has it: active, with two members.
fn balancer(id: &str, owner: &str, address: Option<&str>) -> String {
    let address = address.map_or_else(|| "null".to_owned(), |address| format!("\"{address}\""));
    format!(
        r#"{{"id": "{id}", "state": "active", "address": {address}, "name": "au1", "owner": "{owner}", "idle_seconds": 60,
            "ports": [{{"port": 80, "protocol": "TCP", "node_port": 30080}}], "members": ["n1", "n2"]}}"#
    )
}

fn one(id: &str, owner: &str, address: Option<&str>) -> Reply {
    Reply::json(200, format!(r#"{{"load_balancer": {}}}"#, balancer(id, owner, address)))
}

fn many(balancers: &[String]) -> Reply {
    let list = balancers.join(",");
    Reply::json(200, format!(r#"{{"load_balancers": [{list}], "total": {}}}"#, balancers.len()))
}

fn at(ip: &str) -> Vec<Ingress> {
    vec![Ingress::ip(ip)]
}

/// Lines without their queries.
fn routes(cloud: &FakeCloud) -> Vec<String> {
    let lines = cloud.lines().into_iter();
    lines.map(|line| line.split_once('?').map_or(line.clone(), |(route, _)| route.to_owned())).collect()
}

const IP: Option<&str> = Some("203.0.113.7");

#[test]
fn a_new_service_has_a_balancer_made_once_and_its_id_written_at_once() {
    let cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one("lb-1", "u-1", None));
    let outcome = ensure(&service(&[]), &backends(&["n2", "n1"]));
    assert_eq!(cloud.lines()[0], format!("{LIST}?owner=u-1&page=1&per_page=100"));
    assert_eq!(routes(&cloud), [LIST, POST]);
    assert_eq!(
        text(&cloud.requests()[1].body),
        r#"{"name":"au1","owner":"u-1","ports":[{"port":80,"protocol":"TCP","node_port":30080}],"idle_seconds":60,"members":["n1","n2"]}"#
    );
    let failure = Failure::pending("lb-1 is being built").after(LOOK_AGAIN);
    let expected = Outcome {
        annotations: vec![(ID.to_owned(), Some("lb-1".to_owned()))],
        changes: vec!["created lb-1".to_owned()],
        failure: Some(failure),
        ..Outcome::gone()
    };
    assert_eq!(outcome, expected);
}

#[test]
fn what_a_crash_left_without_its_id_is_adopted_and_not_made_again() {
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1", "u-1", IP), balancer("lb-2", "u-1", IP)]));
    let outcome = ensure(&service(&[]), &backends(&["n1", "n2"]));
    assert_eq!(routes(&cloud), [LIST]);
    assert_eq!(outcome.ingress, at("203.0.113.7"));
    assert_eq!(outcome.annotations, [(ID.to_owned(), Some("lb-1".to_owned()))]);
}

/// Only the host knows whether the first one is still there, and leaves the ID out then.
#[test]
fn a_service_with_the_id_of_another_ones_balancer_says_whose_it_is_and_takes_it_over() {
    let cloud = FakeCloud::new()
        .on(GET, one("lb-1", "u-of-the-first", IP))
        .on(GET, one("lb-1", "u-of-the-first", IP))
        .on(PUT, one("lb-1", "u-1", IP));
    let offered = service(&[(ID, "lb-1")]);
    let mark = Mark { load_balancer: "lb-1".to_owned(), uid: Some("u-of-the-first".to_owned()) };
    assert_eq!(super::mark(&offered), Ok(Some(mark)));
    let outcome = ensure(&offered, &backends(&["n1", "n2"]));
    assert_eq!(routes(&cloud), [GET, GET, PUT]);
    assert!(text(&cloud.requests()[2].body).contains(r#""owner":"u-1""#));
    assert_eq!(outcome.changes, ["changed lb-1: owner"]);
}

#[test]
fn what_does_not_differ_costs_one_read_and_no_write() {
    for change in [ensure, update_backends] {
        let cloud = FakeCloud::new().on(GET, one("lb-1", "u-1", IP));
        let outcome = change(&service(&[(ID, "lb-1")]), &backends(&["n1", "n2"]));
        assert_eq!(routes(&cloud), [GET]);
        assert_eq!(outcome, Outcome { ingress: at("203.0.113.7"), ..Outcome::gone() });
    }
}

#[test]
fn a_difference_is_one_write() {
    let cloud = FakeCloud::new().on(GET, one("lb-1", "u-1", IP)).on(PUT, one("lb-1", "u-1", IP));
    let outcome = ensure(&service(&[(ID, "lb-1"), (IDLE, "90")]), &backends(&["n1"]));
    assert_eq!(
        (routes(&cloud), outcome.changes),
        (vec![GET.to_owned(), PUT.to_owned()], vec!["changed lb-1: idle time, members".to_owned()])
    );

    let cloud = FakeCloud::new().on(GET, one("lb-1", "u-1", IP)).on(PUT_MEMBERS, one("lb-1", "u-1", IP));
    let outcome = update_backends(&service(&[(ID, "lb-1"), (IDLE, "90")]), &backends(&["n1", "n2", "n3"]));
    assert_eq!(text(&cloud.requests()[1].body), r#"{"members":["n1","n2","n3"]}"#);
    assert_eq!(
        (routes(&cloud), outcome.changes),
        (vec![GET.to_owned(), PUT_MEMBERS.to_owned()], vec!["lb-1 has 3 members".to_owned()])
    );
}

#[test]
fn members_of_what_is_not_there_are_a_conflict() {
    let _cloud = FakeCloud::new().on(GET, Reply::json(404, "{}")).on(LIST, many(&[]));
    let failure = update_backends(&service(&[(ID, "lb-1")]), &[]).failure.expect("nothing is there");
    assert_eq!(failure.reaction, Reaction::Conflict);
}

#[test]
fn a_failure_after_the_creation_keeps_the_id() {
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1", "u-1", IP)])).on(PUT, Reply::status(503));
    let outcome = ensure(&service(&[(IDLE, "5")]), &[]);
    assert_eq!(outcome.annotations, [(ID.to_owned(), Some("lb-1".to_owned()))]);
    assert_eq!(outcome.failure.map(|failure| failure.reaction), Some(Reaction::Retry));
}

#[test]
fn what_the_service_asks_for_and_cannot_have_is_said_with_its_field() {
    let mut sctp = service(&[]);
    sctp.ports[0].protocol = Protocol::Sctp;
    let mut without = service(&[]);
    without.ports[0].node_port = None;
    let cases = [
        (service(&[(IDLE, "soon")]), "metadata.annotations[balancer.example/idle-seconds]"),
        (sctp, "spec.ports"),
        (without, "spec.allocateLoadBalancerNodePorts"),
    ];
    for (service, field) in cases {
        let cloud = FakeCloud::new();
        let failure = ensure(&service, &[]).failure.expect("it cannot be");
        assert_eq!((failure.reaction, failure.field.as_deref()), (Reaction::Invalid, Some(field)));
        assert_eq!(desired::problems(&service)[0].field, field);
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }
}

#[test]
fn all_that_has_the_owner_is_deleted_and_gone_already_is_as_good() {
    let cloud = FakeCloud::new()
        .on(LIST, many(&[balancer("lb-1", "u-1", IP), balancer("lb-2", "u-1", None)]))
        .on(DELETE, Reply::status(204))
        .on("api DELETE /v1/load-balancers/lb-2", Reply::json(404, "{}"));
    let outcome = delete(&service(&[(ID, "lb-1")]));
    assert_eq!(
        outcome,
        Outcome {
            annotations: vec![(ID.to_owned(), None)],
            changes: vec!["deleted lb-1".to_owned()],
            ..Outcome::gone()
        }
    );
    assert_eq!(cloud.unused(), Vec::<String>::new());

    let cloud = FakeCloud::new().on(LIST, many(&[]));
    assert_eq!(delete(&service(&[])), Outcome::gone());
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn a_deletion_that_failed_keeps_the_id() {
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1", "u-1", IP)])).on(DELETE, Reply::json(409, "{}"));
    let outcome = delete(&service(&[(ID, "lb-1")]));
    assert_eq!(
        (outcome.failure.map(|failure| failure.reaction), outcome.annotations),
        (Some(Reaction::Conflict), vec![])
    );
}

#[test]
fn a_survey_is_one_listing() {
    let wish = |uid: &str, backends: &[u32]| Wish {
        service: Service { uid: uid.to_owned(), ..service(&[]) },
        backends: backends.to_vec(),
    };
    let named =
        |id: &str, uid: &str, ip| balancer(id, uid, ip).replace("\"au1\"", &format!("\"a{}\"", uid.replace('-', "")));
    let cloud = FakeCloud::new()
        .on(LIST, many(&[named("lb-1", "u-1", IP), named("lb-2", "u-2", IP), named("lb-3", "u-3", None)]));
    let wishes = [wish("u-1", &[1, 0]), wish("u-2", &[0]), wish("u-3", &[0, 1]), wish("u-4", &[]), wish("u-1", &[9])];
    let standings = survey(&backends(&["n1", "n2"]), &wishes).unwrap();
    assert_eq!(
        standings,
        [
            Standing::InStep(at("203.0.113.7")),
            Standing::Differs(vec!["members".to_owned()]),
            Standing::Differs(vec!["address".to_owned()]),
            Standing::Missing,
            Standing::Unknown(Failure::retry("a wish names a backend that is not in the list")),
        ]
    );
    assert_eq!(routes(&cloud), [LIST]);

    let _cloud = FakeCloud::new().on(LIST, Reply::status(401));
    assert_eq!(survey(&[], &wishes[3..4]).unwrap_err().reaction, Reaction::Unauthorized);
}
