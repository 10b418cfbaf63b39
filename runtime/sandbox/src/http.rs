//! The imports `http` and `credentials`: between the words of the contract and those of `ccm-egress`.

use std::sync::Arc;
use std::time::Duration;

use ccm_egress::http::{
    Algorithm, Capture, CaptureSource, Digest, Effect, Encoding, Method, Part, Request, Response, SignedPart,
};
use ccm_egress::{CredentialRefusal, Egress, TransportError, TransportReason};

use crate::bindings::ccm::cloud::{credentials, http};
use crate::call::CallState;
use crate::computing::computing;
use crate::host::HostResult;

/// What the host keeps for an answer beside its words, also for one to a request that is not sent.
const ANSWER_BYTES: usize = 512;

impl http::Host for CallState {
    async fn send(&mut self, request: http::Request) -> HostResult<Result<http::Response, http::TransportError>> {
        let context = Arc::clone(&self.context);
        let Some(egress) = &context.egress else { return Ok(Err(closed())) };
        self.scope.asks_again();
        let request = from_request(request);
        let _handed = self.hand_over(request.memory())?;
        self.will_send(std::slice::from_ref(&request));
        let sent = Box::pin(egress.send(request, &self.scope));
        let answer = self.turn.waiting(computing(sent, self.cpu_left())).await;
        let answer = self.waited(answer)?;
        Ok(answer.map(to_response).map_err(to_error))
    }

    async fn send_all(
        &mut self,
        requests: Vec<http::Request>,
    ) -> HostResult<Vec<Result<http::Response, http::TransportError>>> {
        let context = Arc::clone(&self.context);
        let Some(egress) = &context.egress else { return Ok(requests.iter().map(|_| Err(closed())).collect()) };
        self.scope.asks_again();
        let requests: Vec<Request> = requests.into_iter().map(from_request).collect();
        let _handed = self.hand_over(requests.iter().map(Request::memory).fold(0, usize::saturating_add))?;
        self.hand_out(requests.len().saturating_mul(ANSWER_BYTES)).await?;
        self.will_send(&requests);
        let answers = self.turn.waiting(computing(egress.send_all(requests, &self.scope), self.cpu_left())).await;
        let answers = self.waited(answers)?;
        Ok(answers.into_iter().map(|answer| answer.map(to_response).map_err(to_error)).collect())
    }

    async fn base_path(&mut self, endpoint: String) -> HostResult<Option<String>> {
        Ok(self.egress().and_then(|egress| egress.base_path(&endpoint)))
    }

    async fn bind(&mut self, endpoint: String, base_url: String) -> HostResult<Result<(), http::TransportError>> {
        let context = Arc::clone(&self.context);
        let Some(egress) = &context.egress else { return Ok(Err(closed())) };
        let _handed = self.hand_over(endpoint.len().saturating_add(base_url.len()))?;
        Ok(self.computed(|_| egress.bind(&endpoint, &base_url)).map_err(to_error))
    }
}

impl credentials::Host for CallState {
    async fn available(&mut self, credential: String) -> HostResult<bool> {
        Ok(self.egress().is_some_and(|egress| egress.available(&credential, &self.scope)))
    }

    async fn forget(&mut self, credential: String) -> HostResult<()> {
        if let Some(egress) = self.egress() {
            egress.forget(&credential, &self.scope);
        }
        Ok(())
    }

    async fn fingerprint(
        &mut self,
        credential: String,
        digest: credentials::Digest,
    ) -> HostResult<Result<Vec<u8>, credentials::Refusal>> {
        let context = Arc::clone(&self.context);
        let Some(egress) = &context.egress else { return Ok(Err(credentials::Refusal::Denied)) };
        let digest = match digest {
            credentials::Digest::Md5 => Digest::Md5,
            credentials::Digest::Sha256 => Digest::Sha256,
        };
        Ok(self.computed(|call| egress.fingerprint(&credential, digest).map_err(|why| call.refusal(&why))))
    }

    async fn key_algorithm(
        &mut self,
        credential: String,
    ) -> HostResult<Result<credentials::Algorithm, credentials::Refusal>> {
        let context = Arc::clone(&self.context);
        let Some(egress) = &context.egress else { return Ok(Err(credentials::Refusal::Denied)) };
        let algorithm = self.computed(|call| egress.key_algorithm(&credential).map_err(|why| call.refusal(&why)));
        Ok(algorithm.map(to_algorithm))
    }
}

impl CallState {
    fn egress(&self) -> Option<&Egress> {
        self.context.egress.as_ref()
    }

    fn will_send(&self, requests: &[Request]) {
        if requests.iter().any(|request| request.effect != Effect::Read) {
            self.changes.set();
        }
    }

    /// The contract has no room for the reason: it goes to the log.
    fn refusal(&self, refusal: &CredentialRefusal) -> credentials::Refusal {
        self.log.lock().write(ccm_egress::Level::Warn, &refusal.to_string(), &[]);
        match refusal {
            CredentialRefusal::Unknown(_) => credentials::Refusal::Unknown,
            CredentialRefusal::Denied(_) => credentials::Refusal::Denied,
        }
    }
}

/// `describe` has to answer without the cloud.
fn closed() -> http::TransportError {
    http::TransportError {
        reason: http::TransportReason::Denied,
        maybe_sent: false,
        retry_after_ms: None,
        message: "no request can be sent while the provider describes itself".to_owned(),
    }
}

