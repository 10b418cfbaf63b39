//! The requests of a provider. A request takes this way:
//!
//! 1. [`check`](Egress::check): limits of the call, endpoint, effect, shape, places of credentials. Nothing waits yet.
//! 2. [`admitted`](Egress::admitted): a login waits for its turn; a read may get the answer of an identical request.
//! 3. `attempts`: each attempt waits for the budget, checks leadership again, fills in credentials (`render`), sends, takes a
//!    captured credential out of the answer (`capture`), and hides secrets in what the provider sees.

mod attempts;
mod bodies;
mod capture;
mod failed;
mod forbidden;
mod guesses;
mod open;
mod places;
mod render;
mod settings;
mod span;
mod told;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::digest;
use ccm_cloud::Leadership;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use url::Url;

use crate::answer;
use crate::budget::EndpointBudget;
use crate::call::CallScope;
use crate::captured::Generation;
use crate::carryover::{Admission, Carryover};
use crate::credentials::{Credentials, SourceState};
use crate::effect::{self, DryRun};
use crate::endpoints::{Endpoints, MAX_BASE_URL, Target};
use crate::error::{CredentialRefusal, TransportError, TransportReason};
use crate::headers;
use crate::http::{Effect, Method, Part, Request, Response};
use crate::observe::{ExchangeObserver, ExchangeOutcome};
use crate::one_line::line;
use crate::paths;
use crate::process_secrets::ProcessSecrets;
use crate::share::{AnswerSource, Key, SharedAnswers};
use crate::signature::{Algorithm, Digest};

pub(crate) use guesses::Guesses;
use render::Room;
pub(crate) use told::Told;

pub use open::{EgressConfig, OpenError, Predecessor};
pub use settings::{NetworkLimits, NetworkSettings};
pub use ways::{Barrier, Blocked, Way};

/// Longest refusal, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Longest name of an endpoint in one, in bytes.
const MAX_NAME: usize = 64;

/// The requests of one provider.
pub struct Egress {
    /// Name of the provider, for messages and metrics.
    provider: String,
    endpoints: Endpoints,
    credentials: Arc<Credentials>,
    /// Those of all providers.
    secrets: ProcessSecrets,
    settings: NetworkSettings,
    leadership: Arc<dyn Leadership>,
    observer: Option<Arc<dyn ExchangeObserver>>,
    budgets: BTreeMap<String, EndpointBudget>,
    shared: SharedAnswers,
    dry_run: Option<DryRun>,
    admission: Admission,
    /// Names that metrics were told, by whichever component.
    told: Arc<Told>,
    /// Endpoints whose breaker was open at the last look.
    open: Mutex<BTreeSet<String>>,
    guesses: Arc<Guesses>,
    /// A request was refused because none may leave.
    asked_offline: AtomicBool,
}

impl Egress {
    /// The provider was taken: later ones may not use credentials in more places than it does, nor mark a dry run in another way.
    pub fn pin_uses(&self, carryover: &Carryover) {
        carryover.taken(&self.admission);
        carryover.budgets.taken(&self.budgets);
    }

    /// What no guest of this process may say to anybody.
    #[must_use]
    pub const fn secrets(&self) -> &ProcessSecrets {
        &self.secrets
    }

    /// Base URLs that you configured, by endpoint.
    pub(crate) fn configured(&self) -> impl Iterator<Item = (&str, &Url)> {
        self.endpoints.configured()
    }

    /// Digest of the public half of a key.
    ///
    /// # Errors
    ///
    /// The credential is not declared for signing, or is no private key.
    pub fn fingerprint(&self, credential: &str, digest: Digest) -> Result<Vec<u8>, CredentialRefusal> {
        self.credentials.fingerprint(credential, digest)
    }

    /// The algorithm that fits a key.
    ///
    /// # Errors
    ///
    /// As [`fingerprint`](Self::fingerprint).
    pub fn key_algorithm(&self, credential: &str) -> Result<Algorithm, CredentialRefusal> {
        self.credentials.key_algorithm(credential)
    }

    /// Notices rotated credentials while no request uses them. Never returns.
    pub async fn follow_credentials(&self) {
        self.credentials.follow().await;
    }

    /// The credentials in use, and whether their sources can be read, while somebody [follows](Self::follow_credentials) them.
    #[must_use]
    pub fn credential_sources(&self) -> watch::Receiver<Vec<SourceState>> {
        self.credentials.sources()
    }

    /// Endpoints that no request can reach before something is found for them: their names, and what would let them.
    #[must_use]
    pub fn unreachable(&self) -> Vec<(String, String)> {
        let owned = |(name, advice): (&str, &str)| (name.to_owned(), advice.to_owned());
        self.endpoints.unreachable().map(owned).collect()
    }

    /// Whether the provider wanted to ask the cloud although no request may leave.
    #[must_use]
    pub fn wanted_to_ask(&self) -> bool {
        self.asked_offline.load(Ordering::Relaxed)
    }

    /// Credentials that the operator gave and that have a value, each with where the value comes from.
    #[must_use]
    pub fn given_credentials(&self) -> Vec<(String, String)> {
        self.credentials.given()
    }

