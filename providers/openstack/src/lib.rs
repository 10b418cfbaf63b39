//! OpenStack: servers behind Nodes, Octavia's load balancers for Services, routes through a Neutron router.
//!
//! | module | has |
//! |---|---|
//! | `config` | `cloud.conf` and `clouds.yaml` |
//! | `login` | Keystone: who logs in, and where its catalogue says that the services are |
//! | `api` | requests and answers of the services |
//! | `find` | the servers behind Nodes |
//! | `addresses` | the addresses of a Node |

mod addresses;
mod annotations;
mod api;
mod check;
mod config;
mod descriptor;
mod desired;
mod find;
mod login;
mod names;
mod provider_id;
mod service_spec;
mod subnet_match;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::nodes;
use ccm_sdk::types::{Failure, Node, Problem};

use crate::config::configured;

struct OpenStack;

ccm_sdk::export!(OpenStack: meta, instances);

impl meta::Guest for OpenStack {
    fn describe() -> Descriptor {
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(vec![])
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        check::check(online)
    }
}

impl instances::Guest for OpenStack {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        find::find(&configured(), &nodes, need, nodes::provider_ids)
    }
}
