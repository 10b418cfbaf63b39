//! Load balancers from the first call to the last. Names begin with the number of the case in the provider's reference.

mod addresses;
mod members;
mod surveys;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::load_balancers::Outcome;
use ccm_sdk::types::{
    Address, AddressType, Backend, Failure, Ingress, IpFamily, Problem, Protocol, Reaction, Service, ServicePort,
    ServiceType, TrafficPolicy,
};
use serde_json::{Value, json};

use super::service_spec::NODES_REFUSED;
use super::{Balancers, POOL_LOCK, State, Store, locks, name};
use crate::annotations::{LB_ADDRESS, LB_DELAY, LB_FAIL, LB_MODE, LB_READY_AT};
use crate::config::{self, Config};

/// The host's cache: a map to values, and how long they are kept.
#[derive(Debug, Default, PartialEq, Clone)]
struct Cache(RefCell<BTreeMap<String, (Vec<u8>, Duration)>>);

impl Store for Cache {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.0.borrow().get(key).map(|(value, _)| value.clone())
    }

    fn put(&self, key: &str, value: &[u8], ttl: Duration) {
        self.0.borrow_mut().insert(key.to_owned(), (value.to_vec(), ttl));
    }

    fn forget(&self, key: &str) {
        self.0.borrow_mut().remove(key);
    }
}

/// A cloud, and a controller that writes down on the Services what it is told.
struct Cloud {
    config: Config,
    cache: Cache,
    now: Duration,
}

impl Cloud {
    fn new(load_balancer: &Value) -> Self {
        let file = json!({ "loadBalancer": load_balancer }).to_string();
        let config = config::read(Some(&file)).usable().expect("a configuration without mistakes");
        Self { config, cache: Cache::default(), now: Duration::from_secs(1_700_000_000) }
    }

    fn balancers(&self) -> Balancers<'_> {
        Balancers { config: &self.config.load_balancers, state: State(&self.cache), now: self.now }
    }

    fn ensure(&self, service: &mut Service) -> Done {
        self.ensure_with(service, &["a", "b"])
    }

    fn ensure_with(&self, service: &mut Service, nodes: &[&str]) -> Done {
        let done = self.balancers().ensure(service, &backends(nodes));
        write(service, &done.outcome);
        done
    }

    /// The addresses of a Service that gets some.
    fn ips(&self, service: &mut Service) -> Vec<String> {
        let done = self.ensure(service);
        assert_eq!(done.outcome.failure, None);
        ips(service)
    }

    fn delete(&self, service: &mut Service) -> Done {
        let done = self.balancers().delete(service);
        write(service, &done.outcome);
        service.ingress.clear();
        done
    }

    fn restart(&self) {
        self.cache.0.borrow_mut().clear();
    }

    fn members(&self, service: &Service) -> usize {
        State(&self.cache).record(&service.uid).expect("a load balancer").members.len()
    }

    /// Whatever stays: that something is gone is forgotten by itself.
    fn remembers(&self) -> BTreeMap<String, Vec<u8>> {
        let cache = self.cache.0.borrow();
        let stays = cache.iter().filter(|(_, (_, ttl))| *ttl == Duration::MAX);
        stays.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

/// What a controller does with an outcome.
fn write(service: &mut Service, outcome: &Outcome) {
    for (name, value) in &outcome.annotations {
        service.annotations.retain(|(other, _)| other != name);
        service.annotations.extend(value.clone().map(|value| (name.clone(), value)));
    }
    if outcome.failure.is_none() {
        service.ingress.clone_from(&outcome.ingress);
    }
}

fn ips(service: &Service) -> Vec<String> {
    service.ingress.iter().filter_map(|place| place.ip.clone()).collect()
}

fn service(name: &str) -> Service {
    Service {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        kind: ServiceType::LoadBalancer,
        deleting: false,
        labels: vec![],
        annotations: vec![],
        ports: vec![ServicePort {
            name: String::new(),
            protocol: Protocol::Tcp,
            app_protocol: None,
            port: 80,
            node_port: Some(30_080),
        }],
        ip_families: vec![IpFamily::Ipv4],
        external_traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        client_ip_affinity_seconds: None,
        requested_ip: None,
        source_ranges: vec![],
        load_balancer_class: None,
        ingress: vec![],
        more: vec![],
    }
}

fn annotated(mut service: Service, name: &str, value: &str) -> Service {
    service.annotations.push((name.to_owned(), value.to_owned()));
    service
}

fn without(service: &mut Service, name: &str) {
    service.annotations.retain(|(other, _)| other != name);
}

fn backend(name: &str, addresses: &[&str]) -> Backend {
    let address = |value: &&str| Address { kind: AddressType::InternalIp, value: (*value).to_owned() };
    Backend {
        name: name.to_owned(),
        provider_id: None,
        addresses: addresses.iter().map(address).collect(),
        more: vec![],
    }
}

fn backends(names: &[&str]) -> Vec<Backend> {
    names.iter().map(|name| backend(name, &[])).collect()
}

fn failure(done: &Done) -> (Reaction, &str, Option<&str>) {
    let failure = done.outcome.failure.as_ref().expect("a failure");
    (failure.reaction, &failure.message, failure.field.as_deref())
}

const ANNOTATED_ADDRESS: &str = "metadata.annotations[cloudlycke.io/lb-address]";

#[test]
fn c_16_to_ensure_again_gives_the_same_status_and_changes_nothing() {
    let modes = [json!({}), json!({ "hostnameSuffix": "lb.example.com" }), json!({ "provisionDelay": "0s" })];
    for config in modes {
        let cloud = Cloud::new(&config);
        let mut web = service("web");
        let first = cloud.ensure(&mut web);
        assert_eq!(first.outcome.decision(), "changed");
        let remembered = cloud.remembers();
        let second = cloud.ensure(&mut web);
        assert_eq!(second.outcome.ingress, first.outcome.ingress);
        assert_eq!(
            (second.outcome.decision(), second.outcome.changes, second.outcome.annotations),
            ("unchanged", vec![], vec![])
        );
        assert_eq!(cloud.remembers(), remembered);
    }
}

#[test]
fn c_17_a_load_balancer_is_there_from_ensure_to_delete_and_can_be_deleted_twice() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    assert_eq!(cloud.balancers().get(&web), None);
    let ips = cloud.ips(&mut web);
    assert_eq!(cloud.balancers().get(&web), Some(web.ingress.clone()));
    let deleted = cloud.delete(&mut web).outcome;
    assert_eq!((deleted.failure, deleted.changes), (None, vec![format!("address {} released", ips[0])]));
    assert_eq!(cloud.balancers().get(&web), None);
    assert_eq!(cloud.delete(&mut web).outcome, Outcome::gone());
    assert_eq!(cloud.remembers(), BTreeMap::new());
}

