//! Deletes a load balancer, or what a Service has of one that others use too.
//!
//! Every call looks at it anew: one that goes into ERROR while it is deleted is deleted once more, and nobody waits for it.

use std::time::Duration;

use ccm_sdk::Done;
use ccm_sdk::steps::Steps;
use ccm_sdk::types::{Failure, Ingress, Problem};
use serde_json::json;

use super::done::SPARED;
use super::refusal::{SLOWLY, SOON, both};
use super::seen::Seen;
use super::step::{Step, Writer};
use super::work::Work;
use super::{create, groups, plan};
use crate::annotations as names;
use crate::api::floating_ips;
use crate::api::octavia::{self, Balancer, Thing};

/// When to look whether it is gone.
const LOOK: Duration = Duration::from_secs(2);

impl Work<'_> {
    /// Nothing is left of it when this is no failure.
    pub(super) fn delete(&self, done: &mut Done) -> Result<(), Failure> {
        let known = self.by_id()?;
        let mut all = self.own_or_going()?;
        let own_ids: Vec<String> = all.iter().map(|balancer| balancer.id.clone()).collect();
        all.extend(known.filter(|balancer| !own_ids.contains(&balancer.id)));
        if all.is_empty()
            && let Some(unmarked) = self.unmarked(done)?
        {
            // Without its floating IP, nothing would lead the next call there.
            self.note(names::ID, &unmarked.id, done);
            all.push(unmarked);
        }
        if all.is_empty() {
            self.await_unheard()?;
            self.prove_account()?;
        }
        // One that does not end keeps no other.
        let ends: Vec<Result<(), Failure>> = all.iter().map(|balancer| self.remove(balancer, done)).collect();
        ends.into_iter().collect::<Result<(), Failure>>()?;
        self.delete_left_floating_ips(done)?;
        groups::delete(self.service, done)
    }

    /// One without a tag that the Service's status leads to. Made before there were tags, or by the Go manager. One that nothing but its name
    /// leads to may be another cluster's: it stays, and is told.
    pub(super) fn unmarked(&self, done: &mut Done) -> Result<Option<Balancer>, Failure> {
        if self.spec.id.is_some() {
            return Ok(None);
        }
        let mut left = vec![];
        for balancer in self.named()? {
            if self.leads_to(&balancer)? {
                return Ok(Some(balancer));
            }
            if balancer.status != "PENDING_DELETE" {
                left.push(balancer.id);
            }
        }
        if let Some(first) = left.first() {
            let message = format!(
                "load balancer {} stays: it has the name {}, which is this Service's, and nothing says that it is not that of a Service in another cluster with the name {}; if it is nobody's, delete it with: openstack loadbalancer delete --cascade {first}",
                left.join(", "),
                self.spec.names.balancer,
                self.host.cluster,
            );
            done.warn(SPARED, message);
        }
        Ok(None)
    }

    /// Whether others use it. Tags alone do not say: a Service that left under the Go manager leaves the tag with its UID behind, and who
    /// has just come, or is no Service, has a listener and no tag yet. So the listeners count.
    fn is_shared(&self, balancer: &Balancer) -> Result<bool, Failure> {
        if !self.spec.names.others(&balancer.tags).is_empty() {
            return Ok(true);
        }
        let listeners = octavia::listeners(&balancer.id)?;
        Ok(listeners.iter().any(|listener| !self.is_own(balancer, &listener.tags)))
    }

    /// One of them.
    fn remove(&self, balancer: &Balancer, done: &mut Done) -> Result<(), Failure> {
        let id = &balancer.id;
        if balancer.status == "PENDING_DELETE" {
            return Err(Failure::pending(format!("load balancer {id} is being deleted")).after(LOOK));
        }
        let spec_names = &self.spec.names;
        let is_own = spec_names.are_own(&balancer.tags) || (balancer.tags.is_empty() && self.is_owner(balancer));
        if self.is_made(balancer) && is_own && !self.is_shared(balancer)? {
            return self.remove_whole(balancer, done);
        }
        let plan = || self.parting(balancer);
        if !spec_names.are_own(&balancer.tags) && plan()?.is_empty() {
            done.warn(
                SPARED,
                format!("load balancer {id} stays: others use it, and nothing of it is this Service's any more"),
            );
            return Ok(());
        }
        self.run(balancer, plan, done)
    }

    fn remove_whole(&self, balancer: &Balancer, done: &mut Done) -> Result<(), Failure> {
        let id = &balancer.id;
        if !matches!(balancer.status.as_str(), "ACTIVE" | "ERROR") {
            let message =
                format!("load balancer {id} is in immutable status, current provisioning status: {}", balancer.status);
            return Err(Failure::pending(message).after(LOOK));
        }
        self.delete_floating_ip(balancer, done)?;
        if !self.config.balancers.cascade_delete && balancer.status == "ACTIVE" {
            self.run(balancer, || self.dismantling(balancer), done)?;
        }
        octavia::delete(id, self.config.balancers.cascade_delete || balancer.status == "ERROR")?;
        create::is_no_more_new(id);
        done.changed(format!("deleted load balancer {id}"));
        Err(Failure::pending(format!("load balancer {id} is being deleted")).after(LOOK))
    }

    pub(super) fn run(
        &self,
        balancer: &Balancer,
        plan: impl Fn() -> Result<Vec<Step>, Failure>,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let writer = Writer::new(balancer, self.service, plan);
        // Another Service that leaves has other steps.
        let result = Steps::new(&balancer.id, &("delete", self.uid())).run(&writer, done);
        writer.tell(done);
        result
    }

    /// What the Service has of it goes: all listeners with its tag, whatever ports it has now, their pools, and its tags last.
    fn parting(&self, balancer: &Balancer) -> Result<Vec<Step>, Failure> {
        let seen = Seen {
            listeners: octavia::listeners(&balancer.id)?,
            pools: octavia::pools(&balancer.id)?,
            ..Seen::default()
        };
        let mut steps = vec![];
        let spec_names = &self.spec.names;
        if self.is_sharer(balancer)? {
            // Its listeners say that it shares the load balancer, and they go before its tags.
            let body = json!({ "tags": spec_names.with_own(&balancer.tags) });
            let says = format!("tags of load balancer {}", balancer.id);
            return Ok(vec![Step::change(Thing::Balancer, &balancer.id, body, &says)]);
        }
        let (own, others): (Vec<_>, Vec<_>) =
            seen.listeners.iter().partition(|listener| self.is_own(balancer, &listener.tags));
        for listener in own {
            let port = listener.protocol_port;
            steps.push(Step::delete(Thing::Listener, &listener.id, &format!("listener {port}")));
            let pool = listener.default_pool_id.as_deref().filter(|pool| !pool.is_empty());
            let is_others = |pool: &&str| others.iter().any(|other| other.default_pool_id.as_deref() == Some(*pool));
            if let Some(pool) = pool.filter(|pool| !is_others(pool)) {
                steps.push(Step::delete(Thing::Pool, pool, &format!("pool of port {port}")));
            }
        }
        let free = seen.pools.iter().filter(|pool| pool.listeners.is_empty() && plan::is_pool_of(self, pool));
        steps.extend(free.map(|pool| Step::delete(Thing::Pool, &pool.id, &format!("pool {}", pool.name))));
        let left = spec_names.without_own(&balancer.tags);
        if spec_names.are_own(&balancer.tags) && left != balancer.tags {
            let says = format!("tags of load balancer {}", balancer.id);
            steps.push(Step::change(Thing::Balancer, &balancer.id, json!({ "tags": left }), &says));
        }
        Ok(steps)
    }

    /// Everything of it, one by one.
    fn dismantling(&self, balancer: &Balancer) -> Result<Vec<Step>, Failure> {
        let listeners = octavia::listeners(&balancer.id)?;
        let pools = octavia::pools(&balancer.id)?;
        let mut steps: Vec<Step> = listeners
            .iter()
            .map(|listener| {
                Step::delete(Thing::Listener, &listener.id, &format!("listener {}", listener.protocol_port))
            })
            .collect();
        steps.extend(pools.iter().map(|pool| Step::delete(Thing::Pool, &pool.id, &format!("pool {}", pool.name))));
        Ok(steps)
    }

    /// Deletes one in ERROR that only this Service uses, so that a new one can be made. Nobody knows the address of one that has failed while
    /// it was made: that goes without consent, as with the Go manager.
    ///
    /// # Errors
    ///
    /// Always: it is being deleted, or it may not be.
    pub(super) fn replace(&self, balancer: &Balancer, done: &mut Done) -> Result<Vec<Ingress>, Failure> {
        let spec_names = &self.spec.names;
        let message =
            format!("loadbalancer {} has gone into ERROR state, please check Octavia for details", balancer.id);
        let is_others = !self.is_made(balancer) || self.is_shared(balancer)?;
        let is_unserved = create::is_unserved(&balancer.id) && !self.may_be_published(balancer)?;
        let may_go = self.spec.recreates || (is_unserved && self.service.annotation(names::RECREATE).is_none());
        if !may_go || is_others || !spec_names.are_own(&balancer.tags) {
            let way_out = if is_others {
                "others use it, or made it".to_owned()
            } else {
                format!("annotation {}: \"true\" lets it be deleted and made anew", names::RECREATE)
            };
            let message = format!("{message}; {way_out}");
            done.warn(super::done::IN_ERROR, message.clone());
            return Err(Failure::retry(message).after(SLOWLY));
        }
        // What cannot be made again is not deleted. A new one gets the provider of the configuration.
        let (_, problems) = Work::read(self.config, self.host, self.service);
        if let Some(wrong) = Problem::refusal(problems) {
            return Err(both(Failure::retry(message).after(SLOWLY), Err::<(), _>(wrong)));
        }
        self.check_tls()?;
        self.check_pattern()?;
        // Its floating IP stays, and comes to the new one.
        octavia::delete(&balancer.id, true)?;
        create::is_no_more_new(&balancer.id);
        done.changed(format!("deleted load balancer {}, which was in ERROR", balancer.id));
        done.unannotate(names::ID);
        let message = format!("{message}. Load balancer was deleted and its creation will be retried");
        // A cloud that makes none is not asked again at once.
        Err(if is_unserved { Failure::retry(message).after(SOON) } else { Failure::pending(message).after(LOOK) })
    }

    /// Whether another replica may have published it since it was made here. The Service may still have the address of the one before it,
    /// which somebody deleted.
    fn may_be_published(&self, balancer: &Balancer) -> Result<bool, Failure> {
        if self.service.ingress.is_empty() {
            return Ok(false);
        }
        let known = self.addresses();
        if known.is_empty() || known.contains(&balancer.vip_address.as_str()) || balancer.vip_port_id.is_empty() {
            return Ok(true);
        }
        Ok(!floating_ips::with("port_id", &balancer.vip_port_id)?.is_empty())
    }
}
