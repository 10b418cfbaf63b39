//! Requests, built by chaining.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

use crate::answer::{Answer, Reading};
use crate::credentials::{Encoding, Part};
use crate::duration;
use crate::http::{self, Capture, CaptureSource, Effect, Method};
use crate::types::Failure;
use crate::{percent, route};

/// A captured credential, and how to get it.
///
/// The host sends logins of parallel calls once, and drops only the token that a call has really used: a hundred calls that get
/// a 401 make one login.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    pub(crate) token: &'static str,
    pub(crate) login: fn() -> Request,
    pub(crate) opened: fn(&Answer) -> Result<(), Failure>,
}

/// A request as the host takes it, and how its answer is read.
pub(crate) struct Finished {
    pub(crate) reading: Reading,
    pub(crate) session: Option<Session>,
    pub(crate) raw: http::Request,
}

/// A request on its way. Mistakes made while building it come out when it is sent.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    pub(crate) prepare: fn(Self) -> Self,
    pub(crate) reading: Reading,
    pub(crate) session: Option<Session>,
    /// Its path is empty until the request leaves.
    raw: http::Request,
    template: String,
    arguments: Vec<(String, String)>,
    fault: Option<Failure>,
}

impl Request {
    /// A request to an endpoint that `meta.describe` declares.
    ///
    /// `template` is a path with a `{name}` for every [`arg`](Self::arg): `/v2/droplets/{id}`. With the method before it, it is
    /// the name of the operation in metrics, events and messages. GET and HEAD read, PUT and DELETE may be repeated, POST and
    /// PATCH may not, unless told otherwise.
    pub fn new(method: Method, endpoint: &str, template: &str) -> Self {
        let (verb, effect) = match method {
            Method::Get => ("GET", Effect::Read),
            Method::Head => ("HEAD", Effect::Read),
            Method::Post => ("POST", Effect::Once),
            Method::Put => ("PUT", Effect::Repeatable),
            Method::Patch => ("PATCH", Effect::Once),
            Method::Delete => ("DELETE", Effect::Repeatable),
        };
        Self {
            prepare: |request| request,
            reading: Reading::new(),
            session: None,
            raw: http::Request {
                endpoint: endpoint.to_owned(),
                method,
                effect,
                path: String::new(),
                query: vec![],
                headers: vec![],
                body: vec![],
                operation: format!("{verb} {template}"),
                share_ms: 0,
                capture: None,
            },
            template: template.to_owned(),
            arguments: vec![],
            fault: None,
        }
    }

    /// A GET outside any [`Cloud`](crate::Cloud).
    pub fn get(endpoint: &str, template: &str) -> Self {
        Self::new(Method::Get, endpoint, template)
    }

    /// A POST outside any [`Cloud`](crate::Cloud).
    pub fn post(endpoint: &str, template: &str) -> Self {
        Self::new(Method::Post, endpoint, template)
    }

    /// A request that is never sent: sending it gives the failure. For what is built from settings that turn out wrong.
    pub fn refused(failure: Failure) -> Self {
        let mut request = Self::get("", "/");
        request.fault = Some(failure);
        request
    }

    /// The operation under another name, where the path does not tell: `listVirtualMachines`.
    pub fn operation(mut self, name: &str) -> Self {
        name.clone_into(&mut self.raw.operation);
        self
    }

    /// Fills a `{name}` of the template. What would lead to another place than that segment is refused when the request is sent.
    pub fn arg(mut self, name: &str, value: impl Display) -> Self {
        self.arguments.push((name.to_owned(), value.to_string()));
        self
    }

    /// A parameter of the query, not encoded yet.
    pub fn query(self, name: &str, value: impl Display) -> Self {
        self.query_parts(name, vec![Part::bytes(value.to_string())])
    }

    /// A parameter of the query that is a credential.
    pub fn query_secret(self, name: &str, credential: &str, encoding: Encoding) -> Self {
        self.query_parts(name, vec![Part::secret(credential, encoding)])
    }

    /// A parameter of the query in pieces: a signature.
    pub fn query_parts(mut self, name: &str, value: Vec<Part>) -> Self {
        self.raw.query.push((name.to_owned(), value));
        self
    }

    /// The query so far, for what signs it.
    pub fn query_so_far(&self) -> &[(String, Vec<Part>)] {
        &self.raw.query
    }

    /// A header. One of the same name is replaced.
    pub fn header(self, name: &str, value: impl Display) -> Self {
        self.header_parts(name, vec![Part::bytes(value.to_string())])
    }

