//! Who gets which address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::*;

#[test]
fn c_15_an_address_is_of_the_pool_and_never_its_first_or_last() {
    let cloud = Cloud::new(&json!({ "pool4": "203.0.113.0/30" }));
    let mut given = [cloud.ips(&mut service("one")), cloud.ips(&mut service("two"))].concat();
    given.sort();
    assert_eq!(given, ["203.0.113.1", "203.0.113.2"]);
}

#[test]
fn c_19_a_chosen_address_is_given_when_it_is_free_and_refused_with_the_holders_name_when_it_is_not() {
    let cloud = Cloud::new(&json!({}));
    let mut web = annotated(service("web"), LB_ADDRESS, "203.0.113.7");
    // The annotation wins.
    web.requested_ip = Some("203.0.113.8".to_owned());
    assert_eq!(cloud.ips(&mut web), ["203.0.113.7"]);

    let mut api = annotated(service("api"), LB_ADDRESS, "203.0.113.7");
    let in_use = (Reaction::Conflict, "address 203.0.113.7 is in use by default/web", Some(ANNOTATED_ADDRESS));
    assert_eq!(failure(&cloud.ensure(&mut api)), in_use);
    assert_eq!(api.ingress, [], "it gets no other one");
    let problem = Problem::fatal(ANNOTATED_ADDRESS, "address 203.0.113.7 is in use by default/web");
    assert_eq!(cloud.balancers().validate(&api, true), [problem]);
    assert_eq!(cloud.balancers().validate(&api, false), [], "only the cloud can know");

    without(&mut api, LB_ADDRESS);
    let own = cloud.ips(&mut api);
    assert_ne!(own, ["203.0.113.7"]);

    // Another choice: the old one is free again.
    without(&mut web, LB_ADDRESS);
    assert_eq!(cloud.ips(&mut web), ["203.0.113.8"], "spec.loadBalancerIP");
    let done = cloud.ensure(&mut annotated(api, LB_ADDRESS, "203.0.113.7"));
    let changes = [format!("address {} released", own[0]), "address 203.0.113.7 taken".to_owned()];
    assert_eq!((done.outcome.failure, done.outcome.changes), (None, changes.to_vec()));
}

#[test]
fn a_choice_that_is_withdrawn_leaves_the_address_that_it_brought() {
    let cloud = Cloud::new(&json!({}));
    let mut web = annotated(service("web"), LB_ADDRESS, "203.0.113.7");
    cloud.ips(&mut web);
    without(&mut web, LB_ADDRESS);
    assert_eq!(cloud.ips(&mut web), ["203.0.113.7"]);
}

#[test]
fn c_20_an_exhausted_pool_is_a_quota_and_serves_again_what_is_given_back() {
    let cloud = Cloud::new(&json!({ "pool4": "203.0.113.0/30" }));
    let (mut one, mut two, mut three) = (service("one"), service("two"), service("three"));
    let (first, _) = (cloud.ips(&mut one), cloud.ips(&mut two));
    let done = cloud.ensure(&mut three);
    assert_eq!(failure(&done), (Reaction::Quota, "address pool exhausted (2 in use)", None));
    cloud.delete(&mut one);
    assert_eq!(cloud.ips(&mut three), first);
}

#[test]
fn c_21_two_hundred_services_get_two_hundred_addresses_and_the_same_ones_every_time() {
    let allocate = || {
        let cloud = Cloud::new(&json!({}));
        (0..200).flat_map(|number| cloud.ips(&mut service(&format!("s{number}")))).collect::<Vec<_>>()
    };
    let given = allocate();
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 200);
    assert!(given.iter().all(|ip| ip.starts_with("203.0.113.")));
    assert_eq!(allocate(), given);
    // They do not simply follow each other: what is deleted leaves holes that nobody has to know.
    let followers = given.windows(2).filter(|pair| {
        let [first, second] = [&pair[0], &pair[1]].map(|ip| ip.parse::<Ipv4Addr>().expect("an address").to_bits());
        first + 1 == second
    });
    assert!(followers.count() < 20);
}

