//! `clouds.yaml`: the entry that is named, as far as it fills what `cloud.conf` leaves open.

use ccm_sdk::config::Section;
use ccm_sdk::types::Problem;

use super::{CLOUDS, FILE, Global, Identity, Named, filled};

/// The entry, if there is one.
pub(super) fn read(
    file: Option<&str>,
    cloud: Option<&str>,
    is_used: Option<bool>,
    problems: &mut Vec<Problem>,
) -> Option<Global> {
    let cloud = cloud.filter(|cloud| !cloud.is_empty());
    let (file, cloud) = match (file, cloud) {
        (None, None) => {
            if is_used == Some(true) {
                let message = "is set, but there is no clouds.yaml: name it with clouds-file, its entry with cloud, and grant the \
                               file with --allow-file";
                problems.push(Problem::fatal(format!("{FILE}:global.use-clouds"), message));
            }
            return None;
        }
        (None, Some(cloud)) => {
            if is_used != Some(false) {
                let message = format!(
                    "names the entry {cloud:?}, but there is no clouds.yaml: name it with clouds-file, and grant it with \
                     --allow-file"
                );
                problems.push(Problem::fatal(format!("{FILE}:global.cloud"), message));
            }
            return None;
        }
        (Some(_), None) => {
            let message = "is missing: it says which entry of clouds.yaml is meant, also where there is only one";
            problems.push(Problem::fatal(format!("{FILE}:global.cloud"), message));
            return None;
        }
        (Some(file), Some(cloud)) => (file, cloud),
    };
    if is_used == Some(false) {
        let message = "is false, but clouds-file or the grant of a clouds.yaml, with cloud, is a use of it; leave all of them out";
        problems.push(Problem::harmless(format!("{FILE}:global.use-clouds"), message));
    }
    let mut own = vec![];
    let mut whole = Section::whole(CLOUDS, Some(file), &mut own).tolerant();
    let entries = whole.named("clouds", entry);
    whole.finish();
    // What is odd in the entries of others is theirs.
    let (all, mine) = (format!("{CLOUDS}:clouds."), format!("{CLOUDS}:clouds.{cloud}."));
    problems.extend(own.into_iter().filter(|p| !p.field.starts_with(&all) || p.field.starts_with(&mine)));
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    if !names.contains(&cloud) {
        let message = format!("names the entry {cloud:?}, which clouds.yaml has not; it has: {}", names.join(", "));
        problems.push(Problem::fatal(format!("{FILE}:global.cloud"), message));
    }
    let (_, mut found) = entries.into_iter().find(|(name, _)| name == cloud)?;
    if let Some((key, _)) = &mut found.interface {
        *key = format!("{mine}{key}");
    }
    Some(found)
}

fn entry(section: &mut Section<'_>) -> Global {
    for key in ["profile", "cloud"] {
        if section.is_there(key) {
            section.ignore(key);
            section.unused(key, "is not read: write what the profile has into the entry itself");
        }
    }
    // The host reads these.
    for key in ["cacert", "cert", "key", "verify"] {
        section.ignore(key);
    }
    // Of other programs.
    for key in [
        "auth_type",
        "identity_api_version",
        "volume_api_version",
        "compute_api_version",
        "image_api_version",
        "network_api_version",
        "load_balancer_api_version",
        "key_manager_api_version",
        "regions",
        "networks",
        "vendor_hook",
    ] {
        section.ignore(key);
    }
    let region = filled(section.text("region_name"));
    let interfaces = ["endpoint_type", "interface"].map(|key| (key, filled(section.text(key))));
    let interface = interfaces.into_iter().find_map(|(key, text)| Some((key.to_owned(), text?)));
    let (identity, default_domain) = section.section("auth", auth);
    Global { identity, region, interface, uses_clouds: None, default_domain }
}

/// Who logs in, and the domain of whoever has none.
fn auth(section: &mut Section<'_>) -> (Identity, Option<String>) {
    section.ignore("auth_url");
    for key in ["password", "token", "application_credential_id", "application_credential_secret"] {
        section.ignore(key);
    }
    let named = |section: &mut Section<'_>, id, name| Named::new(section.text(id), section.text(name));
    let identity = Identity {
        user: named(section, "user_id", "username"),
        project: named(section, "project_id", "project_name"),
        domain: named(section, "domain_id", "domain_name"),
        user_domain: named(section, "user_domain_id", "user_domain_name"),
        project_domain: named(section, "project_domain_id", "project_domain_name"),
        application_credential_name: filled(section.text("application_credential_name")),
        trust: filled(section.text("trust_id")),
        trustee: None,
        system: filled(section.text("system_scope")).is_some(),
    };
    (identity, filled(section.text("default_domain")))
}
