//! DigitalOcean: droplets behind Nodes.

mod annotations;
mod api;
mod config;
mod descriptor;
mod find;
mod kind;
mod provider_id;
mod region;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::types::{Failure, Node, Problem};
use ccm_sdk::{Answer, nodes, settings};

use crate::api::droplets;
use crate::config::Config;

struct DigitalOcean;

ccm_sdk::export!(DigitalOcean: meta, instances);

fn configured() -> Config {
    config::read(settings::get).0
}

impl meta::Guest for DigitalOcean {
    fn describe() -> Descriptor {
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(vec![])
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        let (config, mut problems) = config::read(settings::get);
        if online {
            droplets::look().send().and_then(Answer::done)?;
            // Without a list of Nodes there is nothing to compare with; the next check has one.
            let nodes = nodes::matching("").unwrap_or_default();
            problems.extend(region::problems(&config, &nodes)?);
        }
        Ok(problems)
    }
}

impl instances::Guest for DigitalOcean {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        find::find(&nodes, need)
    }
}
