//! Kubernetes Events: queued, so that nobody waits for them, and written by a few workers.
//!
//! Senders wait when the queue is full, so that a burst loses none, but not for long: who reports may hold a lock, and work
//! goes before the news of it. Events of providers are the exception, since [`EventSink::emit`] cannot wait. What finds no
//! room is counted. Events about one object are written one after the other, in order; the same one again raises the count of the
//! first one.
//!
//! `kube::runtime::events::Recorder` is not used: its cache ignores the message, so that a new text about an old problem
//! would be written as a repetition of the old text, and it does not come back from the expiry of an Event.

mod dedup;
mod lines;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use ccm_cloud::{EventSink, Severity, Subject};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api_gate::{ApiError, ApiGate, Purpose};
use crate::metrics::EventMetrics;
use dedup::{DedupKey, EventDedup, Occurrence};
use lines::Lines;
use request::Object;
pub use request::{EventRequest, cut, node_reference, service_reference};

/// Namespace of Events about objects that have none, as upstream.
pub const NODE_EVENTS: &str = "default";
/// Most bytes of a note; the API server refuses longer ones.
const MAX_NOTE: usize = 1_024;
/// Most bytes of a reason, an action and a reporting instance.
const MAX_WORD: usize = 128;
/// Most bytes of the object's name in the Event's name: 253 less a dot and 16 digits.
const MAX_NAME: usize = 253 - 17;
/// Longest queue that can be set.
const MAX_QUEUE: usize = 1 << 20;
/// How often one Event is sent before it is given up: a minute and a half with the delays between.
const MAX_ATTEMPTS: usize = 12;
/// The same when the permission is lacking: six to twelve seconds, for an API server that has just started and has not read
/// the rules yet.
const MAX_DENIED_ATTEMPTS: usize = 7;

const CREATE: Purpose = Purpose { verb: "create", resource: "events" };
const PATCH: Purpose = Purpose { verb: "patch", resource: "events" };

/// How Events are written.
#[derive(Debug, Clone)]
pub struct EventSettings {
    /// Most Events that wait. Default 8,192: one for each of 8,000 Nodes that register at once, about 2 MiB while they wait.
    /// More than a million counts as a million. As many again may wait for an Event about the same object.
    pub queue: NonZeroUsize,
    /// How long who reports waits when the queue is full. Default 2 s: a queue that moves has room for all who work at the
    /// same time by then. After that the Event is counted as dropped, and so is each further one at once until there is room.
    pub room_timeout: Duration,
    /// Most Events that are being written at the same time, each about another object. Default 16: beside the 128 writes that
    /// wait at the same gate they are few, and when those are done they are as fast as the API server lets them.
    pub concurrency: usize,
    /// How long waiting Events may still be written after the stop signal. Default 5 s. The rest is counted as dropped.
    pub drain_timeout: Duration,
    /// `reportingInstance`: the Pod or the host. Default `wasm-ccm`.
    pub instance: String,
    /// The object that Events of a provider about itself are shown at: the host's own Pod. Default none: they are logged.
    pub provider_subject: Option<ObjectReference>,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            queue: NonZeroUsize::MIN.saturating_add(8_191),
            room_timeout: Duration::from_secs(2),
            concurrency: 16,
            drain_timeout: Duration::from_secs(5),
            instance: "wasm-ccm".into(),
            provider_subject: None,
        }
    }
}

/// Takes Events. Cheap to clone.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<EventRequest>,
    metrics: EventMetrics,
    provider_subject: Option<Arc<ObjectReference>>,
    room_timeout: Duration,
    /// Somebody waited for room in vain, and there was none since.
    is_stuck: Arc<AtomicBool>,
}

impl EventRecorder {
    /// The handle, and the worker behind it, which the caller runs.
    #[must_use]
    pub fn new(gate: ApiGate, metrics: EventMetrics, settings: EventSettings) -> (Self, EventWriter) {
        let (queue, requests) = mpsc::channel(settings.queue.get().min(MAX_QUEUE));
        let provider_subject = settings.provider_subject.clone().map(Arc::new);
        let recorder = Self {
            queue,
            metrics: metrics.clone(),
            provider_subject,
            room_timeout: settings.room_timeout,
            is_stuck: Arc::default(),
        };
        let publisher = Publisher {
            gate,
            metrics,
            settings,
            dedup: Mutex::default(),
            newest: Mutex::default(),
            is_denied: AtomicBool::new(false),
        };
        (recorder, EventWriter { requests, publisher })
    }

