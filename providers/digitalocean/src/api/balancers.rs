//! Load balancers.

mod listing;

use ccm_sdk::Answer;
use ccm_sdk::types::{Failure, Reaction};
use serde::Serialize;

pub(crate) use self::listing::{MOST_BY_ID, all, by_id, dated, is_about_the_list, named};
use crate::api::droplets::Region;
use crate::api::{CLOUD, about, exceptions, is_absent, is_name_taken};
use crate::kind::Size;

const BALANCERS: &str = "/v2/load_balancers";
const BALANCER: &str = "/v2/load_balancers/{id}";
const DROPLETS: &str = "/v2/load_balancers/{id}/droplets";

/// With it the cloud judges a [`Spec`] and changes nothing.
pub(crate) const VALIDATE_ONLY: &str = "validate_only";

/// What a load balancer is asked to be. A change replaces all of it: what is left out gets its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) algorithm: &'static str,
    pub(crate) region: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size_unit: Option<i64>,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) forwarding_rules: Vec<Rule>,
    pub(crate) health_check: HealthCheck,
    pub(crate) sticky_sessions: Sticky,
    /// In order. Also sent when empty: the API wants it or a tag.
    pub(crate) droplet_ids: Vec<u64>,
    /// For a new one only: later they have no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) redirect_http_to_https: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) enable_proxy_protocol: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) enable_backend_keepalive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vpc_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subnet_uuid: Option<String>,
    pub(crate) disable_lets_encrypt_dns_records: bool,
    /// Of one that exists, as the cloud has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project_id: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) validate_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_idle_timeout_seconds: Option<i64>,
    pub(crate) firewall: Firewall,
    pub(crate) network: &'static str,
    pub(crate) network_stack: &'static str,
    /// For a new one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ip: Option<String>,
}

impl Spec {
    /// The first certificate that it names.
    pub(crate) fn certificate(&self) -> Option<&str> {
        self.forwarding_rules.iter().map(|rule| rule.certificate_id.as_str()).find(|id| !id.is_empty())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

ccm_sdk::records! {
    /// From a port of the load balancer to one of the nodes.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub(crate) struct Rule {
        pub(crate) entry_protocol: String,
        pub(crate) entry_port: i64,
        pub(crate) target_protocol: String,
        pub(crate) target_port: i64,
        #[serde(skip_serializing_if = "String::is_empty")]
        pub(crate) certificate_id: String,
        #[serde(skip_serializing_if = "is_false")]
        pub(crate) tls_passthrough: bool,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct HealthCheck {
        pub(crate) protocol: String,
        pub(crate) port: i64,
        #[serde(skip_serializing_if = "String::is_empty")]
        pub(crate) path: String,
        pub(crate) check_interval_seconds: i64,
        pub(crate) response_timeout_seconds: i64,
        pub(crate) unhealthy_threshold: i64,
        pub(crate) healthy_threshold: i64,
        /// None lets the load balancer decide.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) proxy_protocol: Option<bool>,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Sticky {
        #[serde(rename = "type")]
        pub(crate) kind: String = "type",
        #[serde(skip_serializing_if = "String::is_empty")]
        pub(crate) cookie_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) cookie_ttl_seconds: Option<i64>,
    }

    /// Who is let in and who is kept out: `ip:ADDRESS` or `cidr:NETWORK`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Firewall {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) allow: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) deny: Vec<String>,
    }

    /// A load balancer as the cloud has it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Balancer {
        pub(crate) id: String [id],
        pub(crate) name: String,
        /// `new`, `active`, `errored`.
        pub(crate) status: String,
        pub(crate) kind: String = "type",
        /// Empty while it is being made.
        pub(crate) ip: String,
        pub(crate) ipv6: String,
        pub(crate) region: Region,
        pub(crate) size: String,
        pub(crate) size_unit: i64,
        pub(crate) forwarding_rules: Vec<Rule>,
        pub(crate) health_check: HealthCheck,
        pub(crate) sticky_sessions: Sticky,
        pub(crate) droplet_ids: Vec<u64>,
        /// That of all droplets behind it, where somebody has it so. A write ends that.
        pub(crate) tag: String,
        pub(crate) redirect_http_to_https: bool,
        pub(crate) enable_proxy_protocol: bool,
        pub(crate) enable_backend_keepalive: bool,
        pub(crate) vpc_uuid: String,
        /// Empty where the cloud does not tell: its documentation does not have it.
        pub(crate) subnet_uuid: String,
        pub(crate) disable_lets_encrypt_dns_records: bool,
        pub(crate) http_idle_timeout_seconds: Option<i64>,
        pub(crate) project_id: String,
        pub(crate) firewall: Firewall,
        pub(crate) network: String,
        pub(crate) network_stack: String,
        /// `None` where the cloud does not tell.
        pub(crate) tags: Option<Vec<String>>,
        /// `2026-11-22T18:20:05Z`.
        pub(crate) created_at: String,
    }
}

