//! The git-config dialect, as the Go managers read it.

use super::*;

#[test]
fn ini_values_are_read_as_upstream_reads_them() {
    let cases = [
        // Names: case, letters, digits, hyphens, any letter.
        ("[Global]\nkey = a", "Global.key", "a"),
        ("[gLoBaL]\nKEY = a", "Global.key", "a"),
        ("[a-1]\nb-2- = a", "a-1.b-2-", "a"),
        ("[Straße]\nÜber = a", "straße.über", "a"),
        ("[ Global ]\nkey=a", "Global.key", "a"),
        ("  [Global]\n\t key\t=\ta", "Global.key", "a"),
        // Subsections.
        ("[c \"Dmz\"]\nkey = a", "c.Dmz.key", "a"),
        ("[c\"x y\"]\nkey = a", "c.x y.key", "a"),
        ("[c \"a.b\"]\nkey = a", "c.a.b.key", "a"),
        (
            r#"[c "a\\b\"c;#]"]
            key = a"#,
            r#"c.a\b"c;#].key"#,
            "a",
        ),
        // Comments.
        ("; x\n# y\n[s] ; z\nkey = a", "s.key", "a"),
        ("[s]# z\nkey = ab#cd", "s.key", "ab"),
        ("[s]\nkey = abc ; note", "s.key", "abc"),
        ("[s]\nkey = \"a;b#c\" # d", "s.key", "a;b#c"),
        ("[s]\nkey = # d", "s.key", ""),
        ("[s]\nkey ; d", "s.key", "<blank>"),
        // Blanks around values, quotes, escapes.
        ("[s]\nkey =  a  b \t", "s.key", "a  b"),
        ("[s]\nkey = a\"b c\"d", "s.key", "ab cd"),
        ("[s]\nkey = \" a \" ", "s.key", " a "),
        ("[s]\nkey = a \"\"", "s.key", "a "),
        ("[s]\nkey = \"\"", "s.key", ""),
        ("[s]\nkey =", "s.key", ""),
        ("[s]\nkey", "s.key", "<blank>"),
        (
            r#"[s]
            key = "\\ \" \n \t""#,
            "s.key",
            "\\ \" \n \t",
        ),
        (
            r#"[s]
            key = a\"b"#,
            "s.key",
            "a\"b",
        ),
        (
            r#"[s]
            key = \""#,
            "s.key",
            "\"",
        ),
        ("[s]\nkey = a=b[c]", "s.key", "a=b[c]"),
        // Lines that go on.
        ("[s]\nkey = a\\\nb", "s.key", "ab"),
        ("[s]\nkey = a \\\n  b ", "s.key", "a   b"),
        ("[s]\r\nkey = a\\\r\nb\r\n", "s.key", "ab"),
        ("[s]\nkey = a\\\n# c", "s.key", "a"),
        // Carriage returns.
        ("[s]\r\nkey = a\r\nb = c\r\n", "s.key", "a"),
        ("[s]\r\nkey\r\n", "s.key", "<blank>"),
        ("[s]\nkey = \"a\rb\"\rc", "s.key", "abc"),
        // The last one wins, in split sections too.
        ("[s]\nkey = a\nKey = b", "s.key", "b"),
        ("[s]\nkey = a\n[t]\nkey = b\n[S]\nkey = c", "s.key", "c"),
        ("[s]\nkey = a\nkey", "s.key", "<blank>"),
        ("[s]\nkey = ä😀", "s.key", "ä😀"),
    ];
    for (text, key, expected) in cases {
        let file = file(text, INI);
        let value = file.value(key).unwrap_or_else(|| panic!("{text:?} has no {key}"));
        assert_eq!(told(&value).0, expected, "{text:?}");
    }
    let names = file("[c \"Dmz\"]\nkey = a\n[s]\nx = y", INI);
    for key in ["c.dmz.key", "c.key", "c.Dmz.kez", "key", "c", "", ".", "s.Dmz.x", "s..x"] {
        assert!(names.value(key).is_none(), "{key:?}");
    }
}

