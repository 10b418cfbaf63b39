//! Commands that pages show: what they name is there, and they reach the cluster from the reader's machine.

use std::collections::BTreeSet;

use super::{files, read, root};

/// Commands that reach the cluster. `check` does so only with `--against`.
const REACHING: [&str; 5] = ["push", "plan", "explain", "doctor", "uninstall"];

/// Lines of a page's blocks.
pub(super) fn lines(page: &str) -> Vec<&str> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.flat_map(str::lines).map(|line| line.trim().trim_start_matches("$ ")).collect()
}

/// All words in a text that begin so and go on with such letters.
pub(super) fn words<'a>(text: &'a str, start: &'a str, goes_on: fn(char) -> bool) -> BTreeSet<&'a str> {
    let found = text.match_indices(start).map(|(at, _)| {
        let word = &text[at..];
        word[..word.find(|letter| !goes_on(letter)).unwrap_or(word.len())].trim_end_matches(['.', '-', '_'])
    });
    found.collect()
}

/// The recipes, files and objects that a guide's commands name are there. `objects` are parts of our manifests.
pub(super) fn lead_somewhere(name: &str, objects: &[&str]) {
    let guide = read(name);
    let commands = lines(&guide);
    assert!(commands.len() > 40, "{name}: {commands:?}");
    let recipe = |line: &&str| line.split_once("./just ")?.1.split(' ').next().map(str::to_owned);
    let recipes: BTreeSet<String> = commands.iter().filter_map(recipe).collect();
    assert!(recipes.contains("image") && recipes.contains("overlay"), "{name}: {recipes:?}");
    let justfile = read("justfile");
    for recipe in recipes {
        let is_it = |line: &str| line.starts_with(&format!("{recipe}:")) || line.starts_with(&format!("{recipe} "));
        assert!(justfile.lines().any(is_it), "{name}: the justfile has no {recipe}");
    }
    let is_path = |letter: char| letter.is_ascii_alphanumeric() || "./_-".contains(letter);
    let paths = words(&guide, "manifests/", is_path);
    assert!(paths.len() >= 4, "{name}: {paths:?}");
    for path in paths.iter().filter(|path| !path.ends_with(".wasm.gz")) {
        assert!(root().join(path).exists(), "{name} names {path}, which is not there");
    }
    let manifests: String = files("manifests", &[".yaml", ".env"]).iter().map(|file| read(file)).collect();
    for object in objects {
        assert!(manifests.contains(object), "{name}: no manifest has {object}");
    }
    let image = "registry.example/wasm-ccm";
    assert!(manifests.contains(image) && guide.contains(image), "{name}");
}

/// The commands of a page's consoles, each in one line, without what it prints and without comments.
pub(super) fn typed(page: &str) -> Vec<String> {
    let consoles = page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("console\n"));
    let mut typed: Vec<String> = vec![];
    for console in consoles {
        let mut goes_on = false;
        for line in console.lines().map(str::trim) {
            let begins = line.strip_prefix("$ ");
            let text = begins.unwrap_or(line);
            let text = text.split_once(" #").map_or(text, |(command, _)| command).trim_end();
            if begins.is_some() {
                typed.push(text.to_owned());
            } else if goes_on && let Some(command) = typed.last_mut() {
                command.push(' ');
                command.push_str(text);
            } else {
                continue;
            }
            goes_on = text.ends_with(['\\', '|']);
        }
    }
    typed
}

/// Whether a command works only in a pod, because it does not say how to reach the API server.
fn lacks_kubeconfig(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| !word.ends_with("wasm-ccm"));
    let subcommand = words.nth(1).unwrap_or_default();
    let reaches = REACHING.contains(&subcommand) || (subcommand == "check" && command.contains("--against"));
    let is_in_pod = command.starts_with("kubectl ") && command.contains(" exec ");
    reaches && !command.contains("--kubeconfig") && !command.contains("--providers-only") && !is_in_pod
}

