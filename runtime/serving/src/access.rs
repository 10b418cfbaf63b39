//! Who may read the pages of a port, as upstream's delegated authentication and authorization decide it: the API server says whose token
//! it is (TokenReview), and whether that user may get the path (SubjectAccessReview).
//!
//! # Closed unless open
//!
//! The wall stands before all pages, and knows none of them. A path that is not in [`AccessSettings::always_allow`] needs a token, whether
//! there is such a page or not. Without an answer of the API server nobody gets in.
//!
//! # What a flood can do
//!
//! Everybody who reaches the port can send tokens. Answers are kept for a while, never more than [`AccessSettings::entries`] of each kind,
//! and the API server is asked about no more than so many new ones in a second. Whoever was let in to a page before is not held up there by others,
//! nor is a peer that has asked nothing new for a while. Those who ask the same at the same time wait for one answer. Where the client that asks goes
//! away, the next one asks, in a turn of its own.
//!
//! # What everybody learns
//!
//! The pages of checks keep their reasons back, but from those who may get all single checks: `/readyz/*` for `/readyz`.

mod answers;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use k8s_openapi::api::authentication::v1::UserInfo;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::https::{Page, Peer, TEXT, page};
use answers::{Answers, Bucket, Key, Known};
pub use metrics::AccessMetrics;

/// For a token that comes through the proxy of the API server, which takes the header `Authorization` away. A token in here must have been
/// made for [`AUDIENCE`]: the proxy does not look whom it hands it to, and nobody else can use such a token.
pub const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-wasm-ccm-token");
/// The audience of such tokens.
pub const AUDIENCE: &str = "wasm-ccm";
/// How this port asks for a token: whoever reads it knows that it was not the API server who refused.
pub const CHALLENGE: &str = "Bearer realm=\"wasm-ccm\"";

/// Longest token that is reviewed, in bytes. Those of service accounts have about 1 KiB, those of identity providers rarely 8 KiB. A longer one
/// is refused unseen, so that a flood carries little to the API server.
const MAX_TOKEN: usize = 16 << 10;
/// Pages whose reasons are for whoever may get all that is below them. A cluster lets every user get the pages themselves, also the service account
/// of any pod (ClusterRole `system:public-info-viewer`).
const CHECKS: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// Its members may do everything, as for upstream.
const MASTERS: &str = "system:masters";

