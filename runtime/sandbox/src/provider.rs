//! A compiled component, and the provider that it becomes with what the operator grants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{Capability, Descriptor, EventSink, Failure, Problem, SharedAddresses};
use ccm_egress::{Egress, ProviderContext, SourceState};
use parking_lot::Mutex;
use tokio::sync::watch;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::exports::ccm::cloud::{
    cluster, instances, load_balancer_orphan, load_balancer_survey, load_balancers, meta, routes,
};
use crate::call::{CallObserver, CallSettings, CallState, Home, Subject, call};
use crate::component_summary::full_name;
use crate::descriptor::check_descriptor;
use crate::turn::Turns;
use crate::{CallError, ComponentSummary, Limits, LoadError, answer};

/// A component that is checked, compiled, linked and described. It has been granted nothing yet.
pub struct Component {
    summary: ComponentSummary,
    /// As it says.
    declared: Arc<Descriptor>,
    /// As the operator configured it.
    descriptor: Descriptor,
    limits: Limits,
    compiling: Duration,
    code: Code,
}

/// How much the compiler thinks about a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As little as it can, on all cores: somebody waits for it.
    Quick,
    /// Fast code, on one core: others work meanwhile.
    Full,
}

/// The linked code and where its exports are.
#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) meta: Arc<meta::GuestIndices>,
    pub(crate) instances: Arc<instances::GuestIndices>,
    pub(crate) optional: Arc<Optional>,
    pub(crate) effort: Effort,
    home: Home,
    instance_bytes: usize,
}

impl Component {
    /// What can be said of it without running it.
    #[must_use]
    pub const fn summary(&self) -> &ComponentSummary {
        &self.summary
    }

    /// Who it is and what it asks for.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The same, as it says, whatever the operator [made](Self::configured) of it.
    #[must_use]
    pub fn declared(&self) -> &Descriptor {
        &self.declared
    }

    /// One of several providers of the same component: under this name, where there is one, and with these
    /// [prefixes](Descriptor::provider_id_prefixes).
    #[must_use]
    pub fn configured(mut self, name: Option<&str>, provider_id_prefixes: &[String]) -> Self {
        if let Some(name) = name {
            name.clone_into(&mut self.descriptor.name);
        }
        self.descriptor.provider_id_prefixes = provider_id_prefixes.to_vec();
        self
    }

    /// With what the operator grants of the addresses that its load balancers share.
    #[must_use]
    pub fn sharing(mut self, granted: SharedAddresses) -> Self {
        self.descriptor.shared_addresses = self.declared.declared_sharing().and(granted);
        self
    }

    /// How long the compiler took, with the wait for it: it compiles one component at a time.
    #[must_use]
    pub const fn compiling(&self) -> Duration {
        self.compiling
    }

