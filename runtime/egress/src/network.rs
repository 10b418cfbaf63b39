//! The way of a request, in this order: shape, effect, endpoint, places of credentials, a login or an answer that is shared,
//! then for each attempt: turn in the budget, leader check, credentials, the exchange itself.

mod render;
mod send;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::digest;
use ccm_cloud::{Descriptor, Leadership};
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::answer;
use crate::budget::{Budget, BudgetSettings};
use crate::call::CallScope;
use crate::capture::Generation;
use crate::client::ClientSettings;
use crate::credentials::{Credentials, Refusal};
use crate::effect::{self, DryRun};
use crate::endpoints::Endpoints;
use crate::headers::HeaderLimits;
use crate::http::{Effect, Method, Request, Response, TransportError, TransportReason};
use crate::log::line;
use crate::observe::{BudgetLeft, Exchange, ExchangeObserver, Outcome};
use crate::paths;
use crate::redact::TooLarge;
use crate::retry::RetrySettings;
use crate::share::{Key, Shared, Source};

/// How large and how long things may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Most bytes of a request's body. Default 1 MiB.
    pub request_bytes: usize,
    /// Most bytes of an answer's body, unpacked. Default 8 MiB.
    pub response_bytes: usize,
    /// Most bytes of all bodies that one call is given. Default 32 MiB.
    pub call_response_bytes: usize,
    /// Most requests of one call. Default 2,000.
    pub call_requests: usize,
    /// Number and bytes of headers, in requests and in answers. Default 64 and 16 KiB.
    pub headers: HeaderLimits,
    /// Most query values of a request. Default 1,000; together with path and names at most [`Self::url_bytes`].
    pub query_values: usize,
    /// Most bytes of path and query, encoded. Default 16 KiB.
    pub url_bytes: usize,
    /// Most requests of one `send-all` that are under way at the same time. Default 32.
    pub parallel: usize,
    /// Longest exchange. Default 30 s.
    pub request_time: Duration,
    /// Most bytes of answers that are kept for others. Default 32 MiB.
    pub share_bytes: u64,
    /// Shortest credential. Default [`crate::credentials::MIN_CREDENTIAL_BYTES`].
    pub min_credential_bytes: usize,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            request_bytes: 1 << 20,
            response_bytes: 8 << 20,
            call_response_bytes: 32 << 20,
            call_requests: 2_000,
            headers: HeaderLimits::default(),
            query_values: 1_000,
            url_bytes: 16 << 10,
            parallel: 32,
            request_time: Duration::from_secs(30),
            share_bytes: 32 << 20,
            min_credential_bytes: crate::credentials::MIN_CREDENTIAL_BYTES,
        }
    }
}

/// What the operator set for a provider's network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkSettings {
    /// How large and how long things may be.
    pub limits: NetworkLimits,
    /// How much of the cloud is used.
    pub budget: BudgetSettings,
    /// How often an attempt is repeated.
    pub retry: RetrySettings,
    /// How connections are made.
    pub client: ClientSettings,
    /// Whether each exchange is a line of the log (`--trace-http`).
    pub trace: bool,
}

/// What a provider's network is made of.
pub struct NetworkParts {
    /// Name of the provider, for messages and metrics.
    pub provider: String,
    /// Where its endpoints are.
    pub endpoints: Endpoints,
    /// Its secrets.
    pub credentials: Credentials,
    /// What the operator set.
    pub settings: NetworkSettings,
    /// Whether this process may change the cloud.
    pub leadership: Arc<dyn Leadership>,
    /// Is told of every exchange.
    pub observer: Option<Arc<dyn ExchangeObserver>>,
}

/// Longest refusal, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Most different operations that metrics tell apart.
const MAX_OPERATIONS: usize = 64;

/// The network as one provider may use it.
pub struct Network {
    parts: NetworkParts,
    budgets: BTreeMap<String, Budget>,
    shared: Shared,
    dry_run: Option<DryRun>,
    operations: Mutex<BTreeSet<String>>,
    /// Endpoints whose breaker was open when somebody looked last.
    open: Mutex<BTreeSet<String>>,
}

