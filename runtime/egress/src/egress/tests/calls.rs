//! What belongs to a call: its proofs, its sessions, its room and time, and what it shares with others.

use tokio::sync::Notify;

use super::*;

fn session(pointer: &str) -> Option<Capture> {
    let source = CaptureSource::JsonPointer(pointer.to_owned());
    Some(Capture { credential: "session".to_owned(), source, expires: None, ttl: None })
}

/// A call on whose answer a Node may be deleted.
fn proof() -> CallScope {
    CallScope::new(Class::Write, true, true, None, 100, 1 << 20)
}

#[tokio::test]
async fn a_proof_never_rests_on_what_another_call_was_told() {
    let count = AtomicUsize::new(0);
    let answer = move |_: &Asked| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let body = format!(r#"{{"id":"session-Ohwae6ie-{number}"}}"#);
        Reply::Late(50 * MS, Box::new(move || reply("200 OK", "", body)))
    };
    let rig = Rig::new(answer);
    let ask =
        || Request { share: 600 * S, headers: token(), capture: session("/id"), ..request(Method::Get, Effect::Read) };
    rig.send(ask()).await.unwrap();
    rig.send(ask()).await.unwrap();
    assert_eq!(rig.cloud.take().len(), 1, "who proves nothing is content with it");
    let one = proof();
    for _ in 0..2 {
        rig.egress.send(ask(), &one).await.unwrap();
        assert_eq!(rig.cloud.take().len(), 1, "not a kept one");
    }
    let (first, second) =
        join(rig.send(Request { share: Duration::ZERO, ..ask() }), async { rig.egress.send(ask(), &proof()).await })
            .await;
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
    assert_eq!(rig.cloud.take().len(), 2, "and not one that is under way");
    assert!(rig.egress.available("session", &call()), "what it captured is there for all");
    let plain = || Request { share: 600 * S, ..request(Method::Get, Effect::Read) };
    rig.send(plain()).await.unwrap();
    rig.egress.send(plain(), &proof()).await.unwrap();
    assert_eq!(rig.cloud.take().len(), 2);
}

/// It once stopped between two changes of a load balancer, as soon as the cloud's limit was nearly used up.
#[tokio::test]
async fn who_has_begun_to_change_something_goes_on_with_it_though_nobody_waits_for_that() {
    const LOW: &str = "ratelimit-limit: 5000\r\nratelimit-remaining: 100\r\nratelimit-reset: 3600\r\n";
    let rig = Rig::new(|_| Reply::Bytes(reply("200 OK", LOW, "{}")));
    let unhurried = || CallScope::new(Class::Refresh, false, false, None, 100, 1 << 20);
    let (read, change) = (|| request(Method::Get, Effect::Read), || request(Method::Put, Effect::Repeatable));
    let begun = unhurried();
    rig.egress.send(change(), &begun).await.unwrap();
    for next in [read(), change(), read()] {
        rig.egress.send(next, &begun).await.unwrap();
    }
    for first in [read(), change()] {
        assert_eq!(rig.egress.send(first, &unhurried()).await.unwrap_err().reason, TransportReason::Throttled);
    }
    assert_eq!(rig.cloud.take().len(), 4);
}

/// Leads again as soon as somebody has heard that it does not.
struct Wavering(AtomicUsize);

impl Leadership for Wavering {
    fn may_write(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) != 1
    }
}

/// Leads, for a moment only.
struct Brief;

impl Leadership for Brief {
    fn may_write(&self) -> bool {
        true
    }

    fn time_left(&self) -> Duration {
        S
    }
}

/// Afterwards another process may make changes.
#[tokio::test]
async fn a_change_takes_no_longer_than_the_leadership_lasts_and_a_read_does() {
    let slow = |_: &Asked| Reply::Late(3 * S, Box::new(|| reply("200 OK", "", "{}")));
    let rig = Rig::with(Cloud::start(slow), Arc::default(), Arc::new(Brief), |settings| {
        (settings.retry.attempts, settings.limits.request_time) = (1, 60 * S);
    });
    let error = rig.send(post(Effect::Once)).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Timeout, true));
    assert!(error.message.contains("within 1.0s (until another process may be the leader)"), "{error}");
    assert_eq!(rig.send(post(Effect::Read)).await.unwrap().status, 200);
}

