//! What is in the account, and what the API does with it.

mod balancers;
mod certificates;
mod checks;
mod droplets;
mod firewalls;
mod places;
mod reply;
mod tags;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub use balancers::{Balancer, BalancerSpec, ForwardingRule, HealthCheck, SourceRules, StickySessions};
pub use certificates::{Certificate, CertificateKind, CertificateState};
pub use droplets::{Droplet, DropletStatus};
pub use firewalls::{Firewall, FirewallRule, FirewallSpec, Peers};
pub use places::{Region, Vpc};
pub(crate) use reply::Reply;

use crate::clock::{Clock, Moment};
use crate::collection::Collection;
use crate::endpoint::Endpoint;
use crate::settings::Settings;

/// A request that fits the document.
pub(crate) struct Ask<'a> {
    pub(crate) endpoint: Endpoint,
    /// Values of the path.
    pub(crate) values: &'a [String],
    /// The whole path, without prefix.
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(String, String)],
    pub(crate) body: &'a Value,
    pub(crate) now: Moment,
    pub(crate) settings: &'a Settings,
    pub(crate) link_base: &'a str,
}

impl Ask<'_> {
    fn id(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    /// What listings show is as of then.
    fn listed_at(&self) -> Moment {
        self.now.saturating_sub(self.settings.listing_lag)
    }
}

/// The account.
pub(crate) struct Cloud {
    pub(crate) droplets: Collection<u64, Droplet>,
    pub(crate) balancers: Collection<String, Balancer>,
    pub(crate) certificates: Collection<String, Certificate>,
    pub(crate) firewalls: Collection<String, Firewall>,
    pub(crate) tags: BTreeMap<String, tags::Tagged>,
    pub(crate) regions: Vec<Region>,
    pub(crate) vpcs: Vec<Vpc>,
    /// IDs. The first is the default one.
    pub(crate) projects: Vec<String>,
    made: u32,
}

/// All that is in the account, for a look.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot<'a> {
    droplets: Vec<&'a Droplet>,
    load_balancers: Vec<Value>,
    certificates: Vec<&'a Certificate>,
    firewalls: Vec<&'a Firewall>,
    tags: &'a BTreeMap<String, tags::Tagged>,
    regions: &'a [Region],
    vpcs: &'a [Vpc],
}

impl Cloud {
    pub(crate) fn new() -> Self {
        let (regions, vpcs) = places::defaults();
        Self {
            droplets: Collection::default(),
            balancers: Collection::default(),
            certificates: Collection::default(),
            firewalls: Collection::default(),
            tags: BTreeMap::new(),
            regions,
            vpcs,
            projects: vec!["4a9e1c52-6f0b-4d0e-8c55-000000000001".to_owned()],
            made: 0,
        }
    }

    /// Answers, with its effect.
    pub(crate) fn act(&mut self, ask: &Ask<'_>, clock: &Clock) -> Reply {
        use Endpoint as E;
        if ask.endpoint.is_write() {
            self.forget(ask.listed_at());
        }
        let done = match ask.endpoint {
            E::Account => Ok(places::account()),
            E::Regions => Ok(self.list_regions(ask)),
            E::Vpcs => Ok(self.list_vpcs(ask, clock)),
            E::Vpc => self.get_vpc(ask, clock),
            E::Droplets => self.list_droplets(ask, clock),
            E::Droplet => self.get_droplet(ask, clock),
            E::Balancers => Ok(self.list_balancers(ask, clock)),
            E::Balancer => self.get_balancer(ask, clock),
            E::CreateBalancer => self.create_balancer(ask, clock),
            E::UpdateBalancer => self.update_balancer(ask, clock),
            E::DeleteBalancer => self.delete_balancer(ask),
            E::AddDroplets | E::RemoveDroplets => self.change_members(ask),
            E::AddRules | E::RemoveRules => self.change_rules(ask),
            E::Certificates => Ok(self.list_certificates(ask, clock)),
            E::Certificate => self.get_certificate(ask, clock),
            E::Firewalls => Ok(self.list_firewalls(ask, clock)),
            E::Firewall => self.get_firewall(ask, clock),
            E::CreateFirewall => self.create_firewall(ask, clock),
            E::UpdateFirewall => self.update_firewall(ask, clock),
            E::DeleteFirewall => self.delete_firewall(ask),
            E::Tags => Ok(self.list_tags(ask)),
            E::Tag => self.get_tag(ask),
            E::CreateTag => self.create_tag(ask),
            E::DeleteTag => self.delete_tag(ask),
            E::TagResources | E::UntagResources => self.change_tagged(ask),
        };
        done.unwrap_or_else(|refused| refused)
    }

    pub(crate) fn snapshot(&self, now: Moment, clock: &Clock) -> Snapshot<'_> {
        Snapshot {
            droplets: self.droplets.all().collect(),
            load_balancers: self.balancers.all().map(|balancer| self.show_balancer(balancer, now, clock)).collect(),
            certificates: self.certificates.all().collect(),
            firewalls: self.firewalls.all().collect(),
            tags: &self.tags,
            regions: &self.regions,
            vpcs: &self.vpcs,
        }
    }

    /// A number that nothing else has.
    fn number(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// An ID that nothing else has.
    pub(crate) fn uuid(&mut self) -> String {
        let number = self.number();
        // Spread, so that IDs made one after the other do not sort so.
        format!("{:08x}-5d0c-4000-8000-{number:012x}", number.wrapping_mul(0x9e37_79b1))
    }

    fn forget(&mut self, before: Moment) {
        self.droplets.forget(before);
        self.balancers.forget(before);
        self.certificates.forget(before);
        self.firewalls.forget(before);
    }
}
