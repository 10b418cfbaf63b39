//! The account itself, regions and VPCs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::page;
use super::{Ask, Cloud, Reply};
use crate::clock::Clock;

/// A region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// `nyc3`.
    pub slug: String,
    /// `New York 3`.
    pub name: String,
    /// Whether anything can be made there.
    pub available: bool,
}

/// A private network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vpc {
    /// UUID.
    pub id: String,
    /// Unique.
    pub name: String,
    /// Slug of its region.
    pub region: String,
    /// CIDR.
    pub ip_range: String,
    /// Whether things of its region are in it unless something else is said.
    pub default: bool,
}

/// The regions that exist from the start, each with its default VPC.
pub(super) fn defaults() -> (Vec<Region>, Vec<Vpc>) {
    let named = [
        ("nyc1", "New York 1"),
        ("sfo2", "San Francisco 2"),
        ("ams3", "Amsterdam 3"),
        ("sgp1", "Singapore 1"),
        ("lon1", "London 1"),
        ("fra1", "Frankfurt 1"),
        ("tor1", "Toronto 1"),
        ("nyc3", "New York 3"),
        ("blr1", "Bangalore 1"),
        ("sfo3", "San Francisco 3"),
        ("syd1", "Sydney 1"),
    ];
    let regions = named.map(|(slug, name)| Region { slug: slug.to_owned(), name: name.to_owned(), available: true });
    let vpcs = (1..).zip(named).map(|(number, (slug, _))| Vpc {
        id: format!("c33931f2-a26a-4e61-b85c-{number:012x}"),
        name: format!("default-{slug}"),
        region: slug.to_owned(),
        ip_range: format!("10.{number}.0.0/16"),
        default: true,
    });
    (regions.to_vec(), vpcs.collect())
}

impl Region {
    pub(super) fn show(&self) -> Value {
        json!({
            "slug": self.slug,
            "name": self.name,
            "available": self.available,
            "features": ["backups", "ipv6", "metadata", "install_agent"],
            "sizes": ["s-1vcpu-1gb", "s-2vcpu-4gb", "s-4vcpu-8gb"],
        })
    }
}

pub(super) fn account() -> Reply {
    let account = json!({
        "droplet_limit": 5000,
        "floating_ip_limit": 3,
        "email": "operator@example.com",
        "name": "Operator",
        "uuid": "b6fr89dbf6d9156cace5f3c78dc9851d957381ef",
        "email_verified": true,
        "status": "active",
        "status_message": "",
        "team": { "uuid": "5df3e3004a17e242b7c20ca6c9fc25b701a47ece", "name": "Example" },
    });
    Reply::one(200, "account", account)
}

impl Cloud {
    pub(super) fn region(&self, slug: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.slug == slug)
    }

    pub(super) fn default_vpc(&self, region: &str) -> Option<&Vpc> {
        self.vpcs.iter().find(|vpc| vpc.default && vpc.region == region)
    }

    pub(super) fn list_regions(&self, ask: &Ask<'_>) -> Reply {
        page(ask, "regions", &self.regions, Region::show)
    }

    pub(super) fn list_vpcs(&self, ask: &Ask<'_>, clock: &Clock) -> Reply {
        page(ask, "vpcs", &self.vpcs, |vpc| show(vpc, clock))
    }

    pub(super) fn get_vpc(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let vpc = self.vpcs.iter().find(|vpc| vpc.id == ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "vpc", show(vpc, clock)))
    }
}

fn show(vpc: &Vpc, clock: &Clock) -> Value {
    json!({
        "id": vpc.id,
        "urn": format!("do:vpc:{}", vpc.id),
        "name": vpc.name,
        "description": "",
        "region": vpc.region,
        "ip_range": vpc.ip_range,
        "default": vpc.default,
        "created_at": clock.date(std::time::Duration::ZERO),
    })
}
