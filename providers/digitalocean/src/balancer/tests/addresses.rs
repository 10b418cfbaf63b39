//! Addresses that an answer does not tell.

use super::*;

fn v4() -> Vec<Ingress> {
    vec![Ingress::ip("203.0.113.7")]
}

/// What each call says of it.
fn told(service: &Service, has: &Value) -> [Vec<Ingress>; 4] {
    let _cloud = FakeCloud::new().always(LIST, many(std::slice::from_ref(has))).always(GET, one(has));
    let wish = Wish { service: service.clone(), backends: vec![0, 1] };
    let standing = standings(&config(), &[wish]).remove(0);
    let Standing::InStep(surveyed) = standing else { panic!("{standing:?}") };
    [
        addresses(&ensure(&config(), service, &nodes())),
        addresses(&update_backends(&config(), service, &nodes())),
        get(&config(), service).unwrap().unwrap(),
        surveyed,
    ]
}

#[test]
fn the_ipv6_address_that_is_known_stays_until_an_answer_names_another() {
    for missing in [json!({"ipv6": ""}), json!({"ipv6": null}), json!({"ipv6": null, "network_stack": null})] {
        let has = changed("lb-1", missing);
        assert!(told(&settled_service(&[]), &has).iter().all(|told| *told == both()), "{has}");
        // Nothing is known of it.
        assert!(
            told(&Service { ingress: v4(), ..settled_service(&[]) }, &has).iter().all(|told| *told == v4()),
            "{has}"
        );
        // What is known is that of another one.
        let of_another = vec![Ingress::ip("203.0.113.8"), Ingress::ip("2604:a880::8")];
        let service = Service { ingress: of_another, ..settled_service(&[]) };
        assert!(told(&service, &has).iter().all(|told| *told == v4()), "{has}");
    }
    let other = changed("lb-1", json!({"ipv6": "2604:a880::9"}));
    let both_now = vec![Ingress::ip("203.0.113.7"), Ingress::ip("2604:a880::9")];
    assert!(told(&settled_service(&[]), &other).iter().all(|told| *told == both_now));
    // It has none.
    let single = changed("lb-1", json!({"ipv6": null, "network_stack": "IPV4"}));
    assert!(told(&settled_service(&[]), &single).iter().all(|told| *told == v4()));
}

#[test]
fn the_answer_to_a_change_may_lack_it_too_and_one_in_another_ones_place_has_its_own() {
    let differs = changed("lb-1", json!({"droplet_ids": []}));
    let lacks = changed("lb-1", json!({"ipv6": null}));
    let _cloud = FakeCloud::new().on(GET, one(&differs)).on(PUT, one(&lacks));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), both());
    // With the same reserved IPv4 address.
    let new = changed("lb-2", json!({"ipv6": null}));
    let _cloud = FakeCloud::new().on(GET, not_found()).on(LIST, many(&[])).on(POST, one(&new));
    assert_eq!(addresses(&ensure(&config(), &settled_service(&[]), &nodes())), v4());
}

#[test]
fn how_traffic_comes_through_is_that_of_now() {
    let proxied = |ip: &str| Ingress::ip(ip).proxied();
    let has = changed("lb-1", json!({"type": "REGIONAL", "enable_proxy_protocol": true, "ipv6": null}));
    let _cloud = FakeCloud::new().on(GET, one(&has));
    let found = get(&config(), &settled_service(&[]));
    assert_eq!(found, Ok(Some(vec![proxied("203.0.113.7"), proxied("2604:a880::7")])));
}
