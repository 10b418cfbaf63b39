//! Logins as the host and a provider of the SDK make them together, counted by a simulated Keystone and Nova.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{FindError, Finding, Instances as _, Need, Reaction};
use ccm_sandbox::{Limits, Provider};
use futures::FutureExt as _;
use futures::future::join_all;
use hyper::Response;
use parking_lot::Mutex;
use tokio::time;

use crate::rig::node;
use crate::server::{Answered, Asked, Server, full};
use crate::setup::{SESSION, Setup, given};

const PASSWORD: &str = "the \"pass\\word\" of the user";

/// What the cloud has seen, and what it thinks of it.
#[derive(Default)]
struct Cloud {
    url: Mutex<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    logins: usize,
    /// How often each machine was asked for.
    asked: BTreeMap<String, usize>,
    valid: BTreeSet<String>,
    /// Tokens of questions since somebody looked.
    tokens: Vec<String>,
    /// How long a token lives; an hour when it is not said.
    life: Option<Duration>,
    /// No login is good.
    refuses_logins: bool,
    /// No token is good.
    refuses_tokens: bool,
    /// How long a login and a question take.
    login_time: Duration,
    time: Duration,
}

impl Cloud {
    async fn start() -> (Arc<Self>, Server) {
        let cloud = Arc::new(Self::default());
        let answering = Arc::clone(&cloud);
        let server = Server::start(move |request| Arc::clone(&answering).answer(request).boxed()).await;
        *cloud.url.lock() = server.url("");
        (cloud, server)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }

    fn logins(&self) -> usize {
        self.state.lock().logins
    }

    fn asked(&self) -> usize {
        self.state.lock().asked.values().sum()
    }

