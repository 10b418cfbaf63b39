//! Which test stands for which case of upstream's tests, or why none does: `docs/cases.md` and `docs/cases/*.md`, made of the
//! YAML beside them and of the names of all tests.

#![expect(clippy::unwrap_used, reason = "clippy.toml allows it in test functions, but not in their helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Cases that are numbered together, and how tests say which they stand for.
struct Catalogue {
    /// In `docs`, without `.yaml` or `.md`.
    file: &'static str,
    title: &'static str,
    /// Where people read what is different, from the folder of the file.
    differences: &'static str,
    cases: RangeInclusive<u32>,
    /// Words of a test's name that numbers follow.
    words: &'static [&'static str],
    /// What stands before the number in the row of a table.
    row: &'static str,
    /// What a deviation must cite one of, with a number after it.
    cites: &'static [&'static str],
}

/// Sections 7.8 to 7.14 of the description of the framework.
const FRAMEWORK: Catalogue = Catalogue {
    file: "cases",
    title: "Cases of upstream's tests, and ours",
    differences: "[compatibility.md](compatibility.md)",
    cases: 81..=212,
    words: &["case", "cases"],
    row: "case: ",
    cites: &[],
};

/// Section 6 of the description of the manager for DigitalOcean.
const DIGITALOCEAN: Catalogue = Catalogue {
    file: "cases/digitalocean",
    title: "DigitalOcean: cases of the Go manager's tests, and ours",
    differences: "[its README](../../providers/digitalocean/README.md)",
    cases: 1..=287,
    words: &["do"],
    row: "\"do_",
    cites: &["T", "QUIRK-", "D"],
};

/// Rooms with tests.
const ROOMS: [&str; 3] = ["runtime", "providers", "tests"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    sections: Vec<Section>,
    deviations: Vec<Deviation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    number: String,
    title: String,
    cases: BTreeMap<u32, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    cases: Vec<u32>,
    why: String,
}

/// A test: its file from the root, and its name.
type Test = (String, String);

#[test]
fn the_table_of_the_frameworks_cases_is_complete_and_new() {
    check(&FRAMEWORK);
}

#[test]
fn the_table_of_digitaloceans_cases_is_complete_and_new() {
    check(&DIGITALOCEAN);
}

fn check(catalogue: &Catalogue) {
    let file = |kind: &str| root().join(format!("docs/{}.{kind}", catalogue.file));
    let data: Data = serde_saphyr::from_str(&std::fs::read_to_string(file("yaml")).unwrap()).unwrap();
    let described: Vec<u32> = data.sections.iter().flat_map(|section| section.cases.keys().copied()).collect();
    let cases = || catalogue.cases.clone();
    assert_eq!(described, cases().collect::<Vec<_>>(), "each case is described once, in order");
    let tests = tests_of_cases(catalogue);
    let deviations = deviations(catalogue, &data);
    let without: Vec<u32> =
        cases().filter(|case| !tests.contains_key(case) && !deviations.contains_key(case)).collect();
    let table = table(catalogue, &data, &tests, &deviations);
    if std::env::var_os("CASES").is_some_and(|value| value == "write") {
        std::fs::write(file("md"), &table).unwrap();
    }
    assert!(without.is_empty(), "neither a test nor a deviation in docs/{}.yaml: {without:?}", catalogue.file);
    let written = std::fs::read_to_string(file("md")).unwrap_or_default();
    assert!(written == table, "docs/{}.md is stale: CASES=write cargo test -p ccm-e2e --test cases", catalogue.file);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn deviations<'a>(catalogue: &Catalogue, data: &'a Data) -> BTreeMap<u32, Vec<&'a str>> {
    let mut deviations: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for Deviation { cases, why } in &data.deviations {
        assert!(cites(catalogue, why), "the deviation {why:?} cites none of {:?} with a number", catalogue.cites);
        for case in cases {
            assert!(catalogue.cases.contains(case), "there is no case {case}");
            deviations.entry(*case).or_default().push(why.trim());
        }
    }
    deviations
}

/// Whether it names a defect of upstream's, or a decision of the description: a whim is no reason.
fn cites(catalogue: &Catalogue, why: &str) -> bool {
    let number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let cited = |text: &str| catalogue.cites.iter().any(|label| text.strip_prefix(label).is_some_and(number));
    catalogue.cites.is_empty() || why.split([' ', '(', ')', ',', '\n']).any(cited)
}

