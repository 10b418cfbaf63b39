//! Changes an existing load balancer to what its Service asks for, as far as the cloud allows.

use ccm_sdk::types::{Backend, Failure, Ingress, Reaction};
use ccm_sdk::{Answer, Done};

use super::done::{CONFIG_ERROR, IGNORED, IMMUTABLE, REFUSED, told};
use super::given;
use super::left_out::{LeftOut, both};
use super::lookup;
use super::size::{self, Written};
use super::work::{Scope, Work, nobody, remark, settled};
use crate::annotations as names;
use crate::api;
use crate::api::balancers::{self, Balancer, Replaced, Spec};
use crate::backends::{self, Chosen, Member};
use crate::certificate;
use crate::desired::{self, Fixed, Parts};
use crate::service_spec::Problems;

/// The host takes a Service with a new address for done.
fn address_first(message: &str, rest: &str) -> String {
    format!(
        "{message}; the address of the Service comes first, and {rest} is tried again with the next change, or when all load balancers are compared"
    )
}

/// What a person has to mend comes first. When it is tried again, the other one says.
fn in_front(refused: Failure, other: Failure) -> Failure {
    let message = format!("{}; {}", refused.message, other.message);
    Failure { message, field: refused.field, ..other }
}

/// Why something was not changed.
enum Unchanged {
    /// The cloud refuses the change.
    Refused(Failure),
    /// The cloud refuses droplets, and nobody knows which.
    Stuck(Failure),
    /// The result is unknown, or the cause is temporary.
    Failed(Failure),
}

