//! Whose a Service and its load balancer are: nothing that is still wanted is deleted, and nothing is left with a provider
//! that nobody asks any more.

use ccm_cloud::Severity;
use k8s_openapi::api::core::v1::Service;

use super::LoadBalancerMember;
use super::condition::STRANDED;
use super::fingerprint::{ENSURED, Record};
use super::memory::Key;
use super::predicates::{class, has_finalizer, is_deleting, is_load_balancer, needs_cleanup};
use super::sync::Syncer;
use crate::queue::Verdict;

/// Whose a Service is, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    Serve(usize),
    Cleanup(usize),
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
        match (self.holder(key, service), is_wanted) {
            (Holder::Member(holder), true) if self.serves(holder, class(service)) => Work::Serve(holder),
            (Holder::Member(holder), true) if by_class.is_none() => Work::Stranded(Stranded::Class(holder)),
            (Holder::Member(holder), _) => Work::Cleanup(holder),
            (Holder::Absent, _) => Work::Stranded(Stranded::Provider),
            (Holder::Nobody, true) => by_class.map_or(Work::Nothing, Work::Serve),
            (Holder::Nobody, false) => {
                by_class.filter(|_| is_ours && needs_cleanup(service)).map_or(Work::Nothing, Work::Cleanup)
            }
        }
    }

    fn holder(&self, key: &Key, service: &Service) -> Holder {
        if let Some(member) = self.memory.holder(key, service) {
            return Holder::Member(member);
        }
        match Record::of(service) {
            Some(record) => self.by_name(&record.provider).map_or(Holder::Absent, Holder::Member),
            None => Holder::Nobody,
        }
    }

    /// Remembers whether a Service is somebody else's: with another type its class goes, and its finalizer stays until they have
    /// cleaned up.
    pub(crate) fn notice(&self, key: &Key) {
        let Some(service) = self.store.get(key) else { return self.memory.left_by_others(key) };
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
                let provider = self.provider(holder).map(|provider| provider.descriptor().name.clone());
                let class = class(service).unwrap_or_default();
                let what = format!(
                    "and does not serve the class {class:?}: give it that class with --load-balancer-class or in the list of \
                     providers; or delete the Service, which deletes the load balancer"
                );
                (provider.unwrap_or_default(), what)
            }
            Stranded::Provider => {
                let provider = Record::of(service).map(|record| record.provider).unwrap_or_default();
                let what = format!(
                    "and is not configured here, or makes no load balancers: configure that provider, or delete its load \
                     balancer by hand and then remove the annotation {ENSURED}"
                );
                (provider, what)
            }
        };
        self.memory.not_ready(key, Some(STRANDED));
        let message = format!("the provider {provider:?} has the load balancer of this Service {what}");
        if self.is_news(key, &message) {
            tracing::warn!(provider, "a load balancer is left alone, the configuration does not serve it any more");
            self.tell(service, Severity::Warning, "LoadBalancerStranded", message).await;
        }
        Verdict::Change
    }
}

/// Who would make the load balancer of a Service that wants one, as [`Syncer::work`] decides it, without what a process
/// remembers. Nobody while a provider that is not configured has it.
pub(crate) fn owner(members: &[LoadBalancerMember], service: &Service, before: Option<&Service>) -> Option<usize> {
    let class = class(service);
    match Record::of(service).or_else(|| before.and_then(Record::of)) {
        None => by_class(members, class),
        Some(record) => {
            let holder = by_name(members, &record.provider)?;
            if serves(members, holder, class) { Some(holder) } else { by_class(members, class) }
        }
    }
}

fn by_class(members: &[LoadBalancerMember], class: Option<&str>) -> Option<usize> {
    (0..members.len()).find(|member| serves(members, *member, class))
}

fn serves(members: &[LoadBalancerMember], member: usize, class: Option<&str>) -> bool {
    members.get(member).is_some_and(|member| match class {
        Some(class) => member.classes.iter().any(|served| served == class),
        None => true,
    })
}

fn by_name(members: &[LoadBalancerMember], provider: &str) -> Option<usize> {
    members.iter().position(|member| member.provider.descriptor().name == provider)
}
