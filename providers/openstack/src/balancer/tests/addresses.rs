//! Where clients come to.

use super::*;

const MAKE: &str = "network POST /floatingips";
const PUT: &str = "network PUT /floatingips/fip-1";

fn without() -> FakeCloud {
    cloud_of(&balancer(), &[listener()], &[pool()], &[member(1), member(2)])
}

/// Floating IPs, one list after the other.
fn lists(lists: &[&[Value]]) -> FakeCloud {
    lists.iter().fold(without(), |cloud, list| cloud.on(FLOATING, many("floatingips", list)))
}

fn full() -> Reply {
    let error = json!({ "NeutronError": { "type": "IpAddressGenerationFailure", "message": "No more IP addresses available" } });
    Reply::json(409, error.to_string())
}

#[test]
fn os_108_to_111_the_status_is_a_host_name_or_an_address_with_its_mode() {
    let mut named = usual();
    named.balancers.ingress_hostname = true;
    let proxy = (names::PROXY_PROTOCOL, "true");
    for (case, config, annotations, ip, hostname, mode) in [
        ("os_108", usual(), vec![(names::HOSTNAME, "web.example.com"), proxy], None, Some("web.example.com"), None),
        ("os_109", named.clone(), vec![proxy], None, Some("203.0.113.7.nip.io"), None),
        ("os_110", named, vec![], Some("203.0.113.7"), None, Some(ccm_sdk::types::IpMode::Vip)),
        ("os_111", usual(), vec![proxy], Some("203.0.113.7"), None, Some(ccm_sdk::types::IpMode::Proxy)),
    ] {
        let (host, service) = (host(), service(&annotations));
        let found = Work::read(&config, &host, &service).0.ingress("203.0.113.7").remove(0);
        assert_eq!((found.ip.as_deref(), found.hostname.as_deref(), found.ip_mode), (ip, hostname, mode), "{case}");
    }
}

#[test]
fn os_210_one_that_becomes_internal_gives_its_floating_ip_back_or_lets_go_of_it() {
    let mine = with(floating(), json!({ "description": "mine" }));
    let of = |whose: &str| {
        with(
            floating(),
            json!({ "description": format!("Floating IP for Kubernetes external service default/{whose}") }),
        )
    };
    let gone = "network DELETE /floatingips/fip-1";
    let detached = json!({ "floatingip": { "port_id": null } });
    for (case, floating, annotations, line, body) in [
        ("os_210", mine, vec![], PUT, detached.clone()),
        ("os_210", floating(), vec![(names::KEEP_FLOATING_IP, "true")], PUT, detached),
        ("one that was made for it", floating(), vec![], gone, Value::Null),
        ("one of the Go manager", of("test from cluster kubernetes"), vec![], gone, Value::Null),
        ("os_210", of("other from cluster kubernetes"), vec![], PUT, json!({ "floatingip": { "port_id": null } })),
        ("os_210", of("test from cluster b"), vec![], PUT, json!({ "floatingip": { "port_id": null } })),
    ] {
        let cloud = lists(&[&[floating]]).on(line, Reply::json(200, "{}"));
        let done = run(&settled(&[&annotations[..], &[(names::INTERNAL, "true")]].concat()));
        assert_eq!(ips(&done), ["10.1.0.100"], "{case}");
        assert_eq!(writes(&cloud), [(line.to_owned(), body)], "{case}");
    }
}

