//! Values of Kubernetes labels: what a Node's labels for zone, region and type of machine can hold.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::quoted;

/// Longest value that the API server takes, in bytes.
const MAX_LENGTH: usize = 63;

/// A text that can be the value of a label. The empty one can.
///
/// ```
/// use ccm_sdk::label::LabelValue;
///
/// assert!("Standard 2 GB".parse::<LabelValue>().is_err());
/// assert_eq!(LabelValue::sanitised("Standard 2 GB (SSD)").to_string(), "Standard-2-GB--SSD");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelValue(String);

impl LabelValue {
    /// A value that stands in the source.
    pub fn literal(value: &'static str) -> Self {
        debug_assert!(value.parse::<Self>().is_ok(), "{value}");
        Self(value.to_owned())
    }

    /// The nearest value, for names that people give in a cloud: `-` stands for what cannot be in one, and ends that cannot be at an
    /// end, and what is too much, are cut off. Two names may become one.
    pub fn sanitised(text: &str) -> Self {
        let letters = text.chars().map(|letter| if is_inside(letter) { letter } else { '-' });
        let value: String = letters.skip_while(|letter| !letter.is_ascii_alphanumeric()).take(MAX_LENGTH).collect();
        Self(value.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned())
    }
}

fn is_inside(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

impl FromStr for LabelValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = [text.bytes().next(), text.bytes().next_back()];
        let is_valid = text.len() <= MAX_LENGTH
            && text.chars().all(is_inside)
            && ends.iter().flatten().all(u8::is_ascii_alphanumeric);
        is_valid.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!(
                "{} cannot be a label's value: at most {MAX_LENGTH} letters, digits, `-`, `_` and `.`, the first and \
                 the last a letter or digit",
                quoted(text)
            )
        })
    }
}

impl Display for LabelValue {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_takes_is_a_value() {
        for text in ["", "a", "vbox.vm.1g.2cpu", "A_b-c.9", &"x".repeat(63)] {
            assert_eq!(text.parse::<LabelValue>().map(|value| value.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn names_of_clouds_become_values() {
        for (text, expected) in [
            ("m1.small", "m1.small"),
            ("Big Instance", "Big-Instance"),
            ("zürich/1", "z-rich-1"),
            ("--_a_--", "a"),
            ("界", ""),
            ("", ""),
        ] {
            assert_eq!(LabelValue::sanitised(text).to_string(), expected);
        }
        let long = LabelValue::sanitised(&format!("{}.-{}", "x".repeat(61), "y".repeat(20))).to_string();
        assert_eq!(long, "x".repeat(61), "the cut leaves no end that cannot be one");
    }

    #[test]
    fn what_the_api_server_refuses_is_none() {
        for text in ["-a", "a.", "a b", "a/b", "zürich", "_", &"x".repeat(64)] {
            assert!(text.parse::<LabelValue>().is_err(), "{text}");
        }
    }
}
