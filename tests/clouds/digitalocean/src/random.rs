//! Faults that nobody plans one by one: at random, and the same again with the same seed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;
use crate::fault::{Act, FAULTS, Fault, Requests, When};

/// How often a fault begins unless it is said, in percent of the requests that none has struck.
pub(crate) const PERCENT: u8 = 15;

/// Faults of all kinds at random. Each strikes one, two or three requests of an endpoint in a row, and then one goes through: who
/// asks on succeeds.
///
/// What strikes a request follows from the seed, its endpoint and how many of that there were before: requests of other endpoints
/// change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomFaults {
    /// Another one has other faults.
    pub seed: u64,
    /// How often a fault begins, in percent of the requests that none has struck. Default 15.
    #[serde(default = "percent")]
    pub percent: u8,
}

const fn percent() -> u8 {
    PERCENT
}

impl RandomFaults {
    /// As often as by default.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, percent: PERCENT }
    }

    /// What begins with this request, and how many it strikes in a row.
    fn begins(self, endpoint: Endpoint, number: u64) -> Option<(When, Act, u8)> {
        let roll = mixed(self.seed ^ mixed(number << 8 | u64::from(endpoint as u8)));
        let [first, second, third, ..] = roll.to_le_bytes().map(usize::from);
        let (when, act) = FAULTS.get(third % FAULTS.len())?;
        let times = match act {
            // Who can read it may keep it for a while, and nothing is wrong with that.
            Act::UnknownEnum | Act::ExtraFields => 1,
            _ => *[1, 2, 3].get(second % 3)?,
        };
        // 256 outcomes: as near to the percentage as they come.
        (first * 100 < usize::from(self.percent) * 256).then_some((*when, *act, times))
    }
}

/// Every bit of it hangs on every bit of `value`. Source: the finaliser of `SplitMix64`.
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Where each endpoint is.
#[derive(Default)]
pub(crate) struct Random(BTreeMap<Endpoint, Place>);

#[derive(Default)]
struct Place {
    requests: u64,
    /// What struck the last request, and how many more it strikes.
    striking: Option<(Fault, u8)>,
}

impl Random {
    /// Counts the request, and returns what strikes it.
    pub(crate) fn take(&mut self, faults: RandomFaults, endpoint: Endpoint) -> Option<Fault> {
        let place = self.0.entry(endpoint).or_default();
        place.requests += 1;
        let (fault, more) = match place.striking.take() {
            Some((_, 0)) => return None,
            Some((fault, more)) => (fault, more - 1),
            None => {
                let (when, act, times) = faults.begins(endpoint, place.requests)?;
                (Fault::new(Requests::Of(endpoint), 1, when, act), times - 1)
            }
        };
        place.striking = Some((fault, more));
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINTS: [Endpoint; 3] = [Endpoint::Balancers, Endpoint::CreateBalancer, Endpoint::Droplet];

    fn struck(faults: RandomFaults, endpoint: Endpoint) -> Vec<Option<Fault>> {
        let mut random = Random::default();
        (0..2_000).map(|_| random.take(faults, endpoint)).collect()
    }

    #[test]
    fn a_seed_strikes_the_same_requests_whatever_else_is_asked() {
        let mut random = Random::default();
        let mut all = ENDPOINTS.map(|_| vec![]);
        for number in 0..2_000 {
            for (place, endpoint) in ENDPOINTS.into_iter().enumerate() {
                // The more endpoints, the more often they are asked between each other.
                if number % (place + 1) == 0 {
                    all[place].push(random.take(RandomFaults::new(7), endpoint));
                }
            }
        }
        for (endpoint, all) in ENDPOINTS.into_iter().zip(all) {
            assert_eq!(all, struck(RandomFaults::new(7), endpoint)[..all.len()]);
            assert_ne!(struck(RandomFaults::new(7), endpoint), struck(RandomFaults::new(8), endpoint));
        }
    }

    #[test]
    fn all_kinds_strike_as_often_as_asked_and_never_more_than_three_in_a_row() {
        for (percent, at_least, at_most) in [(0, 0, 0), (15, 300, 600), (100, 1_000, 1_500)] {
            for endpoint in ENDPOINTS {
                let struck = struck(RandomFaults { percent, ..RandomFaults::new(1) }, endpoint);
                let count = struck.iter().flatten().count();
                assert!((at_least..=at_most).contains(&count), "{percent} percent: {count}");
                assert!(struck.windows(4).all(|four| four.iter().any(Option::is_none)), "{percent} percent");
                let kinds = FAULTS.iter().filter(|(when, act)| {
                    struck.iter().flatten().any(|fault| (fault.when, fault.act) == (*when, *act))
                });
                assert_eq!(kinds.count(), if percent == 0 { 0 } else { FAULTS.len() });
            }
        }
    }

    #[test]
    fn they_are_written_as_json() {
        let faults: RandomFaults = serde_json::from_str(r#"{"seed":3}"#).unwrap();
        assert_eq!(faults, RandomFaults { seed: 3, percent: PERCENT });
    }
}