fn from_request(request: http::Request) -> Request {
    let named = |pairs: Vec<(String, Vec<credentials::Part>)>| {
        pairs.into_iter().map(|(name, parts)| (name, from_parts(parts))).collect()
    };
    Request {
        endpoint: request.endpoint,
        method: match request.method {
            http::Method::Get => Method::Get,
            http::Method::Head => Method::Head,
            http::Method::Post => Method::Post,
            http::Method::Put => Method::Put,
            http::Method::Patch => Method::Patch,
            http::Method::Delete => Method::Delete,
        },
        effect: match request.effect {
            http::Effect::Read => Effect::Read,
            http::Effect::Repeatable => Effect::Repeatable,
            http::Effect::Once => Effect::Once,
        },
        path: request.path,
        query: named(request.query),
        headers: named(request.headers),
        body: from_parts(request.body),
        operation: request.operation,
        share: Duration::from_millis(u64::from(request.share_ms)),
        capture: request.capture.map(|capture| Capture {
            credential: capture.credential,
            source: from_source(capture.source),
            expires: capture.expires.map(from_source),
            ttl: capture.ttl_ms.map(|ms| Duration::from_millis(u64::from(ms))),
        }),
    }
}

fn from_source(source: http::CaptureSource) -> CaptureSource {
    match source {
        http::CaptureSource::Header(name) => CaptureSource::Header(name),
        http::CaptureSource::JsonPointer(pointer) => CaptureSource::JsonPointer(pointer),
    }
}

fn from_parts(parts: Vec<credentials::Part>) -> Vec<Part> {
    let part = |part| match part {
        credentials::Part::Bytes(bytes) => Part::Bytes(bytes),
        credentials::Part::Secret(secret) => {
            Part::Secret { credential: secret.credential, encoding: from_encoding(secret.encoding) }
        }
        credentials::Part::Signature(signature) => Part::Signature {
            key: signature.key,
            algorithm: from_algorithm(signature.algorithm),
            data: signature.data.into_iter().map(from_signed).collect(),
            encoding: from_encoding(signature.encoding),
        },
    };
    parts.into_iter().map(part).collect()
}

fn from_signed(part: credentials::SignedPart) -> SignedPart {
    match part {
        credentials::SignedPart::Bytes(bytes) => SignedPart::Bytes(bytes),
        credentials::SignedPart::Secret(secret) => {
            SignedPart::Secret { credential: secret.credential, encoding: from_encoding(secret.encoding) }
        }
        credentials::SignedPart::Target => SignedPart::Target,
    }
}

const fn from_encoding(encoding: credentials::Encoding) -> Encoding {
    match encoding {
        credentials::Encoding::Plain => Encoding::Plain,
        credentials::Encoding::JsonString => Encoding::JsonString,
        credentials::Encoding::Url => Encoding::Url,
        credentials::Encoding::UrlLowerCase => Encoding::UrlLowerCase,
        credentials::Encoding::Hex => Encoding::Hex,
        credentials::Encoding::Base64 => Encoding::Base64,
        credentials::Encoding::Base64PercentEncoded => Encoding::Base64PercentEncoded,
    }
}

const fn from_algorithm(algorithm: credentials::Algorithm) -> Algorithm {
    match algorithm {
        credentials::Algorithm::HmacSha1 => Algorithm::HmacSha1,
        credentials::Algorithm::HmacSha256 => Algorithm::HmacSha256,
        credentials::Algorithm::HmacSha512 => Algorithm::HmacSha512,
        credentials::Algorithm::RsaSha256 => Algorithm::RsaSha256,
        credentials::Algorithm::RsaSha512 => Algorithm::RsaSha512,
        credentials::Algorithm::EcdsaSha256 => Algorithm::EcdsaSha256,
        credentials::Algorithm::EcdsaSha512 => Algorithm::EcdsaSha512,
        credentials::Algorithm::Ed25519 => Algorithm::Ed25519,
    }
}

const fn to_algorithm(algorithm: Algorithm) -> credentials::Algorithm {
    match algorithm {
        Algorithm::HmacSha1 => credentials::Algorithm::HmacSha1,
        Algorithm::HmacSha256 => credentials::Algorithm::HmacSha256,
        Algorithm::HmacSha512 => credentials::Algorithm::HmacSha512,
        Algorithm::RsaSha256 => credentials::Algorithm::RsaSha256,
        Algorithm::RsaSha512 => credentials::Algorithm::RsaSha512,
        Algorithm::EcdsaSha256 => credentials::Algorithm::EcdsaSha256,
        Algorithm::EcdsaSha512 => credentials::Algorithm::EcdsaSha512,
        Algorithm::Ed25519 => credentials::Algorithm::Ed25519,
    }
}

fn to_response(response: Response) -> http::Response {
    let Response { status, headers, body, summary, .. } = response;
    http::Response { status, headers, body: body.into(), summary }
}

fn to_error(error: TransportError) -> http::TransportError {
    http::TransportError {
        reason: match error.reason {
            TransportReason::Denied => http::TransportReason::Denied,
            TransportReason::Unbound => http::TransportReason::Unbound,
            TransportReason::UnknownCredential => http::TransportReason::UnknownCredential,
            TransportReason::Connect => http::TransportReason::Connect,
            TransportReason::Tls => http::TransportReason::Tls,
            TransportReason::Timeout => http::TransportReason::Timeout,
            TransportReason::TooLarge | TransportReason::CallFull => http::TransportReason::TooLarge,
            TransportReason::Throttled => http::TransportReason::Throttled,
            TransportReason::ReadOnly => http::TransportReason::ReadOnly,
            TransportReason::Other => http::TransportReason::Other,
        },
        maybe_sent: error.maybe_sent,
        retry_after_ms: error.retry_after.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
        message: error.message,
    }
}
