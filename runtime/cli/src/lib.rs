//! The command line: upstream's flag names where a thing is upstream's, ours where it is ours.

mod access;
mod annotations;
#[cfg(test)]
mod cases;
mod cluster;
mod completion;
mod configz;
pub mod controller_names;
mod controllers;
mod doctor;
mod explain;
mod leader;
mod of_run;
mod plan;
mod provider;
#[cfg(test)]
mod reference;
mod stray;
mod tools;
mod uninstall;
mod upstream;
mod webhook;

use std::ffi::OsString;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use bytesize::ByteSize;
use ccm_apiserver::{EventSettings, Pings};
use ccm_cloud::BatchSettings;
use ccm_controllers::{ReservedRange, ServiceRange};
use ccm_diagnosis::Access;
use ccm_rollout::config::duration::{parse, parse_period};
use ccm_rollout::config::{self, ProviderConfig};
use ccm_sandbox::Pool;
use ccm_serving::https::MinTls;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

pub use access::AccessArgs;
pub use annotations::{AnnotationsArgs, AnnotationsOutput};
pub use completion::{CompletionArgs, ManArgs};
use controllers::{ClusterArgs, NodeLifecycleArgs, RouteArgs, ServiceArgs};
pub use doctor::DoctorArgs;
pub use explain::ExplainArgs;
use leader::LeaderArgs;
pub use plan::PlanArgs;
use provider::SwapArgs;
pub use provider::{ConfigArgs, ProviderArgs};
pub use tools::{CheckArgs, InspectArgs, NewArgs, Output, PushArgs};
pub use uninstall::UninstallArgs;
use webhook::{WebhookArgs, min_tls};

/// The command whose flags are upstream's.
const RUN: &str = "run";
/// The command that takes them as well.
const PLAN: &str = "plan";

/// A Kubernetes cloud controller manager whose providers are WebAssembly components.
#[derive(Parser)]
#[command(name = "wasm-ccm", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the program is asked to do.
#[derive(Subcommand)]
pub enum Command {
    /// Run the controllers.
    #[command(args_override_self = true)]
    Run(Box<RunArgs>),
    /// Show what a component says of itself: name, version, interfaces, settings, endpoints, and the credentials and annotations that it
    /// uses, with the flags that grant them.
    #[command(args_override_self = true)]
    Inspect(InspectArgs),
    /// Show the annotations that a component declares: what their values look like, and what it does with a wrong one. As cel, print admission
    /// policies that refuse what the webhook would refuse for them, for clusters without the webhook.
    #[command(args_override_self = true)]
    Annotations(Box<AnnotationsArgs>),
    /// Check whether `run` would accept a component. If not, print the reason and exit with code 1. If not everything could be judged, say what
    /// was not, and exit with code 3.
    #[command(args_override_self = true)]
    Check(Box<CheckArgs>),
    /// Write a component to a ConfigMap, if `run` would accept it.
    #[command(args_override_self = true)]
    Push(Box<PushArgs>),
    /// Look for what keeps the cluster and the host from working together: rights, Leases, pods of the host, other managers, Nodes, providers,
    /// the way to the cloud and its limit, Services, certificates. Print one line for each with what is wrong and the fix. Nothing is changed.
    #[command(args_override_self = true)]
    Doctor(Box<DoctorArgs>),
    /// Explain why a Service or a Node is as it is: who takes care of it, the last decision, the failing request to the cloud, the next try, and
    /// what to do. Nothing is changed.
    #[command(args_override_self = true)]
    Explain(ExplainArgs),
    /// Show what `run` with the same flags would write, to the clouds and to the cluster, for one object or for all. Nothing is changed. Exit with
    /// code 2 if there is something to write.
    #[command(args_override_self = true)]
    Plan(Box<PlanArgs>),
    /// List what would be left in the cluster without the host: finalizers, conditions, taints, and objects of the manifests, with the command
    /// that removes each. Nothing is changed.
    #[command(args_override_self = true)]
    Uninstall(UninstallArgs),
    /// Write the first files of a provider into a new folder: it builds, has tests, and passes `check`.
    #[command(args_override_self = true)]
    New(NewArgs),
    /// Print the script with which a shell completes commands and flags.
    #[command(args_override_self = true)]
    Completion(CompletionArgs),
    /// Write man pages: one for each command.
    #[command(args_override_self = true)]
    Man(ManArgs),
    /// Print the JSON schema of a --providers file.
    ProvidersSchema,
}

