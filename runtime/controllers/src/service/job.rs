//! What serving a Service comes to now, with the provider that is to do it.

use std::sync::Arc;

use ccm_cloud::{Failure, Standing};
use k8s_openapi::api::core::v1::Service;

use super::annotations::{ENSURE, annotation, set};
use super::backends::Backends;
use super::condition::{Difference, Readiness};
use super::fingerprint::{Digest, Target};
use super::memory::{Doubt, Key, Purpose};
use super::offer::Offer;
use super::ownership::Work;
use super::provider::Provider;
use super::record::Record;
use super::report::Tried;
use super::step::{Step, Unsaid, step};
use super::sync::Syncer;
use super::view::told;
use super::writers::Writers;
use crate::queue::Verdict;

/// A Service that wants a load balancer, as it is now.
pub(crate) struct Job {
    /// Who decided this with us, and does it.
    pub(crate) provider: Arc<Provider>,
    pub(crate) service: Arc<Service>,
    pub(crate) view: ccm_cloud::Service,
    pub(crate) wrong: Option<Failure>,
    pub(crate) backends: Arc<Backends>,
    pub(crate) target: Target,
    pub(crate) step: Step,
    /// "Once more, please": what this work answers.
    pub(crate) request: Option<String>,
    /// It is the Service's status that is wrong: all is recorded as ensured.
    pub(crate) is_repair: bool,
    /// Nobody knows yet what the provider's annotations lead to.
    pub(crate) is_undecided: bool,
    /// They lead to the load balancer of another Service.
    pub(crate) is_anothers: bool,
    /// The last try at it failed.
    pub(crate) has_failed: bool,
    /// The components that wrote what there is.
    pub(crate) by: Writers,
    /// One of those was refused since: nobody knows what it left.
    pub(crate) is_refused: bool,
    /// What was done before and could not be written: that is all there is to do.
    pub(crate) unsaid: Option<Unsaid>,
    /// It is to be ensured only since the provider is of another revision or has another configuration, and waits for that. What it
    /// was ensured for is what counts until then.
    pub(crate) held: Option<Digest>,
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

impl Syncer {
    /// What serving a Service comes to now. None when it is not to be served by this provider any more.
    pub(crate) fn job(&self, key: &Key, provider: &Arc<Provider>) -> Option<Job> {
        let service = self.memory.newest(key, self.store.get(key)?);
        if self.work(key, &service) != Work::Serve(provider.member) {
            return None;
        }
        let (doubt, found, unsaid, recorded, has_failed) = self.memory.with(key, |entry| {
            (entry.doubt, entry.found.clone(), entry.unsaid.clone(), entry.recorded.clone(), entry.has_failed())
        })?;
        let selectors = self.memory.with(key, |entry| entry.selectors.clone()).flatten();
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
        let is_told = Readiness::ensured().differs(&service) == Difference::None;
        let writers = |record: Option<&Record>| record.map(|record| record.by.clone()).unwrap_or_default();
        let by = writers(record.as_ref()).and(&writers(recorded.as_ref()));
        let unsaid_by = unsaid.as_ref().map(|unsaid| unsaid.by.clone()).unwrap_or_default();
        let is_refused = self.is_refused(&by, provider) || self.is_refused(&unsaid_by, provider);
        // Somebody who may write the status has put another record there, or none; somebody asks for it; or it has the mark of
        // another Service, whatever else is as it should be.
        let is_replaced =
            recorded.as_ref().is_some_and(|recorded| record.as_ref().is_none_or(|record| !record.is_like(recorded)));
        let request = annotation(&service, ENSURE).map(ToOwned::to_owned);
        let is_asked = request.is_some();
        let is_taken_over = record.as_ref().is_some_and(|record| record.taken_over.is_some());
        let is_marked = is_taken_over || matches!(&offer, Some(Offer::Free { uid: Some(_), .. }));
        let is_certain = doubt == Doubt::None;
        let doubt = if is_replaced || is_asked || is_marked || is_refused { Doubt::All } else { doubt };
        let is_undecided = offer.is_none();
        let is_answered =
            |unsaid: &Unsaid| unsaid.target == target && (!is_asked || unsaid.request == request) && !is_refused;
        let is_known = standing.is_none() && unsaid.is_none();
        let unsaid = unsaid.filter(is_answered);
        let is_own = matches!(offer, Some(Offer::Own)) && wrong.is_none() && !view.ingress.is_empty();
        let is_seen = matches!(standing, Some(Standing::InStep(_) | Standing::Missing));
        let ensured_for = record.as_ref().and_then(|record| record.spec);
        let held =
            ensured_for.filter(|old| *old != spec && doubt < Doubt::All && is_own && !is_seen && unsaid.is_none());
        let held = held.filter(|_| !self.refresh.may_begin(key, provider) && self.is_unchanged(key, provider, spec));
        if ensured_for == Some(spec) {
            self.memory.with(key, |entry| entry.base = Some(Arc::clone(&service)));
        }
        let sought = Target { spec: held.unwrap_or(spec), ..target };
        let standing = standing.filter(|_| held.is_none());
        let is_recorded = is_certain
            && recorded
                .as_ref()
                .or(record.as_ref())
                .is_some_and(|record| (record.spec, record.backends) == (Some(sought.spec), Some(sought.backends)));
        let is_found = unsaid.is_none() && matches!(standing, Some(Standing::InStep(_)));
        let step = match &unsaid {
            Some(unsaid) => Step::Adopt(unsaid.ingress.clone()),
            None => step(record.as_ref(), doubt, sought, standing, &view.ingress, is_told),
        };
        let is_repair = is_recorded && is_known && !is_asked && !is_refused && step != Step::Nothing;
        Some(Job {
            provider: Arc::clone(provider),
            service,
            view,
            wrong,
            backends,
            target,
            step,
            request,
            is_repair,
            is_undecided,
            is_anothers,
            has_failed,
            by,
            is_refused,
            unsaid,
            held,
            is_found,
        })
    }

    /// Whether nobody has changed the Service since this process knew it to be as it should be, so that it comes to another `spec` by
    /// the provider alone.
    fn is_unchanged(&self, key: &Key, provider: &Provider, spec: Digest) -> bool {
        let Some(base) = self.memory.with(key, |entry| entry.base.clone()).flatten() else { return false };
        let (view, wrong) = self.view(key, &base, provider);
        provider.spec(&view, wrong.as_ref()) == spec
    }

    /// The job as it is after its turn was waited for, with the provider of that moment. None where it is another one by then:
    /// another target waits for its own turn, and so does another component, whose locks may be others.
    pub(crate) fn revalidated(&self, key: &Key, job: &Job) -> Option<Job> {
        let provider = self.still(&job.provider)?;
        self.job(key, &provider).filter(|now| now.target.spec == job.target.spec)
    }

    /// A Service as a provider is told, with the annotations that could not be written yet; and what is wrong with it.
    pub(crate) fn view(
        &self,
        key: &Key,
        service: &Service,
        provider: &Provider,
    ) -> (ccm_cloud::Service, Option<Failure>) {
        let (mut view, wrong) = told(service, &provider.descriptor, self.is_anothers(key, service, provider));
        for (name, value) in self.memory.with(key, |entry| entry.unwritten.clone()).unwrap_or_default() {
            set(&mut view.annotations, name, value);
        }
        (view, wrong)
    }

    pub(crate) fn must_wait(&self, key: &Key, job: &Job) -> Option<Verdict> {
        self.memory.with(key, |entry| entry.must_wait(job.purpose(), Some(job.target.backends))).flatten()
    }
}
