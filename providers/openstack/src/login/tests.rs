mod interfaces;

use ccm_sdk::testing::{FakeCloud, Reply, text};
use ccm_sdk::types::Reaction;

use super::*;
use crate::api::{NEUTRON, NOVA, OCTAVIA};
use crate::config::tests::{Installed, config, install};

const LOGIN: &str = "identity POST /v3/auth/tokens";

fn named(id: &str, name: &str) -> Named {
    Named::new(Some(id.to_owned()), Some(name.to_owned()))
}

/// Somebody with a name in the domain `D`.
fn somebody() -> Identity {
    Identity { user: named("", "N"), domain: named("", "D"), ..Identity::default() }
}

fn told(identity: &Identity, has: &[&str]) -> Result<String, Vec<String>> {
    let body = body(identity, |credential| has.contains(&credential)).map(|parts| text(&parts));
    body.map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn scope(identity: &Identity) -> String {
    let body = told(identity, &[PASSWORD]).expect("a body");
    body.split_once(r#","scope":"#).map_or("", |(_, scope)| scope).trim_end_matches("}}").to_owned() + "}}"
}

const USER: &str = r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"N","domain":{"name":"D"},"password":"<password>"}}}"#;

#[test]
fn os_021_to_026_the_scope_is_the_project_or_the_domain() {
    let whole = |identity: &Identity| told(identity, &[PASSWORD]).expect("a body").replace(USER, "…");
    for (case, identity, expected) in [
        ("os_021", somebody(), r#"…,"scope":{"domain":{"name":"D"}}}}"#),
        (
            "os_023",
            Identity { project: named("", "P"), project_domain: named("", "PD"), ..somebody() },
            r#"…,"scope":{"project":{"name":"P","domain":{"name":"PD"}}}}}"#,
        ),
        (
            "os_026",
            Identity { project: named("p-1", "P"), project_domain: named("", "PD"), ..somebody() },
            r#"…,"scope":{"project":{"id":"p-1"}}}}"#,
        ),
        ("4.3", Identity { domain: named("", ""), user_domain: named("", "D"), ..somebody() }, "…}}"),
        (
            "4.3",
            Identity { domain: named("", ""), user_domain: named("", "D"), system: true, ..somebody() },
            r#"…,"scope":{"system":{"all":true}}}}"#,
        ),
    ] {
        assert_eq!(whole(&identity), expected, "{case}");
    }
    let both = Identity { domain: named("d-1", "D"), ..somebody() };
    for (case, identity, expected) in [
        ("os_022", both.clone(), r#"{"domain":{"id":"d-1"}}"#),
        (
            "os_024",
            Identity { project: named("", "P"), ..both.clone() },
            r#"{"project":{"name":"P","domain":{"id":"d-1"}}}"#,
        ),
        (
            "os_025",
            Identity { project: named("", "P"), project_domain: named("pd-1", "PD"), ..both },
            r#"{"project":{"name":"P","domain":{"id":"pd-1"}}}"#,
        ),
    ] {
        let scope = scope(&identity);
        assert!(scope.trim_end_matches('}') == expected.trim_end_matches('}'), "{case}: {scope}");
    }
}

#[test]
fn os_166_there_are_six_ways_to_log_in_and_secrets_are_the_hosts() {
    let application = Identity { application_credential_name: Some("A".to_owned()), ..Identity::default() };
    let by_id = [APPLICATION_ID, APPLICATION_SECRET];
    let app = r#"{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"#;
    for (identity, has, expected) in [
        (
            Identity { user: named("u-1", ""), project: named("p-1", ""), ..Identity::default() },
            &[PASSWORD][..],
            r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"u-1","password":"<password>"}}},"scope":{"project":{"id":"p-1"}}}}"#.to_owned(),
        ),
        (
            Identity::default(),
            &by_id,
            format!(r#"{app}"id":"<application-credential-id>","secret":"<application-credential-secret>"}}}}}}}}"#),
        ),
        (
            Identity { user: named("u-1", ""), ..application.clone() },
            &[APPLICATION_SECRET],
            format!(r#"{app}"name":"A","user":{{"id":"u-1"}},"secret":"<application-credential-secret>"}}}}}}}}"#),
        ),
        (
            Identity { user: named("", "N"), user_domain: named("default", ""), ..application },
            &[APPLICATION_SECRET],
            format!(r#"{app}"name":"A","user":{{"name":"N","domain":{{"id":"default"}}}},"secret":"<application-credential-secret>"}}}}}}}}"#),
        ),
        (
            Identity { project: named("p-1", ""), ..Identity::default() },
            &[TOKEN],
            r#"{"auth":{"identity":{"methods":["token"],"token":{"id":"<token>"}},"scope":{"project":{"id":"p-1"}}}}"#.to_owned(),
        ),
        (
            Identity { user: named("u-1", ""), trust: Some("t-1".to_owned()), trustee: Some("e-1".to_owned()), project: named("p-1", ""), ..Identity::default() },
            &[PASSWORD, TRUSTEE_PASSWORD],
            r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"e-1","password":"<trustee-password>"}}},"scope":{"OS-TRUST:trust":{"id":"t-1"}}}}"#.to_owned(),
        ),
    ] {
        assert_eq!(told(&identity, has), Ok(expected));
    }
    // Names are texts, whatever is in them.
    let odd = Identity { user: named("", "a\"b\\"), ..somebody() };
    assert!(told(&odd, &[PASSWORD]).is_ok_and(|body| body.contains(r#""name":"a\"b\\""#)));
}

#[test]
fn of_several_credentials_a_password_is_used_before_a_token_and_that_before_an_application_credential() {
    let identity =
        Identity { project: named("p-1", ""), application_credential_name: Some("A".to_owned()), ..somebody() };
    for (has, expected) in [
        (vec![APPLICATION_SECRET, APPLICATION_ID, TOKEN, PASSWORD], Method::Password(PASSWORD)),
        (vec![APPLICATION_SECRET, APPLICATION_ID, TOKEN], Method::Token),
        (vec![APPLICATION_SECRET, APPLICATION_ID], Method::ApplicationId),
        (vec![APPLICATION_SECRET], Method::ApplicationName),
        // Without a trust nobody is a trustee.
        (vec![TRUSTEE_PASSWORD, TOKEN], Method::Token),
    ] {
        assert_eq!(method(&identity, |credential| has.contains(&credential)), Some(expected));
    }
}

#[test]
fn os_167_an_application_credential_asks_for_no_scope() {
    let identity = Identity { project: named("p-1", "P"), domain: named("d-1", ""), ..Identity::default() };
    let body = told(&identity, &[APPLICATION_ID, APPLICATION_SECRET]).expect("a body");
    assert!(!body.contains("scope"), "{body}");
}

#[test]
fn all_that_is_wrong_with_who_logs_in_is_told_with_its_key() {
    let nobody = Identity::default();
    for (identity, has, expected) in [
        (nobody.clone(), &[][..], vec!["password: You must provide a password to authenticate"]),
        (nobody.clone(), &[PASSWORD], vec!["username: Exactly one of Username and UserID must be provided"]),
        (Identity { user: named("u", "N"), ..nobody.clone() }, &[PASSWORD], vec!["username: Exactly one of"]),
        (
            Identity { user: named("", "N"), project: named("", "P"), ..nobody.clone() },
            &[PASSWORD],
            vec![
                "user-domain-name: You must provide exactly one of DomainID or DomainName to authenticate by Username",
                "tenant-domain-name: You must provide exactly one of DomainID or DomainName in a Scope with ProjectName",
            ],
        ),
        (
            nobody.clone(),
            &[APPLICATION_ID],
            vec!["application-credential-secret: You must provide an Application Credential Secret"],
        ),
        (
            Identity { application_credential_name: Some("A".to_owned()), ..nobody.clone() },
            &[APPLICATION_SECRET],
            vec!["username: Exactly one of"],
        ),
        (nobody, &[TOKEN], vec!["token: a token needs a scope"]),
    ] {
        let problems = told(&identity, has).expect_err("it is wrong");
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(&format!("cloud-config:global.{expected}")), "{problem}");
        }
    }
}