#[tokio::test]
async fn one_no_is_enough_when_a_change_is_sent() {
    let leadership = Arc::new(Wavering(AtomicUsize::new(0)));
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), leadership, |_| {});
    let error = rig.send(post(Effect::Once)).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::ReadOnly, false));
    assert_eq!(rig.cloud.take(), []);
}

#[tokio::test]
async fn a_call_that_only_used_a_session_can_end_it_and_no_newer_one() {
    let count = AtomicUsize::new(0);
    let rig =
        Rig::new(move |_| ok(&format!(r#"{{"id":"session-Ohwae6ie-{}"}}"#, count.fetch_add(1, Ordering::SeqCst))));
    let log_in = || Request { headers: token(), capture: session("/id"), ..post(Effect::Read) };
    let value = || vec![Part::Secret { credential: "session".to_owned(), encoding: Encoding::Plain }];
    let used = || Request { headers: vec![("x-session".to_owned(), value())], ..post(Effect::Read) };
    rig.send(log_in()).await.unwrap();
    let (user, late) = (call(), call());
    rig.egress.send(used(), &user).await.unwrap();
    rig.egress.send(used(), &late).await.unwrap();
    rig.egress.forget("session", &user);
    assert!(!rig.egress.available("session", &call()));
    rig.send(log_in()).await.unwrap();
    rig.egress.forget("session", &late);
    assert!(rig.egress.available("session", &call()), "the newer one stays");
}

#[tokio::test]
async fn headers_count_although_the_body_after_them_fails() {
    let head = "x-request-id: req-7\r\nretry-after: 90\r\ncontent-length: 99\r\n";
    let throttled = move || format!("HTTP/1.1 429 Too Many Requests\r\n{head}\r\nhalf").into_bytes();
    let large = || reply("200 OK", "x-request-id: req-7\r\n", " ".repeat(2001));
    type Case<'a> = (Box<dyn Fn() -> Reply + Send + Sync>, TransportReason, &'a str);
    let cases: [Case<'_>; 3] = [
        (Box::new(move || Reply::Bytes(throttled())), TransportReason::Other, "429 Too Many Requests"),
        (Box::new(move || Reply::Stall(throttled())), TransportReason::Timeout, "429 Too Many Requests"),
        (Box::new(move || Reply::Bytes(large())), TransportReason::TooLarge, "200 OK"),
    ];
    for (answer, reason, said) in cases {
        let rig = Rig::with(Cloud::start(move |_| answer()), Arc::default(), Arc::new(Alone), |settings| {
            settings.limits.response_bytes = 2000;
            // As long as a busy machine takes for an answer that comes.
            settings.limits.request_time = 2 * S;
        });
        let error = rig.send(post(Effect::Once)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (reason, true), "{error}");
        let start = format!("DO IT: {said} (request ID req-7): the answer ");
        assert!(error.message.starts_with(&start) || reason == TransportReason::Timeout, "{error}");
        assert!(error.message.contains("(request ID req-7): "), "{error}");
        let next = rig.send(post(Effect::Once)).await.unwrap_err().reason;
        let learned = if said == "200 OK" { TransportReason::TooLarge } else { TransportReason::Throttled };
        assert_eq!(next, learned, "{error}");
    }
}

#[tokio::test]
async fn bodies_that_break_off_one_after_another_open_the_breaker() {
    let cut = || Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec());
    let rig = Rig::with(Cloud::start(move |_| cut()), Arc::default(), Arc::new(Alone), |settings| {
        settings.budget.breaker_failures = NonZeroU32::MIN.saturating_add(2);
        settings.budget.breaker_pause_min = 60 * S;
    });
    for reason in [TransportReason::Other, TransportReason::Other, TransportReason::Other, TransportReason::Connect] {
        assert_eq!(rig.send(post(Effect::Once)).await.unwrap_err().reason, reason);
    }
    assert_eq!(rig.cloud.take().len(), 3);
}

#[tokio::test]
async fn bodies_take_from_what_their_call_has_left_while_they_are_read() {
    let answer = |asked: &Asked| match asked.line.as_str() {
        "GET /endless" => {
            Reply::Stall([b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n".as_slice(), &[b' '; 1800]].concat())
        }
        _ => Reply::Bytes(reply("200 OK", "", " ".repeat(2900))),
    };
    let rig = Rig::with(Cloud::start(answer), Arc::default(), Arc::new(Alone), |settings| settings.retry.attempts = 1);
    let call = CallScope::new(Class::Write, false, false, None, 100, 3000);
    let get = |path: &str| Request { path: path.to_owned(), ..request(Method::Get, Effect::Read) };
    let start = Instant::now();
    let answers = rig.egress.send_all(vec![get("/endless"); 4], &call).await;
    let reasons: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap_err().reason).collect();
    let large = reasons.iter().filter(|reason| **reason == TransportReason::CallFull).count();
    // One of them at a time fits; those that fail make room for others.
    assert!(large >= 3, "{reasons:?}");
    assert!(answers.iter().any(|answer| answer.as_ref().unwrap_err().message.contains("limit call-response-bytes")));
    assert!(start.elapsed() < 30 * S);
    let fits = Request { share: 60 * S, ..get("/fits") };
    assert_eq!(rig.egress.send(fits.clone(), &call).await.unwrap().status, 200, "what was not used is there again");
    let error = rig.egress.send(fits.clone(), &call).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::CallFull, true));
    assert!(error.message.starts_with("DO IT: the answers of this call have more than"), "a kept one counts: {error}");
    assert_eq!(rig.cloud.take().len(), 5);
    let log_in = Request { headers: token(), capture: session("/id"), share: 60 * S, ..get("/fits") };
    let error = rig.egress.send(log_in, &CallScope::new(Class::Write, false, false, None, 100, 3000)).await;
    assert!(error.is_err());
}

