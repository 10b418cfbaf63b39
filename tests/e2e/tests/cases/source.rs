//! Which cases the tests of a source file stand for.
//!
//! A test says its cases in its name, or in the rows of its table: in a string that begins like such a name, or in the field
//! `case` of a struct. No other number counts, whatever a name says of a range.

use std::collections::BTreeSet;

use super::Catalogue;

/// Cases and the tests that stand for them, and what is wrong with tests that say cases.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) cases: BTreeSet<(u32, String)>,
    pub(crate) wrong: Vec<String>,
}

/// A function or a constant, and what of it is of interest.
struct Item<'a> {
    name: &'a str,
    is_function: bool,
    indent: usize,
    is_test: bool,
    /// Cases in rows of a table.
    rows: BTreeSet<u32>,
    /// Without comments.
    body: String,
}

/// Rows of a table count for the test that they stand in, or for those that use the constant or the function that they stand
/// in. A range in a name is for people; its ends must be rows.
pub(crate) fn cases_in(catalogue: &Catalogue, source: &str) -> Found {
    let items = items(catalogue, source);
    let mut found = Found::default();
    for test in items.iter().filter(|item| item.is_test) {
        let used: Vec<_> = items.iter().filter(|other| !other.is_test && uses(test, other)).collect();
        let mut cases: BTreeSet<u32> = used.iter().flat_map(|item| &item.rows).chain(&test.rows).copied().collect();
        let Named { single, ends } = named(catalogue, test.name);
        let lost: Vec<_> = ends.difference(&cases).collect();
        if !lost.is_empty() {
            found.wrong.push(format!("{} ends at {lost:?}, which no row of it is", test.name));
        }
        cases.extend(single);
        if !cases.is_empty() && !asserts(test, &items) {
            found.wrong.push(format!("{} stands for {cases:?} and asserts nothing", test.name));
        }
        found.cases.extend(cases.into_iter().map(|case| (case, test.name.to_owned())));
    }
    found
}

fn items<'a>(catalogue: &Catalogue, source: &'a str) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'_>> = vec![];
    let (mut is_test, mut is_ignored, mut is_open) = (false, false, false);
    for line in source.lines() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.starts_with("//") {
            continue;
        }
        let is_inner = is_open && items.last().is_some_and(|item| indent > item.indent);
        if code.starts_with("#[") && !is_inner {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            is_ignored |= code.starts_with("#[ignore");
        } else if let Some((name, is_function)) = item(code).filter(|_| !is_inner) {
            let (rows, body) = (BTreeSet::new(), String::new());
            // What nobody runs stands for nothing.
            let is_run = std::mem::take(&mut is_test) & !std::mem::take(&mut is_ignored);
            items.push(Item { name, is_function, indent, is_test: is_run, rows, body });
            is_open = true;
        }
        if let Some(last) = items.last_mut() {
            last.rows.extend(rows(catalogue, code));
            last.body.push_str(code);
            last.body.push('\n');
            // As rustfmt writes it.
            is_open &= indent != last.indent || !(code == "}" || code.ends_with([';', '}']));
        }
    }
    items
}

/// The name of the function or the constant that begins here, and whether it is a function.
fn item(code: &str) -> Option<(&str, bool)> {
    let mut rest = code;
    for before in ["pub(crate) ", "pub(super) ", "pub ", "async ", "const fn ", "fn "] {
        if let Some(after) = rest.strip_prefix(before) {
            rest = after;
            if before.ends_with("fn ") {
                return Some((words(rest).next()?, true));
            }
        }
    }
    let rest = ["const ", "static "].into_iter().find_map(|before| rest.strip_prefix(before))?;
    Some((words(rest).next()?, false))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !is_of_word(letter)).filter(|word| !word.is_empty())
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// A function is used where it is called: a local may have the same name.
fn uses(item: &Item<'_>, other: &Item<'_>) -> bool {
    let is_called = |(at, name): (usize, &str)| {
        let (before, rest) = item.body.split_at(at);
        let is_call = |after: &str| after.starts_with('(') || after.starts_with("::<");
        !before.ends_with(is_of_word) && rest.strip_prefix(name).is_some_and(is_call)
    };
    let is_used = || match other.is_function {
        true => item.body.match_indices(other.name).any(is_called),
        false => words(&item.body).any(|word| word == other.name),
    };
    item.name != other.name && is_used()
}

