//! Sends requests. Logs in before the first one where a cloud needs a token, and renews the token once if the cloud refuses it.

use std::time::Duration;

use crate::answer::{Answer, Reading, Unanswered};
use crate::http::{self, TransportReason};
use crate::request::{Finished, Request, Session};
use crate::types::{Failure, Reaction};
use crate::{status, transport};

impl Session {
    /// `login` builds the request that [captures](Request::capture) `token`. It is sent as one that reads, and without a session.
    pub const fn new(token: &'static str, login: fn() -> Request) -> Self {
        Self { token, login, opened: |_| Ok(()) }
    }

    /// Done with the answer to a login: [binding](crate::Cloud::bind) the endpoints of a service catalogue.
    #[must_use]
    pub const fn opened(mut self, opened: fn(&Answer) -> Result<(), Failure>) -> Self {
        self.opened = opened;
        self
    }

    /// What the login answered that brought the token: a service catalogue, the ID of the project. The host keeps it with the token,
    /// so that after a swap, and in every call, it is there without another login; without a token, and in a call that needs proof,
    /// this logs in. The token itself is not in it: where it stood is a placeholder.
    ///
    /// ```
    /// use ccm_sdk::http::CaptureSource;
    /// use ccm_sdk::meta::Capability;
    /// use ccm_sdk::types::Failure;
    /// use ccm_sdk::{Cloud, Request, Session};
    ///
    /// ccm_sdk::records! {
    ///     /// A service of the catalogue.
    ///     struct Service { kind: String = "type" }
    /// }
    ///
    /// const SESSION: Session = Session::new("token", login);
    ///
    /// fn login() -> Request {
    ///     let token = CaptureSource::Header("x-subject-token".to_owned());
    ///     Cloud::new("identity").post("/v3/auth/tokens").capture("token", token, None)
    /// }
    ///
    /// /// A cloud without this service has no load balancers.
    /// fn offers() -> Result<Vec<Capability>, Failure> {
    ///     let catalogue: Vec<Service> = SESSION.answer()?.json_at("/token/catalog")?;
    ///     let balances = catalogue.iter().any(|service| service.kind == "load-balancer");
    ///     Ok(if balances { vec![Capability::LoadBalancers] } else { vec![] })
    /// }
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// There is no token, and the login failed.
    pub fn answer(self) -> Result<Answer, Failure> {
        self.log_in(transport::available(self.token))
    }

    /// Ends the token: the next request, or [`answer`](Self::answer), logs in. For what a login may answer otherwise by now.
    pub fn forget(self) {
        transport::forget(self.token);
    }

    /// `again`: although there is a token, since what the login found is missing.
    fn open(self, again: bool) -> Result<(), Failure> {
        let is_open = transport::available(self.token);
        if is_open && !again { Ok(()) } else { self.log_in(is_open).map(drop) }
    }

    /// `is_open`: there is a token. Then the host has the answer of its login still, and the cloud is not asked.
    fn log_in(self, is_open: bool) -> Result<Answer, Failure> {
        let failed = |failure: Failure| Failure {
            message: format!("login failed: {}", failure.message),
            reaction: reaction(failure.reaction),
            ..failure
        };
        let mut login = (self.login)().reads().without_session();
        if is_open {
            login = login.share(Duration::MAX);
        }
        let answer = login.send().map_err(failed)?;
        let is_no = status::is_no(answer.status());
        let answer = answer.ok().map_err(failed).map_err(|failure| match failure.reaction {
            Reaction::Retry if is_no => Failure { reaction: Reaction::Unauthorized, ..failure },
            _ => failure,
        })?;
        (self.opened)(&answer)?;
        if transport::available(self.token) {
            return Ok(answer);
        }
        Err(failed(Failure::retry(format!(
            "{}: the answer brought no token, or it is spent already",
            answer.summary()
        ))))
    }
}

/// A refused login says nothing about the object at hand: it is for whoever gave the credential, and tried again.
fn reaction(of_login: Reaction) -> Reaction {
    match of_login {
        Reaction::Invalid | Reaction::Conflict | Reaction::Unsupported | Reaction::Elsewhere => Reaction::Unauthorized,
        other => other,
    }
}

impl Request {
    /// Sends it. Any status is an answer: [`Answer::json`], [`Answer::done`] and [`Answer::optional`] look at it.
    ///
    /// # Errors
    ///
    /// There is no answer, the request could not be built, or the login failed.
    pub fn send(self) -> Result<Answer, Failure> {
        self.attempt().map_err(Failure::from)
    }

    /// Sends it, and without an answer says whether the request may have arrived: for what must not be done twice.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn attempt(self) -> Result<Answer, Unanswered> {
        exchange_one(self)
    }
}