/// The host would call it a broken answer.
#[test]
fn c_18_success_always_names_a_place() {
    for mode in ["pool", "hostname"] {
        let cloud = Cloud::new(&json!({ "hostnameSuffix": "lb.example.com" }));
        let mut web = annotated(service("web"), LB_MODE, mode);
        for nodes in [&["a"][..], &[]] {
            assert!(!cloud.ensure_with(&mut web, nodes).outcome.ingress.is_empty(), "{mode}");
        }
    }
    let cloud = Cloud::new(&json!({ "mode": "nodes" }));
    let done = cloud.ensure(&mut service("web"));
    let text = "no Node has an internal address of the Service's IP families";
    assert_eq!(failure(&done), (Reaction::Retry, text, None));
}

#[test]
fn a_service_without_ports_is_refused() {
    let done = Cloud::new(&json!({})).ensure(&mut Service { ports: vec![], ..service("web") });
    let text = "a load balancer needs at least one port";
    assert_eq!(failure(&done), (Reaction::Invalid, text, Some("spec.ports")));
}

#[test]
fn c_23_a_delay_counts_from_the_first_call_and_not_from_a_restart() {
    for from_annotation in [true, false] {
        let config = if from_annotation { json!({}) } else { json!({ "provisionDelay": "25s" }) };
        let mut cloud = Cloud::new(&config);
        let mut web = service("web");
        if from_annotation {
            web = annotated(web, LB_DELAY, "25s");
        }
        assert_eq!(cloud.balancers().get(&web), None);
        // When, what is said, when to look again.
        for (at, left, look) in [(0, 25, 10), (10, 15, 10), (20, 5, 5)] {
            cloud.now = Duration::from_secs(1_700_000_000 + at);
            let done = cloud.ensure(&mut web);
            let pending = Failure::pending(format!("provisioning, ready in {left} s"));
            assert_eq!(done.outcome.failure, Some(pending.after(Duration::from_secs(look))));
            assert_eq!((done.outcome.decision(), done.outcome.annotations.len()), ("pending", usize::from(at == 0)));
            assert_eq!(cloud.balancers().get(&web), Some(vec![]), "it is being made");
            cloud.restart();
        }
        cloud.now = Duration::from_secs(1_700_000_025);
        let ips = cloud.ips(&mut web);
        cloud.restart();
        assert_eq!(cloud.ips(&mut web), ips, "no second delay");
        assert_eq!(web.annotation(LB_READY_AT), Some("1700000025000"));
        let deleted = cloud.delete(&mut web).outcome;
        assert_eq!((deleted.annotations, web.annotation(LB_READY_AT)), (vec![(LB_READY_AT.to_owned(), None)], None));
    }
}

