//! How a credential or a signature is written into a request.

/// As in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The bytes as they are.
    Plain,
    /// The inside of a JSON string, without the quotes.
    JsonString,
    /// Percent-encoded, space as `%20`.
    Url,
    /// As [`Url`](Self::Url), then in lower case.
    UrlLowerCase,
    /// Lower-case hex.
    Hex,
    /// Base64, standard alphabet, padded.
    Base64,
    /// Base64, then percent-encoded.
    Base64PercentEncoded,
}
