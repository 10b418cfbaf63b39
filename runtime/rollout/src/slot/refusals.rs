//! Which components are not taken again, and why.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::release::digits;

/// Most refused components that are remembered; the oldest is forgotten first.
pub(crate) const MOST_REFUSED: usize = 16;

/// A component that served and failed its probation, here or at another replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    /// `sha256:…` of the unpacked component.
    pub(crate) digest: String,
    /// What it did wrong.
    #[serde(alias = "why")]
    pub(crate) reason: String,
    /// When that was; before all others where an older host did not write it down.
    #[serde(default)]
    pub(crate) at: Timestamp,
}

/// The refused components, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusals(VecDeque<Refusal>);

impl Refusals {
    /// Why the component with this digest was refused.
    #[must_use]
    pub(crate) fn why(&self, digest: &str) -> Option<&str> {
        self.0.iter().find(|one| one.digest == digest).map(|one| one.reason.as_str())
    }

    /// Whether there is one with these 12 digits, as records on objects have them.
    #[must_use]
    pub(crate) fn has_digits(&self, short: &str) -> bool {
        self.0.iter().any(|one| digits(&one.digest) == short)
    }

    /// The oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Refusal> {
        self.0.iter()
    }

    /// Takes the component with this digest out of them.
    pub(super) fn take(&mut self, digest: &str) -> Option<Refusal> {
        let place = self.0.iter().position(|one| one.digest == digest)?;
        self.0.remove(place)
    }

    /// Adds one at its time. Returns whether it is new: one that is known keeps its reason, and one older than all 16 remembered is not
    /// added.
    pub(crate) fn add(&mut self, refusal: Refusal) -> bool {
        let place = self.0.iter().rposition(|one| one.at <= refusal.at).map_or(0, |before| before + 1);
        if self.why(&refusal.digest).is_some() || (place == 0 && self.0.len() >= MOST_REFUSED) {
            return false;
        }
        self.0.insert(place, refusal);
        if self.0.len() > MOST_REFUSED {
            self.0.pop_front();
        }
        true
    }

    /// Adds one that is refused now, and is the newest therefore: the clocks of others may be ahead.
    pub(crate) fn refuse(&mut self, digest: &str, reason: String) -> Refusal {
        drop(self.take(digest));
        let now = Timestamp::now();
        let at = self.0.back().map_or(now, |newest| newest.at.max(now));
        let refusal = Refusal { digest: digest.to_owned(), reason, at };
        self.add(refusal.clone());
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That came out in this second.
    fn refusal(number: usize, second: i64) -> Refusal {
        let at = Timestamp::from_second(second).unwrap();
        Refusal { digest: format!("sha256:{number:064}"), reason: "no".into(), at }
    }

    fn numbers(refused: &Refusals) -> Vec<usize> {
        refused.iter().map(|one| one.digest.trim_start_matches("sha256:").parse().unwrap()).collect()
    }

    #[test]
    fn the_oldest_of_too_many_refused_ones_is_forgotten() {
        let mut refused = Refusals::default();
        for number in 0..=MOST_REFUSED {
            assert!(refused.add(refusal(number, 0)));
            assert!(!refused.add(refusal(number, 0)), "it is known");
        }
        assert_eq!(numbers(&refused), (1..=MOST_REFUSED).collect::<Vec<_>>());
    }

    /// A host that began told of what it knew from its folder as if that were new, and the others forgot what they had refused since.
    #[test]
    fn one_that_is_told_late_takes_the_place_of_no_newer_one() {
        let mut refused = Refusals::default();
        for second in [3, 1, 2] {
            refused.add(refusal(usize::try_from(second).unwrap(), second));
        }
        assert_eq!(numbers(&refused), [1, 2, 3]);
        for number in 4..=MOST_REFUSED {
            refused.add(refusal(number, 4));
        }
        assert!(!refused.add(refusal(0, 0)), "it is older than all, and not new whenever it is told again");
        assert!(refused.add(refusal(99, 2)));
        assert_eq!(numbers(&refused)[..3], [2, 99, 3], "the oldest went for it");
    }

    /// It would be taken again, and fail again.
    #[test]
    fn whoever_is_refused_now_is_remembered_though_the_clocks_of_others_are_ahead() {
        let mut refused = Refusals::default();
        let ahead = Timestamp::now().as_second() + 3600;
        for number in 0..MOST_REFUSED {
            refused.add(refusal(number, ahead));
        }
        let told = refused.refuse(&refusal(99, 0).digest, "it crashed".into());
        assert_eq!((told.at.as_second(), refused.why(&told.digest)), (ahead, Some("it crashed")));
        assert_eq!(refused.refuse(&told.digest, "it lied".into()).reason, "it lied", "the last reason counts");
        assert_eq!(numbers(&refused).iter().filter(|number| **number == 99).count(), 1);
    }

    #[test]
    fn what_an_older_host_wrote_down_is_older_than_all_else() {
        let mut refused: Refusals = serde_json::from_str(r#"[{"digest":"sha256:a","why":"it crashed"}]"#).unwrap();
        assert_eq!(refused.why("sha256:a"), Some("it crashed"));
        refused.add(refusal(1, 1));
        assert_eq!(refused.iter().next().unwrap().digest, "sha256:a");
        let text = serde_json::to_string(&refused.take("sha256:a")).unwrap();
        assert_eq!(text, r#"{"digest":"sha256:a","reason":"it crashed","at":"1970-01-01T00:00:00Z"}"#);
    }
}
