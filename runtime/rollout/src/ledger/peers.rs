//! The ConfigMap in which replicas tell each other what they know, and the Lease that says whether another one serves.
//!
//! The host has no right to create the ConfigMap: our manifests bring it, empty. Without it every replica knows only what it has found
//! out by itself.

use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{api_error_text, lacks_right};
use ccm_egress::line;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Judgement, LedgerEntry};
use crate::retry::backoff;
use crate::source::{Changes, Source};
use crate::trust::Trust;

/// Name of the ConfigMap in which the replicas share what all must know, beside the Lease.
pub const CONFIG_MAP: &str = "wasm-ccm-components";
/// How long one request may take: a verdict waits for it, and so does a new pod.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often an entry is written anew when others write the ConfigMap at the same time: all providers of a process that begins to lead do.
const ATTEMPTS: usize = 10;
/// Longest wait between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Most bytes that are shown of what a holder calls itself: whoever may write one Lease decides what stands there.
const MAX_HOLDER: usize = 256;
/// How long a holder is waited for that does not say how long: upstream's default.
const LEASE: Duration = Duration::from_secs(15);

/// Where replicas meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// Namespace of the ConfigMap and the Lease.
    pub namespace: String,
    /// Name of the Lease: replicas of another manager have another one.
    pub lease: String,
    /// Of this process in the election. Without an election there is no other replica.
    pub identity: Option<String>,
}

/// Why the others cannot be asked or told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeersError {
    /// The manifests of this version were not applied.
    #[error(
        "the ConfigMap {0}/{CONFIG_MAP} does not exist; apply your overlay again (the ConfigMap is in manifests/base/components.yaml)"
    )]
    Missing(String),
    /// The API server refused a request, or there was none to be had.
    #[error("{what} {place} failed: {}{}", api_error_text(.error), way_out(.error))]
    Api {
        /// What was asked.
        what: &'static str,
        /// About what.
        place: String,
        /// The answer.
        error: kube::Error,
    },
    /// No answer.
    #[error("{what} {place} failed: no answer within {TIMEOUT:?}")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// About what.
        place: String,
    },
    /// Others write all the time.
    #[error("others wrote the ConfigMap {0}/{CONFIG_MAP} {ATTEMPTS} times at the same moment")]
    Conflict(String),
}

fn way_out(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if lacks_right(status) => {
            "; apply your overlay again (manifests/base/rbac.yaml has the right)"
        }
        _ => "",
    }
}

impl PeersError {
    /// Whether only the operator can mend it.
    pub(crate) fn is_for_the_operator(&self) -> bool {
        match self {
            Self::Missing(_) => true,
            Self::Api { error: kube::Error::Api(status), .. } => lacks_right(status),
            _ => false,
        }
    }
}

/// What this process is among the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Standby,
    /// It leads, and the others are to be told how it names load balancers.
    Elected,
    /// It leads, and they were told, or cannot be.
    Leader,
}

/// The other replicas, as far as one source is concerned.
pub(crate) struct Peers {
    settings: PeerSettings,
    client: Client,
    source: String,
    /// Whose word about counters is believed.
    trust: Trust,
    /// Of the entry in the ConfigMap. Managers of several clouds may share it, with sources of the same name.
    key: String,
    /// The record of the Lease that was seen last, and since when it is the same.
    seen: Mutex<Option<(LeaseSpec, Instant)>>,
    role: watch::Sender<Role>,
}

impl Peers {
    /// Asks nobody yet.
    pub(crate) fn new(settings: PeerSettings, client: &Client, source: &str, trust: &Trust) -> Arc<Self> {
        let (client, source) = (client.clone(), source.to_owned());
        // Sources are paths, and paths are no keys.
        let key = format!("{:x}", Sha256::digest(format!("{} {source}", settings.lease)));
        let key = key.get(..16).unwrap_or(&key).to_owned();
        Arc::new(Self {
            settings,
            client,
            source,
            trust: trust.clone(),
            key,
            seen: Mutex::default(),
            role: watch::Sender::new(Role::Standby),
        })
    }

    /// This process leads from now on, until it ends. Waits until the keeper has told the others how it names load balancers, or has failed
    /// to.
    pub(crate) async fn lead(&self) {
        self.role.send_replace(Role::Elected);
        self.has_role(Role::Leader).await;
    }

    /// Waits until this process leads and the others are to be told.
    pub(crate) async fn elected(&self) {
        self.has_role(Role::Elected).await;
    }

    /// The others were told, or cannot be: the work may begin.
    pub(crate) fn told(&self) {
        self.role.send_if_modified(|role| std::mem::replace(role, Role::Leader) != Role::Leader);
    }

    /// Whether this process leads.
    pub(crate) fn leads(&self) -> bool {
        *self.role.borrow() != Role::Standby
    }

    async fn has_role(&self, role: Role) {
        // `self` keeps the channel open.
        drop(self.role.subscribe().wait_for(|now| *now == role).await);
    }

    /// Notices when somebody writes the ConfigMap.
    pub(crate) fn changes(&self) -> Changes {
        let namespace = self.settings.namespace.clone();
        let source = Source::ConfigMap { namespace, name: CONFIG_MAP.to_owned(), key: None };
        // A ConfigMap is watched: there is no period.
        Changes::of(&source, Some(&self.client), Duration::ZERO)
    }

