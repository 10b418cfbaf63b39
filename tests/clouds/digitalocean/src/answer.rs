//! One request: understood, let in, counted, late, perhaps struck by a fault, answered, and checked on both ways.

use std::collections::BTreeSet;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::cloud::{Ask, Reply};
use crate::document::Asked;
use crate::endpoint::Endpoint;
use crate::fault::{self, Act, Due, When};
use crate::log::{Exchange, cut};
use crate::quota::{Allowance, Verdict};
use crate::scope;
use crate::settings::Settings;
use crate::{Shared, State};

/// What goes back to the client.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// Of something on the way.
    fn of_gateway(status: u16) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        let body = b"<html><head><title>Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>";
        Self { status, headers, body: Bytes::from_static(body) }
    }
}

/// What stands in place of an answer.
enum Instead {
    Answer(Answer),
    /// The connection ends.
    Nothing,
}

impl Instead {
    fn finish(self, shared: &Shared, number: u64, settings: &Settings) -> Option<Response<Full<Bytes>>> {
        match self {
            Self::Answer(answer) => Some(finish(shared, number, settings, answer)),
            Self::Nothing => None,
        }
    }
}

/// Who asked, and what this costs.
struct Caller {
    request_id: String,
    /// None: all.
    scopes: Option<BTreeSet<String>>,
    allowance: Option<Allowance>,
}

/// None: the connection ends without an answer.
pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let settings = shared.settings.lock().clone();
    let path = parts.uri.path().strip_prefix(settings.prefix.as_str()).filter(|path| path.starts_with('/'));
    let query = parts.uri.query().unwrap_or_default();
    let asked = path.and_then(|path| shared.document.asked(&parts.method, path, query, &parts.headers, &body));
    let (method, uri) = (parts.method.as_str(), parts.uri.to_string());

    let (number, mut caller, mut due) = {
        let mut state = shared.state.lock();
        let state = &mut *state;
        let exchange = begun(shared, asked.as_ref(), method, &uri, cut(&body, settings.kept_body));
        let number = state.log.begin(exchange, &settings);
        let caller = Caller { request_id: state.cloud.uuid(), scopes: None, allowance: None };
        let due = asked.as_ref().and_then(|asked| due(state, &settings, asked.endpoint));
        state.log.with(number, |exchange| exchange.fault = due.as_ref().map(|due| due.fault));
        (number, caller, due)
    };
    if !settings.latency.is_zero() {
        tokio::time::sleep(settings.latency).await;
    }
    let let_in = let_in(shared, &settings, &parts.headers, asked.as_ref(), &mut caller);
    let reply = match (let_in, &asked) {
        (Err(refused), _) => {
            // Whoever is not let in comes to nothing that could fail.
            due = None;
            shared.state.lock().log.with(number, |exchange| exchange.fault = None);
            refused
        }
        (Ok(()), None) => Reply::absent(),
        (Ok(()), Some(asked)) => {
            if let Some(due) = due.as_mut().filter(|due| due.fault.when == When::Before)
                && let Some(struck) = strike(shared, &caller, due).await
            {
                return struck.finish(shared, number, &settings);
            }
            // Nobody can go away between the effect and its mark in the log.
            let mut reply = effect(shared, &settings, path.unwrap_or_default(), asked, number);
            scope::hide(caller.scopes.as_ref(), &mut reply.body);
            if let Some(due) = due.as_mut().filter(|due| due.fault.when == When::After)
                && let Some(struck) = strike(shared, &caller, due).await
            {
                return struck.finish(shared, number, &settings);
            }
            reply
        }
    };
    let answer = shared.written(reply.clone(), &caller);
    if let Some(asked) = &asked {
        let wrong = shared.document.check_answer(asked.endpoint, answer.status, &answer.headers, &answer.body);
        if !wrong.is_empty() {
            shared.state.lock().log.wrong_answer(number, method, &uri, &wrong);
        }
    }
    let answer = match due {
        Some(due) => mangled(shared, &due, reply, &caller).unwrap_or(answer),
        None => answer,
    };
    let answer = if answer.body.len() > settings.answer_bytes { Answer::of_gateway(504) } else { answer };
    Some(finish(shared, number, &settings, answer))
}

/// What is planned comes before what is not.
fn due(state: &mut State, settings: &Settings, endpoint: Endpoint) -> Option<Due> {
    let planned = fault::take(&mut state.faults, endpoint);
    planned.or_else(|| state.random.take(settings.faults?, endpoint).map(Due::unplanned))
}

fn begun(shared: &Shared, asked: Option<&Asked>, method: &str, uri: &str, request: String) -> Exchange {
    let violations = match asked {
        Some(asked) => asked.refused.iter().chain(&asked.strangers).cloned().collect(),
        None => vec!["no such operation in the document".to_owned()],
    };
    Exchange {
        number: 0,
        at_ms: u64::try_from(shared.clock.now().as_millis()).unwrap_or(u64::MAX),
        method: method.to_owned(),
        uri: uri.to_owned(),
        endpoint: asked.map(|asked| asked.endpoint),
        request,
        status: None,
        response: String::new(),
        had_effect: false,
        fault: None,
        violations,
    }
}

