//! Signatures, and the keys that make them.
//!
//! [`sign`] takes a secret as it was configured. Reading a private key costs milliseconds for RSA, so who signs often keeps
//! a [`PrivateKey`].

use std::fmt;

use aws_lc_rs::hmac;

use crate::secret::Secret;

mod error;
mod key;
mod openssh;
mod pair;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use error::KeyError;
pub(crate) use key::PrivateKey;

/// As in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Algorithm {
    HmacSha1,
    HmacSha256,
    HmacSha512,
    RsaSha256,
    RsaSha512,
    EcdsaSha256,
    EcdsaSha512,
    Ed25519,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha512 => "hmac-sha512",
            Self::RsaSha256 => "rsa-sha256",
            Self::RsaSha512 => "rsa-sha512",
            Self::EcdsaSha256 => "ecdsa-sha256",
            Self::EcdsaSha512 => "ecdsa-sha512",
            Self::Ed25519 => "ed25519",
        })
    }
}

/// Digest of the public half of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Digest {
    Md5,
    Sha256,
}

/// Why there is no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignError {
    /// The secret is no usable private key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The algorithm is not one of this kind of key.
    #[error("a key of the kind {key} cannot sign with {algorithm}")]
    Family {
        /// Kind of key.
        key: &'static str,
        /// What was asked for.
        algorithm: Algorithm,
    },
    /// The library refused.
    #[error("signing with {0} failed")]
    Failed(Algorithm),
}

/// Signs `data`: HMAC takes the secret's bytes as its key, every other algorithm reads a private key from them.
///
/// # Errors
/// When the secret is no private key, or one of another kind.
pub(crate) fn sign(secret: &Secret, algorithm: Algorithm, data: &[u8]) -> Result<Vec<u8>, SignError> {
    let hmac = match algorithm {
        Algorithm::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Algorithm::HmacSha256 => hmac::HMAC_SHA256,
        Algorithm::HmacSha512 => hmac::HMAC_SHA512,
        _ => return PrivateKey::parse(secret)?.sign(algorithm, data),
    };
    let key = hmac::Key::new(hmac, secret.expose());
    Ok(hmac::sign(&key, data).as_ref().to_vec())
}
