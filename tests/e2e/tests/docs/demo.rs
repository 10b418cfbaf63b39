//! What the README shows of the demo is what the demo prints: lines, columns of tables, and machines as they end up.

use super::overview::between;
use super::read;

/// Formats of the tables: for each that of its head, and then that of its rows.
fn formats(source: &str) -> Vec<&str> {
    let starts = source.match_indices("\"  {").map(|(at, _)| &source[at + 1..]);
    starts.map(|text| text.split('"').next().unwrap()).collect()
}

/// The cells of a line that was printed in this format, without the blanks that fill them up.
fn cells<'l>(format: &str, line: &'l str) -> Option<Vec<&'l str>> {
    let mut holes = format.split('{');
    let mut rest = line.strip_prefix(holes.next()?)?;
    let mut cells = vec![];
    for hole in holes {
        let (hole, text) = hole.split_once('}')?;
        let width = hole.split_once(':').map(|(_, width)| width.parse::<usize>().unwrap());
        let (cell, after) = rest.split_at_checked(width.unwrap_or(rest.len()))?;
        rest = after.strip_prefix(text)?;
        if cell.is_empty() || cell.starts_with(' ') {
            return None;
        }
        cells.push(cell.trim_end());
    }
    rest.is_empty().then_some(cells)
}

#[test]
fn a_line_fits_its_format_alone() {
    let format = "  {:4}  {id:3}  {}";
    assert_eq!(cells(format, "  a     bcd  the rest"), Some(vec!["a", "bcd", "the rest"]));
    for wrong in ["  a    bcd  the rest", "  a     bcde  the rest", "  a     bcd", " a     bcd  the rest", ""] {
        assert_eq!(cells(format, wrong), None, "{wrong:?}");
    }
    assert_eq!(cells("  {:4}  HEAD", "  a     HEAD"), Some(vec!["a"]));
    assert_eq!(cells("  {:4}  HEAD", "  a     HEADS"), None);
}

/// What the source of the demo has of a line that is in no table: one of these.
fn said(line: &str) -> [String; 2] {
    match line.trim_start().split_once(" s  ") {
        Some((time, text)) => {
            assert_eq!(line, format!("  {time:>6} s  {text}"));
            assert!(time.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 2), "{line}");
            [format!("row(\"{text}\", "), format!("\"  {{:>6.2}} s  {text}")]
        }
        None => [format!("(\"{line}\\n\")"), format!("!(\"{line}\\n\")")],
    }
}

#[test]
fn the_readme_shows_lines_that_the_demo_prints() {
    let (readme, demo) = (read("README.md"), read("tests/e2e/src/bin/demo/main.rs"));
    let tables = read("tests/e2e/src/bin/demo/picture.rs");
    // What the demo fills in.
    assert!(demo.contains(r#"let row = |what: &str, time: Duration| format!("  {:>6.2} s  {what}\n","#));
    let event = "Deleting node {name} because it does not exist in the cloud provider";
    let controller = read("runtime/controllers/src/node_lifecycle/sync.rs");
    assert!(controller.contains(&format!("\"{event}\"")), "the Event says something else");
    let gone: Vec<&str> = between(&demo, "let (stopped, deleted) = (", ");").split('"').skip(1).step_by(2).collect();
    let [stopped, deleted] = gone[..] else { panic!("{gone:?}") };
    let demo = demo.replace("{event}", &event.replace("{name}", deleted));
    let demo = demo.replace("{stopped}", stopped).replace("{deleted}", deleted);
    // Name, address and pod network of each machine.
    let machines: Vec<Vec<&str>> = between(&demo, "let nodes = [\n", "\n    ];")
        .lines()
        .map(|line| line.split('"').skip(1).step_by(2).collect())
        .collect();
    // What becomes of them on a real API server.
    let (accepted, look) = (read("tests/e2e/tests/system/acceptance.rs"), read("tests/e2e/tests/system/look.rs"));
    let kind = between(&look, "const FIXTURE_TYPE: &str = \"", "\"");
    let pool = read("providers/cloudlycke/src/config/network.rs");
    let pool = between(&pool, "const DEFAULT_POOL4: &str = \"", "0/24\"").to_owned();
    let is_word = |word: &str| tables.contains(&format!("\"{word}\""));

    let formats = formats(&tables);
    let (heads_and_rows, []) = formats.as_chunks::<2>() else { panic!("{formats:?}") };
    let mut table: Option<(&str, &str)> = None;
    let (mut is_after, mut last, mut lines, mut rows) = (false, 0, 0, 0);
    let shown = between(&readme, "## What you see\n\n```text\n", "```");
    for line in shown.lines().filter(|line| !line.is_empty()) {
        let head = heads_and_rows.iter().find_map(|[head, row]| Some((cells(head, line)?, row)));
        if let Some((cells, row)) = head {
            let quoted: Vec<String> = cells.iter().map(|cell| format!("\"{cell}\"")).collect();
            assert!(tables.contains(&quoted.join(", ")), "no table has the head {cells:?}");
            table = Some((cells[0], row));
            continue;
        }
        let cells = table.and_then(|(head, row)| Some((head, cells(row, line)?)));
        let Some((head, cells)) = cells else {
            let place = said(line).iter().find_map(|text| demo.find(text.as_str()));
            let place = place.unwrap_or_else(|| panic!("the demo does not print {line:?}"));
            is_after |= line == "AFTER";
            // What `follow` returns is said between the two parts of the demo, and stands after them.
            let is_row = place > demo.find("async fn follow(").unwrap();
            assert!(is_row || place > last, "{line:?} comes before the line above it");
            last = if is_row { last } else { place };
            (table, lines) = (None, lines + 1);
            continue;
        };
        rows += 1;
        let machine =
            |name: &str| machines.iter().find(|machine| machine[0] == name).unwrap_or_else(|| panic!("{line}"));
        match (head, &cells[..]) {
            ("NODE", &[name, status, taint, id, zone, instance_type, addresses]) => {
                let ip = machine(name)[1];
                assert!(is_word(status) && is_word(taint), "{line:?}");
                if is_after {
                    let row = accepted.lines().find(|row| row.contains(&format!("(\"{name}\", \"{ip}\", "))).unwrap();
                    assert!(row.ends_with(&format!("\"{id}\"),")), "{row} and {line:?}");
                    assert!(accepted.contains(&format!("[instance_type, \"{zone}\", ")), "{line:?}");
                    assert_eq!((taint, instance_type), ("-", kind), "{line:?}");
                    assert_eq!(addresses, format!("{ip} (InternalIP, ExternalIP)"));
                } else {
                    assert_eq!([taint, id, zone, instance_type], ["uninitialized", "-", "-", "-"], "{line:?}");
                    assert_eq!(addresses, format!("{ip} (InternalIP)"));
                }
            }
            ("SERVICE", &[name, kind, address]) => {
                assert!(demo.contains(&format!("{{\"name\": \"{name}\"}}")) && is_word(kind), "{line:?}");
                let is_right = if is_after { address.starts_with(&pool) } else { is_word(address) };
                assert!(is_right, "{line:?}");
            }
            ("POD NETWORK", &[network, name]) => assert_eq!(machine(name)[2], network, "{line:?}"),
            _ => panic!("{head}: {cells:?}"),
        }
    }
    assert_eq!((lines, rows), (11, 2 * (machines.len() + 1) + machines.len()), "something is not shown any more");
}
