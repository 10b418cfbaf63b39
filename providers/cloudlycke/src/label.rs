//! Values of Kubernetes labels.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use ccm_sdk::quoted;

/// Longest value that the API server takes, in bytes.
const MAX_LENGTH: usize = 63;

/// A text that can be the value of a label. The empty one can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelValue(String);

impl LabelValue {
    /// A value that stands in the source.
    pub(crate) fn literal(value: &'static str) -> Self {
        debug_assert!(value.parse::<Self>().is_ok(), "{value}");
        Self(value.to_owned())
    }
}

impl FromStr for LabelValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let ends = [text.bytes().next(), text.bytes().next_back()];
        let is_valid = text.len() <= MAX_LENGTH
            && text.bytes().all(inside)
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
    fn what_the_api_server_refuses_is_none() {
        for text in ["-a", "a.", "a b", "a/b", "zürich", "_", &"x".repeat(64)] {
            assert!(text.parse::<LabelValue>().is_err(), "{text}");
        }
    }
}
