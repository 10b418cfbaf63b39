//! Who asks the API server past `--authentication-reviews-per-second`, and how often.

use futures::FutureExt as _;
use futures::future::join_all;

use super::*;

/// As many questions as a single peer gets at once, of each kind.
const OF_ONE_PEER: usize = 10;

/// The service account of any pod has a token that is known.
#[tokio::test(start_paused = true)]
async fn a_token_that_no_page_was_given_for_is_asked_about_no_more_often_than_unknown_ones() {
    let (wall, fake) = wall(AccessSettings { token_ttl: Duration::ZERO, ..settings() });
    for _ in 0..500 {
        with(&wall, "nobody", "/metrics").await;
    }
    let asked = fake.asked();
    assert!(asked <= 2 * OF_ONE_PEER, "{asked}");
}

/// It lost its page, and has no more of a say than others after one question.
#[tokio::test(start_paused = true)]
async fn whoever_was_let_in_once_and_is_no_more_waits_for_its_turn_as_others_do() {
    let (wall, fake) = wall(AccessSettings { token_ttl: Duration::ZERO, allowed_ttl: Duration::ZERO, ..settings() });
    assert_eq!(with(&wall, "demoted", "/metrics").await, 200);
    for _ in 0..20 {
        tokio::time::advance(S).await;
        assert_eq!(with(&wall, "demoted", "/metrics").await, 403);
    }
    fake.asked();
    for _ in 0..500 {
        with(&wall, "random", "/").await;
    }
    tokio::time::advance(Duration::from_millis(40)).await;
    assert_eq!(with(&wall, "demoted", "/metrics").await, 429);
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_at_the_same_time_with_one_token_wait_for_one_answer() {
    let (wall, fake) = wall(settings());
    for round in 0..3 {
        let answers = join_all((0..100).map(|_| with(&wall, "slow", "/metrics"))).await;
        assert_eq!(answers, [200; 100], "round {round}");
        assert_eq!(fake.asked(), 2, "whose it is, and whether it may get the page, in round {round}");
        tokio::time::advance(20 * S).await;
    }
    // Who asked is gone before there is an answer, and those who wait ask again.
    let mut gone = Box::pin(with(&wall, "slow", "/metrics"));
    assert_eq!(gone.as_mut().now_or_never(), None);
    let other = with(&wall, "slow", "/metrics");
    let leaves = async {
        tokio::time::sleep(S / 2).await;
        drop(gone);
    };
    assert_eq!(tokio::join!(other, leaves).0, 200);
    assert_eq!(fake.asked(), 3);
}

/// Nothing is kept of a question without an answer, so that each request asked another one.
#[tokio::test(start_paused = true)]
async fn without_an_answer_whoever_was_let_in_asks_past_the_limit_once_in_a_second() {
    for goes_away in [false, true] {
        let (wall, fake) = wall(AccessSettings { token_ttl: 2 * S, ..settings() });
        assert_eq!(with(&wall, "slow", "/metrics").await, 200);
        tokio::time::advance(10 * S).await;
        fake.asked();
        fake.away(!goes_away);
        for second in 0..10 {
            for _ in 0..100 {
                let asks = with(&wall, "slow", "/metrics");
                // Nor is there one where each client goes away before it.
                if goes_away {
                    assert_eq!(asks.now_or_never().filter(|status| *status != 429), None);
                } else {
                    let status = asks.await;
                    assert!([503, 429].contains(&status), "{status}");
                }
            }
            let asked = fake.asked();
            assert!((1..=1 + OF_ONE_PEER).contains(&asked), "{asked} in second {second}");
            tokio::time::advance(S).await;
        }
        fake.away(false);
        assert_eq!(with(&wall, "slow", "/metrics").await, 200);
    }
}
