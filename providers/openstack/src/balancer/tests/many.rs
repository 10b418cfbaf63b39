//! Many at once, one of which is not as it should be.

use std::collections::BTreeSet;

use ccm_sdk::load_balancer_survey::{Standing, Wish};

use super::*;

const GROUPS: &str = "network GET /security-groups";
const MONITORS: &str = "load-balancer GET /lbaas/healthmonitors";

fn id(number: usize) -> String {
    format!("lb-{number:02}")
}

fn tree_line(number: usize) -> String {
    format!("load-balancer GET /lbaas/loadbalancers/{}/status", id(number))
}

fn service_of(number: usize) -> Service {
    Service {
        annotations: vec![(names::ID.to_owned(), id(number))],
        ports: vec![port(80, 30_000)],
        ..Service::named(format!("s{number}"))
    }
}

/// So many load balancers with a listener, a pool and a floating IP each.
struct Many {
    balancers: Vec<Value>,
    listeners: Vec<Value>,
    pools: Vec<Value>,
    floating: Vec<Value>,
}

impl Many {
    fn of(count: usize) -> Self {
        let (mut balancers, mut listeners, mut pools, mut floatings) = (vec![], vec![], vec![], vec![]);
        for number in 0..count {
            let name = format!("kube_service_kubernetes_default_s{number}");
            let tags = json!([name, format!("kubernetes.io/service-uid/uid-s{number}")]);
            let (port, of) = (format!("port-{number}"), json!([{ "id": id(number) }]));
            let (listener_id, pool_id) = (format!("l-{number}"), format!("p-{number}"));
            balancers
                .push(with(balancer(), json!({ "id": id(number), "name": name, "tags": tags, "vip_port_id": port })));
            listeners.push(with(
                listener(),
                json!({ "id": listener_id, "tags": tags, "default_pool_id": pool_id, "loadbalancers": of }),
            ));
            pools.push(with(
                pool(),
                json!({ "id": pool_id, "name": format!("pool_0_{name}"), "listeners": [{ "id": listener_id }], "loadbalancers": of }),
            ));
            floatings.push(with(floating(), json!({ "id": format!("f-{number}"), "port_id": port })));
        }
        Self { balancers, listeners, pools, floating: floatings }
    }

    /// Each with the tree that `members` has for it.
    fn cloud(&self, members: impl Fn(usize) -> Vec<Value>) -> FakeCloud {
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(LIST, many("loadbalancers", &self.balancers))
            .always(LISTENERS, many("listeners", &self.listeners))
            .always(POOLS, many("pools", &self.pools))
            .always(FLOATING, many("floatingips", &self.floating))
            .always(GROUPS, many("security_groups", &[]));
        let all = self.listeners.iter().enumerate();
        all.fold(cloud, |cloud, (number, listener)| {
            cloud.always(&tree_line(number), tree(std::slice::from_ref(listener), &members(number)))
        })
    }
}

/// What differs, by the number of the Service.
fn differing(services: &[Service]) -> Vec<(usize, String)> {
    let wishes: Vec<Wish> =
        services.iter().map(|service| Wish { service: service.clone(), backends: vec![0, 1] }).collect();
    let surveyed = survey(&usual(), &host(), &nodes(), &wishes).expect("surveyed");
    let told = surveyed.into_iter().enumerate().filter_map(|(number, (standing, _))| match standing {
        Standing::InStep(_) => None,
        Standing::Differs(differences) => Some((number, differences.join("; "))),
        other => panic!("{number}: {other:?}"),
    });
    told.collect()
}

/// The first survey reads one tree and counts the members of the others; within the hour all trees are read. One that is in step is not read
/// again until then, and one that is not is told each time.
#[test]
fn among_fifty_the_one_with_an_exchanged_member_is_found_by_its_tree_and_no_other() {
    let all = Many::of(50);
    let odd = 41;
    let cloud = all.cloud(|number| if number == odd { vec![member(1), member(7)] } else { vec![member(1), member(2)] });
    let services: Vec<Service> = (0..50).map(service_of).collect();
    let trees = |cloud: &FakeCloud, from: usize| {
        let lines = cloud.lines().split_off(from);
        lines.into_iter().filter(|line| line.ends_with("/status")).collect::<Vec<_>>()
    };
    assert_eq!(differing(&services), [], "as many members as wished, at the start");
    assert_eq!(trees(&cloud, 0), [tree_line(0)]);
    let begin = cloud.lines().len();
    cloud.pass(3_601);
    let told = vec![(odd, "changed members of port 80: 2".to_owned())];
    assert_eq!(differing(&services), told);
    let read = trees(&cloud, begin);
    assert_eq!((read.len(), read.iter().collect::<BTreeSet<_>>().len()), (50, 50), "{read:?}");
    let begin = cloud.lines().len();
    cloud.pass(1_000);
    assert_eq!(differing(&services), told);
    assert_eq!(trees(&cloud, begin), [tree_line(odd)], "what is in step is believed for half an hour");
    assert_eq!(written(&cloud), Vec::<String>::new());
}

