//! What a component learns of secrets by writing them into requests: nothing, or that it may send no more.

use super::walls::{bytes, header, open, open_after, open_among, secret};
use super::*;
use crate::process_secrets::ProcessSecrets;

const SECRET: &str = "token-Vahgh5eeweiF";
/// The same as a program may write it.
const HEX: &str = "746f6b656e2d56616867683565657765694";

fn named(name: &str, text: &str) -> Vec<(String, Vec<Part>)> {
    vec![(name.to_owned(), vec![bytes(text)])]
}

/// It was masked without a word: the component saw in what came back, or in a limit, that it had guessed.
#[tokio::test]
async fn a_request_into_which_a_component_writes_a_secret_is_refused_with_its_place() {
    let (first, last) = SECRET.split_at(5);
    let plain = || post(Effect::Once);
    let cases = [
        (Request { path: format!("/{SECRET}"), ..plain() }, "the path"),
        (Request { query: named("tag", SECRET), ..plain() }, "the query value \"tag\""),
        (Request { query: named(SECRET, "1"), ..plain() }, "the name of a query value"),
        (Request { headers: named("x-tag", SECRET), ..plain() }, "the header \"x-tag\""),
        (Request { headers: named(&format!("x-{SECRET}"), "1"), ..plain() }, "the name of a header"),
        (Request { body: vec![bytes(first), bytes(last)], ..plain() }, "the body"),
        (Request { body: vec![bytes(HEX), bytes("6")], ..plain() }, "the body"),
        (Request { body: vec![secret("token"), bytes(SECRET)], ..plain() }, "the body"),
    ];
    for (request, place) in cases {
        let cloud = Cloud::start(|_| ok("{}"));
        let granted: &[(&str, &[&str])] = &[("token", &["api:header:authorization", "api:body+answer:/"])];
        let credentials = vec![("token", vec![header("authorization"), Place::Body])];
        let egress = open(&cloud, credentials, granted).unwrap();
        egress.credentials.value("token").unwrap();
        for _ in 0..3 {
            let error = egress.send(request.clone(), &call()).await.unwrap_err();
            assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
            let words = [place, "\"token\"", "provider wrote"];
            assert!(words.iter().all(|part| error.message.contains(part)), "{place}: {error}");
            assert!(!error.message.contains(SECRET) && !error.message.contains(HEX), "{error}");
        }
        let error = egress.send(plain(), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains("sends no more requests"), "{error}");
        assert_eq!(cloud.take(), []);
    }
}

