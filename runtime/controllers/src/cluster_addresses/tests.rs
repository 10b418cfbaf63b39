use std::cell::RefCell;
use std::convert::Infallible;

use ccm_cloud::{AddressKind, SharedAddresses};
use http::Response;
use k8s_openapi::api::core::v1::Service;
use kube::client::Body;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Log, node, service};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn told(addresses: &ClusterAddresses, text: &str) -> String {
    addresses.clash(ip(text)).map(|clash| clash.to_string()).unwrap_or_default()
}

/// An API server that answers so, by path.
fn client(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, body) = answer(request.uri().path());
        async move {
            let response = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    Client::new(service, "default")
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no" });
    (code, body)
}

#[tokio::test]
async fn addresses_of_the_cluster_are_known_from_flags_objects_and_the_url_of_the_api_server() {
    let (services, mut store) = reflector::store::<Service>();
    let kubernetes = json!({
        "metadata": { "name": "kubernetes", "namespace": "default" },
        "spec": { "clusterIPs": ["172.20.0.1", "fd12::1"] },
    });
    store.apply_watcher_event(&Event::Apply(serde_json::from_value(kubernetes).unwrap()));
    let addresses = ClusterAddresses::new(AddressSources {
        service_ranges: vec!["10.200.0.0/16".parse().unwrap()],
        servers: vec!["[2001:db8::6]".to_owned(), "192.0.2.30".to_owned()],
        reserved: vec!["192.0.2.64/28".parse().unwrap(), "2001:db8::9".parse().unwrap()],
        services: Some(services),
        ..AddressSources::default()
    });
    for (address, part) in [
        ("169.254.169.254", "a link-local address"),
        ("::ffff:169.254.169.254", "a link-local address"),
        ("127.0.0.1", "a loopback address"),
        ("0.0.0.0", "an unspecified address"),
        ("224.0.0.1", "a multicast"),
        ("100.100.100.200", "metadata"),
        ("10.200.3.4", "in the range of Services, 10.200.0.0/16"),
        ("::ffff:10.200.3.4", "in the range of Services"),
        ("172.20.0.1", "the ClusterIP of Service default/kubernetes"),
        ("fd12::1", "the ClusterIP of Service default/kubernetes"),
        ("2001:db8::6", "an address of the API server"),
        ("192.0.2.30", "an address of the API server"),
        ("192.0.2.70", "reserved (--reserved-address 192.0.2.64/28)"),
        ("::ffff:192.0.2.70", "reserved (--reserved-address 192.0.2.64/28)"),
        ("2001:db8::9", "reserved (--reserved-address 2001:db8::9/128)"),
    ] {
        assert!(told(&addresses, address).contains(part), "{address}: {}", told(&addresses, address));
    }
    for free in ["10.96.0.7", "192.0.2.10", "10.0.0.1", "203.0.113.7", "2001:db8::7", "fd00::1"] {
        assert_eq!(told(&addresses, free), "", "{free}");
    }
    let answers = client(|path| match path {
        RANGES => (200, json!({ "items": [{ "spec": { "cidrs": ["10.96.0.0/16", "fd96::/112"] } }] })),
        SERVERS => (200, json!({ "endpoints": [{ "addresses": ["192.0.2.10"] }] })),
        _ => status(404, "NotFound"),
    });
    assert!(addresses.learn(&answers).await);
    assert!(told(&addresses, "10.96.0.7").contains("10.96.0.0/16"));
    assert!(told(&addresses, "fd96::7").contains("fd96::/112"));
    assert_eq!(told(&addresses, "192.0.2.10"), "an address of the API server");
}

#[tokio::test]
async fn what_an_api_server_does_not_serve_is_not_waited_for_and_what_it_does_not_say_stays_known() {
    let addresses = ClusterAddresses::new(AddressSources::default());
    assert!(addresses.learn(&client(|_| status(404, "NotFound"))).await, "an older API server has no such ranges");
    let answer = Arc::new(Mutex::new((200, json!({ "items": [{ "spec": { "cidrs": ["10.96.0.0/16"] } }] }))));
    let shared = Arc::clone(&answer);
    let client = client(move |path| if path == RANGES { shared.lock().clone() } else { status(404, "NotFound") });
    assert!(addresses.learn(&client).await);
    // A proxy has a 404 of its own.
    for said in [status(403, "Forbidden"), (404, json!("404 page not found")), (404, json!({ "message": "no" }))] {
        *answer.lock() = said;
        assert!(!addresses.learn(&client).await);
        assert!(told(&addresses, "10.96.0.7").contains("10.96.0.0/16"), "it is still so");
    }
}

