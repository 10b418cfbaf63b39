//! Writes of the service controller.
//!
//! | write | form |
//! |---|---|
//! | finalizer added | strategic merge patch: finalizers of others stay, whoever adds one at the same time |
//! | annotations, addresses and conditions | one strategic merge patch: other conditions stay |
//! | a request that was answered | JSON patch with a test on its value: a newer one stays |
//! | everything taken away again | one JSON patch that takes ours alone out of the finalizers, with a test on its place: one that somebody adds at that moment is never lost |
//!
//! All go to the subresource `status`, as upstream's, and name the UID: a Service of the same name that was created
//! meanwhile keeps what it has.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ConstantBuilder};
use ccm_apiserver::{ApiError, ApiGate, PagePauses, Purpose};
use ccm_cloud::{Ingress, Mark};
use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, GetParams, ListParams, ObjectList, Patch, PatchParams, Request};
use kube::{Resource as _, ResourceExt as _};
use serde::de::Error as _;
use serde_json::{Map, Value, json};

use super::annotations::{ENSURE, annotation};
use super::condition::{self, ReadyCondition};
use super::ensured_record::{RECORDED, Record};
use super::key::Key;
use super::predicates::FINALIZER;
use crate::store::{DeserializeGuard, Identified, Stored as _};
use crate::view::service::{as_stored, ingress, is_deleting};

/// Attempts of the one write that is bound to what was read, and the shortest and half the longest time between them.
const MAX_ATTEMPTS: usize = 5;
const CONFLICT_DELAY: Duration = Duration::from_millis(50);

/// Name under which our changes stand in `metadata.managedFields`.
const FIELD_MANAGER: &str = "service-controller";

const GET: Purpose = Purpose { verb: "get", resource: "services" };
const LIST: Purpose = Purpose { verb: "list", resource: "services" };
const PATCH: Purpose = Purpose { verb: "patch", resource: "services/status" };

/// How a write ended well.
#[derive(Debug)]
pub(crate) enum Written {
    /// As the API server has it now.
    Changed(Box<Service>),
    /// There was nothing to write.
    Nothing,
    /// The Service was deleted, or is another one of the same name.
    Gone,
}

/// What a status should have that it has not.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// No value removes.
    pub(crate) annotations: BTreeMap<String, Option<String>>,
    /// None leaves it as it is.
    pub(crate) ingress: Option<Vec<Ingress>>,
    /// None leaves it as it is.
    pub(crate) readiness: Option<ReadyCondition>,
    /// None leaves it as it is.
    pub(crate) record: Option<Record>,
    /// The value of [`ENSURE`] that was answered: taken away when all the rest is written.
    pub(crate) answered: Option<String>,
}

impl Changes {
    /// What differs from the Service, as a patch; none when nothing does.
    fn patch(&self, service: &Service) -> Option<Value> {
        let old = |name: &str| service.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name));
        let annotations: Map<String, Value> = self
            .annotations
            .iter()
            .filter(|(name, value)| old(name) != value.as_ref())
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let mut status = Map::new();
        if let Some(wanted) = self.ingress.as_ref().filter(|wanted| as_stored(wanted) != as_stored(&ingress(service))) {
            status.insert("loadBalancer".into(), json!({ "ingress": entries(wanted) }));
        }
        let readiness = self.readiness.as_ref();
        let readiness = readiness.filter(|ready| ready.differs(service) != condition::Difference::None);
        let record = self.record.as_ref().filter(|record| record.differs(service));
        let conditions: Vec<Value> = readiness
            .map(|readiness| readiness.entry(service))
            .into_iter()
            .chain(record.map(|record| record.entry(service)))
            .collect();
        if !conditions.is_empty() {
            status.insert("conditions".into(), json!(conditions));
        }
        if annotations.is_empty() && status.is_empty() {
            return None;
        }
        let mut metadata = Map::from_iter([("uid".to_owned(), json!(service.metadata.uid))]);
        if !annotations.is_empty() {
            metadata.insert("annotations".into(), Value::Object(annotations));
        }
        let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        if !status.is_empty() {
            patch.insert("status".into(), Value::Object(status));
        }
        Some(Value::Object(patch))
    }
}

