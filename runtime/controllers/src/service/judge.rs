//! Judges whose the load balancer of an offer is: whether what a provider wrote on a Service was written for that one.
//!
//! The record of a Service says which of the provider's annotations are its own. Others came with an export, a backup or another
//! manager, or people wrote them: they are an offer. What they lead to is for the Service to take over, unless it is the load
//! balancer of another Service: that shows by its mark at the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ccm_cloud::{Annotation, Descriptor, Failure, Mark, Reaction, Severity};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ORPHAN, annotation, is_asked, written};
use super::claims::{Claim, Going, Seen};
use super::digest::Digest;
use super::error::{SyncError, Task};
use super::key::{Key, key};
use super::offer::{Offer, is_offered};
use super::operation::Operation;
use super::ownership::Work;
use super::predicates::has_finalizer;
use super::provider::Provider;
use super::syncer::Syncer;
use super::view::told;
use crate::object_name::ObjectName as _;
use crate::store::{Shown, UnreadObject};
use crate::view::service::{is_deleting, is_load_balancer};

/// Most Services that the provider is asked about, whether they have the load balancer of an offer: whoever is most likely comes first.
const MOST_RIVALS: usize = 8;
/// How often an offer is judged again at once, when somebody else claims its load balancer at that moment.
const MOST_JUDGEMENTS: usize = 3;

fn is_wanted(service: &Service) -> bool {
    is_load_balancer(service) && !is_deleting(service)
}

/// The provider that is asked whose a load balancer is.
struct Asker<'a> {
    provider: &'a Provider,
    permit: Permit,
}

/// Whether a question needs a permit of its own to run at the same time as the others.
#[derive(Clone, Copy)]
enum Permit {
    Needed,
    /// It is asked in a turn that holds one.
    Held,
}

fn unknown(failure: Failure) -> SyncError {
    SyncError::Cloud { task: Task::Adopt, failure }
}

/// What an offer is known by: the annotations, and the component that says what they lead to.
fn offered(service: &Service, provider: &Provider) -> Digest {
    Digest::of(&(written(service, &provider.descriptor), &provider.component))
}

/// The load balancer of a Service that is gone.
pub(crate) enum Bequest<'a> {
    /// Nobody has it, and nobody takes it as long as this is kept.
    Nobodys(Option<Going<'a>>),
    /// It stays: why, in words.
    Stays(String),
}

impl Syncer {
    /// What an offer has come to; none as long as nobody has looked.
    pub(crate) fn offer(&self, key: &Key, service: &Service, provider: &Provider) -> Option<Offer> {
        if !is_offered(service, &provider.descriptor) {
            return Some(Offer::Own);
        }
        let digest = offered(service, provider);
        self.memory.with(key, |entry| entry.offer(digest)).flatten()
    }

    /// Whether the provider must not see what it wrote, since it would lead to the load balancer of another Service. A Service that
    /// goes has taken nothing over, and takes nothing along that has the mark of another one.
    pub(crate) fn is_anothers(&self, key: &Key, service: &Service, provider: &Provider) -> bool {
        match self.offer(key, service, provider) {
            Some(Offer::Anothers { .. }) => true,
            Some(Offer::Free { uid, .. }) => uid.is_some() && !is_wanted(service),
            Some(Offer::Own | Offer::Nothing) | None => false,
        }
    }

    /// Finds out what an offer comes to, where that is not known.
    ///
    /// # Errors
    ///
    /// The provider or the API server cannot tell.
    pub(crate) async fn decide(&self, key: &Key, service: &Service, provider: &Provider) -> Result<(), SyncError> {
        if self.offer(key, service, provider).is_some() {
            return Ok(());
        }
        let asker = Asker { provider, permit: Permit::Needed };
        let offer = self.judge(&asker, key, service).await?;
        self.judged(key, service, provider, offer);
        Ok(())
    }

    fn judged(&self, key: &Key, service: &Service, provider: &Provider, offer: Offer) {
        let digest = offered(service, provider);
        self.memory.with(key, |entry| entry.was_judged(digest, offer));
    }

    /// The same for many, as far as the provider can tell. Returns how many stay undecided.
    pub(crate) async fn decide_all(
        &self,
        offers: Vec<(Key, Arc<Service>)>,
        provider: &Provider,
        goes_on: impl Fn(),
    ) -> usize {
        let undecided = AtomicUsize::new(0);
        let decided =
            futures::stream::iter(offers).for_each_concurrent(self.settings.width(), async |(key, service)| {
                if let Err(error) = self.decide(&key, &service, provider).await {
                    tracing::debug!(object = %key.object_name(), %error, "not known whose the load balancer is");
                    undecided.fetch_add(1, Ordering::Relaxed);
                }
                goes_on();
            });
        decided.await;
        undecided.into_inner()
    }

