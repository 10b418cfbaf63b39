//! What a benchmark found: a table for people, and one JSON line per figure for machines.
//!
//! ```text
//! figure               value  unit   target
//! find_1_node_p50       61.4  µs     ≤ 100   met
//! find_1_node_p99      104.9  µs
//! ```

use std::fmt::{self, Display, Formatter};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Where a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// This, or less.
    AtMost(f64),
    /// This, or more.
    AtLeast(f64),
}

impl Target {
    /// Whether `value` is where it should be. What is not a number never is.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    const fn number(self) -> f64 {
        match self {
            Self::AtMost(number) | Self::AtLeast(number) => number,
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self {
            Self::AtMost(_) => '≤',
            Self::AtLeast(_) => '≥',
        };
        write!(f, "{sign} {}", readable(self.number()))
    }
}

#[derive(Debug)]
struct Figure {
    metric: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
    /// The same of somebody else.
    other: Option<&'static str>,
}

impl Figure {
    fn is_met(&self) -> Option<bool> {
        self.target.map(|target| target.is_met(self.value))
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        }
    }
}

/// The figures of one run of one benchmark.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    other: Option<&'static str>,
    figures: Vec<Figure>,
}

impl Report {
    /// No figures yet. `bench` names the file: `target/bench/BENCH.jsonl`.
    #[must_use]
    pub const fn new(bench: &'static str) -> Self {
        Self { bench, other: None, figures: vec![] }
    }

    /// Has a column for the figures of somebody else, who is named above it.
    #[must_use]
    pub fn beside(self, other: &'static str) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Adds a figure. `metric` is a name in `snake_case` that stays the same from run to run; `value` counts in `unit`.
    pub fn figure(
        &mut self,
        metric: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Option<Target>,
    ) -> &mut Self {
        self.figures.push(Figure { metric: metric.into(), value, unit, target, other: None });
        self
    }

    /// What the last figure is of the one that [`beside`](Self::beside) names.
    pub fn theirs(&mut self, value: &'static str) -> &mut Self {
        if let Some(last) = self.figures.last_mut() {
            last.other = Some(value);
        }
        self
    }

    /// Prints the table, writes the lines in place of those of the last run, and says whether all targets are met.
    ///
    /// # Errors
    ///
    /// The lines cannot be written.
    pub fn finish(self) -> Result<bool> {
        let path = self.path();
        let is_met = self.figures.iter().all(|figure| figure.is_met() != Some(false));
        let end = if is_met { "all targets are met" } else { "NOT all targets are met" };
        let mut out = std::io::stdout().lock();
        write!(out, "\n{}{end}; written to {}\n", self.table(), path.display())?;
        write(&path, &self.lines()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(is_met)
    }

    fn path(&self) -> PathBuf {
        // Without `..`, which nobody wants to read.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new("."));
        root.join("target/bench").join(format!("{}.jsonl", self.bench))
    }

    fn lines(&self) -> String {
        let line = |figure: &Figure| {
            let mut object = json!({
                "bench": self.bench,
                "metric": figure.metric,
                "value": number(figure.value),
                "unit": figure.unit,
                "target": figure.target.map(|target| number(target.number())),
                "met": figure.is_met(),
            });
            if let (Some(name), Some(value), Some(members)) = (self.other, figure.other, object.as_object_mut()) {
                members.insert(name.to_owned(), json!(value));
            }
            format!("{object}\n")
        };
        self.figures.iter().map(line).collect()
    }

    fn table(&self) -> String {
        let other = self.other.unwrap_or_default();
        let head = ["figure", "value", "unit", "target", "", other].map(ToOwned::to_owned);
        let rows = self.figures.iter().map(|figure| {
            [
                figure.metric.clone(),
                readable(figure.value),
                figure.unit.to_owned(),
                figure.target.map(|target| target.to_string()).unwrap_or_default(),
                figure.verdict().to_owned(),
                figure.other.unwrap_or_default().to_owned(),
            ]
        });
        let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
        let mut widths = [0; 6];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let [first, second, third, fourth, fifth, _] = widths;
        let line = |[metric, value, unit, target, verdict, other]: &[String; 6]| {
            let line = format!(
                "{metric:first$}  {value:>second$}  {unit:third$}  {target:fourth$}  {verdict:fifth$}  {other}"
            );
            format!("{}\n", line.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

fn write(path: &Path, lines: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, lines)
}

/// Whole numbers without a point; three digits behind it are more than any clock here can tell.
fn number(value: f64) -> Value {
    let rounded = format!("{value:.3}");
    serde_json::from_str(rounded.trim_end_matches('0').trim_end_matches('.')).unwrap_or(Value::Null)
}

fn readable(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("test");
        report
            .figure("find_p50", 61.42, "µs", Some(Target::AtMost(100.0)))
            .figure("growth", 3_000_000.0, "bytes", Some(Target::AtMost(2_097_152.0)))
            .figure("rate", 2000.0, "1/s", None);
        report
    }

    #[test]
    fn the_table_aligns_and_shouts_what_is_missed() {
        assert_eq!(
            report().table(),
            "figure      value  unit   target\n\
             find_p50     61.4  µs     ≤ 100      met\n\
             growth    3000000  bytes  ≤ 2097152  MISSED\n\
             rate         2000  1/s\n"
        );
    }

    #[test]
    fn figures_of_somebody_else_have_a_column_and_a_member() {
        let mut report = Report::new("test").beside("Go");
        report.figure("calls", 7.0, "", Some(Target::AtMost(7.0))).theirs("1001 to 2473").figure("own", 1.0, "", None);
        assert_eq!(
            report.table(),
            "figure  value  unit  target       Go\n\
             calls       7        ≤ 7     met  1001 to 2473\n\
             own         1\n"
        );
        let first: Value = serde_json::from_str(report.lines().lines().next().unwrap()).unwrap();
        assert_eq!(first["Go"], json!("1001 to 2473"));
    }

    #[test]
    fn each_figure_is_one_json_line_and_null_stands_for_no_target() {
        let lines: Vec<Value> = report().lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            lines,
            [
                json!({"bench": "test", "metric": "find_p50", "value": 61.42, "unit": "µs", "target": 100, "met": true}),
                json!({"bench": "test", "metric": "growth", "value": 3_000_000, "unit": "bytes", "target": 2_097_152, "met": false}),
                json!({"bench": "test", "metric": "rate", "value": 2000, "unit": "1/s", "target": null, "met": null}),
            ]
        );
    }

    #[test]
    fn a_target_includes_its_own_number_and_refuses_what_is_no_number() {
        let cases = [
            (Target::AtMost(5.0), 5.0, true),
            (Target::AtMost(5.0), 5.1, false),
            (Target::AtLeast(5.0), 5.0, true),
            (Target::AtLeast(5.0), 4.9, false),
            (Target::AtMost(5.0), f64::NAN, false),
        ];
        for (target, value, met) in cases {
            assert_eq!(target.is_met(value), met, "{value} {target}");
        }
    }
}
