use serde_json::json;

use super::*;
use crate::duration;

/// Section, sub-section, key, value.
type Entry<'a> = (&'a str, Option<&'a str>, &'a str, Option<&'a str>);

/// As the host delivers an INI file.
fn ini(entries: &[Entry<'_>]) -> String {
    let entry = |(line, (section, name, key, value)): (usize, &Entry<'_>)| json!({ "section": section, "name": name, "key": key, "value": value, "line": line + 1 });
    serde_json::Value::from_iter(entries.iter().enumerate().map(entry)).to_string()
}

/// What `read` makes of a file, and what is wrong with that.
fn reading<T>(text: &str, tolerant: bool, read: impl FnOnce(&mut Section<'_>) -> T) -> (T, Vec<String>) {
    let mut problems = vec![];
    let mut root = Section::ini("cloud-config", Some(text), &mut problems);
    if tolerant {
        root = root.tolerant();
    }
    let value = read(&mut root);
    root.finish();
    (
        value,
        problems
            .into_iter()
            .map(|Problem { field, message, fatal, .. }| format!("{fatal} {field}: {message}"))
            .collect(),
    )
}

#[test]
fn an_ini_file_is_read_whatever_the_case_of_its_names_and_its_last_value_counts() {
    let file = ini(&[
        ("Global", None, "Auth-URL", Some("https://a")),
        ("global", None, "auth-url", Some("https://b")),
        ("Global", None, "insecure", None),
        ("Global", None, "flag", Some("Off")),
        ("Networking", None, "public-network-name", Some("one")),
        ("Networking", None, "public-network-name", Some("two")),
        ("Networking", None, "port", Some("0x1f90")),
        ("Networking", None, "timeout", Some("1m30s")),
    ]);
    let (read, problems) = reading(&file, false, |root| {
        let global =
            root.section("global", |global| (global.text("auth-url"), global.flag("insecure"), global.flag("flag")));
        let networking = root.section("networking", |section| {
            let names = section.one_or_many("public-network-name", |text| Ok(text.to_owned())).unwrap_or_default();
            let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
            (names, section.number("port"), section.parsed("timeout", duration::parse))
        });
        (global, networking)
    });
    let minutes = Some(std::time::Duration::from_secs(90));
    let networking = (vec!["one".to_owned(), "two".to_owned()], Some(8_080), minutes);
    assert_eq!(read, ((Some("https://b".to_owned()), Some(true), Some(false)), networking));
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn sub_sections_have_names_of_any_case_beside_keys_of_the_section_itself() {
    let file = ini(&[
        ("LoadBalancerClass", Some("Gold"), "network", Some("n-1")),
        ("LoadBalancerClass", Some("silver"), "network", Some("n-2")),
        ("loadbalancerclass", Some("Gold"), "subnet", Some("s-1")),
    ]);
    let (classes, problems) = reading(&file, false, |root| {
        root.named("loadbalancerclass", |class| (class.text("network"), class.text("subnet")))
    });
    let text = |text: &str| Some(text.to_owned());
    let expected = [("Gold".to_owned(), (text("n-1"), text("s-1"))), ("silver".to_owned(), (text("n-2"), None))];
    assert_eq!((classes.as_slice(), problems), (&expected[..], vec![]));
    let yaml = json!({ "pools": { "gold": { "size": 3 }, "odd": 7 } }).to_string();
    let (pools, problems) = reading(&yaml, false, |root| root.named("pools", |pool| pool.number("size")));
    assert_eq!(pools, [("gold".to_owned(), Some(3))]);
    assert_eq!(problems, ["true cloud-config:pools.odd: must be a mapping, not a number"]);
}

#[test]
fn what_nobody_knows_is_refused_or_told_with_the_nearest_key() {
    let file = ini(&[
        ("Global", None, "auth-url", Some("x")),
        ("Global", None, "usernmae", Some("x")),
        ("BlockStorage", None, "bs-version", Some("v3")),
    ]);
    let read =
        |root: &mut Section<'_>| root.section("global", |global| (global.text("auth-url"), global.text("username")));
    assert_eq!(
        reading(&file, false, read).1,
        [
            "true cloud-config:global.usernmae: no such key; here can be: auth-url, username",
            "true cloud-config:blockstorage: no such key; here can be: global",
        ]
    );
    assert_eq!(
        reading(&file, true, read).1,
        [
            "false cloud-config:global.usernmae: is not known, and has no effect; is it meant to be username?",
            "false cloud-config:blockstorage: is not known, and has no effect",
        ]
    );
}

#[test]
fn values_that_do_not_fit_are_told_all_at_once_and_never_shown() {
    let file = ini(&[
        ("Global", None, "flag", Some("maybe")),
        ("Global", None, "number", Some("1.5")),
        ("Global", None, "text", None),
        ("Global", None, "last", Some("x")),
        ("Global", None, "last", None),
    ]);
    let (read, problems) = reading(&file, false, |root| {
        root.section("global", |global| {
            (global.flag("flag"), global.number("number"), global.text("text"), global.flag("last"))
        })
    });
    assert_eq!(read, (None, None, None, Some(true)));
    assert_eq!(
        problems,
        [
            "true cloud-config:global.flag: must be `true` or `false`, not a text",
            "true cloud-config:global.number: must be a whole number",
            "true cloud-config:global.text: must be a text, not `true` or `false`",
        ]
    );
    let (numbers, problems) = reading(r#"{"a": 1.5, "b": 18446744073709551615, "c": "7", "d": -7}"#, false, |root| {
        ["a", "b", "c", "d"].map(|key| root.number(key))
    });
    assert_eq!((numbers, problems.len()), ([None, None, None, Some(-7)], 3));
    // Only in an INI file is a list a key that is there several times.
    let (text, problems) = reading(r#"{"a": ["x", "y"]}"#, false, |root| root.text("a"));
    assert_eq!((text, problems), (None, vec!["true cloud-config:a: must be a text, not a list".to_owned()]));
    let (_, problems) = reading("[1]", false, |_| ());
    assert_eq!(problems, ["true cloud-config: must be a mapping, not a list"]);
}
