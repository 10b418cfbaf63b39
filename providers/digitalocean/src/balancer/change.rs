//! Changes an existing load balancer to what its Service asks for, as far as the cloud allows.

use ccm_sdk::Done;
use ccm_sdk::types::{Backend, Failure, Ingress};

use super::done::{CONFIG_ERROR, IGNORED, IMMUTABLE, told};
use super::lookup;
use super::size::{self, Written};
use super::work::{Scope, Work, nobody, remark, settled};
use crate::annotations as names;
use crate::api::balancers::{self, Balancer, Replaced, Spec};
use crate::backends::{self, Chosen, Member};
use crate::certificate;
use crate::desired::{self, Fixed, Parts};
use crate::service_spec::Problems;

/// Why something was not changed.
enum Unchanged {
    /// The cloud refuses the change.
    Refused(Failure),
    /// The result is unknown, or the cause is temporary.
    Failed(Failure),
}

impl From<Failure> for Unchanged {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Work<'_> {
    /// Brings it to what is asked for. Where that cannot be, its droplets alone follow the Nodes.
    ///
    /// # Errors
    ///
    /// It is not done, or not possible. What is not possible and was not asked for is a warning.
    pub(super) fn bring(
        &self,
        balancer: &mut Balancer,
        problems: Problems,
        backends: &[Backend],
        scope: Scope,
        done: &mut Done,
    ) -> Result<Vec<Ingress>, Failure> {
        let fixed = Fixed::of(balancer, self.service_spec, self.config)?;
        let members = backends::members(backends)?;
        let chosen = self.choose(balancer, &fixed, &members, done);
        let plan = told(done, problems.of(Some(fixed.kind))).and_then(|()| self.plan(balancer, &fixed, &chosen, done));
        let refused = match plan.map(|plan| self.change(balancer, &plan, scope, done)) {
            Ok(Ok(ingress)) => return Ok(ingress),
            Ok(Err(Unchanged::Failed(failure))) => return Err(failure),
            Ok(Err(Unchanged::Refused(failure))) | Err(failure) => failure,
        };
        self.follow(balancer, &chosen.ids, done)?;
        if scope == Scope::All {
            return Err(refused);
        }
        done.warn(CONFIG_ERROR, format!("nothing but the droplets follows the Nodes: {}", refused.message));
        self.settled(balancer, done)
    }

    /// The droplets that an existing one should have.
    pub(super) fn choose<'a>(
        &self,
        balancer: &Balancer,
        fixed: &Fixed,
        members: &[Member<'a>],
        done: &mut Done,
    ) -> Chosen<'a> {
        let mut chosen = backends::choose(members, fixed.kind, fixed.network);
        remark(self.service, self.service_spec, fixed.kind, &chosen, done);
        if chosen.ids.is_empty() && !members.is_empty() {
            // Nodes are there, but no address or no droplet yet: an empty load balancer would be worse than an old one.
            done.warn(
                CONFIG_ERROR,
                format!("{}; the load balancer keeps its droplets", nobody(fixed, &chosen).message),
            );
            chosen.ids = backends::in_order(balancer.droplet_ids.clone());
        }
        chosen
    }

    /// What an existing one should be.
    pub(super) fn plan(
        &self,
        balancer: &Balancer,
        fixed: &Fixed,
        chosen: &Chosen<'_>,
        done: &mut Done,
    ) -> Result<Spec, Failure> {
        for remark in fixed.remarks(self.service_spec, self.config) {
            done.warn(IMMUTABLE, remark);
        }
        if let Some(subnet) = self.service_spec.subnet.as_ref().filter(|_| balancer.subnet_uuid.is_empty()) {
            let message = format!(
                "{} asks for {subnet}, and DigitalOcean does not tell which one load balancer {} has: that is for its creation, and nothing is changed for it alone",
                names::SUBNET,
                balancer.id
            );
            done.warn(IMMUTABLE, message);
        }
        let certificate = certificate::of_existing(self.service_spec.certificate_of(fixed.kind), balancer)?;
        certificate.remark.into_iter().for_each(|remark| done.warn(IGNORED, remark.message));
        let certificate = certificate.id.as_deref();
        let mut spec =
            desired::spec(&Parts { service_spec: self.service_spec, fixed, nodes: Some(chosen), certificate })?;
        desired::keep(&mut spec, self.service_spec, balancer);
        Ok(spec)
    }

    fn change(
        &self,
        balancer: &mut Balancer,
        plan: &Spec,
        scope: Scope,
        done: &mut Done,
    ) -> Result<Vec<Ingress>, Unchanged> {
        if balancer.status != "active" || scope.differences(balancer, plan).is_empty() {
            return Ok(self.settled(balancer, done)?);
        }
        if let Some(unknown) = size::unknown(balancer, plan) {
            let rest = Spec { droplet_ids: balancer.droplet_ids.clone(), ..plan.clone() };
            if !scope.differences(balancer, &rest).is_empty() {
                return Err(Unchanged::Refused(unknown));
            }
            self.follow(balancer, &plan.droplet_ids, done)?;
            return Ok(self.settled(balancer, done)?);
        }
        // Who follows the Nodes asks for no other size.
        let size = |waits: Option<Failure>| waits.filter(|_| scope == Scope::All).map_or(Ok(()), Err);
        let (possible, waits) = size::possible(balancer, plan);
        if scope.differences(balancer, &possible).is_empty() {
            let ingress = self.settled(balancer, done)?;
            size(waits)?;
            return Ok(ingress);
        }
        let Written { answer, parts, waits: refused } = size::write(balancer, &possible, scope)?;
        let changed = match balancers::replaced(&balancer.id, answer)? {
            Replaced::Done(changed) => changed,
            Replaced::Refused(failure) => return Err(Unchanged::Refused(failure)),
            // It may be about the certificate.
            Replaced::Absent if balancers::get(&balancer.id)?.is_some() => {
                let certificate = plan.certificate().filter(|id| certificate::is_missing(id));
                return Err(Unchanged::Refused(certificate::missing(certificate.or(plan.certificate()))));
            }
            Replaced::Absent => return Err(Failure::conflict(format!("load balancer {} is gone", balancer.id)).into()),
        };
        done.outcome.changes.push(format!("changed {}: {}", balancer.id, parts.join(", ")));
        // The droplets do not wait for a tag.
        self.mark(balancer, done);
        let ingress = self.settled(&changed, done)?;
        size(waits.or(refused))?;
        Ok(ingress)
    }

    fn settled(&self, balancer: &Balancer, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        settled(self.service, balancer, self.service_spec, done)
    }

    /// Changes nothing but the droplets: the rest stays as the cloud has it.
    fn follow(&self, balancer: &Balancer, chosen: &[u64], done: &mut Done) -> Result<(), Failure> {
        let lacks = |ids: &[u64], of: &[u64]| of.iter().copied().filter(|id| !ids.contains(id)).collect::<Vec<_>>();
        let (new, old) = (lacks(&balancer.droplet_ids, chosen), lacks(chosen, &balancer.droplet_ids));
        if balancer.status != "active" || (new.is_empty() && old.is_empty()) {
            return Ok(());
        }
        let id = &balancer.id;
        lookup::written(id);
        if !new.is_empty() {
            balancers::add_droplets(id, &new)?;
        }
        done.outcome.changes.push(format!("changed {id}: droplets"));
        if old.is_empty() { Ok(()) } else { balancers::remove_droplets(id, &old) }
    }
}
