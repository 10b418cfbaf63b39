//! The way back from a migration: a guide deletes only what it has saved before, and its section about going back brings that back.

use std::collections::BTreeMap;

use super::commands::typed;
use super::read;

const GUIDES: [&str; 2] = ["docs/guides/migrate-from-openstack.md", "docs/guides/migrate-from-digitalocean.md"];

const BACK: &str = "\n## Go back to the Go manager\n";

/// A call of `kubectl`.
struct Call<'a> {
    verb: &'a str,
    /// Those of `-f` and `-k`.
    files: Vec<&'a str>,
    /// As `KIND/NAME`; no name where it does not say which.
    objects: Vec<String>,
    /// Whether it prints objects with all that they have.
    is_whole: bool,
}

/// The commands of a page in their order: those of its consoles, and those that its sentences quote.
fn commands(page: &str) -> Vec<String> {
    let in_one_line = |quoted: &str| quoted.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(in_one_line).collect::<Vec<_>>();
    let parts = page.split("```").enumerate();
    parts
        .flat_map(|(at, part)| if at.is_multiple_of(2) { quoted(part) } else { typed(&format!("```{part}")) })
        .collect()
}

fn calls(command: &str) -> Vec<Call<'_>> {
    command.split(['|', ';', '&']).filter_map(call).collect()
}

fn call(part: &str) -> Option<Call<'_>> {
    let mut words = part.split_whitespace().skip_while(|word| word.trim_start_matches('(') != "kubectl").skip(1);
    let mut call = Call { verb: "", files: vec![], objects: vec![], is_whole: false };
    let mut kind = None;
    while let Some(word) = words.next() {
        match word {
            "-f" | "-k" => call.files.extend(words.next()),
            "-o" => call.is_whole = matches!(words.next(), Some("json" | "yaml")),
            "-n" | "-l" | "-p" => {
                words.next();
            }
            _ if word.starts_with(['-', '\\', '>']) => {}
            _ if call.verb.is_empty() => call.verb = word,
            _ if word.contains('/') => call.objects.push(word.to_owned()),
            _ => match kind {
                None => kind = Some(word),
                Some(kind) => call.objects.push(format!("{kind}/{word}")),
            },
        }
    }
    if let Some(kind) = kind
        && call.objects.is_empty()
    {
        call.objects.push(format!("{kind}/"));
    }
    Some(call).filter(|call| !call.verb.is_empty())
}

/// The file in which a command keeps objects, and which. Columns or single fields bring nothing back.
fn kept(command: &str) -> Option<(&str, Vec<String>)> {
    let (first, rest) = command.split_once('|').unwrap_or((command, ""));
    let saved = call(first).filter(|call| call.verb == "get" && call.is_whole)?;
    let is_all = rest.is_empty() || rest.trim_start().starts_with("jq 'del(");
    let (_, file) = command.rsplit_once('>').filter(|_| is_all)?;
    Some((file.trim_start().split([' ', ')', ';']).next()?, saved.objects))
}

/// What a guide deletes, and cannot bring back.
fn lost(guide: &str) -> Vec<String> {
    let (_, back) = guide.split_once(BACK).unwrap_or_else(|| panic!("no section {BACK:?}"));
    let back = commands(back.split("\n## ").next().unwrap_or_default());
    let restoring =
        back.iter().flat_map(|command| calls(command)).filter(|call| matches!(call.verb, "apply" | "create"));
    let restored: Vec<&str> = restoring.flat_map(|call| call.files).collect();
    let mut saved: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut lost = vec![];
    for command in commands(guide) {
        if let Some((file, objects)) = kept(&command) {
            saved.insert(file.to_owned(), objects);
        }
        for call in calls(&command).into_iter().filter(|call| call.verb == "delete") {
            // What an overlay has comes back with it.
            for file in call.files.iter().filter(|file| !file.starts_with("manifests/")) {
                if !saved.contains_key(*file) {
                    lost.push(format!("{file} is not saved before: {command}"));
                }
                if !restored.contains(file) {
                    lost.push(format!("{file} does not come back: {command}"));
                }
            }
            let is_ours = |object: &str| object.split('/').nth(1).is_some_and(|name| name.starts_with("wasm-ccm"));
            let comes_back = |object: &String| {
                let mut files = restored.iter().filter_map(|file| saved.get(*file));
                files.any(|objects| objects.contains(object))
            };
            let gone = call.objects.iter().filter(|object| !is_ours(object) && !comes_back(object));
            lost.extend(gone.map(|object| format!("{object} is in no file that comes back: {command}")));
        }
        let mut words = command.split_whitespace();
        if words.next() == Some("rm") {
            let removed = words.filter(|word| saved.contains_key(*word));
            lost.extend(removed.map(|file| format!("{file} is removed: {command}")));
        }
    }
    lost
}

#[test]
fn what_a_migration_guide_deletes_it_has_saved_and_brings_back() {
    for name in GUIDES {
        let guide = read(name);
        let found = lost(&guide);
        assert!(found.is_empty(), "{name}: {found:#?}");
        let deletes = commands(&guide).iter().filter(|command| command.starts_with("kubectl delete -f ")).count();
        assert!(deletes > 0, "{name} does not delete what it saved");
        // It once named kinds in a sentence, and not all of them were saved.
        let in_words = "delete the go manager's";
        assert!(!guide.to_lowercase().contains(in_words), "{name}: {in_words}, without a command");
    }
}

#[test]
fn a_guide_that_deletes_what_it_cannot_bring_back_is_found() {
    let lost = |save: &str, delete: &str, back: &str| {
        let more = "## More\n\n`kubectl apply -f a.json`";
        lost(&format!("```console\n$ {save}\n```\n\nThen `{delete}`.\n{BACK}\n`{back}`\n\n{more}\n"))
    };
    let save =
        "kubectl -n x get deployment/a \\\n    service/b -o json |\n    jq 'del(.items[] | .status)' >a.json    # both";
    let (delete, back) = ("kubectl delete -f a.json", "kubectl apply -f c.json -f a.json");
    for delete in [
        delete,
        "kubectl -n x delete deployment a",
        "kubectl delete validatingwebhookconfiguration wasm-ccm",
        "kubectl delete -k manifests/overlays/openstack",
        "kubectl wait --for=delete pod -l app=a",
    ] {
        assert_eq!(lost(save, delete, back), Vec::<String>::new());
    }
    let unsaved = "a.json is not saved before";
    for (save, delete, back, expected) in [
        ("kubectl get deployment/a -o wide >a.json", delete, back, unsaved),
        ("kubectl get deployment/a -o json | jq .metadata >a.json", delete, back, unsaved),
        // Too late.
        (delete, "kubectl get deployment/a -o yaml >a.json", back, unsaved),
        (save, delete, "kubectl apply -f c.json", "a.json does not come back"),
        (save, "kubectl delete deployment c", back, "deployment/c is in no file"),
        (save, "kubectl delete deployment -l app=a", back, "deployment/ is in no file"),
        (save, "kubectl delete deployment a", "kubectl apply -f c.json", "deployment/a is in no file"),
        (save, "rm a.json", back, "a.json is removed"),
    ] {
        let found = lost(save, delete, back);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
    }
}
