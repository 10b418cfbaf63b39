use std::sync::atomic::AtomicUsize;

use http_body_util::BodyExt as _;
use hyper::Request;

use super::*;

const S: Duration = Duration::from_secs(1);

/// An API server that knows some tokens, lets one user read one page, and counts what it is asked.
#[derive(Clone, Default)]
struct Fake {
    asked: Arc<Mutex<Vec<String>>>,
    is_away: Arc<AtomicBool>,
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
            (token, None) if token.starts_with("good-") => {
                self.known.fetch_add(1, Ordering::Relaxed);
                Some(user(token, &[]))
            }
            _ => None,
        })
    }

    async fn access(&self, user: &UserInfo, path: &str) -> Result<bool, String> {
        self.asked.lock().push(format!("access {:?} {path}", user.username));
        if self.is_away.load(Ordering::Relaxed) {
            return Err("no answer".to_owned());
        }
        let name = user.username.as_deref().unwrap_or_default();
        Ok((name == "prometheus" || name.starts_with("good-")) && path.starts_with("/metrics"))
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
    wall.refusal(&request(path, headers)).await.map_or(200, |page| page.status().as_u16())
}

/// The same with a token.
async fn with(wall: &Wall<Fake>, token: &str, path: &str) -> u16 {
    status(wall, path, &[("authorization", &format!("Bearer {token}"))]).await
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
        let page = wall.refusal(&request(path, &[])).await.unwrap();
        assert_eq!(page.status(), 401, "{path}");
        assert_eq!(page.headers()[WWW_AUTHENTICATE], CHALLENGE);
        assert_eq!((with(&wall, "unknown", path).await, with(&wall, "nobody", path).await), (401, 403), "{path}");
        assert_eq!(with(&wall, "admin", path).await, 200, "{path}");
        tokio::time::advance(S).await;
    }
    assert_eq!((with(&wall, "prometheus", "/metrics").await, with(&wall, "prometheus", "/").await), (200, 403));
    let odd = Request::get("/'x").header("authorization", "bearer nobody").body(()).unwrap().into_parts().0;
    let refused = wall.refusal(&odd).await;
    let text = refused.unwrap().into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.starts_with("User \"nobody\" cannot get path \"/'x\": bind a ClusterRole"), "{text}");
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        let other = Request::builder().method(&method).uri("/livez").body(()).unwrap().into_parts().0;
        assert_eq!(wall.refusal(&other).await.unwrap().status(), 405, "{method}");
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
    // 19 at first, and what grew in 29 seconds; twice 3 about whoever was let in.
    let asked = fake.asked();
    assert!((19 + 29 * 20..=20 + 29 * 20 + 6).contains(&asked), "{asked}");
    assert_eq!(refused, 30 * 500 - (19 + 29 * 20));
    // One who has a token and asks for ever other pages.
    for page in 0..500 {
        with(&wall, "nobody", &format!("/{page}")).await;
    }
    assert_eq!(fake.asked(), 21, "one token, and as many pages as in a second");
    let page = wall.refusal(&request("/other", &[("authorization", "Bearer nobody")])).await.unwrap();
    assert_eq!((page.status().as_u16(), &page.headers()[RETRY_AFTER]), (429, &HeaderValue::from_static("1")));
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200);
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
    let refused = wall.refusal(&request("/metrics", &[("authorization", "Bearer prometheus")])).await.unwrap();
    assert_eq!(refused.status(), 503);
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.starts_with("the API server has not answered a TokenReview") && !text.contains("prometheus"),
        "{text}"
    );
    assert_eq!(status(&wall, "/livez", &[]).await, 200);
    assert_eq!(wall.who(&Given { token: "secret", audience: None }, [0; 32]).await, Err(Refusal::Away("TokenReview")));
    fake.away(false);
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "that there was no answer is not kept");
    fake.away(true);
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 200, "what is known counts for its time");
    assert_eq!(with(&wall, "prometheus", "/metrics/x").await, 503, "whose token it is does not say what it may");
    tokio::time::advance(10 * S).await;
    assert_eq!(with(&wall, "prometheus", "/metrics").await, 503);
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
