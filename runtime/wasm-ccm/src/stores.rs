//! What the process knows of the cluster: whether the API server answers, and the Nodes and Services in memory.
//!
//! A standby has all of it, so that it can begin as soon as it leads. Commands [read] it once, and fail where
//! the process tries again.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use ccm_cloud::Capability;
use ccm_controllers::{FirstList, Metrics, Node, Reflector, ReflectorHandle, balanced_service};
use ccm_rollout::backoff;
use ccm_serving::health::Readiness;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;
use ccm_cli::controller_names::Selection;

/// Name of what must be true of the API server before the process is ready.
pub(crate) const API_SERVER: &str = "API server";
/// The same for the Nodes.
const NODES: &str = "nodes";
/// The same for Services.
const SERVICES: &str = "services";
/// How long the API server may take for all Nodes and Services.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// One reflector per kind, which all controllers share.
pub(crate) struct Reflectors {
    nodes: Reflector<Node>,
    /// None when no controller works on them.
    services: Option<Reflector<Service>>,
}

/// What controllers take from the reflectors, once those run.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) nodes: ReflectorHandle<Node>,
    pub(crate) services: Option<ReflectorHandle<Service>>,
}

impl Reflectors {
    /// Reads nothing yet.
    pub(crate) fn new(client: &Client, metrics: &Metrics, readiness: &Readiness, selection: &Selection) -> Self {
        // Every controller needs them.
        readiness.set(NODES, Err("the first list of Nodes is not complete".to_owned()));
        let services = selection.watches_services().then(|| {
            readiness.set(SERVICES, Err("the first list of Services is not complete".to_owned()));
            Reflector::new(client.clone(), &metrics.store)
        });
        Self { nodes: Reflector::new(client.clone(), &metrics.store), services }
    }

    /// What controllers take.
    pub(crate) fn stores(&self) -> Stores {
        Stores { nodes: self.nodes.handle(), services: self.services.as_ref().map(Reflector::handle) }
    }

    /// Lets them run, and says how they stand until they are complete.
    pub(crate) fn start(self, tasks: &mut Tasks, readiness: &Readiness) {
        let stop = tasks.stop.clone();
        let mut known = vec![follow(NODES, self.nodes.first_list(), readiness.clone())];
        tasks.spawn_reader("reflector of Nodes", self.nodes.run(stop.clone()));
        if let Some(services) = self.services {
            known.push(follow(SERVICES, services.first_list(), readiness.clone()));
            tasks.spawn_reader("reflector of Services", services.run(stop.clone()));
        }
        tasks.spawn_reader("readiness of stores", async move {
            stop.run_until_cancelled(join_all(known)).await;
            stop.cancelled().await;
        });
    }
}

impl Stores {
    /// Waits until they are filled. Never ends when a reflector does before, which the process notices by itself.
    pub(crate) async fn complete(&self) {
        let services = async {
            match &self.services {
                Some(services) => services.first_list().complete().await,
                None => true,
            }
        };
        if !(self.nodes.first_list().complete().await && services.await) {
            std::future::pending().await
        }
    }
}

/// All Nodes and Services, which `readers` keep up to date.
///
/// # Errors
///
/// The API server does not give them, or not in time.
pub(crate) async fn read(client: &Client, readers: &mut JoinSet<()>) -> Result<Stores> {
    let metrics = Metrics::register(&mut Registry::default());
    let nodes = Reflector::new(client.clone(), &metrics.store);
    let services: Reflector<Service> = Reflector::new(client.clone(), &metrics.store);
    let stores = Stores { nodes: nodes.handle(), services: Some(services.handle()) };
    let lists = [("Nodes", nodes.first_list()), ("Services", services.first_list())];
    readers.spawn(nodes.run(CancellationToken::new()));
    readers.spawn(services.run(CancellationToken::new()));
    let complete = async {
        for (kind, list) in lists {
            listed(kind, list).await?;
        }
        anyhow::Ok(())
    };
    let waited = tokio::time::timeout(LIST_TIMEOUT, complete).await;
    waited
        .map_err(|_elapsed| anyhow!("the API server did not give all Nodes and Services within {LIST_TIMEOUT:?}"))??;
    Ok(stores)
}

/// Waits for a list. Fails at once instead of trying again: a person waits, and can fix the cause.
async fn listed(kind: &str, mut list: FirstList) -> Result<()> {
    while list.state().is_err() {
        ensure!(list.changed().await, "{kind}: the list ended");
        if let Err(why) = list.state() {
            bail!("{kind}: {why}; check --kubeconfig and --master, and whether you may list and watch them");
        }
    }
    Ok(())
}

