//! One component for one piece of work, from the first question to the record of what was done.
//!
//! While it is on probation, the proven one is asked too where the new one fails, or says that a machine is absent: that answer is given, and the
//! difference counts against the new one. Of a Node without a provider ID it is asked what is found, too: the ID is written once and for ever,
//! so both must say the same one. Work on the whole cluster is compared only where the new one fails: the witness then does it at once,
//! unless the new one gave no answer after it had begun to change the cloud. What load balancers need beyond that is in [`super::balancers`].

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_cloud::{
    CallFuture, Cluster, Descriptor, Failure, FindError, Finding, Instance, Instances, LoadBalancers, Need, Node,
    Reaction, Service,
};

use super::probation::Probation;
use super::{Serving, Slot};
use crate::component::{Component, Reconciled};

const FIND: &str = "instances.find";
const RECONCILE: &str = "cluster.reconcile";
/// Why a Node waits whose machine the two do not agree about.
const APART: &str = "the new provider, which is on probation, has another configuration than the last good one, and they do not say the same of this machine";

/// The component that served when a piece of work began. Should it fail its probation meanwhile, it is asked nothing more: calls fail with
/// [`Reaction::Retry`], and the work begins anew with the one that returned.
pub struct Handle<C> {
    pub(super) slot: Slot<C>,
    pub(super) serving: Arc<Serving<C>>,
}

impl<C: Component> Handle<C> {
    /// What answers.
    pub(super) fn provider(&self) -> &C {
        &self.serving.release.component
    }

    pub(super) fn probation(&self) -> Option<&Probation<C>> {
        self.serving.probation.as_ref()
    }

    /// A call has ended.
    pub(super) fn judge(&self) {
        self.slot.judge(&self.serving);
    }

    /// What is answered in place of a component that is not to change anything any more.
    pub(super) fn if_taken_back(&self) -> Option<Failure> {
        self.serving.is_taken_back.is_cancelled().then(|| self.taken_back())
    }

    pub(super) fn taken_back(&self) -> Failure {
        let version = &self.serving.release.version;
        Failure::new(
            Reaction::Retry,
            format!("{version} was rolled back during this work; the last good one takes over"),
        )
    }

    /// The answer to `work`, which changes nothing; none when the component fails its probation meanwhile: questions that hang on it would
    /// hang for as long as they may, one after the other.
    pub(super) fn unless_taken_back<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        self.serving.is_taken_back.run_until_cancelled(work)
    }
}

/// Whether a failure can be the component's fault.
pub(super) const fn is_suspect(failure: &Failure) -> bool {
    matches!(
        failure.reaction,
        Reaction::Retry | Reaction::Invalid | Reaction::Unsupported | Reaction::Unauthorized | Reaction::Elsewhere
    )
}

/// The failure of a question that the witness cannot answer; `why` says what the new one answers. How long to wait is told; that an object were
/// wrong, or nobody's, is not for the witness to say.
pub(super) fn undecided(why: &str, failure: Failure) -> Failure {
    let reaction = match failure.reaction {
        told @ (Reaction::Throttled | Reaction::Unauthorized | Reaction::Pending) => told,
        _ => Reaction::Retry,
    };
    Failure { reaction, message: format!("{why}: {}", failure.message), ..failure }
}

/// Whether there is sense in asking another component: a cloud that asks for a pause gets it.
pub(super) const fn may_be_known(failure: &Failure) -> bool {
    !matches!(failure.reaction, Reaction::Throttled)
}

impl<C: Component> Instances for Slot<C> {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let handle = self.handle();
        let Some(probation) = handle.probation() else { return handle.provider().find(nodes, need).await };
        let witness = &probation.witness;
        let answer = handle.unless_taken_back(handle.provider().find(nodes.clone(), need)).await;
        let Some(answer) = answer else { return witness.find(nodes, need).await };
        let answer = match answer {
            Ok(findings) => Ok(confirmed(findings, nodes, need, handle.provider(), probation).await),
            Err(FindError::Failed(failure)) if !may_be_known(&failure) => Err(failure.into()),
            Err(error) => match witness.find(nodes.clone(), need).await {
                Ok(known) => {
                    // It may know that from before, and the cloud be away.
                    witness.forget();
                    let mut known = match witness.find(nodes.clone(), need).await {
                        Ok(findings) if findings.iter().any(is_settled) => {
                            probation.differs(FIND, &error.to_string());
                            findings
                        }
                        _ => known,
                    };
                    if probation.is_apart {
                        probation.wait_for_ids(&without_ids(&mut known, &nodes, &error));
                    }
                    probation.wait_no_more(answered(&known, &nodes));
                    Ok(known)
                }
                Err(_) => Err(error),
            },
        };
        handle.judge();
        answer
    }
}

