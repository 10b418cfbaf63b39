//! Nothing goes beyond what a token may ask for, however much there is to do.

use std::time::Duration;

use ccm_cloud::Reaction;
use ccm_sim_digitalocean::Droplet;
use futures::future::join_all;

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, network};

/// More than the writes of a minute.
const SERVICES: usize = 300;
const PER_MINUTE: usize = 250;

#[tokio::test]
async fn more_load_balancers_than_a_minute_has_requests_are_made_in_two_without_a_429() {
    let rig = Rig::with_quota().await;
    for id in 1..=3 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig.cloud.set(|settings| settings.provisioning = Duration::ZERO);
    let mut wishes: Vec<Wish> = (0..SERVICES).map(|_| network()).collect();
    for (number, wish) in wishes.iter_mut().enumerate() {
        wish.service.uid = format!("{number:0>8}-0000-4000-8000-000000000000");
        wish.set("name", &format!("web-{number}"));
    }
    // Until the cloud has told tags once, a listing for a Service with a name of its own is not that of others: one made a moment ago
    // might be another Service's. Those that begin together before the first answer cannot know, so that one comes first.
    let first = wishes[0].call(&rig, Call::Ensure).await;
    assert!(first.failure.is_none(), "{first:?}");
    let outcomes = join_all(wishes.iter_mut().map(|wish| wish.call(&rig, Call::Ensure))).await;
    let failures: Vec<_> = outcomes.into_iter().filter_map(|outcome| outcome.failure).collect();
    assert_eq!(rig.requests(), PER_MINUTE);
    assert!(failures.len() > SERVICES - PER_MINUTE, "reads count as well");
    for failure in failures {
        let after = failure.retry_after.unwrap_or_default();
        assert!(failure.reaction == Reaction::Throttled && after > Duration::from_secs(30), "{failure:?}");
    }
    // Whoever comes before the time makes nothing worse.
    join_all(wishes.iter_mut().map(|wish| wish.call(&rig, Call::Ensure))).await;
    assert_eq!(rig.requests(), PER_MINUTE);
    skip(Duration::from_secs(61)).await;
    let open = wishes.iter_mut().filter(|wish| wish.id().is_none());
    let outcomes = join_all(open.map(|wish| wish.call(&rig, Call::Ensure))).await;
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "{outcomes:?}");
    assert_eq!((rig.cloud.balancers().len(), rig.cloud.counters().too_many), (SERVICES, 0));
    rig.cloud.check().unwrap();
}
