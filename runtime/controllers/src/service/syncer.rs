//! What all runs share, and the questions to a provider that any of them asks.

use std::sync::Arc;

use ccm_apiserver::EventRecorder;
use ccm_cloud::{Failure, Reaction};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::Store;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::backends::Current;
use super::claims::Claims;
use super::error::{SyncError, Task};
use super::key::Key;
use super::living::Living;
use super::locks::Locks;
use super::memory::Memory;
use super::metrics::ServiceMetrics;
use super::operation::Operation;
use super::provider::{LoadBalancerMembers, Provider};
use super::rounds::Refresh;
use super::settings::ServiceSettings;
use super::write::ServiceWriter;
use super::writers::Writers;
use crate::cluster_addresses::ClusterAddresses;
use crate::store::Unread;

/// What all runs share.
pub(crate) struct Syncer {
    pub(crate) store: Store<Service>,
    pub(crate) members: LoadBalancerMembers,
    pub(crate) backends: Current,
    pub(crate) addresses: ClusterAddresses,
    pub(crate) locks: Locks,
    /// One permit per Service that is being worked on.
    pub(crate) width: Semaphore,
    pub(crate) writer: ServiceWriter,
    pub(crate) recorder: EventRecorder,
    pub(crate) memory: Arc<Memory>,
    pub(crate) living: Living,
    /// Services that cannot be read.
    pub(crate) unread: watch::Receiver<Unread>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) refresh: Refresh,
    pub(crate) metrics: ServiceMetrics,
    pub(crate) settings: ServiceSettings,
}

impl Syncer {
    /// Work after its turn has come, within the limit of a run: waiting does not count, or the last of many would never be
    /// served.
    ///
    /// # Errors
    ///
    /// It was not done in time, and was dropped.
    pub(crate) async fn in_time<T>(&self, task: Task, work: impl Future<Output = T>) -> Result<T, SyncError> {
        let limit = self.settings.queue.max_run;
        timeout(limit, work).await.map_err(|_elapsed| {
            let failure = Failure::new(Reaction::Retry, format!("it was not done within {limit:?} and was dropped"));
            SyncError::Cloud { task, failure }
        })
    }

    /// Asks a provider, within the time limit.
    ///
    /// # Errors
    ///
    /// There was no answer in time.
    pub(crate) async fn call<T>(
        &self,
        operation: Operation,
        provider: &Provider,
        answer: impl Future<Output = T>,
        failure: impl FnOnce(&T) -> Option<&Failure>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        let limit = self.settings.call_timeout;
        let answer = timeout(limit, answer)
            .await
            .map_err(|_elapsed| Failure::unanswered(operation.name(), &provider.descriptor.name, limit));
        let failed = answer.as_ref().map_or_else(Some, failure);
        self.metrics.called(operation, failed, begun.elapsed());
        answer
    }

    /// The provider of the moment, for one piece of work; none where there is no such member.
    pub(crate) fn provider(&self, member: usize) -> Option<Arc<Provider>> {
        self.members.get(&member).map(|known| Arc::new(known.take(member)))
    }

    /// The provider of the moment, where it is still the same component with the same configuration.
    pub(crate) fn still(&self, provider: &Provider) -> Option<Arc<Provider>> {
        self.provider(provider.member).filter(|now| now.is_same(provider))
    }

    /// Our write of a Service was answered. Whoever asks whose a load balancer is knows that before the watch brings it.
    pub(crate) fn wrote(&self, key: &Key, service: Service) -> Arc<Service> {
        let service = self.memory.wrote(key, service);
        self.living.note(key, Some(&service));
        service
    }

    /// Whether a component that was refused wrote part of the load balancer, so that this provider must ensure it again.
    pub(crate) fn is_taken_back(&self, writers: &Writers, provider: &Provider) -> bool {
        let source = self.members.get(&provider.member).map(|member| &member.provider);
        source.is_some_and(|source| {
            let mut others = writers.iter().filter(|writer| **writer != provider.component);
            others.any(|writer| source.is_taken_back(writer))
        })
    }

    /// Whether this provider was refused and replaced. If so, it must not change anything any more.
    pub(crate) fn is_withdrawn(&self, provider: &Provider) -> bool {
        let source = self.members.get(&provider.member).map(|member| &member.provider);
        source.is_some_and(|source| source.is_taken_back(&provider.component)) && self.still(provider).is_none()
    }
}