    /// Judges an offer once more before any call: what was nobody's, or was not there, may be another one's by now. What belongs to
    /// another one is not told to the provider at all.
    ///
    /// # Errors
    ///
    /// None: it is not what it was. Some: it changes all the time, or nobody can tell.
    pub(crate) async fn is_as_before(
        &self,
        key: &Key,
        service: &Service,
        provider: &Provider,
    ) -> Result<(), Option<SyncError>> {
        let asker = Asker { provider, permit: Permit::Held };
        let before = self.offer(key, service, provider);
        let Some(before @ (Offer::Free { .. } | Offer::Nothing)) = before else { return Ok(()) };
        let now = self.in_time(Task::Adopt, self.judge(&asker, key, service)).await;
        let now = now.and_then(|now| now).map_err(Some)?;
        let is_same = now == before;
        if !is_same {
            self.judged(key, service, provider, now);
        }
        let changed = self.memory.with(key, |entry| entry.judged_again(!is_same));
        match (is_same, changed) {
            (true, _) => Ok(()),
            (false, Some(true)) => {
                let message = "whose the load balancer is has changed again";
                Err(Some(unknown(Failure::new(Reaction::Retry, message))))
            }
            (false, _) => Err(None),
        }
    }

    async fn judge(&self, asker: &Asker<'_>, key: &Key, service: &Service) -> Result<Offer, SyncError> {
        let Some(mark) = self.mark(asker, service).await? else { return Ok(Offer::Nothing) };
        if mark.is_of(service.metadata.uid.as_deref().unwrap_or_default()) {
            return Ok(Offer::Own);
        }
        let claim = Claim { key: key.clone(), uid: service.metadata.uid.clone(), goes: false };
        // Whoever was judged free before stays so.
        let known = self.claims.of(asker.provider.member, &mark.load_balancer);
        let has_claim = known.is_some_and(|known| known.claim == claim);
        // Without a mark, whoever had the annotations first has the load balancer.
        let was_before = |other: &Service| {
            !is_offered(other, &asker.provider.descriptor) || (!has_claim && is_older(other, service))
        };
        for _ in 0..MOST_JUDGEMENTS {
            let seen = self.claimed(asker, &mark, service)?;
            if let Some(owner) = self.owner(asker, &mark, service, seen.as_ref(), was_before).await? {
                return Ok(Offer::Anothers { load_balancer: mark.load_balancer, owner: owner.object_name() });
            }
            let is_there = |claim: &Claim| self.is_there(claim);
            let member = asker.provider.member;
            if self.claims.claim(member, &mark.load_balancer, claim.clone(), seen.as_ref(), is_there).is_ok() {
                return Ok(Offer::Free { load_balancer: mark.load_balancer, uid: mark.uid });
            }
        }
        let message = format!("several Services ask for load balancer {} at the same time", mark.load_balancer);
        Err(unknown(Failure::new(Reaction::Retry, message)))
    }

