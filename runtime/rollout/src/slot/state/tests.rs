//! Each row of the table of the module.

use jiff::Timestamp;

use super::*;

fn release(name: &str) -> Release<()> {
    let digest = format!("sha256:{}", name.repeat(64));
    let version = Version { name: "cloud".into(), version: name.into(), digest };
    Release { component: Arc::new(()), version: Arc::new(version) }
}

fn taken(name: &str) -> Event<()> {
    Event::Taken(release(name))
}

fn put_back(name: &str) -> Event<()> {
    Event::PutBack(release(name).version.digest.clone())
}

fn failed(generation: u64) -> Event<()> {
    Event::Failed(generation, "it crashed".into())
}

/// Who serves, who is proven, and the generation.
fn shows(state: &SlotState<()>) -> (&str, &str, u64) {
    (&state.serving().version.version, &state.proven().version.version, state.generation())
}

fn after(events: impl IntoIterator<Item = Event<()>>) -> SlotState<()> {
    let mut state = SlotState::new(release("p"), Refusals::default());
    for event in events {
        state.apply(event);
    }
    state
}

fn reconfigured(proven: Option<&str>, trial: Option<&str>) -> Reconfigured<()> {
    Reconfigured { proven: proven.map(release), trial: trial.map(|name| Ok(release(name))) }
}

fn configured(generation: u64, proven: Option<&str>, trial: Option<&str>) -> Event<()> {
    Event::Configured(generation, reconfigured(proven, trial))
}

#[test]
fn another_configuration_keeps_the_standing_of_its_component() {
    let mut state = after([]);
    let with = reconfigured(Some("p"), None);
    let other = with.proven.clone().unwrap();
    assert!(matches!(state.apply(Event::Configured(1, with)), Some(Transition::Configured)));
    assert!(Arc::ptr_eq(&state.proven().version, &other.version));
    assert_eq!((shows(&state), state.is_on_trial()), (("p", "p", 2), false));
    assert_eq!(state.doubts(), 0, "nobody is to blame for what was written");
}

/// The proven one kept the old configuration, and every difference that this made was held against the other one.
#[test]
fn another_configuration_is_given_to_both_of_a_trial() {
    for taken in [taken("c"), Event::TakenApart(release("c"))] {
        let mut state = after([taken]);
        let with = reconfigured(Some("p"), Some("c"));
        let (proven, trial) = (with.proven.clone().unwrap(), with.trial.clone().unwrap().unwrap());
        assert!(matches!(state.apply(Event::Configured(2, with)), Some(Transition::Configured)));
        assert!(Arc::ptr_eq(&state.proven().version, &proven.version));
        assert!(Arc::ptr_eq(&state.serving().version, &trial.version));
        assert_eq!((shows(&state), state.is_on_trial()), (("c", "p", 3), true));
        assert_eq!((state.is_apart(), state.doubts()), (false, 0));
    }
}

#[test]
fn one_on_trial_that_cannot_do_with_a_configuration_goes_without_a_verdict() {
    let mut state = after([taken("c")]);
    let with = Reconfigured { trial: Some(Err("it does not".into())), ..reconfigured(Some("p"), None) };
    let done = state.apply(Event::Configured(2, with));
    assert!(
        matches!(done, Some(Transition::Withdrawn { trial, why: Some(why) }) if trial.version == "c" && why == "it does not")
    );
    assert_eq!((shows(&state), state.is_on_trial(), state.doubts()), (("p", "p", 3), false, 1));
    assert_eq!(state.refused().why(&release("c").version.digest), None);
    assert!(state.apply(taken("c")).is_some(), "it may come again");
}

#[test]
fn a_trial_apart_takes_a_configuration_for_the_one_on_trial_alone() {
    let mut state = after([taken("c")]);
    assert!(!state.is_apart());
    assert!(state.apply(configured(2, None, Some("c"))).is_none(), "the two would answer from two configurations");
    let mut state = after([Event::TakenApart(release("c"))]);
    assert!(state.is_apart());
    assert!(matches!(state.apply(configured(2, None, Some("c"))), Some(Transition::Configured)));
    assert_eq!((shows(&state), state.is_apart()), (("c", "p", 3), true));
    state.apply(Event::Passed(3));
    assert!(!state.is_apart());
    state.apply(taken("d"));
    assert!(!state.is_apart(), "it is the next trial");
}