fn table(
    catalogue: &Catalogue,
    data: &Data,
    tests: &BTreeMap<u32, BTreeSet<Test>>,
    deviations: &BTreeMap<u32, Vec<&str>>,
) -> String {
    let (folder, name) = catalogue.file.rsplit_once('/').unwrap_or(("", catalogue.file));
    let up = if folder.is_empty() { "" } else { "../" };
    let mut text = format!(
        "# {}\n\n\
        Made by a test; do not edit. What each case is, and where we differ, stands in [{name}.yaml]({name}.yaml); deviations that\n\
        people notice stand in {} as well.\n",
        catalogue.title, catalogue.differences
    );
    for section in &data.sections {
        write!(
            text,
            "\n## {} {}\n\n| case | what | tests | here |\n|---|---|---|---|\n",
            section.number, section.title
        )
        .unwrap();
        for (case, what) in &section.cases {
            let links = tests.get(case).into_iter().flatten().map(|(file, name)| format!("[`{name}`]({up}../{file})"));
            let links = links.collect::<Vec<_>>().join("<br>");
            let why = deviations.get(case).map(|why| why.join("; ")).unwrap_or_else(|| "the same".to_owned());
            writeln!(text, "| {case} | {what} | {links} | {} |", why.replace('\n', " ")).unwrap();
        }
    }
    text
}

/// By case.
fn tests_of_cases(catalogue: &Catalogue) -> BTreeMap<u32, BTreeSet<Test>> {
    let mut files = vec![];
    for room in ROOMS {
        sources(&root().join(room), &mut files);
    }
    let mut found: BTreeMap<u32, BTreeSet<Test>> = BTreeMap::new();
    for path in files {
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        for (case, test) in cases_in(catalogue, &std::fs::read_to_string(&path).unwrap()) {
            found.entry(case).or_default().insert((file.clone(), test));
        }
    }
    found
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // This file shows what it looks for.
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("e2e/tests/cases.rs") {
            files.push(path);
        }
    }
}

/// A function or a constant, and what of it is of interest.
struct Item<'a> {
    name: &'a str,
    is_test: bool,
    /// Cases in rows of a table.
    rows: BTreeSet<u32>,
    body: String,
}

