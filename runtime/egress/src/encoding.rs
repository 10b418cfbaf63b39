//! How a credential or a signature is written into a request.

use base64::prelude::{BASE64_STANDARD, Engine};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use zeroize::Zeroizing;

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All but what CloudStack leaves as it is.
const CLOUDSTACK: &AsciiSet = &RESERVED.remove(b'*').add(b'~');

/// As in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The bytes as they are.
    Plain,
    /// The inside of a JSON string, without the quotes.
    JsonString,
    /// Percent-encoded, space as `%20`.
    Url,
    /// Percent-encoded as CloudStack does it, then in lower case: `*` is left as it is, `~` is `%7e`.
    UrlLowerCase,
    /// Lower-case hex.
    Hex,
    /// Base64, standard alphabet, padded.
    Base64,
    /// Base64, then percent-encoded.
    Base64PercentEncoded,
}

/// The bytes are no text, so they cannot stand in a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not UTF-8, so it cannot stand in a JSON string; another encoding can carry it")]
pub struct NotText;

impl Encoding {
    /// The bytes as they are written. Wiped when dropped, since they may be a secret.
    ///
    /// # Errors
    /// When bytes that are no text are asked for as a JSON string.
    pub fn encode(self, bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotText> {
        Ok(match self {
            Self::Plain => Zeroizing::new(bytes.to_vec()),
            Self::JsonString => json_string(bytes)?,
            Self::Url => url(bytes, RESERVED),
            Self::UrlLowerCase => {
                let mut text = url(bytes, CLOUDSTACK);
                text.make_ascii_lowercase();
                text
            }
            Self::Hex => hex(bytes),
            Self::Base64 => base64(bytes),
            Self::Base64PercentEncoded => url(&base64(bytes), RESERVED),
        })
    }
}

/// Room for `factor` times the bytes: a buffer that grows would leave a copy behind, which nobody wipes.
fn room(bytes: &[u8], factor: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity(bytes.len().saturating_add(1).saturating_mul(factor)))
}

fn json_string(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotText> {
    #[expect(clippy::map_err_ignore, reason = "the position of the first bad byte helps nobody")]
    let text = std::str::from_utf8(bytes).map_err(|_| NotText)?;
    let mut quoted = room(bytes, 6);
    #[expect(clippy::map_err_ignore, reason = "text into memory: it cannot fail")]
    serde_json::to_writer(&mut *quoted, text).map_err(|_| NotText)?;
    // In place: the buffer stays the only copy.
    quoted.pop();
    quoted.drain(..1);
    Ok(quoted)
}

fn url(bytes: &[u8], encoded: &'static AsciiSet) -> Zeroizing<Vec<u8>> {
    let mut text = room(bytes, 3);
    for piece in percent_encode(bytes, encoded) {
        text.extend_from_slice(piece.as_bytes());
    }
    text
}

fn hex(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = room(bytes, 2);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    text.extend(digits.filter_map(|digit| DIGITS.get(usize::from(digit))));
    text
}

fn base64(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(vec![0; bytes.len().div_ceil(3).saturating_mul(4)]);
    let length = BASE64_STANDARD.encode_slice(bytes, &mut text).unwrap_or_default();
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_writes_what_the_contract_says() {
        use Encoding::*;
        let special = "A/+=\"<>&ü~* \\\n".as_bytes();
        let cases: [(Encoding, &[u8], &str); 22] = [
            (Plain, special, "A/+=\"<>&ü~* \\\n"),
            (JsonString, special, r#"A/+=\"<>&ü~* \\\n"#),
            (JsonString, b"", ""),
            (JsonString, b"\"", "\\\""),
            (JsonString, b"\x01", "\\u0001"),
            (Url, special, "A%2F%2B%3D%22%3C%3E%26%C3%BC~%2A%20%5C%0A"),
            (Url, b"aZ09-._~", "aZ09-._~"),
            (Url, b"!'()", "%21%27%28%29"),
            (UrlLowerCase, special, "a%2f%2b%3d%22%3c%3e%26%c3%bc%7e*%20%5c%0a"),
            (UrlLowerCase, b"aZ09-._*~", "az09-._*%7e"),
            (UrlLowerCase, b"+,/: !'()", "%2b%2c%2f%3a%20%21%27%28%29"),
            (UrlLowerCase, b"AKIDEXAMPLE-0123456789_abcDEF", "akidexample-0123456789_abcdef"),
            (UrlLowerCase, "Ü".as_bytes(), "%c3%9c"),
            (Hex, b"\x00\x9f\xff", "009fff"),
            (Hex, b"", ""),
            (Base64, b"", ""),
            (Base64, b"f", "Zg=="),
            (Base64, b"fo", "Zm8="),
            (Base64, b"foo", "Zm9v"),
            (Base64, b"\xfb\xff\xfe", "+//+"),
            (Base64PercentEncoded, b"\xfb\xff\xfe?", "%2B%2F%2F%2BPw%3D%3D"),
            (Base64PercentEncoded, b"foo", "Zm9v"),
        ];
        for (encoding, bytes, text) in cases {
            let written = encoding.encode(bytes).unwrap();
            assert_eq!(str::from_utf8(&written).unwrap(), text, "{encoding:?} of {bytes:?}");
        }
    }

    #[test]
    fn only_a_json_string_needs_text() {
        for (encoding, ok) in [(Encoding::JsonString, false), (Encoding::Plain, true), (Encoding::Url, true)] {
            assert_eq!(encoding.encode(b"\xff\xfe").is_ok(), ok, "{encoding:?}");
        }
    }

    #[test]
    fn no_buffer_grows_while_it_is_filled() {
        // What needs the most room in each, so that a smaller buffer would have had to grow.
        for (encoding, worst, length, room) in [
            (Encoding::Plain, 1, 1000, 1000),
            (Encoding::JsonString, 1, 6000, 6006),
            (Encoding::Url, 1, 3000, 3003),
            (Encoding::UrlLowerCase, 1, 3000, 3003),
            (Encoding::Hex, 1, 2000, 2002),
            (Encoding::Base64, 0xff, 1336, 1336),
            (Encoding::Base64PercentEncoded, 0xff, 1333 * 3 + 1 + 2 * 3, 1337 * 3),
        ] {
            let text = encoding.encode(&[worst; 1000]).unwrap();
            assert_eq!((text.len(), text.capacity()), (length, room), "{encoding:?}");
        }
    }
}
