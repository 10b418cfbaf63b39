//! What is done for a Service in one run, and why: a value that can be printed and serialised.
//!
//! A run makes its plan once, from the Service, its record and what is known of the cloud, and again when its turn has come. Nothing
//! here reads or writes anything.

use std::fmt;

use ccm_cloud::{Ingress, Standing};
use serde::Serialize;

use super::ensured_record::Record;
use super::entry::Doubt;
use super::fingerprint::Target;
use crate::view::service::as_stored;

/// The plan of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    /// Name of the provider; none where no provider is concerned.
    pub(crate) provider: Option<String>,
    pub(crate) action: Action,
    pub(crate) reason: Reason,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// The load balancer is as it was ensured, or is for somebody else to take care of.
    Nothing,
    /// The cloud has it as the Service asks for; only the Service does not say so.
    Adopt(Vec<Ingress>),
    /// Gives it the hosts of now: nothing else differs.
    UpdateHosts,
    /// Gives it the hosts of now: the Service cannot be read, so nothing else is changed.
    FollowHosts,
    /// Makes or changes it: anything differs, or nobody knows.
    Ensure,
    /// Deletes it.
    Delete,
    /// Gives it up: it stays in the cloud.
    Orphan,
    /// Asks the provider whether it has it.
    Ask,
    /// Leaves it alone until the configuration serves it again.
    Strand,
}

/// Why it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// All is as it was ensured.
    AsEnsured,
    /// There is no record: it is new, or another manager served it.
    NotRecorded,
    /// A call that changes it has begun, and is not known to have succeeded.
    NotCertain,
    /// The Service asks for something else.
    ServiceChanged,
    /// The provider has another revision or configuration.
    ProviderChanged,
    /// The same, and others go first.
    WaitsForOthers,
    /// It has other hosts.
    HostsChanged,
    /// The Service has no address, or another one than was written.
    AddressMissing,
    /// The condition does not say that it is ready.
    NotTold,
    /// The annotation `wasm-ccm.io/ensure` asks for it.
    Requested,
    /// A component that wrote it was refused since.
    WriterRefused,
    /// Somebody wrote another record.
    RecordReplaced,
    /// Somebody changed the annotations that only the provider writes.
    AnnotationsReplaced,
    /// It is taken over from another Service, or nobody.
    TakenOver,
    /// The cloud differs: how.
    Drifted(String),
    /// The cloud has it as the Service asks for.
    FoundInStep,
    /// It was done before, and could not be written on the Service.
    NotWritten,
    /// The Service cannot be read: why.
    Unreadable(String),
    /// The Service is being deleted.
    Deleted,
    /// The Service has another type.
    NoLoadBalancer,
    /// The Service has another class, which another provider serves.
    ClassMoved,
    /// The annotation `wasm-ccm.io/orphan` gives it up.
    GivenUp,
    /// An older release names the provider in an annotation.
    NamedBefore,
    /// The provider that has it does not serve its class.
    ClassNotServed,
    /// The provider that has it is not configured.
    ProviderNotConfigured,
    /// No provider here serves it.
    Foreign,
    /// Its provider is being exchanged.
    Exchanged,
}

