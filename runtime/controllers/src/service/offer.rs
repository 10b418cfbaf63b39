//! Whether what a provider wrote on a Service was written for that one.
//!
//! The record of a Service says which of the provider's annotations are its own. Others came with an export, a backup or another
//! manager, or people wrote them: they are an offer. What they lead to is for the Service to take over, unless it is the load
//! balancer of another Service: that shows by its mark at the cloud.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccm_cloud::{Descriptor, Failure, LoadBalancers, Mark, Severity};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation, written};
use super::error::{SyncError, Task};
use super::fingerprint::Digest;
use super::memory::Key;
use super::ownership::Work;
use super::predicates::{has_finalizer, is_deleting, is_load_balancer};
use super::record::Record;
use super::sync::{Job, Syncer};
use super::view::told;
use super::wake::key;
use crate::in_log::InLog as _;
use crate::queue::Verdict;

/// What the provider's annotations on a Service lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Its own load balancer, or none.
    Own,
    /// One that no living Service has.
    Free {
        load_balancer: String,
        /// The UID that it is marked with.
        uid: Option<String>,
    },
    /// That of this Service.
    Anothers { load_balancer: String, owner: String },
}

/// Whether the provider's annotations are not those of the record.
pub(crate) fn is_offered(service: &Service, descriptor: &Descriptor) -> bool {
    let written = written(service, descriptor);
    !written.is_empty() && Record::of(service).is_none_or(|record| record.written != Some(Digest::of(&written)))
}

fn is_wanted(service: &Service) -> bool {
    is_load_balancer(service) && !is_deleting(service)
}

impl Syncer {
    /// What an offer has come to; none as long as nobody has looked.
    pub(crate) fn offer(&self, key: &Key, service: &Service, descriptor: &Descriptor) -> Option<Offer> {
        if !is_offered(service, descriptor) {
            return Some(Offer::Own);
        }
        let digest = Digest::of(&written(service, descriptor));
        let known = self.memory.with(key, |entry| entry.offer.clone()).flatten();
        known.filter(|(of, _)| *of == digest).map(|(_, offer)| offer)
    }

    /// Whether the provider must not see what it wrote, since it would lead to the load balancer of another Service. A Service that
    /// goes has taken nothing over, and takes nothing along that has the mark of another one.
    pub(crate) fn is_anothers(&self, key: &Key, service: &Service, descriptor: &Descriptor) -> bool {
        match self.offer(key, service, descriptor) {
            Some(Offer::Anothers { .. }) => true,
            Some(Offer::Free { uid, .. }) => uid.is_some() && !is_wanted(service),
            Some(Offer::Own) | None => false,
        }
    }

    /// Finds out what an offer comes to, where that is not known.
    ///
    /// # Errors
    ///
    /// The provider cannot tell.
    pub(crate) async fn decide(&self, key: &Key, service: &Service, member: usize) -> Result<(), SyncError> {
        let Some(provider) = self.provider(member) else { return Ok(()) };
        let descriptor = provider.descriptor();
        if self.offer(key, service, &descriptor).is_some() {
            return Ok(());
        }
        let offer = self.judge(provider, &descriptor, service).await;
        let offer = offer.map_err(|failure| SyncError::Cloud { task: Task::Adopt, failure })?;
        let digest = Digest::of(&written(service, &descriptor));
        self.memory.with(key, |entry| entry.offer = Some((digest, offer)));
        Ok(())
    }

    /// The same for a job, which may be another one then.
    ///
    /// # Errors
    ///
    /// It is not to be done, or not now.
    pub(crate) async fn decided(&self, key: &Key, job: &Job) -> Result<Job, Verdict> {
        if let Err(error) = self.decide(key, &job.service, job.member).await {
            return Err(self.not_served(key, job, error).await);
        }
        let now = self.job(key, job.member).filter(|now| !now.is_undecided);
        now.ok_or(Verdict::After(Duration::ZERO))
    }

    /// The same for many, as far as the provider can tell. Returns how many stay undecided.
    pub(crate) async fn decide_all(&self, offers: Vec<(Key, Arc<Service>)>, member: usize) -> usize {
        let undecided = AtomicUsize::new(0);
        let decided =
            futures::stream::iter(offers).for_each_concurrent(self.settings.width(), async |(key, service)| {
                if let Err(error) = self.decide(&key, &service, member).await {
                    tracing::debug!(object = %key.in_log(), %error, "not known whose the load balancer is");
                    undecided.fetch_add(1, Ordering::Relaxed);
                }
            });
        decided.await;
        undecided.into_inner()
    }