const fn is_settled(finding: &Finding) -> bool {
    !matches!(finding, Finding::Unknown(_))
}

/// Whether the witness may know more.
fn is_doubtful(finding: &Finding) -> bool {
    match finding {
        Finding::Found(_) => false,
        Finding::Absent => true,
        Finding::Unknown(failure) => may_be_known(failure),
    }
}

/// Whether the Node gets its provider ID from this.
const fn gives_id(finding: &Finding, node: &Node) -> bool {
    matches!(finding, Finding::Found(_)) && node.provider_id.is_none()
}

/// What the witness finds where the new one fails, and the two are apart: no Node gets its provider ID from that. Returns the names of those
/// that wait for it.
fn without_ids<'a>(findings: &mut [Finding], nodes: &'a [Node], why: &impl Display) -> Vec<&'a str> {
    let mut waiting = Vec::new();
    for (finding, node) in findings.iter_mut().zip(nodes).filter(|(finding, node)| gives_id(finding, node)) {
        *finding = Finding::Unknown(at_odds(Some(why)));
        waiting.push(node.name.as_str());
    }
    waiting
}

/// The names of the Nodes that need no provider ID, or get the answer to that from these findings.
fn answered<'a>(findings: &'a [Finding], nodes: &'a [Node]) -> impl Iterator<Item = &'a str> {
    let known = findings.iter().zip(nodes).filter(|(finding, node)| node.provider_id.is_some() || is_settled(finding));
    known.map(|(_, node)| node.name.as_str())
}

/// Why a Node waits for its provider ID while the two are apart. `why`: what the new one failed with.
fn at_odds(why: Option<&impl Display>) -> Failure {
    Failure::new(Reaction::Retry, why.map_or_else(|| APART.to_owned(), |why| format!("{APART}: {why}")))
}

/// Whether machines have one ID with both. Not where the operator lets another provider take over.
fn is_one_provider<C: Component>(new: &C, witness: &C) -> bool {
    let (new, witness) = (LoadBalancers::descriptor(new), LoadBalancers::descriptor(witness));
    new.provider_id_schemes.first() == witness.provider_id_schemes.first()
}

/// Whether the witness finds what the new one does not, or another machine.
fn contradicts(finding: &Finding, known: &Finding) -> bool {
    match (finding, known) {
        (Finding::Found(new), Finding::Found(known)) => {
            !known.provider_id.is_empty() && new.provider_id != known.provider_id
        }
        (_, Finding::Found(_)) => true,
        _ => false,
    }
}

/// Why the Node does not get the ID of this machine yet; none where the witness says the same one.
fn unconfirmed(new: &Instance, known: Finding) -> Option<Failure> {
    let said = match known {
        Finding::Found(known) if known.provider_id == new.provider_id => return None,
        Finding::Found(_) => Failure::new(Reaction::Retry, "it gives no provider ID"),
        Finding::Absent => Failure::new(Reaction::Retry, "it does not find the machine"),
        Finding::Unknown(failure) => failure,
    };
    let why = format!(
        "the new provider, which is on probation, says that the machine is {:?}, and the last good one does not confirm that",
        new.provider_id
    );
    Some(undecided(&why, said))
}

