use ccm_cloud::{Alone, ConfigFormat, Credential, Endpoint, Setting, TlsSources, ValueKind};

use ccm_egress::endpoints::Bindings;

use super::*;
use crate::config::ProviderRecord;

const PASSWORD: &str = "cloud:Global.password";

fn key(key: &str) -> Source {
    Source { keys: vec![key.to_owned()], environment_variables: vec![] }
}

fn variable(name: &str) -> Source {
    Source { keys: vec![], environment_variables: vec![name.to_owned()] }
}

fn file(name: &str, format: ConfigFormat, path_keys: &[&str]) -> ccm_cloud::ConfigFile {
    let path_keys = path_keys.iter().map(|&key| key.to_owned()).collect();
    ccm_cloud::ConfigFile { name: name.to_owned(), format, path_keys, default_paths: vec![] }
}

fn credential(name: &str, value: Source) -> Credential {
    Credential { name: name.to_owned(), purpose: String::new(), required: false, value, uses: vec![] }
}

fn descriptor(files: Vec<ccm_cloud::ConfigFile>, credentials: Vec<Credential>) -> Descriptor {
    Descriptor {
        name: "test".to_owned(),
        version: String::new(),
        revision: String::new(),
        provider_id_schemes: vec![],
        files,
        endpoints: vec![],
        credentials,
        settings: vec![],
        annotations: vec![],
        more: BTreeMap::new(),
    }
}

/// A provider whose cloud-config says this.
fn config(text: &str) -> (tempfile::NamedTempFile, ProviderConfig) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let cloud_config = Some(file.path().to_owned());
    let record = ProviderRecord { source: "a.wasm".to_owned(), cloud_config, ..ProviderRecord::default() };
    (file, record.check().unwrap())
}

/// What is wrong with the only endpoint, which every line of the configuration may be wrong for.
fn told(config: &ProviderConfig, descriptor: &Descriptor, variables: &[(&str, &str)]) -> String {
    let files = config.files(descriptor).unwrap();
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let environment = Environment::new(&["TEST_*".to_owned()], variables);
    let given = Given { config, descriptor, files: &files, environment, values: BTreeMap::new() };
    let found = |source: &Source| given.found(source);
    let operator = config.grants.operator().unwrap();
    let settings = ClientSettings::default();
    let problems = Endpoints::resolve(&descriptor.endpoints, &operator, found, settings, Bindings::default());
    problem_text(&problems.err().unwrap())
}

/// A component says which key or variable is what: it may name those of a secret.
#[test]
fn no_source_of_an_endpoint_shows_a_secret() {
    let (_file, config) = config("[Global]\npassword = hunter2\nplain = hunter2\ndeclared = hunter2\n");
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
            (nothing(), Some(TlsSources { ca_file, client_certificate, client_key, skip_verification }))
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
            let mut descriptor =
                descriptor(vec![file("cloud", ConfigFormat::Ini, &[])], vec![credential("one", declared)]);
            let is_url = tls.is_none();
            descriptor.endpoints.push(Endpoint {
                name: "api".to_owned(),
                purpose: String::new(),
                base_url,
                default_base_url: None,
                tls,
            });
            let told = told(&config, &descriptor, &variables);
            // What is no secret is shown, but for URLs, which may have one in them.
            assert!(told.contains(says) || is_url, "{told:?} does not say {says:?}");
            assert!(!told.contains("hunter2") || says == "hunter2", "{told}");
        }
    }
}

#[test]
fn a_key_of_paths_shows_no_secret() {
    let (_file, config) = config("[Global]\npassword = hunter2\nplain = /hunter2\n");
    let cases = [
        (PASSWORD, "the file that cloud:Global.password (line 2) names (more) is not granted", false),
        ("cloud:Global.plain", "file /hunter2 (more) is named in the cloud-config but not granted", true),
    ];
    for (key, says, shown) in cases {
        let files = vec![file("cloud", ConfigFormat::Ini, &[]), file("more", ConfigFormat::Yaml, &[key])];
        let error = format!("{:#}", config.files(&descriptor(files, vec![])).err().unwrap());
        assert!(error.contains(says) && error.contains("hunter2") == shown, "{error:?} does not say {says:?}");
    }
}

