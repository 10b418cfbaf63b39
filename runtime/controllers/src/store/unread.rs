//! Objects whose newest state this process cannot read: they cannot be decoded, or are too large. The store leaves them out, or shows them as
//! they were.
//!
//! Whoever tells a provider of all objects must know of those that are left out: to the provider, what it is not told of is gone.

use std::collections::BTreeMap;

use ccm_apiserver::cut;
use kube::runtime::reflector::{Lookup, ObjectRef};
use tokio::sync::watch;

/// Most bytes that are kept of why: a decoder repeats what it read.
const MAX_WHY: usize = 300;

/// Namespace and name. The namespace of a Node is empty.
pub(crate) type Named = (String, String);

/// What the store shows of an object that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The object as it was when it could be read.
    AsBefore,
    /// Nothing. It was created while the watch went on and could never be read: no provider was told of it.
    New,
    /// Nothing. It was there when a list began: an earlier process may have read it, and told a provider of it.
    LeftOut,
}

/// What an object that cannot be read may have in a cloud. Whoever may write Services, but none with node ports or load balancers, must not
/// hold up the work for others with one that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Open ports.
    pub(crate) exposes: bool,
    /// A load balancer.
    pub(crate) is_balancer: bool,
}

impl Reach {
    /// Of an object that says nothing of it.
    pub(crate) const UNKNOWN: Self = Self { exposes: true, is_balancer: true };
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadObject {
    pub(crate) uid: String,
    /// In words.
    pub(crate) why: String,
    pub(crate) shown: Shown,
    pub(crate) reach: Reach,
}

impl UnreadObject {
    /// Nobody has noted it yet.
    pub(super) fn new(uid: &str, why: &str, reach: Reach) -> Self {
        Self { uid: uid.to_owned(), why: cut(why, MAX_WHY).to_owned(), shown: Shown::New, reach }
    }
}

/// All of them. Each takes less memory than an object in the store, so there need not be a limit of their own.
pub(crate) type Unread = BTreeMap<Named, UnreadObject>;

/// Notes them for a reflector. What is noted and what is stored change at the same moment for whoever reads the store while
/// [borrowing](watch::Receiver::borrow) the notes.
pub(super) struct Notes {
    noted: watch::Sender<Unread>,
    /// Those of the list that is being read.
    listed: Unread,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self { noted: watch::Sender::new(Unread::new()), listed: Unread::new() }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Unread> {
        self.noted.subscribe()
    }

    pub(super) fn has<K: Lookup<DynamicType = ()>>(&self, key: &ObjectRef<K>) -> bool {
        self.noted.borrow().contains_key(&named(key))
    }

    /// A list begins, perhaps after one that failed.
    pub(super) fn begins(&mut self) {
        self.listed.clear();
    }

    /// The list that is being read has an object that cannot be read. Whether the store shows it as it was, `is_shown` says.
    pub(super) fn listed<K: Lookup<DynamicType = ()>>(
        &mut self,
        key: &ObjectRef<K>,
        object: UnreadObject,
        is_shown: bool,
    ) {
        let noted = self.noted.borrow();
        let was_new = noted.get(&named(key)).is_some_and(|old| old.uid == object.uid && old.shown == Shown::New);
        drop(noted);
        let shown = match (is_shown, was_new) {
            (true, _) => Shown::AsBefore,
            (false, true) => Shown::New,
            (false, false) => Shown::LeftOut,
        };
        self.listed.insert(named(key), UnreadObject { shown, ..object });
    }

    /// The list is complete, and `store` puts it into the store.
    pub(super) fn is_stored(&mut self, store: impl FnOnce()) {
        let listed = std::mem::take(&mut self.listed);
        self.noted.send_if_modified(|noted| {
            store();
            let is_news = *noted != listed;
            *noted = listed;
            is_news
        });
    }

    /// An object that cannot be read was created or changed.
    pub(super) fn came<K: Lookup<DynamicType = ()>>(&self, key: &ObjectRef<K>, object: UnreadObject, is_shown: bool) {
        let key = named(key);
        self.noted.send_if_modified(|noted| {
            let before = noted.get(&key).filter(|old| old.uid == object.uid);
            let shown = if is_shown { Shown::AsBefore } else { before.map_or(Shown::New, |old| old.shown) };
            let now = UnreadObject { shown, ..object };
            let is_news = before != Some(&now);
            noted.insert(key, now);
            is_news
        });
    }

    /// An object can be read, or is gone, and `store` puts that into the store.
    pub(super) fn went<K: Lookup<DynamicType = ()>>(&self, key: &ObjectRef<K>, store: impl FnOnce()) {
        self.noted.send_if_modified(|noted| {
            store();
            !noted.is_empty() && noted.remove(&named(key)).is_some()
        });
    }
}

fn named<K: Lookup<DynamicType = ()>>(key: &ObjectRef<K>) -> Named {
    (key.namespace.clone().unwrap_or_default(), key.name.clone())
}
