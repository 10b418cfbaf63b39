use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use super::*;
use crate::metrics::QueueMetrics;
use crate::testing::{Log, scraped};

/// A reconciler that takes `work`, hands out verdicts in order (then [`Verdict::Done`]), and writes down what it does.
struct Desk {
    work: Duration,
    verdicts: Mutex<VecDeque<Verdict>>,
    begun: Mutex<Vec<(String, Duration)>>,
    running: AtomicUsize,
    most: AtomicUsize,
    start: Instant,
}

impl ObjectName for String {
    fn object_name(&self) -> String {
        self.clone()
    }

    fn parts(&self) -> (Cow<'_, str>, &str, &str) {
        (Cow::Borrowed("Thing"), "", self)
    }
}

impl Desk {
    fn new(work: Duration, verdicts: impl IntoIterator<Item = Verdict>) -> Arc<Self> {
        Arc::new(Self {
            work,
            verdicts: Mutex::new(verdicts.into_iter().collect()),
            begun: Mutex::default(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            start: Instant::now(),
        })
    }

    async fn reconcile(self: Arc<Self>, key: String) -> Verdict {
        self.begun.lock().push((key.clone(), self.start.elapsed()));
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        assert_ne!(key, "panic", "this key panics");
        if key.ends_with("endless") {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.work).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.verdicts.lock().pop_front().unwrap_or(Verdict::Done)
    }

    /// Seconds at which runs began, of all keys.
    fn times(&self) -> Vec<f64> {
        self.begun.lock().iter().map(|(_, at)| at.as_secs_f64()).collect()
    }

    fn keys(&self) -> Vec<String> {
        self.begun.lock().iter().map(|(key, _)| key.clone()).collect()
    }
}

/// Sends the keys at their seconds, and stops the queue at second `end`.
async fn run_keys(desk: &Arc<Desk>, keys: &[(u64, &str)], end: u64) -> Registry {
    run_with(desk, keys, end, QueueSettings::default()).await.0
}

async fn run_with(
    desk: &Arc<Desk>,
    keys: &[(u64, &str)],
    end: u64,
    settings: QueueSettings,
) -> (Registry, Result<(), GivenUp>) {
    let mut registry = Registry::default();
    let meters = QueueMetrics::register(&mut registry).of("Nodes");
    let (sender, receiver) = mpsc::channel(16);
    let shutdown = CancellationToken::new();
    let reconcile = |key: String| Arc::clone(desk).reconcile(key);
    let feed = async {
        for (at, key) in keys {
            tokio::time::sleep_until(desk.start + Duration::from_secs(*at)).await;
            sender.send((*key).to_owned()).await.unwrap();
        }
        tokio::time::sleep_until(desk.start + Duration::from_secs(end)).await;
        shutdown.cancel();
    };
    let (ended, ()) = tokio::join!(run(receiver, reconcile, settings, meters, shutdown.clone()), feed);
    (registry, ended)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_worked_on_twice_at_once_and_runs_once_more_when_it_changed_meanwhile() {
    let desk = Desk::new(Duration::from_secs(10), []);
    let registry = run_keys(&desk, &[(0, "a"), (1, "a"), (2, "a"), (3, "a")], 100).await;
    assert_eq!(desk.times(), [0.0, 10.0]);
    assert_eq!(desk.most.load(Ordering::SeqCst), 1);
    assert!(scraped(&registry, "workqueue_adds_total{name=\"Nodes\"}") == 2.0, "adding what waits counts for nothing");
}

#[tokio::test(start_paused = true)]
async fn different_keys_run_at_the_same_time() {
    let desk = Desk::new(Duration::from_secs(10), []);
    let names: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let keys: Vec<(u64, &str)> = names.iter().map(|name| (0, name.as_str())).collect();
    run_keys(&desk, &keys, 100).await;
    assert_eq!(desk.most.load(Ordering::SeqCst), 100);
}

#[tokio::test(start_paused = true)]
async fn the_back_off_doubles_with_each_failure_to_a_bound_and_success_clears_it() {
    let failures = std::iter::repeat_n(Verdict::Backoff, 25);
    let desk = Desk::new(Duration::ZERO, failures.chain([Verdict::Done]));
    run_keys(&desk, &[(0, "a"), (100_000, "a"), (100_001, "a")], 200_000).await;
    let times = desk.times();
    assert_eq!(times.len(), 28, "26 runs, then one for each of the later changes");
    for (n, pair) in times.windows(2).take(25).enumerate() {
        let base = (0.005 * 2f64.powi(i32::try_from(n).unwrap())).min(1_000.0);
        let delay = pair[1] - pair[0];
        // Timers have steps of a millisecond, and seconds are rounded.
        let range = base.min(900.0) - 1e-6..=(2.0 * base).min(1_000.0) + 0.002;
        assert!(range.contains(&delay), "failure {n}: {delay} for {base}");
    }
}

#[test]
fn delays_beyond_the_longest_one_are_spread_below_it() {
    let seconds = |delay| capped(Duration::from_secs(delay), Duration::from_secs(300)).as_secs();
    assert_eq!([1, 299, 300, 310, 450, 600, 9_000].map(seconds), [1, 299, 300, 299, 285, 270, 270]);
}

#[tokio::test(start_paused = true)]
async fn success_makes_the_next_failure_the_first() {
    let verdicts = [Verdict::Backoff, Verdict::Backoff, Verdict::Backoff, Verdict::Done, Verdict::Backoff];
    let desk = Desk::new(Duration::ZERO, verdicts);
    run_keys(&desk, &[(0, "a"), (10, "a")], 20).await;
    let delay = desk.times()[5] - desk.times()[4];
    assert!((0.005..0.013).contains(&delay), "{delay}");
}

#[tokio::test(start_paused = true)]
async fn a_change_runs_at_once_whatever_the_back_off_and_takes_the_place_of_the_planned_run() {
    let desk = Desk::new(Duration::ZERO, [Verdict::After(Duration::from_secs(1_000))]);
    run_keys(&desk, &[(0, "a"), (5, "a")], 5_000).await;
    assert_eq!(desk.times(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_and_leaves_the_count_of_failures_alone() {
    let wait = Verdict::After(Duration::from_secs(7));
    let desk = Desk::new(Duration::ZERO, [Verdict::Backoff, Verdict::Backoff, wait, Verdict::Backoff]);
    let registry = run_keys(&desk, &[(0, "a")], 100).await;
    let times = desk.times();
    assert!((times[3] - times[2] - 7.0).abs() < 0.002, "{times:?}");
    assert!((0.020..0.043).contains(&(times[4] - times[3])), "the third failure: {times:?}");
    assert!(scraped(&registry, "workqueue_retries_total{name=\"Nodes\"}") == 4.0);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_change_is_looked_at_after_the_resync_all_the_same() {
    let desk = Desk::new(Duration::ZERO, [Verdict::Change]);
    run_keys(&desk, &[(0, "a")], 13 * 60 * 60).await;
    assert_eq!(desk.times().len(), 2);
    assert!((desk.times()[1] - 43_200.0).abs() < 0.002);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_failure_of_one_key_and_the_queue_goes_on() {
    let desk = Desk::new(Duration::ZERO, []);
    let registry = run_keys(&desk, &[(0, "panic"), (1, "b")], 2).await;
    assert!(desk.keys().contains(&"b".to_owned()));
    assert!(desk.keys().iter().filter(|key| *key == "panic").count() > 3, "retried with back-off");
    assert!(scraped(&registry, "ccm_reconcile_panics_total{name=\"Nodes\"}") > 3.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_end_is_dropped_and_tried_again() {
    let desk = Desk::new(Duration::ZERO, []);
    run_keys(&desk, &[(0, "endless")], 20 * 60).await;
    assert_eq!(desk.times().len(), 2);
    assert!((desk.times()[1] - 900.0).abs() < 0.1);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_running_work_end_within_its_time_and_begins_nothing() {
    for (work, ends) in [(5, true), (50, false)] {
        let desk = Desk::new(Duration::from_secs(work), [Verdict::After(Duration::ZERO)]);
        run_keys(&desk, &[(0, "a"), (1, "a")], 2).await;
        assert_eq!(desk.times(), [0.0]);
        assert_eq!(desk.running.load(Ordering::SeqCst) == 0, ends);
        assert!(desk.start.elapsed() <= Duration::from_secs(13), "{:?}", desk.start.elapsed());
    }
}

/// Nobody knew, and the Lease was released while a request to the cloud was under way.
#[tokio::test(start_paused = true)]
async fn work_that_is_given_up_at_the_end_is_told_to_the_owner() {
    let given_up = |runs| Err(GivenUp { queue: "Nodes", runs });
    let limited = QueueSettings { max_run: Duration::from_secs(5), ..QueueSettings::default() };
    let cases = [
        (vec![], QueueSettings::default(), Ok(())),
        (vec![(0, "a"), (1, "b")], QueueSettings::default(), Ok(())),
        (vec![(0, "a"), (1, "endless")], QueueSettings::default(), given_up(1)),
        (vec![(0, "endless"), (1, "other endless")], QueueSettings::default(), given_up(2)),
        // Its own limit ends it while it is waited for.
        (vec![(0, "endless")], limited, given_up(1)),
    ];
    for (keys, settings, expected) in cases {
        let desk = Desk::new(Duration::from_secs(8), []);
        let (_, ended) = run_with(&desk, &keys, 2, settings).await;
        assert_eq!(ended, expected, "{keys:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_and_work_are_measured() {
    let desk = Desk::new(Duration::from_secs(10), []);
    let registry = run_keys(&desk, &[(0, "a"), (4, "a")], 100).await;
    let series = |part: &str| scraped(&registry, &format!("workqueue_{part}{{name=\"Nodes\"}}"));
    let [waited, worked] = [series("queue_duration_seconds_sum"), series("work_duration_seconds_sum")];
    assert!((waited - 6.0).abs() < 0.01 && (worked - 20.0).abs() < 0.01, "{waited} {worked}");
    assert!(series("depth") == 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_worked_on_is_measured_before_it_has_ended() {
    // How long a key takes, then what is seen at second 9: the sum over all keys, and the longest.
    for (work, unfinished, longest) in [(100, 14.0, 9.0), (7, 5.0, 5.0), (2, 0.0, 0.0)] {
        let desk = Desk::new(Duration::from_secs(work), []);
        let registry = run_keys(&desk, &[(0, "a"), (4, "b")], 9).await;
        let series = |part: &str| scraped(&registry, &format!("workqueue_{part}_seconds{{name=\"Nodes\"}}"));
        let [seen, seen_longest] = [series("unfinished_work"), series("longest_running_processor")];
        // Looked at twice a second.
        assert!((unfinished - 1.01..=unfinished).contains(&seen), "{work}: {seen}");
        assert!((longest - 0.51..=longest).contains(&seen_longest), "{work}: {seen_longest}");
    }
}

#[test]
fn a_crowd_that_is_done_leaves_no_room_behind() {
    let meters = QueueMetrics::register(&mut Registry::default()).of("Nodes");
    let mut queue = Queue::new(QueueSettings::default(), meters);
    let keys = || (0..5_000).map(|i| format!("n{i}"));
    for verdict in [Verdict::Backoff, Verdict::Done] {
        for key in keys() {
            queue.add(key, Instant::now());
        }
        for key in keys() {
            queue.ended(key, verdict);
        }
    }
    let room = [queue.running.capacity(), queue.plans.capacity(), queue.failures.capacity()];
    assert!(room.iter().all(|room| *room <= 1_024), "{room:?}");
}

/// It was to be known when the next try is, and only the queue knows.
#[tokio::test(start_paused = true)]
async fn a_queue_says_where_a_key_stands_without_a_word_to_its_runs() {
    let desk = Desk::new(Duration::from_secs(10), [Verdict::After(Duration::from_secs(60))]);
    let mut registry = Registry::default();
    let meters = QueueMetrics::register(&mut registry).of("Nodes");
    let (sender, receiver) = mpsc::channel(16);
    let (places, questions) = places();
    let shutdown = CancellationToken::new();
    let reconcile = |key: String| Arc::clone(&desk).reconcile(key);
    let queue = run_asked(receiver, questions, reconcile, QueueSettings::default(), meters, shutdown.clone());
    let asking = async {
        sender.send("a".to_owned()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(places.of("a".to_owned()).await, Some(Place::Running(Duration::from_secs(4))));
        let running = Place::Running(Duration::from_secs(4));
        assert_eq!(places.of_all(vec!["b".to_owned(), "a".to_owned()]).await, Some(vec![Place::Idle, running]));
        tokio::time::sleep(Duration::from_secs(26)).await;
        assert_eq!(places.of("a".to_owned()).await, Some(Place::Planned(Duration::from_secs(40))));
        shutdown.cancel();
    };
    let (ended, ()) = tokio::join!(queue, asking);
    ended.unwrap();
    assert_eq!(places.of("a".to_owned()).await, None, "a queue that has ended says nothing");
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_a_queue_that_is_stuck_is_told_nothing_soon() {
    let (places, _questions) = places::<String>();
    let begun = Instant::now();
    assert_eq!(places.of("a".to_owned()).await, None);
    assert!(begun.elapsed() <= Duration::from_secs(2));
}

/// Whoever looks for failing reconciles in traces would find none.
#[tokio::test(start_paused = true)]
async fn the_span_of_a_run_says_how_it_ended_and_whether_that_is_a_failure() {
    let log = Log::with_spans();
    let soon = Duration::from_secs(1);
    let desk = Desk::new(Duration::ZERO, [Verdict::Backoff, Verdict::After(soon), Verdict::Change, Verdict::Done]);
    run_keys(&desk, &[(0, "a"), (60, "a")], 120).await;
    run_keys(&Desk::new(Duration::ZERO, []), &[(0, "panic"), (0, "endless")], 20 * 60).await;
    let ended = |key: &str| -> Vec<String> {
        let lines = log.lines(&format!("k8s.object.name=\"{key}\""));
        // One that was under way when the queue stopped has no outcome.
        let spans = lines.iter().filter(|line| line.contains("}: ccm_spans: close "));
        let outcomes = spans.filter_map(|span| span.split_once("ccm.outcome="));
        outcomes.map(|(_, outcome)| outcome.split('}').next().unwrap().to_owned()).collect()
    };
    let failed = |why: &str| format!("{why:?} otel.status_code=\"ERROR\" error.type={why:?}");
    let good = |how: &str| format!("{how:?}");
    assert_eq!(ended("a"), [failed("failed"), good("again-later"), good("waits-for-change"), good("done")]);
    assert_eq!((ended("panic")[0].clone(), ended("endless")[0].clone()), (failed("panic"), failed("no-end")));
}
