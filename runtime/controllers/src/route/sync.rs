//! One run for one provider: look at all routes, change what differs, tell the Nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_apiserver::{EventRecorder, EventRequest, cut, node_reference};
use ccm_cloud::{Failure, Reaction, RouteSource, Routes, Severity};
use futures::StreamExt as _;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::act::{self, Done, Limits};
use super::condition::{Network, network, routed_node};
use super::memory::{Memory, Round};
use super::metrics::RouteMeters;
use super::plan::{CidrStatus, Item, Plan, Want, plan};
use super::ranges::PodRanges;
use super::settings::RouteSettings;
use crate::cluster::ClusterNodes;
use crate::hold::{Hold, Releases};
use crate::metrics::now_seconds;
use crate::node::write::NodeWriter;
use crate::queue::Verdict;
use crate::reaction;
use crate::store::Node;
use crate::waking::Woken;

/// Upstream's name of this controller in Events.
const REPORTER: &str = "route_controller";
/// Most bytes of an error in an Event, which leaves room for what is done about it.
const MAX_ERROR: usize = 800;

/// A provider.
pub(crate) struct Member {
    source: Arc<dyn RouteSource>,
    nodes: ClusterNodes,
    meters: RouteMeters,
    /// Whether a Node has changed since the last run.
    has_changed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: Memory,
    hold: Hold,
}

impl Member {
    pub(crate) fn new(source: Arc<dyn RouteSource>, nodes: ClusterNodes, meters: RouteMeters) -> Self {
        Self { source, nodes, meters, has_changed: AtomicBool::new(false), state: Mutex::default() }
    }
}

/// One run for a provider, by the component of its beginning.
struct Run<'a> {
    member: &'a Member,
    routes: Arc<dyn Routes>,
    /// What follows from before the provider was released again counts for nothing.
    releases: Releases,
    /// Nothing more is asked for: a run that has no end would leave nothing behind.
    until: Instant,
    /// Then no call begins.
    stop: &'a CancellationToken,
}

/// Everything that a run uses, shared by all of them.
pub(crate) struct Syncer {
    pub(crate) nodes: Store<Node>,
    pub(crate) members: HashMap<Arc<str>, Member>,
    pub(crate) ranges: PodRanges,
    pub(crate) writer: NodeWriter,
    pub(crate) recorder: EventRecorder,
    pub(crate) settings: RouteSettings,
}

impl Woken for Syncer {
    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.keys()
    }

    fn release(&self, name: &str) {
        if let Some(member) = self.members.get(name) {
            let mut state = member.state.lock();
            state.hold.release();
            state.memory.release();
        }
    }

    fn changed(&self) {
        self.members.values().for_each(|member| member.has_changed.store(true, Ordering::Relaxed));
    }
}

impl Syncer {
    /// Brings the routes of the provider called `name` in step with the Nodes.
    pub(crate) async fn sync(&self, name: &str, stop: &CancellationToken) -> Verdict {
        let Some(member) = self.members.get(name) else { return Verdict::Done };
        let releases = match member.state.lock().hold.begin() {
            Ok(releases) => releases,
            Err(left) => return Verdict::After(left),
        };
        let trigger = if member.has_changed.swap(false, Ordering::Relaxed) { "node_change" } else { "periodic" };
        let begun = Instant::now();
        // A fifth of its time is left for what the Nodes are told.
        let until = begun.checked_add(self.settings.queue.max_run / 5 * 4).unwrap_or(begun);
        let run = Run { member, routes: member.source.routes(), releases, until, stop };
        let (outcome, verdict) = self.run(&run).await;
        member.meters.duration.observe(begun.elapsed().as_secs_f64());
        member.meters.ended(trigger, outcome);
        verdict
    }

    /// One run, as the first of a process. After `stop`, no call begins.
    ///
    /// # Errors
    ///
    /// It is not known what is done, or that is not all: why.
    pub(crate) async fn once(&self, name: &str, stop: &CancellationToken) -> Result<(), String> {
        let Some(member) = self.members.get(name) else { return Ok(()) };
        let begun = Instant::now();
        let until = begun.checked_add(self.settings.queue.max_run / 5 * 4).unwrap_or(begun);
        let releases = member.state.lock().hold.releases();
        let run = Run { member, routes: member.source.routes(), releases, until, stop };
        let (_, verdict) = self.run(&run).await;
        if let Some(why) = member.state.lock().memory.last_failure() {
            return Err(why);
        }
        match verdict {
            // What is for others to do is looked at after a resync.
            Verdict::After(delay) if delay < self.settings.queue.resync / 2 => {
                Err("routes are being changed: the host looks at them again".to_owned())
            }
            Verdict::Done | Verdict::Change | Verdict::After(_) => Ok(()),
            Verdict::Backoff => Err("the API server did not take the condition of a Node's network".to_owned()),
        }
    }

