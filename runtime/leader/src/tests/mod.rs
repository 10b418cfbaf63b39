//! Candidates and leaders against one Lease, with the flags' defaults: 15 s, 10 s, 2 s.

mod api;
mod campaign;
mod told;

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Leadership as _;
use ccm_fake_api::Log;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::beside::Beside;
use crate::election::{Candidacy, Election, End};
use crate::fence::Fence;
use crate::metrics::LeaderMetrics;
use crate::settings::Settings;
use crate::timing::Timing;
use api::{FakeLeases, Mood};

const S: Duration = Duration::from_secs(1);

/// A process that takes part, until it is told to stop.
struct Process {
    fence: Arc<Fence>,
    candidacy: watch::Receiver<Candidacy>,
    stop: CancellationToken,
    registry: Registry,
    task: JoinSet<End>,
}

impl Process {
    fn start(api: &FakeLeases, identity: &str) -> Self {
        let timing = Timing::try_new(15 * S, 10 * S, 2 * S).unwrap();
        let settings = Settings {
            namespace: "kube-system".into(),
            name: "cloud-controller-manager".into(),
            identity: identity.into(),
            timing,
        };
        let mut registry = Registry::default();
        let metrics = LeaderMetrics::register(&mut registry, &settings.name);
        let fence = Arc::new(Fence::new(timing));
        let (candidacy, seen) = watch::channel(Candidacy::Standby { holder: String::new(), trouble: None });
        let mut election = Election::new(api.client(), settings, Arc::clone(&fence), metrics, candidacy);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            match election.campaign(&stopped).await {
                Some(renewed) => election.lead(renewed, &stopped).await,
                None => End::Withdrew,
            }
        });
        Self { fence, candidacy: seen, stop, registry, task }
    }

    fn leads(&self) -> bool {
        let leads = *self.candidacy.borrow() == Candidacy::Leading;
        let status = "leader_election_master_status{name=\"cloud-controller-manager\"}";
        assert_eq!(self.metric(status), f64::from(u8::from(leads)));
        leads
    }

    /// Waits until it leads, and says how long that took.
    async fn elected(&mut self) -> Duration {
        let begun = Instant::now();
        let leads = self.candidacy.wait_for(|candidacy| *candidacy == Candidacy::Leading);
        drop(timeout(600 * S, leads).await.expect("never elected").unwrap());
        assert!(self.fence.may_write());
        begun.elapsed()
    }

    /// Waits for its end, and says how long that took.
    async fn ended(&mut self) -> (End, Duration) {
        let begun = Instant::now();
        let end = timeout(600 * S, self.task.join_next()).await.expect("never ended").unwrap().unwrap();
        assert!(!self.fence.may_write() && self.fence.time_left().is_zero() && !self.leads());
        (end, begun.elapsed())
    }

    fn metric(&self, series: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
    }
}

fn lost(end: End) -> String {
    let End::Lost(why) = end else { panic!("{end:?}") };
    why
}

/// A record of another process.
fn record(holder: &str, renewed: &str) -> Value {
    json!({
        "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "renewTime": renewed,
        "acquireTime": "2020-01-01T00:00:00.000000Z",
    })
}

fn spec(api: &FakeLeases) -> LeaseSpec {
    api.lease().spec.unwrap()
}

fn held(api: &FakeLeases) -> (String, i32, i32) {
    let spec = spec(api);
    (spec.holder_identity.unwrap(), spec.lease_duration_seconds.unwrap(), spec.lease_transitions.unwrap())
}

fn near(time: Duration, expected: Duration) -> bool {
    (expected..expected + S / 10).contains(&time)
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_makes_the_lease_and_renews_it_with_one_request_per_period() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    assert!(near(one.elected().await, Duration::ZERO));
    assert_eq!(held(&api), ("one".to_owned(), 15, 0));
    let first = spec(&api);
    assert!(first.acquire_time.is_some() && first.acquire_time == first.renew_time);
    assert_eq!(api.asked(), ["GET", "POST"]);
    sleep(S * 61 / 10).await;
    assert_eq!(api.asked(), ["PUT", "PUT", "PUT"]);
    let now = spec(&api);
    assert!(now.acquire_time == first.acquire_time && now.lease_transitions == Some(0), "it is the same term");
    sleep(3_600 * S).await;
    assert!(one.leads() && one.fence.may_write());
}

