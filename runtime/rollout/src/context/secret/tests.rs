use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ccm_fake_api::Log;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;

const UNWATCHED: &str = "cannot watch the Secret";
/// Longer than the longest pause between two tries, and a list and a watch after that.
const BACK: Duration = Duration::from_secs(75);
/// Seconds for which a right is refused, and is not lost: it is after 45.
const QUIET: u64 = 44;

/// An API server with one Secret.
#[derive(Clone, Copy)]
struct Server {
    fails: Option<Fails>,
    /// None when there is no Secret.
    token: Option<&'static str>,
    version: u32,
}

#[derive(Debug, Clone, Copy)]
enum Fails {
    Forbids,
    /// A list is allowed.
    ForbidsWatch,
    Away,
}

impl Server {
    /// Notifies of what it forbids.
    fn start() -> (watch::Sender<Self>, Client, Arc<Notify>) {
        let server = watch::Sender::new(Self { fails: None, token: Some("value-one"), version: 7 });
        let newest = server.subscribe();
        let refused = Arc::new(Notify::new());
        let told = Arc::clone(&refused);
        let service = tower::service_fn(move |request: Request<Body>| {
            let now = *newest.borrow();
            let query = request.uri().query().unwrap_or_default().to_owned();
            if now.forbids(&query) {
                told.notify_one();
            }
            async move { now.answer(&query).await }
        });
        (server, Client::new(service, "default"), refused)
    }

    fn forbids(self, query: &str) -> bool {
        match self.fails {
            Some(Fails::Forbids) => true,
            Some(Fails::ForbidsWatch) => query.contains("watch="),
            Some(Fails::Away) | None => false,
        }
    }

    async fn answer(self, query: &str) -> io::Result<Response<Body>> {
        let answer =
            |code: u16, body: String| Ok(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap());
        if matches!(self.fails, Some(Fails::Away)) {
            return Err(io::Error::other("connection refused"));
        }
        if self.forbids(query) {
            let message = "secrets \"cloud\" is forbidden: User \"ccm\" cannot watch resource \"secrets\"";
            let refused = json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": message });
            return answer(403, refused.to_string());
        }
        if query.contains("watch=") {
            // What changed since then is forgotten.
            if !query.contains(&format!("resourceVersion={}", self.version)) {
                let expired = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" });
                return answer(200, format!("{}\n", json!({ "type": "ERROR", "object": expired })));
            }
            // Its time is up.
            tokio::time::sleep(Duration::from_secs(10)).await;
            return answer(200, String::new());
        }
        if query.contains("fieldSelector") {
            let metadata = json!({ "resourceVersion": self.version.to_string() });
            let items = Vec::from_iter(self.secret());
            return answer(200, json!({ "metadata": metadata, "items": items }).to_string());
        }
        answer(200, self.secret().unwrap().to_string())
    }

    fn secret(self) -> Option<Value> {
        let data = json!({ "token": BASE64_STANDARD.encode(self.token?) });
        let metadata =
            json!({ "name": "cloud", "namespace": "kube-system", "resourceVersion": self.version.to_string() });
        Some(json!({ "metadata": metadata, "data": data }))
    }
}

async fn source(client: &Client) -> CredentialSource {
    let sources = watched(client, "kube-system", "cloud", &[("token", "token")]).await.unwrap();
    let [(_, source)] = <[_; 1]>::try_from(sources).unwrap_or_else(|_| panic!("one source"));
    source
}

fn value(source: &CredentialSource) -> String {
    let value = source.read().unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(value.unwrap().expose().to_vec()).unwrap()
}

/// Looks each second, and finds the first value each time, with what is said of it.
async fn stays(source: &CredentialSource, seconds: u64, unseen: Option<&str>) {
    for second in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(value(source), "value-one", "after {second} s");
        assert_eq!(source.unseen().as_deref(), unseen, "after {second} s");
    }
}

/// What is told of the source once the right is lost, which it is 45 s after the first refusal: not before, and not much later.
async fn lost(refused: &Notify, source: &CredentialSource) -> String {
    tokio::time::timeout(BACK, refused.notified()).await.expect("it is refused");
    stays(source, QUIET, None).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    source.unseen().expect("it is told")
}

