//! After a restart, when only the Services know their addresses.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use ccm_sdk::load_balancer_survey::{Standing, Wish};

use super::super::MOVED;
use super::*;

fn wishes(services: &[Service]) -> Vec<Wish> {
    services.iter().map(|service| Wish { service: service.clone(), backends: vec![0, 1] }).collect()
}

fn survey(cloud: &Cloud, services: &[Service]) -> Vec<Standing> {
    cloud.balancers().survey(&backends(&["a", "b"]), &wishes(services))
}

pub(super) fn standing(cloud: &Cloud, service: &Service) -> Standing {
    survey(cloud, std::slice::from_ref(service)).remove(0)
}

pub(super) fn differs(what: &str) -> Standing {
    Standing::Differs(vec![what.to_owned()])
}

fn three(cloud: &Cloud) -> [Service; 3] {
    ["one", "two", "three"].map(|name| {
        let mut service = service(name);
        cloud.ips(&mut service);
        service
    })
}

#[test]
fn c_31_addresses_survive_a_restart_and_a_newcomer_takes_none_of_them() {
    // Room for four: whoever comes new would meet the others.
    let cloud = Cloud::new(&json!({ "pool4": "203.0.113.0/29" }));
    let services = three(&cloud);
    let given: Vec<_> = services.iter().flat_map(ips).collect();

    cloud.restart();
    let in_step: Vec<_> = services.iter().map(|service| Standing::InStep(service.ingress.clone())).collect();
    assert_eq!(survey(&cloud, &services), in_step);
    let mut fourth = service("four");
    assert!(!given.contains(&cloud.ips(&mut fourth)[0]));
    for mut service in services {
        let done = cloud.ensure(&mut service);
        assert_eq!((done.outcome.decision(), done.outcome.ingress), ("unchanged", service.ingress));
    }
}

#[test]
fn c_31_without_a_survey_nobody_shares_an_address_for_long() {
    let cloud = Cloud::new(&json!({ "pool4": "203.0.113.0/29" }));
    let mut services = three(&cloud).to_vec();
    cloud.restart();
    let mut fourth = annotated(service("four"), LB_ADDRESS, &ips(&services[1])[0]);
    cloud.ips(&mut fourth);
    let mut warnings = vec![];
    for service in &mut services {
        warnings.extend(cloud.ensure(service).warnings);
    }
    services.push(fourth.clone());
    let given: BTreeSet<_> = services.iter().flat_map(ips).collect();
    assert_eq!(given.len(), 4);
    let moved = format!(
        "address {} is in use by default/four; default/two gets {} instead",
        ips(&fourth)[0],
        ips(&services[1])[0]
    );
    assert_eq!(warnings, [(MOVED, moved)]);
}

#[test]
fn c_32_of_two_services_with_the_same_address_exactly_one_moves() {
    for surveyed in [true, false] {
        let cloud = Cloud::new(&json!({}));
        let place = vec![Ingress::ip("203.0.113.7")];
        let mut services = ["one", "two"].map(|name| Service { ingress: place.clone(), ..service(name) });
        if surveyed {
            let said = "address 203.0.113.7 is in use by default/one";
            assert_eq!(survey(&cloud, &services), [Standing::InStep(place.clone()), differs(said)]);
        }
        let warnings: usize = services.iter_mut().map(|service| cloud.ensure(service).warnings.len()).sum();
        assert_eq!((warnings, ips(&services[0])), (1, vec!["203.0.113.7".to_owned()]), "surveyed: {surveyed}");
        assert_ne!(ips(&services[1]), ["203.0.113.7"]);
        let quiet: usize = services.iter_mut().map(|service| cloud.ensure(service).warnings.len()).sum();
        assert_eq!(quiet, 0);
    }
}

#[test]
fn whoever_is_known_keeps_its_address_whatever_the_order_of_the_survey() {
    let cloud = Cloud::new(&json!({}));
    let mut one = annotated(service("one"), LB_ADDRESS, "203.0.113.7");
    cloud.ips(&mut one);
    let two = Service { ingress: one.ingress.clone(), ..service("two") };
    let said = differs("address 203.0.113.7 is in use by default/one");
    assert_eq!(survey(&cloud, &[two, one.clone()]), [said, Standing::InStep(one.ingress)]);
}

#[test]
fn what_differs_is_told_and_changes_nothing() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    cloud.ips(&mut web);
    let own = ips(&web)[0].clone();
    let remembered = cloud.remembers();
    let at = |addresses: &[&str]| Service { ingress: addresses.iter().map(Ingress::ip).collect(), ..web.clone() };
    let both = vec![IpFamily::Ipv4, IpFamily::Ipv6];
    let cases = [
        (service("new"), Standing::Missing),
        (at(&["10.0.0.1"]), Standing::Missing),
        (annotated(service("late"), LB_READY_AT, "1"), Standing::Missing),
        (web.clone(), Standing::InStep(web.ingress.clone())),
        (annotated(web.clone(), LB_ADDRESS, &own), Standing::InStep(web.ingress.clone())),
        (annotated(web.clone(), LB_FAIL, "x"), Standing::InStep(web.ingress.clone())),
        (
            annotated(web.clone(), LB_ADDRESS, "203.0.113.200"),
            differs(&format!("the address should be 203.0.113.200, not {own}")),
        ),
        (
            annotated(web.clone(), LB_MODE, "nodes"),
            Standing::Unknown(Failure::invalid(NODES_REFUSED).annotation(LB_MODE)),
        ),
        (Service { ip_families: both, ..web.clone() }, differs("an address of one IP family is missing")),
        (at(&[&own, "10.0.0.1"]), differs("the address 10.0.0.1 is one too many")),
        (at(&[&own, "fd00::1"]), differs("the address fd00::1 is of an IP family that is not asked for")),
        (
            annotated(web.clone(), LB_DELAY, "5"),
            Standing::Unknown(
                Failure::invalid("\"5\" is not a duration; write it like `90s`, `1m30s` or `500ms`")
                    .annotation(LB_DELAY),
            ),
        ),
    ];
    for (service, expected) in cases {
        assert_eq!(standing(&cloud, &service), expected, "{service:?}");
        assert_eq!(cloud.remembers(), remembered, "{service:?}");
    }
    let named = Cloud::new(&json!({ "hostnameSuffix": "lb.example.com" }));
    assert_eq!(standing(&named, &web), differs("the host name should be default-web.lb.example.com"));
}

