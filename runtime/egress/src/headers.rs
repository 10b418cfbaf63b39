//! Which headers a provider may send, and which of the answer it sees.

use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::error::TransportError;
use crate::one_line::line;

/// Most headers of a request, and of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLimits {
    /// How many. Default 64.
    pub count: usize,
    /// Bytes of names and values. Default 16 KiB.
    pub bytes: usize,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        Self { count: 64, bytes: 16 << 10 }
    }
}

impl HeaderLimits {
    /// Checks names and values before any of them is copied.
    ///
    /// # Errors
    ///
    /// Too large. The caller knows whether something was sent: here it is taken as not sent.
    pub fn check<'a>(&self, headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), TransportError> {
        let (mut count, mut bytes) = (0_usize, 0_usize);
        for (name, value) in headers {
            count = count.saturating_add(1);
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
        }
        let message = if count > self.count {
            format!("{count} headers, the limit is {}", self.count)
        } else if bytes > self.bytes {
            format!("{bytes} bytes of headers, the limit is {}", self.bytes)
        } else {
            return Ok(());
        };
        Err(TransportError::too_large(message))
    }
}

/// What a provider may not write: these say where a request goes, where it ends, who asks, what it really is, or which part
/// of the answer comes: half of a credential is not found in it.
const REFUSED: [&str; 27] = [
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-encoding",
    "expect",
    "http2-settings",
    "accept-encoding",
    "accept-charset",
    "user-agent",
    "cookie",
    "cookie2",
    "via",
    "forwarded",
    "x-real-ip",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "range",
    "if-range",
    "request-range",
];

/// Beginnings of such names.
const REFUSED_PREFIXES: [&str; 3] = ["proxy-", "sec-", "x-forwarded-"];

/// A header that a provider wants to send. `declared_for_credentials`: whether a use of a credential names this header of this
/// endpoint; only then it may be `authorization`.
///
/// # Errors
///
/// Denied, with the name, never with the value.
pub(crate) fn check_request_header(
    name: &str,
    value: &[u8],
    declared_for_credentials: bool,
) -> Result<(HeaderName, HeaderValue), TransportError> {
    let shown = || line(name, 64);
    let Ok(checked) = HeaderName::from_bytes(name.as_bytes()) else {
        return Err(TransportError::denied(format!("`{}` is not a header name", shown())));
    };
    // Many a server takes `content_length` for `content-length`.
    let lower = checked.as_str().replace('_', "-");
    if REFUSED.contains(&lower.as_str()) || REFUSED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
        return Err(TransportError::denied(format!(
            "the header `{}` is written by the runtime, not by a provider",
            shown()
        )));
    }
    if lower == "authorization" && !declared_for_credentials {
        let message =
            format!("the header `{}` needs a credential whose declared uses name it for this endpoint", shown());
        return Err(TransportError::denied(message));
    }
    match HeaderValue::from_bytes(value) {
        Ok(value) => Ok((checked, value)),
        Err(_) => Err(TransportError::denied(format!("the value of the header `{}` has control characters", shown()))),
    }
}

/// Why a secret in this body would not be found, as the end of a sentence about the answer: it is written in a way that the host does not
/// read. The HTTP client has unpacked what it can unpack, and taken the header away.
#[must_use]
pub(crate) fn unreadable(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    // Of packed files, and of text in units of 16 or 32 bits.
    const BEGINNINGS: [(&[u8], &str); 8] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "zip"),
        (b"\xfe\xff", "UTF-16"),
        (b"\xff\xfe", "UTF-16 or UTF-32"),
        (b"\x00\x00\xfe\xff", "UTF-32"),
    ];
    if body.is_empty() {
        return None;
    }
    let values = |name: HeaderName| {
        let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        values.collect::<Vec<_>>()
    };
    let encodings = values(CONTENT_ENCODING);
    let encodings = encodings.iter().flat_map(|value| value.split(',')).map(str::trim);
    let unknown = encodings.filter(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"));
    if let Some(encoding) = unknown.map(|encoding| line(encoding, 32)).next() {
        return Some(format!(
            "has the content-encoding {encoding:?}, which the host does not decode; it asks for gzip"
        ));
    }
    let kinds = values(CONTENT_TYPE);
    let parameters = kinds.iter().flat_map(|value| value.split(';').skip(1)).filter_map(|text| text.split_once('='));
    let charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let is_read = |charset: &str| match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "utf8" | "us-ascii" | "ascii" => true,
        "iso-8859-1" | "latin1" | "windows-1252" => body.is_ascii(),
        _ => false,
    };
    let mut charsets = charsets.map(|(_, charset)| charset.trim().trim_matches('"'));
    if let Some(charset) = charsets.find(|charset| !is_read(charset)) {
        return Some(format!(
            "has the charset {:?}, which the host does not decode; it reads UTF-8",
            line(charset, 32)
        ));
    }
    let packed = BEGINNINGS.iter().find(|(beginning, _)| body.starts_with(beginning));
    packed.map(|(_, kind)| format!("begins as {kind}, which the host does not decode"))
}

