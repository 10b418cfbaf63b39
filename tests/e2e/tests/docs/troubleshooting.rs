//! What the documentation says that the program says: people look for these words, so they must be there.

use std::collections::BTreeSet;

use super::{read, sources};

/// Texts that the program puts together, and the literals that it does so with. Without any, it is the API server that says so.
const COMPOSED: [(&str, &[&str]); 10] = [
    ("forbidden", &[]),
    ("wasm-ccm may change only", &[]),
    ("is a loopback address", &["a loopback address", ", which --allow-loopback would grant"]),
    ("is a link-local address", &["a link-local address"]),
    ("leadership lost: the Lease was not renewed", &["leadership lost: #", "the Lease was not renewed within #"]),
    ("cannot get the Lease", &["cannot # the Lease"]),
    ("(limit requests-per-second)", &[" (limit #)", "requests-per-second"]),
    ("(limit requests-per-minute)", &[" (limit #)", "requests-per-minute"]),
    ("(limit requests-per-hour)", &[" (limit #)", "requests-per-hour"]),
    ("(limit concurrent-requests)", &[" (limit #)", "concurrent-requests"]),
];

/// Where Events and conditions are written.
const WRITERS: [&str; 4] = ["runtime/controllers", "runtime/leader", "runtime/rollout", "providers"];

/// Words there that look like a reason and are none: what they are.
const NO_REASONS: [(&str, &[&str]); 5] = [
    (
        "kinds, types and values of Kubernetes",
        &[
            "ClientIP",
            "ClusterIP",
            "ConfigMap",
            "ExternalDNS",
            "ExternalIP",
            "ExternalName",
            "InternalDNS",
            "InternalIP",
            "LoadBalancer",
            "NoSchedule",
            "NodePort",
            "ToBeDeletedByClusterAutoscaler",
        ],
    ),
    ("actions of Events", &["CreateRoute", "LoadProvider", "SyncCluster", "SyncLoadBalancer"]),
    (
        "what OpenStack calls its errors",
        &[
            "ExternalGateway",
            "HTTPNotFound",
            "IpAddressGenerationFailure",
            "NotFound",
            "OverQuota",
            "RoutesExhausted",
            "SecurityGroupNotFound",
            "SecurityGroupRuleExists",
        ],
    ),
    ("of the condition LoadBalancerRecorded, which is for the host", &["NotCertain"]),
    ("a queue, a type and the months", &["NodeLifecycle", "ReadNode", "JanFebMarAprMayJunJulAugSepOctNovDec"]),
];

/// Stands for a number, a name, or whatever else a message is filled with.
const FILLED: &str = "#";

/// The texts in the first column of the table, each in the parts between `...`.
fn texts(page: &str) -> Vec<String> {
    let section = page.split("\n## ").find(|section| section.starts_with("At 3 a.m.")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let columns = rows.filter_map(|row| row.split(" | ").next());
    let quoted = columns.flat_map(|column| column.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
    let parts = quoted.flat_map(|text| text.split("...").map(|part| part.trim().to_owned()).collect::<Vec<_>>());
    parts.filter(|part| part.chars().any(char::is_alphabetic)).collect()
}

/// Numbers, and what stands for a name.
fn without_fillings(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let is_filled = bare.starts_with(|letter: char| letter.is_ascii_digit()) || bare == "NAME";
        if is_filled { word.replacen(bare, FILLED, 1) } else { word.to_owned() }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// All that stands in string literals of a source file outside of its tests, with [`FILLED`] for each `{…}`, one after another.
fn literals(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut text = String::new();
    let mut rest = source;
    while let Some(start) = rest.find(['"', '/', '\'']) {
        let (head, tail) = rest.split_at(start);
        if tail.starts_with("//") {
            rest = tail.split_once('\n').map_or("", |(_, rest)| rest);
        } else if tail.starts_with("'\"'") || tail.starts_with("'\\''") {
            rest = tail.get(3..).unwrap_or_default();
        } else if let Some(tail) = tail.strip_prefix('"') {
            let hashes = head.len() - head.trim_end_matches('#').len();
            let is_raw = head.trim_end_matches('#').ends_with('r');
            rest = literal(tail, is_raw.then_some(hashes), &mut text);
            text.push('\n');
        } else {
            rest = &tail[1..];
        }
    }
    text
}

/// Reads to the end of a literal; returns what comes after it.
fn literal<'a>(source: &'a str, raw: Option<usize>, text: &mut String) -> &'a str {
    let end = format!("\"{}", "#".repeat(raw.unwrap_or(0)));
    let mut depth = 0;
    let mut letters = source.char_indices();
    while let Some((place, letter)) = letters.next() {
        if source[place..].starts_with(&end) {
            return &source[place + end.len()..];
        }
        match letter {
            '\\' if raw.is_none() => match letters.next() {
                // The text goes on after the blanks of the next line.
                Some((_, '\n')) => letters = after_blanks(source, place + 2),
                Some((_, letter)) => text.push(letter),
                None => {}
            },
            '{' => {
                depth += 1;
                text.push_str(if depth == 1 { FILLED } else { "" });
            }
            '}' => depth = (depth - 1).max(0),
            letter if depth <= 0 => text.push(letter),
            _ => {}
        }
    }
    ""
}

fn after_blanks(source: &str, from: usize) -> std::str::CharIndices<'_> {
    let mut letters = source.char_indices();
    while letters.offset() < from || source[letters.offset()..].starts_with([' ', '\n']) {
        letters.next();
    }
    letters
}