/// The flags of a command, as the reference has them.
fn flags<'a>(reference: &'a str, command: &str) -> Option<&'a str> {
    let (_, rest) = reference.split_once(&format!("\n## wasm-ccm {command}\n"))?;
    rest.split("\n## wasm-ccm ").next()
}

/// Flags that a command of a page gives the program, and that the program does not have.
fn unknown_flags(command: &str, reference: &str) -> Vec<String> {
    let mut words = command.split_whitespace().skip_while(|word| !word.ends_with("wasm-ccm")).skip(1);
    let subcommand = words.next().unwrap_or_default();
    // It also takes those of `run`.
    let like = if subcommand == "plan" { "run" } else { subcommand };
    let known: Vec<&str> = [subcommand, like].into_iter().filter_map(|one| flags(reference, one)).collect();
    if known.is_empty() {
        return vec![];
    }
    let given = words.take_while(|word| !matches!(*word, "|" | "&&" | ";"));
    let names =
        given.filter(|word| word.len() > 2 && word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    let is_known = |name: &str| {
        let told = [format!("`{name}`"), format!("`{name} "), format!(", {name} ")];
        known.iter().any(|flags| told.iter().any(|told| flags.contains(told.as_str())))
    };
    names.filter(|name| !is_known(name)).map(str::to_owned).collect()
}

/// Applications of our manifests in a page, in consoles and in sentences, that keep a copy of the component in an annotation.
fn applied_by_the_client(page: &str) -> Vec<&str> {
    let commands =
        page.match_indices("kubectl apply").map(|(at, _)| page[at..].split(['\n', '`']).next().unwrap_or(""));
    let is_ours = |command: &&str| command.contains(" -k ") || command.contains("manifests/");
    commands.filter(is_ours).filter(|command| !command.contains("--server-side")).collect()
}

#[test]
fn every_command_that_a_reader_copies_names_its_cluster_and_applies_manifests_server_side() {
    let (mut wrong, mut seen) = (vec![], 0);
    for page in files("", &[".md"]) {
        let text = read(&page);
        let commands = typed(&text);
        seen += commands.iter().filter(|command| command.contains("--kubeconfig")).count();
        let lost = commands.iter().filter(|command| lacks_kubeconfig(command));
        wrong.extend(lost.map(|command| format!("{page}: no --kubeconfig: {command}")));
        wrong.extend(applied_by_the_client(&text).iter().map(|what| format!("{page}: no --server-side: {what}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 10, "only {seen} commands name a cluster");
}

#[test]
fn every_command_that_a_reader_copies_has_flags_that_the_program_has() {
    let reference = read("docs/reference/flags.md");
    let mut wrong = vec![];
    for page in files("", &[".md"]) {
        let commands = typed(&read(&page));
        let lost = commands.iter().flat_map(|command| unknown_flags(command, &reference));
        wrong.extend(lost.map(|flag| format!("{page}: {flag}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let command =
        "env A=b target/release/wasm-ccm plan --all --dry-run --nothing=x --rights-of=self -- --y | z --other";
    assert_eq!(unknown_flags(command, &reference), ["--nothing", "--rights-of", "--y"]);
}

#[test]
fn a_command_without_its_cluster_is_found_wherever_it_breaks_its_lines() {
    let page = "```console\n$ a | \\\n   wasm-ccm push x \\\n   y    # --kubeconfig\nwasm-ccm plan\n$ wasm-ccm check x --against y\n\
                $ wasm-ccm plan --all --kubeconfig k\n$ kubectl -n n exec p -- wasm-ccm doctor\n$ wasm-ccm check x\n```\n\
                `kubectl apply -k a` and `kubectl apply` and `kubectl apply --server-side -k a`, `kubectl apply -f web.yaml`\n";
    let lost: Vec<String> = typed(page).into_iter().filter(|command| lacks_kubeconfig(command)).collect();
    assert_eq!(lost, ["a | \\ wasm-ccm push x \\ y", "wasm-ccm check x --against y"]);
    assert_eq!(applied_by_the_client(page), ["kubectl apply -k a"]);
}
