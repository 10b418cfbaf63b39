//! Releases a load balancer from its Service. It stays in the cloud, and clients notice nothing.
//!
//! What leads there is the name and the tag of the Service, and for Services of other clusters the tag of this one is in the way of
//! taking it over. The ID on the Service is for the host to take off.

use ccm_sdk::Done;
use ccm_sdk::log;
use ccm_sdk::types::{Failure, Service};

use super::owner::goes_by;
use super::work::disowned;
use super::{lookup, size, without_tags};
use crate::api::balancers::{self, Balancer, Replaced, Spec};
use crate::api::tags;
use crate::config::Config;
use crate::desired;
use crate::kind::{Kind, Network, Stack};
use crate::service_spec::{self, ServiceSpec};

/// Reason of Events.
const NOT_RELEASED: &str = "LoadBalancerNotReleased";

/// # Errors
///
/// It is not done, and will be; or nobody takes care of the Service.
pub(crate) fn orphan(config: &Config, service: &Service, done: &mut Done) -> Result<(), Failure> {
    if service_spec::is_disowned(service)? {
        return Err(disowned());
    }
    let (service_spec, _) = service_spec::read(service);
    // What would be deleted with the Service is what it has. That there is nothing need not be proven: it stays in any case.
    let going = lookup::all_of(config, service, &service_spec, |_| Ok(vec![]))?;
    for balancer in &going.all {
        if balancer.name == service_spec.default_name || balancer.name == service_spec.name {
            rename(&service_spec, balancer, done)?;
        }
        // Also where it is not told whether it has it.
        let is_cluster = |tag: &&String| config.tag.as_ref().is_some_and(|ours| ours.eq_ignore_ascii_case(tag));
        let told = balancer.tags.as_ref().map(|tags| tags.iter().find(is_cluster));
        let tag = told.unwrap_or(config.tag.as_ref());
        match tag.map_or(Ok(()), |tag| tags::unassign(tag, &balancer.id)) {
            Ok(()) => {
                done.outcome.changes.extend(tag.map(|tag| format!("took tag {tag} off {}", balancer.id)));
            }
            Err(failure) if goes_by(&failure) => return Err(failure),
            Err(failure) => log::info("a tag stays", &[("load balancer", &balancer.id), ("error", &failure.message)]),
        }
    }
    if let Some(tag) = going.tag {
        tag.delete(done);
    }
    without_tags::forget(service);
    Ok(())
}

/// Names are how a Service finds what it has lost the ID of, and a new one needs the name.
fn rename(service_spec: &ServiceSpec, balancer: &Balancer, done: &mut Done) -> Result<(), Failure> {
    let id = &balancer.id;
    let name = format!("released-{id}");
    let Some(spec) = as_it_is(name.clone(), service_spec, balancer) else { return Ok(()) };
    let why = if size::unknown(balancer, &spec).is_some() {
        "DigitalOcean does not tell its size, and a change without one would make it 1 node".to_owned()
    } else {
        lookup::written(id);
        match balancers::replaced(id, balancers::replace(id, &spec)?) {
            Ok(Replaced::Done(_)) => {
                done.outcome.changes.push(format!("renamed {id} from {} to {name}", balancer.name));
                return Ok(());
            }
            Ok(Replaced::Absent) => return Ok(()),
            Ok(Replaced::Refused(failure)) => failure.message,
            Err(failure) if goes_by(&failure) => return Err(failure),
            Err(failure) => failure.message,
        }
    };
    let message = format!(
        "load balancer {id} keeps the name {:?}, by which this Service takes it again; rename it by hand: {why}",
        balancer.name
    );
    done.warn(NOT_RELEASED, message);
    Ok(())
}

/// What a change must ask for so that nothing else changes. None for what no Service can have.
fn as_it_is(name: String, service_spec: &ServiceSpec, has: &Balancer) -> Option<Spec> {
    let has_or = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut spec = Spec {
        name,
        algorithm: service_spec.algorithm,
        region: has.region.slug.clone(),
        size: None,
        size_unit: None,
        kind: Kind::parse(&has.kind)?.text(),
        forwarding_rules: has.forwarding_rules.clone(),
        health_check: has.health_check.clone(),
        sticky_sessions: has.sticky_sessions.clone(),
        droplet_ids: has.droplet_ids.clone(),
        tags: vec![],
        redirect_http_to_https: has.redirect_http_to_https,
        enable_proxy_protocol: has.enable_proxy_protocol,
        enable_backend_keepalive: has.enable_backend_keepalive,
        vpc_uuid: has_or(&has.vpc_uuid),
        subnet_uuid: has_or(&has.subnet_uuid).or_else(|| service_spec.subnet.clone()),
        disable_lets_encrypt_dns_records: has.disable_lets_encrypt_dns_records,
        project_id: has_or(&has.project_id),
        validate_only: false,
        http_idle_timeout_seconds: has.http_idle_timeout_seconds,
        firewall: has.firewall.clone(),
        network: Network::parse(&has.network).unwrap_or(Network::External).text(),
        network_stack: Stack::parse(&has.network_stack).unwrap_or(Stack::Ipv4).text(),
        ip: None,
    };
    desired::keep_size(&mut spec, has);
    Some(spec)
}