    /// Says how it ended, in upstream's words, and when to run again.
    async fn run(&self, run: &Run<'_>) -> (&'static str, Verdict) {
        let Run { member, routes, .. } = run;
        let descriptor = routes.descriptor();
        let is_own = |id: &str| descriptor.owns(id);
        let owns = |node: &Node| member.nodes == ClusterNodes::All || node.provider_id.as_deref().is_some_and(is_own);
        let nodes = self.nodes.state();
        let told: Vec<ccm_cloud::Node> = nodes.iter().filter(|node| owns(node)).map(|node| routed_node(node)).collect();
        let limit = self.settings.call_timeout;
        let found = tokio::time::timeout(limit, routes.get_all(told))
            .await
            .unwrap_or_else(|_elapsed| Err(Failure::unanswered("routes.get-all", &descriptor.name, limit)));
        let found = match found {
            Ok(found) => found,
            Err(failure) => return ("error", self.unknown(run, &failure)),
        };
        {
            let memory = &mut member.state.lock().memory;
            memory.is_unanswered(None);
            if memory.recovered() {
                tracing::info!("routes are looked at again");
            }
        }
        let mut plan = plan(&nodes, found, &self.ranges, owns);
        if plan.unreadable > 0 {
            tracing::debug!(routes = plan.unreadable, "routes whose destination is no network are left alone");
        }
        let (has_changed, has_failed) = self.change(run, &mut plan).await;
        let is_written = self.tell(&plan).await;
        let verdict = self.report(member, &plan, has_failed).await;
        let outcome = match (has_failed || !is_written, has_changed) {
            (true, _) => "error",
            (false, true) => "changed",
            (false, false) => "noop",
        };
        // The next run writes it, too.
        let is_soon = matches!(verdict, Verdict::After(delay) if delay <= self.settings.pending_look);
        (outcome, if is_written || is_soon { verdict } else { Verdict::Backoff })
    }

    /// Nobody knows what routes there are: nothing is changed, and no Node is told anything.
    fn unknown(&self, run: &Run<'_>, failure: &Failure) -> Verdict {
        let verdict = reaction::verdict(failure, self.settings.slow_retry);
        let mut state = run.member.state.lock();
        state.hold.hold(run.releases, verdict);
        if failure.reaction == Reaction::Elsewhere {
            state.memory.is_unanswered(None);
            return verdict;
        }
        state.memory.is_unanswered(Some(failure.to_string()));
        let error = format!("{failure} ({})", failure.reaction.as_str());
        let next = reaction::describe(verdict);
        if state.memory.is_news("", &error, self.settings.repeat_warning) {
            tracing::warn!(error, next, "the routes of the cluster cannot be looked at");
        } else {
            tracing::debug!(error, next, "the routes of the cluster cannot be looked at");
        }
        verdict
    }

    /// Does what is to be done, but for what failed lately, and notes in the plan how it went. Says whether something was changed, and
    /// whether something failed.
    async fn change(&self, run: &Run<'_>, plan: &mut Plan) -> (bool, bool) {
        let member = run.member;
        let mut done: BTreeMap<_, Done> = BTreeMap::new();
        let mut due: Vec<(_, Item)> = vec![];
        {
            let state = member.state.lock();
            for (network, item) in std::mem::take(&mut plan.items) {
                match state.memory.held(&network, item.mark()) {
                    Some(failure) => drop(done.insert(network, Done { wish: Some(failure), ..Done::default() })),
                    None => due.push((network, item)),
                }
            }
        }
        let mut failing: BTreeSet<_> = done.keys().copied().collect();
        let mut left = BTreeSet::new();
        let mut has_changed = false;
        let limits = Limits {
            batch: self.settings.batch.get(),
            halves: self.settings.max_calls.get(),
            failures: self.settings.max_failures.get(),
            timeout: self.settings.call_timeout,
            until: run.until,
        };
        let (networks, items): (Vec<_>, Vec<Item>) = due.into_iter().unzip();
        let outcomes = act::change(&*run.routes, &items, limits, run.stop).await;
        let round = Round::begin();
        let mut state = member.state.lock();
        for ((network, item), outcome) in networks.into_iter().zip(items).zip(outcomes) {
            // That of the wish first: it is what a Node waits for.
            match outcome.wish.as_ref().filter(|_| item.wish.is_some()).or(outcome.obsolete.as_ref()) {
                Some(failure) if failure.reaction == Reaction::Pending => {
                    has_changed = true;
                    let look = failure.retry_after.map_or(self.settings.pending_look, reaction::bounded);
                    plan.look = Some(plan.look.map_or(look, |other| other.min(look)));
                }
                Some(_) if outcome.is_left => {
                    // It is wanted as before, and has not failed.
                    plan.look = Some(Duration::ZERO);
                    left.insert(network);
                    continue;
                }
                Some(failure) => {
                    state.memory.failed(network, item.mark(), failure, &self.settings, &round);
                    // It is about the account, and not about this route.
                    if matches!(failure.reaction, Reaction::Throttled | Reaction::Unauthorized) {
                        state.hold.hold(run.releases, reaction::verdict(failure, self.settings.slow_retry));
                    }
                    failing.insert(network);
                    if item.wish.is_none() {
                        let error = format!("{failure} ({})", failure.reaction.as_str());
                        tracing::warn!(%network, error, "a route that leads nowhere is not removed");
                    }
                }
                None => has_changed = true,
            }
            done.insert(network, outcome);
        }
        let has_failed = !failing.is_empty();
        failing.append(&mut left);
        state.memory.keep(&failing);
        if state.hold.releases() != run.releases {
            state.memory.release();
        }
        drop(state);
        for want in &mut plan.wants {
            let outcome = want.network.as_ref().and_then(|network| done.get(network));
            if let (CidrStatus::Wanted, Some(outcome)) = (&want.status, outcome) {
                want.status = match &outcome.wish {
                    None => CidrStatus::InPlace,
                    Some(failure) if failure.reaction == Reaction::Pending => CidrStatus::Pending,
                    Some(failure) => CidrStatus::Failed(failure.clone()),
                };
            }
        }
        (has_changed, has_failed)
    }

