//! Makes the plan of a run, and gathers what carries it out: the provider, the Service as that is told, and the hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Failure, Standing};
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ENSURE, annotation, set, written_after};
use super::backends::Backends;
use super::condition::{Difference, ReadyCondition};
use super::digest::Digest;
use super::ensured_record::Record;
use super::entry::{Doubt, Purpose};
use super::error::SyncError;
use super::fingerprint::Target;
use super::found::Unsaid;
use super::key::Key;
use super::offer::Offer;
use super::ownership::Work;
use super::plan::{Action, Facts, Plan, Reason};
use super::provider::Provider;
use super::report::{NOT_SYNCED, Tried};
use super::syncer::Syncer;
use super::view::told;
use super::writers::Writers;
use crate::queue::Verdict;

/// The plan for a Service that wants a load balancer, with everything that carries it out.
pub(crate) struct Job {
    /// The provider that the plan was made with, and that carries it out.
    pub(crate) provider: Arc<Provider>,
    pub(crate) service: Arc<Service>,
    pub(crate) view: ccm_cloud::Service,
    pub(crate) wrong: Option<Failure>,
    pub(crate) backends: Arc<Backends>,
    pub(crate) target: Target,
    pub(crate) plan: Plan,
    /// The value of the annotation `wasm-ccm.io/ensure` that this run answers.
    pub(crate) request: Option<String>,
    /// Only the status of the Service is wrong: the record says that everything is ensured.
    pub(crate) is_repair: bool,
    /// The offer has not been judged yet.
    pub(crate) is_undecided: bool,
    /// The provider's annotations lead to the load balancer of another Service.
    pub(crate) is_anothers: bool,
    /// The last try failed.
    pub(crate) has_failed: bool,
    /// The components that wrote what there is.
    pub(crate) by: Writers,
    /// One of them was refused since, so nobody knows what it left.
    pub(crate) is_taken_back: bool,
    /// What was done before and could not be written. This run only writes it.
    pub(crate) unsaid: Option<Unsaid>,
    /// The digest that the Service was ensured for, if only the provider has changed since and the Service waits for others. Until its
    /// turn comes, this digest counts.
    pub(crate) held: Option<Digest>,
    /// That is so, whether or not it waits: nobody but the provider has changed anything.
    pub(crate) is_outdated: bool,
    /// The provider has found it in step.
    pub(crate) is_found: bool,
}

impl Job {
    /// Whoever asks for it once more does not wait for another try at the same.
    pub(crate) fn purpose(&self) -> Purpose {
        let spec = self.target.spec;
        let again = self.request.as_ref().map(|value| Digest::of(&(spec.to_string(), value)));
        Purpose::Serve(again.unwrap_or(spec))
    }

    /// A try at it, after which other `backends` than these do not wait for the next one.
    pub(crate) fn tried(&self, backends: Option<Digest>) -> Tried<'_> {
        Tried { provider: Some(&self.provider), purpose: self.purpose(), backends }
    }
}

/// What a run does, with what carries it out.
pub(crate) enum Planned {
    Serve(Box<Job>),
    Otherwise(Work, Plan),
}

impl Planned {
    pub(crate) fn plan(&self) -> &Plan {
        match self {
            Self::Serve(job) => &job.plan,
            Self::Otherwise(_, plan) => plan,
        }
    }
}

impl Syncer {
    /// The plan of a run for a Service: whose it is, what is done, and why. The Service must be remembered.
    pub(crate) fn plan(&self, key: &Key, service: &Service, work: Work) -> Planned {
        if let Work::Serve(member) = work
            && let Some(job) = self.provider(member).and_then(|provider| self.job(key, &provider))
        {
            return Planned::Serve(Box::new(job));
        }
        Planned::Otherwise(work, self.plan_of(service, work))
    }

