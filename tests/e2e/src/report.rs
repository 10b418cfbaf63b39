//! What a benchmark found: a table for people, and one JSON line per figure for machines. Each says which commit it is about, with
//! which arguments it was measured, and on what.
//!
//! ```text
//! figure               value  unit   target
//! find_1_node_p50       61.4  µs     ≤ 100   met
//! find_1_node_p99      104.9  µs
//! ```

use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
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

    fn line(&self) -> String {
        let target = self.target.map(|target| format!(" ({target}: {})", self.verdict())).unwrap_or_default();
        format!("{}: {} {}{target}", self.metric, readable(self.value), self.unit)
    }
}

/// What figures hang on besides the program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Circumstances {
    /// Twelve digits, with a `+` when files differ from it; `unknown` outside of a repository.
    commit: String,
    /// Arguments of the benchmark.
    flags: String,
    /// Processor, cores, memory, kernel.
    machine: String,
}

impl Circumstances {
    fn now() -> Self {
        let git = |args: &[&str]| {
            let output = Command::new("git").args(args).current_dir(root()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let value = |file: &str, name: &str| {
            let text = read(file);
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
            line.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
        };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            commit: if is_changed { format!("{commit}+") } else { commit },
            flags: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            machine: format!(
                "{}, {cores} cores, {} of memory, Linux {}",
                value("/proc/cpuinfo", "model name"),
                value("/proc/meminfo", "MemTotal"),
                read("/proc/sys/kernel/osrelease").trim()
            ),
        }
    }
}

/// The figures of one run of one benchmark.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    other: Option<&'static str>,
    figures: Vec<Figure>,
    is_awaited: bool,
}

impl Report {
    /// No figures yet. `bench` names the file: `target/bench/BENCH.jsonl`.
    #[must_use]
    pub const fn new(bench: &'static str) -> Self {
        Self { bench, other: None, figures: vec![], is_awaited: false }
    }

