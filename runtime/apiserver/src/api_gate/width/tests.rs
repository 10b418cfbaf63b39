use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::*;

const PATCH: Purpose = Purpose { verb: "patch", resource: "nodes" };
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

fn width(most: NonZeroUsize) -> Width {
    Width::new(most, Gauge::default())
}

fn now(width: &Width) -> usize {
    width.state.lock().width
}

/// An API server with so many cores, each of which needs 10 ms for a write.
struct Server {
    cores: usize,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Server {
    fn new(cores: usize) -> Self {
        Self { cores, under_way: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    async fn write(&self) -> Duration {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        let took = Duration::from_millis(10) * u32::try_from(under_way.div_ceil(self.cores)).unwrap();
        tokio::time::sleep(took).await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        took
    }
}

/// So many want to write, one after the other, each so often.
async fn crowd(width: &Arc<Width>, server: &Arc<Server>, many: usize, each: usize) {
    let one = || async {
        for _ in 0..each {
            let place = width.place().await;
            let took = server.write().await;
            width.answered(PATCH, took, None);
            drop(place);
        }
    };
    join_all((0..many).map(|_| one())).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_api_server_gets_as_much_as_is_allowed_and_never_more() {
    let (width, server) = (Arc::new(width(MOST)), Arc::new(Server::new(1_000)));
    crowd(&width, &server, 400, 100).await;
    assert_eq!((now(&width), server.most.load(Ordering::SeqCst)), (128, 128));
}

#[tokio::test(start_paused = true)]
async fn a_small_api_server_is_not_flooded() {
    let (width, server) = (Arc::new(width(MOST)), Arc::new(Server::new(2)));
    // When there is little to do it is seen how long an answer takes.
    crowd(&width, &server, 2, 100).await;
    assert_eq!(now(&width), 16);
    crowd(&width, &server, 400, 20).await;
    assert_eq!(now(&width), 8);
    // The window in which the crowd came was mostly quiet: it may grow before it shrinks.
    let most = server.most.load(Ordering::SeqCst);
    assert!(most <= 25, "{most}");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_grows_is_found_out_again() {
    let width = Arc::new(width(MOST));
    crowd(&width, &Arc::new(Server::new(2)), 2, 100).await;
    crowd(&width, &Arc::new(Server::new(2)), 400, 20).await;
    crowd(&width, &Arc::new(Server::new(1_000)), 400, 100).await;
    assert_eq!(now(&width), 128);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_need_more_places_gets_none() {
    let (width, server) = (Arc::new(width(MOST)), Arc::new(Server::new(1_000)));
    crowd(&width, &server, 12, 1_000).await;
    assert_eq!(now(&width), 16);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_halve_the_width_and_places_that_are_taken_go_when_they_are_free() {
    let width = width(MOST);
    let places = join_all((0..16).map(|_| width.place())).await;
    let busy = ApiError::Unavailable { code: 429, message: String::new(), retry_after: None };
    for _ in 0..16 {
        width.answered(PATCH, Duration::from_millis(1), Some(&busy));
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    assert_eq!(now(&width), 8);
    assert_eq!(width.permits.available_permits(), 0);
    drop(places);
    assert_eq!(width.permits.available_permits(), 8);
}

#[tokio::test(start_paused = true)]
async fn one_kind_of_write_may_take_longer_than_another() {
    let width = width(MOST);
    let event = Purpose { verb: "create", resource: "events" };
    for round in 0..400 {
        let (purpose, took) = if round < 200 { (event, 1) } else { (PATCH, 10) };
        width.state.lock().was_full = true;
        width.answered(purpose, Duration::from_millis(took), None);
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert!(now(&width) > 16, "{}", now(&width));
}

#[tokio::test(start_paused = true)]
async fn the_limit_counts_even_when_it_is_below_the_least() {
    let width = width(NonZeroUsize::MIN);
    for _ in 0..100 {
        let place = width.place().await;
        width.answered(PATCH, Duration::from_millis(1), Some(&ApiError::TimedOut(Duration::from_secs(10))));
        drop(place);
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert_eq!((now(&width), width.permits.available_permits()), (1, 1));
}

fn unavailable(code: u16, seconds: Option<u64>) -> Option<ApiError> {
    Some(ApiError::Unavailable { code, message: String::new(), retry_after: seconds.map(Duration::from_secs) })
}

fn refused(code: u16) -> Option<ApiError> {
    Some(ApiError::Refused { code, reason: String::new(), message: String::new() })
}

/// The width in the end, when so `many` want to write all the time and one in `share` writes ends with the error.
async fn width_with(many: usize, share: usize, error: fn() -> Option<ApiError>) -> usize {
    let width = width(MOST);
    let mut places = VecDeque::new();
    for index in 0..5_000 {
        while places.len() < many.min(now(&width)) {
            places.push_back(width.place().await);
        }
        width.state.lock().was_full = many > now(&width);
        let error = error().filter(|_| index % share == 0);
        let took = Duration::from_millis(if matches!(error, Some(ApiError::Refused { .. })) { 1 } else { 10 });
        width.answered(PATCH, took, error.as_ref());
        places.pop_front();
        tokio::time::advance(Duration::from_millis(5)).await;
    }
    now(&width)
}

#[tokio::test(start_paused = true)]
async fn what_is_said_about_the_api_server_as_a_whole_narrows_and_what_is_said_about_an_object_does_not() {
    type Row = (&'static str, usize, usize, fn() -> Option<ApiError>, RangeInclusive<usize>);
    let silent = || Some(ApiError::TimedOut(Duration::from_secs(10)));
    let rows: [Row; 13] = [
        ("all is well", 200, 1, || None, 128..=128),
        ("one object fails among many", 200, 16, || unavailable(500, None), 128..=128),
        ("one object gets no answer", 200, 16, silent, 128..=128),
        // It is tried again and again whether more are possible.
        ("a quarter fails", 200, 4, || unavailable(500, None), 8..=10),
        ("a quarter gets no answer", 200, 4, silent, 8..=10),
        ("one object fails while nobody else writes", 1, 1, || unavailable(500, None), 16..=16),
        ("few write, and all fail", 8, 1, || unavailable(500, None), 16..=16),
        ("more write, and all fail", 12, 1, || unavailable(500, None), 8..=8),
        ("too many requests", 200, 16, || unavailable(429, None), 8..=10),
        ("it asks for time", 200, 16, || unavailable(503, Some(1)), 8..=10),
        ("something behind it is away", 200, 16, || unavailable(503, None), 128..=128),
        ("half is refused", 200, 2, || refused(422), 128..=128),
        ("all is refused: nobody knows how long a write takes", 200, 1, || refused(422), 16..=16),
    ];
    for (what, many, share, error, wanted) in rows {
        let width = width_with(many, share, error).await;
        assert!(wanted.contains(&width), "{what}: {width}");
    }
}

/// A refusal takes a tenth of a write: writes that are done then seemed to take ten times as long as usual.
#[tokio::test(start_paused = true)]
async fn refusals_do_not_say_how_long_a_write_takes() {
    let errors = || {
        let (code, reason, message) = (403, String::new(), String::new());
        [
            ApiError::Conflict,
            ApiError::AlreadyExists,
            ApiError::NotFound,
            ApiError::NamespaceEnding(String::new()),
            ApiError::Denied { code, reason: reason.clone(), message: message.clone() },
            ApiError::Refused { code: 422, reason, message },
        ]
    };
    for index in 0..errors().len() {
        let error = &errors()[index];
        let width = width(MOST);
        for round in 0..400 {
            let (took, error) = if round < 100 { (1, Some(error)) } else { (10, None) };
            width.state.lock().was_full = true;
            width.answered(PATCH, Duration::from_millis(took), error);
            tokio::time::advance(Duration::from_millis(20)).await;
        }
        assert!(now(&width) > 16, "{error}: {}", now(&width));
    }
}
