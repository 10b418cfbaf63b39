//! Whose a Service and its load balancer are: nothing that is still wanted is deleted, and nothing is left with a provider
//! that nobody asks any more.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::Severity;
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation};
use super::condition::STRANDED;
use super::digest::Digest;
use super::ensured_record::{Record, provider_of_before};
use super::entry::Purpose;
use super::key::Key;
use super::plan::{Action, Plan, Reason};
use super::predicates::{class, has_finalizer, needs_cleanup};
use super::provider::{LoadBalancerMember, LoadBalancerMembers};
use super::report::{NOT_SYNCED, Tried};
use super::syncer::Syncer;
use crate::queue::Verdict;
use crate::view::service::{is_deleting, is_load_balancer};

/// Whose a Service is, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    Serve(usize),
    Cleanup(usize),
    /// Its owner gives the load balancer of this one up, or of one that is not configured.
    Orphan(Option<usize>),
    /// An older release says of this one that it has the load balancer: nothing is done before it was asked.
    Ask(usize),
    /// A provider has its load balancer that may not serve it any more.
    Stranded(Stranded),
}

/// Why nothing is done about a load balancer that there is: what has changed is the configuration and not the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranded {
    /// The provider is not configured here, or makes no load balancers any more.
    Provider,
    /// This one has it, and does not serve the class.
    Class(usize),
}

/// Who has the load balancer of a Service.
enum Holder {
    Nobody,
    Member(usize),
    /// An older release says so.
    Unclear(usize),
    /// A provider that is not configured.
    Absent,
}

impl Syncer {
    /// Whose Service it is, and what is to be done about it.
    ///
    /// With a class it is that of the provider that serves the class. Others may use the same finalizer, so a Service whose class
    /// nobody serves here is not touched, unless it says itself that one of these providers has its load balancer.
    ///
    /// Whoever has a load balancer keeps it as long as it serves the class. It is deleted for what the Service itself does, never
    /// for what changes in the configuration: a flag with a typing error would delete every load balancer of a cluster.
    pub(crate) fn work(&self, key: &Key, service: &Service) -> Work {
        let by_class = self.by_class(class(service));
        let is_wanted = is_load_balancer(service) && !is_deleting(service);
        // The finalizer alone does not say whose it is. Another manager's, of before a migration, has no class: that is ours.
        let is_ours = is_load_balancer(service) || !self.memory.is_theirs(key, service);
        let holder = self.holder(key, service, by_class);
        if let Some(orphan) = annotation(service, ORPHAN).filter(|orphan| !orphan.is_empty()) {
            let member = match holder {
                Holder::Member(holder) | Holder::Unclear(holder) => Some(holder),
                Holder::Absent => None,
                Holder::Nobody => by_class,
            };
            let recorded = provider_of(service);
            let has_ours = recorded.is_some() || (has_finalizer(service) && is_ours && member.is_some());
            let name = member.map_or(recorded, |member| self.name_of(member));
            match name.as_deref() == Some(orphan) {
                true if has_ours => return Work::Orphan(member),
                true => return Work::Nothing,
                false => {}
            }
        }
        match (holder, is_wanted) {
            (Holder::Member(holder), true) if self.serves(holder, class(service)) => Work::Serve(holder),
            (Holder::Member(holder), true) if !self.has_moved(holder, service) => {
                Work::Stranded(Stranded::Class(holder))
            }
            (Holder::Member(holder), _) => Work::Cleanup(holder),
            (Holder::Unclear(holder), _) => Work::Ask(holder),
            (Holder::Absent, _) => Work::Stranded(Stranded::Provider),
            (Holder::Nobody, true) => by_class.map_or(Work::Nothing, Work::Serve),
            (Holder::Nobody, false) => {
                by_class.filter(|_| is_ours && needs_cleanup(service)).map_or(Work::Nothing, Work::Cleanup)
            }
        }
    }

