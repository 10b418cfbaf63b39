//! What load balancers have come to, on its way out of a guest. What is wrong was found before, in `outcome`.

use std::collections::BTreeMap;

use ccm_cloud::{
    Annotation, ClusterSubject, Failure, Ingress, IpMode, Mark, Outcome, PortStatus, Protocol, Standing, Wish,
};
use ccm_egress::line;

use super::{MAX_FIELD, MAX_MESSAGE, MAX_PROBLEMS, failure, service};
use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{load_balancer_survey, load_balancers};

/// A name in the cloud.
pub(crate) fn name(name: &str) -> String {
    line(name, MAX_FIELD)
}

pub(crate) fn mark(mark: load_balancers::Mark) -> Mark {
    let load_balancers::Mark { load_balancer, uid } = mark;
    Mark { load_balancer: name(&load_balancer), uid }
}

pub(crate) fn outcome(outcome: load_balancers::Outcome) -> Outcome {
    let load_balancers::Outcome { ingress: places, annotations, changes, failure: why, more: _ } = outcome;
    let (ingress, changes) = (ingress(places), sentences(changes));
    Outcome { ingress, annotations, changes, failure: why.map(failure), selected: BTreeMap::new() }
}

/// At most [`MAX_PROBLEMS`] of them.
pub(crate) fn sentences(mut sentences: Vec<String>) -> Vec<String> {
    let left_out = sentences.len().saturating_sub(MAX_PROBLEMS);
    sentences.truncate(MAX_PROBLEMS);
    let mut told: Vec<String> = sentences.iter().map(|sentence| line(sentence, MAX_MESSAGE)).collect();
    if left_out > 0 {
        told.push(format!("and {left_out} more"));
    }
    told
}

pub(crate) fn ingress(ingress: Vec<types::Ingress>) -> Vec<Ingress> {
    let status = |types::PortStatus { port, protocol, error }| PortStatus {
        port,
        protocol: match protocol {
            types::Protocol::Tcp => Protocol::Tcp,
            types::Protocol::Udp => Protocol::Udp,
            types::Protocol::Sctp => Protocol::Sctp,
        },
        error,
    };
    let place = |types::Ingress { ip, hostname, ip_mode, ports, more: _ }| Ingress {
        ip,
        hostname,
        ip_mode: ip_mode.map(|mode| match mode {
            types::IpMode::Vip => IpMode::Vip,
            types::IpMode::Proxy => IpMode::Proxy,
        }),
        ports: ports.into_iter().map(status).collect(),
    };
    ingress.into_iter().map(place).collect()
}

pub(crate) fn wish(wish: Wish, declared: &[Annotation]) -> load_balancer_survey::Wish {
    load_balancer_survey::Wish { service: service(wish.service, declared), backends: wish.backends }
}

pub(crate) fn standing(standing: load_balancer_survey::Standing) -> Standing {
    match standing {
        load_balancer_survey::Standing::InStep(places) => Standing::InStep(ingress(places)),
        load_balancer_survey::Standing::Differs(what) => Standing::Differs(sentences(what)),
        load_balancer_survey::Standing::Missing => Standing::Missing,
        load_balancer_survey::Standing::Unknown(why) => Standing::Unknown(failure(why)),
    }
}

pub(crate) fn cluster_failures(failures: Vec<(types::Subject, types::Failure)>) -> Vec<(ClusterSubject, Failure)> {
    let subject = |subject| match subject {
        types::Subject::Call => ClusterSubject::Call,
        types::Subject::Node(name) => ClusterSubject::Node(name),
        types::Subject::Service((namespace, name)) => ClusterSubject::Service { namespace, name },
        types::Subject::Provider => ClusterSubject::Provider,
    };
    failures.into_iter().map(|(about, why)| (subject(about), failure(why))).collect()
}
