//! Load balancers for Services: the contract's `load-balancers` and `load-balancer-survey`.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Backend, Descriptor, Failure, Ingress, Problem, Service};

/// What a provider answers; a future that can be kept beside those of other providers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a call that may change a load balancer has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Empty only with a failure, or after a deletion.
    pub ingress: Vec<Ingress>,
    /// Annotations to write on the Service; no value removes. Written also with a failure: IDs of what was made, job numbers.
    /// Only names that the provider declared as `written`.
    pub annotations: Vec<(String, Option<String>)>,
    /// What was changed in the cloud, for people.
    pub changes: Vec<String>,
    /// Why it is not done. A provider that crashed or was not in time has failed with
    /// [`Reaction::Retry`](crate::Reaction::Retry): nobody knows what it had done before.
    pub failure: Option<Failure>,
    /// Label selectors that the provider asked about, each with the names of the Nodes that it matched then, in order: with other
    /// labels the outcome may be another one. Empty selectors, which match all Nodes, are left out.
    pub selected: BTreeMap<String, Vec<String>>,
}

impl Outcome {
    /// Nothing but a failure.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

/// What a Service should have, for a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The Service.
    pub service: Service,
    /// Indexes into the backends of the survey.
    pub backends: Vec<u32>,
}

/// How a load balancer stands in the cloud, beside what its Service asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing differs.
    InStep(Vec<Ingress>),
    /// What differs, for people.
    Differs(Vec<String>),
    /// There is none.
    Missing,
    /// Nobody knows.
    Unknown(Failure),
}

/// Makes load balancers. Every function is idempotent, and none waits for the cloud's work: that is a failure with the
/// reaction [`Pending`](crate::Reaction::Pending).
///
/// Behind this stands the provider of the moment, which can be another one at the next call.
///
/// # Cancel safety
///
/// Dropping an answer ends the call. What it had begun in the cloud goes on: the next call finds it.
pub trait LoadBalancers: Send + Sync + 'static {
    /// Who the provider is.
    fn descriptor(&self) -> Arc<Descriptor>;

    /// Says whether settings and files of the provider are those of another time: a digest, the same after a restart with
    /// the same configuration. Nothing secret can be read from it.
    fn configuration(&self) -> String;

    /// The load balancer's name in the cloud.
    fn name(&self, service: Service) -> Answer<'_, Result<String, Failure>>;

    /// Things that only one call at a time may change: Services with a name in common are handled one after another.
    fn locks(&self, service: Service) -> Answer<'_, Result<Vec<String>, Failure>>;

    /// The load balancer as it is; none when there is none. Changes nothing.
    fn get(&self, service: Service) -> Answer<'_, Result<Option<Vec<Ingress>>, Failure>>;

    /// Creates it, or changes it to what the Service asks for.
    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> Answer<'_, Outcome>;

    /// Changes nothing but the backends.
    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> Answer<'_, Outcome>;

    /// No failure only when nothing is left of it.
    fn delete(&self, service: Service) -> Answer<'_, Outcome>;

    /// What is wrong with the Service; `before` is the Service as it was. Only when `online` the cloud is asked. Changes
    /// nothing.
    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> Answer<'_, Result<Vec<Problem>, Failure>>;

    /// Whether the provider, since it was loaded, asked which Nodes a label selector matches: then the labels of Nodes may decide
    /// about load balancers.
    fn selects_nodes(&self) -> bool;

    /// Whether many load balancers can be looked at in one call.
    fn surveys(&self) -> bool;

    /// One standing per wish, in order. Changes nothing. With a failure nothing was compared; it has the reaction
    /// [`Unsupported`](crate::Reaction::Unsupported) where [`surveys`](Self::surveys) says no.
    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> Answer<'_, Result<Vec<Standing>, Failure>>;
}
