//! Work on the whole cluster, and what a slot needs of a component.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccm_cloud::{
    CallFuture, Capability, Cluster, ClusterSubject, Descriptor, Failure, LoadBalancers, Node, Reaction, Service,
};
use ccm_egress::SourceState;
use tokio::sync::watch;

use super::{Does, Fake};
use crate::component::{Component, Crashes, Reconciled};

impl Cluster for Fake {
    fn descriptor(&self) -> Arc<Descriptor> {
        LoadBalancers::descriptor(self)
    }

    fn reconcile(&self, nodes: Vec<Node>, services: Vec<Service>) -> CallFuture<'_, Reconciled> {
        self.reconcile_noting(nodes, services, Arc::default())
    }
}

impl Component for Fake {
    fn crashes(&self) -> Crashes {
        *self.crashes.lock()
    }

    fn last_crash(&self) -> String {
        self.last_crash.lock().clone()
    }

    fn forget(&self) {
        self.forgot.fetch_add(1, Ordering::Relaxed);
        self.remembers.store(false, Ordering::Relaxed);
    }

    fn has(&self, _capability: Capability) -> bool {
        true
    }

    fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        vec![self.recovered.subscribe()]
    }

    fn follow_credentials(&self) -> CallFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn credential_sources(&self) -> watch::Receiver<Vec<SourceState>> {
        self.sources.subscribe()
    }

    fn reconcile_noting(
        &self,
        _: Vec<Node>,
        _: Vec<Service>,
        half_done: Arc<AtomicBool>,
    ) -> CallFuture<'_, Reconciled> {
        Box::pin(async move {
            let does = *self.does.lock();
            if matches!(does, Does::CrashAfterwards | Does::TimeOutAfterwards) {
                self.acts("reconcile");
                half_done.store(true, Ordering::Relaxed);
                // Not a crash: the cloud may be slow.
                let timed_out = Failure::new(Reaction::Retry, "reconcile: no answer in time");
                return Err(if does == Does::CrashAfterwards { self.crashed("reconcile") } else { timed_out });
            }
            match self.answer("reconcile", Vec::new, Vec::new).await {
                Err(failure) if failure.reaction == Reaction::Invalid || does == Does::Pause => {
                    Ok(vec![(ClusterSubject::Provider, failure)])
                }
                answer => answer,
            }
        })
    }
}
