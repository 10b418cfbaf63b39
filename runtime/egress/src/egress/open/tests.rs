use ccm_cloud::{
    Alone, ConfigFormat, Credential, CredentialUse, Endpoint, Place, Setting, Source, TlsSources, ValueKind,
};

use super::*;
use crate::config_file::{ConfigFile, Environment};
use crate::configuration::Files;

const PASSWORD: &str = "cloud:Global.password";

fn key(key: &str) -> Source {
    Source { keys: vec![key.to_owned()], environment_variables: vec![] }
}

fn variable(name: &str) -> Source {
    Source { keys: vec![], environment_variables: vec![name.to_owned()] }
}

fn file(name: &str, format: ConfigFormat) -> ccm_cloud::ConfigFile {
    ccm_cloud::ConfigFile { name: name.to_owned(), format, path_keys: vec![], default_paths: vec![] }
}

fn credential(name: &str, value: Source) -> Credential {
    Credential { name: name.to_owned(), purpose: String::new(), required: false, value, uses: vec![] }
}

/// The endpoint `api`.
fn endpoint(base_url: Source, tls: Option<TlsSources>) -> Endpoint {
    Endpoint { name: "api".to_owned(), purpose: String::new(), base_url, default_base_url: None, tls }
}

fn descriptor(files: Vec<ccm_cloud::ConfigFile>, credentials: Vec<Credential>) -> Descriptor {
    Descriptor { name: "test".to_owned(), files, credentials, ..Descriptor::default() }
}

/// The file `cloud` that says this, and where it is.
fn files(text: &str, format: ConfigFormat) -> (tempfile::NamedTempFile, Files) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let parsed = ConfigFile::read(text.as_bytes(), format).unwrap();
    let files = Files {
        parsed: parsed.map(|file| ("cloud".to_owned(), file)).into_iter().collect(),
        paths: [("cloud".to_owned(), file.path().to_owned())].into(),
    };
    (file, files)
}

const fn predecessor<'a>(descriptor: &'a Descriptor, egress: &'a Egress, is_configured_alike: bool) -> Predecessor<'a> {
    Predecessor { descriptor, egress: Some(egress), is_configured_alike }
}

/// What is wrong with the only endpoint, which every line of the configuration may be wrong for.
fn told(text: &str, descriptor: &Descriptor, variables: &[(&str, &str)]) -> String {
    let (_file, files) = files(text, ConfigFormat::Ini);
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let environment = Environment::new(&["TEST_*".to_owned()], variables);
    let configuration = Configuration::new(files, environment);
    let config = EgressConfig { configuration, ..EgressConfig::new(Arc::new(Alone)) };
    Egress::open(config, descriptor, &Carryover::default(), None).err().unwrap().to_string()
}

/// A component says which key or variable is what: it may name those of a secret.
#[test]
fn no_source_of_an_endpoint_shows_a_secret() {
    let text = "[Global]\npassword = hunter2\nplain = hunter2\ndeclared = hunter2\n";
    let variables = [("TEST_TOKEN", "hunter2"), ("TEST_PLAIN", "hunter2"), ("TEST_DECLARED", "hunter2")];
    let nothing = || Source::default();
    let secrets = [
        (key(PASSWORD), "cloud:Global.password (line 2)"),
        (key("cloud:GLOBAL.declared"), "cloud:GLOBAL.declared (line 4)"),
        (variable("TEST_TOKEN"), "environment variable TEST_TOKEN"),
        (variable("TEST_DECLARED"), "environment variable TEST_DECLARED"),
    ];
    let plain = [(key("cloud:Global.plain"), "hunter2"), (variable("TEST_PLAIN"), "hunter2")];
    for (source, says) in secrets.into_iter().chain(plain) {
        let tls = |ca_file: &Source, client_certificate: &Source, client_key: &Source, skip_verification: &Source| {
            let [ca_file, client_certificate] = [ca_file, client_certificate].map(Clone::clone);
            let [client_key, skip_verification] = [client_key, skip_verification].map(Clone::clone);
            (
                nothing(),
                Some(TlsSources {
                    ca_file,
                    client_certificate,
                    client_key,
                    skip_verification,
                    ..TlsSources::default()
                }),
            )
        };
        let (none, source) = (&nothing(), &source);
        let all = [
            (source.clone(), None),
            tls(source, none, none, none),
            tls(none, source, source, none),
            tls(none, none, none, source),
        ];
        for (base_url, tls) in all {
            let declared = Source {
                keys: vec!["cloud:Global.declared".to_owned()],
                environment_variables: vec!["TEST_DECLARED".to_owned()],
            };
            let mut descriptor = descriptor(vec![file("cloud", ConfigFormat::Ini)], vec![credential("one", declared)]);
            let is_url = tls.is_none();
            descriptor.endpoints.push(endpoint(base_url, tls));
            let told = told(text, &descriptor, &variables);
            // What is no secret is shown, but for URLs, which may have one in them.
            assert!(told.contains(says) || is_url, "{told:?} does not say {says:?}");
            assert!(!told.contains("hunter2") || says == "hunter2", "{told}");
        }
    }
}

