//! Tags. What has one is asked for: machines and load balancers keep their own.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reply::{page, read};
use super::{Ask, Cloud, Reply};
use crate::endpoint::Endpoint;

/// What has a tag, besides machines and load balancers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tagged {
    others: BTreeSet<(String, String)>,
}

#[derive(Deserialize)]
struct New {
    name: String,
}

#[derive(Deserialize)]
struct Change {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    resource_id: String,
    resource_type: String,
}

fn has(tags: &[String], name: &str) -> bool {
    tags.iter().any(|own| own == name)
}

impl Cloud {
    /// Names are the same in any case.
    pub(super) fn has_tag(&self, name: &str) -> bool {
        self.tags.keys().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn show_tag(&self, name: &str, tagged: &Tagged) -> Value {
        let droplets = self.droplets.all().filter(|droplet| has(&droplet.tags, name)).count();
        let balancers = self.balancers.all().filter(|balancer| has(&balancer.spec.tags, name)).count();
        let of = |kind: &str| tagged.others.iter().filter(|(own, _)| own == kind).count();
        json!({
            "name": name,
            "resources": {
                "count": droplets + balancers + tagged.others.len(),
                "droplets": { "count": droplets },
                "volumes": { "count": of("volume") },
                "volume_snapshots": { "count": of("volume_snapshot") },
                "databases": { "count": of("database") },
            },
        })
    }

    pub(super) fn list_tags(&self, ask: &Ask<'_>) -> Reply {
        let all: Vec<_> = self.tags.iter().collect();
        page(ask, "tags", &all, |(name, tagged)| self.show_tag(name, tagged))
    }

    pub(super) fn get_tag(&self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        let tagged = self.tags.get(ask.id()).ok_or_else(Reply::absent)?;
        Ok(Reply::one(200, "tag", self.show_tag(ask.id(), tagged)))
    }

    pub(super) fn create_tag(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        let New { name } = read(ask.body)?;
        // What production answers for one that exists is not known; nobody relies on it.
        let tagged = self.tags.entry(name.clone()).or_default().clone();
        Ok(Reply::one(201, "tag", self.show_tag(&name, &tagged)))
    }

    /// Whatever has it loses it. What becomes of firewalls that name it is not known: here they keep it.
    pub(super) fn delete_tag(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        let tag = ask.id();
        self.tags.remove(tag).ok_or_else(Reply::absent)?;
        let droplets: Vec<_> = self.droplets.all().filter(|one| has(&one.tags, tag)).cloned().collect();
        for mut droplet in droplets {
            droplet.tags.retain(|own| own != tag);
            self.droplets.put(ask.now, droplet.id, droplet);
        }
        let balancers: Vec<_> = self.balancers.all().filter(|one| has(&one.spec.tags, tag)).cloned().collect();
        for mut balancer in balancers {
            balancer.spec.tags.retain(|own| own != tag);
            self.balancers.put(ask.now, balancer.id.clone(), balancer);
        }
        Ok(Reply::nothing())
    }

    /// All of them or none.
    pub(super) fn change_tagged(&mut self, ask: &Ask<'_>) -> Result<Reply, Reply> {
        let Change { resources } = read(ask.body)?;
        let adds = ask.endpoint == Endpoint::TagResources;
        if !self.tags.contains_key(ask.id()) {
            return Err(Reply::absent());
        }
        for resource in &resources {
            let exists = match resource.resource_type.as_str() {
                "droplet" => resource.resource_id.parse::<u64>().is_ok_and(|id| self.droplets.get(&id).is_some()),
                "load_balancer" => self.balancers.get(resource.resource_id.as_str()).is_some(),
                _ => true, // not simulated
            };
            if !exists {
                let Resource { resource_id, resource_type } = resource;
                return Err(Reply::refused(404, format!("{resource_type} {resource_id} could not be found")));
            }
        }
        let tag = ask.id().to_owned();
        let change = |tags: &mut Vec<String>| {
            tags.retain(|own| *own != tag);
            if adds {
                tags.push(tag.clone());
            }
        };
        for Resource { resource_id, resource_type } in resources {
            match resource_type.as_str() {
                "droplet" => {
                    let id = resource_id.parse::<u64>().unwrap_or_default();
                    if let Some(mut droplet) = self.droplets.get(&id).cloned() {
                        change(&mut droplet.tags);
                        self.droplets.put(ask.now, id, droplet);
                    }
                }
                "load_balancer" => {
                    if let Some(mut balancer) = self.balancers.get(resource_id.as_str()).cloned() {
                        change(&mut balancer.spec.tags);
                        self.balancers.put(ask.now, resource_id, balancer);
                    }
                }
                _ => {
                    let others = &mut self.tags.entry(tag.clone()).or_default().others;
                    let other = (resource_type, resource_id);
                    if adds {
                        others.insert(other)
                    } else {
                        others.remove(&other)
                    };
                }
            }
        }
        Ok(Reply::nothing())
    }
}
