//! Digests of what a load balancer should be like, and of what stands on a Service.

use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// So many bits at the front are zero in the digest of backends that were chosen by labels.
const MARK: u32 = 16;

/// The first half of a SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest(u128);

impl Digest {
    pub(crate) fn of(value: &impl Serialize) -> Self {
        // Nothing that is digested has maps with odd keys, the only thing that cannot be written.
        let bytes = serde_json::to_vec(value).unwrap_or_default();
        let hash = Sha256::digest(bytes);
        Self(hash.iter().take(16).fold(0, |digest, byte| (digest << 8) | u128::from(*byte)))
    }

    /// As it is displayed: 32 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).map(Self).ok()
    }
}

impl Digest {
    /// The same, marked as that of backends that were chosen by labels.
    pub(crate) const fn marked(self) -> Self {
        Self(self.0 >> MARK)
    }

    /// Whether backends were chosen by labels.
    pub(crate) const fn is_chosen(self) -> bool {
        self.0.leading_zeros() >= MARK
    }

    /// Its first 32 bits.
    pub(crate) fn short(self) -> u32 {
        u32::try_from(self.0 >> 96).unwrap_or_default()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