/// All string literals of these folders.
fn said(folders: &[&str]) -> String {
    sources(folders).iter().map(|(_, source)| literals(source)).collect()
}

/// `| Reason |` in the first column, and each of the reasons in it between backticks.
#[test]
fn every_reason_of_an_event_or_condition_stands_in_the_program() {
    let page = read("docs/reference/events.md");
    let columns = page.lines().filter(|line| line.starts_with("| `")).filter_map(|row| row.split(" | ").next());
    let reasons: Vec<&str> = columns.flat_map(|column| column.split('`').skip(1).step_by(2)).collect();
    assert!(reasons.len() > 30, "{reasons:?}");
    let said = said(&["runtime", "providers"]);
    let lost: Vec<&&str> = reasons.iter().filter(|reason| !said.lines().any(|line| line == **reason)).collect();
    assert!(lost.is_empty(), "docs/reference/events.md has reasons that no component writes: {lost:#?}");
}

/// `LikeThis`. A reason of one word cannot be told from other words.
fn looks_like_a_reason(text: &str) -> bool {
    let capitals = text.bytes().filter(u8::is_ascii_uppercase).count();
    let is_word = text.bytes().all(|letter| letter.is_ascii_alphabetic());
    is_word && capitals > 1 && capitals < text.len() && text.starts_with(|first: char| first.is_ascii_uppercase())
}

#[test]
fn every_reason_that_the_program_writes_stands_in_the_reference() {
    let page = read("docs/reference/events.md");
    let told: BTreeSet<&str> = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
    let others: BTreeSet<&str> = NO_REASONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let said = said(&WRITERS);
    let written: BTreeSet<&str> = said.lines().filter(|text| looks_like_a_reason(text)).collect();
    let missing: Vec<_> = written.iter().filter(|text| !told.contains(*text) && !others.contains(*text)).collect();
    assert!(missing.is_empty(), "docs/reference/events.md does not name the reasons {missing:?}");
    let gone: Vec<_> = others.difference(&written).collect();
    assert!(gone.is_empty(), "nobody writes {gone:?} any more");
    assert!(written.intersection(&told).count() > 50, "the reasons are not found: {written:?}");
}

#[test]
fn every_text_of_the_table_stands_in_the_program() {
    let texts = texts(&read("docs/guides/troubleshoot.md"));
    assert!(texts.len() > 30, "{texts:?}");
    let said = said(&["runtime", "providers/sdk"]);
    let says = |text: &str| said.contains(text) || said.contains(&without_fillings(text));
    let is_there = |text: &String| {
        let composed = COMPOSED.iter().find(|(whole, _)| whole == text);
        composed.map_or_else(|| says(text), |(_, parts)| parts.iter().all(|part| said.contains(part)))
    };
    let lost: Vec<&String> = texts.iter().filter(|text| !is_there(text)).collect();
    assert!(lost.is_empty(), "docs/guides/troubleshoot.md says that the program says what it does not: {lost:#?}");
}

#[test]
fn the_words_of_a_table_and_of_a_source_are_found() {
    let page = "# Page\n\n## At 3 a.m.\n\n| it says | it is | do |\n|---|---|---|\n\
        | `less than 8 bytes`, `(limit NAME)` | `not this` | - |\n| status 401, `the host ... is gone` | x | y |\n\n## Next\n\n| `no` | x |\n";
    assert_eq!(texts(page), ["less than 8 bytes", "(limit NAME)", "the host", "is gone"]);
    assert_eq!(
        without_fillings("less than 8 bytes (limit NAME) for 10 s, 5."),
        "less than # bytes (limit #) for # s, #."
    );
    let source = r##"
        // "a comment"
        const A: &str = "first {name} and \"quoted\" \
                         second {:?}";
        let quote = '"';
        let b = r#"raw "{x}" text"#;
        #[cfg(test)]
        mod tests_of_another_kind {}
    "##;
    let said = literals(source);
    assert_eq!(said, "first # and \"quoted\" second #\nraw \"#\" text\n");
    assert_eq!(literals("a(\"one\")\n#[cfg(test)]\nmod tests {\n    \"two\"\n}"), "one\n");
}