/// Keys were once filled by replacing text, with what the provider sees of a setting.
#[test]
fn a_credential_is_found_below_a_name_with_a_dot_or_braces_in_it() {
    for cloud in ["my.cloud", "{other}", "a://b:c@d"] {
        let (_file, config) = config(&format!("clouds:\n  '{cloud}':\n    token: value-one\n"));
        let source = key("cloud:clouds.{cloud}.token");
        let mut descriptor =
            descriptor(vec![file("cloud", ConfigFormat::Yaml, &[])], vec![credential("token", source.clone())]);
        let setting = |name: &str| Setting {
            name: name.to_owned(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: Some("x".to_owned()),
            allowed: vec![],
            value: Source::default(),
        };
        descriptor.settings.extend([setting("cloud"), setting("other")]);
        let files = config.files(&descriptor).unwrap();
        let given = BTreeMap::from([("cloud".to_owned(), cloud.to_owned())]);
        let environment = Environment::default();
        let values = Settings::default().set_values(&descriptor, &given, &files.parsed, &environment).unwrap();
        let given = Given { config: &config, descriptor: &descriptor, files: &files, environment, values };
        let value = given.configured(&source).unwrap().read().unwrap().unwrap();
        assert_eq!(value.expose(), b"value-one", "{cloud}");
    }
}

/// A component that is only looked at once wrote its token over that of the one that served, and asked its last good one with it.
#[tokio::test]
async fn a_new_component_begins_with_the_token_and_the_address_of_the_one_before_and_changes_neither_for_that() {
    let (_file, mut config) = config("");
    config.grants.allow_hosts = vec!["*.test".to_owned()];
    let endpoint = Endpoint {
        name: "api".to_owned(),
        purpose: String::new(),
        base_url: Source::default(),
        default_base_url: None,
        tls: None,
    };
    let mut descriptor = descriptor(vec![], vec![credential("token", Source::default())]);
    descriptor.endpoints.push(endpoint);
    let shared = SharedContext {
        client: None,
        leadership: Arc::new(Alone),
        exchanges: None,
        nodes: None,
        cluster_name: String::new(),
        cluster_cidrs: vec![],
        trace_http: false,
    };
    let carryover = Carryover::default();
    let open = async |before: Option<&Network>| {
        let before = before.map(|network| Before { descriptor: &descriptor, network: Some(network) });
        open(&config, &descriptor, Files::default(), &carryover, &shared, before).await.unwrap().0.network.unwrap()
    };
    let logs_in = |network: &Network, project: &str| {
        network
            .credentials()
            .captured()
            .store("token", Secret::new(format!("token-of-{project}").into()), None)
            .unwrap();
        network.bind("api", &format!("https://{project}.test/")).unwrap();
    };
    let is_in = |network: &Network| {
        let token = String::from_utf8(network.credentials().value("token").unwrap().expose().to_vec()).unwrap();
        (token, network.endpoints().base("api").unwrap().url.to_string())
    };
    let project = |name: &str| (format!("token-of-{name}"), format!("https://{name}.test/"));

    let first = open(None).await;
    logs_in(&first, "one");
    let refused = open(Some(&first)).await;
    assert_eq!(is_in(&refused), project("one"), "no login for an exchange");
    logs_in(&refused, "two");
    assert_eq!(is_in(&first), project("one"));
    drop(refused);

    let second = open(Some(&first)).await;
    assert_eq!(is_in(&second), project("one"));
    logs_in(&second, "three");
    assert_eq!(is_in(&first), project("one"), "the witness, and what a rollback returns to");
    assert_eq!(is_in(&open(Some(&second)).await), project("three"), "the one before, once that is proven");
}
