//! Changes that are not sent are told to whoever forbids them.

use ccm_cloud::ForbiddenChange;

use super::*;

/// Forbids everything, and remembers what.
#[derive(Default)]
struct Forbids(Mutex<Vec<ForbiddenChange>>);

impl Leadership for Forbids {
    fn may_write(&self) -> bool {
        false
    }

    fn forbade(&self, change: ForbiddenChange) {
        self.0.lock().push(change);
    }
}

fn rig() -> (Rig, Arc<Forbids>) {
    let forbids: Arc<Forbids> = Arc::default();
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Arc::clone(&forbids) as _, |_| {});
    (rig, forbids)
}

fn told(forbids: &Forbids) -> Vec<(String, bool)> {
    let all = std::mem::take(&mut *forbids.0.lock());
    all.into_iter().map(|one| (format!("{} {}", one.method, one.target), one.is_after_another)).collect()
}

fn change(method: Method, path: &str) -> Request {
    Request { path: path.to_owned(), ..request(method, Effect::Once) }
}

#[tokio::test]
async fn who_does_not_lead_changes_nothing_and_may_look() {
    let cloud = Cloud::start(|_| ok("{}"));
    let rig = Rig::with(cloud, Arc::default(), Leader::new(false), |_| {});
    for effect in [Effect::Repeatable, Effect::Once] {
        for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
            let error = rig.send(request(method, effect)).await.unwrap_err();
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::ReadOnly, false), "{method:?}");
            assert_eq!(error.message, "DO IT: this process is not the leader, and may not change the cloud");
        }
    }
    assert_eq!(rig.cloud.take(), []);
    assert_eq!(rig.send(post(Effect::Read)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_change_that_is_forbidden_is_told_as_it_would_be_sent_with_names_for_secrets() {
    let (rig, forbids) = rig();
    let secret = || Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain };
    let asked = Request {
        query: vec![("a b".to_owned(), vec![Part::Bytes(b"1&2".to_vec())]), ("t".to_owned(), vec![secret()])],
        body: vec![secret()],
        ..change(Method::Put, "/")
    };
    rig.send(asked).await.unwrap_err();
    let wanted = ForbiddenChange {
        provider: "test".to_owned(),
        endpoint: "api".to_owned(),
        method: "PUT",
        target: "/?a%20b=1%262&t=(credential token)".to_owned(),
        body: "(credential token)".to_owned(),
        operation: "DO IT".to_owned(),
        is_after_another: false,
    };
    assert_eq!(*forbids.0.lock(), [wanted]);
    assert_eq!(rig.cloud.take(), []);
}

#[tokio::test]
async fn what_a_call_asks_for_after_a_refusal_is_told_from_what_it_asked_for_together() {
    let (rig, forbids) = rig();
    let first = call();
    let together = vec![change(Method::Post, "/a"), change(Method::Post, "/b")];
    assert!(rig.egress.send_all(together, &first).await.iter().all(Result::is_err));
    rig.egress.send(change(Method::Delete, "/c"), &first).await.unwrap_err();
    rig.egress.send(change(Method::Delete, "/d"), &call()).await.unwrap_err();
    let wanted = [("POST /a", false), ("POST /b", false), ("DELETE /c", true), ("DELETE /d", false)];
    assert_eq!(told(&forbids), wanted.map(|(what, after)| (what.to_owned(), after)));
}

/// 2,000 bodies of 1 MiB, each many times larger as JSON, once took all memory of a dry run.
#[tokio::test]
async fn of_many_and_large_changes_of_a_call_no_more_is_told_than_people_read() {
    let (rig, forbids) = rig();
    let with_body = |body: String| Request { body: vec![Part::Bytes(body.into_bytes())], ..change(Method::Post, "/a") };
    let all = CallScope::new(Class::Write, false, false, None, 2_000, 1 << 20);
    let answers = rig.egress.send_all((0..2_000).map(|n| with_body(format!("[{n}]"))).collect(), &all).await;
    assert!(answers.len() == 2_000 && answers.iter().all(Result::is_err));
    let told = std::mem::take(&mut *forbids.0.lock());
    let bodies: Vec<&str> = told.iter().map(|one| one.body.as_str()).collect();
    assert_eq!((told.len(), bodies[0], bodies[63]), (64, "[0]", "[63]"));

    let long = |end: &str| with_body(format!("[{}{end}]", "{\"a\":0},".repeat(8 << 10)));
    let some = vec![with_body("[]".to_owned()), long("1"), long("2"), with_body("{}".to_owned())];
    rig.egress.send_all(some, &call()).await;
    let told = std::mem::take(&mut *forbids.0.lock());
    let [first, one, other, last] = &told[..] else { panic!("{told:?}") };
    assert_eq!((first.body.as_str(), last.body.as_str()), ("[]", "{}"), "what is small has room beside what is large");
    assert!(one.body.starts_with("[{\"a\":0},") && one.body.contains("… (65539 bytes, SHA-256 "), "{}", one.body);
    assert!(one.body.len() < 5 << 10 && one.body != other.body);
    rig.egress.send_all((0..64).map(|n| long(&n.to_string())).collect(), &call()).await;
    let told = std::mem::take(&mut *forbids.0.lock());
    let bytes: usize = told.iter().map(|one| one.body.len()).sum();
    assert!(told.len() == 64 && bytes < (64 << 10) + 64 * 64, "{bytes} bytes");
}

/// Else a plan would show what no host ever sends.
#[tokio::test]
async fn what_another_wall_stops_is_not_told() {
    let (rig, forbids) = rig();
    let looks = CallScope::new(Class::Write, true, false, None, 100, 1 << 20);
    rig.egress.send(change(Method::Post, "/a"), &looks).await.unwrap_err();
    let elsewhere = Request { endpoint: "unknown".to_owned(), ..change(Method::Post, "/a") };
    rig.send(elsewhere).await.unwrap_err();
    rig.send(change(Method::Post, "/a/../b")).await.unwrap_err();
    rig.send(request(Method::Delete, Effect::Read)).await.unwrap_err();
    assert_eq!(rig.send(post(Effect::Read)).await.unwrap().status, 200);
    assert_eq!(told(&forbids), []);
}
