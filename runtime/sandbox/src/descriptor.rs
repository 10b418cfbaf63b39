//! Validates what a component says about itself.

use std::collections::BTreeSet;

use ccm_cloud::{Credential, Descriptor, Place, Source, TlsSources};

use crate::{Limits, LoadError};

/// Checks what grants, files and metrics will rely on.
pub(crate) fn check_descriptor(descriptor: &Descriptor, limits: &Limits) -> Result<(), LoadError> {
    let complaint = too_many(descriptor, limits).or_else(|| complaint(descriptor));
    complaint.map_or(Ok(()), |complaint| Err(LoadError::Descriptor(complaint)))
}

/// What the host would have to keep of it for as long as it runs.
fn too_many(descriptor: &Descriptor, limits: &Limits) -> Option<String> {
    let counts = [
        ("endpoints", descriptor.endpoints.len(), limits.endpoints, "endpoints"),
        ("credentials", descriptor.credentials.len(), limits.credentials, "credentials"),
        ("entries in its lists", declarations(descriptor), limits.declarations, "declarations"),
    ];
    counts.into_iter().find(|(_, count, most, _)| count > most).map(|(what, count, most, limit)| {
        format!("it has {count} {what}, {most} are allowed; raise the limit {limit} if that is right")
    })
}

/// Entries of all its lists, and of the lists in those.
fn declarations(descriptor: &Descriptor) -> usize {
    let source = |source: &Source| source.keys.len().saturating_add(source.environment_variables.len());
    let files = descriptor.files.iter().map(|file| file.path_keys.len().saturating_add(file.default_paths.len()));
    let endpoints = descriptor.endpoints.iter().map(|endpoint| {
        let tls = endpoint.tls.iter().flat_map(TlsSources::all);
        tls.map(source).fold(source(&endpoint.base_url), usize::saturating_add)
    });
    let credentials =
        descriptor.credentials.iter().map(|credential| source(&credential.value).saturating_add(credential.uses.len()));
    let settings =
        descriptor.settings.iter().map(|setting| source(&setting.value).saturating_add(setting.allowed.len()));
    let annotations = descriptor.annotations.iter().map(|annotation| annotation.allowed.len());
    let budgets = descriptor.budgets.iter().map(|budget| budget.endpoints.len());
    let flat = descriptor.provider_id_schemes.len().saturating_add(descriptor.more.len());
    let nested = files.chain(endpoints).chain(credentials).chain(settings).chain(annotations).chain(budgets);
    nested.map(|inner| inner.saturating_add(1)).fold(flat, usize::saturating_add)
}

fn complaint(descriptor: &Descriptor) -> Option<String> {
    let name = &descriptor.name;
    if !is_dns_label(name) {
        return Some(format!("its name {name:?} is not a DNS label (a-z, 0-9, -; at most 63)"));
    }
    if descriptor.provider_id_schemes.is_empty() {
        return Some("it names no scheme of provider IDs".to_owned());
    }
    if let Some(scheme) = descriptor.provider_id_schemes.iter().find(|scheme| !is_scheme(scheme)) {
        return Some(format!("{scheme:?} is not a scheme (write it without ://)"));
    }
    let files = descriptor.files.iter().map(|file| &file.name);
    let endpoints = descriptor.endpoints.iter().map(|endpoint| &endpoint.name);
    let credentials = descriptor.credentials.iter().map(|credential| &credential.name);
    let settings = descriptor.settings.iter().map(|setting| &setting.name);
    twice("file", files)
        .or_else(|| twice("endpoint", endpoints))
        .or_else(|| twice("credential", credentials))
        .or_else(|| twice("setting", settings))
        .or_else(|| descriptor.credentials.iter().find_map(|credential| misuse(credential, descriptor)))
        .or_else(|| uncountable(descriptor))
}

/// One of two things of the same name would be the one that grants are for.
fn twice<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Some(format!("it has a {what} without a name"));
        }
        if !seen.insert(name) {
            return Some(format!("it has two of the {what} {name:?}"));
        }
    }
    None
}

fn misuse(credential: &Credential, descriptor: &Descriptor) -> Option<String> {
    for used in &credential.uses {
        let name = &credential.name;
        if !descriptor.endpoints.iter().any(|endpoint| endpoint.name == used.endpoint) {
            return Some(format!(
                "credential {name:?} is used for endpoint {:?}, which it does not have",
                used.endpoint
            ));
        }
        if used.place == Place::Body && used.path.is_none() {
            return Some(format!("credential {name:?} is used in bodies, and no path says in which"));
        }
    }
    None
}

/// A request counts once.
fn uncountable(descriptor: &Descriptor) -> Option<String> {
    let counted = || descriptor.budgets.iter().flat_map(|budget| &budget.endpoints);
    let is_there = |name: &&String| descriptor.endpoints.iter().any(|endpoint| endpoint.name == **name);
    if let Some(name) = counted().find(|name| !is_there(name)) {
        return Some(format!("it has a budget of endpoint {name:?}, which it does not have"));
    }
    let mut seen = BTreeSet::new();
    let twice = counted().find(|name| !seen.insert(*name))?;
    Some(format!("endpoint {twice:?} is in two budgets"))
}

