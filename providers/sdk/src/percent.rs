//! Percent-encoding, for paths, form bodies and texts to sign.

use std::fmt::Write;

/// What RFC 3986 leaves alone, besides letters and digits.
pub const UNRESERVED: &str = "-._~";

/// Every byte but letters, digits and those of `kept` as `%XX`; a space is `%20`.
pub fn encode(text: &str, kept: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The text of one name or value of a query; `+` is a space, and what is not UTF-8 or not encoded rightly gives `None`.
pub fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

/// Whether decoding would change the text: some servers and proxies decode twice.
pub(crate) fn looks_encoded(text: &str) -> bool {
    let hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|at| bytes.get(at) == Some(&b'%') && hex(bytes.get(at + 1)) && hex(bytes.get(at + 2)))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for (text, kept, encoded) in [
            ("", UNRESERVED, ""),
            ("aZ09-._~", UNRESERVED, "aZ09-._~"),
            ("a b+c", UNRESERVED, "a%20b%2Bc"),
            ("ä/€", UNRESERVED, "%C3%A4%2F%E2%82%AC"),
            ("50%", UNRESERVED, "50%25"),
            ("~*", ".-*_", "%7E*"),
        ] {
            assert_eq!(encode(text, kept), encoded, "{text}");
            assert_eq!(decode(encoded).as_deref(), Some(text), "{encoded}");
        }
        assert_eq!(decode("a+b").as_deref(), Some("a b"));
    }

    #[test]
    fn what_is_no_encoding_is_not_guessed() {
        for text in ["%", "%4", "%zz", "a%", "%ff"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_percent_sign_alone_does_not_look_encoded() {
        for (text, looks) in
            [("", false), ("50%", false), ("50% off", false), ("%2f", true), ("a%2E", true), ("%4", false)]
        {
            assert_eq!(looks_encoded(text), looks, "{text}");
        }
    }
}
