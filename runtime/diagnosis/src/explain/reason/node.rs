//! A Node.

use ccm_controllers::{LifecycleExplanation, NodeExplanation};

use super::super::advice::{self, Known, Speaker};
use super::super::leader::Lead;
use super::super::page::Answer;
use super::super::target::Target;
use super::{Explanation, about, told_next};
use crate::ask::objects::{NodeFacts, Object};
use crate::kubelet;
use crate::verdict::Verdict;

const READY: &str = "it is initialised, and Ready";
const NOT_READY: &str = "it is initialised, and not Ready";
/// What to do about a machine that exists, and that the cloud says is gone.
const CORRECT: &str = "correct the credentials, project or region of the provider";

/// What is asked about, and how its host is found.
#[derive(Clone, Copy)]
struct About<'a> {
    target: &'a Target,
    facts: Option<&'a NodeFacts>,
    /// That of the host.
    namespace: &'a str,
}

pub(super) fn explain(
    told: &mut Explanation,
    target: &Target,
    object: &Object,
    Answer { node: answer, lifecycle, would_delete, .. }: Answer,
    namespace: &str,
) {
    let facts = match object {
        Object::Node(facts) => Some(facts),
        _ => None,
    };
    let about_it = About { target, facts, namespace };
    let seen = facts.map(|facts| facts.uid.as_str()).unwrap_or_default();
    for (is_missing, what) in [(answer.is_none(), "node"), (lifecycle.is_none(), "node lifecycle")] {
        if is_missing && told.asked.is_some() {
            told.is_without(format!("no {what} controller runs there: --controllers leaves it out"));
        }
    }
    let was_known = answer.is_some();
    let known = answer.filter(|known| !told.is_behind(known.uid.as_deref(), seen) && known.uid.is_some());
    // What is said of the machine of another Node with this name is not about this one. Older hosts do not say which one it is.
    let is_same = |uid: &Option<String>| match (uid.as_deref(), seen) {
        (None, _) => known.is_some() || !was_known,
        (Some(uid), seen) => seen.is_empty() || uid == seen,
    };
    let lifecycle = lifecycle.filter(|lifecycle| is_same(&lifecycle.uid));
    let is_uninitialised =
        known.as_ref().map(|known| !known.is_initialised).or(facts.map(|facts| facts.is_uninitialised));
    told.provider = known.as_ref().and_then(|known| known.provider.clone());
    let (asks_no_manager, is_ready) = match facts {
        Some(facts) => (facts.asks_no_manager, facts.is_ready()),
        None => known.as_ref().map(|known| (known.asks_no_manager, known.is_ready)).unwrap_or_default(),
    };
    match (known, is_uninitialised) {
        (Some(known), Some(true)) => uninitialised(told, target, known),
        (None, Some(true)) => {
            told.is(Verdict::Wrong, "it is not initialised: it has the uninitialized taint, and pods wait");
            told.advise(match (told.is_dry_run(), told.lead) {
                (true, _) => "see that the manager that leads initialises it: a dry run writes nothing",
                (false, Lead::Maybe) => "see that a host of wasm-ccm leads and that its provider knows the machine",
                (false, _) => "see that the provider of the host knows the machine",
            });
            told.is_planned_by_the_leader();
        }
        (_, Some(false)) if asks_no_manager => {
            // Another state, such as `ready`, would say that all is well.
            let says = lifecycle.filter(|lifecycle| matches!(lifecycle.state.as_str(), "not-ready" | "deleting"));
            match says {
                _ if is_ready => {}
                Some(lifecycle) => initialised(told, about_it, &lifecycle, "it is not Ready"),
                None => not_ready(told, "it is not Ready", facts, ""),
            }
            unseen(told, target, is_ready);
        }
        (_, Some(false)) => match (lifecycle.filter(|lifecycle| !lifecycle.state.is_empty()), facts) {
            (Some(lifecycle), _) => initialised(told, about_it, &lifecycle, NOT_READY),
            (None, Some(facts)) => by_object(told, facts),
            (None, None) if is_ready => told.is(Verdict::Fine, READY),
            (None, None) => told.is(Verdict::Unknown, "it is initialised; whether it is Ready, nobody says"),
        },
        (_, None) => told.is(Verdict::Unknown, "neither the leader nor the API server says anything of it"),
    }
    if told.verdict != Verdict::Fine && would_delete {
        told.is(
            Verdict::Wrong,
            "its machine is gone, as the cloud says: a host without --dry-run would delete the Node",
        );
        told.advice = vec![format!("nothing, if you deleted the machine; if it exists, {CORRECT} before a host leads")];
    }
}

fn uninitialised(told: &mut Explanation, target: &Target, known: NodeExplanation) {
    told.planned(known.next);
    match (known.last_try, known.unclaimed_seconds) {
        (Some(last), Some(seconds)) => {
            told.is(
                Verdict::Wrong,
                format!("it is not initialised: for {} every provider has said that it is not its own", about(seconds)),
            );
            told.failed(last, target);
            told.advice = vec![
                "if it is a machine of one of the clouds here, give it the name that the machine has there, or set spec.providerID (kubelet --provider-id); else see whether its own manager runs"
                    .to_owned(),
            ];
        }
        (Some(last), None) if last.reaction == "elsewhere" => {
            told.is(
                Verdict::Unknown,
                "it is not initialised: its provider ID is of no provider here, so another manager has to do it",
            );
            told.failed(last, target);
        }
        (Some(last), None) => {
            let what = match last.reaction.as_str() {
                "absent" => "it is not initialised: the cloud has no such machine",
                _ => "it is not initialised",
            };
            told.is(Verdict::Wrong, what);
            told.failed(last, target);
        }
        (None, _) => {
            told.is(Verdict::Wrong, "it is not initialised, and nothing has failed");
            told.advise("wait: it is being worked on");
        }
    }
}

