//! Providers that are put into a slot one after the other.

#[path = "../../../../tests/successor/fill.rs"]
mod fill;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{FindError, Finding, Instances as _, Need};
use ccm_egress::Door;
use ccm_egress::cache::Cache;
use ccm_sandbox::{Limits, Phase, ProbationSettings, Provider, Sandbox, Slot};

use crate::rig::{CLOUDLYCKE, Record, component, node};

const SUCCESSOR: &str = "guests/successor.wasm";
/// Of a provider that computes without an end.
const CPU: Duration = Duration::from_millis(200);

/// Where the providers of a test are made.
pub(crate) struct Works(Sandbox);

impl Works {
    pub(crate) fn new() -> Self {
        Self(Sandbox::try_new().unwrap())
    }

    /// A version of the same provider. `tests/successor` lists the behaviours.
    pub(crate) async fn version(&self, version: &str, behaviour: &str) -> Arc<Provider> {
        self.watched(version, behaviour, None).await
    }

    /// The same with somebody who is told of the end of each call.
    pub(crate) async fn watched(&self, version: &str, behaviour: &str, observer: Option<Arc<Record>>) -> Arc<Provider> {
        let fields = [("version", version), ("behaviour", behaviour)];
        let bytes = fill::fill(component(SUCCESSOR), &fields).unwrap();
        let cpu = if behaviour == "loop" { CPU } else { Limits::default().call_cpu };
        let provider = self.provider(bytes, cpu, observer).await;
        // As the gate does; nothing of it counts in a probation.
        assert_eq!(provider.check(true).await.unwrap(), Ok(vec![]));
        provider.offers().await.unwrap().unwrap();
        provider
    }

    pub(crate) async fn cloudlycke(&self) -> Arc<Provider> {
        self.provider(component(CLOUDLYCKE), Limits::default().call_cpu, None).await
    }

    async fn provider(&self, bytes: Vec<u8>, call_cpu: Duration, observer: Option<Arc<Record>>) -> Arc<Provider> {
        let limits = Limits { call_cpu, ..Limits::default() };
        let component = self.0.load(bytes, limits, false).await.unwrap();
        let door = Door { cache: Cache::new(Cache::DEFAULT_BYTES), ..Door::closed() };
        Arc::new(component.into_provider(door, None, observer.map(|observer| observer as _)))
    }

    /// A slot in which version 1 serves, which is proven, and version 2 is on probation.
    pub(crate) async fn slot(&self, one: &str, two: &str, probation: ProbationSettings) -> Slot {
        let slot = Slot::new(self.version("1", one).await, None);
        slot.exchange(self.version("2", two).await, probation);
        slot
    }
}

/// A probation that ends with this many faults, and otherwise not before its minute is over.
pub(crate) fn faults(faults: u32) -> ProbationSettings {
    ProbationSettings { faults, ..ProbationSettings::default() }
}

pub(crate) async fn find(slot: &Slot, names: &[&str]) -> Result<Vec<Finding>, FindError> {
    slot.find(names.iter().map(|name| node(name)).collect(), Need::Existence).await
}

/// The version that found all of these Nodes.
pub(crate) fn finder(findings: &[Finding]) -> String {
    let version = |finding: &Finding| match finding {
        Finding::Found(instance) => instance.labels["successor.io/version"].clone(),
        other => panic!("{other:?}"),
    };
    let versions: BTreeSet<String> = findings.iter().map(version).collect();
    assert_eq!(versions.len(), 1, "one answer of several versions: {versions:?}");
    versions.into_iter().next().unwrap()
}

/// The version that answers now.
pub(crate) async fn answers(slot: &Slot) -> String {
    finder(&find(slot, &["a", "b"]).await.unwrap())
}

/// Why the last good one returned.
pub(crate) fn rolled_back(slot: &Slot) -> String {
    match slot.phases().borrow().clone() {
        Phase::RolledBack { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn is_on_probation(slot: &Slot) -> bool {
    *slot.phases().borrow() == Phase::Probation
}

pub(crate) fn generation(slot: &Slot) -> u64 {
    *slot.generations().borrow()
}
