//! The cluster as a whole, of which nothing is kept anywhere.

use ccm_sdk::cluster;
use ccm_sdk::types::{Failure, Node, Service, Subject};

use crate::{Successor, behaviour, misbehave, throttled};

impl cluster::Guest for Successor {
    fn reconcile(_nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        let behaviour = behaviour();
        misbehave(&behaviour);
        let refused = |service: Service| {
            let failure = Failure::invalid("the Service is refused on purpose");
            (Subject::Service((service.namespace, service.name)), failure)
        };
        match behaviour.as_str() {
            "throttled" => Err(throttled()),
            "unknown" => Err(Failure::retry("the cluster cannot be told on purpose")),
            "refuse" => Ok(services.into_iter().map(refused).collect()),
            _ => Ok(vec![]),
        }
    }
}
