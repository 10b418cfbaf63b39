//! Which test stands for which case of upstream's tests, or why none does: `docs/cases.md` and `docs/cases/*.md`, made of the
//! YAML beside them and of the names of all tests.

#![expect(clippy::unwrap_used, reason = "clippy.toml allows it in test functions, but not in their helpers")]

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use source::cases_in;

/// Cases that are numbered together, and how tests say which they stand for.
struct Catalogue {
    /// In `docs`, without `.yaml` or `.md`.
    file: &'static str,
    title: &'static str,
    /// Where people read what is different, from the folder of the file.
    differences: &'static str,
    cases: RangeInclusive<u32>,
    /// Words of a test's name, and of a row of a table, that numbers follow.
    words: &'static [&'static str],
    /// What stands before the number in a row that is a struct.
    field: Option<&'static str>,
    /// What a deviation must cite one of: a label, and the highest number that follows it.
    cites: &'static [(&'static str, u32)],
}

impl Catalogue {
    fn is_word(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// Section 7 of the description of the framework.
const FRAMEWORK: Catalogue = Catalogue {
    file: "cases",
    title: "Cases of upstream's tests, and ours",
    differences: "[compatibility.md](compatibility.md)",
    cases: 1..=261,
    words: &["case", "cases"],
    field: Some("case: "),
    cites: &[("QUIRK-", 36)],
};

/// Section 6 of the description of the manager for DigitalOcean; traps and decisions of section 7.
const DIGITALOCEAN: Catalogue = Catalogue {
    file: "cases/digitalocean",
    title: "DigitalOcean: cases of the Go manager's tests, and ours",
    differences: "[its README](../../providers/digitalocean/README.md)",
    cases: 1..=287,
    words: &["do"],
    field: None,
    cites: &[("T", 45), ("QUIRK-", 36), ("D", 15)],
};

/// Section 9 of the description of the manager for OpenStack; quirks of appendix C, and recommendations that have numbers. A section alone
/// is no reason: it says what that manager does, and not why anybody should do something else.
const OPENSTACK: Catalogue = Catalogue {
    file: "cases/openstack",
    title: "OpenStack: cases of the Go manager's tests, and ours",
    differences: "[its README](../../providers/openstack/README.md)",
    cases: 1..=215,
    words: &["os"],
    field: None,
    cites: &[("Q", 52), ("R0.3.", 3), ("R7.13.", 9), ("RD.", 7), ("QUIRK-", 36)],
};

/// Rooms with tests.
const ROOMS: [&str; 3] = ["runtime", "providers", "tests"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    sections: Vec<Section>,
    deviations: Vec<Remark>,
    /// How a test shows a case that has another form here. It excuses nothing.
    #[serde(default)]
    notes: Vec<Remark>,
    #[serde(default)]
    unbuilt: Vec<Unbuilt>,
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
struct Remark {
    cases: Vec<u32>,
    why: String,
}

/// Cases of something that does not exist yet, and need their tests as soon as it does.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unbuilt {
    cases: Vec<u32>,
    why: String,
    /// From the root, and what stands there only until it is built.
    file: PathBuf,
    says: String,
}

/// By case.
type Remarks<'a> = BTreeMap<u32, Vec<&'a str>>;

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

#[test]
fn the_table_of_openstacks_cases_is_complete_and_new() {
    check(&OPENSTACK);
}

fn check(catalogue: &Catalogue) {
    let file = |kind: &str| root().join(format!("docs/{}.{kind}", catalogue.file));
    let data: Data = serde_saphyr::from_str(&std::fs::read_to_string(file("yaml")).unwrap()).unwrap();
    let described: Vec<u32> = data.sections.iter().flat_map(|section| section.cases.keys().copied()).collect();
    assert_eq!(described, catalogue.cases.clone().collect::<Vec<_>>(), "each case is described once, in order");
    let tests = tests_of_cases(catalogue);
    let remarks = remarks(catalogue, &data, &tests, &|file| std::fs::read_to_string(root().join(file)).unwrap());
    let table = table(catalogue, &data, &tests, remarks.as_ref().unwrap_or(&Remarks::new()));
    if std::env::var_os("CASES").is_some_and(|value| value == "write") {
        std::fs::write(file("md"), &table).unwrap();
    }
    assert_eq!(remarks.err().unwrap_or_default(), [""; 0], "docs/{}.yaml", catalogue.file);
    let written = std::fs::read_to_string(file("md")).unwrap_or_default();
    assert!(written == table, "docs/{}.md is stale: CASES=write cargo test -p ccm-e2e --test cases", catalogue.file);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What is said of cases, in the order deviations, notes, what is not built; or all that is wrong with it. `read` gives a file from
/// the root.
fn remarks<'a>(
    catalogue: &Catalogue,
    data: &'a Data,
    tests: &BTreeMap<u32, BTreeSet<Test>>,
    read: &dyn Fn(&Path) -> String,
) -> Result<Remarks<'a>, Vec<String>> {
    let mut remarks = Remarks::new();
    let mut wrong = vec![];
    let mut note = |cases: &[u32], why: &'a str| {
        for case in cases {
            remarks.entry(*case).or_default().push(why.trim());
        }
    };
    let mut excused: BTreeSet<u32> = BTreeSet::new();
    for Remark { cases, why } in &data.deviations {
        if !cites(catalogue, why) {
            wrong.push(format!("the deviation {why:?} of {cases:?} cites none of {:?}", catalogue.cites));
        }
        excused.extend(cases);
        note(cases, why);
    }
    for Remark { cases, why } in &data.notes {
        note(cases, why);
    }
    for Unbuilt { cases, why, file, says } in &data.unbuilt {
        if !file.starts_with("runtime") {
            wrong.push(format!(
                "{why:?}: {} is not below runtime/, where the program itself says what it has not",
                file.display()
            ));
        }
        if !read(file).contains(says) {
            wrong
                .push(format!("{why:?} is over, since {} does not say {says:?}: {cases:?} need tests", file.display()));
        }
        excused.extend(cases);
        note(cases, why);
    }
    wrong.extend(remarks.keys().filter(|case| !catalogue.cases.contains(case)).map(|case| format!("no case {case}")));
    let without: Vec<u32> =
        catalogue.cases.clone().filter(|case| !tests.contains_key(case) && !excused.contains(case)).collect();
    if !without.is_empty() {
        wrong.push(format!("neither a test nor a deviation: {without:?}"));
    }
    if wrong.is_empty() { Ok(remarks) } else { Err(wrong) }
}

