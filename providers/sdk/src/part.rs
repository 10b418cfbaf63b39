//! Pieces of header values, query values and bodies.

use crate::credentials::{Algorithm, Encoding, Part, Secret, Signature, SignedPart};

impl Part {
    /// Bytes that the provider knows.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A credential, which the host fills in.
    pub fn secret(credential: &str, encoding: Encoding) -> Self {
        Self::Secret(Secret { credential: credential.to_owned(), encoding })
    }

    /// A signature over `data`, which the host makes.
    pub fn signature(key: &str, algorithm: Algorithm, encoding: Encoding, data: Vec<SignedPart>) -> Self {
        Self::Signature(Signature { key: key.to_owned(), algorithm, data, encoding })
    }
}

impl SignedPart {
    /// Bytes that the provider knows.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A credential that is signed with the rest: CloudStack's API key.
    pub fn secret(credential: &str, encoding: Encoding) -> Self {
        Self::Secret(Secret { credential: credential.to_owned(), encoding })
    }
}
