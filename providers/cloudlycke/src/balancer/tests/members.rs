//! Nodes behind load balancers.

use super::*;

#[test]
fn c_25_other_nodes_are_other_members_and_never_other_addresses() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    let first = cloud.ensure_with(&mut web, &["b", "a", "b"]);
    assert_eq!(
        (cloud.members(&web), first.outcome.changes.last().map(String::as_str)),
        (2, Some("members added: a, b"))
    );
    let ingress = web.ingress.clone();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["a"], &["members removed: b"]),
        (&["c", "d"], &["members added: c, d", "members removed: a"]),
        (&["d", "c"], &[]),
        (&[], &["members removed: c, d"]),
        (&["a"], &["members added: a"]),
    ];
    for (nodes, changes) in cases {
        let done = cloud.balancers().update(&web, &backends(nodes));
        assert_eq!(
            (done.outcome.failure, done.outcome.changes),
            (None, changes.iter().map(|&c| c.to_owned()).collect())
        );
        assert_eq!((done.outcome.ingress, cloud.members(&web)), (ingress.clone(), nodes.len()));
    }
}

#[test]
fn c_25_to_update_what_does_not_exist_is_an_error() {
    let cloud = Cloud::new(&json!({ "provisionDelay": "5s" }));
    let mut web = service("web");
    let done = cloud.balancers().update(&web, &[]);
    let text = "there is no load balancer of default/web; it must be made first";
    assert_eq!(failure(&done), (Reaction::Conflict, text, None));
    cloud.ensure(&mut web);
    let done = cloud.balancers().update(&web, &[]);
    assert_eq!(failure(&done), (Reaction::Pending, "provisioning, ready in 5 s", None));
}

#[test]
fn after_a_restart_an_update_finds_the_addresses_in_the_status() {
    let cloud = Cloud::new(&json!({}));
    let mut web = service("web");
    cloud.ensure(&mut web);
    cloud.restart();
    let done = cloud.balancers().update(&web, &backends(&["c"]));
    assert_eq!((done.outcome.failure, done.outcome.ingress, cloud.members(&web)), (None, web.ingress.clone(), 1));
    let done = cloud.balancers().update(&web, &backends(&["c", "d"]));
    assert_eq!(done.outcome.changes, ["members added: d"], "and remembers the members from then on");
}

#[test]
fn c_28_in_mode_nodes_the_addresses_are_the_nodes_own_sorted_and_each_once() {
    let nodes = [
        backend("a", &["10.0.0.10", "fd00::1"]),
        backend("b", &["10.0.0.9"]),
        backend("c", &[]),
        backend("d", &["10.0.0.9", "not an address"]),
        Backend {
            addresses: vec![Address { kind: AddressType::ExternalIp, value: "192.0.2.1".to_owned() }],
            ..backend("e", &[])
        },
    ];
    for web in [service("web"), annotated(service("web"), LB_MODE, "nodes")] {
        let cloud = Cloud::new(&json!({ "mode": "nodes" }));
        let ensured = cloud.balancers().ensure(&web, &nodes).outcome;
        assert_eq!((ensured.failure, ensured.ingress), (None, ["10.0.0.9", "10.0.0.10"].map(Ingress::ip).to_vec()));
        let updated = cloud.balancers().update(&web, &nodes[..1]).outcome;
        assert_eq!(updated.ingress, [Ingress::ip("10.0.0.10")], "they come and go with the Nodes");
        let v6 = Service { ip_families: vec![IpFamily::Ipv6], ..web };
        assert_eq!(cloud.balancers().ensure(&v6, &nodes).outcome.ingress, [Ingress::ip("fd00::1")]);
        assert!(cloud.remembers().keys().all(|key| !key.starts_with("address/")), "nothing of the pool");
    }
}

#[test]
fn a_service_that_leaves_the_pool_gives_its_address_back_also_after_a_restart() {
    for restarts in [false, true] {
        let cloud = Cloud::new(&json!({ "mode": "nodes" }));
        let mut web = annotated(annotated(service("web"), LB_ADDRESS, "203.0.113.7"), LB_MODE, "pool");
        cloud.ips(&mut web);
        if restarts {
            cloud.restart();
        }
        web.annotations.retain(|(name, _)| name != LB_MODE);
        let standing = surveys::standing(&cloud, &web);
        assert_eq!(standing, surveys::differs("the mode is `nodes` now"));
        let done = cloud.balancers().ensure(&web, &[backend("a", &["10.0.0.1"])]);
        assert_eq!(done.outcome.ingress, [Ingress::ip("10.0.0.1")]);
        let mut other = annotated(annotated(service("other"), LB_ADDRESS, "203.0.113.7"), LB_MODE, "pool");
        assert_eq!(cloud.ips(&mut other), ["203.0.113.7"]);
    }
}