/// Clocks of other machines differ: what they write about time does not count.
#[tokio::test(start_paused = true)]
async fn a_candidate_waits_for_the_lease_duration_by_its_own_clock_whatever_times_the_record_holds() {
    for renewed in ["1970-01-01T00:00:00.000000Z", "2020-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        let api = FakeLeases::new();
        api.put(&record("other", renewed));
        let mut one = Process::start(&api, "one");
        let waited = one.elected().await;
        assert!(near(waited, 15 * S), "{renewed}: {waited:?}");
        assert_eq!(held(&api), ("one".to_owned(), 15, 4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_holder_is_taken_at_once_and_one_without_duration_after_ones_own() {
    let cases = [
        (json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7 }), Duration::ZERO, 8),
        (json!({ "leaseDurationSeconds": 3600 }), Duration::ZERO, 1),
        (Value::Null, Duration::ZERO, 1),
        (json!({ "holderIdentity": "other" }), 15 * S, 1),
        (json!({ "holderIdentity": "other", "leaseDurationSeconds": -5 }), 15 * S, 1),
        // Each holder counts with what it has promised.
        (json!({ "holderIdentity": "other", "leaseDurationSeconds": 40 }), 40 * S, 1),
        (json!({ "holderIdentity": "other", "leaseTransitions": i32::MAX }), 15 * S, i32::MAX),
    ];
    for (spec, wait, transitions) in cases {
        let api = FakeLeases::new();
        api.put(&spec);
        let mut one = Process::start(&api, "one");
        let waited = one.elected().await;
        assert!(near(waited, wait), "{spec}: {waited:?}");
        assert_eq!(held(&api), ("one".to_owned(), 15, transitions), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_begins_the_wait_anew_and_a_label_does_not() {
    let api = FakeLeases::new();
    api.put(&record("other", "2020-01-01T00:00:00.000000Z"));
    let mut one = Process::start(&api, "one");
    for second in 1..=30 {
        sleep(S).await;
        if second % 2 == 0 {
            api.put(&record("other", &format!("2020-01-01T00:00:{second:02}.000000Z")));
        }
        assert!(!one.leads() && !one.fence.may_write(), "after {second} s");
    }
    assert_eq!(*one.candidacy.borrow(), Candidacy::Standby { holder: "other".into(), trouble: None });
    for _ in 0..5 {
        sleep(2 * S).await;
        api.label();
    }
    let waited = one.elected().await;
    // From the look that found the last renewal, which came up to two periods after it.
    assert!((5 * S..=9 * S + S / 10).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_wins_and_the_next_comes_when_it_is_gone() {
    let api = FakeLeases::new();
    api.is(Mood::Answers(S / 20));
    let mut all: Vec<Process> = (0..5).map(|i| Process::start(&api, &format!("c{i}"))).collect();
    for round in 0..5 {
        sleep(60 * S).await;
        let leaders: Vec<usize> = (0..all.len()).filter(|i| all[*i].leads()).collect();
        assert_eq!(leaders.len(), 1, "round {round}");
        assert_eq!(all.iter().filter(|process| !process.fence.time_left().is_zero()).count(), 1);
        // As if it were killed.
        drop(all.remove(leaders[0]));
    }
    assert_eq!(held(&api).2, 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_fail_stops_at_the_deadline_counted_from_the_start_of_the_last_good_one() {
    for (mood, part) in [
        (Mood::Silent, "no answer within 5s"),
        (Mood::Refuses(500), "(500)"),
        (Mood::Refuses(403), "manifests/base/rbac.yaml"),
    ] {
        let api = FakeLeases::new();
        let mut one = Process::start(&api, "one");
        one.elected().await;
        // Renewals at 2 s and 4 s.
        sleep(5 * S).await;
        api.is(mood);
        let (end, after) = one.ended().await;
        assert!(near(after, 9 * S), "{after:?}");
        let why = lost(end);
        assert!(why.contains("not renewed within 10s") && why.contains(part), "{why}");
        assert!(one.metric("ccm_leader_election_renew_failures_total") >= 1.0);
    }
}

/// It passed for the Lease: a candidate led beside the leader, and a leader went on beside the next one.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_lease_makes_nobody_the_leader_and_keeps_nobody() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    api.is(Mood::Pretends);
    let two = Process::start(&api, "two");
    let why = lost(one.ended().await.0);
    assert!(why.contains("not renewed within 10s") && why.contains("the answer is no Lease"), "{why}");
    sleep(60 * S).await;
    assert!(!two.leads() && two.fence.time_left().is_zero());
    assert_eq!(held(&api).0, "one", "nobody has written it");
}

/// What takes long is counted in full: others may have seen the record as soon as it was sent.
#[tokio::test(start_paused = true)]
async fn with_a_slow_api_server_a_leader_goes_on_and_its_time_begins_with_the_request() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    api.is(Mood::Answers(4 * S));
    // A renewal begins after 2 s, and is answered after 6 s.
    sleep(S * 61 / 10).await;
    assert_eq!(one.fence.time_left().as_secs(), 9, "14 s from the start of the request");
    for _ in 0..100 {
        sleep(S).await;
        assert!(one.leads() && one.fence.may_write());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_trouble_is_survived() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    for mood in [Mood::Refuses(503), Mood::Silent, Mood::LosesAnswers] {
        sleep(5 * S).await;
        api.is(mood);
        sleep(4 * S).await;
        api.is(Mood::Answers(Duration::ZERO));
        sleep(5 * S).await;
        assert!(one.leads() && one.fence.may_write());
    }
    assert_eq!(held(&api), ("one".to_owned(), 15, 0));
}

/// The process was stopped, or its machine: everything is due at once, and the end comes first.
#[tokio::test(start_paused = true)]
async fn a_leader_that_wakes_after_its_deadline_asks_for_nothing_more() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    sleep(S).await;
    api.asked();
    advance(11 * S).await;
    assert!(!one.fence.may_write(), "before anybody has noticed");
    let (end, after) = one.ended().await;
    assert!(lost(end).contains("not renewed within 10s") && after < S);
    assert_eq!(api.asked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn case_261_a_leader_whose_lease_is_anothers_or_nobodys_stops_at_the_next_look() {
    for (holder, told) in [("other", "held by other"), ("", "held by nobody")] {
        let api = FakeLeases::new();
        let mut one = Process::start(&api, "one");
        one.elected().await;
        api.put(&record(holder, "2020-01-01T00:00:00.000000Z"));
        let (end, after) = one.ended().await;
        let why = lost(end);
        assert!(why.contains(told) && after <= S * 21 / 10, "{why} after {after:?}");
        assert_eq!(held(&api).0, holder, "it is not taken back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_on_the_lease_costs_a_look_and_nothing_else() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    api.asked();
    api.label();
    sleep(3 * S).await;
    assert_eq!(api.asked(), ["PUT", "GET", "PUT"]);
    assert!(one.leads() && one.metric("leader_election_slowpath_total{name=\"cloud-controller-manager\"}") == 1.0);
    assert!(api.lease().metadata.labels.is_some(), "it stays");
}

/// A candidate that knows a holder keeps what that was promised.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_anew_by_its_holder() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    let two = Process::start(&api, "two");
    sleep(20 * S).await;
    for _ in 0..20 {
        api.delete();
        sleep(S * 47 / 10).await;
        assert!(one.leads() && one.fence.may_write() && !two.leads());
        assert_eq!(held(&api).0, "one");
    }
    one.task.shutdown().await;
    api.delete();
    let mut two = two;
    let waited = two.elected().await;
    assert!(waited > 10 * S && waited < 20 * S, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_told_to_stop_frees_the_lease_and_the_next_one_need_not_wait() {
    for is_labelled in [false, true] {
        let api = FakeLeases::new();
        let mut one = Process::start(&api, "one");
        one.elected().await;
        let mut two = Process::start(&api, "two");
        sleep(20 * S).await;
        if is_labelled {
            api.label();
        }
        let before = spec(&api);
        one.stop.cancel();
        let (end, after) = one.ended().await;
        assert!(end == End::Released && after < S / 10, "{end:?} after {after:?}");
        assert_eq!(held(&api), (String::new(), 1, before.lease_transitions.unwrap()));
        assert!(two.elected().await <= 4 * S);
        assert_eq!(held(&api), ("two".to_owned(), 15, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_free_the_lease_ends_all_the_same() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    api.is(Mood::Silent);
    one.stop.cancel();
    let (end, after) = one.ended().await;
    assert!(end == End::Withdrew && after <= S * 101 / 10, "{end:?} after {after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_told_to_stop_leaves_the_lease_alone() {
    let api = FakeLeases::new();
    let mut one = Process::start(&api, "one");
    one.elected().await;
    let mut two = Process::start(&api, "two");
    sleep(20 * S).await;
    two.stop.cancel();
    assert_eq!(two.ended().await.0, End::Withdrew);
    assert!(one.leads());
    assert_eq!(held(&api).0, "one");
}

/// It would wait for itself otherwise.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_won_and_did_not_hear_of_it_finds_out() {
    let api = FakeLeases::new();
    api.is(Mood::LosesAnswers);
    let mut one = Process::start(&api, "one");
    sleep(6 * S).await;
    api.is(Mood::Answers(Duration::ZERO));
    api.put(&json!({}));
    api.is(Mood::LosesAnswers);
    sleep(S).await;
    api.is(Mood::Answers(Duration::ZERO));
    assert!(one.elected().await < 10 * S);
    let api = FakeLeases::new();
    api.put(&record("one", "2020-01-01T00:00:00.000000Z"));
    assert!(Process::start(&api, "one").elected().await < S);
}

/// It once was ready all the same: a rollout of replicas that may not read the Lease went through, and nobody led.
#[tokio::test(start_paused = true)]
async fn a_standby_that_could_not_lead_says_why_until_it_could() {
    let api = FakeLeases::new();
    api.put(&record("other", "2020-01-01T00:00:00.000000Z"));
    let one = Process::start(&api, "one");
    let seen = crate::Seen { identity: "one".into(), candidacy: one.candidacy.clone() };
    sleep(3 * S).await;
    assert_eq!(seen.trouble(), None);
    api.is(Mood::Refuses(403));
    sleep(5 * S).await;
    let why = seen.trouble().unwrap_or_default();
    assert!(why.contains("manifests/base/rbac.yaml"), "{why}");
    api.is(Mood::Answers(S / 20));
    sleep(5 * S).await;
    assert_eq!(seen.trouble(), None);
}
