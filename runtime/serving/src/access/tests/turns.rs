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

/// One address opened many connections with the same token, and closed each that asked: the next one asked anew, past the limit.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_answer_asks_only_in_a_turn_of_its_own_when_the_one_who_asks_goes_away() {
    // How often the API server is asked before that.
    for (token, path, before, status) in [("slow-unknown", "/metrics", 0, 401), ("nobody", "/slow", 1, 403)] {
        let (wall, fake) = wall(settings());
        let address = |number: usize| [192, 0, 2, if number == 49 { 9 } else { 1 }];
        let mut waiting: Vec<_> = (0..50).map(|number| Box::pin(from(address(number), &wall, token, path))).collect();
        for request in &mut waiting {
            assert_eq!(request.as_mut().now_or_never(), None, "{token}");
        }
        assert_eq!(fake.asked(), before + 1, "{token}");
        let mut refused = 0;
        while waiting.len() > 1 {
            drop(waiting.remove(0));
            waiting.retain_mut(|request| {
                let answer = request.as_mut().now_or_never();
                assert!([None, Some(429)].contains(&answer), "{token}: {answer:?}");
                refused += usize::from(answer.is_some());
                answer.is_none()
            });
        }
        assert_eq!((fake.asked(), refused), (OF_ONE_PEER, 49 - OF_ONE_PEER), "{token}: one is of the other address");
        assert_eq!(waiting.remove(0).await, status, "{token}: the other address has a turn of its own");
        assert_eq!(fake.asked(), 0, "{token}");
    }
}

/// The token was asked about for the other page, and was no more that of somebody who had been let in.
#[tokio::test(start_paused = true)]
async fn whoever_was_let_in_to_a_page_is_not_held_up_there_because_of_another_page() {
    for (other, fails, status) in [("/metrics/other", false, 429), ("/metrics/other", true, 503), ("/", false, 403)] {
        let (wall, fake) = wall(settings());
        let flood = async || {
            for number in 0..40 {
                with(&wall, &format!("random-{number}"), "/metrics").await;
                with(&wall, "nobody", &format!("/{number}")).await;
            }
        };
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
        tokio::time::advance(11 * S).await;
        if status == 429 {
            flood().await;
        }
        fake.forbids_access.store(fails, Ordering::Relaxed);
        assert_eq!(with(&wall, "prometheus", other).await, status, "{other}");
        fake.forbids_access.store(false, Ordering::Relaxed);
        tokio::time::advance(11 * S).await;
        flood().await;
        assert_eq!(with(&wall, "good-new", "/metrics").await, 429, "nobody new has a turn");
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "after {status} of {other}");
    }
}

/// Any pod of a cluster may get all paths below `/api/`, and asked about each of them past the limit.
#[tokio::test(start_paused = true)]
async fn whoever_was_let_in_to_many_pages_asks_past_the_limit_about_few_of_them() {
    let (wall, fake) = wall(settings());
    let path = |page: usize| format!("/metrics/{page}");
    for page in 0..200 {
        assert_eq!(with(&wall, "prometheus", &path(page)).await, 200);
        tokio::time::advance(S).await;
    }
    tokio::time::advance(11 * S).await;
    fake.asked();
    for page in 0..200 {
        with(&wall, "prometheus", &path(page)).await;
    }
    let asked = fake.asked();
    assert!(asked <= 1 + OF_ONE_PEER + answers::PAGES, "{asked}");
    tokio::time::advance(11 * S).await;
    for _ in 0..40 {
        with(&wall, "nobody", "/metrics").await;
        with(&wall, "nobody", &path(300)).await;
        with(&wall, "good-more", &path(300)).await;
    }
    assert_eq!(with(&wall, "prometheus", &path(199)).await, 200, "the newest ones are not held up");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_unknown_by_now_or_has_lost_its_last_page_waits_for_its_turn_as_others_do() {
    for (token, refused) in [("revoked", 401), ("demoted", 403)] {
        let (wall, _) = wall(settings());
        assert_eq!(with(&wall, token, "/metrics").await, 200, "{token}");
        tokio::time::advance(11 * S).await;
        assert_eq!(with(&wall, token, "/metrics").await, refused, "{token}");
        tokio::time::advance(11 * S).await;
        for number in 0..40 {
            with(&wall, &format!("random-{number}"), "/metrics").await;
        }
        assert_eq!(with(&wall, token, "/metrics").await, 429, "{token}");
    }
}
