//! The command that gives missing rights: as it stands, for a shell.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::rights::Right;

/// What a rule is about: API group, resource, and the one object, where it is one.
type About<'a> = (&'a str, &'a str, Option<&'a str>);
const API: &str = "rbac.authorization.k8s.io";

/// The command that gives `who` these rights. Those in a namespace are a Role there, with the names of the objects, and all others a
/// ClusterRole. A name is of its rules: what was given before for other objects stays as it is. `is_own`: it is `who` that asks with this
/// kubeconfig, and nobody can give rights to himself.
pub(super) fn command(who: &str, rights: &[&Right], is_own: bool) -> String {
    let mut places: BTreeMap<Option<&str>, BTreeMap<About<'_>, Vec<&str>>> = BTreeMap::new();
    for right in rights {
        let about = (right.group.as_str(), right.resource.as_str(), right.name.as_deref());
        places.entry(right.namespace.as_deref()).or_default().entry(about).or_default().push(&right.verb);
    }
    let items: Vec<Value> =
        places.iter().flat_map(|(namespace, rules)| role_and_binding(who, *namespace, rules)).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let (whose, kubectl) = match is_own {
        true => ("with the kubeconfig of an administrator: ", "kubectl --kubeconfig=FILE"),
        false => ("", "kubectl"),
    };
    // No name in it has a quotation mark.
    format!("{whose}`echo '{list}' | {kubectl} apply --server-side -f -`")
}

fn role_and_binding(who: &str, namespace: Option<&str>, rules: &BTreeMap<About<'_>, Vec<&str>>) -> [Value; 2] {
    let rule = |((group, resource, name), verbs): (&About<'_>, &Vec<&str>)| {
        let mut rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        if let (Some(name), Some(rule)) = (name, rule.as_object_mut()) {
            rule.insert("resourceNames".to_owned(), json!([name]));
        }
        rule
    };
    let written: Vec<Value> = rules.iter().map(rule).collect();
    let mut hasher = DefaultHasher::new();
    (who, rules).hash(&mut hasher);
    let name = format!("wasm-ccm-{:08x}", hasher.finish() >> 32);
    let (role, binding) = match namespace {
        Some(_) => ("Role", "RoleBinding"),
        None => ("ClusterRole", "ClusterRoleBinding"),
    };
    let metadata = match namespace {
        Some(namespace) => json!({ "name": name, "namespace": namespace }),
        None => json!({ "name": name }),
    };
    let version = format!("{API}/v1");
    [
        json!({ "apiVersion": version, "kind": role, "metadata": metadata, "rules": written }),
        json!({
            "apiVersion": version, "kind": binding, "metadata": metadata, "subjects": [subject(who)],
            "roleRef": { "apiGroup": API, "kind": role, "name": name },
        }),
    ]
}

fn subject(who: &str) -> Value {
    match who.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name }),
        None => json!({ "kind": "User", "apiGroup": API, "name": who }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(verb: &str, resource: &str, place: Option<(&str, Option<&str>)>) -> Right {
        Right {
            verb: verb.to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            name: place.and_then(|(_, name)| name).map(ToOwned::to_owned),
            namespace: place.map(|(namespace, _)| namespace.to_owned()),
        }
    }

    fn objects(who: &str, rights: &[&Right]) -> Vec<Value> {
        let command = command(who, rights, false);
        let list =
            command.strip_prefix("`echo '").unwrap().strip_suffix("' | kubectl apply --server-side -f -`").unwrap();
        assert!(!list.contains('\''), "{list}");
        let list: Value = serde_json::from_str(list).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// A Role of a namespace was once to be mended with the ClusterRole of the overlay.
    #[test]
    fn rights_to_one_object_are_a_role_in_its_namespace() {
        let secret = Some(("cloud", Some("keys")));
        let rights =
            [right("patch", "nodes", None), right("get", "secrets", secret), right("watch", "secrets", secret)];
        let all = objects("system:serviceaccount:kube-system:wasm-ccm", &rights.each_ref());
        let kinds: Vec<&str> = all.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert_eq!(all[0]["rules"], json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }]));
        let wanted = json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["keys"], "verbs": ["get", "watch"] }]);
        assert_eq!((&all[2]["rules"], &all[2]["metadata"]["namespace"]), (&wanted, &json!("cloud")));
        assert_eq!(all[3]["roleRef"]["name"], all[2]["metadata"]["name"]);
        let account = json!([{ "kind": "ServiceAccount", "namespace": "kube-system", "name": "wasm-ccm" }]);
        assert_eq!(all[3]["subjects"], account);
    }

    #[test]
    fn what_was_given_before_is_not_taken_away() {
        let name = |resource: &str, who: &str| {
            let given = right("get", resource, Some(("cloud", Some("keys"))));
            objects(who, &[&given])[0]["metadata"]["name"].clone()
        };
        assert_eq!(name("secrets", "a"), name("secrets", "a"));
        assert_ne!(name("secrets", "a"), name("configmaps", "a"));
        assert_ne!(name("secrets", "a"), name("secrets", "b"));
    }
}
