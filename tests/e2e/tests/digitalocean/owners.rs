//! Whose a load balancer is, in a cloud that tells tags and in one that does not: nothing of another's is taken or deleted in
//! either, and nothing of one's own is lost.

use std::time::Duration;

use ccm_cloud::{Protocol, Reaction};
use ccm_sim_digitalocean::{Act, BalancerSpec, Droplet, Endpoint, Fault, Requests, When};

use crate::rig::{Rig, skip};
use crate::wish::{Call, ID, Wish};

async fn rig(tells: bool) -> Rig {
    let rig = Rig::start(&[]).await;
    rig.cloud.set(|settings| settings.tells_balancer_tags = tells);
    for id in 1..=3 {
        rig.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    rig
}

/// Both worlds.
const WORLDS: [bool; 2] = [true, false];

/// A Service that asks for the name.
fn asks(number: usize, name: &str) -> Wish {
    let mut wish = Wish::new(&format!("service-{number}"), &[(Protocol::Tcp, 80)], &[("name", name)]);
    wish.service.uid = format!("{number:0>8}-0000-4000-8000-0000000000aa");
    wish
}

fn tag(wish: &Wish) -> String {
    format!("wasm-ccm-service:{}:default:{}", wish.service.uid, wish.service.name)
}

fn specs(rig: &Rig) -> Vec<BalancerSpec> {
    rig.cloud.balancers().into_iter().map(|balancer| balancer.spec).collect()
}

fn told(rig: &Rig, reason: &str) -> bool {
    rig.events.take().iter().any(|(_, own, _)| own == reason)
}

#[tokio::test]
async fn of_two_services_with_the_same_name_the_second_neither_takes_nor_deletes_what_the_first_has() {
    for tells in WORLDS {
        let rig = rig(tells).await;
        let (mut first, mut second) = (asks(1, "shop"), asks(2, "shop"));
        first.until_done(&rig, Call::Ensure, None).await;
        let before = specs(&rig);
        assert_eq!(before[0].tags, [tag(&first)]);
        for call in [Call::Ensure, Call::UpdateBackends] {
            let failure = second.call(&rig, call).await.failure.unwrap();
            assert_eq!((failure.reaction, second.id()), (Reaction::Conflict, None), "{tells}: {failure}");
            assert!(failure.message.contains(&format!("{ID}: {:?}", first.id().unwrap())), "{tells}: {failure}");
        }
        second.until_done(&rig, Call::Delete, None).await;
        // Nor long after, with nothing remembered.
        skip(Duration::from_secs(7_200)).await;
        second.until_done(&rig, Call::Delete, None).await;
        assert_eq!(specs(&rig), before, "{tells}");
        first.until_done(&rig, Call::Delete, None).await;
        assert_eq!((specs(&rig), rig.cloud.tags()), (vec![], vec![]), "{tells}");
        rig.cloud.check().unwrap();
    }
}

#[tokio::test]
async fn one_of_nobody_is_taken_by_its_name_where_that_is_known_and_by_its_id_in_any_case() {
    for tells in WORLDS {
        let rig = rig(tells).await;
        let mut former = asks(1, "shop");
        former.until_done(&rig, Call::Ensure, None).await;
        let id = former.id().unwrap().to_owned();
        assert!(rig.cloud.tamper(&id, |spec| spec.tags.clear()));
        skip(Duration::from_secs(7_200)).await;
        let mut wish = asks(2, "shop");
        let outcome = wish.call(&rig, Call::Ensure).await;
        assert_eq!(outcome.failure.is_none(), tells, "{outcome:?}");
        assert_eq!(wish.id().is_some(), tells);
        wish.service.annotations.insert(ID.to_owned(), id.clone());
        wish.until_done(&rig, Call::Ensure, None).await;
        assert_eq!((rig.cloud.balancers().len(), wish.id()), (1, Some(id.as_str())));
        wish.until_done(&rig, Call::Delete, None).await;
        assert_eq!(specs(&rig), [], "{tells}");
        rig.cloud.check().unwrap();
    }
}

#[tokio::test]
async fn one_that_was_made_and_not_heard_of_is_found_again_and_deleted() {
    for tells in WORLDS {
        for lag in [0, 90] {
            let rig = rig(tells).await;
            rig.cloud.set(|settings| settings.listing_lag = Duration::from_secs(lag));
            let lost = Fault::new(Requests::Of(Endpoint::CreateBalancer), 1, When::After, Act::Hangup);
            rig.cloud.plan(lost);
            let mut wish = asks(1, "shop");
            wish.until_done(&rig, Call::Ensure, None).await;
            assert_eq!((specs(&rig).len(), wish.id().is_some()), (1, true), "{tells} {lag}");
            wish.service.annotations.remove(ID);
            skip(Duration::from_secs(lag + 60)).await;
            wish.until_done(&rig, Call::Delete, None).await;
            assert_eq!(specs(&rig), [], "{tells} {lag}");
            rig.cloud.check().unwrap();
        }
    }
}

/// Without tags, what nobody remembers is left, with a Warning: it may be another's.
#[tokio::test]
async fn one_that_no_service_knows_of_is_deleted_where_its_tag_says_whose_it_is() {
    for tells in WORLDS {
        let rig = rig(tells).await;
        let mut wish = asks(1, "shop");
        wish.until_done(&rig, Call::Ensure, None).await;
        wish.service.annotations.remove(ID);
        skip(Duration::from_secs(7_200)).await;
        rig.events.take();
        wish.until_done(&rig, Call::Delete, None).await;
        assert_eq!((specs(&rig).is_empty(), told(&rig, "LoadBalancerNotDeleted")), (tells, !tells));
        // Its Service takes it again, as long as it is there.
        if !tells {
            wish.until_done(&rig, Call::Ensure, None).await;
            assert_eq!((specs(&rig).len(), wish.id().is_some()), (1, true));
        }
        rig.cloud.check().unwrap();
    }
}

#[tokio::test]
async fn an_id_of_anothers_that_was_never_taken_over_deletes_nothing() {
    for tells in WORLDS {
        for name in ["web", ""] {
            let rig = rig(tells).await;
            let mut owner = asks(1, "shop");
            owner.until_done(&rig, Call::Ensure, None).await;
            skip(Duration::from_secs(7_200)).await;
            let mut wish = asks(2, name);
            wish.service.annotations.insert(ID.to_owned(), owner.id().unwrap().to_owned());
            wish.until_done(&rig, Call::Delete, None).await;
            assert!(told(&rig, "LoadBalancerNotDeleted"), "{tells} {name}");
            assert_eq!(specs(&rig).len(), 1, "{tells} {name}");
            rig.cloud.check().unwrap();
        }
    }
}

#[tokio::test]
async fn one_that_is_taken_over_by_its_id_goes_with_its_new_service() {
    for tells in WORLDS {
        let rig = rig(tells).await;
        let (mut former, mut wish) = (asks(1, "shop"), asks(2, "store"));
        former.until_done(&rig, Call::Ensure, None).await;
        let id = former.id().unwrap().to_owned();
        wish.service.annotations.insert(ID.to_owned(), id.clone());
        wish.until_done(&rig, Call::Ensure, None).await;
        let spec = specs(&rig).remove(0);
        assert_eq!(spec.name, "store", "{tells}");
        assert_eq!(spec.tags == [tag(&wish)], tells, "what is not told is not changed: {:?}", spec.tags);
        wish.until_done(&rig, Call::Delete, None).await;
        assert_eq!(specs(&rig), [], "{tells}");
        rig.cloud.check().unwrap();
    }
}

#[tokio::test]
async fn the_default_name_needs_no_tag() {
    for tells in WORLDS {
        let rig = rig(tells).await;
        let mut wish = asks(1, "");
        wish.until_done(&rig, Call::Ensure, None).await;
        for call in [Call::Ensure, Call::Delete] {
            wish.service.annotations.remove(ID);
            skip(Duration::from_secs(7_200)).await;
            wish.until_done(&rig, call, None).await;
        }
        assert_eq!((specs(&rig), rig.cloud.count(Endpoint::CreateBalancer)), (vec![], 1), "{tells}");
        rig.cloud.check().unwrap();
    }
}