#[test]
fn c_22_a_service_gets_one_address_per_family_in_its_order() {
    let families = |families: &[IpFamily]| Service { ip_families: families.to_vec(), ..service("web") };
    let (v4, v6) = (IpFamily::Ipv4, IpFamily::Ipv6);
    let cases: [(&[IpFamily], &[&str]); 5] = [
        (&[v4, v6], &["203.0.113.", "2001:db8:c10d::"]),
        (&[v6, v4], &["2001:db8:c10d::", "203.0.113."]),
        (&[v6], &["2001:db8:c10d::"]),
        (&[v4], &["203.0.113."]),
        (&[], &["203.0.113."]),
    ];
    for (asked, starts) in cases {
        let ips = Cloud::new(&json!({})).ips(&mut families(asked));
        assert_eq!(ips.len(), starts.len(), "{ips:?}");
        assert!(ips.iter().zip(starts).all(|(ip, start)| ip.starts_with(start)), "{ips:?}");
    }
    let without_v6 = Cloud::new(&json!({ "pool6": [] }));
    let text = "IPv6 needs loadBalancer.pool6 in the cloud-config";
    let done = without_v6.ensure(&mut families(&[v4, v6]));
    assert_eq!(failure(&done), (Reaction::Invalid, text, Some("spec.ipFamilies")));
    assert_eq!(without_v6.remembers(), BTreeMap::new(), "no half of a pair is taken");
}

#[test]
fn a_family_more_keeps_the_address_of_the_other_and_a_family_less_gives_one_back() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    let single = cloud.ips(&mut web);
    web.ip_families.push(IpFamily::Ipv6);
    let both = cloud.ips(&mut web);
    assert_eq!(both[..1], single);
    web.ip_families = vec![IpFamily::Ipv6];
    assert_eq!(cloud.ips(&mut web), both[1..]);
    assert_eq!(cloud.ips(&mut annotated(service("api"), LB_ADDRESS, &single[0])), single, "it is free");
}

#[test]
fn c_27_a_service_that_comes_again_under_its_name_frees_what_the_old_one_had() {
    let cloud = Cloud::new(&json!({}));
    let old = cloud.ips(&mut annotated(service("web"), LB_ADDRESS, "203.0.113.7"));
    let mut new = Service { uid: "new".to_owned(), ..service("web") };
    let done = cloud.ensure(&mut new);
    assert_eq!(done.outcome.changes[0], "address 203.0.113.7 released, which the former default/web had");
    assert_ne!(ips(&new), old);
    assert_eq!(cloud.ips(&mut annotated(service("api"), LB_ADDRESS, "203.0.113.7")), old);
    cloud.delete(&mut new);
    cloud.delete(&mut service("api"));
    assert_eq!(cloud.remembers(), BTreeMap::new());
}

#[test]
fn c_29_a_host_name_stands_beside_the_first_address_or_alone() {
    let cloud = Cloud::new(&json!({ "hostnameSuffix": "lb.example.com" }));
    let mut web = Service { ip_families: vec![IpFamily::Ipv4, IpFamily::Ipv6], ..service("web") };
    cloud.ensure(&mut web);
    let names: Vec<_> = web.ingress.iter().map(|place| place.hostname.as_deref()).collect();
    assert_eq!(names, [Some("default-web.lb.example.com"), None]);
    let taken = ips(&web);

    web = annotated(web, LB_MODE, "hostname");
    let done = cloud.ensure(&mut web);
    assert_eq!(web.ingress, [Ingress::hostname("default-web.lb.example.com")]);
    let released: Vec<_> = taken.iter().map(|ip| format!("address {ip} released")).collect();
    assert_eq!(done.outcome.changes, released);

    let long = Service { namespace: "n".repeat(63), ..service(&"s".repeat(63)) };
    let mut long = annotated(long, LB_MODE, "hostname");
    cloud.ensure(&mut long);
    let name = long.ingress[0].hostname.clone().expect("a host name");
    assert!(name.split('.').all(|label| (1..=63).contains(&label.len())), "{name}");
}