    /// The provider that this component is with these grants. `events` takes the Events that it emits, `observer` is told
    /// of its calls.
    #[must_use]
    pub fn into_provider(
        self,
        mut context: ProviderContext,
        events: Option<Arc<dyn EventSink>>,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Provider {
        context.provider_ids = self.descriptor.provider_ids();
        let settings = CallSettings {
            limits: self.limits,
            provider: self.descriptor.name.clone(),
            context: Arc::new(context),
            events,
            observer,
            turns: Turns::new(self.limits.busy_calls),
            memory: self.code.home.memory.share(&self.descriptor.name),
            instance_bytes: self.code.instance_bytes,
            home: self.code.home.clone(),
            tally: Arc::default(),
            selects_nodes: Arc::default(),
        };
        Provider {
            configuration: settings.context.configuration(&self.descriptor),
            declared: self.declared,
            descriptor: Arc::new(self.descriptor),
            exports: self.summary.exports.into(),
            offered: Mutex::default(),
            settings,
            code: Arc::new(Mutex::new(self.code)),
        }
    }
}

/// Interfaces that a component need not have. One of the wrong types is refused, whether or not it is ever called.
pub(crate) struct Optional {
    pub(crate) load_balancers: Option<Arc<load_balancers::GuestIndices>>,
    pub(crate) load_balancer_survey: Option<Arc<load_balancer_survey::GuestIndices>>,
    pub(crate) load_balancer_orphan: Option<Arc<load_balancer_orphan::GuestIndices>>,
    pub(crate) routes: Option<Arc<routes::GuestIndices>>,
    pub(crate) cluster: Option<Arc<cluster::GuestIndices>>,
}

impl Optional {
    fn find(pre: &InstancePre<CallState>, exports: &[String]) -> wasmtime::Result<Self> {
        let has = |name: &str| exports.iter().any(|export| *export == full_name(name));
        Ok(Self {
            load_balancers: has("load-balancers")
                .then(|| load_balancers::GuestIndices::new(pre).map(Arc::new))
                .transpose()?,
            load_balancer_survey: has("load-balancer-survey")
                .then(|| load_balancer_survey::GuestIndices::new(pre).map(Arc::new))
                .transpose()?,
            load_balancer_orphan: has("load-balancer-orphan")
                .then(|| load_balancer_orphan::GuestIndices::new(pre).map(Arc::new))
                .transpose()?,
            routes: has("routes").then(|| routes::GuestIndices::new(pre).map(Arc::new)).transpose()?,
            cluster: has("cluster").then(|| cluster::GuestIndices::new(pre).map(Arc::new)).transpose()?,
        })
    }

