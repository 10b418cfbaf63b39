use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures::future::join_all;

use super::*;
use crate::error::TransportReason;

/// Most bytes of kept answers.
const MOST: usize = 2_000;

fn response(status: u16) -> Response {
    Response { status, headers: vec![], body: Bytes::from_static(b"catalogue"), summary: String::new(), failed: None }
}

/// A login that takes 50 ms and gives a token that lives for `life`.
async fn log_in(captured: &Captured, logins: &AtomicUsize, seen: Generation, life: Option<Duration>) -> u16 {
    let ask = || async {
        let number = logins.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        captured.store("token", Secret::new(format!("token-{number}").into_bytes()), life).unwrap();
        Ok(response(201))
    };
    captured.login("token", [7; 32], seen, Duration::ZERO, false, MOST, ask).await.0.unwrap().status
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_that_found_no_token_log_in_once() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    let calls = (0..100_u64).map(|i| {
        let (captured, logins) = (&captured, &logins);
        async move {
            let (seen, good) = captured.look("token", None);
            assert!(!good);
            // Some come when the first login is over already.
            tokio::time::sleep(Duration::from_millis(i)).await;
            log_in(captured, logins, seen, None).await
        }
    });
    assert_eq!(join_all(calls).await, vec![201; 100]);
    assert_eq!(logins.load(Ordering::SeqCst), 1);
    assert_eq!(captured.value("token").unwrap().0.expose(), b"token-0");
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_of_an_old_token_does_not_end_the_new_one() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    log_in(&captured, &logins, 0, None).await;
    captured.forget("token", 1);
    assert!(captured.value("token").is_none());
    log_in(&captured, &logins, 1, None).await;
    captured.forget("token", 1);
    assert_eq!(captured.value("token").unwrap().1, 2);
    assert_eq!(captured.values().len(), 2, "the old one is still replaced in answers");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_ends_but_not_by_the_call_that_got_it() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    log_in(&captured, &logins, 0, Some(Duration::from_secs(3600))).await;
    assert_eq!(captured.look("token", None), (1, true));
    tokio::time::advance(Duration::from_secs(3540)).await;
    assert_eq!(captured.look("token", None), (1, false));
    assert_eq!(captured.look("token", Some(1)), (1, true));
    assert!(captured.value("token").is_some(), "requests under way still use it");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(captured.value("token").is_none());
    assert_eq!(captured.look("token", Some(1)), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_failed_login_is_the_answer_of_all_who_waited_for_it_and_of_nobody_later() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    let fail = || async {
        logins.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(response(401))
    };
    let calls = (0..10).map(|_| captured.login("token", [7; 32], 0, Duration::ZERO, false, MOST, fail));
    assert!(join_all(calls).await.into_iter().all(|(answer, _)| answer.unwrap().status == 401));
    assert_eq!(logins.load(Ordering::SeqCst), 1);

    // Later, and without a refusal, which is kept for a while.
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    for times in 1..=2 {
        let fail = || async {
            logins.fetch_add(1, Ordering::SeqCst);
            Ok(response(500))
        };
        let (answer, _) = captured.login("token", [7; 32], 0, Duration::ZERO, false, MOST, fail).await;
        assert_eq!((answer.unwrap().status, logins.load(Ordering::SeqCst)), (500, times));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
}

/// A login that is answered with `status`, and how often the cloud was asked.
async fn refused(captured: &Captured, logins: &AtomicUsize, request: u8, proof: bool, status: u16) -> usize {
    let fail = || async {
        logins.fetch_add(1, Ordering::SeqCst);
        Ok(response(status))
    };
    let (answer, _) = captured.login("token", [request; 32], 0, Duration::ZERO, proof, MOST, fail).await;
    assert_eq!(answer.unwrap().status, status);
    logins.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_is_repeated_later_and_later() {
    for status in [401, 403, 404] {
        let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
        let mut asked = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            asked += 1;
            assert_eq!(refused(&captured, &logins, 7, false, status).await, asked, "{wait} s");
            tokio::time::advance(Duration::from_millis(wait * 1000 - 1)).await;
            assert_eq!(refused(&captured, &logins, 7, false, status).await, asked, "within {wait} s");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_the_same_refused_login_is_asked_at_once() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    assert_eq!(refused(&captured, &logins, 7, false, 401).await, 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(refused(&captured, &logins, 8, false, 401).await, 2, "another request");
    assert_eq!(refused(&captured, &logins, 7, false, 401).await, 2);
    assert_eq!(refused(&captured, &logins, 7, true, 401).await, 3, "a proof");
    captured.end_all();
    assert_eq!(refused(&captured, &logins, 7, false, 401).await, 4, "another password");
    tokio::time::advance(Duration::from_secs(1)).await;
    log_in(&captured, &logins, 0, None).await;
    captured.forget("token", 1);
    assert_eq!(refused(&captured, &logins, 7, false, 401).await, 6, "after a success");
    for answered in 1..3 {
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(refused(&captured, &logins, 9, false, 503).await, 6 + answered, "no refusal");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_next_in_line_asks_by_itself() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    let ask = || async {
        let first = logins.fetch_add(1, Ordering::SeqCst) == 0;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (reason, message) = (TransportReason::Timeout, "its own time is over".to_owned());
        if first {
            return Err(TransportError::unsent(reason, message).sent());
        }
        captured.store("token", Secret::new(b"token-value".to_vec()), None).unwrap();
        Ok(response(201))
    };
    let calls = (0..3).map(|_| captured.login("token", [7; 32], 0, Duration::ZERO, false, MOST, ask));
    let good: Vec<bool> = join_all(calls).await.into_iter().map(|(answer, _)| answer.is_ok()).collect();
    assert_eq!((good, logins.load(Ordering::SeqCst)), (vec![false, true, true], 2));
}

#[tokio::test(start_paused = true)]
async fn old_values_are_kept_within_bounds_and_a_value_that_only_ends_changes_nothing() {
    let captured = Captured::default();
    let store = |value: String| captured.store("token", Secret::new(value.into_bytes()), None);
    for number in 0..30 {
        store(format!("token-{number:04}")).unwrap();
    }
    let redactor = captured.redactor().unwrap();
    for (number, hidden) in [(29, true), (13, true), (12, false)] {
        let value = format!("token-{number:04}");
        let is_kept = captured.values().iter().any(|(_, kept)| kept.expose() == value.as_bytes());
        assert_eq!(is_kept, hidden, "{number}");
        assert_eq!(redactor.text(&format!("token-{number:04}")) == "(credential token)", hidden, "{number}");
    }
    let before = captured.changes();
    captured.forget("token", 30);
    captured.end_all();
    store("token-0029".to_owned()).unwrap();
    assert_eq!((captured.changes(), captured.values().len()), (before, 16));
    for number in 0..6 {
        store(format!("{number}").repeat(MAX_VALUE)).unwrap();
    }
    assert_eq!(captured.values().len(), 3);
    assert!(store("x".repeat(MAX_VALUE + 1)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_cancelled_leaves_the_turn_to_the_next() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    let never = captured.login("token", [7; 32], 0, Duration::ZERO, false, MOST, std::future::pending);
    assert!(tokio::time::timeout(Duration::from_millis(10), never).await.is_err());
    assert_eq!(log_in(&captured, &logins, 0, None).await, 201);
}

#[tokio::test(start_paused = true)]
async fn a_young_login_answers_whoever_says_that_it_will_do() {
    let (captured, logins) = (Captured::default(), AtomicUsize::new(0));
    log_in(&captured, &logins, 0, None).await;
    let again = |share| captured.login("token", [7; 32], 1, share, false, MOST, || async { Ok(response(500)) });
    assert_eq!(again(Duration::from_secs(60)).await.0.unwrap().status, 201);
    assert_eq!(again(Duration::ZERO).await.0.unwrap().status, 500);
}

/// Six answers of 8 MiB each were kept per credential, and nobody counted them.
#[tokio::test(start_paused = true)]
async fn answers_of_logins_are_kept_within_bounds_and_counted() {
    let captured = Captured::default();
    let answer = |status, bytes: usize| Response { body: Bytes::from(vec![b'x'; bytes]), ..response(status) };
    let log_in = async |name: &str, request: u8, seen, bytes, status| {
        let asked = AtomicBool::new(false);
        let ask = || async {
            asked.store(true, Ordering::SeqCst);
            if status == 201 {
                captured.store(name, Secret::new(format!("{name}-{request}").into_bytes()), None).unwrap();
            }
            Ok(answer(status, bytes))
        };
        let (answer, _) = captured.login(name, [request; 32], seen, Duration::ZERO, false, MOST, ask).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, status);
        (asked.into_inner(), answer.body.len())
    };
    assert_eq!(log_in("one", 1, 0, 1_500, 201).await, (true, 1_500));
    assert_eq!(log_in("one", 1, 0, 1_500, 201).await, (false, 1_500), "it is kept");
    let kept = captured.kept_bytes();
    assert!((1_500..=MOST).contains(&kept), "{kept}");
    // No room for another one: who needs the answer logs in for itself, and a refused login is refused all the same.
    assert_eq!(log_in("two", 2, 0, 1_500, 201).await, (true, 1_500));
    assert_eq!(log_in("two", 2, 0, 1_500, 201).await, (true, 1_500));
    assert_eq!(log_in("two", 3, 2, 1_500, 401).await, (true, 1_500));
    assert_eq!(log_in("two", 3, 2, 1_500, 401).await, (false, 0));
    // The status of a refusal is small.
    assert!(captured.kept_bytes() <= MOST + 512, "{}", captured.kept_bytes());
    // What takes its place gives the room back, and so does the end.
    assert_eq!(log_in("one", 4, 1, 10, 201).await, (true, 10));
    assert!(captured.kept_bytes() < 1_000, "{}", captured.kept_bytes());
    let copy = Captured::default();
    copy.copy(&captured);
    // The refusal of `two` counts in both of its places.
    assert!((captured.kept_bytes()..1_000).contains(&copy.kept_bytes()), "{}", copy.kept_bytes());
    drop(captured);
    assert!(copy.kept_bytes() > 0);
    assert!(copy.ended().kept_bytes() < copy.kept_bytes());
}
