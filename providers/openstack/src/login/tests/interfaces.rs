//! Catalogues with a service at several places.

use super::*;
use crate::config::Interface;

/// Where the operator has the controller ask inside, nothing may go to the outside.
#[test]
fn of_several_interfaces_that_of_os_endpoint_type_is_bound_and_no_other_stands_in_for_it() {
    let place = |interface: &str, host: &str| {
        format!(
            r#"{{"interface": "{interface}", "region": "RegionOne", "region_id": "RegionOne", "url": "http://{host}:9696"}}"#
        )
    };
    let all = [place("public", "127.0.0.1"), place("internal", "127.0.0.2"), place("admin", "127.0.0.3")];
    for (interface, places, expected) in [
        (Interface::Public, &all[..], Some("http://127.0.0.1:9696/v2.0")),
        (Interface::Internal, &all, Some("http://127.0.0.2:9696/v2.0")),
        (Interface::Admin, &all, Some("http://127.0.0.3:9696/v2.0")),
        (Interface::Internal, &all[..1], None),
    ] {
        let _installed = install(Config { interface, ..config() });
        let entry = format!(r#"{{"type": "network", "endpoints": [{}]}}"#, places.join(","));
        let body = format!(r#"{{"token": {{"expires_at": "2026-11-20T17:31:03.000000Z", "catalog": [{entry}]}}}}"#);
        let cloud = FakeCloud::new()
            .with_credential(PASSWORD)
            .always(LOGIN, Reply::json(201, body).header("X-Subject-Token", "gAAAAA"));
        assert_eq!(is_reachable(NEUTRON), Ok(expected.is_some()), "{interface:?}");
        let bound: Vec<_> = cloud.lines().into_iter().filter(|line| line.starts_with("bind ")).collect();
        let expected: Vec<_> = expected.into_iter().map(|url| format!("bind network {url}")).collect();
        assert_eq!(bound, expected, "{interface:?}");
    }
}
