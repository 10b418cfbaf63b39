//! The vocabulary of the imports `http` and `credentials`: what a provider asks for, and what it gets.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ccm_cloud::FailedRequest;

pub use crate::encoding::Encoding;
pub use crate::signature::{Algorithm, Digest};

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the methods of HTTP")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// As it stands in a request.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl From<Method> for reqwest::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => Self::GET,
            Method::Head => Self::HEAD,
            Method::Post => Self::POST,
            Method::Put => Self::PUT,
            Method::Patch => Self::PATCH,
            Method::Delete => Self::DELETE,
        }
    }
}

/// What a request does to the cloud. The method does not tell: a login is a POST that changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something; doing it twice is the same as once.
    Repeatable,
    /// Must not be repeated unless it is certain that it did not arrive.
    Once,
}

/// A piece of a header value, a query value or a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// As it is.
    Bytes(Vec<u8>),
    /// The value of a credential.
    Secret {
        /// Its name.
        credential: String,
        /// How it is written.
        encoding: Encoding,
    },
    /// A signature.
    Signature {
        /// Name of the credential that signs.
        key: String,
        /// How.
        algorithm: Algorithm,
        /// What is signed.
        data: Vec<SignedPart>,
        /// How the signature is written.
        encoding: Encoding,
    },
}

impl Part {
    /// Bytes that the provider wrote itself.
    pub(crate) fn written_len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Secret { .. } | Self::Signature { .. } => 0,
        }
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        let signed = |part: &SignedPart| match part {
            SignedPart::Bytes(bytes) => bytes.capacity(),
            SignedPart::Secret { credential, .. } => credential.capacity(),
            SignedPart::Target => 0,
        };
        let parts = match self {
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Secret { credential, .. } => credential.capacity(),
            Self::Signature { key, data, .. } => {
                let signed = data.iter().map(signed).fold(key.capacity(), usize::saturating_add);
                signed.saturating_add(data.capacity().saturating_mul(size_of::<SignedPart>()))
            }
        };
        parts.saturating_add(size_of::<Self>())
    }
}

/// A piece of what is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SignedPart {
    /// As it is.
    Bytes(Vec<u8>),
    /// The value of a credential.
    Secret {
        /// Its name.
        credential: String,
        /// How it is written.
        encoding: Encoding,
    },
    /// Path and query as they are sent.
    Target,
}

/// A request, as the provider wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name of an endpoint that the provider declared.
    pub endpoint: String,
    /// How.
    pub method: Method,
    /// What it does to the cloud.
    pub effect: Effect,
    /// Percent-encoded, appended to the endpoint's base URL.
    pub path: String,
    /// Names and values, not encoded yet.
    pub query: Vec<(String, Vec<Part>)>,
    /// Names and values.
    pub headers: Vec<(String, Vec<Part>)>,
    /// The body.
    pub body: Vec<Part>,
    /// The route with its variables left out, for metrics and messages.
    pub operation: String,
    /// For reads: an answer this young will do, and an identical request under way is joined. Zero asks now.
    pub share: Duration,
    /// What of the answer becomes a credential.
    pub capture: Option<Capture>,
}

impl Request {
    /// Bytes of memory, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        let parts = |parts: &[Part]| parts.iter().map(Part::memory).fold(0, usize::saturating_add);
        let named =
            |(name, value): &(String, Vec<Part>)| name.capacity().saturating_add(parts(value)).saturating_add(48);
        let lists = self.query.iter().chain(&self.headers).map(named).fold(parts(&self.body), usize::saturating_add);
        let texts = [&self.endpoint, &self.path, &self.operation].map(String::capacity).into_iter();
        texts.fold(lists, usize::saturating_add).saturating_add(size_of::<Self>())
    }
}

/// Requests that ask for the same have the same hash, however old the answer may be.
impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { endpoint, method, effect, path, query, headers, body, operation, share: _, capture } = self;
        (endpoint, method, effect, path, query, headers, body, operation, capture).hash(state);
    }
}

/// A value of the answer that becomes a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Capture {
    /// Its name.
    pub credential: String,
    /// Where it stands.
    pub source: CaptureSource,
    /// Where the answer says how long it is good: RFC 3339, or seconds from now.
    pub expires: Option<CaptureSource>,
    /// Most that it lives, also without `expires`.
    pub ttl: Option<Duration>,
}

/// A place in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CaptureSource {
    /// The header of that name.
    Header(String),
    /// RFC 6901.
    JsonPointer(String),
}

/// What the cloud answered. Values of credentials are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
    pub body: Bytes,
    /// One line for messages: operation, status, request id, and what came instead of JSON.
    pub summary: String,
    /// The request, where the status is that of a failure: who shares the answer is told of the same one.
    pub(crate) failed: Option<Arc<FailedRequest>>,
}

/// What a header takes beside its text, in bytes.
const HEADER: usize = 96;

impl Response {
    /// Bytes of what it says, with what its headers take beside that.
    pub(crate) fn text_len(&self) -> usize {
        self.body.len().saturating_add(self.words())
    }

    /// The same without its body.
    pub(crate) fn words(&self) -> usize {
        let bytes = |(name, value): &(String, String)| name.len().saturating_add(value.len()).saturating_add(HEADER);
        self.headers.iter().map(bytes).fold(self.summary.len(), usize::saturating_add)
    }
}
