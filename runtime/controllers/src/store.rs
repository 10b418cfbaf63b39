//! One shared reflector per kind: the newest state of all objects, and who changed.
//!
//! Controllers read the [`Store`] and get the keys of changed objects through [`ReflectorHandle::subscribe`]; a key is told
//! after the store has the change. Whoever subscribes late gets the keys of all objects first, so a reflector can run while
//! nobody works yet. Objects that cannot be decoded, or are too large, are left out, or stay as they were: one odd object must not blind the
//! process. What nobody reads is dropped before an object is stored.

mod decode;
mod lists;
mod node;
mod pairs;
mod service;
mod unread;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use ccm_apiserver::{causes, patient};
use futures::StreamExt as _;
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::capped;
use crate::metrics::{StoreMeters, StoreMetrics, now_seconds};
use crate::object_name::ObjectName as _;
pub use decode::Stored;
pub(crate) use decode::{DeserializeGuard, Identified};
pub(crate) use lists::{Age, Lists};
pub use node::Node;
pub(crate) use pairs::Pairs;
use unread::Notes;
#[cfg(test)]
pub(crate) use unread::Reach;
pub(crate) use unread::{Shown, Unread, UnreadObject};

/// Keys that wait for one subscriber. When it is full the watch waits: queues empty it at once.
const SUBSCRIBER_BOUND: usize = 1_024;
/// Shortest and longest time between two attempts to watch.
const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// What worked for so long is tried again at once when it fails.
const LONG: Duration = Duration::from_secs(60);
/// Whether the store has been filled once, and what keeps it from that. Cheap to clone.
///
/// `Store::wait_until_ready` must not be used where several tasks wait: it wakes only the one that asked last.
#[derive(Debug, Clone)]
pub struct FirstList {
    state: watch::Receiver<Result<(), String>>,
    lists: Lists,
    unread: watch::Receiver<Unread>,
}

impl FirstList {
    /// As if the list were there.
    #[cfg(test)]
    pub(crate) fn there() -> Self {
        Self::of(watch::channel(Ok(())).1)
    }

    /// As a test says.
    #[cfg(test)]
    pub(crate) fn of(state: watch::Receiver<Result<(), String>>) -> Self {
        Self { state, lists: Lists::default(), unread: watch::channel(Unread::new()).1 }
    }

    /// The same where some objects cannot be read.
    #[cfg(test)]
    pub(crate) fn with_unread(self, unread: watch::Receiver<Unread>) -> Self {
        Self { unread, ..self }
    }

    /// For who compares states of objects.
    pub(crate) fn lists(&self) -> Lists {
        self.lists.clone()
    }

    /// Objects that cannot be read. Whoever reads the store while borrowing them sees both as they were at one moment.
    pub(crate) fn unread(&self) -> watch::Receiver<Unread> {
        self.unread.clone()
    }

    /// Waits for the first complete list. False when the reflector ended before.
    pub async fn complete(mut self) -> bool {
        self.state.wait_for(Result::is_ok).await.is_ok()
    }

    /// How it stands now.
    ///
    /// # Errors
    ///
    /// The list is not complete: why, in words.
    pub fn state(&self) -> Result<(), String> {
        self.state.borrow().clone()
    }

    /// Waits until the state is another one. False when the reflector ended before.
    pub async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }
}

/// What a controller takes from a reflector, also while that runs. Cheap to clone.
#[derive(Clone)]
pub struct ReflectorHandle<K>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    reader: Store<K>,
    first_list: FirstList,
    newcomers: mpsc::UnboundedSender<mpsc::Sender<ObjectRef<K>>>,
}

impl<K> ReflectorHandle<K>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    /// The store.
    #[must_use]
    pub fn reader(&self) -> Store<K> {
        self.reader.clone()
    }

    /// Tells when the store has been filled.
    #[must_use]
    pub fn first_list(&self) -> FirstList {
        self.first_list.clone()
    }

    /// As [`Reflector::subscribe`], with the keys of all objects that are in the store first. When the reflector has ended,
    /// the receiver ends too.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::Receiver<ObjectRef<K>> {
        let (sender, receiver) = mpsc::channel(SUBSCRIBER_BOUND);
        // An error means that the reflector has ended; then `sender` goes with it.
        drop(self.newcomers.send(sender));
        receiver
    }
}

