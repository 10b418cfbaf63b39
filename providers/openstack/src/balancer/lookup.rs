//! Finds the load balancer of a Service.
//!
//! | where | whose |
//! |---|---|
//! | by the ID on the Service | as the Service says, unless it is marked as that of a namesake in another cluster |
//! | by the ID, shared under the Go manager | also the Service's, where others have their UIDs on it and it has none: its listener there has none either |
//! | by the tag with the Service's UID | the Service's: nobody else has that tag |
//! | by its name | nobody knows, where no tag has a UID: it is the Service's if the Service's status leads there too |
//! | by the name that old Go managers gave it | the Service's: it has the Service's UID |

use std::net::IpAddr;

use ccm_sdk::Done;
use ccm_sdk::find::sees_the_cluster;
use ccm_sdk::types::Failure;

use super::create;
use super::done::{DUPLICATE, RECREATED};
use super::work::Work;
use crate::annotations as names;
use crate::api::floating_ips;
use crate::api::octavia::{self, Balancer};
use crate::find::Servers;

/// Not on its way out.
fn is_staying(balancer: &Balancer) -> bool {
    !matches!(balancer.status.as_str(), "DELETED" | "PENDING_DELETE")
}

impl Work<'_> {
    /// The load balancer that the Service has.
    ///
    /// # Errors
    ///
    /// The cloud cannot be asked, or it is not to be had.
    pub(super) fn find(&self, done: &mut Done) -> Result<Option<Balancer>, Failure> {
        if let Some(balancer) = self.by_id()? {
            self.refuse_namesake(&balancer)?;
            return Ok(Some(balancer));
        }
        if let Some(id) = &self.spec.id
            && !self.had_one()
        {
            let message =
                format!("there is no load balancer {id}; take annotation {} off to have a new one", names::ID);
            return Err(Failure::invalid(message).annotation(names::ID));
        }
        self.seek(done)
    }

    /// By the ID on the Service.
    ///
    /// # Errors
    ///
    /// The cloud cannot be asked, or it was made just now, and what was asked does not know of it yet.
    pub(super) fn by_id(&self) -> Result<Option<Balancer>, Failure> {
        let Some(id) = &self.spec.id else { return Ok(None) };
        let found = octavia::get(id)?;
        if found.is_none() && create::is_new(id) {
            let message = format!("load balancer {id} was made a moment ago, and does not show yet");
            return Err(Failure::pending(message).after(create::LOOK));
        }
        Ok(found)
    }

    /// Whether a load balancer has served this Service before.
    pub(super) fn had_one(&self) -> bool {
        self.service.annotation(names::ADDRESS).is_some() || !self.service.ingress.is_empty()
    }

    /// Without the ID.
    pub(super) fn seek(&self, done: &mut Done) -> Result<Option<Balancer>, Failure> {
        let spec_names = &self.spec.names;
        let mut own = self.own()?;
        if own.len() > 1 {
            let all: Vec<&str> = own.iter().map(|balancer| balancer.id.as_str()).collect();
            let message = format!(
                "load balancers {} have the tag of this Service; the first one is used, and all go with the Service",
                all.join(", ")
            );
            done.warn(DUPLICATE, message);
        }
        if !own.is_empty() {
            self.heard();
            return Ok(Some(own.swap_remove(0)));
        }
        let mut unmarked = self.named()?;
        unmarked.retain(is_staying);
        let Some(balancer) = unmarked.pop() else { return Ok(None) };
        if !unmarked.is_empty() {
            let message = format!(
                "several load balancers have the name {}, and no tag says whose they are; name the right one with annotation {}",
                balancer.name,
                names::ID
            );
            return Err(Failure::conflict(message).annotation(names::ID));
        }
        if self.leads_to(&balancer)? {
            return Ok(Some(balancer));
        }
        let message = format!(
            "load balancer {} has the name {}, which is this Service's, and nothing says that it is not that of a Service in another cluster with the name {}; take it over with annotation {}: {:?}, or delete it",
            balancer.id,
            spec_names.balancer,
            self.host.cluster,
            names::ID,
            balancer.id
        );
        Err(Failure::conflict(message).annotation(names::ID))
    }

    /// Those with the Service's name that no tag says to be of another one. Where there is none, those with
    /// the name that old Go managers gave them: only a Service that was published can have one.
    pub(super) fn named(&self) -> Result<Vec<Balancer>, Failure> {
        let spec_names = &self.spec.names;
        let of = |name: &str| -> Result<Vec<Balancer>, Failure> {
            let mut named = octavia::named(name)?;
            named.retain(|balancer| {
                balancer.status != "DELETED"
                    && balancer.name == name
                    && spec_names.other_uids(&balancer.tags).is_empty()
            });
            Ok(named)
        };
        let named = of(&spec_names.balancer)?;
        if named.is_empty() && !self.service.ingress.is_empty() { of(&spec_names.legacy) } else { Ok(named) }
    }

    /// Those with the Service's own tag that are not on their way out, the oldest first.
    pub(super) fn own(&self) -> Result<Vec<Balancer>, Failure> {
        let mut own = self.own_or_going()?;
        own.retain(is_staying);
        Ok(own)
    }

    /// Those as well that are on their way out: they can come back from it, in ERROR.
    pub(super) fn own_or_going(&self) -> Result<Vec<Balancer>, Failure> {
        let tag = &self.spec.names.uid;
        let mut own = octavia::tagged(tag)?;
        own.retain(|balancer| balancer.status != "DELETED" && balancer.tags.contains(tag));
        own.sort_by(|one, other| (&one.created_at, &one.id).cmp(&(&other.created_at, &other.id)));
        Ok(own)
    }

    /// Where the Service's status leads, also by a host name that was made of an address, and what was noted as its address.
    pub(super) fn addresses(&self) -> Vec<&str> {
        let suffix = &self.config.balancers.ingress_hostname_suffix;
        let of_status = self.service.ingress.iter().filter_map(|ingress| match (&ingress.ip, &ingress.hostname) {
            (Some(ip), _) => Some(ip.as_str()),
            (None, Some(name)) => name.strip_suffix(suffix.as_str())?.strip_suffix('.'),
            (None, None) => None,
        });
        let mut addresses: Vec<&str> = vec![];
        for address in of_status.chain(self.service.annotation(names::ADDRESS)) {
            if address.parse::<IpAddr>().is_ok() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Whether the Service's status, or what the Go manager noted, or its old name with the Service's UID is an address of the load balancer.
    pub(super) fn leads_to(&self, balancer: &Balancer) -> Result<bool, Failure> {
        if balancer.name == self.spec.names.legacy {
            return Ok(true);
        }
        let addresses = self.addresses();
        if addresses.is_empty() || addresses.contains(&balancer.vip_address.as_str()) {
            return Ok(!addresses.is_empty());
        }
        if balancer.vip_port_id.is_empty() {
            return Ok(false);
        }
        let floating = floating_ips::with("port_id", &balancer.vip_port_id)?;
        Ok(floating.iter().any(|floating| addresses.contains(&floating.address.as_str())))
    }

    /// Whether the Service shares a load balancer since the Go manager's time, and has no tag with its UID there yet. A namesake, a copy
    /// or a restored Service has no status that leads there; and where somebody has taken the Service's listeners over, they have a UID.
    pub(super) fn is_sharer(&self, balancer: &Balancer) -> Result<bool, Failure> {
        let spec_names = &self.spec.names;
        if !spec_names.may_share(&balancer.tags) || self.service.ingress.is_empty() || !self.leads_to(balancer)? {
            return Ok(false);
        }
        let listeners = octavia::listeners(&balancer.id)?;
        Ok(listeners.iter().any(|listener| spec_names.is_of_go(&listener.tags)))
    }

    /// An ID that came with a copy leads to the load balancer of a Service with the same name in another cluster.
    fn refuse_namesake(&self, balancer: &Balancer) -> Result<(), Failure> {
        let spec_names = &self.spec.names;
        let others = spec_names.other_uids(&balancer.tags);
        if others.is_empty() || spec_names.are_own(&balancer.tags) || !balancer.tags.contains(&spec_names.balancer) {
            return Ok(());
        }
        if self.is_sharer(balancer)? {
            return Ok(());
        }
        let message = format!(
            "load balancer {} is that of a Service with the same name and the UID {}, in another cluster that is called {} too; take annotation {} off to have a new one",
            balancer.id,
            others.join(", "),
            self.host.cluster,
            names::ID
        );
        Err(Failure::conflict(message).annotation(names::ID))
    }

    /// Before a new one takes the place of one that is gone: to another account all are gone.
    pub(super) fn prove_gone(&self, done: &mut Done) -> Result<(), Failure> {
        self.prove_account()?;
        if let Some(id) = &self.spec.id {
            done.warn(RECREATED, format!("load balancer {id} is gone, and a new one is made"));
        } else if self.had_one() {
            done.warn(RECREATED, "the load balancer that the Service had is gone, and a new one is made");
        }
        Ok(())
    }

    /// Where the Service has, or had, a load balancer, and there is none.
    ///
    /// # Errors
    ///
    /// The credentials may be those of another account, to which it is missing as well.
    pub(super) fn prove_account(&self) -> Result<(), Failure> {
        if self.spec.id.is_none() && !self.had_one() {
            return Ok(());
        }
        sees_the_cluster(&Servers::new(self.config), self.host.provider_ids)
    }
}
