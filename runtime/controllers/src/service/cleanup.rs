//! Takes a load balancer away, then lets the Service go.

use std::sync::Arc;

use ccm_cloud::{Outcome, Reaction, Severity};
use k8s_openapi::api::core::v1::Service;
use tokio::time::Duration;

use super::annotations::{ORPHAN, annotation, goes_with_the_load_balancer, is_written, set};
use super::condition;
use super::digest::Digest;
use super::ensured_record::Record;
use super::entry::Purpose;
use super::error::{SLOWLY, SyncError, Task};
use super::judge::Bequest;
use super::key::Key;
use super::offer::Offer;
use super::operation::Operation;
use super::ownership::Work;
use super::predicates::has_finalizer;
use super::provider::Provider;
use super::report::{NOT_SYNCED, Tried};
use super::syncer::Syncer;
use super::view::told;
use super::write::{Changes, Written};
use crate::queue::Verdict;
use crate::reaction::MIN_SLOW_RETRY;
use crate::view::service::{is_deleting, is_load_balancer};

/// What is known of a Service whose load balancer goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The store has it.
    Seen,
    /// The API server does not have it any more.
    Gone,
}

/// How a load balancer was given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GivenUp {
    /// Nothing in the cloud leads from the Service to it.
    InTheCloud,
    /// The Service alone does not.
    Here,
}

/// Whether a Service wants no load balancer and has nothing of one but the condition that says why it waits.
pub(crate) fn still_says_that_it_waits(service: &Service) -> bool {
    let is_begun = has_finalizer(service) || Record::of(service).is_some();
    !is_load_balancer(service) && !is_begun && condition::existing(service, condition::READY).is_some()
}

/// What is left of its load balancer.
enum Left {
    Nothing,
    /// It is another one's now: why, in words.
    Alone(String),
}

impl Syncer {
    /// The Service goes, or wants no load balancer any more, or that of another provider. `delete` is always called: only the
    /// provider knows what is left.
    pub(crate) async fn cleanup(&self, key: &Key, member: usize) -> Verdict {
        let Some(service) = self.memory.with(key, |entry| entry.newest()) else { return Verdict::Done };
        let Some(provider) = self.provider(member) else { return Verdict::Backoff };
        let purpose = self.deletion(key, &service, &provider);
        if let Some(wait) = self.memory.with(key, |entry| entry.must_wait(purpose, None)).flatten() {
            return wait;
        }
        let left = match Box::pin(self.delete(key, &service, &provider, Known::Seen)).await {
            Ok(left) => left,
            Err(None) => return Verdict::After(Duration::ZERO),
            Err(Some(error)) => {
                // With what the provider wants to be written: that alone is no reason for another try.
                let purpose = self.deletion(key, &service, &provider);
                let tried = Tried { provider: Some(&provider), purpose, backends: None };
                return self.reporter(key, &service).failed(&tried, NOT_SYNCED, &error).await;
            }
        };
        // Annotations may have been written meanwhile.
        let service = self.memory.with(key, |entry| entry.newest()).unwrap_or(service);
        if let Err(verdict) = self.release(key, &service, Some(&provider), purpose).await {
            return verdict;
        }
        self.tell_left(key, &service, left).await;
        // Nothing may wake it for another provider but this.
        let newest = self.memory.with(key, |entry| entry.newest());
        match newest.map(|newest| self.work(key, &newest)) {
            Some(Work::Serve(_)) => Verdict::After(Duration::ZERO),
            _ => Verdict::Done,
        }
    }