#[tokio::test]
async fn a_late_answer_does_not_show_a_value_that_was_replaced_meanwhile() {
    let arrived = Arc::new(Notify::new());
    let arrives = Arc::clone(&arrived);
    let echo = move |asked: &Asked| {
        arrives.notify_one();
        let body = format!("{:?}", asked.header("x-session"));
        Reply::Late(1_000 * MS, Box::new(move || reply("200 OK", "", body)))
    };
    let rig = Rig::with(Cloud::start(echo), Arc::default(), Arc::new(Alone), |settings| {
        settings.limits.request_time = 60 * S;
    });
    let store = |number: usize| {
        let value = Secret::new(format!("session-Ohwae6ie-{number}").into_bytes());
        rig.egress.credentials.captured().store("session", value, None).unwrap();
    };
    store(1);
    let value = vec![Part::Secret { credential: "session".to_owned(), encoding: Encoding::Plain }];
    let used = Request { headers: vec![("x-session".to_owned(), value)], ..post(Effect::Read) };
    let change = async {
        arrived.notified().await;
        // More than are remembered; the old value is the beginning of some.
        (10..20).for_each(store);
    };
    let (answer, ()) = join(rig.send(used), change).await;
    assert_eq!(answer.unwrap().body, "Some(\"(credential session)\")");
    assert_eq!(rig.cloud.take()[0].header("x-session"), Some("session-Ohwae6ie-1"));
}

