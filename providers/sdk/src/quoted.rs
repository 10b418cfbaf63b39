//! Quotes text that is not ours, so that it is safe in a message.

use std::fmt::{self, Display, Formatter, Write as _};

/// Shows text between quotation marks, as `{:?}` does, with everything escaped that would hide in a message or break its line.
///
/// `{:?}` itself knows of every character whether it can be printed: its tables are 8 KB of a component.
pub fn quoted(text: &str) -> impl Display {
    Quoted(text)
}

struct Quoted<'t>(&'t str);

impl Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '\n' => formatter.write_str("\\n")?,
                '\r' => formatter.write_str("\\r")?,
                '\t' => formatter.write_str("\\t")?,
                '"' | '\\' => {
                    formatter.write_char('\\')?;
                    formatter.write_char(character)?;
                }
                _ if is_hidden(character) => write!(formatter, "\\u{{{:x}}}", u32::from(character))?,
                _ => formatter.write_char(character)?,
            }
        }
        formatter.write_char('"')
    }
}

/// Controls, what turns the direction of text around, and what has no width.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_debug_shows_it() {
        for text in
            ["", "a b", "zürich", "a\"b\\c", "1\n2\r3\t4", "\0\u{1b}[0m", "\u{202e}gpj", "a\u{200b}b\u{feff}", "界🦀"]
        {
            let expected = format!("{text:?}").replace("\\0", "\\u{0}");
            assert_eq!(quoted(text).to_string(), expected);
        }
    }
}
