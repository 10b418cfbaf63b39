use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;

/// What ended, in order.
type Diary = Arc<Mutex<Vec<&'static str>>>;

/// Work that ends well, this long after it is told to.
async fn slow_controller(name: &'static str, token: CancellationToken, slow: u64, diary: Diary) -> Result<(), GivenUp> {
    slow_to_end(name, token, Duration::from_secs(slow), diary).await;
    Ok(())
}

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
    tasks.spawn_controller("slow", slow_controller("slow", stop.clone(), 10, Arc::clone(&diary)));
    tasks.spawn_controller("quick", slow_controller("quick", stop, 0, Arc::clone(&diary)));
    let begun = Instant::now();
    tasks.stop().await.unwrap();
    assert_eq!((diary.lock().as_slice(), begun.elapsed().as_secs()), (&["quick", "slow", "events"][..], 15));
}

/// Why a process gives way to another replica is said as the last thing of all, and was cut off where no other Event was left.
#[tokio::test(start_paused = true)]
async fn the_writers_of_all_events_are_waited_for() {
    let (mut tasks, diary) = (Tasks::default(), Diary::default());
    for (name, slow) in [(EVENT_WRITER, 1), (PROVIDER_EVENT_WRITER, 3)] {
        let writer = slow_to_end(name, tasks.drain.clone(), Duration::from_secs(slow), Arc::clone(&diary));
        tasks.spawn_background(name, writer);
    }
    tasks.spawn_background("node lookups", std::future::pending());
    tasks.stop().await.unwrap();
    assert_eq!(diary.lock().as_slice(), &[EVENT_WRITER, PROVIDER_EVENT_WRITER][..]);
}

