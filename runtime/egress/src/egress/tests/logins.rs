//! Whose login it is: what a component sends beside a credential, and what it captures.

use super::walls::{bytes, capture, header, open, secret};
use super::*;

const SESSION: &[&str] = &["api:header:x-session", "api:capture-json:/id"];

/// A cloud whose logins answer with this session.
fn login_cloud() -> Cloud {
    Cloud::start(|_| ok(r#"{"id":"session-Oob3eiwu"}"#))
}

fn captures(request: Request) -> Request {
    Request { capture: capture(CaptureSource::JsonPointer("/id".to_owned())), ..request }
}

fn named(name: &str, parts: Vec<Part>) -> Vec<(String, Vec<Part>)> {
    vec![(name.to_owned(), parts)]
}

/// It logged in to an account of its author's own, captured that session, and all data went there.
#[tokio::test]
async fn a_login_without_a_credential_of_the_operator_gives_none() {
    let cloud = login_cloud();
    let credentials = || vec![("token", vec![header("authorization")]), ("session", vec![header("x-session")])];
    let egress = open(&cloud, credentials(), &[("session", SESSION)]).unwrap();
    let own = |body: &str| captures(Request { body: vec![bytes(body)], ..post(Effect::Read) });
    for request in [
        own(""),
        own(r#"{"user":"attacker","password":"of the attacker"}"#),
        own("user=attacker&password=of+the+attacker"),
    ] {
        let error = egress.send(request, &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains("carries no credential"), "{error}");
    }
    assert_eq!(cloud.take(), []);
    // With the operator's, and with one that came of it.
    let with_token = captures(Request {
        headers: named("authorization", vec![bytes("Bearer "), secret("token")]),
        ..post(Effect::Read)
    });
    egress.send(with_token, &call()).await.unwrap();
    let renewal = captures(Request { headers: named("x-session", vec![secret("session")]), ..post(Effect::Read) });
    // The cloud gives what it gave: what was captured before is no secret of another name.
    egress.send(renewal, &call()).await.unwrap();
    assert!(egress.available("session", &call()));
}

/// A component found its logins in a bucket of its author's own, at a host that was granted: an object store stores a body whatever members it has.
#[tokio::test]
async fn a_credential_in_a_body_goes_only_where_the_operator_says_that_the_endpoint_is() {
    let cloud = login_cloud();
    let open = |given: &[&str], default_base_url: Option<String>| {
        let (name, purpose, base_url) = ("api".to_owned(), String::new(), Source::default());
        let endpoint = ccm_cloud::Endpoint { name, purpose, base_url, default_base_url, tls: None };
        let descriptor = Descriptor {
            name: "test".to_owned(),
            endpoints: vec![endpoint],
            credentials: vec![credential("token", vec![Place::Body])],
            ..Descriptor::default()
        };
        let grants = OperatorGrants {
            base_urls: given.iter().map(|name| ((*name).to_owned(), cloud.url())).collect(),
            hosts: vec!["127.0.0.1".parse().unwrap()],
            allow_http: true,
            addresses: AddressRules { loopback: true },
            ..OperatorGrants::default()
        };
        let config = EgressConfig {
            grants,
            credentials: [("token".to_owned(), fixed("token"))].into(),
            credential_uses: [("token".to_owned(), vec!["api:body-json:/password".parse().unwrap()])].into(),
            ..EgressConfig::new(Arc::new(Alone))
        };
        Egress::open(config, &descriptor, &Carryover::default(), None).unwrap()
    };
    let login =
        Request { body: vec![bytes(r#"{"password":""#), secret("token"), bytes(r#""}"#)], ..post(Effect::Read) };
    let bucket = || format!("{}/bucket-of-the-author", cloud.url());
    let found = open(&[], None);
    found.bind("api", &bucket()).unwrap();
    let declared = open(&[], Some(bucket()));
    for (egress, origin) in [(found, "found by the provider"), (declared, "the provider's default")] {
        let error = egress.send(login.clone(), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        let parts = [origin, "/bucket-of-the-author", "--endpoint api=URL"];
        assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
        // Where nobody stores what it is told, it may be looked for.
        egress.send(post(Effect::Read), &call()).await.unwrap();
    }
    assert!(cloud.take().iter().all(|asked| asked.body.is_empty()));
    open(&["api"], None).send(login, &call()).await.unwrap();
    assert!(cloud.take().remove(0).body.contains("token-Vahgh5eeweiF"));
}

/// The operator's credential stood beside the attacker's own login, where no cloud looks for it.
#[tokio::test]
async fn a_credential_does_not_lend_itself_to_a_login_of_the_components_own() {
    let cloud = login_cloud();
    let credentials =
        || vec![("token", vec![header("authorization"), Place::Body]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] = &[
        (
            "token",
            &[
                "api:header:authorization",
                "api:body:/",
                "api:body-json:/auth/password:/",
                "api:body-form:password:/",
                "api:body-form:comment:/",
            ],
        ),
        ("session", SESSION),
    ];
    let egress = open(&cloud, credentials(), granted).unwrap();
    let beside = |body: Vec<Part>| {
        captures(Request { headers: named("authorization", vec![secret("token")]), body, ..post(Effect::Read) })
    };
    let within = |before: &str, after: &str| {
        captures(Request { body: vec![bytes(before), secret("token"), bytes(after)], ..post(Effect::Read) })
    };
    for (request, part) in [
        // In a header that a login does not look at.
        (beside(vec![bytes(r#"{"user":"attacker","password":"of the attacker"}"#)]), "/password"),
        (beside(vec![bytes(r#"{"auth":{"token":{"id":"of the attacker"}}}"#)]), "/auth/token"),
        (beside(vec![bytes(r#"{"auth":{"totp":[{"passcode":123456}]}}"#)]), "/auth/totp/0/passcode"),
        (beside(vec![bytes("grant_type=refresh_token&refresh%5Ftoken=of+the+attacker")]), "refresh_token"),
        (beside(vec![bytes("<login>attacker</login>")]), "neither JSON nor a form"),
        // In a member that nobody reads.
        (within(r#"{"auth":{"password":"of the attacker"},"comment":""#, r#""}"#), "/comment"),
        (within(r#"{"auth":{"token":"of the attacker","password":""#, r#""}}"#), "/auth/token"),
        // The cloud reads the last one, or the first.
        (within(r#"{"auth":{"password":""#, r#"","password":"of the attacker"}}"#), "twice"),
        (within(r#"{"auth":{"password":""#, r#""},"auth":{"password":"of the attacker"}}"#), "twice"),
        (within(r#"{"auth":{"password":"of the attacker","#, r#"":""}}"#), "no JSON"),
        (within(r#"{"auth":{"password":"x"#, r#""}}"#), "beside it"),
        // Read leniently, it is JSON all the same.
        (within("\u{feff}{\"auth\":{\"password\":\"x\"},\"comment\":\"", "\"}"), "no JSON"),
        (within("comment=", "&password=of+the+attacker"), "password"),
    ] {
        let error = egress.send(request.clone(), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{request:?}: {error}");
        assert!(error.message.contains(part), "{part}: {error}");
        assert!(!error.message.contains("of the attacker"), "{error}");
    }
    assert_eq!(cloud.take(), []);
    for request in [
        within(r#"{"auth":{"methods":["password"],"user":{"name":"me"},"password":""#, r#""}}"#),
        within("user=me&password=", "&grant_type=password"),
        beside(vec![bytes(r#"{"auth":{"methods":["password"],"scope":{"project":"p"},"token":{}}}"#)]),
        beside(vec![]),
    ] {
        let answer = egress.send(request.clone(), &call()).await;
        assert!(answer.is_ok(), "{request:?}: {answer:?}");
    }
}

/// The host went by the bytes and the cloud by the header, so that one of them found the attacker's login and the other did not.
#[tokio::test]
async fn what_a_body_is_is_what_its_content_type_says() {
    let cloud = login_cloud();
    let credentials = || vec![("token", vec![Place::Body]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] =
        &[("token", &["api:body:/", "api:body-json:/password:/", "api:body-form:password:/"]), ("session", SESSION)];
    let egress = open(&cloud, credentials(), granted).unwrap();
    let login = |kinds: &[&str], before: &str, after: &str| {
        captures(Request {
            headers: kinds.iter().map(|kind| ("content-type".to_owned(), vec![bytes(kind)])).collect(),
            body: vec![bytes(before), secret("token"), bytes(after)],
            ..post(Effect::Read)
        })
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = r#"{"password":""#;
    for (request, part) in [
        (login(&[FORM], "<=1&username=attacker&password=evil&x=", ""), "\"password\""),
        (login(&[FORM], JSON, r#"","x":"&username=attacker&password=evil&z="}"#), "not what its content-type says"),
        (login(&[FORM], "user=me\n&comment=", ""), "not what its content-type says"),
        (login(&["text/plain"], JSON, "\"}"), "not what its content-type says"),
        (login(&["application/json"], "<login key=\"", "\"/>"), "not what its content-type says"),
        (login(&["multipart/form-data; boundary=x"], "--x\r\n", "\r\n--x--"), "several parts"),
        (login(&["application/x-www-form-urlencoded; charset=ibm037"], "password=", ""), "another charset"),
        (login(&["application/json", FORM], JSON, "\"}"), "there twice"),
    ] {
        let error = egress.send(request.clone(), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{request:?}: {error}");
        assert!(error.message.contains(part), "{part}: {error}");
    }
    assert_eq!(cloud.take(), []);
    for request in [
        login(&[FORM], "user=me&password=", ""),
        login(&["application/json; charset=UTF-8"], JSON, "\"}"),
        login(&["application/vnd.login+json"], JSON, "\"}"),
        login(&["application/xml"], "<login key=\"", "\"/>"),
        login(&[], JSON, "\"}"),
    ] {
        let answer = egress.send(request.clone(), &call()).await;
        assert!(answer.is_ok(), "{request:?}: {answer:?}");
    }
}

/// A grant of a whole body let the component choose the member, and a cloud stores most of them.
#[tokio::test]
async fn a_grant_of_a_body_of_json_names_the_member() {
    let cloud = login_cloud();
    let credentials = || vec![("token", vec![Place::Body]), ("session", vec![header("x-session")])];
    let body = vec![bytes(r#"{"a":[0,{"b/c":""#), secret("token"), bytes(r#""}]}"#)];
    let login = || captures(Request { body: body.clone(), ..post(Effect::Read) });
    let egress = open(&cloud, credentials(), &[("token", &["api:body:/"]), ("session", SESSION)]).unwrap();
    let error = egress.send(login(), &call()).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
    let flag = "--credential-use=token=api:body-json:/a/1/b~1c in place of --credential-use=token=api:body:/";
    assert!(error.message.contains(flag), "{error}");
    let granted: &[(&str, &[&str])] = &[("token", &["api:body-json:/a/1/b~1c:/"]), ("session", SESSION)];
    let egress = open(&cloud, credentials(), granted).unwrap();
    egress.send(login(), &call()).await.unwrap();
    // Nor is it a grant of anything that is no JSON.
    let form = captures(Request { body: vec![bytes("x="), secret("token")], ..post(Effect::Read) });
    let error = egress.send(form, &call()).await.unwrap_err();
    assert!(error.message.contains("--credential-use=token=api:body-form:x"), "{error}");
}

/// The first refusal named a flag that did not work, and the second one a flag that did not work alone.
#[tokio::test]
async fn the_flags_that_a_refusal_names_work_as_they_stand() {
    let cloud = login_cloud();
    let flags = |told: &str| -> Vec<String> {
        let words = told.split_whitespace().filter_map(|word| word.strip_prefix("--credential-use=token="));
        words.map(|grant| grant.trim_end_matches(';').to_owned()).collect()
    };
    let credentials = || vec![("token", vec![Place::Body]), ("session", vec![header("x-session")])];
    let with = |granted: &[String]| {
        let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
        open(&cloud, credentials(), &[("token", &granted), ("session", SESSION)])
    };
    let refused = with(&[]).err().unwrap().to_string();
    assert!(refused.ends_with("takes the place of all flags of that credential with :body:"), "{refused}");
    for (before, after) in [(r#"{"auth":{"password":""#, r#""}}"#), ("user=me&password=", "")] {
        let login =
            || captures(Request { body: vec![bytes(before), secret("token"), bytes(after)], ..post(Effect::Read) });
        let error = with(&flags(&refused)).unwrap().send(login(), &call()).await.unwrap_err().to_string();
        let (instead, replaced) = error.split_once(" in place of ").unwrap();
        assert_eq!(flags(replaced), flags(&refused), "{error}");
        with(&flags(instead)).unwrap().send(login(), &call()).await.unwrap();
    }
    assert_eq!(cloud.take().len(), 2);
}

/// The same of a form: the component wrote the credential into a field that the cloud stores, or ignores for a login of the component's own.
#[tokio::test]
async fn a_grant_of_a_form_names_the_field() {
    let cloud = login_cloud();
    let credentials = || vec![("token", vec![Place::Body]), ("session", vec![header("x-session")])];
    let form = |before: &str, after: &str| {
        captures(Request { body: vec![bytes(before), secret("token"), bytes(after)], ..post(Effect::Read) })
    };
    let granted: &[(&str, &[&str])] = &[("token", &["api:body:/"]), ("session", SESSION)];
    let egress = open(&cloud, credentials(), granted).unwrap();
    for (before, flag) in [
        ("user=me&password=", "token=api:body-form:password"),
        ("user=attacker&comment=", "token=api:body-form:comment"),
        ("user%5Bpass%5D=", "'token=api:body-form:user[pass]'"),
    ] {
        let error = egress.send(form(before, ""), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");
        assert!(error.message.contains(&format!("--credential-use={flag} ")), "{error}");
    }
    egress.send(form("", ""), &call()).await.unwrap();
    assert_eq!(cloud.take().len(), 1, "a body that is nothing else has no fields");
    let granted: &[(&str, &[&str])] = &[("token", &["api:body-form:password:/"]), ("session", SESSION)];
    let egress = open(&cloud, credentials(), granted).unwrap();
    for (before, after) in [("user=me&password=", "&x=y"), ("pass%77ord=", "")] {
        egress.send(form(before, after), &call()).await.unwrap();
    }
    for (before, after, part) in [
        ("", "", "in a body that is neither JSON nor a form"),
        ("Password=", "", "api:body-form:Password"),
        ("password=x&password=", "", "twice"),
        ("password=", "&PASSWORD=", "twice"),
        ("user=me;password=", "", "semicolon"),
        ("password=x", "", "beside it"),
        ("password=", "&comment=x;token=y", "token"),
    ] {
        let error = egress.send(form(before, after), &call()).await.unwrap_err();
        assert!(error.message.contains(part) && !error.maybe_sent, "{before}: {error}");
    }
    assert_eq!(cloud.take().len(), 2);
}

/// A header that a cloud stores, and that whoever reads the object sees.
#[tokio::test]
async fn without_a_grant_a_credential_stands_in_a_header_that_is_for_credentials() {
    let cloud = login_cloud();
    for name in ["Authorization", "X-Auth-Token", "x-api-key", "Private-Token", "x_access_token"] {
        assert!(open(&cloud, vec![("token", vec![header(name)])], &[]).is_ok(), "{name}");
    }
    for name in [
        "X-Object-Meta-Comment",
        "X-Object-Meta-Token",
        "x-amz-meta-api-key",
        "X-Container-Sync-Key",
        "X-Account-Meta-Temp-URL-Key",
        "x-tag-authorization",
        "accept",
        "content-type",
        "x",
    ] {
        let error = open(&cloud, vec![("token", vec![header(name)])], &[]).err().unwrap().to_string();
        assert!(error.contains(&format!("--credential-use=token=api:header:{name}")), "{error}");
        let granted = format!("api:header:{name}");
        assert!(open(&cloud, vec![("token", vec![header(name)])], &[("token", &[&granted])]).is_ok(), "{name}");
    }
}

/// Clouds know who asks by many names.
#[tokio::test]
async fn a_query_value_by_which_clouds_know_who_asks_stands_beside_no_credential() {
    let cloud = login_cloud();
    let egress = open(&cloud, vec![("token", vec![header("authorization")])], &[]).unwrap();
    let asks = |name: &str| Request {
        headers: named("authorization", vec![secret("token")]),
        query: named(name, vec![bytes("x")]),
        ..post(Effect::Read)
    };
    for name in [
        "access_token",
        "apiKey",
        "token",
        "api_token",
        "auth_key",
        "key",
        "ticket",
        "sig",
        "signature",
        "temp_url_sig",
        "X-Amz-Signature",
        "X-Amz-Credential",
        "X-Goog-Signature",
        "AWSAccessKeyId",
        "client_secret",
        "Session-ID",
        "auth",
    ] {
        let error = egress.send(asks(name), &call()).await.unwrap_err();
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{name}: {error}");
    }
    assert_eq!(cloud.take(), []);
    for name in
        ["page_token", "nextToken", "pageToken", "continuation-token", "marker", "sort_key", "tag_key", "ClientToken"]
    {
        assert!(egress.send(asks(name), &call()).await.is_ok(), "{name}");
    }
}

/// The token was in `location`, and the component read it there.
#[tokio::test]
async fn a_login_that_is_answered_by_a_redirect_tells_its_status_alone() {
    const PLACE: &str = "https://app.test/#access_token=session-Oob3eiwu";
    let cloud = Cloud::start(|_| {
        let headers = format!("location: {PLACE}\r\nrefresh: 0; url={PLACE}\r\n");
        Reply::Bytes(reply("302 Found", &headers, format!("<a href='{PLACE}'>")))
    });
    let credentials =
        vec![("token", vec![header("authorization"), Place::Body]), ("session", vec![header("x-session")])];
    let granted: &[(&str, &[&str])] =
        &[("session", SESSION), ("token", &["api:body+answer:/", "api:header:authorization"])];
    let egress = open(&cloud, credentials, granted).unwrap();
    let by_header = || Request { headers: named("authorization", vec![secret("token")]), ..post(Effect::Read) };
    let by_body = || Request { body: vec![secret("token")], ..post(Effect::Read) };
    for login in [captures(by_header()), by_body(), captures(by_body())] {
        let answer = egress.send(login, &call()).await.unwrap();
        assert_eq!((answer.status, answer.headers.as_slice(), answer.body.len()), (302, &[][..], 0));
        assert!(answer.summary.contains("a redirect in answer to a login"), "{}", answer.summary);
        assert!(!answer.summary.contains("session-Oob3eiwu") && !egress.available("session", &call()));
    }
    // What is no login is for the provider to judge.
    let answer = egress.send(by_header(), &call()).await.unwrap();
    assert!(answer.headers.iter().any(|(name, value)| name == "location" && value == PLACE));
}