    /// What serving a Service comes to now. None when it is not to be served by this provider any more.
    pub(crate) fn job(&self, key: &Key, provider: &Arc<Provider>) -> Option<Job> {
        let service = self.memory.newest(key, self.store.get(key)?);
        if self.work(key, &service) != Work::Serve(provider.member) {
            return None;
        }
        let (doubt, found, unsaid, recorded, has_failed, selectors) = self.memory.with(key, |entry| {
            let selectors = entry.selectors();
            (entry.doubt(), entry.found.clone(), entry.unsaid(), entry.recorded(), entry.has_failed(), selectors)
        })?;
        let backends = self.backends.get();
        let offer = self.offer(key, &service, provider);
        let is_anothers = self.is_anothers(key, &service, provider);
        let (view, wrong) = self.view(key, &service, provider);
        let spec = provider.spec(&view, wrong.as_ref());
        let chosen = selectors.as_ref().map_or(backends.digest, |selectors| self.backends.target(&backends, selectors));
        let target = Target { spec, backends: chosen };
        let record = Record::of(&service).filter(|record| record.provider == provider.descriptor.name);
        let hosts = record.as_ref().and_then(|record| record.backends);
        let is_open = selectors.is_none() && backends.may_be_chosen(hosts, provider.load_balancers.selects_nodes());
        let standing = found.filter(|found| found.is_about(target, provider)).map(|found| found.standing);
        let standing = standing.filter(|standing| !is_open || !matches!(standing, Standing::InStep(_)));
        let is_told = ReadyCondition::ensured().differs(&service) == Difference::None;
        let writers = |record: Option<&Record>| record.map(|record| record.by.clone()).unwrap_or_default();
        let by = writers(record.as_ref()).and(&writers(recorded.as_ref()));
        let unsaid_by = unsaid.as_ref().map(|unsaid| unsaid.by.clone()).unwrap_or_default();
        let is_taken_back = self.is_taken_back(&by, provider) || self.is_taken_back(&unsaid_by, provider);
        let request = annotation(&service, ENSURE).map(ToOwned::to_owned);
        let is_asked = request.is_some();
        let is_certain = doubt == Doubt::None;
        let distrust = {
            // Somebody who may write the status has put another record there, or none.
            let is_replaced = recorded
                .as_ref()
                .is_some_and(|recorded| record.as_ref().is_none_or(|record| !record.is_like(recorded)));
            // It has the mark of another Service, whatever else is as it should be.
            let is_taken_over = record.as_ref().is_some_and(|record| record.taken_over.is_some())
                || matches!(&offer, Some(Offer::Free { uid: Some(_), .. }));
            // Somebody changed what only the provider writes, which is no part of the target.
            let is_rewritten = record.as_ref().is_some_and(|record| {
                let written = written_after(&service, &provider.descriptor, &BTreeMap::new());
                record.spec == Some(spec) && record.written.is_some() && !record.has_own(written)
            });
            let reasons = [
                (is_asked, Reason::Requested),
                (is_taken_back, Reason::WriterRefused),
                (is_replaced, Reason::RecordReplaced),
                (is_taken_over, Reason::TakenOver),
                (is_rewritten, Reason::AnnotationsReplaced),
            ];
            reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
        };
        let is_undecided = offer.is_none();
        let is_answered =
            |unsaid: &Unsaid| unsaid.target == target && (!is_asked || unsaid.request == request) && !is_taken_back;
        let is_known = standing.is_none() && unsaid.is_none();
        let unsaid = unsaid.filter(is_answered);
        let is_own = matches!(offer, Some(Offer::Own)) && wrong.is_none() && !view.ingress.is_empty();
        let is_seen = matches!(standing, Some(Standing::InStep(_) | Standing::Missing));
        let ensured_for = record.as_ref().and_then(|record| record.spec);
        // A process that has just started knows from the record what the Service was like.
        let is_viewed = || {
            let view_of = record.as_ref().and_then(|record| record.view.as_ref());
            ensured_for.is_some()
                && wrong.is_none()
                && view_of.is_some_and(|known| provider.is_alone_in_change(known, &view))
        };
        self.memory.with(key, |entry| entry.is_base(&service, ensured_for == Some(spec), is_viewed));
        let is_unchanged = ensured_for.is_some_and(|old| old != spec) && self.is_unchanged(key, provider, spec);
        let is_trusted = distrust.is_none() && doubt < Doubt::All;
        let may_wait = is_unchanged && is_trusted && is_own && !is_seen && unsaid.is_none();
        let held = ensured_for.filter(|_| may_wait && !self.refresh.may_begin(key, provider));
        let sought = Target { spec: held.unwrap_or(spec), ..target };
        let standing = standing.filter(|_| held.is_none());
        let is_recorded = is_certain
            && recorded
                .as_ref()
                .or(record.as_ref())
                .is_some_and(|record| (record.spec, record.backends) == (Some(sought.spec), Some(sought.backends)));
        let is_found = unsaid.is_none() && matches!(standing, Some(Standing::InStep(_)));
        let facts = Facts {
            record: record.as_ref(),
            doubt,
            distrust,
            target: sought,
            standing,
            ingress: &view.ingress,
            is_told,
            changed: if is_unchanged { Reason::ProviderChanged } else { Reason::ServiceChanged },
            otherwise: if held.is_some() { Reason::WaitsForOthers } else { Reason::AsEnsured },
        };
        let (action, reason) = match (&unsaid, &wrong) {
            (_, Some(wrong)) => (Action::FollowHosts, Reason::Unreadable(wrong.to_string())),
            (Some(unsaid), None) => (Action::Adopt(unsaid.ingress.clone()), Reason::NotWritten),
            (None, None) => facts.plan(),
        };
        let plan = Plan { provider: Some(provider.descriptor.name.clone()), action, reason };
        let is_repair = is_recorded && is_known && !is_asked && !is_taken_back && !plan.is_nothing();
        Some(Job {
            provider: Arc::clone(provider),
            service,
            view,
            wrong,
            backends,
            target,
            plan,
            request,
            is_repair,
            is_undecided,
            is_anothers,
            has_failed,
            by,
            is_taken_back,
            unsaid,
            held,
            is_outdated: may_wait,
            is_found,
        })
    }

    /// Whether nobody has changed the Service since this process knew it to be as it should be, so that it comes to another `spec` by
    /// the provider alone.
    fn is_unchanged(&self, key: &Key, provider: &Provider, spec: Digest) -> bool {
        let Some(base) = self.memory.with(key, |entry| entry.base()).flatten() else { return false };
        let (view, wrong) = self.view(key, &base, provider);
        provider.spec(&view, wrong.as_ref()) == spec
    }

    /// A Service as a provider is told, with the annotations that could not be written yet; and what is wrong with it.
    pub(crate) fn view(
        &self,
        key: &Key,
        service: &Service,
        provider: &Provider,
    ) -> (ccm_cloud::Service, Option<Failure>) {
        let (mut view, wrong) = told(service, &provider.descriptor, self.is_anothers(key, service, provider));
        for (name, value) in self.memory.with(key, |entry| entry.unwritten()).unwrap_or_default() {
            set(&mut view.annotations, name, value);
        }
        (view, wrong)
    }

    pub(crate) fn must_wait(&self, key: &Key, job: &Job) -> Option<Verdict> {
        self.memory.with(key, |entry| entry.must_wait(job.purpose(), Some(job.target.backends))).flatten()
    }

    /// A try to serve a Service has failed: says so, and when the next one is.
    pub(crate) async fn not_served(&self, key: &Key, job: &Job, error: SyncError) -> Verdict {
        self.reporter(key, &job.service).failed(&job.tried(None), NOT_SYNCED, &error).await
    }
}
