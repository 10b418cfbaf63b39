//! Each row of the table of the module.

use jiff::Timestamp;

use super::*;

fn release(name: &str) -> Release<()> {
    let digest = format!("sha256:{}", name.repeat(64));
    let version = Version { name: "cloud".into(), version: name.into(), digest, signed: None };
    Release { component: Arc::new(()), version: Arc::new(version) }
}

fn taken(name: &str) -> Event<()> {
    Event::Taken { release: release(name), is_apart: false }
}

fn taken_apart(name: &str) -> Event<()> {
    Event::Taken { release: release(name), is_apart: true }
}

fn put_back(name: &str) -> Event<()> {
    Event::PutBack(release(name).version.digest.clone())
}

const fn passed(generation: u64) -> Event<()> {
    Event::Judged(generation, ProbationVerdict::Passed)
}

fn failed(generation: u64) -> Event<()> {
    Event::Judged(generation, ProbationVerdict::Failed("it crashed".into()))
}

/// Who serves, who is proven, and the generation.
fn shows(state: &SlotState<()>) -> (&str, &str, u64) {
    let standing = state.standing();
    (&standing.serving().version.version, &standing.proven.version.version, standing.generation)
}

fn after(events: impl IntoIterator<Item = Event<()>>) -> SlotState<()> {
    let mut state = SlotState::new(release("p"), Refusals::default());
    for event in events {
        state.apply(event);
    }
    state
}

fn reconfigured(proven: Option<&str>, candidate: Option<&str>) -> Reconfigured<()> {
    Reconfigured { proven: proven.map(release), candidate: candidate.map(|name| Ok(release(name))) }
}

fn configured(generation: u64, proven: Option<&str>, candidate: Option<&str>) -> Event<()> {
    Event::Configured(generation, reconfigured(proven, candidate))
}

#[test]
fn another_configuration_keeps_the_standing_of_its_component() {
    let mut state = after([]);
    let with = reconfigured(Some("p"), None);
    let other = with.proven.clone().unwrap();
    assert!(matches!(state.apply(Event::Configured(1, with)), Some(Transition::Configured)));
    assert!(Arc::ptr_eq(&state.standing().proven.version, &other.version));
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("p", "p", 2), false));
    assert_eq!(state.doubts(), 0, "nobody is to blame for what was written");
}

/// The proven one kept the old configuration, and every difference that this made was held against the other one.
#[test]
fn another_configuration_is_given_to_both_of_a_probation() {
    for taken in [taken("c"), taken_apart("c")] {
        let mut state = after([taken]);
        let with = reconfigured(Some("p"), Some("c"));
        let (proven, candidate) = (with.proven.clone().unwrap(), with.candidate.clone().unwrap().unwrap());
        assert!(matches!(state.apply(Event::Configured(2, with)), Some(Transition::Configured)));
        assert!(Arc::ptr_eq(&state.standing().proven.version, &proven.version));
        assert!(Arc::ptr_eq(&state.standing().serving().version, &candidate.version));
        assert_eq!((shows(&state), state.standing().is_on_probation()), (("c", "p", 3), true));
        assert_eq!((state.standing().is_apart, state.doubts()), (false, 0));
    }
}

#[test]
fn one_on_probation_that_cannot_do_with_a_configuration_goes_without_a_verdict() {
    let mut state = after([taken("c")]);
    let with = Reconfigured { candidate: Some(Err("it does not".into())), ..reconfigured(Some("p"), None) };
    let done = state.apply(Event::Configured(2, with));
    assert!(
        matches!(done, Some(Transition::Withdrawn { candidate, why: Some(why) }) if candidate.version == "c" && why == "it does not")
    );
    assert_eq!((shows(&state), state.standing().is_on_probation(), state.doubts()), (("p", "p", 3), false, 1));
    assert_eq!(state.standing().refused.why(&release("c").version.digest), None);
    assert!(state.apply(taken("c")).is_some(), "it may come again");
}

