//! Sends a request, with repetitions: waits for a turn, exchanges, tells the budget how it ended, and decides whether to try again.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::failed::Answered;
use super::render::Rendered;
use super::{Egress, NetworkLimits};
use crate::answer;
use crate::budget::{Fault, Permit};
use crate::call::{CallScope, Held};
use crate::endpoints::Target;
use crate::error::{TransportError, TransportReason, no_answer};
use crate::headers;
use crate::http::{Effect, Part, Request, Response};
use crate::long_work::{off_the_workers, pause_between};
use crate::observe::ExchangeOutcome;
use crate::redact::Redactor;
use crate::retry::{AttemptEnd, may_repeat};

/// An answer as the cloud sent it.
struct Raw {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    /// Of the body, as it came.
    bytes: usize,
}

/// What was found in an answer.
enum Extracted {
    Answer,
    /// Something else, where JSON was asked for.
    NotJson,
}

const fn is_good(status: u16) -> bool {
    matches!(status, 200..=299)
}

impl Egress {
    /// Tries until there is an answer, or no sense in trying again.
    pub(super) async fn attempts(
        &self,
        request: &Request,
        target: &Target<'_>,
        operation: &str,
        call: &CallScope,
    ) -> Result<Response, TransportError> {
        let prefix = |error: TransportError| error.after(operation);
        let Some(budget) = self.budgets.get(&request.endpoint) else {
            let why = format!("endpoint {:?} is not declared by the provider", request.endpoint);
            return Err(prefix(TransportError::denied(why)));
        };
        let mut delays = self.settings.retry.delays();
        let mut maybe_sent = false;
        let (mut attempt, mut sent) = (1_u32, 0_u32);
        loop {
            let arrived = Instant::now();
            let permit = budget.acquire(call.class(), call.deadline).await;
            let mut permit = match permit {
                Ok(permit) => permit,
                Err(refusal) => {
                    let (held, limit) = (Some(refusal.message.clone()), refusal.limit);
                    let mut error = prefix(TransportError { maybe_sent, ..refusal.into() });
                    let nothing = Answered { error: Some(error.reason), held, limit, ..Answered::default() };
                    error.failed = Some(self.failed(request, target, operation, nothing, sent));
                    self.tell(
                        &request.endpoint,
                        operation,
                        ExchangeOutcome::Failed(error.reason),
                        Duration::ZERO,
                        arrived.elapsed(),
                    );
                    return Err(error);
                }
            };
            if request.effect != Effect::Read {
                call.begins();
            }
            let span = self.span(request, target, operation, attempt);
            let start = Instant::now();
            let mut answered = Answered::default();
            let outcome = match self.prepare(request, target) {
                Ok((client, rendered)) => {
                    // So that the call can drop the value that it used, and log in again.
                    for (credential, generation) in &rendered.used {
                        call.saw(credential, *generation, false);
                    }
                    sent = sent.saturating_add(1);
                    self.exchange(client, request, rendered, call, &mut permit, &mut answered).await
                }
                // Nothing was sent, and nothing in it is secret. Cleaned, what the component wrote would show it without a request whether
                // it guessed a secret.
                Err(error) => Err((error, None)),
            };
            let time = start.elapsed();
            let waited = permit.waited();
            let (told, answer) = match outcome {
                Ok((raw, rendered, mut held)) => {
                    maybe_sent = true;
                    let status = raw.status;
                    // What becomes a credential is one before anything of the answer is shown.
                    let veiled = self.of_request(&rendered).map_err(TransportError::sent).and_then(|own| {
                        off_the_workers(raw.bytes, || {
                            let taken = self.extract(request, &raw, &rendered, &own);
                            Ok((self.veiled(raw, &own)?, taken))
                        })
                    });
                    let answer = match veiled {
                        Ok((veiled, taken)) => {
                            self.span_answered(&span, &veiled.headers);
                            self.trace(request, operation, attempt, &rendered, Some(&veiled), None, time, waited);
                            let answer = match self.hides_answer(request, status) {
                                None => {
                                    answered.request_id = answer::request_id(&veiled.headers);
                                    self.answer(operation, veiled, answered.request_id.as_deref(), taken)
                                }
                                Some(why) => Ok(status_alone(operation, status, why)),
                            };
                            answer.and_then(|answer| {
                                if held.fit(answer.body.len()) {
                                    return Ok((answer, held));
                                }
                                Err(prefix(TransportError::call_full(self.limits().call_response_bytes)))
                            })
                        }
                        Err(error) => Err(prefix(error)),
                    };
                    (ExchangeOutcome::Status(status), answer)
                }
                Err((mut error, rendered)) => {
                    learn(&mut permit, &error);
                    if let Some(rendered) = rendered {
                        error.message = self.cleaned(&error.message);
                        self.trace(request, operation, attempt, &rendered, None, Some(&error), time, waited);
                    }
                    (ExchangeOutcome::Failed(error.reason), Err(prefix(error)))
                }
            };
            drop(permit);
            self.tell(&request.endpoint, operation, told, time, waited);
            self.span_ended(&span, told, answer.as_ref().err());
            drop(span);
            maybe_sent |= matches!(&answer, Err(error) if error.maybe_sent);
            let again = may_repeat(request.effect, retry_outcome(told, &answer));
            let delay = if again { delays.next() } else { None };
            match delay {
                Some(delay) if call.remaining() > delay => {
                    drop(answer);
                    tokio::time::sleep(delay).await;
                }
                _ => {
                    let failed = match &answer {
                        Ok((answer, _)) if is_good(answer.status) => None,
                        _ => {
                            answered.error = answer.as_ref().err().map(|error| error.reason);
                            answered.held = budget.pause();
                            Some(self.failed(request, target, operation, answered, sent))
                        }
                    };
                    let (mut answer, held) = match answer {
                        Ok(answered) => answered,
                        Err(error) => {
                            let maybe_sent = error.maybe_sent || maybe_sent;
                            return Err(TransportError { maybe_sent, failed, ..error });
                        }
                    };
                    held.keep();
                    answer.failed = failed;
                    return Ok(answer);
                }
            }
            attempt = attempt.saturating_add(1);
        }
    }

