//! `manifests/monitoring`: alerts and panels are made of metrics, labels and values that exist, every metric has a panel, and every alert has
//! a section, fires when it should, and is quiet before, also in a system test.

use std::collections::{BTreeMap, BTreeSet};

use ccm_e2e::alerts::{promtool, rules, write_rules};
use serde_json::{Value, json};

use super::{files, links, read};

const DASHBOARD: &str = "manifests/monitoring/dashboard.json";
const CASES: &str = "tests/e2e/tests/docs/alerts.yaml";
const PAGE: &str = "docs/guides/alerts.md";

/// What Prometheus itself puts on every series, and on those of histograms.
const LABELS_OF_PROMETHEUS: [&str; 3] = ["job", "instance", "le"];
const OPERATORS: [&str; 4] = ["and", "or", "unless", "bool"];
/// Before a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Those that are about both sides of an operator.
const MATCHINGS: [&str; 2] = ["on", "ignoring"];

/// Whether a name is that of a function: its arguments follow, or the labels that it groups by.
fn is_called(rest: &str) -> bool {
    ["(", "by ", "without "].iter().any(|start| rest.starts_with(start))
}

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    metrics: BTreeSet<String>,
    /// Metric and label: what is grouped by, and what both sides are matched on.
    labels: BTreeSet<(String, String)>,
    /// Metric, label, and the value that it is compared with.
    selected: BTreeSet<(String, String, String)>,
}

/// Reads an expression of PromQL, whose syntax promtool checks.
fn named(expression: &str) -> Named {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let mut named = Named::default();
    // The last metric, and labels that the next one must have.
    let (mut last, mut pending) = (String::new(), vec![]);
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        if letter.is_ascii_digit() {
            // A number, or a duration.
            rest = rest.trim_start_matches(|c: char| is_word(c) || c == '.');
        } else if is_word(letter) {
            let word: String = rest.chars().take_while(|c| is_word(*c)).collect();
            rest = rest[word.len()..].trim_start();
            if GROUPINGS.contains(&word.as_str()) {
                let (list, after) = rest.strip_prefix('(').unwrap().split_once(')').unwrap();
                let list = list.split(',').map(str::trim).filter(|label| !label.is_empty());
                for label in list.map(str::to_owned) {
                    if MATCHINGS.contains(&word.as_str()) {
                        named.labels.insert((last.clone(), label.clone()));
                    }
                    pending.push(label);
                }
                rest = after;
            } else if !is_called(rest) && !OPERATORS.contains(&word.as_str()) {
                named.labels.extend(pending.drain(..).map(|label| (word.clone(), label)));
                last.clone_from(&word);
                named.metrics.insert(word);
            }
        } else if letter == '{' {
            let (selector, after) = rest[1..].split_once('}').unwrap();
            for part in selector.split(',') {
                let (label, value) = part.split_once('=').unwrap();
                let value = value.trim().trim_matches('"');
                named.selected.insert((last.clone(), label.trim().to_owned(), value.to_owned()));
            }
            rest = after;
        } else if letter == '[' {
            rest = rest.split_once(']').unwrap().1;
        } else {
            rest = &rest[letter.len_utf8()..];
        }
    }
    named
}

