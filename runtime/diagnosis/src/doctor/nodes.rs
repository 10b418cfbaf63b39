//! Nodes: those that wait, and those that no provider can take care of.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::Descriptor;
use ccm_controllers::{Node, asks_no_manager, is_uninitialized};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::finding::{Check, Finding};
use crate::kubelet;

/// `providers`: all that the process has; none where one of them could not be loaded. A Node that is older than `patience` should be
/// initialised.
pub(super) fn judge(
    nodes: &[Arc<Node>],
    providers: Option<&[Descriptor]>,
    patience: SignedDuration,
    now: Timestamp,
) -> Vec<Finding> {
    let check = Check::Nodes;
    let names =
        |nodes: &[&Arc<Node>]| -> Vec<String> { nodes.iter().map(|node| format!("Node {}", node.name)).collect() };
    let of = |holds: &dyn Fn(&Node) -> bool| -> Vec<&Arc<Node>> { nodes.iter().filter(|node| holds(node)).collect() };
    // As a shell takes it, where it is one.
    let name_of = |nodes: &[&Arc<Node>]| match nodes {
        [one] => one.name.to_string(),
        _ => "NAME".to_owned(),
    };
    let mut findings = vec![];

    let age = |node: &Node| node.created.map(|created| now.duration_since(created));
    let waiting = of(&|node| is_uninitialized(node) && age(node).is_some_and(|age| age > patience));
    if let Some(longest) = waiting.iter().filter_map(|node| age(node)).max() {
        let longest = SignedDuration::from_secs(longest.as_secs());
        findings.push(
            check
                .wrong(
                    format!("has waited for its initialisation for {longest:#}"),
                    format!(
                        "`wasm-ccm explain node {name}` says why, as does the Event SyncNodeFailed in `kubectl describe node {name}`; without such an Event, no host works on it",
                        name = name_of(&waiting)
                    ),
                )
                .about(names(&waiting)),
        );
    }

    let unmanaged = of(&asks_no_manager);
    if !unmanaged.is_empty() {
        findings.push(check.wrong(kubelet::FOUND, kubelet::fix(&name_of(&unmanaged))).about(names(&unmanaged)));
    }

    let mut holders: BTreeMap<&str, Vec<&Arc<Node>>> = BTreeMap::new();
    for node in nodes {
        if let Some(id) = node.provider_id.as_deref() {
            holders.entry(id).or_default().push(node);
        }
    }
    findings.extend(holders.iter().filter(|(_, nodes)| nodes.len() > 1).map(|(id, nodes)| {
        let fix = "find out which Node the machine is (`kubectl get nodes -o wide`), and delete the other";
        check
            .wrong(format!("have one provider ID, {id}: the cloud knows one machine for them"), fix)
            .about(names(nodes))
    }));

    findings.extend(providers.and_then(|providers| strangers(nodes, providers)));
    if findings.is_empty() {
        findings
            .push(check.good(format!("Nodes: {}; none waits for long, and none shares its provider ID", nodes.len())));
    }
    findings
}

/// Nodes whose provider ID begins as none of these providers' do.
fn strangers(nodes: &[Arc<Node>], providers: &[Descriptor]) -> Option<Finding> {
    let is_known = |id: &str| providers.iter().any(|provider| provider.owns(id));
    let strange: Vec<(&str, &str)> = nodes
        .iter()
        .filter_map(|node| Some((&*node.name, node.provider_id.as_deref().filter(|id| !is_known(id))?)))
        .collect();
    let (_, first) = strange.first()?;
    let known: Vec<String> = providers.iter().flat_map(Descriptor::provider_ids).collect();
    let found =
        format!("has a provider ID, such as {first}, that no provider serves: theirs begin with {}", known.join(", "));
    let fix = "configure the provider of that cloud, or correct the kubelet's --provider-id and register the Node again; nothing, if another manager serves it";
    // Some clusters have machines of two clouds.
    Some(Check::Nodes.note(found, fix).about(strange.iter().map(|(name, _)| format!("Node {name}"))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

    fn node(name: &str, provider_id: Option<&str>, is_tainted: bool, created: &str) -> Arc<Node> {
        let taint = json!({ "key": UNINITIALIZED, "effect": "NoSchedule" });
        let taints = if is_tainted { vec![taint] } else { vec![] };
        let metadata = json!({ "name": name, "creationTimestamp": created });
        let node = json!({ "metadata": metadata, "spec": { "providerID": provider_id, "taints": taints } });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn told(nodes: &[Arc<Node>]) -> Vec<String> {
        let provider = Descriptor { provider_id_schemes: vec!["cloud".to_owned()], ..Descriptor::default() };
        let findings =
            judge(nodes, Some(&[provider]), SignedDuration::from_mins(5), "2026-11-26T10:00:00Z".parse().unwrap());
        findings
            .into_iter()
            .map(|one| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found))
            .collect()
    }

    const OLD: &str = "2026-11-26T09:00:00Z";

    #[test]
    fn a_healthy_cluster_and_a_new_node_are_good() {
        let nodes = [node("a", Some("cloud://1"), false, OLD), node("b", None, true, "2026-11-26T09:55:00Z")];
        assert_eq!(told(&nodes), ["Good : Nodes: 2; none waits for long, and none shares its provider ID"]);
        assert_eq!(told(&[]).len(), 1);
    }

    #[test]
    fn each_mistake_is_one_line_with_all_nodes_that_have_it() {
        let waiting = [node("a", None, true, OLD), node("b", None, true, "2026-11-26T09:54:59Z")];
        assert_eq!(told(&waiting), ["Wrong Node a, Node b: has waited for its initialisation for 1h"]);
        let in_tree = told(&[node("a", None, false, OLD)]);
        assert!(
            in_tree[0].starts_with("Wrong Node a: has neither a provider ID nor the uninitialized taint")
                && in_tree.len() == 1,
            "{in_tree:?}"
        );
        let twins = told(&[node("a", Some("cloud://1"), false, OLD), node("b", Some("cloud://1"), false, OLD)]);
        assert!(twins[0].starts_with("Wrong Node a, Node b: have one provider ID, cloud://1"), "{twins:?}");
        let stranger = told(&[node("a", Some("clouds://1"), false, OLD)]);
        assert!(stranger[0].starts_with("Note Node a: has a provider ID, such as clouds://1, that no"), "{stranger:?}");
        assert!(stranger[0].ends_with("theirs begin with cloud://"), "{stranger:?}");
    }

    #[test]
    fn a_node_that_goes_needs_no_provider_id() {
        let mut going = node("a", None, false, OLD);
        Arc::get_mut(&mut going).unwrap().is_deleting = true;
        assert!(told(&[going])[0].starts_with("Good"));
    }

    #[test]
    fn without_its_providers_no_scheme_is_strange() {
        let findings = judge(&[node("a", Some("x://1"), false, OLD)], None, SignedDuration::ZERO, Timestamp::now());
        assert_eq!(findings[0].judgement, super::super::finding::Judgement::Good);
    }
}
