//! What follows from what the leader, the object and its Events say. Nothing here reads or writes anything.

mod node;
mod service;
#[cfg(test)]
mod tests;

use ccm_controllers::{CloudRequest, LastTry, Next};
use ccm_rollout::status::Refusal;
use serde::Serialize;

use super::advice::{Known, Speaker};
use super::leader::Lead;
use super::page::Answer;
use super::target::Target;
use crate::ask::Access;
use crate::ask::events::EventTold;
use crate::ask::objects::Object;
use crate::paste::Paste;
use crate::plain::about;
use crate::verdict::Verdict;

/// All that is known.
pub(super) struct Facts {
    pub(super) target: Target,
    pub(super) object: Object,
    pub(super) answer: Option<Answer>,
    /// Who gave that answer.
    pub(super) asked: Option<String>,
    /// What hosts refuse that do not lead.
    pub(super) refusals: Vec<Refusal>,
    /// What hosts said lately of components that they refuse, where no host says it now. The newest first.
    pub(super) rejections: Vec<EventTold>,
    /// The newest first.
    pub(super) events: Vec<EventTold>,
    /// Who leads, where there is no answer.
    pub(super) lead: Lead,
    /// The user said whom to ask.
    pub(super) is_addressed: bool,
    /// The API server does not answer.
    pub(super) is_silent: bool,
    /// What was tried in vain.
    pub(super) tried: Vec<String>,
    /// That of the Lease and of the pods of the host.
    pub(super) namespace: String,
}

/// The last try, where it failed.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    /// What was tried and what came of it, the request to the cloud included.
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds_ago: Option<f64>,
    /// How many tries have failed since the last one that did not; 0 where nobody says.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) tries: u32,
    /// The request to the cloud behind it, where the leader saw one fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<CloudRequest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

/// What is told.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub(super) object: String,
    /// How the object stands.
    pub verdict: Verdict,
    /// In one sentence.
    pub(super) summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Failure>,
    /// Why a deletion is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
    /// The same in seconds, where there is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_seconds: Option<f64>,
    /// What to do.
    pub(super) advice: Vec<String>,
    /// Components and configurations that are not used.
    pub(super) refused: Vec<String>,
    pub(super) events: Vec<String>,
    /// What a dry run says that it would write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dry_run: Vec<String>,
    /// Who leads, as the leader says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leader: Option<String>,
    /// Who was asked; none where the object alone speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// Who leads, where nobody was asked.
    #[serde(skip)]
    pub(super) lead: Lead,
    /// What was tried in vain.
    pub(super) tried: Vec<String>,
}

