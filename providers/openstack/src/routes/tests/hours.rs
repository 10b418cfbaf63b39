//! What is believed, and for how long.

use super::*;

/// Whoever takes the pair of a Node away cuts its pods off. Believed for ever, nobody would put it back.
#[test]
fn a_pair_that_somebody_took_away_is_missed_within_an_hour_and_not_looked_for_before() {
    let cloud = fake()
        .always(ROUTER, router_with(&[("10.244.1.0/24", "10.1.0.5")], ""))
        .on(PORTS, ports_of(&[port(&["10.244.1.0/24"], 3)]))
        .on(PORTS, ports_of(&[port(&[], 4)]));
    let looks = || cloud.lines().iter().filter(|line| line.starts_with(PORTS)).count();
    for (passed, state, asked) in
        [(0, State::InPlace, 1), (300, State::InPlace, 1), (3_200, State::InPlace, 1), (200, State::Incomplete, 2)]
    {
        cloud.pass(passed);
        let told = look(&[node()]).map(|routes| routes.into_iter().map(|route| route.2).collect::<Vec<_>>());
        assert_eq!((told, looks()), (Ok(vec![state]), asked), "{passed} s later");
    }
}
