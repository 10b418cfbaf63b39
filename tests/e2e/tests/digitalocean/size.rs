//! A size that the cloud does not change now keeps nothing else waiting.

use std::time::Duration;

use ccm_cloud::{Protocol, Reaction};
use ccm_sim_digitalocean::{BalancerSpec, Droplet, Endpoint};

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, annotation, backends};

const HOUR: Duration = Duration::from_secs(3_600);

async fn rig() -> Rig {
    let rig = Rig::start(&[]).await;
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig
}

fn spec(rig: &Rig) -> BalancerSpec {
    rig.cloud.balancers().remove(0).spec
}

#[tokio::test]
async fn a_size_waits_for_its_hour_and_everything_else_is_done() {
    let rig = rig().await;
    let mut wish = Wish::new("sized", &[(Protocol::Tcp, 80)], &[("size-unit", "1")]);
    wish.until_done(&rig, Call::Ensure, None).await;
    rig.cloud.reset_counters();

    wish.set("size-unit", "3");
    wish.set("deny-rules", "ip:203.0.113.9");
    let failure = wish.call(&rig, Call::Ensure).await.failure.unwrap();
    let message = &failure.message;
    assert_eq!(failure.reaction, Reaction::Pending, "{message}");
    assert!(message.contains("keeps the size 1 node until 20") && !message.contains("at the latest"), "{message}");
    assert_eq!(failure.field, Some(format!("metadata.annotations[{}]", annotation("size-unit"))));
    let after = failure.retry_after.unwrap();
    assert!(after > HOUR - Duration::from_secs(60) && after <= HOUR, "{after:?}");
    assert_eq!((spec(&rig).size_unit, spec(&rig).firewall.deny), (1, vec!["ip:203.0.113.9".to_owned()]));

    // A Node joins, with one write.
    wish.backends = backends(1..=4);
    assert_eq!(wish.call(&rig, Call::UpdateBackends).await.failure, None);
    assert_eq!((spec(&rig).droplet_ids, rig.cloud.count(Endpoint::UpdateBalancer)), (vec![1, 2, 3, 4], 3));
    assert_eq!(wish.call(&rig, Call::Ensure).await.failure.unwrap().reaction, Reaction::Pending);
    assert_eq!(rig.cloud.count(Endpoint::UpdateBalancer), 3, "nothing is written that would be refused");

    skip(HOUR).await;
    wish.until_done(&rig, Call::Ensure, None).await;
    assert_eq!((spec(&rig).size_unit, rig.cloud.count(Endpoint::UpdateBalancer)), (3, 4));
    rig.cloud.check().unwrap();
}

/// Production has changed the rule once. Whoever kept to the documented hour would wait for nothing.
#[tokio::test]
async fn a_cloud_that_takes_a_size_sooner_gets_it_sooner() {
    let rig = rig().await;
    rig.cloud.set(|settings| settings.resize_pause = Duration::from_secs(60));
    let mut wish = Wish::new("sized", &[(Protocol::Tcp, 80)], &[]);
    wish.until_done(&rig, Call::Ensure, None).await;
    wish.set("size-slug", "lb-large");
    wish.until_done(&rig, Call::Ensure, None).await;
    assert_eq!(spec(&rig).size.as_deref(), Some("lb-large"));
    // Taken away: it stays, also with a write for something else.
    wish.service.annotations.remove(&annotation("size-slug"));
    wish.backends = backends(1..=5);
    wish.until_done(&rig, Call::UpdateBackends, None).await;
    assert_eq!((spec(&rig).size.as_deref(), spec(&rig).droplet_ids.len()), (Some("lb-large"), 5));
    rig.cloud.check().unwrap();
}
