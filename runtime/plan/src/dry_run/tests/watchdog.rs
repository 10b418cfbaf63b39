//! A dry run that hangs shows the same as one for which nothing changes: only the watchdog tells them apart.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// As of `--controller-watchdog-periods`.
const PERIODS: u32 = 6;
const DAY: Duration = Duration::from_secs(86_400);

/// An API server that takes so many seconds for each answer about Nodes that were deleted lately, which each look at Nodes asks for. Of Events it
/// has three pages.
fn slow(seconds: Arc<AtomicU64>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let seconds = Arc::clone(&seconds);
        async move {
            if request.uri().query().unwrap_or_default().contains("watch=") {
                return std::future::pending().await;
            }
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let mut list = json!({ "metadata": { "resourceVersion": "7" }, "items": [] });
            if path.ends_with("/events") && !query.contains("continue=3") {
                list["metadata"]["continue"] = json!(if query.contains("continue=2") { "3" } else { "2" });
            }
            if path.contains("/configmaps/") || path.ends_with("/events") {
                tokio::time::sleep(Duration::from_secs(seconds.load(Ordering::Relaxed))).await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    sealed(&Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_is_noticed_and_one_that_is_slow_or_has_nothing_to_do_is_not() {
    let seconds: Arc<AtomicU64> = Arc::default();
    let mut bench = bench(slow(Arc::clone(&seconds)), vec![]).await;
    bench.parts.settings.gate.request_timeout = 250 * SECOND;
    let hours = 2 * 3_600 * SECOND;
    let periods = &mut bench.parts.periods;
    (periods.nodes, periods.services, periods.routes, periods.cluster) = (hours, Duration::ZERO, hours, hours);
    let pulses = bench.parts.pulses.clone();
    let looking = bench.parts.pending.looking().clone();
    let check = || looking.check(&pulses, PERIODS);
    assert_eq!(check(), Ok(()), "it has not begun");
    let mut work = std::pin::pin!(dry_run(bench.parts));
    let mut after = async |time: Duration| {
        assert!(tokio::time::timeout(time, work.as_mut()).await.is_err(), "it never ends");
        check()
    };
    // Each minute for a day, in most of which nothing is due.
    for slowness in [0, 200] {
        seconds.store(slowness, Ordering::Relaxed);
        for minute in 0..720 {
            assert_eq!(after(60 * SECOND).await, Ok(()), "{minute} minutes, each answer after {slowness} s");
        }
    }
    // An API server that never answers is no reason: its request ends.
    seconds.store(DAY.as_secs(), Ordering::Relaxed);
    let mut looks = 0;
    for minute in 0..360 {
        assert_eq!(after(60 * SECOND).await, Ok(()), "{minute} minutes");
        looks += usize::from(looking.line().is_some());
    }
    assert!(looks > 9, "it was looking at {looks} times");
    while looking.line().is_none() {
        assert_eq!(after(60 * SECOND).await, Ok(()));
    }
    // Nobody lets it turn.
    tokio::time::advance(400 * SECOND).await;
    assert_eq!(check(), Ok(()));
    tokio::time::advance(100 * SECOND).await;
    let told = check().unwrap_err();
    assert!(told.starts_with("its loop looks has not turned for "), "{told}");
    assert!(told.contains("; the limit is 480 s (--controller-watchdog-periods); looking since 20"), "{told}");
    seconds.store(0, Ordering::Relaxed);
    assert_eq!(after(DAY + 1_800 * SECOND).await, Ok(()), "it goes on");
    assert_eq!(looking.line(), None);
}
