//! Why a secret is no private key.

/// Why a secret is no usable private key, and the way out. Holds nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    /// Nothing there.
    #[error("there is no private key: the value is empty")]
    Empty,
    /// No PEM.
    #[error(
        "not a private key in PEM form, which begins with -----BEGIN; DER becomes PEM with: openssl pkey -inform DER"
    )]
    NotPem,
    /// Base64 of a PEM file.
    #[error("the private key is Base64-encoded once too often; in a Secret, stringData takes it as it is")]
    EncodedTwice,
    /// `\n` as two characters.
    #[error("the private key holds \\n as two characters where it should have line breaks")]
    EscapedLines,
    /// A passphrase.
    #[error(
        "the private key has a passphrase; store it without one: openssl pkey -in FILE, or ssh-keygen -p -N '' -f FILE"
    )]
    Encrypted,
    /// The public half, or what is made of it.
    #[error("found {0} instead of a private key")]
    NotPrivate(&'static str),
    /// A form of another program.
    #[error("a PuTTY key; convert it with: puttygen FILE -O private-openssh-new -o NEW")]
    Putty,
    /// A kind of key that cannot sign here.
    #[error("{0} is not supported; use RSA of 2048 bits or more, EC on P-256, P-384 or P-521, or Ed25519")]
    Unsupported(&'static str),
    /// RSA that is not safe any more.
    #[error("an RSA key of {0} bits is too short; it takes 2048 or more")]
    RsaTooSmall(usize),
    /// RSA that takes too long.
    #[error("an RSA key of {0} bits is too long; it may have 8192")]
    RsaTooLarge(usize),
    /// Begins like a key, but is none.
    #[error("the private key is damaged: {0}; copy the whole file again")]
    Damaged(&'static str),
}
