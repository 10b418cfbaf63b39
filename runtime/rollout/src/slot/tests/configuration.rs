//! Another configuration while calls are under way and a component is on probation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ccm_cloud::LoadBalancerSource as _;

use super::*;
use crate::slot::ProbationSettings;
use crate::slot::state::Reconfigured;
use crate::slot::testing::{Fake, release, service};

/// Gives both components of a probation this configuration.
fn configure(rig: &Rig, configuration: u32) {
    let stands = rig.slot.components();
    let other = |component: &Fake| release(component.configured(configuration));
    let with = Reconfigured {
        proven: Some(other(&stands.proven.component)),
        candidate: stands.candidate.as_ref().map(|candidate| Ok(other(&candidate.component))),
    };
    assert!(rig.slot.configure(stands.generation, with).is_some());
}

/// What a call shows that began with another configuration says nothing of this one.
#[tokio::test]
async fn a_call_that_began_with_the_configuration_before_counts_neither_against_nor_for_the_one_after() {
    let quick = ProbationSettings { time: Duration::ZERO, calls: 1, faults: 1 };
    for does in [Does::Lose, Does::Fail, Does::Rename, Does::Crash, Does::Right] {
        let (rig, old) = Rig::trying(does, quick);
        rig.proven.does(Does::Right);
        let work = rig.slot.load_balancers();
        configure(&rig, 2);
        assert!(old.configuration != rig.slot.component().configuration);
        drop(work.get(service("w")).await);
        drop(work.ensure(service("w"), Arc::default()).await);
        assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "{does:?}");
        rig.slot.component().does(Does::Right);
        assert_eq!(answers(&rig).await, "2");
        assert!(!rig.is_on_probation(), "{does:?}: its own answer counts");
    }
}

/// It had begun before the configuration changed, and went on to change the cloud.
#[tokio::test]
async fn work_of_a_refused_component_ends_also_where_it_began_with_the_configuration_before() {
    let (rig, old) = Rig::trying(Does::Right, faults(1));
    let work = rig.slot.load_balancers();
    for configuration in [2, 4] {
        configure(&rig, configuration);
    }
    rig.slot.component().does(Does::Lose);
    assert_eq!(answers(&rig).await, "1");
    assert!(rig.why("2").is_some() && !rig.is_on_probation());
    let failure = work.ensure(service("web"), Arc::default()).await.failure.unwrap();
    assert!(failure.message.contains("was rolled back during this work"), "{failure}");
    assert_eq!((rig.balancers(), old.asked.lock().get("ensure")), (vec![], None));
}

/// The proven one answered from the configuration before, and so a good component was refused for good.
#[tokio::test]
async fn a_good_component_on_probation_is_not_refused_because_of_what_a_configuration_says() {
    let (rig, _) = Rig::trying(Does::Right, faults(1));
    configure(&rig, 1);
    for _ in 0..3 {
        let failure = rig.slot.load_balancers().get(service("y")).await.unwrap_err();
        assert!(failure.message.contains("no network"), "{failure}");
    }
    assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None));
    rig.slot.component().does(Does::Lose);
    assert_eq!(answers(&rig).await, "1", "what is its own fault counts");
    assert!(rig.why("2").is_some());
}

/// Whoever returns has the configuration that counts now: the one before may have been revoked.
#[tokio::test]
async fn the_proven_one_returns_with_the_changed_configuration() {
    let (rig, _) = Rig::trying(Does::Right, faults(1));
    configure(&rig, 2);
    rig.cloud.oldest.store(2, Ordering::Relaxed);
    rig.slot.component().does(Does::Crash);
    assert_eq!(answers(&rig).await, "1");
    assert_eq!((rig.serving().as_str(), rig.slot.component().configuration), ("1", 2));
}

#[tokio::test(start_paused = true)]
async fn what_differs_while_two_have_different_configurations_neither_refuses_nor_proves() {
    let settings = ProbationSettings { calls: 2, ..faults(2) };
    let rig = Rig::new(settings);
    rig.slot.put_apart(release(Fake::of("2", Does::Right, &rig.cloud, 1))).unwrap();
    let differ = async || {
        for _ in 0..3 {
            drop(rig.slot.load_balancers().get(service("y")).await);
        }
    };
    for _ in 0..3 {
        assert_eq!(answers(&rig).await, "2");
    }
    tokio::time::advance(settings.time).await;
    differ().await;
    assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "who differs is not proven");
    // Another name would make a second load balancer: then it stays on probation until both have the same configuration.
    for (does, is_proven) in [(Does::Right, true), (Does::Rename, false)] {
        let rig = Rig::new(settings);
        let new = Fake::of("2", does, &rig.cloud, 1);
        rig.slot.put_apart(release(Arc::clone(&new))).unwrap();
        drop(rig.slot.load_balancers().ensure(service("w"), Arc::default()).await);
        new.does(Does::Right);
        for seconds in [30, 31, 1] {
            answers(&rig).await;
            tokio::time::advance(Duration::from_secs(seconds)).await;
        }
        answers(&rig).await;
        assert_eq!((!rig.is_on_probation(), rig.why("2")), (is_proven, None), "{does:?}");
        assert_eq!(rig.balancers().len(), usize::from(is_proven), "{does:?}");
    }
    // What it does by itself counts.
    let rig = Rig::new(settings);
    rig.slot.put_apart(release(Fake::of("2", Does::Crash, &rig.cloud, 1))).unwrap();
    for _ in 0..2 {
        answers(&rig).await;
    }
    assert!(rig.why("2").unwrap().contains("gave no answer"));
}

/// A Service that the two name in two ways was never ensured: nobody was refused or proven for it, and nobody returned.
#[tokio::test(start_paused = true)]
async fn a_probation_apart_ends_without_a_verdict_when_the_two_have_not_come_to_agree() {
    let settings = ProbationSettings { calls: 2, ..faults(2) };
    for (does, is_called) in [(Does::Rename, true), (Does::Rename, false), (Does::Lose, false)] {
        let rig = Rig::new(settings);
        rig.slot.put_apart(release(Fake::of("2", does, &rig.cloud, 1))).unwrap();
        drop(rig.slot.load_balancers().ensure(service("w"), Arc::default()).await);
        for _ in 0..2 {
            answers(&rig).await;
        }
        let follow = async || {
            drop(tokio::time::timeout(settings.time, rig.slot.follow()).await);
            if is_called {
                answers(&rig).await;
            }
        };
        for _ in 0..9 {
            follow().await;
        }
        assert_eq!((rig.is_on_probation(), rig.why("2")), (true, None), "{does:?}: either may be right");
        for _ in 0..2 {
            follow().await;
        }
        assert_eq!((rig.serving().as_str(), rig.is_on_probation(), rig.why("2")), ("1", false, None), "{does:?}");
        assert!(rig.slot.put_apart(release(Fake::of("2", Does::Right, &rig.cloud, 1))).is_some(), "it may come again");
    }
}