/// Cases and the tests that stand for them. Rows of a table count for the test that they stand in, or for those that use the
/// constant or the function that they stand in. Of a range in a name those count that stand there as well: a range is quickly
/// written.
fn cases_in(catalogue: &Catalogue, source: &str) -> BTreeSet<(u32, String)> {
    let mut items: Vec<Item<'_>> = vec![];
    let mut is_test = false;
    for line in source.lines() {
        let code = line.trim_start();
        if code.starts_with("#[") {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            // What nobody runs stands for nothing.
            is_test &= !code.starts_with("#[ignore");
        } else if let Some(name) = item(code) {
            items.push(Item {
                name,
                is_test: std::mem::take(&mut is_test),
                rows: BTreeSet::new(),
                body: String::new(),
            });
        }
        if let Some(last) = items.last_mut() {
            last.rows.extend(rows(catalogue, code));
            last.body.push_str(code);
            last.body.push('\n');
        }
    }
    let mut found = BTreeSet::new();
    for test in items.iter().filter(|item| item.is_test) {
        let used = items.iter().filter(|other| !other.is_test && words(&test.body).any(|word| word == other.name));
        let (mut rows, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for item in used.chain([test]) {
            rows.extend(item.rows.iter().copied());
            numbers.extend(words(&item.body).filter_map(|word| word.parse::<u32>().ok()));
        }
        let Named { single, ranged } = named(catalogue, test.name);
        let cases = rows.into_iter().chain(single).chain(ranged.intersection(&numbers).copied());
        found.extend(cases.map(|case| (case, test.name.to_owned())));
    }
    found
}

/// The name of the function or the constant that begins here.
fn item(code: &str) -> Option<&str> {
    let mut rest = code;
    for before in ["pub(crate) ", "pub(super) ", "pub ", "async "] {
        rest = rest.strip_prefix(before).unwrap_or(rest);
    }
    let rest = ["fn ", "const ", "static "].into_iter().find_map(|before| rest.strip_prefix(before))?;
    words(rest).next()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// `case: 120` in a row, also several.
fn rows(catalogue: &Catalogue, code: &str) -> Vec<u32> {
    let after = code.split(catalogue.row).skip(1);
    let number = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok();
    after.filter_map(number).filter(|case| catalogue.cases.contains(case)).collect()
}

/// Cases in the name of a test.
#[derive(Debug, Default, PartialEq)]
struct Named {
    single: BTreeSet<u32>,
    /// With both ends.
    ranged: BTreeSet<u32>,
}

/// `case_94_…`, `case_117_118_…`, `cases_81_to_93_and_case_105_…`. Other numbers in a name are no cases.
fn named(catalogue: &Catalogue, name: &str) -> Named {
    let mut named = Named::default();
    let (mut counting, mut from, mut ranging) = (false, None, false);
    for word in name.split('_') {
        match word {
            _ if catalogue.words.contains(&word) => (counting, from, ranging) = (true, None, false),
            "to" if counting && from.is_some() => ranging = true,
            "and" if counting && !ranging => {}
            _ => match word.parse::<u32>().ok().filter(|_| counting) {
                Some(case) => {
                    if let Some(first) = from.filter(|_| ranging) {
                        named.single.remove(&first);
                        named.ranged.extend((first..=case).filter(|case| catalogue.cases.contains(case)));
                    } else if catalogue.cases.contains(&case) {
                        named.single.insert(case);
                    }
                    (from, ranging) = (Some(case), false);
                }
                None => (counting, ranging) = (false, false),
            },
        }
    }
    named
}

#[test]
fn names_of_tests_say_their_cases() {
    let cases: [(&str, &[u32], &[u32]); 9] = [
        ("case_94_a_delete_that_fails", &[94], &[]),
        ("case_117_118_119_all_protocols", &[117, 118, 119], &[]),
        ("cases_81_to_84_deletion", &[], &[81, 82, 83, 84]),
        ("cases_96_to_98_and_case_105_shutdown", &[105], &[96, 97, 98]),
        ("case_106_case_107_the_id", &[106, 107], &[]),
        ("cases_130_and_131_no_call", &[130, 131], &[]),
        ("case_7_2_27_two_conflicts", &[], &[]),
        ("two_hundred_nodes_and_100_services", &[], &[]),
        ("case_138_a_node_more_than_150", &[138], &[]),
    ];
    for (name, single, ranged) in cases {
        let [single, ranged] = [single, ranged].map(|cases| cases.iter().copied().collect());
        assert_eq!(named(&FRAMEWORK, name), Named { single, ranged }, "{name}");
    }
}

#[test]
fn rows_count_for_the_test_that_runs_them() {
    let source = "
        const ROWS: [Row; 2] = [
            Row { case: 120, .. }, Row { case: 121, .. },
            Row { case: 7, .. },
        ];

        fn more() -> Vec<Row> {
            vec![Row { case: 122 }]
        }

        fn nobody_uses_this() -> Row {
            Row { case: 199 }
        }

        #[test]
        fn a_table() {
            for row in ROWS.iter().chain(more()) {}
        }

        #[tokio::test(start_paused = true)]
        async fn case_130_its_own() {
            let row = Row { case: 131 };
        }

        #[test]
        fn cases_132_to_135_a_range() {
            let rows = [(132, true), (\"134 what\", false)];
        }

        #[test]
        #[ignore = \"flaky\"]
        fn case_140_ignored() {}

        fn case_141_no_test() {}
    ";
    let found: Vec<(u32, String)> = cases_in(&FRAMEWORK, source).into_iter().collect();
    let range = "cases_132_to_135_a_range";
    let expected = [
        (120, "a_table"),
        (121, "a_table"),
        (122, "a_table"),
        (130, "case_130_its_own"),
        (131, "case_130_its_own"),
        (132, range),
        (134, range),
    ];
    assert_eq!(found, expected.map(|(case, name)| (case, name.to_owned())));
}

#[test]
fn a_catalogue_has_its_own_names_and_rows() {
    let source = "
        #[test]
        fn do_006_007_269_existence() {}

        #[test]
        fn do_082_to_084_and_do_105_a_range() {
            let rows = [(82, true), (84, false)];
        }

        #[test]
        fn what_cannot_be() {
            let rows = [(\"do_062\", 1), (\"T34\", 288)];
        }

        #[test]
        fn case_94_of_the_framework_and_two_to_do_in_7_days() {}
    ";
    let found: Vec<u32> = cases_in(&DIGITALOCEAN, source).into_iter().map(|(case, _)| case).collect();
    assert_eq!(found, [6, 7, 62, 82, 84, 105, 269]);
}

#[test]
fn a_deviation_cites_what_it_deviates_from() {
    for (why, cited) in [
        ("nothing is written without a difference (T3)", true),
        ("it is listed whole (T23, T24)", true),
        ("no list is asked for twice (QUIRK-10)", true),
        ("not built", false),
        ("The Token", false),
        ("case 7", false),
    ] {
        assert_eq!(cites(&DIGITALOCEAN, why), cited, "{why}");
        assert!(cites(&FRAMEWORK, why), "upstream's framework has defects without a number");
    }
}
