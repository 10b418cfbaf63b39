//! The import `cache`: bytes that outlive a call. Bounded, per provider, empty after a restart.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::Weighter;
use tokio::time::Instant;

/// Longest key, in bytes; a longer one is not kept.
pub(crate) const MAX_KEY: usize = 1024;

#[derive(Clone)]
struct CachedValue {
    /// Whoever reads it shares it: a copy is counted by whoever makes one.
    value: Bytes,
    /// None: longer than the clock can say.
    expires: Option<Instant>,
}

#[derive(Clone)]
struct Weight;

/// What an entry takes besides key and value: 4 MiB of empty values once took 140 MB.
const ENTRY_BYTES: usize = 256;

impl Weighter<String, CachedValue> for Weight {
    fn weight(&self, key: &String, entry: &CachedValue) -> u64 {
        let bytes = key.len().saturating_add(entry.value.len()).saturating_add(ENTRY_BYTES);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// A cache of at most so many bytes. What is used least goes first.
pub struct Cache {
    /// Not the variant with shards: each of those would have its part of the capacity, and one value may be as large as nearly all of it.
    entries: Mutex<quick_cache::unsync::Cache<String, CachedValue, Weight>>,
    capacity: u64,
}

impl Cache {
    /// Most bytes of keys and values of one provider, unless set otherwise: a listing of 5,000 machines with the five fields
    /// that the contract asks for takes about 2 MiB.
    pub const DEFAULT_BYTES: u64 = 4 << 20;

    /// An empty cache of `capacity` bytes: keys, values, and 256 for each of them.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let entries = quick_cache::unsync::Cache::with_weighter(1024, capacity, Weight);
        Self { entries: Mutex::new(entries), capacity }
    }

    /// The value of `key`, while it lives and was not pushed out.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Bytes> {
        let mut entries = self.entries.lock();
        let entry = entries.get(key).cloned()?;
        if entry.expires.is_some_and(|end| end <= Instant::now()) {
            entries.remove(key);
            return None;
        }
        Some(entry.value)
    }

    /// Keeps `value` for `ttl` or less. What does not fit at all is not kept.
    pub fn put(&self, key: String, value: Vec<u8>, ttl: Duration) {
        let entry = CachedValue { value: value.into(), expires: Instant::now().checked_add(ttl) };
        let mut entries = self.entries.lock();
        if key.len() > MAX_KEY || Weight.weight(&key, &entry) > self.capacity {
            entries.remove(&key);
            return;
        }
        entries.insert(key, entry);
    }

    /// Drops `key`.
    pub fn forget(&self, key: &str) {
        self.entries.lock().remove(key);
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }

    /// Bytes that are kept now, counted as for the capacity.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.lock().weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_gone_when_its_time_is_over() {
        let cache = Cache::new(100_000);
        cache.put("k".into(), b"v".to_vec(), Duration::from_secs(10));
        assert_eq!(cache.get("k"), Some(Bytes::from_static(b"v")));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get("k"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_holds_more_than_its_capacity_whatever_is_put_in() {
        let cache = Cache::new(100_000);
        for i in 0..1000 {
            cache.put(format!("key-{i}"), vec![0; 500], Duration::MAX);
            assert!(cache.bytes() <= 100_000, "{} bytes after {i} entries", cache.bytes());
        }
        cache.put("too large".into(), vec![0; 100_001], Duration::MAX);
        cache.put("k".repeat(MAX_KEY + 1), vec![0], Duration::MAX);
        assert_eq!((cache.get("too large"), cache.get(&"k".repeat(MAX_KEY + 1))), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn entries_without_a_value_fill_it_too() {
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        for i in 0..100_000 {
            cache.put(format!("{i}"), vec![], Duration::MAX);
        }
        let entries = cache.entries.lock().len();
        assert!(entries < 16_384, "{entries} entries");
    }

    /// The capacity was divided into four parts for each processor: with two processors, no value of 512 KiB was kept, and with eight none of 128.
    #[tokio::test(start_paused = true)]
    async fn one_value_may_take_nearly_all_the_room_however_many_processors_there_are() {
        let cache = Cache::new(Cache::DEFAULT_BYTES);
        let value = vec![7; 3 << 20];
        cache.put("k".into(), value.clone(), Duration::MAX);
        assert_eq!(cache.get("k").map(Vec::from), Some(value));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_forgotten_or_replaced_is_not_read_again() {
        let cache = Cache::new(100_000);
        cache.put("k".into(), b"old".to_vec(), Duration::MAX);
        cache.put("k".into(), b"new".to_vec(), Duration::MAX);
        assert_eq!(cache.get("k"), Some(Bytes::from_static(b"new")));
        cache.forget("k");
        assert_eq!(cache.get("k"), None);
        cache.put("k".into(), b"new".to_vec(), Duration::MAX);
        cache.clear();
        assert_eq!((cache.get("k"), cache.bytes()), (None, 0));
    }
}