/// Findings of a new component, with the word of the witness for machines that the new one does not find, or that give a Node its ID.
async fn confirmed<C: Component>(
    mut findings: Vec<Finding>,
    nodes: Vec<Node>,
    need: Need,
    new: &C,
    probation: &Probation<C>,
) -> Vec<Finding> {
    let has_ids = is_one_provider(new, &*probation.witness);
    let is_asked = |(finding, node): (&Finding, &Node)| is_doubtful(finding) || (has_ids && gives_id(finding, node));
    let places = findings.iter().zip(&nodes).enumerate().filter(|(_, one)| is_asked(*one));
    let doubtful: Vec<usize> = places.map(|(at, _)| at).collect();
    if doubtful.is_empty() {
        probation.wait_no_more(answered(&findings, &nodes));
        if findings.iter().any(is_settled) {
            probation.answers_well();
        }
        return findings;
    }
    let asked: Vec<Node> = doubtful.iter().filter_map(|at| nodes.get(*at).cloned()).collect();
    let ask = || async {
        let known = probation.witness.find(asked.clone(), need).await;
        known.unwrap_or_else(|error| vec![Finding::Unknown(error.into_failure()); doubtful.len()])
    };
    let is_at_odds = |(at, known): (&usize, &Finding)| findings.get(*at).is_some_and(|new| contradicts(new, known));
    let known = probation.witnessed(ask, |known| doubtful.iter().zip(known).any(is_at_odds)).await;
    let (mut differs, mut denied) = (None, false);
    // Nodes that wait for their IDs, and those that the witness has an answer about.
    let (mut waiting, mut heard) = (Vec::new(), Vec::new());
    for (at, known) in doubtful.into_iter().zip(known) {
        let (Some(finding), Some(node)) = (findings.get_mut(at), nodes.get(at)) else { continue };
        let name = node.name.as_str();
        if contradicts(finding, &known) {
            differs = Some(match (&*finding, &known) {
                (Finding::Found(new), Finding::Found(known)) => format!(
                    "it says that the machine of Node {name} is {:?}, the last good one says {:?}",
                    new.provider_id, known.provider_id
                ),
                (Finding::Unknown(failure), _) => format!("Node {name}: {failure}"),
                _ => format!("it does not find the machine of Node {name}"),
            });
            // The witness may look with a configuration of before, and the ID would stay.
            *finding = if probation.is_apart && node.provider_id.is_none() {
                waiting.push(name);
                let why = if let Finding::Unknown(failure) = &*finding { Some(failure) } else { None };
                Finding::Unknown(at_odds(why))
            } else {
                known
            };
            continue;
        }
        let is_found = matches!(&*finding, Finding::Found(_));
        if is_settled(&known) {
            heard.push(name);
            // What the witness does not find may be what the new one repairs: it does not have to be confirmed to prove itself.
            denied |= is_found;
        } else if is_found {
            waiting.push(name);
        }
        let instead = match (&*finding, known) {
            (Finding::Absent, Finding::Unknown(failure)) => {
                let message = format!(
                    "the new provider, which is on probation, says that the machine does not exist, and the last good one cannot tell: {failure}"
                );
                Some(Failure { message, ..failure })
            }
            (Finding::Found(new), known) => unconfirmed(new, known),
            _ => None,
        };
        if let Some(failure) = instead {
            *finding = Finding::Unknown(failure);
        }
    }
    let has_waited = probation.wait_for_ids(&waiting);
    probation.wait_no_more(answered(&findings, &nodes).chain(heard));
    if let Some(what) = differs {
        probation.differs(FIND, &what);
    } else if denied || has_waited || findings.iter().any(is_settled) {
        probation.answers_well();
    }
    findings
}

impl<C: Component> Cluster for Slot<C> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.component())
    }

    fn reconcile(&self, nodes: Vec<Node>, services: Vec<Service>) -> CallFuture<'_, Reconciled> {
        Box::pin(async move {
            let handle = self.handle();
            let Some(probation) = handle.probation() else { return handle.provider().reconcile(nodes, services).await };
            if let Some(failure) = handle.if_taken_back() {
                return Err(failure);
            }
            let left = probation.half_done.lock().take();
            if let Some(fault) = left {
                // Only now: what was sent may not have shown before. In an outage neither of them does it.
                let known = probation.witness.reconcile(nodes, services).await;
                if is_answered(&known) && faults(&known) == 0 {
                    probation.differs(RECONCILE, &fault);
                }
                handle.judge();
                return known;
            }
            let (new, half_done) = (handle.provider(), Arc::new(AtomicBool::new(false)));
            let crashes = new.crashes().count;
            let answer = new.reconcile_noting(nodes.clone(), services.clone(), Arc::clone(&half_done)).await;
            let answer = if faults(&answer) == 0 {
                if answer.as_ref().is_ok_and(Vec::is_empty) {
                    probation.answers_well();
                }
                answer
            } else if half_done.load(Ordering::Relaxed) {
                // What it sent may not show yet: who began anew at once would do it a second time. A crash counts by itself.
                if new.crashes().count == crashes {
                    *probation.half_done.lock() = Some(first_fault(&answer));
                }
                answer
            } else {
                // The work is idempotent: the witness would do it again if it came back.
                let known = probation.witness.reconcile(nodes, services).await;
                if is_answered(&known) && faults(&known) < faults(&answer) {
                    probation.differs(RECONCILE, &first_fault(&answer));
                    known
                } else {
                    answer
                }
            };
            handle.judge();
            answer
        })
    }
}

/// Whether the witness has an answer: a failure of the whole call is none, and neither is a pause that the cloud asks for.
fn is_answered(known: &Reconciled) -> bool {
    known.as_ref().is_ok_and(|failures| failures.iter().all(|(_, failure)| may_be_known(failure)))
}

/// Failures that can be the component's fault. One of the whole call is more than any number of single ones.
fn faults(answer: &Reconciled) -> usize {
    match answer {
        Ok(failures) => failures.iter().filter(|(_, failure)| is_suspect(failure)).count(),
        Err(failure) if is_suspect(failure) => usize::MAX,
        Err(_) => 0,
    }
}

fn first_fault(answer: &Reconciled) -> String {
    let first = match answer {
        Ok(failures) => failures.iter().map(|(_, failure)| failure).find(|failure| is_suspect(failure)),
        Err(failure) => Some(failure),
    };
    first.map(ToString::to_string).unwrap_or_default()
}