    /// The plan for a Service that is not served.
    pub(crate) fn plan_of(&self, service: &Service, work: Work) -> Plan {
        let given_up = || annotation(service, ORPHAN).is_some_and(|orphan| !orphan.is_empty());
        let (member, action, reason) = match work {
            Work::Nothing if given_up() => (None, Action::Nothing, Reason::GivenUp),
            Work::Nothing if is_load_balancer(service) => (None, Action::Nothing, Reason::Foreign),
            Work::Nothing => (None, Action::Nothing, Reason::NoLoadBalancer),
            Work::Serve(member) => (Some(member), Action::Nothing, Reason::Exchanged),
            Work::Cleanup(member) if is_deleting(service) => (Some(member), Action::Delete, Reason::Deleted),
            Work::Cleanup(member) if is_load_balancer(service) => (Some(member), Action::Delete, Reason::ClassMoved),
            Work::Cleanup(member) => (Some(member), Action::Delete, Reason::NoLoadBalancer),
            Work::Orphan(member) => (member, Action::Orphan, Reason::GivenUp),
            Work::Ask(member) => (Some(member), Action::Ask, Reason::NamedBefore),
            Work::Stranded(Stranded::Class(holder)) => (Some(holder), Action::Strand, Reason::ClassNotServed),
            Work::Stranded(Stranded::Provider) => (None, Action::Strand, Reason::ProviderNotConfigured),
        };
        let named = || matches!(work, Work::Orphan(_) | Work::Stranded(_)).then(|| provider_of(service)).flatten();
        Plan { provider: member.and_then(|member| self.name_of(member)).or_else(named), action, reason }
    }

    /// Whether its owner has taken the Service from a class of this provider to one of another provider. Where the class is the
    /// same as before, or nobody serves it, it is the configuration that has changed.
    fn has_moved(&self, holder: usize, service: &Service) -> bool {
        let now = class(service);
        let moved = |record: Record| {
            let before = record.class.as_deref();
            before != now && self.serves(holder, before)
        };
        Record::of(service).is_some_and(moved) && self.by_class(now).is_some()
    }

    fn name_of(&self, member: usize) -> Option<String> {
        self.members.get(&member).map(LoadBalancerMember::name)
    }

    fn holder(&self, key: &Key, service: &Service, by_class: Option<usize>) -> Holder {
        if let Some(member) = self.memory.holder(key, service) {
            // An earlier controller of this process may have served with others.
            return if self.members.contains_key(&member) { Holder::Member(member) } else { Holder::Absent };
        }
        if let Some(record) = Record::of(service) {
            return self.by_name(&record.provider).map_or(Holder::Absent, Holder::Member);
        }
        let Some(before) = provider_of_before(service) else { return Holder::Nobody };
        match self.by_name(before) {
            None => Holder::Absent,
            // It is asked about its annotations, as ever.
            Some(member) if by_class == Some(member) || self.memory.was_denied(key, service) => Holder::Nobody,
            Some(member) => Holder::Unclear(member),
        }
    }

    /// Asks a provider whether it has the load balancer of a Service, as an older release wrote in an annotation: with another order of
    /// the providers a new one would be made, and with a class that nobody serves the old one would be forgotten.
    pub(crate) async fn ask(&self, key: &Key, service: &Arc<Service>, member: usize) -> Verdict {
        let purpose = Purpose::Serve(Digest::of(&"ask"));
        if let Some(wait) = self.memory.with(key, |entry| entry.must_wait(purpose, None)).flatten() {
            return wait;
        }
        let Some(provider) = self.provider(member) else { return Verdict::Backoff };
        match self.has_it(service, &provider).await {
            Ok(true) => self.memory.enter(key, service, member, true),
            Ok(false) => self.memory.deny(key, service),
            Err(error) => {
                let tried = Tried { provider: Some(&provider), purpose, backends: None };
                return self.reporter(key, service).failed(&tried, NOT_SYNCED, &error).await;
            }
        }
        self.memory.with(key, |entry| entry.succeeded());
        Verdict::After(Duration::ZERO)
    }

