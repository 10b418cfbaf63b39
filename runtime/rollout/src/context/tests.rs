use ccm_cloud::{ConfigFormat, Source};

use super::*;
use crate::config::ProviderRecord;

const PASSWORD: &str = "cloud:Global.password";

fn file(name: &str, format: ConfigFormat, path_keys: &[&str]) -> ccm_cloud::ConfigFile {
    let path_keys = path_keys.iter().map(|&key| key.to_owned()).collect();
    ccm_cloud::ConfigFile { name: name.to_owned(), format, path_keys, default_paths: vec![] }
}

fn descriptor(files: Vec<ccm_cloud::ConfigFile>) -> Descriptor {
    Descriptor { name: "test".to_owned(), files, ..Descriptor::default() }
}

/// A provider whose cloud-config says this.
fn config(text: &str) -> (tempfile::NamedTempFile, ProviderConfig) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let cloud_config = Some(file.path().to_owned());
    let record = ProviderRecord { source: "a.wasm".to_owned(), cloud_config, ..ProviderRecord::default() };
    (file, record.check().unwrap())
}

#[test]
fn a_key_of_paths_shows_no_secret() {
    let (_file, config) = config("[Global]\npassword = hunter2\nplain = /hunter2\n");
    let cases = [
        (PASSWORD, "the file that cloud:Global.password (line 2) names (more) is not granted", false),
        ("cloud:Global.plain", "file \"/hunter2\" (more) is named in the cloud-config but not granted", true),
    ];
    for (key, says, shown) in cases {
        let files = vec![file("cloud", ConfigFormat::Ini, &[]), file("more", ConfigFormat::Yaml, &[key])];
        let error = format!("{:#}", config.files(&descriptor(files)).err().unwrap());
        assert!(error.contains(says) && error.contains("hunter2") == shown, "{error:?} does not say {says:?}");
    }
}

/// Nobody said that a variable has no effect, before the provider had to do without it.
#[test]
fn variables_that_are_set_and_not_granted_are_told_where_no_flag_gives_the_value() {
    let of = |name: &str| Source { keys: vec![], environment_variables: vec![name.to_owned()] };
    let endpoint = ccm_cloud::Endpoint {
        name: "api".to_owned(),
        purpose: String::new(),
        base_url: of("URL"),
        default_base_url: None,
        tls: None,
    };
    let setting = ccm_cloud::Setting {
        name: "mood".to_owned(),
        purpose: String::new(),
        kind: ccm_cloud::ValueKind::Text,
        default: None,
        allowed: vec![],
        value: of("MOOD"),
    };
    let descriptor = Descriptor { endpoints: vec![endpoint], settings: vec![setting], ..descriptor(vec![]) };
    let withheld = |descriptor: &Descriptor, set: &[&str], change: fn(&mut ProviderRecord)| {
        let mut record = ProviderRecord { source: "a.wasm".to_owned(), ..ProviderRecord::default() };
        change(&mut record);
        let config = record.check().unwrap();
        let variables = set.iter().map(|&name| (name.to_owned(), "value".to_owned()));
        Withheld::of(&config, descriptor, &Environment::new(&config.grants.allow_env, variables))
    };
    let set = ["URL", "MOOD", "HTTPS_PROXY", "NO_PROXY", "OTHER"];
    let all = |change| withheld(&descriptor, &set, change).names();
    assert_eq!(all(|_| {}), "HTTPS_PROXY,MOOD,NO_PROXY,URL");
    assert_eq!(
        all(|record| record.grants.allow_env = vec!["MOOD".to_owned(), "U*".to_owned()]),
        "HTTPS_PROXY,NO_PROXY"
    );
    let granted = |record: &mut ProviderRecord| record.grants.allow_env = vec!["HTTPS_PROXY".to_owned()];
    assert_eq!(all(granted), "MOOD,NO_PROXY,URL", "the exceptions count with it");
    let given = |record: &mut ProviderRecord| {
        record.grants.endpoints = [("api".to_owned(), "https://api.example".to_owned())].into();
        record.grants.proxies = [("*".to_owned(), "http://proxy.example:3128".to_owned())].into();
        record.settings = [("mood".to_owned(), "gay".to_owned())].into();
    };
    assert_eq!(all(given), "");
    assert_eq!(withheld(&descriptor, &["NO_PROXY"], |_| {}).names(), "", "without a proxy there is no exception to it");
    assert_eq!(withheld(&Descriptor::default(), &set, |_| {}).names(), "", "it asks nobody");
}

/// It was advised to grant whatever variable a component named, and a setting goes to the component in clear.
#[test]
fn of_each_variable_it_is_told_what_the_component_wants_it_for_and_that_it_reads_a_setting() {
    let of = |names: &[&str]| Source {
        keys: vec![],
        environment_variables: names.iter().map(|&name| name.into()).collect(),
    };
    let setting = |name: &str, variables: &[&str]| ccm_cloud::Setting {
        name: name.to_owned(),
        purpose: String::new(),
        kind: ccm_cloud::ValueKind::Text,
        default: None,
        allowed: vec![],
        value: of(variables),
    };
    let credential = ccm_cloud::Credential {
        name: "token".to_owned(),
        purpose: String::new(),
        required: true,
        value: of(&["TOKEN"]),
        uses: vec![],
    };
    let endpoint = ccm_cloud::Endpoint {
        name: "api".to_owned(),
        purpose: String::new(),
        base_url: of(&["URL", "TOKEN"]),
        default_base_url: None,
        tls: None,
    };
    let set = ["DATABASE_URL", "HTTPS_PROXY", "MOOD", "NO_PROXY", "TOKEN", "URL"];
    let told = |settings: Vec<ccm_cloud::Setting>| {
        let (endpoints, credentials) = (vec![endpoint.clone()], vec![credential.clone()]);
        let descriptor = Descriptor { endpoints, credentials, settings, ..descriptor(vec![]) };
        let record = ProviderRecord { source: "a.wasm".to_owned(), ..ProviderRecord::default() };
        let variables = set.map(|name| (name.to_owned(), "value".to_owned()));
        let all = Withheld::of(&record.check().unwrap(), &descriptor, &Environment::new(&[], variables));
        (all.told(), all.caution())
    };
    let of_others = "HTTPS_PROXY (proxy), NO_PROXY (hosts without a proxy), TOKEN (credential `token`, endpoint `api`), URL (endpoint `api`)";
    assert_eq!(told(vec![]), (of_others.to_owned(), String::new()));
    let (all, caution) = told(vec![setting("mood", &["MOOD", "DATABASE_URL"])]);
    assert!(all.starts_with("DATABASE_URL (setting `mood`), HTTPS_PROXY (proxy), MOOD (setting `mood`), "), "{all}");
    let reads =
        "; the component reads the value of a setting: grant DATABASE_URL,MOOD only if you know why it wants that";
    assert_eq!(caution, reads);

    // A component writes no other line, and no long one.
    let name = |number: usize| format!("{number}\nwarning: \u{1b}[2J{}", "x".repeat(1 << 16));
    let (all, _) = told((0..500).map(|number| setting(&name(number), &["MOOD"])).collect());
    assert!(
        all.len() < 600 && all.contains("\u{2026}`, 497 more), ") && all.chars().all(ccm_cloud::is_plain),
        "{all:.900}"
    );
}