/// Nobody said that the ClusterIPs of tomorrow are not refused.
#[tokio::test]
async fn people_hear_once_that_nobody_says_the_range_of_services() {
    let older = client(|_| status(404, "NotFound"));
    let newer = client(|path| match path {
        RANGES => (200, json!({ "items": [{ "spec": { "cidrs": ["10.96.0.0/16"] } }] })),
        _ => status(404, "NotFound"),
    });
    let given = AddressSources { service_ranges: vec!["10.96.0.0/16".parse().unwrap()], ..AddressSources::default() };
    for (sources, client, warnings) in
        [(AddressSources::default(), &older, 1), (AddressSources::default(), &newer, 0), (given, &older, 0)]
    {
        let addresses = ClusterAddresses::new(sources);
        let log = Log::start();
        for _ in 0..3 {
            assert!(addresses.learn(client).await);
        }
        assert_eq!(log.lines("--service-cluster-ip-range").len(), warnings);
    }
}

/// A Node whose address is in a range that nobody says, but that a Service has.
#[tokio::test(start_paused = true)]
async fn without_a_known_range_no_node_gets_the_cluster_ip_of_a_service() {
    let (services, mut store) = reflector::store::<Service>();
    let service =
        json!({ "metadata": { "name": "dns", "namespace": "kube-system" }, "spec": { "clusterIPs": ["10.96.0.10"] } });
    store.apply_watcher_event(&Event::Apply(serde_json::from_value(service).unwrap()));
    let addresses = ClusterAddresses::new(AddressSources { services: Some(services), ..AddressSources::default() });
    let clash = |text: &str| {
        let place = address_target::AddressTarget::of(text).unwrap();
        addresses.clash_of_node(&node("new").object(), &place, AddressKind::InternalIp, &mut addresses.write_of("new"))
    };
    assert_eq!(clash("10.96.0.10"), Some(AddressClash::ClusterIp("kube-system/dns".to_owned())));
    assert_eq!(clash("10.96.0.11"), None);
}

/// The API server had a name, and a load balancer got its address.
#[tokio::test(start_paused = true)]
async fn the_addresses_of_the_api_servers_name_are_known_as_they_change() {
    let answer = Arc::new(Mutex::new(Some(vec!["192.0.2.20", "::ffff:192.0.2.21"])));
    let shared = Arc::clone(&answer);
    let lookup = Lookup::new(move |name| {
        assert_eq!(name, "api.cluster.test");
        let known = shared.lock().clone();
        let found = known.map(|known| known.into_iter().map(ip).collect::<Vec<_>>());
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such name")) })
    });
    let servers = vec!["api.cluster.test".to_owned()];
    let addresses = ClusterAddresses::new(AddressSources { servers, lookup, ..AddressSources::default() });
    let client = client(|_| status(404, "NotFound"));
    assert!(addresses.learn(&client).await);
    let known = |texts: &[&str]| texts.iter().map(|text| !told(&addresses, text).is_empty()).collect::<Vec<_>>();
    assert_eq!(told(&addresses, "192.0.2.20"), "an address of the API server");
    assert_eq!(known(&["192.0.2.20", "192.0.2.21", "192.0.2.22"]), [true, true, false]);
    let changes = async {
        let log = Log::start();
        for (now, is_known) in [
            (Some(vec!["192.0.2.22"]), [true, true, true]),
            (None, [true, true, true]),
            (Some(vec!["192.0.2.22"]), [true, true, true]),
        ] {
            *answer.lock() = now;
            tokio::time::sleep(Duration::from_secs(31)).await;
            assert_eq!(known(&["192.0.2.20", "192.0.2.21", "192.0.2.22"]), is_known);
        }
        assert_eq!(log.lines("no such name").len(), 1);
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(
            known(&["192.0.2.20", "192.0.2.21", "192.0.2.22"]),
            [false, false, true],
            "they were another one's long ago"
        );
    };
    tokio::select! {
        () = addresses.clone().follow(client) => panic!("it ends never"),
        () = changes => {}
    }
}

