use std::path::PathBuf;

use ccm_cloud::{ConfigFormat, ValueKind};

use super::*;
use crate::secret::Secret;

const TOKEN: &str = "cloud:Global.token";

fn used(endpoint: &str, place: Place, path: Option<&str>) -> CredentialUse {
    CredentialUse { endpoint: endpoint.into(), place, path: path.map(Into::into) }
}

fn header() -> CredentialUse {
    used("api", Place::Header("authorization".into()), None)
}

fn body(path: &str) -> CredentialUse {
    used("api", Place::Body, Some(path))
}

fn source(key: &str) -> Source {
    Source { keys: vec![key.to_owned()], environment_variables: vec![] }
}

fn credential(name: &str, key: &str, uses: &[CredentialUse]) -> Credential {
    let value = if key.is_empty() { Source::default() } else { source(key) };
    Credential { name: name.into(), purpose: String::new(), required: false, value, uses: uses.to_vec() }
}

fn file(name: &str) -> ConfigFile {
    ConfigFile { name: name.into(), format: ConfigFormat::Yaml, path_keys: vec![], default_paths: vec![] }
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        name: name.into(),
        purpose: String::new(),
        base_url: source("cloud:Global.url"),
        default_base_url: Some("https://api.test/v2".into()),
        tls: None,
    }
}

