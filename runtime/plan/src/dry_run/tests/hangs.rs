//! A provider that never answers, beside one that does.

use ccm_controllers::{PodRanges, RouteSettings};

use super::provider::{Fake, ID, asked_of, asks, cluster, not_ready, served};
use super::*;
use crate::planner::{Target, plan};
use crate::report::{ObjectPlan, Write};

/// As of `--controller-watchdog-periods`.
const PERIODS: u32 = 6;
/// Calls that never end.
const ALL: &[&str] = &["find", "survey", "ensure", "get", "reconcile"];

/// Node and Service `a` are of the provider that hangs, `b` of the other one.
async fn hanging() -> Bench {
    let node = |provider: &str, name: &str| {
        let mut node = not_ready(provider, name);
        node["spec"]["taints"] =
            json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
        node
    };
    let client = cluster(vec![node("red", "a"), node("blue", "b")], vec![served("red", "a"), served("blue", "b")]);
    let mut bench = bench(client, vec![]).await;
    let journal = &bench.parts.journal;
    let red = Arc::new(Fake { hangs: ALL, ..Fake::new("red", journal) });
    let blue = Arc::new(Fake::new("blue", journal));
    asks(&mut bench.parts, &[&red, &blue]);
    bench.parts.settings.node_lifecycle.min_age = Duration::ZERO;
    bench
}

/// The limits of its calls end each of them, so that a look goes on.
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_named_with_its_call_and_hides_nothing_of_another_one() {
    let Bench { parts, _readers, .. } = hanging().await;
    let (pending, pulses) = (parts.pending.clone(), parts.pulses.clone());
    let mut work = std::pin::pin!(dry_run(parts));
    let mut waits = vec![];
    while pending.list().as_of.is_none() {
        assert!(tokio::time::timeout(60 * SECOND, work.as_mut()).await.is_err(), "it never ends");
        assert_eq!(pending.looking().check(&pulses, PERIODS), Ok(()));
        let line = pending.looking().line().unwrap_or_default();
        if let Some((_, call)) = line.split_once(", waiting for ") {
            waits.push(call.split_once(" for ").unwrap().0.to_owned());
        }
        // Those of the other one are shown while a look at Services waits for this one.
        if waits.last().is_some_and(|call| call.starts_with("load-balancer")) {
            assert_eq!(pending.of(Kind::Node, "b").writes.len(), 1);
        }
        assert!(waits.len() < 60, "{waits:?}");
    }
    waits.dedup();
    assert!(waits.iter().all(|call| call.ends_with(" of red")) && waits.len() > 1, "{waits:?}");
    let list = pending.list();
    let wanted = [
        ("Node a", "instances.find"),
        ("Service default/a", "load-balancers.ensure"),
        ("Cluster red", "cluster.reconcile"),
    ];
    assert_eq!(list.unknown.len(), wanted.len(), "{:?}", list.unknown);
    for ((object, why), (name, call)) in list.unknown.iter().zip(wanted) {
        let told = format!("{call} of red: no answer within 300s");
        assert!(object == name && why.contains(&told), "{object}: {why}");
    }
    let written = |name: &str| list.writes.iter().filter(|one| one.is_change && one.object == name).count();
    assert!(["Node b", "Service default/b"].iter().all(|name| written(name) > 0), "{list:?}");
}

/// A Service that changes all the time is worked on eight times, and each time for as long as a call may take.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_service_that_is_begun_anew_again_and_again_is_slow_and_does_not_hang() {
    let mut bench = bench(cluster(vec![], vec![served("red", "a")]), vec![]).await;
    let red = Fake { slow_and_restless: 290 * SECOND, ..Fake::new("red", &bench.parts.journal) };
    asks(&mut bench.parts, &[&Arc::new(red)]);
    bench.parts.settings.service.queue.max_run = 60 * SECOND;
    let (pending, pulses) = (bench.parts.pending.clone(), bench.parts.pulses.clone());
    let mut work = std::pin::pin!(dry_run(bench.parts));
    let begun = Instant::now();
    while pending.list().as_of.is_none() {
        assert!(tokio::time::timeout(60 * SECOND, work.as_mut()).await.is_err(), "it never ends");
        assert_eq!(pending.looking().check(&pulses, PERIODS), Ok(()), "after {:?}", begun.elapsed());
    }
    assert!(begun.elapsed() > 8 * 290 * SECOND, "{:?}", begun.elapsed());
    assert!(pending.list().unknown[0].1.contains("changes at this moment"), "{:?}", pending.list().unknown);
}

