//! What is remembered of one Service between two runs, and what each event does to it: every change of an entry is a method here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use ccm_cloud::Outcome;
use k8s_openapi::api::core::v1::Service;
use tokio::time::Instant;

use super::digest::Digest;
use super::ensured_record::Record;
use super::found::{Found, Unsaid};
use super::last_run::LastRun;
use super::metrics::PassTimer;
use super::offer::Offer;
use super::purpose::Attempt;
pub(crate) use super::purpose::{Doubt, Purpose};
use super::selectors::Selectors;
use crate::backoff::capped;
use crate::queue::{QueueSettings, Verdict};
use crate::store::Age;
use crate::view::service::ingress;
use crate::warnings::Warnings;

/// What the cloud is at work on is looked at again after this part of the time since its last progress, or later.
const PATIENCE: u32 = 20;
/// That part is never longer.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Most bytes of all annotations of an object, as the API server takes them.
const MAX_ANNOTATIONS: usize = 256 << 10;

pub(crate) struct ServiceEntry {
    /// The newest state: that of the store, or that of our last write as long as the store does not have it yet.
    pub(super) newest: Arc<Service>,
    /// How old that is.
    pub(super) age: Age,
    /// Who has its load balancer, if anybody.
    pub(super) member: usize,
    /// Whether there may be something in the cloud.
    pub(super) owned: bool,
    doubt: Doubt,
    /// How many calls that change the load balancer have begun, and how many were recorded.
    pub(super) changes: u64,
    /// The record that this process wrote last. Another one in its place is no reason to believe that.
    recorded: Option<Record>,
    /// What the provider's annotations with this digest lead to, as this component says, where they are not those of the record.
    offer: Option<(Digest, Offer)>,
    /// That came to something else just before it was used.
    offer_changed: bool,
    /// The provider's annotations that could not be written so far.
    unwritten: BTreeMap<String, Option<String>>,
    /// What an Event has announced.
    announced: Option<Purpose>,
    /// As it was when its record last said that all is as it should be, if this process saw that or the record still shows it.
    base: Option<Arc<Service>>,
    /// What a survey found.
    pub(crate) found: Option<Found>,
    unsaid: Option<Unsaid>,
    warnings: Warnings,
    /// What became of offers. A manifest that is applied again and again makes the same one each time, and it succeeds each time.
    offers_told: Warnings,
    waits_told: Warnings,
    /// What was said of annotations that nobody declares.
    unknown_told: Option<String>,
    /// When the condition was written last, and what was to be reached then.
    condition: Option<(Purpose, Instant)>,
    /// When a status that somebody else had changed was put right last.
    repaired: Option<Instant>,
    /// The pass that waits for this Service.
    pub(super) pass: Option<Arc<PassTimer>>,
    /// Label selectors by which the provider chose among the Nodes.
    selectors: Selectors,
    /// An update for this was refused as invalid: it may be the hosts that are wrong.
    hosts_refused: Option<Purpose>,
    /// The provider said that somebody else takes care of it.
    is_elsewhere: bool,
    /// Since when it wants its first address, if this process saw that.
    wanted: Option<Instant>,
    /// Why it is not as it should be.
    pub(super) not_ready: Option<&'static str>,
    pub(super) attempt: Option<Attempt>,
    /// The cloud answers again, and did not when the run under way began.
    is_recovered: bool,
    delays: Option<ExponentialBackoff>,
    /// Since when the cloud is at work without any progress, and at what.
    at_work: Option<(Purpose, Instant)>,
    /// What the last call came to in which the cloud was at work.
    progress: Option<Digest>,
    pub(super) waits: bool,
    pub(super) last_run: LastRun,
}

impl ServiceEntry {
    pub(super) fn new(newest: Arc<Service>, age: Age, member: usize, owned: bool) -> Self {
        // Whoever was served before has a finalizer, or an address.
        let is_first = !owned && ingress(&newest).is_empty();
        Self {
            wanted: is_first.then(Instant::now),
            not_ready: None,
            base: None,
            newest,
            age,
            member,
            owned,
            doubt: Doubt::None,
            changes: 0,
            recorded: None,
            offer: None,
            offer_changed: false,
            unwritten: BTreeMap::new(),
            announced: None,
            found: None,
            unsaid: None,
            warnings: Warnings::default(),
            offers_told: Warnings::default(),
            waits_told: Warnings::default(),
            unknown_told: None,
            condition: None,
            repaired: None,
            pass: None,
            selectors: Selectors::default(),
            hosts_refused: None,
            is_elsewhere: false,
            attempt: None,
            is_recovered: false,
            delays: None,
            at_work: None,
            progress: None,
            waits: false,
            last_run: LastRun::default(),
        }
    }

