//! Tells whether the sources of the credentials in use can be read. A lost one changes no request: the value that was read last stays in use,
//! and the next start of the process has none.

use tokio::sync::watch;

use super::Credentials;

/// A credential in use, and whether its source can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceState {
    /// Name of the credential.
    pub credential: String,
    /// Why the source gives no value that can be used, with the source and the way out; none while it gives one. Never holds a value.
    pub unreadable: Option<String>,
}

impl Credentials {
    /// How the sources of those in use stand, as of the last look.
    #[must_use]
    pub(crate) fn sources(&self) -> watch::Receiver<Vec<SourceState>> {
        self.sources.subscribe()
    }

    /// Tells those who follow the sources, if one stands otherwise than before.
    pub(super) fn tell_sources(&self) {
        let in_use = self.given.iter().filter_map(|(name, given)| {
            let state = given.state.lock();
            state.value.as_ref()?;
            Some(SourceState { credential: name.clone(), unreadable: state.trouble.clone() })
        });
        let now: Vec<SourceState> = in_use.collect();
        self.sources.send_if_modified(|told| {
            let is_news = *told != now;
            *told = now;
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{credentials, credentials_of};
    use super::super::{CredentialSource, Object};
    use super::*;
    use crate::secret::Secret;

    /// Each that is in use, with what is said of it.
    fn told(sources: &mut watch::Receiver<Vec<SourceState>>) -> Vec<(String, Option<String>)> {
        let states = sources.borrow_and_update().clone();
        states.into_iter().map(|state| (state.credential, state.unreadable)).collect()
    }

    #[test]
    fn a_source_that_is_lost_is_told_with_its_path_until_it_is_back_and_no_value_is() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &str| std::fs::write(folder.path().join(name), value).unwrap();
        write("password", "password-1");
        let credentials = credentials(folder.path());
        let mut sources = credentials.sources();
        assert!(told(&mut sources).is_empty(), "nobody has looked yet");
        credentials.look();
        let is_read = |name: &str| (name.to_owned(), None::<String>);
        assert_eq!(told(&mut sources), [is_read("password")], "the user was never there, and is not in use");
        write("user", "long-enough");
        credentials.look();
        assert_eq!(told(&mut sources), [is_read("password"), is_read("user")]);

        let path = folder.path().join("password");
        std::fs::remove_file(&path).unwrap();
        credentials.look();
        assert!(sources.has_changed().unwrap());
        let lost = told(&mut sources);
        let [(_, Some(why)), (_, None)] = lost.as_slice() else { panic!("{lost:?}") };
        let parts = ["\"password\"", path.to_str().unwrap(), "No such file", "check the path"];
        assert!(parts.iter().all(|part| why.contains(part)) && !why.contains("password-1"), "{why}");
        credentials.look();
        assert!(!sources.has_changed().unwrap(), "it is told once");

        write("password", "short");
        credentials.look();
        let unusable = told(&mut sources);
        let why = unusable[0].1.as_deref().unwrap_or_default();
        assert!(why.contains("less than 8 bytes") && why.contains(path.to_str().unwrap()), "{why}");

        // The same value again, and another one.
        for value in ["password-1", "password-2"] {
            write("password", value);
            credentials.look();
            assert_eq!(told(&mut sources), [is_read("password"), is_read("user")], "{value}");
            std::fs::remove_file(&path).unwrap();
            credentials.look();
            assert!(told(&mut sources)[0].1.is_some());
        }
    }

    /// A value of the same object may be another one by now, which nobody here sees.
    #[test]
    fn a_source_that_is_not_seen_any_more_is_told_once_and_its_value_stays_in_use() {
        let values = |user: &str| Arc::new([("user".to_owned(), Secret::new(user.as_bytes().to_vec()))].into());
        let unseen = |user: &str| Object::Unseen { last: Some(values(user)), why: "no right".into() };
        for first in [Object::Is(values("user-one")), unseen("user-one")] {
            let (newest, object) = watch::channel(first);
            let (name, key) = ("secret:a/b/user".to_owned(), "user".to_owned());
            let source = CredentialSource::Watched { name, key, object, keeper: Arc::new(()) };
            let credentials = credentials_of([("user".to_owned(), source)].into());
            let mut sources = credentials.sources();
            let in_use = || credentials.given["user"].state.lock().value.as_ref().map(|value| value.expose().to_vec());
            credentials.look();
            newest.send_replace(unseen("user-one"));
            credentials.look();
            let why = "credential \"user\": secret:a/b/user: no right";
            assert_eq!(told(&mut sources), [("user".to_owned(), Some(why.to_owned()))]);
            assert_eq!(in_use().unwrap(), b"user-one");
            credentials.look();
            assert!(!sources.has_changed().unwrap(), "it is told once");
            newest.send_replace(Object::Is(values("user-two")));
            credentials.look();
            assert_eq!(told(&mut sources), [("user".to_owned(), None)]);
            assert_eq!(in_use().unwrap(), b"user-two");
        }
    }
}
