use std::net::SocketAddr;

use ccm_cloud::TlsSources;

use super::*;
use crate::error::TransportReason;
use crate::error::no_answer;
use crate::paths;

fn source(key: &str) -> Source {
    Source { keys: vec![key.to_owned()], environment_variables: vec![] }
}

fn declared(name: &str, default: Option<&str>) -> ccm_cloud::Endpoint {
    let key = |what: &str| source(&format!("cloud:{name}.{what}"));
    ccm_cloud::Endpoint {
        name: name.to_owned(),
        purpose: String::new(),
        base_url: key("url"),
        default_base_url: default.map(ToOwned::to_owned),
        tls: Some(TlsSources {
            ca_file: key("ca"),
            client_certificate: key("cert"),
            client_key: key("key"),
            ca_certificates: key("authorities"),
            verify: key("verify"),
            skip_verification: key("skip"),
        }),
    }
}

fn operator(base_urls: &[(&str, &str)], hosts: &[&str]) -> OperatorGrants {
    OperatorGrants {
        base_urls: base_urls.iter().map(|&(name, url)| (name.to_owned(), url.to_owned())).collect(),
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        ..OperatorGrants::default()
    }
}

fn resolve_sharing(
    declared: &[ccm_cloud::Endpoint],
    operator: &OperatorGrants,
    config: &[(&str, &str)],
    bindings: &Bindings,
) -> Result<Endpoints, Vec<Problem>> {
    let found = |source: &Source| {
        let (key, value) = config.iter().find(|(key, _)| source.keys.iter().any(|wanted| wanted == key))?;
        let is_secret = value.contains("hunter2");
        Some(ConfiguredText { value: (*value).to_owned(), is_secret, origin: (*key).to_owned() })
    };
    Endpoints::resolve(declared, operator, found, ClientSettings::default(), bindings.clone())
}

fn resolve(
    declared: &[ccm_cloud::Endpoint],
    operator: &OperatorGrants,
    config: &[(&str, &str)],
) -> Result<Endpoints, Vec<Problem>> {
    resolve_sharing(declared, operator, config, &Bindings::default())
}

fn told(problems: &[Problem]) -> Vec<(&str, &str, bool)> {
    problems.iter().map(|p| (p.field.as_str(), p.message.as_str(), p.fatal)).collect()
}

