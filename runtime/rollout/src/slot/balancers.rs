//! Load balancers during a probation. Nothing is deleted, and nothing is made a second time, on the word of a new component alone.
//!
//! | call | before it | afterwards |
//! |---|---|---|
//! | `get`, `survey` | | what the new one does not find, the witness does not find either |
//! | `ensure` | both give the load balancer the same name; one that the witness finds, the new one finds too | the witness, asked with the addresses that the new one gave, finds it at one of them. Where it has no answer, or neither of the two finds anything, the change counts as good |
//! | `update-backends` | | |
//! | `delete` | as `ensure` | the witness, asked without addresses, finds nothing any more, or has no load balancers |
//! | all of these, failed | | where the witness has an answer, or sees nothing wrong, that is a difference |
//!
//! The witness may know what was before. So it is asked a second time, with an empty cache, before a difference in what both find counts; after
//! a change it is asked once, with an empty cache. Where it cannot tell whether there is a load balancer that the new one does not find, the call
//! fails with the witness's failure and is made again later: an outage proves nothing and costs nothing. Another name ends the probation at once;
//! other differences add up.

use std::sync::Arc;

use ccm_cloud::{
    Backend, CallFuture, Descriptor, Failure, Ingress, LoadBalancers, Mark, Outcome, Problem, Reaction, Service,
    Standing, Wish,
};

use super::handle::{Handle, is_suspect, undecided};
use super::probation::Probation;
use crate::component::Component;
use crate::release::digits;

const ENSURE: &str = "load-balancers.ensure";
const UPDATE: &str = "load-balancers.update-backends";
const DELETE: &str = "load-balancers.ensure-deleted";
const GET: &str = "load-balancers.get";
const NOT_FOUND: &str = "it does not find the load balancer, which the last good one finds";
const GET_MARK: &str = "load-balancers.get-mark";
const OF_ANOTHER: &str = "it says of a load balancer that it is another Service's than the last good one says";
const SURVEY: &str = "load-balancer-survey.survey";
/// What is not believed when the new one alone says so.
const FINDS_NONE: &str =
    "the new provider, which is on probation, finds no load balancer, and the last good one cannot tell";
const HAS_DELETED: &str = "the new provider, which is on probation, says that it deleted the load balancer, and the last good one cannot tell";
const SAYS_WHOSE: &str =
    "the new provider, which is on probation, says whose the load balancer is, and the last good one cannot tell";

/// Whether an answer counts for the probation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It came from the cloud.
    Counts,
    /// Only computed: that it fails counts.
    Computed,
    /// Of the admission webhook: whoever may write Services could prove a component with dry runs, or end its probation.
    None,
}

/// An answer, and whether it proves something for the new component.
type Judged<T> = (Result<T, Failure>, bool);

