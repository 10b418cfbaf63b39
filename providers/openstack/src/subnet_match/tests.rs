//! Cases of the reference by number: `os_NNN`.

use super::*;

fn is(name: &str, tags: &str, subnet: &str, has: &[&str]) -> bool {
    let has: Vec<String> = has.iter().map(|tag| (*tag).to_owned()).collect();
    Pattern::parse(name, tags).expect("a pattern").matches(subnet, &has)
}

#[test]
fn os_136_137_names_match_as_a_whole_and_a_mark_of_exclamation_turns_it_round() {
    for (case, pattern, expected) in [
        ("os_136", "test-*", true),
        ("os_136", "~test-.*", true),
        ("os_137", "other*", false),
        ("os_137", "~other.*", false),
        ("os_137", "*", true),
        ("os_137", "~.*", true),
    ] {
        assert_eq!(is(pattern, "", "test-123", &[]), expected, "{case} {pattern}");
        assert_eq!(is(&format!("!{pattern}"), "", "test-123", &[]), !expected, "{case} !{pattern}");
    }
}

#[test]
fn os_138_139_tags_are_one_of_or_all_and_turned_round() {
    let has = &["alice", "bob"];
    for (case, tags, expected) in [
        ("os_138", "alice", true),
        ("os_138", "other", false),
        ("os_139", "alice,bob", true),
        ("os_139", "alice,peter", true),
        ("os_139", "&alice,bob", true),
        ("os_139", "&alice,peter", false),
    ] {
        assert_eq!(is("", tags, "x", has), expected, "{case} {tags}");
        assert_eq!(is("", &format!("!{tags}"), "x", has), !expected, "{case} !{tags}");
    }
}

#[test]
fn os_189_none_of_is_none_and_not_all_of_is_not_all() {
    let subnets: [&[&str]; 4] = [&["a"], &["b"], &["a", "b"], &[]];
    for (case, tags, expected) in
        [("os_189", "!a,b", [false, false, false, true]), ("os_189", "!&a,b", [true, true, false, true])]
    {
        assert_eq!(subnets.map(|has| is("", tags, "x", has)), expected, "{case} {tags}");
    }
}

#[test]
fn os_140_a_pattern_and_tags_must_both_match() {
    for (case, name, tags, expected) in [
        ("os_140", "test-*", "alice", true),
        ("os_140", "test-*", "other", false),
        ("os_140", "other-*", "alice", false),
    ] {
        assert_eq!(is(name, tags, "test-123", &["alice", "bob"]), expected, "{case} {name} {tags}");
    }
}

#[test]
fn patterns_have_classes_alternatives_and_repetitions_and_end() {
    for (pattern, name, expected) in [
        ("a?c", "abc", true),
        ("a*", "a/b", false),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("{pub,dmz}-*", "dmz-1", true),
        ("{pub,dmz}-*", "int-1", false),
        ("~(pub|dmz)-\\d+", "dmz-12", true),
        ("~(pub|dmz)-\\d+", "dmz-", false),
        ("~^a$", "a", true),
        ("~a.c", "xabc", false),
        ("~(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ("a.c", "abc", false),
        ("~a{2}", "aa", true),
        ("~a{2}", "aaa", false),
        ("~a{2,}", "aaaa", true),
        ("~a{2,}", "a", false),
        ("~a{1,2}b", "aab", true),
        ("~a{1,2}b", "aaab", false),
        ("~(net|dmz)(-[0-9]{1,3}){2}", "dmz-1-255", true),
        ("~(net|dmz)(-[0-9]{1,3}){2}", "dmz-1-2550", false),
        ("~a{0}b", "b", true),
        // Each time another alternative.
        // Nothing, twice, is what Go finds first.
        ("~(^|a){2}", "a", false),
        // In brackets as in Go, and not as in file names.
        ("~net-[\\d]+", "net-1", true),
        ("~net-[\\d]+", "net-d", false),
        ("~[^\\d_]+", "net", true),
        ("~[^\\d_]+", "net1", false),
        ("~[\\D]", "1", false),
        ("~[\\w-]+", "net-1", true),
        ("~[\\d-z]+", "1-z", true),
        ("~[\\]]", "]", true),
        ("~[]a]+", "]a", true),
        ("~[!a]", "a", true),
        ("~[!a]", "b", false),
        ("[!a]", "b", true),
        ("~\\s", "\u{b}", false),
        ("~(?:a|b)+", "ab", true),
        ("~pub|public", "public", false),
        ("~public|pub", "public", true),
        ("!~pub|public", "public", true),
        ("~(a|ab)c", "abc", true),
        ("~(?i)NET", "net", true),
        ("~(?i)net-[a-c]", "NET-B", true),
        ("~(?i)[^a]", "A", false),
        ("~(?i:n)et", "Net", true),
        ("~(?i:n)et", "NET", false),
        ("~((?i)n|m)e", "Me", true),
        ("~((?i)n)e", "nE", false),
        ("~n(?i)et", "Net", false),
        ("~(?i)n[^a-c]t", "NÜT", true),
    ] {
        assert_eq!(is(pattern, "", name, &[]), expected, "{pattern} {name}");
    }
    let wrong = [
        "~(",
        "~*",
        "~a)",
        "[",
        "{a",
        "~[",
        "~\\",
        "~{2}",
        "~a{2",
        "~a{}",
        "~a{,2}",
        "~a{2,1}",
        "~a{x}",
        "~a{1001}",
        "~a{2}*",
        "~\\b",
        "~[[:alpha:]]",
        "~[\\b]",
        "~[a-\\d]",
        "~a*??",
        "~(?",
        "~(?x)a",
        "~(?:a",
        "~[]",
        "~?",
        "~(?i)ü",
        "~(?i)[a-ü]",
    ];
    for wrong in wrong {
        let message = Pattern::parse(wrong, "").expect_err(wrong);
        assert!(message.starts_with("invalid subnet regexp pattern"), "{message}");
        assert_eq!(message.contains("a regular expression has"), wrong.starts_with('~'), "{message}");
    }
}

/// A match that takes too long says nothing, also not that a subnet is one of the others.
#[test]
fn a_subnet_of_which_nobody_knows_whether_it_matches_is_not_chosen() {
    for (pattern, name) in [("~(a*)*b", "a".repeat(28)), ("~(a|b)*c", "ab".repeat(400))] {
        assert!(!is(pattern, "", &name, &[]), "{pattern}");
        assert!(!is(&format!("!{pattern}"), "", &name, &[]), "!{pattern}");
    }
    assert!(is("!~(a*)*b", "", "net", &[]), "one that is known");
}

/// Whoever writes one must not end the provider with it.
#[test]
fn the_deepest_pattern_ends() {
    for pattern in ["^".repeat(19_000), "(^){1000}".repeat(100), "((((^){9}){9}){9}){9}".to_owned()] {
        assert!(!is(&format!("~{pattern}x"), "", "y", &[]), "{pattern}");
    }
    assert!(is("~[a-z]{255}", "", &"a".repeat(255), &[]), "the longest name");
    assert!(is("~(a|b)*", "", &"ab".repeat(127), &[]), "the longest name");
    assert!(is("~((a)|(b|c))+", "", &"abc".repeat(40), &[]), "groups within groups");
}