#[test]
fn a_probation_apart_takes_a_configuration_for_the_one_on_probation_alone() {
    let mut state = after([taken("c")]);
    assert!(!state.standing().is_apart);
    assert!(state.apply(configured(2, None, Some("c"))).is_none(), "the two would answer from two configurations");
    let mut state = after([taken_apart("c")]);
    assert!(state.standing().is_apart);
    assert!(matches!(state.apply(configured(2, None, Some("c"))), Some(Transition::Configured)));
    assert_eq!((shows(&state), state.standing().is_apart), (("c", "p", 3), true));
    state.apply(passed(3));
    assert!(!state.standing().is_apart);
    state.apply(taken("d"));
    assert!(!state.standing().is_apart, "it is the next probation");
}

#[test]
fn a_probation_apart_that_stays_undecided_ends_without_a_verdict() {
    let undecided = |generation| Event::Judged(generation, ProbationVerdict::Undecided("they differ".into()));
    let mut state = after([taken_apart("c")]);
    let done = state.apply(undecided(2));
    assert!(
        matches!(done, Some(Transition::Withdrawn { candidate, why: Some(why) }) if candidate.version == "c" && why == "they differ")
    );
    assert_eq!((shows(&state), state.standing().is_on_probation(), state.doubts()), (("p", "p", 3), false, 1));
    assert_eq!(state.standing().refused.why(&release("c").version.digest), None);
    assert!(state.apply(undecided(3)).is_none(), "nobody is on probation");
    assert!(state.apply(taken_apart("c")).is_some(), "it may come again");
}

/// A component fails its probation while its new configuration is in the gate: the one that returned would get what was judged for another.
#[test]
fn a_configuration_for_one_that_serves_no_longer_changes_nothing() {
    let cases = [
        (vec![taken("c"), failed(2)], 2, Some("p"), Some("c")),
        (vec![taken("c"), failed(2)], 3, Some("p"), Some("c")),
        (vec![taken("c"), failed(2)], 3, None, Some("c")),
        (vec![taken("c"), put_back("p")], 1, Some("p"), None),
        (vec![taken("c"), passed(2)], 2, Some("p"), Some("c")),
        (vec![taken("c")], 1, Some("p"), Some("c")),
        (vec![taken("c")], 2, Some("p"), Some("d")),
        (vec![taken("c")], 2, Some("c"), Some("c")),
        (vec![taken("c")], 2, Some("p"), None),
        (vec![], 1, Some("c"), None),
        (vec![], 1, None, None),
    ];
    for (number, (events, generation, proven, candidate)) in cases.into_iter().enumerate() {
        let mut state = after(events);
        let before = (
            state.standing().serving().version.version.clone(),
            state.standing().generation,
            state.standing().is_on_probation(),
        );
        assert!(state.apply(configured(generation, proven, candidate)).is_none(), "{number}");
        let now = (
            state.standing().serving().version.version.clone(),
            state.standing().generation,
            state.standing().is_on_probation(),
        );
        assert_eq!(now, before, "{number}");
    }
}

#[test]
fn a_new_component_is_on_probation_against_the_proven_one() {
    let mut state = after([]);
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("p", "p", 1), false));
    let done = state.apply(taken("c"));
    assert!(matches!(done, Some(Transition::Exchanged { before }) if before.version == "p"));
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("c", "p", 2), true));
}

#[test]
fn the_component_that_serves_is_not_exchanged_for_itself() {
    let mut state = after([]);
    assert!(state.apply(taken("p")).is_none());
    assert_eq!(shows(&state), ("p", "p", 1));
    let mut state = after([taken("c")]);
    assert!(state.apply(taken("c")).is_none());
    assert_eq!(shows(&state), ("c", "p", 2));
}

#[test]
fn a_third_one_is_on_probation_against_the_proven_one() {
    let mut state = after([taken("c")]);
    let done = state.apply(taken("d"));
    assert!(matches!(done, Some(Transition::Exchanged { before }) if before.version == "c"));
    assert_eq!(shows(&state), ("d", "p", 3));
    assert_eq!(state.standing().refused.why(&release("c").version.digest), None, "nobody has judged it");
    assert!(state.is_taken_back(&"c".repeat(12)), "what it wrote is not certain");
    state.apply(failed(3));
    assert_eq!(shows(&state), ("p", "p", 4));
    assert!(state.is_taken_back(&"c".repeat(12)) && state.is_taken_back(&"d".repeat(12)));
}

