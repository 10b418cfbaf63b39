//! Text of a guest or of a cloud as one line that people can read: in logs, errors and Events.

use ccm_cloud::is_plain;

/// A guest's text as one line of at most `limit` bytes (and a `…` where it was cut), without control characters: a guest
/// cannot forge a second line, nor colours, nor a terminal's escape codes.
#[must_use]
pub fn line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for c in text.chars() {
        let start = line.len();
        if is_plain(c) {
            line.push(c);
        } else {
            line.extend(c.escape_default());
        }
        if line.len() > limit {
            line.truncate(start);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_within_its_length() {
        let cases = [
            ("plain", 100, "plain"),
            ("müller n=1", 100, "müller n=1"),
            ("a\nlevel=error fake", 100, "a\\nlevel=error fake"),
            ("\u{1b}[31mred k\r=v\0", 100, "\\u{1b}[31mred k\\r=v\\u{0}"),
            ("\u{202e}evil", 100, "\\u{202e}evil"),
            ("\u{61c}evil", 100, "\\u{61c}evil"),
            ("0123456789", 5, "01234…"),
            ("012345 key=value", 8, "012345 k…"),
            ("0123\n", 5, "0123…"),
        ];
        for (text, limit, expected) in cases {
            assert_eq!(line(text, limit), expected, "{text:?}");
        }
    }
}
