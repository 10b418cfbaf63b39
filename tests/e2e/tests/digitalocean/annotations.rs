//! Every annotation with values that it cannot have: the message says what is allowed, and nothing but the Nodes changes in the cloud.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_cloud::{Reaction, Severity};
use ccm_sim_digitalocean::{Balancer, BalancerSpec, Certificate, CertificateKind, Droplet};

use crate::rig::{Rig, skip};
use crate::wish::{Call, ID, Wish, annotation, backends, tls};

/// What is wrong, and what the message has besides the name and the value.
struct Wrong {
    name: &'static str,
    values: &'static [&'static str],
    /// Other annotations that make it matter.
    with: &'static [(&'static str, &'static str)],
    says: &'static [&'static str],
}

const fn wrong(name: &'static str, values: &'static [&'static str], says: &'static [&'static str]) -> Wrong {
    Wrong { name, values, with: &[], says }
}

const FLAG: &[&str] = &["yes", "42", "", "TrUe"];
const NUMBER: &[&str] = &["many", "1.5", "-1", "0x10", "99999999999999999999"];
const PORTS: &[&str] = &["http", "443;8443", "443,"];
const RULES: &[&str] = &["192.0.2.1", "ip:192.0.2", "cidr:192.0.2.1", "cidr:10.0.0.0/33", "ip:1.2.3.4,net:5.6.7.8"];
const TRUE: &[&str] = &["allowed are \"true\", \"false\""];

/// Values that stop everything.
const FATAL: &[Wrong] = &[
    wrong("name", &["-web", "web-", "a b", "web/1", "ä"], &["at most 255 letters"]),
    wrong("type", &["GLOBAL", "regional", "NLB"], &["allowed are REGIONAL, REGIONAL_NETWORK"]),
    wrong("network", &["PUBLIC", "internal"], &["allowed are EXTERNAL, INTERNAL"]),
    wrong("network-stack", &["IPV6", "dualstack"], &["allowed are IPV4, DUALSTACK"]),
    Wrong { with: &[("network", "INTERNAL")], ..wrong("network-stack", &["DUALSTACK"], &["allowed is IPV4"]) },
    wrong("protocol", &["udp", "http3", "HTTP", "tls"], &["allowed are tcp, http, https, http2"]),
    wrong("http-ports", PORTS, &["numbers of Service ports joined by commas"]),
    wrong("tls-ports", PORTS, &["numbers of Service ports joined by commas"]),
    wrong("http2-ports", PORTS, &["numbers of Service ports joined by commas"]),
    Wrong { with: &[("tls-ports", "80,443")], ..wrong("http-ports", &["80"], &["cannot be shared but found: 80"]) },
    wrong("http3-port", &["quic", "443,8443"], &["allowed are whole numbers from 1 to 65535"]),
    wrong("tls-passthrough", &["true"], &["either certificate id should be set or tls pass through"]),
    wrong("redirect-http-to-https", FLAG, TRUE),
    wrong("disable-lets-encrypt-dns-records", FLAG, TRUE),
    wrong("healthcheck-port", &["80,443"], &["only supports a single port, but found multiple"]),
    wrong("healthcheck-port", &["http", "", "-1"], &["allowed is the number of a Service port"]),
    wrong("healthcheck-port", &["81"], &["does not exist on service default/tls"]),
    wrong("healthcheck-port", &["5353"], &["cannot be of protocol type UDP"]),
    wrong("healthcheck-protocol", &["udp", "HTTP", "http2"], &["allowed are tcp, http, https"]),
    wrong("healthcheck-check-interval-seconds", NUMBER, &["allowed are whole numbers from 0"]),
    wrong("healthcheck-response-timeout-seconds", NUMBER, &["allowed are whole numbers from 0"]),
    wrong("healthcheck-unhealthy-threshold", NUMBER, &["allowed are whole numbers from 0"]),
    wrong("healthcheck-healthy-threshold", NUMBER, &["allowed are whole numbers from 0"]),
    wrong("size-slug", &["lb-huge", "LB-SMALL"], &["allowed are lb-small, lb-medium, lb-large"]),
    wrong("size-unit", &["big", "-1", "101", "1.5"], &["allowed are whole numbers from 0 to 100"]),
    wrong("size-slug", &["lb-small"], &["only one of LB size slug and size unit can be provided"]),
    wrong("sticky-sessions-cookie-name", &["", "  "], &["sticky session cookie name not specified, but required"]),
    wrong("sticky-sessions-cookie-ttl", &["", " "], &["sticky session cookie ttl not specified, but required"]),
    wrong("sticky-sessions-cookie-ttl", &["0", "long", "-5", "1m"], &["allowed are whole numbers from 1"]),
    wrong("enable-proxy-protocol", FLAG, TRUE),
    wrong("enable-backend-keepalive", FLAG, TRUE),
    wrong("http-idle-timeout-seconds", &["29", "601", "-1", "forever"], &["allowed are whole numbers from 30 to 600"]),
    wrong("deny-rules", RULES, &["\"ip:ADDRESS\" and \"cidr:NETWORK\" joined by commas"]),
    wrong("allow-rules", RULES, &["\"ip:ADDRESS\" and \"cidr:NETWORK\" joined by commas"]),
];

/// What the Go manager ignores, or takes for another value, without a word, and the value that makes the same load balancer; none where it is
/// as if the annotation were not there. Read carelessly, most of these values would count: in 16 bits, 74536 is 9000 and 65979 is 443.
const HARMLESS: &[(Wrong, Option<&str>)] = &[
    (wrong("http-ports", &["80,74536", "0,80", "80,-1", "-56536,80"], &["which is no port"]), Some("80")),
    (wrong("http3-port", &["444", "0", "65979"], &["is no port of the Service"]), None),
    (wrong("tls-passthrough", FLAG, TRUE), None),
    (
        wrong(
            "sticky-sessions-type",
            &["cookie", "Cookies", "cookies,none", "source_ip"],
            &["none is taken; allowed are cookies, none"],
        ),
        None,
    ),
    (wrong("algorithm", &["random", "LEAST_CONNECTIONS", "least-connections"], &["round_robin is taken"]), None),
    (wrong("healthcheck-check-interval-seconds", &["0"], &["and 10 is taken"]), Some("10")),
    (wrong("healthcheck-response-timeout-seconds", &["0"], &["and 5 is taken"]), Some("5")),
    (wrong("healthcheck-unhealthy-threshold", &["0"], &["and 5 is taken"]), Some("5")),
    (wrong("healthcheck-healthy-threshold", &["0"], &["and 3 is taken"]), Some("3")),
];

/// Annotations that take any text, or whose mistakes only the cloud can see; each with the reason.
const ANY: &[(&str, &str)] = &[
    ("ip", "whether an address is unassigned and of the account knows the cloud"),
    ("subnet-uuid", "which subnets there are knows the cloud"),
    ("hostname", "stands in the status as it is"),
    ("certificate-id", "which certificates there are knows the cloud"),
    ("certificate-name", "likewise"),
    ("override-health-check", "its presence counts"),
    ("healthcheck-path", "any text is a path"),
    ("algorithm", "has no effect; an Event says so"),
    ("sticky-sessions-type", "what is neither is none; an Event says so"),
];

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));
    rig
}