/// Budgets of endpoints by name. Clones share them; who makes a network anew hands them on, so that what a cloud asked for
/// is not forgotten.
#[derive(Clone, Default)]
pub struct Budgets(Arc<Mutex<BTreeMap<String, Budget>>>);

impl Network {
    /// Puts it together, with a budget for each endpoint that `descriptor` declares.
    #[must_use]
    pub fn new(parts: NetworkParts, descriptor: &Descriptor) -> Self {
        Self::with_budgets(parts, descriptor, &Budgets::default())
    }

    /// The same with budgets of before, where there are any.
    #[must_use]
    pub fn with_budgets(parts: NetworkParts, descriptor: &Descriptor, budgets: &Budgets) -> Self {
        let mut kept = budgets.0.lock();
        let mut budget = |name: &String| {
            let settings = || parts.settings.budget.clone().of_cloud(&descriptor.more);
            kept.entry(name.clone()).or_insert_with(|| Budget::new(settings())).clone()
        };
        let budgets =
            descriptor.endpoints.iter().map(|endpoint| (endpoint.name.clone(), budget(&endpoint.name))).collect();
        drop(kept);
        let shared = Shared::new(parts.settings.limits.share_bytes);
        let dry_run = DryRun::declared(descriptor);
        Self { parts, budgets, shared, dry_run, operations: Mutex::default(), open: Mutex::default() }
    }

    /// Its secrets.
    #[must_use]
    pub const fn credentials(&self) -> &Credentials {
        &self.parts.credentials
    }

    /// Where its endpoints are.
    #[must_use]
    pub const fn endpoints(&self) -> &Endpoints {
        &self.parts.endpoints
    }

    /// How large and how long things may be.
    #[must_use]
    pub const fn limits(&self) -> &NetworkLimits {
        &self.parts.settings.limits
    }

    /// Shares no answer of before with anybody.
    pub fn forget_answers(&self) {
        self.shared.forget();
    }

