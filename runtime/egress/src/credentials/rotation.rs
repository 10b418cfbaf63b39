//! Tells those that wait for other credentials.

use std::time::Duration;

use tokio::sync::watch;

use super::Credentials;

/// From one look to the next while nobody sends requests. One at a file takes a microsecond.
const LOOK: Duration = Duration::from_secs(1);

impl Credentials {
    /// Grows whenever a given credential gets another value, or one at last: what was refused is worth a try.
    #[must_use]
    pub(crate) fn rotations(&self) -> watch::Receiver<u64> {
        self.rotations.subscribe()
    }

    /// Looks at the given ones once a second, for ever: those that wait send no request that would show a new value.
    pub(crate) async fn follow(&self) {
        let mut looks = tokio::time::interval(LOOK);
        loop {
            looks.tick().await;
            self.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::credentials;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_within_a_second_of_another_value_and_of_one_at_last() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &str| std::fs::write(folder.path().join(name), value).unwrap();
        write("password", "password-1");
        let credentials = credentials(folder.path());
        let mut rotations = credentials.rotations();
        let waits = async {
            let mut told = async || tokio::time::timeout(LOOK * 2, rotations.changed()).await.is_ok();
            assert!(!told().await, "a first value is what everything began with");
            write("password", "password-2");
            assert!(told().await);
            assert!(!told().await, "once");
            write("user", "short");
            assert!(!told().await, "it cannot be used");
            write("user", "long-enough");
            assert!(told().await, "whoever asked for it was refused");
        };
        tokio::select! {
            () = credentials.follow() => {}
            () = waits => {}
        }
    }
}
