//! Many at once.

use std::collections::BTreeSet;

use ccm_sdk::load_balancer_survey::{Standing, Wish};

use super::*;

fn lists(balancers: &[Value], listeners: &[Value], pools: &[Value]) -> FakeCloud {
    FakeCloud::new()
        .with_credential("session-token")
        .always(LIST, many("loadbalancers", balancers))
        .always(LISTENERS, many("listeners", listeners))
        .always(POOLS, many("pools", pools))
        .always(FLOATING, many("floatingips", &[floating()]))
}

fn stand(services: &[Service]) -> Vec<Standing> {
    let wishes: Vec<Wish> =
        services.iter().map(|service| Wish { service: service.clone(), backends: vec![0, 1] }).collect();
    survey(&usual(), &host(), &nodes(), &wishes).expect("surveyed").into_iter().map(|(standing, _)| standing).collect()
}

#[test]
fn fifty_that_are_in_step_cost_four_lists_and_a_few_trees_and_an_hour_later_a_tree_each() {
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
    let cloud = lists(&balancers, &listeners, &pools);
    let standings = stand(&services);
    let good = standings.iter().filter(|standing| matches!(standing, Standing::InStep(_))).count();
    assert_eq!(good, 50, "{standings:?}");
    let first = cloud.lines();
    assert!(first.len() <= 10, "{first:?}");
    cloud.pass(3_601);
    stand(&services);
    let later = cloud.lines().split_off(first.len());
    let trees: BTreeSet<&String> = later.iter().filter(|line| line.ends_with("/status")).collect();
    assert_eq!(trees.len(), 50, "whose members are compared: {later:?}");
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

#[test]
fn a_list_that_cannot_be_had_is_a_failure_of_the_whole() {
    let _cloud = FakeCloud::new().with_credential("session-token").always(LIST, Reply::status(503));
    let wishes = [Wish { service: settled(&[]), backends: vec![] }];
    assert!(survey(&usual(), &host(), &nodes(), &wishes).is_err());
}