    /// Grow whenever an endpoint that was taken for dead answers again, or a credential is another: then work that waits is
    /// worth a try.
    #[must_use]
    pub fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.budgets.values().map(Budget::recoveries).chain([self.credentials().rotations()]).collect()
    }

    /// Gives an endpoint the base URL that a service catalogue names.
    ///
    /// # Errors
    ///
    /// The endpoint is not declared, or the operator does not allow the host.
    pub fn bind(&self, endpoint: &str, base_url: &str) -> Result<(), TransportError> {
        self.parts.endpoints.bind(endpoint, base_url)
    }

    /// Whether a credential has a value for another request of this call.
    #[must_use]
    pub fn available(&self, credential: &str, call: &CallScope) -> bool {
        let credentials = self.credentials();
        if !credentials.uses().knows(credential) {
            return false;
        }
        if credentials.is_given(credential) {
            return credentials.value(credential).is_ok();
        }
        let (seen, own) = call.seen(credential);
        let (generation, good) = credentials.captured().look(credential, seen.filter(|_| own));
        call.saw(credential, generation, false);
        good
    }

    /// Drops a captured credential: the value that this call knows, and no newer one.
    pub fn forget(&self, credential: &str, call: &CallScope) {
        if let (Some(generation), _) = call.seen(credential) {
            self.credentials().captured().forget(credential, generation);
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// [`TransportError`] when there is no answer of the cloud.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the exchange; what the cloud has received counts.
    pub async fn send(&self, request: Request, call: &CallScope) -> Result<Response, TransportError> {
        let operation = answer::operation(&request.operation);
        if let Err(mut error) = self.check(&request, call) {
            // It may name what the guest made up.
            error.message = format!("{operation}: {}", line(&error.message, MAX_MESSAGE));
            self.tell(&request.endpoint, &operation, Outcome::Failed(error.reason), Duration::ZERO, Duration::ZERO);
            return Err(error);
        }
        self.admitted(&request, &operation, call).await
    }

    /// An answer that another exchange brought counts when it is handed out; one's own has counted while it was read.
    fn handed_out(&self, operation: &str, answer: Response, call: &CallScope) -> Result<Response, TransportError> {
        if call.takes_bytes(answer.body.len()) {
            return Ok(answer);
        }
        let error = too_much(self.limits());
        Err(TransportError { message: format!("{operation}: {}", error.message), ..error })
    }

    /// Sends all, some at the same time, and answers in order.
    pub async fn send_all(&self, requests: Vec<Request>, call: &CallScope) -> Vec<Result<Response, TransportError>> {
        let sends = requests.into_iter().map(|request| self.send(request, call));
        stream::iter(sends).buffered(self.limits().parallel.max(1)).collect().await
    }

    /// All that is looked at before anything is waited for.
    fn check(&self, request: &Request, call: &CallScope) -> Result<(), TransportError> {
        if !call.takes_request() {
            let most = self.limits().call_requests;
            let why = format!("more than {most} requests in one call (limit call-requests)");
            return Err(refused(TransportReason::Denied, why));
        }
        self.parts.endpoints.base(&request.endpoint)?;
        effect::check(request, call, self.dry_run.as_ref(), &*self.parts.leadership)?;
        self.check_shape(request)?;
        self.check_places(request)?;
        request.capture.as_ref().map_or(Ok(()), |capture| self.check_capture(&capture.credential))
    }

    /// One's own exchange, or the answer of another's.
    async fn admitted(&self, request: &Request, operation: &str, call: &CallScope) -> Result<Response, TransportError> {
        if let Some(capture) = &request.capture {
            let captured = self.credentials().captured();
            let asked = AtomicBool::new(false);
            let ask = || {
                asked.store(true, Ordering::Relaxed);
                self.attempts(request, operation, call)
            };
            let (now, _) = captured.look(&capture.credential, None);
            let seen = call.seen(&capture.credential).0.unwrap_or(now);
            let (answer, generation) =
                captured.login(&capture.credential, key(request), seen, request.share, call.proof, ask).await;
            call.saw(&capture.credential, generation, answer.is_ok());
            return match answer {
                Ok(answer) if !asked.into_inner() => self.handed_out(operation, answer, call),
                answer => answer,
            };
        }
        if request.effect != Effect::Read || request.share.is_zero() || call.proof {
            return self.attempts(request, operation, call).await;
        }
        // Answers are shared only while the same credentials ask the same place.
        let place = self.parts.endpoints.base(&request.endpoint)?.url;
        let key = key((request, self.credentials().version(), place.as_str()));
        // Whoever fails because of its own deadline or its place in the queue fails for itself. Those who waited with it
        // wait once more with each other, then everybody asks alone.
        for _ in 0..2 {
            let ask = || self.attempts(request, operation, call);
            let answer = self.shared.get(key, call.class, request.share, ask).await;
            if answer.source == Source::Asked {
                return (*answer.result).clone();
            }
            if matches!(&*answer.result, Err(error) if of_who_asked(error)) {
                continue;
            }
            self.tell(&request.endpoint, operation, Outcome::Shared, Duration::ZERO, Duration::ZERO);
            return (*answer.result).clone().and_then(|answer| self.handed_out(operation, answer, call));
        }
        self.attempts(request, operation, call).await
    }

    fn check_shape(&self, request: &Request) -> Result<(), TransportError> {
        let limits = self.limits();
        let too_large = |what: &str, most: usize, limit: &str| {
            Err(refused(TransportReason::TooLarge, format!("the request has more than {most} {what} (limit {limit})")))
        };
        // With the query it may still be too long, once that is rendered.
        if request.path.len() > limits.url_bytes {
            return too_large("bytes in its path", limits.url_bytes, "url-bytes");
        }
        paths::check(&request.path)
            .map_err(|problem| refused(TransportReason::Denied, format!("the path {problem}")))?;
        if request.headers.len() > limits.headers.count {
            return too_large("headers", limits.headers.count, "headers");
        }
        if request.query.len() > limits.query_values {
            return too_large("query values", limits.query_values, "query-values");
        }
        if matches!(request.method, Method::Get | Method::Head) && !request.body.is_empty() {
            let why = format!("a {} has no body", request.method.as_str());
            return Err(refused(TransportReason::Denied, why));
        }
        Ok(())
    }

    /// A captured credential is declared, and none that the operator gives.
    fn check_capture(&self, credential: &str) -> Result<(), TransportError> {
        if !self.credentials().uses().knows(credential) {
            let why =
                format!("credential {credential:?} is not declared by the provider, so nothing can be captured as it");
            return Err(refused(TransportReason::UnknownCredential, why));
        }
        if self.credentials().is_given(credential) {
            let why = format!("credential {credential:?} is given by the operator, so nothing can be captured as it");
            return Err(refused(TransportReason::Denied, why));
        }
        Ok(())
    }

    fn tell(&self, endpoint: &str, operation: &str, outcome: Outcome, time: Duration, waited: Duration) {
        let provider = self.parts.provider.as_str();
        let known = self.budgets.contains_key(endpoint);
        self.log_breaker(endpoint);
        let Some(observer) = &self.parts.observer else { return };
        let operation = self.counted(operation);
        // A guest makes up names; metrics keep them for ever.
        let endpoint = if known { endpoint } else { "unknown" };
        observer.exchange_ended(Exchange { provider, endpoint, operation, outcome, time, waited });
        if let Some(budget) = self.budgets.get(endpoint) {
            let left = budget.left();
            observer.budget(BudgetLeft {
                provider,
                endpoint,
                remaining: left.remaining,
                limit: left.limit,
                open: left.open,
                tokens: left.tokens,
                in_flight: left.in_flight,
                waiting: left
                    .waiting
                    .write
                    .saturating_add(left.waiting.initialise)
                    .saturating_add(left.waiting.refresh),
            });
        }
    }

    /// Says once that an endpoint is taken for dead, and once that it is back.
    fn log_breaker(&self, endpoint: &str) {
        let Some(is_open) = self.budgets.get(endpoint).map(|budget| budget.left().open) else { return };
        let provider = self.parts.provider.as_str();
        let mut open = self.open.lock();
        if is_open && open.insert(endpoint.to_owned()) {
            tracing::warn!(provider, endpoint, "endpoint does not answer: it is asked only now and then until it does");
        } else if !is_open && open.remove(endpoint) {
            tracing::info!(provider, endpoint, "endpoint answers again");
        }
    }

    /// The operation, or `other` when there are too many.
    fn counted<'a>(&self, operation: &'a str) -> &'a str {
        let mut operations = self.operations.lock();
        if operations.contains(operation) {
            return operation;
        }
        if operations.len() >= MAX_OPERATIONS {
            return "other";
        }
        operations.insert(operation.to_owned());
        operation
    }
}

