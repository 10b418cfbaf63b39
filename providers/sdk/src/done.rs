//! What a call came to, and what people are told about it.

use crate::events;
use crate::load_balancers::Outcome;
use crate::types::{Failure, Ingress, Problem, Service, Subject};

/// Reason and message of an Event of type Warning.
pub type Warning = (&'static str, String);

/// The outcome of a call about one load balancer, with the warnings that have no place in it.
///
/// ```no_run
/// use ccm_sdk::Done;
/// use ccm_sdk::load_balancers::Outcome;
/// use ccm_sdk::types::{Failure, Ingress, Service};
///
/// fn make(service: &Service, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
///     done.warn("PortIgnored", "port 25 is kept by the cloud, and left out");
///     done.changed("load balancer lb-1 made");
///     Ok(vec![Ingress::ip("203.0.113.9")])
/// }
///
/// fn ensure(service: &Service) -> Outcome {
///     Done::of(|done| make(service, done)).tell()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// For the host.
    pub outcome: Outcome,
    /// About this Service; each once.
    pub warnings: Vec<Warning>,
    /// The same for all Services, and told once for all.
    pub for_all: Vec<Warning>,
}

impl Default for Done {
    fn default() -> Self {
        Self::new()
    }
}

impl Done {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { outcome: Outcome::gone(), warnings: vec![], for_all: vec![] }
    }

    /// What some work comes to.
    pub fn of(work: impl FnOnce(&mut Self) -> Result<Vec<Ingress>, Failure>) -> Self {
        let mut done = Self::new();
        let result = work(&mut done);
        done.with(result)
    }

    /// Something that the owner of the Service should know.
    pub fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        let warning = (reason, message.into());
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Something was changed in the cloud.
    pub fn changed(&mut self, what: impl Into<String>) {
        self.outcome.changes.push(what.into());
    }

    /// An annotation to write on the Service: [`Outcome::annotate`].
    pub fn annotate(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.outcome.set_annotation(name.into(), Some(value.into()));
    }

    /// An annotation to remove from the Service.
    pub fn unannotate(&mut self, name: impl Into<String>) {
        self.outcome.set_annotation(name.into(), None);
    }

    /// How it ended.
    #[must_use]
    pub fn with(mut self, result: Result<Vec<Ingress>, Failure>) -> Self {
        match result {
            Ok(ingress) => self.outcome.ingress = ingress,
            Err(failure) => self.outcome.failure = Some(failure),
        }
        self
    }

    /// Writes the Events: for a call that a change of this Service has caused.
    pub fn tell(self) -> Outcome {
        self.tell_all();
        for (reason, message) in &self.warnings {
            events::warn(&Subject::Call, reason, message);
        }
        self.outcome
    }

    /// The same where looks at many Services tell news as well. A look may have an older state of this Service, or come when it has
    /// been changed back: what was told here is no news to it.
    pub fn tell_about(self, service: &Service) -> Outcome {
        for (_, message) in &self.warnings {
            events::told(&service.uid, message);
        }
        self.tell()
    }

    /// Writes what is news, as one Event: for a look at many Services, which comes again and again. `room` is how many more of
    /// these Events the look may write; the rest comes with the next one.
    pub fn tell_news(&self, service: &Service, room: &mut usize) {
        self.tell_all();
        let is_news = |(_, message): &&Warning| !events::is_told(&service.uid, message);
        let news: Vec<&Warning> = self.warnings.iter().filter(is_news).collect();
        let Some((reason, _)) = news.first().filter(|_| *room > 0) else { return };
        let messages: Vec<&str> = news.iter().map(|(_, message)| message.as_str()).collect();
        messages.iter().for_each(|message| events::told(&service.uid, message));
        events::warn(&service.subject(), reason, &messages.join("; "));
        *room -= 1;
    }

    fn tell_all(&self) {
        for (reason, message) in &self.for_all {
            events::news(&Subject::Provider, reason, message);
        }
    }
}

impl Service {
    /// It, for Events and for lists of failures.
    pub fn subject(&self) -> Subject {
        Subject::Service((self.namespace.clone(), self.name.clone()))
    }
}

/// One that is fatal, as what a call fails with.
impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::invalid(problem.message).field(problem.field)
    }
}

impl Problem {
    /// One failure for all that is fatal, with the field of the first.
    pub fn refusal(problems: Vec<Self>) -> Option<Failure> {
        let mut fatal = problems.into_iter().filter(|problem| problem.fatal);
        let mut first = fatal.next()?;
        for problem in fatal {
            first.message.push_str("; ");
            first.message.push_str(&problem.message);
        }
        Some(first.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeCloud;

    #[test]
    fn a_call_tells_all_and_a_look_at_many_tells_news_in_one_event_each() {
        let fake = FakeCloud::new();
        let mut done = Done::new();
        for message in ["a", "b", "a"] {
            done.warn("Odd", message);
        }
        done.for_all.push(("Foreign", "Node x".to_owned()));
        let (one, two, three) = (Service::named("one"), Service::named("two"), Service::named("three"));
        let mut room = 2;
        for service in [&one, &one, &two, &three] {
            done.tell_news(service, &mut room);
        }
        let looked = ["provider Foreign: Node x", "default/one Odd: a; b", "default/two Odd: a; b"];
        assert_eq!((fake.events(), room), (looked.map(str::to_owned).to_vec(), 0));
        done.changed("made");
        assert_eq!(done.tell().changes, ["made"]);
        assert_eq!(fake.events()[3..], ["call Odd: a", "call Odd: b"]);
        // Another Service of the same name.
        let again = Service { uid: "another".to_owned(), ..one };
        let mut more = Done::new();
        more.warn("Odd", "a; b");
        more.tell_news(&again, &mut 1);
        assert_eq!(fake.events()[5..], ["default/one Odd: a; b"]);
    }

    /// A look that began before a change told once more what the Service had been told before it.
    #[test]
    fn a_look_at_an_older_state_tells_nothing_that_a_call_has_told() {
        let fake = FakeCloud::new();
        let web = Service::named("web");
        let of = |message: &str| {
            let mut done = Done::new();
            done.warn("Odd", message);
            done.warn("Odd", "b");
            done
        };
        of("older").tell_about(&web);
        of("newer").tell_about(&web);
        Done::new().tell_about(&web);
        let told = fake.events().len();
        assert_eq!(told, 4, "{:?}", fake.events());
        for message in ["older", "newer"] {
            of(message).tell_news(&web, &mut 9);
        }
        assert_eq!(fake.events().len(), told, "{:?}", fake.events());
        of("newest").tell_news(&web, &mut 9);
        assert_eq!(fake.events()[told..], ["default/web Odd: newest"], "and nothing else with it");
        // Whoever changes it back is told again: by the call for the change.
        of("older").tell_about(&web);
        assert_eq!(fake.events()[told + 1..], ["call Odd: older", "call Odd: b"]);
    }

    #[test]
    fn all_that_is_fatal_is_one_failure() {
        assert_eq!(Problem::refusal(vec![Problem::harmless("x", "odd")]), None);
        let problems = vec![Problem::harmless("x", "odd"), Problem::fatal("y", "bad"), Problem::fatal("z", "worse")];
        assert_eq!(Problem::refusal(problems), Some(Failure::invalid("bad; worse").field("y")));
    }
}
