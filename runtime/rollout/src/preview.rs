//! The preview of an upgrade: whether a host that runs one component would take another one in its place.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ccm_cloud::Capability;
use ccm_sandbox::Provider;
use kube::Client;
use serde::Serialize;

use crate::compare::{Extent, Inventory, Report, compare};
use crate::config::ProviderConfig;
use crate::context::SharedContext;
use crate::gate::{self, Rejected};
use crate::opened::Silent;
use crate::pipeline::{NotAdmitted, Surroundings};
use crate::preflight;
use crate::release::{Release, Version};
use crate::source::Source;
use crate::state_folder::ProbationFiles;

/// What a preview works with.
pub struct PreviewParts {
    /// Reads ConfigMaps, and Secrets of the configuration.
    pub client: Client,
    /// What both components share. Its leadership should allow no writes.
    pub context: SharedContext,
    /// Names an object that needs an optional interface, if there is one.
    pub depends: Box<dyn Fn(Capability) -> Option<String> + Send + Sync>,
    /// What exists in the cluster.
    pub inventory: Box<dyn Inventory>,
}

/// What a host would find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The component that passed the gate up to the comparison.
    pub new: Version,
    /// The one that it is compared with.
    pub before: Version,
    /// What differs. Nothing: the host would take it.
    #[serde(flatten)]
    pub report: Report,
    /// What the operator may have forgotten.
    pub notes: Vec<String>,
}

/// Takes the component of `against` through the gate and then that of `config`, each with the same configuration, and compares what
/// they find. Changes nothing, neither in the cloud nor in the cluster.
///
/// # Errors
///
/// The step of the gate that one of them does not pass, and which of the two; or nothing could be compared.
pub async fn preview(config: &ProviderConfig, against: &Source, parts: PreviewParts) -> Result<Preview> {
    let PreviewParts { client, context, depends, inventory } = parts;
    let sandbox = preflight::sandbox(config).map_err(|rejected| rejected.error)?;
    // Compared below, where more is told of it than whether it may pass.
    let surroundings =
        Surroundings::new(sandbox, client, context, Silent::listeners(), depends, None, ProbationFiles::default());
    let before = admitted(&surroundings, config, against, None).await;
    let (before, before_version) = before.with_context(|| format!("the component of {against}"))?;
    let (new, new_version) = admitted(&surroundings, config, &config.source, Some(&before)).await?;
    let both = Extent::of(|interface| [&before, &new].iter().all(|one| one.has(interface)));
    let limits = &config.limits.compare;
    let report = Box::pin(compare(&*before, &*new, &*inventory, both, limits)).await?;
    let notes = preflight::notes(config, new.descriptor());
    Ok(Preview { new: new_version, before: before_version, report, notes })
}

/// A component that passed the gate, with who it is.
async fn admitted(
    surroundings: &Surroundings,
    config: &ProviderConfig,
    source: &Source,
    before: Option<&Provider>,
) -> Result<(Arc<Provider>, Version)> {
    let admitted = async {
        let packed = source.fetch(Some(&surroundings.client), config.limits.source_bytes).await;
        let unpacked = gate::unpacked(config, packed.map_err(Rejected::from)?).await?;
        Box::pin(surroundings.admit(config, unpacked, before, None)).await
    };
    let taken = admitted.await.map_err(|error: NotAdmitted| error.into_rejected().named("it"))?;
    let Release { component, version } = taken.release;
    Ok((component, Version::clone(&version)))
}
