//! The gate for `run`: from what the source holds to a provider that can serve, and from another configuration to the same.
//!
//! | step | what is done |
//! |---|---|
//! | source, size, container, trust | before this module: [`gate::unpacked`] |
//! | parse, imports, compile, exports, describe | [`gate::load`] |
//! | identity | [`gate::identity`], and no other provider of the process has its name or its provider IDs |
//! | grants | [`gate::annotations`]; its context is opened with the files, endpoints and credentials that are granted |
//! | check | it judges its configuration, with the cloud, and says what it offers; then identity once more, for what it offers |
//! | compare | with the last good one: [`compare`](fn@compare); the first component: names, and [`confirm`]. Left out with `allow_provider_change` |
//! | exchange | identity once more, as far as it hangs on others who change meanwhile: [`Surroundings::put_against`] |
//!
//! [`Surroundings::passes`] goes through these for a component, `configure` through the last three for the same component with other files.

pub(crate) mod configure;
mod taken;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use ccm_cloud::{Capability, Descriptor, EventSink, Problem};
use ccm_controllers::FirstList;
use ccm_sandbox::{CallError, CallObserver, LoadError, Provider, Sandbox};
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::check;
use crate::compare::naming;
use crate::compare::{Extent, Inventory, Report, Unconfirmed, compare, confirm};
use crate::config::{ProviderConfig, Wasi};
use crate::context::{self, Carryover, SharedContext, Variables, problem_text};
use crate::gate::{self, Before, Haste, NothingFound, Rejected, Step, Unpacked, WAY_OUT};
use crate::release::{Release, Version, short};
use crate::retry::backoff;
use crate::slot::Slot;
use crate::state_folder::ProbationFiles;
use crate::status::{ProviderStatuses, Readiness};

pub(crate) use taken::Taken;

/// Longest wait between two tries.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Before the first component is compiled again: Nodes that waited for the process go first.
const OPTIMISE_AFTER: Duration = Duration::from_secs(30);
/// Longest wait before it is compiled once more for want of memory: each try takes the compiler as long as the first one.
const MAX_OPTIMISE_DELAY: Duration = Duration::from_secs(600);

/// What all providers of the process share.
pub(crate) struct Surroundings {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: Client,
    pub(crate) shared: SharedContext,
    pub(crate) listeners: Listeners,
    /// An object that needs an optional interface, if there is one.
    pub(crate) depends: Box<dyn Fn(Capability) -> Option<String> + Send + Sync>,
    /// What exists in the cluster; none where nothing is compared.
    pub(crate) inventory: Option<Box<dyn Inventory>>,
    /// What stays of a provider whatever becomes of its component, by source.
    pub(crate) carryovers: Mutex<BTreeMap<String, Arc<Carryover>>>,
    /// Components on probation, as the state folder has them.
    pub(crate) probation_files: ProbationFiles,
    /// What is said of variables that none of the providers reads.
    pub(crate) variables: Variables,
    /// What last good components said of themselves that could not serve so far, by source.
    kept: Mutex<BTreeMap<String, Arc<Descriptor>>>,
    /// Those that serve, by source.
    pub(crate) slots: Mutex<BTreeMap<String, Slot<Provider>>>,
}

/// Who hears of what components do.
pub(crate) struct Listeners {
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) readiness: Readiness,
    pub(crate) statuses: ProviderStatuses,
}

/// Why there is no provider.
pub(crate) enum NotAdmitted {
    /// A local file that nobody can read: that is for whoever starts the process.
    LocalFile(anyhow::Error),
    /// The source, the component, or what it thinks of its configuration: that can be mended while the process runs.
    Rejected(Rejected),
}

impl From<Rejected> for NotAdmitted {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

impl NotAdmitted {
    /// As a step of the gate.
    pub(crate) fn into_rejected(self) -> Rejected {
        match self {
            Self::LocalFile(error) => Rejected::at(Step::Grants, error),
            Self::Rejected(rejected) => rejected,
        }
    }
}

impl Surroundings {
    /// Those of a process that has no provider yet.
    pub(crate) fn new(
        sandbox: Sandbox,
        client: Client,
        shared: SharedContext,
        listeners: Listeners,
        depends: Box<dyn Fn(Capability) -> Option<String> + Send + Sync>,
        inventory: Option<Box<dyn Inventory>>,
        probation_files: ProbationFiles,
    ) -> Self {
        let (carryovers, slots, kept) = (Mutex::default(), Mutex::default(), Mutex::default());
        let variables = Variables::default();
        Self {
            sandbox,
            client,
            shared,
            listeners,
            depends,
            inventory,
            carryovers,
            probation_files,
            variables,
            kept,
            slots,
        }
    }

