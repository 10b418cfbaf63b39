//! Which Services there are, found by UID and by what providers wrote on them: who may have the load balancer to which an offer
//! leads.
//!
//! Only those that may have one are in it, and only from the first question on: where nobody restores Services it costs nothing. A
//! question costs the same however many Services there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::ApiError;
use ccm_cloud::{Annotation, Mark};
use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::{SyncError, Task};
use super::key::{Key, key};
use super::predicates::has_finalizer;
use super::write::ServiceWriter;
use crate::view::service::is_load_balancer;

/// How long a list of the API server is good for, counted from its end; one that took longer is good for as long as it took. Nothing is missed
/// by that: this process made every load balancer since the list began, so its store has their Services. And whoever the list finds is asked
/// for once more.
const MIN_GOOD: Duration = Duration::from_secs(30);
/// So long a list that failed is not asked for again: whoever waited for it would wait as long once more, one after the other.
const MAX_FAILED: Duration = Duration::from_secs(5);
/// What is written on more Services than this says little about any of them, if something else says more.
const MANY: usize = 64;

/// Services, each once.
pub(crate) type Services = Vec<Arc<Service>>;

/// All Services that may have a load balancer.
#[derive(Default)]
pub(crate) struct Living {
    index: Mutex<Index>,
    listed: tokio::sync::Mutex<Option<Listed>>,
}

impl Living {
    /// A Service is another one now, or gone.
    pub(crate) fn note(&self, key: &Key, service: Option<&Service>) {
        let mut index = self.index.lock();
        if index.written.is_some() {
            index.note(key, service);
        }
    }

    /// The Service whose UID a mark is. `all` gives each Service in its newest state.
    pub(crate) fn marked(&self, all: impl FnOnce() -> Services, written: Vec<Annotation>, mark: &Mark) -> Option<Key> {
        self.filled(all, written, |index| index.uids.marked(mark).cloned())
    }

    /// Services that have one of these annotations with its value, beside the place of that from the
    /// rarest to the commonest: of those that many have, only if it is the rarest.
    pub(crate) fn having(
        &self,
        all: impl FnOnce() -> Services,
        written: Vec<Annotation>,
        annotations: &BTreeMap<&str, &str>,
    ) -> Vec<(usize, Key)> {
        self.filled(all, written, |index| {
            let pair = |(name, value): (&&str, &&str)| ((*name).to_owned(), value.to_ascii_lowercase());
            let mut all: Vec<&HashSet<Key>> =
                annotations.iter().filter_map(|one| index.annotated.get(&pair(one))).collect();
            all.sort_by_key(|keys| keys.len());
            let rare = all.into_iter().enumerate().filter(|(place, keys)| *place == 0 || keys.len() <= MANY);
            let mut found = HashSet::new();
            let rare = rare.flat_map(|(place, keys)| keys.iter().map(move |key| (place, key)));
            rare.filter(|(_, key)| found.insert(*key)).map(|(place, key)| (place, key.clone())).collect()
        })
    }

    fn filled<T>(&self, all: impl FnOnce() -> Services, written: Vec<Annotation>, look: impl FnOnce(&Index) -> T) -> T {
        let mut index = self.index.lock();
        if index.written.as_ref() != Some(&written) {
            *index = Index { written: Some(written), ..Index::default() };
            for service in all() {
                index.note(&key(&service), Some(&service));
            }
        }
        look(&index)
    }

