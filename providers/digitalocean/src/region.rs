//! The region that load balancers are made in.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sdk::types::{Failure, Problem};

use crate::api::{droplets, regions};
use crate::config::Config;
use crate::find;

/// A droplet never moves.
const SHARE: Duration = Duration::from_secs(3_600);

/// The one of the settings, else that of a droplet of the cluster.
///
/// # Errors
///
/// The droplet cannot be asked, or there is none.
pub(crate) fn of_new(config: &Config, droplets: &[u64]) -> Result<String, Failure> {
    if let Some(region) = &config.region {
        return Ok(region.clone());
    }
    // The same one for all Services, so that its answer is shared.
    let id = droplets.iter().min().ok_or_else(|| {
        Failure::retry("the region is not known: no droplet of the cluster is; set the environment variable REGION")
    })?;
    let droplet = droplets::one(droplets::get(*id).share(SHARE).send()?)?;
    let region = droplet.map(|droplet| droplet.region.slug).filter(|slug| !slug.is_empty());
    region.ok_or_else(|| {
        Failure::retry(format!("droplet {id} tells no region; set the environment variable REGION if it stays so"))
    })
}

/// That of the cluster's droplets, where it is one and can be asked.
pub(crate) fn of_nodes(nodes: &[String]) -> Option<String> {
    match find::regions_of(nodes).ok()?.as_slice() {
        [region] => Some(region.clone()),
        _ => None,
    }
}

/// What is wrong with the setting, or with leaving it out.
///
/// # Errors
///
/// The cloud cannot be asked.
pub(crate) fn problems(config: &Config, nodes: &[String]) -> Result<Vec<Problem>, Failure> {
    match &config.region {
        Some(region) => {
            let known: BTreeSet<String> = regions::slugs()?.into_iter().collect();
            if known.contains(region) {
                return Ok(vec![]);
            }
            let known: Vec<String> = known.into_iter().collect();
            let message =
                format!("REGION: invalid region specified: {region:?}; DigitalOcean has {}", known.join(", "));
            Ok(vec![Problem::fatal("region", message)])
        }
        None => {
            let regions = find::regions_of(nodes)?;
            if regions.len() < 2 {
                return Ok(vec![]);
            }
            let message = format!(
                "the cluster's droplets are in the regions {}, and a load balancer is in one; set REGION to say which",
                regions.join(" and ")
            );
            Ok(vec![Problem::harmless("region", message)])
        }
    }
}

#[cfg(test)]
mod tests {
    use ccm_sdk::testing::{FakeCloud, Reply};

    use super::*;
    use crate::config::tests::config;
    use crate::find::tests::{droplet, list};

    const ONE: &str = "api GET /v2/droplets/7";
    const LIST: &str = "api GET /v2/droplets";

    fn unset() -> Config {
        Config { region: None, ..config() }
    }

    #[test]
    fn a_region_that_is_set_is_not_asked_for() {
        let cloud = FakeCloud::new();
        assert_eq!(of_new(&config(), &[7]), Ok("nyc3".to_owned()));
        assert_eq!(cloud.lines(), Vec::<String>::new());
    }

    #[test]
    fn without_one_it_is_that_of_the_first_droplet_and_the_answer_is_shared() {
        let body = droplet(7, "n7").replace("nyc3", "fra1");
        let cloud = FakeCloud::new().on(ONE, Reply::json(200, format!(r#"{{"droplet": {body}}}"#)));
        assert_eq!(of_new(&unset(), &[9, 7]), Ok("fra1".to_owned()));
        assert_eq!(cloud.requests()[0].share_ms, 3_600_000);
        for id in [&[][..], &[8]] {
            assert!(of_new(&unset(), id).is_err());
        }
    }

    #[test]
    fn a_region_that_does_not_exist_is_refused_with_those_that_do() {
        let body = r#"{"regions": [{"slug": "nyc3"}, {"slug": "fra1"}], "meta": {"total": 2}}"#;
        let _cloud = FakeCloud::new().always("api GET /v2/regions", Reply::json(200, body));
        assert_eq!(problems(&config(), &[]), Ok(vec![]));
        let config = Config { region: Some("mars1".to_owned()), ..config() };
        let told = problems(&config, &[]).expect("it is asked");
        assert!(told[0].fatal && told[0].message.contains("\"mars1\"; DigitalOcean has fra1, nyc3"), "{told:?}");
    }

    #[test]
    fn two_regions_of_the_clusters_droplets_are_named_and_those_of_others_do_not_count() {
        let droplets =
            [droplet(1, "a"), droplet(2, "b").replace("nyc3", "fra1"), droplet(3, "foreign").replace("nyc3", "ams3")];
        let _cloud = FakeCloud::new().always(LIST, list(&droplets));
        assert_eq!(problems(&unset(), &["a".to_owned()]), Ok(vec![]));
        let told = problems(&unset(), &["a".to_owned(), "b".to_owned()]).expect("it is asked");
        assert!(told[0].message.contains("regions fra1 and nyc3"), "{told:?}");
    }
}
