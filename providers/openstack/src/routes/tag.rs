//! Tags of the router: one for each route that this cluster has made.

use ccm_sdk::cidr::Cidr;

const PREFIX: &str = "wasm-ccm-route:";

/// The longest that Neutron takes.
const MOST: usize = 60;
/// Of the cluster's name.
const MOST_NAME: usize = 20;

/// The tag of a route; none where it would be too long. Tags stand in paths, so they have no slash.
pub(super) fn of(cluster: &str, network: &Cidr) -> Option<String> {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.') { letter } else { '_' };
    let name: String = cluster.chars().map(letter).take(MOST_NAME).collect();
    let network = network.to_string().replace('/', "_");
    Some(format!("{PREFIX}{name}:{network}")).filter(|tag| tag.len() <= MOST)
}

/// Whether a route was made here.
pub(super) fn is_ours(tags: &[String], cluster: &str, network: &Cidr) -> bool {
    of(cluster, network).is_some_and(|tag| tags.contains(&tag))
}