/// Nobody waits for its initialisation. `not_ready_as`: what is said of it where only its kubelet is to blame.
fn initialised(
    told: &mut Explanation,
    About { target, facts, namespace }: About<'_>,
    lifecycle: &LifecycleExplanation,
    not_ready_as: &str,
) {
    let stop = format!("stop the host at once (`kubectl -n {namespace} scale deployment wasm-ccm --replicas=0`)");
    let says = if lifecycle.failure.is_some() { "the cloud gave no answer" } else { "the cloud says of its machine" };
    let answered = lifecycle.answered_seconds_ago.map(|ago| format!(", {} ago", about(ago))).unwrap_or_default();
    told.decision = lifecycle.answer.as_ref().map(|answer| format!("{says}: {answer}{answered}"));
    match (lifecycle.state.as_str(), &lifecycle.held, lifecycle.answer.as_deref()) {
        ("ready", ..) => return told.is(Verdict::Fine, READY),
        ("foreign", ..) => {
            told.is(
                Verdict::Fine,
                "it is initialised; its provider ID is of no provider here, so it is neither deleted nor tainted",
            );
            return;
        }
        ("deleting", ..) => told.is(Verdict::Wrong, "somebody deletes it: see its finalizers"),
        (_, Some(held), _) => {
            told.is(Verdict::Wrong, "its machine is gone, and its deletion is held");
            told.held = Some(held.to_string());
            told.advise(format!(
                "if the machines exist, {stop}: it deletes the next Node as soon as the limit allows. Then {CORRECT}. If they are gone, wait, or restart with --confirm-node-deletions={}",
                told.object.trim_start_matches("node ")
            ));
        }
        (_, None, Some("absent")) => {
            told.is(
                Verdict::Wrong,
                "its machine is gone, as the cloud says; a second proof comes before it is deleted",
            );
            told.advise(format!(
                "nothing, if you deleted the machine. If it exists, {stop}: it is about to delete the Node. Then {CORRECT}"
            ));
        }
        (_, None, Some("stopped")) => {
            told.is(Verdict::Wrong, "it is not Ready, and its machine is switched off");
            told.advise("start the machine, or delete it");
        }
        (_, None, _) if lifecycle.failure.is_some() => {
            told.is(Verdict::Wrong, "it is not Ready, and its machine could not be determined: it stays");
            let (message, reaction) = (lifecycle.failure.clone().unwrap_or_default(), lifecycle.answer.clone());
            let request = lifecycle.request.clone();
            let known = Known { speaker: Speaker::Leader, request: request.as_ref(), tries: 0, target };
            let advice = |reaction| advice::of(reaction, known);
            told.advice.extend(reaction.as_deref().and_then(advice));
            let seconds_ago = lifecycle.answered_seconds_ago;
            told.failure =
                Some(super::Failure { message, reaction, seconds_ago, request, ..super::Failure::default() });
        }
        _ => not_ready(told, not_ready_as, facts, ""),
    }
    (told.next, told.next_seconds) = told_next(lifecycle.next);
}

/// Its kubelet says so, or nothing. Where the Node was not read, nobody knows which. `and`: what is said after that.
fn not_ready(told: &mut Explanation, what: &str, facts: Option<&NodeFacts>, and: &str) {
    let why = match facts.map(|facts| facts.ready.as_ref()) {
        Some(None) => ": its kubelet says nothing".to_owned(),
        Some(Some((_, message))) if !message.is_empty() => format!(": {message}"),
        Some(Some(_)) | None => String::new(),
    };
    told.is(Verdict::Wrong, format!("{what}{why}{and}"));
    told.advise("look at the kubelet and the network of the machine");
}

/// No manager is asked to initialise it. What is said already is why it is not Ready.
fn unseen(told: &mut Explanation, target: &Target, is_ready: bool) {
    let also = if is_ready { String::new() } else { format!("; {}", told.summary) };
    // Whoever was asked has seen all Nodes.
    if told.asked.is_some() && !told.is_dry_run() {
        told.is(Verdict::Wrong, format!("it {}{also}", kubelet::FOUND));
        return told.advise(kubelet::fix(target.name()));
    }
    match is_ready {
        true => told.is(Verdict::Unknown, "it is Ready, and has neither a provider ID nor the uninitialized taint"),
        false => {
            told.is(Verdict::Wrong, format!("it has neither a provider ID nor the uninitialized taint{also}"));
        }
    }
    told.advise("start its kubelet with --cloud-provider=external, if it is a machine of a cloud");
}

fn by_object(told: &mut Explanation, facts: &NodeFacts) {
    match facts.is_ready() {
        _ if facts.is_deleting => told.is(Verdict::Wrong, "somebody deletes it: see its finalizers"),
        true => told.is(Verdict::Fine, READY),
        false => not_ready(told, NOT_READY, Some(facts), "; what the cloud says of its machine, only the leader knows"),
    }
}