impl<C: Component> Handle<C> {
    /// The answer to a question that changes nothing, which counts for the probation as `proof` says.
    async fn ask<'a, T: Send + 'a>(
        &'a self,
        function: &'static str,
        proof: Proof,
        question: impl for<'p> Fn(&'p C) -> CallFuture<'p, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Result<T, Failure> {
        let Some(probation) = self.probation() else { return question(self.provider()).await };
        let answer = self.answered(function, proof, question, probation).await.map_or_else(|instead| instead, Ok);
        self.judge();
        answer
    }

    /// What is answered to a question about what there is, once the witness was asked as well.
    fn counted<T>(&self, (answer, is_good): Judged<T>, probation: &Probation<C>) -> Result<T, Failure> {
        if is_good {
            probation.answers_well();
        }
        self.judge();
        answer
    }

    /// The answer of the new component. Nothing is counted but differences.
    ///
    /// # Errors
    ///
    /// What is answered in its place where it fails: what the witness says, or the failure.
    async fn answered<'a, T: Send + 'a>(
        &'a self,
        function: &'static str,
        proof: Proof,
        question: impl for<'p> Fn(&'p C) -> CallFuture<'p, Result<T, Failure>> + Send + Sync + 'a,
        probation: &'a Probation<C>,
    ) -> Result<T, Result<T, Failure>> {
        let ask_witness = || question(&probation.witness);
        let Some(answer) = self.unless_taken_back(question(self.provider())).await else {
            return Err(ask_witness().await);
        };
        let failure = match answer {
            Err(failure) if is_suspect(&failure) => failure,
            answer => return answer.map_err(Err),
        };
        let Ok(known) = ask_witness().await else { return Err(Err(failure)) };
        let (known, counts) = match proof {
            // It may know that from before, and the cloud be away.
            Proof::Counts => {
                probation.witness.forget();
                ask_witness().await.map_or_else(|_| (known, false), |anew| (anew, true))
            }
            Proof::Computed => (known, true),
            Proof::None => (known, false),
        };
        if counts {
            probation.differs(function, &failure.to_string());
        }
        Err(Ok(known))
    }

    /// Where a load balancer is; that there is none is believed when the witness says so too.
    async fn places<'a>(&'a self, service: Service, probation: &'a Probation<C>) -> Judged<Option<Vec<Ingress>>> {
        let asked = service.clone();
        match self.answered(GET, Proof::Counts, move |one| one.get(asked.clone()), probation).await {
            Ok(None) => {}
            Ok(found) => return (Ok(found), true),
            Err(instead) => return (instead, false),
        }
        let ask = || probation.witness.get(service.clone());
        match probation.witnessed(ask, |known| matches!(known, Ok(Some(_)))).await {
            Ok(Some(known)) => {
                probation.differs(GET, NOT_FOUND);
                (Ok(Some(known)), false)
            }
            Err(failure) if failure.reaction != Reaction::Unsupported => (Err(undecided(FINDS_NONE, failure)), false),
            // It never had to do with load balancers.
            Ok(None) | Err(_) => (Ok(None), true),
        }
    }

    /// Whose a load balancer is: both must say the same.
    async fn mark<'a>(&'a self, service: Service, probation: &'a Probation<C>) -> Judged<Option<Mark>> {
        let asked = service.clone();
        let mark = match self.answered(GET_MARK, Proof::Counts, move |one| one.get_mark(asked.clone()), probation).await
        {
            Ok(mark) => mark,
            Err(instead) => return (instead, false),
        };
        let whose = |mark: &Option<Mark>| mark.as_ref().map(|mark| mark.uid.clone());
        match probation.witness.get_mark(service).await {
            // Whoever believed it would take the load balancer of another Service, or delete it.
            Ok(known) if whose(&known) != whose(&mark) => (Err(probation.differs(GET_MARK, OF_ANOTHER)), false),
            Err(failure) if failure.reaction != Reaction::Unsupported => {
                let why = if mark.is_some() { SAYS_WHOSE } else { FINDS_NONE };
                (Err(undecided(why, failure)), false)
            }
            Ok(_) | Err(_) => (Ok(mark), true),
        }
    }

    /// What the component may not write on its own word.
    ///
    /// # Errors
    ///
    /// Why it is not asked to.
    async fn agreed(&self, function: &'static str, service: &Service, probation: &Probation<C>) -> Result<(), Failure> {
        let (new, witness) = (self.provider(), &*probation.witness);
        match (new.name(service.clone()).await, witness.name(service.clone()).await) {
            (Ok(name), Ok(known)) if name != known => {
                let what = format!("it calls the load balancer {name:?}, the last good one calls it {known:?}");
                return Err(probation.harms(function, &what));
            }
            (Err(failure), Ok(_)) if is_suspect(&failure) => {
                return Err(probation.differs("load-balancers.name", &failure.to_string()));
            }
            _ => {}
        }
        match witness.get(service.clone()).await {
            Ok(None) => return Ok(()),
            // It never had to do with load balancers.
            Err(failure) if failure.reaction == Reaction::Unsupported => return Ok(()),
            Ok(Some(_)) | Err(_) => {}
        }
        match self.places(service.clone(), probation).await {
            (Ok(_), true) => Ok(()),
            (Ok(_), false) => Err(Failure::new(Reaction::Retry, format!("{GET}: {NOT_FOUND}"))),
            (Err(failure), _) => Err(failure),
        }
    }

    /// Why an `ensure` is not done, though the new component says so: the witness sees something else.
    async fn unseen(&self, service: Service, outcome: &Outcome, probation: &Probation<C>) -> Option<Failure> {
        // What it knows is older than the change.
        probation.witness.forget();
        let service = Service { ingress: outcome.ingress.clone(), ..after(service, outcome) };
        let what = match probation.witness.get(service.clone()).await {
            Ok(Some(found)) if is_same(&found, &outcome.ingress) => return None,
            Ok(Some(_)) => "the last good one finds a load balancer at other addresses",
            Ok(None) if matches!(self.provider().get(service).await, Ok(Some(_))) => {
                "the last good one does not find what it made"
            }
            // The cloud does not show it yet; or the witness cannot tell, and both had agreed before it was made.
            Ok(None) | Err(_) => return None,
        };
        Some(probation.differs(ENSURE, what))
    }

    /// A call that changes a load balancer. It is not given up when its component fails its probation: what it has sent cannot be taken back,
    /// and another component that did it again at once may not see it yet.
    async fn change(
        &self,
        function: &'static str,
        service: Service,
        work: impl for<'p> FnOnce(&'p C, Service) -> CallFuture<'p, Outcome> + Send,
    ) -> Outcome {
        let Some(probation) = self.probation() else { return work(self.provider(), service).await };
        if let Some(failure) = self.if_taken_back() {
            return Outcome::failed(failure);
        }
        let is_watched = function != UPDATE;
        let agreed = async { if is_watched { self.agreed(function, &service, probation).await } else { Ok(()) } };
        // It may fail its probation meanwhile.
        let agreed = self.unless_taken_back(agreed).await.unwrap_or_else(|| Err(self.taken_back()));
        let outcome = match agreed {
            Err(failure) => Outcome::failed(failure),
            Ok(()) => {
                let mut outcome = work(self.provider(), service.clone()).await;
                let unseen = match &outcome.failure {
                    // Elsewhere: it would let the Service go.
                    Some(failure) if function != DELETE || failure.reaction != Reaction::Elsewhere => {
                        self.compare(function, failure, service, probation).await;
                        None
                    }
                    _ if function == DELETE => still_there(service, &outcome, probation).await,
                    _ if function == ENSURE => self.unseen(service, &outcome, probation).await,
                    _ => None,
                };
                outcome.failure = unseen.or(outcome.failure);
                if outcome.failure.is_none() {
                    probation.answers_well();
                }
                outcome
            }
        };
        self.judge();
        outcome
    }

    /// Whether the witness would have failed as well cannot be tried; but where it has made this load balancer, finds nothing
    /// wrong with the Service, and still sees it, the failure is a difference.
    async fn compare(&self, function: &'static str, failure: &Failure, service: Service, probation: &Probation<C>) {
        let witness = &probation.witness;
        if function != DELETE
            && is_suspect(failure)
            && !service.ingress.is_empty()
            && witness
                .validate(service.clone(), None, false)
                .await
                .is_ok_and(|problems| problems.iter().all(|p| !p.fatal))
            && matches!(witness.get(service).await, Ok(Some(_)))
        {
            probation.differs(function, &failure.to_string());
        }
    }
}

