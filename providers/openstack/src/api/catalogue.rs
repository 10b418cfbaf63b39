//! What a login answers: where the services are.

use ccm_sdk::Answer;
use ccm_sdk::types::Failure;

use super::Service;

ccm_sdk::records! {
    /// A service of the cloud, which may be at several places.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Entry {
        pub(crate) kind: String = "type",
        pub(crate) endpoints: Vec<Place>,
    }

    /// Where a service takes requests.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Place {
        pub(crate) interface: String,
        pub(crate) region: String,
        pub(crate) region_id: String,
        pub(crate) url: String,
    }
}

/// The catalogue of an answer to a login.
///
/// # Errors
///
/// There is none: the token is for no project.
pub(crate) fn read(answer: &Answer) -> Result<Vec<Entry>, Failure> {
    answer.clone().json_at("/token/catalog").map_err(|failure: Failure| {
        failure.context(
            "the login gave no catalogue of services; has the user a project, and does the configuration name it?",
        )
    })
}

/// The URL of a service, as the catalogue has it: of all services of that type, the first place with the interface and the region. An empty
/// region is any.
pub(crate) fn url<'c>(catalogue: &'c [Entry], service: Service, interface: &str, region: &str) -> Option<&'c str> {
    let entries = catalogue.iter().filter(|entry| entry.kind == service.kind);
    let is_there = |place: &&Place| {
        place.interface == interface && (region.is_empty() || place.region == region || place.region_id == region)
    };
    let mut places = entries.flat_map(|entry| &entry.endpoints).filter(|place| !place.url.is_empty());
    places.find(is_there).map(|place| place.url.as_str())
}

/// The URL with the version that the service's requests need: catalogues have it with and without, also with a project after it.
pub(crate) fn versioned(url: &str, service: Service) -> String {
    let url = url.trim_end_matches('/');
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    if service.version == "/v2.1" && has_version(path) {
        return url.to_owned();
    }
    // `/v2` is how load balancers were once told.
    let bare = match path.rsplit_once('/').map_or(path, |(_, last)| last) {
        last if is_version(last) => url.strip_suffix(last).unwrap_or(url).trim_end_matches('/'),
        _ => url,
    };
    format!("{bare}{}", service.version)
}

/// Whether a path has a version in it: `/v2.1`, `/compute/v2.1/PROJECT`.
pub(crate) fn has_version(path: &str) -> bool {
    path.split('/').any(is_version)
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|number| {
        number.starts_with(|first: char| first.is_ascii_digit())
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}
