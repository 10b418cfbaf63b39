//! Waiting for the cluster to look as it should: by watching, so that a condition is seen the moment it holds.

use std::{collections::BTreeMap, fmt::Debug, future, pin::pin, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watch_object},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks of [`poll_until`].
const POLL: Duration = Duration::from_millis(20);

/// What can be awaited: anything that `kube` watches and that an error can show.
pub trait Watched: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static {}
impl<K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static> Watched for K {}

/// Waits until the Node exists and `condition` holds for it; returns it as it was then.
///
/// # Errors
/// It did not within `limit`; the error shows the Node as it was last seen.
pub async fn await_node(
    client: &Client,
    name: &str,
    limit: Duration,
    condition: impl FnMut(&Node) -> bool,
) -> Result<Node> {
    await_object(&Api::all(client.clone()), name, limit, condition).await
}

/// Waits until the object exists and `condition` holds for it; returns it as it was then. An API server that is away is
/// waited for.
///
/// # Errors
/// It did not within `limit`; the error shows the object as it was last seen, or why it could not be watched.
pub async fn await_object<K: Watched>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
    mut condition: impl FnMut(&K) -> bool,
) -> Result<K> {
    let states = watch_object(api.clone(), name).default_backoff();
    await_state(states, name, limit, |state: &Option<K>| state.as_ref().is_some_and(&mut condition))
        .await?
        .ok_or_else(|| anyhow!("{name} is gone"))
}

/// Waits until the object does not exist.
///
/// # Errors
/// It still did after `limit`; the error shows it.
pub async fn await_absent<K: Watched>(api: &Api<K>, name: &str, limit: Duration) -> Result<()> {
    let states = watch_object(api.clone(), name).default_backoff();
    await_state(states, name, limit, Option::is_none).await.map(drop)
}

/// Waits until `condition` holds for all objects that `api` and `selection` show, by name (`namespace/name` where there
/// are namespaces); returns them as they were then.
///
/// # Errors
/// It did not within `limit`; the error shows them as they were last seen.
pub async fn await_all<K: Watched>(
    api: &Api<K>,
    selection: watcher::Config,
    limit: Duration,
    mut condition: impl FnMut(&BTreeMap<String, K>) -> bool,
) -> Result<BTreeMap<String, K>> {
    let mut all = BTreeMap::new();
    let mut complete = false;
    let mut trouble = None;
    let mut events = pin!(watcher::watcher(api.clone(), selection).default_backoff());
    let waiting = async {
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => (all, complete) = (BTreeMap::new(), false),
                Ok(Event::InitDone) => complete = true,
                Ok(Event::InitApply(object) | Event::Apply(object)) => drop(all.insert(key(&object), object)),
                Ok(Event::Delete(object)) => drop(all.remove(&key(&object))),
                Err(error) => trouble = Some(error),
            }
            if complete && condition(&all) {
                return true;
            }
        }
        false
    };
    if let Ok(true) = tokio::time::timeout(limit, waiting).await {
        return Ok(all);
    }
    let seen: Vec<_> = all.values().map(show).collect();
    bail!("not as it should be within {limit:?}; {}{}", seen.join("\n"), said(trouble))
}

/// Looks every 20 ms, for what cannot be watched: processes, files.
///
/// # Errors
/// `condition` did not hold within `limit`; the error says `what` was waited for.
pub async fn poll_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waiting = async {
        while !condition() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(limit, waiting).await.with_context(|| format!("waited in vain for {limit:?}: {what}"))
}

async fn await_state<K: Watched>(
    states: impl Stream<Item = Result<Option<K>, watcher::Error>>,
    name: &str,
    limit: Duration,
    mut condition: impl FnMut(&Option<K>) -> bool,
) -> Result<Option<K>> {
    let mut last = None;
    let mut trouble = None;
    let wanted = states.filter_map(|state| {
        let state = match state {
            Ok(state) => {
                let holds = condition(&state);
                last.clone_from(&state);
                holds.then_some(state)
            }
            Err(error) => {
                trouble = Some(error);
                None
            }
        };
        future::ready(state)
    });
    if let Ok(Some(state)) = tokio::time::timeout(limit, pin!(wanted).next()).await {
        return Ok(state);
    }
    let seen = last.as_ref().map_or_else(|| "it does not exist".to_owned(), show);
    bail!("{name} is not as it should be within {limit:?}; {seen}{}", said(trouble))
}

fn key<K: Resource>(object: &K) -> String {
    let name = object.name_any();
    object.namespace().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
}

/// For people: without the fields that only the API server reads.
fn show<K: Watched>(object: &K) -> String {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    serde_json::to_string_pretty(&object).unwrap_or_else(|_| format!("{object:?}"))
}

fn said(trouble: Option<watcher::Error>) -> String {
    trouble.map(|error| format!("; last trouble: {:#}", anyhow!(error))).unwrap_or_default()
}
