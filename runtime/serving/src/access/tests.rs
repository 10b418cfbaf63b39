use std::sync::atomic::AtomicUsize;

use ccm_fake_api::Log;
use http_body_util::BodyExt as _;
use hyper::Request;

use super::*;

mod turns;
mod wire;

const S: Duration = Duration::from_secs(1);

/// An API server that knows some tokens, lets one user read one page, and counts what it is asked.
#[derive(Clone, Default)]
struct Fake {
    asked: Arc<Mutex<Vec<String>>>,
    is_away: Arc<AtomicBool>,
    /// It may not be asked who may get what.
    forbids_access: Arc<AtomicBool>,
    known: Arc<AtomicUsize>,
}

impl Fake {
    fn asked(&self) -> usize {
        std::mem::take(&mut *self.asked.lock()).len()
    }

    fn away(&self, is: bool) {
        self.is_away.store(is, Ordering::Relaxed);
    }
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    let groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
    UserInfo { username: Some(name.to_owned()), groups, ..UserInfo::default() }
}

impl Reviews for Fake {
    async fn token(&self, token: &str, audience: Option<&'static str>) -> Result<Option<UserInfo>, String> {
        self.asked.lock().push(format!("token {token} {audience:?}"));
        if self.is_away.load(Ordering::Relaxed) {
            return Err(format!("no answer about {token}"));
        }
        Ok(match (token, audience) {
            ("prometheus", None) | ("bound", Some(AUDIENCE)) => Some(user("prometheus", &[])),
            ("nobody", None) => Some(user("nobody", &["system:authenticated"])),
            ("admin", None) => Some(user("admin", &["system:masters"])),
            ("reader" | "demoted", None) => Some(user(token, &[])),
            ("slow", None) => {
                tokio::time::sleep(S).await;
                Some(user("prometheus", &[]))
            }
            ("slow-unknown", None) => {
                tokio::time::sleep(S).await;
                None
            }
            // Revoked while the first question about it is answered.
            ("revoked", None) if self.known.fetch_add(1, Ordering::Relaxed) == 0 => {
                tokio::time::sleep(3 * S).await;
                Some(user("prometheus", &[]))
            }
            (token, None) if token.starts_with("good-") => {
                self.known.fetch_add(1, Ordering::Relaxed);
                Some(user(token, &[]))
            }
            _ => None,
        })
    }

    async fn access(&self, user: &UserInfo, path: &str) -> Result<bool, String> {
        self.asked.lock().push(format!("access {:?} {path}", user.username));
        if self.is_away.load(Ordering::Relaxed) || self.forbids_access.load(Ordering::Relaxed) {
            return Err("no answer".to_owned());
        }
        let name = user.username.as_deref().unwrap_or_default();
        Ok(match path {
            // As a cluster has it for everybody.
            "/healthz" | "/livez" | "/readyz" => true,
            "/healthz/*" | "/livez/*" | "/readyz/*" => name == "reader",
            "/slow" => {
                tokio::time::sleep(S).await;
                false
            }
            // It loses its rights while the first question about them is answered.
            _ if name == "demoted" && self.known.fetch_add(1, Ordering::Relaxed) == 0 => {
                tokio::time::sleep(3 * S).await;
                true
            }
            path => (name == "prometheus" || name.starts_with("good-")) && path.starts_with("/metrics"),
        })
    }
}

fn settings() -> AccessSettings {
    AccessSettings {
        always_allow: ["/healthz", "/readyz", "/livez"].map(str::to_owned).into(),
        token_ttl: 10 * S,
        allowed_ttl: 10 * S,
        denied_ttl: 10 * S,
        reviews_per_second: NonZeroU32::new(20).unwrap(),
        entries: NonZeroUsize::new(1_024).unwrap(),
    }
}

fn wall(settings: AccessSettings) -> (Wall<Fake>, Fake) {
    let fake = Fake::default();
    (Wall::new(settings, fake.clone(), AccessMetrics::default()), fake)
}

