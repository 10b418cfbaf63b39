//! What the replicas of a host know together about the components of a source: which one was proven last, which ones were refused, how the
//! leader's component names load balancers, and the counters of signed ones.
//!
//! | part | holds |
//! |---|---|
//! | [`LedgerEntry`] | what is known, and how a judgement changes it |
//! | [`Counters`] | the highest counters that signed components were proven with |
//! | [`Peers`] | the ConfigMap that holds the entries, and the Lease that says whether another replica serves |
//!
//! What follows from an entry is for the [state](crate::slot::state) of a slot to say, and before there is a slot for the
//! bootstrap of the keeper.

pub(crate) mod counters;
pub(crate) mod peers;

use serde::{Deserialize, Serialize};

pub(crate) use counters::Counters;
pub use peers::{CONFIG_MAP, PeerSettings};
pub(crate) use peers::{Peers, PeersError};

use crate::component::Component;
use crate::slot::{Refusal, Refusals, Slot};
use crate::trust::Counted;

/// Most characters of a reason: the ConfigMap has room for many sources.
const MAX_REASON: usize = 400;

/// What a replica has found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The component with this digest passed its probation.
    Proven(String),
    /// This one did not.
    Refused(Refusal),
    /// This one is proven, and was signed with a counter.
    Counted(Counted),
    /// The name that the leader's component gives the load balancer of a nonexistent Service: [`crate::compare::naming`].
    Named(String),
}

/// What is known of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LedgerEntry {
    /// Which source it is, for people: the key of the entry is a digest of this.
    pub(crate) source: String,
    /// Digest of the component that passed its probation last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proven: Option<String>,
    /// The highest counters of signed components that were proven.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub(crate) counters: Counters,
    /// Counters that no key of this replica vouches for: another one may have other keys. They count for nothing here, and the others find them
    /// again.
    #[serde(skip)]
    strange: Counters,
    /// How the component that leads names load balancers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) naming: Option<String>,
    /// Those that replicas refused.
    #[serde(default)]
    pub(crate) refused: Refusals,
    /// What a newer host knows besides, which it is to find again.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

impl LedgerEntry {
    /// Nothing is known yet.
    pub(crate) fn of(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }

    /// Believes only those counters that somebody vouches for. Whoever can write the ledger could otherwise keep every component out, or push
    /// out the counters that keep older ones out.
    pub(crate) fn believe(&mut self, is_vouched: impl Fn(&Counted) -> bool) {
        (self.counters, self.strange) = self.counters.split(is_vouched);
    }

    /// As it is written for all.
    pub(crate) fn written(&self) -> String {
        let all = Self { counters: self.counters.and(&self.strange), ..self.clone() };
        serde_json::to_string(&all).unwrap_or_default()
    }

    /// Why the component with this digest was refused.
    pub(crate) fn why(&self, digest: &str) -> Option<&str> {
        self.refused.why(digest)
    }

    /// Whom the others refused, as it is told here.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = Refusal> {
        self.refused.iter().map(|one| Refusal { reason: elsewhere(&one.reason), ..one.clone() })
    }

    /// A slot takes the word of the others.
    pub(crate) fn tell<C: Component>(&self, slot: &Slot<C>) {
        self.refusals().for_each(|refusal| slot.peer_refused(refusal));
        if let Some(proven) = &self.proven {
            slot.peer_proved(proven);
        }
    }

    /// Whether nobody has told anything.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.proven.is_none() && self.refused.iter().next().is_none()
    }

    /// Takes a judgement in. Returns whether it tells anything new. A refusal is not taken back: who passed a probation elsewhere may have
    /// been lucky.
    pub(crate) fn note(&mut self, judgement: &Judgement) -> bool {
        match judgement {
            Judgement::Proven(digest) => {
                let is_new = self.proven.as_ref() != Some(digest) && self.why(digest).is_none();
                if is_new {
                    self.proven = Some(digest.clone());
                }
                is_new
            }
            Judgement::Counted(counted) => self.counters.add(counted),
            Judgement::Refused(refusal) => {
                let reason = refusal.reason.chars().take(MAX_REASON).collect();
                let is_new = self.refused.add(Refusal { reason, ..refusal.clone() });
                if is_new {
                    self.proven.take_if(|proven| *proven == refusal.digest);
                }
                is_new
            }
            Judgement::Named(naming) => {
                let is_new = self.naming.as_ref() != Some(naming);
                self.naming = Some(naming.clone());
                is_new
            }
        }
    }
}

