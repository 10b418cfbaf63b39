//! Deletions that are about to happen, in a ConfigMap that the replicas share. A deletion is noted before the DELETE, so that the next leader
//! knows of it even if the Lease is lost right after the DELETE, and the Event is never written.
//!
//! The ConfigMap has one key for each deletion. A patch adds some keys, and removes those that count no more. So replicas that write at the
//! same time do not overwrite what others noted. Only deletions that count against the budget are noted.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccm_apiserver::{ApiError, ApiGate, Purpose};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::history::{Past, REPORTER, before_now};

/// Most deletions that are noted at a time, about 400 KiB of the 1 MiB that a ConfigMap may have. Default budgets come to it with more than
/// 20,000 Nodes. Further ones are in their Events alone.
const MAX_NOTED: usize = 2_000;

const GET: Purpose = Purpose { verb: "get", resource: "configmaps" };
const PATCH: Purpose = Purpose { verb: "patch", resource: "configmaps" };

/// Before a note is tried again for which the right seems to be missing: an API server that has just started says so before it has read the
/// rules. Together much shorter than a proof is valid.
const DENIED_PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// Where deletions are noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPlace {
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Its name. The host does not create it.
    pub config_map: String,
    /// Name of the Lease: managers of several clouds may share the ConfigMap.
    pub manager: String,
}

/// What stands there of a deletion.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Noted {
    at: Timestamp,
    /// Of the Node, empty when it had none.
    provider_id: String,
}

#[derive(Default)]
struct State {
    /// Keys of the ConfigMap, and when they count no more.
    noted: HashMap<String, Instant>,
    /// Keys and values that are to be written.
    waiting: BTreeMap<String, String>,
    /// Of those that waited while another one wrote theirs, in vain.
    failed: HashMap<String, ApiError>,
}

/// What a ConfigMap is known by. Without that, an answer is of something in between, and says nothing of what is noted.
fn known(metadata: &ObjectMeta) -> Option<&str> {
    metadata.name.as_deref().or(metadata.resource_version.as_deref())
}

/// Notes deletions.
pub(crate) struct Journal {
    gate: ApiGate,
    place: JournalPlace,
    /// For so long a deletion counts.
    period: Duration,
    state: Mutex<State>,
    /// One writes for all who wait, so that many deletions are few requests.
    turn: tokio::sync::Mutex<()>,
    /// It was told that nothing can be noted.
    is_told: AtomicBool,
}

impl Journal {
    pub(crate) fn new(gate: ApiGate, place: JournalPlace, period: Duration) -> Self {
        let (state, turn, is_told) = (Mutex::default(), tokio::sync::Mutex::default(), AtomicBool::new(false));
        Self { gate, place, period, state, turn, is_told }
    }

    /// What was noted within the last period, by whoever led before. That need not be all: it may have had no right to note anything, or no
    /// ConfigMap, or no room.
    ///
    /// # Errors
    ///
    /// The API server did not answer, or said no.
    pub(crate) async fn read(&self) -> Result<Vec<Past>, ApiError> {
        let map = self.gate.read(GET, self.maps().get(&self.place.config_map)).await?;
        let map = ApiError::unless_uid(map, |map| known(&map.metadata))?;
        let data = map.data.unwrap_or_default();
        let mut state = self.state.lock();
        let mut deletions = Vec::new();
        for (key, text) in data {
            let Some(uid) = self.uid(&key) else { continue };
            let read = serde_json::from_str::<Noted>(&text).ok();
            let read = read.and_then(|noted| Some((before_now(noted.at)?, noted.provider_id)));
            let until = read.as_ref().map_or_else(Instant::now, |(at, _)| *at + self.period);
            if let Some((at, provider_id)) = read.filter(|_| until > Instant::now()) {
                deletions.push(Past { at, uid: uid.to_owned(), provider_id: Some(provider_id) });
            }
            state.noted.insert(key, until);
        }
        Ok(deletions)
    }

