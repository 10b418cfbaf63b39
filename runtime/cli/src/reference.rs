//! `docs/reference/flags.md` and `docs/reference/limits.md`: made of the command line and of the schema of `--providers`.

use std::fmt::Write as _;

use ccm_built::reference::is_current;
use ccm_rollout::config::limits::LimitSettings;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::Cli;

/// The first limit of each table, in the order of the settings.
const LIMITS: [(&str, &str); 5] = [
    ("source-bytes", "Loading a component"),
    ("memory-bytes", "A call"),
    ("request-bytes", "Requests"),
    ("requests-per-second", "The budget of an endpoint"),
    ("compare-nodes", "Comparison"),
];

/// One line of a table, as a sentence.
fn sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if line.ends_with(['.', '!', '?']) { line } else { format!("{line}.") }
}

fn spelling(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str());
    let value = if arg.get_action().takes_values() { values.collect::<Vec<_>>().join(" ") } else { String::new() };
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) if short.to_string() != long => format!("-{short}, --{long}"),
        (_, Some(long)) => format!("--{long}"),
        _ => return value,
    };
    if value.is_empty() { flag } else { format!("{flag} {value}") }
}

fn row(arg: &Arg) -> String {
    let default: Vec<_> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let default = if !arg.get_action().takes_values() {
        "off".to_owned()
    } else if default.is_empty() {
        "–".to_owned()
    } else {
        default.join(", ")
    };
    let values: Vec<_> = arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let one_of = if arg.get_action().takes_values()
        && !values.is_empty()
        && !matches!(arg.get_value_names(), Some([name]) if name == "BOOL")
    {
        format!(" One of {}.", values.join(", "))
    } else {
        String::new()
    };
    let help = sentence(&arg.get_help().map(ToString::to_string).unwrap_or_default());
    format!("| `{}` | {default} | {help}{one_of} |\n", spelling(arg))
}

/// The flags of a command, each under its heading; the headings in the order in which they come. Without those that are `elsewhere`.
fn tables(command: &Command, elsewhere: &[&str]) -> String {
    let mut tables: Vec<(&str, String)> = vec![];
    let is_flag = |arg: &&Arg| {
        !matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::Version) && !arg.is_hide_set()
    };
    let is_here = |arg: &&Arg| !elsewhere.contains(&arg.get_id().as_str());
    for arg in command.get_arguments().filter(is_flag).filter(is_here) {
        let heading = arg.get_help_heading().unwrap_or(if arg.is_positional() { "Arguments" } else { "Options" });
        match tables.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, rows)) => rows.push_str(&row(arg)),
            None => tables.push((heading, row(arg))),
        }
    }
    let table = |(heading, rows): &(&str, String)| {
        format!("\n### {heading}\n\n| flag | default | meaning |\n|---|---|---|\n{rows}")
    };
    tables.iter().map(table).collect()
}

#[test]
fn the_reference_has_every_flag_of_every_command() {
    let mut cli = Cli::command();
    cli.build();
    let mut page = String::new();
    let run = cli.find_subcommand(super::RUN).unwrap();
    let of_run: Vec<&str> = run.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
        let about = sentence(&command.get_about().map(ToString::to_string).unwrap_or_default());
        let gap = if page.is_empty() { "" } else { "\n" };
        // One table of them is enough.
        let (too, elsewhere) = match command.get_name() == super::PLAN {
            true => (" It also takes every flag of `run`.", of_run.as_slice()),
            false => ("", [].as_slice()),
        };
        let tables = tables(command, elsewhere);
        write!(page, "{gap}## wasm-ccm {}\n\n{about}{too}\n{tables}", command.get_name()).unwrap();
    }
    is_current("flags", &page).unwrap();
}

#[test]
fn the_reference_has_every_limit_with_its_default() {
    let schema = serde_json::to_value(ccm_rollout::config::schema()).unwrap();
    let limits = &schema["$defs"]["LimitSettings"]["properties"];
    // The schema sorts them by name; the settings have those together that belong together.
    let settings = serde_json::to_string(&LimitSettings::default()).unwrap();
    let names: Vec<&str> = settings.split('"').skip(1).step_by(2).collect();
    assert_eq!(names.len(), limits.as_object().unwrap().len());
    let mut page = String::new();
    for name in names {
        if let Some((_, title)) = LIMITS.iter().find(|(first, _)| *first == name) {
            let gap = if page.is_empty() { "" } else { "\n" };
            write!(page, "{gap}## {title}\n\n| limit | default | meaning |\n|---|---|---|\n").unwrap();
        }
        let (meaning, default) = limits[name]["description"].as_str().unwrap().rsplit_once("Default ").unwrap();
        writeln!(page, "| `{name}` | {} | {} |", default.trim_end_matches('.'), sentence(meaning)).unwrap();
    }
    assert_eq!(page.matches("\n## ").count() + 1, LIMITS.len());
    is_current("limits", &page).unwrap();
}