    /// Has a column for the figures of somebody else, who is named above it.
    #[must_use]
    pub fn beside(self, other: &'static str) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Prints each figure to the standard error when it is there: for a benchmark that takes long, and may be ended before its table.
    #[must_use]
    pub fn as_they_come(self) -> Self {
        Self { is_awaited: true, ..self }
    }

    /// Adds a figure. `metric` is a name in `snake_case` that stays the same from run to run; `value` counts in `unit`.
    pub fn figure(
        &mut self,
        metric: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Option<Target>,
    ) -> &mut Self {
        let figure = Figure { metric: metric.into(), value, unit, target, other: None };
        if self.is_awaited {
            // Where nobody can read it, the table still has it.
            drop(writeln!(std::io::stderr(), "{}", figure.line()));
        }
        self.figures.push(figure);
        self
    }

    /// What the last figure is of the one that [`beside`](Self::beside) names.
    pub fn theirs(&mut self, value: &'static str) -> &mut Self {
        if let Some(last) = self.figures.last_mut() {
            last.other = Some(value);
        }
        self
    }

    /// Prints the table, and writes the lines in place of those of the last run.
    ///
    /// # Errors
    ///
    /// The lines cannot be written. A target is missed; both are written all the same.
    pub fn finish(self) -> Result<()> {
        self.finish_in(&root().join("target/bench"), &mut std::io::stdout().lock())
    }

    fn finish_in(self, folder: &Path, out: &mut impl Write) -> Result<()> {
        let path = folder.join(format!("{}.jsonl", self.bench));
        let run = Circumstances::now();
        write!(out, "\n{}", self.table())?;
        writeln!(out, "commit {}, flags {:?}, {}; written to {}", run.commit, run.flags, run.machine, path.display())?;
        write(&path, &self.lines(&run)).with_context(|| format!("cannot write {}", path.display()))?;
        self.verdict()
    }

    /// # Errors
    ///
    /// Names the targets that are missed.
    fn verdict(&self) -> Result<()> {
        let missed = self.figures.iter().filter(|figure| figure.is_met() == Some(false));
        let missed: Vec<&str> = missed.map(|figure| figure.metric.as_str()).collect();
        ensure!(missed.is_empty(), "{}: the target is missed of {}", self.bench, missed.join(", "));
        Ok(())
    }

    fn lines(&self, run: &Circumstances) -> String {
        let line = |figure: &Figure| {
            let mut object = json!({
                "bench": self.bench,
                "metric": figure.metric,
                "value": number(figure.value),
                "unit": figure.unit,
                "target": figure.target.map(|target| number(target.number())),
                "met": figure.is_met(),
                "commit": run.commit,
                "flags": run.flags,
                "machine": run.machine,
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

/// Of the repository, without `..`, which nobody wants to read.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new("."))
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
    use std::process::ExitCode;

    use super::*;

    fn report() -> Report {
        let mut report = Report::new("test");
        report
            .figure("find_p50", 61.42, "µs", Some(Target::AtMost(100.0)))
            .figure("growth", 3_000_000.0, "bytes", Some(Target::AtMost(2_097_152.0)))
            .figure("rate", 2000.0, "1/s", None);
        report
    }

    fn run() -> Circumstances {
        Circumstances { commit: "0123456789ab".into(), flags: "7 --v=4".into(), machine: "M".into() }
    }

    #[test]
    fn a_target_that_is_missed_is_an_error_that_names_it_and_so_is_a_figure_that_is_no_number() {
        let error = report().verdict().unwrap_err().to_string();
        assert_eq!(error, "test: the target is missed of growth");
        let mut good = Report::new("test");
        good.figure("rate", f64::NAN, "1/s", None).figure("find_p50", 100.0, "µs", Some(Target::AtMost(100.0)));
        assert!(good.verdict().is_ok());
        good.figure("joined", f64::NAN, "s", Some(Target::AtMost(1.0)));
        assert!(good.verdict().is_err_and(|error| error.to_string().contains("joined")));
    }

    /// A benchmark that misses a target ends with an error all the same when its figures are written: CI sees nothing else of it.
    #[test]
    fn a_benchmark_ends_with_the_exit_code_one_when_a_target_is_missed_or_nothing_can_be_written_and_else_with_zero() {
        let folder = tempfile::tempdir().unwrap();
        let mut met = Report::new("met");
        met.figure("rate", 2.0, "1/s", Some(Target::AtLeast(2.0)));
        let mut missed = Report::new("missed");
        missed.figure("rate", 1.9, "1/s", Some(Target::AtLeast(2.0)));
        let is = |code: ExitCode, wanted: ExitCode| format!("{code:?}") == format!("{wanted:?}");
        for (report, wanted) in [(met, ExitCode::SUCCESS), (missed, ExitCode::FAILURE)] {
            let (name, mut shown) = (report.bench, Vec::new());
            let code = crate::exit_code(report.finish_in(folder.path(), &mut shown));
            assert!(is(code, wanted), "{name}");
            let lines = std::fs::read_to_string(folder.path().join(format!("{name}.jsonl"))).unwrap();
            let shown = String::from_utf8(shown).unwrap();
            assert!(lines.contains("\"metric\":\"rate\"") && shown.contains("rate"), "{lines} {shown}");
        }
        let file = folder.path().join("met.jsonl");
        let error = report().finish_in(&file, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "a folder that is a file: {error}");
        assert!(is(crate::exit_code(Err(error)), ExitCode::FAILURE));
    }

    /// Whoever forgets it ends with 0, whatever its report says.
    #[test]
    fn every_benchmark_ends_with_the_exit_code_of_its_report() {
        let folder = root().join("tests/e2e/src/bin");
        let benches = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_bench = |path: &std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bench"))
        };
        let mut seen = 0;
        for bench in benches.filter(is_bench).filter(|path| path.is_file()) {
            let source = std::fs::read_to_string(&bench).unwrap();
            assert!(source.contains("fn main() -> ExitCode {\n    ccm_e2e::exit_code("), "{}", bench.display());
            assert!(source.contains(".finish()"), "{}", bench.display());
            seen += 1;
        }
        assert!(seen >= 8, "{seen}");
    }

    #[test]
    fn figures_say_what_was_measured_with_which_flags_and_on_what() {
        let now = Circumstances::now();
        assert!(now.commit == "unknown" || now.commit.trim_end_matches('+').len() == 12, "{now:?}");
        assert!(now.machine.contains(" cores, ") && now.machine.contains(" kB of memory, Linux "), "{now:?}");
        let first: Value = serde_json::from_str(report().lines(&run()).lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["commit"], &first["flags"], &first["machine"]),
            (&json!("0123456789ab"), &json!("7 --v=4"), &json!("M"))
        );
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
    fn a_figure_alone_is_a_line_that_says_whether_it_meets_its_target() {
        let lines: Vec<String> = report().figures.iter().map(Figure::line).collect();
        assert_eq!(
            lines,
            ["find_p50: 61.4 µs (≤ 100: met)", "growth: 3000000 bytes (≤ 2097152: MISSED)", "rate: 2000 1/s"]
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
        let first: Value = serde_json::from_str(report.lines(&run()).lines().next().unwrap()).unwrap();
        assert_eq!(first["Go"], json!("1001 to 2473"));
    }

    #[test]
    fn each_figure_is_one_json_line_and_null_stands_for_no_target() {
        let line = |text: &str| {
            let mut line: Value = serde_json::from_str(text).unwrap();
            line.as_object_mut().unwrap().retain(|name, _| !["commit", "flags", "machine"].contains(&name.as_str()));
            line
        };
        let lines: Vec<Value> = report().lines(&run()).lines().map(line).collect();
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