#[test]
fn a_delay_that_is_taken_away_or_was_tampered_with_makes_nobody_wait_for_ever() {
    let cloud = Cloud::new(&json!({}));
    let mut web = annotated(service("web"), LB_DELAY, "1h");
    assert_eq!(cloud.ensure(&mut web).outcome.decision(), "pending");
    without(&mut web, LB_DELAY);
    assert_eq!(cloud.ensure(&mut web).outcome.decision(), "changed");

    for noted in ["99999999999999", "soon"] {
        let mut web = annotated(annotated(service("web"), LB_READY_AT, noted), LB_DELAY, "1500ms");
        web.uid = noted.to_owned();
        let done = cloud.ensure(&mut web);
        assert_eq!(failure(&done).1, "provisioning, ready in 2 s");
        assert_eq!(web.annotation(LB_READY_AT), Some("1700000001500"));
    }
}

#[test]
fn c_24_a_simulated_failure_holds_for_all_changes_but_deletion() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    cloud.ips(&mut web);
    web = annotated(web, LB_FAIL, "quota exceeded");
    assert_eq!(failure(&cloud.ensure(&mut web)), (Reaction::Retry, "quota exceeded", None));
    assert_eq!(failure(&cloud.balancers().update(&web, &[])), (Reaction::Retry, "quota exceeded", None));
    assert_eq!(cloud.delete(&mut web).outcome.failure, None);

    // Nor does anything else that is wrong keep it from going.
    let mut wrong = service("wrong");
    cloud.ips(&mut wrong);
    wrong = annotated(annotated(wrong, LB_MODE, "magic"), LB_ADDRESS, "x");
    assert_eq!(cloud.delete(&mut wrong).outcome.failure, None);
    assert_eq!(cloud.remembers(), BTreeMap::new());
}

#[test]
fn c_26_names_are_unique_within_63_characters_and_plain_where_they_fit() {
    let named = |namespace: &str, name: &str| {
        super::name(&Service { namespace: namespace.to_owned(), name: name.to_owned(), ..service("") })
    };
    assert_eq!(named("default", "web"), "default-web");
    let (a54, a57) = ("a".repeat(54), "a".repeat(57));
    assert_eq!(named("b".repeat(5).as_str(), &a57), format!("bbbbb-{a57}"), "63 characters");
    // As `sha256sum` says of `aaa…-b/cccccccccc`.
    assert_eq!(named(&format!("{a54}-b"), &"c".repeat(10)), format!("{a54}-962f096f"));
    let first = named(&format!("{a54}-b"), "cccccccccc");
    let second = named(&a54, "b-cccccccccc");
    assert!(first != second && [&first, &second].iter().all(|name| name.len() == 63), "{first} {second}");

    // Below the limit two can be the same; the Services still are two.
    assert_eq!(named("a-b", "c"), named("a", "b-c"));
    let cloud = Cloud::new(&json!({}));
    let mut first = Service { namespace: "a-b".to_owned(), uid: "1".to_owned(), ..service("c") };
    let mut second = Service { namespace: "a".to_owned(), uid: "2".to_owned(), ..service("b-c") };
    assert_ne!(cloud.ips(&mut first), cloud.ips(&mut second));
}

#[test]
fn c_33_no_call_changes_what_it_is_given() {
    let cloud = Cloud::new(&json!({ "provisionDelay": "1s" }));
    let (web, nodes) = (service("web"), backends(&["b", "a"]));
    let (web_before, nodes_before) = (web.clone(), nodes.clone());
    let balancers = cloud.balancers();
    drop((balancers.ensure(&web, &nodes), balancers.update(&web, &nodes), balancers.delete(&web)));
    drop((balancers.get(&web), balancers.validate(&web, true)));
    assert_eq!((web, nodes), (web_before, nodes_before));
}

