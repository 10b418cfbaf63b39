//! Members that move to another subnet, one by one: each goes before it can come again, so the subnet has to be there.

use ccm_sdk::types::Failure;

use super::plan::{is_at, is_in_subnet};
use super::refusal;
use super::seen::Seen;
use super::work::Work;
use crate::annotations as names;
use crate::api::floating_ips;
use crate::api::octavia::Balancer;
use crate::desired::{Member, Port};

impl Work<'_> {
    /// # Errors
    ///
    /// Members would have to move to a subnet that Neutron does not know, or nobody knows whether it does.
    pub(super) fn check_moves(&self, balancer: &Balancer, ports: &[Port], seen: &Seen) -> Result<(), Failure> {
        let Some(subnet) = self.member_subnet(None).filter(|_| self.config.balancers.serial && seen.in_full) else {
            return Ok(());
        };
        let moves = |member: &Member| {
            let mut there = seen.members.values().flatten();
            there.any(|other| is_at(member, other) && !is_in_subnet(member, other, &balancer.vip_subnet_id))
        };
        if !ports.iter().flat_map(|port| &port.members).any(moves) || floating_ips::subnet(subnet)?.is_some() {
            return Ok(());
        }
        let says = |name: &&&str| self.service.annotation(name).map(str::trim) == Some(subnet);
        let annotation = [names::MEMBER_SUBNET, names::SUBNET].iter().find(says).copied();
        let place =
            annotation.is_none().then(|| "member-subnet-id or subnet-id in [LoadBalancer] or in the class".to_owned());
        let message = format!(
            "members cannot move to subnet {subnet:?}, which Neutron does not know, and stay where they are: name a subnet that the Nodes are in"
        );
        Err(refusal::of_value(annotation.unwrap_or_default(), place, &message))
    }
}
