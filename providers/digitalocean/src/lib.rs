//! DigitalOcean: droplets behind Nodes, load balancers for Services, a firewall for what is public.
//!
//! | module | has |
//! |---|---|
//! | `api` | requests and answers |
//! | `find` | the droplets behind Nodes |
//! | `asked` | what a Service asks for |
//! | `wanted` | what its load balancer should be, and how that differs from what it is |
//! | `balancer` | the way from one to the other |
//! | `validate` | what is wrong with a Service |
//! | `cluster` | firewall and tags |

mod annotations;
mod api;
mod asked;
mod backends;
mod balancer;
mod certificate;
mod cluster;
mod config;
mod descriptor;
mod find;
mod firewall;
mod kind;
mod provider_id;
mod region;
mod tag;
mod validate;
mod wanted;

use ccm_sdk::events::{self, Severity};
use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Outcome};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};
use ccm_sdk::{Answer, nodes, settings};

use crate::api::droplets;
use crate::balancer::Done;
use crate::config::Config;

struct DigitalOcean;

ccm_sdk::export!(DigitalOcean: meta, instances, load_balancers, load_balancer_survey, cluster);

fn configured() -> Config {
    config::read(settings::get).0
}

/// Names of the Nodes; none while they are not known yet.
fn node_names() -> Vec<String> {
    nodes::matching("").unwrap_or_default()
}

/// Writes the Events, which have no place in the answer.
fn told(done: Done) -> Outcome {
    for (reason, message) in done.warnings {
        events::emit(&Subject::Call, Severity::Warning, reason, &message);
    }
    done.outcome
}

impl meta::Guest for DigitalOcean {
    fn describe() -> Descriptor {
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        let config = configured();
        let mut offers = vec![Capability::LoadBalancers];
        if config.firewall.is_some() || config.tag.is_some() {
            offers.push(Capability::Cluster);
        }
        Ok(offers)
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        let (config, mut problems) = config::read(settings::get);
        if online {
            droplets::look().send().and_then(Answer::done)?;
            problems.extend(region::problems(&config, &node_names())?);
        }
        Ok(problems)
    }
}

impl instances::Guest for DigitalOcean {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        find::find(&nodes, need)
    }
}

impl load_balancers::Guest for DigitalOcean {
    fn name(service: Service) -> String {
        asked::read(&service).0.name
    }

    /// Two Services that name the same load balancer change it one after the other.
    fn locks(service: Service) -> Vec<String> {
        let id = balancer::id_of(&service).map(|id| format!("id {id}"));
        id.into_iter().chain([format!("name {}", asked::read(&service).0.name)]).collect()
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        balancer::get(&service)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        told(balancer::ensure(&configured(), &service, &backends))
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        told(balancer::update_backends(&configured(), &service, &backends))
    }

    fn delete(service: Service) -> Outcome {
        told(balancer::delete(&service))
    }

    fn validate(service: Service, before: Option<Service>, online: bool) -> Result<Vec<Problem>, Failure> {
        let region = || region::of_nodes(&node_names());
        Ok(validate::validate(&configured(), &service, before.as_ref(), online, region))
    }
}

impl load_balancer_survey::Guest for DigitalOcean {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Vec<Standing> {
        balancer::survey(&configured(), &backends, &wishes)
    }
}

impl ccm_sdk::cluster::Guest for DigitalOcean {
    fn reconcile(_nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        cluster::reconcile(&configured(), &services)
    }
}
