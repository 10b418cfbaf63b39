//! Key pairs, curves, and the numbers that keys are made of.

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair,
};

use super::error::KeyError;

pub(super) enum Pair {
    Rsa(RsaKeyPair),
    Ec(Curve, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// Every key of a curve is made for one hash; `fit` makes it sign any other.
    pub(super) fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
            Self::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
            Self::P521 => &ECDSA_P521_SHA512_ASN1_SIGNING,
        }
    }

    pub(super) fn hash(self) -> &'static digest::Algorithm {
        match self {
            Self::P256 => &SHA256,
            Self::P384 => &SHA384,
            Self::P521 => &SHA512,
        }
    }

    /// Length of a private key.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Name in SSH.
    pub(super) fn ssh(self) -> &'static str {
        match self {
            Self::P256 => "nistp256",
            Self::P384 => "nistp384",
            Self::P521 => "nistp521",
        }
    }
}

/// Whether an RSA modulus has a length that can be used.
pub(super) fn check_size(modulus: &[u8]) -> Result<(), KeyError> {
    let unused = modulus.first().map_or(0, |byte| usize::try_from(byte.leading_zeros()).unwrap_or(0));
    match modulus.len().saturating_mul(8).saturating_sub(unused) {
        bits @ ..2048 => Err(KeyError::RsaTooSmall(bits)),
        bits @ 8193.. => Err(KeyError::RsaTooLarge(bits)),
        _ => Ok(()),
    }
}

/// A big-endian number without zeros in front.
pub(super) fn trimmed(number: &[u8]) -> &[u8] {
    number.iter().position(|digit| *digit != 0).and_then(|start| number.get(start..)).unwrap_or_default()
}
