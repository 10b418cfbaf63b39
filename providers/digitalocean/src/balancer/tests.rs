//! Cases of the reference by number: `do_NNN`.

mod accounts;
mod addresses;
mod certificates;
mod changes;
mod clusters;
mod differences;
mod letters;
mod listings;
mod nonsense;
mod orphans;
mod owners;
mod refused;
mod requests;
mod sizes;
mod without_tags;

use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::Reaction;
use serde_json::{Value, json};

use super::done::{ERRORED_REASON, IMMUTABLE, WITHOUT_DROPLET};
use super::*;
use crate::backends::tests::backend;
use crate::config::tests::config;
use crate::service_spec::tests::service;

pub(crate) const LIST: &str = "api GET /v2/load_balancers";
pub(crate) const POST: &str = "api POST /v2/load_balancers";
pub(crate) const GET: &str = "api GET /v2/load_balancers/lb-1";
pub(crate) const PUT: &str = "api PUT /v2/load_balancers/lb-1";
const DELETE: &str = "api DELETE /v2/load_balancers/lb-1";
/// Of [`service`], where it asks for a name.
const OWN: &str = "wasm-ccm-service:service-123:default:test";
const MAKE: &str = "api POST /v2/tags";
const TAG: &str = "api POST /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest/resources";
const DELETE_TAG: &str = "api DELETE /v2/tags/wasm-ccm-service%3Aservice-123%3Adefault%3Atest";

/// As the cloud has what [`service`] and [`nodes`] ask for.
pub(crate) fn balancer(id: &str) -> Value {
    json!({
        "id": id, "name": "aservice123", "status": "active", "type": "REGIONAL_NETWORK",
        "ip": "203.0.113.7", "ipv6": "2604:a880::7",
        "region": { "slug": "nyc3", "name": "New York 3" },
        "size": "lb-small", "size_unit": 1, "algorithm": "round_robin",
        "forwarding_rules": [{ "entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 80,
                               "certificate_id": "", "tls_passthrough": false }],
        "health_check": { "protocol": "http", "port": 10256, "path": "/healthz", "check_interval_seconds": 3,
                          "response_timeout_seconds": 5, "healthy_threshold": 5, "unhealthy_threshold": 3,
                          "proxy_protocol": false },
        "sticky_sessions": { "type": "none" }, "droplet_ids": [101, 100], "tag": "", "tags": [],
        "redirect_http_to_https": false, "enable_proxy_protocol": false, "enable_backend_keepalive": false,
        "vpc_uuid": "", "disable_lets_encrypt_dns_records": false, "http_idle_timeout_seconds": 60,
        "firewall": { "allow": [], "deny": [] }, "network": "EXTERNAL", "network_stack": "DUALSTACK"
    })
}

/// With some fields changed.
pub(crate) fn changed(id: &str, changes: Value) -> Value {
    let mut balancer = balancer(id);
    if let (Value::Object(balancer), Value::Object(changes)) = (&mut balancer, changes) {
        balancer.extend(changes);
    }
    balancer
}

pub(crate) fn one(balancer: &Value) -> Reply {
    Reply::json(200, json!({ "load_balancer": balancer }).to_string())
}

pub(crate) fn many(balancers: &[Value]) -> Reply {
    Reply::json(200, json!({ "load_balancers": balancers, "meta": { "total": balancers.len() } }).to_string())
}

