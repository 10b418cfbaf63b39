//! The entry of `clouds.yaml`.

use super::*;

/// As gophercloud has it: by its ID, and behind all that is said about domains otherwise.
#[test]
fn the_default_domain_of_clouds_yaml_is_that_of_a_user_and_a_project_without_one() {
    let clouds = |more: &str| {
        format!(
            r#"{{"clouds": {{"mine": {{"auth": {{"username": "n", "project_name": "p", "default_domain": "dd"{more}}}}}}}}}"#
        )
    };
    let domains = |conf: &str, more: &str| {
        let (config, problems) =
            with_clouds(&format!("[Global]\nuse-clouds = true\n{conf}"), Some(&clouds(more)), Some("mine"));
        assert_eq!(problems, [""; 0]);
        let Identity { user_domain, project_domain, domain, .. } = config.identity;
        [user_domain, project_domain, domain].map(|named| named.id.or(named.name).unwrap_or_default())
    };
    for (conf, more, expected) in [
        ("", "", ["dd", "dd", ""]),
        ("", r#", "user_domain_name": "ud""#, ["ud", "dd", ""]),
        ("", r#", "project_domain_id": "pd""#, ["dd", "pd", ""]),
        ("", r#", "domain_name": "d""#, ["", "", "d"]),
        ("domain-id = d", "", ["", "", "d"]),
        ("tenant-domain-name = pd", "", ["dd", "pd", ""]),
    ] {
        assert_eq!(domains(conf, more), expected, "{conf} {more}");
    }
}

#[test]
fn with_a_default_domain_a_name_logs_in() {
    let clouds = r#"{"clouds": {"mine": {"auth": {"username": "n", "project_name": "p", "default_domain": "dd"}}}}"#;
    let (config, _) = with_clouds("[Global]\nuse-clouds = true", Some(clouds), Some("mine"));
    assert_eq!(crate::login::problems(&config.identity, |credential| credential == "password"), []);
}