    /// The owner of the Service gives its load balancer up: nothing of ours stays on the Service, nothing in the cloud leads to it
    /// any more, and what the load balancer does stays as it is.
    pub(crate) async fn orphan(&self, key: &Key, service: &Arc<Service>, member: Option<usize>) -> Verdict {
        let provider = member.and_then(|member| self.provider(member));
        let what = provider.as_ref().map(|provider| self.deletion(key, service, provider));
        let purpose = Purpose::Delete(Digest::of(&("orphan", format!("{what:?}"))));
        if let Some(wait) = self.memory.with(key, |entry| entry.must_wait(purpose, None)).flatten() {
            return wait;
        }
        let given_up = match &provider {
            Some(provider) => Box::pin(self.give_up(key, service, provider)).await,
            None => Ok(GivenUp::Here),
        };
        let given_up = match given_up {
            Ok(given_up) => given_up,
            Err(None) => return Verdict::After(Duration::ZERO),
            Err(Some(error)) => {
                let tried = Tried { provider: provider.as_deref(), purpose, backends: None };
                return self.reporter(key, service).failed(&tried, NOT_SYNCED, &error).await;
            }
        };
        let newest = self.memory.with(key, |entry| entry.newest());
        let service = newest.as_ref().unwrap_or(service);
        if let Err(verdict) = self.release(key, service, provider.as_deref(), purpose).await {
            return verdict;
        }
        let mut message = "the load balancer stays in the cloud and belongs to this Service no more".to_owned();
        if given_up == GivenUp::Here {
            message.push_str(
                "; its provider may find it again by its name or its tags: for a new one, delete the Service and create it again, \
                 under another name if need be",
            );
        }
        self.reporter(key, service).event(Severity::Normal, "LoadBalancerOrphaned", message).await;
        // Another provider may serve it.
        Verdict::After(Duration::ZERO)
    }

    /// `Err(None)`: it is to be decided anew. The owner has changed their mind, or another component is there.
    async fn give_up(
        &self,
        key: &Key,
        service: &Arc<Service>,
        provider: &Provider,
    ) -> Result<GivenUp, Option<SyncError>> {
        self.decide(key, service, provider).await.map_err(Some)?;
        // What was never taken over is not for this Service to give up.
        let offer = self.offer(key, service, provider);
        let is_anothers = matches!(offer, Some(Offer::Anothers { .. } | Offer::Free { uid: Some(_), .. }));
        let (mut view, _wrong) = told(service, &provider.descriptor, is_anothers);
        for (name, value) in self.memory.with(key, |entry| entry.unwritten()).unwrap_or_default() {
            set(&mut view.annotations, name, value);
        }
        let _turn = self.turn(key, provider, &view).await.map_err(Some)?;
        let Some(provider) = self.still(provider) else { return Err(None) };
        self.is_as_before(key, service, &provider).await?;
        // Last, since all before takes its time.
        let work = Work::Orphan(Some(provider.member));
        if !self.is_still_to_do(key, service, work) || self.is_withdrawn(&provider) {
            return Err(None);
        }
        let call = self
            .call(Operation::Orphan, &provider, provider.load_balancers.orphan(view), |answer| answer.as_ref().err());
        let answer = self.in_time(Task::Orphan, call).await.map_err(Some)?;
        match answer.and_then(|answer| answer) {
            Ok(changes) => {
                if !changes.is_empty() {
                    tracing::info!(?changes, "changed in the cloud");
                }
                Ok(GivenUp::InTheCloud)
            }
            Err(failure) if matches!(failure.reaction, Reaction::Unsupported | Reaction::Elsewhere) => {
                Ok(GivenUp::Here)
            }
            Err(failure) => Err(Some(SyncError::Cloud { task: Task::Orphan, failure })),
        }
    }

    /// Takes everything of ours off a Service, when nothing is left in the cloud that is its own.
    ///
    /// # Errors
    ///
    /// It could not be written: when it is tried again.
    async fn release(
        &self,
        key: &Key,
        service: &Service,
        provider: Option<&Provider>,
        purpose: Purpose,
    ) -> Result<(), Verdict> {
        let is_written = |name: &str| provider.is_some_and(|provider| is_written(&provider.descriptor, name));
        let is_ours = |name: &str| goes_with_the_load_balancer(name) || is_written(name);
        let written = match Box::pin(self.writer.release(service, is_ours)).await {
            Ok(written) => written,
            Err(error) => {
                let error = SyncError::Api { task: Task::RemoveFinalizer, error };
                let verdict = self.later(key, &Tried { provider, purpose, backends: None }, &error);
                self.reporter(key, service).warn(NOT_SYNCED, None, &error, verdict).await;
                return Err(verdict);
            }
        };
        self.memory.with(key, |entry| entry.was_released());
        self.memory.not_ready(key, None);
        match written {
            // The store is behind until it has this.
            Written::Changed(written) => drop(self.wrote(key, *written)),
            Written::Nothing => {}
            Written::Gone => self.memory.forget(key),
        }
        Ok(())
    }