/// Not for who asked: of the connection, or state that the runtime keeps for nobody.
const DROPPED: [&str; 8] =
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "set-cookie", "set-cookie2"];

/// The headers of an answer as a provider sees them: names in lower case, values as text.
///
/// # Errors
///
/// Too large.
pub(crate) fn response_headers(
    headers: &HeaderMap,
    limits: &HeaderLimits,
) -> Result<Vec<(String, String)>, TransportError> {
    let all = headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    limits.check(all).map_err(|error| TransportError {
        message: format!("the cloud answered with {}", error.message),
        ..error.sent()
    })?;
    let of_connection: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
        .collect();
    let dropped = |name: &str| {
        DROPPED.contains(&name) || name.starts_with("proxy-") || of_connection.iter().any(|other| other == name)
    };
    let kept = headers.iter().filter(|(name, _)| !dropped(name.as_str()));
    Ok(kept
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TransportReason;

    #[test]
    fn ordinary_headers_pass_in_lower_case() {
        let cases: [(&str, &[u8], bool); 8] = [
            ("Accept", b"application/json", false),
            ("Content-Type", b"application/json", false),
            ("If-Match", b"\"1\"", false),
            ("X-Auth-Token", b"secret", true),
            ("OpenStack-API-Version", b"compute 2.79", false),
            ("authorization", b"Bearer x", true),
            ("Authorization", b"Signature keyId=\"/a/b\"", true),
            ("x-name", "größe".as_bytes(), false),
        ];
        for (name, value, declared) in cases {
            let (checked, kept) = check_request_header(name, value, declared).unwrap();
            assert_eq!((checked.as_str(), kept.as_bytes()), (name.to_ascii_lowercase().as_str(), value));
        }
    }

    #[test]
    fn a_header_that_smuggles_is_refused_in_every_spelling() {
        // Not the constant: what somebody takes out of it must fail here.
        let names = "host connection keep-alive te trailer transfer-encoding upgrade content-length content-encoding expect \
                     http2-settings accept-encoding accept-charset user-agent cookie cookie2 via forwarded x-real-ip x-http-method \
                     x-http-method-override x-method-override x-original-url x-rewrite-url range if-range request-range";
        let more = ["Host", "hOsT", "Content_Length", "transfer_encoding", "Proxy-Authorization", "proxy-connection"];
        let most = ["x-forwarded-for", "X-Forwarded-Host", "x_forwarded_proto", "sec-fetch-site", "Sec-WebSocket-Key"];
        for name in names.split(' ').chain(more).chain(most) {
            for declared in [false, true] {
                let error = check_request_header(name, b"x", declared).unwrap_err();
                assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{name}");
                assert!(error.message.contains(name), "{}", error.message);
            }
        }
    }

    /// An echo in another alphabet shows a secret.
    #[test]
    fn an_answer_that_the_host_cannot_read_is_none() {
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [u8], Option<&'a str>);
        let cases: [Row<'_>; 16] = [
            (&[], b"{}", None),
            (&[("content-encoding", "identity")], b"{}", None),
            (&[("content-encoding", "br")], b"{}", Some("\"br\"")),
            (&[("content-encoding", "br")], b"", None),
            (&[("content-encoding", "gzip, BR")], b"{}", Some("\"gzip\"")),
            (&[("content-encoding", ""), ("content-encoding", "deflate")], b"{}", Some("\"deflate\"")),
            (&[("content-type", "application/json; charset=UTF-8")], b"{}", None),
            (&[("content-type", "application/json; charset=\"utf-8\"")], b"{}", None),
            (&[("content-type", "text/plain; charset=utf-16le")], b"{}", Some("\"utf-16le\"")),
            (&[("content-type", "text/plain; a=b; Charset = UTF-7")], b"{}", Some("\"UTF-7\"")),
            (&[("content-type", "text/html;charset=ISO-8859-1")], b"<html>", None),
            (&[("content-type", "text/html;charset=ISO-8859-1")], b"gr\xf6\xdfe", Some("\"ISO-8859-1\"")),
            (&[("content-type", "a/b"), ("content-type", "a/b;charset=ebcdic-us")], b"{}", Some("ebcdic")),
            (&[], b"\x1f\x8b\x08\x00", Some("gzip")),
            (&[], b"\xff\xfeh\x00", Some("UTF-16")),
            (&[], b"\x28\xb5\x2f\xfd", Some("zstd")),
        ];
        for (headers, body, part) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
            }
            let said = unreadable(&map, body);
            match part {
                None => assert_eq!(said, None, "{headers:?}"),
                Some(part) => assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{headers:?}: {said:?}"),
            }
        }
    }

    /// A part of an answer can hold a part of a credential, which is not found.
    #[test]
    fn nobody_asks_for_parts_of_an_answer() {
        for name in ["range", "Range", "If-Range", "if_range", "Request-Range"] {
            assert!(check_request_header(name, b"bytes=0-9", true).is_err(), "{name}");
        }
    }

    #[test]
    fn names_and_values_cannot_begin_another_header() {
        let names = [
            "",
            "a b",
            "a:b",
            "x\r\nhost: evil.test",
            "x\n",
            "x\0",
            "ä",
            ":authority",
            ":path",
            "x\u{7f}",
            "a,b",
            "a/b",
        ];
        for name in names {
            assert!(check_request_header(name, b"x", true).is_err(), "{name:?}");
        }
        let values: [&[u8]; 6] = [b"a\r\nhost: evil.test", b"a\n b", b"\r", b"a\0b", b"\x1b[31m", b"\x7f"];
        for value in values {
            let error = check_request_header("accept", value, true).unwrap_err();
            assert_eq!(error.message, "the value of the header `accept` has control characters");
        }
        let message = check_request_header("x\r\nlevel=error", b"x", true).unwrap_err().message;
        assert_eq!(message, "`x\\r\\nlevel=error` is not a header name");
    }

    #[test]
    fn authorization_needs_a_declared_credential() {
        for name in ["authorization", "Authorization"] {
            let error = check_request_header(name, b"Bearer stolen", false).unwrap_err();
            assert!(error.message.contains("declared uses"), "{}", error.message);
            assert!(!error.message.contains("stolen"), "{}", error.message);
        }
    }

    #[test]
    fn headers_are_bounded_in_number_and_bytes() {
        let limits = HeaderLimits { count: 3, bytes: 10 };
        type Headers<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Headers<'_>, Option<&str>); 5] = [
            (&[], None),
            (&[("a", "1"), ("b", "2"), ("c", "3")], None),
            (&[("abcde", "12345")], None),
            (&[("a", ""), ("b", ""), ("c", ""), ("d", "")], Some("4 headers, the limit is 3")),
            (&[("abcde", "123456")], Some("11 bytes of headers, the limit is 10")),
        ];
        for (headers, message) in cases {
            let result = limits.check(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            assert_eq!(result.map_err(|error| error.message).err().as_deref(), message);
        }
    }

    #[test]
    fn an_answer_is_shown_without_what_belongs_to_the_connection_and_without_cookies() {
        let mut headers = HeaderMap::new();
        let all: [(&str, &[u8]); 12] = [
            ("content-type", b"application/json"),
            ("Retry-After", b"7"),
            ("x-openstack-request-id", b"req-1"),
            ("x-text", b"a\xffb"),
            ("set-cookie", b"a=b"),
            ("transfer-encoding", b"chunked"),
            ("proxy-authenticate", b"Basic"),
            ("connection", b"close, X-Hop"),
            ("x-hop", b"1"),
            ("keep-alive", b"5"),
            ("link", b"1"),
            ("link", b"2"),
        ];
        for (name, value) in all {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let mut shown = response_headers(&headers, &HeaderLimits::default()).unwrap();
        shown.sort();
        let expected = [
            ("content-type", "application/json"),
            ("link", "1"),
            ("link", "2"),
            ("retry-after", "7"),
            ("x-openstack-request-id", "req-1"),
            ("x-text", "a\u{fffd}b"),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let error = response_headers(&headers, &HeaderLimits { count: 11, bytes: 1000 }).unwrap_err();
        assert_eq!(error.message, "the cloud answered with 12 headers, the limit is 11");
        assert!(error.maybe_sent);
    }
}