    fn tokens(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().tokens)
    }

    fn revoke(&self) {
        self.set(|state| state.valid.clear());
    }

    async fn answer(self: Arc<Self>, request: Asked) -> Answered {
        if request.uri().path() == "/identity/v3/auth/tokens" {
            self.login(request).await
        } else {
            self.ask(request).await
        }
    }

    async fn login(&self, request: Asked) -> Answered {
        let (number, time) = {
            let mut state = self.state.lock();
            state.logins += 1;
            (state.logins, state.login_time)
        };
        time::sleep(time).await;
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        let mut state = self.state.lock();
        if state.refuses_logins || body["password"] != PASSWORD {
            return Ok(refused("The password is wrong."));
        }
        let token = format!("gAAAAA-token-number-{number}");
        state.valid.insert(token.clone());
        let life = state.life.unwrap_or(Duration::from_secs(3600)).as_secs();
        let url = format!("{}/compute/v2.1", self.url.lock());
        let catalogue = serde_json::json!({ "token": {
            "id": token,
            "expires_at": life.to_string(),
            "catalog": [{ "type": "compute", "endpoints": [{ "url": url }] }],
        } });
        let answer = Response::builder().status(201).header("x-subject-token", token);
        Ok(answer.header("content-type", "application/json").body(full(catalogue.to_string())).unwrap())
    }

    async fn ask(&self, request: Asked) -> Answered {
        let token = request.headers().get("x-auth-token").map(|token| token.to_str().unwrap().to_owned());
        let (good, time) = {
            let mut state = self.state.lock();
            *state.asked.entry(request.uri().path().to_owned()).or_default() += 1;
            state.tokens.extend(token.clone());
            let good = !state.refuses_tokens && token.is_some_and(|token| state.valid.contains(&token));
            (good, state.time)
        };
        time::sleep(time).await;
        Ok(if good { json(200, r#"{"server": {}}"#) } else { refused("The token is not known.") })
    }
}

fn json(status: u16, body: &str) -> Response<crate::server::Body> {
    let answer = Response::builder().status(status).header("content-type", "application/json");
    answer.header("x-openstack-request-id", "req-7").body(full(body.to_owned())).unwrap()
}

fn refused(why: &str) -> Response<crate::server::Body> {
    json(401, &serde_json::json!({ "error": { "message": why } }).to_string())
}

async fn provider(cloud: &Cloud) -> Provider {
    setup(cloud).start(SESSION).await
}

fn setup(cloud: &Cloud) -> Setup {
    let identity = format!("{}/identity", cloud.url.lock());
    let mut setup = Setup::default().endpoint("identity", identity).credential("password", given(PASSWORD));
    // A hundred at once on a busy machine.
    setup.limits = Limits { call_cpu: Duration::from_secs(60), busy_calls: 8, ..Limits::default() };
    setup
}

async fn ask(provider: &Provider, name: &str) -> Result<Vec<Finding>, FindError> {
    provider.find(vec![node(name)], Need::Metadata).await
}

/// A hundred calls at the same time, each for a machine of its own; all are answered.
async fn a_hundred(provider: &Provider) {
    let names: Vec<String> = (0..100).map(|number| format!("node-{number}")).collect();
    for answer in join_all(names.iter().map(|name| ask(provider, name))).await {
        assert!(matches!(answer.unwrap().as_slice(), [Finding::Found(_)]));
    }
}

fn failure(answer: Result<Vec<Finding>, FindError>) -> (Reaction, String) {
    match answer.unwrap_err() {
        FindError::Failed(failure) => (failure.reaction, failure.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_log_in_once() {
    let (cloud, _server) = Cloud::start().await;
    cloud.set(|state| state.login_time = Duration::from_millis(200));
    let provider = provider(&cloud).await;
    a_hundred(&provider).await;
    assert_eq!((cloud.logins(), cloud.asked()), (1, 100));
    a_hundred(&provider).await;
    assert_eq!((cloud.logins(), cloud.asked()), (1, 200), "the token is kept");
}

#[tokio::test]
async fn a_stale_token_is_renewed_once_and_the_request_repeated() {
    let (cloud, _server) = Cloud::start().await;
    let provider = provider(&cloud).await;
    ask(&provider, "a").await.unwrap();
    cloud.revoke();
    ask(&provider, "b").await.unwrap();
    assert_eq!((cloud.logins(), cloud.asked()), (2, 3), "a; b and b again");
}

#[tokio::test]
async fn in_one_call_many_requests_with_a_stale_token_renew_it_once() {
    let (cloud, _server) = Cloud::start().await;
    let provider = provider(&cloud).await;
    ask(&provider, "a").await.unwrap();
    cloud.revoke();
    let nodes = (0..20).map(|number| node(&format!("node-{number}"))).collect();
    assert_eq!(provider.find(nodes, Need::Metadata).await.unwrap().len(), 20);
    assert_eq!(cloud.logins(), 2);
}

#[tokio::test]
async fn a_hundred_calls_whose_token_is_revoked_renew_it_once() {
    for time in [0, 50] {
        let (cloud, _server) = Cloud::start().await;
        let mut setup = setup(&cloud);
        // Some wait for their turn while others are refused already.
        setup.network.budget.concurrency = std::num::NonZeroUsize::new(10).unwrap();
        let provider = setup.start(SESSION).await;
        ask(&provider, "a").await.unwrap();
        cloud.set(|state| {
            state.valid.clear();
            state.time = Duration::from_millis(time);
            state.login_time = Duration::from_millis(time);
        });
        a_hundred(&provider).await;
        assert_eq!(cloud.logins(), 2, "answers after {time} ms");
        assert!(cloud.asked() <= 201, "nothing is repeated twice");
    }
}

#[tokio::test]
async fn a_fresh_token_that_is_refused_too_is_the_end() {
    let (cloud, _server) = Cloud::start().await;
    let provider = provider(&cloud).await;
    cloud.set(|state| state.refuses_tokens = true);
    let (reaction, message) = failure(ask(&provider, "a").await);
    assert_eq!(reaction, Reaction::Unauthorized);
    assert_eq!(
        message,
        "GET /servers/{name}: 401 Unauthorized (request ID req-7): a fresh token was refused too: The token is not known."
    );
    assert_eq!((cloud.logins(), cloud.asked()), (2, 2));
}

#[tokio::test]
async fn a_refused_login_says_what_the_cloud_said() {
    let (cloud, _server) = Cloud::start().await;
    cloud.set(|state| state.refuses_logins = true);
    let provider = provider(&cloud).await;
    let (reaction, message) = failure(ask(&provider, "a").await);
    assert_eq!(reaction, Reaction::Unauthorized);
    assert_eq!(
        message,
        "login failed: POST /v3/auth/tokens: 401 Unauthorized (request ID req-7): The password is wrong."
    );
    assert_eq!((cloud.logins(), cloud.asked()), (1, 0));
    cloud.set(|state| state.refuses_logins = false);
    // Not asked again at once, however long this takes: a cloud may lock the account.
    time::pause();
    assert_eq!(failure(ask(&provider, "b").await), (reaction, message));
    assert_eq!((cloud.logins(), cloud.asked()), (1, 0));
    time::advance(Duration::from_millis(1050)).await;
    time::resume();
    ask(&provider, "a").await.unwrap();
    assert_eq!((cloud.logins(), cloud.asked()), (2, 1));
}

#[tokio::test]
async fn a_token_near_its_end_is_renewed_before_it_is_refused() {
    let (cloud, _server) = Cloud::start().await;
    cloud.set(|state| state.life = Some(Duration::from_secs(200)));
    let provider = provider(&cloud).await;
    ask(&provider, "a").await.unwrap();
    ask(&provider, "b").await.unwrap();
    assert_eq!(cloud.logins(), 1);
    time::pause();
    time::advance(Duration::from_secs(185)).await;
    time::resume();
    ask(&provider, "c").await.unwrap();
    assert_eq!((cloud.logins(), cloud.asked()), (2, 3), "none was refused");
}

#[tokio::test]
async fn a_token_that_was_kept_without_its_catalogue_binds_again_without_a_login() {
    let (cloud, _server) = Cloud::start().await;
    let first = setup(&cloud);
    let carryover = Arc::clone(&first.carryover);
    let first = first.start(SESSION).await;
    ask(&first, "a").await.unwrap();
    carryover.forget_addresses();
    let second = Setup { carryover, ..setup(&cloud) }.start(SESSION).await;
    a_hundred(&second).await;
    assert_eq!((cloud.logins(), cloud.asked()), (1, 101));
}

/// Both once had the same token: what the new one did to it was done to its witness.
#[tokio::test]
async fn a_new_version_begins_without_a_login_and_its_own_later_logins_leave_the_old_one_alone() {
    let (cloud, _server) = Cloud::start().await;
    let old = provider(&cloud).await;
    ask(&old, "a").await.unwrap();
    let new = setup(&cloud).replace(&old, SESSION).await;
    a_hundred(&new).await;
    assert_eq!(cloud.logins(), 1);
    cloud.revoke();
    a_hundred(&new).await;
    assert_eq!(cloud.logins(), 2, "one for all calls of the new one");
    assert_eq!(cloud.tokens().last().unwrap(), "gAAAAA-token-number-2");
    ask(&old, "a").await.unwrap();
    assert_eq!(cloud.logins(), 3, "it notices by itself");
    assert_eq!(cloud.tokens(), ["gAAAAA-token-number-1", "gAAAAA-token-number-3"]);
    ask(&new, "b").await.unwrap();
    assert_eq!(cloud.logins(), 3);
}

/// What the guest says of the answer behind its token.
async fn answer(provider: &Provider) -> String {
    provider.check(true).await.unwrap().unwrap().remove(0).message
}

#[tokio::test]
async fn what_a_login_answered_is_there_for_every_call_and_after_a_swap_without_its_secret() {
    let (cloud, _server) = Cloud::start().await;
    let old = provider(&cloud).await;
    let expected = "compute; id (credential token); secret false";
    assert_eq!(answer(&old).await, expected, "without a token it logs in");
    ask(&old, "a").await.unwrap();
    assert_eq!((answer(&old).await, cloud.logins()), (expected.to_owned(), 1));
    let new = setup(&cloud).replace(&old, SESSION).await;
    assert_eq!((answer(&new).await, cloud.logins()), (expected.to_owned(), 1));
    // Another login, another answer.
    cloud.revoke();
    ask(&new, "b").await.unwrap();
    cloud.set(|state| state.refuses_logins = true);
    assert_eq!((answer(&new).await, cloud.logins()), (expected.to_owned(), 2));
}

#[tokio::test]
async fn an_endpoint_that_stays_unbound_is_a_failure_and_not_a_loop() {
    let (cloud, _server) = Cloud::start().await;
    let provider = provider(&cloud).await;
    // A host that nobody allowed.
    let away = cloud.url.lock().replace("127.0.0.1", "127.0.0.2");
    let here = std::mem::replace(&mut *cloud.url.lock(), away);
    let (reaction, message) = failure(ask(&provider, "a").await);
    assert_eq!(reaction, Reaction::Unauthorized);
    assert!(message.contains("the host 127.0.0.2 is not allowed"), "{message}");
    let (_, message) = failure(ask(&provider, "a").await);
    assert!(message.contains("the host 127.0.0.2 is not allowed"), "{message}");
    assert_eq!((cloud.logins(), cloud.asked()), (1, 0));
    *cloud.url.lock() = here;
}
