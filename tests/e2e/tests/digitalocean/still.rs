//! What is as its Service asks for is left alone, whatever the cloud makes of what it was asked.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{LoadBalancers as _, Protocol, Standing, Wish as Surveyed};
use ccm_sim_digitalocean::{BalancerSpec, Droplet, Endpoint};

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish};

const PORTS: &[(Protocol, u16)] = &[(Protocol::Tcp, 80), (Protocol::Udp, 5_353)];

const OVERRIDE: (&str, &str) = ("override-health-check", "");

/// All that only load balancers of type `REGIONAL` have.
const REGIONAL_ONLY: &[(&str, &str)] = &[
    ("type", "REGIONAL_NETWORK"),
    ("sticky-sessions-type", "cookies"),
    ("sticky-sessions-cookie-name", "DO-LB"),
    ("sticky-sessions-cookie-ttl", "300"),
    ("redirect-http-to-https", "true"),
    ("enable-proxy-protocol", "true"),
    ("enable-backend-keepalive", "true"),
    ("disable-lets-encrypt-dns-records", "true"),
    ("http-idle-timeout-seconds", "120"),
];

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    for id in 1..=4 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig
}

async fn made(rig: &Rig, annotations: &[(&str, &str)]) -> Wish {
    let mut wish = Wish::new("still", PORTS, annotations);
    wish.until_done(rig, Call::Ensure, None).await;
    wish
}

/// Every way to look at it finds nothing to do.
async fn is_left_alone(rig: &Rig, wish: &mut Wish, about: &str) {
    skip(Duration::from_secs(2 * 3_600)).await;
    rig.cloud.reset_counters();
    for call in [Call::Ensure, Call::UpdateBackends, Call::Ensure] {
        wish.until_done(rig, call, None).await;
    }
    let surveyed = Surveyed { service: wish.service.clone(), backends: vec![0, 1, 2] };
    let standings = rig.provider.survey(Arc::clone(&wish.backends), vec![surveyed]).await.unwrap();
    assert_eq!(standings, [Standing::InStep(wish.service.ingress.clone())], "{about}");
    assert_eq!(rig.cloud.counters().writes, 0, "{about}: {:#?}", rig.cloud.exchanges());
}

async fn gone(rig: &Rig, wish: &mut Wish) {
    wish.until_done(rig, Call::Delete, None).await;
    skip(Duration::from_secs(60)).await;
}

/// The cloud answers `/` where no path was sent, and has one for a check that knows none.
#[tokio::test]
async fn a_health_check_of_ones_own_is_written_once() {
    let rig = rig().await;
    for kind in ["REGIONAL", "REGIONAL_NETWORK"] {
        for check in [
            &[][..],
            &[("healthcheck-protocol", "http")],
            &[("healthcheck-path", "/")],
            &[("healthcheck-path", "/health")],
            &[("healthcheck-path", "/health"), ("healthcheck-protocol", "tcp")],
        ] {
            let mut wish = made(&rig, &[check, &[("type", kind), OVERRIDE]].concat()).await;
            is_left_alone(&rig, &mut wish, &format!("{kind} {check:?}")).await;
            gone(&rig, &mut wish).await;
        }
    }
    let mut wish = made(&rig, &[OVERRIDE]).await;
    let check = rig.cloud.balancers()[0].spec.health_check.clone();
    assert_eq!((check.protocol.as_str(), check.path.as_str()), ("tcp", "/"));
    // Somebody else's path for a check that has none changes nothing; one for a check that has one does.
    let id = wish.id().unwrap().to_owned();
    assert!(rig.cloud.tamper(&id, |spec| spec.health_check.path = "/elsewhere".to_owned()));
    is_left_alone(&rig, &mut wish, "tcp").await;
    wish.set("healthcheck-protocol", "http");
    wish.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(rig.cloud.balancers()[0].spec.health_check.path, "/");
    assert!(rig.cloud.tamper(&id, |spec| spec.health_check.path = "/elsewhere".to_owned()));
    rig.cloud.reset_counters();
    wish.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(rig.cloud.count(Endpoint::UpdateBalancer), 1);
    rig.cloud.check().unwrap();
}

/// Whether the cloud keeps what has no effect there, or what somebody else wrote, or ignores it.
#[tokio::test]
async fn a_network_load_balancer_is_not_asked_for_what_it_cannot_do() {
    let rig = rig().await;
    let mut wish = made(&rig, REGIONAL_ONLY).await;
    let own = rig.cloud.balancers().remove(0);
    let can = |spec: &BalancerSpec| {
        (
            spec.sticky_sessions.kind.clone(),
            [spec.redirect_http_to_https, spec.enable_proxy_protocol, spec.enable_backend_keepalive],
            (spec.disable_lets_encrypt_dns_records, spec.http_idle_timeout_seconds),
        )
    };
    let nothing = ("none".to_owned(), [false; 3], (false, 60));
    assert_eq!(can(&own.spec), nothing);
    assert_eq!(wish.service.ingress[0].ip_mode, None, "packets pass through as they are");
    let mut exchanges = rig.cloud.exchanges().into_iter();
    let sent = exchanges.find(|exchange| exchange.endpoint == Some(Endpoint::CreateBalancer)).unwrap().request;
    for word in ["cookie", "redirect", "enable_proxy", "keepalive", "http_idle"] {
        assert!(!sent.contains(word), "{word}: {sent}");
    }
    is_left_alone(&rig, &mut wish, "ignored").await;

    // A cloud that keeps them, and the Go manager that has sent them.
    assert!(rig.cloud.tamper(&own.id, |spec| {
        spec.sticky_sessions.kind = "cookies".to_owned();
        spec.sticky_sessions.cookie_name = Some("DO-LB".to_owned());
        spec.sticky_sessions.cookie_ttl_seconds = Some(300);
        spec.redirect_http_to_https = true;
        spec.enable_proxy_protocol = true;
        spec.enable_backend_keepalive = true;
        spec.disable_lets_encrypt_dns_records = true;
        spec.http_idle_timeout_seconds = 120;
    }));
    is_left_alone(&rig, &mut wish, "kept").await;
    assert_eq!(wish.service.ingress[0].ip_mode, None, "packets pass through as they are");
    let warned = rig.events.take().into_iter().map(|(_, _, message)| message).collect::<Vec<_>>().join("\n");
    for (name, _) in REGIONAL_ONLY.iter().filter(|(name, _)| !name.contains("cookie") && *name != "type") {
        assert!(warned.contains(&format!("do-loadbalancer-{name} has no effect")), "{name}: {warned}");
    }
    rig.cloud.check().unwrap();
}