/// All Nodes and Services were once gone through for each of 5,000 addresses of one answer, while nobody else got any.
#[tokio::test(start_paused = true)]
async fn who_has_the_addresses_of_a_load_balancer_is_looked_up_once_for_all_of_them() {
    let (nodes, mut store) = reflector::store::<Node>();
    store.apply_watcher_event(&Event::Apply(node("a").address("InternalIP", "10.0.0.7").object()));
    let (services, mut writer) = reflector::store::<Service>();
    let service = |name: &str, ip: &str| -> Service {
        let service = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": { "type": "LoadBalancer" },
            "status": { "loadBalancer": { "ingress": [{ "ip": ip }] } },
        });
        serde_json::from_value(service).unwrap()
    };
    for number in 0..100 {
        writer.apply_watcher_event(&Event::Apply(service(&format!("web-{number}"), &format!("203.0.113.{number}"))));
    }
    let addresses = ClusterAddresses::new(AddressSources {
        nodes: Some(nodes),
        services: Some(services),
        ..AddressSources::default()
    });
    let new = service("new", "198.51.100.200");
    let free: Vec<IpAddr> = (0..64).map(|number| ip(&format!("198.51.100.{number}"))).collect();
    let take = |last: &[&str]| {
        let wanted: Vec<IpAddr> = free.iter().chain(&free).copied().chain(last.iter().map(|text| ip(text))).collect();
        let looked = std::cell::Cell::new(0);
        let look = |_: &Service| {
            looked.set(looked.get() + 1);
            false
        };
        let taken = addresses.take_for(&new, &wanted, SharedAddresses::default(), look);
        let refused = taken.err().map(|(ip, clash)| format!("{ip} is {clash}"));
        (refused, looked.get())
    };
    assert_eq!(take(&[]), (None, 0));
    let of_web = "203.0.113.7 is the address of Service default/web-7";
    assert_eq!(take(&["203.0.113.7", "10.0.0.7"]), (Some(of_web.to_owned()), 1));
    assert_eq!(take(&["10.0.0.7", "203.0.113.7"]), (Some("10.0.0.7 is an address of node a".to_owned()), 1));
    // It has one of them already, and wants one that is no place.
    assert_eq!(take(&["198.51.100.200", "127.0.0.1"]).0.as_deref(), Some("127.0.0.1 is a loopback address"));
}

/// A machine said that it has the address of a pod, or of a load balancer, and their traffic went there.
#[tokio::test(start_paused = true)]
async fn no_node_gets_an_address_of_anothers_pods_or_of_a_load_balancer() {
    let (nodes, mut store) = reflector::store::<Node>();
    for (name, range) in [("a", "10.244.0.0/24"), ("b", "10.244.1.0/24"), ("c", "fd00:10::/64")] {
        store.apply_watcher_event(&Event::Apply(node(name).with("/spec", "podCIDRs", json!([range])).object()));
    }
    let (services, mut writer) = reflector::store::<Service>();
    let service = json!({
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } },
    });
    writer.apply_watcher_event(&Event::Apply(serde_json::from_value(service).unwrap()));
    for shares_nodes in [false, true] {
        let addresses = ClusterAddresses::new(AddressSources {
            nodes: Some(nodes.clone()),
            services: Some(services.clone()),
            shares_nodes,
            ..AddressSources::default()
        });
        let told = |text: &str, kind| {
            let (node, place) = (node("a").object(), address_target::AddressTarget::of(text).unwrap());
            let clash = addresses.clash_of_node(&node, &place, kind, &mut addresses.write_of("a"));
            clash.map(|clash| clash.to_string()).unwrap_or_default()
        };
        for kind in [AddressKind::InternalIp, AddressKind::ExternalIp, AddressKind::Hostname] {
            assert_eq!(told("10.244.1.7", kind), "in a range of pods, 10.244.1.0/24");
            assert_eq!(told("fd00:10::7", kind), "in a range of pods, fd00:10::/64");
            assert_eq!(told("10.244.0.7", kind), "", "its own pods are on it");
            assert_eq!(told("10.244.2.7", kind), "");
            let of_web = if shares_nodes { "" } else { "the address of Service default/web" };
            assert_eq!(told("203.0.113.9", kind), of_web);
        }
    }
    // Of a Node that has gone, or has other pods by now.
    let addresses = ClusterAddresses::new(AddressSources { nodes: Some(nodes), ..AddressSources::default() });
    let told = |text: &str| {
        let (node, place) = (node("a").object(), address_target::AddressTarget::of(text).unwrap());
        addresses.clash_of_node(&node, &place, AddressKind::InternalIp, &mut addresses.write_of("a")).is_some()
    };
    assert!(told("10.244.1.7"));
    let other = node("b").with("/spec", "podCIDRs", json!(["10.244.3.0/24"])).object();
    addresses.note(&other);
    store.apply_watcher_event(&Event::Apply(other));
    assert_eq!(["10.244.1.7", "10.244.3.7"].map(told), [false, true]);
}