    // === What is asked of it ===

    /// Whether the provider chose by labels among the Nodes.
    pub(crate) fn chooses(&self) -> bool {
        self.selectors.is_chosen()
    }

    /// Label selectors by which the provider chose among the Nodes. None: not known since the start.
    pub(crate) fn selectors(&self) -> Option<Arc<BTreeSet<String>>> {
        self.selectors.known()
    }

    /// The newest state of the Service.
    pub(crate) fn newest(&self) -> Arc<Service> {
        Arc::clone(&self.newest)
    }

    pub(crate) const fn doubt(&self) -> Doubt {
        self.doubt
    }

    pub(crate) fn unsaid(&self) -> Option<Unsaid> {
        self.unsaid.clone()
    }

    /// The record that this process wrote last.
    pub(crate) fn recorded(&self) -> Option<Record> {
        self.recorded.clone()
    }

    /// The provider's annotations that could not be written so far.
    pub(crate) fn unwritten(&self) -> BTreeMap<String, Option<String>> {
        self.unwritten.clone()
    }

    pub(crate) fn base(&self) -> Option<Arc<Service>> {
        self.base.clone()
    }

    pub(crate) const fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// What an offer with this digest came to.
    pub(crate) fn offer(&self, digest: Digest) -> Option<Offer> {
        self.offer.as_ref().filter(|(of, _)| *of == digest).map(|(_, offer)| offer.clone())
    }

    /// Who has its load balancer, if anybody.
    pub(crate) fn holder(&self) -> Option<usize> {
        self.owned.then_some(self.member)
    }

    /// Whether it may be the hosts that an ensure for `purpose` is refused for.
    pub(crate) fn may_be_hosts(&self, purpose: Purpose) -> bool {
        self.hosts_refused == Some(purpose) || self.chooses()
    }

    /// Whether the condition was written for `purpose` less than `interval` ago.
    pub(crate) fn is_told_lately(&self, purpose: Purpose, interval: Duration) -> bool {
        self.condition.is_some_and(|(of, at)| of == purpose && at.elapsed() < interval)
    }

    /// Whether a warning was not given lately.
    pub(crate) fn is_news(&mut self, message: &str, repeat: Duration) -> bool {
        self.warnings.is_news(message, repeat)
    }

    /// Whether it was not said lately what becomes of an offer.
    pub(crate) fn is_offer_news(&mut self, message: &str, repeat: Duration) -> bool {
        self.offers_told.is_news(message, repeat)
    }

    /// Whether it was not said lately why the Service waits for the one that had its name before. That one's own warnings are others.
    pub(crate) fn is_wait_news(&mut self, message: &str, repeat: Duration) -> bool {
        self.waits_told.is_news(message, repeat)
    }

    /// Whether `message` about annotations that nobody declares is new. For a Service with a record, an earlier process gave the first one.
    pub(crate) fn is_unknown_news(&mut self, message: &str, is_recorded: bool) -> bool {
        self.unknown_told.replace(message.to_owned()).map_or(!is_recorded, |before| before != message)
    }

    // === What happens to it ===

    /// The Service is as it was when its record said that all is as it should be: now, where it `is_recorded`; or of what the Service alone
    /// asks for, where it `is_viewed`, which counts where this process has seen nothing else.
    pub(crate) fn is_base(&mut self, service: &Arc<Service>, is_recorded: bool, is_viewed: impl FnOnce() -> bool) {
        if is_recorded || (self.base.is_none() && is_viewed()) {
            self.base = Some(Arc::clone(service));
        }
    }

    /// An Event announces this. Returns what was announced before.
    pub(crate) const fn announces(&mut self, purpose: Purpose) -> Option<Purpose> {
        self.announced.replace(purpose)
    }

    /// What was announced is the same under another digest: the provider has written on the Service.
    pub(crate) fn announced_as(&mut self, before: Purpose, now: Purpose) {
        if self.announced == Some(before) {
            self.announced = Some(now);
        }
    }

    /// A run begins. Returns who measures a pass until it ends.
    pub(super) fn run_begins(&mut self) -> Option<Arc<PassTimer>> {
        (self.is_recovered, self.last_run.waits_for_turn) = (false, None);
        self.pass.take()
    }

    /// The cloud answers again. Returns whether the last try had failed, and waits for a time and not for a change: no longer.
    pub(super) fn recovers(&mut self) -> bool {
        self.is_recovered = true;
        self.attempt.take_if(|attempt| !attempt.until_change).is_some()
    }

    /// A call that makes or changes the load balancer begins.
    pub(crate) fn ensure_begins(&mut self) {
        (self.doubt, self.owned, self.is_elsewhere, self.unsaid) = (Doubt::All, true, false, None);
        self.changes += 1;
    }

