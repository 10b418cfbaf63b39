//! Durations as Go writes them, which is how Kubernetes users know them: `300ms`, `1h30m`, `2.5s`.

use std::time::Duration;

use crate::quoted;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Reads a duration. Signs are not taken: nothing that is configured lasts less than no time.
///
/// # Errors
///
/// What is wrong with the text, for people, with an example of what would be right.
///
/// # Source
///
/// The grammar of Go's `time.ParseDuration`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{} is not a duration; write it like `90s`, `1m30s` or `500ms`", quoted(text));
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        let (unit, after) = unit(after).ok_or_else(wrong)?;
        if whole.is_empty() && fraction.is_empty() {
            return Err(wrong());
        }
        let part = nanos(whole, fraction, unit).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let second = u128::from(NANOS_PER_SECOND);
    let seconds = u64::try_from(total / second).map_err(|_too_long| wrong())?;
    let nanos = u32::try_from(total % second).map_err(|_impossible| wrong())?;
    Ok(Duration::new(seconds, nanos))
}

/// Whole milliseconds, the contract's unit of time. More than it has room for is [`u64::MAX`].
#[inline(never)]
pub fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into())
}

/// Whole milliseconds, as most times of the contract have room for them: 49 days at most.
#[must_use]
pub fn millis_u32(duration: Duration) -> u32 {
    u32::try_from(millis(duration)).unwrap_or(u32::MAX)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at_checked(text.bytes().take_while(u8::is_ascii_digit).count()).unwrap_or((text, ""))
}

/// Nanoseconds of the unit that the text starts with, and what follows it. Longer names come first: `m` begins `ms`.
fn unit(text: &str) -> Option<(u64, &str)> {
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", NANOS_PER_SECOND),
        ("m", 60 * NANOS_PER_SECOND),
        ("h", 3_600 * NANOS_PER_SECOND),
    ];
    UNITS.iter().find_map(|(name, nanos)| text.strip_prefix(name).map(|rest| (*nanos, rest)))
}

/// A `u128` holds any `u64` times any unit.
fn nanos(whole: &str, fraction: &str, unit: u64) -> Option<u128> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Twelve digits are finer than a nanosecond of the largest unit.
    let fraction = fraction.get(..12).unwrap_or(fraction);
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let unit = u128::from(unit);
    Some(u128::from(whole) * unit + u128::from(fraction) * unit / u128::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read_the_same() {
        let cases = [
            ("0", Duration::ZERO),
            ("0s", Duration::ZERO),
            ("25s", Duration::from_secs(25)),
            ("1h30m", Duration::from_secs(5_400)),
            ("1m0.5s", Duration::from_millis(60_500)),
            (".5h", Duration::from_secs(1_800)),
            ("5.s", Duration::from_secs(5)),
            ("250ms", Duration::from_millis(250)),
            ("3us4ns", Duration::from_nanos(3_004)),
            ("7µs", Duration::from_micros(7)),
            ("0.3333333333333333333h", Duration::from_nanos(1_199_999_999_998)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        let cases =
            ["", "25", "s", ".s", "1x", "-5s", "+5s", "1 s", "1s ", "99999999999999999999999999999999999999999h"];
        for text in cases {
            assert_eq!(
                parse(text),
                Err(format!("{text:?} is not a duration; write it like `90s`, `1m30s` or `500ms`")),
                "{text}"
            );
        }
    }
}
