//! What an account, a token and a network lack, and a load balancer has in spite of it.

use std::time::Duration;

use ccm_cloud::{Ingress, Protocol, Reaction, Severity};
use ccm_sim_digitalocean::{Certificate, CertificateKind, CertificateState, Droplet, Endpoint, TOKEN};

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, backends};

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig
}

fn wish(annotations: &[(&str, &str)]) -> Wish {
    Wish::new("odd", &[(Protocol::Tcp, 80)], annotations)
}

#[tokio::test]
async fn an_internal_load_balancer_is_reached_at_its_private_address_or_its_name() {
    let rig = rig().await;
    let mut internal = wish(&[("network", "INTERNAL")]);
    internal.until_done(&rig, Call::Ensure, None).await;
    let ip = internal.service.ingress[0].ip.clone().unwrap();
    assert!(ip.starts_with("10.") && internal.service.ingress.len() == 1, "{:?}", internal.service.ingress);

    rig.cloud.set(|settings| settings.tells_internal_addresses = false);
    skip(Duration::from_secs(60)).await;
    let failure = internal.call(&rig, Call::Ensure).await.failure.unwrap();
    assert!(failure.message.contains("tells no address"), "{failure}");
    assert!(failure.retry_after > Some(Duration::from_secs(30)), "it is not looked at all the time: {failure:?}");
    internal.backends = backends(1..=4);
    internal.call(&rig, Call::UpdateBackends).await;
    assert_eq!(rig.cloud.balancers()[0].spec.droplet_ids, [1, 2, 3, 4]);
    internal.set("hostname", "lb.internal");
    internal.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(internal.service.ingress, [Ingress { hostname: Some("lb.internal".to_owned()), ..Ingress::default() }]);
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_not_verified_yet_is_waited_for_without_a_write() {
    let rig = rig().await;
    let made = Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com");
    let id = rig.cloud.put_certificate(Certificate { state: CertificateState::Pending, ..made.clone() });
    let mut secure = wish(&[("type", "REGIONAL"), ("tls-ports", "80"), ("certificate-name", "web")]);
    for _ in 0..3 {
        let failure = secure.call(&rig, Call::Ensure).await.failure.unwrap();
        assert_eq!(failure.reaction, Reaction::Pending, "{failure}");
        skip(Duration::from_secs(60)).await;
    }
    assert_eq!(rig.cloud.counters().writes, 0);
    rig.cloud.put_certificate(Certificate { id: id.clone(), ..made.clone() });
    secure.until_done(&rig, Call::Ensure, None).await;
    // One that cannot be renewed still serves, and Nodes are followed.
    rig.cloud.put_certificate(Certificate { id: id.clone(), state: CertificateState::Error, ..made });
    rig.cloud.put_droplet(Droplet::new(6, "node-6"));
    skip(Duration::from_secs(60)).await;
    secure.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(rig.cloud.balancers()[0].spec.forwarding_rules[0].certificate_id, id);
    rig.cloud.check().unwrap();
}

/// What a token of selected scopes needs by the documentation, all but tags and VPCs.
const SCOPES: &[&str] = &[
    "load_balancer:read",
    "load_balancer:create",
    "load_balancer:update",
    "load_balancer:delete",
    "droplet:read",
    "certificate:read",
    "regions:read",
];

#[tokio::test]
async fn a_token_that_sees_neither_tags_nor_vpcs_serves_load_balancers_of_the_default_name() {
    let rig = rig().await;
    rig.cloud.allow_scopes(TOKEN, SCOPES);
    let mut plain = wish(&[]);
    plain.until_done(&rig, Call::Ensure, None).await;
    let vpc = rig.cloud.balancers()[0].spec.vpc_uuid.clone();
    rig.events.take();
    plain.backends = backends(1..=4);
    plain.until_done(&rig, Call::UpdateBackends, None).await;
    skip(Duration::from_secs(7_200)).await;
    rig.cloud.reset_counters();
    for call in [Call::Ensure, Call::UpdateBackends] {
        plain.until_done(&rig, call, None).await;
    }
    assert_eq!((rig.cloud.counters().writes, rig.events.take().len()), (0, 0));
    let spec = &rig.cloud.balancers()[0].spec;
    assert_eq!((&spec.droplet_ids[..], &spec.vpc_uuid), (&[1, 2, 3, 4][..], &vpc));
    plain.until_done(&rig, Call::Delete, None).await;
    assert_eq!(rig.cloud.balancers(), []);
    rig.cloud.check().unwrap();
}

/// One that asks for a name is made without tag, with a Warning; whose it is the ID on its Service says.
#[tokio::test]
async fn a_token_that_sees_no_tags_makes_what_asks_for_a_name_unmarked() {
    let rig = rig().await;
    rig.cloud.allow_scopes(TOKEN, SCOPES);
    let mut named = wish(&[("name", "shop")]);
    named.until_done(&rig, Call::Ensure, None).await;
    let warned = |(severity, reason, message): &(Severity, String, String)| {
        *severity == Severity::Warning && reason == "LoadBalancerNotMarked" && message.contains("tag:create")
    };
    assert!(rig.events.take().iter().any(warned));
    let mut other = wish(&[("name", "shop")]);
    other.service.uid = "00000002-0000-4000-8000-0000000000aa".to_owned();
    skip(Duration::from_secs(7_200)).await;
    assert_eq!(other.call(&rig, Call::Ensure).await.failure.unwrap().reaction, Reaction::Conflict);
    other.until_done(&rig, Call::Delete, None).await;
    assert_eq!(rig.cloud.balancers().len(), 1);
    named.until_done(&rig, Call::Delete, None).await;
    assert_eq!(rig.cloud.balancers(), []);
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn an_account_that_is_full_is_told_and_the_rest_goes_on() {
    let rig = rig().await;
    let mut first = wish(&[]);
    first.until_done(&rig, Call::Ensure, None).await;
    rig.cloud.set(|settings| settings.balancer_limit = Some(1));
    let mut second = wish(&[]);
    second.service.uid = "00000002-0000-4000-8000-0000000000aa".to_owned();
    let failure = second.call(&rig, Call::Ensure).await.failure.unwrap();
    assert_eq!(failure.reaction, Reaction::Quota, "{failure}");
    assert!(failure.message.contains("limit of 1 load balancers"), "{failure}");
    first.backends = backends(1..=4);
    first.until_done(&rig, Call::UpdateBackends, None).await;
    rig.cloud.set(|settings| settings.balancer_limit = None);
    skip(Duration::from_secs(600)).await;
    second.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(rig.cloud.balancers().len(), 2);
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn one_that_people_have_put_into_a_project_stays_there() {
    let rig = rig().await;
    let mut plain = wish(&[]);
    plain.until_done(&rig, Call::Ensure, None).await;
    let project = rig.cloud.put_project();
    let id = plain.id().unwrap().to_owned();
    assert!(rig.cloud.tamper(&id, |spec| spec.project_id = Some(project.clone())));
    plain.backends = backends(1..=4);
    skip(Duration::from_secs(60)).await;
    plain.until_done(&rig, Call::UpdateBackends, None).await;
    assert_eq!(rig.cloud.count(Endpoint::UpdateBalancer), 1);
    assert_eq!(rig.cloud.balancers()[0].spec.project_id, Some(project));
    rig.cloud.check().unwrap();
}