    /// A call that changes the hosts begins. Returns the doubt of before.
    pub(crate) fn update_begins(&mut self) -> Doubt {
        self.unsaid = None;
        self.changes += 1;
        let now = self.doubt.max(Doubt::Backends);
        std::mem::replace(&mut self.doubt, now)
    }

    /// A call that deletes the load balancer begins.
    pub(crate) fn deletion_begins(&mut self) {
        (self.doubt, self.unsaid) = (Doubt::All, None);
    }

    /// An update was refused, and an ensure may help; where it was as invalid, `refused` is what for.
    pub(crate) const fn needs_ensure(&mut self, refused: Option<Purpose>) {
        (self.doubt, self.hosts_refused) = (Doubt::All, refused);
    }

    /// The provider chose by these selectors. Those of before may count too where the call `has_failed`. Returns all that count.
    pub(crate) fn chose(&mut self, selected: BTreeSet<String>, has_failed: bool) -> Arc<BTreeSet<String>> {
        self.selectors.add(selected, has_failed)
    }

    /// Somebody else takes care of it, as the provider says.
    pub(crate) const fn left_elsewhere(&mut self) {
        self.is_elsewhere = true;
    }

    /// This is how its load balancer stood after so many changes. There is news, unless it was changed meanwhile.
    pub(crate) fn was_found(&mut self, found: Found, changes: u64) {
        if self.changes == changes {
            self.found = Some(found);
            self.has_news();
        }
    }

    /// What was found says nothing any more.
    pub(crate) fn forget_found(&mut self) {
        self.found = None;
    }

    /// What was done could not be written.
    pub(crate) fn is_unsaid(&mut self, unsaid: Option<Unsaid>) {
        self.unsaid = unsaid;
    }

    /// An offer was judged.
    pub(crate) fn was_judged(&mut self, digest: Digest, offer: Offer) {
        self.offer = Some((digest, offer));
    }

    /// An offer was judged once more just before it was used. Returns whether it had changed the last time.
    pub(crate) const fn judged_again(&mut self, has_changed: bool) -> bool {
        std::mem::replace(&mut self.offer_changed, has_changed)
    }

    /// The provider wants these annotations to be written. Returns all that wait: with those of before, if an object can have so many.
    pub(crate) fn wants_written(
        &mut self,
        annotations: Vec<(String, Option<String>)>,
    ) -> BTreeMap<String, Option<String>> {
        self.unwritten.extend(annotations.iter().cloned());
        let bytes = |(name, value): (&String, &Option<String>)| name.len() + value.as_ref().map_or(0, String::len);
        if self.unwritten.iter().map(bytes).sum::<usize>() > MAX_ANNOTATIONS {
            self.unwritten = annotations.into_iter().collect();
        }
        self.unwritten.clone()
    }

    /// The Service says why it waits; the condition was written for `told`, if it was.
    pub(crate) fn was_noted(&mut self, told: Option<Purpose>) {
        self.unwritten.clear();
        if let Some(purpose) = told {
            self.condition = Some((purpose, Instant::now()));
        }
    }

    /// The Service says that it has the hosts of now.
    pub(crate) fn hosts_recorded(&mut self) {
        self.changes += 1;
        self.doubt = Doubt::None;
        self.unwritten.clear();
    }

    /// The Service says that all is as it should be. Returns since when it wanted its first address, if it has got that now.
    pub(crate) fn was_recorded(&mut self, is_repair: bool) -> Option<Instant> {
        self.changes += 1;
        self.succeeded();
        self.unwritten.clear();
        if is_repair {
            self.repaired = Some(Instant::now());
        }
        self.wanted.take()
    }

    /// Nothing of ours stands on the Service any more.
    pub(crate) fn was_released(&mut self) {
        self.changes += 1;
        self.succeeded();
        self.owned = false;
        self.recorded = None;
        self.unwritten.clear();
        self.wanted = Some(Instant::now());
    }

    /// This record stands in the Service now.
    pub(super) fn has_record(&mut self, record: Record) {
        self.recorded = Some(record);
    }

    /// When it is not time yet for another try: when it is.
    pub(crate) fn must_wait(&self, purpose: Purpose, backends: Option<Digest>) -> Option<Verdict> {
        let attempt = self.attempt.as_ref().filter(|attempt| attempt.purpose == purpose)?;
        let left = attempt.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        // Nodes that come and go must not hurry a cloud in trouble.
        let may_follow = attempt.until_change || attempt.is_pending;
        if may_follow && attempt.backends.is_some() && attempt.backends != backends {
            return None;
        }
        Some(if attempt.until_change { Verdict::Change } else { Verdict::After(left) })
    }