    /// Writes the conditions. Says whether all are as they should be.
    async fn tell(&self, plan: &Plan) -> bool {
        let mut statuses: BTreeMap<&str, (&Arc<Node>, Vec<&CidrStatus>)> = BTreeMap::new();
        for Want { node, status, .. } in &plan.wants {
            statuses.entry(&node.name).or_insert_with(|| (node, vec![])).1.push(status);
        }
        let told = statuses.into_values().filter_map(|(node, statuses)| {
            let network = network(statuses.into_iter())?;
            Some((node, network))
        });
        let told: Vec<_> = told.chain(plan.stray.iter().map(|node| (node, Network::Unavailable))).collect();
        let is_written = AtomicBool::new(true);
        let write = async |(node, network): (&Arc<Node>, Network)| match self.writer.set_network(node, network).await {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(node = %node.name, %error, "the condition of a Node's network is not written");
                is_written.store(false, Ordering::Relaxed);
            }
        };
        let width = self.settings.concurrent_writes.get();
        futures::stream::iter(told).for_each_concurrent(width, write).await;
        is_written.into_inner()
    }

    /// Metrics and Events. Says when to run again.
    async fn report(&self, member: &Member, plan: &Plan, has_failed: bool) -> Verdict {
        let count = |of: fn(&CidrStatus) -> bool| {
            let count = plan.wants.iter().filter(|want| of(&want.status)).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let meters = &member.meters;
        // Or left for the next run, which begins at once.
        let pending = count(|status| matches!(status, CidrStatus::Pending | CidrStatus::Wanted));
        let failing = count(is_failed);
        meters.in_place.set(count(|status| *status == CidrStatus::InPlace));
        meters.pending.set(pending);
        meters.failing.set(failing);
        if failing == 0 && pending == 0 && plan.look.is_none() && !has_failed {
            meters.last_success.set(now_seconds());
        }
        for request in self.news(member, plan) {
            self.recorder.record(request).await;
        }
        let next = member.state.lock().memory.next();
        let look = plan.look.or((pending > 0).then_some(self.settings.pending_look));
        match [next, look].into_iter().flatten().min() {
            Some(delay) => Verdict::After(delay.max(Duration::from_millis(1))),
            None => Verdict::Done,
        }
    }

    /// The Events to write.
    fn news(&self, member: &Member, plan: &Plan) -> Vec<EventRequest> {
        let mut state = member.state.lock();
        let (mut news, mut still, mut left_out) = (vec![], BTreeSet::new(), 0_usize);
        for Want { node, text, status, .. } in &plan.wants {
            let CidrStatus::Failed(failure) = status else { continue };
            if !is_failed(status) {
                continue;
            }
            let uid = node.uid.as_deref().unwrap_or_default();
            let about = format!("{uid} {text}");
            still.insert(about.clone());
            let error = format!("{} ({})", cut(&failure.to_string(), MAX_ERROR), failure.reaction.as_str());
            let message = format!("Could not create route {} for node {}: {error}", cut(text, MAX_ERROR), node.name);
            if news.len() == self.settings.max_events.get() {
                left_out = left_out.saturating_add(1);
                continue;
            }
            if !state.memory.is_news(&about, &message, self.settings.repeat_warning) {
                continue;
            }
            tracing::warn!(node = %node.name, error = message, "a Node has not all its routes");
            news.push(EventRequest {
                about: node_reference(&node.name, uid),
                severity: Severity::Warning,
                reason: "FailedToCreateRoute".into(),
                action: "CreateRoute",
                message,
                reporter: REPORTER,
                annotations: Default::default(),
            });
        }
        if left_out > 0 {
            tracing::warn!(left_out, "more Nodes lack a route than are told about at once");
        }
        state.memory.keep_warnings(&still);
        news
    }
}

/// Whether people should know: another controller's work is no failure.
fn is_failed(status: &CidrStatus) -> bool {
    matches!(status, CidrStatus::Failed(failure) if failure.reaction != Reaction::Elsewhere)
}