/// Only calls in mode `pool` once held the lock.
#[test]
fn every_call_holds_the_lock_since_each_may_take_or_give_back_addresses_in_another_mode() {
    type Call = fn(Balancers<'_>, &Service, &[Backend]) -> Done;
    /// What, whether after a restart, in which modes, and whether the address of the Service is kept for it before and after.
    type Row = (&'static str, bool, &'static [&'static str], Call, [bool; 2]);
    let ensure: Call = |balancers, web, nodes| balancers.ensure(web, nodes);
    let calls: [Row; 4] = [
        ("ensure", false, &["nodes", "hostname"], ensure, [true, false]),
        ("ensure", true, &["pool"], ensure, [false, true]),
        (
            "update",
            true,
            &["pool", "nodes", "hostname"],
            |balancers, web, nodes| balancers.update(web, nodes),
            [false, true],
        ),
        ("delete", false, &["pool", "nodes", "hostname"], |balancers, web, _| balancers.delete(web), [true, false]),
    ];
    for (call, restarts, modes, run, expected) in calls {
        for mode in modes {
            let cloud = Cloud::new(&json!({ "hostnameSuffix": "lb.example.com", "mode": "nodes" }));
            let mut web = annotated(service("web"), LB_MODE, "pool");
            let key = format!("address/{}", cloud.ips(&mut web)[0]);
            if restarts {
                cloud.restart();
            }
            web.annotations.clear();
            let before = cloud.remembers().contains_key(&key);
            let done = run(cloud.balancers(), &annotated(web, LB_MODE, mode), &[backend("a", &["10.0.0.9"])]);
            assert_eq!(done.outcome.failure, None, "{call} {mode}");
            assert_eq!([before, cloud.remembers().contains_key(&key)], expected, "{call} {mode}");
        }
    }
    assert_eq!(locks(), [POOL_LOCK]);
}

/// What ensure would refuse, the validation says, all at once, and ensure says the first of it.
#[test]
fn what_is_wrong_with_a_service_is_said_with_its_field() {
    let on = |name: &str| format!("metadata.annotations[{name}]");
    let cases = [
        (LB_MODE, "magic", "must be one of `pool`, `nodes`, `hostname`, not \"magic\""),
        (LB_MODE, "", "must be one of `pool`, `nodes`, `hostname`, not \"\""),
        (LB_DELAY, "5", "\"5\" is not a duration; write it like `90s`, `1m30s` or `500ms`"),
        (LB_ADDRESS, "ten", "must be an IP address, not \"ten\""),
        (LB_ADDRESS, "198.51.100.7", "address 198.51.100.7 is outside the pool"),
        (LB_ADDRESS, "203.0.113.255", "address 203.0.113.255 is outside the pool"),
        (LB_ADDRESS, "2001:db8:c10d::7", "address 2001:db8:c10d::7 has a family that spec.ipFamilies lacks"),
        (LB_MODE, "hostname", "`hostname` needs loadBalancer.hostnameSuffix in the cloud-config"),
        (LB_MODE, "nodes", NODES_REFUSED),
    ];
    for (name, value, message) in cases {
        let cloud = Cloud::new(&json!({}));
        let mut web = annotated(service("web"), name, value);
        assert_eq!(cloud.balancers().validate(&web, false), [Problem::fatal(on(name), message)], "{name}={value}");
        assert_eq!(failure(&cloud.ensure(&mut web)), (Reaction::Invalid, message, Some(on(name).as_str())));
        assert_eq!(cloud.remembers(), BTreeMap::new());
    }
    let cloud = Cloud::new(&json!({}));
    assert_eq!(cloud.balancers().validate(&service("web"), true), []);
    let wrong = Service {
        ports: vec![],
        requested_ip: Some("x".to_owned()),
        ..annotated(annotated(service("web"), LB_MODE, "magic"), LB_DELAY, "5")
    };
    let fields: Vec<_> = cloud.balancers().validate(&wrong, false).into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["spec.ports", &on(LB_MODE), &on(LB_DELAY), "spec.loadBalancerIP"]);
    let idle = annotated(annotated(service("web"), LB_MODE, "nodes"), LB_ADDRESS, "203.0.113.7");
    let harmless = Problem::harmless(ANNOTATED_ADDRESS, "has no effect in mode `nodes`");
    let cloud = Cloud::new(&json!({ "mode": "nodes" }));
    assert_eq!(cloud.balancers().validate(&idle, false), [harmless]);
}

#[test]
fn a_cache_of_another_schema_or_with_nonsense_reads_as_if_it_were_empty() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    let ips = cloud.ips(&mut web);
    for value in ["2\nx\ny", "1", "1\n\n\nx\n", "\u{fffd}", "", "1\na\nb\nc\nd\ne"] {
        for bytes in cloud.cache.0.borrow_mut().values_mut() {
            bytes.0 = value.as_bytes().to_vec();
        }
        assert_eq!(cloud.ips(&mut web), ips, "{value:?}");
    }
    assert_eq!(name(&web), "default-web");
    assert_eq!(web.ingress, [Ingress::ip(&ips[0])]);
}
