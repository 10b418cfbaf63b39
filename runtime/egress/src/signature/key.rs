//! A private key that was read, and what it can do.

use aws_lc_rs::digest::{self, SHA256, SHA512};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512};
use md5::Md5;

use super::error::KeyError;
use super::pair::{Curve, Pair};
use super::parse::{self, take};
use super::{Algorithm, Digest, SignError};
use crate::secret::Secret;

/// A private key. No `Debug`; the library wipes the numbers when it is dropped.
pub(crate) struct PrivateKey(pub(super) Pair);

impl PrivateKey {
    /// Reads a PEM private key without passphrase: PKCS#8, PKCS#1, SEC 1 or OpenSSH. Text around it, such as certificates,
    /// does not matter.
    ///
    /// # Errors
    /// Says what was found instead, and the way out. Holds nothing of the secret.
    pub(crate) fn parse(secret: &Secret) -> Result<Self, KeyError> {
        parse::pem(secret.expose()).map(Self)
    }

    /// The algorithm that fits the key.
    #[must_use]
    pub(crate) fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Pair::Rsa(_) => Algorithm::RsaSha256,
            Pair::Ec(Curve::P256 | Curve::P384, _) => Algorithm::EcdsaSha256,
            Pair::Ec(Curve::P521, _) => Algorithm::EcdsaSha512,
            Pair::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// Digest of the public half in the wire form of SSH.
    #[must_use]
    pub(crate) fn fingerprint(&self, digest: Digest) -> Vec<u8> {
        let blob = self.wire();
        match digest {
            Digest::Md5 => <Md5 as md5::Digest>::digest(blob).to_vec(),
            Digest::Sha256 => digest::digest(&SHA256, &blob).as_ref().to_vec(),
        }
    }

    /// RSA: PKCS#1 v1.5. ECDSA: DER. Ed25519: 64 bytes.
    ///
    /// # Errors
    /// When the algorithm is not one of this kind of key.
    pub(crate) fn sign(&self, algorithm: Algorithm, data: &[u8]) -> Result<Vec<u8>, SignError> {
        let failed = |_| SignError::Failed(algorithm);
        match (&self.0, algorithm) {
            (Pair::Rsa(pair), Algorithm::RsaSha256 | Algorithm::RsaSha512) => {
                let padding = if algorithm == Algorithm::RsaSha256 { &RSA_PKCS1_SHA256 } else { &RSA_PKCS1_SHA512 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), data, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            (Pair::Ec(curve, pair), Algorithm::EcdsaSha256 | Algorithm::EcdsaSha512) => {
                let hash = if algorithm == Algorithm::EcdsaSha256 { &SHA256 } else { &SHA512 };
                let digest = fit(digest::digest(hash, data).as_ref(), curve.hash().output_len());
                let digest = digest::Digest::import_less_safe(&digest, curve.hash()).map_err(failed)?;
                Ok(pair.sign_digest(&digest).map_err(failed)?.as_ref().to_vec())
            }
            (Pair::Ed25519(pair), Algorithm::Ed25519) => Ok(pair.try_sign(data).map_err(failed)?.as_ref().to_vec()),
            _ => Err(SignError::Family { key: self.kind(), algorithm }),
        }
    }

    #[cfg(test)]
    pub(super) fn public_point(&self) -> Vec<u8> {
        match &self.0 {
            Pair::Ec(_, pair) => pair.public_key().as_ref().to_vec(),
            _ => Vec::new(),
        }
    }

    fn kind(&self) -> &'static str {
        match &self.0 {
            Pair::Rsa(_) => "RSA",
            Pair::Ec(..) => "EC",
            Pair::Ed25519(_) => "Ed25519",
        }
    }

    /// The public half as SSH sends it (RFC 4253, RFC 5656, RFC 8709).
    fn wire(&self) -> Vec<u8> {
        let ec_name;
        let fields = match &self.0 {
            Pair::Rsa(pair) => {
                // DER and SSH write a number alike, so what stands in the one fits into the other.
                let mut sequence = pair.public_key().as_ref();
                let mut numbers = take(&mut sequence, parse::SEQUENCE).unwrap_or_default();
                let n = take(&mut numbers, parse::INTEGER).unwrap_or_default();
                let e = take(&mut numbers, parse::INTEGER).unwrap_or_default();
                vec![b"ssh-rsa".as_slice(), e, n]
            }
            Pair::Ec(curve, pair) => {
                ec_name = format!("ecdsa-sha2-{}", curve.ssh());
                vec![ec_name.as_bytes(), curve.ssh().as_bytes(), pair.public_key().as_ref()]
            }
            Pair::Ed25519(pair) => vec![b"ssh-ed25519".as_slice(), pair.public_key().as_ref()],
        };
        let mut blob = Vec::new();
        for field in fields {
            blob.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
            blob.extend(field);
        }
        blob
    }
}

/// A digest in the length that the library wants for a curve. ECDSA takes a digest as a number, of which the leftmost bits
/// count, as many as the curve has. So zeros in front of a shorter digest change nothing, and of a longer one only the
/// front is used.
fn fit(digest: &[u8], length: usize) -> Vec<u8> {
    let mut fitted = vec![0; length.saturating_sub(digest.len())];
    fitted.extend(digest.iter().take(length));
    fitted
}
