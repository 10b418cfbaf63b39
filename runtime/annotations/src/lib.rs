//! `wasm-ccm annotations`: the annotations that a component declares, with what their values look like and what it does with a wrong one.
//! As `cel`, it is an admission policy for clusters without the webhook.
//!
//! | module | does |
//! |---|---|
//! | `value` | what a value looks like: in words, as an expression, and one that is wrong |
//! | `probe` | asks the component what it does with wrong values |
//! | `policy` | the admission policies |

mod policy;
mod probe;
mod value;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use ccm_cloud::{Annotation, Descriptor};
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::preflight::{self, Checked};
use serde::Serialize;

use probe::{Probed, WrongValue};

/// What is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Declared<'a> {
    provider: &'a str,
    version: &'a str,
    digest: &'a str,
    /// Why the component was not asked about wrong values, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    unjudged: Option<&'a str>,
    annotations: Vec<Entry<'a>>,
}

/// An annotation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(flatten)]
    annotation: &'a Annotation,
    /// What its value looks like, for people.
    form: String,
    wrong_value: WrongValue,
}

/// What a component declares, and what it does with wrong values.
pub struct Declaration {
    descriptor: Descriptor,
    /// Of the component.
    digest: String,
    probed: Probed,
}

impl Declaration {
    /// Asks the component. No request leaves.
    ///
    /// # Errors
    ///
    /// The step of the gate that the component does not pass, and why.
    pub async fn of(config: &ProviderConfig, cluster_name: &str) -> Result<Self> {
        let checked = preflight::component(config, None).await.map_err(|rejected| rejected.named(&config.source))?;
        let Checked { component, unpacked, .. } = checked;
        let descriptor = component.descriptor().clone();
        let probed = match preflight::offline(config, component, cluster_name).await {
            Ok(provider) => probe::probe(&provider, &descriptor).await,
            Err(rejected) => Probed::unjudged(format!("{:#}", rejected.error)),
        };
        Ok(Self { descriptor, digest: unpacked.digest, probed })
    }

    /// For people.
    ///
    /// # Errors
    ///
    /// None that can happen: the text goes to memory.
    pub fn text(&self) -> Result<String> {
        text(&self.descriptor, &self.probed)
    }

    /// For programs.
    ///
    /// # Errors
    ///
    /// None that can happen: every field has a form in JSON.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&declared(&self.descriptor, &self.digest, &self.probed))?)
    }

    /// As ValidatingAdmissionPolicies, for Services without a class and for those of `classes`.
    ///
    /// # Errors
    ///
    /// None that can happen: the text goes to memory.
    pub fn cel(&self, classes: &[String]) -> Result<String> {
        policy::policies(&self.descriptor, &self.probed, classes)
    }

    /// Whether the component was asked about wrong values.
    pub fn is_judged(&self) -> bool {
        self.probed.unjudged.is_none()
    }
}

fn declared<'a>(descriptor: &'a Descriptor, digest: &'a str, probed: &'a Probed) -> Declared<'a> {
    let entry =
        |annotation| Entry { annotation, form: value::form(annotation), wrong_value: probed.wrong_value(annotation) };
    Declared {
        provider: &descriptor.name,
        version: &descriptor.version,
        digest,
        unjudged: probed.unjudged.as_deref(),
        annotations: descriptor.annotations.iter().map(entry).collect(),
    }
}

fn text(descriptor: &Descriptor, probed: &Probed) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{} {} declares {} annotations", descriptor.name, descriptor.version, descriptor.annotations.len())?;
    for annotation in &descriptor.annotations {
        writeln!(out, "\n{}", annotation.name)?;
        writeln!(out, "  {}", annotation.purpose)?;
        writeln!(out, "  value        {}", value::form(annotation))?;
        if let Some(default) = &annotation.default {
            writeln!(out, "  default      {default}")?;
        }
        if annotation.is_written() {
            writeln!(out, "  written by   the provider{}", if annotation.is_asked() { ", and by you" } else { "" })?;
        }
        writeln!(out, "  wrong value  {}", probed.wrong_value(annotation).told())?;
    }
    if let Some(why) = &probed.unjudged {
        writeln!(out, "\nThe component was not asked about wrong values: {why}")?;
    }
    Ok(out)
}

