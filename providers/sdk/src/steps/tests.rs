use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;
use crate::http::TransportReason;
use crate::load_balancers::Outcome;
use crate::testing::{FakeCloud, Reply};
use crate::types::Reaction;

const JOB: &str = "mycloud.example/job";

/// A cloud that takes one write at a time, and shows what a write has made only when it is done. As CloudStack it tells of jobs, or
/// as Octavia that it is at work.
#[derive(Default)]
struct Cloud {
    /// It shows that it is at work, and its jobs need not stand on the Service.
    shows_work: bool,
    /// It tells of jobs of before, too.
    remembers: bool,
    has: RefCell<BTreeSet<String>>,
    /// The write that it is at work on, and how many more looks that takes.
    job: RefCell<Option<(String, String, u32)>>,
    jobs: Cell<u32>,
    /// Each write.
    writes: RefCell<Vec<String>>,
    plans: Cell<u32>,
    /// This step comes to nothing, so often.
    fails: RefCell<Option<(String, u32)>>,
    /// The call ends at this event, of all since the begin.
    crash_at: Cell<Option<u32>>,
    events: Cell<u32>,
}

impl Cloud {
    /// Something at which a call can end.
    fn event(&self) {
        self.events.set(self.events.get() + 1);
        if self.crash_at.get() == Some(self.events.get()) {
            resume_unwind(Box::new("the guest traps"));
        }
    }
}

/// Has what is wanted made, and what is not wanted removed; a name that begins with `now` is made at once.
struct Wanted<'c>(&'c Cloud, &'c [&'c str]);

impl Work for Wanted<'_> {
    type Step = String;

    fn plan(&self) -> Result<Vec<String>, Failure> {
        self.0.event();
        self.0.plans.set(self.0.plans.get() + 1);
        let job = self.0.job.borrow().as_ref().map(|(job, ..)| job.clone());
        if let Some(job) = job.filter(|_| self.0.shows_work) {
            self.0.look(&job);
            return Err(Failure::pending("PENDING_UPDATE"));
        }
        let has = self.0.has.borrow();
        let missing = self.1.iter().filter(|name| !has.contains(**name)).map(|name| format!("{name} made"));
        let others = has.iter().filter(|name| !self.1.contains(&name.as_str()));
        Ok(missing.chain(others.map(|name| format!("{name} removed"))).collect())
    }

    fn write(&self, step: &String) -> Result<Option<String>, Failure> {
        self.0.event();
        self.0.writes.borrow_mut().push(step.clone());
        if step.starts_with("now") {
            self.0.done(step);
            return Ok(None);
        }
        assert_eq!(*self.0.job.borrow(), None, "one write at a time");
        self.0.jobs.set(self.0.jobs.get() + 1);
        let job = format!("j{}", self.0.jobs.get());
        *self.0.job.borrow_mut() = Some((job.clone(), step.clone(), 2));
        self.0.event();
        Ok(Some(job))
    }

    fn state(&self, job: &str) -> Result<State, Failure> {
        self.0.event();
        Ok(self.0.look(job))
    }
}

impl Cloud {
    /// Time passes.
    fn look(&self, job: &str) -> State {
        let (step, left) = match &mut *self.job.borrow_mut() {
            Some((known, step, left)) if known == job => {
                *left -= 1;
                (step.clone(), *left)
            }
            // It is asked whether it is at work, and knows of no jobs.
            _ if self.shows_work || self.remembers => return State::Done,
            _ => return State::Unknown,
        };
        if left > 0 {
            return State::Running;
        }
        *self.job.borrow_mut() = None;
        if let Some((fails, often)) = &mut *self.fails.borrow_mut()
            && *fails == step
            && *often > 0
        {
            *often -= 1;
            return State::Failed(Failure::retry("error 530"));
        }
        self.done(&step);
        State::Done
    }

    fn done(&self, step: &str) {
        match step.split_once(' ') {
            Some((name, "made")) => drop(self.has.borrow_mut().insert(name.to_owned())),
            Some((name, _)) => drop(self.has.borrow_mut().remove(name)),
            None => unreachable!(),
        }
    }

    /// What a call about this Service comes to. What its job is stands on it afterwards, as the host writes it.
    fn call(&self, service: &mut Service, wanted: &[&str]) -> Outcome {
        let mut done = Done::new();
        let steps = Steps::new("lb-1", &wanted);
        let steps = if self.shows_work { steps } else { steps.noted(service, JOB) };
        let result = steps.run(&Wanted(self, wanted), &mut done);
        let outcome = done.with(result.map(|()| vec![])).outcome;
        for (name, value) in &outcome.annotations {
            service.annotations.retain(|(other, _)| other != name);
            service.annotations.extend(value.clone().map(|value| (name.clone(), value)));
        }
        outcome
    }

