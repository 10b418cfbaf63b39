//! `wasm-ccm run`: puts the process together.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ccm_cloud::{Alone, BatchSettings, Batcher, Lookups, Member, NodeSelector};
use ccm_controllers::{
    EventRecorder, EventSettings, Metrics, NodeController, NodeControllerParts, NodeLabels, NodeSettings, Reflector,
    WriteGate, WriteGateSettings,
};
use ccm_sandbox::{Provider, Sandbox};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::RunArgs;
use crate::controller_names::{Controller, Selection};
use crate::door::Walls;
use crate::exchange_metrics::ExchangeMetrics;
use crate::grants::once_each;
use crate::limits::LimitSettings;
use crate::load::Surroundings;
use crate::metrics::{CallMetrics, ProcessMetrics};
use crate::providers::{self, ProviderConfig, ProviderRecord};
use crate::serve::{Pages, Readiness};
use crate::{api, load, logging, serve};

/// How long everything may take to end after the signal; Kubernetes kills after 30 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Threads that the host works with, on machines that have as many cores.
const MAX_WORKERS: usize = 4;

/// How many calls, one after the other, a lookup may wait for.
const LOOKUP_CALLS: u32 = 5;

/// Name of what must be true of the Nodes before the process is ready.
const NODES: &str = "nodes";

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// Flags and local configuration that cannot be, and tasks that ended by themselves.
pub(crate) fn run(args: RunArgs) -> Result<()> {
    logging::start(args.logging_format, args.v);
    let providers = configured(&args)?;
    let selection = Selection::parse(&args.controllers).map_err(anyhow::Error::msg).context("--controllers")?;
    // More threads would only cost memory: the work is waiting, and the guests have limits of their own.
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores.min(MAX_WORKERS)).enable_all().build()?;
    let ended = runtime.block_on(Box::pin(assemble(args, providers, selection)));
    // A compiler or a read from a dead disk cannot be stopped, and is not waited for.
    runtime.shutdown_background();
    ended
}

/// The providers of the flags or of the file.
///
/// # Errors
///
/// Names the flag, or the file and the field; repeats nothing that may be a secret.
pub(crate) fn configured(args: &RunArgs) -> Result<Vec<ProviderConfig>> {
    let given = &args.provider;
    let list = match (&given.providers, &given.provider) {
        (Some(file), _) => providers::read_file(file)?,
        (None, Some(source)) => {
            let record = ProviderRecord {
                source: source.clone(),
                name: given.cloud_provider.clone(),
                cloud_config: given.cloud_config.clone(),
                settings: once_each("--setting", &given.setting)?,
                grants: given.grants.settings()?,
                credentials: once_each("--credential", &given.grants.credential)?,
                wasi: given.wasi.unwrap_or_default(),
                limits: LimitSettings::from_pairs(&given.limit)?,
            };
            vec![record.check()?]
        }
        (None, None) => bail!("--provider or --providers is needed"),
    };
    for provider in &list {
        provider.cloud_config_is_readable()?;
    }
    Ok(list)
}

async fn assemble(args: RunArgs, providers: Vec<ProviderConfig>, selection: Selection) -> Result<()> {
    let readiness = Readiness::default();
    let mut registry = Registry::default();
    let process = ProcessMetrics::register(&mut registry);
    let calls = CallMetrics::register(&mut registry);
    let exchanges = ExchangeMetrics::register(&mut registry);
    let metrics = Metrics::register(&mut registry);
    let config = api::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    let client = Client::try_from(config).context("the API server's address or credentials cannot be used")?;

    let mut tasks = Tasks::default();
    tasks.spawn_signals()?;
    readiness.set(api::CHECK, Err("no answer yet".to_owned()));
    if args.secure_port != 0 {
        let listener = serve::bind(SocketAddr::new(args.bind_address, args.secure_port)).await?;
        tracing::info!(address = %listener.local_addr()?, "health and metrics are served");
        let tls = serve::tls(args.tls_cert_file.as_deref().zip(args.tls_private_key_file.as_deref()))?;
        let pages = Pages { readiness: readiness.clone(), registry: Arc::new(registry), process };
        tasks.spawn_background("health server", serve::serve(listener, tls, pages));
    }

    let gate = WriteGate::new(
        client.clone(),
        metrics.api.clone(),
        WriteGateSettings { request_timeout: args.kube_api_write_timeout },
    );
    let events = EventSettings { queue: args.event_queue.get(), ..EventSettings::default() };
    let (recorder, writer) = EventRecorder::new(gate.clone(), metrics.events.clone(), events);
    let drain = tasks.drain.clone();
    tasks.spawn_background(EVENT_WRITER, writer.run(drain));

    let sandbox = Sandbox::try_new()?;
    let reflector = Reflector::<Node>::new(client.clone(), &metrics.store);
    let surroundings = Surroundings {
        sandbox,
        client: client.clone(),
        events: Arc::new(recorder.clone()),
        observer: Arc::new(calls),
        walls: Walls {
            client: client.clone(),
            leadership: Arc::new(Alone),
            exchanges: Arc::new(exchanges),
            nodes: selection.has(Controller::Node).then(|| {
                let labels = NodeLabels::new(reflector.reader(), reflector.first_list());
                Arc::new(labels) as Arc<dyn NodeSelector>
            }),
            cluster_name: args.cluster_name.clone(),
            cluster_cidrs: args.cluster_cidr.clone(),
            trace_http: args.trace_http,
        },
        readiness: readiness.clone(),
        kept: Mutex::default(),
    };
    // All that is waited for, from the beginning: nobody may find the process ready between two steps.
    providers.iter().for_each(|provider| surroundings.announce(provider));
    if selection.has(Controller::Node) {
        readiness.set(NODES, Err("the first list of Nodes is not complete".to_owned()));
    }
    let prepared = async {
        api::wait_for(&client, &readiness).await;
        try_join_all(providers.iter().map(|provider| surroundings.obtain(provider))).await
    };
    let Some(providers) = tasks.unless_stopped(prepared).await?.transpose()? else { return tasks.stop().await };
    load::check_together(&providers)?;

    for controller in Controller::ALL.into_iter().filter(|controller| selection.has(*controller)) {
        let what = if controller.is_served() { "controller starts" } else { "controller is not part of this version" };
        tracing::info!(controller = controller.name(), "{what}");
    }
    if selection.has(Controller::Node) {
        let shared = NodeParts { args: &args, reflector, gate, recorder, metrics };
        start_node_controller(&mut tasks, shared, providers, readiness);
    }
    let ended = tasks.unless_stopped(std::future::pending::<Infallible>()).await;
    let stopped = tasks.stop().await;
    ended.map(drop).and(stopped)
}