#[test]
fn a_trial_apart_that_stays_undecided_ends_without_a_verdict() {
    let undecided = |generation| Event::Undecided(generation, "they differ".into());
    let mut state = after([Event::TakenApart(release("c"))]);
    let done = state.apply(undecided(2));
    assert!(
        matches!(done, Some(Transition::Withdrawn { trial, why: Some(why) }) if trial.version == "c" && why == "they differ")
    );
    assert_eq!((shows(&state), state.is_on_trial(), state.doubts()), (("p", "p", 3), false, 1));
    assert_eq!(state.refused().why(&release("c").version.digest), None);
    assert!(state.apply(undecided(3)).is_none(), "nobody is on trial");
    assert!(state.apply(Event::TakenApart(release("c"))).is_some(), "it may come again");
}

/// A component fails its trial while its new configuration is in the gate: the one that returned would get what was judged for another.
#[test]
fn a_configuration_for_one_that_serves_no_longer_changes_nothing() {
    let cases = [
        (vec![taken("c"), failed(2)], 2, Some("p"), Some("c")),
        (vec![taken("c"), failed(2)], 3, Some("p"), Some("c")),
        (vec![taken("c"), failed(2)], 3, None, Some("c")),
        (vec![taken("c"), put_back("p")], 1, Some("p"), None),
        (vec![taken("c"), Event::Passed(2)], 2, Some("p"), Some("c")),
        (vec![taken("c")], 1, Some("p"), Some("c")),
        (vec![taken("c")], 2, Some("p"), Some("d")),
        (vec![taken("c")], 2, Some("c"), Some("c")),
        (vec![taken("c")], 2, Some("p"), None),
        (vec![], 1, Some("c"), None),
        (vec![], 1, None, None),
    ];
    for (number, (events, generation, proven, trial)) in cases.into_iter().enumerate() {
        let mut state = after(events);
        let before = (state.serving().version.version.clone(), state.generation(), state.is_on_trial());
        assert!(state.apply(configured(generation, proven, trial)).is_none(), "{number}");
        let now = (state.serving().version.version.clone(), state.generation(), state.is_on_trial());
        assert_eq!(now, before, "{number}");
    }
}

#[test]
fn a_new_component_is_on_trial_against_the_proven_one() {
    let mut state = after([]);
    assert_eq!((shows(&state), state.is_on_trial()), (("p", "p", 1), false));
    let done = state.apply(taken("c"));
    assert!(matches!(done, Some(Transition::Exchanged { before }) if before.version == "p"));
    assert_eq!((shows(&state), state.is_on_trial()), (("c", "p", 2), true));
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
fn a_third_one_is_on_trial_against_the_proven_one() {
    let mut state = after([taken("c")]);
    let done = state.apply(taken("d"));
    assert!(matches!(done, Some(Transition::Exchanged { before }) if before.version == "c"));
    assert_eq!(shows(&state), ("d", "p", 3));
    assert_eq!(state.refused().why(&release("c").version.digest), None, "nobody has judged it");
    assert!(state.is_taken_back(&"c".repeat(12)), "what it wrote is not certain");
    state.apply(failed(3));
    assert_eq!(shows(&state), ("p", "p", 4));
    assert!(state.is_taken_back(&"c".repeat(12)) && state.is_taken_back(&"d".repeat(12)));
}

#[test]
fn putting_the_proven_one_back_ends_a_trial_without_a_verdict() {
    for event in [taken("p"), put_back("p")] {
        let mut state = after([taken("c")]);
        let done = state.apply(event);
        assert!(matches!(done, Some(Transition::Withdrawn { trial, why: None }) if trial.version == "c"));
        assert_eq!((shows(&state), state.is_on_trial()), (("p", "p", 3), false));
        assert!(state.is_taken_back(&"c".repeat(12)), "what it wrote is not certain");
        state.apply(taken("c"));
        assert_eq!(shows(&state), ("c", "p", 4), "it may come again");
        assert!(!state.is_taken_back(&"c".repeat(12)));
    }
}

/// Between the look at who is proven and the exchange, the one on trial was proven; the one that served was put on trial in its own place then.
#[test]
fn one_that_is_proven_no_longer_is_not_put_back() {
    for events in [vec![], vec![taken("c")], vec![taken("c"), Event::Passed(2)]] {
        let mut state = after(events);
        let before = (state.serving().version.version.clone(), state.generation(), state.doubts());
        let serving = before.0.clone();
        for name in ["d", &serving, if serving == "c" && !state.is_on_trial() { "p" } else { "d" }] {
            assert!(state.apply(put_back(name)).is_none(), "{name}");
        }
        assert_eq!((state.serving().version.version.clone(), state.generation(), state.doubts()), before);
    }
}

#[test]
fn whoever_passes_its_trial_is_proven_and_returns_next() {
    let mut state = after([taken("c")]);
    assert!(matches!(state.apply(Event::Passed(2)), Some(Transition::Proven)));
    assert_eq!((shows(&state), state.is_on_trial()), (("c", "c", 2), false));
    state.apply(taken("d"));
    state.apply(failed(3));
    assert_eq!(shows(&state), ("c", "c", 4));
}

#[test]
fn whoever_fails_its_trial_is_refused_and_the_proven_one_returns() {
    let mut state = after([taken("c")]);
    let done = state.apply(failed(2));
    let is_told = matches!(done, Some(Transition::Returned { failed, refusal })
        if failed.version == "c" && refusal.digest == failed.digest && refusal.reason == "it crashed");
    assert!(is_told);
    assert_eq!((shows(&state), state.is_on_trial()), (("p", "p", 3), false));
    let digest = &release("c").version.digest;
    assert_eq!(state.refused().why(digest), Some("it crashed"));
    assert!(state.refused().has_digits(&"c".repeat(12)) && !state.refused().has_digits(&"d".repeat(12)));
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
        (Event::Passed(7), 5),
    ];
    for (number, (event, doubts)) in doubted.into_iter().enumerate() {
        state.apply(event);
        assert_eq!(state.doubts(), doubts, "{number}");
    }
    assert!(["c", "d", "e", "f", "p"].iter().all(|name| state.is_taken_back(&name.repeat(12))));
}

