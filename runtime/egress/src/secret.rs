//! A secret value, which no log and no guest may see.

use std::collections::BTreeSet;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A secret value: no `Debug`, no `Display`, wiped when the last copy is dropped. Cloning shares the bytes.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes the bytes; the caller keeps no copy.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// The bytes themselves: for encoding, signing and scrubbing, and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Bytes without the white space around: what is looked for in answers.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.trim_ascii().len()
    }
}

/// Shortest secret that nobody guesses, in bytes.
const UNGUESSABLE_BYTES: usize = 16;
/// Fewest different bytes of it.
const UNGUESSABLE_KINDS: usize = 8;

/// Whether people come upon a value by themselves: a word, a name, a number, or one of these with something added. An honest request may have it
/// in it, and who tries words finds it.
#[must_use]
pub(crate) fn can_be_guessed(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let has = |kind: fn(&u8) -> bool| usize::from(value.iter().any(kind));
    let alphabets = has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase) + has(u8::is_ascii_digit);
    let kinds: BTreeSet<u8> = value.iter().copied().collect();
    value.len() < UNGUESSABLE_BYTES || alphabets < 2 || kinds.len() < UNGUESSABLE_KINDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_told_from_what_nobody_guesses() {
        for value in [
            "password",
            "Password1234",
            "kubernetes-cluster",
            "correct horse battery staple",
            "00000000000000000000",
            "aaaaaaaaaaaaaaaaA1",
            "   Xk9mP2vL1q       ",
            "",
        ] {
            assert!(can_be_guessed(value.as_bytes()), "{value}");
        }
        for value in [
            "token-Vahgh5eeweiF",
            "gAAAAABm-Sess10n",
            "d41d8cd98f00b204e9800998ecf8427e",
            "7f1e3c52-9a4b-4d0e-8c6f-2b5a1d3e4f60",
        ] {
            assert!(!can_be_guessed(value.as_bytes()), "{value}");
        }
    }
}