impl From<Failure> for Unchanged {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Unchanged> for Failure {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Refused(failure) | Unchanged::Stuck(failure) | Unchanged::Failed(failure) => failure,
        }
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
        let refused = match plan.map(|plan| self.change(balancer, &plan, &chosen, scope, done)) {
            Ok(Ok(ingress)) => return Ok(ingress),
            Ok(Err(Unchanged::Failed(failure))) => return Err(failure),
            Ok(Err(Unchanged::Stuck(failure))) => return self.stuck(failure, balancer, done),
            Ok(Err(Unchanged::Refused(failure))) | Err(failure) => failure,
        };
        let left_out = match self.follow(balancer, &chosen, done) {
            Err(unchanged) if scope == Scope::All => return Err(in_front(refused, unchanged.into())),
            Err(Unchanged::Stuck(failure)) => return self.stuck(failure, balancer, done),
            followed => followed?,
        };
        // What is wrong is looked at again when something changes, and droplets do not wait for that.
        let waits = left_out.clone().filter(|_| refused.reaction == Reaction::Invalid);
        if scope == Scope::All && waits.is_none() {
            return Err(refused);
        }
        done.warn(CONFIG_ERROR, format!("nothing but the droplets follows the Nodes: {}", refused.message));
        match waits {
            Some(waits) if scope == Scope::All => Err(in_front(refused, waits)),
            _ => self.settled_unless(None, left_out, balancer, done),
        }
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
        chosen: &Chosen<'_>,
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
            let left_out = self.follow(balancer, chosen, done)?;
            return Ok(self.settled_unless(None, left_out, balancer, done)?);
        }
        // Who follows the Nodes asks for no other size.
        let size = |waits: Option<Failure>| waits.filter(|_| scope == Scope::All);
        let wanted = &plan.droplet_ids;
        let has = balancer.droplet_ids.clone();
        let mut left_out = self.left_out(balancer, wanted);
        let (mut possible, mut waits) = size::possible(balancer, plan);
        possible.droplet_ids = left_out.rest(wanted, &has);
        if scope.differences(balancer, &possible).is_empty() {
            let left_out = self.waiting(&left_out, balancer, chosen, done);
            return Ok(self.settled_unless(size(waits), left_out, balancer, done)?);
        }
        let mut written = size::write(balancer, &possible, scope)?;
        if api::is_about_droplets(&written.answer) {
            let mut are_fewer = left_out.ask(&written.answer, &possible.droplet_ids, &has) || left_out.put_back();
            while are_fewer {
                let fewer = left_out.rest(wanted, &has);
                // All that it has are refused: the same would be written again.
                if fewer == possible.droplet_ids {
                    break;
                }
                // The cloud may have refused the size just now.
                (possible, waits) = size::possible(balancer, plan);
                possible.droplet_ids = fewer;
                if scope.differences(balancer, &possible).is_empty() {
                    let left_out = self.waiting(&left_out, balancer, chosen, done);
                    return Ok(self.settled_unless(size(waits), left_out, balancer, done)?);
                }
                written = size::write(balancer, &possible, scope)?;
                are_fewer = api::is_about_droplets(&written.answer) && left_out.put_back();
            }
            if api::is_about_droplets(&written.answer) {
                written = size::rest(balancer, &possible, scope, written)?;
            }
            if !written.is_nothing() && api::is_about_droplets(&written.answer) {
                return Err(self.rest_first(balancer, &possible, scope, wanted, &written.answer, done));
            }
        }
        let left_out = self.waiting(&left_out, balancer, chosen, done);
        let is_nothing = written.is_nothing();
        let Written { answer, parts, waits: refused } = written;
        waits = waits.or(refused);
        if is_nothing {
            return Ok(self.settled_unless(size(waits), left_out, balancer, done)?);
        }
        let changed = self.replaced(balancer, plan, answer, &parts, done)?;
        Ok(self.settled_unless(size(waits), left_out, &changed, done)?)
    }

    /// What has become of it.
    fn replaced(
        &self,
        balancer: &mut Balancer,
        plan: &Spec,
        answer: Answer,
        parts: &[String],
        done: &mut Done,
    ) -> Result<Box<Balancer>, Unchanged> {
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
        Ok(changed)
    }

    /// Nobody knows which droplets the cloud refuses: what else differs is written with those that it has, and waits for no other.
    fn rest_first(
        &self,
        balancer: &mut Balancer,
        possible: &Spec,
        scope: Scope,
        wanted: &[u64],
        no: &Answer,
        done: &mut Done,
    ) -> Unchanged {
        let (has, ids) = (&balancer.droplet_ids, &possible.droplet_ids);
        let new = lacking(has, ids);
        let mut rest = Spec { droplet_ids: has.clone(), ..size::possible(balancer, possible).0 };
        if !new.is_empty() && !scope.differences(balancer, &rest).is_empty() {
            // Not those of Nodes that went: they may be the ones that are refused.
            rest.droplet_ids = Some(lacking(&new, ids)).filter(|kept| !kept.is_empty()).unwrap_or(rest.droplet_ids);
            let mut written = size::write(balancer, &rest, scope);
            if let Ok(no) = &written
                && api::is_about_droplets(&no.answer)
            {
                written = written.and_then(|no| size::rest(balancer, &rest, scope, no));
            }
            if let Ok(Written { answer, parts, .. }) = written
                && !parts.is_empty()
            {
                match self.replaced(balancer, &rest, answer, &parts, done) {
                    Ok(changed) => *balancer = *changed,
                    Err(Unchanged::Refused(failure)) => return Unchanged::Refused(failure),
                    Err(_) => {}
                }
            }
        }
        stuck(balancer, wanted, no, done)
    }

    fn settled(&self, balancer: &Balancer, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        settled(self.service, balancer, self.service_spec, done)
    }

    fn ingress(&self, balancer: &Balancer) -> Vec<Ingress> {
        desired::ingress(self.service, balancer, self.service_spec.hostname.as_deref())
    }

    /// The same where the size waits, or Nodes do. A Service that lacks an address gets that first, and comes again when all are compared.
    fn settled_unless(
        &self,
        size: Option<Failure>,
        left_out: Option<Failure>,
        balancer: &Balancer,
        done: &mut Done,
    ) -> Result<Vec<Ingress>, Failure> {
        let ingress = self.settled(balancer, done)?;
        if !given::is_due(self.service, &ingress) {
            return both(size, left_out).map_or(Ok(ingress), Err);
        }
        if let Some(Failure { message, .. }) = size {
            done.warn(IMMUTABLE, address_first(&message, "the size"));
        }
        given::give(self.service, &ingress);
        Ok(ingress)
    }

    /// The same where the cloud refuses droplets, and nobody knows which.
    fn stuck(&self, failure: Failure, balancer: &Balancer, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        let ingress = self.ingress(balancer);
        if ingress.is_empty() || !given::is_due(self.service, &ingress) {
            return Err(failure);
        }
        let message =
            format!("load balancer {} does not have all that it should have: {}", balancer.id, failure.message);
        done.warn(REFUSED, address_first(&message, "the rest"));
        given::give(self.service, &ingress);
        Ok(ingress)
    }

    /// Those of the wanted droplets that it goes without. The look that gives the Service its address asks for them once more, as the next
    /// look may be an hour later. It reads and tries no write: one of another VPC is left out for good.
    fn left_out<'b>(&self, balancer: &'b Balancer, wanted: &[u64]) -> LeftOut<'b> {
        let mut left_out = LeftOut::known(&lacking(&balancer.droplet_ids, wanted), Some(&balancer.vpc_uuid));
        let ingress = self.ingress(balancer);
        if !ingress.is_empty() && given::is_due(self.service, &ingress) {
            left_out.ask_again();
        }
        left_out
    }

    /// Why Nodes wait.
    fn waiting(
        &self,
        left_out: &LeftOut<'_>,
        balancer: &Balancer,
        chosen: &Chosen<'_>,
        done: &mut Done,
    ) -> Option<Failure> {
        left_out.tell(&format!("load balancer {}", balancer.id), chosen, done)
    }

    /// Changes nothing but the droplets: the rest stays as the cloud has it. Returns why Nodes wait.
    fn follow(&self, balancer: &Balancer, chosen: &Chosen<'_>, done: &mut Done) -> Result<Option<Failure>, Unchanged> {
        let (has, wanted) = (&balancer.droplet_ids, &chosen.ids);
        if balancer.status != "active" {
            return Ok(None);
        }
        let mut left_out = self.left_out(balancer, wanted);
        let mut new = lacking(has, &left_out.rest(wanted, has));
        if !new.is_empty() {
            let mut answer = add(balancer, &new)?;
            let is_no = api::is_about_droplets(&answer);
            let mut are_fewer = is_no && (left_out.ask(&answer, &new, &[]) || left_out.put_back());
            while are_fewer {
                new = lacking(has, &left_out.rest(wanted, has));
                if new.is_empty() {
                    break;
                }
                answer = add(balancer, &new)?;
                are_fewer = api::is_about_droplets(&answer) && left_out.put_back();
            }
            if !new.is_empty() {
                if api::is_about_droplets(&answer) {
                    return Err(stuck(balancer, wanted, &answer, done));
                }
                answer.done()?;
                changed_droplets(balancer, done);
            }
        }
        if new.is_empty() {
            take_away(balancer, wanted, done)?;
        } else {
            remove(balancer, &lacking(wanted, has), done)?;
        }
        Ok(self.waiting(&left_out, balancer, chosen, done))
    }
}