/// What was read last stays in use for good, and nothing but a line in the log said that no rotation would be seen. An API server that was
/// restarted took that back.
#[tokio::test(start_paused = true)]
async fn a_right_that_is_lost_is_told_of_the_source_until_it_is_given_again() {
    let (server, client, refused) = Server::start();
    let source = source(&client).await;
    stays(&source, 600, None).await;
    server.send_modify(|server| server.fails = Some(Fails::Forbids));
    let told = lost(&refused, &source).await;
    let parts = ["secret:kube-system/cloud/token", "cannot watch resource \"secrets\"", RIGHTS];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    for fails in [Fails::Away, Fails::Forbids, Fails::Away] {
        server.send_modify(|server| server.fails = Some(fails));
        stays(&source, 180, Some(&told)).await;
    }
    server.send_modify(|server| server.fails = None);
    tokio::time::sleep(BACK).await;
    stays(&source, 60, None).await;
}

/// One that has just started forbids everything before it has read its rules. Nobody asked again for so long after that, because of the pauses
/// of an outage, that the right passed for lost.
#[tokio::test(start_paused = true)]
async fn a_right_that_is_refused_once_between_two_outages_is_not_lost() {
    let (server, client, refused) = Server::start();
    let source = source(&client).await;
    server.send_modify(|server| server.fails = Some(Fails::Away));
    stays(&source, 300, None).await;
    // How long each pause is, is left to chance.
    for _ in 0..10 {
        server.send_modify(|server| server.fails = Some(Fails::Forbids));
        tokio::time::timeout(BACK, refused.notified()).await.expect("it is refused");
        server.send_modify(|server| server.fails = Some(Fails::Away));
        stays(&source, 600, None).await;
    }
}

/// The watch began well again, and the API server said only then that it had forgotten what came between: the old value passed for the
/// current one for up to a minute. So it was although the Secret was listed anew when the right was lost, if that was not lost as well.
#[tokio::test(start_paused = true)]
async fn what_was_rotated_while_a_right_was_lost_is_the_first_that_is_seen_again() {
    let two = Some("value-two");
    for (fails, token) in [(Fails::Forbids, two), (Fails::ForbidsWatch, two), (Fails::ForbidsWatch, None)] {
        let (server, client, refused) = Server::start();
        let source = source(&client).await;
        stays(&source, 60, None).await;
        server.send_modify(|server| server.fails = Some(fails));
        let told = lost(&refused, &source).await;
        // It is listed anew when the right is lost.
        tokio::time::sleep(BACK).await;
        server.send_modify(|server| (server.token, server.version) = (token, 8));
        stays(&source, 60, Some(&told)).await;
        let CredentialSource::Watched { object, .. } = &source else { panic!("it is watched") };
        let mut object = object.clone();
        object.mark_unchanged();
        let seen = async {
            loop {
                object.changed().await.unwrap();
                match &*object.borrow_and_update() {
                    Object::Is(values) => return Some(values.get("token").unwrap().expose().to_vec()),
                    Object::Absent => return None,
                    Object::Unseen { .. } => {}
                }
            }
        };
        server.send_modify(|server| server.fails = None);
        let first = tokio::time::timeout(BACK, seen).await.unwrap();
        assert_eq!(first.as_deref(), token.map(str::as_bytes), "{fails:?}");
        // It goes on with that.
        tokio::time::sleep(BACK).await;
        let now = source.read().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(now.as_ref().map(Secret::expose), token.map(str::as_bytes), "{fails:?}");
        assert_eq!(source.unseen(), None, "{fails:?}");
    }
}

/// Nothing but this line says so, and it named a right that was there.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_in_the_log_with_the_way_out_and_is_no_lost_source_while_no_right_is() {
    let (server, client, refused) = Server::start();
    let source = source(&client).await;
    let log = Log::start();
    stays(&source, 60, None).await;
    assert_eq!(log.lines(UNWATCHED), Vec::<String>::new());
    server.send_modify(|server| server.fails = Some(Fails::Away));
    stays(&source, 600, None).await;
    let away = log.lines(UNWATCHED);
    let parts = ["secret:kube-system/cloud", "connection refused", WAY];
    assert!(!away.is_empty() && away.iter().all(|line| parts.iter().all(|part| line.contains(part))), "{away:?}");
    assert!(!away.iter().any(|line| line.contains(RIGHTS) || line.contains("value-one")), "{away:?}");
    server.send_modify(|server| server.fails = Some(Fails::Forbids));
    lost(&refused, &source).await;
    tokio::time::sleep(BACK).await;
    let all = log.lines(UNWATCHED);
    assert!(all.len() > away.len() && all[away.len()..].iter().all(|line| line.contains(RIGHTS)), "{all:?}");
    server.send_modify(|server| server.fails = None);
    tokio::time::sleep(BACK).await;
    let told = log.lines(UNWATCHED).len();
    stays(&source, 60, None).await;
    assert_eq!(log.lines(UNWATCHED).len(), told, "it is well");
}