impl Command {
    /// How it reaches the API server, as far as its flags say it.
    pub fn access(&self) -> Access {
        let (kubeconfig, master) = match self {
            Self::Run(args) => (&args.kubeconfig, &args.master),
            Self::Plan(args) => (&args.run.kubeconfig, &args.run.master),
            Self::Check(args) => (&args.kubeconfig, &args.master),
            Self::Push(args) => (&args.api_server.kubeconfig, &args.api_server.master),
            Self::Doctor(args) => (&args.api_server.kubeconfig, &args.api_server.master),
            Self::Explain(args) => (&args.api_server.kubeconfig, &args.api_server.master),
            Self::Uninstall(args) => (&args.api_server.kubeconfig, &args.api_server.master),
            _ => return Access::default(),
        };
        Access { kubeconfig: kubeconfig.clone(), master: master.clone() }
    }
}

/// Flags of `run`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct RunArgs {
    /// Where providers come from.
    #[command(flatten)]
    pub provider: ProviderArgs,

    /// The name of the cluster. Providers use it in the names of cloud objects.
    #[arg(long, default_value = "kubernetes", value_parser = cluster_name, help_heading = "Cluster")]
    pub cluster_name: String,
    /// CIDRs of pods, comma-separated: one of IPv4, one of IPv6, or one of each. The route controller changes only routes to addresses in
    /// these ranges. No load balancer gets an address in them.
    #[arg(long, value_delimiter = ',', value_parser = cidr, help_heading = "Cluster")]
    pub cluster_cidr: Vec<String>,
    /// CIDRs of Services, comma-separated: no load balancer and no Node gets an address in there. The host also learns them from the API
    /// server, where it has ServiceCIDR objects (Kubernetes 1.33 and later).
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = "Cluster")]
    pub service_cluster_ip_range: Vec<ServiceRange>,
    /// An address or a CIDR that no load balancer and no Node gets, comma-separated or repeated: what the host cannot know, such as a virtual
    /// address of the API server or of a gateway. Nodes of the control plane may have it.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = "Cluster")]
    pub reserved_address: Vec<ReservedRange>,
    /// How to reach the API server. Without it, the service account of the pod is used.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; replaces the address in the kubeconfig.
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    pub master: Option<String>,
    /// Time for one write to the API server. The host retries a write that takes longer.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period, help_heading = "Cluster")]
    pub kube_api_write_timeout: Duration,
    /// Time of silence after which a connection that watches use is checked with an HTTP/2 PING.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_period, help_heading = "Cluster")]
    pub kube_api_ping_period: Duration,
    /// Time until the answer to that PING. Without an answer, the connection is replaced and the watches start again.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_period, help_heading = "Cluster")]
    pub kube_api_ping_timeout: Duration,
    /// Writes to the API server at the same time, at most. Below that, the number follows how fast the API server answers.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(127), help_heading = "Cluster")]
    pub kube_api_concurrent_writes: NonZeroUsize,

    /// Controllers to run: `*`, NAME or -NAME; the first entry that matches a controller counts. The controllers are cloud-node,
    /// cloud-node-lifecycle, service, route and cloud-cluster.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, help_heading = "Controllers")]
    pub controllers: Vec<String>,
    /// Write nothing, neither to the cluster nor to a cloud, and take part in no election. The log, the status page and the metrics say what would
    /// be written. Such a process can run beside another manager.
    #[arg(long, help_heading = "Controllers")]
    pub dry_run: bool,
    /// Nodes that are written at the same time, at most.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(127), help_heading = "Controllers")]
    pub concurrent_node_syncs: NonZeroUsize,
    /// The same for the refresh of addresses; 0 takes --concurrent-node-syncs.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Controllers")]
    pub concurrent_node_status_updates: usize,
    /// Time from the end of one refresh of addresses to the next.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_period, help_heading = "Controllers")]
    pub node_status_update_frequency: Duration,
    /// Time after which an Event says that no provider knows a Node without a provider ID. Until then, another manager may take
    /// care of it.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_period, help_heading = "Controllers")]
    pub node_unclaimed_after: Duration,
    /// Remove the uninitialized taint before the addresses are written, as upstream does.
    #[arg(long, help_heading = "Controllers")]
    pub untaint_before_addresses: bool,
    /// Nodes in one call of the provider, at most.
    #[arg(long, value_name = "N", default_value_t = BatchSettings::default().max_nodes, help_heading = "Controllers")]
    pub lookup_batch_nodes: NonZeroUsize,
    /// Lookups in the provider at the same time, at most.
    #[arg(long, value_name = "N", default_value_t = BatchSettings::default().max_calls, help_heading = "Controllers")]
    pub lookup_batch_calls: NonZeroUsize,
    /// Time that the first lookup waits for others that can share its call.
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse, help_heading = "Controllers")]
    pub lookup_batch_linger: Duration,
    /// Calls of all providers at the same time, at most. Further calls wait.
    #[arg(long, value_name = "N", default_value_t = Pool::default().calls, help_heading = "Controllers")]
    pub provider_calls: NonZeroU32,
    /// Memory that the calls of all providers have together. A call that finds none waits. Each provider has an equal share of one half for
    /// itself; all calls share the other half. At least the limit memory-bytes of one call. Default: half of the container's memory
    /// limit; 1GiB if it has no limit.
    #[arg(long, value_name = "SIZE", help_heading = "Controllers")]
    pub provider_memory: Option<ByteSize>,
    /// Events that wait to be written, at most. When the queue is full, controllers wait up to 2 s; then Events are dropped and
    /// counted.
    #[arg(long, value_name = "N", default_value_t = EventSettings::default().queue, help_heading = "Controllers")]
    pub event_queue: NonZeroUsize,
    /// Events that are written at the same time, at most. Events about one object are written in order.
    #[arg(long, value_name = "N", default_value = "16", help_heading = "Controllers")]
    pub concurrent_events: NonZeroUsize,
    /// Of the node lifecycle controller.
    #[command(flatten)]
    pub node_lifecycle: NodeLifecycleArgs,
    /// Of the service controller.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Of the route controller.
    #[command(flatten)]
    pub route: RouteArgs,
    /// Of the cluster controller.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// How components are exchanged.
    #[command(flatten)]
    pub swap: SwapArgs,

    /// Of the admission webhook.
    #[command(flatten)]
    pub webhook: WebhookArgs,

    /// Of leader election.
    #[command(flatten)]
    pub leader: LeaderArgs,

    /// Address of the port for health and metrics.
    #[arg(long, default_value = "0.0.0.0", help_heading = "Health and logs")]
    pub bind_address: IpAddr,
    /// Port for health and metrics (HTTPS); 0 serves none.
    #[arg(long, default_value_t = 10258, help_heading = "Health and logs")]
    pub secure_port: u16,
    /// Certificate of that port. Without it, one for localhost is made at start.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = "Health and logs")]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = "Health and logs")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Oldest version of TLS that this port accepts.
    #[arg(long, value_name = "VERSION", value_parser = min_tls(), default_value = "VersionTLS12", help_heading = "Health and logs")]
    pub tls_min_version: MinTls,
    /// A controller's loop is stuck if it has not turned for this many of its periods. Then /healthz and /livez fail, and Kubernetes
    /// restarts the pod. A queue turns every 10 s; the refresh of addresses with each Node, at least every 5 min; a dry run every 30 s,
    /// and while it waits for a call of a provider or for the API server, the limit of that, by default 5 min, is added once.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN.saturating_add(5), help_heading = "Health and logs")]
    pub controller_watchdog_periods: NonZeroU32,
    /// Who may read the pages of the health port.
    #[command(flatten)]
    pub access: AccessArgs,
    /// Format of the log; auto writes text on a terminal, and JSON otherwise.
    #[arg(long, value_enum, default_value = "auto", help_heading = "Health and logs")]
    pub logging_format: LogFormat,
    /// Log one line per request to a cloud: operation, status, time, size, request ID; never a body or a secret.
    #[arg(long, help_heading = "Health and logs")]
    pub trace_http: bool,
    /// Send traces by OTLP (http/protobuf) to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, http://localhost:4318 without it: a span for
    /// each reconcile, each call of a provider and each request to a cloud. Without the flag, variables of OpenTelemetry have no effect.
    #[arg(long, help_heading = "Health and logs")]
    pub trace_otlp: bool,
    /// Verbosity: 4 and higher logs at debug level, 6 and higher at trace level.
    #[arg(short, long, default_value_t = 0, help_heading = "Health and logs")]
    pub v: u8,
}

