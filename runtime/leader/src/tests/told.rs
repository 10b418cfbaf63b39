//! What replicas, their pages and their logs say of the Lease and its holder.

use super::*;

/// The head of the status page, and `/readyz`.
#[test]
fn each_replica_says_who_leads() {
    let standby = |holder: &str| Candidacy::Standby { holder: holder.to_owned(), trouble: None };
    for (candidacy, line, leads) in [
        (Candidacy::Leading, "leader: this process, one", true),
        (standby("other"), "leader: other; this process, one, stands by", false),
        (standby(""), "leader: not known; this process, one, stands by", false),
        (Candidacy::Lost("why".to_owned()), "leader: no more this process, one: why", false),
    ] {
        let (_candidacy, seen) = watch::channel(candidacy);
        let seen = crate::Seen { identity: "one".into(), candidacy: seen };
        assert_eq!((seen.line().as_str(), seen.leads(), seen.trouble()), (line, leads, None));
    }
}

/// The machine slept while the API server answered.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_hears_too_late_that_it_has_won_does_not_lead_before_it_has_renewed() {
    let api = FakeLeases::new();
    api.is(Mood::Answers(4 * S));
    let mut one = Process::start(&api, "one");
    // It creates the Lease from 4 s on.
    sleep(5 * S).await;
    advance(11 * S).await;
    api.is(Mood::Answers(Duration::ZERO));
    assert!(one.elected().await < 5 * S);
    assert_eq!(held(&api), ("one".to_owned(), 15, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_that_cannot_read_the_lease_says_why() {
    let (log, api, beside) = (Log::start(), FakeLeases::new(), Beside::default());
    api.put(&record("other", "2020-01-01T00:00:00.000000Z"));
    let (namespace, name) = ("kube-system".to_owned(), "cloud-controller-manager".to_owned());
    let mut look = JoinSet::new();
    look.spawn(beside.clone().follow(api.client(), namespace, name));
    for (mood, seconds, told) in [
        (Mood::Silent, 11, "cannot be read: no answer within 10s"),
        (Mood::Refuses(403), 11, "(403)"),
        (
            Mood::Answers(Duration::ZERO),
            30,
            "beside nobody: no manager holds Lease kube-system/cloud-controller-manager",
        ),
    ] {
        api.is(mood);
        sleep(seconds * S).await;
        let line = beside.line().unwrap();
        assert!(line.contains(told) && line.contains("Lease kube-system/cloud-controller-manager"), "{line}");
    }
    assert_eq!((log.lines("cannot be read").len(), log.lines("beside nobody").len()), (1, 1), "once per change");
}

/// `cannot get the Lease ... (403)`, for those who read the log
#[tokio::test(start_paused = true)]
async fn what_keeps_a_standby_from_leading_is_told_once_in_five_minutes_and_its_end_as_well() {
    let (log, api) = (Log::start(), FakeLeases::new());
    let told = || (log.lines("cannot get the Lease").len(), log.lines("leader election goes on").len());
    api.put(&record("other", "2020-01-01T00:00:00.000000Z"));
    api.is(Mood::Refuses(403));
    let _one = Process::start(&api, "one");
    for (seconds, expected) in [(10, (1, 0)), (280, (1, 0)), (20, (2, 0)), (280, (2, 0))] {
        sleep(seconds * S).await;
        assert_eq!(told(), expected);
    }
    api.is(Mood::Answers(Duration::ZERO));
    sleep(10 * S).await;
    assert_eq!(told(), (2, 1));
}

/// Whoever may write one Lease once wrote lines of `/readyz` and of the log with it, as long as the API server takes.
#[tokio::test(start_paused = true)]
async fn what_a_holder_calls_itself_is_one_short_line_of_a_standby_and_of_a_leader_that_lost() {
    let nasty = format!("other\n[-]x failed: \u{1b}[2J{}", "\u{fc}".repeat(1 << 19));
    let is_line = |text: &str, begins: &str| {
        let is_plain = text.starts_with(begins) && text.chars().all(ccm_cloud::is_plain);
        assert!(is_plain && text.chars().count() < 400, "{} characters: {text:.300}", text.chars().count());
    };
    let api = FakeLeases::new();
    api.put(&record(&nasty, "2020-01-01T00:00:00.000000Z"));
    let mut one = Process::start(&api, "one");
    let seen = crate::Seen { identity: "one".into(), candidacy: one.candidacy.clone() };
    sleep(3 * S).await;
    is_line(&seen.line(), "leader: other [-]x failed:  [2J\u{fc}");
    assert!(seen.line().ends_with("\u{fc}\u{2026}; this process, one, stands by"), "{}", seen.line());
    one.elected().await;
    api.put(&record(&nasty, "2020-01-01T00:00:00.000000Z"));
    is_line(
        &lost(one.ended().await.0),
        "the Lease was taken away from this process: it is held by other [-]x failed: ",
    );
    is_line(&seen.line(), "leader: no more this process, one: the Lease was taken away");
}

/// It quotes what is in the Lease, and what webhooks of others say.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_api_server_is_one_short_line() {
    let api = FakeLeases::new();
    api.is(Mood::Shouts);
    let one = Process::start(&api, "one");
    let seen = crate::Seen { identity: "one".into(), candidacy: one.candidacy.clone() };
    sleep(3 * S).await;
    let why = seen.trouble().unwrap_or_default();
    let begins = "cannot get the Lease kube-system/cloud-controller-manager: refused [-]x failed: ";
    assert!(why.starts_with(begins) && why.ends_with("\u{2026} (422)"), "{why:.300}");
    assert!(why.chars().count() < 400 && why.chars().all(ccm_cloud::is_plain), "{why:.300}");
}
