//! `wasm-ccm run`: [builds](Process::build) the process, [runs](Process::run) it, and ends it in order.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use ccm_apiserver::{
    ApiGate, ApiGateSettings, EventMetrics, EventRecorder, EventSettings, EventWriter, fenced_client, plain_client,
};
use ccm_cloud::NodeSelector;
use ccm_controllers::{
    AddressSources, AdmissionMetrics, ClusterAddresses, Explainer, Metrics, NodeLabels, ReflectorHandle,
    ServiceAdmission,
};
use ccm_leader::{Campaign, HEALTH_CHECK, Leader};
use ccm_rollout::compare::StoreInventory;
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::context::{ProcessSecrets, SharedContext};
use ccm_rollout::status::ProviderStatuses;
use ccm_rollout::{CallMetrics, ExchangeMetrics, ProbationFiles, ProviderMetrics, Rollout, RolloutParts, host_pod};
use ccm_sandbox::{Pool, Sandbox, container_memory, worker_threads};
use ccm_serving::health::{Check, Health, Readiness};
use ccm_serving::https;
use ccm_serving::webhook::{self, Webhook};
use ccm_traces::{Sender, Sending, TraceMetrics};
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access;
use crate::controllers::{self, Providers, Reviews, Shared, keeps_routes, nodes_told};
use crate::dry_run::{self, DryRun, Scene};
use crate::logging;
use crate::pages::{self, Pages, ProcessMetrics};
use crate::stores::{API_SERVER, Reflectors, depends, wait_for_api_server};
use crate::supervision::{RunningMetrics, Supervision};
use crate::tasks::{self, EVENT_WRITER, PROVIDER_EVENT_WRITER, Tasks, in_order};
use ccm_cli::RunArgs;
use ccm_cli::controller_names::{Controller, Selection};

/// Runs until SIGTERM or SIGINT. `ignored` says which flags have no effect.
///
/// # Errors
///
/// Flags or local configuration are invalid, a task ended by itself, or the leadership is lost.
pub(crate) fn run(args: RunArgs, ignored: Option<String>) -> Result<()> {
    let (layer, sender) = logging::traces(&args)?.unzip();
    logging::start(args.logging_format, args.v, layer);
    if let Some(ignored) = ignored {
        tracing::warn!("{ignored}");
    }
    let setup = Setup { traces: sender.as_ref().map(Sender::metrics), ..Setup::read(args)? };
    let busy_calls =
        setup.providers.iter().map(|provider| provider.limits.sandbox.busy_calls).max().unwrap_or_default();
    let runtime = tasks::runtime(worker_threads(busy_calls))?;
    let ended = runtime.block_on(async {
        let sending = sender.map(Sending::start);
        let process = Box::pin(Process::build(setup)).await?;
        let probation_files = process.rollout.probation_files.clone();
        let ended = Box::pin(process.run()).await;
        // A panic may be the doing of a component on probation, also one while the process ended.
        let has_panicked = tasks::has_panicked(&ended);
        let say = move || if has_panicked { probation_files.end_in_panic() } else { probation_files.end_in_order() };
        tasks::say_in_time(say).await;
        if let Some(sending) = sending {
            sending.end().await;
        }
        ended
    });
    // Does not wait for a compiler or for a read from a dead disk: neither can be stopped.
    runtime.shutdown_background();
    ended
}

/// The hosts by which this process and the pods reach the API server.
pub(crate) fn servers(config: &Config) -> Vec<String> {
    let url = config.cluster_url.host().map(str::to_owned);
    let of_pods = std::env::var("KUBERNETES_SERVICE_HOST").ok().filter(|host| !host.is_empty());
    url.into_iter().chain(of_pods).collect()
}

/// Says at once what would otherwise be known only when a component is proven, or at the next start.
async fn look_at_state_folder(folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    match ccm_rollout::state_folder::prepare(folder).await {
        Ok(true) => tracing::info!("--state-dir {}: the folder did not exist and was made", folder.display()),
        Ok(false) => {}
        Err(error) => tracing::warn!("{error:#}"),
    }
}

