use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;

/// What ended, in order.
type Diary = Arc<Mutex<Vec<&'static str>>>;

/// Work that ends this long after it is told to.
async fn slow_to_end(name: &'static str, token: CancellationToken, slow: Duration, diary: Diary) {
    token.cancelled().await;
    tokio::time::sleep(slow).await;
    diary.lock().push(name);
}

#[tokio::test(start_paused = true)]
async fn controllers_end_before_what_they_left_is_written_and_nobody_waits_for_other_work() {
    let (mut tasks, diary) = (Tasks::default(), Diary::default());
    let (stop, drain) = (tasks.stop.clone(), tasks.drain.clone());
    tasks.spawn_background(EVENT_WRITER, slow_to_end("events", drain, Duration::from_secs(5), Arc::clone(&diary)));
    tasks.spawn_background("node lookups", std::future::pending());
    tasks.spawn_controller("slow", slow_to_end("slow", stop.clone(), Duration::from_secs(10), Arc::clone(&diary)));
    tasks.spawn_controller("quick", slow_to_end("quick", stop, Duration::ZERO, Arc::clone(&diary)));
    let begun = Instant::now();
    tasks.stop().await.unwrap();
    assert_eq!((diary.lock().as_slice(), begun.elapsed().as_secs()), (&["quick", "slow", "events"][..], 15));
}

/// Before Kubernetes kills it, so that it is in the log.
#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_told_and_left() {
    for name in ["node controller", EVENT_WRITER] {
        let mut tasks = Tasks::default();
        if name == EVENT_WRITER {
            tasks.spawn_background(name, std::future::pending());
        } else {
            tasks.spawn_controller(name, std::future::pending());
        }
        let begun = Instant::now();
        let error = tasks.stop().await.unwrap_err();
        assert_eq!((error.to_string().as_str(), begun.elapsed().as_secs()), ("not everything ended within 20s", 20));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_by_itself_ends_the_process_and_is_named() {
    for is_controller in [true, false] {
        let mut tasks = Tasks::default();
        if is_controller {
            tasks.spawn_controller("one", async {});
        } else {
            tasks.spawn_background("one", async {});
        }
        let error = tasks.unless_stopped(std::future::pending::<Infallible>()).await.unwrap_err();
        assert_eq!(error.to_string(), "the one ended by itself");
    }
    let mut tasks = Tasks::default();
    tasks.stop.cancel();
    assert_eq!(tasks.unless_stopped(async { 1 }).await.unwrap(), None, "the signal goes before all else");
}
