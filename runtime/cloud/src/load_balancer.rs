//! Load balancers for Services: the contract's `load-balancers`, `load-balancer-survey` and `load-balancer-orphan`.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Backend, Descriptor, Failure, Ingress, Problem, Reaction, Service};

/// What a provider answers; a future that can be kept beside those of other providers.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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

/// Whose a load balancer is, as the cloud has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its ID, for people.
    pub load_balancer: String,
    /// The UID of its Service, or the beginning of that; dashes and case do not count. None where nothing says whose it is.
    pub uid: Option<String>,
}

impl Mark {
    /// Fewest digits of a UID that tell Services apart.
    pub const MIN_DIGITS: usize = 16;

    /// Whether it is the mark of the Service with this UID.
    #[must_use]
    pub fn is_of(&self, uid: &str) -> bool {
        let plain = |uid: &str| uid.replace('-', "").to_ascii_lowercase();
        let mark = self.uid.as_deref().map(plain).filter(|mark| mark.len() >= Self::MIN_DIGITS);
        mark.is_some_and(|mark| plain(uid).starts_with(&mark))
    }
}

/// Gives the provider that a piece of work is done with, from the first question to the record of what was done: another one may
/// take its place in between.
pub trait LoadBalancerSource: Send + Sync + 'static {
    /// The provider of the moment. It stays what it is: the same component with the same description and configuration answers all
    /// of its calls, whatever is exchanged meanwhile. To take it is no call: it is done often, and mostly only to compare.
    fn load_balancers(&self) -> Arc<dyn LoadBalancers>;

    /// Whether what this component ([`LoadBalancers::component`]) wrote is not to be trusted: it was refused after it had served.
    /// True before anybody is told of the exchange that follows, and after a restart as well.
    fn is_taken_back(&self, _component: &str) -> bool {
        false
    }

    /// Whether the component of the moment is not proven yet, and may be taken back for what it does.
    fn is_on_probation(&self) -> bool {
        false
    }
}

impl<T: LoadBalancers> LoadBalancerSource for Arc<T> {
    fn load_balancers(&self) -> Arc<dyn LoadBalancers> {
        Self::clone(self)
    }
}

/// Makes load balancers. Every function is idempotent, and none waits for the cloud's work: that is a failure with the
/// reaction [`Pending`](crate::Reaction::Pending).
///
/// # Cancel safety
///
/// Dropping an answer ends the call. What it had begun in the cloud goes on: the next call finds it.
pub trait LoadBalancers: Send + Sync + 'static {
    /// Who the provider is.
    fn descriptor(&self) -> Arc<Descriptor>;

    /// Short digest of the component that answers: the first 12 hexadecimal digits of its SHA-256. Empty where there is no component.
    fn component(&self) -> String {
        String::new()
    }

    /// Says whether settings and files of the provider are those of another time: a digest, the same after a restart with
    /// the same configuration. Nothing secret can be read from it.
    fn configuration(&self) -> String;

    /// The load balancer's name in the cloud.
    fn name(&self, service: Service) -> CallFuture<'_, Result<String, Failure>>;

    /// Things that only one call at a time may change: Services with a name in common are handled one after another.
    fn locks(&self, service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>>;

    /// The load balancer as it is; none when there is none. Changes nothing.
    fn get(&self, service: Service) -> CallFuture<'_, Result<Option<Vec<Ingress>>, Failure>>;

    /// The load balancer that [`ensure`](Self::ensure) would change, and whose it is; none when there is none, or when the
    /// provider leaves the Service to somebody else. Changes nothing.
    fn get_mark(&self, service: Service) -> CallFuture<'_, Result<Option<Mark>, Failure>>;

    /// Creates it, or changes it to what the Service asks for.
    fn ensure(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome>;

    /// As [`ensure`](Self::ensure), where nobody waits for it: the Service is as it was, and only the provider is another one. Its
    /// requests to the cloud let all others go first.
    fn ensure_unhurried(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome>;

    /// Changes nothing but the backends.
    fn update_backends(&self, service: Service, backends: Arc<[Backend]>) -> CallFuture<'_, Outcome>;

    /// No failure only when nothing is left of it.
    fn delete(&self, service: Service) -> CallFuture<'_, Outcome>;

    /// Sees to it that nothing in the cloud leads from the Service to what was its load balancer, which stays. Returns what was
    /// changed, for people. A failure with the reaction [`Unsupported`](crate::Reaction::Unsupported) where the provider has no such
    /// interface: then it may find the load balancer again.
    fn orphan(&self, _service: Service) -> CallFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async { Err(Failure::new(Reaction::Unsupported, "the provider cannot give load balancers up")) })
    }

    /// What is wrong with the Service; `before` is the Service as it was. Only when `online` the cloud is asked. Changes
    /// nothing.
    fn validate(
        &self,
        service: Service,
        before: Option<Service>,
        online: bool,
    ) -> CallFuture<'_, Result<Vec<Problem>, Failure>>;

    /// Whether the provider, since it was loaded, asked which Nodes a label selector matches: then the labels of Nodes may decide
    /// about load balancers.
    fn selects_nodes(&self) -> bool;

    /// Whether many load balancers can be looked at in one call.
    fn surveys(&self) -> bool;

    /// One standing per wish, in order. Changes nothing. With a failure nothing was compared; it has the reaction
    /// [`Unsupported`](crate::Reaction::Unsupported) where [`surveys`](Self::surveys) says no.
    fn survey(&self, backends: Arc<[Backend]>, wishes: Vec<Wish>) -> CallFuture<'_, Result<Vec<Standing>, Failure>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_that_of_a_uid_or_of_its_beginning() {
        const UID: &str = "0f4b3c52-8c1d-4c7e-9a51-0123456789ab";
        let rows = [
            (Some(UID), true),
            (Some("0F4B3C528C1D4C7E9A510123456789AB"), true),
            (Some("0f4b3c528c1d4c7e9a510123456789a"), true),
            (Some("0f4b3c528c1d4c7e"), true),
            (Some("0f4b3c528c1d4c7"), false),
            (Some("0f4b3c528c1d4c7f"), false),
            (Some(""), false),
            (None, false),
        ];
        for (uid, wanted) in rows {
            let mark = Mark { load_balancer: "lb-1".into(), uid: uid.map(Into::into) };
            assert_eq!(mark.is_of(UID), wanted, "{uid:?}");
        }
    }
}