#[test]
fn putting_the_proven_one_back_ends_a_probation_without_a_verdict() {
    for event in [taken("p"), put_back("p")] {
        let mut state = after([taken("c")]);
        let done = state.apply(event);
        assert!(matches!(done, Some(Transition::Withdrawn { candidate, why: None }) if candidate.version == "c"));
        assert_eq!((shows(&state), state.standing().is_on_probation()), (("p", "p", 3), false));
        assert!(state.is_taken_back(&"c".repeat(12)), "what it wrote is not certain");
        state.apply(taken("c"));
        assert_eq!(shows(&state), ("c", "p", 4), "it may come again");
        assert!(!state.is_taken_back(&"c".repeat(12)));
    }
}

/// Between the look at who is proven and the exchange, the one on probation was proven; the one that served was put on probation in its own place then.
#[test]
fn one_that_is_proven_no_longer_is_not_put_back() {
    for events in [vec![], vec![taken("c")], vec![taken("c"), passed(2)]] {
        let mut state = after(events);
        let before = (state.standing().serving().version.version.clone(), state.standing().generation, state.doubts());
        let serving = before.0.clone();
        for name in ["d", &serving, if serving == "c" && !state.standing().is_on_probation() { "p" } else { "d" }] {
            assert!(state.apply(put_back(name)).is_none(), "{name}");
        }
        assert_eq!(
            (state.standing().serving().version.version.clone(), state.standing().generation, state.doubts()),
            before
        );
    }
}

#[test]
fn whoever_passes_its_probation_is_proven_and_returns_next() {
    let mut state = after([taken("c")]);
    assert!(matches!(state.apply(passed(2)), Some(Transition::Proven)));
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("c", "c", 2), false));
    state.apply(taken("d"));
    state.apply(failed(3));
    assert_eq!(shows(&state), ("c", "c", 4));
}

#[test]
fn whoever_fails_its_probation_is_refused_and_the_proven_one_returns() {
    let mut state = after([taken("c")]);
    let done = state.apply(failed(2));
    let is_told = matches!(done, Some(Transition::Returned { failed, refusal })
        if failed.version == "c" && refusal.digest == failed.digest && refusal.reason == "it crashed");
    assert!(is_told);
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("p", "p", 3), false));
    let digest = &release("c").version.digest;
    assert_eq!(state.standing().refused.why(digest), Some("it crashed"));
    assert!(
        state.standing().refused.has_digits(&"c".repeat(12)) && !state.standing().refused.has_digits(&"d".repeat(12))
    );
}

/// Two who write the source in turn did the same harm each time.
#[test]
fn a_refused_component_is_not_taken_again() {
    let mut state = after([taken("c"), failed(2), taken("d"), failed(4)]);
    for name in ["c", "d"] {
        assert!(state.apply(taken(name)).is_none(), "{name}");
        assert_eq!(shows(&state), ("p", "p", 5));
    }
}

/// Whoever had looked at what they wrote before that was known did not look again.
#[test]
fn whoever_is_taken_back_puts_what_it_wrote_in_doubt() {
    let mut state = after([]);
    let doubted = [
        (taken("c"), 0),
        (taken("d"), 1),
        (failed(3), 2),
        (peer_refused("e"), 3),
        (peer_refused("e"), 3),
        (peer_refused("p"), 3),
        (taken("f"), 3),
        (taken("p"), 4),
        (taken("g"), 4),
        // The one that another replica refused is proven no longer.
        (passed(7), 5),
    ];
    for (number, (event, doubts)) in doubted.into_iter().enumerate() {
        state.apply(event);
        assert_eq!(state.doubts(), doubts, "{number}");
    }
    assert!(["c", "d", "e", "f", "p"].iter().all(|name| state.is_taken_back(&name.repeat(12))));
}