/// What the node controller takes from the process.
struct NodeParts<'a> {
    args: &'a RunArgs,
    reflector: Reflector<Node>,
    gate: WriteGate,
    recorder: EventRecorder,
    metrics: Metrics,
}

fn start_node_controller(tasks: &mut Tasks, parts: NodeParts<'_>, providers: Vec<Provider>, readiness: Readiness) {
    let NodeParts { args, mut reflector, gate, recorder, metrics } = parts;
    let batches = BatchSettings {
        max_nodes: args.lookup_batch_nodes,
        max_calls: args.lookup_batch_calls,
        linger: args.lookup_batch_linger,
    };
    let member = |provider: Provider| {
        let schemes = provider.descriptor().provider_id_schemes.clone();
        let (batcher, work) = Batcher::new(Arc::new(provider), batches);
        // Its calls may take as long as they may: the end of the process does not wait for them.
        tasks.spawn_background("node lookups", work);
        Member { schemes, batcher }
    };
    let recoveries = providers.iter().flat_map(Provider::recoveries).collect();
    let call_time = providers.iter().map(Provider::call_time).max().unwrap_or_default();
    let lookups = Lookups::new(providers.into_iter().map(member).collect());
    let first_list = reflector.first_list();
    let controller = NodeController::new(NodeControllerParts {
        gate,
        store: reflector.reader(),
        first_list: first_list.clone(),
        keys: reflector.subscribe(),
        lookups,
        recoveries,
        recorder,
        metrics: metrics.node,
        queue_metrics: metrics.queue,
        settings: NodeSettings {
            concurrent_syncs: args.concurrent_node_syncs,
            concurrent_status_updates: args.concurrent_node_status_updates,
            refresh_interval: args.node_status_update_frequency,
            untaint_before_addresses: args.untaint_before_addresses,
            lookup_timeout: call_time.saturating_mul(LOOKUP_CALLS),
            ..NodeSettings::default()
        },
    });
    let stop = tasks.stop.clone();
    tasks.spawn_controller("reflector of Nodes", reflector.run(stop.clone()));
    tasks.spawn_controller("node controller", controller.run(stop.clone()));
    tasks.spawn_controller("readiness of Nodes", async move {
        let mut first_list = first_list;
        let follow = async {
            while let Err(why) = first_list.state() {
                readiness.set(NODES, Err(why));
                if !first_list.changed().await {
                    // The reflector is gone, which the process notices by itself.
                    return;
                }
            }
            readiness.set(NODES, Ok(()));
        };
        stop.run_until_cancelled(follow).await;
        stop.cancelled().await;
    });
}

/// The tasks of the process. One that ends before it is told to ends the process: a controller that is gone must not look
/// like one that has nothing to do.
#[derive(Default)]
struct Tasks {
    /// End when `stop` is cancelled.
    controllers: JoinSet<&'static str>,
    /// End later, or not by themselves.
    background: JoinSet<&'static str>,
    /// The signal came, or a task ended: no more work is begun.
    stop: CancellationToken,
    /// The controllers have ended: what they left to write is written.
    drain: CancellationToken,
}

/// The background task that is waited for.
const EVENT_WRITER: &str = "event writer";

impl Tasks {
    fn spawn_controller(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        spawn(&mut self.controllers, name, work);
    }

    fn spawn_background(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        spawn(&mut self.background, name, work);
    }

    /// Stops on SIGTERM and SIGINT.
    fn spawn_signals(&mut self) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let stop = self.stop.clone();
        self.spawn_background("signals", async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            }
            stop.cancel();
            std::future::pending().await
        });
        Ok(())
    }

    /// The result of `work`, none when the process is to stop first.
    async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Result<Option<T>> {
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(None),
            Some(ended) = self.controllers.join_next() => ended,
            Some(ended) = self.background.join_next() => ended,
            result = work => return Ok(Some(result)),
        };
        match ended {
            Ok(name) => bail!("the {name} ended by itself"),
            Err(panic) => Err(panic).context("a task of the process ended"),
        }
    }

    /// Lets everything end in order: controllers first, then what they left to write.
    async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        let orderly = async {
            while self.controllers.join_next().await.is_some() {}
            self.drain.cancel();
            while let Some(ended) = self.background.join_next().await {
                if matches!(ended, Ok(EVENT_WRITER)) {
                    break;
                }
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, orderly).await.is_err() {
            bail!("not everything ended within {STOP_TIMEOUT:?}");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

fn spawn(set: &mut JoinSet<&'static str>, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
    set.spawn(async move {
        work.await;
        name
    });
}