    /// What is known.
    ///
    /// # Errors
    ///
    /// See [`PeersError`].
    pub(crate) async fn read(&self) -> Result<LedgerEntry, PeersError> {
        self.fetch().await.map(|(entry, _)| entry)
    }

    /// Adds what this replica found out, and returns what is known then. Writes only what is new, and over nothing that another one wrote
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// See [`PeersError`].
    pub(crate) async fn tell(&self, judgements: &[Judgement]) -> Result<LedgerEntry, PeersError> {
        for delay in backoff(Duration::from_millis(20), MAX_DELAY).take(ATTEMPTS) {
            let (mut entry, version) = self.fetch().await?;
            let news = judgements.iter().filter(|one| entry.note(one)).count();
            if news == 0 {
                return Ok(entry);
            }
            let text = entry.written();
            let patch = json!({ "metadata": { "resourceVersion": version }, "data": { self.key.as_str(): text } });
            let params = PatchParams { field_manager: Some("wasm-ccm".to_owned()), ..PatchParams::default() };
            let maps = self.maps();
            let patch = Patch::Merge(patch);
            match self.asked("to write", &self.place(), maps.patch_metadata(CONFIG_MAP, &params, &patch)).await {
                Ok(_) => return Ok(entry),
                Err(PeersError::Api { error: kube::Error::Api(status), .. }) if status.is_conflict() => {
                    tokio::time::sleep(delay).await;
                }
                Err(PeersError::Api { error: kube::Error::Api(status), .. }) if status.is_not_found() => {
                    return Err(PeersError::Missing(self.settings.namespace.clone()));
                }
                Err(error) => return Err(error),
            }
        }
        Err(PeersError::Conflict(self.settings.namespace.clone()))
    }

    /// Who leads, and serves therefore: whoever holds the Lease, unless that was not renewed for as long as its holder says. Nobody
    /// measures with another one's clock, so that this takes two looks.
    ///
    /// # Errors
    ///
    /// See [`PeersError`].
    pub(crate) async fn leader(&self) -> Result<Option<String>, PeersError> {
        Ok(self.holder().await?.map(|(holder, _)| line(&holder, MAX_HOLDER)))
    }

    /// Who leads and is another process, and whether the Lease was renewed since the last look: whoever does that is alive.
    ///
    /// # Errors
    ///
    /// See [`PeersError`].
    pub(crate) async fn other(&self) -> Result<Option<(String, bool)>, PeersError> {
        let holder = self.holder().await?;
        // The Lease names this process before that is told here.
        let other = holder.filter(|(holder, _)| self.settings.identity.as_ref() != Some(holder) && !self.leads());
        Ok(other.map(|(holder, is_renewed)| (line(&holder, MAX_HOLDER), is_renewed)))
    }

    async fn holder(&self) -> Result<Option<(String, bool)>, PeersError> {
        if self.settings.identity.is_none() {
            return Ok(None);
        }
        let name = &self.settings.lease;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let place = format!("the Lease {}/{name}", self.settings.namespace);
        let spec = self.asked("to get", &place, leases.get_opt(name)).await?.and_then(|lease| lease.spec);
        let mut seen = self.seen.lock();
        let Some(spec) = spec.filter(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()))
        else {
            *seen = None;
            return Ok(None);
        };
        let holder = spec.holder_identity.clone();
        let promised = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let promised = promised.map_or(LEASE, Duration::from_secs);
        match &*seen {
            Some((before, since)) if *before == spec => {
                Ok(holder.filter(|_| since.elapsed() <= promised).map(|holder| (holder, false)))
            }
            before => {
                let is_renewed = before.is_some();
                *seen = Some((spec, Instant::now()));
                Ok(holder.map(|holder| (holder, is_renewed)))
            }
        }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    fn place(&self) -> String {
        format!("the ConfigMap {}/{CONFIG_MAP}", self.settings.namespace)
    }

    /// The entry, and the version of the ConfigMap that it stands in.
    async fn fetch(&self) -> Result<(LedgerEntry, Option<String>), PeersError> {
        let maps = self.maps();
        let map = self.asked("to get", &self.place(), maps.get_opt(CONFIG_MAP)).await?;
        let map = map.ok_or_else(|| PeersError::Missing(self.settings.namespace.clone()))?;
        let text = map.data.as_ref().and_then(|data| data.get(&self.key));
        let entry = match text.map(|text| serde_json::from_str::<LedgerEntry>(text)) {
            Some(Ok(mut entry)) if entry.source == self.source => {
                entry.believe(self.trust.vouches());
                entry
            }
            Some(Err(error)) => {
                let (place, key) = (self.place(), self.key.as_str());
                tracing::warn!(place, key, %error, "an entry that cannot be read counts for nothing");
                LedgerEntry::of(&self.source)
            }
            _ => LedgerEntry::of(&self.source),
        };
        Ok((entry, map.metadata.resource_version))
    }

    async fn asked<T>(
        &self,
        what: &'static str,
        place: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, PeersError> {
        let place = place.to_owned();
        match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(PeersError::Api { what, place, error }),
            Err(_elapsed) => Err(PeersError::Timeout { what, place }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
