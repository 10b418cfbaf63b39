mod breaker;
mod windows;

use std::cell::{Cell, RefCell};
use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::pin;
use std::time::UNIX_EPOCH;

use futures::future::join_all;
use futures::poll;
use http::{HeaderName, HeaderValue};
use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use super::*;

/// Fri, 13 Feb 2009 23:31:30 GMT.
const WALL: u64 = 1_234_567_890;
const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

type Pairs = &'static [(&'static str, &'static str)];

/// Patient: what is not tested must not refuse.
fn patient() -> BudgetSettings {
    BudgetSettings { max_wait: Duration::from_hours(2), ..BudgetSettings::default() }
}

fn budget(settings: BudgetSettings) -> EndpointBudget {
    let start = Instant::now();
    EndpointBudget::with_wall_clock(settings, move || UNIX_EPOCH + Duration::from_secs(WALL) + start.elapsed())
}

fn concurrency(most: usize) -> BudgetSettings {
    BudgetSettings { concurrency: NonZeroUsize::new(most).unwrap(), ..patient() }
}

fn far() -> Instant {
    Instant::now() + Duration::from_hours(24)
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

/// One request, answered at once.
async fn ask(budget: &EndpointBudget, class: Class, status: u16, pairs: &[(&'static str, &'static str)]) {
    budget.acquire(class, far()).await.unwrap().answered(status, &headers(pairs));
}

async fn fail(budget: &EndpointBudget, times: usize) {
    for _ in 0..times {
        budget.acquire(Class::Write, far()).await.unwrap().failed(Fault::Timeout);
    }
}

/// What one who does not want to wait hears.
async fn refused(budget: &EndpointBudget, class: Class) -> NoTurn {
    let before = Instant::now();
    let refused = budget.acquire(class, Instant::now() + MS).await.err().expect("no turn");
    assert_eq!(before.elapsed(), Duration::ZERO, "not at once");
    refused
}

fn between(found: Duration, least: Duration, most: Duration) {
    assert!((least..=most).contains(&found), "{found:?} is not between {least:?} and {most:?}");
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_at_once_and_then_the_rate_holds() {
    let budget = budget(BudgetSettings { per_second: Some(10.0), burst: NonZeroU32::new(5), ..patient() });
    let start = Instant::now();
    for expected in [0, 0, 0, 0, 0, 100, 200, 300] {
        let permit = budget.acquire(Class::Write, far()).await.unwrap();
        assert_eq!(start.elapsed(), expected * MS);
        assert_eq!(permit.waited(), if expected == 0 { Duration::ZERO } else { 100 * MS });
    }
    advance(S).await;
    assert_eq!(budget.left().tokens, 5);
}

#[tokio::test(start_paused = true)]
async fn the_more_urgent_goes_first_and_within_a_class_whoever_came_first() {
    use Class::{Initialise, Refresh, Write};
    let budget = budget(concurrency(1));
    let held = budget.acquire(Write, far()).await.unwrap();
    let order = RefCell::new(Vec::new());
    let wait = async |name: &'static str, class| {
        let _permit = budget.acquire(class, far()).await.unwrap();
        order.borrow_mut().push(name);
        sleep(MS).await;
    };
    let all = join_all([
        wait("refresh 1", Refresh),
        wait("initialise 1", Initialise),
        wait("write 1", Write),
        wait("refresh 2", Refresh),
        wait("write 2", Write),
        wait("initialise 2", Initialise),
    ]);
    let free = async {
        sleep(S).await;
        assert_eq!(budget.left().waiting, PerClass { write: 2, initialise: 2, refresh: 2 });
        drop(held);
    };
    futures::join!(all, free);
    let expected = ["write 1", "write 2", "initialise 1", "initialise 2", "refresh 1", "refresh 2"];
    assert_eq!(*order.borrow(), expected);
    assert_eq!((budget.left().in_flight, budget.left().waiting), (0, PerClass::default()));
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_leaves_no_gap_even_when_it_was_its_turn() {
    let budget = budget(concurrency(1));
    let held = budget.acquire(Class::Write, far()).await.unwrap();
    let mut second = pin!(budget.acquire(Class::Refresh, far()));
    {
        let mut first = Box::pin(budget.acquire(Class::Write, far()));
        let mut gone = Box::pin(budget.acquire(Class::Initialise, far()));
        assert!(poll!(&mut first).is_pending() && poll!(&mut gone).is_pending() && poll!(&mut second).is_pending());
        assert_eq!(budget.left().waiting, PerClass { write: 1, initialise: 1, refresh: 1 });
        drop(gone);
        drop(held); // wakes the first, which goes away instead
    }
    assert_eq!(budget.left().waiting, PerClass { write: 0, initialise: 0, refresh: 1 });
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn two_hundred_waiters_never_exceed_the_concurrency() {
    let budget = budget(concurrency(7));
    let (most, done) = (Cell::new(0), Cell::new(0));
    let one = async |i: usize| {
        let class = [Class::Write, Class::Initialise, Class::Refresh][i % 3];
        let deadline = Instant::now() + if i.is_multiple_of(5) { 50 * MS } else { Duration::from_hours(1) };
        let Ok(mut permit) = budget.acquire(class, deadline).await else { return };
        most.set(most.get().max(budget.left().in_flight));
        sleep(10 * MS).await;
        permit.answered(200, &HeaderMap::new());
        done.set(done.get() + 1);
    };
    join_all((0..200).map(one)).await;
    assert_eq!(most.get(), 7);
    assert!(done.get() >= 160, "{}", done.get());
    assert_eq!((budget.left().in_flight, budget.left().waiting), (0, PerClass::default()));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_and_so_does_the_longest_wait() {
    let budget = budget(BudgetSettings { max_wait: 10 * S, ..concurrency(1) });
    let _held = budget.acquire(Class::Write, far()).await.unwrap();
    for (deadline, waited) in [(3 * S, 3 * S), (30 * S, 10 * S), (Duration::ZERO, Duration::ZERO)] {
        let start = Instant::now();
        let refused = budget.acquire(Class::Write, start + deadline).await.err().unwrap();
        assert_eq!((start.elapsed(), refused.reason), (waited, NoTurnReason::Throttled), "{refused}");
        assert!(refused.retry_after > Duration::ZERO);
    }
    assert_eq!(budget.left().waiting, PerClass::default());
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_get_a_turn_in_time_is_told_at_once_and_when_to_come_back() {
    let burst = Some(NonZeroU32::MIN);
    let budget = budget(BudgetSettings { per_second: Some(10.0), burst, max_wait: S, ..BudgetSettings::default() });
    ask(&budget, Class::Write, 200, &[]).await;
    let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(budget.acquire(Class::Initialise, far()))).collect();
    for waiter in &mut waiting {
        assert!(poll!(waiter).is_pending());
    }
    let refused = budget.acquire(Class::Initialise, far()).await.err().unwrap();
    assert_eq!((refused.reason, refused.retry_after), (NoTurnReason::Throttled, 1100 * MS));
    assert_eq!(
        refused.message,
        "more requests wait than 10 per second let through; the turn would come in 2 s (limit requests-per-second)"
    );
    // Nobody is before it.
    assert_eq!(budget.acquire(Class::Write, far()).await.unwrap().waited(), 100 * MS);
    // Of the others, the last one has lost its turn to it.
    let answers = join_all(waiting).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 9);
}

/// It was told to raise the limit of requests under way, of which there were none.
#[tokio::test(start_paused = true)]
async fn whoever_more_urgent_requests_keep_from_each_token_hears_of_the_limit_per_second() {
    let burst = Some(NonZeroU32::MIN);
    let budget =
        budget(BudgetSettings { per_second: Some(10.0), burst, max_wait: 10 * S, ..BudgetSettings::default() });
    ask(&budget, Class::Write, 200, &[]).await;
    let mut refresh = Box::pin(budget.acquire(Class::Refresh, Instant::now() + S));
    assert!(poll!(&mut refresh).is_pending());
    let writes = join_all((0..20).map(|_| ask(&budget, Class::Write, 200, &[])));
    let (refused, _) = futures::join!(refresh, writes);
    let refused = refused.err().unwrap();
    assert_eq!((refused.reason, refused.limit), (NoTurnReason::Throttled, Some("requests-per-second")));
    assert_eq!(refused.message, "others went first, as many as 10 per second let through (limit requests-per-second)");
}

#[tokio::test(start_paused = true)]
async fn do_269_an_ordered_pause_holds_every_class_until_it_is_over() {
    for (status, value) in [(429, "42"), (429, "Fri, 13 Feb 2009 23:32:12 GMT"), (503, "42")] {
        let budget = budget(patient());
        ask(&budget, Class::Refresh, status, &[("retry-after", value)]).await;
        for class in [Class::Write, Class::Initialise, Class::Refresh] {
            let refused = refused(&budget, class).await;
            between(refused.retry_after, 42 * S, 44 * S);
            assert_eq!(refused.reason, NoTurnReason::Throttled);
            let text = "the cloud asked for no requests for another 4";
            assert!(refused.message.starts_with(text), "{status} {value}: {refused}");
        }
        let permit = budget.acquire(Class::Write, far()).await.unwrap();
        between(permit.waited(), 42 * S, 44 * S);
    }
}

#[tokio::test(start_paused = true)]
async fn do_270_a_429_pauses_as_long_as_it_says_within_bounds() {
    let table: [(Pairs, Duration, Duration); 9] = [
        (&[("retry-after", "0")], S, 2 * S),
        (&[("retry-after", "86400")], 300 * S, 300 * S),
        (&[("ratelimit-reset", "1234567920")], 30 * S, 33 * S),
        (&[("ratelimit-reset", "1234567990"), ("ratelimit-remaining", "0")], 100 * S, 110 * S),
        (&[("x-ratelimit-reset", "30")], 30 * S, 33 * S),
        (&[("ratelimit-reset", "1234567000")], S, 2 * S),
        (&[("ratelimit-reset", "1234599999")], 300 * S, 300 * S),
        (&[("ratelimit-reset", "1234599999"), ("retry-after", "20")], 20 * S, 22 * S),
        (&[], S, 3 * S),
    ];
    for (pairs, least, most) in table {
        let budget = budget(patient());
        ask(&budget, Class::Write, 429, pairs).await;
        between(budget.left().paused, least, most);
    }
    let budget = budget(patient());
    for status in [200, 404, 500, 503] {
        ask(&budget, Class::Write, status, &[]).await;
        assert_eq!(budget.left().paused, Duration::ZERO, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_several_orders_holds() {
    let budget = budget(patient());
    let mut permits =
        join_all((0..4).map(|_| budget.acquire(Class::Write, far()))).await.into_iter().map(Result::unwrap);
    for value in ["30", "120", "5"] {
        permits.next().unwrap().answered(429, &headers(&[("retry-after", value)]));
    }
    between(budget.left().paused, 120 * S, 122 * S);
    permits.next().unwrap().answered(200, &HeaderMap::new());
    between(budget.left().paused, 120 * S, 122 * S);
}

#[tokio::test(start_paused = true)]
async fn a_pause_outlasts_the_breaker() {
    let budget = budget(patient());
    fail(&budget, 4).await;
    ask(&budget, Class::Write, 503, &[("retry-after", "120")]).await;
    let refused = refused(&budget, Class::Write).await;
    assert_eq!(refused.reason, NoTurnReason::Open);
    between(refused.retry_after, 120 * S, 122 * S);
    assert!(refused.message.starts_with("the cloud asked for no requests for another 12"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_full_line_behind_a_pause_says_when_the_pause_is_over() {
    let budget = budget(BudgetSettings { per_second: Some(1.0), burst: Some(NonZeroU32::MIN), ..patient() });
    ask(&budget, Class::Write, 429, &[("retry-after", "60")]).await;
    between(refused(&budget, Class::Write).await.retry_after, 60 * S, 62 * S);
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_one_request_shows_whether_it_was_long_enough() {
    let budget = budget(patient());
    ask(&budget, Class::Write, 429, &[("retry-after", "5")]).await;
    let mut others: Vec<_> = (0..20).map(|_| Box::pin(budget.acquire(Class::Write, far()))).collect();
    let mut probe = budget.acquire(Class::Write, far()).await.unwrap();
    for other in &mut others {
        assert!(poll!(other).is_pending());
    }
    sleep(60 * S).await;
    assert_eq!(budget.left().in_flight, 1);
    assert_eq!(
        refused_after_a_moment(&budget).await,
        "the cloud has not answered yet to a first request after a pause"
    );
    probe.answered(200, &HeaderMap::new());
    let start = Instant::now();
    assert!(join_all(others).await.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

async fn refused_after_a_moment(budget: &EndpointBudget) -> String {
    budget.acquire(Class::Write, Instant::now() + MS).await.err().expect("no turn").message
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_probe_makes_room_for_the_next() {
    let budget = budget(patient());
    ask(&budget, Class::Write, 429, &[("retry-after", "5")]).await;
    for _ in 0..3 {
        drop(budget.acquire(Class::Write, far()).await.unwrap());
        assert_eq!(budget.left().in_flight, 0);
    }
    let _probe = budget.acquire(Class::Write, far()).await.unwrap();
    let mut next = pin!(budget.acquire(Class::Write, far()));
    assert!(poll!(&mut next).is_pending(), "still not shown");
}

#[tokio::test(start_paused = true)]
async fn refusals_that_tell_no_time_double_the_pause_but_not_once_per_request_of_a_burst() {
    let budget = budget(patient());
    let mut burst: Vec<_> = join_all((0..50).map(|_| budget.acquire(Class::Write, far()))).await;
    for permit in &mut burst {
        permit.as_mut().unwrap().answered(429, &HeaderMap::new());
    }
    between(budget.left().paused, S, 3 * S);
    for least in [2 * S, 4 * S, 8 * S] {
        ask(&budget, Class::Write, 429, &[]).await;
        between(budget.left().paused, least, least * 3);
    }
    ask(&budget, Class::Write, 200, &[]).await;
    ask(&budget, Class::Write, 429, &[]).await;
    between(budget.left().paused, S, 3 * S);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_is_kept_from_refreshes_alone_until_an_answer_says_otherwise() {
    let budget = budget(patient());
    let low = [("ratelimit-limit", "5000"), ("ratelimit-remaining", "499"), ("ratelimit-reset", "1234567920")];
    ask(&budget, Class::Write, 200, &low).await;
    let held = refused(&budget, Class::Refresh).await;
    assert_eq!((held.reason, held.retry_after), (NoTurnReason::Throttled, 30 * S));
    assert_eq!(held.message, "499 of 5000 remains of the cloud's limit, kept for more urgent work for another 30 s");
    let mut refresh = pin!(budget.acquire(Class::Refresh, far()));
    assert!(poll!(&mut refresh).is_pending());
    ask(&budget, Class::Initialise, 200, &low).await;
    assert!(poll!(&mut refresh).is_pending());
    ask(&budget, Class::Write, 200, &[("ratelimit-limit", "5000"), ("ratelimit-remaining", "500")]).await;
    assert_eq!(refresh.await.unwrap().waited(), Duration::ZERO);
    assert_eq!((budget.left().limit, budget.left().remaining), (Some(5000), Some(500)));
}

#[tokio::test(start_paused = true)]
async fn after_the_reset_refreshes_trickle_while_the_reserve_is_still_touched() {
    let budget = budget(patient());
    let low = [("ratelimit-limit", "100"), ("ratelimit-remaining", "5"), ("ratelimit-reset", "3")];
    ask(&budget, Class::Refresh, 200, &low).await;
    for expected in [10, 10, 10] {
        let mut permit = budget.acquire(Class::Refresh, far()).await.unwrap();
        assert_eq!(permit.waited(), expected * S);
        permit.answered(200, &headers(&low));
    }
    // An answer without the headers, sent after the reset: the cloud stopped telling.
    ask(&budget, Class::Refresh, 200, &[]).await;
    assert_eq!(budget.left().remaining, None);
    assert_eq!(budget.acquire(Class::Refresh, far()).await.unwrap().waited(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_reset_in_a_distant_future_does_not_stop_refreshes_for_longer_than_the_longest_pause() {
    let budget = budget(patient());
    ask(&budget, Class::Write, 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "86400")]).await;
    assert_eq!(budget.acquire(Class::Refresh, far()).await.unwrap().waited(), 300 * S);
}

#[tokio::test(start_paused = true)]
async fn with_nothing_left_one_urgent_request_at_a_time_finds_out() {
    let budget = budget(patient());
    let none = headers(&[("ratelimit-limit", "5000"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "60")]);
    let some = headers(&[("ratelimit-limit", "5000"), ("ratelimit-remaining", "4000"), ("ratelimit-reset", "60")]);
    budget.acquire(Class::Write, far()).await.unwrap().answered(200, &none);
    let mut probe = budget.acquire(Class::Initialise, far()).await.unwrap();
    let mut second = pin!(budget.acquire(Class::Write, far()));
    let mut third = pin!(budget.acquire(Class::Write, far()));
    let mut refresh = pin!(budget.acquire(Class::Refresh, far()));
    assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending() && poll!(&mut refresh).is_pending());
    probe.answered(200, &none);
    let mut probe = second.await.unwrap();
    assert!(poll!(&mut third).is_pending() && poll!(&mut refresh).is_pending());
    probe.answered(200, &some);
    assert!(third.await.is_ok() && refresh.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn others_do_not_wait_for_the_probe_when_an_earlier_request_shows_that_something_is_left() {
    let budget = budget(patient());
    let mut earlier = budget.acquire(Class::Write, far()).await.unwrap();
    ask(&budget, Class::Write, 200, &[("ratelimit-remaining", "0")]).await;
    let _probe = budget.acquire(Class::Write, far()).await.unwrap();
    let mut other = pin!(budget.acquire(Class::Write, far()));
    assert!(poll!(&mut other).is_pending());
    earlier.answered(200, &headers(&[("ratelimit-remaining", "7")]));
    assert!(other.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_limit_per_minute_holds_refreshes_for_the_minute_and_not_until_the_hourly_reset() {
    let budget = budget(patient());
    let pairs = [
        ("ratelimit-limit", "5000"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "1234570000"),
        ("retry-after", "20"),
    ];
    ask(&budget, Class::Refresh, 429, &pairs).await;
    between(budget.acquire(Class::Refresh, far()).await.unwrap().waited(), 20 * S, 22 * S);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_nothing_is_no_limit() {
    let budget = budget(patient());
    ask(&budget, Class::Write, 200, &[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")]).await;
    let _first = budget.acquire(Class::Refresh, far()).await.unwrap();
    assert_eq!(budget.acquire(Class::Refresh, far()).await.unwrap().waited(), Duration::ZERO);
    assert_eq!((budget.left().limit, budget.left().remaining), (None, None));
}

/// Ten thousand load balancers that are ensured again kept a new Node waiting for as long as they took.
#[tokio::test(start_paused = true)]
async fn a_new_node_does_not_wait_for_ten_thousand_requests_that_nobody_waits_for() {
    let one = NonZeroU32::MIN;
    let budget = budget(BudgetSettings { per_second: Some(2.0), burst: Some(one), ..patient() });
    let mut rest = JoinSet::new();
    for _ in 0..10_000 {
        let budget = budget.clone();
        rest.spawn(async move { ask(&budget, Class::Refresh, 200, &[]).await });
    }
    for _ in 0..20 {
        sleep(5 * S).await;
        assert!(budget.left().waiting.refresh > 9_000);
        let waited = budget.acquire(Class::Initialise, far()).await.unwrap().waited();
        assert!(waited <= S / 2, "it waited for more than one turn: {waited:?}");
    }
}

/// On several threads and without a paused clock: a wake-up that gets lost would hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_threads() {
    let settings = BudgetSettings { per_second: Some(f64::INFINITY), burst: Some(NonZeroU32::MAX), ..concurrency(3) };
    let budget = budget(settings);
    let mut tasks = JoinSet::new();
    for i in 0..64_usize {
        let budget = budget.clone();
        tasks.spawn(async move {
            let class = [Class::Write, Class::Initialise, Class::Refresh][i % 3];
            for round in 0..100_usize {
                let mut turn = Box::pin(budget.acquire(class, far()));
                if (i + round).is_multiple_of(7) {
                    let _ = poll!(&mut turn).map(drop);
                    tokio::task::yield_now().await;
                    continue; // goes away, perhaps just when it was woken
                }
                let mut permit = turn.await.unwrap();
                assert!(budget.left().in_flight <= 3);
                tokio::task::yield_now().await;
                permit.answered(200, &HeaderMap::new());
            }
        });
    }
    tokio::time::timeout(60 * S, tasks.join_all()).await.expect("it hangs");
    assert_eq!((budget.left().in_flight, budget.left().waiting), (0, PerClass::default()));
}