    /// A header that is a credential, often after a prefix: `Bearer `.
    pub fn header_secret(self, name: &str, prefix: &str, credential: &str) -> Self {
        let mut value = vec![Part::secret(credential, Encoding::Plain)];
        if !prefix.is_empty() {
            value.insert(0, Part::bytes(prefix));
        }
        self.header_parts(name, value)
    }

    /// A header in pieces: a signature. One of the same name is replaced.
    pub fn header_parts(mut self, name: &str, value: Vec<Part>) -> Self {
        self.raw.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.raw.headers.push((name.to_owned(), value));
        self
    }

    /// The body as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.body_parts("application/json", vec![Part::Bytes(bytes)]),
            Err(error) => {
                let what = format!("a mistake in the provider: the body of {} is no JSON: {error}", self.raw.operation);
                self.fault.get_or_insert(Failure::unsupported(what));
                self
            }
        }
    }

    /// The body as a form. Bytes are encoded here; credentials and signatures need an encoding that a form can carry.
    pub fn form(self, fields: Vec<(String, Vec<Part>)>) -> Self {
        let mut body = vec![];
        for (name, parts) in fields {
            let before = if body.is_empty() { "" } else { "&" };
            let name = percent::encode(&name, percent::UNRESERVED);
            body.push(Part::bytes(format!("{before}{name}=")));
            body.extend(parts.into_iter().map(|part| match part {
                Part::Bytes(bytes) => {
                    Part::bytes(percent::encode(&String::from_utf8_lossy(&bytes), percent::UNRESERVED))
                }
                other => other,
            }));
        }
        self.body_parts("application/x-www-form-urlencoded", body)
    }

    /// The body in pieces: JSON with a password in it.
    pub fn body_parts(mut self, content_type: &str, body: Vec<Part>) -> Self {
        self.raw.body = body;
        self.header("content-type", content_type)
    }

    /// An answer this young will do, and an identical request under way is joined. Only for what reads.
    pub fn share(mut self, age: Duration) -> Self {
        self.raw.share_ms = duration::millis_u32(age);
        self
    }

    /// Changes nothing, whatever its method: a login, a search.
    pub fn reads(self) -> Self {
        self.effect(Effect::Read)
    }

    /// Doing it twice is the same as once.
    pub fn repeatable(self) -> Self {
        self.effect(Effect::Repeatable)
    }

    /// Must not be done twice.
    pub fn once(self) -> Self {
        self.effect(Effect::Once)
    }

    /// What it does to the cloud.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.raw.effect = effect;
        self
    }

    /// A value of the answer becomes a credential, for as long as `expires` in the answer says.
    pub fn capture(mut self, credential: &str, source: CaptureSource, expires: Option<CaptureSource>) -> Self {
        self.raw.capture = Some(Capture { credential: credential.to_owned(), source, expires, ttl_ms: None });
        self
    }

    /// What was captured is kept no longer than this.
    pub fn capture_at_most(mut self, age: Duration) -> Self {
        if let Some(capture) = &mut self.raw.capture {
            capture.ttl_ms = Some(duration::millis_u32(age));
        }
        self
    }

    pub(crate) fn operation_name(&self) -> &str {
        &self.raw.operation
    }

    pub(crate) const fn method(&self) -> Method {
        self.raw.method
    }

    pub(crate) fn path(&self) -> Result<String, Failure> {
        route::fill(&self.template, &self.arguments)
    }

    /// Replaces what the query has under these names by these values. A parameter that the host fills in stays: whoever wrote
    /// the values has not seen it.
    pub(crate) fn replace_query(&mut self, values: Vec<(String, String)>) {
        let query = &mut self.raw.query;
        let known = |parts: &[Part]| parts.iter().all(|part| matches!(part, Part::Bytes(_)));
        query.retain(|(name, parts)| !known(parts) || !values.iter().any(|(other, _)| other == name));
        let kept: Vec<String> = query.iter().map(|(name, _)| name.clone()).collect();
        let added = values.into_iter().filter(|(name, _)| !kept.contains(name));
        query.extend(added.map(|(name, value)| (name, vec![Part::bytes(value)])));
    }

    /// The request as the host takes it.
    pub(crate) fn finish(self) -> Result<Finished, Failure> {
        let mut request = (self.prepare)(self);
        if let Some(fault) = request.fault {
            return Err(fault);
        }
        request.raw.path = route::fill(&request.template, &request.arguments)?;
        // Without it some clouds answer errors in HTML, and the host does not look for JSON.
        if !request.raw.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            request.raw.headers.push(("accept".to_owned(), vec![Part::bytes("application/json")]));
        }
        Ok(Finished { reading: request.reading, session: request.session, raw: request.raw })
    }

    pub(crate) fn without_session(mut self) -> Self {
        self.session = None;
        self
    }
}

#[cfg(test)]
mod tests;