/// The alerts: their name, and the whole rule.
fn alerts() -> Vec<(String, Value)> {
    rules().unwrap()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

/// Expressions of a panel.
fn expressions(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// A metric of the reference.
struct Described {
    kind: String,
    labels: BTreeSet<String>,
    /// Words in code of its description, which has the values of its labels.
    words: BTreeSet<String>,
    /// Whether one of its labels can be a reaction.
    has_reactions: bool,
}

/// What the words for reactions follow, which many metrics have as values: they are described once.
const REACTIONS: &str = "are those of the contract: ";

/// Words in code of a text.
fn words(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Metrics of the reference, by name.
fn reference() -> BTreeMap<String, Described> {
    let page = read("docs/reference/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let name = cells.next()?.trim_matches('`').to_owned();
        let kind = cells.next()?.to_owned();
        let labels = words(cells.next()?);
        let meaning = cells.collect::<Vec<_>>().join(" | ");
        let has_reactions = labels.contains("reaction") || meaning.contains("reaction");
        Some((name, Described { kind, labels, words: words(&meaning), has_reactions }))
    };
    let mut metrics: BTreeMap<String, Described> = rows.map(|line| row(line).unwrap()).collect();
    let (_, reactions) = page.split_once(REACTIONS).unwrap();
    let reactions = words(reactions.split("\n\n").next().unwrap());
    assert!(reactions.len() == 9 && reactions.contains("unauthorized"), "{reactions:?}");
    for metric in metrics.values_mut().filter(|metric| metric.has_reactions) {
        metric.words.extend(reactions.iter().cloned());
    }
    metrics
}

/// The metric of the reference that a series belongs to, if one does.
fn metric<'a>(reference: &'a BTreeMap<String, Described>, series: &str) -> Option<&'a str> {
    let of_histogram = || {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix))?;
        reference.get_key_value(base).filter(|(_, metric)| metric.kind == "histogram")
    };
    let whole = || reference.get_key_value(series).filter(|(_, metric)| metric.kind != "histogram");
    whole().or_else(of_histogram).map(|(name, _)| name.as_str())
}

/// What an expression names that does not exist: metrics, labels that no metric of it has, and values that the label of that very metric does
/// not take.
fn unknown(reference: &BTreeMap<String, Described>, expression: &str) -> Vec<String> {
    let named = named(expression);
    let of_all = |label: &str| LABELS_OF_PROMETHEUS.contains(&label);
    let described = |series: &str| metric(reference, series).map(|name| &reference[name]);
    let lost = named.metrics.iter().filter(|series| described(series).is_none());
    let mut wrong: Vec<String> = lost.map(|series| format!("no metric {series}")).collect();
    let selected = named.selected.iter().map(|(series, label, _)| (series, label));
    let labels: BTreeSet<_> = named.labels.iter().map(|(series, label)| (series, label)).chain(selected).collect();
    for (series, label) in labels {
        if described(series).is_some_and(|metric| !of_all(label) && !metric.labels.contains(label)) {
            wrong.push(format!("{series} has no label {label}"));
        }
    }
    for (series, label, value) in &named.selected {
        let is_free = of_all(label) || value.starts_with('$');
        if described(series).is_some_and(|metric| !is_free && !metric.words.contains(value)) {
            wrong.push(format!("{label} of {series} is never {value}"));
        }
    }
    wrong
}

