//! `wasm-ccm completion` and `wasm-ccm man`: what a real bash completes, and pages for every command.

use std::process::Command;

use ccm_e2e::host::program;

use crate::mistakes::run;

/// What bash completes where these words stand, the last of which is begun.
fn completed(script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let [last, before] = [words.len() - 1, words.len() - 2].map(|at| words[at]);
    let lines = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n\"$(complete -p wasm-ccm | sed 's/.*-F \\([^ ]*\\).*/\\1/')\" wasm-ccm '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
    );
    let output = Command::new("bash").args(["--norc", "-euc", &lines]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let (code, script, stderr) = run(&["completion", "bash"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(completed(&script, &["wasm-ccm", "ann"]), ["annotations"]);
    assert_eq!(completed(&script, &["wasm-ccm", "annotations", "--out"]), ["--output"]);
    assert_eq!(completed(&script, &["wasm-ccm", "annotations", "--output", ""]), ["text", "json", "cel"]);
    assert_eq!(completed(&script, &["wasm-ccm", "run", "--leader-elect-resource-n"]).len(), 2);
    for (shell, mark) in [("zsh", "#compdef wasm-ccm"), ("fish", "complete -c wasm-ccm")] {
        let (code, script, _) = run(&["completion", shell]);
        assert!(code == Some(0) && script.contains(mark), "{shell}: {script}");
    }
    let (code, _, stderr) = run(&["completion", "csh"]);
    assert!(code == Some(1) && stderr.contains("bash, zsh, fish"), "{stderr}");
}

#[test]
fn every_command_has_a_man_page_with_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    let (code, stdout, stderr) = run(&["man", &pages.display().to_string()]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let help = Command::new(program().unwrap()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands =
        commands.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = commands.filter(|name| *name != "help").collect();
    assert!(commands.contains(&"run") && commands.contains(&"annotations"), "{commands:?}");
    for command in commands {
        let page = std::fs::read_to_string(pages.join(format!("wasm-ccm-{command}.1"))).unwrap();
        assert!(page.contains(".TH wasm-ccm-") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
        let (code, help, _) = run(&[command, "--help"]);
        assert_eq!(code, Some(0), "{command}");
        // Where a flag has a paragraph of its own.
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let flags = help.lines().map(words).filter(|words| words.first().is_some_and(|word| word.starts_with('-')));
        let flags: Vec<String> = flags.flatten().filter_map(|word| Some(word.strip_prefix("--")?.to_owned())).collect();
        assert!(!flags.is_empty(), "{command}: {help}");
        for flag in flags {
            let name: String =
                flag.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
            let written = format!("\\-\\-{}", name.replace('-', "\\-"));
            assert!(page.contains(&written), "man page of {command} has no --{name}");
        }
    }
    assert!(pages.join("wasm-ccm.1").exists());

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (code, _, stderr) = run(&["man", &file.display().to_string()]);
    assert!(code == Some(1) && stderr.contains("the man pages cannot be written to"), "{stderr}");
}