    /// A Service waited for its load balancer, and wants none any more before anything of it was begun: its condition goes.
    ///
    /// # Errors
    ///
    /// It could not be written: when it is tried again.
    pub(crate) async fn waits_no_more(&self, key: &Key, service: &Service) -> Result<(), Verdict> {
        if !still_says_that_it_waits(service) {
            return Ok(());
        }
        let purpose = Purpose::Delete(Digest::of(&"condition"));
        self.release(key, service, None, purpose).await
    }

    /// The Service is gone. When it went without its finalizer, by force, its load balancer may still be there.
    pub(crate) async fn gone(&self, key: &Key) -> Verdict {
        let known = self.memory.with(key, |entry| (entry.newest(), entry.holder()));
        match known {
            Some((service, Some(member))) => self.delete_gone(key, &service, member).await,
            Some(_) => {
                self.memory.forget(key);
                Verdict::Done
            }
            None => Verdict::Done,
        }
    }

    /// Deletes the load balancer of a Service that does not exist any more, and forgets it.
    pub(crate) async fn delete_gone(&self, key: &Key, service: &Arc<Service>, member: usize) -> Verdict {
        let Some(provider) = self.provider(member) else {
            let message = "the Service is gone, and the provider that has its load balancer makes no load balancers any more: \
                           it is deleted when that does again";
            let reporter = self.reporter(key, service);
            if reporter.is_news(message) {
                tracing::warn!("{message}");
                reporter.event(Severity::Warning, "LoadBalancerStranded", message.to_owned()).await;
            }
            return Verdict::Backoff;
        };
        if annotation(service, ORPHAN) == Some(provider.descriptor.name.as_str()) {
            // Its owner gave the load balancer up, and did not wait for that.
            self.memory.forget(key);
            return Verdict::Done;
        }
        let purpose = self.deletion(key, service, &provider);
        if let Some(wait) = self.memory.with(key, |entry| entry.must_wait(purpose, None)).flatten() {
            return wait;
        }
        let tried = |purpose| Tried { provider: Some(&*provider), purpose, backends: None };
        let slow = self.settings.slow_retry.max(MIN_SLOW_RETRY);
        // The store lacks more than what is gone, and this cannot be undone.
        match self.writer.is_gone(service).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("the API server has a Service that the store does not have: its load balancer stays");
                return Verdict::After(slow);
            }
            Err(error) => return self.later(key, &tried(purpose), &SyncError::Api { task: Task::Read, error }),
        }
        match Box::pin(self.delete(key, service, &provider, Known::Gone)).await {
            Ok(left) => {
                self.tell_left(key, service, left).await;
                self.memory.forget(key);
                Verdict::Done
            }
            Err(None) => Verdict::After(Duration::ZERO),
            Err(Some(error)) => {
                let tried = tried(self.deletion(key, service, &provider));
                let warning = ("DeleteLoadBalancerFailed", "Error deleting load balancer");
                match error.verdict(slow) {
                    // Nobody can change it any more, and one of the same name may wait.
                    Verdict::Change => {
                        let verdict = self.later_at(key, &tried, &error, Verdict::After(slow));
                        self.reporter(key, service).warn(warning, Some(SLOWLY), &error, verdict).await;
                        verdict
                    }
                    _ => {
                        let verdict = self.later(key, &tried, &error);
                        self.reporter(key, service).warn(warning, error.next_try(), &error, verdict).await;
                        verdict
                    }
                }
            }
        }
    }

    /// What is to be deleted, as the provider is told.
    fn deletion(&self, key: &Key, service: &Service, provider: &Provider) -> Purpose {
        let (view, wrong) = self.view(key, service, provider);
        Purpose::Delete(provider.deletion(&view, wrong.as_ref()))
    }

    async fn tell_left(&self, key: &Key, service: &Service, left: Left) {
        let (reason, message) = match left {
            Left::Nothing => ("DeletedLoadBalancer", "Deleted load balancer".to_owned()),
            Left::Alone(message) => ("LoadBalancerNotDeleted", message),
        };
        self.reporter(key, service).event(Severity::Normal, reason, message).await;
    }

    /// Nothing of the Service's own is left in the cloud when this succeeds. `Err(None)`: it is to be decided anew. The owner has changed
    /// their mind, or another component is there.
    async fn delete(
        &self,
        key: &Key,
        service: &Arc<Service>,
        provider: &Provider,
        known: Known,
    ) -> Result<Left, Option<SyncError>> {
        self.decide(key, service, provider).await.map_err(Some)?;
        self.tell_offer(key, service, provider).await;
        let purpose = self.deletion(key, service, provider);
        let (view, _wrong) = self.view(key, service, provider);
        let _turn = self.turn(key, provider, &view).await.map_err(Some)?;
        let Some(provider) = self.still(provider) else { return Err(None) };
        if known == Known::Seen {
            self.is_as_before(key, service, &provider).await?;
        }
        // Somebody may have taken the finalizer off while it waited: then it is an old object that asks for this.
        let is_gone = match known {
            Known::Gone => Ok(true),
            Known::Seen => self.writer.is_gone(service).await,
        };
        let is_gone = is_gone.map_err(|error| Some(SyncError::Api { task: Task::Read, error }))?;
        let bequest = match is_gone {
            true => {
                let bequest = self.in_time(Task::Adopt, self.bequest(key, service, &provider)).await;
                bequest.and_then(|bequest| bequest).map_err(Some)?
            }
            false => Bequest::Nobodys(None),
        };
        let _going = match bequest {
            Bequest::Nobodys(going) => going,
            Bequest::Stays(why) => return Ok(Left::Alone(why)),
        };
        if !is_gone {
            self.doubts(key, service).await?;
        }
        // Last, since all before takes its time.
        let work = Work::Cleanup(provider.member);
        if !self.is_still_to_do(key, service, work) || self.is_withdrawn(&provider) {
            return Err(None);
        }
        self.reporter(key, service).announce(purpose).await;
        self.memory.with(key, |entry| entry.deletion_begins());
        let call = self.call(Operation::Delete, &provider, provider.load_balancers.delete(view), |outcome| {
            outcome.failure.as_ref()
        });
        let outcome = self.in_time(Task::Delete, call).await.map_err(Some)?;
        let outcome = outcome.unwrap_or_else(Outcome::failed);
        self.progressed(key, &outcome);
        if !outcome.changes.is_empty() {
            tracing::info!(changes = ?outcome.changes, "changed in the cloud");
        }
        match outcome.failure {
            None => Ok(Left::Nothing),
            Some(failure) if failure.reaction == Reaction::Elsewhere => Ok(Left::Nothing),
            Some(failure) => {
                self.remember(key, &provider.descriptor, outcome.annotations);
                Err(Some(SyncError::Cloud { task: Task::Delete, failure }))
            }
        }
    }

    /// Before the load balancer of a Service goes that stays: its record says that nothing is certain any more. Whoever wants the load
    /// balancer back may say so when this process has ended, and the next one would find an address, and a record by which all is well.
    async fn doubts(&self, key: &Key, service: &Service) -> Result<(), Option<SyncError>> {
        let Some(record) = Record::of(service).filter(|record| record.spec.is_some() && !is_deleting(service)) else {
            return Ok(());
        };
        let record = Record { spec: None, backends: None, ..record };
        let changes = Changes { record: Some(record.clone()), ..Changes::default() };
        let written = self.writer.set(service, &changes).await;
        match written.map_err(|error| Some(SyncError::Api { task: Task::WriteStatus, error }))? {
            Written::Changed(written) => drop(self.wrote(key, *written)),
            Written::Nothing => {}
            Written::Gone => return Err(None),
        }
        self.memory.recorded(key, record);
        Ok(())
    }

    /// Whether this is what the Service asks for, after it has waited for its turn. One that is gone asks for nothing else.
    fn is_still_to_do(&self, key: &Key, service: &Service, work: Work) -> bool {
        let same = self.store.get(key).filter(|seen| seen.metadata.uid == service.metadata.uid);
        same.is_none_or(|seen| self.work(key, &self.memory.newest(key, seen)) == work)
    }
}