/// Each call is waited for, and a run of several of them takes longer than the limit.
#[tokio::test(start_paused = true)]
async fn a_look_whose_calls_are_all_slow_goes_on_with_each_of_them() {
    let mut bench = bench(cluster(vec![], vec![served("red", "a")]), vec![]).await;
    let red = Fake { slow: 290 * SECOND, ..Fake::new("red", &bench.parts.journal) };
    asks(&mut bench.parts, &[&Arc::new(red)]);
    let (pending, pulses) = (bench.parts.pending.clone(), bench.parts.pulses.clone());
    let mut work = std::pin::pin!(dry_run(bench.parts));
    let begun = Instant::now();
    while pending.list().as_of.is_none() {
        assert!(tokio::time::timeout(10 * SECOND, work.as_mut()).await.is_err(), "it never ends");
        assert_eq!(pending.looking().check(&pulses, PERIODS), Ok(()), "after {:?}", begun.elapsed());
    }
    // Survey, locks, ensure, and the cluster as a whole.
    assert_eq!(begun.elapsed().as_secs() / 290, 4, "{:?}", begun.elapsed());
    assert_eq!(pending.list().unknown, []);
}

#[tokio::test(start_paused = true)]
async fn each_answer_of_the_api_server_says_that_a_look_goes_on() {
    let pulses = Pulses::default();
    let pulse = Arc::new(pulses.begin(LOOKS, SECOND));
    let server = tower::service_fn(|_: Request<Body>| async {
        tokio::time::sleep(60 * SECOND).await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let client = watched(&Client::new(server, "default"), &pulse);
    assert!(client.send(Request::new(Body::empty())).await.is_ok());
    assert_eq!(pulses.check(LOOPS, PERIODS), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_look_is_waited_for_as_long_as_the_longest_of_its_calls_and_requests_may_take() {
    let Bench { mut parts, _readers, .. } = bench(cluster(vec![], vec![]), vec![]).await;
    assert_eq!(longest_wait(&parts), 300 * SECOND);
    // Of many calls, each is a turn.
    parts.settings.service.queue.max_run = 3_600 * SECOND;
    assert_eq!(longest_wait(&parts), 300 * SECOND);
    parts.settings.gate.request_timeout = 400 * SECOND;
    assert_eq!(longest_wait(&parts), 400 * SECOND);
    let routes = RouteSettings { call_timeout: 500 * SECOND, ..RouteSettings::default() };
    let ranges = PodRanges::parse(&["10.0.0.0/8".parse().unwrap()]).unwrap();
    parts.settings.route = Some((routes, ranges));
    assert_eq!(longest_wait(&parts), 500 * SECOND);
    parts.settings.cluster.call_timeout = 600 * SECOND;
    assert_eq!(longest_wait(&parts), 600 * SECOND);
    parts.settings.service.call_timeout = 700 * SECOND;
    assert_eq!(longest_wait(&parts), 700 * SECOND);
}

/// Whatever the limits of calls are: Kubernetes restarts the pod.
#[tokio::test(start_paused = true)]
async fn a_look_that_waits_for_a_provider_for_too_long_fails_its_check_and_names_the_call() {
    let Bench { parts, _readers, .. } = hanging().await;
    let looking = parts.pending.looking().clone();
    let _begun = looking.begins();
    let pulse = Arc::new(parts.pulses.begin(LOOKS, 10 * SECOND));
    let due = BTreeSet::from([Look::Nodes]);
    let mut work = std::pin::pin!(look(&parts, &due, &pulse));
    let mut after = async |time: Duration| {
        assert!(tokio::time::timeout(time, work.as_mut()).await.is_err(), "it hangs");
        looking.check(&parts.pulses, PERIODS)
    };
    assert_eq!(after(60 * SECOND).await, Ok(()));
    let told = after(2 * SECOND).await.unwrap_err();
    assert!(told.starts_with("its loop looks has not turned for 6"), "{told}");
    assert!(told.contains("Z, for 62 s, waiting for instances.find of red for 61 s"), "{told}");
}

/// What a plan for all says of what is not known, and which calls it waited for meanwhile.
async fn planned(
    fake: impl FnOnce(&Arc<Journal>) -> Fake,
    nodes: Vec<Value>,
    services: Vec<Value>,
) -> (Vec<ObjectPlan>, Vec<String>) {
    let Bench { parts, _readers, .. } = bench(cluster(nodes, services), vec![]).await;
    let DryRunParts { client, journal, nodes, services, addresses, controllers, settings, .. } = parts;
    let client = read_only(&client, Arc::clone(&journal));
    let looking = Looking::default();
    let providers = vec![asked_of(&Arc::new(fake(&journal)), &looking)];
    let parts = PlanParts { client, journal, providers, nodes, services, addresses, controllers, settings };
    let (mut objects, mut waits) = (vec![], vec![]);
    let mut found = |object: ObjectPlan| {
        objects.push(object);
        Ok(())
    };
    let _begun = looking.begins();
    let mut work = Box::pin(plan(parts, Target::All, &mut found));
    while tokio::time::timeout(20 * SECOND, work.as_mut()).await.is_err() {
        let line = looking.line().unwrap();
        if let Some((_, call)) = line.split_once(", waiting for ") {
            waits.push(call.split_once(" for ").unwrap().0.to_owned());
        }
        assert!(waits.len() < 60, "{waits:?}");
    }
    drop(work);
    waits.dedup();
    (objects, waits)
}

/// A Service as it is after a host with `red` has served it.
async fn ensured() -> Value {
    let mut service = served("red", "a");
    let makes = |journal: &Arc<Journal>| Fake { makes: true, ..Fake::new("red", journal) };
    let (objects, _) = planned(makes, vec![], vec![service.clone()]).await;
    for write in objects.into_iter().flat_map(|object| object.writes) {
        let (Write::Cluster { body, .. } | Write::Note { body, .. }) = write else { panic!("{write:?}") };
        let Some(status) = body["status"].as_object() else { continue };
        for (field, value) in status {
            let kept = &mut service["status"][field];
            match (kept.as_array_mut(), value.as_array()) {
                // Each with its type.
                (Some(kept), Some(told)) => {
                    kept.retain(|old| told.iter().all(|new| new["type"] != old["type"]));
                    kept.extend(told.iter().cloned());
                }
                _ => *kept = value.clone(),
            }
        }
    }
    service
}

/// An operator searches the log and the documentation for the name that is shown: it is that of the contract, wherever it stands.
#[tokio::test(start_paused = true)]
async fn whatever_call_hangs_has_one_name_while_it_is_waited_for_and_after() {
    let changed = |service: &Value, field: &str, value: Value| {
        let mut service = service.clone();
        service["metadata"][field] = value;
        service
    };
    let (new, old) = (served("red", "a"), ensured().await);
    let mut follows = old.clone();
    // The digest of other hosts.
    let record = follows["status"]["conditions"].as_array_mut().unwrap().iter_mut();
    let record = record.map(|one| &mut one["message"]).find(|message| message.to_string().contains(" backends="));
    let record = record.unwrap();
    let (before, rest) = record.as_str().unwrap().split_once(" backends=").unwrap();
    let (digest, rest) = rest.split_once(' ').unwrap();
    *record = format!("{before} backends={} {rest}", digest.chars().rev().collect::<String>()).into();
    for (hangs, service, wanted) in [
        (&["ensure"], &new, "load-balancers.ensure"),
        (&["locks"], &new, "load-balancers.locks"),
        (&["mark"], &changed(&new, "annotations", json!({ ID: "7" })), "load-balancers.get-mark"),
        (&["update"], &follows, "load-balancers.update-backends"),
        (
            &["delete"],
            &changed(&old, "deletionTimestamp", json!("2026-01-02T03:04:05Z")),
            "load-balancers.ensure-deleted",
        ),
        (
            &["orphan"],
            &changed(&old, "annotations", json!({ "wasm-ccm.io/orphan": "red" })),
            "load-balancer-orphan.orphan",
        ),
        (&["survey"], &old, "load-balancer-survey.survey"),
        (&["get"], &old, "load-balancers.get"),
        (&["find"], &Value::Null, "instances.find"),
        (&["reconcile"], &Value::Null, "cluster.reconcile"),
    ] {
        let fake = |journal: &Arc<Journal>| Fake {
            hangs,
            asks_each: ["get", "update"].contains(&hangs[0]),
            ..Fake::new("red", journal)
        };
        let nodes = if *hangs == ["find"] { vec![not_ready("red", "n")] } else { vec![] };
        let services = if service.is_null() { vec![] } else { vec![service.clone()] };
        let (objects, waits) = planned(fake, nodes, services).await;
        assert_eq!(waits, [format!("{wanted} of red")], "{wanted}: {objects:?}");
        let unknown: Vec<&str> = objects.iter().filter_map(|object| object.unknown.as_deref()).collect();
        let told = format!("{}: no answer within 300s", waits[0]);
        assert!(unknown.len() == 1 && unknown[0].contains(&told), "{wanted}: {objects:?}");
    }
}