#[test]
fn the_operator_comes_before_the_catalogue_and_the_catalogue_before_the_default() {
    let flag: &[(&str, &str)] = &[("api", "https://flag.test:8443/a")];
    let key: &[(&str, &str)] = &[("cloud:api.url", " https://key.test/b/ ")];
    let cases = [
        (flag, key, true, "https://flag.test:8443/a", "--endpoint api=..."),
        (&[], key, true, "https://key.test/b/", "cloud:api.url"),
        (&[], &[], true, "https://catalogue.allowed.test/c", "found by the provider"),
        (&[], &[], false, "https://default.allowed.test/", "the provider's default"),
        (&[], &[("cloud:api.url", " ")], false, "https://default.allowed.test/", "the provider's default"),
    ];
    for (flags, config, bind, url, origin) in cases {
        let declared = [declared("api", Some("https://default.allowed.test"))];
        let endpoints = resolve(&declared, &operator(flags, &["*.allowed.test"]), config).unwrap();
        if bind {
            assert_eq!(endpoints.bind("api", "https://catalogue.allowed.test/c"), Ok(()));
        }
        let base = endpoints.target("api").unwrap().base;
        assert_eq!((base.url.as_str(), base.origin.as_str()), (url, origin));
        assert_eq!(told(endpoints.warnings()), []);
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_no_password_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem").display().to_string();
    let endpoints = ["a", "b", "c", "d", "e"].map(|name| declared(name, None));
    let mut operator = operator(&[("a", "https://me:hush@host.test"), ("x", "https://host.test")], &[]);
    operator.proxies.insert("y".to_owned(), "proxy.test".parse().unwrap());
    let config = [
        ("cloud:b.url", "http://host.test"),
        ("cloud:b.cert", "/cert.pem"),
        ("cloud:c.url", "https://169.254.169.254/latest"),
        ("cloud:c.skip", "maybe"),
        ("cloud:d.url", "https://host.test/?token=hush"),
        ("cloud:d.key", "/key.pem"),
        ("cloud:e.url", "https://host.test/"),
        ("cloud:e.ca", missing.as_str()),
    ];
    let problems = resolve(&endpoints, &operator, &config).err().unwrap();
    let fatal: Vec<&Problem> = problems.iter().filter(|problem| problem.fatal).collect();
    let all = fatal.iter().map(|p| format!("{}: {}", p.field, p.message)).collect::<Vec<_>>().join("\n");
    let expected = [
        r#"endpoints.x: --endpoint x=...: the provider has no such endpoint, it has ["a", "b", "c", "d", "e"]"#,
        r#"endpoints.y: --proxy y=...: the provider has no such endpoint, it has ["a", "b", "c", "d", "e"]"#,
        "endpoints.a: --endpoint a=...: the URL has a user or password in it; secrets are credentials",
        "endpoints.b: cloud:b.url: the URL is http, which needs --allow-http",
        "endpoints.b: cloud:b.cert: a client certificate without its key",
        "endpoints.c: cloud:c.url: the URL leads to a place that is refused: 169.254.169.254 is a link-local address",
        r#"endpoints.c: cloud:c.skip: "maybe" is neither true nor false"#,
        "endpoints.d: cloud:d.url: the URL has a query or fragment",
        "endpoints.d: cloud:d.key: the key of a client certificate that is not given",
        &format!("endpoints.e: {missing} (cloud:e.ca): No such file or directory (os error 2)"),
    ];
    assert_eq!(all, expected.join("\n"));
}

/// It was told for each endpoint.
#[test]
fn a_file_that_several_endpoints_trust_is_told_once_with_the_key_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let no_certificate = folder.path().join("ca.pem");
    std::fs::write(&no_certificate, "no certificate").unwrap();
    let endpoints = ["identity", "compute", "network"].map(|name| {
        let mut endpoint = declared(name, None);
        endpoint.tls.as_mut().unwrap().ca_file = source("cloud:global.ca-file");
        endpoint
    });
    for (path, why) in [
        (folder.path().join("missing.pem"), "No such file or directory (os error 2)"),
        (no_certificate, "no certificate in it"),
    ] {
        let path = path.display().to_string();
        let problems = resolve(&endpoints, &operator(&[], &[]), &[("cloud:global.ca-file", &path)]).err().unwrap();
        let message = format!("{path} (cloud:global.ca-file): {why}");
        assert_eq!(told(&problems), [("endpoints.identity, compute, network", message.as_str(), true)]);
    }
}

#[test]
fn what_is_wrong_with_a_base_url_of_the_operator_is_known_before_there_is_a_provider() {
    let mut operator = operator(&[("a", " https://a.test "), ("b", "http://b.test"), ("c", "https://[::1]")], &[]);
    let expected = [
        ("endpoints.b", "--endpoint b=...: the URL is http, which needs --allow-http", true),
        (
            "endpoints.c",
            "--endpoint c=...: the URL leads to a place that is refused: ::1 is a loopback address, which --allow-loopback would grant",
            true,
        ),
    ];
    assert_eq!(told(&operator.problems()), expected);
    operator.allow_http = true;
    operator.addresses.loopback = true;
    assert_eq!(told(&operator.problems()), []);
}

