//! What a hostile component tries with credentials that the operator gave it.

use super::*;
use crate::credentials::UseGrants;
use crate::process_secrets::ProcessSecrets;

const SECRET: &str = "token-Vahgh5eeweiF";

/// Every use that the component of the other tests declares.
pub(super) fn everything() -> UseGrants {
    let uses = [
        ("token", &["api:header:x-auth-token:/", "api:query:t:/", "api:body+answer:/"][..]),
        (
            "session",
            &[
                "api:header:x-session:/",
                "api:query:t:/",
                "api:body+answer:/",
                "api:capture-json:/id",
                "api:capture-json:/token/id",
                "api:capture-header:x-subject",
            ],
        ),
        ("key", &["api:signing+any:/", "api:header:authorization:/", "api:body+answer:/"]),
    ];
    let parsed = |uses: &[&str]| uses.iter().map(|used| used.parse().unwrap()).collect();
    uses.map(|(name, uses)| (name.to_owned(), parsed(uses))).into()
}

/// A component that declares these uses of its credentials at the endpoint `api`, with what the operator grants of them.
pub(super) fn open(
    cloud: &Cloud,
    credentials: Vec<(&str, Vec<Place>)>,
    granted: &[(&str, &[&str])],
) -> Result<Egress, OpenError> {
    open_among(&ProcessSecrets::default(), cloud, credentials, granted)
}

/// The same in a process whose providers have these secrets.
pub(super) fn open_among(
    secrets: &ProcessSecrets,
    cloud: &Cloud,
    credentials: Vec<(&str, Vec<Place>)>,
    granted: &[(&str, &[&str])],
) -> Result<Egress, OpenError> {
    open_after((&Carryover::default(), ""), secrets, cloud, credentials, granted)
}

/// The same for the component with this digest, of a source that has left this.
pub(super) fn open_after(
    (carryover, digest): (&Carryover, &str),
    secrets: &ProcessSecrets,
    cloud: &Cloud,
    credentials: Vec<(&str, Vec<Place>)>,
    granted: &[(&str, &[&str])],
) -> Result<Egress, OpenError> {
    let endpoint = ccm_cloud::Endpoint {
        name: "api".to_owned(),
        purpose: String::new(),
        base_url: Source::default(),
        default_base_url: None,
        tls: None,
    };
    let given = credentials.iter().filter(|(name, _)| *name != "session");
    let given = given.map(|(name, _)| ((*name).to_owned(), fixed(name))).collect();
    let credentials = credentials.into_iter().map(|(name, places)| credential(name, places)).collect();
    let descriptor =
        Descriptor { name: "test".to_owned(), endpoints: vec![endpoint], credentials, ..Descriptor::default() };
    let parsed = |uses: &[&str]| uses.iter().map(|used| used.parse().unwrap()).collect();
    let grants = OperatorGrants {
        base_urls: [("api".to_owned(), cloud.url())].into(),
        allow_http: true,
        addresses: AddressRules { loopback: true },
        ..OperatorGrants::default()
    };
    let config = EgressConfig {
        grants,
        credentials: given,
        credential_uses: granted.iter().map(|(name, uses)| ((*name).to_owned(), parsed(uses))).collect(),
        secrets: secrets.clone(),
        component: digest.to_owned(),
        ..EgressConfig::new(Arc::new(Alone))
    };
    Egress::open(config, &descriptor, carryover, None)
}

pub(super) fn header(name: &str) -> Place {
    Place::Header(name.to_owned())
}

pub(super) fn secret(name: &str) -> Part {
    Part::Secret { credential: name.to_owned(), encoding: Encoding::Plain }
}

pub(super) fn bytes(text: &str) -> Part {
    Part::Bytes(text.as_bytes().to_vec())
}

pub(super) fn capture(source: CaptureSource) -> Option<Capture> {
    Some(Capture { credential: "session".to_owned(), source, expires: None, ttl: None })
}

