//! What the cloud answered, and what to do about it.

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::http::{self, Effect, Response, TransportError};
use crate::record::{self, Places, Value};
use crate::types::{Failure, Reaction};
use crate::{decode_error, status};

/// An answer of the cloud, good or not.
#[derive(Debug, Clone)]
#[must_use = "only done(), ok(), optional() and json() look at the status"]
pub struct Answer {
    response: Response,
    reading: Reading,
    /// It is the answer to a repetition with a fresh token.
    repeated: bool,
}

/// How a cloud's answers are read, where their status does not say everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) exceptions: fn(&Answer) -> Option<Failure>,
    pub(crate) message: fn(&Answer) -> Option<String>,
    pub(crate) absent: fn(&Answer) -> bool,
}

impl Reading {
    /// As every cloud answers.
    pub(crate) const fn new() -> Self {
        Self { exceptions: |_| None, message: |_| None, absent: is_absent }
    }
}

/// Longest text of a cloud in a message, in characters.
const MAX_WORDS: usize = 300;

impl Answer {
    pub(crate) fn new(response: Response, reading: Reading, repeated: bool) -> Self {
        Self { response, reading, repeated }
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.response.status
    }

    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.response.headers.iter();
        headers.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as it came.
    pub fn body(&self) -> &[u8] {
        &self.response.body
    }

    /// The host's line for messages: operation, status, request id, and what came when it should have been JSON.
    pub fn summary(&self) -> &str {
        &self.response.summary
    }

    /// Only a good answer: a status of 200 to 299.
    ///
    /// # Errors
    ///
    /// What this cloud's exceptions or the status say. Of a 404 that the cloud itself gave: `conflict`, since the caller took
    /// for granted what is not there (any more).
    pub fn ok(self) -> Result<Self, Failure> {
        if self.is_good() { Ok(self) } else { Err(self.to_failure()) }
    }

    /// For requests whose answer says nothing more than that it is good.
    ///
    /// # Errors
    ///
    /// As [`ok`](Self::ok).
    pub fn done(self) -> Result<(), Failure> {
        self.ok().map(drop)
    }

    /// A good answer, or `None` when the cloud says that what was asked for does not exist.
    ///
    /// # Errors
    ///
    /// As [`ok`](Self::ok); also for a 404 that does not come from the cloud itself.
    pub fn optional(self) -> Result<Option<Self>, Failure> {
        if self.is_good() {
            return Ok(Some(self));
        }
        if (self.reading.absent)(&self) { Ok(None) } else { Err(self.to_failure()) }
    }