#[test]
fn a_label_or_a_value_that_its_metric_has_not_is_found() {
    let reference = reference();
    for (expression, found) in [
        (
            r#"sum by (job, name) (ccm_cloud_circuit_open{provider="$provider"})"#,
            &["ccm_cloud_circuit_open has no label name"][..],
        ),
        (r#"ccm_cloud_circuit_open{name="$name"}"#, &["ccm_cloud_circuit_open has no label name"]),
        // Both exist, for another metric.
        (
            r#"ccm_cloud_circuit_open{outcome="denied"} + ccm_cloud_requests_total{outcome="denied"}"#,
            &["ccm_cloud_circuit_open has no label outcome", "outcome of ccm_cloud_circuit_open is never denied"],
        ),
        (
            "sum by (verb) (ccm_cloud_requests_total) / sum by (outcome) (ccm_api_requests_total)",
            &["ccm_cloud_requests_total has no label verb"],
        ),
        (
            "ccm_cloud_circuit_open and on (provider) ccm_api_write_width",
            &["ccm_api_write_width has no label provider"],
        ),
        (
            r#"ccm_cloud_requests_total{outcome="unauthorized"}"#,
            &["outcome of ccm_cloud_requests_total is never unauthorized"],
        ),
        (r#"ccm_provider_refused{what="components"}"#, &["what of ccm_provider_refused is never components"]),
        (r#"ccm_node_initialization_failures_total{reaction="unauthorized"}"#, &[]),
        (r#"ccm_provider_load{job="$job"}"#, &["no metric ccm_provider_load"]),
    ] {
        assert_eq!(unknown(&reference, expression), found, "{expression}");
    }
}

#[test]
fn alerts_and_panels_name_metrics_labels_and_values_that_exist_and_every_metric_has_a_panel() {
    let reference = reference();
    assert!(reference.len() > 60, "{}", reference.len());
    let (mut wrong, mut shown) = (vec![], BTreeSet::new());
    let rules = alerts().into_iter().map(|(name, rule)| (name, rule["expr"].as_str().unwrap().to_owned()));
    let drawn = panels().into_iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap().to_owned();
        expressions(&panel).into_iter().map(move |expression| (title.clone(), expression))
    });
    let drawn: Vec<(String, String)> = drawn.collect();
    for (_, expression) in &drawn {
        shown.extend(
            named(expression).metrics.iter().filter_map(|series| metric(&reference, series)).map(str::to_owned),
        );
    }
    for (place, expression) in rules.chain(drawn) {
        wrong.extend(unknown(&reference, &expression).into_iter().map(|what| format!("{place}: {what}")));
    }
    wrong.extend(reference.keys().filter(|name| !shown.contains(*name)).map(|name| format!("no panel shows {name}")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_alert_has_a_section_that_its_runbook_names_and_every_section_an_alert() {
    let page = read(PAGE);
    let (_, sections) = page.split_once("\n## Alerts and what to do\n").unwrap();
    let headings: Vec<&str> = sections.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alerts();
    assert_eq!(headings, alerts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    let anchors = links::anchors(&page);
    for (name, rule) in &alerts {
        let runbook = rule["annotations"]["runbook_url"].as_str().unwrap();
        let anchor = runbook.strip_prefix(&format!("{PAGE}#")).unwrap_or_else(|| panic!("{name}: {runbook}"));
        assert_eq!(anchor, name.to_lowercase());
        assert!(anchors.iter().any(|one| one == anchor), "{runbook}");
        for annotation in ["summary", "description"] {
            assert!(
                rule["annotations"][annotation].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {annotation}"
            );
        }
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
    }
    for section in sections.split("\n### ").skip(1) {
        assert!(section.lines().skip(1).any(|line| line.len() > 60), "says nothing: {section}");
    }
}

/// The names in `{{ $labels.NAME }}` of a rule's annotations.
fn labels_of_texts(rule: &Value) -> BTreeSet<String> {
    let texts = rule["annotations"].as_object().unwrap().values().filter_map(Value::as_str);
    let after = texts.flat_map(|text| text.split("$labels.").skip(1));
    after.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn every_alert_fires_in_a_case_in_which_it_was_quiet_before_with_the_labels_that_its_texts_name() {
    let cases: Value = serde_saphyr::from_str(&read(CASES)).unwrap();
    let (mut quiet, mut fired) = (BTreeSet::new(), BTreeMap::<String, Vec<BTreeSet<String>>>::new());
    for case in cases["tests"].as_array().unwrap() {
        for test in case["alert_rule_test"].as_array().unwrap() {
            let name = test["alertname"].as_str().unwrap().to_owned();
            let expected = test["exp_alerts"].as_array().unwrap();
            if expected.is_empty() {
                quiet.insert(name.clone());
            }
            for alert in expected {
                let labels = alert["exp_labels"].as_object().unwrap().keys().cloned().collect();
                fired.entry(name.clone()).or_default().push(labels);
            }
        }
    }
    for (name, rule) in alerts() {
        assert!(quiet.contains(&name), "{CASES} has no moment in which {name} is quiet");
        let fired = fired.get(&name).unwrap_or_else(|| panic!("{CASES} has no moment in which {name} fires"));
        for labels in fired {
            let lost: Vec<String> = labels_of_texts(&rule).difference(labels).cloned().collect();
            assert!(lost.is_empty(), "the texts of {name} name labels that it has not: {lost:?}");
        }
    }
}

/// Alerts that fire in no system test, and why.
const NOT_BROUGHT_ABOUT: [(&str, &str); 1] =
    [("WasmCCMPanics", "a panic is a bug of the host: nothing that it is given makes it panic")];

/// The cases have series that somebody invented; a system test has those of a host with whom that very thing is wrong.
#[test]
fn every_alert_fires_on_what_a_host_says_of_itself_in_a_system_test() {
    let without_spaces = |file: &String| read(file).split_whitespace().collect::<String>();
    let tests: Vec<String> = files("tests/e2e/tests/system", &[".rs"]).iter().map(without_spaces).collect();
    let alerts = alerts();
    for (name, _) in &alerts {
        let call = format!("alerts::fires(\"{name}\",");
        let fires = tests.iter().any(|text| text.contains(&call));
        let excepted = NOT_BROUGHT_ABOUT.iter().any(|(alert, _)| alert == name);
        assert_ne!(fires, excepted, "either a system test has `{call}` or NOT_BROUGHT_ABOUT says why none can");
    }
    for (name, why) in NOT_BROUGHT_ABOUT {
        assert!(!why.is_empty() && alerts.iter().any(|(alert, _)| alert == name), "{name}");
    }
    assert!(tests.iter().any(|text| text.contains("alerts::quiet(")), "no system test has a host with nothing wrong");
}

#[test]
fn promtool_accepts_the_rules_and_the_expressions_of_all_panels_and_each_alert_fires_as_its_cases_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules: Vec<Value> = alerts().into_iter().map(|(_, rule)| rule).collect();
    promtool(&["check", "rules", "--lint-fatal", &write_rules(folder.path(), &rules).unwrap()]).unwrap();

    // Texts are not compared.
    for rule in &mut rules {
        rule.as_object_mut().unwrap().remove("annotations");
    }
    write_rules(folder.path(), &rules).unwrap();
    let cases = folder.path().join("alerts.yaml");
    std::fs::write(&cases, read(CASES)).unwrap();
    let cases = cases.display().to_string();
    promtool(&["test", "rules", &cases]).unwrap();
    // With a rule that never fires, it says so.
    rules[0]["expr"] = json!("vector(0) > 1");
    write_rules(folder.path(), &rules).unwrap();
    let said = promtool(&["test", "rules", &cases]).unwrap_err();
    assert!(said.contains(rules[0]["alert"].as_str().unwrap()), "{said}");

    // What panels ask, as rules that record it.
    let asked: BTreeSet<String> = panels().iter().flat_map(expressions).collect();
    let record = |(number, expression): (usize, &String)| json!({ "record": format!("panel:{number}"), "expr": expression.replace("$__rate_interval", "5m") });
    let recorded: Vec<Value> = asked.iter().enumerate().map(record).collect();
    promtool(&["check", "rules", "--lint-fatal", &write_rules(folder.path(), &recorded).unwrap()]).unwrap();
    let broken = json!({ "record": "panel:broken", "expr": "sum by (job (x)" });
    promtool(&["check", "rules", &write_rules(folder.path(), &[broken]).unwrap()]).unwrap_err();
}

#[test]
fn the_panels_have_each_their_place_number_and_source() {
    let (mut numbers, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let panels = panels();
    assert!(panels.len() > 50, "{}", panels.len());
    for panel in &panels {
        let title = panel["title"].as_str().unwrap();
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{title}: another panel has its number");
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{title} is too wide");
        for (x, y) in
            (side("x")..side("x") + side("w")).flat_map(|x| (side("y")..side("y") + side("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{title} covers another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(!expressions(panel).is_empty(), "{title} shows nothing");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            assert!(target["expr"].as_str().unwrap().contains("job=\"$job\""), "{title} shows processes of others");
        }
    }
}

#[test]
fn metrics_labels_and_values_of_an_expression_are_found() {
    let of = |expression: &str| {
        let Named { metrics, labels, selected } = named(expression);
        let selected = selected.into_iter().map(|(metric, label, value)| format!("{metric}.{label}={value}")).collect();
        let labels = labels.into_iter().map(|(metric, label)| format!("{metric}.{label}")).collect();
        [metrics, labels, selected].map(|set| set.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(
        of("sum by (le, a) (rate(x_bucket{job=\"$job\", b=\"c-d\"}[$__rate_interval])) > 0.05"),
        ["x_bucket", "x_bucket.a x_bucket.le", "x_bucket.b=c-d x_bucket.job=$job"]
    );
    assert_eq!(of("time() - max(x > 0) unless on (i) y or absent(z == 1)"), ["x y z", "x.i y.i", ""]);
    assert_eq!(of("changes(x[30m]) >= 3 and on () max_over_time(y[5m])"), ["x y", "", ""]);
}