/// A watch, the store that it feeds, and those who want to know.
pub struct Reflector<K: Stored> {
    api: Api<DeserializeGuard<K>>,
    writer: Writer<K>,
    reader: Store<K>,
    first_list: watch::Sender<Result<(), String>>,
    lists: Lists,
    subscribers: Vec<mpsc::Sender<ObjectRef<K>>>,
    /// Who subscribes while it runs. Unbounded, as each controller comes once.
    newcomers: mpsc::UnboundedReceiver<mpsc::Sender<ObjectRef<K>>>,
    /// For handles.
    door: mpsc::UnboundedSender<mpsc::Sender<ObjectRef<K>>>,
    undecodable: HashSet<ObjectRef<K>>,
    /// Of which something is left out.
    shortened: HashSet<ObjectRef<K>>,
    unread: Notes,
    meters: StoreMeters,
    failing: bool,
}

impl<K: Stored> Reflector<K> {
    /// A reflector of all objects of a kind, in all namespaces. Nothing is read before [`run`](Self::run). A page of a list that cannot be had
    /// for the moment is [asked for again](patient).
    #[must_use]
    pub fn new(client: Client, metrics: &StoreMetrics) -> Self {
        let writer = Writer::default();
        let reader = writer.as_reader();
        let (door, newcomers) = mpsc::unbounded_channel();
        Self {
            api: Api::all(patient(client)),
            writer,
            reader,
            first_list: watch::Sender::new(Err("the first list is not complete".to_owned())),
            lists: Lists::default(),
            subscribers: Vec::new(),
            newcomers,
            door,
            undecodable: HashSet::new(),
            shortened: HashSet::new(),
            unread: Notes::new(),
            meters: metrics.of(&K::kind(&())),
            failing: false,
        }
    }

    /// The store.
    #[must_use]
    pub fn reader(&self) -> Store<K> {
        self.reader.clone()
    }

    /// Tells when the store has been filled.
    #[must_use]
    pub fn first_list(&self) -> FirstList {
        FirstList { state: self.first_list.subscribe(), lists: self.lists.clone(), unread: self.unread.subscribe() }
    }

    /// For those who may subscribe while it runs.
    #[must_use]
    pub fn handle(&self) -> ReflectorHandle<K> {
        ReflectorHandle { reader: self.reader(), first_list: self.first_list(), newcomers: self.door.clone() }
    }

    /// Keys of objects that were added, changed or deleted, and of all objects after each new list. Whoever subscribes must
    /// keep reading: a full channel holds up the watch. Dropping the receiver ends the subscription.
    #[must_use]
    pub fn subscribe(&mut self) -> mpsc::Receiver<ObjectRef<K>> {
        let (sender, receiver) = mpsc::channel(SUBSCRIBER_BOUND);
        self.subscribers.push(sender);
        receiver
    }

