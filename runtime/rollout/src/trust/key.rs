//! Public keys: Ed25519, and ECDSA over P-256 with SHA-256, which is what `cosign generate-key-pair` makes.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// What an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410) begins with; the 32 bytes of the key follow.
pub(super) const ED25519_KEY: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// What a P-256 key in a SubjectPublicKeyInfo (RFC 5480) begins with; the point follows, 65 bytes that are not compressed.
const P256_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Who may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Its 32 bytes.
    Ed25519(Vec<u8>),
    /// Its point.
    P256(Vec<u8>),
}

impl Key {
    /// Of a file; none when it holds no key of these kinds.
    pub(super) fn parse(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        if let Some(key) = der.strip_prefix(&ED25519_KEY) {
            return (key.len() == 32).then(|| Self::Ed25519(key.to_vec()));
        }
        let point = der.strip_prefix(&P256_KEY)?;
        (point.len() == 65 && point.first() == Some(&4)).then(|| Self::P256(point.to_vec()))
    }

    /// Whether it signed this.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature),
        };
        verified.is_ok()
    }
}
