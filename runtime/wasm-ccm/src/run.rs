//! `wasm-ccm run`: puts the process together.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use ccm_cloud::NodeSelector;
use ccm_controllers::{EventRecorder, EventSettings, Metrics, NodeLabels, WriteGate, WriteGateSettings};
use ccm_rollout::compare::StoreInventory;
use ccm_rollout::config::{self, ProviderConfig};
use ccm_rollout::context::SharedContext;
use ccm_rollout::status::ProviderStatuses;
use ccm_rollout::{ProviderMetrics, Rollout, RolloutParts, host_pod};
use ccm_sandbox::{Pool, Sandbox};
use prometheus_client::registry::Registry;

use crate::cli::RunArgs;
use crate::controller_names::{Controller, Selection};
use crate::health::Health;
use crate::leader::{self, Campaign, Leader};
use crate::metrics::{CallMetrics, ProcessMetrics};
use crate::request_metrics::ExchangeMetrics;
use crate::serve::{Pages, Readiness};
use crate::start::{Reflectors, Shared};
use crate::tasks::{EVENT_WRITER, Tasks};
use crate::webhook::{self, Webhook};
use crate::{api, connection, https, logging, serve, start};

/// Threads that the host works with, on machines that have as many cores.
const MAX_WORKERS: usize = 4;

/// Runs until SIGTERM or SIGINT. `ignored` says which flags have no effect.
///
/// # Errors
///
/// Flags and local configuration that cannot be, tasks that ended by themselves, and the loss of the leadership.
pub(crate) fn run(args: RunArgs, ignored: Option<String>) -> Result<()> {
    logging::start(args.logging_format, args.v);
    if let Some(ignored) = ignored {
        tracing::warn!("{ignored}");
    }
    let providers = configured(&args)?;
    let selection = Selection::parse(&args.controllers).map_err(anyhow::Error::msg).context("--controllers")?;
    let election = args.leader.settings()?;
    let webhook = args.webhook.settings(args.secure_port)?;
    // More threads would only cost memory: the work is waiting, and the guests have limits of their own.
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores.min(MAX_WORKERS)).enable_all().build()?;
    let ended = runtime.block_on(Box::pin(assemble(args, providers, selection, election, webhook)));
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
        (Some(file), _) => config::read_file(file)?,
        (None, Some(source)) => {
            let record = given.record.record(source.clone())?;
            vec![record.check()?]
        }
        (None, None) => bail!("--provider or --providers is needed"),
    };
    for provider in &list {
        provider.cloud_config_is_readable()?;
    }
    Ok(list)
}

