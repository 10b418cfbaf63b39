//! The URL of a request: base URL of the endpoint, path and query of the provider. Nothing that a provider writes changes
//! where the request goes, nor leaves the path of the base URL.
//!
//! URL parsers resolve `..` and `%2e%2e`, turn backslashes and drop tabs, and servers decode once more. So a path is either
//! canonical, or refused; it is never repaired.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode};
use url::Url;

use crate::error::TransportError;

/// How often a path is decoded in search of dots, the last time to see that nothing changes any more.
const MAX_DECODINGS: usize = 4;

/// All but the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URL of a request for `path` below `base`, with a query that is percent-encoded already.
///
/// The base's own path stays in front. The path `/` is the base URL as the operator wrote it: CloudStack's
/// `https://cloud.example.org/client/api` gets no slash at its end.
///
/// # Errors
///
/// Denied, with what is wrong about the path.
pub(crate) fn url(base: &Url, path: &str, query_rendered: Option<&str>) -> Result<Url, TransportError> {
    check(path).map_err(|problem| TransportError::denied(format!("the path {problem}")))?;
    let target = match path {
        "/" => base.path().to_owned(),
        _ => format!("{}{path}", base.path().trim_end_matches('/')),
    };
    let mut url = base.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.set_path(&target);
    if url.path() != target {
        return Err(TransportError::denied("the path has characters that must be percent-encoded".to_owned()));
    }
    if let Some(query) = query_rendered {
        url.set_query(Some(query));
        if url.query() != Some(query) || !query.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TransportError::denied("the query has characters that must be percent-encoded".to_owned()));
        }
    }
    let place = |url: &Url| {
        (url.scheme() == base.scheme(), url.host() == base.host(), url.port() == base.port(), user(url) == user(base))
    };
    if place(&url) != (true, true, true, true) {
        return Err(TransportError::denied("the path would lead to another place than the endpoint".to_owned()));
    }
    Ok(url)
}

fn user(url: &Url) -> (&str, Option<&str>) {
    (url.username(), url.password())
}

/// Whether a path is canonical; if not, why, to follow the words "the path".
///
/// # Errors
///
/// What is wrong.
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("must start with `/`");
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has spaces, control characters or characters that are not ASCII; percent-encode them");
    }
    if path.contains(['?', '#']) {
        return Err("has a `?` or `#`; the query is given apart");
    }
    if path.contains('\\') {
        return Err("has a backslash");
    }
    if path.contains("//") {
        return Err("has an empty segment (`//`)");
    }
    for escape in path.split('%').skip(1) {
        let byte = escape.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            None => return Err("has a `%` without two hex digits"),
            Some(b'/' | b'\\') => return Err("has an encoded slash or backslash"),
            Some(byte) if byte.is_ascii_control() => return Err("has an encoded control character"),
            Some(_) => {}
        }
    }
    // A server behind another one decodes again.
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        if bytes.split(|byte| matches!(byte, b'/' | b'\\')).any(is_dots) {
            return Err("has a `.` or `..` segment");
        }
        let decoded: Vec<u8> = percent_decode(&bytes).collect();
        if decoded == bytes {
            return Ok(());
        }
        bytes = decoded;
    }
    Err("is percent-encoded many times over")
}

/// Java servers cut a segment at its `;` before they look at the dots.
fn is_dots(segment: &[u8]) -> bool {
    matches!(segment.split(|&byte| byte == b';').next(), Some(b"." | b".."))
}

