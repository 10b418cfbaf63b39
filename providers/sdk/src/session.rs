//! Tokens that a login gives: fetched before the first request, renewed once when the cloud refuses them.

use crate::answer::{Answer, Unanswered};
use crate::cloud::Cloud;
use crate::http;
use crate::request::Request;
use crate::transport;
use crate::types::Failure;

/// A captured credential, and how to get it.
///
/// The host sends logins of parallel calls once, and drops only the token that a call has really used: a hundred calls that get
/// a 401 make one login.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    token: &'static str,
    login: fn() -> Request,
    opened: fn(&Answer) -> Result<(), Failure>,
}

impl Session {
    /// `login` builds the request that [captures](Request::capture) `token`. It is sent as one that reads, and without a session.
    pub const fn new(token: &'static str, login: fn() -> Request) -> Self {
        Self { token, login, opened: |_| Ok(()) }
    }

    /// Done with the answer to a login: [binding](Cloud::bind) the endpoints of a service catalogue.
    #[must_use]
    pub const fn opened(mut self, opened: fn(&Answer) -> Result<(), Failure>) -> Self {
        self.opened = opened;
        self
    }

    fn open(self) -> Result<(), Failure> {
        if transport::available(self.token) {
            return Ok(());
        }
        let failed = |failure: Failure| Failure { message: format!("login failed: {}", failure.message), ..failure };
        let login = (self.login)().reads().without_session();
        let answer = login.send().and_then(Answer::ok).map_err(failed)?;
        (self.opened)(&answer)?;
        if transport::available(self.token) {
            return Ok(());
        }
        Err(failed(Failure::retry(format!(
            "{}: the answer brought no token, or it is spent already",
            answer.summary()
        ))))
    }
}

pub(crate) fn exchange_one(request: Request) -> Result<Answer, Unanswered> {
    exchange(vec![request]).pop().unwrap_or_else(|| Err(Unanswered::lost()))
}

/// Sends all, logs in before where needed, and once more for those that get a 401.
pub(crate) fn exchange(requests: Vec<Request>) -> Vec<Result<Answer, Unanswered>> {
    let mut flights: Vec<Flight> = requests.into_iter().map(Flight::prepare).collect();
    open(&mut flights);
    fly(&mut flights);
    if renew(&mut flights) {
        open(&mut flights);
        fly(&mut flights);
    }
    flights.into_iter().map(|flight| flight.outcome.unwrap_or_else(|| Err(Unanswered::lost()))).collect()
}

/// One request of a batch; without an outcome it waits to be sent.
struct Flight {
    cloud: Cloud,
    request: Option<http::Request>,
    repeated: bool,
    outcome: Option<Result<Answer, Unanswered>>,
}

impl Flight {
    fn prepare(request: Request) -> Self {
        match request.finish() {
            Ok((cloud, request)) => Self { cloud, request: Some(request), repeated: false, outcome: None },
            Err(failure) => {
                let outcome = Some(Err(Unanswered::before(failure)));
                Self { cloud: Cloud::new(""), request: None, repeated: false, outcome }
            }
        }
    }

    fn waits_for(&self) -> Option<Session> {
        self.cloud.session.filter(|_| self.outcome.is_none())
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
        let Err(failure) = session.open() else { continue };
        let stranded = |flight: &&mut Flight| flight.waits_for().is_some_and(|awaited| awaited.token == session.token);
        for flight in flights.iter_mut().filter(stranded) {
            flight.outcome = Some(Err(Unanswered::before(failure.clone())));
        }
    }
}

fn fly(flights: &mut [Flight]) {
    let mut waiting: Vec<&mut Flight> = flights.iter_mut().filter(|flight| flight.outcome.is_none()).collect();
    let requests: Vec<http::Request> = waiting.iter_mut().filter_map(|flight| flight.request.take()).collect();
    let responses = transport::send(&requests);
    for ((flight, request), response) in waiting.into_iter().zip(requests).zip(responses) {
        flight.outcome = Some(match response {
            Ok(response) => Ok(Answer::new(response, flight.cloud, flight.repeated)),
            Err(error) => Err(Unanswered::new(error, &request)),
        });
        flight.request = Some(request);
    }
}

/// Makes requests that got a 401 wait again. A 401 means that nothing was done, so that it is right for every effect.
fn renew(flights: &mut [Flight]) -> bool {
    let mut forgotten = vec![];
    for flight in flights {
        let refused = matches!(&flight.outcome, Some(Ok(answer)) if answer.status() == 401);
        let Some(session) = flight.cloud.session.filter(|_| refused) else { continue };
        if !forgotten.contains(&session.token) {
            transport::forget(session.token);
            forgotten.push(session.token);
        }
        flight.repeated = true;
        flight.outcome = None;
    }
    !forgotten.is_empty()
}

#[cfg(test)]
mod tests;
