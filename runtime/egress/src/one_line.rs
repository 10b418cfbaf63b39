//! Text of a guest or of a cloud as one line that people can read: in logs, errors and Events.

use ccm_cloud::is_plain;

/// A guest's text as one line of at most `limit` bytes (and a `…` where it was cut), without control characters: a guest
/// cannot forge a second line, nor colours, nor a terminal's escape codes.
#[must_use]
pub fn line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
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

/// A flag that people paste into a shell, with the value quoted if that is more than a word: names, paths and URLs of a guest run nothing there.
#[must_use]
pub fn pasted(flag: &str, value: &str) -> String {
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=+,@%~".contains(&byte)) {
        return format!("{flag}={value}");
    }
    format!("{flag}='{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `inspect` and refusals print flags to paste, and whoever writes the component chooses the names in them.
    #[test]
    fn a_flag_to_paste_is_one_word_for_a_shell_whatever_a_guest_calls_its_things() {
        let cases = [
            ("password=identity:body-json:/auth/a~1b:/v3", "--flag=password=identity:body-json:/auth/a~1b:/v3"),
            ("api=https://cloud.example:8443/a%20b", "--flag=api=https://cloud.example:8443/a%20b"),
            ("api=https://h/;id", "--flag='api=https://h/;id'"),
            ("a$(id)`id`\"=api:signing", "--flag='a$(id)`id`\"=api:signing'"),
            ("a';id;'", r"--flag='a'\'';id;'\'''"),
            ("a b", "--flag='a b'"),
        ];
        for (value, wanted) in cases {
            assert_eq!(pasted("--flag", value), wanted);
            let shell = std::process::Command::new("sh").args(["-c", &format!("printf %s {wanted}")]).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), format!("--flag={value}"), "{wanted}");
        }
    }

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
