//! A component that passed the gate: its code, name, version and digest.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::trust::Signed;

/// Hexadecimal digits of a short digest.
const SHORT: usize = 12;
const ALGORITHM: &str = "sha256:";

/// Who a component is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// What it calls itself.
    pub name: String,
    /// The version that it gives itself.
    pub version: String,
    /// `sha256:…` of the unpacked component.
    pub digest: String,
    /// What a key has said of it beside its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name, self.version, short(&self.digest))
    }
}

/// A digest as people compare it: `sha256:` and 12 digits.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..ALGORITHM.len() + SHORT).unwrap_or(digest)
}

/// A digest as records on objects name it: 12 digits.
pub(crate) fn digits(digest: &str) -> &str {
    short(digest).trim_start_matches(ALGORITHM)
}

/// A component that was taken. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Release<C> {
    /// What answers.
    pub(crate) component: Arc<C>,
    /// Who it is.
    pub(crate) version: Arc<Version>,
}

impl<C> Clone for Release<C> {
    fn clone(&self) -> Self {
        Self { component: Arc::clone(&self.component), version: Arc::clone(&self.version) }
    }
}

impl<C> Release<C> {
    /// Whether it is the component with this digest.
    pub(crate) fn is(&self, digest: &str) -> bool {
        self.version.digest == digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shortened_only_where_it_is_long() {
        let long = format!("sha256:0123456789ab{}", "c".repeat(52));
        assert_eq!((short(&long), digits(&long)), ("sha256:0123456789ab", "0123456789ab"), "its first twelve digits");
        for whole in ["sha256:0123456789ab", "sha256:0123456789a", "sha256:", ""] {
            assert_eq!(short(whole), whole);
        }
    }
}
