//! Texts of the cluster, a cloud or a provider, as a terminal may show them.

/// A text in one line, without line ends and what else a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_moves_a_terminal() {
        assert_eq!(one_line(" the cloud says:\r\n\u{1b}[2Jno\t "), "the cloud says: [2Jno");
    }
}
