//! Base URLs of endpoints, whoever names them.

use url::Url;

use crate::paths;

/// Longest base URL, in bytes.
pub(crate) const MAX_BASE_URL: usize = 2048;

/// What is wrong with `http`, to follow the words "the URL".
pub(super) const NO_HTTP: &str = "is http, which needs --allow-http";

/// A base URL, or what is wrong, to follow the words "the URL". Never repeats the text: there may be a password in it.
pub(super) fn parse_base(text: &str, allow_http: bool) -> Result<Url, String> {
    if text.len() > MAX_BASE_URL {
        return Err(format!("is longer than {MAX_BASE_URL} bytes"));
    }
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("has spaces, control characters or backslashes".to_owned());
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("https") => {}
        Some("http") if allow_http => {}
        Some("http") => return Err(NO_HTTP.to_owned()),
        Some(_) | None => return Err("must begin with https://".to_owned()),
    }
    let url = Url::parse(text).map_err(|error| format!("cannot be read: {error}"))?;
    // `http:/x?://` and the like: what counts is what the parser saw.
    if url.scheme() != "https" && !(allow_http && url.scheme() == "http") {
        return Err("must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
        return Err("has a user or password in it; secrets are credentials".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or fragment".to_owned());
    }
    // A slash at the end, or two, make no difference: they are cut before a path is appended.
    let path = url.path().trim_end_matches('/');
    if !path.is_empty() {
        paths::check(path).map_err(|problem| format!("has a path that {problem}"))?;
    }
    if url.host_str().is_none_or(|host| host.split('.').rev().skip(1).any(str::is_empty)) {
        return Err("has no proper host".to_owned());
    }
    Ok(url)
}

/// The parser drops an empty user: `https://@host`.
fn authority(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest).trim_start_matches('/');
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