/// Of requests that are sent together, no more than three say whether they held a secret.
#[tokio::test]
async fn no_more_guesses_are_answered_however_many_are_made_at_once() {
    let cloud = Cloud::start(|_| ok("{}"));
    let egress = open(&cloud, vec![("token", vec![header("authorization")])], &[]).unwrap();
    egress.credentials.value("token").unwrap();
    let guess = |text: &str| Request { body: vec![bytes(text)], ..post(Effect::Once) };
    let guesses = vec![guess(SECRET), guess("wrong"), guess(SECRET), guess(SECRET), guess("wrong"), guess(SECRET)];
    let answers = egress.send_all(guesses, &call()).await;
    let said: Vec<&str> = answers
        .iter()
        .map(|answer| match answer {
            Ok(_) => "sent",
            Err(error) if error.message.contains("sends no more requests") => "ended",
            Err(error) if error.message.contains("provider wrote the value") => "found",
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(said, ["found", "sent", "found", "found", "ended", "ended"]);
}

/// A component that did not pass its gate was tried again a minute later, and was told three times more each time.
#[tokio::test]
async fn a_component_that_is_tried_again_and_again_makes_no_more_guesses_than_at_once() {
    let cloud = Cloud::start(|_| ok("{}"));
    let (carryover, secrets) = (Carryover::default(), ProcessSecrets::default());
    let tried = async |digest: &str| {
        let credentials = vec![("token", vec![header("authorization")])];
        let egress = open_after((&carryover, digest), &secrets, &cloud, credentials, &[]).unwrap();
        egress.credentials.value("token").unwrap();
        let guess = Request { body: vec![bytes(SECRET)], ..post(Effect::Once) };
        egress.send(guess, &call()).await.unwrap_err().message
    };
    for _ in 0..3 {
        let told = tried("one").await;
        assert!(told.contains("provider wrote the value"), "{told}");
    }
    let told = tried("one").await;
    assert!(told.contains("sends no more requests"), "{told}");
    let told = tried("two").await;
    assert!(told.contains("provider wrote the value"), "another component begins anew: {told}");
    // Others may be tried in between: a last good one that waits for its cloud is asked before each try of another one.
    let told = tried("one").await;
    assert!(told.contains("sends no more requests"), "it goes on where it was: {told}");
}

/// Of another provider of the process as well, and what it wrote is not sent there either.
#[tokio::test]
async fn a_secret_of_another_provider_is_refused_as_well() {
    let secrets = ProcessSecrets::default();
    let cloud = Cloud::start(|_| ok("{}"));
    let open = |name| open_among(&secrets, &cloud, vec![(name, vec![header("authorization")])], &[]).unwrap();
    let (one, other) = (open("token"), open("other"));
    one.credentials.value("token").unwrap();
    let error = other.send(Request { path: format!("/{SECRET}"), ..post(Effect::Read) }, &call()).await.unwrap_err();
    assert!(error.message.contains("the path"), "{error}");
    assert_eq!(cloud.take(), []);
}

/// A base URL is in every request, and nobody looked at it.
#[tokio::test]
async fn a_base_url_into_which_a_component_writes_a_secret_is_refused() {
    let rig = Rig::new(|_| ok("{}"));
    rig.egress.credentials.value("token").unwrap();
    for _ in 0..3 {
        let error = rig.egress.bind("found", &format!("{}/{SECRET}", rig.cloud.url())).unwrap_err();
        assert!(error.reason == TransportReason::Denied && error.message.contains("the base URL"), "{error}");
        assert!(!error.message.contains(SECRET), "{error}");
    }
    let error = rig.egress.bind("found", &rig.cloud.url()).unwrap_err();
    assert!(error.message.contains("sends no more requests"), "{error}");
}

/// What a component calls an endpoint that it does not have stood in the log as it was, with whatever secret is in that name.
#[tokio::test]
async fn a_base_url_of_an_endpoint_that_nobody_declared_is_refused_before_it_is_told_of() {
    let rig = Rig::new(|_| ok("{}"));
    rig.egress.credentials.value("token").unwrap();
    for _ in 0..4 {
        let error = rig.egress.bind("made-up", &format!("{}/{SECRET}", rig.cloud.url())).unwrap_err();
        assert!(error.message.contains("declares no endpoint `made-up`"), "{error}");
    }
    assert_eq!(rig.egress.bind("found", &rig.cloud.url()), Ok(()), "nothing was held against the provider");
}

/// Megabytes were searched for secrets, again and again, before anybody saw that no URL is so long.
#[tokio::test]
async fn a_base_url_that_is_too_long_is_refused_before_anybody_looks_for_secrets_in_it() {
    let rig = Rig::new(|_| ok("{}"));
    rig.egress.credentials.value("token").unwrap();
    let long = format!("{}/{SECRET}{}", rig.cloud.url(), "x".repeat(MAX_BASE_URL));
    for _ in 0..4 {
        let error = rig.egress.bind("found", &long).unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains("longer than 2048 bytes"), "{error}");
    }
    assert_eq!(rig.egress.bind("api", &long), Ok(()), "ignored: the operator's stays");
    assert_eq!(rig.egress.bind("found", &rig.cloud.url()), Ok(()), "nothing was held against the provider");
    let error = rig.egress.bind("found", &long[..MAX_BASE_URL]).unwrap_err();
    assert!(error.message.contains("provider wrote the value"), "the longest one is searched: {error}");
}

/// A password such as `password` was replaced in every honest login.
#[tokio::test]
async fn a_secret_that_is_an_ordinary_word_changes_no_request_and_is_no_oracle() {
    let word = |value: &str| CredentialSource::Environment {
        variable: "TOKEN".to_owned(),
        value: Secret::new(value.as_bytes().to_vec()),
    };
    for value in ["password", "kubernetes-cluster", "12345678", "Password1234", "aaaaaaaaaaaaaaaaA1"] {
        let rig = Rig::given(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Alone), |_| {}, word(value));
        rig.egress.credentials.value("token").unwrap();
        let body = format!(r#"{{"auth":{{"methods":["{value}"]}}}}"#);
        let request = Request {
            path: format!("/{value}"),
            query: named("q", value),
            headers: named("x-tag", value),
            body: vec![bytes(&body)],
            ..post(Effect::Once)
        };
        for _ in 0..4 {
            assert_eq!(rig.send(request.clone()).await.unwrap().status, 200, "{value}");
            let asked = rig.cloud.take().remove(0);
            assert_eq!((asked.body.as_str(), asked.header("x-tag")), (body.as_str(), Some(value)));
            assert_eq!(asked.line, format!("POST /{value}?q={value}"));
        }
        // In answers, nothing of it is shown.
        assert_eq!(rig.egress.secrets().veil().text(value), "(credential token)");
    }
}

/// A cloud gave back what was written beside a login, and why that was not captured said whether it was a password.
#[tokio::test]
async fn what_a_login_gives_back_is_refused_alike_whether_or_not_it_is_a_secret() {
    let value = Secret::new(b"kubernetes-cluster".to_vec());
    let source = CredentialSource::Environment { variable: "TOKEN".to_owned(), value };
    let cloud = Cloud::start(|asked| ok(&asked.body));
    let rig = Rig::given(cloud, Arc::default(), Arc::new(Alone), |_| {}, source);
    let mut told = vec![];
    for guess in ["kubernetes-cluster", "kubernetes-machine"] {
        let login = Request {
            headers: vec![("x-auth-token".to_owned(), vec![secret("token")])],
            body: vec![bytes(&format!(r#"{{"id":"{guess}"}}"#))],
            capture: walls::capture(CaptureSource::JsonPointer("/id".to_owned())),
            ..post(Effect::Read)
        };
        told.push(rig.send(login).await.unwrap_err().message);
    }
    assert!(told[0].contains("was in the request") && told[0] == told[1], "{told:?}");
}

/// A broken gateway repeated a header where the token belongs: after three logins the provider sent nothing any more, although its cloud was well.
#[tokio::test]
async fn a_provider_whose_cloud_gave_back_a_header_of_its_logins_goes_on_once_the_cloud_is_well() {
    const TOKEN: &str = "session-Oob3eiwu";
    let logins = AtomicUsize::new(0);
    let cloud = Cloud::start(move |asked| {
        if asked.header("x-session").is_some() {
            return ok("{}");
        }
        let token = if logins.fetch_add(1, Ordering::SeqCst) < 5 { "application/json" } else { TOKEN };
        Reply::Bytes(reply("201 Created", &format!("x-subject: {token}\r\n"), "{}"))
    });
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-header:x-subject"])];
    let egress = open(&cloud, credentials, granted).unwrap();
    let authorization = ("authorization".to_owned(), vec![secret("token")]);
    let login = Request {
        headers: [vec![authorization], named("content-type", "application/json")].concat(),
        body: vec![bytes("{}")],
        capture: walls::capture(CaptureSource::Header("X-Subject".to_owned())),
        ..post(Effect::Read)
    };
    for _ in 0..5 {
        let error = egress.send(login.clone(), &call()).await.unwrap_err();
        assert!(error.message.contains("was in the request"), "{error}");
        assert!(!egress.available("session", &call()));
    }
    assert_eq!(egress.send(login, &call()).await.unwrap().status, 201);
    let headers = vec![("x-session".to_owned(), vec![secret("session")])];
    cloud.take();
    egress.send(Request { headers, ..post(Effect::Read) }, &call()).await.unwrap();
    assert_eq!(cloud.take().remove(0).header("x-session"), Some(TOKEN));
}

/// The same login again tells a component nothing; each other one that is refused does, whatever comes between.
#[tokio::test]
async fn what_a_cloud_gives_back_counts_once_for_each_text_of_a_login() {
    let cloud = Cloud::start(|_| ok(r#"{"id":"session-Oob3eiwu"}"#));
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let egress = open(&cloud, credentials, granted).unwrap();
    let login = |tag: usize| Request {
        headers: vec![("authorization".to_owned(), vec![secret("token")])],
        body: vec![bytes(&format!(r#"{{"client":"session-Oob3eiwu","tag":{tag}}}"#))],
        capture: walls::capture(CaptureSource::JsonPointer("/id".to_owned())),
        ..post(Effect::Read)
    };
    for tag in [1, 1, 2, 1, 2, 2, 3] {
        let error = egress.send(login(tag), &call()).await.unwrap_err();
        assert!(error.message.contains("was in the request"), "{tag}: {error}");
    }
    let error = egress.send(login(1), &call()).await.unwrap_err();
    // A proxy that repeats requests does the same to an honest provider.
    let parts = ["sends no more requests", "logins gave back", "nothing that repeats requests", "restart the host"];
    assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
}

/// What is too large is as large whatever the component writes: that says nothing of a token.
#[tokio::test]
async fn what_is_too_large_for_a_token_is_compared_with_no_request_and_not_held_against_the_component() {
    let cloud = Cloud::start(|asked| ok(&asked.body));
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let egress = open(&cloud, credentials, granted).unwrap();
    for letter in ["a", "b", "c", "d"] {
        let login = Request {
            headers: vec![("authorization".to_owned(), vec![secret("token")])],
            body: vec![bytes(&format!(r#"{{"id":"{}"}}"#, letter.repeat(20_000)))],
            capture: walls::capture(CaptureSource::JsonPointer("/id".to_owned())),
            ..post(Effect::Read)
        };
        let error = egress.send(login, &call()).await.unwrap_err();
        assert!(error.message.contains("more than 16384 bytes"), "{error}");
    }
    egress.send(post(Effect::Read), &call()).await.unwrap();
}

/// What a request has is counted as it was written: a limit said otherwise whether there was a secret in it.
#[tokio::test]
async fn limits_count_what_was_written_and_not_what_is_left_of_it() {
    let rig = Rig::with(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Alone), |settings| {
        (settings.limits.headers.bytes, settings.limits.url_bytes) = (60, 60);
    });
    rig.egress.credentials.value("token").unwrap();
    let padded = |text: &str, bytes: usize| format!("{text}{}", "x".repeat(bytes - text.len()));
    let (mut found, mut large) = (0, 0);
    for text in [format!("{HEX}6"), "0".repeat(36)] {
        for request in [
            Request { headers: named("x-tag", &padded(&text, 56)), ..post(Effect::Once) },
            Request { query: named("q", &padded(&text, 58)), ..post(Effect::Once) },
        ] {
            match rig.send(request).await.unwrap_err() {
                error if error.reason == TransportReason::TooLarge => large += 1,
                error if error.message.contains("provider wrote") => found += 1,
                error => panic!("{error}"),
            }
        }
    }
    // One that holds a secret is never sent, and counts as one of three.
    assert_eq!((found, large), (2, 2));
    assert_eq!(rig.cloud.take(), []);
}

/// A tenant wrote an old token into an annotation, and the provider passed it on: three times, and it sent nothing any more.
#[tokio::test]
async fn an_old_value_in_a_request_is_refused_and_not_held_against_the_component() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, SECRET).unwrap();
    let source = CredentialSource::file(file.clone());
    let rig = Rig::given(Cloud::start(|_| ok("{}")), Arc::default(), Arc::new(Alone), |_| {}, source);
    rig.egress.credentials.value("token").unwrap();
    std::fs::write(&file, "another-Aif7ohJ9the").unwrap();
    rig.egress.credentials.value("token").unwrap();
    for _ in 0..4 {
        let error = rig.send(Request { query: named("tag", SECRET), ..post(Effect::Once) }).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains("an old value of the credential \"token\" stands in the query"), "{error}");
        assert!(!error.message.contains(SECRET), "{error}");
    }
    assert_eq!(rig.cloud.take(), []);
    assert_eq!(rig.send(post(Effect::Once)).await.unwrap().status, 200, "the provider goes on");
    // The new one counts, also where both are in one text.
    let both = format!("{SECRET} another-Aif7ohJ9the");
    for _ in 0..3 {
        let error = rig.send(Request { query: named("tag", &both), ..post(Effect::Once) }).await.unwrap_err();
        assert!(error.message.contains("provider wrote the value"), "{error}");
    }
    assert!(rig.send(post(Effect::Once)).await.unwrap_err().message.contains("sends no more requests"));
}

/// A cloud calls a load balancer as it calls a session: whoever asked for that three times sent nothing any more.
#[tokio::test]
async fn a_captured_value_in_a_request_is_refused_and_not_held_against_the_component() {
    const ID: &str = "7f1e3c52-9a4b-4d0e-8c6f-2b5a1d3e4f60";
    let cloud = Cloud::start(|_| ok(&format!(r#"{{"id":"{ID}"}}"#)));
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let egress = open(&cloud, credentials, granted).unwrap();
    let headers = vec![("authorization".to_owned(), vec![secret("token")])];
    let capture = walls::capture(CaptureSource::JsonPointer("/id".to_owned()));
    egress.send(Request { headers, capture, ..post(Effect::Read) }, &call()).await.unwrap();
    cloud.take();
    for _ in 0..4 {
        let error = egress.send(Request { path: format!("/{ID}"), ..post(Effect::Read) }, &call()).await.unwrap_err();
        assert!(error.message.contains("a captured value of the credential \"session\" stands in the path"), "{error}");
        assert!(error.reason == TransportReason::Denied && !error.message.contains(ID), "{error}");
    }
    assert_eq!(cloud.take(), []);
    egress.send(post(Effect::Read), &call()).await.unwrap();
    assert_eq!(egress.secrets().veil().kept_from_guests(ID), None, "what a cloud calls something reaches a guest");
}
