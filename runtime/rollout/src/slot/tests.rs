//! What becomes of components that are put into a slot one after the other.

mod balancers;
mod cluster;
mod configuration;
mod exchange;
mod machines;
mod provider_ids;
mod routes;
mod simulation;

use ccm_cloud::{FindError, Finding, Instances as _, Need};

use super::testing::{Does, Rig, faults, node};

async fn find(rig: &Rig, names: &[&str]) -> Result<Vec<Finding>, FindError> {
    rig.slot.find(names.iter().map(|name| node(name)).collect(), Need::Existence).await
}

/// The version that found all of these machines.
fn finder(findings: &[Finding]) -> String {
    let version = |finding: &Finding| match finding {
        Finding::Found(instance) => instance.labels["version"].clone(),
        other => panic!("{other:?}"),
    };
    let versions: std::collections::BTreeSet<String> = findings.iter().map(version).collect();
    assert_eq!(versions.len(), 1, "one answer of several versions: {versions:?}");
    versions.into_iter().next().unwrap()
}

/// The version that answers now.
async fn answers(rig: &Rig) -> String {
    finder(&find(rig, &["a", "b"]).await.unwrap())
}
