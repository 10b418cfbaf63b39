//! The traits of `ccm-cloud`, answered by the provider of the moment.
//!
//! While that is on probation, a question that changes nothing and that it cannot answer goes to the last good one too: its
//! answer is given, and the difference counts against the new one.

use std::pin::pin;
use std::sync::Arc;

use ccm_cloud::{
    Answer, Backend, Cluster, ClusterSubject, Descriptor, Failure, FindError, Finding, Ingress, Instances,
    LoadBalancers, Mark, Need, Node, Outcome, Problem, Reaction, Service, Standing, Wish,
};

use super::probation::Probation;
use super::{Serving, Slot};
use crate::call::ChangeFlag;
use crate::load_balancers::{Extent, no_answer, unanswered_deletion};
use crate::{CallError, Provider};

impl Serving {
    /// The probation, and who served before.
    fn witness(&self) -> Option<(&Probation, &Arc<Provider>)> {
        let probation = self.probation.as_ref()?;
        Some((probation, &probation.last_good.as_ref()?.provider))
    }
}

impl Instances for Slot {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let serving = self.asked();
        let Some((probation, good)) = serving.witness() else {
            let answer = serving.provider.find(nodes, need).await;
            self.judge(&serving);
            return answer;
        };
        let answer =
            Self::unless_failed(&serving, &ChangeFlag::default(), serving.provider.find(nodes.clone(), need)).await;
        let Some(answer) = answer else { return good.find(nodes, need).await };
        let answer = match answer {
            Ok(findings) => Ok(confirmed(findings, nodes, need, probation, good).await),
            Err(FindError::Failed(failure)) if !may_be_known(&failure) => Err(failure.into()),
            Err(error) => match good.find(nodes, need).await {
                Ok(findings) => {
                    probation.differs("instances.find", &error.to_string());
                    Ok(findings)
                }
                Err(_) => Err(error),
            },
        };
        self.judge(&serving);
        answer
    }
}

/// Whether another provider may know more.
fn is_doubtful(finding: &Finding) -> bool {
    match finding {
        Finding::Found(_) => false,
        Finding::Absent => true,
        Finding::Unknown(failure) => may_be_known(failure),
    }
}

/// Whether there is sense in asking another provider: a cloud that asks for a pause gets it.
const fn may_be_known(failure: &Failure) -> bool {
    !matches!(failure.reaction, Reaction::Throttled)
}

/// Findings of a new provider, with the word of the last good one for machines that the new one does not find.
async fn confirmed(
    mut findings: Vec<Finding>,
    nodes: Vec<Node>,
    need: Need,
    probation: &Probation,
    good: &Arc<Provider>,
) -> Vec<Finding> {
    let doubtful: Vec<usize> =
        findings.iter().enumerate().filter(|(_, finding)| is_doubtful(finding)).map(|(at, _)| at).collect();
    if doubtful.is_empty() {
        return findings;
    }
    let asked = doubtful.iter().filter_map(|at| nodes.get(*at).cloned()).collect();
    let known = match good.find(asked, need).await {
        Ok(known) => known,
        Err(error) => vec![Finding::Unknown(error.into_failure()); doubtful.len()],
    };
    let mut differs = None;
    for (at, known) in doubtful.into_iter().zip(known) {
        let Some(finding) = findings.get_mut(at) else { continue };
        match (&*finding, known) {
            (doubtful, Finding::Found(instance)) => {
                let name = nodes.get(at).map(|node| node.name.as_str()).unwrap_or_default();
                differs = Some(match doubtful {
                    Finding::Unknown(failure) => format!("Node {name}: {failure}"),
                    _ => format!("it does not find the machine of Node {name}"),
                });
                *finding = Finding::Found(instance);
            }
            (Finding::Absent, Finding::Unknown(failure)) => {
                let text = format!(
                    "the new provider, which is on probation, says that the machine does not exist, and the last good one cannot tell: {failure}"
                );
                *finding = Finding::Unknown(Failure { message: text, ..failure });
            }
            _ => {}
        }
    }
    if let Some(what) = differs {
        probation.differs("instances.find", &what);
    }
    findings
}