/// Whether it fails for any reason of its own, or a function of its file does that it uses. To take a value out of a result is no
/// reason: nearly everything does. To wait for something that must come is one.
fn asserts(item: &Item<'_>, items: &[Item<'_>]) -> bool {
    let fails = |item: &Item<'_>| {
        let is_reason = |word: &str| ["assert", "await_"].iter().any(|begin| word.starts_with(begin));
        words(&item.body).any(|word| is_reason(word) || ["panic", "unwrap_err", "expect_err"].contains(&word))
    };
    fails(item) || items.iter().any(|other| !other.is_test && uses(item, other) && fails(other))
}

/// `case: 120` and `"case_121_…"` in a row, also several.
fn rows(catalogue: &Catalogue, code: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok();
    let fields = catalogue.field.into_iter().flat_map(|field| code.split(field).skip(1).filter_map(number));
    let mut rows: BTreeSet<u32> = fields.filter(|case| catalogue.cases.contains(case)).collect();
    for text in code.split('"').skip(1) {
        let name = words(text).next().filter(|name| text.starts_with(name));
        if let Some(name) = name.filter(|name| name.split('_').next().is_some_and(|word| catalogue.is_word(word))) {
            rows.extend(named(catalogue, name).single);
        }
    }
    rows
}

/// Cases in the name of a test.
#[derive(Debug, Default, PartialEq)]
struct Named {
    single: BTreeSet<u32>,
    /// The first and the last one of ranges.
    ends: BTreeSet<u32>,
}

