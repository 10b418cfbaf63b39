//! Many load balancers from their making to their end, in a cloud where nothing is quick and much fails.

use std::time::Duration;

use ccm_sim_digitalocean::{Act, Certificate, CertificateKind, Droplet, Fault, Requests, When};

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, backends, network, tls};

/// Numbers that have no factor in common: over time, every request meets every fault.
const FAULTS: &[(usize, When, Act)] = &[
    (11, When::Before, Act::Status(503)),
    (13, When::After, Act::Hangup),
    (17, When::After, Act::Truncated),
    (19, When::Before, Act::TooMany(Some(3))),
    (23, When::After, Act::UnknownEnum),
    (29, When::Before, Act::Html(404)),
    (31, When::After, Act::Html(502)),
];

#[tokio::test]
async fn load_balancers_live_in_a_cloud_that_fails_all_the_time() {
    let rig = Rig::start(&[("cluster-id", "c-1")]).await;
    for id in 1..=9 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));
    rig.cloud.set(|settings| {
        settings.listing_lag = Duration::from_secs(5);
        settings.busy = Duration::from_secs(8);
        settings.lock_deletes = true;
        settings.provisioning = Duration::from_secs(45);
    });
    let planned: Vec<_> = FAULTS
        .iter()
        .map(|&(every, when, act)| rig.cloud.plan(Fault { every, ..Fault::new(Requests::All, every, when, act) }))
        .collect();

    let own = |number: usize, mut wish: Wish| {
        let name = format!("{}-{number}", wish.service.name);
        wish.service.uid = format!("{number:0>8}-0000-4000-8000-000000000000");
        wish.set("name", &name);
        wish
    };
    let mut wishes: Vec<Wish> =
        (0..6).map(|number| own(number, if number % 2 == 0 { tls() } else { network() })).collect();
    for wish in &mut wishes {
        wish.until_done(&rig, Call::Ensure, None).await;
    }
    for (number, wish) in wishes.iter_mut().enumerate() {
        wish.set("deny-rules", &format!("ip:203.0.113.{number}"));
        wish.until_done(&rig, Call::Ensure, None).await;
        wish.backends = backends(3..=9);
        wish.until_done(&rig, Call::UpdateBackends, None).await;
    }
    let mut names: Vec<String> = vec![];
    for balancer in rig.cloud.balancers() {
        let number = names.len();
        assert_eq!(balancer.spec.droplet_ids, [3, 4, 5, 6, 7, 8, 9], "{balancer:#?}");
        assert_eq!(balancer.spec.firewall.deny, [format!("ip:203.0.113.{number}")], "{balancer:#?}");
        let own = &wishes[number].service;
        assert_eq!(balancer.spec.tags, ["k8s:c-1", &format!("wasm-ccm-service:{}:default:{}", own.uid, own.name)]);
        names.push(balancer.spec.name);
    }
    assert_eq!(names, ["tls-0", "plain-1", "tls-2", "plain-3", "tls-4", "plain-5"]);
    for wish in &mut wishes {
        wish.until_done(&rig, Call::Delete, None).await;
        assert_eq!(wish.id(), None);
    }
    skip(Duration::from_secs(60)).await;
    assert_eq!(rig.cloud.balancers(), []);
    for (planned, fault) in planned.iter().zip(FAULTS) {
        assert!(planned.struck() > 0, "{fault:?} never came");
    }
    rig.cloud.check().unwrap();
}
