//! The region that load balancers are made in.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use ccm_sdk::types::{Failure, Problem};
use ccm_sdk::{cache, ordered};

use crate::api::regions;
use crate::balancer::ProviderIds;
use crate::config::Config;
use crate::{find, provider_id};

/// How long the regions of the same droplets are known: one never moves.
const KNOWN: Duration = Duration::from_secs(3_600);

/// When to look again for what a person has to set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The one of the settings, else that of the cluster's droplets.
///
/// # Errors
///
/// The droplets cannot be asked, or are in no region or in several.
pub(crate) fn of_new(config: &Config, droplets: &[u64]) -> Result<String, Failure> {
    if let Some(region) = &config.region {
        return Ok(region.clone());
    }
    // Whoever makes a hundred load balancers asks once.
    let mut hasher = DefaultHasher::new();
    droplets.hash(&mut hasher);
    let key = format!("region/{:x}", hasher.finish());
    if let Some(region) = cache::get_json(&key) {
        return Ok(region);
    }
    let (regions, open) = find::regions_of(droplets)?;
    let regions: Vec<String> = regions.into_iter().collect();
    match (regions.as_slice(), open) {
        ([_, _, ..], _) => Err(Failure::retry(several(&regions)).after(LOOK_AGAIN)),
        (_, Some(failure)) => Err(failure),
        ([], None) => Err(Failure::retry(
            "the region is not known: no droplet of the cluster tells one; set the environment variable REGION",
        )),
        ([region], None) => {
            cache::put_json(&key, region, KNOWN);
            Ok(region.clone())
        }
    }
}

fn several(regions: &[String]) -> String {
    format!(
        "the cluster's droplets are in the regions {}, and a load balancer is in one; set REGION to say which",
        regions.join(" and ")
    )
}

/// Most droplets of the cluster that are asked for their regions.
const MOST: u32 = 1_000;

/// Those of the cluster's droplets, as far as they are known now, and what kept others from being known. Nodes may be called
/// otherwise than their droplets, so that names count only where some Nodes have no provider ID yet.
fn of_cluster(ids: ProviderIds, names: fn() -> Vec<String>) -> Result<(BTreeSet<String>, Option<Failure>), Failure> {
    let ids = ids(MOST).unwrap_or_default();
    let ids: Vec<u64> = ids.iter().filter_map(|id| provider_id::parse(id).ok()).collect();
    let (mut regions, open) = if ids.is_empty() { (BTreeSet::new(), None) } else { find::regions_of(&ids)? };
    let names = names();
    if ids.len() < names.len() {
        regions.extend(find::regions_of_names(&names)?);
    }
    Ok((regions, open))
}

/// That of the cluster's droplets, where it is one and can be asked.
pub(crate) fn of_nodes(ids: ProviderIds, names: fn() -> Vec<String>) -> Option<String> {
    let (regions, open) = of_cluster(ids, names).ok()?;
    let mut regions = regions.into_iter();
    regions.next().filter(|_| regions.next().is_none() && open.is_none())
}