/// Sends all at once, within the host's limits, and answers in order.
pub fn send_all(requests: Vec<Request>) -> Vec<Result<Answer, Failure>> {
    exchange(requests).into_iter().map(|result| result.map_err(Failure::from)).collect()
}

fn exchange_one(request: Request) -> Result<Answer, Unanswered> {
    exchange(vec![request]).pop().unwrap_or_else(|| Err(Unanswered::lost()))
}

/// Sends all, logs in before where needed, and once more for those that get a 401.
fn exchange(requests: Vec<Request>) -> Vec<Result<Answer, Unanswered>> {
    let mut flights: Vec<Flight> = requests.into_iter().map(Flight::prepare).collect();
    open(&mut flights);
    fly(&mut flights);
    // Ends, since nothing is sent again twice for the same reason.
    while renew(&mut flights) {
        open(&mut flights);
        fly(&mut flights);
    }
    flights.into_iter().map(|flight| flight.outcome.unwrap_or_else(|| Err(Unanswered::lost()))).collect()
}

/// One request of a batch; without an outcome it waits to be sent.
struct Flight {
    reading: Reading,
    session: Option<Session>,
    request: Option<http::Request>,
    /// A token was refused.
    repeated: bool,
    /// It never left, for want of what a login gives.
    stranded: bool,
    /// Why there was no answer.
    reason: Option<TransportReason>,
    outcome: Option<Result<Answer, Unanswered>>,
}

impl Flight {
    fn prepare(request: Request) -> Self {
        match request.finish() {
            Ok(Finished { reading, session, raw }) => Self::new(reading, session, Some(raw), None),
            Err(failure) => Self::new(Reading::new(), None, None, Some(Err(Unanswered::before(failure)))),
        }
    }

    fn new(
        reading: Reading,
        session: Option<Session>,
        request: Option<http::Request>,
        outcome: Option<Result<Answer, Unanswered>>,
    ) -> Self {
        Self { reading, session, request, repeated: false, stranded: false, reason: None, outcome }
    }

    /// Whether it may be for want of what a login gives that there is no answer.
    fn lacks_login(&self) -> bool {
        matches!(self.reason, Some(TransportReason::Unbound | TransportReason::UnknownCredential))
    }

    fn waits_for(&self) -> Option<Session> {
        self.session.filter(|_| self.outcome.is_none())
    }
}

/// One login at most for every token that waiting requests need.
fn open(flights: &mut [Flight]) {
    let mut sessions: Vec<Session> = vec![];
    for session in flights.iter().filter_map(Flight::waits_for) {
        if !sessions.iter().any(|known| known.token == session.token) {
            sessions.push(session);
        }
    }
    for session in sessions {
        let waits = |flight: &Flight| flight.waits_for().is_some_and(|awaited| awaited.token == session.token);
        let again = flights.iter().any(|flight| waits(flight) && flight.reason == Some(TransportReason::Unbound));
        let Err(failure) = session.open(again) else { continue };
        for flight in flights.iter_mut().filter(|flight| waits(flight)) {
            flight.outcome = Some(Err(Unanswered::before(failure.clone())));
        }
    }
}

fn fly(flights: &mut [Flight]) {
    let mut waiting: Vec<&mut Flight> = flights.iter_mut().filter(|flight| flight.outcome.is_none()).collect();
    let requests: Vec<http::Request> = waiting.iter_mut().filter_map(|flight| flight.request.take()).collect();
    let responses = transport::send(&requests);
    for ((flight, request), response) in waiting.into_iter().zip(requests).zip(responses) {
        flight.reason = response.as_ref().err().map(|error| error.reason);
        flight.outcome = Some(match response {
            Ok(response) => Ok(Answer::new(response, flight.reading, flight.repeated)),
            Err(error) => Err(Unanswered::new(error, &request)),
        });
        flight.request = Some(request);
    }
}

/// Makes requests wait again that got a 401, or never left: another call has ended the token that this one had seen, or has
/// logged in and not bound the endpoints yet. Either way nothing was done, so that it is right for every effect.
fn renew(flights: &mut [Flight]) -> bool {
    let mut forgotten = vec![];
    let mut any = false;
    for flight in flights {
        let Some(session) = flight.session else { continue };
        match &flight.outcome {
            Some(Ok(answer)) if answer.status() == 401 && !flight.repeated => {
                if !forgotten.contains(&session.token) {
                    transport::forget(session.token);
                    forgotten.push(session.token);
                }
                flight.repeated = true;
            }
            Some(Err(unanswered)) if flight.lacks_login() && !unanswered.maybe_sent && !flight.stranded => {
                flight.stranded = true;
            }
            _ => continue,
        }
        flight.outcome = None;
        any = true;
    }
    any
}

#[cfg(test)]
mod tests;