/// Whether a failure can be the provider's fault.
const fn is_suspect(failure: &Failure) -> bool {
    matches!(
        failure.reaction,
        Reaction::Retry | Reaction::Invalid | Reaction::Unsupported | Reaction::Unauthorized | Reaction::Elsewhere
    )
}

impl Slot {
    /// What `work` gives; none when its provider failed its probation meanwhile: calls that hang on it would hang for as long
    /// as they may, one after the other. One that has begun to change the cloud goes on all the same: what it has sent cannot
    /// be taken back, and who does it again at once may not see it yet.
    async fn unless_failed<T>(serving: &Serving, changes: &ChangeFlag, work: impl Future<Output = T>) -> Option<T> {
        if serving.witness().is_none() {
            return Some(work.await);
        }
        let mut work = pin!(work);
        let mut failed = serving.failed.subscribe();
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            // An error means that nobody can fail any more, which `serving` prevents.
            _ = failed.wait_for(|failed| *failed) => {}
        }
        if changes.is_set() { Some(work.await) } else { None }
    }

    /// The answer to a question that changes nothing.
    async fn ask<'a, T: Send + 'a>(
        &'a self,
        function: &'static str,
        question: impl for<'p> Fn(&'p Provider) -> Answer<'p, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Result<T, Failure> {
        let serving = self.asked();
        let answer = Self::unless_failed(&serving, &ChangeFlag::default(), question(&serving.provider)).await;
        let mut answer = match (answer, serving.witness()) {
            (Some(answer), _) => answer,
            (None, Some((_, good))) => return question(good).await,
            // Not reached: nobody returns where there was nobody.
            (None, None) => question(&serving.provider).await,
        };
        if let Err(failure) = &answer
            && is_suspect(failure)
            && let Some((probation, good)) = serving.witness()
            && let Ok(known) = question(good).await
        {
            probation.differs(function, &failure.to_string());
            answer = Ok(known);
        }
        self.judge(&serving);
        answer
    }

    /// Brings a load balancer to what its Service asks for.
    ///
    /// Where a new provider crashes before it has sent anything that changes the cloud, the last good one does it. What was sent
    /// may not show yet: who began anew at once would make a second one, so the Service is tried again later.
    /// Whether that one would have failed as well where the new one fails cannot be tried; but it has made this load balancer,
    /// finds nothing wrong with the Service, and still sees it.
    async fn bring(&self, extent: Extent, service: Service, backends: Arc<[Backend]>) -> Outcome {
        let serving = self.asked();
        let changes = ChangeFlag::default();
        let attempt = serving.provider.attempt(extent, service.clone(), Arc::clone(&backends), &changes);
        let attempt = Self::unless_failed(&serving, &changes, attempt).await;
        let witness = serving.witness();
        let Some(attempt) = attempt else {
            return self.provider().bring(extent, service, backends).await;
        };
        let outcome = match (attempt, witness) {
            (Ok(outcome), _) => outcome,
            // It has had all the time that a call has.
            (Err(error), None) | (Err(error @ CallError::OutOfTime(_)), _) => {
                Outcome::failed(no_answer(extent.function())(error))
            }
            (Err(error), Some(_)) if changes.is_set() => Outcome::failed(no_answer(extent.function())(error)),
            (Err(_), Some((_, good))) => {
                self.judge(&serving);
                return good.bring(extent, service, backends).await;
            }
        };
        if let Some(failure) = outcome.failure.as_ref().filter(|failure| is_suspect(failure))
            && !service.ingress.is_empty()
            && let Some((probation, good)) = witness
            && good.validate(service.clone(), None, false).await.is_ok_and(|problems| problems.iter().all(|p| !p.fatal))
            && matches!(good.get(service).await, Ok(Some(_)))
        {
            probation.differs(extent.function(), &failure.to_string());
        }
        self.judge(&serving);
        outcome
    }
}

