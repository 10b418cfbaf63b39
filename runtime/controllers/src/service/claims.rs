//! Which load balancers are being taken over, or deleted for a Service that is gone: by one at a time.
//!
//! Whoever takes one over is not seen at the cloud before that is done, and in the store even later. Two copies that come at the
//! same time would both have it.
//!
//! Claims are of one process. A leader that lost its Lease sends nothing more, but what it sent may still arrive: the cloud's own tag
//! on a load balancer decides then, which providers ask again before they take one over.

use std::collections::HashMap;

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
    /// How many there were after the last cleaning.
    kept: usize,
}

type Name = (usize, String);
type Holder = (usize, Key, Option<String>);

impl State {
    /// Keeps a claim, and of its Service no other one but those that end by themselves.
    fn keep(&mut self, name: Name, claim: Claim) {
        if !claim.goes {
            let holder = (name.0, claim.key.clone(), claim.uid.clone());
            let before = self.last.insert(holder, name.1.clone()).map(|load_balancer| (name.0, load_balancer));
            let is_same = |known: &Seen| known.claim == claim;
            if let Some(before) = before.filter(|before| *before != name && self.all.get(before).is_some_and(is_same)) {
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
        self.all.retain(|_, Seen { claim, .. }| claim.goes || is_valid(claim));
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
        let other = state.all.get(&name).filter(|other| !is_own(&other.claim) && Some(*other) != seen);
        let other = other.map(|other| &other.claim);
        if let Some(other) = other.filter(|other| other.goes || is_valid(other)) {
            return Err(Box::new(other.clone()));
        }
        state.keep(name, claim);
        state.clean(is_valid);
        Ok(())
    }

    /// The same for a deletion, until what this returns is dropped.
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
}