#[test]
fn without_a_base_url_requests_end_with_what_to_give_and_say_whether_there_is_one_that_is_not_allowed() {
    let endpoints = [declared("api", Some("https://api.cloud.test/v2")), declared("dns", None)];
    let endpoints = resolve(&endpoints, &operator(&[], &["other.test"]), &[]).unwrap();
    let api = "has no base URL: give --endpoint api=URL, or one of the keys [\"cloud:api.url\"]; for the provider's default \
               https://api.cloud.test/v2, the host api.cloud.test is not allowed; --allow-host api.cloud.test would allow it";
    let dns = "has no base URL: give --endpoint dns=URL, or one of the keys [\"cloud:dns.url\"]";
    assert_eq!(told(endpoints.warnings()), [("endpoints.api", api, false), ("endpoints.dns", dns, false)]);
    for (name, reason, advice) in [("api", TransportReason::Denied, api), ("dns", TransportReason::Unbound, dns)] {
        assert_eq!(
            endpoints.target(name).map(|target| target.base),
            Err(TransportError::unsent(reason, format!("endpoint `{name}` {advice}")))
        );
    }
    let error = endpoints.target("ap\ni").map(|target| target.base).unwrap_err();
    assert_eq!(error.message, r#"the provider declares no endpoint `ap\ni`, only ["api", "dns"]"#);
    assert_eq!(endpoints.target("x").err().unwrap().reason, TransportReason::Denied);
}

/// Each service of a catalogue was warned of at each start, though a login finds all of them.
#[test]
fn what_a_provider_finds_by_itself_is_warned_of_only_where_nothing_leads_there() {
    let found = ccm_cloud::Endpoint { base_url: Source::default(), ..declared("compute", None) };
    let endpoints = [declared("identity", None), found];
    let told_with = |base_urls: &[(&str, &str)]| {
        let resolved = resolve(&endpoints, &operator(base_urls, &[]), &[]).unwrap();
        assert_eq!(resolved.target("compute").err().map(|error| error.reason), Some(TransportReason::Unbound));
        let fields: Vec<String> = resolved.warnings().iter().map(|problem| problem.field.clone()).collect();
        fields.join(" ")
    };
    assert_eq!(told_with(&[("identity", "https://identity.test")]), "");
    assert_eq!(told_with(&[]), "endpoints.identity endpoints.compute");
}

#[test]
fn a_default_is_held_to_the_rules_of_all_others() {
    let cases = [
        ("http://api.allowed.test", "is http, which needs --allow-http"),
        ("https://127.0.0.1", "--allow-loopback would grant"),
        ("https://me@api.allowed.test", "user or password"),
        ("nonsense", "must begin with https://"),
    ];
    for (default, part) in cases {
        let operator = operator(&[], &["*.allowed.test", "127.0.0.1"]);
        let endpoints = resolve(&[declared("api", Some(default))], &operator, &[]).unwrap();
        let message = endpoints.target("api").map(|target| target.base).unwrap_err().message;
        assert!(message.contains(part), "{default}: {message:?} does not say {part:?}");
    }
}

#[test]
fn a_provider_binds_only_what_it_declared_and_only_to_allowed_hosts() {
    let hosts = ["*.allowed.test", "169.254.169.254", "127.0.0.1", "[::1]", "[fd00:ec2::254]", "port.test:8443"];
    let endpoints = resolve(
        &[declared("auth", None), declared("api", None)],
        &operator(&[("auth", "https://cloud.test:5000/v3")], &hosts),
        &[],
    )
    .unwrap();
    let refused = [
        ("https://evil.test/", "--allow-host evil.test would allow it"),
        ("https://allowed.test/", "not allowed"),
        ("https://allowed.test.evil.test/", "not allowed"),
        ("https://evil.test/#.allowed.test", "query or fragment"),
        ("https://evil.test/x.allowed.test", "not allowed"),
        ("https://port.test/", "not allowed"),
        ("https://x.cloud.test:5000/", "not allowed"),
        ("https://[fd00::1]/", "--allow-host [fd00::1] would allow it"),
        ("http://api.allowed.test/", "needs --allow-http"),
        ("http://cloud.test:5000/", "needs --allow-http"),
        ("ftp://api.allowed.test/", "must begin with https://"),
        ("//api.allowed.test/", "must begin with https://"),
        ("api.allowed.test", "must begin with https://"),
        ("https:api.allowed.test", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("", "must begin with https://"),
        ("https://", "cannot be read"),
        ("https://api.allowed.test@evil.test/", "user or password"),
        ("https://evil.test@api.allowed.test/", "user or password"),
        ("https://me:hush@api.allowed.test/", "user or password"),
        ("https://@api.allowed.test/", "user or password"),
        ("https://:@api.allowed.test/", "user or password"),
        ("https://api.allowed.test/?x=1", "query or fragment"),
        ("https://api.allowed.test/#x", "query or fragment"),
        ("https://evil.test\\.allowed.test/", "backslashes"),
        ("https://evil.test\t.allowed.test/", "control characters"),
        ("https://api.allowed.test/\r\nhost: evil.test", "control characters"),
        (" https://api.allowed.test/", "spaces"),
        ("https://api.allowed.test/a//b", "empty segment"),
        ("https://api.allowed.test/a%2fb", "encoded slash"),
        ("https://api.allowed.test/%(project_id)s", "two hex digits"),
        ("https://..allowed.test/", "no proper host"),
        ("https://169.254.169.254/latest", "link-local"),
        ("https://0xa9fea9fe/latest", "link-local"),
        ("https://[::ffff:169.254.169.254]/", "link-local"),
        ("https://[fd00:ec2::254]/", "metadata service"),
        ("https://127.0.0.1/", "loopback"),
        ("https://127.1/", "loopback"),
        ("https://[::1]/", "loopback"),
    ];
    for (url, part) in refused {
        let error = endpoints.bind("api", url).unwrap_err();
        assert!(error.message.contains(part), "{url:?}: {:?} does not say {part:?}", error.message);
        assert!(!error.message.contains("hush"), "{}", error.message);
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{url:?}");
    }
    let long = format!("https://api.allowed.test/{}", "x".repeat(MAX_BASE_URL));
    assert!(endpoints.bind("api", &long).unwrap_err().message.contains("longer than 2048 bytes"));
    assert!(endpoints.bind("other", "https://api.allowed.test/").unwrap_err().message.contains("declares no endpoint"));
    assert!(endpoints.target("api").map(|target| target.base).is_err(), "nothing of it was bound");

    let allowed = [
        ("https://api.allowed.test", "https://api.allowed.test/"),
        ("https://A.b.Allowed.test:8774/v2.1/", "https://a.b.allowed.test:8774/v2.1/"),
        ("https://cloud.test:8774/v2.1", "https://cloud.test:8774/v2.1"),
        ("https://port.test:8443", "https://port.test:8443/"),
        ("https://api.allowed.test/a/../b", "https://api.allowed.test/b"),
    ];
    for (url, base) in allowed {
        assert_eq!(endpoints.bind("api", url), Ok(()), "{url}");
        assert_eq!(endpoints.target("api").unwrap().base.url.as_str(), base);
    }
    assert_eq!(endpoints.bind("auth", "https://evil.test/"), Ok(()), "ignored: the operator's stays");
    assert_eq!(endpoints.target("auth").unwrap().base.url.as_str(), "https://cloud.test:5000/v3");
}

#[test]
fn a_binding_is_handed_on_and_held_to_the_rules_of_then() {
    let bindings = Bindings::default();
    let old = [declared("api", None)];
    let first = resolve_sharing(&old, &operator(&[], &["api.test"]), &[], &bindings).unwrap();
    first.bind("api", "https://api.test/v2").unwrap();
    drop(first);
    let second = resolve_sharing(&old, &operator(&[], &["*.test"]), &[], &bindings).unwrap();
    assert_eq!(second.target("api").unwrap().base.url.as_str(), "https://api.test/v2");
    let narrower = resolve_sharing(&old, &operator(&[], &["other.test"]), &[], &bindings).unwrap();
    assert!(
        narrower
            .target("api")
            .map(|target| target.base)
            .unwrap_err()
            .message
            .contains("--allow-host api.test would allow it")
    );
    let other = resolve_sharing(&[declared("dns", None)], &operator(&[], &["*.test"]), &[], &bindings).unwrap();
    assert!(other.target("api").map(|target| target.base).unwrap_err().message.contains("declares no endpoint"));
    second.bind("api", "https://other.test/").unwrap();
    assert_eq!(second.target("api").unwrap().base.url.as_str(), "https://other.test/", "the next takes its place");
}

#[test]
fn what_a_copy_binds_changes_nothing_for_the_one_before() {
    let declared = [declared("api", None)];
    let first = resolve(&declared, &operator(&[], &["*.test"]), &[]).unwrap();
    first.bind("api", "https://api.test/v2").unwrap();
    let second = resolve_sharing(&declared, &operator(&[], &["*.test"]), &[], &first.bindings().copy()).unwrap();
    assert_eq!(second.target("api").unwrap().base.url.as_str(), "https://api.test/v2");
    second.bind("api", "https://other.test/").unwrap();
    first.bind("api", "https://api.test/v3").unwrap();
    assert_eq!(second.target("api").unwrap().base.url.as_str(), "https://other.test/");
    assert_eq!(first.target("api").unwrap().base.url.as_str(), "https://api.test/v3");
}

/// A component says which key is what: it may name the one of a password.
#[test]
fn a_secret_is_shown_by_its_place_whatever_the_component_takes_it_for() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join("hunter2");
    let (absent, broken) = ("hunter2", hidden.to_str().unwrap());
    std::fs::write(&hidden, "no certificate").unwrap();
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("cloud:a.skip", "hunter2")], "cloud:a.skip: the value, which is not shown here, is neither true nor false"),
        (&[("cloud:a.ca", absent)], "the file that cloud:a.ca names: No such file"),
        (&[("cloud:a.ca", broken)], "the file that cloud:a.ca names: no certificate in it"),
        (&[("cloud:a.cert", absent), ("cloud:a.key", absent)], "the file that cloud:a.key names: No such file"),
        (&[("cloud:a.cert", broken), ("cloud:a.key", broken)], "the file that cloud:a.cert names and the file that"),
        (&[("cloud:a.cert", absent)], "cloud:a.cert: a client certificate without its key"),
        (&[("cloud:a.key", absent)], "cloud:a.key: the key of a client certificate that is not given"),
        (&[("cloud:a.url", "hunter2")], "cloud:a.url is taken for a secret, not for a URL; give --endpoint a=URL"),
        (&[("cloud:a.url", "https://hunter2.test")], "cloud:a.url is taken for a secret"),
    ];
    for (config, says) in cases {
        let problems = resolve(&[declared("a", None)], &operator(&[], &[]), config).err().unwrap();
        let told = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        assert!(told.contains(says) && !told.contains("hunter2"), "{told:?} does not say {says:?}");
    }
    let config = [("cloud:a.ca", broken)];
    let mut problems = Vec::new();
    let found = |source: &Source| {
        let (key, value) = config.iter().find(|(key, _)| source.keys.iter().any(|wanted| wanted == key))?;
        Some(ConfiguredText { value: (*value).to_owned(), is_secret: true, origin: (*key).to_owned() })
    };
    let grant = grant(&declared("a", None), &operator(&[], &[]), &found, &mut problems);
    assert!(!format!("{grant:?}").contains("hunter2"), "{grant:?}");
}

