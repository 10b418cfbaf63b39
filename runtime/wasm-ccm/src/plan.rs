//! `wasm-ccm plan`: from the command line of `run` to what [`ccm_plan`] needs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ccm_apiserver::ApiGateSettings;
use ccm_apiserver::ApiMetrics;
use ccm_cloud::{BatchSettings, NodeSelector};
use ccm_controllers::{AddressSources, ClusterAddresses, NodeLabels, NodeSettings, PodRanges};
use ccm_diagnosis::{Target as Named, Wanted};
use ccm_plan::{Asked, Controllers, Found, Journal, Looking, ObjectPlan, PlanParts, Settings, Target, Totals};
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::config::grants::CredentialPlace;
use ccm_rollout::context::{ProcessSecrets, SharedContext};
use ccm_rollout::gate::Step;
use ccm_rollout::opened::{self, AllOpened, NotOpened};
use ccm_rollout::source::Source;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::controllers::keeps_routes;
use crate::exit::Verdict;
use crate::{output, run, stores};
use ccm_cli::controller_names::{Controller, Selection};
use ccm_cli::{Output, PlanArgs, RunArgs};

/// How long all of it may take: with one call per Service that is to be changed, hours would be possible in a cluster in which everything is.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// What the document begins with that JSON is printed as.
const OPENING: &str = "{\n\"objects\": [";

/// Why a plan ends before it is whole: nobody reads it any more, as where `head` has what it wants.
#[derive(Debug)]
struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the plan any more")
    }
}

impl std::error::Error for Unread {}

/// Says what a host with these flags would write. Where nobody reads it any more, no more is asked, and the verdict is that of what was found.
///
/// # Errors
///
/// A flag is wrong, a component does not pass the gate, there is no such object, or the API server does not answer.
pub(crate) fn plan(args: &PlanArgs) -> Result<Verdict> {
    let wanted = args.wanted().map_err(anyhow::Error::msg)?;
    let run = &args.run;
    let selection = Selection::parse(&run.controllers).map_err(anyhow::Error::msg).context("--controllers")?;
    let configs = run.providers()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut printer = Printer { output: args.output, objects: 0 };
    let mut so_far = Totals::default();
    // One object is all that there is to ask about.
    let has_more = wanted.is_none();
    let planned = runtime.block_on(async {
        let mut found = |object: ObjectPlan| {
            so_far.add(&object);
            let is_read = output::print_part(&printer.object(&object)?)?;
            if is_read || !has_more { Ok(()) } else { Err(Unread.into()) }
        };
        let planned = in_time(Box::pin(planned(run, &selection, &configs, wanted, &mut found)));
        tokio::select! {
            biased;
            // With nothing more to show, no write would tell.
            () = output::unread(), if has_more => Err(Unread.into()),
            planned = planned => planned,
        }
    });
    // Does not wait for the compiler, which cannot be stopped.
    runtime.shutdown_background();
    let (totals, cautions) = match planned {
        Err(error) if error.is::<Unread>() => return Ok(verdict(&so_far, false)),
        planned => planned?,
    };
    output::print(&printer.end(&totals, &cautions)?)?;
    Ok(verdict(&totals, !cautions.is_withheld))
}

/// What comes of `planned` within [`LIMIT`].
///
/// # Errors
///
/// Its own, or it takes longer.
async fn in_time<T>(planned: impl Future<Output = Result<T>>) -> Result<T> {
    let planned = tokio::time::timeout(LIMIT, planned).await;
    planned.with_context(|| {
        format!(
            "the plan was not made within {LIMIT:?}; plan one object (`plan service NAMESPACE/NAME`), or let `run --dry-run` look at \
             the cluster, which has no such limit"
        )
    })?
}

/// Why a plan may be another one than that of the host.
#[derive(Default)]
struct Cautions {
    /// A line each.
    warnings: Vec<String>,
    /// The providers may want something else with what they are not granted here.
    is_withheld: bool,
}

/// What it comes to: of all, or of those so far.
const fn verdict(totals: &Totals, are_all: bool) -> Verdict {
    match (totals.has_changes(), totals.has_unknown() || !are_all) {
        (true, _) => Verdict::Changes,
        (false, true) => Verdict::Unjudged,
        (false, false) => Verdict::Good,
    }
}