pub(crate) fn not_found() -> Reply {
    Reply::json(404, r#"{"id": "not_found", "message": "not found"}"#)
}

pub(crate) fn nodes() -> Vec<Backend> {
    vec![backend(100, &["e4", "e6"]), backend(101, &["e4", "e6"])]
}

/// Has its addresses and an ID.
pub(crate) fn settled_service(annotations: &[(&str, &str)]) -> Service {
    let mut service = service(annotations);
    service.annotations.push((names::ID.to_owned(), "lb-1".to_owned()));
    service.ingress = both();
    service
}

/// That asks for a name.
fn named() -> Service {
    service(&[(names::NAME, "my-lb")])
}

/// The same with an ID.
fn known() -> Service {
    settled_service(&[(names::NAME, "my-lb")])
}

/// A cloud that has no tag yet: one that is not made cannot be given.
pub(crate) fn tagging(cloud: FakeCloud) -> FakeCloud {
    cloud.on(MAKE, Reply::status(201)).on(TAG, Reply::status(204))
}

/// As without provider IDs.
pub(crate) fn ensure(config: &Config, service: &Service, backends: &[Backend]) -> Done {
    super::ensure(config, service, backends, |_| Ok(vec![]))
}

pub(crate) fn get(config: &Config, service: &Service) -> Result<Option<Vec<Ingress>>, Failure> {
    super::get(config, service, |_| Ok(vec![]))
}

fn standings(config: &Config, wishes: &[Wish]) -> Vec<Standing> {
    survey(config, &nodes(), wishes).unwrap().into_iter().map(|(standing, _)| standing).collect()
}

pub(crate) fn delete(config: &Config, service: &Service) -> Done {
    super::delete(config, service, |_| Ok(vec![]))
}

/// Lines without their queries.
pub(crate) fn routes(cloud: &FakeCloud) -> Vec<String> {
    cloud.lines().iter().map(|line| line.split('?').next().unwrap_or_default().to_owned()).collect()
}

pub(crate) fn body(cloud: &FakeCloud, at: usize) -> Value {
    serde_json::from_str(&text(&cloud.requests()[at].body)).expect("JSON")
}

pub(crate) fn failure(done: &Done) -> (Reaction, Option<u32>) {
    let failure = done.outcome.failure.as_ref().expect("it is not done");
    (failure.reaction, failure.retry_after_ms)
}

fn written(done: &Done) -> Vec<(&str, Option<&str>)> {
    done.outcome.annotations.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect()
}

fn reasons(done: &Done) -> Vec<&str> {
    done.warnings.iter().map(|(reason, _)| *reason).collect()
}

/// Load balancers that were deleted.
fn deletes(cloud: &FakeCloud) -> Vec<String> {
    routes(cloud).into_iter().filter(|line| line.starts_with("api DELETE /v2/load_balancers")).collect()
}

fn addresses(done: &Done) -> Vec<Ingress> {
    assert_eq!(done.outcome.failure, None);
    done.outcome.ingress.clone()
}

fn both() -> Vec<Ingress> {
    vec![Ingress::ip("203.0.113.7"), Ingress::ip("2604:a880::7")]
}

#[test]
fn do_039_045_275_one_that_exists_is_adopted_by_its_name_and_not_written_when_nothing_differs() {
    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-0", json!({"name": "other"})), balancer("lb-1")]));
    let done = ensure(&config(), &service(&[]), &nodes());
    assert_eq!(addresses(&done), both());
    assert_eq!(written(&done), [(names::ID, Some("lb-1"))]);
    assert_eq!((routes(&cloud), done.outcome.changes), (vec![LIST.to_owned()], vec![]));
}

#[test]
fn do_040_041_one_is_found_by_the_name_asked_for_or_by_the_default_name_and_renamed() {
    let named = service(&[(names::NAME, "my-lb")]);
    let has = changed("lb-1", json!({"name": "my-lb"}));
    let _cloud = tagging(FakeCloud::new().on(LIST, many(std::slice::from_ref(&has))).on(GET, one(&has)));
    assert_eq!(addresses(&ensure(&config(), &named, &nodes())), both());
    let cloud = tagging(FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(PUT, one(&balancer("lb-1"))));
    let done = ensure(&config(), &named, &nodes());
    assert_eq!(done.outcome.changes, ["changed lb-1: name".to_owned(), format!("tagged lb-1 with {OWN}")]);
    assert_eq!(
        (routes(&cloud), &body(&cloud, 1)["name"]),
        (vec![LIST.into(), PUT.into(), MAKE.into(), TAG.into()], &json!("my-lb"))
    );
    assert_eq!(body(&cloud, 2), json!({ "name": OWN }));
}

#[test]
fn do_031_a_listing_has_several_pages_each_asked_for_once() {
    let page = |number: usize| {
        let others = (0..50).map(|at| changed(&format!("o-{number}-{at}"), json!({"name": format!("o{at}")})));
        let mut balancers: Vec<Value> = others.collect();
        if number == 3 {
            balancers.truncate(12);
            balancers.push(balancer("lb-1"));
        }
        let links = json!({ "pages": { "next": "https://api.digitalocean.com/v2/load_balancers?page=9" } });
        let body = json!({ "load_balancers": balancers, "links": links, "meta": { "total": 113 } });
        Reply::json(200, body.to_string())
    };
    let line = |number: usize| format!("{LIST}?page={number}&per_page=50");
    let cloud = FakeCloud::new().on(&line(1), page(1)).on(&line(2), page(2)).on(&line(3), page(3));
    assert_eq!(addresses(&ensure(&config(), &service(&[]), &nodes())), both());
    assert_eq!(cloud.lines(), [line(1), line(2), line(3)]);
}

#[test]
fn do_042_046_with_an_id_one_question_is_enough() {
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
    assert_eq!(routes(&cloud), [GET]);
    let differs = changed("lb-1", json!({"droplet_ids": []}));
    let cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, one(&balancer("lb-1")));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
    assert_eq!(routes(&cloud), [GET, PUT]);
}

