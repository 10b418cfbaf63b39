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
    all: HashMap<Name, Claim>,
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
            if let Some(before) = before.filter(|before| *before != name && self.all.get(before) == Some(&claim)) {
                self.all.remove(&before);
            }
        }
        self.all.insert(name, claim);
    }

    /// Now and then, so that it costs next to nothing for each of them.
    fn clean(&mut self, is_valid: impl Fn(&Claim) -> bool) {
        if self.all.len().max(self.last.len()) <= 2 * self.kept + 16 {
            return;
        }
        self.all.retain(|_, claim| claim.goes || is_valid(claim));
        let all = &self.all;
        self.last.retain(|(member, key, uid), load_balancer| {
            let claim = all.get(&(*member, load_balancer.clone()));
            claim.is_some_and(|claim| (&claim.key, &claim.uid) == (&*key, &*uid))
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

/// Ends the claim of a deletion.
pub(crate) struct Going<'a> {
    claims: &'a Claims,
    name: Name,
    claim: Claim,
}

impl Claims {
    pub(crate) fn of(&self, member: usize, load_balancer: &str) -> Option<Claim> {
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
        seen: Option<&Claim>,
        is_valid: impl Fn(&Claim) -> bool,
    ) -> Result<(), Box<Claim>> {
        let mut state = self.0.lock();
        let name = (member, load_balancer.to_owned());
        let is_other = |other: &&Claim| (&other.key, &other.uid) != (&claim.key, &claim.uid) && Some(*other) != seen;
        let other = state.all.get(&name).filter(is_other);
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
        seen: Option<&Claim>,
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
        if state.all.get(&self.name) == Some(&self.claim) {
            state.all.remove(&self.name);
        }
    }
}