/// Says what is printed of a plan, object by object: nobody holds what all of a large cluster comes to.
struct Printer {
    output: Output,
    /// Those so far.
    objects: usize,
}

impl Printer {
    /// The next object.
    fn object(&mut self, object: &ObjectPlan) -> serde_json::Result<String> {
        let before = if self.objects == 0 { OPENING } else { "," };
        self.objects = self.objects.saturating_add(1);
        Ok(match self.output {
            Output::Json => format!("{before}\n{}", output::json(object)?),
            Output::Text => format!("{object}\n"),
        })
    }

    /// What comes after all objects.
    fn end(&self, totals: &Totals, Cautions { warnings, .. }: &Cautions) -> serde_json::Result<String> {
        let before = if self.objects == 0 { OPENING } else { "\n" };
        Ok(match self.output {
            Output::Json => {
                let warnings = output::json(warnings)?;
                format!("{before}],\n\"warnings\": {warnings},\n\"lookedAt\": {}\n}}", totals.looked_at)
            }
            Output::Text => {
                let warnings = warnings.iter().map(|one| format!("warning: {one}\n"));
                warnings.collect::<String>() + &totals.to_string()
            }
        })
    }
}

async fn planned(
    args: &RunArgs,
    selection: &Selection,
    configs: &[ProviderConfig],
    wanted: Option<Wanted>,
    found: &mut Found<'_>,
) -> Result<(Totals, Cautions)> {
    let config = ccm_apiserver::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    let target = target(wanted, &config.default_namespace);
    let unusable = "the API server's address or credentials cannot be used";
    // Nobody reads these.
    let uncounted = ApiMetrics::register(&mut Registry::default());
    let client = ccm_apiserver::client(&config, args.pings(), &uncounted).context(unusable)?;
    let journal: Arc<Journal> = Arc::default();
    // From here on nobody has another one.
    let client = ccm_plan::read_only(&client, Arc::clone(&journal));
    let mut readers = JoinSet::new();
    let stores = stores::read(&client, &mut readers).await?;
    let services = stores.services.clone().context("the Services are not read")?;
    let nodes = stores.nodes.clone();
    let labels = NodeLabels::new(nodes.reader(), nodes.first_list());
    let context = SharedContext {
        client: Some(client.clone()),
        leadership: Arc::clone(&journal) as _,
        exchanges: None,
        nodes: Some(Arc::new(labels) as Arc<dyn NodeSelector>),
        cluster_name: args.cluster_name.clone(),
        cluster_cidrs: args.cluster_cidr.clone(),
        trace_http: false,
        offline: false,
        secrets: ProcessSecrets::default(),
    };
    let opened = Box::pin(opened::open(configs, client.clone(), context)).await;
    let AllOpened { providers, warnings, is_withheld } =
        opened.map_err(|error| not_opened(error, configs, args.provider.providers.as_deref()))?;
    let providers = providers.into_iter().map(|opened| Asked::new(opened, &Looking::default())).collect();
    let shares_nodes = configs.iter().any(|one| one.grants.sharing().is_ok_and(|shared| shared.nodes));
    let addresses = ClusterAddresses::new(AddressSources {
        service_ranges: args.service_cluster_ip_range.clone(),
        pod_ranges: args.cluster_cidr.clone(),
        reserved: args.reserved_address.clone(),
        servers: run::servers(&config),
        shares_nodes,
        nodes: Some(nodes.reader()),
        services: Some(services.reader()),
        ..AddressSources::default()
    });
    addresses.learn(&client).await;
    let controllers = planned_controllers(selection);
    let settings = settings(args, selection)?;
    let parts = PlanParts { client, journal, providers, nodes, services, addresses, controllers, settings };
    let totals = Box::pin(ccm_plan::plan(parts, target, found)).await?;
    Ok((totals, Cautions { warnings, is_withheld }))
}