#[test]
fn ini_that_upstream_refuses_is_refused_with_line_and_column() {
    let cases = [
        ("key = a", 1, 1, "expected a section like [Global]"),
        ("\n\n  key = a", 3, 3, "expected a section like [Global]"),
        ("= a", 1, 1, "expected a section like [Global]"),
        ("{\"a\": 1}", 1, 1, "expected a section like [Global]"),
        ("[sec.sub]", 1, 5, "expected `]`"),
        ("[sec sub]", 1, 6, "expected `]`"),
        ("[sec", 1, 5, "expected `]`"),
        ("[sec\n]", 1, 5, "expected `]`"),
        ("[sec \"a\" \"b\"]", 1, 10, "expected `]`"),
        ("[sec \"\"]", 1, 6, "cannot be empty"),
        ("[sec \"a]", 1, 6, "no end in its line"),
        ("[sec \"a\n\"]", 1, 6, "no end in its line"),
        (r#"[sec "a\n"]"#, 1, 8, r#"has \\ and \""#),
        (r#"[sec "a\"#, 1, 8, r#"has \\ and \""#),
        ("[]", 1, 2, "expected the name of a section"),
        ("[1a]", 1, 2, "expected the name of a section"),
        ("[-a]", 1, 2, "expected the name of a section"),
        ("[\"a\"]", 1, 2, "expected the name of a section"),
        ("[a] b = c", 1, 5, "expected the end of the line"),
        ("[a][b]", 1, 4, "expected the end of the line"),
        ("[s]\n1a = b", 2, 1, "begins with a letter"),
        ("[s]\n_a = b", 2, 1, "begins with a letter"),
        ("[s]\n= b", 2, 1, "begins with a letter"),
        ("[s]\napi_url = b", 2, 4, "expected `=`"),
        ("[s]\na b", 2, 3, "expected `=`"),
        ("[s]\na: b", 2, 2, "expected `=`"),
        ("[s]\na = \"b", 2, 5, "no end in its line"),
        ("[s]\na = b\"c\nd\"", 2, 6, "no end in its line"),
        ("[s]\na = \"b\\\nc\"", 2, 7, r"\n and \t"),
        (
            r#"[s]
a = "b\x""#,
            2,
            7,
            r"\n and \t",
        ),
        (
            r#"[s]
a = "b\"#,
            2,
            7,
            r"\n and \t",
        ),
        (
            r"[s]
a = C:\dir",
            2,
            7,
            "outside quotes",
        ),
        (
            r"[s]
a = b\",
            2,
            6,
            "outside quotes",
        ),
        ("[s]\r\na = ä\r\n😀 = b", 3, 1, "begins with a letter"),
        ("[s]\na = ä\0b", 2, 6, "NUL"),
        ("\u{feff}[s]\na = b", 1, 1, "byte-order mark (BOM)"),
    ];
    for (text, line, column, part) in cases {
        let message = error(text, INI);
        assert!(message.starts_with(&format!("line {line}, column {column}: ")), "{text:?}: {message}");
        assert!(message.contains(part), "{text:?}: {message:?} does not say {part:?}");
    }
}

/// Of a class without a key, its Services only heard that there is no such class.
#[test]
fn sections_without_a_key_are_told_as_they_are_written_with_their_line() {
    let empty = |text: &str| file(text, INI).empty_sections().to_vec();
    let text = "[Global]\na = b\n[LoadBalancerClass]\n; nothing\n[LoadBalancerClass \"dmz\"]\n[LoadBalancerClass \"a\"]\nc = d\n[Route]";
    assert_eq!(
        empty(text),
        ["[LoadBalancerClass] (line 3)", "[LoadBalancerClass \"dmz\"] (line 5)", "[Route] (line 8)"]
    );
    // Its keys are elsewhere.
    assert_eq!(empty("[Global]\n[global]\na = b\n[Global]\n"), [""; 0]);
    assert_eq!(empty("[a]\nb = c"), [""; 0]);
    let many = "[a]\n".repeat(1_000) + "[b]\nc = d\n[a]";
    assert_eq!(empty(&many).len(), 16, "a file of headers alone costs nothing");
    assert!(file("a: {}", YAML).empty_sections().is_empty());
}
