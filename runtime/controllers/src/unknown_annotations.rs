//! Annotations that look like those of a provider, and are none: whoever misspelt one would otherwise hear nothing.
//!
//! A provider declares its annotations without the kind of object on which each has an effect: one that it declares is known on all kinds.

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{Descriptor, letters};

/// Most of them that are named.
const MOST: usize = 5;
/// Names that differ in no more letters are the same name misspelt, wherever they stand.
const SAME_NAME: usize = 2;

/// An annotation that nobody declares, and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) name: String,
    pub(crate) message: String,
}

/// Those of an object's annotations that the provider does not know, although their names begin like those that it declares.
pub(crate) fn unknown<'a>(names: impl Iterator<Item = &'a str>, descriptor: &Descriptor) -> Vec<Unknown> {
    let is_declared = |name: &str| descriptor.annotations.iter().any(|known| known.covers(name));
    let others: Vec<&str> = names.filter(|name| !is_declared(name)).collect();
    if others.is_empty() {
        return vec![];
    }
    let declared = Declared::of(descriptor);
    let unknown = others.into_iter().filter_map(|name| {
        let (meant, letters) = declared.nearest(name).unzip();
        let is_meant = letters.is_some_and(|letters| letters <= SAME_NAME);
        (is_meant || declared.prefixes.iter().any(|prefix| name.starts_with(prefix))).then(|| {
            let instead = meant.map(|meant| format!("; {meant} would be one")).unwrap_or_default();
            let provider = &descriptor.name;
            let message =
                format!("provider {provider} does not know the annotation {name}, which has no effect{instead}");
            Unknown { name: name.to_owned(), message }
        })
    });
    unknown.collect()
}

/// What is said of all of them in one Event; empty where there is none.
pub(crate) fn told(unknown: Vec<Unknown>) -> String {
    let mut messages: Vec<String> = unknown.into_iter().map(|unknown| unknown.message).collect();
    let more = messages.len().saturating_sub(MOST);
    messages.truncate(MOST);
    if more > 0 {
        messages.push(format!("and {more} more"));
    }
    messages.join("; ")
}

/// What the names of annotations begin with that are this provider's alone.
#[must_use]
pub fn annotation_prefixes(descriptor: &Descriptor) -> BTreeSet<String> {
    Declared::of(descriptor).prefixes
}

/// What a provider declares.
struct Declared<'a> {
    /// What annotations of this provider alone begin with.
    prefixes: BTreeSet<String>,
    /// Those that people write, in their namespaces.
    names: Vec<(&'a str, &'a str)>,
}

impl<'a> Declared<'a> {
    fn of(descriptor: &'a Descriptor) -> Self {
        let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut names = vec![];
        for annotation in &descriptor.annotations {
            let Some((namespace, name)) = annotation.name.split_once('/') else { continue };
            namespaces.entry(namespace).or_default().push(name.trim_end_matches('*'));
            if annotation.is_asked() && !name.ends_with('*') {
                names.push((namespace, name));
            }
        }
        let mut prefixes = BTreeSet::new();
        for (namespace, names) in namespaces {
            let stem = stem(&names);
            if !stem.is_empty() || !is_of_kubernetes(namespace) {
                prefixes.insert(format!("{namespace}/{stem}"));
                continue;
            }
            // All providers share it.
            let stems = names.iter().map(|name| self::stem(&[*name])).filter(|stem| !stem.is_empty());
            prefixes.extend(stems.map(|stem| format!("{namespace}/{stem}")));
        }
        Self { prefixes, names }
    }

    /// The one that was probably meant, and in how many letters it differs.
    fn nearest(&self, name: &str) -> Option<(String, usize)> {
        let (namespace, name) = name.split_once('/')?;
        let siblings = self.names.iter().filter(|(other, _)| *other == namespace);
        let near = siblings.filter_map(|(_, known)| Some((letters(name, known)?, known)));
        let (letters, known) = near.min_by_key(|(letters, _)| *letters)?;
        Some((format!("{namespace}/{known}"), letters))
    }
}

/// What all begin with, in whole words.
fn stem<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, others)) = names.split_first() else { return "" };
    let common = others.iter().fold(*first, |common, other| {
        let same = common.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
        let length = same.map_or(common.len().min(other.len()), |((at, _), _)| at);
        common.get(..length).unwrap_or_default()
    });
    common.rfind(['-', '.', '_']).and_then(|at| common.get(..=at)).unwrap_or_default()
}