    /// Looks at the types.
    fn load(&self, store: &mut Store<CallState>, instance: &Instance) -> wasmtime::Result<()> {
        if let Some(indices) = &self.load_balancers {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.load_balancer_survey {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.load_balancer_orphan {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.routes {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.cluster {
            indices.load(&mut *store, instance)?;
        }
        Ok(())
    }
}

/// Code whose `describe` was not asked yet.
pub(crate) struct Linked(Code);

impl Linked {
    /// Finds the exports.
    pub(crate) fn try_new(
        pre: InstancePre<CallState>,
        exports: &[String],
        effort: Effort,
        home: Home,
        instance_bytes: usize,
    ) -> Result<Self, LoadError> {
        let meta = meta::GuestIndices::new(&pre).map_err(LoadError::Types)?;
        let instances = instances::GuestIndices::new(&pre).map_err(LoadError::Types)?;
        let optional = Optional::find(&pre, exports).map_err(LoadError::Types)?;
        let (meta, instances, optional) = (Arc::new(meta), Arc::new(instances), Arc::new(optional));
        Ok(Self(Code { pre, meta, instances, optional, effort, home, instance_bytes }))
    }

    /// Asks for the description, with nothing granted.
    pub(crate) async fn described(
        self,
        summary: ComponentSummary,
        limits: Limits,
        compiling: Duration,
    ) -> Result<Component, LoadError> {
        let Self(code) = self;
        let context = ProviderContext::closed();
        let settings = CallSettings {
            limits,
            provider: "(unnamed)".to_owned(),
            context: Arc::new(context),
            events: None,
            observer: None,
            turns: Turns::new(1),
            memory: code.home.memory.share(""),
            instance_bytes: code.instance_bytes,
            home: code.home.clone(),
            tally: Arc::default(),
            selects_nodes: Arc::default(),
        };
        let (meta, instances) = (Arc::clone(&code.meta), Arc::clone(&code.instances));
        let optional = Arc::clone(&code.optional);
        let described = call(
            &settings,
            &code.pre,
            "meta.describe",
            Subject::provider(),
            move |store, instance| {
                Box::pin(async move {
                    // Types are looked at here, of all that will be called some day, and not when it is.
                    let mut load = || {
                        instances.load(&mut *store, instance)?;
                        optional.load(&mut *store, instance)?;
                        meta.load(&mut *store, instance)
                    };
                    match load() {
                        Ok(meta) => meta.call_describe(store).await.map(Ok),
                        Err(error) => Ok(Err(error)),
                    }
                })
            },
            // What is wrong with a description has an error of its own.
            |described| Ok(described.map(answer::descriptor)),
        );
        let described = described.await.map_err(LoadError::Describe)?.map_err(LoadError::Types)?;
        let descriptor = described.map_err(LoadError::Descriptor)?;
        check_descriptor(&descriptor, &limits)?;
        let declared = Arc::new(descriptor.clone());
        Ok(Component { summary, declared, descriptor, limits, compiling, code })
    }
}

/// A provider that runs.
pub struct Provider {
    declared: Arc<Descriptor>,
    pub(crate) descriptor: Arc<Descriptor>,
    exports: Arc<[String]>,
    /// What `meta.offers` said last.
    offered: Mutex<Vec<Capability>>,
    pub(crate) configuration: String,
    pub(crate) settings: CallSettings,
    /// Of all providers that are this component.
    code: Arc<Mutex<Code>>,
}

impl Provider {
    /// The code of the moment. A call takes it once: what the exports of one are is not what they are in another.
    pub(crate) fn code(&self) -> Code {
        self.code.lock().clone()
    }

    /// The same component with another configuration: it shares nothing with this one but the code.
    #[must_use]
    pub fn reconfigured(&self, mut context: ProviderContext) -> Self {
        context.provider_ids = self.descriptor.provider_ids();
        context.digest.clone_from(&self.settings.context.digest);
        let CallSettings { limits, provider, events, observer, home, memory, .. } = &self.settings;
        let settings = CallSettings {
            limits: *limits,
            provider: provider.clone(),
            context: Arc::new(context),
            events: events.clone(),
            observer: observer.clone(),
            turns: Turns::new(limits.busy_calls),
            home: home.clone(),
            memory: Arc::clone(memory),
            instance_bytes: self.settings.instance_bytes,
            tally: Arc::default(),
            selects_nodes: Arc::default(),
        };
        Self {
            configuration: settings.context.configuration(&self.descriptor),
            declared: Arc::clone(&self.declared),
            descriptor: Arc::clone(&self.descriptor),
            exports: Arc::clone(&self.exports),
            offered: Mutex::default(),
            settings,
            code: Arc::clone(&self.code),
        }
    }

    /// The files of its configuration, as it was told of them.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.settings.context.settings.files
    }

    /// Whether it is what the compiler makes in a hurry.
    #[must_use]
    pub fn is_unoptimised(&self) -> bool {
        self.code.lock().effort == Effort::Quick
    }

    /// Runs the code of `component`, which is the same one compiled again, from the next call on.
    ///
    /// # Errors
    ///
    /// It is another one.
    pub(crate) fn run_code_of(&self, component: Component) -> Result<(), LoadError> {
        if component.declared != self.declared || component.summary.exports != *self.exports {
            return Err(LoadError::Another);
        }
        put(&self.code, component.code);
        Ok(())
    }

    /// Who it is and what it asks for.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The same, as its component says: without what the operator made of it.
    #[must_use]
    pub fn declared(&self) -> &Descriptor {
        &self.declared
    }

    /// Its requests.
    #[must_use]
    pub fn egress(&self) -> Option<&Egress> {
        self.settings.context.egress.as_ref()
    }

    /// Whether an optional interface works with this configuration: it is exported, and the last answer of
    /// [`offers`](Self::offers) names it. False before that was asked.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.offered.lock().contains(&capability)
    }

    /// Whether it has this optional interface, offered or not.
    #[must_use]
    pub fn could(&self, capability: Capability) -> bool {
        self.exports.contains(&full_name(capability.as_str()))
    }

    /// Empties its cache, and shares no answer of the cloud that was asked for before.
    pub fn forget_all(&self) {
        self.settings.context.cache.clear();
        if let Some(egress) = self.egress() {
            egress.forget_answers();
        }
    }

    /// All calls so far, and those that gave no answer. One that waited too long for its cloud gave no
    /// answer either, and is not counted; nor are those of the admission webhook, which anybody who writes Services can cause. The counts wrap around.
    #[must_use]
    pub fn crashes(&self) -> (u32, u32) {
        self.settings.tally.counts()
    }

    /// The last call without an answer, in words.
    #[must_use]
    pub fn last_crash(&self) -> String {
        self.settings.tally.last_crash()
    }

    /// Grow whenever an endpoint of it that was taken for dead answers again, or one of its credentials is another.
    #[must_use]
    pub fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.egress().map(Egress::recoveries).unwrap_or_default()
    }

    /// Sees to it that other credentials are noticed while nobody uses them, for ever.
    pub async fn follow_credentials(&self) {
        match self.egress() {
            Some(egress) => egress.follow_credentials().await,
            None => std::future::pending().await,
        }
    }

    /// The credentials in use, and whether their sources can be read.
    #[must_use]
    pub fn credential_sources(&self) -> watch::Receiver<Vec<SourceState>> {
        self.egress().map_or_else(|| watch::channel(vec![]).1, Egress::credential_sources)
    }

    /// How long one of its calls may take.
    #[must_use]
    pub const fn call_time(&self) -> Duration {
        self.settings.limits.call_time
    }

    /// What is wrong with its configuration. Only with `online` the cloud is asked.
    ///
    /// # Errors
    ///
    /// The outer one when there is no answer, the inner one when the provider cannot tell.
    pub async fn check(&self, online: bool) -> Result<Result<Vec<Problem>, Failure>, CallError> {
        let code = self.code();
        let exports = Arc::clone(&code.meta);
        let subject = Subject::provider();
        let failed = subject.failed.clone();
        let answer = call(
            &self.settings,
            &code.pre,
            "meta.check",
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_check(store, online).await })
            },
            answer::unless_failed(|problems| Ok(answer::problems(problems))),
        );
        Ok(answer.await?.map_err(|failure| failed.of_whole(failure)))
    }

    /// The optional interfaces that work with this configuration. [`has`](Self::has) remembers the answer.
    ///
    /// # Errors
    ///
    /// The outer one when there is no answer, the inner one when the provider cannot tell.
    pub async fn offers(&self) -> Result<Result<Vec<Capability>, Failure>, CallError> {
        let offers = self.ask_offers().await?;
        if let Ok(offers) = &offers {
            self.serve(offers.clone());
        }
        Ok(offers)
    }

    /// These optional interfaces work from now on ([`has`](Self::has)).
    pub fn serve(&self, offers: Vec<Capability>) {
        *self.offered.lock() = offers;
    }

    /// As [`offers`](Self::offers), and remembers nothing.
    ///
    /// # Errors
    ///
    /// As [`offers`](Self::offers).
    pub async fn ask_offers(&self) -> Result<Result<Vec<Capability>, Failure>, CallError> {
        let code = self.code();
        let exports = Arc::clone(&code.meta);
        let subject = Subject::provider();
        let failed = subject.failed.clone();
        let answer = call(
            &self.settings,
            &code.pre,
            "meta.offers",
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_offers(store).await })
            },
            answer::unless_failed(|offers| answer::capabilities(offers, &self.exports)),
        );
        Ok(answer.await?.map_err(|failure| failed.of_whole(failure)))
    }
}

/// Puts something into a place. What was there is freed after the lock is: calls wait for that, and unmapping the code of an engine
/// takes its time.
fn put<T>(place: &Mutex<T>, next: T) {
    let before = std::mem::replace(&mut *place.lock(), next);
    drop(before);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_is_replaced_is_freed_after_the_lock() {
        static PLACE: Mutex<Option<Old>> = Mutex::new(Some(Old));
        static IS_FREE: AtomicBool = AtomicBool::new(false);
        struct Old;
        impl Drop for Old {
            fn drop(&mut self) {
                IS_FREE.store(PLACE.try_lock().is_some(), Ordering::Relaxed);
            }
        }
        put(&PLACE, None);
        assert!(IS_FREE.load(Ordering::Relaxed));
    }
}
