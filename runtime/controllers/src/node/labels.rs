//! Which labels a Node should have: at its initialisation, and as pairs of old and new names ever after. Nothing here reads
//! or writes anything.

use std::collections::BTreeMap;

use ccm_cloud::Instance;

use crate::store::Pairs;

pub(crate) type Labels = BTreeMap<String, String>;

/// An old label, which wins, and the label that took its place.
struct Pair {
    deprecated: &'static str,
    stable: &'static str,
}

const INSTANCE_TYPE: Pair =
    Pair { deprecated: "beta.kubernetes.io/instance-type", stable: "node.kubernetes.io/instance-type" };
const ZONE: Pair = Pair { deprecated: "failure-domain.beta.kubernetes.io/zone", stable: "topology.kubernetes.io/zone" };
const REGION: Pair =
    Pair { deprecated: "failure-domain.beta.kubernetes.io/region", stable: "topology.kubernetes.io/region" };

/// The labels to set on a Node with `labels` when its machine is `instance`: only those that it does not have like that.
///
/// Type, zone and region overwrite. Further labels of the cloud are left out when their name belongs to Kubernetes or when
/// the Node already has one of that name.
pub(crate) fn initial(labels: &Pairs, instance: &Instance) -> Labels {
    let mut changes = Labels::new();
    let named = [(INSTANCE_TYPE, &instance.instance_type), (ZONE, &instance.zone), (REGION, &instance.region)];
    for (pair, value) in named {
        for name in [pair.deprecated, pair.stable] {
            if !value.is_empty() && labels.get(name) != Some(value.as_str()) {
                changes.insert(name.to_owned(), value.clone());
            }
        }
    }
    for (name, value) in &instance.labels {
        if is_reserved(name) {
            tracing::warn!(label = name, "label of the cloud left out: its name belongs to Kubernetes");
            continue;
        }
        match labels.get(name) {
            Some(present) if present != value => {
                tracing::warn!(
                    label = name,
                    present,
                    offered = value,
                    "label of the cloud left out: the Node has another"
                );
            }
            Some(_) => {}
            None => drop(changes.insert(name.clone(), value.clone())),
        }
    }
    changes
}

/// The labels to set so that the new label of each pair says what the old one says. A lone new label is left alone.
pub(crate) fn corrections(labels: &Pairs) -> Labels {
    [ZONE, REGION, INSTANCE_TYPE]
        .into_iter()
        .filter_map(|pair| {
            let value = labels.get(pair.deprecated)?;
            (labels.get(pair.stable) != Some(value)).then(|| (pair.stable.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Whether a label of this name is Kubernetes' own: `kubernetes.io/` or `k8s.io/`, alone or below a further name.
pub(crate) fn is_reserved(name: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"].into_iter().any(|domain| {
        name.match_indices(domain)
            .any(|(at, _)| name.get(..at).is_some_and(|before| before.is_empty() || before.ends_with('.')))
    })
}
