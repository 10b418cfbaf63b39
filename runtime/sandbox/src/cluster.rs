//! The contract's `cluster`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_cloud::{CallFuture, Cluster, ClusterSubject, Descriptor, Failure, Node, Service};

use crate::answer::{Objects, cluster_failures, unless_failed};
use crate::call::{ChangeFlag, ServiceId, Subject, call};
use crate::load_balancers::not_exported;
use crate::{Provider, convert};

impl Cluster for Provider {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    fn reconcile(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
    ) -> CallFuture<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>> {
        Box::pin(self.reconcile_noting(nodes, services, Arc::default()))
    }
}

impl Provider {
    /// As [`Cluster::reconcile`]; sets `half_done` when the call gave no answer, for whatever reason, after it had begun to change the cloud.
    ///
    /// # Errors
    ///
    /// There is no answer, or the provider's failure is that of the whole call.
    pub async fn reconcile_noting(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
        half_done: Arc<AtomicBool>,
    ) -> Result<Vec<(ClusterSubject, Failure)>, Failure> {
        const FUNCTION: &str = "cluster.reconcile";
        let code = self.code();
        let exports = code.optional.cluster.clone();
        let exports = exports.ok_or_else(|| not_exported(&self.descriptor, "cluster"))?;
        let changes = ChangeFlag::default();
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            services: services.iter().map(ServiceId::from).collect(),
            changes: changes.clone(),
            ..Subject::writing()
        };
        let objects = Objects::new(&nodes, &services);
        let entering = self.entering();
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, &entering)).collect();
        let services: Vec<_> = services.into_iter().map(|service| convert::service(service, &entering)).collect();
        let answer = call(
            &self.settings,
            &code.pre,
            FUNCTION,
            subject,
            move |store, instance| {
                Box::pin(
                    async move { exports.load(&mut *store, instance)?.call_reconcile(store, &nodes, &services).await },
                )
            },
            unless_failed(|failures| cluster_failures(failures, &objects)),
        );
        answer.await.map_err(|error| {
            half_done.store(changes.is_set(), Ordering::Relaxed);
            error.into_failure(FUNCTION, &self.descriptor.name)
        })?
    }
}
