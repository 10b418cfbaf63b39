//! Machines.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::page;
use super::{Ask, Cloud, Reply};
use crate::clock::{Clock, Moment};
use crate::document::values;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Droplet {
    /// 0: the next free one.
    pub id: u64,
    /// Not unique.
    pub name: String,
    /// What it does. Default active.
    pub status: DropletStatus,
    /// Slug of its size. Default `s-2vcpu-4gb`.
    pub size: String,
    /// Slug of its region. Default `nyc3`.
    pub region: String,
    /// Its private addresses, in order.
    pub private_v4: Vec<Ipv4Addr>,
    /// Its public addresses, in order.
    pub public_v4: Vec<Ipv4Addr>,
    /// Its public addresses of version 6, in order.
    pub public_v6: Vec<Ipv6Addr>,
    /// None: the default VPC of its region.
    pub vpc: Option<String>,
    /// Names of tags.
    pub tags: Vec<String>,
    /// A machine with a GPU is in no listing that does not ask for these.
    pub gpu: bool,
    /// When it was made, in milliseconds since the start. Whoever makes it need not say.
    pub created_ms: u64,
}

/// What a machine does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropletStatus {
    /// It is made, and may have no network yet.
    New,
    /// It runs.
    #[default]
    Active,
    /// It is powered off.
    Off,
    /// It is archived.
    Archive,
}

impl Default for Droplet {
    fn default() -> Self {
        Self {
            id: 0,
            name: String::new(),
            status: DropletStatus::default(),
            size: "s-2vcpu-4gb".to_owned(),
            region: "nyc3".to_owned(),
            private_v4: Vec::new(),
            public_v4: Vec::new(),
            public_v6: Vec::new(),
            vpc: None,
            tags: Vec::new(),
            gpu: false,
            created_ms: 0,
        }
    }
}

impl Droplet {
    /// A running machine in `nyc3` with a private and a public address, which follow from its ID.
    #[must_use]
    pub fn new(id: u64, name: &str) -> Self {
        let low = u32::try_from(id & 0xffff).unwrap_or_default();
        Self {
            id,
            name: name.to_owned(),
            private_v4: vec![Ipv4Addr::from(0x0a08_0000 | low)],
            // The upper half of what RFC 2544 keeps for benchmarks.
            public_v4: vec![Ipv4Addr::from(0xc613_0000 | low)],
            ..Self::default()
        }
    }

    pub(super) fn vpc_of<'a>(&'a self, cloud: &'a Cloud) -> Option<&'a str> {
        self.vpc.as_deref().or_else(|| cloud.default_vpc(&self.region).map(|vpc| vpc.id.as_str()))
    }
}

impl Cloud {
    /// Makes a machine, or puts it in place of the one with its ID. Returns the ID.
    pub(crate) fn put_droplet(&mut self, now: Moment, mut droplet: Droplet) -> u64 {
        if droplet.id == 0 {
            droplet.id = 3_164_000 + u64::from(self.number());
        }
        if droplet.created_ms == 0 {
            droplet.created_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        }
        for tag in &droplet.tags {
            self.tags.entry(tag.clone()).or_default();
        }
        let id = droplet.id;
        self.droplets.put(now, id, droplet);
        id
    }

    /// Ends a machine. Load balancers that have it lose it. False: there was none.
    pub(crate) fn remove_droplet(&mut self, now: Moment, id: u64) -> bool {
        let had: Vec<_> =
            self.balancers.all().filter(|balancer| balancer.spec.droplet_ids.contains(&id)).cloned().collect();
        for mut balancer in had {
            balancer.spec.droplet_ids.retain(|own| *own != id);
            self.balancers.put(now, balancer.id.clone(), balancer);
        }
        self.droplets.remove(now, &id).is_some()
    }

    pub(super) fn list_droplets(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let asked = |parameter| values(ask.query, parameter).next();
        let (name, tag, kind) = (asked("name"), asked("tag_name"), asked("type"));
        if tag.is_some() && (name.is_some() || kind.is_some()) {
            return Err(Reply::refused(422, "tag_name cannot be combined with name or type"));
        }
        let gpu = kind == Some("gpus");
        let wanted = |droplet: &&Droplet| {
            droplet.gpu == gpu
                && name.is_none_or(|name| droplet.name.eq_ignore_ascii_case(name))
                && tag.is_none_or(|tag| droplet.tags.iter().any(|own| own == tag))
        };
        let all: Vec<&Droplet> = self.droplets.at(ask.listed_at()).filter(wanted).collect();
        Ok(page(ask, "droplets", &all, |droplet| self.show_droplet(droplet, clock)))
    }

    pub(super) fn get_droplet(&self, ask: &Ask<'_>, clock: &Clock) -> Result<Reply, Reply> {
        let id = ask.id().parse::<u64>().ok();
        let droplet = id.and_then(|id| self.droplets.get(&id)).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "droplet", self.show_droplet(droplet, clock)))
    }

    fn show_droplet(&self, droplet: &Droplet, clock: &Clock) -> Value {
        let region = self.region(&droplet.region).map(super::Region::show);
        let private = droplet
            .private_v4
            .iter()
            .map(|ip| json!({ "ip_address": ip, "netmask": "255.255.0.0", "gateway": null, "type": "private" }));
        let public = droplet.public_v4.iter().map(|ip| {
            let gateway = Ipv4Addr::from(u32::from(*ip) & 0xffff_0000 | 1);
            json!({ "ip_address": ip, "netmask": "255.255.0.0", "gateway": gateway, "type": "public" })
        });
        let v6 = droplet.public_v6.iter().map(|ip| {
            let gateway = Ipv6Addr::from(u128::from(*ip) >> 64 << 64 | 1);
            json!({ "ip_address": ip, "netmask": 64, "gateway": gateway, "type": "public" })
        });
        let features: &[&str] =
            if droplet.public_v6.is_empty() { &["private_networking"] } else { &["private_networking", "ipv6"] };
        let size = json!({
            "slug": droplet.size, "memory": 4096, "vcpus": 2, "disk": 80, "transfer": 4.0, "price_monthly": 24.0,
            "price_hourly": 0.03571, "regions": [droplet.region], "available": true, "description": "Basic",
        });
        let mut shown = json!({
            "id": droplet.id,
            "name": droplet.name,
            "memory": 4096,
            "vcpus": 2,
            "disk": 80,
            "locked": droplet.status == DropletStatus::New,
            "status": droplet.status,
            "kernel": null,
            "created_at": clock.date(Moment::from_millis(droplet.created_ms)),
            "features": features,
            "backup_ids": [],
            "next_backup_window": null,
            "snapshot_ids": [],
            "image": {
                "id": 72_401_866, "name": "24.04 (LTS) x64", "distribution": "Ubuntu", "slug": "ubuntu-24-04-x64",
                "public": true, "regions": ["nyc3"], "created_at": "2024-04-25T00:00:00Z", "min_disk_size": 7,
                "type": "base", "size_gigabytes": 2.36, "description": "", "tags": [], "status": "available",
            },
            "volume_ids": [],
            "size": size,
            "size_slug": droplet.size,
            "networks": { "v4": private.chain(public).collect::<Vec<_>>(), "v6": v6.collect::<Vec<_>>() },
            "region": region,
            "tags": droplet.tags,
            "vpc_uuid": droplet.vpc_of(self),
        });
        if droplet.gpu
            && let Some(shown) = shown.as_object_mut()
        {
            let gpu = json!({ "count": 1, "model": "nvidia_h100", "vram": { "amount": 80, "unit": "gib" } });
            shown.insert("gpu_info".to_owned(), gpu);
        }
        shown
    }
}
