//! What the headers of an answer say about the limits of the cloud.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

/// A reset above this is a Unix time in seconds (2001 or later), one below is seconds from now.
const UNIX_TIMES: u64 = 1_000_000_000;

/// The same three headers, as different clouds name them.
const NAMES: [[&str; 3]; 3] = [
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
    ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
];

/// None: not told, or not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RateLimitHeaders {
    /// Requests per window.
    pub(super) limit: Option<u64>,
    /// Of these, still free.
    pub(super) remaining: Option<u64>,
    /// From now.
    pub(super) reset: Option<Duration>,
    /// From now.
    pub(super) retry_after: Option<Duration>,
}

impl RateLimitHeaders {
    pub(super) fn read(headers: &HeaderMap, wall: SystemTime) -> Self {
        let mut told = Self { retry_after: retry_after(headers, wall), ..Self::default() };
        for [limit, remaining, reset] in NAMES {
            told.limit = told.limit.or_else(|| number(headers, limit));
            told.remaining = told.remaining.or_else(|| number(headers, remaining));
            told.reset = told.reset.or_else(|| number(headers, reset).map(|seconds| from_now(seconds, wall)));
        }
        told
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The number at the beginning: a fraction is dropped, and so is what follows it in `100, 100;w=60`.
fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    let text = text(headers, name)?;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if !(rest.is_empty() || rest.starts_with(['.', ',', ';', ' '])) {
        return None;
    }
    digits.parse().ok()
}

fn from_now(seconds: u64, wall: SystemTime) -> Duration {
    if seconds <= UNIX_TIMES {
        return Duration::from_secs(seconds);
    }
    let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(seconds).saturating_sub(now)
}

fn retry_after(headers: &HeaderMap, wall: SystemTime) -> Option<Duration> {
    if let Some(seconds) = number(headers, "retry-after") {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text(headers, "retry-after")?).ok()?;
    Some(date.duration_since(wall).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Fri, 13 Feb 2009 23:31:30 GMT.
    const WALL: u64 = 1_234_567_890;

    fn read(headers: &[(&'static str, &'static str)]) -> RateLimitHeaders {
        let headers = headers
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect::<HeaderMap>();
        RateLimitHeaders::read(&headers, UNIX_EPOCH + Duration::from_secs(WALL))
    }

    #[test]
    fn the_names_and_numbers_of_several_clouds_are_understood() {
        let full = |reset| RateLimitHeaders {
            limit: Some(5000),
            remaining: Some(42),
            reset: Some(Duration::from_secs(reset)),
            retry_after: None,
        };
        let table: [(&[(&str, &str)], RateLimitHeaders); 9] = [
            (
                &[("ratelimit-limit", "5000"), ("ratelimit-remaining", "42"), ("ratelimit-reset", "1234567920")],
                full(30),
            ),
            (
                &[("ratelimit-limit", "5000, 5000;w=60"), ("ratelimit-remaining", "42"), ("ratelimit-reset", "30")],
                full(30),
            ),
            (
                &[("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "42"), ("x-ratelimit-reset", "30.75")],
                full(30),
            ),
            (
                &[
                    ("x-rate-limit-limit", "5000"),
                    ("x-rate-limit-remaining", " 42 "),
                    ("x-rate-limit-reset", "1234567900"),
                ],
                full(10),
            ),
            (&[("ratelimit-limit", "5000"), ("ratelimit-remaining", "42"), ("ratelimit-reset", "1234567000")], full(0)),
            (
                // The first family wins.
                &[
                    ("ratelimit-limit", "5000"),
                    ("ratelimit-remaining", "42"),
                    ("ratelimit-reset", "30"),
                    ("x-ratelimit-limit", "1"),
                    ("x-ratelimit-remaining", "1"),
                ],
                full(30),
            ),
            (
                &[("ratelimit-limit", "-1"), ("ratelimit-remaining", "many"), ("ratelimit-reset", "6m0s")],
                RateLimitHeaders::default(),
            ),
            (&[("ratelimit-limit", "99999999999999999999999")], RateLimitHeaders::default()),
            (&[], RateLimitHeaders::default()),
        ];
        for (headers, expected) in table {
            assert_eq!(read(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, expected) in [
            ("42", Some(42)),
            ("0", Some(0)),
            ("Fri, 13 Feb 2009 23:32:12 GMT", Some(42)),
            ("Friday, 13-Feb-09 23:32:12 GMT", Some(42)),
            ("Fri, 13 Feb 2009 23:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(read(&[("retry-after", value)]).retry_after, expected.map(Duration::from_secs), "{value}");
        }
    }
}
