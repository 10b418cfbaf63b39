//! `docs/reference/metrics.md`: names, types, labels and help of all metrics, read from where they are registered, as Kubernetes does for
//! its own reference. A registry cannot be asked: it keeps silent about what has no series yet.

use std::collections::BTreeSet;

use super::{read, sources};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Metric {
    name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

/// What is registered in a file; or the call that cannot be read.
fn registered(source: &str) -> Result<Vec<Metric>, String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let calls = source.match_indices("registry.register");
    calls
        .map(|(start, call)| {
            metric(source, start, call.len()).ok_or_else(|| source[start..].lines().next().unwrap().to_owned())
        })
        .collect()
}

/// The metric that a call registers, which starts there.
fn metric(source: &str, start: usize, length: usize) -> Option<Metric> {
    let (before, call) = (&source[..start], &source[start + length..]);
    let (function, rest) = call.split_once('(')?;
    let arguments = arguments(rest);
    let (name, help, family) = match (function, arguments.as_slice()) {
        ("", [name, help, family]) => (text(before, name)?, help, family),
        ("_with_unit", [name, help, unit, family]) => {
            let unit = unit.rsplit("::").next()?.to_lowercase();
            (format!("{}_{unit}", text(before, name)?), help, family)
        }
        _ => return None,
    };
    let (kind, labels) = kind(source, before, family)?;
    let suffix = if kind == "counter" { "_total" } else { "" };
    Some(Metric { name: name + suffix, kind, labels, help: text(before, help)? })
}

/// The arguments of a call, from behind its parenthesis.
fn arguments(call: &str) -> Vec<String> {
    let (mut depth, mut in_text, mut escaped) = (1, false, false);
    let mut arguments = vec![String::new()];
    for letter in call.chars() {
        match letter {
            '"' if !escaped => in_text = !in_text,
            '(' if !in_text => depth += 1,
            ')' if !in_text => depth -= 1,
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        match letter {
            _ if depth == 0 => break,
            ',' if depth == 1 && !in_text => arguments.push(String::new()),
            letter => arguments.last_mut().unwrap().push(letter),
        }
    }
    arguments.into_iter().map(|argument| argument.trim().to_owned()).filter(|argument| !argument.is_empty()).collect()
}

/// A literal, or the one that the nearest variable of this name before holds.
fn text(before: &str, argument: &str) -> Option<String> {
    let literal = match argument.strip_prefix('"') {
        Some(literal) => literal,
        None => before.rsplit_once(&format!("let {argument} ="))?.1.trim_start().strip_prefix('"')?,
    };
    let end = literal.match_indices('"').find(|(at, _)| !literal[..*at].ends_with('\\'))?.0;
    // A literal that goes on in the next line.
    let lines: Vec<&str> = literal[..end].split("\\\n").map(str::trim_start).collect();
    Some(lines.concat().replace("\\\"", "\""))
}

/// Kind and labels of what is registered: by the type of this variable, or of this field of the struct whose `impl` it is.
fn kind(source: &str, before: &str, expression: &str) -> Option<(&'static str, Vec<String>)> {
    let name = expression.trim_end_matches(".clone()").rsplit('.').next()?;
    let (_, function) = before.rsplit_once("\nimpl ")?;
    let (owner, _) = function.split_once(' ')?;
    let variable = function.rfind(&format!("let {name}: Family<")).map(|at| &function[at..]);
    let field = || body(source, owner)?.split_once(&format!(" {name}: ")).map(|(_, kind)| kind);
    let declared = match variable {
        Some(variable) => variable.split_once(": ")?.1,
        None => field()?,
    };
    let (labels, kind) = match declared.strip_prefix("Family<") {
        Some(family) => {
            let (labels, kind) = family.split_once(", ")?;
            (fields(source, labels)?, kind)
        }
        None => (vec![], declared),
    };
    let kinds = [("Counter", "counter"), ("Gauge", "gauge"), ("FloatGauge", "gauge"), ("Histogram", "histogram")];
    kinds.iter().find(|(of, _)| kind.starts_with(of)).map(|(_, kind)| (*kind, labels))
}

/// What stands between the braces of a struct.
fn body<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let (_, body) = source.split_once(&format!("struct {name} {{"))?;
    body.split_once('}').map(|(body, _)| body)
}

/// The names of a struct's fields.
fn fields(source: &str, name: &str) -> Option<Vec<String>> {
    let named = body(source, name)?.lines().filter_map(|line| line.trim().split_once(": ")).map(|(name, _)| name);
    Some(named.filter(|name| !name.starts_with("//")).map(|name| name.rsplit(' ').next().unwrap().to_owned()).collect())
}

#[test]
fn the_reference_has_every_metric_with_its_labels() {
    let mut metrics: Vec<Metric> = vec![];
    for (file, source) in sources(&["runtime"]) {
        let found = registered(&source).unwrap_or_else(|call| panic!("{file}: cannot read {call}"));
        metrics.extend(found);
    }
    metrics.sort();
    assert!(metrics.len() > 60, "{}", metrics.len());
    let help: BTreeSet<&str> = metrics.iter().map(|metric| metric.help.as_str()).collect();
    assert_eq!(help.len(), metrics.len(), "two metrics with the same help");
    let mut page = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for Metric { name, kind, labels, help } in &metrics {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        page += &format!("| `{name}` | {kind} | {labels} | {help} |\n");
    }
    ccm_built::reference::is_current("metrics", &page).unwrap();
}

/// Names of upstream that dashboards use, by one of each kind.
#[test]
fn a_registration_is_read_with_its_type_labels_and_unit() {
    let source = r#"
        struct Labels {
            /// Doc: comment.
            pub(crate) code: u16,
            webhook: &'static str,
        }
        struct Others { calls: Gauge }
        struct Metrics { calls: Family<Labels, Counter>, last: FloatGauge, wait: Family<Labels, Histogram, fn() -> Histogram> }
impl Metrics {
            registry.register("calls", "Calls, by (code) and \"webhook\"", metrics.calls.clone());
            let help =
                "When it was, \
                 in seconds";
            registry.register("last_seconds", help, this.last.clone());
            registry.register_with_unit(
                "wait",
                "Wait",
                Unit::Seconds,
                metrics.wait.clone(),
            );
            let leads: Family<Labels, Gauge> = Family::default();
            registry.register("leads", "Leads", leads);
        }
    "#;
    let metric = |name: &str, kind, labels: &[&str], help: &str| Metric {
        name: name.to_owned(),
        kind,
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        help: help.to_owned(),
    };
    let expected = [
        metric("calls_total", "counter", &["code", "webhook"], "Calls, by (code) and \"webhook\""),
        metric("last_seconds", "gauge", &[], "When it was, in seconds"),
        metric("wait_seconds", "histogram", &["code", "webhook"], "Wait"),
        metric("leads", "gauge", &["code", "webhook"], "Leads"),
    ];
    assert_eq!(registered(source).unwrap(), expected);
    assert!(registered("registry.register(name(), help, x)").is_err());
}

/// Everything that the guides call a metric is one.
#[test]
fn every_metric_that_a_page_names_is_in_the_reference() {
    let reference = read("docs/reference/metrics.md");
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut lost = vec![];
    for page in super::files("docs", &[".md"]) {
        for code in read(&page).split('`').skip(1).step_by(2).filter(|code| code.starts_with("ccm_")) {
            let name: String = code.chars().take_while(|c| is_name(*c)).collect();
            // `ccm_node_lifecycle_*` stands for several.
            if !reference.contains(&format!("| `{name}")) {
                lost.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}