    fn carryover_of(&self, config: &ProviderConfig) -> Arc<Carryover> {
        Arc::clone(self.carryovers.lock().entry(config.label()).or_default())
    }

    /// As [`passes`](Self::passes), and what passed is [taken](Self::takes).
    ///
    /// # Errors
    ///
    /// The step that it did not pass.
    pub(crate) async fn admit(
        &self,
        config: &ProviderConfig,
        unpacked: Unpacked,
        before: Option<&Provider>,
        named: Option<&str>,
    ) -> Result<Taken, NotAdmitted> {
        let taken = Box::pin(self.passes(config, unpacked, before, named)).await?;
        self.takes(config, &taken);
        Ok(taken)
    }

    /// The whole gate. Nothing of a component that is rejected stays, except the last good one's grants, which limit whatever is tried in its
    /// place; nor of one that passed and is not [taken](Self::takes) after all. The one `before` is not touched. `named`: how the last leader's
    /// component names load balancers, for a component that has none before it.
    ///
    /// # Errors
    ///
    /// The step that it did not pass.
    pub(crate) async fn passes(
        &self,
        config: &ProviderConfig,
        unpacked: Unpacked,
        before: Option<&Provider>,
        named: Option<&str>,
    ) -> Result<Taken, NotAdmitted> {
        let start = Instant::now();
        let haste = if before.is_some() { Haste::None } else { Haste::Waiting };
        let component = gate::load(&self.sandbox, config, &unpacked, haste).await?;
        let component = component.configured(config.name.as_deref(), &config.provider_id_prefixes);
        let sharing = config.grants.sharing().map_err(|error| Rejected::at(Step::Grants, error))?;
        let component = component.sharing(sharing);
        let Unpacked { bytes, digest, signature, signed, is_stored } = unpacked;
        let compiling = component.compiling();
        let rejected = |step: Step| {
            let digest = Some(digest.clone());
            move |error: anyhow::Error| Rejected { step, digest, error }
        };
        let descriptor = component.descriptor().clone();
        let exports = &component.summary().exports;
        let kept = self.kept.lock().get(&config.label()).filter(|_| before.is_none() && !is_stored).cloned();
        let known = before.map(Into::into).or_else(|| kept.as_deref().map(Before::kept));
        gate::identity(config, component.declared(), exports, known, &self.depends)
            .and_then(|()| gate::signed_as(signed.as_ref(), component.declared()))
            .and_then(|()| if before.is_some() { alone(&self.slots.lock(), config, &descriptor) } else { Ok(()) })
            .map_err(rejected(Step::Identity))?;
        let carryover = self.carryover_of(config);
        // It was taken once. Whatever it may lack now, no other one gets more in its place.
        if is_stored {
            self.kept.lock().insert(config.label(), Arc::new(component.declared().clone()));
            carryover.pin_declared(&descriptor, |credential| config.credentials.contains_key(credential));
        }
        gate::annotations(config, component.declared(), before.map(Provider::declared).or(kept.as_deref()))
            .map_err(rejected(Step::Grants))?;
        // Early: what it goes without may be why it is rejected. Of one in whose place another serves, only what serves is heard.
        if before.is_none() {
            self.variables.hear(config, &descriptor);
        }
        let files = config.files(&descriptor).map_err(NotAdmitted::LocalFile)?;
        if before.is_none() {
            carryover.tries(&digest);
        }
        let opened = context::open(config, &descriptor, files, &carryover, &self.shared, before, &digest).await;
        let mut context = opened.map_err(rejected(Step::Grants))?;
        context.digest = short(&digest).to_owned();
        let (events, observer) = (Arc::clone(&self.listeners.events), Arc::clone(&self.listeners.observer));
        observer.begins(&descriptor.name);
        let provider = component.into_provider(context, Some(events), Some(observer));
        // It was taken once, whatever its cloud says today.
        if let Some(egress) = provider.egress().filter(|_| is_stored) {
            egress.pin_uses(&carryover);
        }
        // At once: the files may change again while it is in the gate.
        let is_apart = before.is_some_and(|before| !config.is_in_use(before) || !config.is_in_use(&provider));
        let cloud_config = || config.cloud_config.as_ref().map(|path| format!("cloud-config is {}", path.display()));
        let is_early = self.shared.nodes.as_ref().is_some_and(|nodes| nodes.matching("").is_err());
        let judged = async {
            let told = judge(&provider, &[]).await?;
            let offers = provider.offers().await?.context("it cannot tell what it offers")?;
            anyhow::Ok((told, offers))
        };
        let judged = judged.await.map_err(|error| match cloud_config() {
            Some(place) => error.context(place),
            None => error,
        });
        let (told, offers) = judged.map_err(rejected(Step::Check))?;
        gate::offers(config, &offers, before.map(Into::into), &self.depends).map_err(rejected(Step::Identity))?;
        if before.is_none() {
            self.named(config, &provider, named).await.map_err(rejected(Step::Compare))?;
        }
        let compared = Box::pin(async {
            match before {
                Some(before) => self.compare(config, before, &provider).await.map(|()| None),
                None => self.confirm(config, &provider).await,
            }
        });
        let missed = compared.await.map_err(rejected(Step::Compare))?;
        let took = start.elapsed();
        let look = is_early.then(|| LookAgain { told: told.clone() });
        let Descriptor { name, version, .. } = descriptor;
        let version = Arc::new(Version { name, version, digest, signed });
        let release = Release { component: Arc::new(provider), version };
        Ok(Taken { release, bytes, signature, told, look, missed, is_apart, compiling, took })
    }

