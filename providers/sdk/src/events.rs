//! Events: what people should know who did not ask. `kubectl describe` shows them.
//!
//! What stays the same is not told at each look: see [`news`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::types::Subject;
use crate::{cache, transport};

pub use crate::bindings::provider::ccm::cloud::events::Severity;

/// How long what stays the same is not told again, where nobody has just changed it.
const TOLD: Duration = Duration::from_secs(24 * 3_600);

/// Writes an Event.
pub fn emit(subject: &Subject, severity: Severity, reason: &str, message: &str) {
    transport::emit(subject, severity, reason, message);
}

/// Writes an Event of type Warning.
pub fn warn(subject: &Subject, reason: &str, message: &str) {
    emit(subject, Severity::Warning, reason, message);
}

/// Writes an Event of type Warning unless the same was told a day ago or less. Says whether it was written.
///
/// ```no_run
/// use ccm_sdk::events;
/// use ccm_sdk::types::Subject;
///
/// events::news(&Subject::Provider, "QuotaLow", "9 of 10 load balancers are in use");
/// ```
pub fn news(subject: &Subject, reason: &str, message: &str) -> bool {
    let about = match subject {
        Subject::Call => "call",
        Subject::Provider => "provider",
        Subject::Node(name) => name,
        Subject::Service((namespace, name)) => &format!("{namespace}/{name}"),
    };
    let is_news = !is_told(about, message);
    if is_news {
        told(about, message);
        warn(subject, reason, message);
    }
    is_news
}

/// Whether that was told a day ago or less of `about`, which is another where the object is another of the same name.
pub(crate) fn is_told(about: &str, message: &str) -> bool {
    cache::get(&key(about, message)).is_some()
}

/// It is no news any more.
pub(crate) fn told(about: &str, message: &str) {
    cache::put(&key(about, message), b"", TOLD);
}

fn key(about: &str, message: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (about, message).hash(&mut hasher);
    format!("told/{:x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeCloud;

    #[test]
    fn what_stays_the_same_is_told_once_and_what_changes_at_once() {
        let fake = FakeCloud::new();
        let service = |name: &str| Subject::Service(("default".to_owned(), name.to_owned()));
        let told =
            [(service("a"), "x"), (service("a"), "x"), (service("a"), "y"), (service("b"), "x"), (Subject::Call, "x")]
                .map(|(subject, message)| news(&subject, "Reason", message));
        assert_eq!(told, [true, false, true, true, true]);
        assert_eq!(
            fake.events(),
            ["default/a Reason: x", "default/a Reason: y", "default/b Reason: x", "call Reason: x"]
        );
    }
}
