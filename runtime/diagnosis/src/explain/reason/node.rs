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

pub(super) fn explain(
    told: &mut Explanation,
    target: &Target,
    object: &Object,
    Answer { node: answer, lifecycle, would_delete, .. }: Answer,
) {
    let facts = match object {
        Object::Node(facts) => Some(facts),
        _ => None,
    };
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
    let (asks_no_manager, is_ready) =
        known.as_ref().map(|known| (known.asks_no_manager, known.is_ready)).unwrap_or_default();
    let is_unseen = facts.map_or(asks_no_manager && is_ready, is_unseen);
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
        (_, Some(false)) => match (lifecycle.filter(|lifecycle| !lifecycle.state.is_empty() && !is_unseen), facts) {
            (Some(lifecycle), _) => initialised(told, target, facts, &lifecycle),
            (None, Some(facts)) => by_object(told, target, facts),
            (None, None) if is_unseen => unseen(told, target),
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
        told.advice =
            vec!["nothing, if you deleted the machine; else correct the cloud before a host leads".to_owned()];
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

fn initialised(told: &mut Explanation, target: &Target, facts: Option<&NodeFacts>, lifecycle: &LifecycleExplanation) {
    let kubelet = || {
        facts.and_then(|facts| facts.ready.as_ref()).map_or("its kubelet says nothing", |(_, message)| message.as_str())
    };
    let answered = lifecycle.answered_seconds_ago.map(|ago| format!(", {} ago", about(ago))).unwrap_or_default();
    told.decision =
        lifecycle.answer.as_ref().map(|answer| format!("the cloud says of its machine: {answer}{answered}"));
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
                "if the machines exist, scale the host to zero replicas at once: the next Node is deleted as soon as the limit allows. If they are gone, wait, or restart with --confirm-node-deletions={}",
                told.object.trim_start_matches("node ")
            ));
        }
        (_, None, Some("absent")) => {
            told.is(
                Verdict::Wrong,
                "its machine is gone, as the cloud says; a second proof comes before it is deleted",
            );
            told.advise("nothing, if you deleted the machine; else correct the cloud at once");
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
        _ => {
            told.is(Verdict::Wrong, format!("it is initialised, and not Ready: {}", kubelet()));
            told.advise("look at the kubelet and the network of the machine");
        }
    }
    (told.next, told.next_seconds) = told_next(lifecycle.next);
}

/// Whether it is Ready, and nobody gave it what an initialised Node has.
fn is_unseen(facts: &NodeFacts) -> bool {
    facts.provider_id.is_none() && facts.ready.as_ref().is_some_and(|(status, _)| status == "True")
}

/// Whoever was asked has seen all Nodes.
fn unseen(told: &mut Explanation, target: &Target) {
    told.is(Verdict::Wrong, format!("it {}", kubelet::FOUND));
    told.advise(kubelet::fix(target.name()));
}

fn by_object(told: &mut Explanation, target: &Target, facts: &NodeFacts) {
    match (&facts.ready, &facts.provider_id) {
        _ if facts.is_deleting => told.is(Verdict::Wrong, "somebody deletes it: see its finalizers"),
        (Some((status, _)), Some(_)) if status == "True" => told.is(Verdict::Fine, READY),
        (Some((status, _)), None) if status == "True" && told.asked.is_some() && !told.is_dry_run() => {
            unseen(told, target);
        }
        (Some((status, _)), None) if status == "True" => {
            told.is(Verdict::Unknown, "it is Ready, and has neither a provider ID nor the uninitialized taint");
            told.advise("start its kubelet with --cloud-provider=external, if it is a machine of a cloud");
        }
        (ready, _) => {
            let why = ready.as_ref().map_or("its kubelet says nothing", |(_, message)| message.as_str());
            told.is(
                Verdict::Wrong,
                format!(
                    "it is initialised, and not Ready: {why}; what the cloud says of its machine, only the leader knows"
                ),
            );
            told.advise("look at the kubelet and the network of the machine");
        }
    }
}
