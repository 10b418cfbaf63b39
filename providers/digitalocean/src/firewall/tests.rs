//! Cases of the reference by number: `do_NNN`.

use ccm_sdk::testing::{FakeCloud, Reply};
use ccm_sdk::types::{Reaction, TrafficPolicy};
use serde_json::{Value, json};

use super::*;
use crate::balancer::tests::{GET, LIST as LIST_BALANCERS, balancer, body, changed, many, not_found, one, routes};
use crate::cluster;
use crate::config::tests::config;
use crate::service_spec::tests::{port, service, udp};

const LIST: &str = "api GET /v2/firewalls";
const POST: &str = "api POST /v2/firewalls";
const PUT: &str = "api PUT /v2/firewalls/f-1";

fn settings() -> config::Firewall {
    config::Firewall { name: "k8s".to_owned(), tags: vec!["edge".to_owned(), "worker".to_owned()] }
}

fn node_port(annotations: &[(&str, &str)], node_port: u16) -> Service {
    Service { kind: ServiceType::NodePort, ports: vec![port(80, node_port)], ..service(annotations) }
}

fn lb(json: Value) -> Balancer {
    serde_json::from_value(json).expect("a load balancer")
}

/// `PROTOCOL PORTS FROM`, where `*` is everybody.
fn rules(services: &[Service], balancers: &[Balancer]) -> Vec<String> {
    let mut seen = seen(balancers);
    seen.look_up(services.iter().filter(|service| is_open(service)));
    let (spec, failures) = super::desired(&config(), &settings(), services, &seen, &[]);
    assert_eq!(failures, []);
    texts(&spec)
}

fn texts(spec: &Spec) -> Vec<String> {
    let text = |rule: &Inbound| {
        let from = [rule.sources.addresses.join(","), rule.sources.load_balancer_uids.join(",")].concat();
        format!("{} {} {}", rule.protocol, rule.ports, if from == "0.0.0.0/0,::/0" { "*" } else { &from })
    };
    spec.inbound_rules.iter().map(text).collect()
}

fn seen(balancers: &[Balancer]) -> Seen {
    Seen { all: balancers.to_vec(), ..Seen::default() }
}

fn desired(
    config: &Config,
    firewall: &config::Firewall,
    services: &[Service],
    balancers: &[Balancer],
) -> (Spec, Vec<(Subject, Failure)>) {
    super::desired(config, firewall, services, &seen(balancers), &[])
}

/// As the cloud gives back what was asked for: in another order, with other words.
fn stored(id: &str, spec: &Spec) -> Value {
    let mut stored =
        json!({ "id": id, "status": "waiting", "created_at": "2020-05-23T21:24:00Z", "pending_changes": [] });
    let mut sent = serde_json::to_value(spec).expect("JSON");
    for list in ["inbound_rules", "outbound_rules", "tags"] {
        sent[list].as_array_mut().expect("a list").reverse();
    }
    for rule in sent["outbound_rules"].as_array_mut().expect("a list") {
        rule["ports"] = json!("0");
        rule["destinations"]["addresses"].as_array_mut().expect("a list").reverse();
        rule["destinations"]["tags"] = json!([]);
    }
    stored.as_object_mut().expect("an object").extend(sent.as_object().expect("an object").clone());
    stored
}

fn list(firewalls: &[Value]) -> Reply {
    Reply::json(200, json!({ "firewalls": firewalls, "meta": { "total": firewalls.len() } }).to_string())
}

fn reconciled(services: &[Service]) -> Result<Vec<(Subject, Failure)>, Failure> {
    reconcile(&config(), &settings(), services, &Seen::default())
}

/// With all that the cluster needs.
fn of_cluster(services: &[Service]) -> Vec<(Subject, Failure)> {
    let config = Config { firewall: Some(settings()), ..config() };
    cluster::reconcile(&config, services).expect("what fails is in the list")
}