/// Says how a first list stands until it is complete.
async fn follow(check: &str, mut first_list: FirstList, readiness: Readiness) {
    while let Err(why) = first_list.state() {
        readiness.set(check, Err(why));
        if !first_list.changed().await {
            // The reflector is gone, which the process notices by itself.
            return;
        }
    }
    readiness.set(check, Ok(()));
}

/// Which object would be nobody's without an optional interface.
pub(crate) fn depends(stores: &Stores) -> Box<dyn Fn(Capability) -> Option<String> + Send + Sync> {
    let services = stores.services.as_ref().map(|services| (services.reader(), services.first_list()));
    Box::new(move |capability| match capability {
        Capability::LoadBalancers => {
            let (services, listed) = services.as_ref()?;
            if listed.state().is_err() {
                return Some("perhaps a Service (the first list of them is not complete)".to_owned());
            }
            balanced_service(services).map(|name| format!("Service {name}"))
        }
        // What they have made in the cloud stands for no single object.
        Capability::Routes => Some("the network of pods".to_owned()),
        Capability::Cluster => Some("what it keeps for the cluster as a whole".to_owned()),
    })
}

/// Waits until the API server answers, with back-off from 0.5 s to 15 s and a log line each time.
pub(crate) async fn wait_for_api_server(client: &Client, readiness: &Readiness) {
    let mut delays = backoff(Duration::from_millis(500), Duration::from_secs(15));
    loop {
        let asked = tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await;
        let error = match asked {
            Ok(Ok(version)) => {
                tracing::info!(version = version.git_version, "API server answers");
                readiness.set(API_SERVER, Ok(()));
                return;
            }
            Ok(Err(error)) => ccm_apiserver::api_error_text(&error),
            Err(_) => "no answer within 10 s".to_owned(),
        };
        let delay = delays.next().unwrap_or_default();
        tracing::warn!(error, retry_in = ?delay, "waiting for the API server");
        readiness.set(API_SERVER, Err(error));
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A state folder, a provider without `load-balancers` and a slow API server once left the load balancers to nobody.
    #[tokio::test]
    async fn before_the_list_of_services_is_complete_any_service_may_need_load_balancers() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                std::future::pending().await
            }
            let service = json!({ "metadata": {
                "name": "web", "namespace": "default", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            } });
            let list = json!({ "metadata": { "resourceVersion": "7" }, "items": [service] });
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = Client::new(service, "default");
        let metrics = Metrics::register(&mut Registry::default());
        let selection = Selection::parse(&["*".to_owned()]).unwrap();
        let reflectors = Reflectors::new(&client, &metrics, &Readiness::default(), &selection);
        let stores = reflectors.stores();
        let depends = depends(&stores);
        let needs = || depends(Capability::LoadBalancers);
        assert_eq!(needs().unwrap(), "perhaps a Service (the first list of them is not complete)");
        let services = reflectors.services.unwrap();
        let listed = services.first_list();
        tokio::select! {
            _ = services.run(CancellationToken::new()) => {}
            listed = listed.complete() => assert!(listed),
        }
        assert_eq!(needs().unwrap(), "Service default/web");
    }

    /// With half of the objects, a command would find nothing to do for the others, or take machines and load balancers for nobody's.
    #[tokio::test(start_paused = true)]
    async fn a_list_of_which_a_page_fails_is_no_list() {
        for (kind, status) in [("Services", 500_u16), ("Services", 410), ("Nodes", 401), ("Nodes", 403)] {
            let service = tower::service_fn(move |request: Request<Body>| async move {
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                let (code, body) = match () {
                    () if query.contains("watch=") => std::future::pending().await,
                    () if !path.ends_with(&kind.to_lowercase()) => {
                        (200, json!({ "metadata": { "resourceVersion": "7" }, "items": [] }))
                    }
                    () if query.contains("continue=") => {
                        let (kind, reason) = ("Status", "Scripted");
                        let failed = json!({ "kind": kind, "status": "Failure", "reason": reason, "message": "page 2", "code": status });
                        (status, failed)
                    }
                    () => {
                        let first = json!({ "metadata": { "name": "web", "namespace": "default", "uid": "1" } });
                        (200, json!({ "metadata": { "resourceVersion": "7", "continue": "more" }, "items": [first] }))
                    }
                };
                let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
                *answer.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, std::convert::Infallible>(answer)
            });
            let listed = read(&Client::new(service, "default"), &mut JoinSet::new()).await;
            let error = format!("{:#}", listed.err().expect("half a list passed for all"));
            assert!(error.starts_with(&format!("{kind}: ")) && error.contains("page 2"), "{error}");
            assert!(error.contains("whether you may list and watch them"), "{error}");
        }
    }
}
