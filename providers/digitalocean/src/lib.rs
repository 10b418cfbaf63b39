//! DigitalOcean: droplets behind Nodes, load balancers for Services, a firewall for what is public.
//!
//! | module | has |
//! |---|---|
//! | `api` | requests and answers |
//! | `find` | the droplets behind Nodes |
//! | `service_spec` | what a Service asks for |
//! | `desired` | what its load balancer should be, and how that differs from what it is |
//! | `balancer` | the way from one to the other |
//! | `validate` | what is wrong with a Service |
//! | `cluster` | firewall and tags |

mod annotations;
mod api;
mod backends;
mod balancer;
mod certificate;
mod cluster;
mod config;
mod descriptor;
mod desired;
mod find;
mod firewall;
mod kind;
mod moment;
mod provider_id;
mod region;
mod service_spec;
mod tag;
mod validate;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::load_balancer_orphan;
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};
use ccm_sdk::{Answer, events, nodes, settings};

use crate::api::droplets;
use crate::balancer::ProviderIds;
use crate::config::Config;

struct DigitalOcean;

ccm_sdk::export!(
    DigitalOcean: meta, instances, load_balancers, load_balancer_survey, load_balancer_orphan, cluster
);

fn configured() -> Config {
    config::read(settings::get).0
}

/// Names of the Nodes; none while they are not known yet.
fn node_names() -> Vec<String> {
    nodes::matching("").unwrap_or_default()
}

fn offers(config: &Config) -> Vec<Capability> {
    let mut offers = vec![Capability::LoadBalancers];
    if config.firewall.is_some() || config.tag.is_some() {
        offers.push(Capability::Cluster);
    }
    offers
}

/// What the account says to the configuration.
fn of_account(config: &Config, ids: ProviderIds, names: fn() -> Vec<String>) -> Result<Vec<Problem>, Failure> {
    droplets::look().send().and_then(Answer::done)?;
    region::problems(config, ids, names)
}

/// Most Events of one look at many Services. The rest comes with the next look.
const MOST_TOLD: usize = 15;

impl meta::Guest for DigitalOcean {
    fn describe() -> Descriptor {
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(offers(&configured()))
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        let (config, mut problems) = config::read(settings::get);
        if online {
            problems.extend(of_account(&config, nodes::provider_ids, node_names)?);
        }
        Ok(problems)
    }
}

impl instances::Guest for DigitalOcean {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        ccm_sdk::find::find(&find::Droplets, &nodes, need, nodes::provider_ids)
    }
}

impl load_balancers::Guest for DigitalOcean {
    fn name(service: Service) -> String {
        service_spec::read(&service).0.name
    }

    /// Two Services that name the same load balancer change it one after the other.
    fn locks(service: Service) -> Vec<String> {
        let id = service_spec::id_of(&service).map(|id| format!("id {}", id.to_ascii_lowercase()));
        id.into_iter().chain([format!("name {}", service_spec::read(&service).0.name)]).collect()
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        balancer::get(&configured(), &service, nodes::provider_ids)
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        balancer::mark(&configured(), &service)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        balancer::ensure(&configured(), &service, &backends, nodes::provider_ids).tell_about(&service)
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        balancer::update_backends(&configured(), &service, &backends).tell_about(&service)
    }

    fn ensure_deleted(service: Service) -> Outcome {
        balancer::delete(&configured(), &service, nodes::provider_ids).tell()
    }

    fn validate(service: Service, before: Option<Service>, online: bool) -> Result<Vec<Problem>, Failure> {
        let region = || region::of_nodes(nodes::provider_ids, node_names);
        Ok(validate::validate(&configured(), &service, before.as_ref(), online, region))
    }
}

impl load_balancer_orphan::Guest for DigitalOcean {
    fn orphan(service: Service) -> Result<Vec<String>, Failure> {
        let outcome = balancer::orphan(&configured(), &service).tell();
        outcome.failure.map_or(Ok(outcome.changes), Err)
    }
}

impl load_balancer_survey::Guest for DigitalOcean {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        let surveyed = balancer::survey(&configured(), &backends, &wishes)?;
        let mut room = MOST_TOLD;
        for (wish, (_, done)) in wishes.iter().zip(&surveyed) {
            done.tell_news(&wish.service, &mut room);
        }
        Ok(surveyed.into_iter().map(|(standing, _)| standing).collect())
    }
}

impl ccm_sdk::cluster::Guest for DigitalOcean {
    fn reconcile(_nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        let config = configured();
        let unclear = config.firewall.as_ref().map(|_| firewall::unclear(&services)).unwrap_or_default();
        for (about, message) in unclear.into_iter().take(MOST_TOLD) {
            events::news(&about, balancer::IGNORED, &message);
        }
        cluster::reconcile(&config, &services)
    }
}

#[cfg(test)]
mod tests {
    use ccm_sdk::testing::{FakeCloud, Reply};
    use ccm_sdk::types::Reaction;

    use super::*;
    use crate::config::tests::config;

    const LOOK: &str = "api GET /v2/droplets?page=1&per_page=1";

    fn unset() -> Config {
        Config { region: None, ..config() }
    }

    #[test]
    fn do_209_the_cluster_is_taken_care_of_where_a_tag_or_a_firewall_is_set_and_once_for_both() {
        let with = |tag: bool, firewall: bool| Config {
            tag: tag.then(|| "k8s:c-1".to_owned()),
            firewall: firewall.then(|| config::Firewall { name: "k8s".to_owned(), tags: vec!["w".to_owned()] }),
            ..config()
        };
        let both = [Capability::LoadBalancers, Capability::Cluster];
        assert_eq!(offers(&with(false, false)), both[..1]);
        for (tag, firewall) in [(true, false), (false, true), (true, true)] {
            assert_eq!(offers(&with(tag, firewall)), both);
        }
    }

    #[test]
    fn do_252_an_account_that_can_be_read_is_good() {
        let cloud = FakeCloud::new().on(LOOK, Reply::json(200, r#"{"droplets": []}"#));
        assert_eq!(of_account(&unset(), |_| Ok(vec![]), Vec::new), Ok(vec![]));
        assert_eq!(cloud.lines(), [LOOK]);
    }

    #[test]
    fn do_253_a_refused_token_is_told_in_the_words_of_the_cloud() {
        let refused = Reply::json(401, r#"{"id": "unauthorized", "message": "Unable to authenticate you"}"#);
        let _cloud = FakeCloud::new().on(LOOK, refused);
        let failure = of_account(&unset(), |_| Ok(vec![]), Vec::new).expect_err("it is refused");
        assert_eq!(failure.reaction, Reaction::Unauthorized);
        assert!(failure.message.contains("401: Unable to authenticate you"), "{}", failure.message);
    }
}
