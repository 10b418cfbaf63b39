//! Which load balancers are being taken over, or deleted for a Service that is gone: by one at a time.
//!
//! Whoever takes one over is not seen at the cloud before that is done, and in the store even later. Two copies that come at the
//! same time would both have it.
//!
//! Claims are of one process. A leader that lost its Lease sends nothing more, but what it sent may still arrive: the cloud's own tag
//! on a load balancer decides then, which providers ask again before they take one over.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use super::key::Key;

/// Of the load balancers, by provider and ID.
#[derive(Default)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Default)]
struct State {
    all: HashMap<Name, Seen>,
    /// How often any was claimed.
    turns: u64,
    /// The one load balancer of each provider that a Service takes over. Whoever is led to another one each time does not have them all.
    last: HashMap<Holder, String>,
    /// Those that are being taken over. Their claims stay, wherever their Services are led meanwhile.
    under_way: HashSet<Name>,
    /// How many there were after the last cleaning.
    kept: usize,
}

type Name = (usize, String);
type Holder = (usize, Key, Option<String>);

impl State {
    /// Keeps a claim, and of its Service no other one but those that end by themselves, and that of a takeover under way.
    fn keep(&mut self, name: Name, claim: Claim) {
        if !claim.goes {
            let holder = (name.0, claim.key.clone(), claim.uid.clone());
            let before = self.last.insert(holder, name.1.clone()).map(|load_balancer| (name.0, load_balancer));
            let is_same = |known: &Seen| known.claim == claim;
            let before = before.filter(|before| *before != name && !self.under_way.contains(before));
            if let Some(before) = before.filter(|before| self.all.get(before).is_some_and(is_same)) {
                self.all.remove(&before);
            }
        }
        self.turns = self.turns.wrapping_add(1);
        self.all.insert(name, Seen { claim, turn: self.turns });
    }

    /// Now and then, so that it costs next to nothing for each of them.
    fn clean(&mut self, is_valid: impl Fn(&Claim) -> bool) {
        if self.all.len().max(self.last.len()) <= 2 * self.kept + 16 {
            return;
        }
        let under_way = &self.under_way;
        self.all.retain(|name, Seen { claim, .. }| claim.goes || under_way.contains(name) || is_valid(claim));
        let all = &self.all;
        self.last.retain(|(member, key, uid), load_balancer| {
            let claim = all.get(&(*member, load_balancer.clone()));
            claim.is_some_and(|Seen { claim, .. }| (&claim.key, &claim.uid) == (&*key, &*uid))
        });
        self.kept = self.all.len();
    }
}

/// Who has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: Key,
    pub(crate) uid: Option<String>,
    /// It is being deleted for this Service, which is gone.
    pub(crate) goes: bool,
}

/// A claim as somebody saw it. Whoever claims again meanwhile has been judged anew: what was found out of the claim before says nothing of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) claim: Claim,
    turn: u64,
}

/// Ends a takeover: what its Service claims counts again.
pub(crate) struct Taking<'a> {
    claims: &'a Claims,
    name: Name,
    holder: Holder,
}

/// Ends the claim of a deletion.
pub(crate) struct Going<'a> {
    claims: &'a Claims,
    name: Name,
    claim: Claim,
}

impl Claims {
    pub(crate) fn of(&self, member: usize, load_balancer: &str) -> Option<Seen> {
        self.0.lock().all.get(&(member, load_balancer.to_owned())).cloned()
    }

    /// Claims a load balancer, which nobody has or whom the caller has seen to have it no more. `is_valid` says of claims whether
    /// their Services are still there.
    ///
    /// # Errors
    ///
    /// Another one has it.
    pub(crate) fn claim(
        &self,
        member: usize,
        load_balancer: &str,
        claim: Claim,
        seen: Option<&Seen>,
        is_valid: impl Fn(&Claim) -> bool,
    ) -> Result<(), Box<Claim>> {
        let mut state = self.0.lock();
        let name = (member, load_balancer.to_owned());
        let is_own = |other: &Claim| (&other.key, &other.uid) == (&claim.key, &claim.uid);
        let is_under_way = state.under_way.contains(&name);
        let is_left = |other: &Seen| !is_under_way && Some(other) == seen;
        let other = state.all.get(&name).filter(|other| !is_own(&other.claim) && !is_left(other));
        let other = other.map(|other| &other.claim);
        if let Some(other) = other.filter(|other| is_under_way || other.goes || is_valid(other)) {
            return Err(Box::new(other.clone()));
        }
        state.keep(name, claim);
        state.clean(is_valid);
        Ok(())
    }