/// The Service of all features, with this instead.
fn wish_with(wrong: &Wrong, value: &str) -> Wish {
    let mut wish = tls();
    for (name, value) in wrong.with {
        wish.set(name, value);
    }
    wish.set(wrong.name, value);
    wish
}

#[tokio::test]
async fn a_wrong_value_is_told_and_what_is_there_follows_the_nodes_alone() {
    let rig = rig().await;
    let mut existing = tls();
    existing.until_done(&rig, Call::Ensure, None).await;
    let before = rig.cloud.balancers();
    rig.cloud.reset_counters();
    for wrong in FATAL {
        for value in wrong.values {
            let new = wish_with(wrong, value);
            let mut old = new.clone();
            old.service.annotations.insert(ID.to_owned(), existing.id().unwrap().to_owned());
            old.service.ingress.clone_from(&existing.service.ingress);
            for (mut wish, is_new) in [(new, true), (old.clone(), false)] {
                let about = format!("{}={value:?} known={}", wrong.name, !is_new);
                let written = wish.service.annotations.clone();
                let failure =
                    wish.call(&rig, Call::Ensure).await.failure.unwrap_or_else(|| panic!("{about} was taken"));
                assert_eq!(failure.reaction, Reaction::Invalid, "{about}: {failure}");
                let shown = value.trim().is_empty() || wrong.says.iter().any(|says| !says.contains("allowed are"));
                let name = annotation(wrong.name);
                assert!(failure.message.contains(&name), "{about} does not name it: {failure}");
                assert!(
                    shown || failure.message.contains(&format!("{value:?}")),
                    "{about} does not show it: {failure}"
                );
                for says in wrong.says {
                    assert!(failure.message.contains(says), "{about} does not say {says:?}: {failure}");
                }
                assert!(failure.field.is_some_and(|field| field.starts_with("metadata.annotations[")), "{about}");
                assert_eq!(wish.service.annotations, written, "{about}");
                let requests = if is_new { rig.requests() } else { rig.cloud.counters().writes };
                assert_eq!(requests, 0, "{about}: {:?}", rig.cloud.exchanges());
            }
            // What is there follows the Nodes all the same, and nothing else of it changes.
            for (call, ids) in [(Call::Ensure, 1..=4), (Call::UpdateBackends, 2..=3), (Call::UpdateBackends, 1..=3)] {
                let about = format!("{call:?} {ids:?} {}={value:?}", wrong.name);
                old.backends = backends(ids.clone());
                let failure = old.call(&rig, call).await.failure;
                assert_eq!(failure.is_some(), call == Call::Ensure, "{about}: {failure:?}");
                let mut droplets = rig.cloud.balancers()[0].spec.droplet_ids.clone();
                droplets.sort_unstable();
                assert_eq!(droplets, ids.collect::<Vec<_>>(), "{about}");
                assert!(rig.cloud.tamper(&before[0].id, |spec| spec.droplet_ids.sort_unstable()));
                skip(Duration::from_secs(60)).await;
            }
            rig.cloud.reset_counters();
        }
    }
    let unlocked = |all: Vec<Balancer>| all.into_iter().map(|balancer| balancer.spec).collect::<Vec<_>>();
    assert_eq!(unlocked(rig.cloud.balancers()), unlocked(before));
    rig.cloud.check().unwrap();
}

