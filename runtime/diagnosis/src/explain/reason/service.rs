//! A Service.

use ccm_cloud::Reaction;
use ccm_controllers::{Next, ServiceExplanation, reaction_of};

use super::super::advice::{self, Known, Speaker};
use super::super::target::Target;
use super::{Explanation, Failure, about};
use crate::ask::objects::{Object, ServiceFacts};
use crate::verdict::Verdict;

pub(super) fn explain(told: &mut Explanation, target: &Target, object: &Object, answer: Option<ServiceExplanation>) {
    let facts = match object {
        Object::Service(facts) => Some(facts),
        _ => None,
    };
    let seen = facts.map(|facts| facts.uid.as_str()).unwrap_or_default();
    told.class = facts.and_then(|facts| facts.class.clone());
    match answer {
        Some(known) if !told.is_behind(known.uid.as_deref(), seen) && known.uid.is_some() => {
            // One that went by force is still wanted, as far as the leader remembers it.
            let is_going = matches!(object, Object::Missing) || facts.is_some_and(ServiceFacts::is_going);
            by_leader(told, target, known, facts, is_going);
        }
        None if told.asked.is_some() => {
            told.is_without(
                "no service controller runs there: --controllers leaves it out, or no provider offers load balancers",
            );
            by_object(told, target, facts);
        }
        _ => by_object(told, target, facts),
    }
}

fn by_leader(
    told: &mut Explanation,
    target: &Target,
    known: ServiceExplanation,
    facts: Option<&ServiceFacts>,
    is_going: bool,
) {
    let addresses = facts.map(|facts| facts.addresses.join(", ")).filter(|addresses| !addresses.is_empty());
    told.provider = known.provider.clone();
    told.class = known.class.clone().or(told.class.take());
    told.decision =
        known.decision.map(|decision| format!("{} (decided {} ago)", decision.text, about(decision.seconds_ago)));
    told.planned(known.next);
    if let (Next::Running(_), Some(waits)) = (known.next, known.waits_for_turn_seconds) {
        told.next = Some(format!("waiting for its turn for {}", about(waits)));
    }
    match (known.last_try, known.not_ready) {
        (Some(last), _) if last.reaction == "elsewhere" => {
            told.is(Verdict::Fine, "its provider says that another manager takes care of it");
            told.failed(last, target);
        }
        (Some(last), _) => {
            let what = match (last.reaction.as_str(), is_going) {
                ("pending", _) => "the cloud is at work on its load balancer",
                (_, true) => "its load balancer could not be deleted",
                _ => "its load balancer could not be made or changed",
            };
            told.is(Verdict::Wrong, what);
            told.failed(last, target);
        }
        (None, _) if known.provider.is_none() && known.is_wanted && !is_going => match addresses {
            Some(addresses) => told.is(Verdict::Fine, format!("another manager serves it, at {addresses}")),
            None => {
                told.is(Verdict::Unknown, foreign(told.class.as_deref()));
                told.advise("see whether the manager of its class runs, or set spec.loadBalancerClass to a class that a provider here serves (--load-balancer-class)");
            }
        },
        (None, Some(reason)) => {
            told.is(Verdict::Wrong, format!("its load balancer is not as it should be ({reason})"));
            let known = Known { speaker: Speaker::Leader, request: None, tries: 0, target };
            told.advice.extend(reaction_of(&reason).and_then(|reaction| advice::of(reaction.as_str(), known)));
            if reason == "Stranded" {
                told.advise("let a provider serve its class again, or give the load balancer up (docs/guides/load-balancers.md#stranded)");
            }
        }
        (None, None) if is_going => {
            told.is(Verdict::Wrong, "its load balancer is being deleted");
            told.advise("wait: it is being worked on");
        }
        (None, None) if !known.is_wanted => told.is(Verdict::Fine, "it wants no load balancer"),
        (None, None) => match (addresses, facts) {
            (Some(addresses), _) => told.is(Verdict::Fine, format!("it has {addresses}")),
            (None, None) => {
                told.is(Verdict::Unknown, "nothing has failed; whether it has an address, only the API server knows");
            }
            (None, Some(_)) => {
                told.is(Verdict::Wrong, "it has no address yet, and nothing has failed");
                told.advise(match known.next {
                    Next::Unknown | Next::OnChange => "ask again in some seconds; if it stays, please report it",
                    _ => "wait: it is being worked on",
                });
            }
        },
    }
}

/// Why nobody here serves it.
fn foreign(class: Option<&str>) -> String {
    match class {
        Some(class) => format!("no provider here serves the class {class:?}: another manager's, if there is one"),
        None => "no provider here serves Services without a class".to_owned(),
    }
}

fn by_object(told: &mut Explanation, target: &Target, facts: Option<&ServiceFacts>) {
    let Some(facts) = facts else {
        return told.is(Verdict::Unknown, "neither the leader nor the API server says anything of it");
    };
    let addresses = facts.addresses.join(", ");
    if facts.needs_cleanup {
        if !facts.is_known_here {
            told.is(
                Verdict::Unknown,
                "it waits for the finalizer that all cloud controller managers use, and nothing on it says that wasm-ccm has worked on it",
            );
            return told.advise("see whether the manager that made its load balancer runs");
        }
        let why = if facts.is_deleting { "it is being deleted" } else { "it is not of the type LoadBalancer any more" };
        told.is(Verdict::Wrong, format!("{why}, and its load balancer is not gone yet"));
        return told
            .advise("see that a host of wasm-ccm leads: only it takes the finalizer away (docs/guides/remove.md)");
    }
    match &facts.ready {
        _ if !facts.is_load_balancer => told.is(Verdict::Fine, "it is not of the type LoadBalancer"),
        Some((status, _, _)) if status == "True" && !addresses.is_empty() => {
            told.is(Verdict::Fine, format!("it has {addresses}, as its condition says"));
        }
        Some((status, reason, message)) if status == "False" => {
            told.is(Verdict::Wrong, format!("its condition LoadBalancerReady says {reason}"));
            let reaction = reaction_of(reason).map(Reaction::as_str);
            let known = Known { speaker: told.speaker(), request: None, tries: 0, target };
            told.advice.extend(reaction.and_then(|reaction| advice::of(reaction, known)));
            // A reaction is what the host does, and that takes one.
            let reaction = reaction.filter(|_| known.speaker != Speaker::ObjectAlone).map(ToOwned::to_owned);
            told.failure = Some(Failure { message: message.clone(), reaction, ..Failure::default() });
            told.is_planned_by_the_leader();
        }
        _ if !addresses.is_empty() => {
            told.is(Verdict::Fine, format!("it has {addresses}; who serves it, it does not say"))
        }
        _ => told.is(
            Verdict::Unknown,
            "it has no address, and says nothing of why: no host has worked on it, or its class is another manager's",
        ),
    }
}