impl Balancer {
    /// In any case: people write it on Services.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.id.eq_ignore_ascii_case(id)
    }

    /// Whether it tells a size in words that a change could repeat.
    pub(crate) fn tells_size(&self) -> bool {
        self.size_unit > 0 || Size::parse(&self.size).is_some()
    }
}

pub(crate) fn get(id: &str) -> Result<Option<Balancer>, Failure> {
    let answer = CLOUD.get(BALANCER).arg("id", id).send()?.optional()?;
    answer.map(|answer| one_of(id, answer)).transpose()
}

/// Not repeated: a second one costs money.
pub(crate) fn create(spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.post(BALANCERS).json(spec).send()
}

/// `None` when the cloud does not find what the spec names: a certificate.
pub(crate) fn created(answer: Answer) -> Result<Option<Balancer>, Failure> {
    answer.optional()?.map(one).transpose()
}

/// Whether a no to a new one may be about its tags.
pub(crate) fn may_be_about_tags(answer: &Answer) -> bool {
    match answer.status() {
        403 => exceptions(answer).is_none(),
        404 => is_absent(answer),
        422 => answer.says("tag") && !is_name_taken(answer),
        _ => false,
    }
}

/// What became of a change.
#[derive(Debug)]
pub(crate) enum Replaced {
    Done(Box<Balancer>),
    /// It is gone, or what the spec names.
    Absent,
    /// The cloud does not want it so; its droplets may be changed all the same.
    Refused(Failure),
}

pub(crate) fn replace(id: &str, spec: &Spec) -> Result<Answer, Failure> {
    CLOUD.put(BALANCER).arg("id", id).json(spec).send()
}

pub(crate) fn replaced(id: &str, answer: Answer) -> Result<Replaced, Failure> {
    if is_absent(&answer) {
        return Ok(Replaced::Absent);
    }
    let is_no = matches!(answer.status(), 400 | 403 | 422) && !answer.says("droplet");
    match answer.ok() {
        Ok(answer) => one_of(id, answer).map(|balancer| Replaced::Done(Box::new(balancer))),
        Err(failure) if is_no && !matches!(failure.reaction, Reaction::Pending | Reaction::Unauthorized) => {
            Ok(Replaced::Refused(failure))
        }
        Err(failure) => Err(failure),
    }
}

#[derive(Serialize)]
struct Members<'a> {
    droplet_ids: &'a [u64],
}

/// Puts these droplets behind it, and changes nothing else.
pub(crate) fn add_droplets(id: &str, droplets: &[u64]) -> Result<Answer, Failure> {
    CLOUD.post(DROPLETS).arg("id", id).json(&Members { droplet_ids: droplets }).send()
}

/// Takes them away.
pub(crate) fn remove_droplets(id: &str, droplets: &[u64]) -> Result<(), Failure> {
    CLOUD.delete(DROPLETS).arg("id", id).json(&Members { droplet_ids: droplets }).send()?.done()
}

fn one(answer: Answer) -> Result<Balancer, Failure> {
    answer.json_at("/load_balancer")
}

/// The one that was asked for or changed.
fn one_of(id: &str, answer: Answer) -> Result<Balancer, Failure> {
    about(one(answer)?, |balancer| &balancer.id, id)
}

/// Lets the cloud judge, and changes nothing: a new one, or the one of that ID.
pub(crate) fn judge(id: Option<&str>, spec: &Spec) -> Result<Answer, Failure> {
    let request = match id {
        Some(id) => CLOUD.put(BALANCER).arg("id", id),
        None => CLOUD.post(BALANCERS),
    };
    request.json(spec).reads().send()
}

/// False when it was gone already.
pub(crate) fn delete(id: &str) -> Result<bool, Failure> {
    CLOUD.delete(BALANCER).arg("id", id).send()?.optional().map(|answer| answer.is_some())
}