    /// The Service whose UID a mark is, as the API server had it a moment ago: the store lacks those that nobody here can decode.
    ///
    /// # Errors
    ///
    /// The API server does not say.
    pub(crate) async fn listed(&self, writer: &ServiceWriter, mark: &Mark) -> Result<Option<Key>, SyncError> {
        let mut listed = self.listed.lock().await;
        match &*listed {
            Some(Listed::All(until, uids)) if Instant::now() < *until => return Ok(uids.marked(mark).cloned()),
            Some(Listed::Failed(since, error)) if since.elapsed() < MAX_FAILED => {
                return Err(SyncError::Api { task: Task::Adopt, error: error.clone() });
            }
            _ => {}
        }
        let begun = Instant::now();
        let mut uids = Uids::default();
        if let Err(error) = writer.list(|uid, key| uids.insert(uid, key)).await {
            *listed = Some(Listed::Failed(Instant::now(), error.clone()));
            return Err(SyncError::Api { task: Task::Adopt, error });
        }
        let marked = uids.marked(mark).cloned();
        *listed = Some(Listed::All(Instant::now() + begun.elapsed().max(MIN_GOOD), uids));
        Ok(marked)
    }

    /// How many Services were looked at so far.
    #[cfg(test)]
    pub(crate) fn looked(&self) -> usize {
        self.index.lock().looked
    }
}

/// What the API server said when it was asked for all Services.
enum Listed {
    /// Good until then.
    All(Instant, Uids),
    /// It did not say, at that time.
    Failed(Instant, ApiError),
}

/// Services by their UIDs, which marks shorten.
#[derive(Default)]
struct Uids(BTreeMap<String, Key>);

impl Uids {
    fn insert(&mut self, uid: &str, key: Key) {
        self.0.insert(plain(uid), key);
    }

    fn marked(&self, mark: &Mark) -> Option<&Key> {
        let start = plain(mark.uid.as_deref()?);
        let (uid, key) = self.0.range(start..).next()?;
        mark.is_of(uid).then_some(key)
    }
}

fn plain(uid: &str) -> String {
    uid.replace('-', "").to_ascii_lowercase()
}

/// The name of an annotation, and its value in small letters: clouds do not tell `ABC` from `abc`. Whoever is found is asked for
/// its own mark, so one too many does no harm.
type Pair = (String, String);

/// One Service as the index has it.
struct Known {
    uid: String,
    version: Option<String>,
    pairs: Vec<Pair>,
}

#[derive(Default)]
struct Index {
    /// The annotations that providers write. None as long as nobody has asked.
    written: Option<Vec<Annotation>>,
    uids: Uids,
    annotated: HashMap<Pair, HashSet<Key>>,
    known: HashMap<Key, Known>,
    #[cfg(test)]
    looked: usize,
}

impl Index {
    fn note(&mut self, key: &Key, service: Option<&Service>) {
        let version = service.and_then(|service| service.metadata.resource_version.clone());
        if version.is_some() && self.known.get(key).is_some_and(|known| known.version == version) {
            return;
        }
        #[cfg(test)]
        {
            self.looked += 1;
        }
        self.forget(key);
        let may_have_one = |service: &&Service| is_load_balancer(service) || has_finalizer(service);
        let Some(service) = service.filter(may_have_one) else { return };
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let written = self.written.as_deref().unwrap_or_default();
        let is_written = |name: &str| written.iter().any(|known| known.covers(name));
        let all = service.metadata.annotations.iter().flatten().filter(|(name, _)| is_written(name));
        let pairs: Vec<Pair> = all.map(|(name, value)| (name.clone(), value.to_ascii_lowercase())).collect();
        for pair in &pairs {
            self.annotated.entry(pair.clone()).or_default().insert(key.clone());
        }
        self.uids.insert(uid, key.clone());
        self.known.insert(key.clone(), Known { uid: plain(uid), version, pairs });
    }

    fn forget(&mut self, key: &Key) {
        let Some(Known { uid, pairs, .. }) = self.known.remove(key) else { return };
        if self.uids.0.get(&uid) == Some(key) {
            self.uids.0.remove(&uid);
        }
        for pair in pairs {
            if let Some(keys) = self.annotated.get_mut(&pair) {
                keys.remove(key);
                if keys.is_empty() {
                    self.annotated.remove(&pair);
                }
            }
        }
    }
}
