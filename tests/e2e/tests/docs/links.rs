//! Links of Markdown pages lead to files and headings that exist, and so do paths of pages in code and manifests.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::{files, read, root};

/// Lines outside of fenced code blocks.
fn prose(page: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut lines = vec![];
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if !in_code && !is_fence {
            lines.push(line);
        }
        in_code ^= is_fence;
    }
    lines
}

/// The anchors of a page's headings, as GitHub makes them.
pub(super) fn anchors(page: &str) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    };
    headings.map(anchor).collect()
}

/// The targets of `[text](target)`, outside of code.
fn targets(page: &str) -> Vec<String> {
    let mut found = vec![];
    for line in prose(page) {
        let without_code: String = line.split('`').step_by(2).collect();
        let after = without_code.split("](").skip(1);
        found.extend(after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()));
    }
    found
}

/// Without `.` and `..`, so that nothing has to exist on the way.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Why a link of this file leads nowhere, if so.
fn broken(file: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let folder = Path::new(file).parent().unwrap();
    let path = if path.is_empty() { PathBuf::from(file) } else { normal(&folder.join(path)) };
    if !root().join(&path).exists() {
        return Some(format!("{file}: {target} does not exist"));
    }
    let anchor = anchor.filter(|_| path.extension().is_some_and(|extension| extension == "md"))?;
    let is_there = anchors(&read(path.to_str().unwrap())).iter().any(|there| there == anchor);
    (!is_there).then(|| format!("{file}: {} has no heading for #{anchor}", path.display()))
}

#[test]
fn every_link_between_pages_leads_to_a_file_and_a_heading() {
    let pages = files("", &[".md"]);
    assert!(pages.len() > 30, "{pages:?}");
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|page| targets(&read(page)).into_iter().filter_map(move |target| broken(page, &target)))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// `docs/...` in comments, flags, errors and manifests.
#[test]
fn every_page_that_code_or_manifests_name_exists() {
    let endings = [".rs", ".wit", ".yaml", ".toml", ".env", "justfile"];
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let mut lost = vec![];
    for file in files("", &endings) {
        for part in read(&file).split("docs/").skip(1) {
            let page: String = part.chars().take_while(|c| is_path(*c)).collect();
            let is_page = Path::new(&page).extension().is_some_and(|extension| extension == "md");
            if is_page && !root().join("docs").join(&page).is_file() {
                lost.push(format!("{file}: docs/{page}"));
            }
        }
    }
    // What this one shows, and pages that tests make up.
    lost.retain(|lost| !lost.starts_with("tests/e2e/tests/"));
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn anchors_and_targets_are_those_of_github() {
    let page =
        "# A `<b>`, c?\n```\n# no [x](y)\n```\n## At 3 a.m.\n## At 3 a.m.\n[a](b.md#c) and [`d`](#e) but `[f](g)`\n";
    assert_eq!(anchors(page), ["a-b-c", "at-3-am", "at-3-am-1"]);
    assert_eq!(targets(page), ["b.md#c", "#e"]);
    assert_eq!(normal(Path::new("docs/guides/../a/./b.md")), Path::new("docs/a/b.md"));
}
