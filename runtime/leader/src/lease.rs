//! The Lease: what it says, and how it is written.

use std::time::Duration;

use ccm_apiserver::{causes, lacks_right};
use ccm_cloud::is_plain;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};

/// So many characters of what somebody else wrote are shown. A holder `HOSTNAME_UUID` has at most 101.
const MAX_SHOWN: usize = 256;

/// Why a request about the Lease has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LeaseError {
    /// Somebody else was first.
    #[error("somebody else wrote the Lease at the same time")]
    Conflict,
    #[error("there is no Lease")]
    NotFound,
    #[error("{0}")]
    Other(String),
}

/// One Lease and the way to it. What is written here asks no gate: this is what opens it.
pub(crate) struct Leases {
    api: Api<Lease>,
    namespace: String,
    name: String,
    timeout: Duration,
}

impl Leases {
    pub(crate) fn new(client: Client, namespace: &str, name: &str, timeout: Duration) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned(), timeout }
    }

    pub(crate) async fn get(&self) -> Result<Lease, LeaseError> {
        self.asked("get", self.api.get(&self.name)).await
    }

    pub(crate) async fn create(&self, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        self.asked("create", self.api.create(&PostParams::default(), &lease)).await
    }

    /// Writes the record over the one that was seen, and over no other.
    pub(crate) async fn replace(&self, seen: &Lease, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        let lease = Lease { metadata: seen.metadata.clone(), spec: Some(spec) };
        self.asked("update", self.api.replace(&self.name, &PostParams::default(), &lease)).await
    }

    async fn asked(&self, verb: &str, request: impl Future<Output = kube::Result<Lease>>) -> Result<Lease, LeaseError> {
        let failed =
            |why: String| LeaseError::Other(format!("cannot {verb} the Lease {}/{}: {why}", self.namespace, self.name));
        match tokio::time::timeout(self.timeout, request).await {
            // Without a UID it is of something in between, which makes nobody the leader.
            Ok(Ok(lease)) if lease.metadata.uid.as_deref().is_none_or(str::is_empty) => {
                Err(failed("the answer is no Lease".to_owned()))
            }
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(kube::Error::Api(status))) => {
                let told = format!("{} ({})", shown(&status.message), status.code);
                Err(if status.is_not_found() && verb != "create" {
                    LeaseError::NotFound
                } else if status.is_conflict() || status.is_already_exists() {
                    // Of a create: it exists meanwhile.
                    LeaseError::Conflict
                } else if lacks_right(&status) {
                    failed(format!("{told}; apply your overlay again (manifests/base/rbac.yaml has the right)"))
                } else {
                    failed(told)
                })
            }
            Ok(Err(error)) => Err(failed(shown(&causes(&error)))),
            Err(_elapsed) => Err(failed(format!("no answer within {:?}", self.timeout))),
        }
    }
}

/// Who holds it; empty: nobody.
#[must_use]
pub fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// What somebody else wrote into a Lease or says of it, as logs and pages show it: in one line, without what a terminal obeys, and cut off. Whoever
/// may write one Lease decides what stands there.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut letters = text.chars().map(|c| if is_plain(c) { c } else { ' ' });
    let mut shown: String = letters.by_ref().take(MAX_SHOWN).collect();
    shown.extend(letters.next().map(|_more| '…'));
    shown
}

/// How long the holder wants to be waited for, if it says so.
#[must_use]
pub fn promised(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Whether nothing has happened between two looks. Labels and annotations are not part of the record.
pub(crate) fn is_same_record(one: &Lease, other: &Lease) -> bool {
    one.spec == other.spec && one.metadata.uid == other.metadata.uid
}

/// The record of a holder, after `before`. Times in it are for people: nobody measures with them.
pub(crate) fn held_by(identity: &str, seconds: i32, before: Option<&Lease>) -> LeaseSpec {
    let now = Some(MicroTime(Timestamp::now()));
    let spec = before.and_then(|lease| lease.spec.clone());
    let was_held = before.is_some_and(|lease| holder(lease) == identity);
    let spec = spec.unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or_default();
    let (acquire_time, lease_transitions) = match before {
        Some(_) if was_held => (spec.acquire_time.clone().or_else(|| now.clone()), transitions),
        Some(_) => (now.clone(), transitions.saturating_add(1)),
        None => (now.clone(), 0),
    };
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time,
        renew_time: now,
        lease_transitions: Some(lease_transitions),
        ..spec
    }
}

/// The record that nobody holds: the next candidate need not wait.
pub(crate) fn released(before: &Lease) -> LeaseSpec {
    let now = Some(MicroTime(Timestamp::now()));
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: now.clone(),
        renew_time: now,
        ..before.spec.clone().unwrap_or_default()
    }
}

/// The Lease, as Events carry it.
pub(crate) fn reference(lease: &Lease) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".into()),
        kind: Some("Lease".into()),
        namespace: lease.namespace(),
        name: Some(lease.name_any()),
        uid: lease.uid(),
        ..ObjectReference::default()
    }
}
