//! `wasm-ccm run`: puts the process together.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use ccm_cloud::{Alone, NodeSelector};
use ccm_controllers::{EventRecorder, EventSettings, Metrics, NodeLabels, Reflector, WriteGate, WriteGateSettings};
use ccm_sandbox::{Pool, Sandbox};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

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
use crate::start::{NODES, Shared};
use crate::tasks::{EVENT_WRITER, Tasks};
use crate::{api, load, logging, serve, start};

/// Threads that the host works with, on machines that have as many cores.
const MAX_WORKERS: usize = 4;

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

    let pool = Pool { calls: args.provider_calls, ..Pool::default() };
    let pool = providers.iter().fold(pool, |pool, provider| pool.with_room_for(&provider.limits.sandbox));
    let sandbox = Sandbox::with_pool(pool)?;
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
            nodes: selection.watches_nodes().then(|| {
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
    if selection.watches_nodes() {
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
    let providers = providers.into_iter().map(Arc::new).collect();
    let shared = Shared::new(&mut tasks, &args, providers, gate, recorder, metrics, readiness);
    start::controllers(&mut tasks, &shared, &selection, reflector);
    let ended = tasks.unless_stopped(std::future::pending::<Infallible>()).await;
    let stopped = tasks.stop().await;
    ended.map(drop).and(stopped)
}