/// What the component does with a wrong value of each annotation, by name.
type Verdicts = BTreeMap<String, WrongValue>;

#[cfg(test)]
mod tests {
    use ccm_cloud::{AnnotationRole, ValueKind};

    use super::*;

    /// A provider with an annotation of each kind, and what it does with their wrong values.
    pub(super) fn provider() -> (Descriptor, Probed) {
        let annotation = |(name, kind, allowed, role): (&str, ValueKind, &[&str], AnnotationRole)| Annotation {
            name: format!("my.example/{name}"),
            purpose: format!("About {name}."),
            kind,
            default: (name == "mode").then(|| "fast".to_owned()),
            allowed: allowed.iter().map(|&word| word.to_owned()).collect(),
            role,
        };
        let annotations = [
            ("mode", ValueKind::Text, &["fast", "\"slow\""][..], AnnotationRole::Asked),
            ("public", ValueKind::Boolean, &[], AnnotationRole::Asked),
            ("size", ValueKind::Integer, &[], AnnotationRole::Both),
            ("wait-*", ValueKind::Duration, &[], AnnotationRole::Asked),
            ("note", ValueKind::Text, &[], AnnotationRole::Asked),
            ("job", ValueKind::Integer, &[], AnnotationRole::Written),
        ];
        let descriptor = Descriptor {
            name: "my".to_owned(),
            version: "1.2".to_owned(),
            annotations: annotations.into_iter().map(annotation).collect(),
            ..Descriptor::default()
        };
        let verdicts = [("mode", WrongValue::Refused), ("public", WrongValue::Accepted), ("size", WrongValue::Refused)];
        let verdicts = verdicts.map(|(name, verdict)| (format!("my.example/{name}"), verdict));
        (descriptor, Probed { unjudged: None, verdicts: verdicts.into() })
    }

    #[test]
    fn people_and_programs_see_form_default_writer_and_what_a_wrong_value_does() {
        let (descriptor, probed) = provider();
        let shown = text(&descriptor, &probed).unwrap();
        let (_, mode) = shown.split_once("my.example/mode\n").unwrap();
        let mode: Vec<&str> = mode.lines().take(4).collect();
        assert_eq!(
            mode,
            [
                "  About mode.",
                "  value        one of fast, \"slow\"",
                "  default      fast",
                "  wrong value  the Service is refused",
            ]
        );
        assert!(shown.contains("  written by   the provider, and by you\n"), "{shown}");
        assert!(shown.contains("  written by   the provider\n"), "{shown}");
        let seen = serde_json::to_value(declared(&descriptor, "sha256:0", &probed)).unwrap();
        assert_eq!(seen["annotations"][1]["wrongValue"], "accepted");
        assert_eq!(seen["annotations"][1]["form"], "`true` or `false`");
        assert_eq!(seen["annotations"][4]["wrongValue"], "any");
        assert!(seen.get("unjudged").is_none(), "{seen}");
    }

    #[test]
    fn why_a_component_was_not_asked_is_told() {
        let (descriptor, _) = provider();
        let probed = Probed::unjudged("no cloud-config".to_owned());
        let shown = text(&descriptor, &probed).unwrap();
        assert!(shown.ends_with("was not asked about wrong values: no cloud-config\n"), "{shown}");
        let seen = serde_json::to_value(declared(&descriptor, "sha256:0", &probed)).unwrap();
        assert_eq!(
            (&seen["unjudged"], &seen["annotations"][0]["wrongValue"]),
            (&"no cloud-config".into(), &"unknown".into())
        );
    }
}
