//! What a provider was when something was decided about its work.

use std::sync::Arc;

use ccm_cloud::{Descriptor, LoadBalancers};

use super::fingerprint;

/// What a provider says of itself that decides whether its work is done.
pub(crate) struct Asked {
    pub(crate) descriptor: Arc<Descriptor>,
    configuration: String,
}

impl Asked {
    pub(crate) fn of(provider: &dyn LoadBalancers) -> Self {
        Self { descriptor: provider.descriptor(), configuration: provider.configuration() }
    }

    /// What a Service comes to for this provider.
    pub(crate) fn spec(&self, view: &ccm_cloud::Service, wrong: Option<&str>) -> fingerprint::Digest {
        fingerprint::spec(view, wrong, &self.descriptor, &self.configuration)
    }

    /// Whether another component has taken its place, or another configuration.
    pub(crate) fn is_past(&self, provider: &dyn LoadBalancers) -> bool {
        let (then, now) = (&self.descriptor, provider.descriptor());
        (&then.name, &then.revision, &self.configuration) != (&now.name, &now.revision, &provider.configuration())
    }
}