/// Whether it names a defect of upstream's, or a decision of the description: a whim is no reason.
fn cites(catalogue: &Catalogue, why: &str) -> bool {
    let is_label = |text: &str| {
        let mut numbers = catalogue.cites.iter().filter_map(|(label, last)| Some((text.strip_prefix(label)?, last)));
        numbers.any(|(number, last)| number.parse().is_ok_and(|number: u32| (1..=*last).contains(&number)))
    };
    why.split([' ', '(', ')', ',', ';', '\n']).any(is_label)
}

fn table(catalogue: &Catalogue, data: &Data, tests: &BTreeMap<u32, BTreeSet<Test>>, remarks: &Remarks<'_>) -> String {
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
            let why = remarks.get(case).map(|why| why.join("; ")).unwrap_or_else(|| "the same".to_owned());
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
    let mut tests: BTreeMap<u32, BTreeSet<Test>> = BTreeMap::new();
    let mut wrong = vec![];
    for path in files {
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        let found = cases_in(catalogue, &std::fs::read_to_string(&path).unwrap());
        wrong.extend(found.wrong.into_iter().map(|wrong| format!("{file}: {wrong}")));
        for (case, test) in found.cases {
            tests.entry(case).or_default().insert((file.clone(), test));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    tests
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // This program shows what it looks for.
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("e2e/tests/cases") {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// What is wrong with a catalogue of this YAML, whose case 81 has a test.
fn said(yaml: &str) -> Vec<String> {
    let catalogue = Catalogue { cases: 81..=83, ..FRAMEWORK };
    let data: Data = serde_saphyr::from_str(&format!("sections: []\n{yaml}")).unwrap();
    let tests = BTreeMap::from([(81, BTreeSet::from([("a.rs".to_owned(), "case_81".to_owned())]))]);
    let read = |file: &Path| format!("{} says nothing", file.display());
    remarks(&catalogue, &data, &tests, &read).err().unwrap_or_default()
}

#[test]
fn a_case_without_a_test_has_a_deviation_that_cites_or_is_not_built() {
    let unbuilt = |file: &str, says: &str| {
        format!(
            "deviations: [{{cases: [83], why: so (QUIRK-1)}}]\nunbuilt: [{{cases: [82], why: later, file: {file}, says: {says}}}]"
        )
    };
    let lacks = |cases: &str| format!("neither a test nor a deviation: {cases}");
    for (yaml, wrong) in [
        ("deviations: []", vec![lacks("[82, 83]")]),
        ("deviations: [{cases: [82, 83], why: as QUIRK-09 says}]", vec![]),
        (
            "deviations: [{cases: [82, 83], why: not built}]",
            vec!["the deviation \"not built\" of [82, 83] cites none of [(\"QUIRK-\", 36)]".to_owned()],
        ),
        ("deviations: [{cases: [81, 82, 83, 84], why: (QUIRK-36)}]", vec!["no case 84".to_owned()]),
        ("deviations: []\nnotes: [{cases: [81, 82, 83], why: (QUIRK-36)}]", vec![lacks("[82, 83]")]),
        (&unbuilt("runtime/b.rs", "nothing"), vec![]),
        (
            &unbuilt("runtime/b.rs", "something"),
            vec!["\"later\" is over, since runtime/b.rs does not say \"something\": [82] need tests".to_owned()],
        ),
        // Anybody can write a sentence there.
        (
            &unbuilt("docs/b.md", "nothing"),
            vec![
                "\"later\": docs/b.md is not below runtime/, where the program itself says what it has not".to_owned(),
            ],
        ),
    ] {
        assert_eq!(said(yaml), wrong, "{yaml}");
    }
}

#[test]
fn a_deviation_cites_what_it_deviates_from() {
    for (why, digitalocean, framework) in [
        ("nothing is written without a difference (T3)", true, false),
        ("it is listed whole (T23, T24)", true, false),
        ("no list is asked for twice (QUIRK-10)", true, true),
        ("a number that nothing has (QUIRK-37, T46, D16)", false, false),
        ("QUIRK-0 and T0", false, false),
        ("not built", false, false),
        ("The Token", false, false),
        ("case 7", false, false),
    ] {
        assert_eq!((cites(&DIGITALOCEAN, why), cites(&FRAMEWORK, why)), (digitalocean, framework), "{why}");
    }
    for (why, openstack) in [
        ("it has a decision (Q27)", true),
        ("it is recommended (R7.13.5)", true),
        ("it is recommended (RD.3, QUIRK-10)", true),
        ("there is no such number (Q53, R7.13.10, R0.3.4, RD.8, R7.13, RD)", false),
        ("a section is no decision (§11)", false),
        ("a section is no recommendation (R10, R7.3.1)", false),
    ] {
        assert_eq!(cites(&OPENSTACK, why), openstack, "{why}");
    }
}
