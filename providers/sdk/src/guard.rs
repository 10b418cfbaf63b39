//! The exported type: installs the panic hook, then calls the provider.

use std::marker::PhantomData;

use crate::cluster;
use crate::instances::{self, Finding, Need};
use crate::load_balancer_orphan;
use crate::load_balancer_survey::{self, Standing, Wish};
use crate::load_balancers::{self, Mark, Outcome};
use crate::meta::{self, Capability, Descriptor};
use crate::panic;
use crate::routes::{self, Route};
use crate::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};

/// The type that is really exported: arms the panic hook, then calls the provider.
///
/// Every call comes to a fresh instance, so there is no earlier moment at which the hook could be installed for good.
#[derive(Debug)]
pub struct Guarded<P>(PhantomData<P>);

impl<P: meta::Guest> meta::Guest for Guarded<P> {
    fn describe() -> Descriptor {
        panic::forward();
        P::describe()
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        panic::forward();
        P::offers()
    }

    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        panic::forward();
        P::check(online)
    }
}

impl<P: instances::Guest> instances::Guest for Guarded<P> {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        panic::forward();
        P::find(nodes, need)
    }
}

impl<P: load_balancers::Guest> load_balancers::Guest for Guarded<P> {
    fn name(service: Service) -> String {
        panic::forward();
        P::name(service)
    }

    fn locks(service: Service) -> Vec<String> {
        panic::forward();
        P::locks(service)
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        panic::forward();
        P::get(service)
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        panic::forward();
        P::get_mark(service)
    }

    fn ensure(service: Service, backends: Vec<Backend>) -> Outcome {
        panic::forward();
        P::ensure(service, backends)
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        panic::forward();
        P::update_backends(service, backends)
    }

    fn ensure_deleted(service: Service) -> Outcome {
        panic::forward();
        P::ensure_deleted(service)
    }

    fn validate(service: Service, before: Option<Service>, online: bool) -> Result<Vec<Problem>, Failure> {
        panic::forward();
        P::validate(service, before, online)
    }
}

impl<P: load_balancer_survey::Guest> load_balancer_survey::Guest for Guarded<P> {
    fn survey(backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        panic::forward();
        P::survey(backends, wishes)
    }
}

impl<P: load_balancer_orphan::Guest> load_balancer_orphan::Guest for Guarded<P> {
    fn orphan(service: Service) -> Result<Vec<String>, Failure> {
        panic::forward();
        P::orphan(service)
    }
}

impl<P: routes::Guest> routes::Guest for Guarded<P> {
    fn get_all(nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        panic::forward();
        P::get_all(nodes)
    }

    fn change(obsolete: Vec<Route>, wanted: Vec<routes::Wish>) -> Result<Vec<routes::Outcome>, Failure> {
        panic::forward();
        P::change(obsolete, wanted)
    }
}

impl<P: cluster::Guest> cluster::Guest for Guarded<P> {
    fn reconcile(nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        panic::forward();
        P::reconcile(nodes, services)
    }
}
