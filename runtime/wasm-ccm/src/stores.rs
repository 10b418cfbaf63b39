//! What the process knows of the cluster: whether the API server answers, and the Nodes and Services in memory.
//!
//! Both are checks of readiness for as long as the process runs, made of what the watches [learn](ccm_apiserver::observed) anyway. A process
//! whose watch fails is not ready: what it has in memory becomes old. It is healthy, as a restart would only make it forget that.
//!
//! A standby has all of it, so that it can begin as soon as it leads. Commands [read] it once, and fail where
//! the process tries again.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use ccm_apiserver::{Away, Observed, observed};
use ccm_cloud::Capability;
use ccm_controllers::{FirstList, Metrics, Node, Reflector, ReflectorHandle, Stored, balanced_service};
use ccm_rollout::backoff;
use ccm_serving::health::Readiness;
use futures::FutureExt as _;
use futures::future::{join, join_all, select_all};
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
    nodes: (Reflector<Node>, Observed),
    /// None when no controller works on them.
    services: Option<(Reflector<Service>, Observed)>,
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
            reflector(client, metrics)
        });
        Self { nodes: reflector(client, metrics), services }
    }

    /// What controllers take.
    pub(crate) fn stores(&self) -> Stores {
        let services = self.services.as_ref().map(|(services, _)| services.handle());
        Stores { nodes: self.nodes.0.handle(), services }
    }

    /// Lets them run, and says how they and the API server stand.
    pub(crate) fn start(self, tasks: &mut Tasks, readiness: &Readiness) {
        let stop = tasks.stop.clone();
        let (nodes, observed) = self.nodes;
        let mut all = vec![observed.clone()];
        let list = nodes.first_list();
        let mut known = vec![follow(Followed { check: NODES, kind: "Nodes", list, observed }, readiness.clone())];
        tasks.spawn_reader("reflector of Nodes", nodes.run(stop.clone()));
        if let Some((services, observed)) = self.services {
            all.push(observed.clone());
            let list = services.first_list();
            known.push(follow(Followed { check: SERVICES, kind: "Services", list, observed }, readiness.clone()));
            tasks.spawn_reader("reflector of Services", services.run(stop.clone()));
        }
        let api_server = follow_api_server(all, readiness.clone());
        tasks.spawn_reader("readiness of stores", async move {
            stop.run_until_cancelled(join(join_all(known), api_server)).await;
            stop.cancelled().await;
        });
    }
}