    /// How large and how long things may be.
    #[must_use]
    pub const fn limits(&self) -> &NetworkLimits {
        &self.settings.limits
    }

    /// Shares no answer of before with anybody.
    pub fn forget_answers(&self) {
        self.shared.forget();
    }

    /// Grow whenever an endpoint that was taken for dead answers again, or a credential is another: then work that waits is
    /// worth a try.
    #[must_use]
    pub fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.budgets.values().map(EndpointBudget::recoveries).chain([self.credentials.rotations()]).collect()
    }

    /// The path of an endpoint's base URL, without a slash at the end; none where it has no base URL that it may use.
    #[must_use]
    pub fn base_path(&self, endpoint: &str) -> Option<String> {
        self.endpoints.base_path(endpoint)
    }

    /// Gives an endpoint the base URL that a service catalogue names.
    ///
    /// # Errors
    ///
    /// The endpoint is not declared, the operator does not allow the host, or the provider wrote a secret into it.
    pub fn bind(&self, endpoint: &str, base_url: &str) -> Result<(), TransportError> {
        self.check_trust()?;
        let place = || format!("the base URL of endpoint {:?}", line(endpoint, MAX_NAME));
        // Nobody looks into one that is used for nothing: it may have megabytes, or be for an endpoint whose name the guest made up for the log.
        if base_url.len() <= MAX_BASE_URL && self.budgets.contains_key(endpoint) {
            self.check_guess(base_url.as_bytes(), place)?;
        }
        self.endpoints.bind(endpoint, base_url)
    }

    /// Whether a credential has a value for another request of this call.
    #[must_use]
    pub fn available(&self, credential: &str, call: &CallScope) -> bool {
        let credentials = &self.credentials;
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
            self.credentials.captured().forget(credential, generation);
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
        self.sent(request, call, call.was_forbidden()).await
    }

    /// As [`send`](Self::send). `is_after_another`: it was asked for when a change of the call had not been sent.
    async fn sent(
        &self,
        request: Request,
        call: &CallScope,
        is_after_another: bool,
    ) -> Result<Response, TransportError> {
        let operation = answer::operation(&request.operation);
        let answer = match self.check(&request, call, is_after_another) {
            Ok(target) => self.admitted(&request, &target, &operation, call).await,
            Err(mut error) => {
                // It may name what the guest made up.
                error.message = line(&error.message, MAX_MESSAGE);
                self.tell(
                    &request.endpoint,
                    &operation,
                    ExchangeOutcome::Failed(error.reason),
                    Duration::ZERO,
                    Duration::ZERO,
                );
                error.failed = Some(self.refused(&request, &operation, error.reason));
                Err(error.after(&operation))
            }
        };
        let failed = answer.as_ref().map_or_else(|error| &error.failed, |answer| &answer.failed);
        failed.iter().for_each(|failed| call.failed.note(failed));
        // Beside its body, which counts by itself: thousands of answers are handed out at once.
        let Ok(words) = answer.as_ref().map(Response::words) else { return answer };
        match call.takes_words(words).await {
            Ok(()) => answer,
            Err(error) => Err(TransportError::from(error).after(&operation)),
        }
    }

    /// An answer that another exchange brought counts when it is handed out; one's own has counted while it was read.
    async fn handed_out(
        &self,
        operation: &str,
        answer: Response,
        call: &CallScope,
    ) -> Result<Response, TransportError> {
        match call.takes_copy(answer.body.len()).await {
            Ok(true) => Ok(answer),
            Ok(false) => Err(TransportError::call_full(self.limits().call_response_bytes).after(operation)),
            Err(error) => Err(TransportError::from(error).after(operation)),
        }
    }

    /// Sends all, some at the same time, and answers in order.
    pub async fn send_all(&self, requests: Vec<Request>, call: &CallScope) -> Vec<Result<Response, TransportError>> {
        // The provider asked for all of them before it had any answer.
        let is_after_another = call.was_forbidden();
        let sends = requests.into_iter().map(|request| self.sent(request, call, is_after_another));
        stream::iter(sends).buffered(self.limits().parallel.max(1)).collect().await
    }

    /// Everything that is checked before the request waits for anything. Returns where it goes.
    fn check(&self, request: &Request, call: &CallScope, is_after_another: bool) -> Result<Target<'_>, TransportError> {
        if !call.takes_request() {
            let most = self.limits().call_requests;
            let why = format!("more than {most} requests in one call (limit call-requests)");
            return Err(TransportError::denied(why));
        }
        self.check_trust()?;
        if self.settings.offline {
            self.asked_offline.store(true, Ordering::Relaxed);
            let why = "no request leaves, since the cloud is not to be asked; --online asks it";
            return Err(TransportError::denied(why.to_owned()));
        }
        let target = self.endpoints.target(&request.endpoint)?;
        // Before anybody reads it.
        let most = self.limits().request_bytes;
        if request.body.iter().map(Part::written_len).fold(0, usize::saturating_add) > most {
            return Err(TransportError::too_large(format!(
                "the body has more than {most} bytes (limit request-bytes)"
            )));
        }
        effect::check(request, call, self.dry_run.as_ref())?;
        self.check_shape(request)?;
        if let Some(capture) = &request.capture {
            self.check_capture(&capture.credential)?;
            let Request { endpoint, path, .. } = request;
            self.credentials.uses().check_capture(&capture.credential, endpoint, path, &capture.source)?;
        }
        self.check_places(request, &target.base.url)?;
        Self::check_address_of_body(request, &target)?;
        for (name, _) in &request.headers {
            // Whatever else its name has in it.
            let declared = self.credentials.uses().declares_header(&request.endpoint, name);
            headers::check_request_header(name, b"", declared)?;
        }
        self.check_guesses(request)?;
        // Last: what is told of a change that is forbidden would else have been sent.
        if request.effect != Effect::Read {
            effect::check_leader(&*self.leadership)
                .inspect_err(|_forbidden| self.tell_forbidden(request, call, is_after_another))?;
        }
        Ok(target)
    }

    /// One's own exchange, or the answer of another's.
    async fn admitted(
        &self,
        request: &Request,
        target: &Target<'_>,
        operation: &str,
        call: &CallScope,
    ) -> Result<Response, TransportError> {
        if let Some(capture) = &request.capture {
            let captured = self.credentials.captured();
            let asked = AtomicBool::new(false);
            let ask = async || {
                asked.store(true, Ordering::Relaxed);
                let answer = self.attempts(request, target, operation, call).await;
                // What was refused to an old credential is not the answer to a new one.
                self.credentials.look();
                answer
            };
            let (now, _) = captured.look(&capture.credential, None);
            let seen = call.seen(&capture.credential).0.unwrap_or(now);
            let (name, most) = (&capture.credential, self.limits().login_bytes);
            let (answer, generation) =
                captured.login(name, key(request), seen, request.share, call.proof, most, ask).await;
            call.saw(&capture.credential, generation, answer.is_ok());
            return match answer {
                Ok(answer) if !asked.into_inner() => self.handed_out(operation, answer, call).await,
                answer => answer,
            };
        }
        if request.effect != Effect::Read || request.share.is_zero() || call.proof {
            return self.attempts(request, target, operation, call).await;
        }
        // Answers are shared only while the same credentials ask the same place.
        let key = key((request, self.credentials.version(), target.base.url.as_str()));
        // Whoever fails because of its own deadline or its place in the queue fails for itself. Those who waited with it
        // wait once more with each other, then everybody asks alone.
        for _ in 0..2 {
            let ask = || self.attempts(request, target, operation, call);
            let answer = self.shared.get(key, call.class(), request.share, ask).await;
            if answer.source == AnswerSource::Asked {
                return (*answer.result).clone();
            }
            if matches!(&*answer.result, Err(error) if error.is_of_one_call()) {
                continue;
            }
            self.tell(&request.endpoint, operation, ExchangeOutcome::Shared, Duration::ZERO, Duration::ZERO);
            return match (*answer.result).clone() {
                Ok(answer) => self.handed_out(operation, answer, call).await,
                error => error,
            };
        }
        self.attempts(request, target, operation, call).await
    }

    fn check_shape(&self, request: &Request) -> Result<(), TransportError> {
        let limits = self.limits();
        let too_large = |what: &str, most: usize, limit: &str| {
            Err(TransportError::too_large(format!("the request has more than {most} {what} (limit {limit})")))
        };
        // With the query it may still be too long, once that is rendered.
        if request.path.len() > limits.url_bytes {
            return too_large("bytes in its path", limits.url_bytes, "url-bytes");
        }
        paths::check(&request.path).map_err(|problem| TransportError::denied(format!("the path {problem}")))?;
        if request.headers.len() > limits.headers.count {
            return too_large("headers", limits.headers.count, "headers");
        }
        if request.query.len() > limits.query_values {
            return too_large("query values", limits.query_values, "query-values");
        }
        // Whoever asks whether a name is a login's takes many times its length. What was written into the values is measured with the rest.
        let names =
            |named: &[(String, Vec<Part>)]| named.iter().map(|(name, _)| name.len()).fold(0, usize::saturating_add);
        Room::headers(limits).check(names(&request.headers))?;
        Room::url(limits).check(names(&request.query))?;
        if matches!(request.method, Method::Get | Method::Head) && !request.body.is_empty() {
            let why = format!("a {} has no body", request.method.as_str());
            return Err(TransportError::denied(why));
        }
        Ok(())
    }

    /// A captured credential is declared, and none that the operator gives.
    fn check_capture(&self, credential: &str) -> Result<(), TransportError> {
        if !self.credentials.uses().knows(credential) {
            let why =
                format!("credential {credential:?} is not declared by the provider, so nothing can be captured as it");
            return Err(TransportError::unsent(TransportReason::UnknownCredential, why));
        }
        if self.credentials.is_given(credential) {
            let why = format!("credential {credential:?} is given by the operator, so nothing can be captured as it");
            return Err(TransportError::denied(why));
        }
        Ok(())
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

/// Which value of which captured credential a request carried.
type Used = Vec<(String, Generation)>;

#[cfg(test)]
mod tests;