    /// The takeover of a load balancer that a Service has claimed is under way until what this returns is dropped: nobody else claims it,
    /// wherever the Service is led meanwhile. None: another one has claimed it.
    pub(crate) fn taking(
        &self,
        member: usize,
        load_balancer: &str,
        (key, uid): (Key, Option<String>),
    ) -> Option<Taking<'_>> {
        let mut state = self.0.lock();
        let name = (member, load_balancer.to_owned());
        let claim = Claim { key, uid, goes: false };
        if state.all.get(&name).is_none_or(|known| known.claim != claim) {
            return None;
        }
        state.under_way.insert(name.clone());
        Some(Taking { claims: self, name, holder: (member, claim.key, claim.uid) })
    }

    /// The same as [`claim`](Self::claim) for a deletion, until what this returns is dropped.
    ///
    /// # Errors
    ///
    /// Another one has it.
    pub(crate) fn going(
        &self,
        member: usize,
        load_balancer: &str,
        (key, uid): (Key, Option<String>),
        seen: Option<&Seen>,
        is_valid: impl Fn(&Claim) -> bool,
    ) -> Result<Going<'_>, Box<Claim>> {
        let claim = Claim { key, uid, goes: true };
        self.claim(member, load_balancer, claim.clone(), seen, is_valid)?;
        Ok(Going { claims: self, name: (member, load_balancer.to_owned()), claim })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let state = self.0.lock();
        state.all.len().max(state.last.len())
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.0.lock();
        state.under_way.remove(&self.name);
        let is_last = state.last.get(&self.holder) == Some(&self.name.1);
        if !is_last {
            state.all.remove(&self.name);
        }
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.0.lock();
        if state.all.get(&self.name).is_some_and(|known| known.claim == self.claim) {
            state.all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Claim {
        Claim { key: Key::new(name).within("default"), uid: Some(format!("uid of {name}")), goes: false }
    }

    /// It was led elsewhere and back while somebody asked the cloud about it, and lost what it was taking over.
    #[test]
    fn a_judgement_that_is_older_than_a_claim_takes_nothing_away() {
        let (claims, is_there) = (Claims::default(), |_: &Claim| true);
        let holder = || claims.of(0, "lb-1").map(|seen| seen.claim);
        assert_eq!(claims.claim(0, "lb-1", of("web"), None, is_there), Ok(()));
        let seen = claims.of(0, "lb-1");
        assert_eq!(claims.claim(0, "lb-2", of("web"), None, is_there), Ok(()));
        assert_eq!(claims.claim(0, "lb-1", of("web"), None, is_there), Ok(()));
        let refused = Err(Box::new(of("web")));
        assert_eq!(claims.claim(0, "lb-1", of("late"), seen.as_ref(), is_there), refused);
        let gone = (Key::new("gone").within("default"), None);
        assert!(claims.going(0, "lb-1", gone, seen.as_ref(), is_there).is_err());
        assert_eq!(holder(), Some(of("web")));
        // By what there is now, it is free.
        let seen = claims.of(0, "lb-1");
        assert_eq!(claims.claim(0, "lb-1", of("late"), seen.as_ref(), is_there), Ok(()));
        assert_eq!(holder(), Some(of("late")));
    }

    /// Its Service is led elsewhere meanwhile, and is removed.
    #[test]
    fn what_is_being_taken_over_is_nobody_elses_until_that_has_ended() {
        let (claims, nobody) = (Claims::default(), |_: &Claim| false);
        let holder = |id: &str| claims.of(0, id).map(|seen| seen.claim);
        let taking = |name: &str| claims.taking(0, "lb-1", (of(name).key, of(name).uid));
        assert_eq!(claims.claim(0, "lb-1", of("web"), None, nobody), Ok(()));
        let under_way = taking("web");
        assert_eq!((under_way.is_some(), taking("late").is_some()), (true, false));
        assert_eq!(claims.claim(0, "lb-2", of("web"), None, nobody), Ok(()));
        let seen = claims.of(0, "lb-1");
        let refused = Err(Box::new(of("web")));
        assert_eq!(claims.claim(0, "lb-1", of("late"), seen.as_ref(), nobody), refused);
        let gone = (Key::new("gone").within("default"), None);
        assert!(claims.going(0, "lb-1", gone, seen.as_ref(), nobody).is_err());
        drop(under_way);
        assert_eq!((holder("lb-1"), holder("lb-2")), (None, Some(of("web"))));
        // Without such a change it keeps its claim, which counts as ever.
        drop(claims.taking(0, "lb-2", (of("web").key, of("web").uid)));
        assert_eq!(holder("lb-2"), Some(of("web")));
        assert_eq!(claims.claim(0, "lb-2", of("late"), None, nobody), Ok(()));
    }
}
