//! What all requests to one cloud have in common.

use crate::answer::{Answer, Reading};
use crate::http::Method;
use crate::request::{Request, Session};
use crate::transport;
use crate::types::Failure;

/// An endpoint of a cloud and what is done with all its requests and answers. A constant of the provider:
///
/// ```
/// use ccm_sdk::{Answer, Cloud, Request};
/// use ccm_sdk::types::{Failure, Reaction};
///
/// const CLOUD: Cloud = Cloud::new("api").prepare(authorised).exceptions(exceptions);
///
/// fn authorised(request: Request) -> Request {
///     request.header_secret("authorization", "Bearer ", "token")
/// }
///
/// fn exceptions(answer: &Answer) -> Option<Failure> {
///     (answer.status() == 403 && answer.says("limit")).then(|| answer.failure(Reaction::Quota))
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Cloud {
    endpoint: &'static str,
    prepare: fn(Request) -> Request,
    reading: Reading,
    session: Option<Session>,
}

impl Cloud {
    /// The endpoint of that name, which `meta.describe` declares.
    pub const fn new(endpoint: &'static str) -> Self {
        Self { endpoint, prepare: |request| request, reading: Reading::new(), session: None }
    }

    /// The same for another endpoint of the same cloud.
    #[must_use]
    pub const fn at(mut self, endpoint: &'static str) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Done to every request before it leaves, when all else is in it: headers that all have, and signatures.
    #[must_use]
    pub const fn prepare(mut self, prepare: fn(Request) -> Request) -> Self {
        self.prepare = prepare;
        self
    }

    /// What this cloud means with an answer that is not good, where that is not what its status says. Asked first; make the
    /// failure with [`Answer::failure`].
    #[must_use]
    pub const fn exceptions(mut self, exceptions: fn(&Answer) -> Option<Failure>) -> Self {
        self.reading.exceptions = exceptions;
        self
    }

    /// Finds the cloud's own words in an answer that is not good, for messages.
    #[must_use]
    pub const fn message(mut self, message: fn(&Answer) -> Option<String>) -> Self {
        self.reading.message = message;
        self
    }

    /// Whether an answer says that what was asked for does not exist. Without it: a 404 or 410 whose body is JSON, since a
    /// proxy that does not know the way answers 404 as well, and an absent machine loses its Node. A HEAD has no body, so that
    /// it says nothing of the kind.
    #[must_use]
    pub const fn absent(mut self, absent: fn(&Answer) -> bool) -> Self {
        self.reading.absent = absent;
        self
    }

    /// Requests need a token that a login gives.
    #[must_use]
    pub const fn session(mut self, session: Session) -> Self {
        self.session = Some(session);
        self
    }

    /// Requests need no token: those of a login.
    #[must_use]
    pub const fn without_session(mut self) -> Self {
        self.session = None;
        self
    }

    /// Asks for something. See [`Request::new`] for the template.
    pub fn get(self, template: &str) -> Request {
        self.request(Method::Get, template)
    }

    /// Asks for the headers of an answer only.
    pub fn head(self, template: &str) -> Request {
        self.request(Method::Head, template)
    }

    /// Makes something; not repeated unless it says [`reads`](Request::reads) or [`repeatable`](Request::repeatable).
    pub fn post(self, template: &str) -> Request {
        self.request(Method::Post, template)
    }

    /// Replaces something.
    pub fn put(self, template: &str) -> Request {
        self.request(Method::Put, template)
    }

    /// Changes something; not repeated unless it says [`repeatable`](Request::repeatable).
    pub fn patch(self, template: &str) -> Request {
        self.request(Method::Patch, template)
    }

    /// Removes something.
    pub fn delete(self, template: &str) -> Request {
        self.request(Method::Delete, template)
    }

    fn request(self, method: Method, template: &str) -> Request {
        Request::new(method, self.endpoint, template).of(self)
    }

    /// Gives the endpoint the base URL that a service catalogue names.
    ///
    /// # Errors
    ///
    /// The operator does not grant the host of that URL.
    pub fn bind(self, base_url: &str) -> Result<(), Failure> {
        transport::bind(self.endpoint, base_url).map_err(Failure::from)
    }

    /// The path of the endpoint's base URL, `/v2.1`, empty where there is none: whoever appends a version asks first whether it is there
    /// already. None while the endpoint has no base URL: log in first, where a catalogue names it.
    pub fn base_path(self) -> Option<String> {
        transport::base_path(self.endpoint)
    }
}

impl Request {
    /// Makes it a request of that cloud: its exceptions, its session.
    pub fn of(mut self, cloud: Cloud) -> Self {
        (self.prepare, self.reading, self.session) = (cloud.prepare, cloud.reading, cloud.session);
        self
    }
}