impl RunArgs {
    /// The providers of the flags or of the file.
    ///
    /// # Errors
    ///
    /// Names the flag, or the file and the field; repeats nothing that may be a secret.
    pub fn providers(&self) -> Result<Vec<ProviderConfig>> {
        let given = &self.provider;
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

    /// As connections take them.
    pub const fn pings(&self) -> Pings {
        Pings { period: self.kube_api_ping_period, timeout: self.kube_api_ping_timeout }
    }
}

/// `--logging-format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The name of a cluster. Kubernetes passes `$(NAME)` as it is when the container has no such variable, and cloud objects with that in their
/// names are found by nobody afterwards.
pub(crate) fn cluster_name(text: &str) -> Result<String, String> {
    match text.contains("$(") {
        true => Err("the container has no variable of that name: write the name of the cluster itself".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn cidr(text: &str) -> Result<String, String> {
    let parsed =
        text.split_once('/').and_then(|(ip, bits)| Some((ip.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?)));
    match parsed {
        Some((IpAddr::V4(_), 0..=32) | (IpAddr::V6(_), 0..=128)) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no CIDR, such as 10.244.0.0/16")),
    }
}

/// What the command line asks for, and a line about flags of `run` that have no effect.
///
/// # Errors
///
/// The command line is wrong, or asks for help. The message is printed already, and this is the exit code.
pub fn command() -> Result<(Command, Option<String>), ExitCode> {
    let (cli, ignored) = parse_from(std::env::args_os()).map_err(|error| {
        let good = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        // Nobody reads when this fails.
        drop(error.print());
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })?;
    Ok((cli.command, upstream::told(&ignored)))
}

/// The command line, and the flags of `run` that have no effect.
fn parse_from(words: impl IntoIterator<Item = OsString>) -> Result<(Cli, Vec<&'static upstream::Inert>), clap::Error> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let given = words.clone();
    let mut ignored = Vec::new();
    let mut cli = Cli::command();
    let called = words.get(1).and_then(|word| word.to_str()).map(ToOwned::to_owned);
    if let Some(command) = called.and_then(|name| cli.find_subcommand_mut(name)) {
        let sorted = upstream::sort(command, words.split_off(2))
            .map_err(|why| Cli::command().error(ErrorKind::InvalidValue, why))?;
        words.extend(sorted.known);
        ignored = sorted.ignored;
    }
    let cli = Cli::try_parse_from(words)
        .map_err(|error| stray::silenced(error, &given))
        .map_err(|error| of_run::advised(error, &given))?;
    Ok((cli, ignored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// What stands in the wrong place may be a secret.
    #[test]
    fn no_flag_that_may_hold_a_secret_is_repeated() {
        let cases: [&[&str]; 14] = [
            &["--proxy=http://u:hunter2@proxy:3128"],
            &["--proxy", "http://u:hunter2@proxy:3128"],
            &["--proxy=http://u:hunter2@proxy:3128/?a=b"],
            &["--credential=hunter2hunter2"],
            &["--credential=hunter2hunter2=="],
            &["--credential", "hunter2 hunter2=x"],
            &["--credential", "token", "hunter2hunter2"],
            &["--endpoint=https://u:hunter2@host"],
            &["--endpoint=https://u:hunter2@host?a=b"],
            &["--setting=hunter2"],
            &["--setting==hunter2"],
            &["--setting=hunter2=", "--setting=hunter2="],
            &["http://u:hunter2@proxy"],
            &["--proxies=http://u:hunter2@proxy"],
        ];
        for flags in cases {
            let words = [&["wasm-ccm", "run", "--provider=a.wasm"], flags].concat();
            let told = match parse_from(words.into_iter().map(OsString::from)) {
                Err(error) => error.to_string(),
                Ok((Cli { command: Command::Run(args) }, _)) => {
                    format!("{:#}", args.providers().err().unwrap())
                }
                Ok(_) => panic!("{flags:?}"),
            };
            assert!(!told.contains("hunter2"), "{flags:?}: {told}");
            let flag = flags[0].split('=').next().filter(|flag| flag.starts_with('-')).unwrap_or("no flag");
            assert!(told.contains(flag) || told.contains("no flag"), "{flags:?}: {told}");
        }
    }

    #[test]
    fn flags_that_cannot_be_are_refused() {
        let cases: [&[&str]; 10] = [
            &["run", "--provider", "a.wasm", "--cluster-cidr", "garbage"],
            &["run", "--provider", "a.wasm", "--cluster-cidr", "10.0.0.0/33"],
            &["run"],
            &["run", "--provider", "a.wasm", "--providers", "b.yaml"],
            &["run", "--providers", "b.yaml", "--cloud-config", "c"],
            &["run", "--provider", "a.wasm", "--concurrent-node-syncs", "0"],
            &["run", "--provider", "a.wasm", "--node-status-update-frequency", "5"],
            &["run", "--provider", "a.wasm", "--limit", "memory-bytes"],
            &["run", "--provider", "a.wasm", "--tls-cert-file", "x"],
            &["run", "--provider", "a.wasm", "positional"],
        ];
        for flags in cases {
            assert!(Cli::try_parse_from([&["wasm-ccm"], flags].concat()).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn flags_of_upstream_are_understood_in_both_spellings() {
        let flags = [
            "wasm-ccm",
            "run",
            "--provider=a.wasm",
            "--cloud-provider=x",
            "--controllers=*,-route",
            "--node-status-update-frequency=5m0s",
            "--concurrent-node-syncs",
            "4",
            "--v=5",
        ];
        let Command::Run(args) = Cli::try_parse_from(flags).unwrap().command else { panic!() };
        assert_eq!(args.controllers, ["*", "-route"]);
        assert_eq!((args.concurrent_node_syncs.get(), args.v), (4, 5));
        assert_eq!(args.node_status_update_frequency, Duration::from_secs(300));
    }
}