impl<C: Component> LoadBalancers for Handle<C> {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self.provider())
    }

    fn component(&self) -> String {
        digits(&self.serving.release.version.digest).to_owned()
    }

    fn configuration(&self) -> String {
        self.provider().configuration()
    }

    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>> {
        Box::pin(self.ask("load-balancers.name", Proof::Computed, move |one| one.name(service.clone())))
    }

    fn locks(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(self.ask("load-balancers.locks", Proof::Computed, move |one| one.locks(service.clone())))
    }

    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>> {
        Box::pin(async move {
            let Some(probation) = self.probation() else { return self.provider().get(service).await };
            self.counted(self.places(service, probation).await, probation)
        })
    }

    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>> {
        Box::pin(async move {
            let Some(probation) = self.probation() else { return self.provider().get_mark(service).await };
            self.counted(self.mark(service, probation).await, probation)
        })
    }

    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.change(ENSURE, service, move |one, service| one.ensure(service, backends)))
    }

    fn ensure_unhurried(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.change(ENSURE, service, move |one, service| one.ensure_unhurried(service, backends)))
    }

    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome> {
        Box::pin(self.change(UPDATE, service, move |one, service| one.update_backends(service, backends)))
    }

    fn delete(&self, service: Service) -> CallFuture<'_, Outcome> {
        Box::pin(self.change(DELETE, service, |one, service| one.delete(service)))
    }

    fn orphan(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            if let Some(failure) = self.if_taken_back() {
                return Err(failure);
            }
            let answer = self.provider().orphan(service).await;
            self.judge();
            answer
        })
    }

    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>> {
        Box::pin(self.ask("load-balancers.validate", Proof::None, move |one| {
            one.validate(service.clone(), before.clone(), online)
        }))
    }

    fn selects_nodes(&self) -> bool {
        self.provider().selects_nodes()
    }

    fn surveys(&self) -> bool {
        self.provider().surveys()
    }

    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>> {
        Box::pin(async move {
            let Some(probation) = self.probation() else { return self.provider().survey(backends, wishes).await };
            let (asked, among) = (wishes.clone(), Arc::clone(&backends));
            let answer = self.answered(
                SURVEY,
                Proof::Counts,
                move |one| one.survey(Arc::clone(&among), asked.clone()),
                probation,
            );
            let standings = match answer.await {
                Ok(standings) => looked_for(standings, wishes, backends, probation).await,
                Err(instead) => (instead, false),
            };
            self.counted(standings, probation)
        })
    }
}

