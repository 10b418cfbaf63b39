//! The table of attacks: every attack has a row, and every row has tests that exist.

use std::collections::BTreeSet;

use super::{files, read};

/// Files whose tests are attacks, each of them.
const ATTACKS: [&str; 5] = [
    "tests/e2e/tests/system/hostile.rs",
    "tests/e2e/tests/system/hostile/bombs.rs",
    "tests/e2e/tests/system/hostile/set.rs",
    "runtime/sandbox/tests/sandbox/hostile.rs",
    "runtime/sandbox/tests/sandbox/denials.rs",
];

/// What a guest is asked to do that is no attack, and what it is.
const HARMLESS: [(&str, &str); 14] = [
    ("settings", "shows which settings it sees"),
    ("annotations", "shows which annotations of a Node it sees"),
    ("clock", "shows what time it sees"),
    ("cache", "keeps a value"),
    ("cache-read", "shows what was kept"),
    ("balancing", "offers load balancers, which it has"),
    ("written", "writes down what it declares to write"),
    ("sees", "shows which annotations and labels of a Service it sees"),
    ("echo", "shows what it is asked"),
    ("absent", "there is no load balancer"),
    ("missing", "there is no load balancer that a wish is about"),
    ("unknown", "its cloud is too busy to say how a load balancer stands"),
    ("differs", "a load balancer has other Nodes than it should"),
    ("refuse", "its cloud refuses a whole call"),
];

/// Names of the functions in a file that are tests.
fn tests(source: &str) -> Vec<String> {
    let name = |rest: &str| rest.split("fn ").nth(1)?.split('(').next().map(str::to_owned);
    let attributes = ["#[test]\n", "#[tokio::test]\n", "#[tokio::test("];
    attributes.into_iter().flat_map(|attribute| source.split(attribute).skip(1).filter_map(name)).collect()
}

/// What the code of a guest can be asked to do: words that it compares something with, and patterns of its matches.
fn behaviours(source: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let (patterns, _) = line.split_once(" => ").unwrap_or_default();
        let word =
            |text: &str| text.trim_start_matches("Some(").strip_prefix('"')?.split('"').next().map(str::to_owned);
        let matched = patterns.split('"').skip(1).step_by(2).map(str::to_owned);
        matched.chain(line.split(" == ").skip(1).filter_map(word)).collect::<Vec<_>>()
    };
    source.lines().flat_map(of_line).collect()
}

/// What stands between backticks in a column of the rows, without the heads of the tables.
fn column(page: &str, number: usize) -> Vec<BTreeSet<String>> {
    let (_, section) = page.split_once("\n## Attacks, walls and tests\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| attack "));
    let cell = |row: &str| row.trim_matches('|').split(" | ").nth(number).unwrap_or_default().to_owned();
    rows.map(|row| cell(row).split('`').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

#[test]
fn every_row_of_the_attacks_names_tests_that_exist() {
    let existing: BTreeSet<String> = ["runtime", "tests", "providers"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs"]))
        .flat_map(|file| tests(&read(&file)))
        .collect();
    let rows = column(&read("docs/security.md"), 2);
    assert!(rows.len() >= 30, "only {} rows were read", rows.len());
    for (number, row) in rows.iter().enumerate() {
        assert!(!row.is_empty(), "row {number} names no test");
        let missing: Vec<_> = row.difference(&existing).collect();
        assert!(missing.is_empty(), "row {number} names tests that do not exist: {missing:?}");
    }
}

#[test]
fn every_test_of_an_attack_and_every_attack_of_the_hostile_guest_has_a_row() {
    let page = read("docs/security.md");
    let named: BTreeSet<String> = column(&page, 2).into_iter().flatten().collect();
    for file in ATTACKS {
        let tests = tests(&read(file));
        assert!(!tests.is_empty(), "{file}");
        let missing: Vec<_> = tests.iter().filter(|test| !named.contains(*test)).collect();
        assert!(missing.is_empty(), "docs/security.md has no row for {missing:?} of {file}");
    }
    let guest = files("tests/hostile/src", &[".rs"]);
    let asked: BTreeSet<String> = guest.iter().flat_map(|file| behaviours(&read(file))).collect();
    // One of each form in which they are asked for.
    for known in ["spin", "wasi-sleep", "lying", "complaining", "many-locks", "short-mark", "too-few", "stranger"] {
        assert!(asked.contains(known), "{known} is not found in {guest:?}: {asked:?}");
    }
    let harmless: BTreeSet<String> = HARMLESS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let gone: Vec<_> = harmless.difference(&asked).collect();
    assert!(gone.is_empty(), "the hostile guest does nothing of the name {gone:?}");
    let told: BTreeSet<String> = column(&page, 0).into_iter().flatten().collect();
    let missing: Vec<_> = asked.iter().filter(|name| !told.contains(*name) && !harmless.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/security.md has no row for the attacks {missing:?} of the hostile guest");
}
