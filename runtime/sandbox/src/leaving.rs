//! What a guest answers, without secrets: it goes to Kubernetes, to logs and to people. No secret of the process is in it, also none of another
//! provider.

use ccm_egress::Veil;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{instances, load_balancer_survey, load_balancers, meta, routes};

/// An answer of a guest.
pub(crate) trait Leaving {
    /// Takes secrets out of every text.
    fn clean(&mut self, veil: &Veil);
}

impl Leaving for String {
    fn clean(&mut self, veil: &Veil) {
        veil.clean(self);
    }
}

impl<T: Leaving> Leaving for Vec<T> {
    fn clean(&mut self, veil: &Veil) {
        self.iter_mut().for_each(|each| each.clean(veil));
    }
}

impl<T: Leaving> Leaving for Option<T> {
    fn clean(&mut self, veil: &Veil) {
        self.iter_mut().for_each(|each| each.clean(veil));
    }
}

impl<T: Leaving, E: Leaving> Leaving for Result<T, E> {
    fn clean(&mut self, veil: &Veil) {
        match self {
            Ok(answer) => answer.clean(veil),
            Err(error) => error.clean(veil),
        }
    }
}

impl<A: Leaving, B: Leaving> Leaving for (A, B) {
    fn clean(&mut self, veil: &Veil) {
        self.0.clean(veil);
        self.1.clean(veil);
    }
}

/// Has no text.
impl Leaving for meta::Capability {
    fn clean(&mut self, _: &Veil) {}
}

/// `describe` runs before the component is given a configuration: it knows no secret that its answer could hold.
impl Leaving for meta::Descriptor {
    fn clean(&mut self, _: &Veil) {}
}

/// Of a component that does not describe itself.
impl Leaving for wasmtime::Error {
    fn clean(&mut self, _: &Veil) {}
}

impl Leaving for types::Failure {
    fn clean(&mut self, veil: &Veil) {
        let Self { reaction: _, message, retry_after_ms: _, field, more } = self;
        message.clean(veil);
        more.clean(veil);
        field.clean(veil);
    }
}

impl Leaving for types::Problem {
    fn clean(&mut self, veil: &Veil) {
        let Self { field, message, fatal: _, more } = self;
        more.clean(veil);
        field.clean(veil);
        message.clean(veil);
    }
}

impl Leaving for types::Subject {
    fn clean(&mut self, veil: &Veil) {
        match self {
            Self::Node(name) => name.clean(veil),
            Self::Service(service) => service.clean(veil),
            Self::Call | Self::Provider => {}
        }
    }
}

impl Leaving for types::Address {
    fn clean(&mut self, veil: &Veil) {
        self.value.clean(veil);
    }
}

impl Leaving for types::Ingress {
    fn clean(&mut self, veil: &Veil) {
        let Self { ip, hostname, ip_mode: _, ports, more } = self;
        ip.clean(veil);
        hostname.clean(veil);
        ports.iter_mut().for_each(|port| port.error.clean(veil));
        more.clean(veil);
    }
}

impl Leaving for instances::Finding {
    fn clean(&mut self, veil: &Veil) {
        match self {
            Self::Found(found) => {
                let instances::Instance { provider_id, instance_type, addresses, zone, region, labels, state: _, more } =
                    found;
                [provider_id, instance_type, zone, region].into_iter().for_each(|text| text.clean(veil));
                addresses.clean(veil);
                labels.clean(veil);
                more.clean(veil);
            }
            Self::Unknown(why) => why.clean(veil),
            Self::Absent => {}
        }
    }
}

impl Leaving for load_balancers::Outcome {
    fn clean(&mut self, veil: &Veil) {
        let Self { ingress, annotations, changes, failure, more } = self;
        ingress.clean(veil);
        annotations.clean(veil);
        changes.clean(veil);
        failure.clean(veil);
        more.clean(veil);
    }
}

impl Leaving for load_balancers::Mark {
    fn clean(&mut self, veil: &Veil) {
        let Self { load_balancer, uid } = self;
        load_balancer.clean(veil);
        uid.clean(veil);
    }
}

impl Leaving for load_balancer_survey::Standing {
    fn clean(&mut self, veil: &Veil) {
        match self {
            Self::InStep(places) => places.clean(veil),
            Self::Differs(what) => what.clean(veil),
            Self::Unknown(why) => why.clean(veil),
            Self::Missing => {}
        }
    }
}

impl Leaving for routes::Route {
    fn clean(&mut self, veil: &Veil) {
        let Self { name, destination_cidr, node, next_hop, state: _, more } = self;
        name.clean(veil);
        destination_cidr.clean(veil);
        node.clean(veil);
        next_hop.clean(veil);
        more.clean(veil);
    }
}

impl Leaving for routes::Outcome {
    fn clean(&mut self, veil: &Veil) {
        let Self { failure, changes, more } = self;
        failure.clean(veil);
        changes.clean(veil);
        more.clean(veil);
    }
}
