//! Providers that are opened once, for a command: each component passes the gate as the first one of a process, and nothing follows its source.

use std::sync::Arc;

use anyhow::Result;
use ccm_cloud::{EventSink, Problem, Severity, Subject};
use ccm_sandbox::{CallEnd, CallObserver, Pool, Provider, Sandbox};
use kube::Client;

use crate::config::ProviderConfig;
use crate::context::{SharedContext, Variables, problem_text};
use crate::gate::{self, Rejected};
use crate::pipeline::{Listeners, NotAdmitted, Surroundings, check_together};
use crate::preflight;
use crate::release::Release;
use crate::state_folder::ProbationFiles;
use crate::status::ProviderStatuses;

/// A provider that passed the gate.
pub struct Opened {
    /// Ready to be asked.
    pub provider: Arc<Provider>,
    /// Load balancer classes that it serves, besides Services without a class.
    pub classes: Vec<String>,
}

/// All providers of a process, in the order of their configurations.
pub struct AllOpened {
    /// Each of them.
    pub providers: Vec<Opened>,
    /// What an operator should know of their configuration before believing what they say, a line each.
    pub warnings: Vec<String>,
    /// A variable that is set here is not granted, and with it a provider may want something else.
    pub is_withheld: bool,
}

/// Why not all of them were opened.
#[derive(Debug)]
pub enum NotOpened {
    /// One of them does not pass the gate.
    Rejected {
        /// Its place in the list.
        number: usize,
        /// The step, and why.
        rejected: Rejected,
    },
    /// They cannot be opened, or not together.
    Others(anyhow::Error),
}

impl From<anyhow::Error> for NotOpened {
    fn from(error: anyhow::Error) -> Self {
        Self::Others(error)
    }
}

/// Hears nothing: a command leaves no traces.
pub(crate) struct Silent;

impl EventSink for Silent {
    fn emit(&self, _: Subject, _: Severity, _: String, _: String) {}
}

impl CallObserver for Silent {
    fn call_ended(&self, _: &str, _: CallEnd) {}
}

impl Silent {
    /// Whoever hears of components, and does nothing about it.
    pub(crate) fn listeners() -> Listeners {
        Listeners {
            events: Arc::new(Self),
            observer: Arc::new(Self),
            readiness: Arc::new(|_: &str, _| {}),
            statuses: ProviderStatuses::default(),
        }
    }
}

/// Opens all providers of a process, in their order. The leadership of `context` should allow no writes. `client` reads ConfigMaps, and Secrets of
/// the configuration.
///
/// # Errors
///
/// The step of the gate that one of them does not pass, and which; or two of them cannot live together.
pub async fn open(configs: &[ProviderConfig], client: Client, context: SharedContext) -> Result<AllOpened, NotOpened> {
    let pool = Pool { providers: configs.len(), ..Pool::default() };
    let pool = configs.iter().fold(pool, |pool, config| pool.with_room_for(&config.limits.sandbox));
    let sandbox = Sandbox::with_pool(pool).map_err(anyhow::Error::from)?;
    let files = ProbationFiles::default();
    // Nobody is compared with anybody: the plan says what each would do.
    let mut surroundings =
        Surroundings::new(sandbox, client, context, Silent::listeners(), Box::new(|_| None), None, files);
    surroundings.variables = Variables::of(configs);
    let (mut opened, mut warnings, mut is_withheld) = (vec![], vec![], false);
    for (number, config) in configs.iter().enumerate() {
        let (provider, told) = admitted(&surroundings, config)
            .await
            .map_err(|error| NotOpened::Rejected { number, rejected: error.into_rejected() })?;
        let withheld = preflight::withheld(config, provider.descriptor());
        is_withheld |= withheld.has_values();
        let told = told.into_iter().map(|problem| problem_text(&[problem])).chain(preflight::forgotten(&withheld));
        warnings.extend(told.map(|told| format!("{}: {told}", provider.descriptor().name)));
        opened.push(Opened { provider, classes: config.load_balancer_classes.clone() });
    }
    let descriptors = opened.iter().map(|one| one.provider.descriptor());
    warnings.extend(preflight::misspelt(configs.iter().zip(descriptors)));
    let labels: Vec<String> = configs.iter().map(ProviderConfig::label).collect();
    let all: Vec<(&str, Arc<Provider>)> =
        labels.iter().map(String::as_str).zip(opened.iter().map(|one| Arc::clone(&one.provider))).collect();
    check_together(&all)?;
    Ok(AllOpened { providers: opened, warnings, is_withheld })
}

/// The provider, and what it warns of in its configuration.
async fn admitted(
    surroundings: &Surroundings,
    config: &ProviderConfig,
) -> Result<(Arc<Provider>, Vec<Problem>), NotAdmitted> {
    let packed = config.source.fetch(Some(&surroundings.client), config.limits.source_bytes).await;
    let unpacked = gate::unpacked(config, packed.map_err(Rejected::from)?).await?;
    let taken = Box::pin(surroundings.admit(config, unpacked, None, None)).await?;
    let Release { component, .. } = taken.release;
    Ok((component, taken.told))
}
