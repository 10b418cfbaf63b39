//! Cloudlycke, a cloud that exists only inside its provider.
//!
//! It shows every controller at work on any cluster, without an account anywhere. What a cloud would know of a machine comes
//! from the Node itself, from annotations on it (`descriptor` lists them) and from the configuration (`config`); nothing
//! goes over the network. Unless told otherwise for one particular Node, a machine exists and runs, so that the controllers
//! never delete a Node of a cluster that somebody tries this on.
//!
//! Load balancers (`balancer`) get addresses of a pool that nobody routes; their state is in the host's cache and in the
//! Services themselves. Routes (`routes`) are a table there, and lead nowhere in truth.

mod addresses;
mod annotations;
mod balancer;
mod config;
mod descriptor;
mod find;
mod identity;
mod pool;
mod quantity;
mod routes;
mod services;
mod size;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::meta::{self, Capability, Descriptor};
use ccm_sdk::types::{Failure, Node, Problem};
use ccm_sdk::{log, settings};

use crate::config::{BalancerMode, Config, Reading};
use crate::find::Answer;

struct Cloudlycke;

ccm_sdk::export!(Cloudlycke: meta, instances, load_balancers, load_balancer_survey, routes);

impl meta::Guest for Cloudlycke {
    fn describe() -> Descriptor {
        log::debug("described", &[("method", &"meta.describe")]);
        descriptor::descriptor()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        let offers = offers(&read_config().usable()?);
        log::debug("offered", &[("method", &"meta.offers"), ("interfaces", &offers.len())]);
        Ok(offers)
    }

    fn check(_online: bool) -> Result<Vec<Problem>, Failure> {
        let Reading { config, problems } = read_config();
        log::info(
            "configuration read",
            &[
                ("method", &"meta.check"),
                ("mode", &config.mode),
                ("strict", &config.strict),
                ("machines", &config.machines.len()),
                ("load_balancers", &config.load_balancers.mode),
                ("pool4", &config.load_balancers.pool4),
                ("pool6", &config.load_balancers.pool6),
                ("problems", &problems.len()),
            ],
        );
        Ok(problems)
    }
}

/// What works with this configuration.
fn offers(config: &Config) -> Vec<Capability> {
    let balancers = (config.load_balancers.mode != BalancerMode::None).then_some(Capability::LoadBalancers);
    let routes = config.routes.as_ref().map(|_| Capability::Routes);
    balancers.into_iter().chain(routes).collect()
}

impl instances::Guest for Cloudlycke {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        let config = read_config().usable()?;
        let answers: Vec<Answer> = nodes.iter().map(|node| find::find(&config, node, need)).collect();
        log_answers(&nodes, need, &answers);
        Ok(answers.into_iter().map(|answer| answer.finding).collect())
    }
}

fn read_config() -> Reading {
    config::read(settings::file(config::FILE).as_deref())
}

/// Lines about single Nodes in one call. The host drops what exceeds 50 lines, and one is about the whole batch.
const MAX_NODE_LINES: usize = 49;

/// The line about the batch comes first, since the host drops the last ones.
fn log_answers(nodes: &[Node], need: Need, answers: &[Answer]) {
    const METHOD: &str = "instances.find";
    let need = match need {
        Need::Metadata => "metadata",
        Need::Existence => "existence",
        Need::Proof => "proof",
    };
    let count = |decision| count(answers, decision);
    log::debug(
        "machines looked up",
        &[
            ("method", &METHOD),
            ("need", &need),
            ("nodes", &nodes.len()),
            ("running", &count("running")),
            ("stopped", &count("stopped")),
            ("absent", &count("absent")),
            ("unknown", &count("unknown")),
        ],
    );
    for (node, answer) in most_telling(nodes, answers) {
        log::debug(
            "machine looked up",
            &[
                ("method", &METHOD),
                ("need", &need),
                ("node", &node.name),
                ("provider_id", &node.provider_id.as_deref().unwrap_or_default()),
                ("decision", &answer.decision()),
                ("reason", &answer.reason),
            ],
        );
    }
}

#[inline(never)]
fn count(answers: &[Answer], decision: &str) -> usize {
    answers.iter().filter(|answer| answer.decision() == decision).count()
}

/// In a large cluster the one machine that does not run must not be lost among thousands that do.
fn most_telling<'a>(nodes: &'a [Node], answers: &'a [Answer]) -> Vec<(&'a Node, &'a Answer)> {
    let (running, mut pairs): (Vec<_>, Vec<_>) =
        nodes.iter().zip(answers).partition(|(_, answer)| answer.decision() == "running");
    pairs.extend(running);
    pairs.truncate(MAX_NODE_LINES);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_34_load_balancers_are_offered_unless_they_are_switched_off_and_routes_when_they_are_switched_on() {
        let offered = |file: &str| offers(&config::read(Some(file)).usable().expect("no mistakes"));
        assert_eq!(offered("{}"), [Capability::LoadBalancers]);
        let both = [Capability::LoadBalancers, Capability::Routes];
        assert_eq!(offered(r#"{ "routes": { "enabled": true } }"#), both);
        let file = r#"{ "loadBalancer": { "mode": "none" }, "routes": { "enabled": true } }"#;
        assert_eq!(offered(file), [Capability::Routes]);
        assert_eq!(offered(r#"{ "routes": { "enabled": false, "seed": [{ "cidr": "10.0.0.0/8" }] } }"#), both[..1]);
    }

    #[test]
    fn lines_are_bounded_and_tell_first_of_machines_that_do_not_run() {
        let config = config::read(None).usable().expect("the defaults have no mistakes");
        let mut nodes: Vec<_> = (0..100).map(|index| Node::named(format!("n{index}"))).collect();
        nodes[98].annotations.push((annotations::STATE.to_owned(), "deleted".to_owned()));
        let answers: Vec<_> = nodes.iter().map(|node| find::find(&config, node, Need::Existence)).collect();
        let lines: Vec<_> = most_telling(&nodes, &answers).into_iter().map(|(node, _)| node.name.clone()).collect();
        let expected: Vec<_> = ["n98".to_owned()].into_iter().chain((0..48).map(|index| format!("n{index}"))).collect();
        assert_eq!(lines, expected);
    }
}