/// A Node that joined while nobody ran would otherwise be missing beyond the first one, for an hour.
#[test]
fn one_that_has_another_number_of_members_differs_also_where_its_tree_is_not_read() {
    for (case, last, expected) in [
        ("as many", json!([{ "id": "m-1" }, { "id": "m-2" }]), vec![]),
        ("a Node has joined", json!([{ "id": "m-1" }]), vec![(4, "changed members of port 80: 2".to_owned())]),
        ("none", json!([]), vec![(4, "changed members of port 80: 2".to_owned())]),
        (
            "a Node has left",
            json!([{ "id": "m-1" }, { "id": "m-2" }, { "id": "m-3" }]),
            vec![(4, "changed members of port 80: 2".to_owned())],
        ),
    ] {
        let mut all = Many::of(5);
        all.pools[4]["members"] = last;
        let cloud = all.cloud(|_| vec![member(1), member(2)]);
        assert_eq!(differing(&(0..5).map(service_of).collect::<Vec<_>>()), expected, "{case}");
        assert!(!cloud.lines().contains(&tree_line(4)), "{case}");
    }
}

/// Each Service has members of its own: those that its wish names.
#[test]
fn members_are_those_of_the_wish_and_a_wish_for_nobody_that_is_known_is_no_answer() {
    let standing = |members: &[Value], backends: Vec<u32>| {
        let all = Many::of(1);
        let _cloud = all.cloud(|_| members.to_vec());
        let wishes = [Wish { service: service_of(0), backends }];
        survey(&usual(), &host(), &nodes(), &wishes).expect("surveyed").remove(0).0
    };
    let is_in_step = |standing: &Standing| matches!(standing, Standing::InStep(_));
    assert!(is_in_step(&standing(&[member(1), member(2)], vec![0, 1])));
    assert!(is_in_step(&standing(&[member(2)], vec![1])));
    for (case, members, backends) in [
        ("one too many", vec![member(1), member(2)], vec![1]),
        ("another", vec![member(1)], vec![1]),
        ("one too few", vec![member(1)], vec![0, 1]),
    ] {
        let standing = standing(&members, backends);
        assert!(
            matches!(&standing, Standing::Differs(all) if all[0].starts_with("changed members")),
            "{case}: {standing:?}"
        );
    }
    let unknown = standing(&[member(1), member(2)], vec![0, 7]);
    assert!(matches!(&unknown, Standing::Unknown(failure) if failure.reaction == Reaction::Retry), "{unknown:?}");
}

#[test]
fn what_is_beside_the_load_balancer_itself_is_compared_too() {
    let monitor = |delay: u32| {
        json!({ "id": "hm-1", "name": "monitor_0_kube_service_kubernetes_default_s0", "type": "TCP", "delay": delay, "timeout": 3,
                "max_retries": 1, "max_retries_down": 3 })
    };
    let on = (names::MONITOR, "true");
    let of = |annotations: &[(&str, &str)]| {
        let mut service = service_of(0);
        service.annotations.extend(annotations.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        service
    };
    let bare = || Service { annotations: vec![], ..service_of(0) };
    let lost = Service { annotations: vec![(names::ID.to_owned(), "lb-77".to_owned())], ..service_of(0) };
    for (case, service, monitor, expected) in [
        ("in step", of(&[]), None, vec![]),
        ("no ID on the Service", bare(), None, vec![(0, format!("annotation {} does not have its ID", names::ID))]),
        ("another ID on the Service", lost, None, vec![(0, format!("annotation {} does not have its ID", names::ID))]),
        ("a monitor", of(&[on]), Some(monitor(5)), vec![]),
        ("a monitor that differs", of(&[on]), Some(monitor(9)), vec![(0, "changed monitor of port 80".to_owned())]),
        ("no monitor", of(&[on]), None, vec![(0, "made monitor of port 80".to_owned())]),
        ("one that nobody asks for", of(&[]), Some(monitor(5)), vec![(0, "deleted monitor of port 80".to_owned())]),
    ] {
        let mut all = Many::of(1);
        all.pools[0]["healthmonitor_id"] = monitor.as_ref().map_or(Value::Null, |monitor| monitor["id"].clone());
        let monitors: Vec<Value> = monitor.into_iter().collect();
        let cloud = all.cloud(|_| vec![member(1), member(2)]).always(MONITORS, many("healthmonitors", &monitors));
        let is_watched = service.annotation(names::MONITOR).is_some();
        assert_eq!(differing(&[service]), expected, "{case}");
        let asked = cloud.lines().iter().filter(|line| line.starts_with(MONITORS)).count();
        assert_eq!(asked, usize::from(is_watched), "{case}: monitors are asked for where they are needed");
    }
    // One that is internal by now, beside one that is not.
    let all = Many::of(2);
    let _cloud = all.cloud(|_| vec![member(1), member(2)]);
    let expected = vec![(0, "it is internal and has a floating IP".to_owned())];
    assert_eq!(differing(&[of(&[(names::INTERNAL, "true")]), service_of(1)]), expected);
}

/// What is on its way out serves nobody for long: the Service needs another one.
#[test]
fn one_that_is_being_deleted_is_missing_and_so_is_one_that_nothing_leads_to() {
    let gone = |changes: Value| {
        let mut all = Many::of(2);
        all.balancers[0] = with(all.balancers[0].clone(), changes);
        let _cloud = all.cloud(|_| vec![member(1), member(2)]);
        let wishes: Vec<Wish> =
            [service_of(0), service_of(1)].map(|service| Wish { service, backends: vec![0, 1] }).to_vec();
        let surveyed = survey(&usual(), &host(), &nodes(), &wishes).expect("surveyed");
        surveyed.into_iter().map(|(standing, _)| matches!(standing, Standing::Missing)).collect::<Vec<_>>()
    };
    assert_eq!(gone(json!({ "provisioning_status": "PENDING_UPDATE" })), [false, false]);
    assert_eq!(gone(json!({ "provisioning_status": "PENDING_DELETE" })), [true, false]);
    assert_eq!(gone(json!({ "id": "lb-99", "tags": [] })), [true, false]);
}