#[test]
fn what_is_given_for_an_endpoint_stays_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let made = rcgen::generate_simple_self_signed(["api.test".to_owned()]).unwrap();
    std::fs::write(&path, made.cert.pem()).unwrap();
    let mut operator = operator(&[("a", "https://a.test"), ("b", "https://b.test")], &[]);
    operator.environment_proxy = Some(Proxy::from_environment("http://everywhere.test", None).unwrap());
    operator.allow_skip_verification = true;
    operator.proxies.insert("b".to_owned(), "http://special.test".parse().unwrap());
    let config = [("cloud:a.ca", path.to_str().unwrap()), ("cloud:b.skip", "Yes")];
    let endpoints = resolve(&["a", "b"].map(|name| declared(name, None)), &operator, &config).unwrap();
    let (a, b) = (&endpoints.endpoints["a"].grant, &endpoints.endpoints["b"].grant);
    assert_eq!(a.tls, TlsOptions { ca_file: Some(path.into()), ..TlsOptions::default() });
    assert_eq!(b.tls, TlsOptions { skip_verification: true, ..TlsOptions::default() });
    // As clouds.yaml says it, and with the authorities in the configuration itself.
    let pem = made.cert.pem();
    let rows = [
        (vec![("cloud:a.verify", "false")], TlsOptions { skip_verification: true, ..TlsOptions::default() }),
        (vec![("cloud:a.verify", "true")], TlsOptions::default()),
        (
            vec![("cloud:a.verify", "true"), ("cloud:a.skip", "true")],
            TlsOptions { skip_verification: true, ..TlsOptions::default() },
        ),
        (
            vec![("cloud:a.verify", "no"), ("cloud:a.skip", "false")],
            TlsOptions { skip_verification: true, ..TlsOptions::default() },
        ),
        (
            vec![("cloud:a.authorities", pem.as_str())],
            TlsOptions {
                ca_certificates: Some(InlinePem {
                    pem: pem.trim().to_owned(),
                    origin: "cloud:a.authorities".to_owned(),
                }),
                ..TlsOptions::default()
            },
        ),
    ];
    for (config, wanted) in rows {
        let endpoints = resolve(&["a", "b"].map(|name| declared(name, None)), &operator, &config).unwrap();
        assert_eq!(endpoints.endpoints["a"].grant.tls, wanted, "{config:?}");
    }
    let proxies = [a, b].map(|grant| format!("{:?}", grant.proxy.as_ref().unwrap()));
    assert_eq!(proxies, ["Proxy(http://everywhere.test/)", "Proxy(http://special.test/)"]);
    let [warning] = endpoints.warnings() else { panic!("{:?}", endpoints.warnings()) };
    assert!(warning.field == "endpoints.b" && warning.message.starts_with("trusts anybody"), "{warning:?}");
}