    /// Asks a component that has none before it how it names load balancers. `named`: how whoever led last does, if that is known.
    ///
    /// # Errors
    ///
    /// It names them otherwise, or cannot tell.
    pub(crate) async fn named(&self, config: &ProviderConfig, provider: &Provider, named: Option<&str>) -> Result<()> {
        let Some(named) = named.filter(|_| !config.allow_provider_change && provider.has(Capability::LoadBalancers))
        else {
            return Ok(());
        };
        let name = naming::naming(provider).await;
        naming::difference(Some(named), name.as_deref()).map_or(Ok(()), |one| Err(anyhow!("{one}; {WAY_OUT}")))
    }

    /// What components are asked about, unless the operator lets another provider take over.
    fn compared(&self, config: &ProviderConfig) -> Option<&dyn Inventory> {
        self.inventory.as_deref().filter(|_| !config.allow_provider_change)
    }

    /// Refuses a first component that finds nothing of what the cluster's objects say that there is. Gives what it does not find
    /// otherwise.
    async fn confirm(&self, config: &ProviderConfig, new: &Provider) -> Result<Option<Report>> {
        let Some(inventory) = self.compared(config) else { return Ok(None) };
        let has_balancers = new.has(Capability::LoadBalancers);
        let report =
            confirm(new, inventory, has_balancers, &config.limits.compare).await.map_err(|error| match error {
                Unconfirmed::Unanswered(error) => error.into(),
                Unconfirmed::NothingFound(_) => anyhow::Error::new(NothingFound(error)),
            })?;
        tracing::info!(source = %config.source, extent = report.extent(), "provider compared with the cluster's objects");
        Ok(Some(report).filter(|report| !report.differences.is_empty()))
    }

    /// Refuses a component that finds less than the last good one, unless `allow_provider_change` turns the comparison off.
    async fn compare(&self, config: &ProviderConfig, before: &Provider, new: &Provider) -> Result<()> {
        let Some(inventory) = self.compared(config) else { return Ok(()) };
        let both = Extent::of(|interface| [before, new].iter().all(|one| one.has(interface)));
        let report = compare(before, new, inventory, both, &config.limits.compare).await?;
        let extent = report.extent();
        ensure!(
            report.differences.is_empty(),
            "it finds less than the last good one, or something else: {}; {WAY_OUT}",
            report.summary()
        );
        tracing::info!(source = %config.source, extent, "provider compared with the last good one");
        Ok(())
    }

    /// Puts what passed the gate into the slot, as [`Slot::put_against`]. It may have been in the gate for a minute: what the cluster's objects
    /// depend on is asked again, and what the other providers of the process have, who are not exchanged meanwhile.
    ///
    /// # Errors
    ///
    /// What it would not pass any more.
    pub(crate) fn put_against(
        &self,
        config: &ProviderConfig,
        slot: &Slot<Provider>,
        against: &str,
        release: Release<Provider>,
        is_apart: bool,
    ) -> Result<Option<Duration>, Rejected> {
        let slots = self.slots.lock();
        let before = slot.components().proven.component;
        self.still_offers(config, &before, &release.component)
            .and_then(|()| alone(&slots, config, release.component.descriptor()))
            .map_err(|error| {
                let digest = Some(release.version.digest.clone());
                Rejected { step: Step::Identity, digest, error }
            })?;
        Ok(slot.put_against(against, release, is_apart))
    }

