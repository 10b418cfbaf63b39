//! What passes the gate.

use std::sync::atomic::Ordering;

use super::{Object, SERVICES, Simulation};
use crate::release::Release;
use crate::slot::Slot;
use crate::slot::state::Reconfigured;
use crate::slot::testing::{Does, Fake, is_narrow, is_of_a_kind, release};

/// Whether the gate asks about this Service.
const fn has_record(object: &Object) -> bool {
    object.is_wanted && object.has_record
}

impl Simulation {
    /// Whether the cloud answers, and the version finds the machines.
    pub(super) fn is_answered(&self, version: &str) -> bool {
        self.nature(version) != Does::Lose && !self.cloud.is_down.load(Ordering::Relaxed)
    }

    /// Whether the cloud takes the credentials of this configuration.
    pub(super) fn is_valid(&self, configuration: u32) -> bool {
        configuration >= self.cloud.oldest.load(Ordering::Relaxed)
    }

    /// Whether a component with this configuration finds what one with the other finds: a revoked one cannot tell.
    pub(super) fn finds_as_much(&self, configuration: u32, other: u32) -> bool {
        let balancers = self.cloud.balancers.lock();
        let is_there = |name: &str| balancers.values().any(|balancer| balancer.uid == name);
        let is_recorded = |name: &str| self.objects.get(name).is_some_and(has_record) && is_there(name);
        let mut asked = SERVICES.into_iter().filter(|name| is_of_a_kind(name));
        let may_find_less = is_narrow(other) || !self.is_valid(other);
        self.is_valid(configuration) && (may_find_less || !is_narrow(configuration) || !asked.any(is_recorded))
    }

    /// As the gate compares: whoever does not find the machines, or names load balancers in another way, is not taken.
    pub(super) fn is_admitted(&self, slot: &Slot<Fake>, version: &str) -> bool {
        let proven = &slot.standing().proven.version;
        let recorded = self.objects.iter().filter(|(_, object)| has_record(object)).map(|(name, _)| *name);
        let mut asked = recorded.chain(["to-come"]);
        self.is_answered(version) && asked.all(|service| self.name(version, service) == self.name(proven, service))
    }

    /// The same for the first one of a process: its names are compared with those of whoever led, and with what was recorded.
    pub(super) fn is_admitted_first(&self, version: &str) -> bool {
        let naming = self.naming(version);
        let is_led = self.shared.naming.as_ref().is_none_or(|led| *led == naming);
        let mut recorded = self.objects.values().filter_map(|object| object.by_version.as_ref());
        self.is_answered(version) && is_led && recorded.all(|by| self.naming(by) == naming)
    }

    /// The one with its word: a version that somebody has broken passes no gate.
    pub(super) fn passes(&self, component: &Fake, version: &str) -> bool {
        self.is_answered(version) && component.is(self.proven_nature(version))
    }

    /// As the keeper does it: the proven one comes first, and the one on probation is compared with that.
    pub(super) fn configures(&mut self, replica: usize) {
        let files = self.replicas[replica].files;
        let Some(slot) = self.slot(replica).cloned() else { return };
        let stands = slot.components();
        let has = |one: &Release<Fake>| one.component.configuration == files;
        if std::iter::once(&stands.proven).chain(&stands.candidate).all(has) {
            return;
        }
        let other = |one: &Release<Fake>| release(one.component.configured(files));
        let (old, version) = (&stands.proven.component, &stands.proven.version.version);
        let is_taken =
            has(&stands.proven) || (self.passes(old, version) && self.finds_as_much(files, old.configuration));
        let is_admitted = |one: &Release<Fake>, beside: u32| {
            let version = &one.version.version;
            self.is_admitted(&slot, version) && self.finds_as_much(files, beside)
        };
        let with = match &stands.candidate {
            None if is_taken => Reconfigured { proven: Some(other(&stands.proven)), candidate: None },
            Some(candidate) if is_taken => {
                let tried =
                    if is_admitted(candidate, files) { Ok(other(candidate)) } else { Err("it is refused".to_owned()) };
                Reconfigured { proven: Some(other(&stands.proven)), candidate: Some(tried) }
            }
            Some(candidate) if stands.is_apart && !has(candidate) && is_admitted(candidate, old.configuration) => {
                Reconfigured { proven: None, candidate: Some(Ok(other(candidate))) }
            }
            _ => return,
        };
        assert!(slot.configure(stands.generation, with).is_some());
    }
}
