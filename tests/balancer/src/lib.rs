//! A provider whose load balancers are those of a small cloud that runs on loopback (`ccm_e2e::balancer_cloud`), written as
//! one for a real cloud would be:
//!
//! | rule | why |
//! |---|---|
//! | found by the ID that stands on the Service, else by the owner that stands on the balancer | a crash between the two leaves neither an orphan nor a second one |
//! | the ID is written as soon as there is one, also with a failure | the next call asks for one thing, not for a list |
//! | an ID whose balancer has another owner is that of a Service that is gone: it gets this one as its owner | the host asks for the mark before, and leaves out the ID of what is another Service's |
//! | compared before anything is written | what does not differ costs no write |
//! | `pending` while the cloud is at work | nobody waits inside a call |
//! | deleted is all that has this owner; gone already is as good | |
//!
//! With the setting `region`, machines are those whose names begin with it, and their provider IDs have it: `balancer://east/east-1`.
//!
//! With `prefix` in the form in its bytes (`form`), names, owners and the annotation with the ID begin with that: a version that has renamed
//! everything, and finds nothing of what the one before made. `routes` is for one that says of routes what is not so.
//!
//! Benchmarks and crash tests count what that cloud sees.

mod api;
mod balancers;
mod desired;
mod firewall;
#[path = "../../successor/src/form.rs"]
mod form;
mod routes;

use ccm_sdk::instances::{self, Finding, Instance, Need, State};
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::meta::{
    self, Annotation, AnnotationRole, Capability, Credential, CredentialUse, Descriptor, Endpoint, Place, Setting,
    Source, ValueKind,
};
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};
use ccm_sdk::{cluster, nodes, settings};

use crate::desired::{IDLE, NETWORK, NODES};

/// On a Service: the firewall does not let it in, and says so.
const REFUSE: &str = "balancer.example/refuse";
/// Setting: whether the cloud's firewall is kept.
const FIREWALL: &str = "firewall";
/// Setting: whether the cloud's routes are kept.
const ROUTES: &str = "routes";
/// Setting: which machines are here; all of them without it.
const REGION: &str = "region";

struct Balancer;

ccm_sdk::export!(Balancer: meta, instances, load_balancers, load_balancer_survey, cluster, routes);

impl meta::Guest for Balancer {
    fn describe() -> Descriptor {
        Descriptor {
            name: "balancer".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: "1".to_owned(),
            provider_id_schemes: vec![desired::SCHEME.to_owned()],
            files: vec![],
            endpoints: vec![Endpoint {
                name: api::ENDPOINT.to_owned(),
                purpose: "Has the load balancers.".to_owned(),
                base_url: nowhere(),
                default_base_url: None,
                tls: None,
            }],
            credentials: vec![Credential {
                name: api::TOKEN.to_owned(),
                purpose: "Lets this cluster in.".to_owned(),
                required: true,
                value: nowhere(),
                uses: vec![CredentialUse {
                    endpoint: api::ENDPOINT.to_owned(),
                    place: Place::Header("authorization".to_owned()),
                    path: None,
                }],
            }],
            settings: vec![
                switch(FIREWALL, "Whether the cloud's firewall lets in what Services have as node ports."),
                switch(ROUTES, "Whether the cloud has a route for each pod CIDR."),
                Setting {
                    name: REGION.to_owned(),
                    purpose: "Which machines are here, by how their names begin.".to_owned(),
                    kind: ValueKind::Text,
                    default_value: None,
                    allowed: vec![],
                    value: nowhere(),
                },
            ],
            annotations: vec![
                annotation(
                    &desired::id_annotation(),
                    "The load balancer's ID in the cloud.",
                    ValueKind::Text,
                    AnnotationRole::Both,
                ),
                annotation(
                    IDLE,
                    "After how many seconds without traffic a connection ends.",
                    ValueKind::Integer,
                    AnnotationRole::Asked,
                ),
                annotation(
                    NETWORK,
                    "Services of one network are changed one after the other.",
                    ValueKind::Text,
                    AnnotationRole::Asked,
                ),
                annotation(
                    NODES,
                    "A label selector: which Nodes take traffic.",
                    ValueKind::Text,
                    AnnotationRole::Asked,
                ),
                annotation(REFUSE, "Why the firewall does not let it in.", ValueKind::Text, AnnotationRole::Asked),
            ],
            budgets: vec![],
            more: vec![],
        }
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        let mut offers = vec![Capability::LoadBalancers];
        for (setting, interface) in [(FIREWALL, Capability::Cluster), (ROUTES, Capability::Routes)] {
            if settings::get(setting).as_deref() == Some("true") {
                offers.push(interface);
            }
        }
        Ok(offers)
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        if online {
            api::look()?;
        }
        Ok(vec![])
    }
}