    /// Refuses what lacks an optional interface that objects depend on by now.
    ///
    /// # Errors
    ///
    /// The interface, and one of the objects.
    pub(crate) fn still_offers(&self, config: &ProviderConfig, before: &Provider, new: &Provider) -> Result<()> {
        gate::offers(config, &gate::offered(new), Some(before.into()), &self.depends)
    }
}

/// Refuses what another provider has that serves, or may return: provider IDs, or the name.
fn alone(slots: &BTreeMap<String, Slot<Provider>>, config: &ProviderConfig, new: &Descriptor) -> Result<()> {
    let label = config.label();
    for (other, slot) in slots.iter().filter(|(other, _)| **other != label) {
        for one in slot.components().both() {
            check_pair((&label, new), (other, one.component.descriptor()))?;
        }
    }
    Ok(())
}

/// Refuses providers that cannot live together: a Node must belong to one of them, and metrics and records of Services must tell
/// them apart. Each with the label of its source.
///
/// # Errors
///
/// Names both.
pub(crate) fn check_together(providers: &[(&str, Arc<Provider>)]) -> Result<()> {
    for (place, (label, provider)) in providers.iter().enumerate() {
        for (other, before) in providers.iter().take(place) {
            check_pair((other, before.descriptor()), (label, provider.descriptor()))?;
        }
    }
    Ok(())
}

pub(crate) fn check_pair((label, one): (&str, &Descriptor), (other, another): (&str, &Descriptor)) -> Result<()> {
    if let Some(prefix) = one.contested(another) {
        bail!(
            "the providers {} ({label}) and {} ({other}) both take care of provider IDs that begin with {prefix}; leave one out, \
             or give each its part in providerIdPrefixes of the list of providers",
            one.name,
            another.name
        );
    }
    ensure!(
        one.name != another.name,
        "two providers are called {} ({label}; {other}); give one of them another name in the list of providers, and the name of \
         its component as component",
        one.name
    );
    Ok(())
}

/// Asks the provider what it thinks of its configuration, and the cloud whether the credentials are good. Returns what it
/// warns of; what is in `told` is not said again.
async fn judge(provider: &Provider, told: &[Problem]) -> Result<Vec<Problem>> {
    let problems = check::problems(provider, true).await?;
    let (fatal, others): (Vec<Problem>, Vec<Problem>) = problems.into_iter().partition(|problem| problem.fatal);
    for problem in others.iter().filter(|problem| !told.contains(problem)) {
        tracing::warn!(field = problem.field, problem = problem.message, "configuration of the provider");
    }
    if fatal.is_empty() { Ok(others) } else { bail!("its configuration is wrong: {}", problem_text(&fatal)) }
}

/// A provider was taken before the Nodes were known, and what it thinks of its configuration may hang on who they are.
pub(crate) struct LookAgain {
    told: Vec<Problem>,
}

impl LookAgain {
    /// Asks it once more when they are, until it has an answer.
    pub(crate) async fn run(self, slot: Slot<Provider>, nodes: FirstList) {
        let mut delays = backoff(Duration::from_secs(1), MAX_DELAY);
        if nodes.complete().await {
            while let Err(error) = judge(&slot.component(), &self.told).await {
                tracing::warn!(error = format!("{error:#}"), "second look at the configuration of the provider");
                tokio::time::sleep(delays.next().unwrap_or(MAX_DELAY)).await;
            }
        }
    }
}

/// The first provider was compiled in a hurry, and is to be compiled well once the work that waited is done.
pub(crate) struct Optimise {
    sandbox: Sandbox,
    /// Of the component.
    digest: String,
    bytes: Vec<u8>,
    wasi: bool,
}

impl Optimise {
    /// None when it runs good code already.
    pub(crate) fn of(
        sandbox: &Sandbox,
        release: &Release<Provider>,
        bytes: &[u8],
        config: &ProviderConfig,
    ) -> Option<Self> {
        release.component.is_unoptimised().then(|| Self {
            sandbox: sandbox.clone(),
            digest: release.version.digest.clone(),
            bytes: bytes.to_vec(),
            wasi: config.wasi == Wasi::DenyAll,
        })
    }

    /// Does it, if the component is still the proven one in `slot` then, with whatever configuration. Where other calls have the memory that it
    /// needs to say what it is, it is compiled once more later.
    pub(crate) async fn run(self, slot: Slot<Provider>) {
        let Self { sandbox, digest, bytes, wasi } = self;
        let mut delays = backoff(OPTIMISE_AFTER, MAX_OPTIMISE_DELAY);
        tokio::time::sleep(OPTIMISE_AFTER).await;
        loop {
            let Release { component: provider, version } = slot.components().proven;
            if version.digest != digest {
                return;
            }
            let name = &version.name;
            let begun = Instant::now();
            let Err(error) = sandbox.optimise(&provider, bytes.clone(), wasi).await else {
                tracing::info!(name, took = ?begun.elapsed(), "provider compiled with all optimisations");
                return;
            };
            // It goes on with the code that it has.
            tracing::warn!(name, %error, "provider not compiled with all optimisations");
            if !matches!(error, LoadError::Describe(CallError::OutOfRoom(..))) {
                return;
            }
            // Another one may serve meanwhile, and this one is not to take memory for that.
            drop(provider);
            tokio::time::sleep(delays.next().unwrap_or(MAX_OPTIMISE_DELAY)).await;
        }
    }
}
