use ccm_sdk::meta::Capability::{LoadBalancers, Routes};
use ccm_sdk::testing::{FakeCloud, Reply};

use super::*;
use crate::config::tests::{config, install};

const LOGIN: &str = "identity POST /v3/auth/tokens";
/// Every kind of service of a catalogue, in the order in which problems are told.
const ALL: [&str; 4] = ["compute", "network", "load-balancer", "key-manager"];

fn balancers(change: impl FnOnce(&mut config::Balancers)) -> Config {
    let mut config = config();
    change(&mut config.balancers);
    config
}

/// A cloud whose catalogue has these, for somebody with a password.
fn cloud_with(kinds: &[&str]) -> FakeCloud {
    let entry = |kind: &&str| {
        let place = serde_json::json!({ "interface": "public", "region": "RegionOne", "url": format!("http://127.0.0.1/{kind}") });
        serde_json::json!({ "type": kind, "endpoints": [place] })
    };
    let catalogue: Vec<_> = kinds.iter().map(entry).collect();
    let body = serde_json::json!({ "token": { "expires_at": "2026-11-20T17:31:03.000000Z", "catalog": catalogue } });
    let login = Reply::json(201, body.to_string()).header("X-Subject-Token", "gAAAAA");
    FakeCloud::new().with_credential("password").always(LOGIN, login)
}

/// Load balancers in spite of `enabled = false` would come where the operator forbade them.
#[test]
fn load_balancers_are_offered_unless_they_are_off_or_missing_and_routes_where_a_router_is_named() {
    let off = || balancers(|balancers| balancers.enabled = false);
    let routed = |config: Config| Config { router: Some("r-1".to_owned()), ..config };
    for (case, config, kinds, expected) in [
        ("as it comes", config(), &ALL[..], vec![LoadBalancers]),
        ("with a router", routed(config()), &ALL, vec![LoadBalancers, Routes]),
        ("switched off", off(), &ALL, vec![]),
        ("switched off, with a router", routed(off()), &ALL, vec![Routes]),
        ("a cloud without", config(), &ALL[..2], vec![]),
        ("a cloud without, with a router", routed(config()), &ALL[..2], vec![Routes]),
    ] {
        let cloud = cloud_with(kinds);
        let _installed = install(config.clone());
        assert_eq!(offers(&config), Ok(expected), "{case}");
        // What is off is not looked for.
        assert_eq!(cloud.lines().is_empty(), !config.balancers.enabled, "{case}: {:?}", cloud.lines());
    }
}

#[test]
fn of_a_catalogue_that_lacks_everything_is_told_what_the_configuration_needs() {
    let tls = |enabled| {
        balancers(|balancers| {
            balancers.enabled = enabled;
            balancers.tls_container = "https://kms/v1/secrets/s-1".to_owned();
        })
    };
    for (case, config, expected) in [
        ("as it comes", config(), &ALL[..3]),
        ("load balancers are off", balancers(|balancers| balancers.enabled = false), &ALL[..2]),
        ("TLS ends with a secret", tls(true), &ALL),
    ] {
        let _cloud = cloud_with(&[]);
        let _installed = install(config.clone());
        let told: Vec<_> = of_cloud(&config).expect("a login").into_iter().map(|problem| problem.field).collect();
        let expected: Vec<_> = expected.iter().map(|kind| format!("endpoint {kind}")).collect();
        assert_eq!(told, expected, "{case}");
    }
}

/// A login with what is wrong would only say so in other words.
#[test]
fn the_cloud_is_asked_where_that_is_wished_and_nothing_is_wrong_before() {
    for (case, keystone, online, lines, problems) in [
        ("online", "https://keystone.example:5000", true, 1, 0),
        ("offline", "https://keystone.example:5000", false, 0, 0),
        ("online, with a URL of a version that is gone", "https://keystone.example:5000/v2.0", true, 0, 1),
    ] {
        let cloud = cloud_with(&ALL);
        KEYSTONE.bind(keystone).expect("it is bound");
        let before = cloud.lines().len();
        let _installed = install(config());
        let found = check(online).expect("checked");
        let logins = cloud.lines()[before..].iter().filter(|line| *line == LOGIN).count();
        assert_eq!((logins, found.len()), (lines, problems), "{case}: {found:?} {:?}", cloud.lines());
    }
}