/// Why there is no plan, with the command that judges the component alone: it also says what may have been forgotten. `list` is the file of
/// --providers.
fn not_opened(error: NotOpened, configs: &[ProviderConfig], list: Option<&Path>) -> anyhow::Error {
    let (number, mut rejected) = match error {
        NotOpened::Rejected { number, rejected } => (number, rejected),
        NotOpened::Others(error) => return error,
    };
    let Some(config) = configs.get(number) else { return rejected.error };
    let file = |file: &Path| ccm_diagnosis::word(&file.to_string_lossy());
    let is_in_cluster = config.credentials.values().any(|place| matches!(place, CredentialPlace::Secret { .. }));
    // `check` reads one component, and no cluster.
    let command = match (list, &config.source) {
        (Some(list), _) => format!("doctor --online --providers={}", file(list)),
        (None, Source::Path(path)) if !is_in_cluster => format!("check {} --online", file(path)),
        (None, source) => format!("doctor --online --provider={}", ccm_diagnosis::word(&source.to_string())),
    };
    // Who cannot read it can judge nothing.
    if rejected.step != Step::Source {
        let why = crate::one_line(&rejected.error);
        let flags = if list.is_some() { "" } else { " with the same flags of the provider" };
        rejected.error = anyhow!("{why}; `wasm-ccm {command}`{flags} judges it without a plan");
    }
    rejected.named(config.label())
}

/// What is planned; `here` is the namespace of the kubeconfig.
fn target(wanted: Option<Wanted>, here: &str) -> Target {
    match wanted.map(|wanted| wanted.target(Some(here))) {
        None => Target::All,
        Some(Named::Service { namespace, name }) => Target::Service { namespace, name },
        Some(Named::Node { name }) => Target::Node(name),
    }
}

/// Those of the operator.
pub(crate) fn planned_controllers(selection: &Selection) -> Controllers {
    Controllers {
        node: selection.has(Controller::Node),
        node_lifecycle: selection.has(Controller::NodeLifecycle),
        service: selection.has(Controller::Service),
        cluster: selection.has(Controller::Cluster),
    }
}

