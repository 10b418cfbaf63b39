//! The contract's `cluster`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ccm_cloud::{Answer, Cluster, ClusterSubject, Descriptor, Failure, Node, Service};
use ccm_egress::{Class, line};

use crate::bindings::ccm::cloud::types;
use crate::call::{ChangeFlag, ServiceId, Subject, call};
use crate::load_balancers::{no_answer, not_exported};
use crate::{Provider, convert};

/// Longest name that a complaint shows, in bytes.
const MAX_SHOWN: usize = 256;

/// The objects of a call.
struct Objects {
    nodes: BTreeSet<String>,
    services: BTreeSet<(String, String)>,
}

impl Objects {
    /// A failure about something else would be told about an object that nobody knows.
    fn complaint(&self, failures: &[(types::Subject, types::Failure)]) -> Option<String> {
        let stranger = failures.iter().find_map(|(subject, _)| match subject {
            types::Subject::Node(name) if !self.nodes.contains(name) => Some(format!("the Node {name}")),
            types::Subject::Service(service) if !self.services.contains(service) => {
                Some(format!("the Service {}/{}", service.0, service.1))
            }
            types::Subject::Call | types::Subject::Provider | types::Subject::Node(_) | types::Subject::Service(_) => {
                None
            }
        });
        let stranger = stranger.map(|stranger| line(&stranger, MAX_SHOWN));
        stranger.map(|stranger| format!("it gave a failure of {stranger}, which is not in the call"))
    }
}

impl Cluster for Provider {
    fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor)
    }

    fn reconcile(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
    ) -> Answer<'_, Result<Vec<(ClusterSubject, Failure)>, Failure>> {
        Box::pin(self.reconcile_noting(nodes, services, Arc::default()))
    }
}

impl Provider {
    /// As [`Cluster::reconcile`]; sets `changed` before the first request that may change the cloud.
    ///
    /// # Errors
    ///
    /// There is no answer, or the provider's failure is that of the whole call.
    pub async fn reconcile_noting(
        &self,
        nodes: Vec<Node>,
        services: Vec<Service>,
        changed: Arc<AtomicBool>,
    ) -> Result<Vec<(ClusterSubject, Failure)>, Failure> {
        const FUNCTION: &str = "cluster.reconcile";
        let code = self.code();
        let exports = code.optional.cluster.clone();
        let exports = exports.ok_or_else(|| not_exported(&self.descriptor, "cluster"))?;
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            services: services.iter().map(ServiceId::from).collect(),
            class: Class::Write,
            read_only: false,
            proof: false,
            judges: false,
            changes: ChangeFlag(changed),
            selected: None,
        };
        let objects = Objects {
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            services: services.iter().map(|service| (service.namespace.clone(), service.name.clone())).collect(),
        };
        let declared = &self.descriptor.annotations;
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, declared)).collect();
        let services: Vec<_> = services.into_iter().map(|service| convert::service(service, declared)).collect();
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
            |answer| objects.complaint(answer.as_ref().ok()?),
        );
        let answer = answer.await.map_err(no_answer(FUNCTION))?;
        answer.map(convert::cluster_failures).map_err(convert::failure)
    }
}
