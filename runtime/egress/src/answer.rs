//! Describes an answer in one line, for messages and traces.

use http::HeaderMap;

use crate::one_line::line;

/// Headers in which clouds give a request its ID.
const REQUEST_IDS: [&str; 6] = [
    "x-request-id",
    "x-openstack-request-id",
    "x-compute-request-id",
    "request-id",
    "x-amzn-requestid",
    "x-correlation-id",
];
/// Longest operation, request ID and title, in bytes.
const MAX_PIECE: usize = 128;

/// The ID that the cloud gave this request.
#[must_use]
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
    Some(line(id.trim(), MAX_PIECE)).filter(|id| !id.is_empty())
}

/// A provider's name of an operation, fit to be shown.
#[must_use]
pub(crate) fn operation(given: &str) -> String {
    line(given, MAX_PIECE)
}

/// What came when JSON was asked for and something else came: the work of a proxy, a login page, a wrong base URL. None for
/// JSON, and for no body at all.
#[must_use]
pub(crate) fn not_json(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let content_type =
        headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let text = body.trim_ascii_start();
    if text.is_empty() || kind.ends_with("json") {
        return None;
    }
    let is_page = kind == "text/html" || kind == "application/xhtml+xml" || text.starts_with(b"<");
    // Some clouds name their JSON text/javascript, and some nothing.
    if !is_page && text.first().is_some_and(|first| b"{[\"-0123456789tfn".contains(first)) {
        return None;
    }
    let what = match (is_page, kind.as_str()) {
        (true, "application/xml" | "text/xml") => "an XML document",
        (true, _) => "an HTML page",
        (false, _) => "no JSON",
    };
    let title = title(text).map(|title| format!(" {title:?}")).unwrap_or_default();
    Some(format!("{what}{title} instead of JSON: is there a proxy between, or is the base URL wrong?"))
}

fn title(page: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(page.get(..page.len().min(4096)).unwrap_or_default());
    let lower = head.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start.checked_add(lower.get(start..)?.find('>')?)?.checked_add(1)?;
    let end = start.checked_add(lower.get(start..)?.find("</title")?)?;
    let title = head.get(start..end)?.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line(&title, MAX_PIECE)).filter(|title| !title.is_empty())
}

/// What came, as far as that is known before the body is there.
#[must_use]
pub(crate) fn status_line(status: u16, request_id: Option<&str>) -> String {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let id = request_id.map(|id| format!(" (request ID {id})")).unwrap_or_default();
    format!("{status}{reason}{id}")
}

/// One line about an exchange.
#[must_use]
pub(crate) fn summary(operation: &str, status: u16, request_id: Option<&str>, not_json: Option<&str>) -> String {
    let other = not_json.map(|what| format!(", {what}")).unwrap_or_default();
    format!("{operation}: {}{other}", status_line(status, request_id))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|&(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_page_of_a_proxy_is_recognised_and_json_never_is_one() {
        let cases: [(&'static str, &str, Option<&str>); 9] = [
            ("application/json", "<not json>", None),
            ("application/problem+json; charset=utf-8", "x", None),
            ("text/html", "<html><TITLE lang=en>502 Bad\n Gateway</title>", Some("an HTML page \"502 Bad Gateway\"")),
            ("", "\n <!doctype html><p>hi", Some("an HTML page instead")),
            ("text/xml", "<error/>", Some("an XML document")),
            ("text/javascript; charset=UTF-8", "{\"a\":1}", None),
            ("", "[1]", None),
            ("text/plain", "upstream connect error", Some("no JSON")),
            ("text/html", "", None),
        ];
        for (kind, body, wanted) in cases {
            let headers = if kind.is_empty() { HeaderMap::new() } else { headers(&[("content-type", kind)]) };
            let found = not_json(&headers, body.as_bytes());
            match wanted {
                Some(part) => assert!(found.as_deref().is_some_and(|found| found.contains(part)), "{kind} {found:?}"),
                None => assert_eq!(found, None, "{kind} {body}"),
            }
        }
    }

    #[test]
    fn the_summary_names_operation_status_and_request() {
        assert_eq!(request_id(&headers(&[("x-openstack-request-id", " req-1 ")])).as_deref(), Some("req-1"));
        assert_eq!(request_id(&headers(&[("x-request-id", "")])), None);
        assert_eq!(
            summary("GET /v2/droplets", 404, Some("req-1"), None),
            "GET /v2/droplets: 404 Not Found (request ID req-1)"
        );
        assert_eq!(summary("X", 502, None, Some("an HTML page")), "X: 502 Bad Gateway, an HTML page");
        assert_eq!(summary("X", 799, None, None), "X: 799");
    }
}