/// Looks at the token and its quota.
fn let_in(
    shared: &Shared,
    settings: &Settings,
    headers: &HeaderMap,
    asked: Option<&Asked>,
    caller: &mut Caller,
) -> Result<(), Reply> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let now = shared.clock.now();
    let mut state = shared.state.lock();
    let token = state.tokens.iter_mut().find(|token| given == Some(token.text.as_str()));
    let Some(token) = token else {
        return Err(Reply::refused(401, "Unable to authenticate you"));
    };
    let allowance = token.windows.take(now, settings.quota);
    caller.allowance = Some(allowance);
    if allowance.verdict != Verdict::Granted {
        return Err(Reply::refused(429, "API Rate limit exceeded."));
    }
    caller.scopes.clone_from(&token.scopes);
    if asked.is_some_and(|asked| !scope::allows(token.scopes.as_ref(), asked)) {
        return Err(Reply::refused(403, "You are not authorized to perform this operation"));
    }
    Ok(())
}

fn effect(shared: &Shared, settings: &Settings, path: &str, asked: &Asked, number: u64) -> Reply {
    if !asked.refused.is_empty() {
        return refused(asked);
    }
    let ask = Ask {
        endpoint: asked.endpoint,
        values: &asked.path,
        path,
        query: &asked.query,
        body: &asked.body,
        now: shared.clock.now(),
        settings,
        link_base: &settings.link_base,
    };
    let mut state = shared.state.lock();
    let reply = state.cloud.act(&ask, &shared.clock);
    let validated_only = asked.body.get("validate_only") == Some(&Value::Bool(true));
    if asked.endpoint.is_write() && reply.is_done() && !validated_only {
        state.log.had_effect(number);
        drop(state);
        shared.changes.send_modify(|changes| *changes += 1);
    }
    reply
}

/// What the schemas of the document forbid.
fn refused(asked: &Asked) -> Reply {
    use Endpoint as E;
    match asked.endpoint {
        E::CreateFirewall | E::UpdateFirewall | E::CreateTag => Reply::refused_with_causes(&asked.refused),
        _ => Reply::refused(422, asked.refused.join("; ")),
    }
}

/// What stands in place of the answer. None: the request goes on.
async fn strike(shared: &Shared, caller: &Caller, due: &mut Due) -> Option<Instead> {
    due.reach();
    let message = "planned";
    match due.fault.act {
        Act::Status(status) => Some(Instead::Answer(shared.written(Reply::refused(status, message), caller))),
        Act::TooMany(seconds) => {
            let mut answer = shared.written(Reply::refused(429, message), caller);
            answer.headers.insert("ratelimit-remaining", HeaderValue::from_static("0"));
            if let Some(seconds) = seconds {
                answer.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            Some(Instead::Answer(answer))
        }
        Act::Html(status) => Some(Instead::Answer(Answer::of_gateway(status))),
        Act::Hangup => Some(Instead::Nothing),
        Act::Hold => {
            due.held().await;
            None
        }
        Act::Truncated | Act::UnknownEnum | Act::ExtraFields => None,
    }
}

/// The true answer, spoilt. None: this fault does not spoil it.
fn mangled(shared: &Shared, due: &Due, mut reply: Reply, caller: &Caller) -> Option<Answer> {
    match due.fault.act {
        Act::Truncated => {
            let mut answer = shared.written(reply, caller);
            answer.body = answer.body.slice(..answer.body.len() / 2);
            return Some(answer);
        }
        Act::UnknownEnum => fault::with_unknown_enums(&mut reply.body),
        Act::ExtraFields => fault::with_extra_fields(&mut reply.body),
        _ => return None,
    }
    Some(shared.written(reply, caller))
}

fn finish(shared: &Shared, number: u64, settings: &Settings, answer: Answer) -> Response<Full<Bytes>> {
    let Answer { status, headers, body } = answer;
    shared.state.lock().log.answered(number, status, cut(&body, settings.kept_body));
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

impl Shared {
    fn written(&self, reply: Reply, caller: &Caller) -> Answer {
        let Reply { status, mut body } = reply;
        if status >= 400
            && let Some(members) = body.as_object_mut().filter(|members| members.contains_key("id"))
        {
            members.insert("request_id".to_owned(), json!(caller.request_id));
        }
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("x-request-id", caller.request_id.clone());
        // A stranger is told what everybody may ask for.
        let now = self.clock.now();
        set("date", self.clock.header(now));
        let limit = self.settings.lock().quota.per_hour;
        let unknown = Allowance { limit, remaining: limit, reset: now, verdict: Verdict::Granted };
        let allowance = caller.allowance.unwrap_or(unknown);
        set("ratelimit-limit", allowance.limit.to_string());
        set("ratelimit-remaining", allowance.remaining.to_string());
        set("ratelimit-reset", self.clock.unix(allowance.reset).to_string());
        if let Verdict::Minute(seconds) = allowance.verdict {
            set("retry-after", seconds.to_string());
        }
        if body.is_null() {
            return Answer { status, headers, body: Bytes::new() };
        }
        set("content-type", "application/json; charset=utf-8".to_owned());
        Answer { status, headers, body: Bytes::from(body.to_string()) }
    }
}

/// Whoever may ask.
pub(crate) struct Token {
    pub(crate) text: String,
    /// What it may do: everything else is answered 403. None: it may do everything.
    pub(crate) scopes: Option<BTreeSet<String>>,
    pub(crate) windows: crate::quota::Windows,
}

impl State {
    pub(crate) fn allow(&mut self, text: &str, scopes: Option<BTreeSet<String>>) {
        self.revoke(text);
        self.tokens.push(Token { text: text.to_owned(), scopes, windows: crate::quota::Windows::default() });
    }

    pub(crate) fn revoke(&mut self, text: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.text != text);
        self.tokens.len() < before
    }
}