impl LoadBalancers for Slot {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(&*self.provider())
    }

    fn configuration(&self) -> String {
        self.provider().configuration()
    }

    fn name(&self, service: Service) -> Answer<'_, Result<String, Failure>> {
        Box::pin(self.ask("load-balancers.name", move |provider| provider.name(service.clone())))
    }

    fn locks(&self, service: Service) -> Answer<'_, Result<Vec<String>, Failure>> {
        Box::pin(self.ask("load-balancers.locks", move |provider| provider.locks(service.clone())))
    }

    fn get(&self, service: Service) -> Answer<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            let answer = self.ask("load-balancers.get", |provider| provider.get(service.clone())).await;
            let serving = self.serving();
            let (Ok(None), Some((probation, good))) = (&answer, serving.witness()) else { return answer };
            match good.get(service).await {
                Ok(Some(known)) => {
                    probation.differs("load-balancers.get", "it does not find the load balancer");
                    self.judge(&serving);
                    Ok(Some(known))
                }
                Err(failure) if failure.reaction != Reaction::Unsupported => Err(undecided(failure)),
                // It never had to do with load balancers.
                Ok(None) | Err(_) => answer,
            }
        })
    }

    fn get_mark(&self, service: Service) -> Answer<'_, Result<Option<Mark>, Failure>> {
        Box::pin(self.ask("load-balancers.get-mark", move |provider| provider.get_mark(service.clone())))
    }

    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> Answer<'_, Outcome> {
        Box::pin(self.bring(Extent::Everything, service, backends))
    }

    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> Answer<'_, Outcome> {
        Box::pin(self.bring(Extent::Backends, service, backends))
    }

    fn delete(&self, service: Service) -> Answer<'_, Outcome> {
        Box::pin(async move {
            let serving = self.asked();
            if let Some((probation, _)) = serving.witness() {
                let left = probation.time_left();
                if !left.is_zero() {
                    probation.delays_deletion(&service);
                    let text = "nothing is deleted while a new provider is on probation";
                    let failure = Failure { retry_after: Some(left), ..Failure::new(Reaction::Pending, text) };
                    return Outcome::failed(failure);
                }
            }
            let answer = serving.provider.take_away(service.clone()).await;
            if let (Ok(_), Some(probation)) = (&answer, &serving.probation) {
                probation.answered_deletion(&service.uid);
            }
            let mut outcome = answer.unwrap_or_else(unanswered_deletion);
            if let Some((probation, good)) = serving.witness()
                && outcome.failure.is_none()
            {
                outcome.failure = still_there(after(service, &outcome), probation, good).await;
            }
            self.judge(&serving);
            outcome
        })
    }

    fn orphan(&self, service: Service) -> Answer<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            let serving = self.asked();
            let answer = serving.provider.orphan(service).await;
            self.judge(&serving);
            answer
        })
    }

    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> Answer<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(
            self.ask("load-balancers.validate", move |provider| {
                provider.validate(service.clone(), before.clone(), online)
            }),
        )
    }

    fn selects_nodes(&self) -> bool {
        self.provider().selects_nodes()
    }

    fn surveys(&self) -> bool {
        self.provider().surveys()
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> Answer<'_, Result<Vec<Standing>, Failure>> {
        Box::pin(async move {
            let provider = self.provider();
            if !provider.surveys() {
                // Exchanged since somebody asked for it: not to have one is no fault.
                return provider.survey(backends, wishes).await;
            }
            let standings = self
                .ask("load-balancer-survey.survey", |provider| provider.survey(Arc::clone(&backends), wishes.clone()))
                .await?;
            let serving = self.serving();
            let Some((probation, good)) = serving.witness() else { return Ok(standings) };
            let standings = looked_for(standings, wishes, backends, probation, good).await;
            self.judge(&serving);
            Ok(standings)
        })
    }
}

