//! Which failures were told already: a period must not write the same Event again and again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::warnings::Warnings;

/// Whom a warning is about: kind, namespace, name and UID. Empty for the call as a whole.
pub(crate) type About = [String; 4];

/// Of one provider.
#[derive(Default)]
pub(crate) struct Memory(HashMap<About, Warnings>);

impl Memory {
    /// Whether the warning is to be given; see [`Warnings::is_news`].
    pub(crate) fn is_news(&mut self, about: About, message: &str, repeat: Duration) -> bool {
        self.0.entry(about).or_default().is_news(message, repeat)
    }

    /// Whether something was told about `about`.
    pub(crate) fn knows(&self, about: &About) -> bool {
        self.0.contains_key(about)
    }

    /// Forgets all but these: what failed, and fails no more, is news when it fails again.
    pub(crate) fn keep(&mut self, failing: &HashSet<About>) {
        self.0.retain(|about, _| failing.contains(about));
    }

    /// Whether something was told about `about`; forgets it.
    pub(crate) fn forget(&mut self, about: &About) -> bool {
        self.0.remove(about).is_some()
    }
}
