//! Times as people and the cloud write them, in UTC.

const DAY: u64 = 86_400;

/// Days since 1970 of the 1st of March of the year 0, from which leap days come last in a year.
const MARCH: u64 = 719_468;

/// Seconds since 1970 as `2026-11-22T18:20:05Z`.
pub(crate) fn text(seconds: u64) -> String {
    let (days, rest) = (seconds / DAY + MARCH, seconds % DAY);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The first time in a text that is written like `2026-11-22T18:20:05` or `2026-11-22 18:20:05`, in seconds since 1970. A zone
/// other than UTC does not count: whoever uses it looks whether it can be.
pub(crate) fn find(text: &str) -> Option<u64> {
    text.as_bytes().windows(19).find_map(read)
}

/// Of the header `Date`: `Sun, 22 Nov 2026 18:20:05 GMT`.
pub(crate) fn of_header(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.find(month).filter(|at| at % 3 == 0 && month.len() == 3)? / 3 + 1;
    read(format!("{year}-{month:02}-{day}T{time}").as_bytes())
}

fn read(text: &[u8]) -> Option<u64> {
    let number = |from: usize, length: usize| {
        text.get(from..from + length)?
            .iter()
            .try_fold(0_u64, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
    };
    let is = |at: usize, signs: &[u8]| text.get(at).is_some_and(|sign| signs.contains(sign));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"T ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(days.checked_sub(MARCH)? * DAY + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_found_again() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_371_605, "2026-11-22T18:20:05Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!((text(seconds).as_str(), find(written)), (written, Some(seconds)));
            let among = format!("last resized at: {} +0000 UTC", written.trim_end_matches('Z').replace('T', " "));
            assert_eq!(find(&among), Some(seconds), "{among}");
        }
        for (header, seconds) in [
            ("Sun, 22 Nov 2026 18:20:05 GMT", Some(1_795_371_605)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 22 Nov 2026 18:20 GMT", None),
            ("Sun, 22 ovD 2026 18:20:05 GMT", None),
            ("Sun, 22 No 2026 18:20:05 GMT", None),
            ("Sunday, 22-Nov-26 18:20:05 GMT", None),
            ("soon", None),
        ] {
            assert_eq!(of_header(header), seconds, "{header}");
        }
        for none in ["", "once every hour", "2026-11-22", "2026-13-22T18:20:05Z", "20x6-11-22T18:20:05Z"] {
            assert_eq!(find(none), None, "{none}");
        }
    }
}
