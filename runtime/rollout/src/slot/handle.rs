//! One component for one piece of work, from the first question to the record of what was done.
//!
//! While it is on probation, the proven one is asked too where the new one fails, or says that a machine is absent: that answer is given, and the
//! difference counts against the new one. Of a Node without a provider ID it is asked what is found, too: the ID is written once and for ever,
//! so both must say the same one. Work on the whole cluster is compared only where the new one fails: the witness then does it at once,
//! unless the new one gave no answer after it had begun to change the cloud. What load balancers need beyond that is in [`super::balancers`].

use std::pin::pin;
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
        self.serving.is_taken_back.borrow().then(|| self.taken_back())
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
    pub(super) async fn unless_taken_back<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut taken_back = self.serving.is_taken_back.subscribe();
        if *taken_back.borrow_and_update() {
            return None;
        }
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            // An error means that nobody can fail any more, which `serving` prevents.
            _ = taken_back.wait_for(|is_taken_back| *is_taken_back) => None,
        }
    }
}

/// Whether a failure can be the component's fault.
pub(super) const fn is_suspect(failure: &Failure) -> bool {
    matches!(
        failure.reaction,
        Reaction::Retry | Reaction::Invalid | Reaction::Unsupported | Reaction::Unauthorized | Reaction::Elsewhere
    )
}

/// How a question is put again that the witness cannot answer: others are told how long to wait; that an object were wrong, or nobody's, is not
/// for the witness to say.
pub(super) const fn again(reaction: Reaction) -> Reaction {
    match reaction {
        told @ (Reaction::Throttled | Reaction::Unauthorized | Reaction::Pending) => told,
        _ => Reaction::Retry,
    }
}

/// Whether there is sense in asking another component: a cloud that asks for a pause gets it.
const fn may_be_known(failure: &Failure) -> bool {
    !matches!(failure.reaction, Reaction::Throttled)
}

impl<C: Component> Instances for Slot<C> {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        self.handle().find(nodes, need).await
    }
}

impl<C: Component> Instances for Handle<C> {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let Some(probation) = self.probation() else { return self.provider().find(nodes, need).await };
        let witness = &probation.witness;
        let answer = self.unless_taken_back(self.provider().find(nodes.clone(), need)).await;
        let Some(answer) = answer else { return witness.find(nodes, need).await };
        let answer = match answer {
            Ok(findings) => Ok(confirmed(findings, nodes, need, self.provider(), probation).await),
            Err(FindError::Failed(failure)) if !may_be_known(&failure) => Err(failure.into()),
            Err(error) => match witness.find(nodes.clone(), need).await {
                Ok(known) => {
                    // It may know that from before, and the cloud be away.
                    witness.forget();
                    match witness.find(nodes, need).await {
                        Ok(findings) if findings.iter().any(is_settled) => {
                            probation.differs(FIND, &error.to_string());
                            Ok(findings)
                        }
                        _ => Ok(known),
                    }
                }
                Err(_) => Err(error),
            },
        };
        self.judge();
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
    let message = format!(
        "the new provider, which is on probation, says that the machine is {:?}, and the last good one does not confirm that: {}",
        new.provider_id, said.message
    );
    Some(Failure { reaction: again(said.reaction), message, ..said })
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
    // What the witness does not know may be what the new one repairs: it does not have to be confirmed to prove itself.
    let finds = findings.iter().any(|finding| matches!(finding, Finding::Found(_)));
    let mut differs = None;
    for (at, known) in doubtful.into_iter().zip(known) {
        let Some(finding) = findings.get_mut(at) else { continue };
        let name = nodes.get(at).map(|node| node.name.as_str()).unwrap_or_default();
        if contradicts(finding, &known) {
            differs = Some(match (&*finding, &known) {
                (Finding::Found(new), Finding::Found(known)) => format!(
                    "it says that the machine of Node {name} is {:?}, the last good one says {:?}",
                    new.provider_id, known.provider_id
                ),
                (Finding::Unknown(failure), _) => format!("Node {name}: {failure}"),
                _ => format!("it does not find the machine of Node {name}"),
            });
            *finding = known;
            continue;
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
    if let Some(what) = differs {
        probation.differs(FIND, &what);
    } else if finds || findings.iter().any(is_settled) {
        probation.answers_well();
    }
    findings
}

impl<C: Component> Cluster for Slot<C> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.component())
    }

    fn reconcile(&self, nodes: Vec<Node>, services: Vec<Service>) -> CallFuture<'_, Reconciled> {
        Box::pin(async move { self.handle().reconcile(nodes, services).await })
    }
}

impl<C: Component> Handle<C> {
    async fn reconcile(&self, nodes: Vec<Node>, services: Vec<Service>) -> Reconciled {
        let Some(probation) = self.probation() else { return self.provider().reconcile(nodes, services).await };
        if let Some(failure) = self.if_taken_back() {
            return Err(failure);
        }
        if let Some(fault) = probation.take_half_done() {
            // Only now: what was sent may not have shown before. In an outage neither of them does it.
            let known = probation.witness.reconcile(nodes, services).await;
            if faults(&known) == 0 {
                probation.differs(RECONCILE, &fault);
            }
            self.judge();
            return known;
        }
        let half_done = Arc::new(AtomicBool::new(false));
        let crashes = self.provider().crashes().count;
        let work = self.provider().reconcile_noting(nodes.clone(), services.clone(), Arc::clone(&half_done));
        let answer = work.await;
        let answer = if faults(&answer) == 0 {
            if answer.as_ref().is_ok_and(Vec::is_empty) {
                probation.answers_well();
            }
            answer
        } else if half_done.load(Ordering::Relaxed) {
            // What it sent may not show yet: who began anew at once would do it a second time. A crash counts by itself.
            if self.provider().crashes().count == crashes {
                probation.keep_half_done(first_fault(&answer));
            }
            answer
        } else {
            // The work is idempotent: the witness would do it again if it came back.
            let known = probation.witness.reconcile(nodes, services).await;
            if faults(&known) < faults(&answer) {
                probation.differs(RECONCILE, &first_fault(&answer));
                known
            } else {
                answer
            }
        };
        self.judge();
        answer
    }
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
