//! What is known of the cloud and does not stand on the Service: what was found there, and what was done and could not be written.

use ccm_cloud::{Ingress, Standing};

use super::error::Task;
use super::fingerprint::Target;
use super::provider::Provider;
use super::writers::Writers;

/// What has been done in the cloud, and could not be written on the Service.
#[derive(Debug, Clone)]
pub(crate) struct Unsaid {
    pub(crate) target: Target,
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) task: Task,
    /// What it answers.
    pub(crate) request: Option<String>,
    /// Who did it.
    pub(crate) by: Writers,
}

/// What was found in the cloud.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    target: Target,
    /// The component that looked. Another one may see it in another way.
    component: String,
    pub(crate) standing: Standing,
}

impl Found {
    pub(crate) fn new(target: Target, provider: &Provider, standing: Standing) -> Self {
        Self { target, component: provider.component.clone(), standing }
    }

    /// Whether it was found by this component, for this target.
    pub(crate) fn is_about(&self, target: Target, provider: &Provider) -> bool {
        self.target == target && self.component == provider.component
    }
}