fn catalogue(services: &[(&str, &str)]) -> String {
    let entries: Vec<String> = services
        .iter()
        .map(|(kind, url)| {
            format!(r#"{{"type": "{kind}", "endpoints": [{{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "{url}"}}]}}"#)
        })
        .collect();
    format!(r#"{{"token": {{"expires_at": "2026-11-20T17:31:03.000000Z", "catalog": [{}]}}}}"#, entries.join(","))
}

const ALL: [(&str, &str); 4] = [
    ("compute", "http://127.0.0.1:8774/v2.1"),
    ("network", "http://127.0.0.1:9696/"),
    ("load-balancer", "http://127.0.0.1:9876"),
    ("key-manager", "http://127.0.0.1:9311"),
];

fn login_with(services: &[(&str, &str)]) -> Reply {
    Reply::json(201, catalogue(services)).header("X-Subject-Token", "gAAAAA")
}

/// A configuration with a password.
fn cloud() -> (FakeCloud, Installed) {
    (FakeCloud::new().with_credential(PASSWORD), install(config()))
}

#[test]
fn a_login_captures_the_token_and_binds_what_the_catalogue_has() {
    let (cloud, _installed) = cloud();
    let cloud = cloud.on(LOGIN, login_with(&ALL)).on("network GET /ports", Reply::json(200, "{}"));
    assert!(NEUTRON.get("/ports").send().is_ok());
    assert_eq!(
        cloud.lines(),
        [
            LOGIN,
            "bind compute http://127.0.0.1:8774/v2.1",
            "bind network http://127.0.0.1:9696/v2.0",
            "bind load-balancer http://127.0.0.1:9876/v2.0",
            "bind key-manager http://127.0.0.1:9311/v1",
            "network GET /ports",
        ]
    );
    let capture = cloud.requests()[0].capture.clone().expect("a capture");
    assert_eq!(capture.credential, SESSION_TOKEN);
    assert_eq!(capture.source, CaptureSource::Header("x-subject-token".to_owned()));
    assert_eq!(capture.expires, Some(CaptureSource::JsonPointer("/token/expires_at".to_owned())));
}

#[test]
fn a_base_url_that_ends_in_a_version_has_it_once() {
    let (cloud, _installed) = cloud();
    KEYSTONE.bind("https://keystone.example:5000/v3").expect("it is bound");
    let request = "identity POST /auth/tokens";
    let cloud = cloud.on(request, login_with(&ALL)).on("compute GET /x", Reply::json(200, "{}"));
    assert!(NOVA.get("/x").send().is_ok());
    assert_eq!(cloud.requests()[0].operation, "POST /v3/auth/tokens");
}

#[test]
fn a_url_of_keystone_is_there_and_not_of_a_version_that_is_gone() {
    for (base, wrong) in [
        (None, Some("cloud-config:global.auth-url: is missing")),
        (Some("/v2.0"), Some("cloud-config:global.auth-url: ends in /v2.0")),
        (Some("/identity/v2.0"), Some("cloud-config:global.auth-url: ends in /v2.0")),
        (Some(""), None),
        (Some("/identity"), None),
        (Some("/v3"), None),
    ] {
        let told = problem_of_url(base).map(|problem| (problem.fatal, problem.to_string()));
        assert_eq!(told.is_some(), wrong.is_some(), "{base:?}");
        assert!(
            told.is_none_or(|(fatal, told)| fatal && wrong.is_some_and(|wrong| told.starts_with(wrong))),
            "{base:?}"
        );
    }
}

#[test]
fn os_168_169_a_refused_token_is_renewed_once_for_all_and_a_second_refusal_is_told() {
    let (cloud, _installed) = cloud();
    let refused = || {
        Reply::json(
            401,
            r#"{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}"#,
        )
    };
    let cloud = cloud.always(LOGIN, login_with(&ALL)).with_credential(SESSION_TOKEN);
    let cloud = (0..3).fold(cloud, |cloud, _| cloud.on("compute GET /x", refused()));
    let cloud = cloud.always("compute GET /x", Reply::json(200, "{}"));
    let answers = ccm_sdk::send_all((0..3).map(|_| NOVA.get("/x")).collect());
    assert!(answers.into_iter().all(|answer| answer.is_ok_and(|answer| answer.status() == 200)));
    let logins = |cloud: &FakeCloud| cloud.lines().iter().filter(|line| line.as_str() == LOGIN).count();
    assert_eq!(logins(&cloud), 1);
    let cloud = cloud.always("network GET /x", refused());
    let failure = NEUTRON.get("/x").send().and_then(Answer::done).expect_err("it is refused");
    assert_eq!(failure.reaction, Reaction::Unauthorized);
    assert!(failure.message.contains("a fresh token was refused too"), "{}", failure.message);
    assert_eq!(logins(&cloud), 2);
}

#[test]
fn os_021_without_a_project_a_token_of_the_domain_is_renewed() {
    let cloud = FakeCloud::new().with_credential(PASSWORD).with_credential(SESSION_TOKEN);
    let _installed = install(Config { identity: somebody(), ..config() });
    let refused = Reply::json(401, r#"{"error": {"code": 401, "title": "Unauthorized", "message": "no"}}"#);
    let cloud =
        cloud.on("compute GET /x", refused).on(LOGIN, login_with(&ALL)).on("compute GET /x", Reply::json(200, "{}"));
    assert!(NOVA.get("/x").send().is_ok_and(|answer| answer.status() == 200), "os_021");
    let login = cloud.requests().into_iter().find(|request| request.path == "/v3/auth/tokens").expect("a login");
    let body = text(&login.body);
    assert!(body.ends_with(r#""scope":{"domain":{"name":"D"}}}}"#), "os_021: {body}");
}

#[test]
fn os_166_a_login_that_is_refused_is_for_who_gave_the_credential() {
    for (status, words) in [
        (401, "The request you have made requires authentication."),
        (404, "Could not find Application Credential: x."),
        (403, "not allowed"),
    ] {
        let (cloud, _installed) = cloud();
        let body = format!(r#"{{"error": {{"code": {status}, "message": "{words}"}}}}"#);
        let cloud = cloud.on(LOGIN, Reply::json(status, body));
        let failure = NOVA.get("/x").send().expect_err("there is no token");
        assert_eq!(failure.reaction, Reaction::Unauthorized, "{status}");
        assert!(failure.message.contains(words), "{}", failure.message);
        assert_eq!(cloud.lines(), [LOGIN], "it is not tried again at once");
    }
}

#[test]
fn a_configuration_that_says_not_who_logs_in_asks_nobody() {
    let cloud = FakeCloud::new();
    let _installed = install(config());
    let failure = NOVA.get("/x").send().expect_err("there is no password");
    assert_eq!(failure.reaction, Reaction::Unauthorized);
    assert!(failure.message.contains("cloud-config:global.password"), "{}", failure.message);
    assert_eq!(cloud.lines(), [""; 0]);
}

#[test]
fn a_catalogue_without_load_balancers_has_all_else_and_is_asked_again_now_and_then() {
    let (cloud, _installed) = cloud();
    let cloud = cloud.always(LOGIN, login_with(&ALL[..2]));
    assert_eq!(is_reachable(OCTAVIA), Ok(false));
    assert_eq!(is_reachable(NOVA), Ok(true));
    let problems = unreachable(&SESSION.answer().expect("an answer"), &[NOVA, OCTAVIA]).expect("problems");
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "endpoint load-balancer: failed to find load-balancer v2 public endpoint for region RegionOne: No suitable endpoint could be found in the service catalog."
        ]
    );
    let logins = || cloud.lines().iter().filter(|line| line.as_str() == LOGIN).count();
    let before = logins();
    assert_eq!(is_reachable(OCTAVIA), Ok(false));
    assert_eq!(logins(), before, "the answer of the login is kept");
    cloud.pass(301);
    assert_eq!(is_reachable(OCTAVIA), Ok(false));
    assert_eq!(logins(), before + 1);
    cloud.pass(301);
    let cloud = cloud.on(LOGIN, login_with(&ALL));
    assert_eq!(is_reachable(OCTAVIA), Ok(true));
    drop(cloud);
}

#[test]
fn a_service_whose_host_is_not_granted_is_wrong_and_the_others_work() {
    let (cloud, _installed) = cloud();
    let cloud = cloud.denies("load-balancer").on(LOGIN, login_with(&ALL)).on("compute GET /x", Reply::json(200, "{}"));
    assert!(NOVA.get("/x").send().is_ok());
    let problems = unreachable(&SESSION.answer().expect("an answer"), &[NOVA, NEUTRON, OCTAVIA]).expect("problems");
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].fatal
            && problems[0].to_string().starts_with("endpoint load-balancer: http://127.0.0.1:9876/v2.0 is not")
    );
    drop(cloud);
}

#[test]
fn a_login_without_a_project_has_no_catalogue() {
    let (cloud, _installed) = cloud();
    let _cloud = cloud.on(LOGIN, Reply::json(201, r#"{"token": {"user": {}}}"#).header("X-Subject-Token", "t"));
    let failure = NOVA.get("/x").send().expect_err("there is no catalogue");
    assert!(failure.message.contains("the login gave no catalogue of services"), "{}", failure.message);
}

/// What was found in the old region stays bound, and would be asked: in the old region all Nodes of the new one are missing.
#[test]
fn a_region_that_the_catalogue_lacks_is_wrong_although_another_was_found_before() {
    let (cloud, installed) = cloud();
    let cloud = cloud.on(LOGIN, login_with(&ALL)).on("compute GET /x", Reply::json(200, "{}"));
    assert!(NOVA.get("/x").send().is_ok());
    drop(installed);
    let installed = install(Config { region: "RegionTwo".to_owned(), ..config() });
    let told = || {
        let problems = unreachable(&SESSION.answer().expect("an answer"), &[NOVA, NEUTRON, OCTAVIA]).expect("problems");
        problems.into_iter().map(|problem| (problem.field, problem.fatal)).collect::<Vec<_>>()
    };
    let named = |kind: &str, fatal: bool| (format!("endpoint {kind}"), fatal);
    assert_eq!(told(), [named("compute", true), named("network", true), named("load-balancer", false)]);
    // Load balancers are not offered there.
    let cloud = cloud.on(LOGIN, login_with(&ALL));
    assert_eq!(is_reachable(OCTAVIA), Ok(false));
    drop((cloud, installed));
    // The operator knows better.
    let _installed = install(Config { region: "RegionTwo".to_owned(), ..config() });
    let given = FakeCloud::new().with_credential(PASSWORD).on(LOGIN, login_with(&ALL));
    let _given = ["compute", "network", "load-balancer"]
        .into_iter()
        .fold(given, |cloud, endpoint| cloud.gives(endpoint, "https://10.0.0.1/api"));
    assert_eq!(told(), []);
    assert_eq!(is_reachable(OCTAVIA), Ok(true));
}
