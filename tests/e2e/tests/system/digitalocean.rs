//! DigitalOcean: the real host with its component, and a cloud on loopback that keeps state and checks every exchange against
//! the vendor's OpenAPI document.
//!
//! | module | shows |
//! | --- | --- |
//! | `nodes` | Nodes and their droplets: initialised, switched off, gone |
//! | `balancers` | Services and their load balancers: made, changed, followed, handed over, deleted |
//! | `refused` | droplets that no load balancer takes: the others do not wait for them |
//! | `plan` | what `wasm-ccm plan` shows, and that it is what `run` does; and that what is ensured is stable |
//! | `dry_run` | a host beside another manager that shows what it would write, and writes nothing |
//! | `restored` | Services from a backup, and copies: whose load balancer is whose shows at the cloud |
//! | `settled` | how each of these tests ends: what is ensured is stable |
//! | `takeover` | what the Go manager has left: nothing of it is written |
//! | `traces` | spans of reconciles, calls and requests, as a collector gets them |
//! | `whole` | the public access firewall and the cluster's tag |
//! | `account` | tokens, environment variables, regions, an account with droplets of others |
//! | `cloud` | all of that once more while the cloud fails at random |

mod account;
mod balancers;
mod cloud;
mod cluster_controller;
mod dry_run;
mod nodes;
mod plan;
mod refused;
mod restored;
mod settled;
mod takeover;
mod traces;

use std::path::Path;

use ccm_cluster::NodeFixture;
use ccm_e2e::host::{Host, component};
use ccm_sim_digitalocean::{Balancer, DigitalOcean, Droplet, TOKEN};
use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt as _};

pub(crate) use self::cloud::Cloud;
use crate::service_look::{await_service, has_finalizer, ips, readiness};
use crate::stage::{Actor, LIMIT, Stage};

/// The load balancer's ID, on its Service.
const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

/// For a cloud on loopback, and so that nobody waits.
const FLAGS: [&str; 6] = [
    "--cloud-provider=digitalocean",
    "--allow-http",
    "--allow-loopback",
    "--cluster-debounce=100ms",
    "--service-min-backoff=200ms",
    "--service-max-backoff=1s",
];

/// The component, as a flag.
fn provider() -> String {
    from(&component("providers/digitalocean.wasm").unwrap())
}

fn from(file: &Path) -> String {
    format!("--provider={}", file.display())
}

/// A host that is configured as the Go manager is: by the environment. More variables may stand beside token and address.
pub(crate) fn start(stage: &Stage, cloud: &Cloud, environment: &[(&str, &str)], flags: &[&str]) -> Actor {
    start_from(stage, cloud, &component("providers/digitalocean.wasm").unwrap(), environment, flags)
}

/// The same with the component in this file.
pub(crate) fn start_from(
    stage: &Stage,
    cloud: &Cloud,
    file: &Path,
    environment: &[(&str, &str)],
    flags: &[&str],
) -> Actor {
    cloud.configured_with(environment, flags);
    let url = cloud.url();
    let (environment, flags) = configured(cloud, file, &url, environment, flags);
    Actor::from(Host::start_in(stage.kubeconfig(), &environment, flags).unwrap())
}

/// The environment and the flags of a host with this cloud at `url`.
fn configured<'a>(
    cloud: &Cloud,
    file: &Path,
    url: &'a str,
    environment: &[(&'a str, &'a str)],
    flags: &[&str],
) -> (Vec<(&'a str, &'a str)>, Vec<String>) {
    let own = [("DO_ACCESS_TOKEN", TOKEN), ("DO_OVERRIDE_URL", url)];
    let is_given = |name: &str| environment.iter().any(|(given, _)| *given == name);
    let own = own.into_iter().filter(|(name, _)| !is_given(name));
    let environment: Vec<_> = own.chain(environment.iter().copied()).collect();
    let grants = environment.iter().map(|(name, _)| format!("--allow-env={name}"));
    let flags = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned());
    let flags = flags.chain(cloud.flags()).chain(grants).chain([from(file)]).collect();
    (environment, flags)
}

/// Droplets with these IDs, each called `n` and its ID, with Nodes that are done.
pub(crate) async fn members(client: &Client, cloud: &DigitalOcean, ids: &[u64]) {
    for id in ids {
        let name = format!("n{id}");
        cloud.put_droplet(Droplet::new(*id, &name));
        initialised(*id, &name).register(client).await.unwrap();
    }
}

/// A Node of a droplet that [`Droplet::new`] makes, as it is after its initialisation.
fn initialised(id: u64, name: &str) -> NodeFixture {
    let low = [id / 256 % 256, id % 256].map(|byte| byte.to_string()).join(".");
    let (private, public) = (format!("10.8.{low}"), format!("198.19.{low}"));
    let fixture = NodeFixture::new(name).initialized().provider_id(&provider_id(id));
    fixture.address("InternalIP", &private).address("ExternalIP", &public)
}

/// What the droplet with this ID is called as a provider ID.
fn provider_id(id: u64) -> String {
    format!("digitalocean://{id}")
}

/// The one load balancer that a Service has.
fn of(cloud: &DigitalOcean, service: &Service) -> Balancer {
    let id = service.annotations().get(ID).unwrap_or_else(|| panic!("no {ID} in {service:?}"));
    cloud.balancers().into_iter().find(|balancer| balancer.id == *id).unwrap()
}

/// Whether it has all that it gets, and of the addresses one or two.
fn is_served(service: &Service) -> bool {
    let is_ready = readiness(service).is_some_and(|ready| (ready.0, ready.1) == ("True", "Ensured"));
    has_finalizer(service) && !ips(service).is_empty() && is_ready
}

/// Waits until a Service has its addresses; returns it and its load balancer.
async fn await_balanced(client: &Client, cloud: &DigitalOcean, name: &str) -> (Service, Balancer) {
    let service = await_service(client, name, is_served).await;
    let balancer = of(cloud, &service);
    (service, balancer)
}

/// Waits until a load balancer has exactly these droplets.
async fn await_members(cloud: &DigitalOcean, id: &str, members: &[u64]) {
    let has = |cloud: &DigitalOcean| {
        let balancers = cloud.balancers();
        let balancer = balancers.iter().find(|balancer| balancer.id == id);
        balancer.is_some_and(|balancer| balancer.spec.droplet_ids == members)
    };
    cloud.until(LIMIT, has).await.unwrap();
}