/// What is wrong with the setting, or with leaving it out.
///
/// # Errors
///
/// The cloud cannot be asked.
pub(crate) fn problems(config: &Config, ids: ProviderIds, names: fn() -> Vec<String>) -> Result<Vec<Problem>, Failure> {
    match &config.region {
        Some(region) => {
            let known = ordered::list(regions::slugs()?);
            if known.contains(region) {
                return Ok(vec![]);
            }
            let message =
                format!("REGION: invalid region specified: {region:?}; DigitalOcean has {}", known.join(", "));
            Ok(vec![Problem::fatal("region", message)])
        }
        None => {
            let (regions, open) = of_cluster(ids, names)?;
            let regions: Vec<String> = regions.into_iter().collect();
            if let Some(failure) = open.filter(|_| regions.is_empty()) {
                return Err(failure);
            }
            let told = (regions.len() > 1).then(|| Problem::harmless("region", several(&regions)));
            Ok(told.into_iter().collect())
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

    fn none(_: u32) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

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
    fn without_one_it_is_that_of_the_clusters_droplets_and_asked_once() {
        let in_fra1 = |id| droplet(id, "any").replace("nyc3", "fra1");
        let one = |id| Reply::json(200, format!(r#"{{"droplet": {}}}"#, in_fra1(id)));
        let cloud = FakeCloud::new().on(ONE, one(7)).on("api GET /v2/droplets/9", one(9));
        for _ in 0..2 {
            assert_eq!(of_new(&unset(), &[7, 9]), Ok("fra1".to_owned()));
        }
        assert_eq!(cloud.lines().len(), 2);
        // Many are one listing, whose other droplets do not count.
        let mut listed: Vec<String> = (1..=6).map(in_fra1).collect();
        listed.push(droplet(8, "foreign"));
        let cloud = FakeCloud::new().on(LIST, list(&listed));
        for _ in 0..2 {
            assert_eq!(of_new(&unset(), &[1, 2, 3, 4, 5, 6]), Ok("fra1".to_owned()));
        }
        assert_eq!(cloud.lines().len(), 1);
    }

    #[test]
    fn of_two_regions_neither_is_taken_and_without_an_answer_none() {
        let one = |body: String| Reply::json(200, format!(r#"{{"droplet": {body}}}"#));
        let nine = "api GET /v2/droplets/9";
        let here = || one(droplet(7, "a"));
        for (reply, words) in [
            (one(droplet(9, "b").replace("nyc3", "fra1")), "in the regions fra1 and nyc3"),
            (Reply::status(500), "droplet 9 of node 9: GET /v2/droplets/{id}: 500"),
        ] {
            let _cloud = FakeCloud::new().always(ONE, here()).always(nine, reply);
            let told = of_new(&unset(), &[7, 9]).expect_err("it is not clear");
            assert!(told.message.contains(words), "{}", told.message);
        }
        let _cloud = FakeCloud::new().on(ONE, one(droplet(7, "a").replace(r#"{"slug": "nyc3"}"#, "null")));
        for ids in [&[7][..], &[]] {
            assert!(of_new(&unset(), ids).is_err_and(|failure| failure.message.contains("REGION")), "{ids:?}");
        }
    }

    #[test]
    fn a_region_that_does_not_exist_is_refused_with_those_that_do() {
        let body = r#"{"regions": [{"slug": "nyc3"}, {"slug": "fra1"}], "meta": {"total": 2}}"#;
        let _cloud = FakeCloud::new().always("api GET /v2/regions", Reply::json(200, body));
        assert_eq!(problems(&config(), none, Vec::new), Ok(vec![]));
        let config = Config { region: Some("mars1".to_owned()), ..config() };
        let told = problems(&config, none, Vec::new).expect("it is asked");
        assert!(told[0].fatal && told[0].message.contains("\"mars1\"; DigitalOcean has fra1, nyc3"), "{told:?}");
    }

    /// It would be said that no region exists.
    #[test]
    fn no_regions_at_all_are_no_answer() {
        let _cloud = FakeCloud::new()
            .always("api GET /v2/regions", Reply::json(200, r#"{"regions": [], "meta": {"total": 0}}"#));
        assert!(problems(&config(), none, Vec::new).is_err());
    }

    #[test]
    fn two_regions_of_the_clusters_droplets_are_named_and_those_of_others_do_not_count() {
        let droplets =
            [droplet(1, "a"), droplet(2, "b").replace("nyc3", "fra1"), droplet(3, "foreign").replace("nyc3", "ams3")];
        let _cloud = FakeCloud::new().always(LIST, list(&droplets));
        assert_eq!(problems(&unset(), none, || vec!["a".to_owned()]), Ok(vec![]));
        assert_eq!(of_nodes(none, || vec!["a".to_owned()]), Some("nyc3".to_owned()));
        let told = problems(&unset(), none, || vec!["a".to_owned(), "b".to_owned()]).expect("it is asked");
        assert!(told[0].message.contains("regions fra1 and nyc3"), "{told:?}");
        assert_eq!(of_nodes(none, || vec!["a".to_owned(), "b".to_owned()]), None);
    }

    /// Then the webhook let everything through unjudged, and two regions were told to nobody.
    #[test]
    fn nodes_that_are_called_otherwise_than_their_droplets_have_regions_by_their_provider_ids() {
        let one = |body: String| Reply::json(200, format!(r#"{{"droplet": {body}}}"#));
        let nodes = || vec!["node-1.example".to_owned(), "new".to_owned()];
        // One has none yet.
        let ids = |_| Ok(vec!["digitalocean://7".to_owned(), "other://9".to_owned()]);
        let listed = |region: &str| list(&[droplet(7, "a"), droplet(8, "new").replace("nyc3", region)]);
        let _cloud = FakeCloud::new().always(ONE, one(droplet(7, "a"))).always(LIST, listed("nyc3"));
        assert_eq!((of_nodes(ids, nodes), problems(&unset(), ids, nodes)), (Some("nyc3".to_owned()), Ok(vec![])));
        let _cloud = FakeCloud::new().always(ONE, one(droplet(7, "a"))).always(LIST, listed("fra1"));
        assert_eq!(of_nodes(ids, nodes), None);
        assert!(problems(&unset(), ids, nodes).is_ok_and(|told| told[0].message.contains("fra1 and nyc3")));
        let ids = |_| Ok(vec!["digitalocean://7".to_owned(), "digitalocean://9".to_owned()]);
        let nine = "api GET /v2/droplets/9";
        let there = one(droplet(9, "b").replace("nyc3", "fra1"));
        let _cloud = FakeCloud::new().always(ONE, one(droplet(7, "a"))).always(nine, there);
        let told = problems(&unset(), ids, nodes).expect("it is asked");
        assert!(told[0].message.contains("regions fra1 and nyc3"), "{told:?}");
        assert_eq!(of_nodes(ids, nodes), None);
        // One that is not known may be in another region.
        let _cloud = FakeCloud::new().always(ONE, one(droplet(7, "a"))).always(nine, Reply::status(500));
        assert_eq!((of_nodes(ids, nodes), problems(&unset(), ids, nodes)), (None, Ok(vec![])));
        let _cloud = FakeCloud::new().always(ONE, Reply::status(500)).always(nine, Reply::status(500));
        assert!(problems(&unset(), ids, nodes).is_err());
    }
}