/// INI does not mind the case of a key: spelled in two ways, a password was two credentials, each of which may stand in a header without a grant.
#[test]
fn a_key_that_is_spelled_in_two_ways_is_one_credential() {
    for (text, format, one, again) in [
        ("[Global]\npassword = value-one\n", ConfigFormat::Ini, PASSWORD, "cloud:GLOBAL.Password"),
        (
            "[Cloud \"A.b\"]\npassword = value-one\n",
            ConfigFormat::Ini,
            "cloud:Cloud.A.b.password",
            "cloud:cloud.A.b.PASSWORD",
        ),
        (r#"{"passwords":["value-one"]}"#, ConfigFormat::Json, "cloud:passwords.0", "cloud:passwords.00"),
    ] {
        let named = |name: &str, at: &str, endpoint: &str| {
            let place = Place::Header("authorization".to_owned());
            let used = CredentialUse { endpoint: endpoint.to_owned(), place, path: None };
            Credential { uses: vec![used], ..credential(name, key(at)) }
        };
        let open = |credentials: Vec<Credential>| {
            let (_file, files) = files(text, format);
            let configuration = Configuration::new(files, Environment::default());
            let config = EgressConfig { configuration, ..EgressConfig::new(Arc::new(Alone)) };
            let descriptor = descriptor(vec![file("cloud", format)], credentials);
            Egress::open(config, &descriptor, &Carryover::default(), None)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert_eq!(open(vec![named("password", one, "identity")]), Ok(()), "{one}");
        assert_eq!(open(vec![named("again", again, "compute")]), Ok(()), "{again}");
        let refused = open(vec![named("password", one, "identity"), named("again", again, "compute")]).unwrap_err();
        for flag in ["again=compute:header:authorization", "password=identity:header:authorization"] {
            assert!(refused.contains(&format!("--credential-use={flag}")), "{again}: {refused}");
        }
    }
}

/// Keys were once filled by replacing text, with what the provider sees of a setting.
#[test]
fn a_credential_is_found_below_a_name_with_a_dot_or_braces_in_it() {
    for cloud in ["my.cloud", "{other}", "a://b:c@d"] {
        let (_file, files) = files(&format!("clouds:\n  '{cloud}':\n    token: value-one\n"), ConfigFormat::Yaml);
        let source = key("cloud:clouds.{cloud}.token");
        let mut descriptor =
            descriptor(vec![file("cloud", ConfigFormat::Yaml)], vec![credential("token", source.clone())]);
        let setting = |name: &str| Setting {
            name: name.to_owned(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: Some("x".to_owned()),
            allowed: vec![],
            value: Source::default(),
        };
        descriptor.settings.extend([setting("cloud"), setting("other")]);
        let given = BTreeMap::from([("cloud".to_owned(), cloud.to_owned())]);
        let mut configuration = Configuration::new(files, Environment::default());
        configuration.settings(&descriptor, &given).unwrap();
        let value = configuration.credential(&descriptor, &source).unwrap().read().unwrap().unwrap();
        assert_eq!(value.expose(), b"value-one", "{cloud}");
    }
}

/// A component that is only looked at once wrote its token over that of the one that served, and asked its last good one with it.
#[tokio::test]
async fn a_new_component_begins_with_the_token_and_the_address_of_the_one_before_and_changes_neither_for_that() {
    let mut descriptor = descriptor(vec![], vec![credential("token", Source::default())]);
    descriptor.endpoints.push(endpoint(Source::default(), None));
    let carryover = Carryover::default();
    let open = |before: Option<&Egress>| {
        let grants = OperatorGrants { hosts: vec!["*.test".parse().unwrap()], ..OperatorGrants::default() };
        let config = EgressConfig { grants, ..EgressConfig::new(Arc::new(Alone)) };
        let before = before.map(|egress| predecessor(&descriptor, egress, true));
        Egress::open(config, &descriptor, &carryover, before).unwrap()
    };
    let logs_in = |egress: &Egress, project: &str| {
        let token = Secret::new(format!("token-of-{project}").into());
        egress.credentials.captured().store("token", token, None).unwrap();
        egress.bind("api", &format!("https://{project}.test/")).unwrap();
    };
    let is_in = |egress: &Egress| {
        let token = String::from_utf8(egress.credentials.value("token").unwrap().expose().to_vec()).unwrap();
        (token, egress.endpoints.target("api").unwrap().base.url.to_string())
    };
    let project = |name: &str| (format!("token-of-{name}"), format!("https://{name}.test/"));

    let first = open(None);
    logs_in(&first, "one");
    let refused = open(Some(&first));
    assert_eq!(is_in(&refused), project("one"), "no login for an exchange");
    logs_in(&refused, "two");
    assert_eq!(is_in(&first), project("one"));
    drop(refused);

    let second = open(Some(&first));
    assert_eq!(is_in(&second), project("one"));
    logs_in(&second, "three");
    assert_eq!(is_in(&first), project("one"), "the witness, and what a rollback returns to");
    assert_eq!(is_in(&open(Some(&second))), project("three"), "the one before, once that is proven");
}

/// The token of the old project would have been used in the new one.
#[tokio::test]
async fn another_configuration_begins_without_the_token_and_the_address_of_the_one_before() {
    let mut descriptor = descriptor(vec![], vec![credential("token", Source::default())]);
    descriptor.endpoints.push(endpoint(Source::default(), None));
    let carryover = Carryover::default();
    let open = |before: Option<Predecessor<'_>>| {
        let grants = OperatorGrants { hosts: vec!["*.test".parse().unwrap()], ..OperatorGrants::default() };
        let config = EgressConfig { grants, ..EgressConfig::new(Arc::new(Alone)) };
        Egress::open(config, &descriptor, &carryover, before).unwrap()
    };
    let first = open(None);
    first.credentials.captured().store("token", Secret::new(b"token-of-one".to_vec()), None).unwrap();
    first.bind("api", "https://one.test/").unwrap();
    let other = open(Some(predecessor(&descriptor, &first, false)));
    assert!(other.credentials.value("token").is_err() && other.endpoints.target("api").is_err());
    assert!(first.credentials.value("token").is_ok() && first.endpoints.target("api").is_ok(), "it may go on");
}

/// Whoever writes the cloud-config of a host that runs could lead the credentials of a Secret anywhere.
#[tokio::test]
async fn another_host_for_an_endpoint_needs_a_flag_and_another_path_does_not() {
    let mut descriptor = descriptor(vec![file("cloud", ConfigFormat::Ini)], vec![]);
    descriptor.endpoints.push(endpoint(key("cloud:Global.api-url"), None));
    let carryover = Carryover::default();
    let open = |url: &str, grants: OperatorGrants, allow_wider_use: bool, before: Option<&Egress>| {
        let (_file, files) = files(&format!("[Global]\napi-url = {url}\n"), ConfigFormat::Ini);
        let configuration = Configuration::new(files, Environment::default());
        let config = EgressConfig { configuration, grants, allow_wider_use, ..EgressConfig::new(Arc::new(Alone)) };
        let before = before.map(|before| predecessor(&descriptor, before, false));
        Egress::open(config, &descriptor, &carryover, before).map(|_| ()).map_err(|error| error.to_string())
    };
    let (_file, files) = files("[Global]\napi-url = https://a.test/v1\n", ConfigFormat::Ini);
    let configuration = Configuration::new(files, Environment::default());
    let config = EgressConfig { configuration, ..EgressConfig::new(Arc::new(Alone)) };
    let first = Egress::open(config, &descriptor, &carryover, None).unwrap();
    let none = OperatorGrants::default;
    assert_eq!(open("https://a.test:8443/v2", none(), false, Some(&first)), Ok(()));
    assert_eq!(open("https://b.test/v1", none(), false, None), Ok(()), "what stands there at the start is granted");
    let refused = open("https://b.test/v1", none(), false, Some(&first)).unwrap_err();
    assert!(refused.starts_with("endpoint api: the configuration names another host (b.test)"), "{refused}");
    assert!(refused.contains("--allow-host b.test") && refused.contains("restart the host"), "{refused}");
    let hosts = OperatorGrants { hosts: vec!["b.test".parse().unwrap()], ..none() };
    assert_eq!(open("https://b.test/v1", hosts, false, Some(&first)), Ok(()));
    let given = OperatorGrants { base_urls: [("api".to_owned(), "https://c.test/".to_owned())].into(), ..none() };
    assert_eq!(open("https://b.test/v1", given, false, Some(&first)), Ok(()), "the flag goes first");
    assert_eq!(open("https://b.test/v1", none(), true, Some(&first)), Ok(()), "--allow-grant-change");
}

/// Whoever writes the cloud-config and stands in the network would read the secrets.
#[tokio::test]
async fn a_changed_configuration_takes_no_protection_from_an_endpoint() {
    let mut descriptor = descriptor(vec![file("cloud", ConfigFormat::Ini)], vec![]);
    let tls = TlsSources { skip_verification: key("cloud:Global.insecure"), ..TlsSources::default() };
    descriptor.endpoints.push(endpoint(key("cloud:Global.api-url"), Some(tls)));
    let carryover = Carryover::default();
    let opened = |text: &str, allow_wider_use: bool, before: Option<&Egress>| {
        let (_file, files) = files(&format!("[Global]\n{text}"), ConfigFormat::Ini);
        let configuration = Configuration::new(files, Environment::default());
        let grants = OperatorGrants { allow_http: true, allow_skip_verification: true, ..OperatorGrants::default() };
        let config = EgressConfig { configuration, grants, allow_wider_use, ..EgressConfig::new(Arc::new(Alone)) };
        let before = before.map(|before| predecessor(&descriptor, before, false));
        Egress::open(config, &descriptor, &carryover, before)
    };
    let safe = "api-url = https://a.test/\n";
    let first = opened(safe, false, None).unwrap();
    let unsafe_one = format!("{safe}insecure = true\n");
    for (text, what) in [
        (unsafe_one.as_str(), "does not verify the certificate"),
        ("api-url = http://a.test/\n", "is not encrypted any more"),
    ] {
        let refused = opened(text, false, Some(&first)).map(|_| ()).unwrap_err().to_string();
        assert!(refused.starts_with("endpoint api: ") && refused.contains(what), "{refused}");
        assert!(refused.contains("--allow-grant-change") && refused.contains("restart the host"), "{refused}");
        let second = opened(text, false, None).unwrap();
        assert!(opened(text, true, Some(&first)).is_ok(), "{text}: granted");
        assert!(opened(text, false, Some(&second)).is_ok(), "{text}: it stood there at the start");
        assert!(opened(safe, false, Some(&second)).is_ok(), "{text}: and may be put right");
    }
}