#[test]
fn a_verdict_about_an_earlier_generation_changes_nothing() {
    let undecided = |generation| Event::Judged(generation, ProbationVerdict::Undecided("they differ".into()));
    let late = || [passed(1), failed(1), undecided(1), passed(3), failed(3), undecided(3)];
    for (name, events) in [("on probation", vec![taken("c")]), ("proven", vec![taken("c"), passed(2)])] {
        let mut state = after(events);
        for event in late() {
            assert!(state.apply(event).is_none(), "{name}");
        }
        assert_eq!(shows(&state).0, "c", "{name}");
    }
    let mut state = after([taken("c"), passed(2)]);
    assert!(state.apply(failed(2)).is_none(), "it has been proven meanwhile");
}

fn refusal(name: &str) -> Refusal {
    let digest = release(name).version.digest.clone();
    Refusal { digest, reason: "it lied".into(), at: Timestamp::UNIX_EPOCH }
}

fn peer_refused(name: &str) -> Event<()> {
    Event::PeerRefused(refusal(name))
}

fn peer_proved(name: &str) -> Event<()> {
    Event::PeerProved(release(name).version.digest.clone())
}

#[test]
fn whoever_a_peer_refused_on_probation_goes_as_if_it_had_failed_here() {
    let mut state = after([taken("c")]);
    let done = state.apply(peer_refused("c"));
    let is_told = matches!(done, Some(Transition::Returned { failed, refusal })
        if failed.version == "c" && refusal.reason == "it lied");
    assert!(is_told);
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("p", "p", 3), false));
    assert!(state.apply(taken("c")).is_none());
    assert!(state.apply(peer_refused("c")).is_none(), "it is known");
}

#[test]
fn a_proven_one_that_a_peer_refused_stays_and_that_is_told_once() {
    for events in [vec![], vec![taken("c")]] {
        let mut state = after(events);
        let (generation, is_on_probation) = (state.standing().generation, state.standing().is_on_probation());
        let done = state.apply(peer_refused("p"));
        assert!(
            matches!(done, Some(Transition::Contested { proven, why }) if proven.version == "p" && why == "it lied")
        );
        assert!(state.apply(peer_refused("p")).is_none(), "told again");
        assert_eq!((state.standing().generation, state.standing().is_on_probation()), (generation, is_on_probation));
        let digest = &release("p").version.digest;
        assert_eq!(state.standing().refused.why(digest), None, "what it wrote is as certain as before");
        state.apply(taken("c"));
        state.apply(passed(state.standing().generation));
        assert_eq!(state.standing().refused.why(digest), Some("it lied"), "it does not come again");
    }
}

#[test]
fn a_component_that_a_peer_refused_is_not_taken_here_either() {
    for events in [vec![], vec![taken("d")]] {
        let mut state = after(events);
        assert!(state.apply(peer_refused("c")).is_none());
        let before = (shows(&state).0.to_owned(), state.standing().generation);
        assert!(state.apply(taken("c")).is_none());
        assert_eq!((shows(&state).0.to_owned(), state.standing().generation), before);
    }
}

#[test]
fn whoever_a_peer_proved_passes_its_probation_here() {
    let mut state = after([taken("c")]);
    for other in ["d", "p"] {
        assert!(state.apply(peer_proved(other)).is_none(), "{other}");
        assert!(state.standing().is_on_probation(), "{other}");
    }
    assert!(matches!(state.apply(peer_proved("c")), Some(Transition::Proven)));
    assert_eq!((shows(&state), state.standing().is_on_probation()), (("c", "c", 2), false));
    assert!(state.apply(peer_proved("c")).is_none());
}

/// A pod that is new and alone takes what the source holds.
#[test]
fn a_first_component_that_was_refused_counts_as_proven() {
    let mut refused = Refusals::default();
    refused.add(refusal("p"));
    let mut state = SlotState::new(release("p"), refused);
    assert!(!state.is_taken_back(&"p".repeat(12)), "what it writes would be ensured again for ever");
    assert!(state.apply(peer_refused("p")).is_none(), "that was told when it was taken");
    assert_eq!(shows(&state), ("p", "p", 1));
}