#[tokio::test]
async fn what_a_cloud_echoes_does_not_become_a_credential_of_other_places() {
    let values = Arc::new(Mutex::new(String::new()));
    let said = Arc::clone(&values);
    let rig = Rig::new(move |asked| match asked.header("authorization") {
        Some(signature) => ok(&format!(r#"{{"id":"{signature}"}}"#)),
        None => ok(&format!(r#"{{"id":"{}"}}"#, said.lock())),
    });
    // Read before it is sent, as at every start; what was never read was never sent to anybody.
    rig.egress.credentials.value("token").unwrap();
    let log_in = || Request { headers: token(), capture: session("/id"), ..post(Effect::Read) };
    let cases = [
        ("token-Vahgh5eeweiF", false),
        ("Bearer token-Vahgh5eeweiF", false),
        ("dG9rZW4tVmFoZ2g1ZWV3ZWlG", false),
        ("session-Ohwae6ie-1", true),
        // The same again, and one that begins as it did.
        ("session-Ohwae6ie-1", true),
        ("session-Ohwae6ie-12", true),
    ];
    for (value, good) in cases {
        value.clone_into(&mut values.lock());
        let answer = rig.send(log_in()).await;
        assert_eq!(answer.is_ok(), good, "{value}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::Other, true), "{error}");
            assert!(error.message.contains("what it gives as \"session\" is another credential"), "{error}");
        }
        assert_eq!(rig.egress.available("session", &call()), good, "{value}");
    }
    let signature = Part::Signature {
        key: "key".to_owned(),
        algorithm: Algorithm::HmacSha256,
        data: vec![],
        encoding: Encoding::Hex,
    };
    let headers = vec![("authorization".to_owned(), vec![signature])];
    let error = rig.send(Request { headers, ..log_in() }).await.unwrap_err();
    assert!(error.message.contains("is another credential"), "{error}");
}

/// Such a value keeps a provider from starting; here it comes later.
#[tokio::test]
async fn a_credential_that_could_not_be_hidden_is_not_used() {
    let mut rig = Rig::new(|_| ok("{}"));
    let credentials = vec![credential("token", vec![Place::Header("x-auth-token".to_owned())])];
    let descriptor = Descriptor { credentials, ..Descriptor::default() };
    let value = Secret::new(b"1234567890".to_vec());
    let given = [("token".to_owned(), CredentialSource::Environment { variable: "TOKEN".to_owned(), value })];
    rig.egress.credentials = Arc::new(Credentials::new(
        &descriptor,
        Default::default(),
        given.into(),
        vec![],
        Arc::default(),
        11,
        crate::credentials::Edition::default(),
    ));
    let secret = Part::Secret { credential: "token".to_owned(), encoding: Encoding::Plain };
    let headers = vec![("x-auth-token".to_owned(), vec![secret])];
    let error = rig.send(Request { headers, ..request(Method::Get, Effect::Read) }).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::UnknownCredential, false), "{error}");
    assert!(error.message.contains("limit min-credential-bytes"), "{error}");
    assert_eq!(rig.cloud.take(), []);
}

#[tokio::test]
async fn who_joins_does_not_fail_because_of_the_time_and_the_room_of_who_asked() {
    let late = |_: &Asked| Reply::Late(3 * S, Box::new(|| reply("200 OK", "", " ".repeat(1000))));
    for (time, room, reason) in [(Some(S), 1 << 20, TransportReason::Timeout), (None, 500, TransportReason::CallFull)] {
        let rig = Rig::with(Cloud::start(late), Arc::default(), Arc::new(Alone), |settings| {
            (settings.retry.attempts, settings.limits.request_time) = (1, 60 * S);
        });
        let get = || Request { share: 60 * S, ..request(Method::Get, Effect::Read) };
        let others: Vec<_> = (0..5).map(|_| call()).collect();
        let joined = futures::future::join_all(others.iter().map(|call| rig.egress.send(get(), call)));
        // From here on: what a busy machine took for all that is not its time.
        let until = time.map(|time| Instant::now() + time);
        let asker = CallScope::new(Class::Write, false, false, until, 100, room);
        let (first, joined) = join(rig.egress.send(get(), &asker), joined).await;
        assert_eq!(first.unwrap_err().reason, reason);
        assert!(joined.into_iter().all(|answer| answer.unwrap().status == 200));
        assert_eq!(rig.cloud.take().len(), 2, "{reason:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_kept_serves_every_class_but_only_its_place_and_its_credentials() {
    let rig = Rig::new(|_| ok("{}"));
    let get = || Request { share: 60 * S, ..request(Method::Get, Effect::Read) };
    for class in [Class::Initialise, Class::Refresh, Class::Write] {
        let call = CallScope::new(class, true, false, None, 100, 1 << 20);
        rig.egress.send(get(), &call).await.unwrap();
    }
    assert_eq!(rig.cloud.take().len(), 1);
    rig.egress.credentials.captured().store("session", Secret::new(b"session-Ohwae6ie".to_vec()), None).unwrap();
    rig.send(get()).await.unwrap();
    assert_eq!(rig.cloud.take().len(), 1);
    let other = Cloud::start(|_| ok(r#"{"cloud":"another"}"#));
    let found = || Request { endpoint: "found".to_owned(), ..get() };
    rig.egress.bind("found", &rig.cloud.url()).unwrap();
    assert_eq!(rig.send(found()).await.unwrap().body, "{}");
    rig.egress.bind("found", &other.url()).unwrap();
    assert_eq!(rig.send(found()).await.unwrap().body, r#"{"cloud":"another"}"#);
}

#[tokio::test]
async fn what_is_too_large_for_everybody_is_asked_once() {
    let late = |_: &Asked| Reply::Late(100 * MS, Box::new(|| reply("200 OK", "", " ".repeat(1000))));
    let rig = Rig::with(Cloud::start(late), Arc::default(), Arc::new(Alone), |settings| {
        settings.limits.response_bytes = 999;
    });
    let get = || Request { share: 60 * S, ..request(Method::Get, Effect::Read) };
    let answers = futures::future::join_all((0..5).map(|_| rig.send(get()))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap_err().message.contains("limit response-bytes")));
    assert_eq!(rig.cloud.take().len(), 1);
}

#[tokio::test]
async fn who_gets_no_turn_has_waited_all_the_same() {
    let arrived = Arc::new(Notify::new());
    let arrives = Arc::clone(&arrived);
    let answer = move |_: &Asked| {
        arrives.notify_one();
        Reply::Late(2_000 * MS, Box::new(|| reply("200 OK", "", "{}")))
    };
    let rig = Rig::with(Cloud::start(answer), Arc::default(), Arc::new(Alone), |settings| {
        settings.limits.request_time = 60 * S;
        (settings.budget.concurrency, settings.budget.max_wait) = (NonZeroUsize::MIN, 100 * MS);
        (settings.budget.per_second, settings.budget.burst) = (Some(0.001), Some(NonZeroU32::MIN.saturating_add(6)));
    });
    let second = async {
        arrived.notified().await;
        let error = rig.send(post(Effect::Once)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Throttled, false), "{error}");
        (*rig.ends.waited.lock(), *rig.ends.left.lock())
    };
    let (first, (waited, left)) = join(rig.send(post(Effect::Once)), second).await;
    assert_eq!(first.unwrap().status, 200);
    assert!(waited >= 100 * MS, "{waited:?}");
    assert_eq!(left, (1, 6));
    assert_eq!(*rig.ends.left.lock(), (0, 6));
}

/// The dry run that the provider declared is the only PUT that counts as a read, and the only POST in a call that judges.
#[tokio::test]
async fn a_dry_run_is_a_read_in_a_call_that_judges_and_nowhere_else() {
    use Method::{Delete, Get, Patch, Post, Put};
    let bytes = |text: &str| vec![Part::Bytes(text.as_bytes().to_vec())];
    let secret = || Part::Secret { credential: "token".to_owned(), encoding: Encoding::JsonString };
    let split = vec![Part::Bytes(br#"{"judge_"#.to_vec()), Part::Bytes(br#"only":true}"#.to_vec())];
    let filled_in =
        vec![Part::Bytes(br#"{"judge_only":true,"token":""#.to_vec()), secret(), Part::Bytes(br#""}"#.to_vec())];
    let good = r#"{"name":"web","judge_only":true}"#;
    let rows = [
        (Put, bytes(good), [true, false]),
        (Post, bytes(good), [true, true]),
        (Put, split, [true, false]),
        (Put, bytes(r#"{"judge_only":false}"#), [false, false]),
        (Put, bytes(r#"{"judge_only":true,"judge_only":false}"#), [false, false]),
        (Put, bytes(r#"{"judge_only":false,"judge_only":true}"#), [false, false]),
        (Put, bytes(r#"{"judge_only":true,"Judge_Only":false}"#), [false, false]),
        (Put, bytes(r#"{"Judge_Only":true}"#), [false, false]),
        (Put, bytes(r#"{"judge_only":"true"}"#), [false, false]),
        (Put, bytes(r#"{"more":{"judge_only":true}}"#), [false, false]),
        (Put, bytes(r#"[{"judge_only":true}]"#), [false, false]),
        (Put, bytes(r#"{"judge_only":true"#), [false, false]),
        (Put, filled_in, [false, false]),
        (Put, vec![], [false, false]),
        (Post, bytes("{}"), [false, true]),
        (Patch, bytes(good), [false, false]),
        (Delete, bytes(good), [false, false]),
        (Get, vec![], [true, true]),
    ];
    // Whoever does not lead may ask as well.
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Leader::new(false), |_| {});
    for (method, body, good) in rows {
        for (judges, good) in [true, false].into_iter().zip(good) {
            let mut call = CallScope::new(Class::Initialise, true, false, None, 100, 1 << 20);
            call.judges = judges;
            let asked = Request { body: body.clone(), ..request(method, Effect::Read) };
            let answer = rig.egress.send(asked, &call).await.map_err(|error| (error.reason, error.maybe_sent));
            let case = format!("{method:?} {body:?}, judges: {judges}");
            assert_eq!(
                answer.map(|answer| answer.status),
                if good { Ok(200) } else { Err((TransportReason::Denied, false)) },
                "{case}"
            );
            assert_eq!(rig.cloud.take().len(), usize::from(good), "{case}");
            // What calls itself a change is one.
            let changes = Request { body: body.clone(), ..request(method, Effect::Repeatable) };
            let error = rig.egress.send(changes, &call).await.unwrap_err();
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::ReadOnly, false), "{case}");
        }
    }
    let mut call = CallScope::new(Class::Initialise, true, false, None, 100, 1 << 20);
    call.judges = true;
    let login = Request { headers: token(), capture: session("/id"), ..request(Post, Effect::Read) };
    rig.egress.send(login, &call).await.unwrap_err();
    assert_eq!(rig.cloud.take().len(), 1, "a login is no judgement of the cloud");
}

/// It was parsed first, and took ninety times as much as it was long.
#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_anybody_reads_it() {
    use TransportReason::{Denied, TooLarge};
    let settings = |settings: &mut NetworkSettings| settings.limits.request_bytes = 1_000;
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Leader::new(false), settings);
    let mut call = CallScope::new(Class::Initialise, true, false, None, 100, 1 << 20);
    call.judges = true;
    let small = |mark: &str| format!(r#"{{"judge_only":{mark},"a":[]}}"#);
    let large = |mark: &str| small(mark).replace("[]", &format!("[{}]", vec![r#"{"":0}"#; 150].join(",")));
    let whole = |body: String| vec![Part::Bytes(body.into_bytes())];
    let pieces = |body: String| body.as_bytes().chunks(400).map(|piece| Part::Bytes(piece.to_vec())).collect();
    let secret = vec![Part::Secret { credential: "token".to_owned(), encoding: Encoding::JsonString }];
    let rows: [(Vec<Part>, Option<TransportReason>); 11] = [
        (whole(small("true")), None),
        (whole(large("true")), Some(TooLarge)),
        // Whoever reads these finds that they ask for no dry run, and says that instead.
        (whole(small("false")), Some(Denied)),
        (whole(large("false")), Some(TooLarge)),
        (whole(small("true") + "x"), Some(Denied)),
        (whole(large("true") + "x"), Some(TooLarge)),
        // No piece is too large by itself, and what is filled in later takes nothing off.
        (pieces(large("false")), Some(TooLarge)),
        ([whole(large("true")), secret.clone()].concat(), Some(TooLarge)),
        ([whole(small("true")), secret].concat(), Some(Denied)),
        // Spaces fill it up to the limit, and beyond.
        (whole(format!("{:1000}", small("true"))), None),
        (whole(format!("{:1001}", small("false"))), Some(TooLarge)),
    ];
    for (number, (body, reason)) in rows.into_iter().enumerate() {
        let asked = Request { body, ..request(Method::Put, Effect::Read) };
        let answer = rig.egress.send(asked, &call).await;
        assert_eq!(answer.as_ref().err().map(|error| error.reason), reason, "row {number}: {answer:?}");
        assert_eq!(rig.cloud.take().len(), usize::from(reason.is_none()), "row {number}");
        if let Err(error) = answer {
            let limit = error.message.contains("limit request-bytes");
            assert!(limit == (reason == Some(TooLarge)) && !error.maybe_sent, "row {number}: {error}");
        }
    }
}
