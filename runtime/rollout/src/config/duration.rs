//! Durations as upstream's flags take them and as Go writes them: `90s`, `1m30s`, `5m0s`, `250ms`.

use std::time::Duration;

/// Parses a duration of zero or more, up to what Go can express, 292 years: a clock can still say when that is over.
///
/// # Errors
///
/// A sentence that says what a duration looks like, or that this one is too long.
pub fn parse(text: &str) -> Result<Duration, String> {
    let hint = || format!("{text:?} is not a duration; write it like 250ms, 90s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let signed: jiff::SignedDuration = text.parse().map_err(|_error| hint())?;
    let time = Duration::try_from(signed).map_err(|_error| hint())?;
    i64::try_from(time.as_nanos()).map_err(|_error| format!("{text:?} is too long; at most 2562047h are possible"))?;
    Ok(time)
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

/// A duration as Go writes it.
pub fn go(time: Duration) -> String {
    let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
    match seconds {
        0 if nanos == 0 => "0s".to_owned(),
        // Below a minute both languages write the same.
        0..60 => format!("{time:?}"),
        _ => {
            let hours = if seconds < 3600 { String::new() } else { format!("{}h", seconds / 3600) };
            let fraction = format!(".{nanos:09}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            format!("{hours}{}m{}{fraction}s", seconds / 60 % 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (100_000_000, "100ms"),
            (3_300_000_000, "3.3s"),
            (59_999_999_999, "59.999999999s"),
            (60_000_000_000, "1m0s"),
            (60_500_000_000, "1m0.5s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (90_000_000_000_000, "25h0m0s"),
        ] {
            assert_eq!(go(Duration::from_nanos(nanos)), text);
        }
    }

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
        assert!(parse("2562047h").is_ok());
        assert!(parse("2562048h").unwrap_err().contains("at most 2562047h"));
    }
}