/// It declared the token for a body as well, and filed it in the attacker's account at an honest cloud.
#[tokio::test]
async fn the_first_components_word_is_no_grant() {
    let cloud = Cloud::start(|_| ok("{}"));
    let wide = || vec![("token", vec![header("authorization"), Place::Body])];
    let error = open(&cloud, wide(), &[]).err().unwrap().to_string();
    let flags = "--credential-use=token=api:header:authorization:/ --credential-use=token=api:body:/";
    assert!(error.contains(flags), "{error}");
    let egress = open(&cloud, wide(), &[("token", &["api:header:authorization", "api:body:/"])]).unwrap();
    let login = |name: &str, value| Request {
        headers: vec![(name.to_owned(), vec![value])],
        body: vec![secret("token")],
        ..post(Effect::Read)
    };
    let beside = |before: &str, after: &str| Request {
        headers: vec![("authorization".to_owned(), vec![bytes(before), secret("token"), bytes(after)])],
        ..post(Effect::Read)
    };
    let query = Request {
        query: vec![("access_token".to_owned(), vec![bytes("attacker")])],
        body: vec![secret("token")],
        ..post(Effect::Read)
    };
    for request in [
        login("Authorization", bytes("Bearer attacker")),
        beside("Bearer attacker ", ""),
        beside("Basic eA==", ""),
        beside("Basic ", " attacker"),
        beside("Bearer, Bearer ", ""),
        login("X-Auth-Token", bytes("attacker")),
        login("x-api-key", bytes("attacker")),
        query,
        // Without any credential, the place takes nothing of the component's either.
        Request { body: vec![], ..login("authorization", bytes("Bearer attacker")) },
        Request {
            headers: ["authorization", "Authorization"].map(|name| (name.to_owned(), vec![secret("token")])).to_vec(),
            ..post(Effect::Read)
        },
    ] {
        let error = egress.send(request.clone(), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{request:?}: {error}");
    }
    assert_eq!(cloud.take(), []);
    for (before, after) in [("", ""), ("Bearer ", ""), ("Token token=\"", "\""), ("token ", "")] {
        assert_eq!(egress.send(beside(before, after), &call()).await.unwrap().status, 200, "{before:?}");
    }
    assert_eq!(cloud.take().len(), 4);
    // What is no login may stand beside it.
    let good =
        Request { headers: vec![("idempotency-key".to_owned(), vec![bytes("1")])], ..login("accept", bytes("*/*")) };
    assert_eq!(egress.send(good, &call()).await.unwrap().status, 200);
}

/// The token stood in the answer, in clear.
#[tokio::test]
async fn a_login_whose_answer_nobody_captures_tells_its_status_alone() {
    let cloud = Cloud::start(|_| {
        Reply::Bytes(reply("201 Created", "x-subject: session-Oob3eiwu\r\n", r#"{"id":"session-Oob3eiwu"}"#))
    });
    let uses = || vec![("token", vec![Place::Body]), ("session", vec![header("x-session")])];
    let egress = open(
        &cloud,
        uses(),
        &[("token", &["api:body:/"]), ("session", &["api:header:x-session", "api:capture-header:x-subject:/"])],
    );
    let egress = egress.unwrap();
    let login = || Request { body: vec![secret("token")], ..post(Effect::Read) };
    let answer = egress.send(login(), &call()).await.unwrap();
    assert_eq!((answer.status, answer.headers.as_slice(), answer.body.len()), (201, &[][..], 0));
    assert!(answer.summary.contains("not shown"), "{}", answer.summary);
    // Nor does something else that is captured help: the place is the operator's word.
    let date = Request { capture: capture(CaptureSource::Header("date".to_owned())), ..login() };
    let error = egress.send(date, &call()).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
    let flag = "--credential-use=session=api:capture-header:date:/";
    assert!(error.message.contains(flag), "{error}");
    let good = Request { capture: capture(CaptureSource::Header("X-Subject".to_owned())), ..login() };
    let answer = egress.send(good, &call()).await.unwrap();
    assert_eq!(answer.body, r#"{"id":"(credential session)"}"#);
    assert!(egress.available("session", &call()));
    assert_eq!(cloud.take().len(), 2);
}

/// It named the parts of a secret one by one, and saw in what was masked whether it was right.
#[tokio::test]
async fn what_the_component_sent_itself_becomes_no_credential() {
    let cloud = Cloud::start(|asked| ok(&format!(r#"{{"id":"{}"}}"#, asked.body)));
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let egress =
        open(&cloud, vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])], granted);
    let egress = egress.unwrap();
    let body = vec![bytes("AAAAAAAA"), bytes("t")];
    let headers = vec![("authorization".to_owned(), vec![secret("token")])];
    let capture = capture(CaptureSource::JsonPointer("/id".to_owned()));
    let asked = Request { headers, body, capture, ..post(Effect::Read) };
    let error = egress.send(asked, &call()).await.unwrap_err();
    assert!(error.message.contains("was in the request"), "{error}");
    assert!(!egress.available("session", &call()));
}

/// A cloud whose token is the same in each login: by what it wrote beside the login, a component read the token out, a bit with each.
#[tokio::test]
async fn a_search_for_a_token_that_stays_the_same_ends_before_it_is_known() {
    const TOKEN: &str = "8204715936501827346925801473695820317464";
    let cloud = Cloud::start(|_| ok(&format!(r#"{{"id":"{TOKEN}"}}"#)));
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let egress = open(&cloud, credentials, granted).unwrap();
    // Whether the token is made of these runs; none where the component is told nothing any more.
    let is_made_of = async |runs: &[String]| {
        let headers = vec![("authorization".to_owned(), vec![secret("token")])];
        let capture = capture(CaptureSource::JsonPointer("/id".to_owned()));
        let body = format!(r#"{{"client":"{}"}}"#, runs.join(" "));
        let login = Request { headers, body: vec![bytes(&body)], capture, ..post(Effect::Read) };
        match egress.send(login, &call()).await {
            Ok(_) => Some(false),
            Err(error) if error.message.contains("was in the request") => Some(true),
            Err(error) if error.message.contains("sends no more requests") => None,
            Err(error) => panic!("{error}"),
        }
    };
    // It leaves out what the token does not need, half by half.
    let mut needed: Vec<String> = (0..10_000).map(|run| format!("{run:04}")).collect();
    let (mut size, mut answers) = (needed.len(), vec![]);
    'search: while size > 1 {
        size = size.div_ceil(2);
        let mut at = 0;
        while at < needed.len() {
            let without: Vec<String> = needed.iter().take(at).chain(needed.iter().skip(at + size)).cloned().collect();
            let Some(is_made) = is_made_of(&without).await else { break 'search };
            answers.push(is_made);
            if is_made { needed = without } else { at += size }
        }
    }
    let refused = answers.iter().filter(|is_made| **is_made).count();
    assert!(refused == 3 && needed.len() > 1_000, "{} runs are left after {} logins", needed.len(), answers.len());
    let error = egress.send(post(Effect::Read), &call()).await.unwrap_err();
    assert!(error.reason == TransportReason::Denied && error.message.contains("sends no more requests"), "{error}");
}

/// All of them had been looked at before the first one was answered.
#[tokio::test]
async fn logins_that_are_sent_together_say_no_more_of_a_token_than_one_after_another() {
    let cloud = Cloud::start(|_| ok(r#"{"id":"session-Oob3eiwu"}"#));
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let credentials = vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let egress = open(&cloud, credentials, granted).unwrap();
    let login = |tag: usize| Request {
        headers: vec![("authorization".to_owned(), vec![secret("token")])],
        body: vec![bytes(&format!(r#"{{"client":"session-Oob3eiwu","tag":{tag}}}"#))],
        capture: capture(CaptureSource::JsonPointer("/id".to_owned())),
        ..post(Effect::Read)
    };
    let answers = egress.send_all((0..6).map(login).collect(), &call()).await;
    let told =
        |words: &str| answers.iter().filter(|answer| answer.as_ref().unwrap_err().message.contains(words)).count();
    assert_eq!((told("was in the request"), told("sends no more requests")), (3, 3), "{answers:?}");
    assert!(!egress.available("session", &call()));
}

/// The requests of all other providers were changed, and what they asked about looked absent.
#[tokio::test]
async fn what_one_cloud_gives_as_a_token_changes_no_request_of_another_provider() {
    let secrets = ProcessSecrets::default();
    let cloud = Cloud::start(|_| ok(r#"{"id":"droplets"}"#));
    let credentials = || vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[("session", &["api:header:x-session", "api:capture-json:/id"])];
    let [one, other] = [(); 2].map(|()| open_among(&secrets, &cloud, credentials(), granted).unwrap());
    let headers = vec![("authorization".to_owned(), vec![secret("token")])];
    let capture = capture(CaptureSource::JsonPointer("/id".to_owned()));
    let login = Request { headers, capture, ..post(Effect::Read) };
    one.send(login, &call()).await.unwrap();
    assert!(one.available("session", &call()));
    let asks = || Request { path: "/droplets/7".to_owned(), ..post(Effect::Read) };
    for egress in [&one, &other] {
        cloud.take();
        egress.send(asks(), &call()).await.unwrap();
        assert!(cloud.take().remove(0).line.starts_with("POST /droplets/7"));
    }
    let said = |egress: &Egress| egress.secrets().veil().text("droplets").into_owned();
    assert_eq!(
        [&one, &other].map(said),
        ["(credential session)", "droplets"],
        "its own provider's guests say it nowhere"
    );
    // What the operator gave is hidden from all.
    let said = |egress: &Egress| egress.secrets().veil().text(SECRET).into_owned();
    for egress in [&one, &other] {
        egress.credentials.value("token").unwrap();
        assert_eq!(said(egress), "(credential token)");
    }
}

/// What a veil looks for is kept for the next one.
#[tokio::test]
async fn a_veil_hides_the_secrets_of_providers_that_have_come_and_not_of_those_that_have_gone() {
    let secrets = ProcessSecrets::default();
    let cloud = Cloud::start(|_| ok("{}"));
    let said = || secrets.veil().text(SECRET).into_owned();
    for _ in 0..2 {
        assert_eq!(said(), SECRET);
        let _egress = open_among(&secrets, &cloud, vec![("token", vec![header("authorization")])], &[]).unwrap();
        assert_eq!(said(), "(credential token)");
    }
}

/// What is kept is of one moment: a value that is given or captured later is looked for as well, and the one before it still is.
#[tokio::test]
async fn a_veil_hides_what_has_become_a_secret_of_any_provider_since_the_last_one() {
    const NEXT: &str = "token-Oob3eiwuNaeh";
    const SESSION: &str = "session-Ahgh7ohp";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, SECRET).unwrap();
    let (cloud, source) = (Cloud::start(|_| ok("{}")), CredentialSource::file(file.clone()));
    let other = open(&cloud, vec![("other", vec![header("authorization")])], &[]).unwrap();
    let rig = Rig::given(cloud, Arc::default(), Arc::new(Alone), |_| {}, source);
    let others = rig.egress.secrets().clone().with(&other.credentials);
    let said = |text: &str| [rig.egress.secrets(), &others].map(|secrets| secrets.veil().text(text).into_owned());
    assert_eq!([said(SECRET), said(NEXT)], [["(credential token)"; 2], [NEXT; 2]]);
    std::fs::write(&file, NEXT).unwrap();
    rig.egress.credentials.value("token").unwrap();
    assert_eq!([said(SECRET), said(NEXT)], [["(credential token)"; 2]; 2]);
    assert_eq!(said(SESSION), [SESSION; 2]);
    rig.egress.credentials.captured().store("session", Secret::new(SESSION.into()), None).unwrap();
    assert_eq!(said(SESSION), ["(credential session)", SESSION], "its own provider's guests say it nowhere");
}

/// A refusal came back cleaned: it said whether the component had guessed a secret, without a request.
#[tokio::test]
async fn a_refusal_does_not_say_whether_a_secret_was_guessed() {
    let cloud = Cloud::start(|_| ok("{}"));
    let egress = open(&cloud, vec![("token", vec![header("authorization")])], &[]).unwrap();
    egress.credentials.value("token").unwrap();
    for guess in [SECRET, "token-of-somebody"] {
        let name = format!("proxy-{guess}");
        let asked = Request { headers: vec![(name.clone(), vec![bytes("x")])], ..post(Effect::Read) };
        let error = egress.send(asked, &call()).await.unwrap_err();
        assert!(error.message.contains(&name), "{error}");
    }
    assert_eq!(cloud.take(), []);
}

#[tokio::test]
async fn an_echo_in_another_encoding_is_no_answer() {
    for (headers, body) in [
        ("content-encoding: br\r\n", SECRET.as_bytes().to_vec()),
        ("content-type: text/plain; charset=utf-16le\r\n", SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ] {
        let cloud = Cloud::start(move |_| Reply::Bytes(reply("200 OK", headers, &body)));
        let egress = open(&cloud, vec![("token", vec![header("authorization")])], &[]).unwrap();
        let error = egress.send(post(Effect::Once), &call()).await.unwrap_err();
        assert!(error.maybe_sent && error.message.contains("does not decode"), "{error}");
        let asked =
            Request { headers: vec![("Accept-Charset".to_owned(), vec![bytes("utf-16le")])], ..post(Effect::Read) };
        assert_eq!(egress.send(asked, &call()).await.unwrap_err().reason, TransportReason::Denied);
    }
}

/// A signature of something else than the request is good for something else.
#[tokio::test]
async fn a_key_signs_what_the_request_says_and_nothing_else_without_a_grant() {
    let cloud = Cloud::start(|_| ok("{}"));
    let uses = || vec![("key", vec![Place::Signing, header("authorization")])];
    let egress = open(&cloud, uses(), &[]).unwrap();
    let host = cloud.url().replace("http://", "");
    let signed = |data: Vec<SignedPart>| {
        let signature =
            Part::Signature { key: "key".to_owned(), algorithm: Algorithm::HmacSha256, data, encoding: Encoding::Hex };
        Request {
            headers: vec![
                ("date".to_owned(), vec![bytes("Wed, 25 Nov 2026 16:00:00 GMT")]),
                ("authorization".to_owned(), vec![bytes("Signature "), signature]),
            ],
            body: vec![bytes("{}")],
            ..post(Effect::Read)
        }
    };
    let text = |text: &str| SignedPart::Bytes(text.as_bytes().to_vec());
    let after = |more: &str| vec![text("(request-target): post "), SignedPart::Target, text(more)];
    let good = format!("\nhost: {host}\ndate: Wed, 25 Nov 2026 16:00:00 GMT\ncontent-length: 2");
    assert_eq!(egress.send(signed(after(&good)), &call()).await.unwrap().status, 200);
    assert_eq!(egress.send(signed(after("")), &call()).await.unwrap().status, 200);
    for bad in [
        vec![],
        vec![text("anything")],
        vec![SignedPart::Target],
        vec![text("(request-target): delete "), SignedPart::Target],
        vec![text("(request-target): post /elsewhere?"), SignedPart::Target],
        vec![text("date: Wed, 25 Nov 2026 16:00:00 GMT")],
        after("\ndate: Thu, 26 Nov 2026 16:00:00 GMT"),
        after("\nhost: elsewhere.test"),
        after("\nx-other: 1"),
        after("\n"),
        after("\0"),
    ] {
        let error = egress.send(signed(bad.clone()), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{bad:?}: {error}");
        let flags = "--credential-use=key=api:signing+any:/ --credential-use=key=api:header:authorization:/";
        assert!(error.message.contains(flags), "{error}");
    }
    assert_eq!(cloud.take().len(), 2);
    let egress = open(&cloud, uses(), &[("key", &["api:signing+any", "api:header:authorization"])]).unwrap();
    assert_eq!(egress.send(signed(vec![text("anything")]), &call()).await.unwrap().status, 200);
}

/// A signature that the cloud keeps was shown by another request.
#[tokio::test]
async fn what_was_signed_is_a_secret_of_later_answers_as_well() {
    let kept = Arc::new(Mutex::new(String::new()));
    let keeps = Arc::clone(&kept);
    let cloud = Cloud::start(move |asked| {
        if let Some(signature) = asked.header("authorization") {
            signature.clone_into(&mut keeps.lock());
            return ok("{}");
        }
        Reply::Bytes(reply("200 OK", &format!("x-kept: {}\r\n", keeps.lock()), keeps.lock().as_str()))
    });
    let egress = open(&cloud, vec![("key", vec![Place::Signing, header("authorization")])], &[]).unwrap();
    let data = vec![SignedPart::Bytes(b"(request-target): post ".to_vec()), SignedPart::Target];
    let signature =
        Part::Signature { key: "key".to_owned(), algorithm: Algorithm::HmacSha256, data, encoding: Encoding::Base64 };
    let headers = vec![("authorization".to_owned(), vec![bytes("Signature "), signature])];
    egress.send(Request { headers, ..post(Effect::Once) }, &call()).await.unwrap();
    let answer = egress.send(post(Effect::Read), &call()).await.unwrap();
    let said = kept.lock().clone();
    let bare = said.trim_start_matches("Signature ").trim_end_matches('=');
    assert!(
        bare.len() > 40 && !format!("{answer:?} {}", String::from_utf8_lossy(&answer.body)).contains(bare),
        "{answer:?}"
    );
    assert!(String::from_utf8_lossy(&answer.body).starts_with("Signature (credential signature)"), "{answer:?}");
    assert!(!egress.secrets().veil().text(&said).contains(bare));
}

/// The words of a name of eight megabytes took the host a quarter of a gigabyte, and only then it saw that no request has such a name.
#[tokio::test]
async fn names_that_are_too_long_are_refused_before_anybody_asks_whose_login_they_are() {
    let rig = Rig::new(|_| ok("{}"));
    let long = format!("x-auth-token{}", "-a".repeat(8 << 10));
    let named = |name: &str| vec![(name.to_owned(), vec![bytes("x")])];
    for (request, limit) in [
        (Request { headers: [token(), named(&long)].concat(), ..post(Effect::Read) }, "limit header-bytes"),
        (Request { headers: token(), query: named(&long), ..post(Effect::Read) }, "limit url-bytes"),
    ] {
        let error = rig.send(request).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::TooLarge, false), "{error}");
        assert!(error.message.contains(limit), "{error}");
    }
    assert_eq!(rig.cloud.take(), []);
}

/// A cloud that does not mind the case of a name may take the component's own value for the operator's.
#[tokio::test]
async fn a_place_of_a_credential_in_the_query_takes_nothing_else_in_any_case_of_its_name() {
    let rig = Rig::new(|_| ok("{}"));
    let own = |name: &str| Request {
        query: vec![("t".to_owned(), vec![secret("token")]), (name.to_owned(), vec![bytes("attacker")])],
        ..post(Effect::Read)
    };
    for name in ["t", "T"] {
        let error = rig.send(own(name)).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains("is a place of a credential, and has none in it"), "{error}");
    }
    assert_eq!(rig.cloud.take(), []);
    assert_eq!(rig.send(own("u")).await.unwrap().status, 200);
}
