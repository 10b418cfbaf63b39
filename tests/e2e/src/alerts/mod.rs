//! Alerts of `manifests/monitoring/rules.yaml` on what hosts answer at `/metrics`: promtool gets these series as Prometheus would keep
//! them, and says whether an alert fires.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::host::Host;
use crate::manifest;

/// Minutes for which what was read in the middle stands. A host tries what fails at least once a minute, and tests see it more often.
const STEP: usize = 2;

/// Runs promtool; what it says, if it does not like something.
///
/// # Errors
///
/// It does not.
pub fn promtool(arguments: &[&str]) -> Result<(), String> {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("go-tools/run");
    let run = Command::new(run).arg("promtool").args(arguments).output().map_err(|error| error.to_string())?;
    let said = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if run.status.success() { Ok(()) } else { Err(said) }
}

/// The rules of the alerts, each with its name.
///
/// # Errors
///
/// The file cannot be read.
pub fn rules() -> Result<Vec<(String, Value)>> {
    let path = manifest::folder().join("monitoring/rules.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let object: Value = serde_saphyr::from_str(&text)?;
    let groups = object.pointer("/spec/groups").and_then(Value::as_array).into_iter().flatten();
    let rules = groups.filter_map(|group| group.get("rules")?.as_array()).flatten();
    Ok(rules.filter_map(|rule| Some((rule.get("alert")?.as_str()?.to_owned(), rule.clone()))).collect())
}

/// Writes a file of rules, as Prometheus reads it, and returns its path.
///
/// # Errors
///
/// The folder cannot be written to.
pub fn write_rules(folder: &Path, rules: &[Value]) -> Result<String> {
    let file = folder.join("rules.yaml");
    std::fs::write(&file, json!({ "groups": [{ "name": "wasm-ccm", "rules": rules }] }).to_string())?;
    Ok(file.display().to_string())
}

/// What Prometheus reads of a host now.
///
/// # Errors
///
/// The port does not answer.
pub async fn scrape(host: &Host) -> Result<String> {
    let (status, text) = host.page("/metrics").await?;
    ensure!(status == 200, "/metrics answers {status}: {text}");
    Ok(text)
}

/// The alert fires for who reads this of the hosts, one moment after the other, each for as long as the alert waits. Of several moments, it
/// is quiet in the first one. A host that does not answer has an empty text.
///
/// # Errors
///
/// It does not fire, or does so too early; the error has what promtool was asked.
pub async fn fires<S: AsRef<str>, const HOSTS: usize>(alert: &str, moments: &[[S; HOSTS]]) -> Result<()> {
    let rule = rules()?.into_iter().find_map(|(name, rule)| (name == alert).then_some(rule));
    let rule = rule.with_context(|| format!("there is no alert {alert}"))?;
    let (longest, last) = (waits(&rule)? + STEP, moments.len().saturating_sub(1));
    let length = |place: usize| if place == 0 || place == last { longest } else { STEP };
    let moments: Vec<Moment<'_>> = moments
        .iter()
        .enumerate()
        .map(|(place, texts)| Moment { minutes: length(place), texts: texts.iter().map(AsRef::as_ref).collect() })
        .collect();
    let end: usize = moments.iter().map(|moment| moment.minutes).sum();
    let firing = format!("ALERTS{{alertname={alert:?},alertstate=\"firing\"}}");
    // At any time: what fails again and again does so no more at the end.
    let mut tests = vec![json!({
        "expr": format!("count(count_over_time({firing}[{end}m])) >= bool 1"),
        "eval_time": format!("{}m", end - 1),
        "exp_samples": [{ "labels": "{}", "value": 1 }],
    })];
    if moments.len() > 1 {
        tests.push(json!({ "expr": firing, "eval_time": format!("{}m", longest - 1), "exp_samples": [] }));
    }
    judge(&[rule], &moments, &tests).await.with_context(|| format!("{alert} does not fire as it should"))
}

/// No alert fires for who reads this of the hosts for as long as any alert waits.
///
/// # Errors
///
/// One does; the error names it.
pub async fn quiet<S: AsRef<str>>(hosts: &[S]) -> Result<()> {
    let rules: Vec<Value> = rules()?.into_iter().map(|(_, rule)| rule).collect();
    let waits: Vec<usize> = rules.iter().map(waits).collect::<Result<_>>()?;
    let minutes = waits.into_iter().max().unwrap_or_default() + STEP;
    let moment = Moment { minutes, texts: hosts.iter().map(AsRef::as_ref).collect() };
    let firing = format!("count_over_time(ALERTS{{alertstate=\"firing\"}}[{minutes}m])");
    let test = json!({ "expr": firing, "eval_time": format!("{}m", minutes - 1), "exp_samples": [] });
    judge(&rules, &[moment], &[test]).await.context("an alert fires, and nothing is wrong")
}

/// What the hosts answer for some minutes.
struct Moment<'a> {
    minutes: usize,
    texts: Vec<&'a str>,
}

