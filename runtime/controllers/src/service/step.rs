//! What serving a Service comes to: nothing, a write on the Service alone, other backends, or all of it.

use ccm_cloud::{Ingress, Standing};

use super::error::Task;
use super::fingerprint::Target;
use super::memory::Doubt;
use super::provider::Provider;
use super::record::Record;
use super::view::as_stored;
use super::writers::Writers;

/// What has been done in the cloud, and could not be written on the Service.
#[derive(Debug, Clone)]
pub(crate) struct Unsaid {
    pub(crate) target: Target,
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) task: Task,
    /// What it answers.
    pub(crate) request: Option<String>,
    /// Who did it.
    pub(crate) by: Writers,
}

/// What was found in the cloud.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    target: Target,
    /// The component that looked. Another one may see it in another way.
    component: String,
    pub(crate) standing: Standing,
}

impl Found {
    pub(crate) fn new(target: Target, provider: &Provider, standing: Standing) -> Self {
        Self { target, component: provider.component.clone(), standing }
    }

    /// Whether it was found by this component, for this target.
    pub(crate) fn is_about(&self, target: Target, provider: &Provider) -> bool {
        self.target == target && self.component == provider.component
    }
}

/// What serving comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// All is as it was ensured.
    Nothing,
    /// The cloud has it as the Service asks for; only the Service does not say so.
    Adopt(Vec<Ingress>),
    /// Nothing but the backends differs.
    Update,
    /// Anything differs, or nobody knows.
    Ensure {
        /// What was found in the cloud that should not be so.
        drift: Option<String>,
    },
}

/// What serving comes to. `ingress` is what the status says, as far as it was written here; `is_told` whether it says besides that
/// all is well.
pub(crate) fn step(
    record: Option<&Record>,
    doubt: Doubt,
    target: Target,
    standing: Option<Standing>,
    ingress: &[Ingress],
    is_told: bool,
) -> Step {
    let same_spec = doubt < Doubt::All && record.is_some_and(|record| record.spec == Some(target.spec));
    let same_backends =
        doubt < Doubt::Backends && record.is_some_and(|record| record.backends == Some(target.backends));
    let unchanged = same_spec && same_backends;
    let drift = |drift: String| Step::Ensure { drift: unchanged.then_some(drift) };
    match standing {
        Some(Standing::InStep(found)) if unchanged && as_stored(&found) == as_stored(ingress) => {}
        Some(Standing::InStep(found)) if doubt == Doubt::None && !found.is_empty() => return Step::Adopt(found),
        Some(Standing::Differs(what)) => {
            return drift(format!("the cloud differs from the Service: {}", what.join("; ")));
        }
        Some(Standing::Missing) => return drift("the cloud has no such load balancer any more".into()),
        Some(Standing::InStep(_) | Standing::Unknown(_)) | None => {}
    }
    match (same_spec, same_backends) {
        // Whatever was ensured has an address: somebody took it out of the status, or wrote another one.
        _ if ingress.is_empty() => Step::Ensure { drift: None },
        (true, true) if is_told => Step::Nothing,
        (true, true) => Step::Adopt(ingress.to_vec()),
        (true, false) => Step::Update,
        (false, _) => Step::Ensure { drift: None },
    }
}