    /// Everything that may still refuse the request, at the last moment: time has passed while it waited.
    fn prepare(&self, request: &Request, target: &Target<'_>) -> Result<(reqwest::Client, Rendered), TransportError> {
        // Once: a second answer may be another.
        if request.effect != Effect::Read {
            crate::effect::check_leader(&*self.leadership)?;
        }
        let rendered = self.render(request, &target.base.url)?;
        Ok((target.client()?, rendered))
    }

    async fn exchange<'a>(
        &self,
        client: reqwest::Client,
        request: &Request,
        mut rendered: Rendered,
        call: &'a CallScope,
        permit: &mut Permit,
        answered: &mut Answered,
    ) -> Result<(Raw, Rendered, Held<'a>), (TransportError, Option<Rendered>)> {
        let limits = *self.limits();
        // What takes longer would arrive when another process may already make changes.
        let term = if request.effect == Effect::Read { Duration::MAX } else { self.leadership.time_left() };
        let time = limits.request_time.min(call.remaining()).min(term);
        // Later than the clock can say: the call has its own end.
        let end = Instant::now().checked_add(time).unwrap_or(call.deadline);
        let body = std::mem::take(&mut rendered.body);
        let sent = client
            .request(request.method.into(), rendered.url.clone())
            .headers(std::mem::take(&mut rendered.headers))
            .timeout(time)
            .body(body)
            .send();
        let mut answer = match sent.await {
            Ok(answer) => answer,
            Err(error) => return Err((self.unanswered(error, request, &rendered, time, term), Some(rendered))),
        };
        let status = answer.status().as_u16();
        answered.status = Some(status);
        let answer_headers = std::mem::take(answer.headers_mut());
        // Others may wait for what they say, whatever becomes of the body.
        permit.answered(status, &answer_headers);
        let mut held = call.hold();
        let body = read(answer, &limits, end, &mut held).await;
        match body.and_then(|body| readable(&answer_headers, body)) {
            Ok(body) => Ok((Raw { status, headers: answer_headers, bytes: body.len(), body }, rendered, held)),
            Err(error) => {
                let raw = Raw { status, headers: answer_headers, body: Bytes::new(), bytes: 0 };
                let veiled = self.of_request(&rendered).and_then(|own| self.veiled(raw, &own));
                answered.request_id = veiled.ok().and_then(|veiled| answer::request_id(&veiled.headers));
                Err((error.after(&answer::status_line(status, answered.request_id.as_deref())), Some(rendered)))
            }
        }
    }

    /// Why there is no answer, and whose it would have been: the operation alone does not tell which machine to look at.
    fn unanswered(
        &self,
        error: reqwest::Error,
        request: &Request,
        rendered: &Rendered,
        time: Duration,
        term: Duration,
    ) -> TransportError {
        let place = format!("endpoint {:?} ({})", request.endpoint, rendered.url.origin().ascii_serialization());
        let mut error = no_answer(error, &format!("no answer of {place}"));
        if error.reason == TransportReason::Timeout {
            let whose = if time == term {
                "until another process may be the leader"
            } else if time < self.limits().request_time {
                "what the call has left"
            } else {
                "limit request-time"
            };
            error.message = format!("no answer of {place} within {time:.1?} ({whose})");
        }
        error
    }

    /// What the answer says about credentials: a refused one ends, one that is asked for is captured.
    fn extract(
        &self,
        request: &Request,
        raw: &Raw,
        rendered: &Rendered,
        own: &Redactor,
    ) -> Result<Extracted, TransportError> {
        if raw.status == 401 {
            for (credential, generation) in &rendered.used {
                self.credentials.captured().forget(credential, *generation);
            }
        }
        if wants_json(request) && answer::not_json(&raw.headers, &raw.body).is_some() {
            return Ok(Extracted::NotJson);
        }
        match &request.capture {
            Some(capture) if is_good(raw.status) => {
                self.capture(capture, &raw.headers, &raw.body, own, rendered)?;
            }
            _ => {}
        }
        Ok(Extracted::Answer)
    }

    /// The answer without the values of credentials. Before anything is cut off: half of a value is not found any more.
    fn veiled(&self, raw: Raw, own: &Redactor) -> Result<Raw, TransportError> {
        let redactor = self.credentials.redactor().map_err(|error| TransportError::from(error).sent())?.and(own);
        if redactor.is_empty() {
            return Ok(raw);
        }
        let signed = self.credentials.signed();
        let clean = |bytes: Vec<u8>| {
            let bytes = redactor.bytes(bytes);
            signed.replaced(&bytes).unwrap_or(bytes)
        };
        let Raw { status, headers, body, bytes } = raw;
        let mut veiled = HeaderMap::with_capacity(headers.len());
        for (name, value) in &headers {
            // A placeholder has no place in a name.
            if matches!(redactor.text(name.as_str()), Cow::Owned(_)) {
                continue;
            }
            // Nearly all are text without a secret: no copy is made of those.
            let shown = match value.to_str().map(|text| redactor.text(text)) {
                Ok(Cow::Borrowed(text)) if signed.replaced(text.as_bytes()).is_none() => Some(value.clone()),
                Ok(_) | Err(_) => HeaderValue::from_bytes(&clean(value.as_bytes().into())).ok(),
            };
            if let Some(shown) = shown {
                veiled.append(name.clone(), shown);
            }
        }
        Ok(Raw { status, headers: veiled, body: Bytes::from(clean(body.into())), bytes })
    }

    /// The answer as the provider may see it.
    fn answer(
        &self,
        operation: &str,
        veiled: Raw,
        id: Option<&str>,
        taken: Result<Extracted, TransportError>,
    ) -> Result<Response, TransportError> {
        let Raw { status, headers, body, .. } = veiled;
        let other = if matches!(taken, Ok(Extracted::NotJson)) { answer::not_json(&headers, &body) } else { None };
        let summary = answer::summary(operation, status, id, other.as_deref());
        let after = |error: TransportError| error.sent().after(&summary);
        // An answer that is none: the work may be done all the same.
        if matches!(taken.map_err(after)?, Extracted::NotJson) && is_good(status) {
            return Err(TransportError::unsent(TransportReason::Other, summary).sent());
        }
        let headers = headers::response_headers(&headers, &self.limits().headers).map_err(after)?;
        Ok(Response { status, headers, body, summary, failed: None })
    }

    /// A text without the values of credentials.
    fn cleaned(&self, text: &str) -> String {
        match self.credentials.redactor() {
            Ok(redactor) => redactor.text(text).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one line")]
    fn trace(
        &self,
        request: &Request,
        operation: &str,
        attempt: u32,
        rendered: &Rendered,
        raw: Option<&Raw>,
        error: Option<&TransportError>,
        time: Duration,
        waited: Duration,
    ) {
        if !self.settings.trace {
            return;
        }
        let host = rendered.url.host_str().unwrap_or_default();
        let request_id = raw.and_then(|raw| answer::request_id(&raw.headers));
        let operation = self.secrets.veil().text(operation);
        tracing::info!(
            target: "http",
            provider = self.provider,
            endpoint = request.endpoint,
            host,
            operation = &*operation,
            status = raw.map(|raw| raw.status),
            error = error.map(|error| error.message.as_str()),
            ms = millis(time),
            waited_ms = millis(waited),
            bytes = raw.map(|raw| raw.bytes),
            attempt,
            request_id,
            "exchange"
        );
    }
}

/// What a component learns of a login whose answer it may not see.
fn status_alone(operation: &str, status: u16, why: &str) -> Response {
    let why = format!("the rest of the answer is not shown, as {why}");
    let summary = format!("{} ({why})", answer::summary(operation, status, None, None));
    Response { status, headers: vec![], body: Bytes::new(), summary, failed: None }
}

/// A number of 64 bits, since the JSON log makes a text of a larger one.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The body, counted while it comes, after it was unpacked: as one body, and against what its call has left.
async fn read(
    mut answer: reqwest::Response,
    limits: &NetworkLimits,
    end: Instant,
    held: &mut Held<'_>,
) -> Result<Bytes, TransportError> {
    let most = limits.response_bytes;
    let mut body = BytesMut::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if body.len().saturating_add(chunk.len()) <= most => {
                if !held.grow(chunk.len()) {
                    return Err(TransportError::call_full(limits.call_response_bytes));
                }
                held.room(chunk.len(), end).await?;
                body.extend_from_slice(&chunk);
                // Unpacking takes time, and a small body may become a large one without any waiting.
                pause_between(body.len().saturating_sub(chunk.len()), body.len()).await;
            }
            Ok(Some(_)) => {
                let why = format!("the answer has more than {most} bytes (limit response-bytes)");
                return Err(TransportError::too_large(why).sent());
            }
            Ok(None) => return Ok(body.freeze()),
            Err(error) => {
                return Err(no_answer(error, "the answer broke off").sent());
            }
        }
    }
}

