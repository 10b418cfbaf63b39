//! The steps of a script.

use std::time::Duration;

use ccm_sdk::credentials::{self, Algorithm, Digest, Encoding, Part, Refusal, Secret, Signature, SignedPart};
use ccm_sdk::http::{self, Capture, CaptureSource, Effect, Method, Request, Response, TransportError, TransportReason};
use ccm_sdk::types::{Attributes, Failure, Subject};
use ccm_sdk::{cache, events, nodes, settings};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    Send(Box<Ask>),
    SendAll(Vec<Ask>),
    Bind(String, String),
    Available(String),
    Forget(String),
    Fingerprint(String, String),
    KeyAlgorithm(String),
    Matching(String),
    ProviderIds(u32),
    File(String),
    Setting(String),
    /// Writes what the step before gave to the log, as text and as a field.
    Log(String),
    /// Emits it as an Event with this reason.
    Emit(String),
    /// Keeps it in the cache under this key.
    Keep(String),
    Kept(String),
    /// Ends the call with the text of the last answer in a failure.
    Fail(String),
    /// Ends the component, with all that the call has begun.
    Crash {},
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Ask {
    #[serde(default = "api")]
    endpoint: String,
    #[serde(default = "get")]
    method: String,
    effect: Option<String>,
    path: String,
    #[serde(default)]
    query: Vec<(String, Vec<Piece>)>,
    #[serde(default)]
    headers: Vec<(String, Vec<Piece>)>,
    #[serde(default)]
    body: Vec<Piece>,
    #[serde(default)]
    share_ms: u32,
    capture: Option<Catch>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Catch {
    credential: String,
    header: Option<String>,
    pointer: Option<String>,
    expires: Option<String>,
    ttl_ms: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Secret { secret: String, encoding: Option<String> },
    Sign { sign: String, algorithm: String, data: Vec<Signed>, encoding: Option<String> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Signed {
    Text(String),
    Secret { secret: String, encoding: Option<String> },
    Target { target: bool },
}

fn api() -> String {
    "api".to_owned()
}

fn get() -> String {
    "get".to_owned()
}

/// Begins a script whose other characters are each the next one of what they mean: so a secret comes to the guest that the host does not
/// see in the annotation.
const SHIFTED: &str = "shifted ";

fn before(c: char) -> char {
    u32::from(c).checked_sub(1).and_then(char::from_u32).unwrap_or(c)
}

/// Each character as the next one.
pub(crate) fn shifted(text: &str) -> String {
    text.chars().map(|c| u32::from(c).checked_add(1).and_then(char::from_u32).unwrap_or(c)).collect()
}

/// One label per step: its number, and what came of it. A script `GET PATH` is a single request with the token, written
/// without JSON: benchmarks measure the host with it, and not a parser.
pub(crate) fn run(script: &str) -> Result<Attributes, Failure> {
    if let Some(path) = script.strip_prefix("GET ") {
        return Ok(vec![("0".to_owned(), plain(path))]);
    }
    let steps = match script.strip_prefix(SHIFTED) {
        Some(shifted) => serde_json::from_str(&shifted.chars().map(before).collect::<String>()),
        None => serde_json::from_str(script),
    };
    run_steps(steps.map_err(|error| Failure::invalid(format!("the script cannot be read: {error}")))?)
}

/// The number of each step, and what came of it.
pub(crate) fn run_steps(steps: Vec<Step>) -> Result<Attributes, Failure> {
    let mut results: Attributes = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        // What a step says of itself alone is nothing for the next one.
        let last = results.iter().rev().map(|(_, text)| text.clone()).find(|text| text != "null").unwrap_or_default();
        results.push((number.to_string(), step.run(&last)?.to_string()));
    }
    Ok(results)
}

fn plain(path: &str) -> String {
    match http::send(&with_token(Method::Get, path)) {
        Ok(response) => format!("{{\"status\":{}}}", response.status),
        Err(error) => error.message,
    }
}

/// Whether the cloud knows what is at this path: it says 404 when it does not.
pub(crate) fn is_there(path: &str) -> Result<bool, Failure> {
    match http::send(&with_token(Method::Head, path)) {
        Ok(response) if response.status == 404 => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(Failure::retry(error.message)),
    }
}

fn with_token(method: Method, path: &str) -> Request {
    let bytes = |text: &str| Part::Bytes(text.as_bytes().to_vec());
    let token = Part::Secret(Secret { credential: "token".to_owned(), encoding: Encoding::Plain });
    let operation = if matches!(method, Method::Head) { "HEAD " } else { "GET " };
    Request {
        endpoint: api(),
        method,
        effect: Effect::Read,
        path: path.to_owned(),
        query: vec![],
        headers: vec![
            ("authorization".to_owned(), vec![bytes("Bearer "), token]),
            ("accept".to_owned(), vec![bytes("application/json")]),
        ],
        body: vec![],
        operation: [operation, path].concat(),
        share_ms: 0,
        capture: None,
    }
}

impl Step {
    fn run(self, last: &str) -> Result<Value, Failure> {
        Ok(match self {
            Self::Send(ask) => told(http::send(&ask.request()?)),
            Self::SendAll(asks) => {
                let requests: Vec<Request> = asks.into_iter().map(Ask::request).collect::<Result<_, _>>()?;
                http::send_all(&requests).into_iter().map(told).collect()
            }
            Self::Bind(endpoint, url) => match http::bind(&endpoint, &url) {
                Ok(()) => json!({ "bound": true }),
                Err(error) => refused(&error),
            },
            Self::Available(credential) => json!(credentials::available(&credential)),
            Self::Forget(credential) => {
                credentials::forget(&credential);
                Value::Null
            }
            Self::Fingerprint(credential, digest) => {
                let digest = if digest == "md5" { Digest::Md5 } else { Digest::Sha256 };
                match credentials::fingerprint(&credential, digest) {
                    Ok(bytes) => json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")),
                    Err(why) => refusal(why),
                }
            }
            Self::KeyAlgorithm(credential) => match credentials::key_algorithm(&credential) {
                Ok(algorithm) => json!(name(algorithm)),
                Err(why) => refusal(why),
            },
            Self::Matching(selector) => json!(nodes::matching(&selector)),
            Self::ProviderIds(most) => json!(nodes::provider_ids(most)),
            Self::File(name) => json!(settings::file(&name)),
            Self::Setting(name) => json!(settings::get(&name)),
            Self::Log(message) => {
                ccm_sdk::log::info(&format!("{message}: {last}"), &[("last", &last)]);
                Value::Null
            }
            Self::Emit(reason) => {
                events::emit(&Subject::Call, events::Severity::Warning, &reason, last);
                Value::Null
            }
            Self::Keep(key) => {
                cache::put(&key, last.as_bytes(), Duration::from_secs(60));
                Value::Null
            }
            Self::Kept(key) => json!(cache::get(&key).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
            Self::Fail(message) => return Err(Failure::retry(format!("{message}: {last}"))),
            Self::Crash {} => std::process::abort(),
        })
    }
}

impl Ask {
    fn request(self) -> Result<Request, Failure> {
        let method = match self.method.as_str() {
            "get" => Method::Get,
            "head" => Method::Head,
            "post" => Method::Post,
            "put" => Method::Put,
            "patch" => Method::Patch,
            "delete" => Method::Delete,
            other => return Err(unknown("method", other)),
        };
        let effect = match self.effect.as_deref() {
            None | Some("read") => Effect::Read,
            Some("repeatable") => Effect::Repeatable,
            Some("once") => Effect::Once,
            Some(other) => return Err(unknown("effect", other)),
        };
        Ok(Request {
            operation: format!("{} {}", self.method.to_ascii_uppercase(), self.path),
            endpoint: self.endpoint,
            method,
            effect,
            path: self.path,
            query: named(self.query)?,
            headers: named(self.headers)?,
            body: self.body.into_iter().map(Piece::part).collect::<Result<_, _>>()?,
            share_ms: self.share_ms,
            capture: self.capture.map(Catch::capture).transpose()?,
        })
    }
}

fn named(pairs: Vec<(String, Vec<Piece>)>) -> Result<Vec<(String, Vec<Part>)>, Failure> {
    let pair = |(name, pieces): (String, Vec<Piece>)| {
        Ok((name, pieces.into_iter().map(Piece::part).collect::<Result<_, Failure>>()?))
    };
    pairs.into_iter().map(pair).collect()
}

impl Catch {
    fn capture(self) -> Result<Capture, Failure> {
        let source = match (self.header, self.pointer) {
            (Some(header), _) => CaptureSource::Header(header),
            (None, Some(pointer)) => CaptureSource::JsonPointer(pointer),
            (None, None) => return Err(unknown("capture", "nowhere")),
        };
        Ok(Capture {
            credential: self.credential,
            source,
            expires: self.expires.map(CaptureSource::JsonPointer),
            ttl_ms: self.ttl_ms,
        })
    }
}

impl Piece {
    fn part(self) -> Result<Part, Failure> {
        Ok(match self {
            Self::Text(text) => Part::Bytes(text.into_bytes()),
            Self::Secret { secret: credential, encoding: written } => {
                Part::Secret(Secret { credential, encoding: encoding(written.as_deref())? })
            }
            Self::Sign { sign, algorithm: how, data, encoding: written } => Part::Signature(Signature {
                key: sign,
                algorithm: algorithm(&how)?,
                data: data.into_iter().map(Signed::part).collect::<Result<_, _>>()?,
                encoding: encoding(written.as_deref())?,
            }),
        })
    }
}

impl Signed {
    fn part(self) -> Result<SignedPart, Failure> {
        Ok(match self {
            Self::Text(text) => SignedPart::Bytes(text.into_bytes()),
            Self::Secret { secret: credential, encoding: written } => {
                SignedPart::Secret(Secret { credential, encoding: encoding(written.as_deref())? })
            }
            Self::Target { target: true } => SignedPart::Target,
            Self::Target { target: false } => SignedPart::Bytes(vec![]),
        })
    }
}

fn encoding(name: Option<&str>) -> Result<Encoding, Failure> {
    Ok(match name {
        None | Some("plain") => Encoding::Plain,
        Some("json-string") => Encoding::JsonString,
        Some("url") => Encoding::Url,
        Some("url-lower-case") => Encoding::UrlLowerCase,
        Some("hex") => Encoding::Hex,
        Some("base64") => Encoding::Base64,
        Some("base64-percent-encoded") => Encoding::Base64PercentEncoded,
        Some(other) => return Err(unknown("encoding", other)),
    })
}

const ALGORITHMS: [(&str, Algorithm); 8] = [
    ("hmac-sha1", Algorithm::HmacSha1),
    ("hmac-sha256", Algorithm::HmacSha256),
    ("hmac-sha512", Algorithm::HmacSha512),
    ("rsa-sha256", Algorithm::RsaSha256),
    ("rsa-sha512", Algorithm::RsaSha512),
    ("ecdsa-sha256", Algorithm::EcdsaSha256),
    ("ecdsa-sha512", Algorithm::EcdsaSha512),
    ("ed25519", Algorithm::Ed25519),
];

fn algorithm(name: &str) -> Result<Algorithm, Failure> {
    let known = ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm);
    known.ok_or_else(|| unknown("algorithm", name))
}

fn name(algorithm: Algorithm) -> &'static str {
    ALGORITHMS.iter().find(|(_, known)| *known == algorithm).map_or("unknown", |(name, _)| name)
}

fn unknown(what: &str, name: &str) -> Failure {
    Failure::invalid(format!("the script has the unknown {what} {name:?}"))
}

fn told(answer: Result<Response, TransportError>) -> Value {
    match answer {
        Ok(response) => json!({
            "status": response.status,
            "headers": response.headers.into_iter().map(|(name, value)| (name, Value::from(value))).collect::<serde_json::Map<_, _>>(),
            "body": String::from_utf8_lossy(&response.body),
            "summary": response.summary,
        }),
        Err(error) => refused(&error),
    }
}

fn refused(error: &TransportError) -> Value {
    let reason = match error.reason {
        TransportReason::Denied => "denied",
        TransportReason::Unbound => "unbound",
        TransportReason::UnknownCredential => "unknown-credential",
        TransportReason::Connect => "connect",
        TransportReason::Tls => "tls",
        TransportReason::Timeout => "timeout",
        TransportReason::TooLarge => "too-large",
        TransportReason::Throttled => "throttled",
        TransportReason::ReadOnly => "read-only",
        TransportReason::Other => "other",
    };
    json!({
        "error": reason,
        "maybe-sent": error.maybe_sent,
        "retry-after-ms": error.retry_after_ms,
        "message": error.message,
    })
}

fn refusal(why: Refusal) -> Value {
    json!({ "refusal": match why { Refusal::Unknown => "unknown", Refusal::Denied => "denied" } })
}
