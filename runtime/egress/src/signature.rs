//! Signatures, and the keys that make them.

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

/// Digest of the public half of a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Digest {
    Md5,
    Sha256,
}
