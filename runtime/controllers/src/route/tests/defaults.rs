//! Without any flag.

use ccm_cloud::Reaction;

use super::{Bench, Call};

/// The guide says when.
#[tokio::test(start_paused = true)]
async fn a_route_that_fails_is_tried_again_after_a_second_at_first_and_every_five_minutes_in_the_end() {
    let mut bench = Bench::new(|_| {});
    bench.is_refused_for_an_hour(Reaction::Retry).await;
    let calls = bench.cloud.calls.lock();
    let tries: Vec<u64> =
        calls.iter().filter(|(_, call)| matches!(call, Call::Change(..))).map(|(at, _)| *at).collect();
    let waits: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Chance makes a wait up to twice as long, but for the longest, which it makes a tenth shorter at most.
    assert!((1..=3).contains(&waits[0]), "{waits:?}");
    assert!((269..=301).contains(waits.last().unwrap()), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 301), "{waits:?}");
    // 1 + 2 + 4 … seconds, then those of five minutes.
    assert!((15..=22).contains(&waits.len()), "{waits:?}");
}