    /// Asks whether a Service would get the load balancer of another one by a name that it asks for. The Service has no ID yet, so there is
    /// no offer to judge, and the cloud may not say who owns the load balancer; then the Service that has its ID does. The provider is
    /// asked only if another Service asks for the same by an annotation that both have.
    ///
    /// # Errors
    ///
    /// It would, or the provider or the API server cannot tell.
    pub(crate) async fn is_not_anothers_by_name(
        &self,
        service: &Service,
        provider: &Provider,
        is_anothers: bool,
    ) -> Result<(), SyncError> {
        let descriptor = &*provider.descriptor;
        let is_led_by_name = is_anothers || written(service, descriptor).is_empty();
        if !is_led_by_name || !self.is_asked_for_by_another(service, descriptor) {
            return Ok(());
        }
        let asker = Asker { provider, permit: Permit::Held };
        let mark = match self.mark_without(&asker, service, is_anothers).await {
            Ok(None) => return Ok(()),
            Ok(Some(mark)) => mark,
            // The call that follows meets the same, and says it as its own.
            Err(SyncError::Cloud { failure, .. })
                if matches!(failure.reaction, Reaction::Conflict | Reaction::Invalid) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if mark.is_of(service.metadata.uid.as_deref().unwrap_or_default()) {
            return Ok(());
        }
        let has_it = |other: &Service| !is_offered(other, descriptor) || is_older(other, service);
        let Some(owner) = self.owner(&asker, &mark, service, None, has_it).await? else { return Ok(()) };
        let message = format!(
            "load balancer {}, to which the annotations lead, belongs to Service {}: ask for another name, or have that Service give \
             it up with the annotation {ORPHAN}: {}",
            mark.load_balancer,
            owner.object_name(),
            descriptor.name
        );
        Err(SyncError::Cloud { task: Task::Ensure, failure: Failure::new(Reaction::Conflict, message) })
    }

    /// Whether another Service that may have a load balancer of this provider has an annotation with the same value.
    fn is_asked_for_by_another(&self, service: &Service, descriptor: &Descriptor) -> bool {
        let asked = service.metadata.annotations.iter().flatten().filter(|(name, _)| is_asked(descriptor, name));
        let asked: Vec<_> = asked.collect();
        let is_same =
            |other: &Service| asked.iter().any(|(name, value)| annotation(other, name) == Some(value.as_str()));
        let has_one = |other: &Service| {
            other.metadata.uid != service.metadata.uid
                && may_have_a_load_balancer(other, descriptor)
                && !written(other, descriptor).is_empty()
        };
        let newest = |other: Arc<Service>| self.memory.newer(&key(&other), other);
        !asked.is_empty() && self.store.state().into_iter().any(|other| is_same(&other) && has_one(&newest(other)))
    }

    async fn mark(&self, asker: &Asker<'_>, service: &Service) -> Result<Option<Mark>, SyncError> {
        self.mark_without(asker, service, false).await
    }

    /// Whether `without` what the provider wrote.
    async fn mark_without(
        &self,
        asker: &Asker<'_>,
        service: &Service,
        without: bool,
    ) -> Result<Option<Mark>, SyncError> {
        let (view, _wrong) = told(service, &asker.provider.descriptor, without);
        let _permit = match asker.permit {
            Permit::Needed => self.width.acquire().await.ok(),
            Permit::Held => None,
        };
        let asked = asker.provider.load_balancers.get_mark(view);
        let mark = self.call(Operation::Mark, asker.provider, asked, |answer| answer.as_ref().err()).await;
        mark.and_then(|mark| mark).map_err(unknown)
    }

    /// Who else takes the load balancer over at the moment, or has since this process started.
    fn claimed(&self, asker: &Asker<'_>, mark: &Mark, service: &Service) -> Result<Option<Seen>, SyncError> {
        let seen = self.claims.of(asker.provider.member, &mark.load_balancer);
        let Some(seen) = seen.filter(|seen| seen.claim.uid != service.metadata.uid) else { return Ok(None) };
        if seen.claim.goes {
            let owner = seen.claim.key.object_name();
            let message = format!("load balancer {} is being deleted for Service {owner}", mark.load_balancer);
            return Err(unknown(Failure::new(Reaction::Retry, message)));
        }
        Ok(Some(seen))
    }

    fn is_there(&self, claim: &Claim) -> bool {
        self.store.get(&claim.key).is_some_and(|service| service.metadata.uid == claim.uid)
    }

    /// The Service that has the load balancer of a mark and is another one: by the mark, by a claim, or since it has the same
    /// annotations, or the ID, and `may_have_it`.
    async fn owner(
        &self,
        asker: &Asker<'_>,
        mark: &Mark,
        service: &Service,
        claim: Option<&Seen>,
        may_have_it: impl Fn(&Service) -> bool,
    ) -> Result<Option<Key>, SyncError> {
        let descriptor = &*asker.provider.descriptor;
        let seen = |key: &Key| Some(self.memory.newest(key, self.store.get(key)?));
        let other = |key: &Key| seen(key).filter(|other| other.metadata.uid != service.metadata.uid);
        let offered = written(service, descriptor);
        // Whoever goes takes nothing along that has the mark of another one: it would be left to nobody.
        let may_take = |other: &Service| mark.uid.is_none() || is_wanted(other) || !is_offered(other, descriptor);
        let mut having = self.living.having(|| self.services(), self.written(), &offered);
        // Who offers something else was led there by a name.
        if !offered.values().any(|value| value.eq_ignore_ascii_case(&mark.load_balancer)) {
            let names =
                descriptor.annotations.iter().filter(|known| known.is_written()).map(|known| known.name.as_str());
            let ids: BTreeMap<&str, &str> = names.map(|name| (name, mark.load_balancer.as_str())).collect();
            having.extend(self.living.having(|| self.services(), self.written(), &ids));
        }
        let mut rivals: Vec<_> = having.iter().filter_map(|(place, key)| Some((*place, other(key)?))).collect();
        rivals.retain(|(_, rival)| may_take(rival) && may_have_it(rival));
        rivals.sort_by_cached_key(|(place, rival)| {
            let metadata = &rival.metadata;
            let time = metadata.creation_timestamp.as_ref().map(|time| time.0);
            (*place, is_offered(rival, descriptor), time, metadata.uid.clone())
        });
        let rivals = rivals.into_iter().map(|(_, rival)| rival);
        let marked = self.living.marked(|| self.services(), self.written(), mark);
        let marked = marked.as_ref().and_then(other);
        let claim = claim.map(|seen| &seen.claim).filter(|claim| self.is_there(claim));
        let claimed = claim.and_then(|claim| other(&claim.key));
        let claimed = claimed.filter(|claimed| may_take(claimed));
        let likely = marked.into_iter().chain(claimed).chain(rivals.take(MOST_RIVALS));
        for candidate in likely.filter(|candidate| may_have_a_load_balancer(candidate, descriptor)) {
            // It may have another one meanwhile, or the provider leaves it to somebody else.
            let theirs = self.mark(asker, &candidate).await?;
            if theirs.is_some_and(|theirs| theirs.load_balancer == mark.load_balancer) {
                return Ok(Some(key(&candidate)));
            }
        }
        // Nothing else has the UID of this one.
        if mark.uid.is_none() || mark.is_of(service.metadata.uid.as_deref().unwrap_or_default()) {
            return Ok(None);
        }
        let listed = self.living.listed(&self.writer, mark).await?;
        let is_seen = |key: &Key| {
            let seen = self.store.get(key);
            seen.is_some_and(|seen| mark.is_of(seen.metadata.uid.as_deref().unwrap_or_default()))
        };
        let Some(key) = listed.filter(|key| !is_seen(key)) else { return Ok(None) };
        // The list may be older than its end, which the store has seen.
        let is_there = self.writer.is_marked(&key, mark).await;
        let is_there = is_there.map_err(|error| SyncError::Api { task: Task::Adopt, error })?;
        Ok(is_there.then_some(key))
    }

    /// All Services as this process knows them: the watch may not have brought yet what it wrote a moment ago.
    fn services(&self) -> Vec<Arc<Service>> {
        self.store.state().into_iter().map(|seen| self.memory.newer(&key(&seen), seen)).collect()
    }

    /// What any provider writes.
    fn written(&self) -> Vec<Annotation> {
        let mut written = vec![];
        for member in self.members.values() {
            let descriptor = member.provider.load_balancers().descriptor();
            written.extend(descriptor.annotations.iter().filter(|annotation| annotation.is_written()).cloned());
        }
        written
    }

    /// What becomes of the load balancer of a Service that is gone: it may have been restored under another name, and what was known
    /// of it is old. To be asked just before it is deleted, when it is its turn.
    ///
    /// # Errors
    ///
    /// The provider or the API server cannot tell.
    pub(crate) async fn bequest(
        &self,
        key: &Key,
        service: &Service,
        provider: &Provider,
    ) -> Result<Bequest<'_>, SyncError> {
        let asker = Asker { provider, permit: Permit::Held };
        let (member, descriptor) = (provider.member, &*provider.descriptor);
        match self.offer(key, service, provider) {
            Some(Offer::Free { load_balancer, .. } | Offer::Anothers { load_balancer, .. }) => {
                return Ok(Bequest::Stays(format!(
                    "load balancer {load_balancer} is left alone, and was never taken over"
                )));
            }
            Some(Offer::Own | Offer::Nothing) | None => {}
        }
        let Some(mark) = self.mark(&asker, service).await? else { return Ok(Bequest::Nobodys(None)) };
        let has_it = |other: &Service| {
            !is_offered(other, descriptor) || self.work(&self::key(other), other) == Work::Serve(member)
        };
        for _ in 0..MOST_JUDGEMENTS {
            let seen = self.claimed(&asker, &mark, service)?;
            if let Some(heir) = self.owner(&asker, &mark, service, seen.as_ref(), has_it).await? {
                let (load_balancer, heir) = (mark.load_balancer, heir.object_name());
                return Ok(Bequest::Stays(format!(
                    "load balancer {load_balancer} stays: it is that of Service {heir} now"
                )));
            }
            if let Some(unread) = self.unread_heir() {
                let message = format!("load balancer {} may be that of another Service: {unread}", mark.load_balancer);
                return Err(unknown(Failure::new(Reaction::Retry, message)));
            }
            let gone = (key.clone(), service.metadata.uid.clone());
            let is_there = |claim: &Claim| self.is_there(claim);
            if let Ok(going) = self.claims.going(member, &mark.load_balancer, gone, seen.as_ref(), is_there) {
                return Ok(Bequest::Nobodys(Some(going)));
            }
        }
        let message = format!("another Service asks for load balancer {} at the same time", mark.load_balancer);
        Err(unknown(Failure::new(Reaction::Retry, message)))
    }