    /// Watches until `shutdown`. Failures are waited out with back-off.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut events = watcher(self.api.clone(), config::<K>()).boxed();
        let mut delays = delays();
        let mut pause: Option<Instant> = None;
        let mut failed: Option<Instant> = None;
        loop {
            let event = tokio::select! {
                () = shutdown.cancelled() => return,
                // Never closed: `door` is its other end.
                Some(newcomer) = self.newcomers.recv() => {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = self.welcome(newcomer) => continue,
                    }
                }
                () = tokio::time::sleep_until(pause.unwrap_or_else(Instant::now)), if pause.is_some() => {
                    pause = None;
                    continue;
                }
                event = events.next(), if pause.is_none() => event,
            };
            let told = match event {
                Some(Ok(event)) => {
                    // Each attempt begins with `Init`, also one that will fail.
                    if !matches!(event, watcher::Event::Init) {
                        self.recovered();
                    }
                    // A list that can be had says nothing about the watch.
                    if matches!(event, watcher::Event::Apply(_) | watcher::Event::Delete(_)) {
                        delays = self::delays();
                    }
                    self.take(event)
                }
                Some(Err(error)) => {
                    let now = Instant::now();
                    if failed.replace(now).is_some_and(|last| now.duration_since(last) > LONG) {
                        delays = self::delays();
                    }
                    let delay = delays.next().unwrap_or(MAX_DELAY);
                    self.failed(error, delay);
                    pause = Some(now + delay);
                    // With a list. A watch that goes on where it was hears nothing, when etcd was restored from a backup
                    // meanwhile, before the resource versions have come that far again.
                    events = watcher(self.api.clone(), config::<K>()).boxed();
                    continue;
                }
                None => return,
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.tell(told) => {}
            }
        }
    }

    /// Stores what happened, and returns the keys to tell.
    fn take(&mut self, event: watcher::Event<DeserializeGuard<K>>) -> Vec<ObjectRef<K>> {
        self.meters.last_event.set(now_seconds());
        let told = match event {
            watcher::Event::Apply(guard) => {
                if let Some((key, object)) = unreadable(&guard) {
                    let is_shown = self.last_good(&guard).is_some();
                    self.unread.came(&key, object, is_shown);
                }
                self.decoded(guard).map_or_else(Vec::new, |object| {
                    let (key, writer) = (stored_key(&object), &mut self.writer);
                    self.unread.went(&key, || writer.apply_watcher_event(&watcher::Event::Apply(object)));
                    vec![key]
                })
            }
            watcher::Event::Delete(guard) => {
                let key = key(&guard);
                self.undecodable.remove(&key);
                self.shortened.remove(&key);
                let gone = match guard.object {
                    Ok(object) if guard.metadata.name.is_some() => Some(object),
                    // The store takes whole objects only; the old one is as good to say which.
                    _ => self.reader.get(&key).map(|old| K::clone(&old)),
                };
                let writer = &mut self.writer;
                self.unread.went(&key, || {
                    if let Some(gone) = gone {
                        writer.apply_watcher_event(&watcher::Event::Delete(gone));
                    }
                });
                vec![key]
            }
            watcher::Event::Init => {
                self.lists.begins();
                self.unread.begins();
                self.writer.apply_watcher_event(&watcher::Event::Init);
                vec![]
            }
            watcher::Event::InitApply(guard) => {
                let last_good = self.last_good(&guard);
                if let Some((key, object)) = unreadable(&guard) {
                    self.unread.listed(&key, object, last_good.is_some());
                }
                if let Some(object) = self.decoded(guard).or(last_good) {
                    self.writer.apply_watcher_event(&watcher::Event::InitApply(object));
                }
                vec![]
            }
            watcher::Event::InitDone => {
                let mut keys: HashSet<_> = self.reader.state().iter().map(|object| stored_key(&**object)).collect();
                let writer = &mut self.writer;
                self.unread.is_stored(|| writer.apply_watcher_event(&watcher::Event::InitDone));
                self.forget_what_is_gone();
                self.lists.is_stored();
                drop(self.first_list.send_replace(Ok(())));
                keys.extend(self.reader.state().iter().map(|object| stored_key(&**object)));
                keys.into_iter().collect()
            }
        };
        self.meters.objects.set(i64::try_from(self.reader.len()).unwrap_or(i64::MAX));
        told
    }

    /// After a list. What went while the watch was away was told by no event.
    fn forget_what_is_gone(&mut self) {
        let Self { reader, unread, undecodable, shortened, .. } = self;
        undecodable.retain(|key| unread.has(key));
        shortened.retain(|key| reader.get(key).is_some());
    }

    /// For an object that cannot be decoded, its state when it could be. In a list, whatever is missing is gone, and what
    /// belongs to it in the cloud would go too.
    fn last_good(&self, guard: &DeserializeGuard<K>) -> Option<K> {
        if guard.object.is_ok() {
            return None;
        }
        let old = self.reader.get(&key(guard))?;
        (old.uid().as_deref() == guard.metadata.uid.as_deref()).then(|| K::clone(&old))
    }

    /// The object. Says once per object that it is left out, or a part of it, and once that it is back.
    fn decoded(&mut self, guard: DeserializeGuard<K>) -> Option<K> {
        let key = key(&guard);
        match guard.object {
            // The store cannot take what has no name.
            Ok(_) if guard.metadata.name.is_none() => {
                self.meters.undecodable.inc();
                None
            }
            Ok(object) => {
                if self.undecodable.remove(&key) {
                    tracing::info!(object = %key.object_name(), "object can be decoded again");
                }
                match guard.surplus {
                    Some(why) if self.shortened.insert(key.clone()) => {
                        tracing::warn!(object = %key.object_name(), why, "a part of an object is left out");
                    }
                    None if self.shortened.remove(&key) => {
                        tracing::info!(object = %key.object_name(), "no part of the object is left out any more");
                    }
                    Some(_) | None => {}
                }
                Some(object)
            }
            Err(error) => {
                self.meters.undecodable.inc();
                if self.undecodable.insert(key.clone()) {
                    tracing::error!(object = %key.object_name(), %error, "object cannot be decoded and is left out");
                }
                None
            }
        }
    }

    fn failed(&mut self, error: watcher::Error, delay: Duration) {
        self.meters.failures.inc();
        let error = tell_watch(error);
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(kind = %K::kind(&()), error, retry_in = ?delay, "watch failed again");
        } else {
            tracing::warn!(kind = %K::kind(&()), error, retry_in = ?delay, "cannot watch, trying again with back-off");
        }
        let trouble = |state: &mut Result<(), String>| match state {
            Ok(()) => false,
            Err(why) => {
                *why = format!("the first list is not complete: {error}");
                true
            }
        };
        self.first_list.send_if_modified(trouble);
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = %K::kind(&()), "watch goes on");
        }
    }

    /// Tells a new subscriber what there is; from then on it is told what changes.
    async fn welcome(&mut self, newcomer: mpsc::Sender<ObjectRef<K>>) {
        for object in self.reader.state() {
            // An error means that the subscriber is gone.
            drop(newcomer.send(stored_key(&*object)).await);
        }
        self.subscribers.push(newcomer);
    }

    async fn tell(&mut self, keys: Vec<ObjectRef<K>>) {
        for key in keys {
            for subscriber in &self.subscribers {
                // An error means that the subscriber is gone.
                drop(subscriber.send(key.clone()).await);
            }
        }
        self.subscribers.retain(|subscriber| !subscriber.is_closed());
    }
}

