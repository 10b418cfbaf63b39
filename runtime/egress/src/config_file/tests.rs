mod gcfg;

use ccm_cloud::Source;
use serde_json::json;

use super::value::Shape;
use super::*;

const INI: ConfigFormat = ConfigFormat::Ini;
const JSON: ConfigFormat = ConfigFormat::Json;
const YAML: ConfigFormat = ConfigFormat::Yaml;

fn file(text: &str, format: ConfigFormat) -> ConfigFile {
    match ConfigFile::read(text.as_bytes(), format) {
        Ok(file) => file.unwrap_or_else(|| panic!("{text:?} says nothing")),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

fn error(text: &str, format: ConfigFormat) -> String {
    match ConfigFile::read(text.as_bytes(), format) {
        Ok(_) => panic!("{text:?} is accepted"),
        Err(error) => error.to_string(),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
}

fn guest(file: &ConfigFile, declared: &[(&str, &str)]) -> serde_json::Value {
    serde_json::from_str(&file.for_guest(&map(declared))).unwrap()
}

/// Where a value is, and what it is: blank is `<blank>`.
fn told<'a>(value: &ConfigValue<'a>) -> (&'a str, usize) {
    (if matches!(value.shape, Shape::Blank) { "<blank>" } else { value.text().unwrap_or("<no text>") }, value.line())
}

#[test]
fn a_guest_gets_ini_as_the_list_of_its_entries_as_they_are_written() {
    let file = file("[Global]\nAuth-URL = u\n\n[lb \"A b\"]\nkey\nkey =\n[Empty]\n", INI);
    let expected = json!([
        {"section": "Global", "name": null, "key": "Auth-URL", "value": "u", "line": 2},
        {"section": "lb", "name": "A b", "key": "key", "value": null, "line": 5},
        {"section": "lb", "name": "A b", "key": "key", "value": "", "line": 6},
    ]);
    assert_eq!(guest(&file, &[]), expected);
}

#[test]
fn the_last_occurrence_and_each_item_are_found_with_their_lines() {
    let ini = "[n]\npublic = a\nother = x\npublic = b c\n[n]\npublic=\n";
    let blank = "[n]\npublic = a\npublic";
    let yaml = "n:\n  public:\n  - a\n  - {b: c}\n  - null\n  - 7\n  single: x\n  nothing:\n";
    let cases = [
        (ini, INI, "N.Public", Some(("", 6))),
        (blank, INI, "n.public", Some(("<blank>", 3))),
        (blank, INI, "n.other", None),
        (yaml, YAML, "n.public.1", Some(("<no text>", 4))),
        (yaml, YAML, "n.public.2", None),
        (yaml, YAML, "n.public.3", Some(("7", 6))),
        (yaml, YAML, "n.single", Some(("x", 7))),
        (yaml, YAML, "n.nothing", None),
        (yaml, YAML, "n.public.0", Some(("a", 3))),
        ("{\"n\":\n[1,\n\"b\"]}", JSON, "n.1", Some(("b", 3))),
    ];
    for (text, format, key, expected) in cases {
        assert_eq!(file(text, format).value(key).map(|value| told(&value)), expected, "{text:?} {key}");
    }
}

#[test]
fn json_and_yaml_values_are_told_as_they_are_written() {
    let yaml = "version: 4.20\nyes: yes\nTrue: True\nnothing: ~\ntag: !!int \"7\"\nhex: 0x1F\nlong: 123456789012345678901234567890\n\
                anchor: &a 1.10\nalias: *a\nlist: [1.0, x]\nmap: {k: \"0\"}\n1: one\nmerged:\n  <<: {m: 2.50}\n";
    let json = "{\n\"version\": 4.20,\n\"big\": 1e3, \"text\": \"a\\u00e4\\n\",\n\"map\": {\"k\": [true, {\"d\": -0}]},\"k\":1,\"k\":2}";
    let cases = [
        (yaml, YAML, "version", Some(("4.20", 1))),
        (yaml, YAML, "yes", Some(("yes", 2))),
        (yaml, YAML, "True", Some(("True", 3))),
        (yaml, YAML, "true", None),
        (yaml, YAML, "nothing", None),
        (yaml, YAML, "tag", Some(("7", 5))),
        (yaml, YAML, "hex", Some(("0x1F", 6))),
        (yaml, YAML, "long", Some(("123456789012345678901234567890", 7))),
        (yaml, YAML, "alias", Some(("1.10", 9))),
        (yaml, YAML, "list", Some(("<no text>", 10))),
        (yaml, YAML, "list.0", Some(("1.0", 10))),
        (yaml, YAML, "list.2", None),
        (yaml, YAML, "list.x", None),
        (yaml, YAML, "map", Some(("<no text>", 11))),
        (yaml, YAML, "map.k", Some(("0", 11))),
        (yaml, YAML, "map.k.l", None),
        (yaml, YAML, "1", Some(("one", 12))),
        (json, JSON, "version", Some(("4.20", 2))),
        (json, JSON, "big", Some(("1e3", 3))),
        (json, JSON, "text", Some(("aä\n", 3))),
        (json, JSON, "map.k.0", Some(("true", 4))),
        (json, JSON, "map.k.1.d", Some(("-0", 4))),
        (json, JSON, "k", Some(("2", 4))),
        (json, JSON, "K", None),
    ];
    for (text, format, key, expected) in cases {
        assert_eq!(file(text, format).value(key).map(|value| told(&value)), expected, "{key}");
    }
    assert_eq!(file(yaml, YAML).value("merged.m").unwrap().text(), Some("2.50"));
}

#[test]
fn a_file_that_says_nothing_is_none_and_other_forms_reach_the_guest_as_json() {
    let nothing = [
        ("", YAML),
        ("# only a comment\n", YAML),
        ("---\n", YAML),
        ("null", JSON),
        ("  \n", JSON),
        ("", INI),
        ("; c\n#\n", INI),
    ];
    for (text, format) in nothing {
        assert!(ConfigFile::read(text.as_bytes(), format).unwrap().is_none(), "{text:?}");
    }
    let cases = [
        ("mode: adaptive\npool:\n  cidr: 10.0.0.0/24\n", YAML, r#"{"mode":"adaptive","pool":{"cidr":"10.0.0.0/24"}}"#),
        (r#"{"mode": "fixture"}"#, YAML, r#"{"mode":"fixture"}"#),
        ("\u{feff}a: 1\n", YAML, r#"{"a":1}"#),
        (r#"{"a": [1, true, null, 1.5]}"#, JSON, r#"{"a":[1,true,null,1.5]}"#),
        ("[Global]", INI, "[]"),
    ];
    for (text, format, json) in cases {
        assert_eq!(file(text, format).for_guest(&map(&[])), json, "{text:?}");
    }
}

#[test]
fn what_cannot_be_read_says_where_and_why_and_shows_nothing_of_the_file() {
    let cases: [(&[u8], ConfigFormat, &str); 24] = [
        (b"mode: [hunter2\n", YAML, "line 1, column 7: not YAML: unclosed bracket"),
        (b"mode: a\nmode: hunter2\n", YAML, "line 2, column 1: not YAML: the name \"mode\" is there twice"),
        (b"a:\n  b: hunter2\n c: d\n", YAML, "line 3, column 2: not YAML: "),
        (b"a: \"hunter2", YAML, "not YAML: "),
        (b"a: @hunter2", YAML, "line 1, column 4: not YAML: unexpected character"),
        (b"a: *hunter2", YAML, "line 1, column 4: not YAML: an alias (*name)"),
        (b"a: 1\n---\nb: hunter2", YAML, "a second document begins here"),
        (b"a: 1e999", YAML, "line 1, column 4: not YAML: a number that is not finite"),
        (b"a: hunter2\n<<: hunter2\n", YAML, "line 2, column 5: not YAML: what `<<` merges"),
        (b"a: !!binary hunter2\n", YAML, "line 1, column"),
        (b"a: &a [*a, hunter2]\n", YAML, "line 1, column"),
        (b"- hunter2\n- b\n", YAML, "line 1, column 1: the file must be a mapping of names to values, not a list"),
        (b"# c\nhunter2", YAML, "line 2, column 1: the file must be a mapping of names to values, not a single value"),
        (b"mode: \xff", YAML, "line 1, column 7: the text is not UTF-8; save it as UTF-8"),
        (b"\xff\xfe[\0s\0]\0", INI, "line 1, column 1: the text is not UTF-8 but UTF-16"),
        (b"{\n  \"mode\": }", JSON, "line 2, column 11: not JSON: expected value"),
        (b"{\"a\": \"hunter2\", \"\xc3\xa4\": hunter2}", JSON, "line 1, column 23: not JSON: expected value"),
        (b"{\"a\": \"hunter2", JSON, "line 1, column 14: not JSON: EOF while parsing a string"),
        (b"{\"a\": 1e999}", JSON, "line 1, column 11: not JSON: number out of range"),
        (b"{} hunter2", JSON, "line 1, column 4: not JSON: trailing characters"),
        (b"a: hunter2", JSON, "line 1, column 1: not JSON: expected value"),
        (b"\"hunter2\"", JSON, "not a single value"),
        (b"\xef\xbb\xbf{}", JSON, "line 1, column 1: the file begins with a byte-order mark"),
        (b"{\"a\": \"hunter2\0\"}", JSON, "line 1, column 15: a NUL byte"),
    ];
    for (bytes, format, part) in cases {
        let text = String::from_utf8_lossy(bytes);
        let message = match ConfigFile::read(bytes, format) {
            Ok(_) => panic!("{text:?} is accepted"),
            Err(error) => error.to_string(),
        };
        assert!(message.contains(part), "{text:?}: {message:?} does not say {part:?}");
        assert!(message.starts_with("line "), "{message:?}");
        let shows = message.contains('\n') || message.contains("hunter2") || message.contains("error:");
        assert!(!shows && !message.contains("Options") && message.matches("line ").count() == 1, "{message:?}");
    }
    let large = vec![b' '; MAX_CONFIG_FILE + 1];
    assert_eq!(ConfigFile::read(&large, INI).err(), Some(ConfigFileError::TooLarge(large.len())));
}

#[test]
fn neither_an_alias_bomb_nor_deep_nesting_fills_memory_or_stack() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    assert!(error(&bomb, YAML).contains("too large or too deep"));
    for deep in [100, 10_000, 400_000] {
        let nested = format!("{{\"a\": {}{}}}", "[".repeat(deep), "]".repeat(deep));
        error(&nested, YAML);
        if deep > 100 {
            error(&nested, JSON);
        }
    }
    let aliases: String = (1..1_000).map(|i| format!("a{i}: &a{i} [*a{}]\n", i - 1)).collect();
    assert!(error(&format!("a0: &a0 [x]\n{aliases}"), YAML).contains("too deep"));
    let wide = format!("[s]\n{}", "a\n".repeat(10_000));
    assert_eq!(file(&wide, INI).value("s.a").map(|value| told(&value)), Some(("<blank>", 10_001)));
    assert_eq!(error(&format!("{wide}a"), INI), "line 10002, column 1: more than 10000 keys");
    let long = "a".repeat(201);
    for text in [format!("[{long}]"), format!("[a \"{long}\"]"), format!("[a]\n{long} = b")] {
        assert!(error(&text, INI).contains("a name of more than 200 characters"));
    }
    let repeated = format!("a: &a {}\nb: [{}]", "x".repeat(500_000), "*a,".repeat(50_000));
    assert!(error(&repeated, YAML).contains("too large or too deep"));
    let many = format!("{{\"{}token\": [{}1]}}", "a".repeat(400_000), "1,".repeat(200_000));
    assert!(file(&many, JSON).hidden(&map(&[])).iter().all(|(key, _)| key.len() < 300));
}

#[test]
fn secrets_are_hidden_in_every_format_and_at_every_depth() {
    let ini = "[Global]\nauth-url = https://u:hunter2@h\nuser = hunter2\npassword = hunter2\nPassword = \"\"\nsecret-key\n\
               [c \"x.y\"]\nuser = hunter2\n[c]\ntoken-ttl = 5\n";
    let declared = [("global.USER", "the-user"), ("c.{class}.user", "class-user")];
    let entry = |section: &str, name: Option<&str>, key: &str, value: Option<&str>, line: u32| json!({"section": section, "name": name, "key": key, "value": value, "line": line});
    let expected = json!([
        entry("Global", None, "auth-url", Some("https://u:(secret)@h"), 2),
        entry("Global", None, "user", Some("(credential the-user)"), 3),
        entry("Global", None, "password", Some("(secret)"), 4),
        entry("Global", None, "Password", Some(""), 5),
        entry("Global", None, "secret-key", None, 6),
        entry("c", Some("x.y"), "user", Some("(credential class-user)"), 8),
        entry("c", None, "token-ttl", Some("5"), 10),
    ]);
    assert_eq!(guest(&file(ini, INI), &declared), expected);

    let yaml = "clouds:\n  my.cloud:\n    auth: {username: hunter2, password: hunter2, url: 'https://u:hunter2@h'}\n    \
                list: [{apiKey: hunter2}, plain]\n    tokens: [hunter2, {a: hunter2, b: [7]}]\n    secret: ~\n    use_token: true\n\
                token: true\npin: true\ndeep: {er: {x: hunter2}}\n";
    let declared = [("clouds.{cloud}.auth.username", "user"), ("pin", "pin"), ("deep", "deep")];
    let expected = json!({
        "clouds": {"my.cloud": {
            "auth": {"username": "(credential user)", "password": "(secret)", "url": "https://u:(secret)@h"},
            "list": [{"apiKey": "(secret)"}, "plain"],
            "tokens": ["(secret)", {"a": "(secret)", "b": ["(secret)"]}],
            "secret": null,
            "use_token": true,
        }},
        "token": true,
        "pin": "(credential pin)",
        "deep": {"er": {"x": "(credential deep)"}},
    });
    let yaml = file(yaml, YAML);
    assert_eq!(guest(&yaml, &declared), expected);
    // The same as JSON.
    let json = guest(&yaml, &[]).to_string().replace("(secret)", "hunter2");
    assert!(!file(&json, JSON).for_guest(&map(&declared)).contains("hunter2"));
}

#[test]
fn the_host_gets_what_is_hidden() {
    let text = "[Global]\nurl = https://u:p%40w@h\nuser = me\npassword = old\npassword = new\npassword =\n";
    let file = file(text, INI);
    let hidden = file.hidden(&map(&[("Global.user", "the-user")]));
    let hidden: Vec<(&str, &[u8])> = hidden.iter().map(|(name, secret)| (name.as_str(), secret.expose())).collect();
    let expected: [(&str, &[u8]); 5] = [
        ("Global.url", b"p%40w"),
        ("Global.url", b"p@w"),
        ("the-user", b"me"),
        ("Global.password", b"old"),
        ("Global.password", b"new"),
    ];
    assert_eq!(hidden, expected);
    assert_eq!(file.secret_at(&["global", "USER"]).unwrap().expose(), b"me");
    assert!(file.secret_at(&["Global", "password"]).is_none() && file.secret_at(&["Global", "x"]).is_none());
}

#[test]
fn the_first_source_that_has_a_value_wins_and_says_where_it_is() {
    let files = BTreeMap::from([
        ("cloud-config".to_owned(), file("[Global]\nkey = a\nempty =\nblank\n[c \"x.y\"]\nkey = sub\n", INI)),
        ("clouds".to_owned(), file("clouds:\n  my.cloud:\n    key: b\n    list: [1, x]\n    map: {a: 1}\n", YAML)),
    ]);
    let settings = map(&[("cloud", "my.cloud"), ("class", "x.y"), ("none", "")]);
    let environment = Environment::new(
        &["DO_*".to_owned(), "EXACT".to_owned()],
        map(&[("DO_A", "env"), ("DO_EMPTY", ""), ("EXACT", "e"), ("EXACTLY", "no"), ("TOKEN", "no")]),
    );
    type Case<'a> = (&'a [&'a str], &'a [&'a str], Option<(&'a str, &'a str)>);
    let cases: [Case<'_>; 15] = [
        (
            &["cloud-config:Global.key", "clouds:clouds.{cloud}.key"],
            &["DO_A"],
            Some(("a", "cloud-config:Global.key (line 2)")),
        ),
        (
            &["cloud-config:global.none", "clouds:clouds.{cloud}.key"],
            &["DO_A"],
            Some(("b", "clouds:clouds.my.cloud.key (line 3)")),
        ),
        (&["cloud-config:c.{class}.KEY"], &[], Some(("sub", "cloud-config:c.x.y.KEY (line 6)"))),
        (&["clouds:clouds.my.cloud.key"], &[], None),
        (
            &["clouds:clouds.{none}.key", "clouds:clouds.{unknown}.key"],
            &["DO_A"],
            Some(("env", "environment variable DO_A")),
        ),
        (&["cloud-config:Global.empty"], &["DO_EMPTY", "DO_A"], Some(("env", "environment variable DO_A"))),
        (&["cloud-config:Global.empty"], &["DO_EMPTY"], Some(("", "cloud-config:Global.empty (line 3)"))),
        (&["cloud-config:Global.blank"], &["DO_A"], Some(("<blank>", "cloud-config:Global.blank (line 4)"))),
        (&["clouds:clouds.{cloud}.list"], &[], Some(("<list>1+x", "clouds:clouds.my.cloud.list (line 4)"))),
        (&["clouds:clouds.{cloud}.map"], &["DO_A"], Some(("<mapping>", "clouds:clouds.my.cloud.map (line 5)"))),
        (&["Global.key", ":", "other:Global.key", "cloud-config:{", "cloud-config:"], &[], None),
        (&[], &["EXACT"], Some(("e", "environment variable EXACT"))),
        (&[], &["EXACTLY"], None),
        (&[], &["TOKEN"], None),
        (&[], &["PATH"], None),
    ];
    for (keys, variables, expected) in cases {
        let strings = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let source = Source { keys: strings(keys), environment_variables: strings(variables) };
        let found = resolve(&source, &files, &settings, &environment).map(|found| {
            let value = match found.value {
                FoundValue::Text(text) => text,
                FoundValue::Blank => "<blank>".to_owned(),
                FoundValue::List(items) => format!("<list>{}", items.join("+")),
                FoundValue::Mapping => "<mapping>".to_owned(),
            };
            (value, found.place)
        });
        assert_eq!(
            found,
            expected.map(|(value, place)| (value.to_owned(), place.to_owned())),
            "{keys:?} {variables:?}"
        );
    }
}

#[test]
fn a_variable_that_is_not_granted_is_invisible_but_said_to_be_withheld() {
    let source =
        Source { keys: vec![], environment_variables: ["DO_TOKEN", "TOKEN", "UNSET"].map(str::to_owned).to_vec() };
    let environment =
        Environment::new(&["DO_*".to_owned()], map(&[("DO_TOKEN", "hunter1"), ("TOKEN", "hunter2"), ("X", "")]));
    assert_eq!((environment.get("DO_TOKEN"), environment.get("TOKEN")), (Some("hunter1"), None));
    assert_eq!(environment.withheld(&source), ["TOKEN"]);
    assert!(!format!("{environment:?}").contains("hunter"));
    let nothing = Environment::new(&[], map(&[("TOKEN", "hunter2")]));
    assert!(resolve(&source, &BTreeMap::new(), &BTreeMap::new(), &nothing).is_none());
}

#[test]
fn the_example_configurations_of_upstream_are_read() {
    let openstack = r#"[Global]
auth-url = "https://keystone.example.org/v3"
application-credential-id = "d7fcf989d34341b2ab4016a61d644d55"
application-credential-secret = "s3cr#t"
region = RegionOne
[Networking]
public-network-name = public
internal-network-name = k8s-nodes
[LoadBalancer]
create-monitor = yes
monitor-delay = 10s
[LoadBalancerClass "dmz"]
floating-subnet = "dmz-*"
[Metadata]
    search-order = configDrive, metadataService
"#;
    let file = file(openstack, INI);
    let cases = [
        ("Global.auth-url", "https://keystone.example.org/v3"),
        ("Global.application-credential-secret", "s3cr#t"),
        ("LoadBalancerClass.dmz.floating-subnet", "dmz-*"),
        ("Metadata.search-order", "configDrive, metadataService"),
        ("loadbalancer.monitor-delay", "10s"),
    ];
    for (key, value) in cases {
        assert_eq!(file.value(key).unwrap().text(), Some(value), "{key}");
    }
    let guest = file.for_guest(&map(&[("Global.application-credential-secret", "secret")]));
    assert!(!guest.contains("s3cr#t") && guest.contains("d7fcf989"), "{guest}");
}

#[test]
fn twenty_thousand_broken_files_are_errors_or_values_but_never_a_panic() {
    let seeds: [(&[u8], ConfigFormat); 3] = [
        (b"; c\n[Global]\r\nauth-url = \"https://u:p@h\" # c\nkey\nx = a\\\n b\\\"c\n[c \"a\\\\b\"]\ny = \"\\n\\t\xc3\xa4\"\n", INI),
        (b"{\"a\": [1, -2.5e3, true, null], \"token\": \"\\u00e4\xc3\xa4\", \"u\": {\"url\": \"http://a:b@c\"}}", JSON),
        (b"a: &x [1, 0x1F, 'q', \"\\u00e4\"]\nb: *x\n<<: {t: |\n  block\n  }\ntoken: !!str yes\nc: {d: http://a:b@c}\n", YAML),
    ];
    let pieces: [&[u8]; 16] =
        [b"\"", b"\\", b"\n", b"[", b"]", b"{", b"}", b":", b"://", b"@", b"#", b"=", b"\xc3", b"\r", b"&a *a", b"- "];
    let declared = map(&[("Global.key", "k"), ("a.{x}", "a"), ("{", "odd"), ("", "none"), ("..", "dots")]);
    let mut state: u64 = 1;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut read = 0;
    for round in 0..20_000 {
        let (seed, format) = seeds[round % seeds.len()];
        let mut bytes = seed.to_vec();
        for _ in 0..=random(4) {
            let at = random(bytes.len() + 1);
            match random(4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.splice(at..at, pieces[random(pieces.len())].iter().copied())),
                2 => drop(bytes.drain(at..(at + random(8)).min(seed.len()).min(bytes.len()).max(at))),
                _ => bytes[at..].iter_mut().take(1).for_each(|byte| *byte = byte.wrapping_add(1)),
            }
        }
        match ConfigFile::read(&bytes, format) {
            Ok(Some(file)) => {
                read += 1;
                serde_json::from_str::<serde_json::Value>(&file.for_guest(&declared)).unwrap();
                for key in ["Global.auth-url", "a.0", "token", ""] {
                    assert!(file.value(key).map(|value| told(&value)).is_none_or(|(_, line)| line > 0));
                }
            }
            Ok(None) => {}
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("line ") && !message.contains('\n'), "{message:?}");
            }
        }
    }
    assert!(read > 2_000, "only {read} were read");
}
