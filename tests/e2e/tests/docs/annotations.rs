//! `docs/reference/annotations.md`: those of the host, which people describe. Below it, a page for what each provider declares.

use std::process::Command;

use ccm_e2e::host::{component, program};
use serde_json::Value;

use super::{read, sources};

/// Providers with a page.
const PROVIDERS: [&str; 3] = ["cloudlycke", "digitalocean", "openstack"];

/// What `wasm-ccm annotations` prints for programs.
fn declared(provider: &str) -> Vec<Value> {
    let file = component(&format!("providers/{provider}.wasm")).unwrap();
    let output = Command::new(program().unwrap()).arg("annotations").arg(file).arg("--output=json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["provider"], provider);
    shown["annotations"].as_array().unwrap().clone()
}

/// A sentence, with the end that it lacks.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn row(annotation: &Value) -> String {
    let text = |key: &str| annotation[key].as_str().unwrap_or_default();
    let allowed = annotation["allowed"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let allowed: Vec<String> = allowed.map(|value| format!("`{value}`")).collect();
    let values = if allowed.is_empty() { text("form").to_owned() } else { allowed.join(", ") };
    let default = annotation["default"].as_str().map_or_else(|| "–".to_owned(), |default| format!("`{default}`"));
    let written = if matches!(text("role"), "written" | "both") { " The provider writes it." } else { "" };
    let purpose = sentence(text("purpose")).replace('|', "\\|");
    format!("| `{}` | {values} | {default} | {purpose}{written} |\n", text("name"))
}

#[test]
fn the_reference_has_every_annotation_that_a_provider_declares() {
    for provider in PROVIDERS {
        let annotations = declared(provider);
        assert!(!annotations.is_empty(), "{provider}");
        let mut page = "| annotation | value | default | meaning |\n|---|---|---|---|\n".to_owned();
        page.extend(annotations.iter().map(row));
        ccm_built::reference::is_current(&format!("annotations/{provider}"), &page).unwrap();
    }
}

/// `wasm-ccm.io/...`, and what begins with a domain of Kubernetes.
#[test]
fn every_name_of_the_host_stands_in_the_reference() {
    let written = read("docs/reference/annotations.md");
    let mut names: Vec<String> = vec![];
    for (_, source) in sources(&["runtime"]) {
        let constants = source.lines().filter(|line| line.contains("const ") && line.contains(": &str = \""));
        let values = constants
            .filter_map(|line| line.split('"').nth(1))
            .filter(|value| value.split_once('/').is_some_and(|(domain, name)| domain.contains('.') && name.len() > 2));
        names.extend(values.map(str::to_owned));
    }
    assert!(names.len() >= 8, "{names:?}");
    let lost: Vec<&String> = names.iter().filter(|name| !written.contains(&format!("`{name}"))).collect();
    assert!(lost.is_empty(), "docs/reference/annotations.md lacks {lost:#?}");
}