/// Standings of a new provider, with the word of the last good one for load balancers that the new one does not find.
async fn looked_for(
    mut standings: Vec<Standing>,
    wishes: Vec<Wish>,
    backends: Arc<[Backend]>,
    probation: &Probation,
    good: &Provider,
) -> Vec<Standing> {
    let missing = standings.iter().enumerate().filter(|(_, standing)| **standing == Standing::Missing);
    let places: Vec<usize> = missing.map(|(at, _)| at).collect();
    if places.is_empty() {
        return standings;
    }
    let wishes = places.iter().filter_map(|at| wishes.get(*at).cloned()).collect();
    let known = good.survey(backends, wishes).await;
    let known = known.unwrap_or_else(|failure| vec![Standing::Unknown(failure); places.len()]);
    let mut differs = false;
    for (at, known) in places.into_iter().zip(known) {
        let Some(standing) = standings.get_mut(at) else { continue };
        *standing = match known {
            Standing::Unknown(failure) => Standing::Unknown(undecided(failure)),
            known => {
                differs |= known != Standing::Missing;
                known
            }
        };
    }
    if differs {
        probation.differs("load-balancer-survey.survey", "it does not find a load balancer");
    }
    standings
}

/// The Service as it is when what a deletion wrote on it is written. Without its addresses, which say where a load balancer was.
fn after(mut service: Service, outcome: &Outcome) -> Service {
    service.ingress.clear();
    for (name, value) in &outcome.annotations {
        match value {
            Some(value) => service.annotations.insert(name.clone(), value.clone()),
            None => service.annotations.remove(name),
        };
    }
    service
}

/// Why the Service is not let go though a new provider has deleted its load balancer: the last good one finds one still. Nobody
/// would look for that again.
async fn still_there(service: Service, probation: &Probation, good: &Provider) -> Option<Failure> {
    // What it knows is older than the deletion.
    good.forget_all();
    match good.get(service).await {
        Ok(None) => None,
        Ok(Some(_)) => {
            let what = "the last good one still finds the load balancer that it says it deleted";
            probation.fails("load-balancers.delete", what);
            Some(Failure::new(Reaction::Retry, format!("load-balancers.delete: {what}")))
        }
        // It never had to do with load balancers.
        Err(failure) if failure.reaction == Reaction::Unsupported => None,
        Err(failure) => Some(undecided(failure)),
    }
}

/// That something is not there is believed when two say so.
fn undecided(failure: Failure) -> Failure {
    let text = format!(
        "the new provider, which is on probation, finds no load balancer, and the last good one cannot tell: {}",
        failure.message
    );
    Failure { message: text, ..failure }
}

impl Cluster for Slot {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn reconcile(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
    ) -> Answer<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>> {
        Box::pin(async move {
            let serving = self.asked();
            let Some((probation, good)) = serving.witness() else {
                let answer = serving.provider.reconcile(nodes, services).await;
                self.judge(&serving);
                return answer;
            };
            let changes = ChangeFlag::default();
            let crashes = serving.provider.settings.tally.counts().1;
            let work = serving.provider.reconcile_noting(nodes.clone(), services.clone(), changes.clone());
            let Some(answer) = Self::unless_failed(&serving, &changes, work).await else {
                return good.reconcile(nodes, services).await;
            };
            // Of a call under way at the same time, perhaps: then it is tried again later all the same.
            let has_crashed = serving.provider.settings.tally.counts().1 != crashes;
            let answer = if faults(&answer) == 0 || (has_crashed && changes.is_set()) {
                answer
            } else {
                // The work is idempotent: the last good one would do it again if it came back.
                let known = good.reconcile(nodes, services).await;
                if faults(&known) < faults(&answer) {
                    probation.differs("cluster.reconcile", &first_fault(&answer));
                    known
                } else {
                    answer
                }
            };
            self.judge(&serving);
            answer
        })
    }
}

type Reconciled = Result<Vec<(ClusterSubject, Failure)>, Failure>;

/// Failures that can be the provider's fault. One of the whole call is more than any number of single ones.
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