#[test]
fn do_229_without_services_only_what_goes_out_is_open() {
    let (spec, _) = desired(&config(), &settings(), &[], &[]);
    let everybody = json!({ "addresses": ["0.0.0.0/0", "::/0"] });
    assert_eq!(
        serde_json::to_value(&spec).expect("JSON"),
        json!({
            "name": "k8s", "inbound_rules": [], "droplet_ids": [], "tags": ["edge", "worker"],
            "outbound_rules": [
                { "protocol": "tcp", "ports": "all", "destinations": everybody },
                { "protocol": "udp", "ports": "all", "destinations": everybody },
                { "protocol": "icmp", "ports": "0", "destinations": everybody },
            ],
        })
    );
}

#[test]
fn node_ports_are_open_to_everybody() {
    let of = |ports: Vec<types::ServicePort>| Service { ports, ..node_port(&[], 1) };
    let sctp = |port| types::ServicePort { protocol: types::Protocol::Sctp, ..port };
    let managed = |value, port| node_port(&[(names::FIREWALL_MANAGED, value)], port);
    for (case, services, expected) in [
        (
            "do_230",
            vec![of(vec![port(80, 31_000), sctp(port(80, 31_000)), sctp(port(81, 31_001))])],
            vec!["tcp 31000 *"],
        ),
        ("do_231", vec![service(&[(names::TYPE, "REGIONAL")])], vec![]),
        ("do_232", vec![of(vec![port(80, 31_000), udp(80, 31_000)])], vec!["tcp 31000 *", "udp 31000 *"]),
        (
            "do_233",
            vec![
                of(vec![udp(53, 30_053), port(80, 31_000)]),
                node_port(&[], 30_000),
                node_port(&[], 31_000),
                node_port(&[], 0),
            ],
            vec!["tcp 30000 *", "tcp 31000 *", "udp 30053 *"],
        ),
        (
            "do_236",
            vec![
                node_port(&[], 31_000),
                managed("true", 31_001),
                managed("undecided", 31_002),
                managed("false", 31_003),
            ],
            vec!["tcp 31000 *", "tcp 31001 *", "tcp 31002 *"],
        ),
    ] {
        assert_eq!(rules(&services, &[]), expected, "{case}");
    }
}