fn is_dns_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Budget, CredentialUse, Endpoint, Setting, Source, ValueKind};

    use super::*;

    fn endpoint(name: &str) -> Endpoint {
        let (base_url, purpose) = (Source::default(), String::new());
        Endpoint { name: name.into(), purpose, base_url, default_base_url: None, tls: None }
    }

    fn credential(name: &str, endpoint: &str, place: Place, path: Option<&str>) -> Credential {
        let uses = vec![CredentialUse { endpoint: endpoint.into(), place, path: path.map(Into::into) }];
        Credential { name: name.into(), purpose: String::new(), required: false, value: Source::default(), uses }
    }

    fn setting(name: &str) -> Setting {
        Setting {
            name: name.into(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: None,
            allowed: vec![],
            value: Source::default(),
        }
    }

    fn budget(endpoints: &[&str]) -> Budget {
        Budget { endpoints: endpoints.iter().map(|&name| name.to_owned()).collect(), ..Budget::default() }
    }

    fn good() -> Descriptor {
        Descriptor {
            name: "good".into(),
            version: String::new(),
            revision: String::new(),
            provider_id_schemes: vec!["good".into()],
            files: vec![],
            endpoints: vec![endpoint("api"), endpoint("identity")],
            credentials: vec![credential("token", "api", Place::Body, Some("/login"))],
            settings: vec![setting("mood")],
            annotations: vec![],
            ..Descriptor::default()
        }
    }

    /// 65,536 credentials made two million forms to look for in each answer, and each endpoint a label for ever.
    #[test]
    fn every_list_of_a_description_has_its_limit() {
        type Change = fn(&mut Descriptor);
        let cases: [(Change, &str); 9] = [
            (|d| d.endpoints.extend((0..63).map(|i| endpoint(&i.to_string()))), "limit endpoints"),
            (
                |d| d.credentials.extend((0..64).map(|i| credential(&i.to_string(), "api", Place::Signing, None))),
                "limit credentials",
            ),
            (|d| d.settings.extend((0..4_000).map(|i| setting(&i.to_string()))), "limit declarations"),
            (|d| d.settings[0].allowed = vec![String::new(); 4_000], "limit declarations"),
            (|d| d.settings[0].value.keys = vec![String::new(); 4_000], "limit declarations"),
            (
                |d| {
                    let one = d.credentials[0].uses[0].clone();
                    d.credentials[0].uses = vec![one; 4_000];
                },
                "limit declarations",
            ),
            (|d| d.budgets = vec![budget(&["api"; 4_000])], "limit declarations"),
            (|d| d.provider_id_schemes = vec!["good".to_owned(); 4_000], "limit declarations"),
            (|d| d.more = (0..4_000).map(|i| (i.to_string(), String::new())).collect(), "limit declarations"),
        ];
        assert_eq!(too_many(&good(), &Limits::default()), None);
        for (index, (change, wanted)) in cases.into_iter().enumerate() {
            let mut descriptor = good();
            change(&mut descriptor);
            let found = check_descriptor(&descriptor, &Limits::default()).unwrap_err().to_string();
            assert!(found.contains(wanted), "{index}: {found}");
        }
    }

    #[test]
    fn a_description_that_grants_cannot_rely_on_is_refused() {
        type Change = fn(&mut Descriptor);
        let cases: [(Change, Option<&str>); 12] = [
            (|_| (), None),
            (|d| d.name = "Not a label".into(), Some("DNS label")),
            (|d| d.provider_id_schemes.clear(), Some("no scheme")),
            (|d| d.provider_id_schemes.push("a://".into()), Some("without ://")),
            (|d| d.endpoints.push(endpoint("api")), Some("two of the endpoint \"api\"")),
            (|d| d.settings.push(setting("mood")), Some("two of the setting")),
            (|d| d.settings.push(setting("")), Some("without a name")),
            (|d| d.credentials.push(credential("x", "nowhere", Place::Signing, None)), Some("\"nowhere\"")),
            (|d| d.credentials.push(credential("x", "api", Place::Body, None)), Some("no path")),
            (|d| d.budgets = vec![budget(&["api", "identity"])], None),
            (|d| d.budgets = vec![budget(&["nowhere"])], Some("budget of endpoint \"nowhere\"")),
            (|d| d.budgets = vec![budget(&["api"]), budget(&["identity", "api"])], Some("\"api\" is in two budgets")),
        ];
        for (change, wanted) in cases {
            let mut descriptor = good();
            change(&mut descriptor);
            let found = complaint(&descriptor);
            match wanted {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.as_deref().is_some_and(|found| found.contains(part)), "{found:?}: {part}"),
            }
        }
    }
}
