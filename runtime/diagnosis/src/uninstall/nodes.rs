//! What stays on Nodes: taints, and the condition of the route controller. Their provider IDs, addresses and labels stay for good.

use std::sync::Arc;

use ccm_controllers::{Node, SHUTDOWN_TAINT, UNINITIALIZED_TAINT, has_route_condition, is_uninitialized};

use super::remains::{Item, Remains, Step};

/// Takes the condition away.
const CONDITION: &str = r#"{"status":{"conditions":[{"type":"NetworkUnavailable","$patch":"delete"}]}}"#;

/// Looks at all Nodes.
pub(super) fn judge(nodes: &[Arc<Node>], remains: &mut Remains) {
    for node in nodes {
        let name = node.name_any();
        let taint = |step: Step, taint: &str| {
            let (object, command) = (format!("Node {name}"), format!("kubectl taint nodes {name} {taint}-"));
            (step, Item { object, found: format!("taint {taint}"), command })
        };
        let waits = is_uninitialized(node).then(|| taint(Step::Nodes, UNINITIALIZED_TAINT));
        let is_off = node.taints.iter().any(|taint| taint.key == SHUTDOWN_TAINT);
        let is_off = is_off.then(|| taint(Step::Marks, SHUTDOWN_TAINT));
        for (step, item) in waits.into_iter().chain(is_off) {
            remains.add(step, item);
        }
        if has_route_condition(node) {
            let command = format!("kubectl patch node {name} --subresource=status --patch '{CONDITION}'");
            let found = "condition NetworkUnavailable, written by the route controller".to_owned();
            remains.add(Step::Marks, Item { object: format!("Node {name}"), found, command });
        }
    }
    let kept = nodes.iter().filter(|node| node.provider_id.is_some()).count();
    if kept > 0 {
        remains.note(format!(
            "{kept} Nodes keep their provider ID, addresses, and labels of zone, region and instance type: nobody can change a provider ID"
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::uninstall::manager::Manager;

    fn node(name: &str, spec: &Value, condition: Option<(&str, &str, &str)>) -> Arc<Node> {
        let condition =
            condition.map(|(kind, status, reason)| json!({ "type": kind, "status": status, "reason": reason }));
        let conditions: Vec<Value> = condition.into_iter().collect();
        let object = json!({ "metadata": { "name": name }, "spec": spec, "status": { "conditions": conditions } });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn taints_and_the_condition_of_routes_are_left_and_those_of_others_are_not() {
        let tainted = |key: &str| json!({ "taints": [{ "key": key, "effect": "NoSchedule" }], "providerID": "my://1" });
        let nodes = [
            node("new", &tainted("node.cloudprovider.kubernetes.io/uninitialized"), None),
            node("off", &tainted("node.cloudprovider.kubernetes.io/shutdown"), None),
            node("busy", &tainted("example.com/other"), Some(("NetworkUnavailable", "False", "FlannelIsUp"))),
            node("routed", &json!({}), Some(("NetworkUnavailable", "False", "RouteCreated"))),
            node("waits", &json!({}), Some(("NetworkUnavailable", "True", "NoRouteCreated"))),
            node("other", &json!({}), Some(("Ready", "False", "RouteCreated"))),
        ];
        let mut remains = Remains::new(Manager::Nobody);
        judge(&nodes, &mut remains);
        let commands = |step| remains.items(step).iter().map(|item| item.command.as_str()).collect::<Vec<_>>();
        let wanted = "kubectl taint nodes new node.cloudprovider.kubernetes.io/uninitialized-";
        assert_eq!(commands(Step::Nodes), [wanted]);
        let patch = |name: &str| {
            format!(
                r#"kubectl patch node {name} --subresource=status --patch '{{"status":{{"conditions":[{{"type":"NetworkUnavailable","$patch":"delete"}}]}}}}'"#
            )
        };
        let wanted = [
            "kubectl taint nodes off node.cloudprovider.kubernetes.io/shutdown-".to_owned(),
            patch("routed"),
            patch("waits"),
        ];
        assert_eq!(commands(Step::Marks), wanted);
        assert!(remains.text().contains("3 Nodes keep their provider ID"), "{}", remains.text());
    }
}