/// Who is let in, and how long answers are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSettings {
    /// `--authorization-always-allow-paths`: everybody may get these; with a `*` at the end, all that begin so. Default `/healthz`, `/readyz`,
    /// `/livez`.
    pub always_allow: Vec<String>,
    /// `--authentication-token-webhook-cache-ttl`: how long it is known whose a token is. Default 10 s. Zero: each request asks.
    pub token_ttl: Duration,
    /// `--authorization-webhook-cache-authorized-ttl`: how long a yes counts. Default 10 s.
    pub allowed_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`: how long a no counts. Default 10 s.
    pub denied_ttl: Duration,
    /// `--authentication-reviews-per-second`: most reviews of tokens that nobody was let in with before, in a second; and as many of pages that
    /// a user did not get before. Beyond that, the answer is 429. Half of them are kept for peers that have asked nothing new for 10 s. Default 20.
    pub reviews_per_second: NonZeroU32,
    /// `--authentication-cache-entries`: most tokens, and most pages of users, of which the answer is kept. Beyond that, refusals go first.
    /// Default 1,024.
    pub entries: NonZeroUsize,
}

impl AccessSettings {
    fn is_open(&self, path: &str) -> bool {
        self.always_allow
            .iter()
            .any(|open| open.strip_suffix('*').map_or(open == path, |start| path.starts_with(start)))
    }
}

/// The API server, as far as the wall needs it.
pub trait Reviews: Send + Sync + 'static {
    /// Whose token it is; none when it is nobody's. Without an audience it must be one for the API server itself.
    fn token(
        &self,
        token: &str,
        audience: Option<&'static str>,
    ) -> impl Future<Output = Result<Option<UserInfo>, String>> + Send;

    /// Whether the user may get the path.
    fn access(&self, user: &UserInfo, path: &str) -> impl Future<Output = Result<bool, String>> + Send;
}

/// The wall before the pages of a port.
pub struct Wall<R> {
    settings: AccessSettings,
    reviews: R,
    metrics: AccessMetrics,
    tokens: Mutex<Questions<Option<Arc<UserInfo>>>>,
    /// Whether a page is for a token: that token.
    pages: Mutex<Questions<Option<Key>>>,
    /// The last question of each kind had no answer.
    tokens_away: AtomicBool,
    pages_away: AtomicBool,
}

/// Who reads a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Whoever reaches the port, or has any token of the cluster.
    Anybody,
    /// Somebody who may know all of it; everybody where there is no wall.
    Known,
}

/// What was answered, what is asked at the moment, and how many new questions there may be.
struct Questions<T> {
    answers: Answers<T>,
    asked: HashMap<Key, Weak<Question<T>>>,
    new: Bucket,
}

/// Asked by one of those who wait for the answer; by another one when that goes away.
struct Question<T> {
    answer: OnceCell<Result<T, Refusal>>,
    /// It may be asked, and was not yet.
    has_turn: AtomicBool,
}

impl<T: Clone + PartialEq> Question<T> {
    /// Whoever asks has a turn, or gets the answer that there is already. A client that asks and goes away leaves its turn to nobody: else one
    /// could open many connections with the same token, and close each that asks.
    fn turn(&self, questions: &Mutex<Questions<T>>, key: &Key, peer: Option<Peer>) -> Result<Option<T>, Refusal> {
        if self.has_turn.swap(false, Ordering::Relaxed) { Ok(None) } else { questions.lock().turn(key, peer) }
    }
}

impl<T: Clone + PartialEq> Questions<T> {
    fn new(settings: &AccessSettings) -> Self {
        let (answers, new) = (Answers::new(settings.entries), Bucket::new(settings.reviews_per_second));
        Self { answers, asked: HashMap::new(), new }
    }

    /// The question, as far as it may be asked; and where there is an answer, that.
    fn question(&mut self, key: Key, peer: Option<Peer>) -> Result<Arc<Question<T>>, Refusal> {
        if let Some(asked) = self.asked.get(&key).and_then(Weak::upgrade).filter(|asked| !asked.answer.initialized()) {
            return Ok(asked);
        }
        if let Some(answer) = self.turn(&key, peer)? {
            let answer = OnceCell::new_with(Some(Ok(answer)));
            return Ok(Arc::new(Question { answer, has_turn: AtomicBool::new(false) }));
        }
        // Never more than there are connections.
        self.asked.retain(|_, asked| asked.strong_count() > 0);
        let question = Arc::new(Question { answer: OnceCell::new(), has_turn: AtomicBool::new(true) });
        self.asked.insert(key, Arc::downgrade(&question));
        Ok(question)
    }

    /// The answer, where there is one; else a turn to ask for it.
    fn turn(&mut self, key: &Key, peer: Option<Peer>) -> Result<Option<T>, Refusal> {
        match self.answers.get(key) {
            Known::Fresh(answer) => Ok(Some(answer)),
            Known::WasGood => Ok(None),
            Known::Nothing if self.new.take(peer) => Ok(None),
            Known::Nothing => Err(Refusal::TooMany),
        }
    }
}

/// Why somebody does not get a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    Method,
    NoToken,
    WrongToken,
    Forbidden(String),
    TooMany,
    Away(&'static str),
}

/// A token of a request.
struct Given<'a> {
    token: &'a str,
    audience: Option<&'static str>,
}

impl<'a> Given<'a> {
    fn of(headers: &'a HeaderMap) -> Result<Self, Refusal> {
        let (token, audience) = match headers.get(AUTHORIZATION) {
            Some(value) => {
                let text = value.to_str().map_err(|_not_text| Refusal::WrongToken)?;
                let (scheme, token) = text.trim().split_once(' ').ok_or(Refusal::NoToken)?;
                if !scheme.eq_ignore_ascii_case("bearer") {
                    return Err(Refusal::NoToken);
                }
                (token, None)
            }
            None => {
                let value = headers.get(TOKEN_HEADER).ok_or(Refusal::NoToken)?;
                (value.to_str().map_err(|_not_text| Refusal::WrongToken)?, Some(AUDIENCE))
            }
        };
        match token.trim() {
            "" => Err(Refusal::NoToken),
            token if token.len() > MAX_TOKEN => Err(Refusal::WrongToken),
            token => Ok(Self { token, audience }),
        }
    }

    /// Nobody finds the token in this.
    fn key(&self) -> Key {
        let whose = self.audience.unwrap_or_default();
        Sha256::new().chain_update(whose).chain_update([0]).chain_update(self.token).finalize().into()
    }
}

impl<R: Reviews> Wall<R> {
    /// Nobody was let in yet.
    pub fn new(settings: AccessSettings, reviews: R, metrics: AccessMetrics) -> Self {
        let (tokens, pages) = (Mutex::new(Questions::new(&settings)), Mutex::new(Questions::new(&settings)));
        let (tokens_away, pages_away) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { settings, reviews, metrics, tokens, pages, tokens_away, pages_away }
    }

    /// Who reads the page that a request asks for.
    ///
    /// # Errors
    ///
    /// Nobody: this is what whoever may not get it gets instead.
    pub async fn reader(&self, request: &Parts) -> Result<Reader, Page> {
        self.admit(request).await.map_err(|refusal| {
            self.metrics.refused(refusal.reason());
            refusal.page()
        })
    }

    async fn admit(&self, request: &Parts) -> Result<Reader, Refusal> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(Refusal::Method);
        }
        let (path, peer) = (request.uri.path(), request.extensions.get().copied());
        let (is_open, keeps_back) = (self.settings.is_open(path), CHECKS.contains(&path));
        if !is_open {
            self.knows(&request.headers, peer, path).await?;
        }
        if !keeps_back {
            return Ok(if is_open { Reader::Anybody } else { Reader::Known });
        }
        // A probe gets its answer, whatever else it sends.
        let known = self.knows(&request.headers, peer, &format!("{path}/*")).await;
        Ok(if known.is_ok() { Reader::Known } else { Reader::Anybody })
    }

    async fn knows(&self, headers: &HeaderMap, peer: Option<Peer>, path: &str) -> Result<(), Refusal> {
        let given = Given::of(headers)?;
        let key = given.key();
        let known = self.who(&given, key, peer).await?;
        let Some(user) = &known else { return Err(Refusal::WrongToken) };
        if user.groups.iter().flatten().any(|group| group == MASTERS) || self.may(user, key, peer, path).await? {
            self.tokens.lock().answers.let_in(&key, &known);
            return Ok(());
        }
        let name = user.username.as_deref().unwrap_or_default();
        Err(Refusal::Forbidden(format!("User {name:?} cannot get path {path:?}")))
    }

    async fn who(&self, given: &Given<'_>, key: Key, peer: Option<Peer>) -> Result<Option<Arc<UserInfo>>, Refusal> {
        let question = self.tokens.lock().question(key, peer)?;
        // Whoever has no turn says so for itself only: another one who waits may have one.
        let ask = async || -> Result<_, Refusal> {
            match question.turn(&self.tokens, &key, peer)? {
                Some(known) => Ok(Ok(known)),
                None => Ok(self.ask_who(given, key).await),
            }
        };
        question.answer.get_or_try_init(ask).await?.clone()
    }

    async fn ask_who(&self, given: &Given<'_>, key: Key) -> Result<Option<Arc<UserInfo>>, Refusal> {
        let at = Instant::now();
        let asked = self.reviews.token(given.token, given.audience).await;
        // Whatever the error quotes.
        let asked = asked.map_err(|why| why.replace(given.token, "(the token)"));
        let user = answered("TokenReview", &self.tokens_away, asked)?.map(Arc::new);
        // That the token is known lets nobody in yet.
        self.tokens.lock().answers.keep(key, user.clone(), false, at, self.settings.token_ttl);
        Ok(user)
    }

    async fn may(&self, user: &UserInfo, token: Key, peer: Option<Peer>, path: &str) -> Result<bool, Refusal> {
        let key = Sha256::new().chain_update(token).chain_update(path).finalize().into();
        let question = self.pages.lock().question(key, peer)?;
        let ask = async || -> Result<_, Refusal> {
            match question.turn(&self.pages, &key, peer)? {
                Some(known) => Ok(Ok(known)),
                None => Ok(self.ask_may(user, token, key, path).await),
            }
        };
        let may = question.answer.get_or_try_init(ask).await?.clone()?;
        Ok(may.is_some())
    }

    async fn ask_may(&self, user: &UserInfo, token: Key, key: Key, path: &str) -> Result<Option<Key>, Refusal> {
        let at = Instant::now();
        let may = answered("SubjectAccessReview", &self.pages_away, self.reviews.access(user, path).await)?;
        let ttl = if may { self.settings.allowed_ttl } else { self.settings.denied_ttl };
        let whose = may.then_some(token);
        let has_pages = {
            let mut pages = self.pages.lock();
            pages.answers.keep(key, whose, may, at, ttl);
            if may {
                pages.answers.keep_newest(&whose);
            }
            pages.answers.has(&Some(token))
        };
        if !has_pages {
            self.tokens.lock().answers.let_out(&token);
        }
        Ok(whose)
    }
}

/// Tells once that there are no answers to reviews of this kind, and once that there are some again.
fn answered<T>(review: &'static str, is_away: &AtomicBool, asked: Result<T, String>) -> Result<T, Refusal> {
    let was_away = is_away.swap(asked.is_err(), Ordering::Relaxed);
    match asked {
        Ok(answer) => {
            if was_away {
                tracing::info!(review, "the API server answers reviews of the health port again");
            }
            Ok(answer)
        }
        Err(error) => {
            if !was_away {
                tracing::warn!(
                    review,
                    error,
                    "the API server does not say who may read the health port: pages that need a token answer 503 until it does"
                );
            }
            Err(Refusal::Away(review))
        }
    }
}

impl Refusal {
    /// For metrics.
    const fn reason(&self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::NoToken => "no-token",
            Self::WrongToken => "wrong-token",
            Self::Forbidden(_) => "forbidden",
            Self::TooMany => "too-many",
            Self::Away(_) => "away",
        }
    }

    fn page(self) -> Page {
        let (status, text) = match self {
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n".to_owned()),
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "this page needs a token: send the header \"Authorization: Bearer TOKEN\"; /livez, /healthz and /readyz need none by default\n"
                    .to_owned(),
            ),
            Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                "the API server does not know this token, or it has expired: make another one, such as with kubectl create token\n".to_owned(),
            ),
            Self::Forbidden(what) => (
                StatusCode::FORBIDDEN,
                format!("{what}: bind a ClusterRole with this path under nonResourceURLs and the verb get, such as wasm-ccm-reader\n"),
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many new tokens or pages at the moment (--authentication-reviews-per-second): try again in a second\n".to_owned(),
            ),
            Self::Away(review) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the API server has not answered a {review}, so nobody gets this page; the log of this process says why\n"),
            ),
        };
        let mut page = page(status, TEXT, text);
        let header = match status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, CHALLENGE)),
            StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = header {
            page.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        page
    }
}
