//! One run for one Service, from the plan to the report.
//!
//! Everything is planned from the newest state, never from what has changed: it does not matter what woke the Service, and a
//! change while it waits or while the cloud works counts at the next run, which follows at once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use tokio::time::Duration;

use super::ensured_record::Record;
use super::entry::ServiceEntry;
use super::error::Task;
use super::job::{Job, Planned};
use super::key::Key;
use super::ownership::{Stranded, Work};
use super::plan::Action;
use super::predicates::has_finalizer;
use super::syncer::Syncer;
use crate::queue::Verdict;
use crate::reaction::MIN_SLOW_RETRY;
use crate::view::service::{ingress, is_load_balancer};

impl Syncer {
    /// Works on a Service.
    pub(crate) async fn sync(&self, key: &Key) -> Verdict {
        // Whoever measures the pass waits until this ends, whichever way.
        let _pass = self.memory.with(key, ServiceEntry::run_begins);
        let Some(seen) = self.store.get(key) else { return Box::pin(self.gone(key)).await };
        if let Some((old, member)) = self.memory.predecessor(key, &seen) {
            let verdict = Box::pin(self.delete_gone(key, &old, member)).await;
            if verdict != Verdict::Done {
                let is_decided_anew = matches!(verdict, Verdict::After(Duration::ZERO));
                if !is_decided_anew && matches!(self.work(key, &seen), Work::Serve(_)) {
                    Box::pin(self.reporter(key, &seen).waits_for_predecessor(&old)).await;
                }
                return verdict;
            }
        }
        let service = self.memory.newest(key, Arc::clone(&seen));
        let work = self.work(key, &service);
        self.take_care(key, &service, work);
        let planned = self.plan(key, &service, work);
        tracing::debug!(plan = %planned.plan(), "planned");
        if let Planned::Otherwise(_, plan) = &planned {
            self.memory.with(key, |entry| entry.decides(plan));
        }
        match planned {
            Planned::Serve(job) => {
                let provider = Arc::clone(&job.provider);
                let verdict = Box::pin(self.serve(key, *job)).await;
                self.refreshed(key, &provider, verdict);
                verdict
            }
            Planned::Otherwise(Work::Serve(_), _) => Verdict::After(Duration::ZERO),
            Planned::Otherwise(Work::Cleanup(member), _) => Box::pin(self.cleanup(key, member)).await,
            Planned::Otherwise(Work::Orphan(member), _) => Box::pin(self.orphan(key, &service, member)).await,
            Planned::Otherwise(Work::Ask(member), _) => Box::pin(self.ask(key, &service, member)).await,
            Planned::Otherwise(Work::Stranded(why), _) => Box::pin(self.stranded(key, &service, why)).await,
            Planned::Otherwise(Work::Nothing, _) => {
                if let Err(verdict) = Box::pin(self.waits_no_more(key, &service)).await {
                    return verdict;
                }
                // Until the store has what we wrote, it shows a Service that asks for work.
                if service.metadata.resource_version == seen.metadata.resource_version {
                    self.memory.forget(key);
                }
                Verdict::Done
            }
        }
    }

    /// Remembers a Service as far as there is work for it, and whether it waits for an address.
    fn take_care(&self, key: &Key, service: &Arc<Service>, work: Work) {
        // Whoever has it is not there, and may come again.
        let kept = || self.memory.holder(key, service).unwrap_or_default();
        let (holder, waits) = match work {
            Work::Serve(member) => {
                let owned = has_finalizer(service) || Record::of(service).is_some();
                (Some((member, owned)), Some(ingress(service).is_empty()))
            }
            Work::Cleanup(member) => (Some((member, true)), Some(false)),
            Work::Orphan(member) => (Some((member.unwrap_or_else(kept), false)), Some(false)),
            Work::Ask(member) => (Some((member, false)), None),
            Work::Stranded(why) => {
                let holder = match why {
                    Stranded::Class(holder) => (holder, true),
                    Stranded::Provider => (kept(), false),
                };
                (Some(holder), Some(is_load_balancer(service) && ingress(service).is_empty()))
            }
            Work::Nothing => (None, Some(false)),
        };
        if let Some((member, owned)) = holder {
            self.memory.enter(key, service, member, owned);
        }
        let is_elsewhere =
            matches!(work, Work::Serve(_)) && self.memory.with(key, |entry| entry.is_elsewhere()) == Some(true);
        if let Some(waits) = waits {
            self.memory.waits(key, waits && !is_elsewhere);
        }
    }

    /// Serves a Service: waits for its turn, and does what the plan of that moment says.
    async fn serve(&self, key: &Key, mut job: Job) -> Verdict {
        self.reporter(key, &job.service).unknown_annotations(&job.service, &job.provider.descriptor).await;
        if let Some(wait) = self.must_wait(key, &job) {
            return wait;
        }
        // A run that only waits decides nothing: what counts is what was tried.
        self.memory.with(key, |entry| entry.decides(&job.plan));
        if job.is_undecided {
            let decided = Box::pin(self.decided(key, &job)).await;
            job = match decided {
                Ok(job) => job,
                Err(verdict) => return verdict,
            };
        }
        self.wait_or_leave(key, &job);
        if job.is_repair {
            let pause = self.settings.slow_retry.max(MIN_SLOW_RETRY);
            if let Some(wait) = self.memory.with(key, |entry| entry.must_not_repair(pause)).flatten() {
                return wait;
            }
        }
        if job.plan.is_nothing() && has_finalizer(&job.service) {
            self.memory.with(key, |entry| entry.succeeded());
            self.memory.not_ready(key, None);
            return Verdict::Done;
        }
        if let Some(failure) = job.wrong.clone() {
            return Box::pin(self.unreadable(key, job, failure)).await;
        }
        let _turn = match self.turn(key, &job.provider, &job.view).await {
            Ok(turn) => turn,
            Err(error) => return Box::pin(self.not_served(key, &job, error)).await,
        };
        // Waiting has taken its time. What holds now is what counts.
        let seen = self.backends.seen();
        let now = self.revalidated(key, &job).filter(|now| now.held.is_some() == job.held.is_some());
        let Some(now) = now else { return Verdict::After(Duration::ZERO) };
        let _taking = match Box::pin(self.is_still_free(key, &now)).await {
            Ok(taking) => taking,
            Err(verdict) => return verdict,
        };
        self.memory.with(key, |entry| entry.decides(&now.plan));
        let task = if now.plan.action == Action::UpdateHosts { Task::Update } else { Task::Ensure };
        let verdict = match Box::pin(self.in_time(task, self.act(key, now))).await {
            Ok(verdict) => verdict,
            Err(error) => Box::pin(self.not_served(key, &job, error)).await,
        };
        self.unless_past(key, seen, verdict)
    }
}
