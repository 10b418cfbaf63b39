//! The provider that a piece of work is done with: taken once, for all from the first question to the record of what was done.
//!
//! Another component may take its place at any moment. What one said is never used with another: neither its locks, nor its
//! description, nor what it found in the cloud.

use std::sync::Arc;

use ccm_cloud::{Descriptor, Failure, LoadBalancers};

use super::LoadBalancerMember;
use super::fingerprint::{self, Digest};
use super::sync::Syncer;
use super::writers::Writers;

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

impl Syncer {
    /// The provider of the moment, for one piece of work; none where there is no such member.
    pub(crate) fn provider(&self, member: usize) -> Option<Arc<Provider>> {
        self.members.get(member).map(|known| Arc::new(known.take(member)))
    }

    /// The provider of the moment, where it is still the same component with the same configuration.
    pub(crate) fn still(&self, provider: &Provider) -> Option<Arc<Provider>> {
        self.provider(provider.member).filter(|now| now.is_same(provider))
    }

    /// Whether what these components wrote must be done again by the provider, which is none of them.
    pub(crate) fn is_refused(&self, writers: &Writers, provider: &Provider) -> bool {
        let source = self.members.get(provider.member).map(|member| &member.provider);
        source.is_some_and(|source| {
            let mut others = writers.iter().filter(|writer| **writer != provider.component);
            others.any(|writer| source.is_refused(writer))
        })
    }

    /// Whether another one has taken the place of a provider that was refused: it must not change anything any more.
    pub(crate) fn is_withdrawn(&self, provider: &Provider) -> bool {
        let source = self.members.get(provider.member).map(|member| &member.provider);
        source.is_some_and(|source| source.is_refused(&provider.component)) && self.still(provider).is_none()
    }
}