/// What follows.
pub(super) fn explain(facts: Facts) -> Explanation {
    let Facts { target, object, answer, asked, refusals, rejections, mut events, .. } = facts;
    let Facts { lead, is_addressed, is_silent, tried, namespace, .. } = facts;
    // The object may have taken the name of another one over: what was told of that one is not about this one.
    events.retain(|event| event.is_about(&target, object.uid()));
    let of_leader = answer.iter().flat_map(|answer| &answer.refusals);
    let refused = of_leader.chain(&refusals).map(refusal).chain(rejections.iter().map(EventTold::text)).take(MOST);
    let writes = answer.iter().filter_map(|answer| answer.dry_run.as_ref()).flatten();
    let mut told = Explanation {
        object: target.to_string(),
        events: events.iter().map(EventTold::text).collect(),
        leader: answer.as_ref().map(|answer| answer.leader.clone()),
        refused: refused.collect(),
        dry_run: writes.take(MOST_WRITES).cloned().collect(),
        lead: if asked.is_some() { Lead::Maybe } else { lead },
        asked,
        tried,
        ..Explanation::default()
    };
    let answer = answer.unwrap_or_default();
    let knows = match &target {
        Target::Service { .. } => answer.service.as_ref().map(|known| known.uid.is_some()),
        Target::Node { .. } => answer.node.as_ref().map(|known| known.uid.is_some()),
    };
    match &target {
        Target::Service { .. } => service::explain(&mut told, &target, &object, answer.service),
        Target::Node { .. } => node::explain(&mut told, &target, &object, answer, &namespace),
    }
    // An Event is told as the failure where nobody else says more.
    let warning = events.iter().find(|event| event.is_warning && !event.is_of_kubelet);
    if told.verdict == Verdict::Wrong && told.failure.is_none() && told.held.is_none() {
        told.failure = warning.map(|event| Failure { message: event.note.clone(), ..Failure::default() });
    }
    if matches!(object, Object::Forbidden) && told.verdict != Verdict::Fine {
        told.advise(allowed(&target));
    }
    // Of who leads, what is refused may be new, and no reason for anything.
    let is_refused = told.asked.is_none() && !told.refused.is_empty() && told.verdict != Verdict::Fine;
    match told.lead {
        Lead::Nobody | Lead::Unseen if is_refused => told.advice.insert(0, REFUSED.to_owned()),
        Lead::Nobody if told.verdict != Verdict::Fine => told.advice.insert(
            0,
            format!("start the host: none leads (`kubectl -n {namespace} get pods,leases` shows what there is)"),
        ),
        Lead::Unseen if told.verdict != Verdict::Fine => {
            let or_ask = if is_addressed { "see that --address leads to it" } else { "ask it with --address" };
            let look = format!("kubectl -n {namespace} get pods");
            told.advice.insert(
                0,
                format!("find out whether a host runs (`{look}`): nobody holds its Lease, and no host that leads answered. If none runs, start it; if one runs without election (--leader-elect=false) or under another Lease, {or_ask}"),
            );
        }
        Lead::Stranger => told.advice.insert(0, STRANGER.to_owned()),
        _ => {}
    }
    if told.verdict == Verdict::Unknown && told.advice.is_empty() {
        let leads = format!("runs and leads (kubectl -n {namespace} get pods,leases)");
        let advice = match (told.asked.is_some(), is_addressed) {
            _ if told.is_dry_run() => {
                Some(format!("see whether the manager of the cluster {leads}: a dry run writes nothing"))
            }
            (true, _) => whom_else(&target, &object, knows, is_silent),
            _ if is_silent => None,
            (false, true) => Some(format!("see whether a host of wasm-ccm {leads}")),
            (false, false) => Some(format!("see whether a host of wasm-ccm {leads}, and ask it with --address")),
        };
        told.advice.extend(advice);
    }
    if is_refused && told.lead == Lead::Maybe {
        told.advise(PERHAPS_REFUSED);
    }
    if is_silent && told.verdict != Verdict::Fine {
        told.advise(format!("{}; `wasm-ccm doctor` says more", Access::way_out()));
    }
    told
}

/// So many refusals are told. A host has one for each of its sources.
const MOST: usize = 20;
/// So many lines of a dry run. Of one call it tells 64 changes at most.
const MOST_WRITES: usize = 100;
const REFUSED: &str = "correct the component or configuration under `refused`: a host without a component cannot lead (docs/guides/upgrade-a-provider.md)";
const PERHAPS_REFUSED: &str = "a component or configuration was not taken (see `refused`); this may not be the reason: look at /providerz of the leader";
const STRANGER: &str = "stop one of the two managers (`wasm-ccm doctor`): another one has the Lease of the host";
const NO_TRIES: &str = "a dry run makes no tries: see the lines dry run";

/// What to do where the leader was asked, and that is not enough. `knows`: whether it knows such an object; none where no controller for it runs.
fn whom_else(target: &Target, object: &Object, knows: Option<bool>, is_silent: bool) -> Option<String> {
    let kind = target.kind();
    Some(match (object, knows) {
        (Object::Missing | Object::Unread | Object::Forbidden, Some(false)) => {
            format!("check the name: the leader knows no {target}")
        }
        (Object::Missing | Object::Unread | Object::Forbidden, _) if is_silent => return None,
        (Object::Missing | Object::Unread | Object::Forbidden, _) => {
            format!("give a --kubeconfig that works: only the API server knows what the {kind} says")
        }
        (Object::Service(_) | Object::Node(_), None) => {
            "see which manager serves it: the leader that answered does not".to_owned()
        }
        (Object::Service(_) | Object::Node(_), Some(_)) => {
            "ask again in some seconds; if it stays, check --address and --kubeconfig".to_owned()
        }
    })
}