async fn assemble(
    args: RunArgs,
    providers: Vec<ProviderConfig>,
    selection: Selection,
    election: Option<leader::Settings>,
    webhook: Option<webhook::Settings>,
) -> Result<()> {
    let readiness = Readiness::default();
    let mut registry = Registry::default();
    let process = ProcessMetrics::register(&mut registry);
    let calls = CallMetrics::register(&mut registry);
    let exchanges = ExchangeMetrics::register(&mut registry);
    let metrics = Metrics::register(&mut registry);
    let config = api::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    let pings = args.pings();
    let client =
        connection::client(&config, pings).context("the API server's address or credentials cannot be used")?;
    let leader = Leader::new(election, &mut registry);
    let webhook = webhook.map(|settings| Webhook::new(settings, &mut registry));
    let provider_metrics = ProviderMetrics::register(&mut registry);
    let statuses = ProviderStatuses::default();

    let mut tasks = Tasks::default();
    tasks.spawn_signals()?;
    readiness.set(api::CHECK, Err("no answer yet".to_owned()));
    if args.secure_port != 0 {
        let listener =
            https::bind(SocketAddr::new(args.bind_address, args.secure_port), "--bind-address and --secure-port")
                .await?;
        tracing::info!(address = %listener.local_addr()?, "health and metrics are served");
        let files = args.tls_cert_file.as_deref().zip(args.tls_private_key_file.as_deref());
        let tls = serve::tls(files, args.tls_min_version)?;
        let pages = Pages {
            readiness: readiness.clone(),
            health: Health::new(leader.check()),
            leader: leader.seen(),
            registry: Arc::new(registry),
            process,
            providers: statuses.clone(),
        };
        tasks.spawn_background("health server", serve::serve(listener, tls, pages));
    }

    if let Some(webhook) = &webhook {
        webhook.start(&mut tasks).await?;
    }

    let writes = WriteGateSettings {
        request_timeout: args.kube_api_write_timeout,
        concurrent_writes: args.kube_api_concurrent_writes,
    };
    let gate = WriteGate::new(leader.client(&config, pings)?, metrics.api.clone(), writes).led_by(leader.leadership());
    let pod = host_pod(|name| std::env::var(name).ok());
    let instance = pod.as_ref().and_then(|pod| pod.name.clone()).unwrap_or_else(|| "wasm-ccm".to_owned());
    let events = EventSettings {
        queue: args.event_queue,
        concurrency: args.concurrent_events.get(),
        instance,
        provider_subject: pod.clone(),
        ..EventSettings::default()
    };
    // What a provider is, and why it is not taken, is told by every replica: a standby has loaded its own.
    let open = WriteGate::new(client.clone(), metrics.api.clone(), writes);
    let (host_recorder, host_writer) = EventRecorder::new(open, metrics.events.clone(), events.clone());
    tasks.spawn_background("event writer of providers", host_writer.run(tasks.drain.clone()));
    let (recorder, writer) = EventRecorder::new(gate.clone(), metrics.events.clone(), events);
    let drain = tasks.drain.clone();
    tasks.spawn_background(EVENT_WRITER, writer.run(drain));

    let pool = Pool { calls: args.provider_calls, ..Pool::default() };
    let pool = providers.iter().fold(pool, |pool, provider| pool.with_room_for(&provider.limits.sandbox));
    let sandbox = Sandbox::with_pool(pool)?;
    let reflectors = Reflectors::new(&client, &metrics, &readiness, &selection);
    let stores = reflectors.stores();
    let labels = NodeLabels::new(stores.nodes.reader(), stores.nodes.first_list());
    let classes: Vec<_> = providers.iter().map(|provider| provider.load_balancer_classes.clone()).collect();
    let checks = readiness.clone();
    let parts = RolloutParts {
        sandbox,
        client: client.clone(),
        events: Arc::new(recorder.clone()),
        calls: Arc::new(calls),
        context: SharedContext {
            client: Some(client.clone()),
            leadership: leader.leadership(),
            exchanges: Some(Arc::new(exchanges)),
            nodes: Some(Arc::new(labels) as Arc<dyn NodeSelector>),
            cluster_name: args.cluster_name.clone(),
            cluster_cidrs: args.cluster_cidr.clone(),
            trace_http: args.trace_http,
        },
        readiness: Arc::new(move |check: &str, state| checks.set(check, state)),
        statuses,
        metrics: provider_metrics,
        recorder: host_recorder,
        pod,
        depends: start::depends(&stores),
        inventory: Box::new(StoreInventory::new(stores.nodes.clone(), stores.services.clone())),
    };
    // All that is waited for, from the beginning: nobody may find the process ready between two steps.
    let mut rollout = Rollout::new(providers, &args.swap.settings(), parts).await;
    let Some(()) = tasks.unless_stopped(api::wait_for(&client, &readiness)).await? else { return tasks.stop().await };
    reflectors.start(&mut tasks, &readiness);
    let Some(slots) = tasks.unless_stopped(rollout.bootstrap()).await?.transpose()? else { return tasks.stop().await };
    tasks.spawn_background("rollout of providers", rollout.run(stores.nodes.first_list(), tasks.drain.clone()));
    let providers: Vec<_> = slots.into_iter().zip(classes).collect();
    // Leader or not.
    if let Some(webhook) = &webhook {
        webhook.admission().serve(start::balancing(&providers));
    }

    // Not before: a process that cannot work must not keep others from it.
    if matches!(leader, Leader::Candidate(_)) && tasks.unless_stopped(stores.complete()).await?.is_none() {
        return tasks.stop().await;
    }
    let mut campaign = leader.campaign(config, &metrics)?;
    if let Some(candidate) = &mut campaign
        && tasks.unless_stopped(candidate.elected()).await?.transpose()?.is_none()
    {
        // It may have won in this very moment.
        return retire(tasks, campaign).await;
    }

    for controller in Controller::ALL.into_iter().filter(|controller| selection.has(*controller)) {
        let what = if controller.is_served() { "controller starts" } else { "controller is not part of this version" };
        tracing::info!(controller = controller.name(), "{what}");
    }
    let shared = Shared::new(&mut tasks, &args, stores, providers, gate, recorder, metrics);
    start::controllers(&mut tasks, &shared, &selection);
    let lost = async {
        match &mut campaign {
            Some(campaign) => campaign.lost().await,
            None => std::future::pending().await,
        }
    };
    let ended = match tasks.unless_stopped(lost).await {
        Ok(Some(lost)) => {
            // Nothing more is written, nor waited for.
            drop(tasks);
            if let Some(campaign) = &mut campaign {
                campaign.end().await;
            }
            return Err(lost);
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    let retired = retire(tasks, campaign).await;
    ended.and(retired)
}

/// Ends everything in order, and hands the Lease on last.
pub(crate) async fn retire(tasks: Tasks, campaign: Option<Campaign>) -> Result<()> {
    let Some(mut campaign) = campaign else { return tasks.stop().await };
    let stopped = tokio::select! {
        lost = campaign.lost() => Err(lost),
        stopped = tasks.stop() => match stopped {
            Ok(()) => Ok(()),
            Err(error) => {
                // What was begun may still take effect: the next one has to wait.
                tracing::warn!(error = format!("{error:#}"), "the Lease is not released: it has to end by itself");
                return Err(error);
            }
        },
    };
    campaign.end().await;
    stopped
}
