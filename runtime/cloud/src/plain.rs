//! What may stand in a line for people.

/// Whether a terminal shows a character where it stands: no control character, no separator of lines, nothing that turns the direction of text.
#[must_use]
pub const fn is_plain(c: char) -> bool {
    !matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_terminal_or_turns_text_is_not_plain() {
        let obeyed =
            "\n\r\t\0\u{1b}\u{7f}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        let plain: Vec<char> = obeyed.chars().filter(|c| is_plain(*c)).collect();
        assert_eq!(plain, []);
        assert!((char::MIN..=char::MAX).all(|c| !(c.is_control() && is_plain(c))));
        assert!("a \u{fc}\u{61b}\u{200d}\u{2027}\u{202f}\u{2065}\u{206a}\u{1f600}\u{fffd}".chars().all(is_plain));
    }
}