#[test]
fn members_are_compared_where_they_are_known_and_learnt_where_they_are_not() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    cloud.ensure_with(&mut web, &["a"]);
    assert_eq!(standing(&cloud, &web), differs("the members are others"));
    cloud.restart();
    assert_eq!(standing(&cloud, &web), Standing::InStep(web.ingress.clone()));
    let done = cloud.ensure_with(&mut web, &["a", "b", "c"]);
    assert_eq!(done.outcome.changes, ["members added: c"]);
}

#[test]
fn in_mode_nodes_a_survey_compares_the_addresses_of_the_nodes() {
    let cloud = Cloud::new(&json!({ "mode": "nodes" }));
    let nodes = [backend("a", &["10.0.0.1"]), backend("b", &["10.0.0.2"])];
    let ingress: Vec<_> = ["10.0.0.1", "10.0.0.2"].iter().map(Ingress::ip).collect();
    let web = Service { ingress: ingress.clone(), ..service("web") };
    assert_eq!(cloud.balancers().survey(&nodes, &wishes(std::slice::from_ref(&web))), [Standing::InStep(ingress)]);
    let one = Service { ingress: vec![Ingress::ip("10.0.0.1")], ..web };
    let said = differs("the addresses are not those of the Nodes");
    assert_eq!(cloud.balancers().survey(&nodes, &wishes(&[one])), [said]);
}

/// The host's cache, and what somebody else does before the so-many-th look or write.
struct Meanwhile<'a> {
    cache: &'a Cache,
    left: Cell<u32>,
    work: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Meanwhile<'_> {
    fn turn(&self) {
        match self.left.get() {
            0 => self.work.take().into_iter().for_each(|work| work()),
            left => self.left.set(left - 1),
        }
    }
}

impl Store for Meanwhile<'_> {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.turn();
        self.cache.get(key)
    }

    fn put(&self, key: &str, value: &[u8], ttl: Duration) {
        self.turn();
        self.cache.put(key, value, ttl);
    }

    fn forget(&self, key: &str) {
        self.turn();
        self.cache.forget(key);
    }
}

/// Addresses that somebody has.
fn held(cloud: &Cloud) -> Vec<String> {
    let remembered = cloud.remembers();
    remembered.keys().filter_map(|key| key.strip_prefix("address/")).map(str::to_owned).collect()
}

/// The survey took the address of a load balancer that had been deleted, or had got another one, and nobody could have it any more.
#[test]
fn a_survey_with_an_older_state_of_a_service_takes_no_address_that_was_given_back() {
    type Change = fn(&Cloud, Service);
    let delete: Change = |cloud, mut web| drop(cloud.delete(&mut web));
    let change: Change = |cloud, web| {
        let done = cloud.ensure(&mut annotated(web, LB_ADDRESS, "203.0.113.200"));
        assert_eq!(done.outcome.failure, None);
    };
    let replace: Change = |cloud, web| {
        drop(cloud.ensure(&mut Service {
            uid: "another".to_owned(),
            ingress: vec![],
            ..annotated(web, LB_ADDRESS, "203.0.113.200")
        }))
    };
    for (change, left, forgets) in [
        (delete, vec![], false),
        (delete, vec![], true),
        (change, vec!["203.0.113.200"], false),
        (change, vec!["203.0.113.200"], true),
        (replace, vec!["203.0.113.200"], false),
    ] {
        for before in 0.. {
            let cloud = Cloud::new(&json!({}));
            let mut web = service("web");
            cloud.ips(&mut web);
            if forgets {
                cloud.restart();
            }
            let work: Box<dyn FnOnce()> = Box::new(|| change(&cloud, web.clone()));
            let store = Meanwhile { cache: &cloud.cache, left: Cell::new(before), work: RefCell::new(Some(work)) };
            let balancers = Balancers { state: State(&store), ..cloud.balancers() };
            drop(balancers.survey(&backends(&["a", "b"]), &wishes(std::slice::from_ref(&web))));
            let was_after = store.work.take().map(|work| work()).is_some();
            // And one that begins only now.
            drop(survey(&cloud, std::slice::from_ref(&web)));
            assert_eq!(held(&cloud), left, "before look {before}, forgets: {forgets}");
            if was_after {
                assert!(before > 2, "{before}");
                break;
            }
        }
    }
}