    /// What one call fails with.
    fn calls_once(&self, service: &mut Service, wanted: &[&str]) -> String {
        self.call(service, wanted).failure.map(|failure| failure.message).unwrap_or_default()
    }

    /// Calls until all is done, and what each came to in words: `changes | failure`.
    fn calls(&self, service: &mut Service, wanted: &[&str]) -> Vec<String> {
        let call = |_| {
            let outcome = self.call(service, wanted);
            let failure = outcome.failure?;
            Some(format!("{} | {}", outcome.changes.join(", "), failure.message))
        };
        let all: Vec<String> = (0..100).map_while(call).collect();
        assert!(all.len() < 100, "it has an end");
        all
    }
}

#[test]
fn each_call_sends_one_write_or_waits_for_it_and_says_which() {
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    let first = cloud.call(&mut web, &["a", "b"]);
    let failure = first.failure.expect("the cloud is at work");
    assert_eq!((failure.reaction, failure.retry_after_ms), (Reaction::Pending, Some(5_000)));
    assert_eq!((first.changes, web.annotation(JOB)), (vec!["a made".to_owned()], Some("j1")));
    assert_eq!(
        cloud.calls(&mut web, &["a", "b"]),
        [
            " | the cloud is at work: a made (j1), 1 more to do",
            "b made | the cloud is at work: b made (j2)",
            " | the cloud is at work: b made (j2)",
        ]
    );
    assert_eq!((cloud.plans.get(), web.annotation(JOB)), (2, None), "at the begin and at the end");
    assert_eq!(cloud.call(&mut web, &["a", "b"]), Outcome::gone(), "and then nothing");
}

#[test]
fn what_is_done_at_once_does_not_end_the_call() {
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    let first = cloud.call(&mut web, &["now-1", "now-2", "a", "now-3"]);
    assert_eq!(first.changes, ["now-1 made", "now-2 made", "a made"]);
    cloud.calls(&mut web, &["now-1", "now-2", "a", "now-3"]);
    assert_eq!(cloud.writes.borrow().len(), 4);
}

/// At each event of the work in turn: before a plan, before and after a write, before a look.
#[test]
fn a_crash_between_any_two_steps_makes_nothing_twice() {
    let wanted = ["a", "now-b", "c"];
    let host = FakeCloud::new();
    for shows_work in [true, false] {
        let new = || Cloud { shows_work, ..Cloud::default() };
        let whole = new();
        whole.calls(&mut Service::named("web"), &wanted);
        let events = whole.events.get();
        assert!(events > 10, "{events}");
        // A trap leaves the cache; a swap or a restart empties it as well.
        for (at, forgets) in (1..=events).flat_map(|at| [(at, false), (at, true)]) {
            host.forget_cache();
            let (cloud, mut web) = (new(), Service::named("web"));
            cloud.crash_at.set(Some(at));
            let crashed = catch_unwind(AssertUnwindSafe(|| cloud.calls(&mut web, &wanted))).is_err();
            assert!(crashed, "at {at}");
            if forgets {
                host.forget_cache();
            }
            // A job that nobody was told of: at the latest when it is done, the cloud shows what it has made.
            let is_told = |job: &str| web.annotation(JOB) == Some(job) || cache::get("steps/lb-1").is_some();
            let untold = cloud.job.borrow().as_ref().filter(|(job, ..)| !is_told(job)).map(|(job, ..)| job.clone());
            if let Some(job) = untold.filter(|_| !shows_work) {
                if !forgets {
                    let before = cloud.writes.borrow().len();
                    let said = cloud.calls_once(&mut web, &wanted);
                    assert!(said.contains("which was sent without an answer"), "at {at}: {said}");
                    assert_eq!(cloud.writes.borrow().len(), before, "at {at}");
                }
                while cloud.look(&job) == State::Running {}
            }
            if !shows_work {
                host.pass(UNHEARD.as_secs());
            }
            cloud.calls(&mut web, &wanted);
            let mut writes = cloud.writes.borrow().clone();
            writes.sort();
            assert_eq!(writes, ["a made", "c made", "now-b made"], "at {at}, {forgets}");
            assert_eq!(cloud.has.borrow().len(), 3);
        }
    }
}