/// Octavia gives it when it makes the load balancer, and never another one.
#[test]
fn that_the_own_address_of_a_load_balancer_stays_is_told_to_who_asks_for_another() {
    let (internal, floating) = ((names::INTERNAL, "true"), floating());
    let v6 = [ccm_sdk::types::IpFamily::Ipv6];
    for (case, annotations, vip, families, asked, is_told) in [
        ("another", vec![internal], "10.1.0.100", &[][..], "10.1.0.77", true),
        ("this one", vec![internal], "10.1.0.100", &[], "10.1.0.100", false),
        ("another one of IPv6", vec![], "fd00::100", &v6[..], "fd00::77", true),
        ("in another spelling", vec![], "fd00::100", &v6[..], "fd00:0:0::0100", false),
        ("that of a floating IP", vec![], "10.1.0.100", &[], "203.0.113.7", false),
    ] {
        let has_floating = asked == "203.0.113.7";
        let listener =
            with(listener(), json!({ "allowed_cidrs": [if families.is_empty() { "0.0.0.0/0" } else { "::/0" }] }));
        let cloud = cloud_of(&with(balancer(), json!({ "vip_address": vip })), &[listener], &[pool()], &[])
            .on(FLOATING, many("floatingips", if has_floating { std::slice::from_ref(&floating) } else { &[] }));
        let mut service = settled(&annotations);
        (service.ip_families, service.requested_ip) = (families.to_vec(), Some(asked.to_owned()));
        let done = ensure(&usual(), &host(), &service, &[]);
        assert_eq!(ips(&done), [if has_floating { asked } else { vip }], "{case}: {:?}", done.outcome);
        let told = format!("spec.loadBalancerIP asks for {asked}, and load balancer lb-1 keeps its address {vip}");
        let found = done.warnings.iter().filter(|(reason, _)| *reason == "LoadBalancerImmutableField");
        let found: Vec<_> = found.map(|(_, message)| message.starts_with(&told)).collect();
        assert_eq!(found, if is_told { vec![true] } else { vec![] }, "{case}: {:?}", done.warnings);
        assert_eq!(written(&cloud), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn an_address_that_is_asked_for_is_attached_where_it_is_free_and_refused_where_it_is_not() {
    let mut service = settled(&[]);
    service.address_asked("203.0.113.9");
    let free =
        with(floating(), json!({ "floating_ip_address": "203.0.113.9", "port_id": null, "description": "mine" }));
    let cloud = lists(&[&[], std::slice::from_ref(&free)]).on(PUT, Reply::json(200, "{}"));
    assert_eq!(ips(&run(&service)), ["203.0.113.9"]);
    assert_eq!(writes(&cloud), [(PUT.to_owned(), json!({ "floatingip": { "port_id": "port-1" } }))]);
    let taken = with(free, json!({ "port_id": "port-9" }));
    let cloud = lists(&[&[], &[taken]]);
    let done = run(&service);
    let failure = done.outcome.failure.as_ref().expect("it is taken");
    let told = (failure.reaction, failure.field.as_deref(), failure.retry_after_ms);
    assert_eq!(told, (Reaction::Conflict, Some("spec.loadBalancerIP"), Some(60_000)));
    assert_eq!(written(&cloud), Vec::<String>::new());
    assert!(
        message(&done).contains("floating IP 203.0.113.9 is not available: port port-9 has it; choose another address"),
        "{}",
        message(&done)
    );
    // One that is there is not exchanged.
    let done = {
        let _cloud = whole();
        run(&service)
    };
    assert_eq!((ips(&done), done.warnings[0].0), (vec!["203.0.113.7"], "LoadBalancerImmutableField"));
}

/// It may be given up again, and a right be granted: neither waits for the Service to change.
#[test]
fn an_address_that_the_cloud_does_not_give_is_told_with_its_field_and_asked_for_again() {
    let neutron = |status: u16, kind: &str| {
        let words = json!({ "NeutronError": { "type": kind, "message": "no" } });
        Reply::json(status, words.to_string())
    };
    for (status, kind, reaction, after) in [
        (409, "IpAddressInUse", Reaction::Conflict, Some(60_000)),
        // The credentials are good: nothing else has to wait for others.
        (403, "PolicyNotAuthorized", Reaction::Retry, Some(300_000)),
    ] {
        let mut service = settled(&[]);
        service.address_asked("203.0.113.9");
        service.ingress.clear();
        let _cloud = lists(&[&[], &[], &[]]).on(MAKE, neutron(status, kind));
        let failure = run(&service).outcome.failure.expect("it is refused");
        let told = (failure.reaction, failure.field.as_deref(), failure.retry_after_ms);
        assert_eq!(told, (reaction, Some("spec.loadBalancerIP"), after), "{}", failure.message);
    }
}

trait Asking {
    fn address_asked(&mut self, address: &str);
}

impl Asking for Service {
    fn address_asked(&mut self, address: &str) {
        self.requested_ip = Some(address.to_owned());
    }
}

#[test]
fn the_address_that_the_service_had_comes_back_with_a_new_load_balancer() {
    let free = with(floating(), json!({ "port_id": null }));
    let cloud = lists(&[&[], &[free]]).on(PUT, Reply::json(200, "{}"));
    assert_eq!(ips(&run(&settled(&[]))), ["203.0.113.7"]);
    assert_eq!(written(&cloud), [PUT]);
}

/// What it publishes does not say which address it had.
#[test]
fn a_service_that_is_published_by_a_host_name_keeps_its_floating_ip_with_a_new_load_balancer() {
    let free = with(floating(), json!({ "port_id": null }));
    let other = with(free.clone(), json!({ "id": "fip-2", "floating_ip_address": "203.0.113.8" }));
    let attached = [(PUT.to_owned(), json!({ "floatingip": { "port_id": "port-1" } }))];
    let named = |name: &str, annotations: &[(&str, &str)]| Service {
        ingress: vec![Ingress::hostname(name)],
        ..settled(&[annotations, &[(names::HOSTNAME, "web.example.com")]].concat())
    };
    let without_address = |mut service: Service| {
        service.annotations.retain(|(name, _)| name != names::ADDRESS);
        service
    };
    let mut noted = without_address(named("web.example.com", &[]));
    noted.annotations.push((names::ADDRESS.to_owned(), "10.1.0.100".to_owned()));
    for (case, service, by, found) in [
        (
            "by the address that was noted",
            named("web.example.com", &[]),
            "floating_ip_address=203.0.113.7",
            vec![vec![], vec![free.clone()]],
        ),
        (
            "by the address in the name",
            without_address(named("203.0.113.7.nip.io", &[])),
            "floating_ip_address=203.0.113.7",
            vec![vec![], vec![free.clone()]],
        ),
        (
            "by its description",
            without_address(named("web.example.com", &[])),
            "description=",
            vec![vec![], vec![with(other.clone(), json!({ "port_id": "port-9" })), free.clone()]],
        ),
        (
            "by its description, where the load balancer's own address was noted meanwhile",
            noted,
            "description=",
            vec![vec![], vec![free]],
        ),
    ] {
        let lists_of: Vec<&[Value]> = found.iter().map(Vec::as_slice).collect();
        let cloud = lists(&lists_of).on(PUT, Reply::json(200, "{}"));
        assert_eq!(run(&service).outcome.failure, None, "{case}");
        assert_eq!(writes(&cloud), attached, "{case}");
        let asked: Vec<_> = cloud.lines().into_iter().filter(|line| line.starts_with(FLOATING)).collect();
        assert!(asked.len() == 2 && asked[1].contains(by), "{case}: {asked:?}");
    }
    // One of a namesake in another cluster is not taken.
    let namesakes = with(
        other,
        json!({ "description": "Floating IP for Kubernetes external service default/test from cluster kubernetes (UID uid-2)" }),
    );
    let cloud = lists(&[&[], &[namesakes]]).on(MAKE, Reply::json(201, json!({ "floatingip": floating() }).to_string()));
    run(&without_address(named("web.example.com", &[])));
    assert_eq!(written(&cloud), [MAKE]);
}

#[test]
fn the_address_of_before_stays_noted_while_a_new_load_balancer_is_made() {
    let made = with(balancer(), json!({ "provisioning_status": "PENDING_CREATE" }));
    let cloud = FakeCloud::new()
        .with_credential("session-token")
        .always(LIST, many("loadbalancers", &[]))
        .on(POST, Reply::json(201, json!({ "loadbalancer": made }).to_string()));
    let done = run(&service(&[(names::ADDRESS, "203.0.113.7")]));
    assert_eq!((annotated(&done, names::ID), annotated(&done, names::ADDRESS)), (Some("lb-1"), None));
    assert_eq!(written(&cloud), [POST]);
}

#[test]
fn os_188_an_external_network_whose_subnets_are_not_seen_is_good() {
    let mut config = usual();
    config.balancers.place.floating_network.clear();
    let network = |id: &str, subnets: &[&str]| json!({ "id": id, "name": id, "subnets": subnets });
    let v6 =
        json!({ "id": "s-6", "name": "six", "network_id": "v6", "ip_version": 6, "cidr": "fd00::/64", "tags": [] });
    let made = Reply::json(201, json!({ "floatingip": floating() }).to_string());
    let cloud = lists(&[&[]])
        .on(
            "network GET /networks",
            many("networks", &[network("none", &[]), network("v6", &["s-6"]), network("public", &["s-1"])]),
        )
        .on("network GET /subnets?network_id=v6&limit=1000", many("subnets", &[v6]))
        .on("network GET /subnets?network_id=public&limit=1000", many("subnets", &[]))
        .on(MAKE, made);
    let mut service = settled(&[]);
    service.ingress.clear();
    ensure(&config, &host(), &service, &nodes());
    assert_eq!(writes(&cloud)[0].1["floatingip"]["floating_network_id"], "public", "os_188");
    // Without any, the load balancer's own address is published.
    let cloud = lists(&[&[]]).on("network GET /networks", many("networks", &[]));
    let done = ensure(&config, &host(), &service, &nodes());
    assert_eq!((ips(&done), written(&cloud)), (vec!["10.1.0.100"], vec![]));
    assert!(done.warnings.iter().any(|(reason, _)| *reason == "LoadBalancerForcedInternal"), "{:?}", done.warnings);
}

#[test]
fn os_211_only_a_subnet_that_is_full_leads_to_the_next() {
    let subnet = |id: &str, name: &str| json!({ "id": id, "name": name, "network_id": "public", "ip_version": 4, "cidr": "203.0.113.0/24", "tags": [] });
    let all = [subnet("s-1", "public-a"), subnet("s-2", "public-b"), subnet("s-3", "dmz")];
    let made = Reply::json(201, json!({ "floatingip": floating() }).to_string());
    let refused =
        Reply::json(403, json!({ "NeutronError": { "type": "PolicyNotAuthorized", "message": "no" } }).to_string());
    let quota = Reply::json(
        409,
        json!({ "NeutronError": { "type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip']." } })
            .to_string(),
    );
    for (case, first, tried) in
        [("os_211", full(), vec!["s-1", "s-2"]), ("os_211", refused, vec!["s-1"]), ("os_211", quota, vec!["s-1"])]
    {
        let cloud =
            lists(&[&[]]).always("network GET /subnets", many("subnets", &all)).on(MAKE, first).on(MAKE, made.clone());
        let mut service = settled(&[(names::FLOATING_SUBNET, "public-*")]);
        service.ingress.clear();
        let done = run(&service);
        let asked: Vec<_> =
            writes(&cloud).into_iter().map(|(_, body)| body["floatingip"]["subnet_id"].clone()).collect();
        assert_eq!(asked, tried, "{case}");
        assert_eq!(done.outcome.failure.is_none(), tried.len() == 2, "{case}");
    }
}

#[test]
fn a_subnet_of_another_network_is_refused_before_the_cloud_does() {
    let other = json!({ "id": "s-9", "name": "s", "network_id": "elsewhere", "ip_version": 4, "cidr": "10.0.0.0/8", "tags": [] });
    let cloud = lists(&[&[]]).on("network GET /subnets/s-9", one("subnet", &other));
    let mut service = settled(&[(names::FLOATING_SUBNET_ID, "s-9")]);
    service.ingress.clear();
    let done = run(&service);
    assert_eq!((reaction(&done), written(&cloud)), (Reaction::Invalid, vec![]));
    assert!(message(&done).contains("doesn't belong to the network \"public\""), "{}", message(&done));
}

/// It was found out when the load balancer was there already, and an annotation was to blame that nobody had set.
#[test]
fn a_pattern_of_subnets_that_is_none_makes_no_load_balancer_and_names_who_has_it() {
    let annotation = Some(ccm_sdk::annotations::field(names::FLOATING_SUBNET));
    let mut configured = usual();
    configured.balancers.place.floating_subnet = "~(".to_owned();
    let mut classed = usual();
    let class = crate::config::Class { floating_subnet: "~(".to_owned(), ..crate::config::Class::default() };
    classed.classes = vec![("dmz".to_owned(), class)];
    let slowly = Some(300_000);
    for (config, annotations, start, reaction, field, after) in [
        (&configured, &[][..], "floating-subnet in [LoadBalancer]: invalid", Reaction::Retry, &None, slowly),
        (
            &classed,
            &[(names::CLASS, "dmz"), (names::FLOATING_SUBNET, "a*")],
            "floating-subnet in [LoadBalancerClass \"dmz\"]: invalid",
            Reaction::Retry,
            &None,
            slowly,
        ),
        (&usual(), &[(names::FLOATING_SUBNET, "~(")], "invalid subnet", Reaction::Invalid, &annotation, None),
    ] {
        let cloud = FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[]));
        let failure = ensure(config, &host(), &service(annotations), &nodes()).outcome.failure.expect("it is none");
        assert!(failure.message.starts_with(start), "{}", failure.message);
        assert_eq!((failure.reaction, &failure.field, failure.retry_after_ms), (reaction, field, after), "{start}");
        assert_eq!(written(&cloud), Vec::<String>::new());
        // One that is there keeps its floating IP, and needs no other.
        let _cloud = whole();
        assert_eq!(ensure(config, &host(), &settled(annotations), &nodes()).outcome.failure, None, "{start}");
        // One that has none is told the same.
        let cloud = lists(&[&[], &[], &[]]);
        let mut settled = settled(annotations);
        settled.ingress.clear();
        let failure = ensure(config, &host(), &settled, &nodes()).outcome.failure.expect("it has none");
        assert!(failure.message.starts_with(start) && failure.reaction == reaction, "{}", failure.message);
        assert_eq!(written(&cloud), Vec::<String>::new());
        // One whose load balancer is gone gets its floating IP again: it keeps its address.
        let cloud = FakeCloud::new()
            .with_credential("session-token")
            .always(GET, not_found())
            .always(LIST, many("loadbalancers", &[]))
            .on(POST, Reply::json(201, json!({ "loadbalancer": balancer() }).to_string()));
        settled.ingress = vec![Ingress::ip("203.0.113.7")];
        assert_eq!(super::reaction(&ensure(config, &host(), &settled, &nodes())), Reaction::Pending, "{start}");
        assert_eq!(written(&cloud), [POST]);
        // An internal one needs none.
        let made = Reply::json(201, json!({ "loadbalancer": balancer() }).to_string());
        let _cloud =
            FakeCloud::new().with_credential("session-token").always(LIST, many("loadbalancers", &[])).on(POST, made);
        let internal = service(&[annotations, &[(names::INTERNAL, "true")]].concat());
        assert_eq!(super::reaction(&ensure(config, &host(), &internal, &nodes())), Reaction::Pending, "{start}");
    }
}
