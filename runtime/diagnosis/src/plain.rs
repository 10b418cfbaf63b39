//! Texts of the cluster, a cloud or a provider, as a terminal may show them.

use std::fmt::Write as _;

use ccm_cloud::is_plain;
use rustls::pki_types::pem;

/// A text in one line, without line ends and what else a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is told of an error, without lines of PEM: the library repeats one that it cannot read, and a key without line breaks is one line.
#[must_use]
pub fn without_keys(error: &anyhow::Error, told: &str) -> String {
    let repeats = |error: &&pem::Error| {
        matches!(error, pem::Error::IllegalSectionStart { .. } | pem::Error::MissingSectionEnd { .. })
    };
    let all = error.chain().filter_map(|cause| cause.downcast_ref::<pem::Error>()).filter(repeats);
    all.fold(told.to_owned(), |told, one| told.replace(&one.to_string(), "it is not PEM, or has lost its line breaks"))
}

/// No time that is told is longer: 100 years, in seconds. What answers in the place of a host may say anything.
const LONGEST: f64 = 3_155_760_000.0;

/// A time in seconds, for people.
#[must_use]
pub fn about(seconds: f64) -> String {
    match seconds.clamp(0.0, LONGEST) {
        seconds if seconds < 120.0 => format!("{:.0} s", seconds.ceil()),
        seconds if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// JSON that a terminal may show. It is the same for whoever reads it: what JSON leaves as it is, and a terminal obeys, is escaped.
#[must_use]
pub fn shown(json: String) -> String {
    let is_shown = |c: char| c == '\n' || is_plain(c);
    if json.chars().all(is_shown) {
        return json;
    }
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_shown(c) {
            shown.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // A String takes everything.
                let _written = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_moves_a_terminal() {
        assert_eq!(one_line(" the cloud says:\r\n\u{1b}[2Jno\t "), "the cloud says: [2Jno");
        assert_eq!(one_line("a\u{9b}2Jb\u{202e}c\u{2028}d\u{2066}e"), "a 2Jb c d e");
        assert_eq!(one_line("M\u{fc}ller \u{1f600}"), "M\u{fc}ller \u{1f600}");
    }

    #[test]
    fn a_time_is_told_in_a_unit_that_people_read() {
        assert_eq!(
            [-1.0, 0.2, 59.0, 600.0, 43_200.0, 604_800.0, 1e300].map(about),
            ["0 s", "1 s", "59 s", "10 min", "12 h", "7 days", "36525 days"]
        );
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let value = serde_json::json!({ "a": "x\u{1b}[2J\u{9b}2J\u{7f}\u{202e}y", "b": ["M\u{fc}ller \u{1f600}\n"] });
        let text = shown(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || is_plain(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert!(text.contains("\\u009b") && text.contains("M\u{fc}ller"), "{text}");
    }
}
