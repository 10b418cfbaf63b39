//! For clouds that take one write at a time per load balancer, and are at work on each for a while: Octavia, the jobs of CloudStack.
//!
//! A provider says what has to be written, in steps ([`Work::plan`]), and how one of them is written. Each call of [`Steps::run`] looks
//! at the write before; is that over, it sends the next one and ends with `pending`. The rest of the plan waits in the cache, so that
//! a call costs two requests and not all those that a plan is made from.
//!
//! The plan is only that: should the cache forget it, or the Service ask for something else meanwhile, or a step fail, then a
//! new one is made from what the cloud has. So is one after the last step, and only when that is empty all is as it should be.
//!
//! | what may be wrong | what is done |
//! |---|---|
//! | the call ends between a write and its note | what is in the cache is taken out before a write, and put there after it: there is a new plan. Where the cloud does not show that it is at work ([`Steps::noted`]), that a write was begun is kept apart: while the new plan has the same step, nothing is written for a minute |
//! | the process ends there too | there is a new plan. Whoever makes it for a cloud that does not show its work can ask for its jobs |
//! | a write has no answer, and may have arrived ([`Unanswered::maybe_sent`](crate::Unanswered::maybe_sent)) | as where the call ends: with [`Steps::noted`], nothing is written for a minute while the new plan has the same step |
//! | another process went on, and this one has a plan of before | with [`Steps::noted`] its job on the Service says so; else a plan that nobody followed for four looks is not followed |
//!
//! What is asked about one load balancer must hold one [lock](crate::load_balancers::Guest::locks).
//!
//! ```
//! use std::fmt;
//!
//! use ccm_sdk::steps::{State, Steps, Work};
//! use ccm_sdk::types::{Failure, Service};
//! use ccm_sdk::{Cloud, Done};
//!
//! const CLOUD: Cloud = Cloud::new("octavia");
//! ccm_sdk::records! {
//!     struct Balancer { id: String [id], provisioning_status: String, ports: Vec<u16> }
//! }
//!
//! /// A step is kept as JSON.
//! #[derive(PartialEq, serde::Serialize, serde::Deserialize)]
//! # #[serde(crate = "ccm_sdk::serde")]
//! struct Listen(u16);
//!
//! impl fmt::Display for Listen {
//!     fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
//!         write!(formatter, "listener {} made", self.0)
//!     }
//! }
//!
//! struct Listeners<'s> { balancer: &'s str, service: &'s Service }
//!
//! impl Work for Listeners<'_> {
//!     type Step = Listen;
//!
//!     fn plan(&self) -> Result<Vec<Listen>, Failure> {
//!         let there = self.balancer()?.ports;
//!         let wanted = self.service.ports.iter().map(|port| port.port);
//!         Ok(wanted.filter(|port| !there.contains(port)).map(Listen).collect())
//!     }
//!     fn write(&self, step: &Listen) -> Result<Option<String>, Failure> {
//!         let body = [("loadbalancer_id", self.balancer.to_owned()), ("protocol_port", step.0.to_string())];
//!         CLOUD.post("/v2.0/lbaas/listeners").json(&body).send()?.done()?;
//!         // Octavia tells how far it is by the load balancer itself.
//!         Ok(Some(self.balancer.to_owned()))
//!     }
//!     fn state(&self, _job: &str) -> Result<State, Failure> {
//!         Ok(match self.balancer()?.provisioning_status.as_str() {
//!             "ACTIVE" => State::Done,
//!             "ERROR" => State::Failed(Failure::retry("the load balancer has gone into ERROR")),
//!             _ => State::Running,
//!         })
//!     }
//! }
//!
//! impl Listeners<'_> {
//!     fn balancer(&self) -> Result<Balancer, Failure> {
//!         let path = "/v2.0/lbaas/loadbalancers/{id}";
//!         CLOUD.get(path).arg("id", self.balancer).send()?.json_at("/loadbalancer")
//!     }
//! }
//!
//! fn listeners(balancer: &str, service: &Service, done: &mut Done) -> Result<(), Failure> {
//!     let ports: Vec<u16> = service.ports.iter().map(|port| port.port).collect();
//!     Steps::new(balancer, &ports).run(&Listeners { balancer, service }, done)
//! }
//! # fn main() {}
//! ```

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::may_have_arrived;
use crate::cache;
use crate::done::Done;
use crate::types::{Failure, Service};