/// Of some droplets, those that are not among others.
fn lacking(others: &[u64], of: &[u64]) -> Vec<u64> {
    backends::split(of, others).1
}

fn add(balancer: &Balancer, new: &[u64]) -> Result<Answer, Failure> {
    lookup::written(&balancer.id);
    balancers::add_droplets(&balancer.id, new)
}

/// Nobody knows which droplets the cloud refuses. Those of Nodes that went are taken away all the same.
fn stuck(balancer: &Balancer, wanted: &[u64], answer: &Answer, done: &mut Done) -> Unchanged {
    match take_away(balancer, wanted, done) {
        Ok(()) => Unchanged::Stuck(answer.failure(Reaction::Retry)),
        Err(failure) => Unchanged::Failed(failure),
    }
}

/// Takes away what is not wanted, unless none would be left.
fn take_away(balancer: &Balancer, wanted: &[u64], done: &mut Done) -> Result<(), Failure> {
    let old = lacking(wanted, &balancer.droplet_ids);
    let is_all = old.len() == balancer.droplet_ids.len() && !wanted.is_empty();
    if is_all { Ok(()) } else { remove(balancer, &old, done) }
}

fn remove(balancer: &Balancer, old: &[u64], done: &mut Done) -> Result<(), Failure> {
    if old.is_empty() {
        return Ok(());
    }
    lookup::written(&balancer.id);
    changed_droplets(balancer, done);
    balancers::remove_droplets(&balancer.id, old)
}

fn changed_droplets(balancer: &Balancer, done: &mut Done) {
    let change = format!("changed {}: droplets", balancer.id);
    if !done.outcome.changes.contains(&change) {
        done.outcome.changes.push(change);
    }
}