#[test]
fn do_043_044_existence_is_asked_and_nothing_written() {
    let _cloud = FakeCloud::new().on(LIST, many(&[]));
    assert_eq!(get(&config(), &service(&[])), Ok(None));
    let _cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")]));
    assert_eq!(get(&config(), &service(&[])), Ok(Some(both())));
    let cloud = FakeCloud::new();
    let disowned = Service { ingress: both(), ..service(&[(names::DISOWN, "true")]) };
    assert_eq!(get(&config(), &disowned), Ok(Some(both())));
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn do_048_one_that_is_gone_is_made_again_and_people_are_told_of_the_new_address() {
    let cloud = FakeCloud::new().on(GET, not_found()).on(LIST, many(&[])).on(POST, one(&balancer("lb-2")));
    let done = ensure(&config(), &settled_service(&[]), &nodes());
    assert_eq!(routes(&cloud), [GET, LIST, POST]);
    assert_eq!(written(&done), [(names::ID, Some("lb-2"))]);
    assert_eq!(done.warnings[0].0, RECREATED);
}

/// No annotation says which type it had, and the default of today may be another one.
#[test]
fn one_that_is_made_again_with_another_type_is_told_with_both() {
    let rule = json!({"entry_protocol": "tcp", "entry_port": 80, "target_protocol": "tcp", "target_port": 30000});
    let had = changed("LB-1", json!({"type": "REGIONAL", "forwarding_rules": [rule]}));
    let looks: [fn(&Service); 2] = [
        |service| drop(addresses(&ensure(&config(), service, &nodes()))),
        |service| drop(standings(&config(), &[Wish { service: service.clone(), backends: vec![0, 1] }])),
    ];
    for look in looks {
        for (made, differs) in [("REGIONAL_NETWORK", true), ("REGIONAL", false)] {
            let service = settled_service(&[]);
            let cloud = FakeCloud::new().on(GET, one(&had)).on(LIST, many(std::slice::from_ref(&had)));
            look(&service);
            let new = changed("lb-2", json!({ "type": made }));
            let _cloud = cloud.always(GET, not_found()).always(LIST, many(&[])).on(POST, one(&new));
            // The one listing or answer of before may be left.
            let mut done = ensure(&config(), &service, &nodes());
            if done.warnings.is_empty() {
                done = ensure(&config(), &service, &nodes());
            }
            let [(RECREATED, message)] = done.warnings.as_slice() else { panic!("{done:?}") };
            let told = format!("its type is {made}, and was REGIONAL");
            assert_eq!(message.contains(&told) && message.contains(names::TYPE), differs, "{message}");
        }
    }
}

/// The answer to its creation was lost, so that it is found by its name in the next call.
#[test]
fn one_that_is_in_the_place_of_another_is_told_also_where_nobody_heard_that_it_was_made() {
    let service = Service { ingress: vec![], ..settled_service(&[]) };
    let service = Service { annotations: vec![(names::ID.to_owned(), "lb-0".to_owned())], ..service };
    let gone = "api GET /v2/load_balancers/lb-0";
    let found = || FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(gone, not_found());
    for done in [
        (found(), ensure(&config(), &service, &nodes())).1,
        (found(), update_backends(&config(), &service, &nodes())).1,
    ] {
        assert_eq!(written(&done), [(names::ID, Some("lb-1"))]);
        let [(reason, message)] = done.warnings.as_slice() else { panic!("{done:?}") };
        assert_eq!(*reason, RECREATED);
        assert!(message.contains("lb-0") && message.contains("lb-1"), "{message}");
    }
}

#[test]
fn a_creation_whose_answer_was_lost_is_found_by_its_name_and_made_no_second_time() {
    for reply in [
        Reply::lost(ccm_sdk::http::TransportReason::Timeout, true),
        Reply::status(503),
        Reply::json(202, r#"{"load_balancer": {"id""#),
        Reply::json(422, r#"{"message": "There is already a load balancer with that name"}"#),
    ] {
        let _cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, reply);
        let done = ensure(&config(), &service(&[]), &nodes());
        assert!(matches!(failure(&done).0, Reaction::Retry | Reaction::Conflict), "{done:?}");
        assert_eq!(written(&done), []);
    }
    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-1", json!({"status": "new", "ip": ""}))]));
    let done = ensure(&config(), &service(&[]), &nodes());
    assert_eq!((routes(&cloud), written(&done)), (vec![LIST.to_owned()], vec![(names::ID, Some("lb-1"))]));
}

#[test]
fn do_051_059_a_disowned_service_is_left_alone() {
    let cloud = FakeCloud::new();
    let disowned = settled_service(&[(names::DISOWN, "true")]);
    for done in [
        ensure(&config(), &disowned, &nodes()),
        update_backends(&config(), &disowned, &nodes()),
        delete(&config(), &disowned),
    ] {
        assert_eq!((failure(&done).0, written(&done)), (Reaction::Elsewhere, vec![]));
    }
    let unclear = settled_service(&[(names::DISOWN, "maybe")]);
    for done in [ensure(&config(), &unclear, &nodes()), delete(&config(), &unclear)] {
        assert_eq!(failure(&done).0, Reaction::Invalid);
    }
    assert_eq!(cloud.lines(), Vec::<String>::new());
}

#[test]
fn do_055_056_without_knowing_that_there_is_one_nothing_is_deleted() {
    let cloud = FakeCloud::new().always(LIST, Reply::status(500));
    assert_eq!(failure(&delete(&config(), &service(&[]))).0, Reaction::Retry);
    assert_eq!(routes(&cloud), [LIST; 3]);

    let cloud = FakeCloud::new().on(LIST, many(&[changed("lb-9", json!({"name": "other"}))]));
    assert_eq!(delete(&config(), &service(&[])), Done::new());
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn do_057_a_deletion_that_fails_says_so_and_keeps_the_id() {
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(DELETE, Reply::status(500));
    let done = delete(&config(), &settled_service(&[]));
    let message = &done.outcome.failure.as_ref().expect("it is still there").message;
    assert!(message.starts_with("failed to delete load-balancer: "), "{message}");
    assert_eq!((written(&done), routes(&cloud)), (vec![], vec![LIST.to_owned(), DELETE.to_owned()]));
}

#[test]
fn do_058_deletion_takes_what_is_its_own_also_what_a_crash_has_left() {
    for service in [service(&[]), service(&[(names::NAME, "aservice123")]), settled_service(&[])] {
        let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(DELETE, Reply::status(204));
        let done = delete(&config(), &service);
        assert_eq!((done.outcome.failure, done.outcome.changes), (None, vec!["deleted lb-1".to_owned()]));
        assert_eq!(routes(&cloud), [LIST, DELETE]);
    }
    // One of the same name goes too; one of the custom name may be somebody else's.
    let left = [balancer("lb-1"), balancer("lb-2"), changed("lb-3", json!({"name": "my-lb"}))];
    let cloud = FakeCloud::new()
        .on(LIST, many(&left))
        .on(DELETE, Reply::status(204))
        .on("api DELETE /v2/load_balancers/lb-2", not_found());
    let done = delete(&config(), &settled_service(&[(names::NAME, "my-lb")]));
    assert_eq!((written(&done), done.outcome.failure.clone()), (vec![(names::ID, None)], None));
    assert_eq!((cloud.lines().len(), done.outcome.changes), (3, vec!["deleted lb-1".to_owned()]));
}

/// A Service that stopped being of the type LoadBalancer for a moment got the address of the one that had gone: a listing showed it still.
#[test]
fn one_that_was_deleted_a_moment_ago_is_made_anew_whatever_a_listing_shows() {
    for asked in [service(&[]), service(&[(names::ID, "lb-1")])] {
        let made = Reply::json(202, json!({ "load_balancer": changed("lb-2", json!({"status": "new"})) }).to_string());
        let cloud = tagging(FakeCloud::new())
            .on(LIST, many(&[balancer("lb-1")]))
            .on(LIST, many(&[balancer("lb-1")]))
            .on(DELETE, Reply::status(204))
            .on(GET, not_found())
            .on(GET, not_found())
            .on(POST, made);
        assert_eq!(delete(&config(), &settled_service(&[])).outcome.failure, None);
        let done = ensure(&config(), &asked, &nodes());
        assert_eq!(failure(&done).0, Reaction::Pending, "{done:?}");
        assert!(routes(&cloud).contains(&POST.to_owned()), "{:?}", routes(&cloud));
    }
}

#[test]
fn what_cannot_be_costs_no_call() {
    for annotations in WRONG {
        let cloud = FakeCloud::new();
        let done = ensure(&config(), &service(annotations), &nodes());
        assert_eq!(failure(&done).0, Reaction::Invalid);
        assert!(done.outcome.failure.as_ref().is_some_and(|failure| failure.field.is_some()));
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }
}

/// What cannot be.
const WRONG: [&[(&str, &str)]; 4] = [
    &[(names::TYPE, "abcd")],
    &[(names::TYPE, "REGIONAL"), (names::TLS_PORTS, "80")],
    &[(names::NETWORK, "INTERNAL"), (names::NETWORK_STACK, "DUALSTACK")],
    &[(names::HEALTH_INTERVAL, "soon")],
];

#[test]
fn do_153_169_170_171_172_173_nodes_that_do_not_fit_are_an_event() {
    let private = [backend(1, &["i4"]), backend(2, &["i4"])];
    let v4 = [backend(1, &["e4"])];
    let dual = [(names::NETWORK_STACK, "DUALSTACK")];
    let internal = [(names::NETWORK, "INTERNAL"), dual[0]];
    for (case, annotations, backends, reason, words) in [
        (169, &internal[..], &v4[..], Some(CONFIG_ERROR), "dual"),
        (170, &dual[..], &v4[..], Some(CONFIG_ERROR), "dual-stack"),
        (171, &[], &private[..], Some(CONFIG_ERROR), "REGIONAL_NETWORK EXTERNAL"),
        (172, &[], &[], None, "no ready nodes available for load balancer"),
        (153, &[], &[backend(1, &["e6"])], None, "no ready nodes available for load balancer"),
    ] {
        let _cloud = FakeCloud::new().on(LIST, many(&[]));
        let done = ensure(&config(), &service(annotations), backends);
        let reasons: Vec<_> = done.warnings.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(reasons, reason.into_iter().collect::<Vec<_>>(), "do_{case}");
        let message = done.outcome.failure.expect("it cannot be").message;
        assert!(message.contains(words), "do_{case}: {message}");
    }
    for annotations in [&[][..], &[(names::TYPE, "REGIONAL")], &internal[..1]] {
        let _cloud = FakeCloud::new().on(LIST, many(&[])).on(POST, one(&balancer("lb-1")));
        let done = ensure(&config(), &service(annotations), &v4);
        assert_eq!((addresses(&done), done.warnings), (both(), vec![]), "do_173");
    }
}

#[test]
fn a_survey_is_one_listing_and_changes_nothing() {
    let wish = |service: Service, backends: &[u32]| Wish { service, backends: backends.to_vec() };
    let named = |id: &str, uid: &str| changed(id, json!({ "name": format!("a{uid}") }));
    let of = |uid: &str| {
        let id = format!("LB-{uid}");
        Service { uid: uid.to_owned(), ..service(&[(names::ID, id.as_str())]) }
    };
    let without_id = Service { annotations: vec![], ..of("1") };
    let of_another = Service { annotations: of("9").annotations, ..of("1") };
    let mut new = named("lb-3", "3");
    new["status"] = json!("new");
    let cloud = FakeCloud::new().on(LIST, many(&[named("lb-1", "1"), named("lb-2", "2"), new]));
    let disowned = Service { ..service(&[(names::DISOWN, "true")]) };
    let wishes = [
        wish(of("1"), &[1, 0]),
        wish(of("2"), &[0]),
        wish(of("3"), &[0, 1]),
        wish(of("4"), &[0, 1]),
        wish(of("1"), &[7]),
        wish(disowned, &[]),
        wish(without_id, &[0, 1]),
        wish(of_another, &[0, 1]),
    ];
    assert_eq!(
        standings(&config(), &wishes),
        [
            Standing::InStep(both()),
            Standing::Differs(vec!["droplets".to_owned()]),
            Standing::Differs(vec!["status is new".to_owned()]),
            Standing::Missing,
            Standing::Unknown(Failure::retry("a wish names a backend that is not in the list")),
            Standing::Unknown(disowned_failure()),
            Standing::Differs(vec!["its ID is not on the Service".to_owned()]),
            Standing::Differs(vec!["its ID is not on the Service".to_owned()]),
        ]
    );
    assert_eq!(routes(&cloud), [LIST]);
    let _cloud = FakeCloud::new().on(LIST, Reply::json(401, "{}"));
    let failure = survey(&config(), &nodes(), &wishes[..1]).unwrap_err();
    assert_eq!(failure.reaction, Reaction::Unauthorized);
}

/// One that is as it should be is never ensured, as after the migration from another manager: its Service would not hear of it.
#[test]
fn a_survey_has_the_warnings_of_a_load_balancer_that_is_as_it_should_be() {
    let has = changed("lb-1", json!({ "vpc_uuid": "v-1" }));
    let _cloud = FakeCloud::new().on(LIST, many(&[has]));
    let config = Config { vpc: Some("v-2".to_owned()), ..config() };
    let service = settled_service(&[(names::PROTOCOL, "x"), (names::ALGORITHM, "random")]);
    let surveyed = survey(&config, &nodes(), &[Wish { service, backends: vec![0, 1] }]).unwrap();
    let [(Standing::InStep(_), done)] = surveyed.as_slice() else { panic!("{surveyed:?}") };
    let reasons: Vec<&str> = done.warnings.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [IGNORED, IGNORED, IMMUTABLE], "{:?}", done.warnings);
}

fn disowned_failure() -> Failure {
    disowned()
}
