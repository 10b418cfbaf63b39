//! Load balancers are served also where their list is large, or cannot be had.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{LoadBalancers as _, Protocol, Standing, Wish as Surveyed};
use ccm_sim_digitalocean::{Act, Droplet, Endpoint, Fault, Requests, When};
use futures::future::join_all;

use crate::rig::{Rig, skip};
use crate::wish::{Call, Wish, backends};

const MANY: usize = 100;

/// A cloud with so many load balancers, and their Services.
async fn rig(many: usize) -> (Rig, Vec<Wish>) {
    let rig = Rig::start(&[]).await;
    rig.cloud.set(|settings| settings.provisioning = Duration::ZERO);
    for id in 1..=5 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    let mut wishes: Vec<Wish> =
        (0..many).map(|number| Wish::new(&format!("web-{number}"), &[(Protocol::Tcp, 80)], &[])).collect();
    for (number, wish) in wishes.iter_mut().enumerate() {
        wish.service.uid = format!("{number:0>8}-0000-4000-8000-000000000000");
    }
    join_all(wishes.iter_mut().map(|wish| wish.until_done(&rig, Call::Ensure, None))).await;
    skip(Duration::from_secs(60)).await;
    rig.cloud.reset_counters();
    (rig, wishes)
}

/// A Node joins all of them.
async fn join(rig: &Rig, wishes: &mut [Wish]) {
    for wish in wishes.iter_mut() {
        wish.backends = backends(1..=4);
    }
    join_all(wishes.iter_mut().map(|wish| wish.until_done(rig, Call::UpdateBackends, None))).await;
    for balancer in rig.cloud.balancers() {
        assert_eq!(balancer.spec.droplet_ids, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn a_hundred_load_balancers_follow_a_node_with_a_hundred_writes_and_a_listing() {
    let (rig, mut wishes) = rig(MANY).await;
    join(&rig, &mut wishes).await;
    let counters = rig.cloud.counters();
    assert_eq!(counters.writes, MANY);
    assert!(counters.reads <= 4, "{counters:?}");
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn pages_that_are_too_much_for_the_cloud_become_smaller() {
    let (rig, mut wishes) = rig(MANY).await;
    // Some ten load balancers.
    rig.cloud.set(|settings| settings.answer_bytes = 12_000);
    join(&rig, &mut wishes).await;
    let counters = rig.cloud.counters();
    assert_eq!(counters.writes, MANY);
    assert_eq!(rig.cloud.count(Endpoint::Balancers) + rig.cloud.count(Endpoint::Balancer), counters.reads);
    let listed = rig.cloud.exchanges().into_iter().filter(|exchange| exchange.endpoint == Some(Endpoint::Balancers));
    let sizes: Vec<_> = listed.map(|exchange| exchange.uri.rsplit('=').next().unwrap().to_owned()).collect();
    assert!(sizes.contains(&"50".to_owned()) && sizes.contains(&"25".to_owned()), "{sizes:?}");
    rig.cloud.check().unwrap();
}

#[tokio::test]
async fn a_node_that_joins_an_update_and_a_deletion_need_no_listing() {
    let (rig, mut wishes) = rig(6).await;
    let lost = Fault::new(Requests::Of(Endpoint::Balancers), 1, When::Before, Act::Status(504));
    rig.cloud.plan(Fault { times: usize::MAX, ..lost });
    join(&rig, &mut wishes).await;
    for (number, wish) in wishes.iter_mut().enumerate() {
        wish.set("deny-rules", &format!("ip:203.0.113.{number}"));
        wish.until_done(&rig, Call::Ensure, None).await;
        // Those that are made at the same time are so in any order.
        let mut own = rig.cloud.balancers();
        own.retain(|balancer| Some(balancer.id.as_str()) == wish.id());
        assert_eq!(own[0].spec.firewall.deny, [format!("ip:203.0.113.{number}")]);
    }
    let surveyed = |wish: &Wish| Surveyed { service: wish.service.clone(), backends: vec![0, 1, 2, 3] };
    let all = wishes.iter().map(surveyed).collect();
    let standings = rig.provider.survey(Arc::clone(&wishes[0].backends), all).await.unwrap();
    assert!(standings.iter().all(|standing| matches!(standing, Standing::InStep(_))), "{standings:#?}");
    for wish in &mut wishes {
        wish.until_done(&rig, Call::Delete, None).await;
    }
    assert_eq!(rig.cloud.balancers(), []);
    rig.cloud.check().unwrap();
}

/// Whether the cloud heeds the filter of its own client or not, nothing is made twice and nothing left behind.
#[tokio::test]
async fn without_a_listing_a_new_one_is_made_where_the_cloud_can_say_that_there_is_none() {
    let (rig, wishes) = rig(8).await;
    for filters in [true, false] {
        rig.cloud.set(|settings| (settings.filters_balancers, settings.answer_bytes) = (filters, 9_000));
        let lost = Fault::new(Requests::Of(Endpoint::Balancers), 1, When::Before, Act::Status(504));
        // Both tries of a listing.
        rig.cloud.plan(Fault { times: 2, ..lost });
        let mut wish = Wish::new("late", &[(Protocol::Tcp, 80)], &[]);
        let outcome = wish.call(&rig, Call::Ensure).await;
        let made = rig.cloud.balancers().len() - wishes.len();
        assert_eq!((made, outcome.failure.is_none()), (usize::from(filters), filters), "{outcome:?}");
        rig.cloud.set(|settings| settings.answer_bytes = 4 << 20);
        skip(Duration::from_secs(700)).await;
        wish.until_done(&rig, Call::Ensure, None).await;
        wish.until_done(&rig, Call::Delete, None).await;
        assert_eq!(rig.cloud.balancers().len(), wishes.len());
        skip(Duration::from_secs(60)).await;
    }
    rig.cloud.check().unwrap();
}
