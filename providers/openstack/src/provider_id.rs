//! Provider IDs: `openstack:///ID`, or `openstack://REGION/ID`.

use crate::config::Config;

const SCHEME: &str = "openstack://";

/// The form that new Nodes get.
pub(crate) fn format(config: &Config, server: &str) -> String {
    let region = if config.regional { config.region.as_str() } else { "" };
    format!("{SCHEME}{region}/{server}")
}

/// The ID of the server. Kubelets of before wrote no scheme.
///
/// # Errors
///
/// What is wrong with it, for people: another region is that of another provider.
pub(crate) fn parse(config: &Config, text: &str) -> Result<String, String> {
    let wrong = || format!("ProviderID {text:?} didn't match expected format \"openstack://region/InstanceID\"");
    let rest = if text.contains("://") { text.strip_prefix(SCHEME).ok_or_else(wrong)? } else { text };
    let (region, id) = rest.split_once('/').ok_or_else(wrong)?;
    if id.is_empty() || id.contains('/') {
        return Err(wrong());
    }
    if !region.is_empty() && region != config.region {
        return Err(format!("ProviderID {text:?} didn't match supported region {:?}", config.region));
    }
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::config;

    fn of_region(region: &str) -> Config {
        Config { region: region.to_owned(), ..config() }
    }

    #[test]
    fn os_041_to_044_the_server_is_read_with_and_without_region_and_scheme() {
        let config = of_region("us-east-1");
        for (case, text) in [
            ("os_041", "openstack://us-east-1/7b9c"),
            ("os_042", "/7b9c"),
            ("os_043", "openstack:///7b9c"),
            ("os_044", "us-east-1/7b9c"),
        ] {
            assert_eq!(parse(&config, text), Ok("7b9c".to_owned()), "{case}");
        }
    }

    #[test]
    fn os_045_to_048_what_is_no_provider_id_is_told_with_the_form_of_one() {
        for (case, text) in [
            ("os_045", "openstack://us-east-1-7b9c"),
            ("os_046", "openstack://7b9cf879-7146-417c-abfd-cb4272f0c935"),
            ("os_047", "7b9cf879-7146-417c-abfd-cb4272f0c935"),
            ("os_048", "other-provider:///7b9cf879-7146-417c-abfd-cb4272f0c935"),
            ("6.1", ""),
            ("6.1", "openstack:///"),
            ("6.1", "openstack://us-east-1/a/b"),
        ] {
            let wrong = format!("ProviderID {text:?} didn't match expected format \"openstack://region/InstanceID\"");
            assert_eq!(parse(&of_region("us-east-1"), text), Err(wrong), "{case}");
        }
    }

    #[test]
    fn a_server_of_another_region_is_not_ours() {
        let wrong = parse(&of_region("RegionTwo"), "openstack://RegionOne/7b9c").expect_err("it is another region");
        assert!(wrong.contains("didn't match supported region \"RegionTwo\""), "{wrong}");
        // Without a region of our own every region is another one.
        assert!(parse(&of_region(""), "openstack://RegionOne/7b9c").is_err());
    }

    #[test]
    fn new_nodes_carry_the_region_where_that_is_asked_for() {
        let config = of_region("RegionOne");
        assert_eq!(format(&config, "7b9c"), "openstack:///7b9c");
        assert_eq!(format(&Config { regional: true, ..config }, "7b9c"), "openstack://RegionOne/7b9c");
        assert_eq!(format(&Config { regional: true, ..of_region("") }, "7b9c"), "openstack:///7b9c");
    }
}