/// The body, if a secret in it would be found.
fn readable(headers: &HeaderMap, body: Bytes) -> Result<Bytes, TransportError> {
    match headers::unreadable(headers, &body) {
        None => Ok(body),
        Some(why) => Err(TransportError::unsent(TransportReason::Other, format!("the answer {why}")).sent()),
    }
}

/// Whether the provider accepts JSON and nothing else; `*/*` beside it means that it does not care to say so.
fn wants_json(request: &Request) -> bool {
    let accepts = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let mut wants = false;
    for (_, parts) in accepts {
        let written: Vec<u8> = parts
            .iter()
            .flat_map(|part| if let Part::Bytes(bytes) = part { bytes.as_slice() } else { &[] })
            .copied()
            .collect();
        for range in String::from_utf8_lossy(&written).split(',') {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            match range.as_str() {
                "" | "*/*" => {}
                json if json.ends_with("json") => wants = true,
                _ => return false,
            }
        }
    }
    wants
}

/// What the budget learns of a failure.
fn learn(permit: &mut Permit, error: &TransportError) {
    if let Some(fault) = fault(error) {
        permit.failed(fault);
    }
}

/// A failure that another attempt may not have; none for those that come back.
fn fault(error: &TransportError) -> Option<Fault> {
    match error.reason {
        TransportReason::Connect => Some(Fault::Connect),
        TransportReason::Timeout => Some(Fault::Timeout),
        TransportReason::Other if error.maybe_sent => Some(Fault::Lost),
        _ => None,
    }
}

/// What the rules of repeating know of an attempt.
fn retry_outcome<T>(told: ExchangeOutcome, answer: &Result<T, TransportError>) -> AttemptEnd {
    match (told, answer) {
        (ExchangeOutcome::Status(status), _) => AttemptEnd::Answer(status),
        (_, Err(error)) => fault(error).map_or(AttemptEnd::Final, AttemptEnd::Fault),
        (_, Ok(_)) => AttemptEnd::Final,
    }
}