#[test]
fn a_cache_that_forgets_at_every_turn_costs_plans_and_no_writes() {
    let (host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    while cloud.call(&mut web, &["a", "b", "c"]).failure.is_some() {
        host.forget_cache();
    }
    assert_eq!(*cloud.writes.borrow(), ["a made", "b made", "c made"]);
    assert_eq!(cloud.plans.get(), 4);
}

/// Its annotation could not be written yet.
#[test]
fn a_job_that_does_not_stand_on_the_service_is_waited_for() {
    let (_host, cloud) = (FakeCloud::new(), Cloud::default());
    while cloud.call(&mut Service::named("web"), &["a", "b"]).failure.is_some() {}
    assert_eq!(*cloud.writes.borrow(), ["a made", "b made"]);
}

/// Two processes led one after the other, and the first leads again.
#[test]
fn a_plan_of_before_another_process_went_on_is_not_followed() {
    for remembers in [false, true] {
        let (host, mut web) = (FakeCloud::new(), Service::named("web"));
        let cloud = Cloud { remembers, ..Cloud::default() };
        cloud.call(&mut web, &["a", "b"]);
        let stale = cache::get("steps/lb-1").expect("a plan");
        host.forget_cache();
        while !cloud.has.borrow().contains("a") || cloud.job.borrow().is_none() {
            cloud.call(&mut web, &["a", "b"]);
        }
        assert_eq!(web.annotation(JOB), Some("j2"));
        cache::put("steps/lb-1", &stale, GOOD);
        cloud.calls(&mut web, &["a", "b"]);
        assert_eq!(*cloud.writes.borrow(), ["a made", "b made"], "{remembers}");
    }
}

/// Nobody knows whether it was done: what the cloud has says so.
#[test]
fn a_job_that_the_cloud_knows_no_more_is_planned_anew() {
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    cloud.call(&mut web, &["a", "b"]);
    *cloud.job.borrow_mut() = None;
    cloud.calls(&mut web, &["a", "b"]);
    assert_eq!(*cloud.writes.borrow(), ["a made", "a made", "b made"]);
}

/// The same where nothing on the Service tells of it: the first process wrote what the other one had made.
#[test]
fn a_plan_that_nobody_followed_for_a_while_is_not_followed() {
    let (host, mut web) = (FakeCloud::new(), Service::named("web"));
    let cloud = Cloud { shows_work: true, ..Cloud::default() };
    cloud.call(&mut web, &["a", "b", "c"]);
    host.pass(15);
    assert!(
        cloud.calls_once(&mut web, &["a", "b", "c"]).ends_with("a made (j1), 2 more to do"),
        "it is as good as new"
    );
    host.pass(15);
    cloud.call(&mut web, &["a", "b", "c"]);
    assert_eq!((cloud.plans.get(), cloud.writes.borrow().len()), (1, 2), "and followed");
    // The other one goes on.
    *cloud.job.borrow_mut() = None;
    ["b made", "c made"].iter().for_each(|step| cloud.done(step));
    host.pass(20);
    assert_eq!(cloud.calls(&mut web, &["a", "b", "c"]), Vec::<String>::new());
    assert_eq!(*cloud.writes.borrow(), ["a made", "b made"]);
}

/// It was never written, or nobody will see it.
#[test]
fn a_write_of_which_nothing_is_heard_is_written_again_after_a_while() {
    let (host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    // The plan is the first event, the write the second one.
    cloud.crash_at.set(Some(2));
    assert!(catch_unwind(AssertUnwindSafe(|| cloud.call(&mut web, &["a"]))).is_err());
    host.pass(59);
    assert!(cloud.calls_once(&mut web, &["a"]).contains("perhaps on a made"));
    host.pass(1);
    cloud.calls(&mut web, &["a"]);
    assert_eq!(*cloud.writes.borrow(), ["a made"]);
}

#[test]
fn a_step_that_fails_is_said_with_its_reason_and_planned_anew() {
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    *cloud.fails.borrow_mut() = Some(("b made".to_owned(), 1));
    let calls = cloud.calls(&mut web, &["a", "b"]);
    assert!(calls.contains(&" | b made: error 530".to_owned()), "{calls:?}");
    assert_eq!(*cloud.writes.borrow(), ["a made", "b made", "b made"]);
    assert_eq!((cloud.plans.get(), web.annotation(JOB)), (3, None));
}

#[test]
fn a_write_that_is_refused_says_which_and_the_rest_of_the_plan_is_forgotten() {
    struct Refused<'c>(Wanted<'c>);
    impl Work for Refused<'_> {
        type Step = String;
        fn plan(&self) -> Result<Vec<String>, Failure> {
            self.0.plan()
        }
        fn write(&self, _: &String) -> Result<Option<String>, Failure> {
            Err(Failure::quota("no room"))
        }
        fn state(&self, job: &str) -> Result<State, Failure> {
            self.0.state(job)
        }
    }
    let (_host, cloud, mut done) = (FakeCloud::new(), Cloud::default(), Done::new());
    let wanted = Refused(Wanted(&cloud, &["a", "b"]));
    assert_eq!(Steps::new("lb-1", &1).run(&wanted, &mut done), Err(Failure::quota("a made: no room")));
    assert_eq!((done, cache::get("steps/lb-1")), (Done::new(), None));
}

