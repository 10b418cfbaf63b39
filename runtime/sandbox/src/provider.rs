//! A compiled component, and the provider that it becomes with what the operator grants.

use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Capability, Descriptor, EventSink, Failure, FindError, Finding, Instances, Need, Node, Problem, Reaction,
};
use ccm_egress::Door;
use ccm_egress::budget::Class;
use ccm_egress::network::Network;
use tokio::sync::{Semaphore, watch};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::exports::ccm::cloud::{cluster, instances, load_balancer_survey, load_balancers, meta, routes};
use crate::call::{CallObserver, CallSettings, CallState, Subject, call};
use crate::descriptor::check_descriptor;
use crate::outline::full_name;
use crate::probe::Probe;
use crate::{CallError, Limits, LoadError, Outline, convert};

/// A component that is checked, compiled, linked and described. It has been granted nothing yet.
pub struct Component {
    outline: Outline,
    descriptor: Descriptor,
    limits: Limits,
    code: Code,
}

/// The linked code and where its exports are.
#[derive(Clone)]
struct Code {
    pre: InstancePre<CallState>,
    meta: Arc<meta::GuestIndices>,
    instances: Arc<instances::GuestIndices>,
    /// Of the engine, for the calls of all providers.
    places: Arc<Semaphore>,
    probe: Probe,
}

impl Component {
    /// What can be said of it without running it.
    #[must_use]
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Who it is and what it asks for.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The provider that this component is with these grants. `events` takes the Events that it emits, `observer` is told
    /// of its calls.
    #[must_use]
    pub fn into_provider(
        self,
        door: Door,
        events: Option<Arc<dyn EventSink>>,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Provider {
        let settings = CallSettings {
            limits: self.limits,
            provider: self.descriptor.name.clone(),
            door: Arc::new(door),
            events,
            observer,
            // With none, a call that takes longer than a tick would never end.
            turns: Arc::new(Semaphore::new(self.limits.busy_calls.clamp(1, Semaphore::MAX_PERMITS))),
            places: Arc::clone(&self.code.places),
            probe: self.code.probe.clone(),
        };
        Provider { descriptor: self.descriptor, exports: self.outline.exports, settings, code: self.code }
    }
}

/// Interfaces that a component need not have. Nobody calls them yet, and one of the wrong types is refused all the same.
struct Optional {
    load_balancers: Option<load_balancers::GuestIndices>,
    load_balancer_survey: Option<load_balancer_survey::GuestIndices>,
    routes: Option<routes::GuestIndices>,
    cluster: Option<cluster::GuestIndices>,
}

impl Optional {
    fn find(pre: &InstancePre<CallState>, exports: &[String]) -> wasmtime::Result<Self> {
        let has = |name: &str| exports.iter().any(|export| *export == full_name(name));
        Ok(Self {
            load_balancers: has("load-balancers").then(|| load_balancers::GuestIndices::new(pre)).transpose()?,
            load_balancer_survey: has("load-balancer-survey")
                .then(|| load_balancer_survey::GuestIndices::new(pre))
                .transpose()?,
            routes: has("routes").then(|| routes::GuestIndices::new(pre)).transpose()?,
            cluster: has("cluster").then(|| cluster::GuestIndices::new(pre)).transpose()?,
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
        if let Some(indices) = &self.routes {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.cluster {
            indices.load(&mut *store, instance)?;
        }
        Ok(())
    }
}

/// The interface behind an offer.
fn interface(capability: meta::Capability) -> &'static str {
    match capability {
        meta::Capability::LoadBalancers => "load-balancers",
        meta::Capability::Routes => "routes",
        meta::Capability::Cluster => "cluster",
    }
}

/// Code whose `describe` was not asked yet.
pub(crate) struct Linked {
    code: Code,
    optional: Optional,
}

impl Linked {
    /// Finds the exports.
    pub(crate) fn try_new(
        pre: InstancePre<CallState>,
        exports: &[String],
        places: Arc<Semaphore>,
        probe: Probe,
    ) -> Result<Self, LoadError> {
        let meta = meta::GuestIndices::new(&pre).map_err(LoadError::Types)?;
        let instances = instances::GuestIndices::new(&pre).map_err(LoadError::Types)?;
        let optional = Optional::find(&pre, exports).map_err(LoadError::Types)?;
        Ok(Self { code: Code { pre, meta: Arc::new(meta), instances: Arc::new(instances), places, probe }, optional })
    }

    /// Asks for the description, with nothing granted.
    pub(crate) async fn described(self, outline: Outline, limits: Limits) -> Result<Component, LoadError> {
        let code = self.code;
        let door = Door::closed();
        let settings = CallSettings {
            limits,
            provider: "(unnamed)".to_owned(),
            door: Arc::new(door),
            events: None,
            observer: None,
            turns: Arc::new(Semaphore::new(1)),
            places: Arc::clone(&code.places),
            probe: code.probe.clone(),
        };
        let (meta, instances) = (Arc::clone(&code.meta), Arc::clone(&code.instances));
        let optional = self.optional;
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
            |_| None,
        );
        let descriptor = described.await.map_err(LoadError::Describe)?.map_err(LoadError::Types)?;
        let descriptor = convert::descriptor(descriptor);
        check_descriptor(&descriptor)?;
        Ok(Component { outline, descriptor, limits, code })
    }
}

/// A provider that runs.
pub struct Provider {
    descriptor: Descriptor,
    exports: Vec<String>,
    settings: CallSettings,
    code: Code,
}

impl Provider {
    /// Who it is and what it asks for.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Grow whenever an endpoint of it that was taken for dead answers again.
    #[must_use]
    pub fn recoveries(&self) -> Vec<watch::Receiver<u64>> {
        self.settings.door.network.as_ref().map(Network::recoveries).unwrap_or_default()
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
        let exports = Arc::clone(&self.code.meta);
        let answer = call(
            &self.settings,
            &self.code.pre,
            "meta.check",
            Subject::provider(),
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_check(store, online).await })
            },
            |_| None,
        );
        let answer = answer.await?;
        Ok(answer.map(convert::problems).map_err(convert::failure))
    }

    /// The optional interfaces that work with this configuration.
    ///
    /// # Errors
    ///
    /// The outer one when there is no answer, the inner one when the provider cannot tell.
    pub async fn offers(&self) -> Result<Result<Vec<Capability>, Failure>, CallError> {
        let exports = Arc::clone(&self.code.meta);
        let answer = call(
            &self.settings,
            &self.code.pre,
            "meta.offers",
            Subject::provider(),
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_offers(store).await })
            },
            |answer| {
                let lost = answer.iter().flatten().find(|offer| !self.exports.contains(&full_name(interface(**offer))));
                lost.map(|offer| format!("meta.offers names {} and does not export it", interface(*offer)))
            },
        );
        let answer = answer.await?;
        Ok(answer.map(|offers| offers.into_iter().map(convert::capability).collect()).map_err(convert::failure))
    }
}