/// `case_94_…`, `case_117_118_…`, `cases_81_to_93_and_case_105_…`. Other numbers in a name are no cases.
fn named(catalogue: &Catalogue, name: &str) -> Named {
    let mut named = Named::default();
    let (mut counting, mut from, mut ranging) = (false, None, false);
    for word in name.split('_') {
        match word {
            _ if catalogue.is_word(word) => (counting, from, ranging) = (true, None, false),
            "to" if counting && from.is_some() => ranging = true,
            "and" if counting && !ranging => {}
            _ => match word.parse::<u32>().ok().filter(|case| counting && catalogue.cases.contains(case)) {
                Some(case) => {
                    if let Some(first) = from.filter(|_| ranging) {
                        named.single.remove(&first);
                        named.ends.extend([first, case]);
                    } else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DIGITALOCEAN, FRAMEWORK};

    #[test]
    fn names_of_tests_say_their_cases() {
        let cases: [(&str, &[u32], &[u32]); 9] = [
            ("case_94_a_delete_that_fails", &[94], &[]),
            ("case_117_118_119_all_protocols", &[117, 118, 119], &[]),
            ("cases_81_to_84_deletion", &[], &[81, 84]),
            ("cases_96_to_98_and_case_105_shutdown", &[105], &[96, 98]),
            ("case_106_case_107_the_id", &[106, 107], &[]),
            ("cases_130_and_131_no_call", &[130, 131], &[]),
            ("case_117_and_7000_118_two_conflicts", &[117], &[]),
            ("two_hundred_nodes_and_100_services", &[], &[]),
            ("case_138_a_node_more_than_150", &[138], &[]),
        ];
        for (name, single, ends) in cases {
            let [single, ends] = [single, ends].map(|cases| cases.iter().copied().collect());
            assert_eq!(named(&FRAMEWORK, name), Named { single, ends }, "{name}");
        }
    }

    fn found(catalogue: &Catalogue, source: &str) -> (Vec<(u32, String)>, Vec<String>) {
        let Found { cases, wrong } = cases_in(catalogue, source);
        (cases.into_iter().collect(), wrong)
    }

    #[test]
    fn rows_count_for_the_test_that_runs_them_and_no_other_number_does() {
        let source = "
            const ROWS: [Row; 2] = [
                Row { case: 120, .. }, Row { case: 121, .. },
                Row { case: 7000, .. },
            ];

            fn more() -> Vec<Row> {
                vec![Row { case: 122 }]
            }

            // A local has its name.
            fn nobody_uses_this() -> Row {
                Row { case: 199 }
            }

            // It uses more, though the comment says case: 140 and \"case_141\".
            #[test]
            fn a_table() {
                let nobody_uses_this = ROWS.iter().chain(more::<Row>());
                for row in nobody_uses_this { assert!(row.holds()) }
                nobody_uses_this_either(nobody_uses_this);
            }

            #[tokio::test(start_paused = true)]
            async fn case_130_its_own() {
                const INNER: Row = Row { case: 131 };
                assert_eq!(INNER, \"for case_150 and 151\");
            }

            fn object() -> Object {
                Object { uid: \"uid-133\", size: 134 }
            }

            #[test]
            fn cases_132_to_135_a_range() {
                let rows = [(\"case_132\", true), (\"case_134_135 what\", false), (\"133\", true)];
                assert!(rows.contains(object()));
                let (case, count) = (133, 134);
            }

            #[test]
            #[ignore = \"flaky\"]
            fn case_140_ignored() {}

            #[ignore]
            #[tokio::test(start_paused = true)]
            async fn case_142_ignored_before_it_is_a_test() { assert!(true) }

            #[test]
            fn case_143_the_next_one_counts() { assert!(true) }

            fn case_141_no_test() {}
        ";
        let range = "cases_132_to_135_a_range";
        let expected = [
            (120, "a_table"),
            (121, "a_table"),
            (122, "a_table"),
            (130, "case_130_its_own"),
            (131, "case_130_its_own"),
            (132, range),
            (134, range),
            (135, range),
            (143, "case_143_the_next_one_counts"),
        ];
        let expected = expected.map(|(case, name)| (case, name.to_owned())).to_vec();
        assert_eq!(found(&FRAMEWORK, source), (expected, vec![]));
    }

    #[test]
    fn a_test_that_asserts_nothing_is_refused_and_so_is_a_range_without_its_rows() {
        let source = "
            #[test]
            fn case_81_empty() {}

            #[tokio::test]
            async fn case_82_a_comment() {
                // assert!(true);
            }

            fn checked() {
                assert_eq!(1, 1);
            }

            #[test]
            fn case_83_by_its_helper() {
                checked();
            }

            #[test]
            fn case_84_does_something() {
                let bench = Bench::new();
                bench.sync();
            }

            #[test]
            #[expect(clippy::unwrap_used, reason = \"a test\")]
            fn case_88_takes_values_out() {
                let bench = Bench::new().unwrap();
                bench.sync().expect(\"it works\");
            }

            #[tokio::test]
            async fn case_89_waits_for_what_must_come() {
                await_untainted(client, name).await;
            }

            #[test]
            fn case_90_is_refused() {
                Bench::new().unwrap_err();
            }

            #[test]
            fn cases_85_to_87_of_which_one_is_a_row() {
                assert!(holds(\"case_85\"));
            }

            #[test]
            fn an_empty_one_without_a_case() {}
        ";
        let (cases, wrong) = found(&FRAMEWORK, source);
        assert_eq!(cases.iter().map(|(case, _)| *case).collect::<Vec<_>>(), [81, 82, 83, 84, 85, 88, 89, 90]);
        let wanted = [
            "case_81_empty stands for {81} and asserts nothing",
            "case_82_a_comment stands for {82} and asserts nothing",
            "case_84_does_something stands for {84} and asserts nothing",
            "case_88_takes_values_out stands for {88} and asserts nothing",
            "cases_85_to_87_of_which_one_is_a_row ends at [87], which no row of it is",
        ];
        assert_eq!(wrong, wanted);
    }

    #[test]
    fn a_catalogue_has_its_own_names_and_rows() {
        let source = "
            #[test]
            fn do_006_007_269_existence() { assert!(exists()) }

            #[test]
            fn do_082_to_084_and_do_105_a_range() {
                let rows = [(\"do_082\", true), (\"do_084\", false)];
                assert!(rows.len() == 83);
            }

            #[test]
            fn what_cannot_be() {
                let rows = [(\"do_062\", 1), (\"T34\", 288), (\"to_do_063\", 1)];
                assert!(rows.len() == 83);
            }

            #[test]
            fn case_94_of_the_framework_and_two_to_do_in_7_days() { assert!(true) }
        ";
        let (cases, wrong) = found(&DIGITALOCEAN, source);
        assert_eq!(cases.into_iter().map(|(case, _)| case).collect::<Vec<_>>(), [6, 7, 62, 82, 84, 105, 269]);
        assert_eq!(wrong, [""; 0]);
    }
}