/// A time-out after the request had left: the cloud shows what it made of it only when it is done.
#[test]
fn a_write_that_has_no_answer_and_may_have_arrived_is_not_sent_again_for_a_while() {
    const CLOUD: crate::Cloud = crate::Cloud::new("api");
    struct Slow;
    impl Work for Slow {
        type Step = String;
        fn plan(&self) -> Result<Vec<String>, Failure> {
            Ok(vec!["rule made".to_owned()])
        }
        fn write(&self, _: &String) -> Result<Option<String>, Failure> {
            CLOUD.post("/rules").send()?.json_at("/job").map(Some)
        }
        fn state(&self, _: &str) -> Result<State, Failure> {
            Ok(State::Running)
        }
    }
    let lost = |maybe_sent| Reply::lost(TransportReason::Timeout, maybe_sent);
    let host = FakeCloud::new().on("api POST /rules", lost(false)).on("api POST /rules", lost(true));
    let (web, mut done) = (Service::named("web"), Done::new());
    let mut call = || Steps::new("lb-1", &1).noted(&web, JOB).run(&Slow, &mut done).expect_err("not done").message;
    assert_eq!(call(), "rule made: POST /rules: no answer");
    assert_eq!(call(), "rule made: POST /rules: no answer; the request may have arrived", "the first one has not");
    host.pass(UNHEARD.as_secs() - 1);
    assert!(call().contains("perhaps on rule made, which was sent without an answer"));
    assert_eq!(host.lines().len(), 2);
    host.pass(1);
    call();
    assert_eq!(host.lines().len(), 3);
}

#[test]
fn what_the_user_changes_meanwhile_waits_for_the_write_and_is_planned_anew() {
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    cloud.call(&mut web, &["a", "b"]);
    let second = cloud.call(&mut web, &["c"]);
    assert_eq!(
        second.failure.map(|failure| failure.message).as_deref(),
        Some("the cloud is at work: a made (j1), 1 more to do")
    );
    cloud.calls(&mut web, &["c"]);
    assert_eq!(*cloud.writes.borrow(), ["a made", "c made", "a removed"]);
    assert_eq!(*cloud.has.borrow(), BTreeSet::from(["c".to_owned()]));
}

/// A field that the cloud does not keep: the host would write it for ever.
#[test]
fn a_step_that_brings_nothing_about_is_a_failure_and_not_a_loop() {
    struct Deaf;
    impl Work for Deaf {
        type Step = String;
        fn plan(&self) -> Result<Vec<String>, Failure> {
            Ok(vec!["tag set".to_owned()])
        }
        fn write(&self, _: &String) -> Result<Option<String>, Failure> {
            Ok(None)
        }
        fn state(&self, _: &str) -> Result<State, Failure> {
            Ok(State::Done)
        }
    }
    let _host = FakeCloud::new();
    let mut done = Done::new();
    let failure = Steps::new("lb-1", &1).run(&Deaf, &mut done).expect_err("no end");
    assert_eq!(failure, Failure::retry("tag set, as the cloud says, and it does not show"));
    assert_eq!(done.outcome.changes, ["tag set"]);
}

#[test]
fn what_nobody_knows_of_a_job_keeps_it_and_writes_nothing() {
    struct Down<'c>(Wanted<'c>);
    impl Work for Down<'_> {
        type Step = String;
        fn plan(&self) -> Result<Vec<String>, Failure> {
            self.0.plan()
        }
        fn write(&self, step: &String) -> Result<Option<String>, Failure> {
            self.0.write(step)
        }
        fn state(&self, _: &str) -> Result<State, Failure> {
            Err(Failure::retry("503"))
        }
    }
    let (_host, cloud, mut web) = (FakeCloud::new(), Cloud::default(), Service::named("web"));
    cloud.call(&mut web, &["a"]);
    let mut done = Done::new();
    let steps = Steps::new("lb-1", &["a"].as_slice());
    let result = steps.noted(&web, JOB).run(&Down(Wanted(&cloud, &["a"])), &mut done);
    assert_eq!((result, done), (Err(Failure::retry("503")), Done::new()));
    cloud.calls(&mut web, &["a"]);
    assert_eq!(*cloud.writes.borrow(), ["a made"]);
}
