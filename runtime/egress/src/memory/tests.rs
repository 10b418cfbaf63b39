//! Calls that need more than there is.

use std::time::Duration;

use futures::poll;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

const MIB: usize = 1 << 20;
/// Time is paused: whoever waits for ever waits for that long.
const LONG: Duration = Duration::from_secs(3_600);

fn alone(bytes: usize) -> (MemoryBudget, Arc<MemoryShare>) {
    let budget = MemoryBudget::new(bytes, 1);
    let share = budget.share("a");
    (budget, share)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_room_waits_until_another_ends() {
    let (budget, share) = alone(4 * MIB);
    let first = share.begin(MIB).await.unwrap();
    let second = share.begin(MIB).await.unwrap();
    first.grow(2 * MIB).await.unwrap();
    assert_eq!(budget.given(), 4 * MIB);
    assert!(share.try_begin(MIB).is_none());
    let mut tasks = JoinSet::new();
    let (grows, begins) = (second.clone(), Arc::clone(&share));
    tasks.spawn(async move { grows.grow(MIB).await.map(|()| None) });
    tasks.spawn(async move { begins.begin(MIB).await.map(Some) });
    assert!(timeout(LONG, tasks.join_next()).await.is_err(), "there is no room");
    assert!(second.lacks_room().is_some() && first.lacks_room().is_none());
    drop(first);
    let grown = timeout(LONG, tasks.join_next()).await.unwrap().unwrap().unwrap();
    assert!(grown.is_ok_and(|begun| begun.is_none()), "the one that has something goes on first");
    drop(second);
    timeout(LONG, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(budget.given(), 0);
}

/// They would have waited for each other until their time was over.
#[tokio::test(start_paused = true)]
async fn when_all_calls_wait_for_each_other_one_ends() {
    let (budget, share) = alone(8 * MIB);
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let memory = share.begin(MIB).await.unwrap();
        tasks.spawn(async move {
            for _ in 0..5 {
                memory.grow(MIB).await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, NoRoom>(())
        });
    }
    let ended = timeout(LONG, tasks.join_all()).await.unwrap();
    let good = ended.iter().filter(|ended| ended.is_ok()).count();
    assert!((1..4).contains(&good), "{ended:?}");
    assert_eq!(budget.given(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_call_gets_no_more_than_there_is_and_is_told_what_to_do() {
    let (_budget, share) = alone(4 * MIB);
    let memory = share.begin(MIB).await.unwrap();
    let error = timeout(LONG, memory.grow(4 * MIB)).await.unwrap().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("--provider-memory") && text.contains("4194304 bytes"), "{text}");
    drop(memory);
    assert_eq!(timeout(LONG, share.begin(5 * MIB)).await.unwrap().err(), Some(error));
}

/// Half of four is divided by two: each has one for itself, and two are for both.
#[tokio::test(start_paused = true)]
async fn a_provider_that_takes_all_it_can_get_leaves_the_others_their_share() {
    let budget = MemoryBudget::new(4 * MIB, 2);
    let [greedy, other] = ["a", "b"].map(|name| budget.share(name));
    let hoard = greedy.begin(MIB).await.unwrap();
    assert!(hoard.try_grow(2 * MIB) && !hoard.try_grow(MIB));
    assert!(budget.share("").try_begin(1).is_none() && budget.share("c").try_begin(1).is_none());
    let call = other.try_begin(MIB / 2).unwrap();
    assert!(call.try_grow(MIB / 2) && !call.try_grow(1));
    assert_eq!(budget.given(), 4 * MIB);
    drop(hoard);
    assert!(call.try_grow(1) && budget.share("").try_begin(1).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_begins_with_what_the_calls_of_its_provider_usually_need() {
    let (budget, share) = alone(10 * MIB);
    let first = share.begin(MIB).await.unwrap();
    first.grow(3 * MIB).await.unwrap();
    first.shrink(2 * MIB);
    first.grow(MIB).await.unwrap();
    drop(first);
    let calls: Vec<_> = (0..2).map(|_| share.try_begin(MIB).unwrap()).collect();
    assert_eq!(budget.given(), 8 * MIB, "they had 4 at the same time at most");
    assert!(share.try_begin(MIB).is_none());
    drop(calls);
    for _ in 0..100 {
        drop(share.try_begin(MIB).unwrap());
    }
    let _one = share.try_begin(MIB).unwrap();
    assert!(budget.given() < MIB + MIB / 8, "what was long ago is forgotten");
}

/// It waited for as much as its largest call had had, although its own share was free.
#[tokio::test(start_paused = true)]
async fn a_provider_whose_calls_once_needed_more_than_its_share_has_that_share() {
    let budget = MemoryBudget::new(8 * MIB, 2);
    let [greedy, other] = ["a", "b"].map(|name| budget.share(name));
    let large = other.begin(MIB).await.unwrap();
    large.grow(4 * MIB).await.unwrap();
    drop(large);
    let hoard = greedy.begin(MIB).await.unwrap();
    assert!(hoard.try_grow(5 * MIB), "what is for everybody");
    let call = timeout(LONG, other.begin(MIB)).await.expect("its own share is free").unwrap();
    assert_eq!(budget.given(), 8 * MIB);
    drop((hoard, call));
    assert_eq!(budget.given(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_provider_is_there_again_when_nobody_has_that_name_any_more() {
    let budget = MemoryBudget::new(4 * MIB, 1);
    for name in ["refused", "another", "good"] {
        let share = budget.share(name);
        assert!(share.try_begin(4 * MIB).is_some(), "{name}");
        assert!(Arc::ptr_eq(&share, &budget.share(name)));
    }
}

/// It was told that there would never be room, since the other one had taken its memory and was not counted yet.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_one_that_is_about_to_begin() {
    let (_budget, share) = alone(4 * MIB);
    let (own, common) = share.take(4 * MIB).unwrap();
    let mut begins = Box::pin(share.begin(MIB));
    assert!(poll!(&mut begins).is_pending());
    share.give(own, common);
    share.budget.wake();
    timeout(LONG, begins).await.unwrap().unwrap();
}

/// Small calls took whatever became free, and a large one waited until its time was over.
#[tokio::test(start_paused = true)]
async fn a_call_is_not_overtaken_by_smaller_ones_that_come_later() {
    let budget = MemoryBudget::new(8 * MIB, 2);
    let [share, other] = ["a", "b"].map(|name| budget.share(name));
    let small: Vec<_> = (0..5).map(|_| share.try_begin(MIB).unwrap()).collect();
    let mut large = Box::pin(share.begin(4 * MIB));
    assert!(poll!(&mut large).is_pending(), "one is left");
    assert!(share.try_begin(MIB).is_none() && budget.share("").try_begin(MIB).is_none());
    let mut later = Box::pin(share.begin(MIB));
    assert!(poll!(&mut later).is_pending());
    let second = other.try_begin(2 * MIB).expect("nobody else can have another provider's share");
    assert!(other.try_begin(MIB).is_none());
    for (ended, memory) in small.into_iter().enumerate() {
        assert!(poll!(&mut large).is_pending() && poll!(&mut later).is_pending(), "{ended}");
        drop(memory);
        if ended == 2 {
            break;
        }
    }
    let large = timeout(LONG, large).await.unwrap().unwrap();
    let later = timeout(LONG, later).await.unwrap().unwrap();
    drop((large, later, second));
    assert_eq!(budget.given(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_grows_is_not_overtaken_by_calls_that_have_not_begun() {
    let (budget, share) = alone(4 * MIB);
    let grows = share.try_begin(MIB).unwrap();
    let ends = share.try_begin(2 * MIB).unwrap();
    let mut grown = Box::pin(grows.grow(2 * MIB));
    assert!(poll!(&mut grown).is_pending());
    assert!(share.try_begin(MIB).is_none(), "what is left is for the one that waits");
    drop(ends);
    timeout(LONG, grown).await.unwrap().unwrap();
    drop(grows);
    assert!(share.try_begin(MIB).is_some());
    assert_eq!(budget.given(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_its_place_holds_up_nobody() {
    let (_budget, share) = alone(4 * MIB);
    let one = share.try_begin(MIB).unwrap();
    let large = Box::pin(share.begin(4 * MIB));
    let mut later = Box::pin(share.begin(MIB));
    let mut large = large;
    assert!(poll!(&mut large).is_pending() && poll!(&mut later).is_pending());
    drop(large);
    timeout(LONG, later).await.expect("woken").unwrap();
    drop(one);
}

/// One part of a call that returned something left the other part asleep.
#[tokio::test(start_paused = true)]
async fn what_one_part_of_a_call_returns_wakes_the_other_part() {
    let (_budget, share) = alone(4 * MIB);
    let memory = share.try_begin(3 * MIB).unwrap();
    // One that does not wait, or the other would end.
    let other = share.try_begin(MIB).unwrap();
    let mut grown = Box::pin(memory.grow(MIB));
    assert!(poll!(&mut grown).is_pending());
    memory.shrink(2 * MIB);
    timeout(LONG, grown).await.expect("woken").unwrap();
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn providers_beyond_the_shares_have_been_given_nothing_before_they_ask() {
    let budget = MemoryBudget::new(4 * MIB, 1);
    let shares = ["a", "b", "c"].map(|name| budget.share(name));
    assert_eq!(budget.given(), 0);
    let [_, second, _] = &shares;
    let _call = second.try_begin(MIB).unwrap();
    assert_eq!(budget.given(), MIB);
}

/// Many threads, more calls than there is room for, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_is_lost_and_nobody_is_forgotten() {
    let budget = MemoryBudget::new(16 * MIB, 2);
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let share = budget.share(if task % 2 == 0 { "a" } else { "b" });
        tasks.spawn(async move {
            for turn in 0..50 {
                let memory = share.begin(MIB / 2).await.unwrap();
                // Some have to give way.
                _ = memory.grow((task + turn) % 5 * MIB).await;
                tokio::task::yield_now().await;
            }
        });
    }
    timeout(Duration::from_secs(60), tasks.join_all()).await.unwrap();
    assert_eq!(budget.given(), 0);
}
