use std::future::{pending, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use futures::poll;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use super::*;
use crate::error::TransportReason;

const CLASS: Class = Class::Refresh;
const S: Duration = Duration::from_secs(1);
const A: Key = [1; 32];
const B: Key = [2; 32];

fn response(status: u16, body: Vec<u8>) -> Result<Response, TransportError> {
    Ok(Response { status, headers: Vec::new(), body: body.into(), summary: String::new(), failed: None })
}

fn failure() -> Result<Response, TransportError> {
    let message = "no connection".to_owned();
    Err(TransportError::unsent(TransportReason::Connect, message))
}

/// Answers after a second with the number of the exchange.
#[derive(Default)]
struct Cloud(AtomicUsize);

impl Cloud {
    async fn ask(&self) -> Result<Response, TransportError> {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        sleep(S).await;
        response(200, number.to_string().into_bytes())
    }

    fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// For an answer that is there already.
async fn unasked() -> Result<Response, TransportError> {
    panic!("asked again")
}

fn text(answer: &SharedAnswer) -> &str {
    std::str::from_utf8(&answer.result.as_ref().as_ref().unwrap().body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_who_ask_together_are_one_request() {
    let (shared, cloud) = (Arc::new(SharedAnswers::new(SharedAnswers::DEFAULT_BYTES)), Arc::new(Cloud::default()));
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (shared, cloud) = (Arc::clone(&shared), Arc::clone(&cloud));
        tasks.spawn(async move { shared.get(A, CLASS, S, || cloud.ask()).await });
    }
    let answers = tasks.join_all().await;
    assert_eq!(cloud.asked(), 1);
    assert!(answers.iter().all(|answer| text(answer) == "1"));
    assert_eq!(answers.iter().filter(|answer| answer.source == AnswerSource::Asked).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.source == AnswerSource::Joined).count(), 99);
}

#[tokio::test(start_paused = true)]
async fn an_answer_serves_as_long_as_its_exchange_began_recently_enough() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    assert_eq!(shared.get(A, CLASS, 10 * S, || cloud.ask()).await.source, AnswerSource::Asked);
    advance(9 * S).await;
    // It began 10 s ago and ended 9 s ago.
    assert_eq!(shared.get(A, CLASS, 10 * S, || cloud.ask()).await.source, AnswerSource::Stored);
    advance(Duration::from_millis(1)).await;
    let again = shared.get(A, CLASS, 10 * S, || cloud.ask()).await;
    assert_eq!((text(&again), again.source), ("2", AnswerSource::Asked));
    // Whoever is content with less would have got the older one, and gets the newer one now.
    assert_eq!(text(&shared.get(A, CLASS, 100 * S, || cloud.ask()).await), "2");
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_short_or_is_a_page_is_not_handed_on() {
    for (kind, body, kept) in [
        ("application/json", r#"{"droplets":[{"id":1"#, false),
        ("application/json; charset=utf-8", "", false),
        ("application/problem+JSON", "<html>", false),
        ("text/html", "<html></html>", false),
        ("application/json", r#"{"droplets":[{"id":1}]}"#, true),
        // Said wrongly, or nothing that one knows.
        ("text/html", "[]", true),
        ("text/plain", "one", true),
    ] {
        let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
        let asked = AtomicUsize::new(0);
        let ask = async || {
            asked.fetch_add(1, Ordering::SeqCst);
            let answer = response(200, body.as_bytes().to_vec());
            answer.map(|answer| Response { headers: vec![("content-type".to_owned(), kind.to_owned())], ..answer })
        };
        for _ in 0..2 {
            assert_eq!(text(&shared.get(A, CLASS, S, ask).await), body);
        }
        assert_eq!(asked.into_inner(), if kept { 1 } else { 2 }, "{kind} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn share_zero_never_sees_an_exchange_that_began_before() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    let mut older = pin!(shared.get(A, CLASS, 10 * S, || cloud.ask()));
    assert!(poll!(&mut older).is_pending());
    let mut fresh = pin!(shared.get(A, CLASS, Duration::ZERO, || cloud.ask()));
    assert!(poll!(&mut fresh).is_pending(), "does not wait for the older one");
    let joined = shared.get(A, CLASS, 10 * S, || cloud.ask());
    let (older, fresh, joined) = futures::join!(older, fresh, joined);
    assert_eq!((text(&older), text(&fresh), text(&joined)), ("1", "2", "2"));
    assert_eq!((fresh.source, joined.source), (AnswerSource::Asked, AnswerSource::Joined));
    assert_eq!(text(&shared.get(A, CLASS, Duration::ZERO, || cloud.ask()).await), "3");
    assert_eq!(text(&shared.get(A, CLASS, 10 * S, || cloud.ask()).await), "3", "its answer serves others");
}

#[tokio::test(start_paused = true)]
async fn an_older_exchange_that_ends_later_does_not_replace_the_newer_answer() {
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    let slow = shared.get(A, CLASS, S, async || {
        sleep(10 * S).await;
        response(200, b"old".to_vec())
    });
    let mut slow = pin!(slow);
    assert!(poll!(&mut slow).is_pending());
    advance(S).await;
    shared.get(A, CLASS, Duration::ZERO, async || response(200, b"new".to_vec())).await;
    assert_eq!(text(&slow.await), "old");
    let kept = shared.get(A, CLASS, 100 * S, unasked).await;
    assert_eq!(text(&kept), "new");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_older_exchange_does_not_end_the_newer_one() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    let mut older = pin!(shared.get(A, CLASS, S, || cloud.ask()));
    assert!(poll!(&mut older).is_pending());
    advance(S / 2).await;
    let mut newer = pin!(shared.get(A, CLASS, Duration::ZERO, || cloud.ask()));
    assert!(poll!(&mut newer).is_pending());
    assert_eq!(text(&older.await), "1");
    let joined = shared.get(A, CLASS, S / 4, unasked);
    let (newer, joined) = futures::join!(newer, joined);
    assert_eq!((text(&newer), text(&joined), joined.source), ("2", "2", AnswerSource::Joined));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_success_goes_to_those_who_waited_and_to_no_one_else() {
    for end in [failure(), response(404, Vec::new()), response(500, Vec::new()), response(304, Vec::new())] {
        let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
        let asked = AtomicUsize::new(0);
        let ask = async || {
            asked.fetch_add(1, Ordering::SeqCst);
            sleep(S).await;
            end.clone()
        };
        let answers = join_all((0..10).map(|_| shared.get(A, CLASS, 60 * S, ask))).await;
        assert!(answers.iter().all(|answer| *answer.result == end));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(shared.get(A, CLASS, 60 * S, ask).await.source, AnswerSource::Asked);
        assert_eq!((asked.load(Ordering::SeqCst), shared.bytes()), (2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_comes_after_a_failure_does_not_get_it_though_waiters_have_not_read_it_yet() {
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    let mut first = pin!(shared.get(A, CLASS, S, async || {
        sleep(S).await;
        failure()
    }));
    let mut waiter = pin!(shared.get(A, CLASS, S, pending));
    assert!(poll!(&mut first).is_pending() && poll!(&mut waiter).is_pending());
    assert!(first.await.result.is_err());
    assert!(shared.get(A, CLASS, S, || ready(response(200, Vec::new()))).await.result.is_ok());
    assert!(waiter.await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn when_the_one_who_asks_is_cancelled_another_one_takes_over() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    let mut first = Box::pin(shared.get(A, CLASS, S, pending));
    assert!(poll!(&mut first).is_pending());
    let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(shared.get(A, CLASS, S, || cloud.ask()))).collect();
    for waiter in &mut waiting {
        assert!(poll!(waiter).is_pending());
    }
    drop(first);
    let answers = join_all(waiting).await;
    assert!(answers.iter().all(|answer| text(answer) == "1"));
    assert_eq!(answers.iter().filter(|answer| answer.source == AnswerSource::Asked).count(), 1);
    assert_eq!(cloud.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_of_those_who_are_cancelled() {
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    {
        let mut first = Box::pin(shared.get(A, CLASS, S, pending));
        let mut second = Box::pin(shared.get(A, CLASS, S, pending));
        let mut overtaking = Box::pin(shared.get(A, CLASS, Duration::ZERO, pending));
        assert!(
            poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut overtaking).is_pending()
        );
    }
    assert!(shared.state.lock().under_way.is_empty());
    assert_eq!(shared.get(A, CLASS, S, || ready(response(200, Vec::new()))).await.source, AnswerSource::Asked);
    assert!(shared.state.lock().under_way.is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_never_keeps_more_than_its_bytes_and_what_is_too_large_still_reaches_all_who_wait() {
    let shared = SharedAnswers::new(20_000);
    for i in 0..200u8 {
        shared.get([i; 32], CLASS, S, || ready(response(200, vec![0; 1000]))).await;
        assert!(shared.bytes() <= 20_000, "{} bytes after {i}", shared.bytes());
    }
    assert!(shared.bytes() > 10_000);
    let large = async || {
        sleep(S).await;
        response(200, vec![0; 20_000])
    };
    let answers = join_all((0..3).map(|_| shared.get(A, CLASS, 60 * S, large))).await;
    assert!(answers.iter().all(|answer| answer.result.as_ref().as_ref().unwrap().body.len() == 20_000));
    assert_eq!(answers.iter().filter(|answer| answer.source == AnswerSource::Asked).count(), 1);
    assert_eq!(shared.get(A, CLASS, 60 * S, large).await.source, AnswerSource::Asked);
}

/// Sixty-four headers of a letter each took some fifteen times what was counted.
#[tokio::test(start_paused = true)]
async fn what_headers_take_beside_their_text_counts() {
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    let headers = vec![("a".to_owned(), "b".to_owned()); 64];
    let taken = u64::try_from(size_of_val(headers.as_slice())).unwrap();
    let answer = response(200, Vec::new()).map(|answer| Response { headers, ..answer });
    shared.get(A, CLASS, S, || ready(answer)).await;
    assert!(shared.bytes() > taken, "{} bytes, and the list alone takes {taken}", shared.bytes());
}

#[tokio::test(start_paused = true)]
async fn one_answer_may_take_all_the_room() {
    let shared = SharedAnswers::new(20_000);
    for i in 0..20u8 {
        shared.get([i; 32], CLASS, S, || ready(response(200, vec![0; 1000]))).await;
    }
    shared.get([200; 32], CLASS, S, || ready(response(200, vec![0; 19_000]))).await;
    assert_eq!(shared.get([200; 32], CLASS, S, unasked).await.source, AnswerSource::Stored);
}

#[tokio::test(start_paused = true)]
async fn stale_answers_are_dropped_when_time_has_passed() {
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    for (key, share) in [(A, 600 * S), (B, S)] {
        shared.get(key, CLASS, share, || ready(response(200, vec![0; 1000]))).await;
    }
    let both = shared.bytes();
    advance(61 * S).await;
    assert_eq!(shared.get(A, CLASS, 600 * S, unasked).await.source, AnswerSource::Stored);
    assert_eq!(shared.bytes(), both / 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_stays_as_long_as_the_most_content_of_those_who_waited_can_use_it() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    futures::join!(shared.get(A, CLASS, S, || cloud.ask()), shared.get(A, CLASS, 600 * S, || cloud.ask()));
    advance(300 * S).await;
    assert_eq!(shared.get(A, CLASS, 600 * S, unasked).await.source, AnswerSource::Stored);
}

#[tokio::test(start_paused = true)]
async fn different_requests_have_nothing_to_do_with_each_other() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    let mut stuck = pin!(shared.get(A, CLASS, S, pending));
    assert!(poll!(&mut stuck).is_pending());
    assert_eq!(shared.get(B, CLASS, S, || cloud.ask()).await.source, AnswerSource::Asked);
    assert_eq!(shared.get(B, CLASS, S, || cloud.ask()).await.source, AnswerSource::Stored);
    assert!(poll!(&mut stuck).is_pending());
}

/// On several threads: no one with share 0 gets what was read before it came, and no one hangs when others go away.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn between_threads_nobody_hangs_and_share_zero_sees_what_was_written_before() {
    let (shared, value) = (Arc::new(SharedAnswers::new(SharedAnswers::DEFAULT_BYTES)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for i in 0..32_usize {
        let (shared, value) = (Arc::clone(&shared), Arc::clone(&value));
        tasks.spawn(async move {
            for round in 0..200_usize {
                let share = if (i + round).is_multiple_of(3) { Duration::ZERO } else { Duration::from_micros(50) };
                let written = value.fetch_add(1, Ordering::SeqCst) + 1;
                let mut get = Box::pin(shared.get(A, CLASS, share, async || {
                    let read = value.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    response(200, read.to_string().into_bytes())
                }));
                if (i + round).is_multiple_of(5) {
                    let _ = poll!(&mut get).map(drop);
                    tokio::task::yield_now().await;
                    continue;
                }
                let answer = get.await;
                let read: usize = text(&answer).parse().unwrap();
                assert!(!share.is_zero() || read >= written, "read {read} after {written} was written");
            }
        });
    }
    tokio::time::timeout(60 * S, tasks.join_all()).await.expect("it hangs");
    assert!(shared.state.lock().under_way.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kept_answer_serves_every_class_and_an_exchange_under_way_only_its_own() {
    let (shared, cloud) = (SharedAnswers::new(SharedAnswers::DEFAULT_BYTES), Cloud::default());
    let mut refresh = pin!(shared.get(A, Class::Refresh, 10 * S, || cloud.ask()));
    assert!(poll!(&mut refresh).is_pending());
    let initialise = shared.get(A, Class::Initialise, 10 * S, || cloud.ask());
    let (refresh, initialise) = futures::join!(refresh, initialise);
    assert_eq!((refresh.source, initialise.source, cloud.asked()), (AnswerSource::Asked, AnswerSource::Asked, 2));
    for class in [Class::Refresh, Class::Initialise, Class::Write] {
        assert_eq!(shared.get(A, class, 10 * S, unasked).await.source, AnswerSource::Stored);
    }
}

/// How many wait is counted in the same step in which they come and go: nobody has to be lucky to see two go away together.
#[tokio::test(start_paused = true)]
async fn an_exchange_is_under_way_until_the_last_one_goes_away_in_whatever_order() {
    let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in order {
        let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
        let join = || Some(shared.join(A, CLASS, S).ok().unwrap());
        let mut members = [join(), join(), join()];
        for (gone, place) in (1..).zip(order) {
            members[place] = None;
            assert_eq!(shared.state.lock().under_way.len(), usize::from(gone < 3), "{order:?}, {gone} have gone");
        }
    }
    // Those of an older exchange take nothing away from a newer one.
    let shared = SharedAnswers::new(SharedAnswers::DEFAULT_BYTES);
    let old = [S, S].map(|share| shared.join(A, CLASS, share).ok().unwrap());
    let new = shared.join(A, CLASS, Duration::ZERO).ok().unwrap();
    drop(old);
    assert_eq!(shared.state.lock().under_way.len(), 1);
    drop(new);
    assert_eq!(shared.state.lock().under_way.len(), 0);
}

/// Who looks for what it has just deleted must not see it in an answer of before.
#[tokio::test(start_paused = true)]
async fn what_began_before_it_was_forgotten_is_shared_with_nobody_new() {
    let (cloud, shared) = (Cloud::default(), SharedAnswers::new(SharedAnswers::DEFAULT_BYTES));
    let ask = async || (*shared.get(A, CLASS, 60 * S, || cloud.ask()).await.result).clone().unwrap().body;
    assert_eq!(ask().await, "1");
    assert_eq!(ask().await, "1");
    shared.forget();
    assert_eq!((ask().await, shared.bytes() > 0), ("2".into(), true));

    // One that is under way lands for those who wait for it alone.
    shared.forget();
    let mut early = pin!(ask());
    assert!(poll!(&mut early).is_pending());
    advance(S / 2).await;
    shared.forget();
    let late = ask();
    let (early, late) = futures::join!(early, late);
    assert_eq!((early, late), ("3".into(), "4".into()));
    assert_eq!(ask().await, "4");
}