/// A reflector with a client of its own, and what that sees.
fn reflector<K: Stored>(client: &Client, metrics: &Metrics) -> (Reflector<K>, Observed) {
    let (client, observed) = observed(client);
    (Reflector::new(client, &metrics.store), observed)
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

/// What a check of readiness is made of.
struct Followed {
    check: &'static str,
    kind: &'static str,
    list: FirstList,
    observed: Observed,
}

impl Followed {
    fn state(&self) -> Result<(), String> {
        self.list.state()?;
        self.observed.hears().map_err(|Away { since, why, lacks_right }| {
            let kind = self.kind;
            let way_out = if lacks_right {
                format!("let this process list and watch {kind}: apply your overlay again")
            } else {
                "check the API server, the way to it and the credentials of this process".to_owned()
            };
            format!("no change has been seen since {since:.0}: {why}; {way_out}; no restart is needed")
        })
    }
}

/// Says how a list and its watch stand, until the reflector is gone, which the process notices by itself.
async fn follow(mut followed: Followed, readiness: Readiness) {
    loop {
        readiness.set(followed.check, followed.state());
        let goes_on = tokio::select! {
            goes_on = followed.list.changed() => goes_on,
            goes_on = followed.observed.changed() => goes_on,
        };
        if !goes_on {
            return;
        }
    }
}

/// Says whether the API server answers any of the watches, until one of them is gone.
async fn follow_api_server(mut all: Vec<Observed>, readiness: Readiness) {
    loop {
        readiness.set(API_SERVER, answers(&all));
        let (goes_on, ..) = select_all(all.iter_mut().map(|one| one.changed().boxed())).await;
        if !goes_on {
            return;
        }
    }
}

fn answers(all: &[Observed]) -> Result<(), String> {
    let state = all.iter().map(Observed::answered).reduce(Result::or).unwrap_or(Ok(()));
    state.map_err(|Away { since, why, .. }| {
        format!("no answer since {since:.0}: {why}; check the API server and the way to it")
    })
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
    use std::convert::Infallible;
    use std::sync::Arc;

    use futures::stream;
    use http::{Request, Response, StatusCode};
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::{Bytes, Frame};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::sync::Notify;

    use super::*;

    /// Seconds for which a watch fails, and is not told: it is after 45.
    const QUIET: u64 = 44;

    /// How an API server stands to a process that watches Nodes and Services.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Mood {
        /// Each watch ends after ten seconds, as if that was its time.
        Well,
        /// Services may be listed, and no longer watched.
        Refusing,
        /// Whoever connects gives up after half a minute.
        Away,
    }

    fn is_watch(request: &Request<Body>) -> bool {
        request.uri().query().is_some_and(|query| query.contains("watch="))
    }

    impl Mood {
        fn fails(self, request: &Request<Body>) -> bool {
            match self {
                Self::Well => false,
                Self::Refusing => is_watch(request) && request.uri().path().ends_with("services"),
                Self::Away => true,
            }
        }
    }

    async fn answer(mood: Mood, request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, String> {
        let whole = |text: serde_json::Value| Full::new(Bytes::from(text.to_string())).boxed_unsync();
        let (code, body) = match mood {
            Mood::Away => {
                tokio::time::sleep(Duration::from_secs(30)).await;
                return Err("no connection within 30s".to_owned());
            }
            Mood::Refusing if mood.fails(&request) => {
                let message = "services is forbidden: User \"ccm\" cannot watch resource \"services\"";
                (403, whole(json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": message })))
            }
            _ if is_watch(&request) => {
                let silence = stream::once(async {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    Ok::<_, Infallible>(Frame::data(Bytes::new()))
                });
                (200, StreamBody::new(silence).boxed_unsync())
            }
            _ => (200, whole(json!({ "metadata": { "resourceVersion": "7" }, "items": [] }))),
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        Ok(answer)
    }

    /// These checks once stayed as they were after the first list, and a process that heard nothing any more was ready.
    #[tokio::test(start_paused = true)]
    async fn while_a_watch_fails_its_check_says_so_and_all_is_well_when_the_watch_is_back() {
        let refused = [(
            "services not ready: no change has been seen since 20",
            "cannot watch resource \"services\" (403)",
            "let this process list and watch Services: apply your overlay again; no restart is needed",
        )];
        let away = [
            ("API server not ready: no answer since 20", "within 30s", "check the API server and the way to it"),
            ("nodes not ready: no change has been seen since 20", "within 30s", "no restart is needed"),
            ("services not ready: no change has been seen since 20", "within 30s", "no restart is needed"),
        ];
        for (mood, expected) in [(Mood::Refusing, &refused[..]), (Mood::Away, &away[..])] {
            let now = Arc::new(Mutex::new(Mood::Well));
            let failed = Arc::new(Notify::new());
            let (asked, first) = (Arc::clone(&now), Arc::clone(&failed));
            let service = tower::service_fn(move |request: Request<Body>| {
                let mood = *asked.lock();
                if mood.fails(&request) {
                    first.notify_one();
                }
                answer(mood, request)
            });
            let client = Client::new(service, "default");
            let metrics = Metrics::register(&mut Registry::default());
            let selection = Selection::parse(&["*".to_owned()]).unwrap();
            let readiness = Readiness::default();
            let reflectors = Reflectors::new(&client, &metrics, &readiness, &selection);
            assert_eq!(readiness.failing().len(), 2, "no list is complete");
            let mut tasks = Tasks::default();
            reflectors.start(&mut tasks, &readiness);
            let passes = async |seconds: u64| {
                for second in 0..seconds {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let failing = readiness.failing();
                    assert!(failing.is_empty(), "{mood:?}: after {second} s: {failing:?}");
                }
            };
            passes(600).await;
            *now.lock() = mood;
            // The watch goes on for up to ten seconds more, and the time counts from the first request that fails.
            tokio::time::timeout(Duration::from_secs(15), failed.notified()).await.expect("it begins anew");
            passes(QUIET).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let failing = readiness.failing();
            assert_eq!(failing.len(), expected.len(), "{mood:?}: {failing:?}");
            for (line, &(check, why, way_out)) in failing.iter().zip(expected) {
                let is_told = line.starts_with(check) && line.contains(why) && line.ends_with(way_out);
                assert!(is_told, "{mood:?}: {line}");
            }
            *now.lock() = Mood::Well;
            // A request that hangs, and the longest pause.
            tokio::time::sleep(Duration::from_secs(61)).await;
            passes(60).await;
        }
    }

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
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = Client::new(service, "default");
        let metrics = Metrics::register(&mut Registry::default());
        let selection = Selection::parse(&["*".to_owned()]).unwrap();
        let reflectors = Reflectors::new(&client, &metrics, &Readiness::default(), &selection);
        let stores = reflectors.stores();
        let depends = depends(&stores);
        let needs = || depends(Capability::LoadBalancers);
        assert_eq!(needs().unwrap(), "perhaps a Service (the first list of them is not complete)");
        let (services, _) = reflectors.services.unwrap();
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
                Ok::<_, Infallible>(answer)
            });
            let listed = read(&Client::new(service, "default"), &mut JoinSet::new()).await;
            let error = format!("{:#}", listed.err().expect("half a list passed for all"));
            assert!(error.starts_with(&format!("{kind}: ")) && error.contains("page 2"), "{error}");
            assert!(error.contains("whether you may list and watch them"), "{error}");
        }
    }
}
