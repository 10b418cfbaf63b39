//! Many at once.

use std::collections::BTreeSet;

use ccm_sdk::load_balancer_survey::{Standing, Wish};

use super::groups::{good_rule, group, managed, port_of};
use super::*;

const GROUPS: &str = "network GET /security-groups";

fn lists(balancers: &[Value], listeners: &[Value], pools: &[Value]) -> FakeCloud {
    lists_with(&[floating()], balancers, listeners, pools)
}

fn lists_with(floating: &[Value], balancers: &[Value], listeners: &[Value], pools: &[Value]) -> FakeCloud {
    FakeCloud::new()
        .with_credential("session-token")
        .always(LIST, many("loadbalancers", balancers))
        .always(LISTENERS, many("listeners", listeners))
        .always(POOLS, many("pools", pools))
        .always(FLOATING, many("floatingips", floating))
        .always(GROUPS, many("security_groups", &[]))
}

fn stand(services: &[Service]) -> Vec<Standing> {
    stand_with(&usual(), services)
}

fn stand_with(config: &Config, services: &[Service]) -> Vec<Standing> {
    let wishes: Vec<Wish> =
        services.iter().map(|service| Wish { service: service.clone(), backends: vec![0, 1] }).collect();
    survey(config, &host(), &nodes(), &wishes).expect("surveyed").into_iter().map(|(standing, _)| standing).collect()
}

#[test]
fn fifty_that_are_in_step_cost_five_lists_and_a_tree_and_an_hour_later_a_tree_each() {
    let number = |number: usize| {
        let (id, name) = (format!("lb-{number}"), format!("kube_service_kubernetes_default_s{number}"));
        let tags = json!([name, format!("kubernetes.io/service-uid/uid-s{number}")]);
        let port = format!("port-{number}");
        let of = json!([{ "id": id }]);
        (
            with(balancer(), json!({ "id": id, "name": name, "tags": tags, "vip_port_id": port })),
            with(
                listener(),
                json!({ "id": format!("l-{number}"), "tags": tags, "default_pool_id": format!("p-{number}"), "loadbalancers": of }),
            ),
            with(
                pool(),
                json!({ "id": format!("p-{number}"), "name": format!("pool_0_{name}"), "listeners": [{ "id": format!("l-{number}") }], "loadbalancers": of }),
            ),
        )
    };
    let all: Vec<_> = (0..50).map(number).collect();
    let balancers: Vec<Value> = all.iter().map(|(balancer, _, _)| balancer.clone()).collect();
    let listeners: Vec<Value> = all.iter().map(|(_, listener, _)| listener.clone()).collect();
    let pools: Vec<Value> = all.iter().map(|(_, _, pool)| pool.clone()).collect();
    let services: Vec<Service> = (0..50)
        .map(|number| Service {
            annotations: vec![(names::ID.to_owned(), format!("lb-{number}"))],
            ports: vec![port(80, 30_000)],
            ..Service::named(format!("s{number}"))
        })
        .collect();
    let on =
        |number: usize| with(floating(), json!({ "id": format!("f-{number}"), "port_id": format!("port-{number}") }));
    let floating: Vec<Value> = (0..50).map(on).collect();
    let cloud = lists_with(&floating, &balancers, &listeners, &pools);
    let standings = stand(&services);
    let good = standings.iter().filter(|standing| matches!(standing, Standing::InStep(_))).count();
    assert_eq!(good, 50, "{standings:?}");
    let first = cloud.lines();
    assert_eq!(first.len(), 6, "five lists and a tree: {first:?}");
    // A start surveys twice, and an answer to the first is one to the second.
    stand(&services);
    let second = cloud.lines().split_off(first.len());
    assert!(!second.iter().any(|line| line.ends_with("/status")), "{second:?}");
    let mut asked = cloud.requests();
    let again = asked.split_off(first.len());
    assert!(again.iter().all(|request| request.share_ms == 15_000 && asked.contains(request)), "{again:?}");
    let first = cloud.lines();
    cloud.pass(3_601);
    stand(&services);
    let later = cloud.lines().split_off(first.len());
    let trees: BTreeSet<&String> = later.iter().filter(|line| line.ends_with("/status")).collect();
    assert_eq!(trees.len(), 50, "whose members are compared: {later:?}");
}