/// Tells requests apart, beyond chance.
fn key(of: impl std::hash::Hash) -> Key {
    let mut hasher = Sha256(digest::Context::new(&digest::SHA256));
    of.hash(&mut hasher);
    let mut key = Key::default();
    key.iter_mut().zip(hasher.0.finish().as_ref()).for_each(|(to, from)| *to = *from);
    key
}

struct Sha256(digest::Context);

impl Hasher for Sha256 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not asked for: the key is longer.
    fn finish(&self) -> u64 {
        0
    }
}

/// What must not be shown cannot be taken out, so nothing is shown.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn cannot_hide(error: TooLarge) -> TransportError {
    refused(TransportReason::Denied, error.to_string())
}

/// Whether another call may fare better with the same request: it has more time, or more room.
fn of_who_asked(error: &TransportError) -> bool {
    match error.reason {
        TransportReason::Timeout | TransportReason::Throttled => true,
        TransportReason::TooLarge => error.message.ends_with(CALL_BYTES),
        _ => false,
    }
}

/// How the error of a call without room ends, which other errors about size do not.
const CALL_BYTES: &str = "(limit call-response-bytes)";

/// The call has no room for more answers.
fn too_much(limits: &NetworkLimits) -> TransportError {
    let most = limits.call_response_bytes;
    let why = format!("the answers of this call have more than {most} bytes {CALL_BYTES}");
    TransportError { maybe_sent: true, ..refused(TransportReason::TooLarge, why) }
}

/// Nothing was sent.
pub(crate) fn refused(reason: TransportReason, message: String) -> TransportError {
    TransportError { reason, maybe_sent: false, retry_after: None, message }
}

impl From<Refusal> for TransportError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown(why) => refused(TransportReason::UnknownCredential, why),
            Refusal::Denied(why) => refused(TransportReason::Denied, why),
        }
    }
}

/// Which value of which captured credential a request carried.
type Used = Vec<(String, Generation)>;

#[cfg(test)]
mod tests;
