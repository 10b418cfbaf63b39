//! The tag that says whose a load balancer is.
//!
//! | tag | where | says |
//! |---|---|---|
//! | `k8s:` and an ID | the operator names the cluster | of which cluster it is |
//! | `wasm-ccm-service:`, UID, namespace and name | its Service asks for a name | of which Service it is |

use ccm_sdk::types::Service;

use crate::api::balancers::Balancer;
use crate::config::{Config, is_tag};
use crate::service_spec::{ServiceSpec, default_name};

const SERVICE_TAG: &str = "wasm-ccm-service:";

/// What a new one has.
pub(crate) fn tags_of_new(config: &Config, service: &Service, service_spec: &ServiceSpec) -> Vec<String> {
    config.tag.iter().cloned().chain(tag_of(service, service_spec)).collect()
}

pub(super) fn tag_of(service: &Service, service_spec: &ServiceSpec) -> Option<String> {
    (service_spec.name != service_spec.default_name).then(|| service_tag(service)).filter(|tag| is_tag(tag))
}

pub(super) fn service_tag(service: &Service) -> String {
    let Service { uid, namespace, name, .. } = service;
    format!("{SERVICE_TAG}{uid}:{namespace}:{name}")
}

pub(super) fn tags(balancer: &Balancer) -> impl Iterator<Item = &str> {
    balancer.tags.iter().flatten().map(String::as_str)
}

/// What comes after the prefix. Tags are the same in any case, and the account keeps that of whoever made one first.
pub(super) fn after<'a>(prefix: &str, tag: &'a str) -> Option<&'a str> {
    let (start, rest) = tag.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn is_of(tag: &str, service: &Service) -> bool {
    let uid = after(SERVICE_TAG, tag).and_then(|rest| rest.split(':').next());
    uid.is_some_and(|uid| uid.eq_ignore_ascii_case(&service.uid))
}

/// Whether it has the Service's tag.
pub(super) fn is_own(service: &Service, balancer: &Balancer) -> bool {
    own(service, balancer).is_some()
}

/// The Service's tag, as the account has it.
pub(super) fn own<'a>(service: &Service, balancer: &'a Balancer) -> Option<&'a str> {
    tags(balancer).find(|tag| is_of(tag, service))
}

pub(super) fn of_other_services<'a>(service: &Service, balancer: &'a Balancer) -> Vec<&'a str> {
    tags(balancer).filter(|tag| after(SERVICE_TAG, tag).is_some() && !is_of(tag, service)).collect()
}

/// The start of another Service's UID, where the name is the default one of that: `a` and 31 hexadecimal digits. No load balancer of
/// a default name has a tag.
pub(super) fn other_in_name<'a>(service: &Service, balancer: &'a Balancer) -> Option<&'a str> {
    let uid = balancer.name.strip_prefix('a').filter(|uid| uid.len() == 31)?;
    let is_uid = uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_uid && balancer.name != default_name(service)).then_some(uid)
}

/// The UID that it is marked with: in the tag, else in the name that is made of it. That lacks the last digit.
pub(super) fn uid(service: &Service, balancer: &Balancer) -> Option<String> {
    if is_own(service, balancer) {
        return Some(service.uid.clone());
    }
    let tagged = of_other_services(service, balancer).into_iter().filter_map(|tag| after(SERVICE_TAG, tag));
    let mut tagged = tagged.filter_map(|rest| rest.split(':').next()).map(|uid| uid.replace('-', ""));
    let is_uid = |uid: &str| uid.len() >= 31 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = || match balancer.name == default_name(service) {
        true => Some(service.uid.clone()),
        false => balancer.name.strip_prefix('a').filter(|uid| is_uid(uid)).map(str::to_owned),
    };
    tagged.find(|uid| is_uid(uid)).or_else(named)
}

pub(super) fn words(tag: &str) -> String {
    let mut parts = after(SERVICE_TAG, tag).unwrap_or(tag).splitn(3, ':').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let (uid, namespace, name) = (next(), next(), next());
    format!("Service {namespace}/{name} with the UID {uid}, by its tag {tag}")
}
