//! Cases 199 to 212: patches, and how a Service is read.

use ccm_cloud::{IpMode, PortStatus, Protocol, ServiceType, TrafficPolicy};
use serde_json::json;

use super::*;
use crate::service::digest::Digest;
use crate::service::predicates::has_finalizer;
use crate::service::write::{Changes, Written};
use crate::view::service::{as_stored, cloud_service, ingress};

#[tokio::test(start_paused = true)]
async fn cases_199_and_203_a_finalizer_is_added_once_beside_those_of_others() {
    let bench = Bench::new();
    let record = Record::begun("fake", &service("web").object(), Digest::of(&0), Digest::of(&0));
    let there = bench.api.add_service(finalized("web").0);
    assert!(matches!(bench.syncer.writer.add_finalizer(&there, &record).await, Ok(Written::Nothing)), "199");
    let absent = bench.api.add_service(service("web").with("/metadata", "finalizers", json!(["foo"])).0);
    assert!(matches!(bench.syncer.writer.add_finalizer(&absent, &record).await, Ok(Written::Changed(_))), "199");
    assert_eq!(bench.json("web")["metadata"]["finalizers"], json!(["foo", FINALIZER]));
    let mut body = bench.api.calls()[0].body["metadata"].clone();
    body.as_object_mut().unwrap().retain(|name, _| name.contains("finalizers"));
    assert_eq!(body, json!({ "$setElementOrder/finalizers": ["foo", FINALIZER], "finalizers": [FINALIZER] }), "203");
    assert_eq!(bench.patches(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_200_a_finalizer_is_removed_if_it_is_there() {
    let bench = Bench::new();
    let absent = bench.api.add_service(service("web").with("/metadata", "finalizers", json!(["foo"])).0);
    assert!(matches!(bench.syncer.writer.release(&absent, |_| false).await, Ok(Written::Nothing)));
    assert_eq!(bench.patches(), 0);
    let there = bench.api.add_service(finalized("web").0);
    assert!(matches!(bench.syncer.writer.release(&there, |_| false).await, Ok(Written::Changed(_))));
    assert_eq!(bench.patches(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_201_the_status_is_written_only_when_it_differs() {
    let bench = Bench::new();
    let address = |ip: &str| vec![ccm_cloud::Ingress { ip: Some(ip.into()), ..Default::default() }];
    let plain = || service("web");
    let addressed = || service("web").with("/status/loadBalancer", "ingress", json!([{ "ip": "192.0.2.1" }]));
    let rows = [
        ("equal", addressed(), address("192.0.2.1"), 0),
        ("added", plain(), address("192.0.2.1"), 1),
        ("empty to empty", plain(), vec![], 0),
        ("cleared", addressed(), vec![], 1),
    ];
    for (what, draft, ingress, patches) in rows {
        let before = bench.patches();
        let service = bench.api.add_service(draft.0);
        let changes = Changes { ingress: Some(ingress.clone()), ..Changes::default() };
        bench.syncer.writer.set(&service, &changes).await.unwrap();
        assert_eq!(bench.patches() - before, patches, "{what}");
        let now: Service = serde_json::from_value(bench.json("web")).unwrap();
        assert_eq!(as_stored(&crate::view::service::ingress(&now)), as_stored(&ingress), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_202_what_others_wrote_meanwhile_stays() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.api.script(STATUS, |state| {
        let theirs =
            json!({ "metadata": { "annotations": { "theirs": "kept" } }, "spec": { "sessionAffinity": "ClientIP" } });
        state.edit_service("web", &theirs);
        None
    });
    assert_eq!(bench.sync("web").await, Verdict::Done);
    let written = bench.json("web");
    assert_eq!(
        (&written["metadata"]["annotations"]["theirs"], &written["spec"]["sessionAffinity"]),
        (&json!("kept"), &json!("ClientIP"))
    );
    assert_eq!(written["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(written["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    // What they changed meanwhile is ensured by the next run.
    bench.sync("web").await;
    assert_eq!(bench.cloud.seen().last().unwrap().client_ip_affinity_seconds, Some(10_800));
}

/// The finalizer that somebody adds between our read and our write: QUIRK-32, where upstream erases it.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_adds_at_that_moment_is_not_erased() {
    let mut bench = Bench::new();
    bench.add(service("web"));
    bench.sync("web").await;
    bench.delete("web");
    bench.api.script(STATUS, |state| {
        state.edit_service("web", &json!({ "metadata": { "finalizers": ["first.io/x", FINALIZER, "last.io/y"] } }));
        None
    });
    assert_eq!(bench.sync("web").await, Verdict::Done);
    assert_eq!(bench.json("web")["metadata"]["finalizers"], json!(["first.io/x", "last.io/y"]));
    assert_eq!(bench.cloud.count("delete"), 1);
}

/// Whoever may write Services may fill each of them. With all that is in their metadata, a page of 500 was more than a pod may have.
#[tokio::test(start_paused = true)]
async fn who_all_services_are_is_read_in_small_pages_and_nothing_else_of_them() {
    let answers = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (name, next) = if query.contains("continue=next") { ("b", "") } else { ("a", "next") };
        let metadata = json!({ "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": 7, "managedFields": 7 });
        let answer = if request.uri().path() == "/api/v1/services" {
            assert!(query.split('&').any(|part| part == "limit=20"), "{query}");
            json!({ "metadata": { "continue": next }, "items": [{ "metadata": metadata }] })
        } else {
            json!({ "metadata": metadata })
        };
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    let metrics = Metrics::register(&mut Registry::default());
    let gate = ApiGate::new(kube::Client::new(answers, "default"), metrics.api.clone(), ApiGateSettings::default());
    let writer = ServiceWriter::new(gate);
    let mut found = vec![];
    writer.list(|uid, key| found.push(format!("{uid} {}", key.name))).await.unwrap();
    assert_eq!(found, ["uid-a a", "uid-b b"]);
    assert!(!writer.is_gone(&service("a").object()).await.unwrap());
    assert!(writer.is_gone(&service("b").object()).await.unwrap(), "another one has its name");
}

fn ranges(draft: Draft) -> Result<Vec<String>, String> {
    let (view, wrong) = cloud_service(&draft.object());
    wrong.map_or(Ok(view.source_ranges), |wrong| {
        assert_eq!(wrong.reaction, Reaction::Invalid);
        Err(wrong.field.unwrap())
    })
}

fn listed(value: &str) -> Draft {
    let list: Vec<&str> = value.split(',').collect();
    service("web").with("/spec", "loadBalancerSourceRanges", json!(list))
}

#[test]
fn case_204_bad_source_ranges_are_refused_and_the_field_is_named() {
    for bad in [
        "10.0.0.1/33",
        "foo.bar",
        "10.0.0.1/32,*",
        "10.0.0.1/32,",
        "10.0.0.1/32, ",
        "10.0.0.1",
        "::/129",
        "10.0.0.0/+8",
        "0x10.0.0.0/8",
        "10.0.0/8",
        "010.0.0.256/8",
        "10..0.0/8",
        "1:2:3:4:5:6:7:8::/64",
        "fe80::1%eth0/64",
        "::ffff:10.0.0.0/129",
    ] {
        let place = bad.split(',').count() - 1;
        assert_eq!(ranges(listed(bad)), Err(format!("spec.loadBalancerSourceRanges[{place}]")), "{bad}");
    }
}

#[test]
fn cases_205_to_207_good_source_ranges_are_normalised_and_stand_once() {
    let rows: [(&str, &str, &[&str]); 9] = [
        ("case_205", "192.168.0.1/32", &["192.168.0.1/32"]),
        ("case_205", "192.168.0.1/32,192.168.0.1/32", &["192.168.0.1/32"]),
        ("case_205", "192.168.0.2/32,192.168.0.1/32", &["192.168.0.1/32", "192.168.0.2/32"]),
        ("case_205", "  192.168.0.1/32 , 192.168.0.2/32  ", &["192.168.0.1/32", "192.168.0.2/32"]),
        ("case_207", "10.1.2.3/8", &["10.0.0.0/8"]),
        ("case_207", "0.0.0.0/0", &["0.0.0.0/0"]),
        ("case_207", "192.168.0.0/0", &["0.0.0.0/0"]),
        ("case_207", "192.168.0.1/32,0.0.0.0/0", &["0.0.0.0/0", "192.168.0.1/32"]),
        ("case_207", "2001:DB8:0:0::1/32", &["2001:db8::/32"]),
    ];
    for (case, value, wanted) in rows {
        assert_eq!(ranges(listed(value)).unwrap(), wanted, "{case} {value}");
    }
    // The API server takes these, and what it takes must not freeze a load balancer.
    let rows: [(&str, &[&str]); 7] = [
        ("010.0.0.0/8", &["10.0.0.0/8"]),
        ("10.000.01.1/032", &["10.0.1.1/32"]),
        ("0000192.168.0.0/16,192.168.0.0/16", &["192.168.0.0/16"]),
        ("02001:0db8::00001/32", &["2001:db8::/32"]),
        ("::ffff:010.1.2.3/104", &["10.0.0.0/8"]),
        ("::ffff:10.1.2.3/95", &["::fffe:0:0/95"]),
        ("::/0,00.0.0.0/00", &["0.0.0.0/0", "::/0"]),
    ];
    for (value, wanted) in rows {
        assert_eq!(ranges(listed(value)).unwrap(), wanted, "{value}");
    }
    // Empty means everybody.
    assert_eq!(ranges(service("web")).unwrap(), [""; 0], "case_206");
}

/// DigitalOcean's manager ignores it: a host that read it closed load balancers that were open to everybody.
#[test]
fn the_annotation_of_source_ranges_is_the_providers_who_declares_it() {
    const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    for value in ["10.0.0.0/8", "10.0.0.0/8,soon", ""] {
        let service = service("web").with("/metadata", "annotations", json!({ RANGES: value }));
        let (view, wrong) = cloud_service(&service.object());
        assert_eq!((view.source_ranges, wrong), (vec![], None), "{value:?}");
        assert_eq!(view.annotations.get(RANGES).map(String::as_str), Some(value));
    }
}

/// The helpers of upstream are what a provider sees: the traffic policy, and the port of the health check.
#[test]
fn cases_208_209_and_212_traffic_policy_and_health_check() {
    let rows: [(&str, &str, i32, TrafficPolicy, Option<u16>); 7] = [
        ("ClusterIP", "", 0, TrafficPolicy::Cluster, None),
        ("NodePort", "", 0, TrafficPolicy::Cluster, None),
        ("NodePort", "Cluster", 0, TrafficPolicy::Cluster, None),
        ("LoadBalancer", "Cluster", 30_123, TrafficPolicy::Cluster, None),
        ("NodePort", "Local", 30_123, TrafficPolicy::Local, None),
        ("LoadBalancer", "Local", 30_123, TrafficPolicy::Local, Some(30_123)),
        ("LoadBalancer", "Local", 0, TrafficPolicy::Local, None),
    ];
    for (kind, policy, port, wanted, health) in rows {
        let policy = json!(Some(policy).filter(|policy| !policy.is_empty()));
        let spec = json!({ "spec": { "type": kind, "externalTrafficPolicy": policy, "healthCheckNodePort": port } });
        let (view, _) = cloud_service(&service("web").patched(&spec).object());
        assert_eq!((view.external_traffic_policy, view.health_check_node_port), (wanted, health), "{spec}");
    }
}

#[test]
fn case_210_the_finalizer_is_found_among_others() {
    let rows = [
        (json!(null), false),
        (json!(["foo"]), false),
        (json!([FINALIZER]), true),
        (json!(["foo", FINALIZER, "bar"]), true),
    ];
    for (finalizers, wanted) in rows {
        assert_eq!(has_finalizer(&service("web").with("/metadata", "finalizers", finalizers).object()), wanted);
    }
}

#[test]
fn case_211_when_two_statuses_are_the_same() {
    let read = |entries: Value| {
        let service: Service = service("web").with("/status/loadBalancer", "ingress", entries).object();
        as_stored(&ingress(&service))
    };
    let port = |protocol: &str| json!({ "port": 80, "protocol": protocol });
    let rows = [
        (json!([]), json!(null), true),
        (json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.1" }]), true),
        (json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.2" }]), false),
        (json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]), json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]), true),
        // Deviation: the API server writes VIP where nothing is said, so both are the same.
        (json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]), true),
        (json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]), false),
        (
            json!([{ "ip": "1.1.1.1", "ports": [port("TCP")] }]),
            json!([{ "ip": "1.1.1.1", "ports": [port("TCP")] }]),
            true,
        ),
        (
            json!([{ "ip": "1.1.1.1", "ports": [port("TCP")] }]),
            json!([{ "ip": "1.1.1.1", "ports": [port("UDP")] }]),
            false,
        ),
        (
            json!([{ "ip": "1.1.1.1", "ports": [port("TCP"), port("UDP")] }]),
            json!([{ "ip": "1.1.1.1", "ports": [port("TCP")] }]),
            false,
        ),
    ];
    for (one, other, wanted) in rows {
        assert_eq!(read(one.clone()) == read(other.clone()), wanted, "{one} {other}");
    }
}

#[test]
fn a_service_is_read_as_a_whole() {
    let draft = service("web").patched(&json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "fake.io/mode": "fast" } },
        "spec": {
            "ports": [
                { "name": "http", "port": 80, "nodePort": 30_080, "appProtocol": "http" },
                { "name": "dns", "protocol": "UDP", "port": 53 },
            ],
            "ipFamilies": ["IPv6", "IPv4"],
            "sessionAffinity": "ClientIP",
            "loadBalancerIP": "192.0.2.7",
            "loadBalancerClass": "fake.io/lb",
        },
        "status": { "loadBalancer": { "ingress": [
            { "ip": "192.0.2.7", "ipMode": "Proxy", "ports": [{ "port": 80, "protocol": "TCP", "error": "Broken" }] },
        ] } },
    }));
    let (view, wrong) = cloud_service(&draft.object());
    assert_eq!(wrong, None);
    let port = |name: &str, protocol, app: Option<&str>, port, node_port| ccm_cloud::ServicePort {
        name: name.into(),
        protocol,
        app_protocol: app.map(Into::into),
        port,
        node_port,
    };
    let wanted = ccm_cloud::Service {
        name: "web".into(),
        namespace: "default".into(),
        uid: "uid-web".into(),
        kind: ServiceType::LoadBalancer,
        deleting: false,
        labels: [("app".to_owned(), "web".to_owned())].into(),
        annotations: [("fake.io/mode".to_owned(), "fast".to_owned())].into(),
        ports: vec![
            port("http", Protocol::Tcp, Some("http"), 80, Some(30_080)),
            port("dns", Protocol::Udp, None, 53, None),
        ],
        ip_families: vec![ccm_cloud::IpFamily::V6, ccm_cloud::IpFamily::V4],
        external_traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        client_ip_affinity_seconds: Some(10_800),
        requested_ip: Some("192.0.2.7".into()),
        source_ranges: vec![],
        load_balancer_class: Some("fake.io/lb".into()),
        ingress: vec![ccm_cloud::Ingress {
            ip: Some("192.0.2.7".into()),
            hostname: None,
            ip_mode: Some(IpMode::Proxy),
            ports: vec![PortStatus { port: 80, protocol: Protocol::Tcp, error: Some("Broken".into()) }],
        }],
        more: ccm_cloud::Attributes::new(),
    };
    assert_eq!(view, wanted);
}

/// Ports that are missing or cannot be read must not empty a load balancer.
#[test]
fn ports_that_cannot_be_read_are_an_error_and_not_nothing() {
    let rows = [
        (json!([]), "spec.ports"),
        (json!([{ "port": 80 }, { "port": 70_000 }]), "spec.ports[1].port"),
        (json!([{ "port": 80, "protocol": "QUIC" }]), "spec.ports[0].protocol"),
        (json!([{ "port": 80, "nodePort": -1 }]), "spec.ports[0].nodePort"),
    ];
    for (ports, field) in rows {
        let (_, wrong) = cloud_service(&service("web").with("/spec", "ports", ports).object());
        assert_eq!(wrong.unwrap().field.unwrap(), field);
    }
}