    /// Queues an Event. While the queue is full it waits, for [`EventSettings::room_timeout`] at most; then the Event is
    /// dropped.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the Event may be lost.
    pub async fn record(&self, request: EventRequest) {
        self.metrics.waiting.inc();
        let request = match self.queue.try_send(request) {
            Ok(()) => return self.is_stuck.store(false, Ordering::Relaxed),
            Err(TrySendError::Closed(_)) => return self.lost("the host is stopping"),
            Err(TrySendError::Full(_)) if self.is_stuck.load(Ordering::Relaxed) => {
                return self.lost("the queue is full");
            }
            Err(TrySendError::Full(request)) => request,
        };
        match self.queue.send_timeout(request, self.room_timeout).await {
            Ok(()) => {}
            Err(SendTimeoutError::Closed(_)) => self.lost("the host is stopping"),
            Err(SendTimeoutError::Timeout(_)) => {
                if !self.is_stuck.swap(true, Ordering::Relaxed) {
                    let waited = self.room_timeout;
                    tracing::warn!(
                        ?waited,
                        "Events cannot be written in time: they are dropped until there is room again"
                    );
                }
                self.lost("the queue is full");
            }
        }
    }

    fn lost(&self, why: &str) {
        self.metrics.dropped.inc();
        self.metrics.waiting.dec();
        tracing::debug!(why, "Event dropped");
    }
}

impl EventSink for EventRecorder {
    fn emit(&self, about: Subject, severity: Severity, reason: String, message: String) {
        let about = match about {
            Subject::Node { name, uid } => node_reference(&name, &uid),
            Subject::Service { namespace, name, uid } => service_reference(&namespace, &name, &uid),
            Subject::Provider => match &self.provider_subject {
                Some(subject) => ObjectReference::clone(subject),
                None => {
                    tracing::info!(target: "provider", ?severity, reason, message, "event of the provider");
                    return;
                }
            },
        };
        let reason = if reason.is_empty() { "ProviderEvent".into() } else { reason };
        let (action, reporter, annotations) = ("Provider", "wasm-ccm-provider", BTreeMap::new());
        let request = EventRequest { about, severity, reason, action, message, reporter, annotations };
        self.metrics.waiting.inc();
        if self.queue.try_send(request).is_err() {
            self.lost("the queue is full");
        }
    }
}

/// Writes the Events of an [`EventRecorder`].
pub struct EventWriter {
    requests: mpsc::Receiver<EventRequest>,
    publisher: Publisher,
}

struct Publisher {
    gate: ApiGate,
    metrics: EventMetrics,
    settings: EventSettings,
    dedup: Mutex<EventDedup>,
    /// The newest time that is part of a name, in nanoseconds: no two Events get the same.
    newest: Mutex<i128>,
    /// The last Event was given up since the permission is lacking.
    is_denied: AtomicBool,
}

impl EventWriter {
    /// Writes Events until `shutdown`, then what is waiting, as far as [`EventSettings::drain_timeout`] allows. Signal the
    /// shutdown when the controllers have ended, so that their last Events are among the waiting ones.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { mut requests, publisher } = self;
        let settings = &publisher.settings;
        let most_in_lines = settings.queue.get().min(MAX_QUEUE);
        let publish = |request: EventRequest| async {
            let object = Object::of(&request);
            publisher.publish(request).await;
            object
        };
        let mut lines = Lines::default();
        let mut writing = FuturesUnordered::new();
        let mut end: Option<Instant> = None;
        let mut open = true;
        while open || !writing.is_empty() {
            let has_room = writing.len() < settings.concurrency.max(1) && lines.len() < most_in_lines;
            tokio::select! {
                () = shutdown.cancelled(), if end.is_none() => {
                    end = Some(Instant::now() + settings.drain_timeout);
                    requests.close();
                }
                () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => break,
                Some(object) = writing.next() => writing.extend(lines.next(&object).map(publish)),
                request = requests.recv(), if open && has_room => match request {
                    Some(request) => writing.extend(lines.begin(request).map(publish)),
                    None => open = false,
                },
            }
        }
        let mut lost = writing.len() + lines.len();
        while requests.try_recv().is_ok() {
            lost += 1;
        }
        if lost > 0 {
            publisher.metrics.dropped.inc_by(u64::try_from(lost).unwrap_or(u64::MAX));
            tracing::warn!(lost, "stopped before all Events were written");
        }
        publisher.metrics.waiting.set(0);
    }
}