    async fn judge(
        &self,
        provider: &dyn LoadBalancers,
        descriptor: &Descriptor,
        service: &Service,
    ) -> Result<Offer, Failure> {
        let Some(mark) = self.mark(provider, descriptor, service).await? else { return Ok(Offer::Own) };
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        if mark.is_of(uid) {
            return Ok(Offer::Own);
        }
        let is_marked = |other: &Service| other.metadata.uid.as_deref().is_some_and(|uid| mark.is_of(uid));
        let all = self.store.state();
        let owner = all.into_iter().find(|other| is_marked(other) && may_have_a_load_balancer(other, descriptor));
        if let Some(owner) = owner.or_else(|| self.rival(service, descriptor)) {
            // It may have another one meanwhile, or the provider leaves it to somebody else.
            let theirs = self.mark(provider, descriptor, &owner).await?;
            if theirs.is_some_and(|theirs| theirs.load_balancer == mark.load_balancer) {
                let owner = key(&owner).in_log();
                return Ok(Offer::Anothers { load_balancer: mark.load_balancer, owner });
            }
        }
        Ok(Offer::Free { load_balancer: mark.load_balancer, uid: mark.uid })
    }

    async fn mark(
        &self,
        provider: &dyn LoadBalancers,
        descriptor: &Descriptor,
        service: &Service,
    ) -> Result<Option<Mark>, Failure> {
        let (view, _wrong) = told(service, descriptor, false);
        let _place = self.width.acquire().await;
        self.call("mark", provider.get_mark(view), |answer| answer.as_ref().err()).await?
    }

    /// The Service that has the same annotations of the provider, and had them before.
    fn rival(&self, service: &Service, descriptor: &Descriptor) -> Option<Arc<Service>> {
        let offered = written(service, descriptor);
        let has_all = |other: &Service| offered.iter().all(|(name, value)| annotation(other, name) == Some(value));
        let age = |service: &Service| {
            let metadata = &service.metadata;
            (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.uid.clone())
        };
        let was_before = |other: &Service| !is_offered(other, descriptor) || age(other) < age(service);
        self.store.state().into_iter().find(|other| {
            other.metadata.uid != service.metadata.uid
                && has_all(other)
                && may_have_a_load_balancer(other, descriptor)
                && was_before(other)
        })
    }

    /// Whether a Service came in the place of another one of the same name, with what leads to the load balancer of that. Then
    /// nothing more is known of that one.
    pub(crate) fn inherits(&self, key: &Key, service: &Service, old: &Service, member: usize) -> bool {
        let Some(provider) = self.provider(member) else { return false };
        let descriptor = provider.descriptor();
        let offered = written(service, &descriptor);
        let inherits = self.work(key, service) == Work::Serve(member)
            && !offered.is_empty()
            && offered == written(old, &descriptor);
        if inherits {
            self.memory.forget(key);
        }
        inherits
    }

    /// Says what becomes of an offer, and how to have the other.
    pub(crate) async fn tell_offer(&self, key: &Key, service: &Service, descriptor: &Descriptor) {
        let (load_balancer, whose, is_free) = match self.offer(key, service, descriptor) {
            Some(Offer::Free { load_balancer, uid: None }) => {
                (load_balancer, "nothing in the cloud says whose it is".to_owned(), true)
            }
            Some(Offer::Free { load_balancer, uid: Some(uid) }) => {
                (load_balancer, format!("it is marked with the UID {uid}, and no Service has it"), true)
            }
            Some(Offer::Anothers { load_balancer, owner }) => {
                (load_balancer, format!("it belongs to Service {owner}"), false)
            }
            Some(Offer::Own) | None => return,
        };
        let written = written(service, descriptor).into_keys().collect::<Vec<_>>().join(", ");
        let (provider, subject) =
            (&descriptor.name, format!("load balancer {load_balancer}, to which {written} leads,"));
        let (severity, reason, message) = match (is_wanted(service), is_free) {
            (true, true) => {
                let message = format!(
                    "{subject} is taken over: {whose}. To have a new one instead, give it up with the annotation {ORPHAN}: \
                     {provider}, and remove that when {written} is gone"
                );
                (Severity::Normal, "LoadBalancerAdopted", message)
            }
            (true, false) => {
                let message = format!(
                    "{subject} is left alone, and another one is made: {whose}. To have it instead, annotate that Service with \
                     {ORPHAN}: {provider}, then delete this one and create it again with {written}"
                );
                (Severity::Warning, "LoadBalancerNotAdopted", message)
            }
            (false, _) if !self.is_anothers(key, service, descriptor) => return,
            (false, _) => {
                let message = format!("{subject} is left alone, and was never taken over: {whose}");
                (Severity::Warning, "LoadBalancerNotDeleted", message)
            }
        };
        if self.is_news(key, &message) {
            self.tell(service, severity, reason, message).await;
        }
    }
}

/// Whether a Service may have a load balancer of this provider. One that it gave up to another provider, or to nobody, is no reason
/// to take it for free.
fn may_have_a_load_balancer(service: &Service, descriptor: &Descriptor) -> bool {
    let is_orphaned = annotation(service, ORPHAN) == Some(descriptor.name.as_str());
    (is_load_balancer(service) || has_finalizer(service)) && !is_orphaned
}