impl Plan {
    /// Whether there is nothing to do in the cloud or on the Service.
    pub(crate) fn is_nothing(&self) -> bool {
        self.action == Action::Nothing
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action.as_str())?;
        if let Some(provider) = &self.provider {
            write!(f, " with {provider}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Action {
    /// Whether it makes or changes a load balancer.
    pub(crate) const fn changes_the_cloud(&self) -> bool {
        matches!(self, Self::Ensure | Self::UpdateHosts | Self::FollowHosts)
    }

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Nothing => "do nothing",
            Self::Adopt(_) => "write the status",
            Self::UpdateHosts | Self::FollowHosts => "update the Nodes behind the load balancer",
            Self::Ensure => "ensure the load balancer",
            Self::Delete => "delete the load balancer",
            Self::Orphan => "give the load balancer up",
            Self::Ask => "ask who has the load balancer",
            Self::Strand => "leave the load balancer alone",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsEnsured => "it is as it was ensured",
            Self::NotRecorded => "nothing is recorded of it",
            Self::NotCertain => "a call that changes it was not completed",
            Self::ServiceChanged => "the Service has changed",
            Self::ProviderChanged => "the provider has another revision or configuration",
            Self::WaitsForOthers => "the provider has another revision or configuration, and other Services go first",
            Self::HostsChanged => "the Nodes behind it have changed",
            Self::AddressMissing => "the Service does not have its address",
            Self::NotTold => "the Service does not say that it is ready",
            Self::Requested => "an annotation asks for it",
            Self::WriterRefused => "a component that wrote it was refused",
            Self::RecordReplaced => "somebody else wrote its record",
            Self::AnnotationsReplaced => "somebody changed what the provider wrote on it",
            Self::TakenOver => "it is being taken over",
            Self::Drifted(how) => return f.write_str(how),
            Self::FoundInStep => "the cloud has it as the Service asks for",
            Self::NotWritten => "what was done before could not be written",
            Self::Unreadable(why) => return write!(f, "the Service cannot be read: {why}"),
            Self::Deleted => "the Service is being deleted",
            Self::NoLoadBalancer => "the Service is not of the type LoadBalancer",
            Self::ClassMoved => "the Service has a class of another provider",
            Self::GivenUp => "an annotation gives it up",
            Self::NamedBefore => "an older release says that the provider has it",
            Self::ClassNotServed => "the provider that has it does not serve its class",
            Self::ProviderNotConfigured => "the provider that has it is not configured",
            Self::Foreign => "no provider here serves it",
            Self::Exchanged => "the provider is being exchanged",
        })
    }
}

/// What a plan for a Service that wants a load balancer is made from.
pub(super) struct Facts<'a> {
    /// The record of the provider that serves it.
    pub(super) record: Option<&'a Record>,
    pub(super) doubt: Doubt,
    /// Why nothing that is recorded counts, whatever the doubt.
    pub(super) distrust: Option<Reason>,
    /// What it should be like. While it waits for others, what it was ensured for.
    pub(super) target: Target,
    /// How it stands in the cloud, where that is known.
    pub(super) standing: Option<Standing>,
    /// The addresses of the status, as far as they were written here.
    pub(super) ingress: &'a [Ingress],
    /// Whether the status says that all is well.
    pub(super) is_told: bool,
    /// Who makes the target differ from the record, where it differs.
    pub(super) changed: Reason,
    /// What is done when there is nothing else to do.
    pub(super) otherwise: Reason,
}