/// A Node is about to get an address.
fn begin(addresses: &ClusterAddresses, name: &str, text: &str) -> Result<AddressWrite, AddressClash> {
    let place = address_target::AddressTarget::of(text).unwrap();
    let mut write = addresses.write_of(name);
    let new = node(name).tainted().object();
    addresses.clash_of_node(&new, &place, AddressKind::InternalIp, &mut write).map_or(Ok(write), Err)
}

/// Neither was in the store: both got it, and kept it for ever.
#[tokio::test(start_paused = true)]
async fn of_a_node_and_a_service_that_are_written_at_the_same_moment_one_gets_the_address() {
    const IP: &str = "203.0.113.9";
    let (nodes, mut store) = reflector::store::<Node>();
    store.apply_watcher_event(&Event::Apply(node("new").tainted().object()));
    let (services, mut writer) = reflector::store::<Service>();
    let web: Service = service("web").object();
    writer.apply_watcher_event(&Event::Apply(web.clone()));
    for shares_nodes in [false, true] {
        let fresh = || {
            ClusterAddresses::new(AddressSources {
                nodes: Some(nodes.clone()),
                services: Some(services.clone()),
                shares_nodes,
                ..AddressSources::default()
            })
        };
        let take = |addresses: &ClusterAddresses, nodes: bool| {
            let shared = SharedAddresses { services: false, nodes };
            addresses.take_for(&web, &[ip(IP)], shared, |_| false).err().map(|(_, clash)| clash)
        };
        // The Node is the first.
        let of_node = Some(AddressClash::Node("new".to_owned()));
        let addresses = fresh();
        let write = begin(&addresses, "new", IP).unwrap();
        assert_eq!(take(&addresses, false), of_node);
        write.done();
        assert_eq!(take(&addresses, false), of_node, "not seen yet");
        assert_eq!(take(&addresses, true), None, "it is declared and granted");
        let addresses = fresh();
        drop(begin(&addresses, "new", IP).unwrap());
        assert_eq!(take(&addresses, false), None, "that has failed");
        // The Service is.
        let of_web = Some(AddressClash::LoadBalancer("default/web".to_owned())).filter(|_| !shares_nodes);
        assert_eq!(begin(&addresses, "new", IP).err(), of_web, "{shares_nodes}");
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(begin(&addresses, "new", IP).is_ok(), "not for ever");
    }
}

/// What the store shows is being written no more, and the Service's look at the store was before.
#[tokio::test(start_paused = true)]
async fn no_service_gets_an_address_that_the_store_shows_at_a_node_just_after_it_was_looked_for_there() {
    let (nodes, mut store) = reflector::store::<Node>();
    store.apply_watcher_event(&Event::Apply(node("new").tainted().object()));
    let store = RefCell::new(store);
    let (services, mut writer) = reflector::store::<Service>();
    let given_up = service("old").with("/status/loadBalancer", "ingress", json!([{ "ip": "203.0.113.8" }]));
    writer.apply_watcher_event(&Event::Apply(given_up.object()));
    let addresses = ClusterAddresses::new(AddressSources {
        nodes: Some(nodes),
        services: Some(services),
        ..AddressSources::default()
    });
    begin(&addresses, "new", "203.0.113.9").unwrap().done();
    // The Services are gone through after the Nodes.
    let shown = |_: &Service| {
        let new: Node = node("new").address("InternalIP", "203.0.113.9").object();
        store.borrow_mut().apply_watcher_event(&Event::Apply(new.clone()));
        addresses.note(&new);
        true
    };
    let wanted = ["203.0.113.9", "203.0.113.8"].map(ip);
    let taken = addresses.take_for(&service("web").object(), &wanted, SharedAddresses::default(), shown);
    assert_eq!(taken.err(), Some((ip("203.0.113.9"), AddressClash::Node("new".to_owned()))));
}
