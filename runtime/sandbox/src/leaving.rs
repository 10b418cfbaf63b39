//! What a guest answers, without secrets: it goes to Kubernetes, to logs and to people. No secret of the process is in it, also none of another
//! provider.

use ccm_egress::Veil;

use crate::bindings::ccm::cloud::types;
use crate::bindings::exports::ccm::cloud::{instances, load_balancer_survey, load_balancers, meta, routes};

/// Is shown every text.
type Visit<'v> = &'v mut dyn FnMut(&mut String);

/// What a text takes in the memory of the host beside its bytes: in the answer, and in what that is read into.
const TEXT: usize = 64;

/// An answer of a guest.
pub(crate) trait Leaving {
    /// Shows every text in it.
    fn visit(&mut self, each: Visit<'_>);

    /// Takes secrets out of every text.
    fn clean(&mut self, veil: &Veil) {
        self.visit(&mut |text| veil.clean(text));
    }

    /// About how much memory of the host it takes. A guest makes it: it may be a million empty texts.
    fn bytes(&mut self) -> usize {
        let mut bytes = 0_usize;
        self.visit(&mut |text| bytes = bytes.saturating_add(text.len()).saturating_add(TEXT));
        bytes
    }
}

impl Leaving for String {
    fn visit(&mut self, each: Visit<'_>) {
        each(self);
    }
}

impl<T: Leaving> Leaving for Vec<T> {
    fn visit(&mut self, each: Visit<'_>) {
        self.iter_mut().for_each(|one| one.visit(each));
    }
}

impl<T: Leaving> Leaving for Option<T> {
    fn visit(&mut self, each: Visit<'_>) {
        self.iter_mut().for_each(|one| one.visit(each));
    }
}

impl<T: Leaving, E: Leaving> Leaving for Result<T, E> {
    fn visit(&mut self, each: Visit<'_>) {
        match self {
            Ok(answer) => answer.visit(each),
            Err(error) => error.visit(each),
        }
    }
}

impl<A: Leaving, B: Leaving> Leaving for (A, B) {
    fn visit(&mut self, each: Visit<'_>) {
        self.0.visit(each);
        self.1.visit(each);
    }
}

/// Has no text.
impl Leaving for meta::Capability {
    fn visit(&mut self, _: Visit<'_>) {}
}

/// `describe` runs before the component is given a configuration: it knows no secret that its answer could hold.
impl Leaving for meta::Descriptor {
    fn visit(&mut self, _: Visit<'_>) {}
}

/// Of a component that does not describe itself.
impl Leaving for wasmtime::Error {
    fn visit(&mut self, _: Visit<'_>) {}
}

impl Leaving for types::Failure {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { reaction: _, message, retry_after_ms: _, field, more } = self;
        message.visit(each);
        more.visit(each);
        field.visit(each);
    }
}

impl Leaving for types::Problem {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { field, message, fatal: _, more } = self;
        more.visit(each);
        field.visit(each);
        message.visit(each);
    }
}

impl Leaving for types::Subject {
    fn visit(&mut self, each: Visit<'_>) {
        match self {
            Self::Node(name) => name.visit(each),
            Self::Service(service) => service.visit(each),
            Self::Call | Self::Provider => {}
        }
    }
}

impl Leaving for types::Address {
    fn visit(&mut self, each: Visit<'_>) {
        self.value.visit(each);
    }
}

impl Leaving for types::Ingress {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { ip, hostname, ip_mode: _, ports, more } = self;
        ip.visit(each);
        hostname.visit(each);
        ports.iter_mut().for_each(|port| port.error.visit(each));
        more.visit(each);
    }
}

impl Leaving for instances::Finding {
    fn visit(&mut self, each: Visit<'_>) {
        match self {
            Self::Found(found) => {
                let instances::Instance { provider_id, instance_type, addresses, zone, region, labels, state: _, more } =
                    found;
                [provider_id, instance_type, zone, region].into_iter().for_each(|text| text.visit(each));
                addresses.visit(each);
                labels.visit(each);
                more.visit(each);
            }
            Self::Unknown(why) => why.visit(each),
            Self::Absent => {}
        }
    }
}

impl Leaving for load_balancers::Outcome {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { ingress, annotations, changes, failure, more } = self;
        ingress.visit(each);
        annotations.visit(each);
        changes.visit(each);
        failure.visit(each);
        more.visit(each);
    }
}

impl Leaving for load_balancers::Mark {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { load_balancer, uid } = self;
        load_balancer.visit(each);
        uid.visit(each);
    }
}

impl Leaving for load_balancer_survey::Standing {
    fn visit(&mut self, each: Visit<'_>) {
        match self {
            Self::InStep(places) => places.visit(each),
            Self::Differs(what) => what.visit(each),
            Self::Unknown(why) => why.visit(each),
            Self::Missing => {}
        }
    }
}

impl Leaving for routes::Route {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { name, destination_cidr, node, next_hop, state: _, more } = self;
        name.visit(each);
        destination_cidr.visit(each);
        node.visit(each);
        next_hop.visit(each);
        more.visit(each);
    }
}

impl Leaving for routes::Outcome {
    fn visit(&mut self, each: Visit<'_>) {
        let Self { failure, changes, more } = self;
        failure.visit(each);
        changes.visit(each);
        more.visit(each);
    }
}