/// `status.loadBalancer.ingress`; null clears it.
fn entries(ingress: &[Ingress]) -> Value {
    let entry = |entry: &Ingress| {
        let mut written = Map::new();
        let mut put = |name: &str, value: Option<Value>| value.map(|value| written.insert(name.to_owned(), value));
        put("ip", entry.ip.as_ref().map(|ip| json!(ip)));
        put("hostname", entry.hostname.as_ref().map(|hostname| json!(hostname)));
        put("ipMode", entry.ip_mode.map(|mode| json!(mode)));
        let ports = entry.ports.iter().map(|port| match &port.error {
            Some(error) => json!({ "port": port.port, "protocol": port.protocol, "error": error }),
            None => json!({ "port": port.port, "protocol": port.protocol }),
        });
        put("ports", (!entry.ports.is_empty()).then(|| ports.collect()));
        Value::Object(written)
    };
    if ingress.is_empty() { Value::Null } else { ingress.iter().map(entry).collect() }
}

/// Writes Services.
#[derive(Clone)]
pub(crate) struct ServiceWriter(ApiGate);

impl ServiceWriter {
    pub(crate) fn new(gate: ApiGate) -> Self {
        Self(gate)
    }

    /// Adds the finalizer, and says whose Service it is from now on. To be done before the cloud is asked for anything. Who is being deleted
    /// is gone.
    pub(crate) async fn add_finalizer(&self, service: &Service, record: &Record) -> Result<Written, ApiError> {
        let metadata = &service.metadata;
        let others = metadata.finalizers.as_deref().unwrap_or_default();
        if others.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Written::Nothing);
        }
        let mut patch = json!({ "uid": metadata.uid, "finalizers": [FINALIZER] });
        if let (Some(patch), false) = (patch.as_object_mut(), others.is_empty()) {
            let order: Vec<&str> = others.iter().map(String::as_str).chain([FINALIZER]).collect();
            patch.insert("$setElementOrder/finalizers".into(), json!(order));
        }
        let mut patch = json!({ "metadata": patch });
        if let (Some(patch), None) = (patch.as_object_mut(), Record::of(service)) {
            patch.insert("status".into(), json!({ "conditions": [record.entry(service)] }));
        }
        match self.patch(service, patch).await {
            // What is being deleted takes no finalizer. The cloud was asked for nothing, and the watch is about to say that it goes.
            Err(error) if is_stale(&error) && self.live(service).await?.as_ref().is_none_or(is_deleting) => {
                Ok(Written::Gone)
            }
            written => written,
        }
    }

    /// Whether the API server says that the Service is gone, or another one has its name. Nothing but metadata is read, so a
    /// Service that cannot be decoded is there.
    pub(crate) async fn is_gone(&self, service: &Service) -> Result<bool, ApiError> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let live = self.uid(namespace, &service.name_any()).await?;
        Ok(live.is_none_or(|live| service.metadata.uid.as_ref() != Some(&live)))
    }

    /// Whether the API server has a Service of this name with the UID of a mark.
    pub(crate) async fn is_marked(&self, key: &Key, mark: &Mark) -> Result<bool, ApiError> {
        let live = self.uid(key.namespace.as_deref().unwrap_or_default(), &key.name).await?;
        Ok(live.is_some_and(|live| mark.is_of(&live)))
    }

    /// None where there is no such Service.
    async fn uid(&self, namespace: &str, name: &str) -> Result<Option<String>, ApiError> {
        let request = Request::new(Service::url_path(&(), Some(namespace))).get_metadata(name, &GetParams::default());
        let sent = async { self.0.client().request::<Identified>(request.map_err(kube::Error::BuildRequest)?).await };
        match self.0.read(GET, sent).await {
            Ok(live) => Ok(ApiError::unless_uid(live, |live| live.metadata.uid.as_deref())?.metadata.uid),
            Err(ApiError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells `found` of all Services that the API server has, also of those that cannot be decoded. The pages are as small as those of the
    /// store: labels, finalizers and owners are metadata, and whoever may write Services may write megabytes of them.
    pub(crate) async fn list(&self, mut found: impl FnMut(&str, Key)) -> Result<(), ApiError> {
        let mut params = ListParams::default().limit(Service::PAGE_SIZE);
        loop {
            let listed = self.page(&params).await?;
            for service in listed.items {
                let service = ApiError::unless_uid(service, |service| service.metadata.uid.as_deref())?.metadata;
                let [name, namespace, uid] =
                    [service.name, service.namespace, service.uid].map(Option::unwrap_or_default);
                found(&uid, Key::new(&name).within(&namespace));
            }
            match listed.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(()),
            }
        }
    }

    /// A page is asked for again where it cannot be had for the moment, but for the first one: a list that begins anew each time has no end.
    async fn page(&self, params: &ListParams) -> Result<ObjectList<Identified>, ApiError> {
        let mut pauses = PagePauses::begin();
        loop {
            let request = Request::new(Service::url_path(&(), None)).list_metadata(params);
            let sent = async {
                let request = request.map_err(kube::Error::BuildRequest)?;
                self.0.client().request::<ObjectList<Identified>>(request).await
            };
            let error = match self.0.read(LIST, sent).await {
                Ok(listed) => return Ok(listed),
                Err(error) => error,
            };
            if params.continue_token.is_none() || !error.is_unanswered() {
                return Err(error);
            }
            let retry_after = if let ApiError::Unavailable { retry_after, .. } = error { retry_after } else { None };
            let Some(pause) = pauses.after(retry_after) else { return Err(error) };
            if pauses.is_news() {
                tracing::warn!(%error, "a page of all Services cannot be had, and is asked for again");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Writes what differs.
    pub(crate) async fn set(&self, service: &Service, changes: &Changes) -> Result<Written, ApiError> {
        let written = match changes.patch(service) {
            Some(patch) => self.patch(service, patch).await?,
            None => Written::Nothing,
        };
        match &changes.answered {
            Some(value) if !matches!(written, Written::Gone) => self.answer(service, value, written).await,
            _ => Ok(written),
        }
    }

    /// Takes a request away that was answered, unless somebody has taken it back or asks for more.
    async fn answer(&self, service: &Service, value: &str, written: Written) -> Result<Written, ApiError> {
        let path = format!("/metadata/annotations/{}", pointer(ENSURE));
        let operations = [
            json!({ "op": "test", "path": "/metadata/uid", "value": service.metadata.uid }),
            json!({ "op": "test", "path": path, "value": value }),
            json!({ "op": "remove", "path": path }),
        ];
        let error = match self.json_patch(service, &operations).await {
            Ok(written) => return Ok(Written::Changed(Box::new(written))),
            Err(ApiError::NotFound) => return Ok(Written::Gone),
            Err(error) => error,
        };
        if !is_stale(&error) {
            return Err(error);
        }
        match self.live(service).await? {
            Some(live) if annotation(&live, ENSURE) == Some(value) => Err(error),
            Some(_) => Ok(written),
            None => Ok(Written::Gone),
        }
    }

    /// Takes away the finalizer, addresses, the conditions, and the annotations that `is_ours`. To be done when nothing is left
    /// in the cloud.
    pub(crate) async fn release(&self, service: &Service, is_ours: impl Fn(&str) -> bool) -> Result<Written, ApiError> {
        let delays = ConstantBuilder::new().with_delay(CONFLICT_DELAY).with_max_times(MAX_ATTEMPTS - 1).with_jitter();
        let mut delays = delays.build();
        let mut live = None;
        loop {
            let seen = live.as_ref().unwrap_or(service);
            let Some(operations) = removal(seen, &is_ours) else {
                return Ok(live.map_or(Written::Nothing, |live| Written::Changed(Box::new(live))));
            };
            let error = match self.json_patch(seen, &operations).await {
                Ok(written) => return Ok(Written::Changed(Box::new(written))),
                Err(ApiError::NotFound) => return Ok(Written::Gone),
                Err(error) => error,
            };
            // A test that does not hold is refused as unprocessable.
            if !is_stale(&error) {
                return Err(error);
            }
            // Whoever writes all the time is no reason to wait for long.
            let Some(delay) = delays.next() else { return Err(ApiError::Conflict) };
            tokio::time::sleep(delay).await;
            live = self.live(service).await?;
            if live.is_none() {
                return Ok(Written::Gone);
            }
        }
    }

    fn api(&self, service: &Service) -> Api<DeserializeGuard<Service>> {
        Api::namespaced(self.0.client(), service.metadata.namespace.as_deref().unwrap_or_default())
    }

    async fn patch(&self, service: &Service, body: Value) -> Result<Written, ApiError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let (api, name, patch) = (self.api(service), service.name_any(), Patch::Strategic(body));
        let sent = async { api.patch_status(&name, &params, &patch).await.and_then(kept) };
        match self.0.write(PATCH, sent).await.and_then(known) {
            Ok(written) => Ok(Written::Changed(Box::new(written))),
            Err(ApiError::NotFound) => Ok(Written::Gone),
            // Another UID is refused, as other things are.
            Err(error) if is_stale(&error) && self.live(service).await?.is_none() => Ok(Written::Gone),
            Err(error) => Err(error),
        }
    }

    /// The Service as the API server has it; none when it is gone, or another one has its name.
    async fn live(&self, service: &Service) -> Result<Option<Service>, ApiError> {
        let sent = async { self.api(service).get(&service.name_any()).await.and_then(kept) };
        match self.0.read(GET, sent).await {
            Ok(live) => Ok(Some(known(live)?).filter(|live| live.metadata.uid == service.metadata.uid)),
            Err(ApiError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn json_patch(&self, service: &Service, operations: &[Value]) -> Result<Service, ApiError> {
        let namespace = service.metadata.namespace.as_deref();
        let url = Service::url_path(&(), namespace);
        let url = format!("{url}/{}/status?fieldManager={FIELD_MANAGER}", service.name_any());
        let sent = async {
            let body = serde_json::to_vec(operations).map_err(kube::Error::SerdeError)?;
            let request = http::Request::patch(url).header(CONTENT_TYPE, "application/json-patch+json").body(body);
            let request = request.map_err(kube::Error::HttpError)?;
            self.0.client().request::<DeserializeGuard<Service>>(request).await.and_then(kept)
        };
        self.0.write(PATCH, sent).await.and_then(known)
    }
}

/// An answer that says which Service it is. Another one is of something in between: nobody knows whether anything was written.
fn known(service: Service) -> Result<Service, ApiError> {
    ApiError::unless_uid(service, |service| service.metadata.uid.as_deref())
}

/// What is kept of an answer. It has whatever others wrote into the Service by then: one that is too large is no answer, as in the store.
fn kept(answer: DeserializeGuard<Service>) -> kube::Result<Service> {
    answer.object.map_err(|error| kube::Error::SerdeError(serde_json::Error::custom(error)))
}

const fn is_stale(error: &ApiError) -> bool {
    matches!(error, ApiError::Conflict | ApiError::Refused { code: 422, .. })
}

/// A name as a part of a JSON pointer.
fn pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The JSON patch of [`ServiceWriter::release`]; none when there is nothing to take away.
fn removal(service: &Service, is_ours: impl Fn(&str) -> bool) -> Option<Vec<Value>> {
    let metadata = &service.metadata;
    let mut operations = Vec::new();
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if let Some(place) = finalizers.iter().position(|finalizer| finalizer == FINALIZER) {
        let path = format!("/metadata/finalizers/{place}");
        operations.push(json!({ "op": "test", "path": path, "value": FINALIZER }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    for name in metadata.annotations.iter().flatten().map(|(name, _)| name).filter(|name| is_ours(name)) {
        operations.push(json!({ "op": "remove", "path": format!("/metadata/annotations/{}", pointer(name)) }));
    }
    if !ingress(service).is_empty() {
        operations.push(json!({ "op": "remove", "path": "/status/loadBalancer/ingress" }));
    }
    let ours = [condition::READY, RECORDED].map(|kind| Some((condition::existing(service, kind)?.0, kind)));
    let mut ours: Vec<(usize, &str)> = ours.into_iter().flatten().collect();
    // The last one first: then the others stay where they are.
    ours.sort_unstable_by_key(|(place, _)| Reverse(*place));
    for (place, kind) in ours {
        let path = format!("/status/conditions/{place}");
        operations.push(json!({ "op": "test", "path": format!("{path}/type"), "value": kind }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    if operations.is_empty() {
        return None;
    }
    operations.insert(0, json!({ "op": "test", "path": "/metadata/uid", "value": metadata.uid }));
    Some(operations)
}
