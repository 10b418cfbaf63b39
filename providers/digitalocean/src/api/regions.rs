//! Places of the cloud.

use ccm_sdk::types::Failure;

use crate::api::{CLOUD, PER_PAGE, paging};

ccm_sdk::records! {
    pub(in crate::api) struct Region {
        slug: String [id],
    }
}

/// Slugs of all regions.
pub(crate) fn slugs() -> Result<Vec<String>, Failure> {
    let regions = CLOUD.get("/v2/regions").list::<Region>(paging("/regions", PER_PAGE))?;
    if regions.is_empty() {
        return Err(Failure::retry("the list of regions is empty"));
    }
    Ok(regions.into_iter().map(|region| region.slug).collect())
}