#[test]
fn do_234_235_283_ports_of_load_balancers_that_pass_packets_are_open() {
    let mut web = service(&[(names::ID, "lb-1")]);
    web.ports = vec![port(80, 30_080), port(443, 30_443)];
    let has = [lb(balancer("lb-1"))];
    assert_eq!(rules(&[web.clone()], &has), ["tcp 10256 lb-1", "tcp 443 *", "tcp 80 *"]);
    // Until it is known, nobody has to check; a listing alone may not show it.
    let cloud = FakeCloud::new().on(GET, one(&balancer("lb-1")));
    assert_eq!(rules(&[web.clone()], &[]), ["tcp 10256 lb-1", "tcp 443 *", "tcp 80 *"]);
    assert_eq!(routes(&cloud), [GET]);
    let _cloud = FakeCloud::new().always(GET, not_found());
    for others in [vec![], vec![lb(changed("lb-9", json!({"name": "other"})))]] {
        assert_eq!(rules(&[web.clone()], &others), ["tcp 443 *", "tcp 80 *"]);
    }
    let local = Service {
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: Some(15_000),
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ..web.clone()
    };
    assert_eq!(
        rules(std::slice::from_ref(&local), &has),
        ["tcp 10256 lb-1", "tcp 15000 lb-1", "tcp 443 10.0.0.0/8", "tcp 80 10.0.0.0/8"],
        "what it checks still, and what it is to check"
    );
    let new = Service { annotations: vec![], source_ranges: vec![], ..local };
    assert_eq!(rules(&[new], &[]), ["tcp 443 *", "tcp 80 *"], "do_235");
    let mut checked = web.clone();
    checked.annotations.push((names::OVERRIDE_HEALTH_CHECK.to_owned(), String::new()));
    let follows = [lb(changed("lb-1", json!({"health_check": {"protocol": "tcp", "port": 30080}})))];
    assert_eq!(rules(&[checked], &follows), ["tcp 30080 lb-1", "tcp 443 *", "tcp 80 *"]);
    // A class that the operator gives this provider is known by what was made for it.
    let classed = Service { load_balancer_class: Some("ours".to_owned()), ..web.clone() };
    assert_eq!(rules(&[classed], &has), ["tcp 10256 lb-1", "tcp 443 *", "tcp 80 *"]);
    // What it is counts, not what is asked for.
    assert_eq!(rules(&[web.clone()], &[lb(changed("lb-1", json!({"type": "REGIONAL"})))]), Vec::<String>::new());
    // Its clients are served until it is gone.
    assert_eq!(rules(&[Service { deleting: true, ..web.clone() }], &has), ["tcp 10256 lb-1", "tcp 443 *", "tcp 80 *"]);
    assert_eq!(rules(&[Service { deleting: true, ..node_port(&[], 31_000) }], &[]), ["tcp 31000 *"]);
    // Somebody else makes the load balancer of another class, and only people know whether that needs the ports.
    let other_class = |annotations: &[(&str, &str)]| Service {
        load_balancer_class: Some("other".to_owned()),
        ..service(annotations)
    };
    assert_eq!(rules(&[other_class(&[(names::FIREWALL_MANAGED, "true")])], &[]), ["tcp 80 *"]);
    for closed in [
        other_class(&[]),
        other_class(&[(names::FIREWALL_MANAGED, "undecided")]),
        other_class(&[(names::FIREWALL_MANAGED, "true"), (names::TYPE, "REGIONAL")]),
        Service { annotations: service(&[(names::FIREWALL_MANAGED, "false")]).annotations, ..web },
        service(&[(names::NETWORK, "INTERNAL")]),
    ] {
        assert_eq!(rules(&[closed], &[]), Vec::<String>::new());
    }
}

#[test]
fn one_bad_service_does_not_close_the_ports_of_the_others() {
    let bad_type = service(&[(names::TYPE, "abcd")]);
    let bad_range = Service { source_ranges: vec!["everybody".to_owned()], ..service(&[]) };
    let (spec, failures) = desired(&config(), &settings(), &[bad_type, bad_range, node_port(&[], 31_000)], &[]);
    assert_eq!(spec.inbound_rules.len(), 1);
    assert_eq!(failures.iter().map(|(_, failure)| failure.reaction).collect::<Vec<_>>(), [Reaction::Invalid; 2]);
    // What is wrong with something else closes nothing, nor does a wrong type of one that is there.
    let known = [lb(balancer("lb-1"))];
    for (name, has, open) in [
        (names::REDIRECT, &known[..], 2),
        (names::HEALTH_INTERVAL, &known[..], 2),
        (names::HEALTH_INTERVAL, &[], 1),
        (names::TYPE, &known[..], 2),
    ] {
        assert_eq!(rules(&[service(&[(name, "x")])], has).len(), open, "{name}");
    }
}

/// `0` stands for all ports. The load balancer checks as before, since nothing is changed of it.
#[test]
fn a_check_whose_port_cannot_be_read_leaves_the_port_open_that_is_checked() {
    let wrong = service(&[(names::OVERRIDE_HEALTH_CHECK, "true"), (names::HEALTH_PORT, "81"), (names::ID, "lb-1")]);
    for (has, expected) in [
        (balancer("lb-1"), vec!["tcp 10256 lb-1", "tcp 80 *"]),
        (changed("lb-1", json!({"health_check": null})), vec!["tcp 80 *"]),
    ] {
        assert_eq!(rules(std::slice::from_ref(&wrong), &[lb(has)]), expected);
    }
}