    /// A Service with a load balancer that is left out of the store may have been restored in the place of any other.
    fn unread_heir(&self) -> Option<String> {
        let unread = self.unread.borrow();
        let may_be = |one: &UnreadObject| one.shown != Shown::AsBefore && one.reach.is_balancer;
        let ((namespace, name), one) = unread.iter().find(|(_, one)| may_be(one))?;
        Some(format!("Service {namespace}/{name} cannot be read: {}", one.why))
    }

    /// Whether a provider says that it has the load balancer of a Service, or one of which nothing says whose it is.
    ///
    /// # Errors
    ///
    /// The provider cannot tell.
    pub(crate) async fn has_it(&self, service: &Service, provider: &Provider) -> Result<bool, SyncError> {
        let mark = self.mark(&Asker { provider, permit: Permit::Needed }, service).await?;
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        Ok(mark.is_some_and(|mark| mark.uid.is_none() || mark.is_of(uid)))
    }

    /// Says what becomes of an offer, and how to have the other.
    pub(crate) async fn tell_offer(&self, key: &Key, service: &Service, provider: &Provider) {
        let descriptor = &*provider.descriptor;
        let (load_balancer, whose, is_free) = match self.offer(key, service, provider) {
            Some(Offer::Free { load_balancer, uid: None }) => {
                (load_balancer, "nothing in the cloud says whose it is".to_owned(), true)
            }
            Some(Offer::Free { load_balancer, uid: Some(uid) }) => {
                (load_balancer, format!("it is marked with the UID {uid}, and no Service has it"), true)
            }
            Some(Offer::Anothers { load_balancer, owner }) => {
                (load_balancer, format!("it belongs to Service {owner}"), false)
            }
            Some(Offer::Own | Offer::Nothing) | None => return,
        };
        let written = written(service, descriptor).into_keys().collect::<Vec<_>>().join(", ");
        let (name, subject) = (&descriptor.name, format!("load balancer {load_balancer}, to which {written} leads,"));
        let (severity, reason, message) = match (is_wanted(service), is_free) {
            (true, true) => {
                let message = format!(
                    "{subject} is taken over: {whose}. To have a new one instead, give it up with the annotation {ORPHAN}: \
                     {name}, and remove that when {written} is gone"
                );
                (Severity::Normal, "LoadBalancerAdopted", message)
            }
            (true, false) => {
                let message = format!(
                    "{subject} is left alone, and another one is made: {whose}. To have it instead, annotate that Service with \
                     {ORPHAN}: {name}, then delete this one and create it again with {written}"
                );
                (Severity::Warning, "LoadBalancerNotAdopted", message)
            }
            (false, _) if !self.is_anothers(key, service, provider) => return,
            (false, _) => {
                let message = format!("{subject} is left alone, and was never taken over: {whose}");
                (Severity::Warning, "LoadBalancerNotDeleted", message)
            }
        };
        let repeat = self.settings.repeat_warning;
        let is_news = self.memory.with(key, |entry| entry.is_offer_news(&message, repeat));
        if is_news != Some(false) {
            self.reporter(key, service).event(severity, reason, message).await;
        }
    }
}

fn is_older(one: &Service, other: &Service) -> bool {
    let age = |service: &Service| {
        let metadata = &service.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.uid.clone())
    };
    age(one) < age(other)
}

/// Whether a Service may have a load balancer of this provider. One that it gave up to another provider, or to nobody, is no reason
/// to take it for free.
fn may_have_a_load_balancer(service: &Service, descriptor: &Descriptor) -> bool {
    let is_orphaned = annotation(service, ORPHAN) == Some(descriptor.name.as_str());
    (is_load_balancer(service) || has_finalizer(service)) && !is_orphaned
}
