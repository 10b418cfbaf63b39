//! Durations as upstream's flags take them: `90s`, `1m30s`, `5m0s`, `250ms`.

use std::time::Duration;

/// Parses a duration of zero or more.
///
/// # Errors
///
/// A sentence that says what a duration looks like.
pub fn parse(text: &str) -> Result<Duration, String> {
    let hint = || format!("{text:?} is not a duration; write it like 250ms, 90s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let signed: jiff::SignedDuration = text.parse().map_err(|_error| hint())?;
    Duration::try_from(signed).map_err(|_error| hint())
}

/// As [`parse`], refusing zero, for periods.
///
/// # Errors
///
/// A sentence that says what is wrong.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be above zero".to_owned()),
        period => Ok(period),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_understood() {
        let cases = [
            ("5m", 300_000),
            ("5m0s", 300_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1h", 3_600_000),
            ("1.5s", 1_500),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for text in ["", "5", "-5s", "5 apples", "s"] {
            assert!(parse(text).unwrap_err().contains("write it like"), "{text:?}");
        }
        assert!(parse_period("0s").is_err());
    }
}