/// Minutes that an alert waits before it fires.
fn waits(rule: &Value) -> Result<usize> {
    let Some(time) = rule.get("for").and_then(Value::as_str) else { return Ok(0) };
    let minutes = time.strip_suffix('m').and_then(|minutes| minutes.parse().ok());
    minutes.with_context(|| format!("`for: {time}` is no number of minutes"))
}

/// Asks promtool.
async fn judge(rules: &[Value], moments: &[Moment<'_>], tests: &[Value]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_rules(folder.path(), rules)?;
    let expressions = rules.iter().filter_map(|rule| rule.get("expr")?.as_str()).collect::<Vec<_>>().join(" ");
    let input = input(&expressions, moments);
    let case = json!({ "interval": "1m", "input_series": input, "promql_expr_test": tests });
    let asked = json!({ "rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case] });
    let file = folder.path().join("alerts.yaml");
    std::fs::write(&file, asked.to_string())?;
    let file = file.display().to_string();
    // The clouds of a test answer meanwhile.
    let said = tokio::task::spawn_blocking(move || promtool(&["test", "rules", &file])).await?;
    said.map_err(|said| anyhow!("{said}\n{asked:#}"))
}

/// The series of the metrics that the expressions name, minute by minute.
fn input(expressions: &str, moments: &[Moment<'_>]) -> Vec<Value> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let named: BTreeSet<&str> = expressions.split(|c: char| !is_word(c)).collect();
    // What each had in which moment.
    let mut all: BTreeMap<String, BTreeMap<usize, f64>> = BTreeMap::new();
    for (place, moment) in moments.iter().enumerate() {
        for (host, text) in moment.texts.iter().enumerate() {
            for (series, value) in text.lines().filter_map(|line| sample(&named, host, line)) {
                all.entry(series).or_default().insert(place, value);
            }
        }
    }
    let row =
        |(series, seen): (String, BTreeMap<usize, f64>)| json!({ "series": series, "values": values(&seen, moments) });
    all.into_iter().map(row).collect()
}

/// A line of `/metrics` as the series that Prometheus makes of it, with its value; none when it is of no use.
fn sample(named: &BTreeSet<&str>, host: usize, line: &str) -> Option<(String, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}')?;
    let comma = if labels.is_empty() { "" } else { "," };
    let series = format!("{name}{{{labels}{comma}job=\"wasm-ccm\",instance=\"host-{host}\"}}");
    named.contains(name).then_some((series, value.parse().ok()?))
}

/// The values of a series in the notation of promtool. One that is not there any more ends.
fn values(seen: &BTreeMap<usize, f64>, moments: &[Moment<'_>]) -> String {
    let mut was_there = false;
    let part = |(place, moment): (usize, &Moment<'_>)| {
        let (minutes, more) = (moment.minutes, moment.minutes.saturating_sub(1));
        let before = std::mem::replace(&mut was_there, seen.contains_key(&place));
        match seen.get(&place) {
            Some(value) => format!("{value}x{more}"),
            None if before => format!("stale _x{more}"),
            None => format!("_x{minutes}"),
        }
    };
    moments.iter().enumerate().map(part).collect::<Vec<_>>().join(" ")
}