impl Provider {
    /// A provider ID is written once and for ever, so it must be the Node's own, or of a scheme that the provider declared.
    fn checked(&self, finding: Finding, own: Option<&str>) -> Finding {
        let Finding::Found(instance) = &finding else { return finding };
        let id = instance.provider_id.as_str();
        let schemes = &self.descriptor.provider_id_schemes;
        let declared = || id.split_once("://").is_some_and(|(scheme, _)| schemes.iter().any(|own| own == scheme));
        if id.is_empty() || own == Some(id) || declared() {
            return finding;
        }
        let id = ccm_egress::log::line(id, 256);
        let text = format!(
            "the provider gave the provider ID {id:?}, whose scheme is none of its own ({})",
            schemes.join(", ")
        );
        Finding::Unknown(Failure::new(Reaction::Retry, text))
    }
}

impl Instances for Provider {
    async fn find(&self, nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, FindError> {
        let subject = Subject {
            nodes: nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            class: match need {
                // A deletion hangs on it.
                Need::Proof | Need::Existence => Class::Write,
                Need::Metadata => Class::Initialise,
                Need::Refresh => Class::Refresh,
            },
            read_only: true,
            proof: need == Need::Proof,
        };
        let asked = nodes.len();
        let own_ids: Vec<Option<String>> = nodes.iter().map(|node| node.provider_id.clone()).collect();
        let declared = &self.descriptor.annotations;
        let nodes: Vec<_> = nodes.into_iter().map(|node| convert::node(node, declared)).collect();
        let need = convert::need(need);
        let exports = Arc::clone(&self.code.instances);
        let answer = call(
            &self.settings,
            &self.code.pre,
            "instances.find",
            subject,
            move |store, instance| {
                Box::pin(async move { exports.load(&mut *store, instance)?.call_find(store, &nodes, need).await })
            },
            |answer| {
                let given = answer.as_ref().map_or(asked, Vec::len);
                (given != asked).then(|| format!("instances.find gave {given} findings for {asked} nodes"))
            },
        );
        let findings = answer.await?.map_err(convert::failure)?;
        let findings = findings.into_iter().map(convert::finding);
        Ok(findings.zip(own_ids).map(|(finding, own)| self.checked(finding, own.as_deref())).collect())
    }
}
