//! OpenStack: servers behind Nodes, Octavia's load balancers for Services, routes through a Neutron router.
//!
//! | module | has |
//! |---|---|
//! | `config` | `cloud.conf` and `clouds.yaml` |
//! | `login` | Keystone: who logs in, and where its catalogue says that the services are |
//! | `api` | requests and answers of the services |
//! | `find` | the servers behind Nodes |
//! | `addresses` | the addresses of a Node |
//! | `routes` | the router's routes, and what ports may send for others |
//! | `service_spec` | what a Service asks for |
//! | `desired` | what its load balancer should be |
//! | `balancer` | the way from what it is to what it should be |
//! | `validate` | what is wrong with a Service |

mod addresses;
mod annotations;
mod api;
mod balancer;
mod check;
mod config;
mod descriptor;
mod desired;
mod find;
mod login;
mod names;
mod provider_id;
mod routes;
mod service_spec;
mod subnet_match;
mod validate;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::load_balancer_orphan;
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::routes::Route;
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service};
use ccm_sdk::{nodes, settings};

use crate::balancer::Host;
use crate::config::configured;
use crate::routes::Cluster;

struct OpenStack;

ccm_sdk::export!(OpenStack: meta, instances, load_balancers, load_balancer_survey, load_balancer_orphan, routes);

/// Most Events of one look at many Services. The rest comes with the next look.
const MOST_TOLD: usize = 15;

fn cluster() -> Cluster {
    Cluster::new(settings::cluster_name(), &settings::cluster_cidrs())
}

fn host() -> Host {
    Host { cluster: settings::cluster_name(), provider_ids: nodes::provider_ids, matching: nodes::matching }
}

impl meta::Guest for OpenStack {
    fn describe() -> Descriptor {
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        check::offers(&configured())
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

impl load_balancers::Guest for OpenStack {
    fn name(service: Service) -> String {
        names::Names::of(&settings::cluster_name(), &service).balancer
    }

    fn locks(service: Service) -> Vec<String> {
        balancer::locks(&configured(), &host(), &service)
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        balancer::get(&configured(), &host(), &service)
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        balancer::mark(&configured(), &host(), &service)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        balancer::ensure(&configured(), &host(), &service, &backends).tell_about(&service)
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        balancer::update_backends(&configured(), &host(), &service, &backends).tell_about(&service)
    }

    fn ensure_deleted(service: Service) -> Outcome {
        balancer::delete(&configured(), &host(), &service).tell()
    }

    fn validate(service: Service, before: Option<Service>, _online: bool) -> Result<Vec<Problem>, Failure> {
        Ok(validate::validate(&configured(), &host(), &service, before.as_ref()))
    }
}

impl load_balancer_orphan::Guest for OpenStack {
    fn orphan(service: Service) -> Result<Vec<String>, Failure> {
        let outcome = balancer::orphan(&configured(), &host(), &service).tell();
        outcome.failure.map_or(Ok(outcome.changes), Err)
    }
}

impl load_balancer_survey::Guest for OpenStack {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        let surveyed = balancer::survey(&configured(), &host(), &backends, &wishes)?;
        let mut room = MOST_TOLD;
        for (wish, (_, done)) in wishes.iter().zip(&surveyed) {
            done.tell_news(&wish.service, &mut room);
        }
        Ok(surveyed.into_iter().map(|(standing, _)| standing).collect())
    }
}

impl ccm_sdk::routes::Guest for OpenStack {
    fn get_all(nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        routes::get_all(&configured(), &cluster(), &nodes)
    }

    fn change(
        obsolete: Vec<Route>,
        wanted: Vec<ccm_sdk::routes::Wish>,
    ) -> Result<Vec<ccm_sdk::routes::Outcome>, Failure> {
        routes::change(&configured(), &cluster(), &obsolete, &wanted)
    }
}