/// Percent-encoded; unreserved characters stay, a space is `%20`.
#[must_use]
pub(crate) fn encode(bytes: &[u8]) -> String {
    percent_encoding::percent_encode(bytes, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_path_is_appended_to_the_path_of_the_base_url() {
        let cases = [
            ("https://host", "/v2/x", None, "https://host/v2/x"),
            ("https://host/", "/", None, "https://host/"),
            ("https://host/prefix", "/v2/x", None, "https://host/prefix/v2/x"),
            ("https://host/prefix/", "/v2/x", None, "https://host/prefix/v2/x"),
            ("https://host/prefix/", "/v2/x/", None, "https://host/prefix/v2/x/"),
            ("https://host/client/api", "/", Some("command=x"), "https://host/client/api?command=x"),
            ("https://host:8443/a/b/", "/c", Some("q=%20&r="), "https://host:8443/a/b/c?q=%20&r="),
            ("https://[fd00::1]:8443/a", "/c", None, "https://[fd00::1]:8443/a/c"),
            (
                "https://host",
                "/a%20b/%C3%A4/~x.y-z_1:2@3!$&'()*+,;=",
                None,
                "https://host/a%20b/%C3%A4/~x.y-z_1:2@3!$&'()*+,;=",
            ),
            ("https://host", "/.well-known/..x/x../...", None, "https://host/.well-known/..x/x../..."),
            ("https://host", "/100%25", None, "https://host/100%25"),
            ("https://host", "/@evil.test", None, "https://host/@evil.test"),
            ("https://host", "/:80", None, "https://host/:80"),
        ];
        for (base_url, path, query, expected) in cases {
            assert_eq!(
                url(&base(base_url), path, query).map(String::from).as_deref(),
                Ok(expected),
                "{base_url} {path}"
            );
        }
    }

    #[test]
    fn a_path_that_is_not_canonical_is_refused_and_never_repaired() {
        let cases = [
            ("", "start with"),
            ("v2", "start with"),
            ("@evil.test/", "start with"),
            (".evil.test/", "start with"),
            (":80/", "start with"),
            ("https://evil.test/", "start with"),
            ("//evil.test/", "empty segment"),
            ("/v2//x", "empty segment"),
            ("/..", "`..` segment"),
            ("/../admin", "`..` segment"),
            ("/v2/../../admin", "`..` segment"),
            ("/v2/.", "`..` segment"),
            ("/v2/./x", "`..` segment"),
            ("/%2e%2e/admin", "`..` segment"),
            ("/%2E./admin", "`..` segment"),
            ("/.%2e/admin", "`..` segment"),
            ("/%2e/admin", "`..` segment"),
            ("/%252e%252e/admin", "`..` segment"),
            ("/%25%32%65./admin", "`..` segment"),
            ("/x%252f..%252fadmin", "`..` segment"),
            ("/..;/admin", "`..` segment"),
            ("/..;x=1/admin", "`..` segment"),
            ("/..%3b/admin", "`..` segment"),
            ("/\\evil.test", "backslash"),
            ("/v2\\..\\admin", "backslash"),
            ("/v2/%5c..%5cadmin", "encoded slash or backslash"),
            ("/v2/%5C", "encoded slash or backslash"),
            ("/v2%2f..%2fadmin", "encoded slash or backslash"),
            ("/%2Fevil.test", "encoded slash or backslash"),
            ("/a/.\t./b", "control characters"),
            ("/a\nb", "control characters"),
            ("/a\r\nhost: evil.test", "control characters"),
            ("/a b", "spaces"),
            ("/a\0", "control characters"),
            ("/ä", "not ASCII"),
            ("/v2/%00", "encoded control character"),
            ("/v2/%0d%0aHost:%20evil.test", "encoded control character"),
            ("/v2/%7f", "encoded control character"),
            ("/v2/%25252525252e./x", "many times over"),
            ("/v2/%", "two hex digits"),
            ("/v2/%4", "two hex digits"),
            ("/v2/%zz", "two hex digits"),
            ("/v2/%+1", "two hex digits"),
            ("/v2/%%30%30", "two hex digits"),
            ("/v2?x=1", "given apart"),
            ("/v2#x", "given apart"),
            ("/v2/<x>", "must be percent-encoded"),
            ("/v2/{id}", "must be percent-encoded"),
            ("/v2/\"", "must be percent-encoded"),
        ];
        for base_url in ["https://host", "https://host/prefix/"] {
            for (path, part) in cases {
                let error = url(&base(base_url), path, None).unwrap_err();
                assert!(error.message.contains(part), "{path:?}: {:?} does not say {part:?}", error.message);
                assert_eq!(
                    (error.reason, error.maybe_sent),
                    (crate::error::TransportReason::Denied, false),
                    "{path:?}"
                );
            }
        }
    }

    /// The limit is that of path and query together, and the caller's.
    #[test]
    fn a_long_path_is_no_wrong_path() {
        let long = format!("/{}", "x".repeat(15 << 10));
        assert_eq!(url(&base("https://host"), &long, None).unwrap().path(), long);
    }

    #[test]
    fn a_query_is_encoded_by_us_and_cannot_end_the_query() {
        let cases: [(&[u8], &str); 5] = [
            (b"a b", "a%20b"),
            (b"1=2#3&", "1%3D2%233%26"),
            (b"caf\xc3\xa9", "caf%C3%A9"),
            (b"~-._", "~-._"),
            (b"\xff\r\n", "%FF%0D%0A"),
        ];
        for (bytes, encoded) in cases {
            assert_eq!(encode(bytes), encoded);
            assert_eq!(url(&base("https://host/p"), "/x", Some(encoded)).unwrap().query(), Some(encoded));
        }
        for raw in ["a b", "a#b", "a\nb", "a'b", "ä", "a\tb"] {
            assert!(url(&base("https://host"), "/x", Some(raw)).is_err(), "{raw:?}");
        }
    }

    #[test]
    fn fifty_thousand_nasty_paths_never_leave_the_endpoint_nor_its_prefix() {
        let pieces = [
            "/",
            "//",
            ".",
            "..",
            "%2e",
            "%2E",
            "%2f",
            "%5c",
            "\\",
            "@",
            ":",
            "?",
            "#",
            "%",
            "%25",
            "2e",
            "\t",
            "\n",
            "\r",
            " ",
            "\0",
            "%00",
            "evil.test",
            "https:",
            "a",
            "b",
            ";",
            "x=1",
            "[",
            "]",
            "ä",
            "\u{ff0e}",
            "\u{2215}",
            "{",
            "|",
            "^",
            "`",
            "&",
            "=",
            "+",
            "~",
            "%c0%ae",
            "%ff",
            "user:pass@",
            "127.0.0.1",
            ":443",
            "v2",
        ];
        let bases = ["https://host", "https://host:8443/prefix/", "http://[fd00::1]/a/b"].map(base);
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
        };
        let mut accepted = 0;
        for _ in 0..50_000 {
            let mut path = String::from(if next(8) == 0 { "" } else { "/" });
            for _ in 0..=next(6) {
                path.push_str(pieces[next(pieces.len())]);
            }
            let base = &bases[next(bases.len())];
            let Ok(url) = url(base, &path, None) else { continue };
            accepted += 1;
            assert_eq!(url.origin(), base.origin(), "{path:?}");
            assert_eq!(
                (url.username(), url.password(), url.query(), url.fragment()),
                ("", None, None, None),
                "{path:?}"
            );
            let prefix = base.path().trim_end_matches('/');
            let inside = url.path().strip_prefix(prefix).unwrap_or_else(|| panic!("{path:?} leaves {prefix}"));
            assert!(inside == path || path == "/", "{path:?} became {inside:?}");
            assert_eq!(Url::parse(url.as_str()).unwrap(), url, "{path:?} is read differently");
        }
        assert!(accepted > 1000, "only {accepted} paths were good: the test tests nothing");
    }
}
