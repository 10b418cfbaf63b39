//! An endpoint that does not answer.

use super::*;

#[tokio::test(start_paused = true)]
async fn only_failures_in_a_row_open_the_breaker() {
    let budget = budget(patient());
    for status in [200, 404, 500] {
        fail(&budget, 4).await;
        assert!(!budget.left().open);
        ask(&budget, Class::Write, status, &[]).await;
    }
    fail(&budget, 2).await;
    for status in [502, 503, 504] {
        assert!(!budget.left().open);
        ask(&budget, Class::Write, status, &[]).await;
    }
    assert!(budget.left().open);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_who_cannot_wait_and_keeps_who_can() {
    let budget = budget(BudgetSettings { breaker_pause_min: 8 * S, ..patient() });
    fail(&budget, 5).await;
    let refused = refused(&budget, Class::Write).await;
    assert_eq!(refused.reason, NoTurnReason::Open);
    between(refused.retry_after, 8 * S, 16 * S);
    assert!(
        refused.message.starts_with("the cloud failed to answer 5 times in a row; the next attempt is in "),
        "{refused}"
    );
    let probe = budget.acquire(Class::Write, far()).await.unwrap();
    between(probe.waited(), 8 * S, 16 * S);
    assert!(budget.left().open, "until the probe has its answer");
}

#[tokio::test(start_paused = true)]
async fn a_success_closes_the_breaker_and_wakes_all_at_once() {
    let budget = budget(patient());
    let recoveries = budget.recoveries();
    fail(&budget, 5).await;
    let classes = [Class::Write, Class::Initialise, Class::Refresh];
    let mut waiting: Vec<_> = (0..60).map(|i| Box::pin(budget.acquire(classes[i % 3], far()))).collect();
    let mut probe = budget.acquire(Class::Write, far()).await.unwrap();
    for waiter in &mut waiting {
        assert!(poll!(waiter).is_pending());
    }
    sleep(10 * S).await;
    assert_eq!((budget.left().in_flight, *recoveries.borrow()), (1, 0));
    probe.answered(200, &HeaderMap::new());
    assert_eq!((budget.left().open, *recoveries.borrow()), (false, 1));
    let start = Instant::now();
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_failed_probe_doubles_the_pause_up_to_the_most() {
    let budget = budget(patient());
    fail(&budget, 5).await;
    for least in [1, 2, 4, 8, 16, 32, 60, 60] {
        let mut probe = budget.acquire(Class::Write, far()).await.unwrap();
        between(probe.waited(), least * S, (2 * least * S).min(60 * S) + MS);
        probe.failed(Fault::Connect);
    }
    ask(&budget, Class::Write, 200, &[]).await;
    fail(&budget, 5).await;
    between(refused(&budget, Class::Write).await.retry_after, S, 2 * S);
}

#[tokio::test(start_paused = true)]
async fn a_failed_probe_sends_those_away_who_cannot_wait_for_the_next() {
    let budget = budget(patient());
    fail(&budget, 5).await;
    let mut probe = budget.acquire(Class::Write, far()).await.unwrap();
    let mut long = pin!(budget.acquire(Class::Write, far()));
    let mut short = pin!(budget.acquire(Class::Write, Instant::now() + S));
    assert!(poll!(&mut long).is_pending() && poll!(&mut short).is_pending());
    probe.failed(Fault::Lost);
    drop(probe);
    let start = Instant::now();
    assert_eq!(short.await.err().unwrap().reason, NoTurnReason::Open);
    assert_eq!(start.elapsed(), Duration::ZERO);
    between(long.await.unwrap().waited(), 2 * S, 4 * S + MS);
}

#[tokio::test(start_paused = true)]
async fn stragglers_of_an_outage_neither_make_it_longer_nor_start_another() {
    let budget = budget(patient());
    let mut permits: Vec<_> =
        join_all((0..40).map(|_| budget.acquire(Class::Write, far()))).await.into_iter().map(Result::unwrap).collect();
    for permit in &mut permits[..20] {
        permit.failed(Fault::Timeout);
    }
    between(refused(&budget, Class::Write).await.retry_after, S, 2 * S);
    permits[20].answered(200, &HeaderMap::new());
    assert!(budget.left().open, "that was sent before");
    ask(&budget, Class::Write, 200, &[]).await;
    for permit in &mut permits[21..] {
        permit.failed(Fault::Timeout);
    }
    assert_eq!((budget.left().open, *budget.recoveries().borrow()), (false, 1));
}