fn config<K: Stored>() -> watcher::Config {
    watcher::Config::default().page_size(K::PAGE_SIZE)
}

/// Between two attempts to watch.
fn delays() -> impl Iterator<Item = Duration> {
    let delays = ExponentialBuilder::new().with_min_delay(MIN_DELAY).with_max_delay(MAX_DELAY);
    delays.with_jitter().without_max_times().build().map(|delay| capped(delay, MAX_DELAY))
}

/// As [`causes`], with the API server's own words where it said something.
fn tell_watch(error: watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => format!("{} ({})", status.message, status.code),
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        other => causes(&other),
    }
}

/// Name and namespace, without anything that changes.
fn key<K: Stored>(guard: &DeserializeGuard<K>) -> ObjectRef<K> {
    key_of(guard.metadata.name.as_deref(), guard.metadata.namespace.as_deref())
}

/// Its key, and what is noted of it where it cannot be read.
fn unreadable<K: Stored>(guard: &DeserializeGuard<K>) -> Option<(ObjectRef<K>, UnreadObject)> {
    let why = guard.object.as_ref().err()?;
    let uid = guard.metadata.uid.as_deref().unwrap_or_default();
    guard.metadata.name.is_some().then(|| (key(guard), UnreadObject::new(uid, why, guard.reach)))
}

/// The same of an object in the store.
fn stored_key<K: Stored>(object: &K) -> ObjectRef<K> {
    key_of(object.name().as_deref(), object.namespace().as_deref())
}

fn key_of<K: Stored>(name: Option<&str>, namespace: Option<&str>) -> ObjectRef<K> {
    let key = ObjectRef::new(name.unwrap_or_default());
    match namespace {
        Some(namespace) => key.within(namespace),
        None => key,
    }
}
