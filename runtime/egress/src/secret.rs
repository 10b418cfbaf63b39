//! A secret value, which no log and no guest may see.

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
