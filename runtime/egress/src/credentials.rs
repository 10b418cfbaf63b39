//! The import `credentials`: what a provider can do with secrets without ever holding one.

use crate::encoding::Encoding;
use crate::signature::Algorithm;

/// A piece of a header value, a query value or a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// As it is.
    Bytes(Vec<u8>),
    /// The value of a credential.
    Secret {
        /// Its name.
        credential: String,
        /// How it is written.
        encoding: Encoding,
    },
    /// A signature.
    Signature {
        /// Name of the credential that signs.
        key: String,
        /// How.
        algorithm: Algorithm,
        /// What is signed.
        data: Vec<SignedPart>,
        /// How the signature is written.
        encoding: Encoding,
    },
}

/// A piece of what is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SignedPart {
    /// As it is.
    Bytes(Vec<u8>),
    /// The value of a credential.
    Secret {
        /// Its name.
        credential: String,
        /// How it is written.
        encoding: Encoding,
    },
    /// Path and query as they are sent.
    Target,
}
