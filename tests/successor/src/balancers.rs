//! Load balancers that nobody makes: a Service keeps the address that it has.

use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::types::{Backend, Failure, Ingress, Problem, Service};

use crate::{Successor, behaviour_when, misbehave, throttled};

/// Where clients reach the Service. New ones are in the range for benchmarks (RFC 2544), so that nobody takes them for those
/// of another provider.
fn places(service: &Service) -> Vec<Ingress> {
    if !service.ingress.is_empty() {
        return service.ingress.clone();
    }
    // FNV-1a: the same Service has the same address in every version.
    let hash =
        service.uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, a, b, c] = hash.to_be_bytes();
    vec![Ingress::ip(&format!("198.{}.{b}.{c}", 18 + (a & 1)))]
}

fn behaviour(service: &Service) -> String {
    behaviour_when(service.ingress.is_empty(), false, [service.name.as_str()])
}

fn change(service: &Service) -> Outcome {
    let behaviour = behaviour(service);
    misbehave(&behaviour);
    match behaviour.as_str() {
        "refuse" => Outcome::failed(Failure::invalid("the Service is refused on purpose")),
        "throttled" => Outcome::failed(throttled()),
        "too-few" => Outcome::done(vec![]),
        _ => Outcome::done(places(service)),
    }
}

impl load_balancers::Guest for Successor {
    fn name(service: Service) -> String {
        let behaviour = behaviour(&service);
        misbehave(&behaviour);
        let name = service.full_name().replace('/', "-");
        if behaviour == "renamed" { format!("v2-{name}") } else { name }
    }

    fn locks(service: Service) -> Vec<String> {
        misbehave(&behaviour(&service));
        vec![]
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        let behaviour = behaviour(&service);
        misbehave(&behaviour);
        Ok(Some(service.ingress).filter(|ingress| !ingress.is_empty() && behaviour != "renamed"))
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        misbehave(&behaviour(&service));
        Ok(None)
    }

    fn ensure(service: Service, _backends: Vec<Backend>) -> Outcome {
        change(&service)
    }

    fn update_backends(service: Service, _backends: Vec<Backend>) -> Outcome {
        change(&service)
    }

    fn ensure_deleted(service: Service) -> Outcome {
        let behaviour = behaviour(&service);
        misbehave(if behaviour == "cannot-delete" { "trap" } else { &behaviour });
        Outcome::gone()
    }

    fn validate(service: Service, _before: Option<Service>, _online: bool) -> Result<Vec<Problem>, Failure> {
        misbehave(&behaviour(&service));
        Ok(vec![])
    }
}