/// Whose kubeconfig it takes.
fn allowed(target: &Target) -> String {
    match target {
        Target::Service { namespace, .. } => format!("give a kubeconfig that may get Services in {namespace}"),
        Target::Node { .. } => "give a kubeconfig that may get Nodes".to_owned(),
    }
}

impl Explanation {
    /// With commands that can be pasted.
    pub(super) fn completed(self, paste: &Paste) -> Self {
        let complete = |texts: Vec<String>| texts.iter().map(|text| paste.complete(text)).collect();
        Self { advice: complete(self.advice), tried: complete(self.tried), ..self }
    }

    fn is(&mut self, verdict: Verdict, summary: impl Into<String>) {
        (self.verdict, self.summary) = (verdict, summary.into());
    }

    fn advise(&mut self, advice: impl Into<String>) {
        self.advice.push(advice.into());
    }

    /// The last try failed, and this is done about it.
    fn failed(&mut self, last: LastTry, target: &Target) {
        let known = Known { speaker: Speaker::Leader, request: last.request.as_ref(), tries: last.tries, target };
        self.advice.extend(super::advice::of(&last.reaction, known));
        let LastTry { message, reaction, seconds_ago, tries, request } = last;
        self.failure =
            Some(Failure { message, reaction: Some(reaction), seconds_ago: Some(seconds_ago), tries, request });
    }

    /// Who speaks of a failure that no leader told.
    fn speaker(&self) -> Speaker {
        match self.lead {
            Lead::Maybe if !self.is_dry_run() => Speaker::Object,
            _ => Speaker::ObjectAlone,
        }
    }

    /// It was a dry run that answered.
    const fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The controllers of whoever answered do not know the object.
    fn is_without(&mut self, why: impl Into<String>) {
        let why = if self.is_dry_run() { NO_TRIES.to_owned() } else { why.into() };
        if !self.tried.contains(&why) {
            self.tried.push(why);
        }
    }

    /// The leader alone knows when the next try is, if there is one.
    fn is_planned_by_the_leader(&mut self) {
        let next = match (self.is_dry_run(), self.lead) {
            (true, _) => "none: a dry run makes no tries",
            (false, Lead::Maybe | Lead::Unseen) => "not known: only the leader knows it",
            (false, _) => "none, as long as no host leads",
        };
        self.next = Some(next.to_owned());
    }

    fn planned(&mut self, next: Next) {
        (self.next, self.next_seconds) = told_next(next);
    }

    /// The leader does not know the object as the API server has it.
    fn is_behind(&mut self, uid: Option<&str>, seen: &str) -> bool {
        let why = match uid {
            _ if seen.is_empty() => return false,
            None => "the leader does not know the object yet: ask again",
            Some(uid) if uid != seen => {
                "the leader knows another object of this name, with another UID: it was replaced just now, or the leader is that of another cluster; ask again, and check --address and --kubeconfig"
            }
            Some(_) => return false,
        };
        self.tried.push(why.to_owned());
        true
    }
}

/// For people, and in seconds.
fn told_next(next: Next) -> (Option<String>, Option<f64>) {
    match next {
        Next::Unknown => (Some("not known: the controller did not say".to_owned()), None),
        Next::Running(seconds) => (Some(format!("under way for {}", about(seconds))), Some(0.0)),
        Next::In(seconds) => (Some(format!("in {}", about(seconds))), Some(seconds)),
        Next::OnChange => (Some("when the object changes".to_owned()), None),
        Next::OnChangeOr(seconds) => {
            (Some(format!("when the object changes, else in {}", about(seconds))), Some(seconds))
        }
    }
}

fn refusal(refusal: &Refusal) -> String {
    let Refusal { source, serving, is_configuration, step, reason } = refusal;
    let what = if *is_configuration { "configuration" } else { "component" };
    let serving = serving.as_ref().map_or_else(|| "none serves".to_owned(), |serving| format!("{serving} serves"));
    format!("{what} of {source} at {step}, {serving}: {reason}")
}
