//! From a provider's record to a provider that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use ccm_cloud::{EventSink, Problem};
use ccm_controllers::FirstList;
use ccm_sandbox::{CallObserver, Component, Provider, Sandbox};
use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::api::backoff;
use crate::door::{self, Walls};
use crate::kept::Kept;
use crate::providers::{ProviderConfig, Wasi};
use crate::serve::Readiness;

/// Longest wait between two tries.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// What all providers of the process share.
pub(crate) struct Surroundings {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: Client,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) walls: Walls,
    pub(crate) readiness: Readiness,
    /// What stays of a provider whatever becomes of its component, by source.
    pub(crate) kept: Mutex<BTreeMap<String, Arc<Kept>>>,
}

/// Reads and compiles the component of a source.
///
/// # Errors
///
/// Names the source and the way out.
pub(crate) async fn component(
    sandbox: &Sandbox,
    config: &ProviderConfig,
    client: Option<&Client>,
) -> Result<(Component, String)> {
    let what = || format!("provider {}", config.source);
    let limits = &config.limits;
    let bytes =
        config.source.read(client, limits.source_bytes, limits.sandbox.component_bytes).await.with_context(what)?;
    let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
    let component = sandbox.load(bytes, limits.sandbox, config.wasi == Wasi::DenyAll).await.with_context(what)?;
    Ok((component, digest))
}

/// Name of what must be true of a provider before the process is ready.
fn check(config: &ProviderConfig) -> String {
    format!("provider {}", config.source)
}

/// Why there is no provider.
enum Refusal {
    /// A local file that nobody can read: that is for whoever starts the process.
    LocalFile(anyhow::Error),
    /// The source, the component, or what it thinks of its configuration: that can be mended while the process waits.
    Provider(anyhow::Error),
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Provider(error)
    }
}

impl Surroundings {
    /// Says that the process is not ready before this provider is there.
    pub(crate) fn announce(&self, config: &ProviderConfig) {
        self.readiness.set(&check(config), Err("not loaded yet".to_owned()));
    }

    /// Tries until there is a provider, and a look at its configuration that is due once the Nodes are known, with back-off from 1 s to [`MAX_DELAY`]. The source and the cloud-config are read
    /// anew each time, so that whoever mends them need not restart the process. Until then the process is not ready and
    /// says why.
    ///
    /// # Errors
    ///
    /// At the first look the cloud-config cannot be read, or is not written in the format that the provider declares.
    pub(crate) async fn obtain(&self, config: &ProviderConfig) -> Result<(Provider, Option<LookAgain>)> {
        let check = check(config);
        let mut was_readable = false;
        let mut delays = backoff(Duration::from_secs(1), MAX_DELAY);
        loop {
            let error = match self.try_obtain(config, &mut was_readable).await {
                Ok(taken) => {
                    self.readiness.set(&check, Ok(()));
                    return Ok(taken);
                }
                // At start it is for whoever starts the process; later, somebody is mending the file.
                Err(Refusal::LocalFile(error)) if !was_readable => return Err(error),
                Err(Refusal::LocalFile(error) | Refusal::Provider(error)) => format!("{error:#}"),
            };
            let delay = delays.next().unwrap_or(MAX_DELAY);
            tracing::error!(error, retry_in = ?delay, "provider not taken, nothing is written to the cluster for it");
            self.readiness.set(&check, Err(error));
            tokio::time::sleep(delay).await;
        }
    }

    fn kept_of(&self, config: &ProviderConfig) -> Arc<Kept> {
        Arc::clone(self.kept.lock().entry(config.source.to_string()).or_default())
    }