/// A group that somebody deleted, or rules of it, cost the Service its clients until its Nodes changed.
#[test]
fn a_security_group_that_is_not_as_it_should_be_is_a_difference() {
    let good = group(&json!([good_rule()]));
    let twin = with(good.clone(), json!({ "id": "sg-2" }));
    let egress = json!({ "id": "e4", "direction": "egress", "ethertype": "IPv4" });
    let ports = |second: &[&str]| vec![port_of(1, &["mine", "sg-1"]), port_of(2, second)];
    let whole = ports(&["sg-1"]);
    let subnet = json!({ "id": "subnet-1", "network_id": "n", "cidr": "10.1.0.0/24", "ip_version": 4 });
    for (case, config, groups, ports, expected) in [
        ("whole", managed(), vec![good.clone()], whole.clone(), None),
        ("no group", managed(), vec![], whole.clone(), Some("is missing")),
        ("no rule", managed(), vec![group(&json!([]))], whole.clone(), Some("lacks 1 rules, and has 0 others")),
        (
            "another rule",
            managed(),
            vec![group(&json!([good_rule(), egress]))],
            whole.clone(),
            Some("lacks 0 rules, and has 1 others"),
        ),
        ("two groups", managed(), vec![good.clone(), twin], whole.clone(), Some("several security groups")),
        ("a port without", managed(), vec![good.clone()], ports(&["mine"]), Some("1 ports of Nodes lack")),
        ("not managed", usual(), vec![], vec![], None),
        ("not managed any more", usual(), vec![good], vec![], Some("manage-security-groups is off")),
    ] {
        let cloud = lists(&[balancer()], &[listener()], &[pool()])
            .always(TREE, tree(&[listener()], &[member(1), member(2)]))
            .on(GROUPS, many("security_groups", &groups))
            .always("network GET /subnets/subnet-1", one("subnet", &subnet))
            .always("network GET /ports", many("ports", &ports));
        let standing = stand_with(&config, &[settled(&[])]).remove(0);
        let found = match &standing {
            Standing::Differs(differences) => Some(differences.join("; ")),
            Standing::InStep(_) => None,
            other => panic!("{case}: {other:?}"),
        };
        assert_eq!(found.is_some(), expected.is_some(), "{case}: {found:?}");
        assert!(
            found.is_none_or(|found| expected.is_some_and(|expected| found.contains(expected))),
            "{case}: {standing:?}"
        );
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn what_differs_is_said_and_what_is_not_there_is_missing() {
    let wide = with(listener(), json!({ "allowed_cidrs": ["10.0.0.0/8"] }));
    let empty = with(pool(), json!({ "members": [], "listeners": [] }));
    for (balancers, listeners, pools, expected) in [
        (vec![], vec![], vec![], "missing"),
        (vec![balancer()], vec![wide], vec![pool()], "allowed_cidrs"),
        (
            vec![with(balancer(), json!({ "provisioning_status": "ERROR" }))],
            vec![listener()],
            vec![pool()],
            "provisioning_status is ERROR",
        ),
        (vec![balancer()], vec![], vec![empty], "made listener 80"),
    ] {
        let cloud = lists(&balancers, &listeners, &pools).always(TREE, tree(&listeners, &[member(1), member(2)]));
        let found = match stand(&[settled(&[])]).remove(0) {
            Standing::Differs(differences) => differences.join("; "),
            Standing::Missing => "missing".to_owned(),
            other => format!("{other:?}"),
        };
        assert!(found.contains(expected), "{found}");
        assert_eq!(written(&cloud), Vec::<String>::new());
    }
}

/// Members are not in the lists: they are seen in the tree, of each load balancer about once an hour.
#[test]
fn members_that_somebody_exchanged_are_found_within_an_hour() {
    let cloud =
        lists(&[balancer()], &[listener()], &[pool()]).always(TREE, tree(&[listener()], &[member(1), member(2)]));
    assert!(matches!(stand(&[settled(&[])])[0], Standing::InStep(_)));
    let trees = |cloud: &FakeCloud| cloud.lines().iter().filter(|line| *line == TREE).count();
    stand(&[settled(&[])]);
    assert_eq!(trees(&cloud), 1);
    cloud.pass(3_601);
    let cloud = cloud.on(TREE, tree(&[listener()], &[member(1), member(7)]));
    assert!(matches!(&stand(&[settled(&[])])[0], Standing::Differs(differences) if differences[0].contains("members")));
    assert_eq!(trees(&cloud), 2);
}

/// What it would be ensured for is no more than what a call for it writes.
#[test]
fn tags_that_the_go_manager_does_not_write_are_no_difference_of_their_own() {
    let unmarked = json!({ "tags": [NAME] });
    for (case, limit, expected) in [("as the Go manager left it", -1, false), ("it differs besides", 7, true)] {
        let go = with(listener(), with(unmarked.clone(), json!({ "connection_limit": limit })));
        let _cloud = lists(&[with(balancer(), unmarked.clone())], std::slice::from_ref(&go), &[pool()])
            .always(TREE, tree(&[go], &[member(1), member(2)]));
        let standing = stand(&[settled(&[])]).remove(0);
        assert_eq!(matches!(standing, Standing::Differs(_)), expected, "{case}: {standing:?}");
    }
}

#[test]
fn a_list_that_cannot_be_had_is_a_failure_of_the_whole() {
    let _cloud = FakeCloud::new().with_credential("session-token").always(LIST, Reply::status(503));
    let wishes = [Wish { service: settled(&[]), backends: vec![] }];
    assert!(survey(&usual(), &host(), &nodes(), &wishes).is_err());
}

#[test]
fn an_external_one_that_lost_its_floating_ip_differs_and_its_own_address_is_not_published() {
    let without = || {
        lists_with(&[], &[balancer()], &[listener()], &[pool()])
            .always(TREE, tree(&[listener()], &[member(1), member(2)]))
    };
    let said = |standing: &Standing| match standing {
        Standing::Differs(differences) => differences.join("; "),
        Standing::InStep(places) => format!("{:?}", places.iter().map(|place| place.ip.clone()).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    };
    for (annotations, expected) in [
        (vec![], "it has no floating IP"),
        (vec![(names::HOSTNAME, "web.example.com")], "it has no floating IP"),
        (vec![(names::INTERNAL, "true")], r#"[Some("10.1.0.100")]"#),
    ] {
        let _cloud = without();
        assert_eq!(said(&stand(&[settled(&annotations)])[0]), expected, "{annotations:?}");
    }
    // Where there is no external network, that is asked once, and nothing else can be published.
    let mut nowhere = usual();
    nowhere.balancers.place.floating_network.clear();
    let cloud = without().always("network GET /networks", many("networks", &[]));
    let standings = stand_with(&nowhere, &[settled(&[]), settled(&[])]);
    assert_eq!(standings.iter().map(said).collect::<Vec<_>>(), [r#"[Some("10.1.0.100")]"#; 2]);
    assert_eq!(cloud.lines().iter().filter(|line| line.contains("/networks")).count(), 1);
    // Nor is it found by the question for one.
    let _cloud = whole().on(FLOATING, many("floatingips", &[]));
    assert_eq!(get(&usual(), &host(), &settled(&[])), Ok(Some(vec![])));
}
