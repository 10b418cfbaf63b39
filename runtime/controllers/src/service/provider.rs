//! The provider of one run. A run takes it once and keeps it, from its first question to the record of what it did.
//!
//! Another component may take its place at any moment. What one said is never used with another: neither its locks, nor its
//! description, nor what it found in the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::{Descriptor, Failure, LoadBalancerSource, LoadBalancers};

use super::digest::Digest;
use super::fingerprint::{self, ViewDigest};

/// The providers that make load balancers, by their places among all that are configured, which is the operator's order. A place is
/// the same for the whole process, whoever else makes load balancers at a time.
pub type LoadBalancerMembers = BTreeMap<usize, LoadBalancerMember>;

/// A provider that makes load balancers.
#[derive(Clone)]
pub struct LoadBalancerMember {
    /// Gives it, for one piece of work at a time.
    pub provider: Arc<dyn LoadBalancerSource>,
    /// Values of `spec.loadBalancerClass` that it serves. Upstream's managers serve none, which is the default.
    pub classes: Vec<String>,
}

/// A provider as it was when a piece of work began.
pub(crate) struct Provider {
    /// Whose place it has among the configured ones.
    pub(crate) member: usize,
    pub(crate) load_balancers: Arc<dyn LoadBalancers>,
    pub(crate) descriptor: Arc<Descriptor>,
    configuration: String,
    /// Short digest of the component; empty where there is none.
    pub(crate) component: String,
}

impl LoadBalancerMember {
    /// The name of the provider, which is the same for all its components.
    pub(crate) fn name(&self) -> String {
        self.provider.load_balancers().descriptor().name.clone()
    }

    /// The provider of the moment, for one piece of work; `member` is its place.
    pub(crate) fn take(&self, member: usize) -> Provider {
        let load_balancers = self.provider.load_balancers();
        let (descriptor, configuration) = (load_balancers.descriptor(), load_balancers.configuration());
        let component = load_balancers.component();
        Provider { member, load_balancers, descriptor, configuration, component }
    }
}

impl Provider {
    /// What a Service comes to for this provider.
    pub(crate) fn spec(&self, view: &ccm_cloud::Service, wrong: Option<&Failure>) -> Digest {
        let wrong = wrong.map(ToString::to_string);
        fingerprint::spec(view, wrong.as_deref(), &self.descriptor, &self.configuration)
    }

    /// What a Service alone asks for, as far as this provider reads it.
    pub(crate) fn view(&self, view: &ccm_cloud::Service) -> Option<ViewDigest> {
        ViewDigest::of(view, &self.descriptor, &self.configuration)
    }

    /// Whether a Service asks for the same as it did with another provider.
    pub(crate) fn is_alone_in_change(&self, known: &ViewDigest, view: &ccm_cloud::Service) -> bool {
        known.has_other_provider(view, &self.descriptor, &self.configuration)
    }

    /// What a deletion comes to for this provider.
    pub(crate) fn deletion(&self, view: &ccm_cloud::Service, wrong: Option<&Failure>) -> Digest {
        let wrong = wrong.map(ToString::to_string);
        fingerprint::deletion(view, wrong.as_deref(), &self.descriptor, &self.configuration)
    }

    /// Whether it is the same component of the same revision, with the same configuration.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (this, that) = (&self.descriptor, &other.descriptor);
        (self.member, &self.component, &self.configuration) == (other.member, &other.component, &other.configuration)
            && (&this.name, &this.revision) == (&that.name, &that.revision)
    }
}