/// A component named any key that is true, and the secrets went to whoever stood in between.
#[test]
fn nobody_is_trusted_unseen_unless_the_operator_says_so() {
    for config in [[("cloud:a.skip", "true")], [("cloud:a.verify", "false")]] {
        let resolved = |allow: bool| {
            let operator =
                OperatorGrants { allow_skip_verification: allow, ..operator(&[("a", "https://a.test")], &[]) };
            resolve(&[declared("a", None)], &operator, &config)
        };
        let problems = resolved(false).err().unwrap();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.fatal && problem.message.contains("--allow-skip-verification"), "{problem:?}");
        assert!(resolved(true).is_ok_and(|endpoints| endpoints.endpoints["a"].grant.tls.skip_verification));
    }
}

#[tokio::test]
async fn an_allowed_name_that_leads_to_a_metadata_service_is_still_denied() {
    let mut operator = operator(&[("api", "http://api.test")], &[]);
    operator.allow_http = true;
    for (ip, granted) in [("169.254.169.254", false), ("169.254.169.254", true), ("127.0.0.1", false)] {
        operator.addresses.loopback = granted;
        let address = SocketAddr::new(ip.parse().unwrap(), 0);
        let lookup: Lookup = Arc::new(move |_| Box::pin(std::future::ready(Ok(vec![address]))));
        let endpoints = Endpoints::resolve_with(
            &[declared("api", None)],
            &operator,
            |_| None,
            ClientSettings::default(),
            Bindings::default(),
            &lookup,
        );
        let endpoints = endpoints.unwrap();
        let url = paths::url(&endpoints.target("api").unwrap().base.url, "/latest/meta-data", None).unwrap();
        let error = endpoints.target("api").unwrap().client().unwrap().get(url).send().await.unwrap_err();
        let error = no_answer(error, "GET /latest/meta-data");
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{ip}: {error}");
    }
}
