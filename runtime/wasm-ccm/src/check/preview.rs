//! `wasm-ccm check --against`: what an upgrade would do, before it is made. Reads the cluster and the cloud, and writes to neither.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use ccm_cloud::{Leadership, NodeSelector};
use ccm_controllers::{FirstList, Metrics, NodeLabels, Reflector};
use ccm_rollout::compare::{Report, StoreInventory};
use ccm_rollout::config::ProviderConfig;
use ccm_rollout::context::SharedContext;
use ccm_rollout::preview::{Preview, PreviewParts, preview};
use ccm_rollout::source::Source;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::{CheckArgs, Output};
use crate::start::{Stores, depends};
use crate::{api, output};

/// How long the API server may take for all Nodes and Services.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// Nobody who may write.
struct ReadOnly;

impl Leadership for ReadOnly {
    fn may_write(&self) -> bool {
        false
    }
}

/// Says what differs between the component of the file and the one that lies at `against`.
///
/// # Errors
///
/// Something differs, which stands on standard output; or a component does not pass the gate; or the cluster or the cloud does not
/// answer.
pub(super) fn check(args: &CheckArgs, config: &ProviderConfig, against: &str) -> Result<()> {
    let against: Source = against.parse().map_err(anyhow::Error::msg).context("--against")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let made = runtime.block_on(Box::pin(make(args, config, &against)));
    // A compiler cannot be stopped, and is not waited for.
    runtime.shutdown_background();
    let preview = made.with_context(|| args.file.display().to_string())?;
    output::print(&match args.output {
        Output::Json => serde_json::to_string_pretty(&preview)?,
        Output::Text => text(&preview),
    })?;
    let many = preview.report.differences.len();
    ensure!(many == 0, "{}: a host would refuse it (step compare): {many} differ", args.file.display());
    Ok(())
}

async fn make(args: &CheckArgs, config: &ProviderConfig, against: &Source) -> Result<Preview> {
    let way = api::config(args.kubeconfig.as_deref(), args.master.as_deref()).await?;
    let client = Client::try_from(way).context("the API server's address or credentials cannot be used")?;
    let mut readers = JoinSet::new();
    let stores = stores(&client, &mut readers).await?;
    let labels = NodeLabels::new(stores.nodes.reader(), stores.nodes.first_list());
    let context = SharedContext {
        client: Some(client.clone()),
        leadership: Arc::new(ReadOnly),
        exchanges: None,
        nodes: Some(Arc::new(labels) as Arc<dyn NodeSelector>),
        cluster_name: args.cluster_name.clone(),
        cluster_cidrs: vec![],
        trace_http: false,
    };
    let inventory = Box::new(StoreInventory::new(stores.nodes.clone(), stores.services.clone()));
    let parts = PreviewParts { client, context, depends: depends(&stores), inventory };
    preview(config, against, parts).await
}

/// All Nodes and Services, which `readers` keep up to date.
async fn stores(client: &Client, readers: &mut JoinSet<()>) -> Result<Stores> {
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

/// Waits for a list. A person waits, who can do more about a failure than try again.
async fn listed(kind: &str, mut list: FirstList) -> Result<()> {
    while list.state().is_err() {
        ensure!(list.changed().await, "{kind}: the list ended");
        if let Err(why) = list.state() {
            bail!("{kind}: {why}; check --kubeconfig and --master, and whether you may list and watch them");
        }
    }
    Ok(())
}

fn text(Preview { new, before, report }: &Preview) -> String {
    let Report { differences, .. } = report;
    let mut lines = vec![format!("new     {new}"), format!("before  {before}"), format!("asked   {}", report.extent())];
    if differences.is_empty() {
        lines.push("nothing differs: a host would take it, on probation".to_owned());
    }
    lines.extend(differences.iter().map(|difference| format!("differs {difference}")));
    lines.join("\n")
}