/// A reason of another replica. One that went through several says so once: who fills a cleared ledger again knows it from others.
fn elsewhere(reason: &str) -> String {
    const SAYS: &str = "another replica refused it: ";
    format!("{SAYS}{}", reason.strip_prefix(SAYS).unwrap_or(reason))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::slot::refusals::MOST_REFUSED;

    #[test]
    fn a_reason_that_went_through_several_replicas_says_once_that_it_is_of_another() {
        let heard = elsewhere("it crashed");
        assert_eq!((heard.as_str(), elsewhere(&heard)), ("another replica refused it: it crashed", heard.clone()));
    }

    fn refusal(digest: &str) -> Refusal {
        Refusal { digest: digest.into(), reason: "it crashed".into(), at: Timestamp::UNIX_EPOCH }
    }

    fn refused(digest: &str) -> Judgement {
        Judgement::Refused(refusal(digest))
    }

    fn proven(digest: &str) -> Judgement {
        Judgement::Proven(digest.into())
    }

    #[test]
    fn only_what_is_new_changes_an_entry() {
        let mut entry = LedgerEntry::of("/provider");
        for (judgement, is_new) in [
            (proven("a"), true),
            (proven("a"), false),
            (refused("b"), true),
            (refused("b"), false),
            (Judgement::Named("lb".into()), true),
            (Judgement::Named("lb".into()), false),
            // Two replicas do not agree: the refusal stays.
            (proven("b"), false),
        ] {
            assert_eq!(entry.note(&judgement), is_new, "{judgement:?}");
        }
        assert_eq!((entry.proven.as_deref(), entry.why("b")), (Some("a"), Some("it crashed")));
        assert!(entry.note(&refused("a")), "one that had been proven");
        assert_eq!(entry.proven, None);
    }

    #[test]
    fn the_oldest_refusals_are_forgotten_and_a_long_reason_is_cut() {
        let mut entry = LedgerEntry::of("/provider");
        for number in 0..=MOST_REFUSED {
            entry.note(&refused(&number.to_string()));
        }
        assert_eq!(
            (entry.refused.iter().count(), entry.why("0"), entry.why("1")),
            (MOST_REFUSED, None, Some("it crashed"))
        );
        entry.note(&Judgement::Refused(Refusal { reason: "ä".repeat(5000), ..refusal("long") }));
        assert_eq!(entry.why("long").unwrap().chars().count(), MAX_REASON);
    }

    #[test]
    fn an_entry_is_written_as_it_is_documented() {
        let mut entry = LedgerEntry::of("/provider");
        assert_eq!(serde_json::to_string(&entry).unwrap(), r#"{"source":"/provider","refused":[]}"#);
        for judgement in [proven("sha256:a"), Judgement::Named("lb".into()), refused("sha256:b")] {
            entry.note(&judgement);
        }
        let text = r#"{"source":"/provider","proven":"sha256:a","naming":"lb","refused":[{"digest":"sha256:b","reason":"it crashed","at":"1970-01-01T00:00:00Z"}]}"#;
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
        assert_eq!(serde_json::from_str::<LedgerEntry>(text).unwrap(), entry);
        let newer = r#"{"source":"/provider","refused":[],"found":1}"#;
        let entry: LedgerEntry = serde_json::from_str(newer).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), newer);
    }
}