fn is_of_kubernetes(namespace: &str) -> bool {
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|domain| namespace.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Annotation, AnnotationRole, ValueKind};

    use super::*;

    fn descriptor(names: &[&str]) -> Descriptor {
        let annotation = |name: &&str| Annotation {
            name: (*name).to_owned(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: None,
            allowed: vec![],
            role: if name.ends_with("-job") { AnnotationRole::Written } else { AnnotationRole::Asked },
        };
        Descriptor {
            name: "my".to_owned(),
            annotations: names.iter().map(annotation).collect(),
            ..Descriptor::default()
        }
    }

    /// What is said of an annotation after what all messages begin with.
    fn said(declared: &[&str], name: &str) -> Option<String> {
        let unknown = unknown(std::iter::once(name), &descriptor(declared)).pop()?;
        assert_eq!(unknown.name, name);
        let start = format!("provider my does not know the annotation {name}, which has no effect");
        Some(unknown.message.strip_prefix(&start).unwrap().to_owned())
    }

    fn meant(name: &str) -> Option<String> {
        Some(format!("; {name} would be one"))
    }

    const DIGITALOCEAN: [&str; 6] = [
        "service.beta.kubernetes.io/do-loadbalancer-protocol",
        "service.beta.kubernetes.io/do-loadbalancer-tls-ports",
        "service.beta.kubernetes.io/do-loadbalancer-http-ports",
        "service.kubernetes.io/do-loadbalancer-disown",
        "kubernetes.digitalocean.com/load-balancer-id",
        "kubernetes.digitalocean.com/firewall-managed",
    ];

    #[test]
    fn do_281_what_begins_like_the_providers_is_unknown_and_the_nearest_is_named() {
        let [protocol, .., id, _] = DIGITALOCEAN;
        for (name, expected) in [
            ("service.beta.kubernetes.io/do-loadbalancer-protcol", meant(protocol)),
            ("service.beta.kubernetes.io/do-loadbalancer-Protocol", meant(protocol)),
            ("service.beta.kubernetes.io/do-loadbalancer-zzz", Some(String::new())),
            // A letter of what all begin with.
            ("service.beta.kubernetes.io/do-loadbalacer-protocol", meant(protocol)),
            ("service.kubernetes.io/do-loadbalancer-disowned", meant("service.kubernetes.io/do-loadbalancer-disown")),
            ("kubernetes.digitalocean.com/loadbalancer-id", meant(id)),
            ("kubernetes.digitalocean.com/zzz", Some(String::new())),
            (protocol, None),
            ("service.beta.kubernetes.io/aws-load-balancer-type", None),
            ("service.kubernetes.io/topology-mode", None),
            ("do-loadbalancer-protcol", None),
        ] {
            assert_eq!(said(&DIGITALOCEAN, name), expected, "{name}");
        }
    }

    #[test]
    fn a_namespace_that_all_providers_share_is_no_ones() {
        let declared = [
            "service.beta.kubernetes.io/openstack-internal-load-balancer",
            "service.beta.kubernetes.io/load-balancer-source-ranges",
            "loadbalancer.openstack.org/subnet-id",
            "loadbalancer.openstack.org/keep-floatingip",
        ];
        for (name, expected) in [
            ("service.beta.kubernetes.io/load-balancer-source-range", meant(declared[1])),
            ("service.beta.kubernetes.io/openstack-internal-loadbalancer", meant(declared[0])),
            ("service.beta.kubernetes.io/azure-load-balancer-internal", None),
            ("loadbalancer.openstack.org/subnetid", meant(declared[2])),
            ("loadbalancer.openstack.org/zzz", Some(String::new())),
        ] {
            assert_eq!(said(&declared, name), expected, "{name}");
        }
    }

    #[test]
    fn what_the_provider_writes_or_takes_all_of_is_not_what_was_meant() {
        let declared = ["my.example/a-job", "my.example/rule-*", "bare"];
        assert_eq!(said(&declared, "my.example/rule-7"), None);
        assert_eq!(said(&declared, "my.example/a-jib").as_deref(), Some(""));
        assert_eq!(said(&declared, "bar"), None);
        assert_eq!(said(&[], "my.example/x"), None);
    }

    #[test]
    fn of_many_the_first_five_are_named_and_the_others_counted() {
        let names: Vec<String> = (0..7).map(|i| format!("my.example/zzzz{i}")).collect();
        let descriptor = descriptor(&["my.example/mode"]);
        let message = |count: usize| told(unknown(names.iter().take(count).map(String::as_str), &descriptor));
        assert_eq!(message(0), "");
        assert_eq!(message(5).matches("does not know").count(), 5);
        let seven = message(7);
        assert_eq!((seven.matches("does not know").count(), seven.ends_with("; and 2 more")), (5, true), "{seven}");
    }
}