    /// Notes that the Node with this UID is about to be deleted. Where the API server refuses that for good, nothing is noted.
    ///
    /// # Errors
    ///
    /// Nobody knows whether it is noted: the Node must not be deleted now.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, it may be noted.
    pub(crate) async fn note(&self, uid: &str, provider_id: &str) -> Result<(), ApiError> {
        let key = self.key(uid);
        let noted = Noted { at: Timestamp::now(), provider_id: provider_id.to_owned() };
        let text = serde_json::to_string(&noted).unwrap_or_default();
        {
            let mut state = self.state.lock();
            state.failed.remove(&key);
            state.waiting.insert(key.clone(), text);
        }
        let _turn = self.turn.lock().await;
        let now = Instant::now();
        let (batch, data) = {
            let mut state = self.state.lock();
            if let Some(error) = state.failed.remove(&key) {
                return Err(error);
            }
            if !state.waiting.contains_key(&key) {
                return Ok(());
            }
            let room = MAX_NOTED.saturating_sub(state.noted.values().filter(|until| **until > now).count());
            let batch = state.waiting.clone();
            let expired =
                state.noted.iter().filter(|(_, until)| **until <= now).map(|(key, _)| (key.clone(), json!(null)));
            let new = batch.iter().take(room).map(|(key, text)| (key.clone(), json!(text)));
            let data: Map<String, Value> = expired.chain(new).collect();
            (batch, data)
        };
        let written = if data.is_empty() { Ok(()) } else { self.write(&data).await };
        let mut state = self.state.lock();
        for (one, text) in &batch {
            if state.waiting.get(one) == Some(text) {
                state.waiting.remove(one);
            }
            if let Err(error) = &written
                && *one != key
            {
                state.failed.insert(one.clone(), error.clone());
            }
        }
        if written.is_ok() {
            for (one, value) in data {
                match value {
                    Value::Null => state.noted.remove(&one),
                    _ => state.noted.insert(one, now + self.period),
                };
            }
        }
        written
    }

    /// The Node was not deleted after all: what was noted goes with the next one.
    pub(crate) fn forget(&self, uid: &str) {
        if let Some(until) = self.state.lock().noted.get_mut(&self.key(uid)) {
            *until = Instant::now();
        }
    }

    /// Fails where it is not known whether that was written.
    async fn write(&self, data: &Map<String, Value>) -> Result<(), ApiError> {
        let params = PatchParams { field_manager: Some(REPORTER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "data": data }));
        let (maps, mut pauses) = (self.maps(), DENIED_PAUSES.into_iter());
        let written = loop {
            let answer = self.gate.write(PATCH, maps.patch_metadata(&self.place.config_map, &params, &patch)).await;
            match answer.and_then(|answer| ApiError::unless_uid(answer, |answer| known(&answer.metadata))) {
                // A right that was missing the last time as well is not waited for again.
                Err(error) if error.is_denied() && !self.is_told.load(Ordering::Relaxed) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => break Err(error),
                },
                written => break written,
            }
        };
        match written {
            Ok(_) => self.is_told.store(false, Ordering::Relaxed),
            // Whoever may not note, or has no ConfigMap, still deletes Nodes: the Events are read as well.
            Err(
                error @ (ApiError::Denied { .. }
                | ApiError::Refused { .. }
                | ApiError::NotFound
                | ApiError::NamespaceEnding(_)),
            ) => self.tell(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Says, once, that nothing can be noted.
    pub(crate) fn tell(&self, error: &ApiError) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let JournalPlace { namespace, config_map, .. } = &self.place;
            tracing::warn!(
                %error,
                "deletions of Nodes cannot be noted in the ConfigMap {namespace}/{config_map}: if the leader changes right after some, the next one may delete as many again; apply your overlay again"
            );
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.gate.client(), &self.place.namespace)
    }

    fn prefix(&self) -> String {
        format!("node-deletion.{}.", self.place.manager)
    }

    fn key(&self, uid: &str) -> String {
        self.prefix() + uid
    }

    /// None for keys of others: a manager's name may begin with that of another one.
    fn uid<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(&self.prefix()).filter(|uid| !uid.contains('.'))
    }
}