/// Once the rules were written without the port of the check, and all Nodes were unhealthy; and once no rule was written for anybody,
/// as long as one load balancer could not be asked for.
#[test]
fn a_load_balancer_that_cannot_be_asked_for_leaves_its_ports_as_they_are_and_those_of_others_follow() {
    let web = Service { uid: "web".to_owned(), ..service(&[(names::ID, "lb-1")]) };
    let ranged = |range: &str, id: &str| Service {
        uid: id.to_owned(),
        source_ranges: vec![range.to_owned()],
        ..service(&[(names::ID, id)])
    };
    let before = [web.clone(), ranged("10.0.0.0/8", "lb-2"), node_port(&[], 31_000)];
    let two = changed("lb-2", json!({"name": "alb2"}));
    let known = [lb(balancer("lb-1")), lb(two.clone())];
    let (present, _) = desired(&config(), &settings(), &before, &known);
    let now = [web, ranged("10.0.0.0/16", "lb-2"), node_port(&[], 31_001)];
    for reply in [Reply::status(500), Reply::json(429, "{}"), Reply::json(404, "<html>")] {
        let cloud = FakeCloud::new()
            .on(LIST_BALANCERS, many(std::slice::from_ref(&two)))
            .on(GET, reply.clone())
            .on(LIST, list(&[stored("f-1", &present)]))
            .on(PUT, Reply::status(200));
        let failures = of_cluster(&now);
        let [(Subject::Service(_), failure)] = failures.as_slice() else { panic!("{reply:?}: {failures:?}") };
        assert!(failure.message.contains("lb-1"), "{}", failure.message);
        assert_eq!(routes(&cloud), [LIST_BALANCERS, GET, LIST, PUT], "{reply:?}");
        let sent: Spec = serde_json::from_value(body(&cloud, 3)).expect("a firewall");
        assert_eq!(
            texts(&sent),
            ["tcp 10256 lb-1", "tcp 10256 lb-2", "tcp 31001 *", "tcp 80 *", "tcp 80 10.0.0.0/16"],
            "{reply:?}"
        );
    }
}

/// A Service of DNS, which lets everybody in now, and one that has done so on one of its ports all along.
#[test]
fn what_another_service_opens_on_the_other_protocol_closes_nothing_that_stays_open() {
    let dns = Service { ports: vec![port(53, 30_053), udp(53, 30_054)], ..service(&[(names::ID, "lb-1")]) };
    let rule = |protocol: &str, address: &[&str]| Inbound {
        protocol: protocol.to_owned(),
        ports: "53".to_owned(),
        sources: Peers { addresses: address.iter().map(|text| (*text).to_owned()).collect(), ..Peers::default() },
    };
    let present = [rule("tcp", &["10.0.0.0/8"]), rule("udp", &["10.0.0.0/8"]), rule("udp", &EVERYBODY)];
    let kept = kept(&dns, &service_spec::read(&dns).0, &[], &present);
    let kept: Vec<_> = kept.iter().map(|(protocol, _, peers)| (*protocol, peers.addresses.join(","))).collect();
    assert_eq!(kept, [("tcp", "10.0.0.0/8".to_owned()), ("udp", EVERYBODY.join(","))]);
}