    /// What the last try came to, if it failed or the cloud is at work.
    pub(crate) fn why(&self) -> Option<&str> {
        self.attempt.as_ref().map(|attempt| attempt.why.as_str())
    }

    /// Whether the last try failed. What somebody else takes care of has not failed.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_elsewhere && self.attempt.as_ref().is_some_and(|attempt| !attempt.is_pending)
    }

    /// There is news about the cloud: what waits for a change is tried again. What waits for a time has its turn soon.
    pub(crate) fn has_news(&mut self) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.until_change) {
            self.attempt = None;
        }
    }

    /// When the status was put right less than `pause` ago: how long that lasts. Another writer that does not give in must not
    /// cost a call each time.
    pub(crate) fn must_not_repair(&self, pause: Duration) -> Option<Verdict> {
        let left = pause.checked_sub(self.repaired?.elapsed()).filter(|left| !left.is_zero())?;
        Some(Verdict::After(left))
    }

    /// The cloud is at work, and this is what the call came to. Another outcome than that of the call before is progress: work of
    /// many steps must not become slower with each of them.
    pub(crate) fn progressed(&mut self, outcome: &Outcome) {
        let failure = outcome.failure.as_ref().map(|failure| &failure.message);
        let places: Vec<_> = outcome.ingress.iter().map(|place| (&place.ip, &place.hostname)).collect();
        let progress = Some(Digest::of(&(failure, places, &outcome.annotations, &outcome.changes)));
        if self.progress != progress {
            self.progress = progress;
            self.at_work = None;
            self.delays = None;
        }
    }

    /// The cloud is at work: the longer it takes without any progress, the less often it is looked at, so that what is never done
    /// costs next to nothing of its quota.
    fn patiently(&mut self, purpose: Purpose, verdict: Verdict) -> Verdict {
        let (_, since) = match self.at_work {
            Some(at_work) if at_work.0 == purpose => at_work,
            _ => *self.at_work.insert((purpose, Instant::now())),
        };
        match verdict {
            Verdict::After(delay) => Verdict::After(delay.max((since.elapsed() / PATIENCE).min(MAX_PATIENCE))),
            other => other,
        }
    }

    /// A try has failed, or the cloud is at work. Other backends than `backends` do not wait for that, unless the cloud is in
    /// trouble. Returns when the next try is.
    pub(crate) fn failed(
        &mut self,
        purpose: Purpose,
        backends: Option<Digest>,
        is_pending: bool,
        why: String,
        verdict: Verdict,
        settings: &QueueSettings,
    ) -> Verdict {
        let is_for_a_time = matches!(verdict, Verdict::After(_) | Verdict::Backoff) && !is_pending;
        if std::mem::take(&mut self.is_recovered) && is_for_a_time {
            // What the run has found out is of before.
            self.attempt = None;
            return Verdict::After(Duration::ZERO);
        }
        let verdict = if is_pending { self.patiently(purpose, verdict) } else { verdict };
        let delay = match verdict {
            Verdict::After(delay) => delay,
            Verdict::Change | Verdict::Done => settings.resync,
            Verdict::Backoff => {
                let delays = self.delays.get_or_insert_with(|| {
                    ExponentialBuilder::new()
                        .with_min_delay(settings.min_backoff)
                        .with_max_delay(settings.max_backoff)
                        .without_max_times()
                        .with_jitter()
                        .build()
                });
                capped(delays.next().unwrap_or(settings.max_backoff), settings.max_backoff)
            }
        };
        let now = Instant::now();
        let until = now.checked_add(delay).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60));
        let until_change = matches!(verdict, Verdict::Change | Verdict::Done);
        self.attempt = Some(Attempt { purpose, backends, until, until_change, is_pending, why });
        if until_change {
            self.delays = None;
            return Verdict::Change;
        }
        Verdict::After(delay)
    }

    /// A try came to its end. What was found before says nothing about later.
    pub(crate) fn succeeded(&mut self) {
        self.found = None;
        self.unsaid = None;
        self.offer = None;
        self.offer_changed = false;
        self.doubt = Doubt::None;
        self.attempt = None;
        self.last_run.failed = None;
        self.delays = None;
        self.at_work = None;
        self.progress = None;
        self.announced = None;
        self.hosts_refused = None;
        self.is_elsewhere = false;
        self.warnings = Warnings::default();
    }

    /// Takes a newer state of the same Service.
    pub(super) fn take(&mut self, service: Arc<Service>, age: Age) {
        if age.is_as_new_as(self.age) {
            (self.newest, self.age) = (service, age.after(self.age));
        }
    }
}