/// Who cannot say whether it is theirs gets nothing done, not even a deletion.
#[tokio::test]
async fn a_load_balancer_that_may_be_disowned_is_left_alone() {
    let rig = rig().await;
    let mut wish = tls();
    wish.until_done(&rig, Call::Ensure, None).await;
    let (before, known) = (rig.cloud.balancers(), wish.service.annotations.clone());
    rig.cloud.reset_counters();
    for value in FLAG {
        wish.service.annotations.insert("service.kubernetes.io/do-loadbalancer-disown".to_owned(), (*value).to_owned());
        for call in [Call::Ensure, Call::UpdateBackends, Call::Delete] {
            let failure = wish.call(&rig, call).await.failure.unwrap();
            let message = &failure.message;
            assert_eq!(failure.reaction, Reaction::Invalid, "{call:?} {value:?}: {message}");
            for says in ["failed to get disown LB configuration setting", &format!("{value:?}"), TRUE[0]] {
                assert!(message.contains(says), "{call:?} {value:?}: {message}");
            }
        }
    }
    assert_eq!(rig.requests(), 0);
    wish.service.annotations = known;
    assert_eq!(rig.cloud.balancers(), before);
}

/// What the Service of all features gets with this value of an annotation, or without it, and the warnings about that.
async fn made(rig: &Rig, name: &str, value: Option<&str>) -> (BalancerSpec, Vec<String>) {
    let mut wish = tls();
    match value {
        Some(value) => wish.set(name, value),
        None => drop(wish.service.annotations.remove(&annotation(name))),
    }
    drop(rig.events.take());
    wish.until_done(rig, Call::Ensure, None).await;
    let events = rig.events.take().into_iter();
    let warnings = events.filter(|(severity, ..)| *severity == Severity::Warning).map(|(.., message)| message);
    let balancer = rig.cloud.balancers().pop().unwrap_or_else(|| panic!("{name}={value:?} makes none"));
    wish.until_done(rig, Call::Delete, None).await;
    (balancer.spec, warnings.collect())
}

/// What looks like one of ours and is none, and what has no effect, stops nothing, makes nothing else of the load balancer, and people are
/// told.
#[tokio::test]
async fn what_has_no_effect_is_told_in_an_event() {
    let rig = rig().await;
    for (wrong, like) in HARMLESS {
        let name = annotation(wrong.name);
        let (plain, warnings) = made(&rig, wrong.name, *like).await;
        assert!(!warnings.iter().any(|told| told.contains(&name)), "{name}={like:?}: {warnings:#?}");
        for value in wrong.values {
            let (spec, warnings) = made(&rig, wrong.name, Some(value)).await;
            assert_eq!(spec, plain, "{name}={value:?} makes another one than {like:?}");
            for says in wrong.says.iter().copied().chain([name.as_str()]) {
                assert!(warnings.iter().any(|told| told.contains(says)), "{name}={value:?}: {says}: {warnings:#?}");
            }
        }
    }
    assert_eq!(rig.cloud.balancers(), []);
    rig.cloud.check().unwrap();
}

/// A new annotation has to be in one of the tables.
#[tokio::test]
async fn every_annotation_is_in_a_table() {
    let rig = rig().await;
    let in_tables: BTreeSet<String> =
        FATAL.iter().map(|wrong| wrong.name).chain(ANY.iter().map(|any| any.0)).map(annotation).collect();
    let prefix = annotation("");
    let descriptor = rig.provider.descriptor();
    let declared = descriptor.annotations.iter().map(|declared| declared.name.clone());
    let declared: BTreeSet<String> = declared.filter(|name| name.starts_with(&prefix)).collect();
    assert_eq!(in_tables, declared);
}
