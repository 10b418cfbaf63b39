//! Whether the configuration is right, and whether the cloud takes it.

#[cfg(test)]
mod tests;

use ccm_sdk::credential;
use ccm_sdk::meta::Capability;
use ccm_sdk::types::{Failure, Problem};

use crate::api::{KEY_MANAGER, KEYSTONE, NEUTRON, NOVA, OCTAVIA, SERVICES, SESSION, Service};
use crate::config::{self, Config};
use crate::login;

/// All that is wrong.
pub(crate) fn check(online: bool) -> Result<Vec<Problem>, Failure> {
    let (config, mut problems) = config::current();
    problems.extend(login::problem_of_url(KEYSTONE.base_path().as_deref()));
    problems.extend(login::problems(&config.identity, credential::is_available));
    if online && !problems.iter().any(|problem| problem.fatal) {
        problems.extend(of_cloud(&config)?);
    }
    Ok(problems)
}

/// Load balancers where they are not switched off, and the cloud has the service; routes where there is a router for them.
pub(crate) fn offers(config: &Config) -> Result<Vec<Capability>, Failure> {
    let mut offers = vec![];
    if config.balancers.enabled && login::is_reachable(OCTAVIA)? {
        offers.push(Capability::LoadBalancers);
    }
    if config.router.is_some() {
        offers.push(Capability::Routes);
    }
    Ok(offers)
}

/// What the cloud says to it: a login, and what its catalogue lacks of what is used.
fn of_cloud(config: &Config) -> Result<Vec<Problem>, Failure> {
    login::unreachable(&SESSION.answer()?, &used(config))
}

fn used(config: &Config) -> Vec<Service> {
    let mut used = vec![NOVA, NEUTRON];
    if config.balancers.enabled {
        used.push(OCTAVIA);
    }
    used.extend(
        SERVICES
            .into_iter()
            .filter(|service| service.kind == KEY_MANAGER && !config.balancers.tls_container.is_empty()),
    );
    used
}