fn descriptor(credentials: Vec<Credential>) -> Descriptor {
    Descriptor {
        name: "test".into(),
        version: String::new(),
        revision: String::new(),
        provider_id_schemes: vec![],
        files: vec![file("cloud"), file("more")],
        endpoints: vec![endpoint("api"), endpoint("other")],
        credentials,
        settings: vec![Setting {
            name: "cloud".into(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: Some("a".into()),
            allowed: vec![],
            value: source("cloud:Global.cloud"),
        }],
        annotations: vec![],
        ..Descriptor::default()
    }
}

/// A component whose credentials have values where they say: keys of files, or variables where they begin with `$`.
fn pin(descriptor: &Descriptor, by_hand: &[&str]) -> Pin {
    let value = |credential: &Credential| {
        let name = credential.name.clone();
        if by_hand.contains(&name.as_str()) {
            return Some((name, CredentialSource::file("/token".into())));
        }
        let variables = credential.value.environment_variables.iter();
        let variable = variables.map(|variable| CredentialSource::Environment {
            variable: variable.clone(),
            value: Secret::new(b"value".to_vec()),
        });
        let key = credential.value.keys.first().and_then(|key| key.split_once(':')).map(|(file, key)| {
            let at = descriptor.files.iter().position(|known| known.name == file).unwrap_or(9);
            let cloud = descriptor.settings.iter().find_map(|setting| setting.default.clone()).unwrap_or_default();
            let key = key.replace("{cloud}", &cloud);
            CredentialSource::config_key(PathBuf::from(format!("/{at}")), ConfigFormat::Yaml, &key)
        });
        variable.chain(key).next().map(|source| (name, source))
    };
    let sources = descriptor.credentials.iter().filter_map(value).collect();
    Pin::new(descriptor, &sources, |name| by_hand.contains(&name))
}

fn wider(old: &Descriptor, new: &Descriptor, by_hand: &[&str]) -> Vec<String> {
    pin(old, by_hand).widened(&pin(new, by_hand), |endpoint| by_hand.contains(&endpoint))
}

#[test]
fn a_later_component_may_not_widen_what_a_credential_is_used_for() {
    let signing = || used("api", Place::Signing, None);
    let capitals = used("api", Place::Header("Authorization".into()), None);
    let cases = [
        (vec![header()], vec![header()], 0),
        (vec![header()], vec![capitals], 0),
        (vec![header()], vec![], 0),
        (vec![header(), body("/a")], vec![header()], 0),
        (vec![header()], vec![header(), body("/a")], 1),
        (vec![body("/a")], vec![body("/b")], 1),
        (vec![header()], vec![used("other", Place::Header("authorization".into()), None)], 1),
        (vec![header(), signing()], vec![header()], 1),
        (vec![header()], vec![header(), signing()], 1),
        (vec![header(), signing()], vec![header(), signing()], 0),
    ];
    // Whoever gives the value, and if nobody does: an answer may.
    for (key, by_hand) in [(TOKEN, &[][..]), ("", &[]), ("", &["c"]), (TOKEN, &["c"])] {
        for (old, new, number) in &cases {
            let old = descriptor(vec![credential("c", key, old)]);
            let new = descriptor(vec![credential("c", key, new)]);
            let wider = wider(&old, &new, by_hand);
            assert_eq!(wider.len(), *number, "{key} {by_hand:?} {wider:?}");
        }
    }
}

/// The value counts, not the name.
#[test]
fn a_secret_does_not_get_free_under_another_name() {
    let old = descriptor(vec![credential("c", TOKEN, &[header()]), credential("d", "cloud:Global.d", &[body("/d")])]);
    let variable = |uses: &[CredentialUse]| {
        let value = Source { keys: vec![], environment_variables: vec!["TOKEN".to_owned()] };
        Credential { value, ..credential("fresh", "", uses) }
    };
    let cases = [
        // The same secret under a new name: what it may do is what it could.
        (credential("fresh", TOKEN, &[header()]), 0),
        (credential("fresh", TOKEN, &[body("/a")]), 1),
        (credential("fresh", TOKEN, &[header(), body("/a")]), 1),
        // A secret of the configuration that was no credential.
        (credential("fresh", "cloud:Global.password", &[header()]), 1),
        (variable(&[header()]), 1),
        // Nobody gave it a value: an answer may.
        (credential("fresh", "", &[body("/a")]), 1),
        (credential("fresh", "", &[]), 0),
        // Another secret under an old name: uses are those of the secret.
        (credential("c", "cloud:Global.d", &[header()]), 1),
        (credential("c", "cloud:Global.d", &[body("/d")]), 0),
        (credential("c", "cloud:Global.password", &[header()]), 1),
        (credential("c", "more:Global.token", &[header()]), 1),
    ];
    for (new, number) in cases {
        let told = wider(&old, &descriptor(vec![new.clone()]), &[]);
        assert_eq!(told.len(), number, "{new:?} {told:?}");
    }
    let by_hand = descriptor(vec![credential("fresh", TOKEN, &[body("/a")])]);
    assert!(wider(&old, &by_hand, &["fresh"]).is_empty(), "the operator gave it");
    // A key that only signed does not leave under another name.
    let signing = [header(), used("api", Place::Signing, None)];
    let old = descriptor(vec![credential("key", TOKEN, &signing)]);
    assert_eq!(wider(&old, &descriptor(vec![credential("fresh", TOKEN, &[header()])]), &[]).len(), 1);
    assert!(wider(&old, &descriptor(vec![credential("fresh", TOKEN, &signing)]), &[]).is_empty());
}

#[test]
fn settings_and_files_do_not_lead_a_key_to_another_secret() {
    let made = |change: fn(&mut Descriptor)| {
        let mut made = descriptor(vec![credential("c", "cloud:clouds.{cloud}.token", &[header()])]);
        change(&mut made);
        made
    };
    type Change = fn(&mut Descriptor);
    let cases: [(Change, usize); 4] = [
        (|_| {}, 0),
        (|new| new.settings[0].default = Some("b".into()), 1),
        (|new| new.files.swap(0, 1), 2),
        (|new| new.version = "2".into(), 0),
    ];
    for (change, number) in cases {
        let told = wider(&made(|_| {}), &made(change), &[]);
        assert_eq!(told.len(), number, "{told:?}");
    }
}

/// Who moves a value, or gives the first one, need not say so twice.
#[test]
fn the_operator_may_change_the_configuration_of_the_same_component() {
    let of = |keys: &[&str]| {
        let value = Source { keys: keys.iter().map(|&key| key.to_owned()).collect(), environment_variables: vec![] };
        descriptor(vec![Credential { value, ..credential("c", "", &[header()]) }])
    };
    let component = of(&["cloud:Global.a", "cloud:Global.b"]);
    let at = |key: &str| {
        let source = CredentialSource::config_key("/0".into(), ConfigFormat::Ini, key);
        Pin::new(&component, &BTreeMap::from([("c".to_owned(), source)]), |_| false)
    };
    let without = Pin::new(&component, &BTreeMap::new(), |_| false);
    for (old, new) in [(at("Global.a"), at("Global.b")), (at("Global.a"), at("Global.a")), (without, at("Global.b"))] {
        assert_eq!(old.widened(&new, |_| false), [""; 0]);
    }
}

#[test]
fn an_endpoint_that_gets_credentials_stays_where_it_is() {
    let uses = [header()];
    let old = descriptor(vec![credential("c", TOKEN, &uses)]);
    let tls = |key: &str| {
        let skip_verification = source(key);
        TlsSources { skip_verification, ..TlsSources::default() }
    };
    type Change<'a> = &'a dyn Fn(&mut Endpoint);
    // Without and with `--endpoint api=...`.
    let cases: [(Change<'_>, usize, usize); 7] = [
        (&|_| {}, 0, 0),
        (&|api| api.base_url = source("cloud:Global.region"), 1, 0),
        (&|api| api.default_base_url = Some("https://evil.test/v2".into()), 1, 0),
        (&|api| api.default_base_url = Some("https://api.test:444/v2".into()), 1, 0),
        (&|api| api.default_base_url = Some("https://api.test/v3".into()), 0, 0),
        (&|api| api.default_base_url = None, 0, 0),
        (&|api| api.tls = Some(tls("cloud:Global.yes")), 1, 1),
    ];
    for (change, number, given) in cases {
        for at in [0, 1] {
            let mut new = old.clone();
            change(&mut new.endpoints[at]);
            let told = [wider(&old, &new, &[]).len(), wider(&old, &new, &["api"]).len()];
            // No credential goes to the other endpoint.
            assert_eq!(told, if at == 0 { [number, given] } else { [0, 0] }, "{:?}", new.endpoints);
        }
    }
    // A new endpoint is a new use.
    let mut new = descriptor(vec![credential("c", TOKEN, &[used("new", header().place, None)])]);
    new.endpoints.push(endpoint("new"));
    assert_eq!(
        wider(&old, &new, &[]),
        ["credential \"c\" in header \"authorization\" of requests to endpoint \"new\""]
    );
}

/// It was no use of any credential that was there before.
#[test]
fn neither_a_new_captured_credential_nor_a_new_endpoint_escapes_the_pin() {
    let old = descriptor(vec![credential("c", TOKEN, &[header()])]);
    let mut new = descriptor(vec![
        credential("c", TOKEN, &[header()]),
        credential("session", "", &[used("other", Place::Header("x-auth-token".into()), None)]),
    ]);
    assert_eq!(
        wider(&old, &new, &[]),
        [
            "the new credential \"session\", which answers may give, in header \"x-auth-token\" of requests to endpoint \"other\""
        ]
    );
    new.credentials[1] = credential("given", "", &[used("new", header().place, None)]);
    new.endpoints.push(endpoint("new"));
    let told = wider(&old, &new, &["given"]);
    assert_eq!(told, ["credentials at the endpoint \"new\", which was not there before,"]);
}

/// A successor called a member `name`, and with it each change of a load balancer was a read.
#[test]
fn a_successor_marks_a_dry_run_as_the_first_component_does_or_not_at_all() {
    let marked = |mark: &str| Descriptor {
        more: [(Descriptor::DRY_RUN.to_owned(), mark.to_owned())].into(),
        ..descriptor(vec![credential("c", TOKEN, &[header()])])
    };
    let unmarked = || Descriptor { more: [].into(), ..marked("") };
    for (old, new) in [
        (marked("judge_only"), marked("judge_only")),
        (marked("judge_only"), unmarked()),
        (marked("judge_only"), marked("")),
        (marked(""), unmarked()),
        (unmarked(), marked("")),
    ] {
        assert_eq!(wider(&old, &new, &[]), [""; 0], "{:?} {:?}", old.more, new.more);
    }
    for old in [unmarked(), marked(""), marked("judge_only")] {
        let told = wider(&old, &marked("name"), &[]);
        let says = "the member \"name\" as the mark of a dry run, with which a PUT counts as a read when the cloud judges a Service,";
        assert_eq!(told, [says], "{:?}", old.more);
        // It is a name of the component's own.
        let told = wider(&old, &marked(&"n\n".repeat(1_000)), &[]).remove(0);
        assert!(told.len() < 500 && !told.contains('\n'), "{told}");
    }
}
