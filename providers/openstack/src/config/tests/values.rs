//! Values that are of the wrong kind.

use super::*;

/// What the reader says of a flag or a number does not repeat the value: whatever it says, the value and the way out are told.
#[test]
fn a_value_of_the_wrong_kind_is_told_with_the_value_and_a_key_without_one_with_what_to_write() {
    let lines = |value: &str| -> String {
        let line = |line: &str| match line.split_once(" = ") {
            Some((key, _)) => format!("{key}{value}\n"),
            None => format!("{line}\n"),
        };
        let others = "[Global]\nuse-clouds = x\n[Networking]\nipv6-support-disabled = x\n[LoadBalancer]\ncreate-monitor = x\n\
             monitor-max-retries = x\nmonitor-max-retries-down = x\nmonitor-delay = x\nmonitor-timeout = x";
        ALL.lines().chain(others.lines()).filter(|line| !line.contains("lb-version")).map(line).collect()
    };
    let told = wrong(&lines(" = bad!"));
    for key in FLAGS {
        let wanted = format!(".{key}: must be `true` or `false`, not \"bad!\"");
        assert!(told.iter().any(|told| told.ends_with(&wanted)), "{key}: {told:?}");
    }
    for key in NUMBERS {
        let wanted = format!(".{key}: must be a whole number, not \"bad!\"");
        assert!(told.iter().any(|told| told.ends_with(&wanted)), "{key}: {told:?}");
    }
    for told in wrong(&lines("")).iter().filter(|told| !told.starts_with('~')) {
        let key = told.split(": ").next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        let key = key.split('[').next().unwrap_or_default();
        // One without `=` is a yes.
        if FLAGS.contains(&key) {
            continue;
        }
        assert!(told.ends_with(&format!("has no `=`: write {key} = VALUE")), "{told}");
    }
    let all = [lines(" = bad!"), lines("")].map(|text| wrong(&text)).concat();
    assert!(!all.iter().any(|told| told.contains("not a text") || told.ends_with("a whole number")), "{all:?}");
}