/// As the controllers of `run` take them.
pub(crate) fn settings(args: &RunArgs, selection: &Selection) -> Result<Settings> {
    let ranges = keeps_routes(args, selection).then(|| PodRanges::parse(&args.cluster_cidr)).transpose();
    Ok(Settings {
        gate: ApiGateSettings {
            request_timeout: args.kube_api_write_timeout,
            concurrent_writes: args.kube_api_concurrent_writes,
        },
        batches: BatchSettings {
            max_nodes: args.lookup_batch_nodes,
            max_calls: args.lookup_batch_calls,
            linger: args.lookup_batch_linger,
        },
        node: NodeSettings { untaint_before_addresses: args.untaint_before_addresses, ..NodeSettings::default() },
        node_lifecycle: args.node_lifecycle.settings(),
        deletions: args.leader.journal(),
        service: args.service.settings(),
        route: ranges.context("--cluster-cidr")?.map(|ranges| (args.route.settings(), ranges)),
        cluster: args.cluster.settings(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ccm_rollout::config::ProviderRecord;
    use ccm_rollout::gate::Rejected;
    use serde_json::{Value, json};
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plan_ends_after_the_hour_of_the_guide_and_says_how_to_go_on() {
        let guide = include_str!("../../../docs/guides/plan.md");
        assert!(guide.contains("It ends with exit code 1 after an hour"), "the guide says something else");
        let (hour, second) = (Duration::from_secs(3_600), Duration::from_secs(1));
        let made = in_time(async {
            sleep(hour - second).await;
            Ok("a plan")
        });
        assert_eq!(made.await.unwrap(), "a plan");
        let begun = Instant::now();
        let error = in_time(std::future::pending::<Result<()>>()).await.unwrap_err();
        let took = begun.elapsed();
        assert!((hour..hour + second).contains(&took), "{took:?}");
        let told = crate::one_line(&error);
        for part in ["was not made within 3600s", "`plan service NAMESPACE/NAME`", "`run --dry-run`"] {
            assert!(told.contains(part), "{told}");
        }
        let wrong = in_time(async { Err::<(), _>(anyhow!("its own error")) }).await.unwrap_err();
        assert_eq!(crate::one_line(&wrong), "its own error");
    }

    /// It was told why, and not how to go on.
    #[test]
    fn a_plan_that_ends_at_the_gate_names_the_command_that_judges_the_component() {
        let config = |source: &str, secret: Option<&str>| {
            let credentials: BTreeMap<_, _> =
                secret.map(|place| ("token".to_owned(), place.to_owned())).into_iter().collect();
            ProviderRecord { source: source.to_owned(), credentials, ..ProviderRecord::default() }.check().unwrap()
        };
        let told = |config: ProviderConfig, list: Option<&str>, step| {
            let rejected = Rejected::at(step, anyhow!("it is wrong\n  |"));
            let error = not_opened(NotOpened::Rejected { number: 0, rejected }, &[config], list.map(Path::new));
            crate::one_line(&error)
        };
        let (file, map) = ("/a b/c.wasm", "configmap:kube-system/p");
        for (config, list, command) in [
            (config(file, None), None, "`wasm-ccm check '/a b/c.wasm' --online` with the same flags of the provider"),
            (
                config(map, None),
                None,
                "`wasm-ccm doctor --online --provider=configmap:kube-system/p` with the same flags of the provider",
            ),
            (
                config("/c.wasm", Some("secret:a/b/c")),
                None,
                "`wasm-ccm doctor --online --provider=/c.wasm` with the same flags of the provider",
            ),
            (config(map, None), Some("/p.yaml"), "`wasm-ccm doctor --online --providers=/p.yaml`"),
        ] {
            let label = config.label();
            let wanted = format!(
                "{label} does not pass the gate (step grants): it is wrong; {command} judges it without a plan"
            );
            assert_eq!(told(config, list, Step::Grants), wanted);
        }
        let nothing = told(config(file, None), None, Step::Source);
        assert_eq!(nothing, format!("{file} does not pass the gate (step source): it is wrong"));
    }

    fn printed(output: Output, objects: &[&str], warnings: &[&str]) -> String {
        let mut printer = Printer { output, objects: 0 };
        let object = |name: &&str| ObjectPlan { name: (*name).to_owned(), ..ObjectPlan::default() };
        let parts: String = objects.iter().map(|name| printer.object(&object(name)).unwrap()).collect();
        let mut totals = Totals::default();
        totals.looked_at = 7;
        let warnings = warnings.iter().map(|one| (*one).to_owned()).collect();
        parts + &printer.end(&totals, &Cautions { warnings, is_withheld: false }).unwrap()
    }

    /// The plan of a firewall that is configured in the pod, and not here, was empty.
    #[test]
    fn what_a_provider_is_not_granted_here_is_told_before_the_totals_and_leaves_the_plan_unjudged() {
        let told = ["digitalocean: set here, and not granted to the provider: A"];
        let text = printed(Output::Text, &["n1"], &told);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 4 && lines[2] == format!("warning: {}", told[0]), "{text}");
        let json: Value = serde_json::from_str(&printed(Output::Json, &["n1"], &told)).unwrap();
        assert_eq!(json["warnings"], json!(told));
        let totals = Totals::default();
        assert_eq!((verdict(&totals, false), verdict(&totals, true)), (Verdict::Unjudged, Verdict::Good));
    }

    #[test]
    fn what_is_printed_object_by_object_is_one_document() {
        for objects in [&[][..], &["n1"], &["n1", "n2", "n3"]] {
            let json: Value = serde_json::from_str(&printed(Output::Json, objects, &[])).unwrap();
            let named = |name: &&str| json!({ "kind": "Node", "name": name, "writes": [], "moreMayFollow": false });
            let wanted: Vec<Value> = objects.iter().map(named).collect();
            assert_eq!(json, json!({ "objects": wanted, "warnings": [], "lookedAt": 7 }));
            let text = printed(Output::Text, objects, &[]);
            let lines: Vec<String> = objects.iter().flat_map(|name| [format!("Node {name}"), String::new()]).collect();
            let (last, before) =
                text.lines().collect::<Vec<_>>().split_last().map(|(last, rest)| (*last, rest.to_vec())).unwrap();
            assert!(before == lines && last.ends_with("; objects looked at: 7. Nothing was written."), "{text}");
        }
    }
}
