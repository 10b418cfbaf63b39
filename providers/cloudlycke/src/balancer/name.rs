//! The name of a load balancer.

use ccm_sdk::types::Service;
use sha2::{Digest as _, Sha256};

/// Longest name: it is a label of a host name.
const MAX_LENGTH: usize = 63;
/// Hex digits behind a name that is cut.
const DIGITS: usize = 8;

/// Namespace and name, cut where it would be too long. What tells two cut names apart is of namespace and name with a slash
/// between them: the halves cannot be confused.
pub(crate) fn name(service: &Service) -> String {
    let full = format!("{}-{}", service.namespace, service.name);
    if full.len() <= MAX_LENGTH {
        return full;
    }
    let digest = digest(&service.full_name());
    let number = digest.iter().take(DIGITS / 2).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    // Names of Kubernetes objects are ASCII.
    let start = full.get(..MAX_LENGTH - DIGITS - 1).unwrap_or(&full);
    format!("{start}-{number:0DIGITS$x}")
}

/// Where the search for a free address begins.
pub(crate) fn place(uid: &str, size: u128) -> u128 {
    let number = digest(uid).iter().take(16).fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
    number.checked_rem(size).unwrap_or(0)
}

/// Once, not once for each type of text.
#[inline(never)]
fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}