fn switch(name: &str, purpose: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        kind: ValueKind::Boolean,
        default_value: Some("false".to_owned()),
        allowed: vec![],
        value: nowhere(),
    }
}

fn nowhere() -> Source {
    Source { keys: vec![], environment_variables: vec![] }
}

fn annotation(name: &str, purpose: &str, kind: ValueKind, role: AnnotationRole) -> Annotation {
    Annotation { name: name.to_owned(), purpose: purpose.to_owned(), kind, default_value: None, allowed: vec![], role }
}

impl instances::Guest for Balancer {
    /// Every machine is there and runs, but for what its name says: `gone-…`, `stopped-…`, `foreign-…`. It speaks for itself:
    /// there are no machines in its cloud.
    fn find(nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, Failure> {
        let region = settings::get(REGION).unwrap_or_default();
        Ok(nodes.iter().map(|node| find(node, &region)).collect())
    }
}

fn find(node: &Node, region: &str) -> Finding {
    if node.name.starts_with("gone-") {
        return Finding::Absent;
    }
    if node.name.starts_with("foreign-") || !node.name.starts_with(region) {
        return Finding::Unknown(Failure::elsewhere("it is no machine of this cloud"));
    }
    Finding::Found(Instance {
        provider_id: match region {
            "" => format!("{}://{}", desired::SCHEME, node.name),
            region => format!("{}://{region}/{}", desired::SCHEME, node.name),
        },
        instance_type: String::new(),
        addresses: vec![],
        zone: String::new(),
        region: String::new(),
        labels: vec![],
        state: if node.name.starts_with("stopped-") { State::Stopped } else { State::Running },
        more: vec![],
    })
}

impl load_balancers::Guest for Balancer {
    fn name(service: Service) -> String {
        desired::name(&service)
    }

    fn locks(service: Service) -> Vec<String> {
        service.annotation(NETWORK).map(str::to_owned).into_iter().collect()
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        balancers::get(&service)
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        balancers::mark(&service)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        chosen(&service, backends).map_or_else(Outcome::failed, |backends| balancers::ensure(&service, &backends))
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        let backends = chosen(&service, backends);
        backends.map_or_else(Outcome::failed, |backends| balancers::update_backends(&service, &backends))
    }

    fn ensure_deleted(service: Service) -> Outcome {
        balancers::delete(&service)
    }

    fn validate(service: Service, _before: Option<Service>, _online: bool) -> Result<Vec<Problem>, Failure> {
        Ok(desired::problems(&service))
    }
}

impl load_balancer_survey::Guest for Balancer {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        let choose = |wish: Wish| {
            let own = wish.backends.iter().filter_map(|index| backends.get(usize::try_from(*index).ok()?).cloned());
            let own = chosen(&wish.service, own.collect())?;
            let is_own = |index: &u32| {
                let backend = usize::try_from(*index).ok().and_then(|index| backends.get(index));
                backend.is_none_or(|backend| own.iter().any(|own| own.name == backend.name))
            };
            Ok(Wish { backends: wish.backends.iter().copied().filter(is_own).collect(), ..wish })
        };
        let chosen: Vec<Result<Wish, Failure>> = wishes.into_iter().map(choose).collect();
        let wishes: Vec<Wish> = chosen.iter().filter_map(|wish| wish.as_ref().ok().cloned()).collect();
        let mut known = balancers::survey(&backends, &wishes)?.into_iter();
        let unknown = || Standing::Unknown(Failure::retry("the survey has no standing for it"));
        let standing = |wish: Result<Wish, Failure>| match wish {
            Ok(_) => known.next().unwrap_or_else(unknown),
            Err(failure) => Standing::Unknown(failure),
        };
        Ok(chosen.into_iter().map(standing).collect())
    }
}

/// The backends that a Service wants.
fn chosen(service: &Service, mut backends: Vec<Backend>) -> Result<Vec<Backend>, Failure> {
    let Some(selector) = service.annotation(NODES) else { return Ok(backends) };
    let names = nodes::matching(selector).map_err(|why| Failure::invalid(why).annotation(NODES))?;
    backends.retain(|backend| names.contains(&backend.name));
    if backends.is_empty() {
        return Err(Failure::invalid(format!("no Node matches {selector:?}")).annotation(NODES));
    }
    Ok(backends)
}

impl cluster::Guest for Balancer {
    fn reconcile(nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        firewall::reconcile(&nodes, &services)
    }
}