    /// What a good answer says.
    ///
    /// # Errors
    ///
    /// As [`ok`](Self::ok), and `retry` for a body that does not fit `T`, with the place in it but never its text.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, Failure> {
        self.ok()?.parse()
    }

    /// What a good answer has at a place, which is written like `/droplet` or `/meta/total`: the objects around it need no types.
    ///
    /// ```
    /// # use ccm_sdk::Answer;
    /// # use ccm_sdk::types::Failure;
    /// ccm_sdk::records! {
    ///     pub struct Machine { pub id: String [id] }
    /// }
    ///
    /// fn machine(answer: Answer) -> Result<Machine, Failure> {
    ///     answer.json_at("/machine") // of {"machine": {"id": "m-7"}}
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json); `retry` when there is nothing at that place.
    pub fn json_at<T: Value + Default>(self, place: &'static str) -> Result<T, Failure> {
        let answer = self.ok()?;
        let mut value: Option<T> = None;
        answer.read(&mut [(place, &mut value)])?;
        value.ok_or_else(|| answer.lacks(place))
    }

    /// A text at a place, whatever the status: the words of a cloud in an answer that is not good.
    pub fn text_at(&self, place: &'static str) -> Option<String> {
        let mut text: Option<String> = None;
        self.read(&mut [(place, &mut text)]).ok()?;
        text
    }

    /// Reads what is at these places; an empty place is the whole body.
    pub(crate) fn read(&self, places: &mut [(&'static str, &mut dyn Value)]) -> Result<(), Failure> {
        let mut deserializer = serde_json::Deserializer::from_slice(self.body());
        let read = match places {
            [("", whole), ..] => record::fill(&mut deserializer, whole.slot()),
            places => record::read(&mut deserializer, &mut Places { places, path: String::new() }),
        };
        read.and_then(|()| deserializer.end()).map_err(|error| self.unreadable(&error))
    }

    pub(crate) fn lacks(&self, place: &str) -> Failure {
        Failure::retry(format!("{}: the answer has no {place}", self.summary()))
    }

    /// What the body says, whatever the status: for the bodies of errors, and for clouds that answer a read with 300.
    ///
    /// # Errors
    ///
    /// `retry` for a body that does not fit `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.body()).map_err(|error| self.unreadable(&error))
    }

    #[inline(never)]
    fn unreadable(&self, error: &serde_json::Error) -> Failure {
        Failure::retry(format!("{}: {}", self.summary(), decode_error::describe(self.body(), error)))
    }

    /// The cloud's own words, as its [extractor](crate::Cloud::message) finds them, on one short line.
    pub fn message(&self) -> Option<String> {
        (self.reading.message)(self).map(|text| one_line(&text)).filter(|text| !text.is_empty())
    }

    /// Whether the cloud's own words contain this, in capitals or not (of ASCII: the tables for all others are large).
    pub fn says(&self, words: &str) -> bool {
        self.message().is_some_and(|message| message.to_ascii_lowercase().contains(&words.to_ascii_lowercase()))
    }

    /// A failure about this answer, with all that is known: for a cloud's exceptions. How long to wait is taken from
    /// `Retry-After`.
    pub fn failure(&self, reaction: Reaction) -> Failure {
        let mut message = self.summary().to_owned();
        if self.repeated && self.status() == 401 {
            message.push_str(": a fresh token was refused too");
        }
        if let Some(words) = self.message() {
            message.push_str(": ");
            message.push_str(&words);
        }
        let mut failure = Failure::new(reaction, message);
        failure.retry_after_ms = retry_after_ms(self);
        failure
    }

    fn is_good(&self) -> bool {
        (200..300).contains(&self.status())
    }

    fn to_failure(&self) -> Failure {
        let Some(mut failure) = (self.reading.exceptions)(self) else {
            return self.failure(status::reaction(self.status(), (self.reading.absent)(self)));
        };
        if !failure.message.contains(self.summary()) {
            failure.message = format!("{}: {}", self.summary(), failure.message);
        }
        failure
    }
}

/// How clouds say that something does not exist.
fn is_absent(answer: &Answer) -> bool {
    let json = || {
        let object = answer.body().trim_ascii_start().first() == Some(&b'{');
        object && serde_json::from_slice::<IgnoredAny>(answer.body()).is_ok()
    };
    matches!(answer.status(), 404 | 410) && json()
}

/// `Retry-After`, as seconds. As a date it is left to the host's own back-off.
fn retry_after_ms(answer: &Answer) -> Option<u32> {
    let seconds: u64 = answer.header("retry-after")?.trim().parse().ok()?;
    Some(u32::try_from(seconds.saturating_mul(1_000)).unwrap_or(u32::MAX))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || letter.is_control()).collect();
    let mut line = String::new();
    for word in words.into_iter().filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(MAX_WORDS - 1) {
        Some((at, last)) if at + last.len_utf8() < line.len() => {
            line.truncate(at);
            line.push('…');
            line
        }
        _ => line,
    }
}

/// How the message of a failure without an answer ends, where the request must not be sent twice.
const MAYBE_ARRIVED: &str = "; the request may have arrived";

/// Whether a failure is about a request that must not be sent twice, and may have arrived. A failure has no other place for it.
pub(crate) fn may_have_arrived(failure: &Failure) -> bool {
    failure.message.ends_with(MAYBE_ARRIVED)
}

/// There is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// Why, and what to do.
    pub failure: Failure,
    /// False when it is certain that the cloud got nothing of the request. An answer of 5xx is as uncertain as a true here.
    pub maybe_sent: bool,
}

impl Unanswered {
    pub(crate) fn new(error: TransportError, request: &http::Request) -> Self {
        let maybe_sent = error.maybe_sent;
        let mut failure = Failure::from(error);
        if !failure.message.contains(&request.operation) {
            failure.message = format!("{}: {}", request.operation, failure.message);
        }
        if maybe_sent && request.effect == Effect::Once {
            failure.message.push_str(MAYBE_ARRIVED);
        }
        Self { failure, maybe_sent }
    }

    /// The request never left.
    pub(crate) fn before(failure: Failure) -> Self {
        Self { failure, maybe_sent: false }
    }

    pub(crate) fn lost() -> Self {
        Self { failure: Failure::retry("the host gave no answer to a request"), maybe_sent: true }
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.failure
    }
}

#[cfg(test)]
mod tests;