    async fn try_obtain(
        &self,
        config: &ProviderConfig,
        was_readable: &mut bool,
    ) -> Result<(Provider, Option<LookAgain>), Refusal> {
        let start = Instant::now();
        let (component, digest) = component(&self.sandbox, config, Some(&self.client)).await?;
        let what = || format!("provider {}", config.source);
        let descriptor = component.descriptor().clone();
        if let Some(wanted) = &config.name
            && *wanted != descriptor.name
        {
            let why = format!(
                "it calls itself {:?}, the operator asks for {wanted:?} (--cloud-provider, or name in the list of providers); change one of the two",
                descriptor.name
            );
            return Err(anyhow!(why).context(what()).into());
        }
        let files = config.files(&descriptor).map_err(Refusal::LocalFile)?;
        *was_readable = true;
        let (size, imports) = (component.outline().size, component.outline().imports.len());
        let kept = self.kept_of(config);
        let (door, admitted) = door::open(config, &descriptor, files, &kept, &self.walls).await.with_context(what)?;
        let provider = component.into_provider(door, Some(Arc::clone(&self.events)), Some(Arc::clone(&self.observer)));
        let cloud_config = config.cloud_config.as_ref().map(|path| format!(" (cloud-config is {})", path.display()));
        let is_early = self.walls.nodes.as_ref().is_some_and(|nodes| nodes.matching("").is_err());
        let told = judge(&provider, &[]).await.with_context(|| what() + &cloud_config.unwrap_or_default())?;
        let offers =
            provider.offers().await.with_context(what)?.context("it cannot tell what it offers").with_context(what)?;
        // Not before: a component that is refused pins nothing.
        kept.taken(admitted);
        tracing::info!(
            source = %config.source,
            name = descriptor.name,
            version = descriptor.version,
            digest,
            bytes = size,
            imports,
            optional = ?offers,
            ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            "provider taken"
        );
        Ok((provider, is_early.then_some(LookAgain { told })))
    }
}

/// Refuses providers that cannot live together: a Node must belong to one of them, and metrics must tell them apart.
///
/// # Errors
///
/// Names both.
pub(crate) fn check_together(providers: &[Provider]) -> Result<()> {
    let mut schemes: BTreeMap<&str, &str> = BTreeMap::new();
    for provider in providers {
        let descriptor = provider.descriptor();
        for scheme in &descriptor.provider_id_schemes {
            if let Some(other) = schemes.insert(scheme, &descriptor.name) {
                bail!(
                    "the providers {other} and {} both take care of provider IDs that begin with {scheme}://; leave one out",
                    descriptor.name
                );
            }
        }
    }
    Ok(())
}

/// Asks the provider what it thinks of its configuration, and the cloud whether the credentials are good. Returns what it
/// warns of; what is in `told` is not said again.
async fn judge(provider: &Provider, told: &[Problem]) -> Result<Vec<Problem>> {
    let problems = provider.check(true).await?.context("it cannot judge its configuration")?;
    let (fatal, others): (Vec<Problem>, Vec<Problem>) = problems.into_iter().partition(|problem| problem.fatal);
    for problem in others.iter().filter(|problem| !told.contains(problem)) {
        tracing::warn!(field = problem.field, problem = problem.message, "configuration of the provider");
    }
    if fatal.is_empty() { Ok(others) } else { bail!("its configuration is wrong: {}", tell(&fatal)) }
}

/// A provider was taken before the Nodes were known, and what it thinks of its configuration may hang on who they are.
pub(crate) struct LookAgain {
    told: Vec<Problem>,
}

impl LookAgain {
    /// Asks it once more when they are, until it has an answer. Never ends, as tasks of the process do not.
    pub(crate) async fn run(self, provider: Arc<Provider>, nodes: FirstList) {
        let mut delays = backoff(Duration::from_secs(1), MAX_DELAY);
        if nodes.complete().await {
            while let Err(error) = judge(&provider, &self.told).await {
                tracing::warn!(error = format!("{error:#}"), "second look at the configuration of the provider");
                tokio::time::sleep(delays.next().unwrap_or(MAX_DELAY)).await;
            }
        }
        std::future::pending().await
    }
}

/// Problems in one line.
pub(crate) fn tell(problems: &[Problem]) -> String {
    let told: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    told.join("; ")
}
