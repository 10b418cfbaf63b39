use kube::runtime::watcher::Event;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};

use super::*;
use crate::metrics::StoreMetrics;
use crate::store::decode::DeserializeGuard;
use crate::store::{Reach, Reflector, Shown};
use crate::testing::{Draft, FakeApi, Log, service};

/// What a text of [`texts`] takes as a label or an annotation.
const EACH: usize = 128;
/// More than anybody needs, and as many as an object of the API server has room for.
const MANY: usize = 70_000;

fn read(draft: Draft) -> DeserializeGuard<Service> {
    serde_json::from_value(draft.0).unwrap()
}

fn texts(count: usize) -> Value {
    (0..count).map(|number| (format!("l{number:015}"), json!(""))).collect::<Map<_, _>>().into()
}

fn list(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

fn port(number: usize) -> Value {
    json!({ "name": format!("p{number}"), "protocol": "TCP", "port": number + 1 })
}

/// All that is read of a Service.
fn whole() -> Draft {
    Draft(json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "labels": { "b": "1", "a": "2" }, "annotations": { "kept": "yes" }, "finalizers": ["f.io/b", "f.io/a"],
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"], "externalIPs": ["192.0.2.7"],
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_100, "ipFamilies": ["IPv4", "IPv6"], "loadBalancerClass": "x/y",
            "loadBalancerIP": "192.0.2.8", "loadBalancerSourceRanges": ["10.0.0.0/8"], "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } },
            "ports": [{ "name": "http", "protocol": "TCP", "appProtocol": "http", "port": 80, "nodePort": 30_080 }, { "port": 81 }],
        },
        "status": {
            "loadBalancer": { "ingress": [{ "ip": "192.0.2.9", "ports": [{ "port": 80, "protocol": "TCP" }] }] },
            "conditions": [{ "type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        },
    }))
}

#[test]
fn what_controllers_read_of_a_service_is_kept_and_of_the_rest_nothing_however_much_it_is() {
    let expected: Service = whole().object();
    assert_eq!(read(whole()).object.unwrap(), expected);
    let rows = [
        ("/metadata", "managedFields", list(MANY, |_| json!({ "manager": "m" }))),
        ("/metadata", "ownerReferences", list(MANY, |_| json!({ "name": "n" }))),
        ("/metadata", "generateName", json!("x".repeat(MAX_SERVICE))),
        ("/metadata/annotations", LAST_APPLIED, json!("x".repeat(MAX_SERVICE))),
        ("/spec", "selector", texts(MANY)),
        ("/spec", "externalName", json!("x".repeat(MAX_SERVICE))),
        ("/spec/ports/0", "targetPort", json!("x".repeat(MAX_SERVICE))),
        ("/spec", "what comes with a later version", texts(MANY)),
    ];
    for (at, name, value) in rows {
        let guard = read(whole().with(at, name, value));
        assert_eq!((guard.object, guard.surplus), (Ok(expected.clone()), None), "{name}");
    }
}

#[test]
fn of_labels_that_take_too_much_none_is_kept_and_of_the_service_all_else() {
    const MOST: usize = MAX_LABELS / EACH;
    let with = |count: usize| read(whole().with("/metadata", "labels", texts(count)));
    let guard = with(MOST);
    assert_eq!(guard.surplus, None);
    let mut expected = guard.object.unwrap();
    assert_eq!(expected.metadata.labels.take().map(|labels| labels.len()), Some(MOST));
    for count in [MOST + 1, MANY] {
        let guard = with(count);
        let told = format!(
            "its labels take {} bytes in memory, and at most 32 KiB are kept: to its provider it has no labels",
            EACH * count
        );
        assert_eq!((guard.object, guard.surplus), (Ok(expected.clone()), Some(told)));
    }
}

#[test]
fn a_service_of_which_too_much_would_be_kept_is_not_read_and_the_largest_part_is_named() {
    let long = || json!("x".repeat(MAX_SERVICE / 2));
    let rows = [
        ("annotations", "/metadata", "annotations", texts(MANY)),
        ("annotations", "/metadata", "annotations", json!({ "a": "x".repeat(MAX_SERVICE) })),
        ("finalizers", "/metadata", "finalizers", list(MANY, |number| json!(format!("f.io/{number}")))),
        ("ports", "/spec", "ports", list(MANY, port)),
        ("externalIPs", "/spec", "externalIPs", list(MANY, |_| json!("192.0.2.7"))),
        ("loadBalancerSourceRanges", "/spec", "loadBalancerSourceRanges", list(MANY, |_| json!("10.0.0.0/8"))),
        ("loadBalancerIP", "/spec", "loadBalancerIP", json!("x".repeat(MAX_SERVICE))),
        // Two parts, each of which would do alone.
        ("annotations", "/metadata", "finalizers", json!([long()])),
    ];
    for (part, at, name, value) in rows {
        let guard = read(whole().with("/metadata", "annotations", json!({ "a": long() })).with(at, name, value));
        assert_eq!((guard.metadata.name.as_deref(), guard.surplus), (Some("web"), None), "{part}");
        let error = guard.object.unwrap_err();
        assert!(error.ends_with(&format!("for its {part}: a Service is kept up to 128 KiB")), "{part}: {error}");
    }
}

#[test]
fn a_service_that_cannot_be_read_still_says_what_it_may_have_in_a_cloud_and_else_it_may_have_anything() {
    let [nothing, open] = [false, true].map(|exposes| Reach { exposes, is_balancer: false });
    let too_large = || service("web").with("/metadata", "annotations", texts(MANY));
    let of = |kind: &str| too_large().with("/spec", "type", json!(kind));
    let ips = |ips: Value| of("ClusterIP").with("/spec", "externalIPs", ips);
    for (draft, reach) in [
        (of("ClusterIP"), nothing),
        (of("ExternalName"), nothing),
        (of("NodePort"), open),
        (of("LoadBalancer"), Reach::UNKNOWN),
        (of("OfALaterVersion"), Reach::UNKNOWN),
        (ips(json!([])), nothing),
        (ips(list(MANY, |_| json!("192.0.2.7"))), open),
        (ips(json!("192.0.2.7")), Reach::UNKNOWN),
        (of("ClusterIP").with("/spec", "ports", json!("none")), nothing),
        (too_large().with("/spec", "type", json!(7)), Reach::UNKNOWN),
        (too_large().with("", "spec", json!("none")), Reach::UNKNOWN),
    ] {
        let spec = draft.0["spec"]["type"].clone();
        let guard = read(draft);
        assert_eq!((guard.object.is_err(), guard.reach), (true, reach), "{spec}");
    }
}

/// There are protocols for which people open a thousand ports.
#[test]
fn a_service_may_have_a_thousand_ports_or_a_long_annotation() {
    let rows = [
        ("/spec", "ports", list(1_000, port)),
        ("/metadata/annotations", "long", json!("x".repeat(MAX_SERVICE - 4_096))),
    ];
    for (at, name, value) in rows {
        let kept = read(whole().with(at, name, value)).object.unwrap();
        let ports = kept.spec.unwrap().ports.unwrap().len();
        let annotations = kept.metadata.annotations.unwrap();
        assert!(ports == 1_000 || annotations["long"].len() == MAX_SERVICE - 4_096, "{name}");
    }
}

/// A reflector with an empty store, which hears what a test says.
fn reflector() -> Reflector<Service> {
    let metrics = StoreMetrics::register(&mut Registry::default());
    let mut services = Reflector::new(FakeApi::new().client.clone(), &metrics);
    for event in [Event::Init, Event::InitDone] {
        services.take(event);
    }
    services
}

#[tokio::test]
async fn labels_that_are_left_out_are_told_once_and_so_is_that_they_are_back() {
    let mut services = reflector();
    let log = Log::start();
    let with = |count: usize| read(service("web").with("/metadata", "labels", texts(count)));
    services.take(Event::Init);
    services.take(Event::InitApply(with(MANY)));
    services.take(Event::InitDone);
    services.take(Event::Apply(with(MANY)));
    let warned = log.lines("WARN");
    assert!(
        matches!(warned.as_slice(), [line] if line.contains("default/web") && line.contains("32 KiB")),
        "{warned:?}"
    );
    let stored = services.reader().state();
    assert!(matches!(stored.as_slice(), [service] if service.metadata.labels.is_none()), "{stored:?}");

    services.take(Event::Apply(with(1)));
    services.take(Event::Apply(with(1)));
    assert_eq!(log.lines("no part of the object is left out any more").len(), 1);
    services.take(Event::Apply(with(MANY)));
    assert_eq!(log.lines("WARN").len(), 2, "it is news again");
    services.take(Event::Delete(with(MANY)));
    services.take(Event::Apply(with(MANY)));
    assert_eq!(log.lines("WARN").len(), 3, "it is another one");
}

/// To whoever reads the store, a Service that is not there is gone.
#[tokio::test]
async fn a_service_that_has_grown_too_large_stays_as_it_was_and_its_deletion_is_told() {
    let mut services = reflector();
    let log = Log::start();
    let with = |count: usize| read(service("web").with("/metadata", "annotations", texts(count)));
    assert_eq!(services.take(Event::Apply(with(1))).len(), 1);
    for _ in 0..2 {
        assert_eq!(services.take(Event::Apply(with(MANY))), []);
    }
    let known = |services: &Reflector<Service>| {
        let all = services.reader().state();
        all.iter().map(|service| service.metadata.annotations.as_ref().map_or(0, BTreeMap::len)).collect::<Vec<_>>()
    };
    assert_eq!((known(&services), log.lines("ERROR").len()), (vec![1], 1));
    assert_eq!(services.take(Event::Delete(with(MANY))).len(), 1);
    assert_eq!(known(&services), [0; 0]);
}

/// A provider was told of all Services but such a one, and closed its ports.
#[tokio::test]
async fn a_service_that_a_list_has_and_nobody_here_can_read_is_noted_until_it_is_small_gone_or_in_no_list() {
    let mut services = reflector();
    let unread = services.first_list().unread();
    let noted = || {
        let noted = unread.borrow();
        noted.iter().map(|((_, name), one)| (name.clone(), one.shown)).collect::<Vec<_>>()
    };
    let web = |uid: &str, count: usize| {
        read(service("web").with("/metadata", "annotations", texts(count)).with("/metadata", "uid", json!(uid)))
    };
    let list = |services: &mut Reflector<Service>, all: Vec<DeserializeGuard<Service>>| {
        services.take(Event::Init);
        all.into_iter().for_each(|one| drop(services.take(Event::InitApply(one))));
        services.take(Event::InitDone);
    };
    let one = |shown: Shown| vec![("web".to_owned(), shown)];

    list(&mut services, vec![web("u", MANY)]);
    assert_eq!((noted(), services.reader().len()), (one(Shown::LeftOut), 0));
    let why = unread.borrow().values().map(|one| (one.uid.clone(), one.why.clone())).collect::<Vec<_>>();
    assert!(
        matches!(why.as_slice(), [(uid, why)] if uid == "u" && why.ends_with("a Service is kept up to 128 KiB")),
        "{why:?}"
    );
    services.take(Event::Apply(web("u", MANY + 1)));
    assert_eq!(noted(), one(Shown::LeftOut), "a change of it tells nothing of what was told before");
    // A list that fails counts for nothing.
    services.take(Event::Init);
    list(&mut services, vec![web("u", MANY)]);
    assert_eq!(noted(), one(Shown::LeftOut));
    services.take(Event::Apply(web("u", 1)));
    assert_eq!((noted(), services.reader().len()), (vec![], 1));

    // It grows while the watch goes on, and stays as it was.
    services.take(Event::Apply(web("u", MANY)));
    assert_eq!((noted(), services.reader().len()), (one(Shown::AsBefore), 1));
    list(&mut services, vec![web("u", MANY)]);
    assert_eq!((noted(), services.reader().len()), (one(Shown::AsBefore), 1));
    services.take(Event::Delete(web("u", MANY)));
    assert_eq!((noted(), services.reader().len()), (vec![], 0));

    // Another one is too large from the beginning, and nobody can have been told of it.
    services.take(Event::Apply(web("v", MANY)));
    assert_eq!(noted(), one(Shown::New));
    list(&mut services, vec![web("v", MANY)]);
    assert_eq!(noted(), one(Shown::New));
    list(&mut services, vec![]);
    assert_eq!(noted(), vec![]);
    list(&mut services, vec![web("v", MANY)]);
    assert_eq!(noted(), one(Shown::LeftOut), "it came while the watch was away");
}

/// Such names stayed in memory for ever.
#[tokio::test]
async fn what_went_while_the_watch_was_away_is_forgotten() {
    let mut services = reflector();
    for (at, count) in [("labels", MANY), ("annotations", MANY)] {
        services.take(Event::Init);
        services.take(Event::InitApply(read(service("web").with("/metadata", at, texts(count)))));
        services.take(Event::InitDone);
        assert_eq!(services.shortened.len() + services.undecodable.len(), 1, "{at}");
        services.take(Event::Init);
        services.take(Event::InitDone);
        assert_eq!((services.shortened.len(), services.undecodable.len()), (0, 0), "{at}");
    }
}
