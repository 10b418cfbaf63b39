//! Which failures were told already: a period must not write the same Event again and again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// Whom a warning is about: kind, namespace, name and UID. Empty for the call as a whole.
pub(crate) type About = [String; 4];

struct Told {
    message: String,
    at: Instant,
}

/// Of one provider.
#[derive(Default)]
pub(crate) struct Memory(HashMap<About, Told>);

impl Memory {
    /// Whether the warning is to be given: another one than the last about the same, or that was given `repeat` ago.
    pub(crate) fn is_news(&self, about: &About, message: &str, repeat: Duration) -> bool {
        self.0.get(about).is_none_or(|last| last.message != message || last.at.elapsed() >= repeat)
    }

    /// The warning is given now.
    pub(crate) fn told(&mut self, about: About, message: String) {
        self.0.insert(about, Told { message, at: Instant::now() });
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