/// It was waited for until the time was over, and the Lease was not handed on.
#[tokio::test(start_paused = true)]
async fn a_writer_that_panicked_is_waited_for_no_more() {
    for is_early in [false, true] {
        let (mut tasks, diary) = (Tasks::default(), Diary::default());
        let (drain, ends) = (tasks.drain.clone(), tasks.drain.clone());
        tasks.spawn_background(PROVIDER_EVENT_WRITER, async move {
            if !is_early {
                ends.cancelled().await;
            }
            panic!("a defect");
        });
        tasks.spawn_background(EVENT_WRITER, slow_to_end("events", drain, Duration::from_secs(3), Arc::clone(&diary)));
        tasks.spawn_background("signals", std::future::pending());
        if is_early {
            assert!(tasks.unless_stopped(std::future::pending::<Infallible>()).await.is_err());
        }
        let begun = Instant::now();
        assert_eq!(tasks.stop().await.is_err(), !is_early, "early: {is_early}");
        assert_eq!((diary.lock().as_slice(), begun.elapsed().as_secs()), (&["events"][..], 3), "early: {is_early}");
    }
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
            tasks.spawn_controller("one", async { Ok(()) });
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

/// The last that is known of a Lease's holder: who gave work up must not hand it on, however and whenever that came out.
#[tokio::test(start_paused = true)]
async fn work_that_was_given_up_is_told_and_all_else_ends_in_order() {
    let given_up = || -> Result<(), GivenUp> { Err(GivenUp { queue: "service", runs: 2 }) };
    for is_early in [true, false] {
        let (mut tasks, diary) = (Tasks::default(), Diary::default());
        let (stop, drain) = (tasks.stop.clone(), tasks.drain.clone());
        tasks.spawn_background(EVENT_WRITER, slow_to_end("events", drain, Duration::ZERO, Arc::clone(&diary)));
        tasks.spawn_controller("service controller", async move {
            if !is_early {
                stop.cancelled().await;
            }
            given_up()
        });
        if is_early {
            let error = tasks.unless_stopped(std::future::pending::<Infallible>()).await.unwrap_err();
            assert_eq!(error.to_string(), "the service controller ended by itself");
        }
        let error = tasks.stop().await.unwrap_err().to_string();
        let expected = format!("stopped before all work had ended: service controller: {}", given_up().unwrap_err());
        assert_eq!((error, diary.lock().as_slice()), (expected, &["events"][..]), "early: {is_early}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panicked_did_not_end_its_work() {
    let mut tasks = Tasks::default();
    tasks.spawn_controller("node controller", async { panic!("a defect") });
    let error = format!("{:#}", tasks.stop().await.unwrap_err());
    assert!(error.starts_with("stopped before all work had ended: ") && error.contains("a defect"), "{error}");
}

/// A component on probation may be the reason for a panic, which looked like an end in order.
#[tokio::test(start_paused = true)]
async fn the_panic_of_a_task_is_told_from_any_other_end() {
    let ended = async |is_controller: bool, panics: bool, is_stopped: bool| {
        let mut tasks = Tasks::default();
        let work = async move { assert!(!panics, "a defect") };
        if is_controller {
            tasks.spawn_reader("one", work);
        } else {
            tasks.spawn_background("one", work);
        }
        let ended = if is_stopped {
            tasks.stop().await
        } else {
            tasks.unless_stopped(std::future::pending::<Infallible>()).await.map(|_| ())
        };
        (has_panicked(&ended), ended.is_err())
    };
    for is_controller in [true, false] {
        for is_stopped in [true, false] {
            assert_eq!(ended(is_controller, true, is_stopped).await, (true, true), "{is_controller} {is_stopped}");
            let (has_panicked, is_error) = ended(is_controller, false, is_stopped).await;
            assert_eq!((has_panicked, is_error), (false, !is_stopped), "{is_controller} {is_stopped}");
        }
    }
}

/// It was told after all else had ended: a good component was refused after the restart.
#[tokio::test(start_paused = true)]
async fn that_no_component_is_to_blame_is_said_before_anything_is_waited_for_unless_a_task_has_panicked() {
    let begun = Instant::now();
    for panics in [false, true] {
        let mut tasks = Tasks::default();
        let stop = tasks.stop.clone();
        tasks.spawn_reader("slow", async move {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        });
        tasks.spawn_background("one", async move { assert!(!panics, "a defect") });
        let ended = tasks.unless_stopped(std::future::pending()).await;
        let before = begun.elapsed();
        let said = Arc::new(Mutex::new(None));
        let says = Arc::clone(&said);
        let ended = end(tasks, None, ended, move || *says.lock() = Some(begun.elapsed())).await;
        assert_eq!((has_panicked(&ended), *said.lock()), (panics, Some(before).filter(|_| !panics)));
        assert_eq!((begun.elapsed() - before).as_secs(), 10, "it ended in order");
    }
}

/// The panic of a task of a process that ended for another reason blamed nobody.
#[tokio::test(start_paused = true)]
async fn a_panic_while_the_process_ends_is_told_from_why_it_ends() {
    let work = async |tasks: &mut Tasks, _: &mut Option<Campaign>| {
        let stop = tasks.stop.clone();
        tasks.spawn_reader("webhook", async move {
            stop.cancelled().await;
            panic!("a defect");
        });
        tasks.spawn_background("rollout of providers", async {});
        tasks.unless_stopped(std::future::pending()).await
    };
    assert!(has_panicked(&in_order(work, || {}).await));
}

/// A standby that gave way to another replica ended at once, and its Event, which says why, was sometimes lost.
#[tokio::test(start_paused = true)]
async fn the_last_events_are_written_whatever_ends_the_work() {
    for fails in [false, true] {
        let written = Arc::new(Mutex::new(false));
        let writes = Arc::clone(&written);
        let work = async move |tasks: &mut Tasks, _: &mut Option<Campaign>| {
            let drain = tasks.drain.clone();
            tasks.spawn_background(PROVIDER_EVENT_WRITER, async move {
                drain.cancelled().await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                *writes.lock() = true;
            });
            tasks.spawn_background("rollout of providers", async {});
            if fails {
                bail!("the cloud-config cannot be read");
            }
            tasks.unless_stopped(std::future::pending()).await
        };
        let error = in_order(work, || {}).await.unwrap_err();
        let says = ["the rollout of providers ended by itself", "the cloud-config cannot be read"];
        assert_eq!((error.to_string().as_str(), *written.lock()), (says[usize::from(fails)], true));
    }
}

/// The end of the process waited for ever for a folder on a dead disk.
#[tokio::test(start_paused = true)]
async fn a_state_folder_that_hangs_is_waited_for_a_second() {
    let (answers, hangs) = std::sync::mpsc::channel::<()>();
    let begun = Instant::now();
    // The clock does not go on by itself while a thread hangs.
    let clock = async {
        tokio::task::yield_now().await;
        tokio::time::advance(LONGEST_SAYING + Duration::from_millis(1)).await;
    };
    tokio::join!(say_in_time(move || assert!(hangs.recv().is_err(), "nobody answers")), clock);
    assert_eq!(begun.elapsed().as_secs(), 1);
    drop(answers);
}
