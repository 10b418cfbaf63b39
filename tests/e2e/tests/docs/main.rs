//! The documentation against the program: links lead somewhere, messages and names exist, generated pages are current.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions, but not in their helpers"
)]

mod annotations;
mod commands;
mod demo;
mod links;
mod metrics;
mod migration;
mod migration_back;
mod migration_openstack;
mod monitoring;
mod overview;
mod security;
mod troubleshooting;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file, by its path from the root.
fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Files below a folder that end so, by their paths from the root, in order. What was built is left out.
fn files(folder: &str, endings: &[&str]) -> Vec<String> {
    let mut found = vec![];
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !matches!(name, "target" | ".git" | "node_modules") {
                folders.push(path);
            } else if path.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Rust files of these folders without those of tests: path and text.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let is_test =
        |file: &String| file.ends_with("tests.rs") || file.split('/').any(|part| matches!(part, "tests" | "testing"));
    let rust = folders.iter().flat_map(|folder| files(folder, &[".rs"]));
    rust.filter(|file| !is_test(file)).map(|file| (file.clone(), read(&file))).collect()
}