/// How long a plan is good for without a call, where the Service tells of each job. Later the cloud may be another one.
const GOOD: Duration = Duration::from_secs(300);
/// The same in looks ([`Work::LOOK`]), where nothing tells that another process went on.
const GOOD_LOOKS: u32 = 4;
/// How long a write that was begun, and of which nothing was heard, may still show.
const UNHEARD: Duration = Duration::from_secs(60);

/// Work on a cloud in steps.
pub trait Work {
    /// A write. Written as text it says what was changed, for people: `listener 80 made`.
    type Step: Display + PartialEq + Serialize + DeserializeOwned;

    /// When the host looks again at a write that the cloud is at work on.
    const LOOK: Duration = Duration::from_secs(5);

    /// What is to be written now, in order, from what the cloud has. A step that needs what another one brings, such as an ID, comes
    /// with the next plan. Nothing: all is as it should be.
    ///
    /// # Errors
    ///
    /// Nobody knows, or the cloud is at work on a write of somebody else ([`Failure::pending`]).
    fn plan(&self) -> Result<Vec<Self::Step>, Failure>;

    /// Sends a write. Returns what [`state`](Self::state) is asked with: a job, or the load balancer that the cloud is at work on; `None`
    /// where it was done at once, and the next step may follow.
    ///
    /// # Errors
    ///
    /// It was refused, or nobody knows. The next call makes a new plan. An answer of 5xx counts as refused: where your cloud may have
    /// begun the work nevertheless, look for it in [`plan`](Self::plan).
    fn write(&self, step: &Self::Step) -> Result<Option<String>, Failure>;

    /// How far the cloud is with a write.
    ///
    /// # Errors
    ///
    /// Nobody knows. The next call asks again, and writes nothing before.
    fn state(&self, job: &str) -> Result<State, Failure>;
}

/// How far the cloud is with a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// At work.
    Running,
    /// Done.
    Done,
    /// It came to nothing.
    Failed(Failure),
    /// The cloud does not know this job any more. What it has is looked at anew.
    Unknown,
}

/// Steps for one load balancer.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    thing: &'a str,
    wish: u64,
    noted: Option<(&'a Service, &'a str)>,
}

/// A plan, and the write that the cloud is at work on.
struct Kept<S> {
    wish: u64,
    job: String,
    running: S,
    next: Vec<S>,
    /// Steps that are done. A plan that has one of them again brings nothing about.
    done: Vec<S>,
}

impl<'a> Steps<'a> {
    /// For what takes one write at a time, by its name or ID. `wish` is all that plans depend on, beside what the cloud has: with
    /// another one there is a new plan.
    pub fn new(thing: &'a str, wish: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        wish.hash(&mut hasher);
        Self { thing, wish: hasher.finish(), noted: None }
    }

    /// Also writes the job on the Service, in an annotation that is declared as `Written`: for clouds whose objects do not show that
    /// a write is under way. A restart of the host, and another process, then wait for the job as well.
    #[must_use]
    pub fn noted(mut self, service: &'a Service, annotation: &'a str) -> Self {
        self.noted = Some((service, annotation));
        self
    }

