//! Calls about Services: the configuration, the state and the clock go in, lines of the log and Events come out.

use std::fmt::Display;
use std::time::Duration;

use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Protocol, Service, ServicePort};
use ccm_sdk::{Done, cache, clock, log};

use crate::balancer::{self, Balancers, State, Store};
use crate::config::{BalancerMode, Config};
use crate::{Cloudlycke, read_config};

/// The host's cache.
struct Cache;

impl Store for Cache {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        cache::get(key)
    }

    fn put(&self, key: &str, value: &[u8], ttl: Duration) {
        cache::put(key, value, ttl);
    }

    fn forget(&self, key: &str) {
        cache::forget(key);
    }
}

/// The configuration, if it has load balancers.
fn config() -> Result<Config, Failure> {
    let config = read_config().usable()?;
    match config.load_balancers.mode {
        BalancerMode::Pool | BalancerMode::Nodes => Ok(config),
        BalancerMode::None => Err(Failure::unsupported("loadBalancer.mode in the cloud-config is `none`")),
    }
}

fn balancers(config: &Config) -> Balancers<'_> {
    Balancers { config: &config.load_balancers, state: State(&Cache), now: clock::since_epoch() }
}

/// Makes a change, and tells of it. Once for all three changes, not once for each.
#[inline(never)]
fn change(
    method: &str,
    service: &Service,
    backends: &[Backend],
    config: Result<Config, Failure>,
    work: &dyn Fn(&Balancers<'_>) -> Done,
) -> Outcome {
    let done = config.map_or_else(|failure| Done::of(|_| Err(failure)), |config| work(&balancers(&config)));
    let outcome = done.tell();
    let ports: Vec<_> = service.ports.iter().map(port).collect();
    let addresses: Vec<_> = outcome.ingress.iter().map(place).collect();
    log::info(
        "load balancer",
        &[
            ("method", &method),
            ("service", &service.full_name()),
            ("name", &balancer::name(service)),
            ("decision", &outcome.decision()),
            ("reason", &outcome.reason()),
            ("addresses", &addresses.join(",")),
            ("ports", &ports.join(",")),
            ("members", &backends.len()),
        ],
    );
    outcome
}

/// `80/TCP>30080`: port, protocol, port at the Nodes.
fn port(port: &ServicePort) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    let node_port = port.node_port.map(|port| format!(">{port}")).unwrap_or_default();
    format!("{}/{protocol}{node_port}", port.port)
}

fn place(place: &Ingress) -> String {
    let parts: Vec<_> = [&place.ip, &place.hostname].into_iter().flatten().cloned().collect();
    parts.join("=")
}

/// The line about a call that changes nothing.
#[inline(never)]
fn looked(method: &str, service: &Service, decision: &dyn Display) {
    log::debug("load balancer", &[("method", &method), ("service", &service.full_name()), ("decision", decision)]);
}

impl load_balancers::Guest for Cloudlycke {
    fn name(service: Service) -> String {
        let name = balancer::name(&service);
        looked("load-balancers.name", &service, &name);
        name
    }

    /// Without a configuration nobody takes addresses, and what is released needs no lock.
    fn locks(service: Service) -> Vec<String> {
        let locks = config().map(|_| balancer::locks()).unwrap_or_default();
        looked("load-balancers.locks", &service, &locks.join(","));
        locks
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        let ingress = balancers(&config()?).get(&service);
        let decision = match &ingress {
            Some(ingress) if ingress.is_empty() => "being made",
            Some(_) => "found",
            None => "absent",
        };
        looked("load-balancers.get", &service, &decision);
        Ok(ingress)
    }

    /// What is written on a Service leads to none of another one: they are kept by the UID.
    fn get_mark(_service: Service) -> Result<Option<Mark>, Failure> {
        Ok(None)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        let work = |balancers: &Balancers<'_>| balancers.ensure(&service, &backends);
        change("load-balancers.ensure", &service, &backends, config(), &work)
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        let work = |balancers: &Balancers<'_>| balancers.update(&service, &backends);
        change("load-balancers.update-backends", &service, &backends, config(), &work)
    }

    /// Also under a configuration that is wrong, or that has no load balancers any more: nothing of it is needed.
    fn ensure_deleted(service: Service) -> Outcome {
        let work = |balancers: &Balancers<'_>| balancers.delete(&service);
        change("load-balancers.ensure-deleted", &service, &[], Ok(read_config().config), &work)
    }

    fn validate(service: Service, _before: Option<Service>, online: bool) -> Result<Vec<Problem>, Failure> {
        let problems = balancers(&config()?).validate(&service, online);
        looked("load-balancers.validate", &service, &problems.len());
        Ok(problems)
    }
}

impl load_balancer_survey::Guest for Cloudlycke {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        let standings = balancers(&config()?).survey(&backends, &wishes);
        let count = |is: fn(&Standing) -> bool| standings.iter().filter(|standing| is(standing)).count();
        log::info(
            "load balancers surveyed",
            &[
                ("method", &"load-balancer-survey.survey"),
                ("services", &wishes.len()),
                ("in_step", &count(|standing| matches!(standing, Standing::InStep(_)))),
                ("differ", &count(|standing| matches!(standing, Standing::Differs(_)))),
                ("missing", &count(|standing| matches!(standing, Standing::Missing))),
                ("unknown", &count(|standing| matches!(standing, Standing::Unknown(_)))),
            ],
        );
        Ok(standings)
    }
}