/// How much memory all calls have.
///
/// # Errors
///
/// The operator gives less than one call may take.
fn memory_of_calls(args: &RunArgs, providers: &[ProviderConfig]) -> Result<usize> {
    let most = providers.iter().map(|provider| provider.limits.sandbox.memory_bytes).max().unwrap_or_default();
    if let Some(given) = args.provider_memory {
        let bytes = usize::try_from(given.as_u64()).context("--provider-memory")?;
        let too_little =
            || format!("--provider-memory={given} is less than one call may take: {most} bytes (limit memory-bytes)");
        return if bytes < most { bail!(too_little()) } else { Ok(bytes) };
    }
    let half = container_memory().map(|limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
    let bytes = half.unwrap_or(Pool::MEMORY_BYTES);
    if bytes < most {
        tracing::warn!(
            "calls of providers have {bytes} bytes of memory, half of the container's limit: a call that needs more ends before its limit \
             memory-bytes ({most} bytes); raise the memory limit of the container, or set --provider-memory"
        );
    }
    Ok(bytes)
}

/// What the operator set, checked as far as it needs nothing but local files.
struct Setup {
    args: RunArgs,
    providers: Vec<ProviderConfig>,
    selection: Selection,
    /// None without leader election.
    election: Option<ccm_leader::Settings>,
    webhook: Option<webhook::Settings>,
    /// What became of spans; none where nothing is traced.
    traces: Option<TraceMetrics>,
}

impl Setup {
    fn read(args: RunArgs) -> Result<Self> {
        Ok(Self {
            providers: args.providers()?,
            selection: Selection::parse(&args.controllers).map_err(anyhow::Error::msg).context("--controllers")?,
            election: if args.dry_run { None } else { args.leader.settings()? },
            webhook: args.webhook.settings(args.secure_port)?,
            traces: None,
            args,
        })
    }
}

/// The process, put together. Nothing runs yet.
struct Process {
    args: RunArgs,
    selection: Selection,
    config: Config,
    client: Client,
    leader: Leader,
    readiness: Readiness,
    metrics: Metrics,
    supervision: Supervision,
    explainer: Explainer,
    health: Option<(TcpListener, TlsAcceptor, Pages)>,
    webhook: Option<(Arc<Webhook<Reviews>>, TcpListener)>,
    /// What the webhook asks.
    admission: Option<Arc<ServiceAdmission>>,
    /// Writes of the controllers, which end with the leadership.
    gate: ApiGate,
    recorder: EventRecorder,
    event_writer: EventWriter,
    /// Of Events about components, which every replica writes: a standby has loaded its own.
    provider_event_writer: EventWriter,
    reflectors: Reflectors,
    providers: Vec<ProviderConfig>,
    rollout: RolloutParts,
    /// None for a process that writes.
    dry_run: Option<DryRun>,
}

impl Process {
    async fn build(setup: Setup) -> Result<Self> {
        let Setup { args, providers, selection, election, webhook, traces } = setup;
        let mut registry = Registry::default();
        if let Some(traces) = traces {
            traces.register(&mut registry);
        }
        let process_metrics = ProcessMetrics::register(&mut registry);
        let calls = CallMetrics::register(&mut registry);
        let exchanges = ExchangeMetrics::register(&mut registry);
        let metrics = Metrics::register(&mut registry);
        let running = RunningMetrics::register(&mut registry);

        let config = ccm_apiserver::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
        let pings = args.pings();
        let unusable = "the API server's address or credentials cannot be used";
        let dry_run = DryRun::wanted(&args, &selection, webhook.is_some(), &mut registry)?;
        let client = dry_run::client_of(&config, pings, &metrics.api, dry_run.is_some()).context(unusable)?;
        let leader = Leader::new(election, &mut registry);
        let leadership = dry_run.as_ref().map_or_else(|| leader.leadership(), DryRun::leadership);
        let admission = webhook.as_ref().map(|settings| {
            Arc::new(ServiceAdmission::new(settings.online, AdmissionMetrics::register(&mut registry)))
        });
        let webhook = webhook.zip(admission.clone());
        let webhook = webhook.map(|(settings, admission)| Webhook::new(settings, Reviews(admission), &mut registry));
        let provider_metrics = ProviderMetrics::register(&mut registry);

        let writes = ApiGateSettings {
            request_timeout: args.kube_api_write_timeout,
            concurrent_writes: args.kube_api_concurrent_writes,
        };
        let writing = match &leader {
            Leader::Alone if dry_run.is_some() => Ok(client.clone()),
            Leader::Alone => plain_client(config.clone(), &metrics.api),
            Leader::Candidate(_) => fenced_client(&config, pings, Arc::clone(&leadership), &metrics.api),
        };
        let gate =
            ApiGate::new(writing.context(unusable)?, metrics.api.clone(), writes).led_by(Arc::clone(&leadership));
        let open_gate = ApiGate::new(client.clone(), metrics.api.clone(), writes);
        let pod = host_pod(|name| std::env::var(name).ok());
        let events = EventSettings {
            queue: args.event_queue,
            concurrency: args.concurrent_events.get(),
            instance: pod.as_ref().and_then(|pod| pod.name.clone()).unwrap_or_else(|| "wasm-ccm".to_owned()),
            provider_subject: pod.clone().filter(|_| dry_run.is_none()),
            ..EventSettings::default()
        };
        // Events that a dry run does not write are not lost.
        let uncounted = || EventMetrics::register(&mut Registry::default());
        let counted = if dry_run.is_some() { uncounted() } else { metrics.events.clone() };
        let (provider_recorder, provider_event_writer) = EventRecorder::new(open_gate, counted.clone(), events.clone());
        let (recorder, event_writer) = EventRecorder::new(gate.clone(), counted, events);

        let readiness = Readiness::default();
        readiness.set(API_SERVER, Err("no answer yet".to_owned()));
        let reflectors = Reflectors::new(&client, &metrics, &readiness, &selection);
        let stores = reflectors.stores();
        let labels = NodeLabels::new(stores.nodes.reader(), stores.nodes.first_list());
        let memory_bytes = memory_of_calls(&args, &providers)?;
        let pool = Pool { calls: args.provider_calls, memory_bytes, providers: providers.len(), ..Pool::default() };
        let pool = providers.iter().fold(pool, |pool, provider| pool.with_room_for(&provider.limits.sandbox));
        let (checks, statuses) = (readiness.clone(), ProviderStatuses::default());
        let routed = keeps_routes(&args, &selection).then_some(nodes_told(providers.len()));
        let sandbox = Sandbox::with_pool(pool)?;
        let process_metrics = process_metrics.with_calls(sandbox.memory());
        let rollout = RolloutParts {
            sandbox,
            client: client.clone(),
            events: Arc::new(recorder.clone()),
            calls: Arc::new(calls),
            context: SharedContext {
                client: Some(client.clone()),
                leadership,
                exchanges: Some(Arc::new(exchanges)),
                nodes: Some(Arc::new(labels) as Arc<dyn NodeSelector>),
                cluster_name: args.cluster_name.clone(),
                cluster_cidrs: args.cluster_cidr.clone(),
                trace_http: args.trace_http,
                offline: false,
                secrets: ProcessSecrets::default(),
            },
            readiness: Arc::new(move |check: &str, state| checks.set(check, state)),
            statuses: statuses.clone(),
            metrics: provider_metrics,
            recorder: provider_recorder,
            pod,
            depends: depends(&stores),
            probation_files: ProbationFiles::default(),
            inventory: Box::new(StoreInventory::new(stores.nodes.clone(), stores.services.clone(), routed)),
        };

        let explainer = Explainer::default();
        let wall = access::wall(&args, &client, &metrics.api, &mut registry).await?;
        let supervision = Supervision {
            health: Health::new(leader.health().map(|health| Check::new(HEALTH_CHECK, health))),
            running,
            pulses: metrics.queue.pulses(),
            periods: args.controller_watchdog_periods,
        };
        let pages = Pages {
            wall,
            readiness: readiness.clone(),
            health: supervision.health.clone(),
            leader: leader.seen(),
            registry: Arc::new(registry),
            process: process_metrics,
            providers: statuses,
            explainer: explainer.clone(),
            configz: args.configz(&providers).into(),
            dry_run: dry_run.as_ref().map(DryRun::pending),
            beside: dry_run.as_ref().map(DryRun::beside).unwrap_or_default(),
        };
        let health = bind_health(&args, pages).await?;
        let webhook = match webhook {
            Some(webhook) => {
                let listener = webhook.bind().await?;
                Some((webhook, listener))
            }
            None => None,
        };
        Ok(Self {
            args,
            selection,
            config,
            client,
            leader,
            readiness,
            metrics,
            supervision,
            explainer,
            health,
            webhook,
            admission,
            gate,
            recorder,
            event_writer,
            provider_event_writer,
            reflectors,
            providers,
            rollout,
            dry_run,
        })
    }

    /// Runs until the process is to end, and ends it in order.
    async fn run(self) -> Result<()> {
        let probation_files = self.rollout.probation_files.clone();
        in_order(
            async |tasks, campaign| Box::pin(self.work(tasks, campaign)).await,
            move || probation_files.end_in_order(),
        )
        .await
    }

    /// Spawns what every replica runs, waits until it leads, and spawns the controllers. What it returns is what [`in_order`] takes.
    async fn work(self, tasks: &mut Tasks, campaign: &mut Option<Campaign>) -> Result<Option<Result<()>>> {
        tasks.spawn_signals()?;
        if let Some((listener, tls, pages)) = self.health {
            tasks.spawn_background("health server", pages::serve(listener, tls, pages));
        }
        if let Some((webhook, listener)) = self.webhook {
            tasks.spawn_reader("webhook", webhook.serve(listener, tasks.stop.clone()));
        }
        let drain = tasks.drain.clone();
        let write = |writer| dry_run::write_events(writer, drain.clone(), self.dry_run.is_some());
        tasks.spawn_background(PROVIDER_EVENT_WRITER, write(self.provider_event_writer));
        tasks.spawn_background(EVENT_WRITER, write(self.event_writer));

        let stores = self.reflectors.stores();
        let classes: Vec<_> = self.providers.iter().map(|provider| provider.load_balancer_classes.clone()).collect();
        let shares_nodes = |provider: &ProviderConfig| provider.grants.sharing().is_ok_and(|shared| shared.nodes);
        let shares_nodes = self.providers.iter().any(shares_nodes);
        let mut settings = self.args.swap.settings(self.args.leader.peers(self.leader.identity()));
        settings.peers.take_if(|_| self.dry_run.is_some());
        // It reads the state folder, which may be on a disk that does not answer.
        let looked = async { look_at_state_folder(settings.state_dir.as_deref()).await };
        if tasks.unless_stopped(looked).await?.is_none() {
            return Ok(None);
        }
        let rollout = tasks.unless_stopped(Rollout::new(self.providers, &settings, self.rollout)).await?;
        let Some(mut rollout) = rollout else { return Ok(None) };
        if tasks.unless_stopped(wait_for_api_server(&self.client, &self.readiness)).await?.is_none() {
            return Ok(None);
        }
        self.reflectors.start(tasks, &self.readiness);
        let Some(slots) = tasks.unless_stopped(rollout.bootstrap()).await?.transpose()? else { return Ok(None) };
        let followers = rollout.followers();
        let ends = CancellationToken::new();
        let nodes = stores.nodes.first_list();
        tasks.spawn_background("keepers of providers", rollout.run(nodes, drain, ends.clone()));
        tasks.spawn_background("rollout of providers", ends.cancelled_owned());
        let providers: Providers = slots.into_iter().zip(classes).collect();
        // Leader or not.
        if let Some(admission) = self.admission {
            tasks.spawn_background("providers of the webhook", controllers::judging(admission, providers.clone()));
        }

        // Not earlier: a process that cannot work must not keep others from leading.
        let is_candidate = matches!(self.leader, Leader::Candidate(_));
        if (is_candidate || self.dry_run.is_some()) && tasks.unless_stopped(stores.complete()).await?.is_none() {
            return Ok(None);
        }
        let addresses = ClusterAddresses::new(AddressSources {
            service_ranges: self.args.service_cluster_ip_range.clone(),
            pod_ranges: self.args.cluster_cidr.clone(),
            reserved: self.args.reserved_address.clone(),
            servers: servers(&self.config),
            shares_nodes,
            nodes: Some(stores.nodes.reader()),
            services: stores.services.as_ref().map(ReflectorHandle::reader),
            ..AddressSources::default()
        });
        // What providers say is checked from the first word on. An API server that does not say is not waited for.
        if tasks.unless_stopped(addresses.learn(&self.client)).await?.is_none() {
            return Ok(None);
        }
        tasks.spawn_background("addresses of the cluster", addresses.clone().follow(self.client.clone()));
        if let Some(dry_run) = self.dry_run {
            let (args, selection, client) = (&self.args, &self.selection, self.client);
            let (metrics, supervision) = (&self.metrics, self.supervision);
            dry_run
                .start(tasks, Scene { args, selection, client, stores, providers, addresses, metrics, supervision })?;
            return tasks.unless_stopped(std::future::pending()).await;
        }
        *campaign = self.leader.campaign(self.config, self.metrics.api.clone(), self.metrics.events.clone())?;
        if let Some(candidate) = campaign {
            match tasks.unless_stopped(candidate.elected()).await? {
                Some(Ok(())) => {}
                // When it is to stop, it may have been elected at this very moment.
                never => return Ok(never),
            }
        }
        match tasks.unless_stopped(unless_lost(lost(campaign), followers.lead())).await? {
            Some(Ok(())) => {}
            ended => return Ok(ended),
        }

        for controller in Controller::ALL.into_iter().filter(|controller| self.selection.has(*controller)) {
            tracing::info!(controller = controller.name(), "controller starts");
        }
        let watched = (self.metrics, self.supervision);
        let shared = Shared::new(tasks, &self.args, stores, providers, self.gate, self.recorder, watched)
            .refusing(addresses)
            .explaining(self.explainer);
        controllers::start(tasks, &shared, &self.selection);
        let ended = tasks.unless_stopped(lost(campaign)).await?;
        Ok(ended.map(Err))
    }
}

/// The health port, unless the operator wants none. A port in use is an error at the start.
async fn bind_health(args: &RunArgs, pages: Pages) -> Result<Option<(TcpListener, TlsAcceptor, Pages)>> {
    if args.secure_port == 0 {
        return Ok(None);
    }
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let listener = https::bind(address, "--bind-address and --secure-port").await?;
    let asks_for_tokens = pages.wall.is_some();
    tracing::info!(address = %listener.local_addr()?, asks_for_tokens, "health and metrics are served");
    let files = args.tls_cert_file.as_deref().zip(args.tls_private_key_file.as_deref());
    Ok(Some((listener, https::acceptor(files, args.tls_min_version)?, pages)))
}

/// Waits until the leadership is lost, and says why.
async fn lost(campaign: &mut Option<Campaign>) -> anyhow::Error {
    match campaign {
        Some(campaign) => campaign.lost().await,
        None => std::future::pending().await,
    }
}

/// Waits for `work`, which a leader does.
///
/// # Errors
///
/// The leadership was lost meanwhile.
async fn unless_lost(lost: impl Future<Output = anyhow::Error>, work: impl Future<Output = ()>) -> Result<()> {
    tokio::select! {
        biased;
        lost = lost => Err(lost),
        () = work => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    /// While the API server did not take what the other replicas are told, a leader without its Lease went on until it was killed.
    #[tokio::test]
    async fn a_lost_lease_is_noticed_while_the_other_replicas_are_told() {
        let lost = async { anyhow::anyhow!("leadership lost") };
        let error = unless_lost(lost, std::future::pending()).await.unwrap_err();
        assert_eq!(error.to_string(), "leadership lost");
        let error = unless_lost(async { anyhow::anyhow!("leadership lost") }, async {}).await.unwrap_err();
        assert_eq!(error.to_string(), "leadership lost", "nothing is begun that would have to end at once");
        unless_lost(std::future::pending(), async {}).await.unwrap();
    }

    /// Whoever of the process asks the API server does so by way of one of these.
    #[tokio::test]
    async fn no_client_of_a_dry_run_writes() {
        let mut tasks = tokio::task::JoinSet::new();
        let (url, asked) = dry_run::tests::server(&mut tasks).await;
        let master = format!("--master={url}");
        let flags = ["run", "--provider=a.wasm", "--secure-port=0", "--dry-run", &master];
        let args = Cli::try_parse_from(flags).ok().unwrap().run;
        let process = Process::build(Setup::read(args).unwrap()).await.unwrap();
        let rollout = process.rollout;
        for client in [process.client, process.gate.client(), rollout.client, rollout.context.client.unwrap()] {
            assert_eq!(dry_run::tests::statuses(&client).await, [403, 200, 200]);
        }
        assert!(asked.lock().iter().all(|(method, _)| *method != http::Method::PATCH), "{:?}", asked.lock());
    }
}