    /// Goes on as far as one call can.
    ///
    /// # Errors
    ///
    /// `pending` while the cloud is at work, with the step; or what a step or a question came to.
    pub fn run<W: Work>(&self, work: &W, done: &mut Done) -> Result<(), Failure> {
        let mut kept = self.kept::<W::Step>();
        let noted = self.noted.and_then(|(service, annotation)| service.annotation(annotation));
        let known = kept.as_ref().map(|kept| kept.job.clone());
        let others = noted.filter(|job| Some(*job) != known.as_deref()).map(str::to_owned);
        // What another process began counts as well, and this one knows nothing of its plan.
        let is_ours = self.noted.is_none() || others.is_none() && noted.is_some();
        for job in known.into_iter().chain(others) {
            match work.state(&job)? {
                State::Running => {
                    let words = kept.as_ref().filter(|kept| kept.job == job).map(Self::words);
                    kept.iter().for_each(|kept| self.keep::<W>(kept));
                    return Err(pending::<W>(&words.unwrap_or_else(|| format!("job {job}"))));
                }
                State::Done => {}
                State::Failed(failure) => {
                    self.forget(done);
                    return Err(match kept.filter(|kept| kept.job == job) {
                        Some(kept) => failure.context(kept.running),
                        None => failure,
                    });
                }
                State::Unknown => kept = None,
            }
        }
        self.forget(done);
        let (mut next, mut over) = match kept.filter(|kept| is_ours && kept.wish == self.wish) {
            Some(Kept { running, next, mut done, .. }) => {
                done.push(running);
                (next, done)
            }
            None => (vec![], vec![]),
        };
        let begun: Option<W::Step> = self.noted.and_then(|_| cache::get_json(&self.begun_key()));
        loop {
            if next.is_empty() {
                next = work.plan()?;
                if let Some(begun) = begun.as_ref().filter(|begun| next.contains(begun)) {
                    return Err(pending::<W>(&format!("perhaps on {begun}, which was sent without an answer")));
                }
                if let Some(again) = next.iter().find(|step| over.contains(step)) {
                    return Err(Failure::retry(format!("{again}, as the cloud says, and it does not show")));
                }
            }
            if next.is_empty() {
                return Ok(());
            }
            let step = next.remove(0);
            if self.noted.is_some() {
                cache::put_json(&self.begun_key(), &step, UNHEARD);
            }
            let written = work.write(&step);
            if !written.as_ref().is_err_and(may_have_arrived) {
                cache::forget(&self.begun_key());
            }
            let job = written.map_err(|failure| failure.context(&step))?;
            done.changed(step.to_string());
            let Some(job) = job else {
                over.push(step);
                continue;
            };
            if let Some((_, annotation)) = self.noted {
                done.annotate(annotation, job.as_str());
            }
            let kept = Kept { wish: self.wish, job, running: step, next, done: over };
            self.keep::<W>(&kept);
            return Err(pending::<W>(&Self::words(&kept)));
        }
    }

    fn words<S: Display>(kept: &Kept<S>) -> String {
        let more = if kept.next.is_empty() { String::new() } else { format!(", {} more to do", kept.next.len()) };
        format!("{} ({}){more}", kept.running, kept.job)
    }

    fn key(&self) -> String {
        format!("steps/{}", self.thing)
    }

    fn begun_key(&self) -> String {
        format!("steps-begun/{}", self.thing)
    }

    fn kept<S: DeserializeOwned>(&self) -> Option<Kept<S>> {
        let (wish, job, running, next, done) = cache::get_json(&self.key())?;
        Some(Kept { wish, job, running, next, done })
    }

    fn keep<W: Work>(&self, Kept { wish, job, running, next, done }: &Kept<W::Step>) {
        let good = if self.noted.is_some() { GOOD } else { W::LOOK.saturating_mul(GOOD_LOOKS) };
        cache::put_json(&self.key(), &(wish, job, running, next, done), good);
    }

    /// No write is under way any more.
    fn forget(&self, done: &mut Done) {
        cache::forget(&self.key());
        if let Some((service, annotation)) = self.noted
            && service.annotation(annotation).is_some()
        {
            done.unannotate(annotation);
        }
    }
}

fn pending<W: Work>(words: &str) -> Failure {
    Failure::pending(format!("the cloud is at work: {words}")).after(W::LOOK)
}

#[cfg(test)]
mod tests;
