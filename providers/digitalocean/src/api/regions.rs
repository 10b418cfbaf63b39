//! Places of the cloud.

use ccm_sdk::types::Failure;
use serde::Deserialize;

use crate::api::{CLOUD, list, paging};

#[derive(Deserialize)]
pub(in crate::api) struct Region {
    slug: String,
}

list!(Many, regions, Region, |region| region.slug.clone());

/// Slugs of all regions.
pub(crate) fn slugs() -> Result<Vec<String>, Failure> {
    let regions = CLOUD.get("/v2/regions").list::<Many>(paging())?;
    if regions.is_empty() {
        return Err(Failure::retry("the list of regions is empty"));
    }
    Ok(regions.into_iter().map(|region| region.slug).collect())
}