#[test]
fn a_verdict_about_an_earlier_generation_changes_nothing() {
    let undecided = |generation| Event::Undecided(generation, "they differ".into());
    let late = || [Event::Passed(1), failed(1), undecided(1), Event::Passed(3), failed(3), undecided(3)];
    for (name, events) in [("on trial", vec![taken("c")]), ("proven", vec![taken("c"), Event::Passed(2)])] {
        let mut state = after(events);
        for event in late() {
            assert!(state.apply(event).is_none(), "{name}");
        }
        assert_eq!(shows(&state).0, "c", "{name}");
    }
    let mut state = after([taken("c"), Event::Passed(2)]);
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
fn whoever_a_peer_refused_on_trial_goes_as_if_it_had_failed_here() {
    let mut state = after([taken("c")]);
    let done = state.apply(peer_refused("c"));
    let is_told = matches!(done, Some(Transition::Returned { failed, refusal })
        if failed.version == "c" && refusal.reason == "it lied");
    assert!(is_told);
    assert_eq!((shows(&state), state.is_on_trial()), (("p", "p", 3), false));
    assert!(state.apply(taken("c")).is_none());
    assert!(state.apply(peer_refused("c")).is_none(), "it is known");
}

#[test]
fn a_proven_one_that_a_peer_refused_stays_and_that_is_told_once() {
    for events in [vec![], vec![taken("c")]] {
        let mut state = after(events);
        let (generation, is_on_trial) = (state.generation(), state.is_on_trial());
        let done = state.apply(peer_refused("p"));
        assert!(
            matches!(done, Some(Transition::Contested { proven, why }) if proven.version == "p" && why == "it lied")
        );
        assert!(state.apply(peer_refused("p")).is_none(), "told again");
        assert_eq!((state.generation(), state.is_on_trial()), (generation, is_on_trial));
        let digest = &release("p").version.digest;
        assert_eq!(state.refused().why(digest), None, "what it wrote is as certain as before");
        state.apply(taken("c"));
        state.apply(Event::Passed(state.generation()));
        assert_eq!(state.refused().why(digest), Some("it lied"), "it does not come again");
    }
}

#[test]
fn a_component_that_a_peer_refused_is_not_taken_here_either() {
    for events in [vec![], vec![taken("d")]] {
        let mut state = after(events);
        assert!(state.apply(peer_refused("c")).is_none());
        let before = (shows(&state).0.to_owned(), state.generation());
        assert!(state.apply(taken("c")).is_none());
        assert_eq!((shows(&state).0.to_owned(), state.generation()), before);
    }
}

#[test]
fn whoever_a_peer_proved_passes_its_trial_here() {
    let mut state = after([taken("c")]);
    for other in ["d", "p"] {
        assert!(state.apply(peer_proved(other)).is_none(), "{other}");
        assert!(state.is_on_trial(), "{other}");
    }
    assert!(matches!(state.apply(peer_proved("c")), Some(Transition::Proven)));
    assert_eq!((shows(&state), state.is_on_trial()), (("c", "c", 2), false));
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