/// Standings of a new component, with the word of the witness for load balancers that the new one does not find; and whether they were good.
async fn looked_for<C: Component>(
    mut standings: Vec<Standing>,
    wishes: Vec<Wish>,
    backends: Arc<[Backend]>,
    probation: &Probation<C>,
) -> Judged<Vec<Standing>> {
    let missing = standings.iter().enumerate().filter(|(_, standing)| **standing == Standing::Missing);
    let places: Vec<usize> = missing.map(|(at, _)| at).collect();
    let mut differs = false;
    if !places.is_empty() {
        let wishes: Vec<Wish> = places.iter().filter_map(|at| wishes.get(*at).cloned()).collect();
        let ask = || async {
            let known = probation.witness.survey(Arc::clone(&backends), wishes.clone()).await;
            known.unwrap_or_else(|failure| vec![Standing::Unknown(failure); places.len()])
        };
        let known =
            probation.witnessed(ask, |known| known.iter().any(|known| is_known(known) && *known != Standing::Missing));
        let known = known.await;
        for (at, known) in places.iter().copied().zip(known) {
            let Some(standing) = standings.get_mut(at) else { continue };
            differs |= is_known(&known) && known != Standing::Missing;
            *standing = match known {
                Standing::Unknown(failure) => Standing::Unknown(undecided(FINDS_NONE, failure)),
                known => known,
            };
        }
    }
    if differs {
        probation.differs(SURVEY, "it does not find a load balancer");
    }
    let is_good = !differs && standings.iter().any(is_known);
    (Ok(standings), is_good)
}

const fn is_known(standing: &Standing) -> bool {
    !matches!(standing, Standing::Unknown(_))
}

/// Whether one load balancer can have both: a cloud may tell one address after the other, and a version may name it otherwise.
pub(super) fn is_same(found: &[Ingress], told: &[Ingress]) -> bool {
    let shares = |of: fn(&Ingress) -> Option<&str>| {
        let known: Vec<&str> = found.iter().filter_map(of).collect();
        let mut others = told.iter().filter_map(of).peekable();
        let is_comparable = !known.is_empty() && others.peek().is_some();
        is_comparable.then(|| others.any(|other| known.contains(&other)))
    };
    let places = [shares(|one| one.ip.as_deref()), shares(|one| one.hostname.as_deref())];
    places.contains(&Some(true)) || !places.contains(&Some(false))
}

/// The Service as it is when the annotations of the call are written. Without its addresses, which say where a load balancer was.
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

/// Why the Service is not let go though a new component has deleted its load balancer: the witness finds one still. Nobody
/// would look for that again.
async fn still_there<C: Component>(service: Service, outcome: &Outcome, probation: &Probation<C>) -> Option<Failure> {
    // What it knows is older than the deletion.
    probation.witness.forget();
    match probation.witness.get(after(service, outcome)).await {
        Ok(None) => None,
        Ok(Some(_)) => {
            // Not at once: the cloud may show it a while longer.
            Some(probation.differs(DELETE, "the last good one still finds the load balancer that it says it deleted"))
        }
        // It never had to do with load balancers.
        Err(failure) if failure.reaction == Reaction::Unsupported => None,
        Err(failure) => Some(undecided(HAS_DELETED, failure)),
    }
}
