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