    /// Remembers whether a Service is somebody else's: with another type its class goes, and its finalizer stays until they have
    /// cleaned up.
    pub(crate) fn notice(&self, key: &Key) {
        // What the store has may be older than what this process wrote.
        let seen = self.store.get(key).map(|seen| self.memory.newer(key, seen));
        self.living.note(key, seen.as_deref());
        let Some(service) = seen else { return self.memory.is_gone(key) };
        let is_theirs = match is_load_balancer(&service) {
            true => self.by_class(class(&service)).is_none(),
            false => has_finalizer(&service) && self.memory.is_theirs(key, &service),
        };
        match is_theirs {
            true => self.memory.left_to_others(key, &service),
            false => self.memory.left_by_others(key),
        }
    }

    fn by_class(&self, class: Option<&str>) -> Option<usize> {
        by_class(&self.members, class)
    }

    fn serves(&self, member: usize, class: Option<&str>) -> bool {
        serves(&self.members, member, class)
    }

    fn by_name(&self, provider: &str) -> Option<usize> {
        by_name(&self.members, provider)
    }

    /// Says that nothing is done about a Service before the configuration serves it again.
    pub(super) async fn stranded(&self, key: &Key, service: &Service, why: Stranded) -> Verdict {
        let (provider, what) = match why {
            Stranded::Class(holder) => {
                let class = class(service).unwrap_or_default();
                let what = format!(
                    "and does not serve the class {class:?}: give it that class with --load-balancer-class or in the list of \
                     providers; or delete the Service, which deletes the load balancer"
                );
                (self.name_of(holder).unwrap_or_default(), what)
            }
            Stranded::Provider => {
                let provider = provider_of(service).unwrap_or_default();
                let what = format!(
                    "and is not configured here, or makes no load balancers: configure that provider; or give the load balancer \
                     up with the annotation {ORPHAN}: {provider}, and delete it by hand"
                );
                (provider, what)
            }
        };
        self.memory.not_ready(key, Some(STRANDED));
        let message = format!("the provider {provider:?} has the load balancer of this Service {what}");
        let reporter = self.reporter(key, service);
        if reporter.is_news(&message) {
            tracing::warn!(provider, "a load balancer is left alone, the configuration does not serve it any more");
            reporter.event(Severity::Warning, "LoadBalancerStranded", message).await;
        }
        Verdict::Change
    }
}

/// Who has the load balancer of a Service, as that says itself.
fn provider_of(service: &Service) -> Option<String> {
    let recorded = Record::of(service).map(|record| record.provider);
    recorded.or_else(|| provider_of_before(service).map(ToOwned::to_owned))
}

/// Who would make the load balancer of a Service that wants one, as [`Syncer::work`] decides it, without what a process
/// remembers. Nobody while a provider that is not configured has it.
pub(crate) fn owner(members: &LoadBalancerMembers, service: &Service, before: Option<&Service>) -> Option<usize> {
    let class = class(service);
    let orphan = annotation(service, ORPHAN);
    let owner = match Record::of(service).or_else(|| before.and_then(Record::of)) {
        None => by_class(members, class),
        Some(record) => {
            let holder = by_name(members, &record.provider)?;
            if serves(members, holder, class) { Some(holder) } else { by_class(members, class) }
        }
    };
    let is_orphan = |owner: &usize| members.get(owner).is_some_and(|member| Some(member.name().as_str()) == orphan);
    owner.filter(|owner| !is_orphan(owner))
}

fn by_class(members: &LoadBalancerMembers, class: Option<&str>) -> Option<usize> {
    members.keys().copied().find(|member| serves(members, *member, class))
}

fn serves(members: &LoadBalancerMembers, member: usize, class: Option<&str>) -> bool {
    members.get(&member).is_some_and(|member| match class {
        Some(class) => member.classes.iter().any(|served| served == class),
        None => true,
    })
}

fn by_name(members: &LoadBalancerMembers, provider: &str) -> Option<usize> {
    members.iter().find(|(_, member)| member.name() == provider).map(|(place, _)| *place)
}