/// The account may have more load balancers than one answer holds.
#[test]
fn node_ports_follow_also_where_load_balancers_cannot_be_listed() {
    let of = |uid: &str, id: Option<&str>| {
        let annotations: Vec<(&str, &str)> = id.map(|id| (names::ID, id)).into_iter().collect();
        Service { uid: uid.to_owned(), name: uid.to_owned(), ..service(&annotations) }
    };
    let (known, unknown) = (of("known", Some("lb-1")), of("unknown", None));
    let all = [lb(changed("lb-1", json!({"name": "aknown"}))), lb(changed("lb-9", json!({"name": "aunknown"})))];
    let mut before = vec![known, unknown];
    let (present, _) = desired(&config(), &settings(), &before, &all);
    before.push(node_port(&[], 31_000));
    for (list_reply, by_id) in [(Reply::status(500), true), (Reply::json(401, "{}"), false)] {
        let mut cloud = FakeCloud::new()
            .always(LIST_BALANCERS, list_reply)
            .on(LIST, list(&[stored("f-1", &present)]))
            .on(PUT, Reply::status(200));
        if by_id {
            cloud = cloud.on(GET, one(&changed("lb-1", json!({"name": "aknown"}))));
        }
        let failures = of_cluster(&before);
        let [(Subject::Provider, _)] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!(routes(&cloud).contains(&GET.to_owned()), by_id);
        let sent: Spec = serde_json::from_value(body(&cloud, routes(&cloud).len() - 1)).expect("a firewall");
        assert_eq!(texts(&sent), ["tcp 10256 lb-1", "tcp 10256 lb-9", "tcp 31000 *", "tcp 80 *"]);
    }
}

#[test]
fn what_says_neither_yes_nor_no_is_open_as_ever_and_told() {
    let services = ["true", "false", "undecided"].map(|value| node_port(&[(names::FIREWALL_MANAGED, value)], 31_000));
    let told = unclear(&services);
    let [(_, message)] = told.as_slice() else { panic!("{told:?}") };
    assert!(message.contains(names::FIREWALL_MANAGED) && message.contains("\"undecided\""), "{message}");
}

#[test]
fn do_224_237_238_225_one_that_is_not_there_is_made() {
    for services in [vec![], vec![node_port(&[], 31_000)]] {
        let cloud = FakeCloud::new().on(LIST, list(&[])).on(POST, Reply::status(202));
        assert_eq!(reconciled(&services), Ok(vec![]));
        assert_eq!(routes(&cloud), [LIST, POST]);
        assert_eq!(body(&cloud, 1)["inbound_rules"].as_array().map(Vec::len), Some(services.len()));
    }
}

#[test]
fn do_239_240_225_one_that_differs_is_written_once() {
    let (old, _) = desired(&config(), &settings(), &[node_port(&[], 31_000)], &[]);
    for (services, ports) in [(vec![], vec![]), (vec![node_port(&[], 31_001)], vec!["31001"])] {
        let cloud = FakeCloud::new().on(LIST, list(&[stored("f-1", &old)])).on(PUT, Reply::status(200));
        assert_eq!(reconciled(&services), Ok(vec![]));
        assert_eq!(routes(&cloud), [LIST, PUT]);
        let sent = body(&cloud, 1);
        let open = sent["inbound_rules"].as_array().expect("a list").iter().map(|rule| &rule["ports"]);
        assert!(open.eq(ports.iter()), "{sent}");
    }
}

#[test]
fn do_241_one_that_is_the_same_is_not_written() {
    let services = [node_port(&[], 31_000), node_port(&[], 31_001)];
    let (spec, _) = desired(&config(), &settings(), &services, &[]);
    let other = stored("f-0", &Spec { name: "other".to_owned(), ..spec.clone() });
    let cloud = FakeCloud::new().on(LIST, list(&[other, stored("f-9", &spec)]));
    assert_eq!(reconciled(&services), Ok(vec![]));
    assert_eq!(routes(&cloud), [LIST]);
}

#[test]
fn do_284_one_that_was_made_anew_is_the_one_that_is_written() {
    let (old, _) = desired(&config(), &settings(), &[node_port(&[], 31_000)], &[]);
    for id in ["f-1", "f-2"] {
        let put = format!("api PUT /v2/firewalls/{id}");
        let cloud = FakeCloud::new().on(LIST, list(&[stored(id, &old)])).on(&put, Reply::status(200));
        assert_eq!(reconciled(&[]), Ok(vec![]));
        assert_eq!(routes(&cloud), [LIST.to_owned(), put]);
    }
}