impl Publisher {
    async fn publish(&self, request: EventRequest) {
        let mut delays = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(10))
            .with_max_times(MAX_ATTEMPTS - 1)
            .with_jitter()
            .build();
        let mut unanswered = None;
        let mut denied = 0;
        let failure = loop {
            let error = match self.write(&request, &mut unanswered).await {
                Ok(()) => break None,
                Err(error) => error,
            };
            match (error, delays.next()) {
                (error, Some(delay)) if error.is_denied() => {
                    denied += 1;
                    // Where there is no permission at all, Events must not wait one after the other.
                    if denied >= MAX_DENIED_ATTEMPTS || self.is_denied.load(Ordering::Relaxed) {
                        self.is_denied.store(true, Ordering::Relaxed);
                        break Some(error);
                    }
                    tokio::time::sleep(delay).await;
                }
                // The namespace takes none, a quota or a webhook does not let it in, or it is for another process to write. What
                // one namespace says must not hold up the Events of the others.
                (
                    error @ (ApiError::NamespaceEnding(_)
                    | ApiError::NotFound
                    | ApiError::Refused { .. }
                    | ApiError::Closed),
                    _,
                )
                | (error, None) => break Some(error),
                // The name was taken: the next attempt has another one.
                (ApiError::AlreadyExists, Some(_)) => {}
                (_, Some(delay)) => tokio::time::sleep(delay).await,
            }
        };
        match failure {
            None => {
                self.is_denied.store(false, Ordering::Relaxed);
                self.metrics.written.inc();
            }
            Some(error) => {
                let (name, reason) = (request.about.name.as_deref(), &request.reason);
                match error {
                    // Nobody reads them there any more.
                    ApiError::NamespaceEnding(_) => {
                        tracing::debug!(object = name, reason, %error, "Event was not written")
                    }
                    error => tracing::warn!(object = name, reason, %error, "Event was not written"),
                }
                self.metrics.dropped.inc();
            }
        }
        // Last: whoever sees that none waits finds all of them counted.
        self.metrics.waiting.dec();
    }

    /// `unanswered` is the name of an Event whose creation failed, perhaps only seemingly: the same name is tried again, so
    /// that there are never two.
    async fn write(&self, request: &EventRequest, unanswered: &mut Option<String>) -> Result<(), ApiError> {
        let namespace = request.about.namespace.as_deref().unwrap_or(NODE_EVENTS);
        let api = Api::<Event>::namespaced(self.gate.client(), namespace);
        let key = DedupKey::of(request);
        let before = self.dedup.lock().occurrence(&key, Instant::now());
        if let Some(Occurrence { name, count }) = before {
            let count = count.saturating_add(1);
            let patch = json!({ "series": { "count": count, "lastObservedTime": MicroTime(Timestamp::now()) } });
            let params = PatchParams::default();
            let patch = Patch::Merge(&patch);
            match self.gate.write(PATCH, api.patch_metadata(&name, &params, &patch)).await {
                Ok(_) => {
                    self.dedup.lock().happened(key, Occurrence { name, count }, Instant::now());
                    return Ok(());
                }
                // It has expired: begin anew.
                Err(ApiError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let tried = unanswered.take();
        let name = tried.clone().unwrap_or_else(|| self.new_name(request));
        let event = self.event(request, namespace, &name);
        let params = PostParams::default();
        match self.gate.write(CREATE, api.create(&params, &event)).await {
            Ok(_) => {}
            // The attempt before had its effect.
            Err(ApiError::AlreadyExists) if tried.is_some() => {}
            // Somebody else's name.
            Err(ApiError::AlreadyExists) => return Err(ApiError::AlreadyExists),
            Err(error) => {
                *unanswered = Some(name);
                return Err(error);
            }
        }
        self.dedup.lock().happened(key, Occurrence { name, count: 1 }, Instant::now());
        Ok(())
    }

    /// The object's name and the time, as upstream; no two are the same.
    fn new_name(&self, request: &EventRequest) -> String {
        let unique = {
            let mut last = self.newest.lock();
            *last = Timestamp::now().as_nanosecond().max(last.saturating_add(1));
            *last
        };
        let subject = request.about.name.as_deref().unwrap_or(request.reporter);
        format!("{}.{unique:x}", cut(subject, MAX_NAME))
    }

    fn event(&self, request: &EventRequest, namespace: &str, name: &str) -> Event {
        let now = Timestamp::now();
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                annotations: (!request.annotations.is_empty()).then(|| request.annotations.clone()),
                ..ObjectMeta::default()
            },
            action: Some(cut(request.action, MAX_WORD).to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(cut(&request.message, MAX_NOTE).to_owned()),
            reason: Some(cut(&request.reason, MAX_WORD).to_owned()),
            regarding: Some(request.about.clone()),
            reporting_controller: Some(request.reporter.to_owned()),
            reporting_instance: Some(cut(&self.settings.instance, MAX_WORD).to_owned()),
            type_: Some(
                match request.severity {
                    Severity::Normal => "Normal",
                    Severity::Warning => "Warning",
                }
                .to_owned(),
            ),
            ..Event::default()
        }
    }
}