fn request(path: &str, headers: &[(&str, &str)]) -> Parts {
    let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

/// The status of what a request gets instead of its page; 200 where the page may be served.
async fn status(wall: &Wall<Fake>, path: &str, headers: &[(&str, &str)]) -> u16 {
    wall.reader(&request(path, headers)).await.map_or_else(|page| page.status().as_u16(), |_| 200)
}

/// The same with a token, from this address.
async fn from(address: [u8; 4], wall: &Wall<Fake>, token: &str, path: &str) -> u16 {
    let mut request = request(path, &[("authorization", &format!("Bearer {token}"))]);
    request.extensions.insert(Peer::new(address.into()));
    wall.reader(&request).await.map_or_else(|page| page.status().as_u16(), |_| 200)
}

/// The same with a token.
async fn with(wall: &Wall<Fake>, token: &str, path: &str) -> u16 {
    status(wall, path, &[("authorization", &format!("Bearer {token}"))]).await
}

#[tokio::test(start_paused = true)]
async fn a_page_of_checks_tells_reasons_only_to_those_who_may_get_all_of_them() {
    for page in ["/healthz", "/livez", "/readyz"] {
        let (closed, _) = wall(AccessSettings { always_allow: vec![], ..settings() });
        for (token, expected) in [("unknown", None), ("nobody", Some(Reader::Anybody)), ("reader", Some(Reader::Known))]
        {
            let request = request(page, &[("authorization", &format!("Bearer {token}"))]);
            assert_eq!(closed.reader(&request).await.ok(), expected, "{page} {token}");
        }
        let (wall, fake) = wall(settings());
        let reader = async |token: Option<&str>| {
            let header = token.map(|token| ("authorization", token));
            wall.reader(&request(page, header.as_slice())).await.unwrap()
        };
        assert_eq!(reader(None).await, Reader::Anybody, "{page}");
        for token in ["Bearer unknown", "Bearer nobody", "Bearer prometheus", "Basic x", "Bearer \u{e9}"] {
            assert_eq!(reader(Some(token)).await, Reader::Anybody, "{page} {token}");
        }
        for token in ["Bearer admin", "Bearer reader"] {
            assert_eq!(reader(Some(token)).await, Reader::Known, "{page} {token}");
        }
        fake.away(true);
        assert_eq!(reader(Some("Bearer other")).await, Reader::Anybody, "a probe of {page} gets its answer");
    }
    let (wall, _) = wall(settings());
    let head = Request::head("/metrics").header("authorization", "Bearer prometheus").body(()).unwrap();
    assert_eq!(wall.reader(&head.into_parts().0).await.unwrap(), Reader::Known);
}

#[tokio::test(start_paused = true)]
async fn every_path_that_is_not_open_needs_a_token_that_may_get_it() {
    let (wall, fake) = wall(settings());
    for path in ["/healthz", "/readyz", "/livez", "/livez?verbose"] {
        assert_eq!(status(&wall, path, &[]).await, 200, "{path}");
    }
    assert_eq!(fake.asked(), 0, "nobody is asked about open pages");
    let closed =
        ["/", "/metrics", "/providerz", "/configz", "/explain/v1/node/n", "/healthz/", "/healthz/x", "/no-such-page"];
    for path in closed {
        let page = wall.reader(&request(path, &[])).await.unwrap_err();
        assert_eq!(page.status(), 401, "{path}");
        assert_eq!(page.headers()[WWW_AUTHENTICATE], CHALLENGE);
        assert_eq!(page.headers()["x-content-type-options"], "nosniff");
        assert_eq!((with(&wall, "unknown", path).await, with(&wall, "nobody", path).await), (401, 403), "{path}");
        assert_eq!(with(&wall, "admin", path).await, 200, "{path}");
        tokio::time::advance(S).await;
    }
    assert_eq!((with(&wall, "prometheus", "/metrics").await, with(&wall, "prometheus", "/").await), (200, 403));
    let odd = Request::get("/'x").header("authorization", "bearer nobody").body(()).unwrap().into_parts().0;
    let refused = wall.reader(&odd).await;
    let text = refused.unwrap_err().into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.starts_with("User \"nobody\" cannot get path \"/'x\": bind a ClusterRole"), "{text}");
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        let other = Request::builder().method(&method).uri("/livez").body(()).unwrap().into_parts().0;
        assert_eq!(wall.reader(&other).await.unwrap_err().status(), 405, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_bearer_token_is_none_and_a_long_one_is_refused_unseen() {
    let (wall, fake) = wall(settings());
    let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
    let just = format!("Bearer {}", "x".repeat(MAX_TOKEN));
    for value in ["", "Bearer", "Bearer ", "Basic cHJvbWV0aGV1cw==", "prometheus", &long] {
        assert_eq!(status(&wall, "/metrics", &[("authorization", value)]).await, 401, "{value}");
    }
    assert_eq!(fake.asked(), 0);
    assert_eq!(status(&wall, "/metrics", &[("authorization", &just)]).await, 401);
    assert_eq!(fake.asked(), 1);
    for value in ["bearer prometheus", "BEARER  prometheus "] {
        assert_eq!(status(&wall, "/metrics", &[("authorization", value)]).await, 200, "{value}");
    }
}

/// The proxy of the API server hands it to whoever has the port of the pod.
#[tokio::test(start_paused = true)]
async fn a_token_in_the_header_of_our_own_counts_only_for_our_audience_and_the_other_way_round() {
    let (wall, _) = wall(settings());
    let header = TOKEN_HEADER;
    let ours = header.as_str();
    for (headers, expected) in [
        (vec![(ours, "bound")], 200),
        (vec![(ours, "prometheus")], 401),
        (vec![("authorization", "Bearer bound")], 401),
        (vec![("authorization", "Bearer nobody"), (ours, "bound")], 403),
        (vec![(ours, "")], 401),
    ] {
        assert_eq!(status(&wall, "/metrics", &headers).await, expected, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_their_time_and_no_longer() {
    let (wall, fake) = wall(AccessSettings { allowed_ttl: 4 * S, denied_ttl: 2 * S, ..settings() });
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
    assert_eq!(with(&wall, "nobody", "/metrics").await, 403);
    assert_eq!(with(&wall, "unknown", "/metrics").await, 401);
    assert_eq!(fake.asked(), 5, "three tokens, two of which are somebody's");
    // After so many seconds, so many questions: the no to a user, the yes, and the three tokens.
    for (after, expected) in [(1, 0), (1, 1), (2, 2), (6, 5)] {
        tokio::time::advance(after * S).await;
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
        assert_eq!(with(&wall, "nobody", "/metrics").await, 403);
        assert_eq!(with(&wall, "unknown", "/metrics").await, 401);
        assert_eq!(fake.asked(), expected, "{after}");
    }
    let (wall, fake) = self::wall(AccessSettings { token_ttl: Duration::ZERO, ..settings() });
    for _ in 0..2 {
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
    }
    assert_eq!(fake.asked(), 3, "without a time to keep it, each request asks whose token it is");
}

/// `--authentication-reviews-per-second`
#[tokio::test(start_paused = true)]
async fn a_flood_of_tokens_asks_the_api_server_no_more_than_so_often_and_holds_up_nobody_who_was_let_in() {
    let (wall, fake) = wall(settings());
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
    fake.asked();
    let mut refused = 0;
    for second in 0..30 {
        for token in 0..500 {
            match with(&wall, &format!("random-{second}-{token}"), "/metrics").await {
                401 => {}
                429 => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "in second {second}");
        tokio::time::advance(S).await;
    }
    // 9 at first, since half is kept for others, and as many as there are for one peer in 29 seconds; twice 3 about whoever was let in.
    let asked = fake.asked();
    assert!((9 + 29 * 10..=9 + 29 * 10 + 6).contains(&asked), "{asked}");
    assert_eq!(refused, 30 * 500 - (9 + 29 * 10));
    // One who has a token and asks for ever other pages.
    for page in 0..500 {
        with(&wall, "nobody", &format!("/{page}")).await;
    }
    assert_eq!(fake.asked(), 11, "one token, and as many pages as there are for one peer");
    let page = wall.reader(&request("/other", &[("authorization", "Bearer nobody")])).await.unwrap_err();
    assert_eq!((page.status().as_u16(), &page.headers()[RETRY_AFTER]), (429, &HeaderValue::from_static("1")));
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
}

/// A scraper whose token was renewed waited for as long as the flood lasted.
#[tokio::test(start_paused = true)]
async fn a_flood_holds_up_no_new_token_of_a_peer_that_asked_nothing_for_a_while() {
    let (wall, fake) = wall(settings());
    let (mut let_in, mut asked) = (0, 0);
    for second in 0..60 {
        for token in 0..200 {
            let attacker = [192, 0, 2, token % 2];
            from(attacker, &wall, &format!("random-{second}-{token}"), "/metrics").await;
            from(attacker, &wall, "nobody", &format!("/{second}-{token}")).await;
        }
        if second % 12 == 0 {
            let token = format!("good-{second}");
            let_in += usize::from(from([192, 0, 2, 9], &wall, &token, "/metrics").await == 200);
            assert_eq!(from([192, 0, 2, 9], &wall, "good-more", "/metrics").await, 429, "it has asked a moment ago");
        }
        asked += fake.asked();
        tokio::time::advance(S).await;
    }
    assert_eq!(let_in, 5);
    // One of each in each second, and what is there at first.
    assert!(asked <= 2 * 60 * 20 + 40 + 6, "{asked}");
    let takers = wall.tokens.lock().new.takers();
    assert_eq!(takers, 2, "those of the last ten seconds: the scraper asked before");
}

/// `--authentication-cache-entries`
#[tokio::test(start_paused = true)]
async fn never_more_answers_are_kept_than_the_limit_and_refusals_go_first() {
    let entries = NonZeroUsize::new(8).unwrap();
    let (wall, fake) = wall(AccessSettings { entries, token_ttl: 1_000 * S, ..settings() });
    for token in 0..4 {
        assert_eq!(with(&wall, &format!("good-{token}"), "/metrics").await, 200);
    }
    for token in 0..100 {
        assert_eq!(with(&wall, &format!("random-{token}"), "/metrics").await, 401);
        tokio::time::advance(S).await;
        assert!(wall.tokens.lock().answers.len() <= 8);
    }
    assert_eq!(wall.tokens.lock().answers.len(), 8);
    fake.known.store(0, Ordering::Relaxed);
    for token in 0..4 {
        assert_eq!(with(&wall, &format!("good-{token}"), "/metrics").await, 200);
    }
    assert_eq!(fake.known.load(Ordering::Relaxed), 0, "who they are was not forgotten");
    for token in 0..20 {
        with(&wall, &format!("good-{token}"), "/metrics").await;
        tokio::time::advance(S).await;
    }
    assert_eq!((wall.tokens.lock().answers.len(), wall.pages.lock().answers.len()), (8, 8));
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_api_server_nobody_gets_in_and_no_token_is_repeated() {
    let (wall, fake) = wall(settings());
    fake.away(true);
    let refused = wall.reader(&request("/metrics", &[("authorization", "Bearer prometheus")])).await.unwrap_err();
    assert_eq!(refused.status(), 503);
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.starts_with("the API server has not answered a TokenReview") && !text.contains("prometheus"),
        "{text}"
    );
    assert_eq!(status(&wall, "/livez", &[]).await, 200);
    fake.away(false);
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "that there was no answer is not kept");
    fake.away(true);
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "what is known counts for its time");
    assert_eq!(with(&wall, "prometheus", "/metrics/x").await, 503, "whose token it is does not say what it may");
    tokio::time::advance(10 * S).await;
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 503);
}

/// `ccm_health_port_refusals_total`
#[tokio::test(start_paused = true)]
async fn each_refusal_is_counted_by_its_reason() {
    let mut registry = prometheus_client::registry::Registry::default();
    let reviews_per_second = NonZeroU32::MIN;
    let fake = Fake::default();
    let settings = AccessSettings { reviews_per_second, ..settings() };
    let wall = Wall::new(settings, fake.clone(), AccessMetrics::register(&mut registry));
    assert_eq!(status(&wall, "/metrics", &[]).await, 401);
    assert_eq!(with(&wall, "unknown", "/metrics").await, 401);
    assert_eq!(with(&wall, "nobody", "/metrics").await, 429);
    tokio::time::advance(S).await;
    assert_eq!(with(&wall, "nobody", "/metrics").await, 403);
    tokio::time::advance(10 * S).await;
    fake.away(true);
    assert_eq!(with(&wall, "nobody", "/metrics").await, 503);
    let post = Request::post("/livez").body(()).unwrap().into_parts().0;
    assert_eq!(wall.reader(&post).await.unwrap_err().status(), 405);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for reason in ["no-token", "wrong-token", "too-many", "forbidden", "away", "method"] {
        let line = format!("ccm_health_port_refusals_total{{reason=\"{reason}\"}} 1\n");
        assert!(text.contains(&line), "no {line} in {text}");
    }
}

#[test]
fn open_paths_are_whole_paths_or_beginnings() {
    let always_allow = ["/healthz", "/open/*"].map(str::to_owned).into();
    let settings = AccessSettings { always_allow, ..settings() };
    for (path, is_open) in [
        ("/healthz", true),
        ("/healthz/x", false),
        ("/healthzx", false),
        ("/open/", true),
        ("/open/a/b", true),
        ("/open", false),
        ("/", false),
    ] {
        assert_eq!(settings.is_open(path), is_open, "{path}");
    }
    assert!(AccessSettings { always_allow: vec!["/*".to_owned()], ..settings.clone() }.is_open("/metrics"));
    assert!(!AccessSettings { always_allow: vec![], ..settings }.is_open("/healthz"));
}

/// The host may create TokenReviews and no SubjectAccessReviews: each scrape once wrote two lines.
#[tokio::test(start_paused = true)]
async fn one_kind_of_review_without_an_answer_is_told_once_while_the_other_kind_is_answered() {
    let (wall, fake) = wall(settings());
    let log = Log::start();
    fake.forbids_access.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 503);
        tokio::time::advance(30 * S).await;
    }
    assert_eq!((log.lines("does not say who may read").len(), log.lines("answers reviews").len()), (1, 0));
    fake.forbids_access.store(false, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
    }
    let again = log.lines("answers reviews of the health port again");
    assert!(again.len() == 1 && again[0].contains("SubjectAccessReview"), "{again:?}");
}

/// What an error quotes, also where it is logged.
#[tokio::test(start_paused = true)]
async fn no_token_is_in_the_log_when_the_api_server_does_not_answer() {
    let (wall, fake) = wall(settings());
    let log = Log::start();
    fake.away(true);
    assert_eq!(with(&wall, "hunter2", "/metrics").await, 503);
    let lines = log.lines("no answer about");
    assert!(lines.len() == 1 && lines[0].contains("(the token)") && !lines[0].contains("hunter2"), "{lines:?}");
}

/// It counted for its time from the answer on.
#[tokio::test(start_paused = true)]
async fn an_answer_counts_from_the_question_on_and_for_all_who_wait_for_it() {
    for (token, refused) in [("revoked", 401), ("demoted", 403)] {
        let (wall, _) = wall(settings());
        let first = with(&wall, token, "/metrics");
        let later = async {
            tokio::time::sleep(S).await;
            with(&wall, token, "/metrics").await
        };
        assert_eq!(tokio::join!(first, later), (200, 200), "{token}");
        assert_eq!(with(&wall, token, "/metrics").await, 200, "{token}");
        tokio::time::advance(7 * S + Duration::from_millis(1)).await;
        assert_eq!(with(&wall, token, "/metrics").await, refused, "{token}: 10 s after the question");
    }
}