impl Facts<'_> {
    pub(super) fn plan(self) -> (Action, Reason) {
        let doubt = if self.distrust.is_some() { Doubt::All } else { self.doubt };
        let (record, target) = (self.record, self.target);
        let same_spec = doubt < Doubt::All && record.is_some_and(|record| record.spec == Some(target.spec));
        let same_backends =
            doubt < Doubt::Backends && record.is_some_and(|record| record.backends == Some(target.backends));
        let unchanged = same_spec && same_backends;
        let differs = match (self.distrust, record.map(|record| record.spec)) {
            (Some(reason), _) => reason,
            (None, None) => Reason::NotRecorded,
            (None, Some(None)) => Reason::NotCertain,
            (None, Some(Some(_))) if doubt == Doubt::All => Reason::NotCertain,
            (None, Some(Some(_))) if same_spec => Reason::HostsChanged,
            (None, Some(Some(_))) => self.changed,
        };
        let drifted = |drift: String| if unchanged { Reason::Drifted(drift) } else { differs.clone() };
        match self.standing {
            Some(Standing::InStep(found)) if unchanged && as_stored(&found) == as_stored(self.ingress) => {}
            Some(Standing::InStep(found)) if doubt == Doubt::None && !found.is_empty() => {
                return (Action::Adopt(found), Reason::FoundInStep);
            }
            Some(Standing::Differs(what)) => {
                let drift = format!("the cloud differs from the Service: {}", what.join("; "));
                return (Action::Ensure, drifted(drift));
            }
            Some(Standing::Missing) => {
                return (Action::Ensure, drifted("the cloud has no such load balancer any more".into()));
            }
            Some(Standing::InStep(_) | Standing::Unknown(_)) | None => {}
        }
        match (same_spec, same_backends) {
            // Whatever was ensured has an address: somebody took it out of the status, or wrote another one.
            (true, _) if self.ingress.is_empty() => (Action::Ensure, Reason::AddressMissing),
            (true, true) if self.is_told => (Action::Nothing, self.otherwise),
            (true, true) => (Action::Adopt(self.ingress.to_vec()), Reason::NotTold),
            (true, false) => (Action::UpdateHosts, differs),
            (false, _) => (Action::Ensure, differs),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::service::digest::Digest;
    use crate::testing::service;

    #[test]
    fn a_plan_says_what_is_done_and_why() {
        let web = service("web").object();
        let (one, other) = (Digest::of(&1), Digest::of(&2));
        let begun = Record::begun("fake", &web, one, one);
        let ensured = Record { spec: Some(one), backends: Some(one), ..begun.clone() };
        let address = [Ingress { ip: Some("192.0.2.1".into()), ..Ingress::default() }];
        let facts = || Facts {
            record: Some(&ensured),
            doubt: Doubt::None,
            distrust: None,
            target: Target { spec: one, backends: one },
            standing: None,
            ingress: &address,
            is_told: true,
            changed: Reason::ServiceChanged,
            otherwise: Reason::AsEnsured,
        };
        let spec = Target { spec: other, backends: one };
        let hosts = Target { spec: one, backends: other };
        let missing = || Reason::Drifted("the cloud has no such load balancer any more".into());
        let rows = [
            (facts(), Action::Nothing, Reason::AsEnsured),
            (Facts { otherwise: Reason::WaitsForOthers, ..facts() }, Action::Nothing, Reason::WaitsForOthers),
            (Facts { record: None, ..facts() }, Action::Ensure, Reason::NotRecorded),
            (Facts { record: Some(&begun), ..facts() }, Action::Ensure, Reason::NotCertain),
            (Facts { doubt: Doubt::All, ..facts() }, Action::Ensure, Reason::NotCertain),
            (Facts { doubt: Doubt::Backends, ..facts() }, Action::UpdateHosts, Reason::HostsChanged),
            (Facts { target: hosts, ..facts() }, Action::UpdateHosts, Reason::HostsChanged),
            (Facts { target: spec, ..facts() }, Action::Ensure, Reason::ServiceChanged),
            (
                Facts { target: spec, changed: Reason::ProviderChanged, ..facts() },
                Action::Ensure,
                Reason::ProviderChanged,
            ),
            (Facts { distrust: Some(Reason::Requested), ..facts() }, Action::Ensure, Reason::Requested),
            (Facts { ingress: &[], ..facts() }, Action::Ensure, Reason::AddressMissing),
            (Facts { is_told: false, ..facts() }, Action::Adopt(address.to_vec()), Reason::NotTold),
            (
                Facts { standing: Some(Standing::InStep(address.to_vec())), ..facts() },
                Action::Nothing,
                Reason::AsEnsured,
            ),
            (
                Facts { standing: Some(Standing::InStep(address.to_vec())), record: None, ..facts() },
                Action::Adopt(address.to_vec()),
                Reason::FoundInStep,
            ),
            (Facts { standing: Some(Standing::Missing), ..facts() }, Action::Ensure, missing()),
            (
                Facts { standing: Some(Standing::Missing), target: spec, ..facts() },
                Action::Ensure,
                Reason::ServiceChanged,
            ),
        ];
        for (number, (facts, action, reason)) in rows.into_iter().enumerate() {
            assert_eq!(facts.plan(), (action, reason), "row {number}");
        }
    }

    #[test]
    fn a_plan_is_printed_and_serialised() {
        let provider = Some("fake".to_owned());
        let plan = Plan { provider, action: Action::Ensure, reason: Reason::ProviderChanged };
        let text = "ensure the load balancer with fake: the provider has another revision or configuration";
        assert_eq!(plan.to_string(), text);
        // Elsewhere, a host is a process of wasm-ccm.
        let moved = Plan { provider: None, action: Action::UpdateHosts, reason: Reason::HostsChanged };
        assert_eq!(moved.to_string(), "update the Nodes behind the load balancer: the Nodes behind it have changed");
        let value = json!({ "provider": "fake", "action": "ensure", "reason": "provider-changed" });
        assert_eq!(serde_json::to_value(&plan).unwrap(), value);
        let drifted = Plan { provider: None, action: Action::Strand, reason: Reason::Drifted("so".into()) };
        let value = json!({ "provider": null, "action": "strand", "reason": { "drifted": "so" } });
        assert_eq!(
            (drifted.to_string(), serde_json::to_value(&drifted).unwrap()),
            ("leave the load balancer alone: so".into(), value)
        );
    }
}