#[test]
fn what_the_cloud_says_in_other_words_is_no_difference() {
    let read = |value: Value| serde_json::from_value::<firewalls::Firewall>(value).expect("a firewall").spec;
    let (wants, _) = desired(&config(), &settings(), &[node_port(&[], 31_000), node_port(&[], 31_001)], &[]);
    let has = stored("f-1", &wants);
    assert_ne!(read(has.clone()), wants, "do_245 has another order");
    assert!(!differs(&read(has.clone()), &wants), "do_245");
    let (nothing, _) = desired(&config(), &settings(), &[], &[]);
    for empty in [Value::Null, json!([])] {
        let mut has = stored("f-1", &nothing);
        has["inbound_rules"] = empty.clone();
        has["droplet_ids"] = empty;
        assert!(!differs(&read(has), &nothing), "do_246");
    }
    for all in ["all", "0", ""] {
        let mut has = has.clone();
        for rule in has["outbound_rules"].as_array_mut().expect("a list") {
            rule["ports"] = json!(all);
        }
        assert!(!differs(&read(has), &wants), "do_247: {all:?}");
    }
    let mut capitals = has.clone();
    capitals["tags"] = json!(["Worker", "EDGE"]);
    assert!(!differs(&read(capitals), &wants), "the case of whoever made a tag first");
    for (list, peers) in [("inbound_rules", "sources"), ("outbound_rules", "destinations")] {
        let mut has = has.clone();
        for kind in ["droplet_ids", "tags", "kubernetes_ids"] {
            has[list][0][peers][kind] = json!(["7"]);
        }
        assert!(!differs(&read(has.clone()), &wants), "do_248");
        has[list][0][peers]["addresses"] = json!(["192.0.2.0/24"]);
        assert!(differs(&read(has), &wants), "do_248");
    }
}

#[test]
fn do_243_244_249_250_every_difference_counts() {
    let peers = |address: &str, id: &str| Peers {
        addresses: vec![address.to_owned()],
        load_balancer_uids: vec![id.to_owned()],
    };
    let inbound = |sources| vec![Inbound { protocol: "tcp".to_owned(), ports: "1".to_owned(), sources }];
    let outbound = |destinations| vec![Outbound { protocol: "tcp".to_owned(), ports: "1".to_owned(), destinations }];
    let spec = Spec {
        name: "k8s".to_owned(),
        inbound_rules: inbound(peers("a", "l")),
        outbound_rules: outbound(peers("a", "l")),
        ..Spec::default()
    };
    assert!(!differs(&spec, &spec) && !differs(&Spec::default(), &Spec::default()));
    for other in [
        Spec::default(),
        Spec { name: "x".to_owned(), ..spec.clone() },
        Spec { tags: vec!["x".to_owned()], ..spec.clone() },
        Spec { inbound_rules: vec![], ..spec.clone() },
        Spec { inbound_rules: inbound(peers("b", "l")), ..spec.clone() },
        Spec { inbound_rules: inbound(peers("a", "m")), ..spec.clone() },
        Spec { outbound_rules: vec![], ..spec.clone() },
        Spec { outbound_rules: outbound(peers("b", "l")), ..spec.clone() },
        Spec { outbound_rules: outbound(peers("a", "m")), ..spec.clone() },
    ] {
        assert!(differs(&spec, &other) && differs(&other, &spec), "{other:?}");
    }
}

#[test]
fn do_220_225_226_227_failures_of_the_cloud() {
    let (old, _) = desired(&config(), &settings(), &[node_port(&[], 31_000)], &[]);
    let _cloud = FakeCloud::new().on(LIST, Reply::status(500));
    assert!(reconciled(&[]).is_err());
    let cloud =
        FakeCloud::new().on(LIST, list(&[stored("f-1", &old)])).on(PUT, not_found()).on(POST, Reply::status(202));
    assert_eq!((reconciled(&[]), routes(&cloud).len()), (Ok(vec![]), 3));
    let _cloud = FakeCloud::new().on(LIST, list(&[stored("f-1", &old)])).on(PUT, Reply::status(500));
    assert!(reconciled(&[]).is_err_and(|failure| failure.message.starts_with("failed to update firewall: ")));
    let _cloud = FakeCloud::new().on(LIST, list(&[])).on(POST, Reply::status(500));
    assert!(reconciled(&[]).is_err_and(|failure| failure.message.starts_with("failed to create firewall: ")));
}

