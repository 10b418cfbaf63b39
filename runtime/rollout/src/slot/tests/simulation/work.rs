//! The work on Services.

use std::sync::Arc;

use ccm_cloud::LoadBalancerSource as _;

use super::{Does, Simulation, service};

/// What the service controller knows of a Service.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) is_wanted: bool,
    pub(super) has_finalizer: bool,
    /// That there may be a load balancer is recorded: it is before the first call that may make one.
    pub(super) has_record: bool,
    /// What `by` ensured last has been changed by nobody since: as the record says it, which is marked before a call that may change more.
    pub(super) is_certain: bool,
    /// Who has ensured it last.
    pub(super) by: Option<String>,
    pub(super) by_version: Option<String>,
}

impl Simulation {
    /// As the service controller does it.
    pub(super) async fn works(&mut self, name: &'static str) {
        let Some(source) = self.leads().cloned() else { return };
        if self.objects.get(name).is_some_and(|object| !object.is_wanted) {
            self.sees_renamed(&source.standing().proven.version, |uid| uid == name);
        }
        let Some(object) = self.objects.get_mut(name) else { return };
        let one = source.load_balancers();
        if !object.is_wanted {
            // Who wants it again does not know what is left of it.
            (object.is_certain, object.has_record, object.by, object.by_version) = (false, false, None, None);
            if object.has_finalizer && one.delete(service(name)).await.failure.is_none() {
                *object = Object::default();
                let is_left = self.cloud.balancers.lock().values().any(|balancer| balancer.uid == name);
                let is_liar = !source.standing().is_on_probation()
                    && self.nature(&source.standing().serving().version) == Does::Leave;
                assert!(!is_left || is_liar || self.is_unseen, "{name} was let go with a load balancer");
            }
            return;
        }
        (object.has_finalizer, object.has_record) = (true, true);
        if object.is_certain && object.by.as_ref().is_some_and(|by| !source.is_taken_back(by)) {
            drop(one.get(service(name)).await);
            return;
        }
        object.is_certain = false;
        if one.ensure(service(name), Arc::default()).await.failure.is_none() {
            object.is_certain = true;
            (object.by, object.by_version) = (Some(one.component()), Some(one.descriptor().version.clone()));
        }
    }
}