#[test]
fn a_tag_that_is_not_in_the_account_is_named_with_who_asks_for_it_and_the_way_out() {
    let (old, _) = desired(&config(), &settings(), &[node_port(&[], 31_000)], &[]);
    for (body, which) in [
        (r#"{"id": "unprocessable_entity", "message": "tag Worker does not exist"}"#, "the tag \"worker\", for"),
        (
            r#"{"id": "unprocessable_entity", "message": "tags must exist"}"#,
            "one of the tags \"edge\", \"worker\", for",
        ),
        (
            r#"{"error": "Bad Request", "messages": null, "root_causes": ["invalid tag: 'edge'"]}"#,
            "the tag \"edge\", for",
        ),
    ] {
        for (has, write) in [(vec![], POST), (vec![stored("f-1", &old)], PUT)] {
            let cloud = FakeCloud::new().on(LIST, list(&has)).on(write, Reply::json(422, body));
            let failure = reconciled(&[]).expect_err("it is refused");
            assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Retry, Some(60_000)));
            for words in [which, "PUBLIC_ACCESS_FIREWALL_TAGS", "give it to the droplets", "422", "tag"] {
                assert!(failure.message.contains(words), "{words}: {}", failure.message);
            }
            assert_eq!(routes(&cloud), [LIST, write], "the cloud is not asked more for the message");
        }
    }
    // Another no is told as it is.
    let _cloud = FakeCloud::new().on(LIST, list(&[])).on(POST, Reply::json(422, r#"{"message": "invalid address"}"#));
    let failure = reconciled(&[]).expect_err("it is refused");
    assert_eq!(failure.reaction, Reaction::Retry);
    assert!(!failure.message.contains("PUBLIC_ACCESS"), "{}", failure.message);
}

#[test]
fn do_251_what_is_written_is_told_in_the_log() {
    let mut web = service(&[(names::ID, "lb-1")]);
    web.source_ranges = vec!["10.0.0.0/8".to_owned(), "1.1.1.1/32".to_owned()];
    let has = [lb(balancer("lb-1"))];
    let services = [node_port(&[], 31_000), web];
    let told = "k8s: in: tcp 10256 from lb-1; tcp 31000 from 0.0.0.0/0,::/0; tcp 80 from 1.1.1.1/32,10.0.0.0/8; \
                out: icmp 0 to 0.0.0.0/0,::/0; tcp 0 to 0.0.0.0/0,::/0; udp 0 to 0.0.0.0/0,::/0; tags: edge,worker";
    let (mut spec, _) = desired(&config(), &settings(), &services, &has);
    let again = || reconcile(&config(), &settings(), &services, &seen(&has));
    let cloud = FakeCloud::new().on(LIST, list(&[])).on(POST, Reply::status(202));
    assert_eq!((again(), cloud.logged()), (Ok(vec![]), vec![format!("firewall made firewall={told}")]));
    let same = stored("f-1", &spec);
    let cloud = FakeCloud::new().on(LIST, list(&[same]));
    assert_eq!((again(), cloud.logged()), (Ok(vec![]), vec![]));
    spec.tags.clear();
    let cloud = FakeCloud::new().on(LIST, list(&[stored("f-1", &spec)])).on(PUT, Reply::status(200));
    assert_eq!((again(), cloud.logged()), (Ok(vec![]), vec![format!("firewall changed firewall={told}")]));
}
