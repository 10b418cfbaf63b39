//! What an object is after a patch, in the forms that the controllers send.

use serde_json::{Map, Value, json};

/// The content type of a JSON patch, whose tests may be about any part of an object.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";

/// How a patch ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Patched {
    /// The object after it.
    Done(Value),
    /// A JSON patch has a test that does not hold.
    TestFailed,
}

/// Applies a patch of this content type.
pub(crate) fn apply(before: &Value, patch: &Value, content_type: &str) -> Patched {
    let mut after = before.clone();
    match (content_type, patch) {
        (JSON_PATCH, Value::Array(operations)) => {
            if !operations.iter().all(|operation| operate(&mut after, operation)) {
                return Patched::TestFailed;
            }
        }
        ("application/strategic-merge-patch+json", patch) => merge(&mut after, patch, Lists::Merged),
        _ => merge(&mut after, patch, Lists::Replaced),
    }
    Patched::Done(after)
}

/// The object with the next resource version: whoever wrote it knows it from what was there before.
pub(crate) fn as_newer(mut object: Value) -> Value {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    let next = version.and_then(|version| version.parse::<u64>().ok()).map(|version| version.saturating_add(1));
    if let (Some(next), Some(place)) = (next, object.pointer_mut("/metadata/resourceVersion")) {
        *place = json!(next.to_string());
    }
    object
}

/// What a patch does with lists.
#[derive(Clone, Copy)]
enum Lists {
    /// A merge patch puts its own list in the place of the one that is there.
    Replaced,
    /// A strategic merge patch merges those lists whose type says so.
    Merged,
}

fn merge(target: &mut Value, patch: &Value, lists: Lists) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in members.iter().filter(|(name, _)| !name.starts_with("$setElementOrder/")) {
        match value {
            Value::Null => drop(target.remove(name)),
            Value::Array(new) if matches!(lists, Lists::Merged) => {
                let old = target.entry(name.as_str()).or_insert_with(|| json!([]));
                merge_list(name, old, new);
            }
            value => merge(target.entry(name.as_str()).or_insert(Value::Null), value, lists),
        }
    }
}

/// As the types of Kubernetes say: finalizers are a set, conditions and addresses have the key `type`, and all others that controllers write are
/// replaced.
fn merge_list(name: &str, old: &mut Value, new: &[Value]) {
    let is_directive = |entry: &&Value| entry.get("$patch").is_some();
    let (is_replaced, new) = match new.split_first() {
        Some((first, rest)) if is_directive(&first) => (true, rest),
        _ => (false, new),
    };
    let has_key = matches!(name, "conditions" | "addresses");
    let Value::Array(list) = old else {
        *old = json!(new);
        return;
    };
    if is_replaced || !(has_key || name == "finalizers") {
        *list = new.to_vec();
        return;
    }
    for entry in new {
        let is_same = |one: &Value| if has_key { one.get("type") == entry.get("type") } else { one == entry };
        match list.iter_mut().find(|one| is_same(one)) {
            Some(one) => merge(one, entry, Lists::Merged),
            None => list.push(entry.clone()),
        }
    }
}

/// One operation of a JSON patch; false where a test does not hold or the place is not there.
fn operate(object: &mut Value, operation: &Value) -> bool {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let (Some(kind), Some(path)) = (text("op"), text("path")) else { return false };
    let value = operation.get("value");
    if kind == "test" {
        return object.pointer(path) == value;
    }
    let Some((parent, name)) = path.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    let place = name.parse::<usize>().ok();
    match (object.pointer_mut(parent), kind) {
        (Some(Value::Object(members)), "remove") => members.remove(&name).is_some(),
        (Some(Value::Object(members)), "add" | "replace") => {
            drop(members.insert(name, value.cloned().unwrap_or_default()));
            true
        }
        (Some(Value::Array(list)), "remove") => match place.filter(|place| *place < list.len()) {
            Some(place) => {
                list.remove(place);
                true
            }
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn after(before: &Value, kind: &str, patch: &Value) -> Value {
        match apply(before, patch, &format!("application/{kind}+json")) {
            Patched::Done(after) => after,
            Patched::TestFailed => panic!("a test of {patch} does not hold"),
        }
    }

    #[test]
    fn a_strategic_merge_patch_merges_finalizers_conditions_and_addresses_and_replaces_other_lists() {
        let before = json!({
            "metadata": { "finalizers": ["a"], "annotations": { "x": "1", "y": "2" } },
            "spec": { "taints": [{ "key": "old" }] },
            "status": { "conditions": [{ "type": "A", "status": "True", "reason": "R" }], "addresses": [{ "type": "InternalIP", "address": "1" }] },
        });
        let patch = json!({
            "metadata": { "finalizers": ["b"], "$setElementOrder/finalizers": ["a", "b"], "annotations": { "x": null } },
            "spec": { "taints": [{ "key": "new" }] },
            "status": {
                "conditions": [{ "type": "A", "status": "False" }, { "type": "B", "status": "True" }],
                "addresses": [{ "$patch": "replace" }, { "type": "ExternalIP", "address": "2" }],
            },
        });
        let wanted = json!({
            "metadata": { "finalizers": ["a", "b"], "annotations": { "y": "2" } },
            "spec": { "taints": [{ "key": "new" }] },
            "status": {
                "conditions": [{ "type": "A", "status": "False", "reason": "R" }, { "type": "B", "status": "True" }],
                "addresses": [{ "type": "ExternalIP", "address": "2" }],
            },
        });
        assert_eq!(after(&before, "strategic-merge-patch", &patch), wanted);
        let none = json!({ "spec": { "taints": null } });
        assert_eq!(after(&before, "strategic-merge-patch", &none)["spec"], json!({}));
    }

    #[test]
    fn a_merge_patch_replaces_every_list() {
        let before = json!({ "status": { "addresses": [{ "type": "A", "address": "1" }], "phase": "x" } });
        let patch = json!({ "status": { "addresses": [{ "type": "B", "address": "2" }] } });
        let wanted = json!({ "status": { "addresses": [{ "type": "B", "address": "2" }], "phase": "x" } });
        assert_eq!(after(&before, "merge-patch", &patch), wanted);
    }

    #[test]
    fn a_json_patch_is_applied_only_where_its_tests_hold() {
        let before = json!({ "metadata": { "uid": "1", "finalizers": ["a", "b"], "annotations": { "x/y": "z" } } });
        let patch = json!([
            { "op": "test", "path": "/metadata/finalizers/1", "value": "b" },
            { "op": "remove", "path": "/metadata/finalizers/1" },
            { "op": "remove", "path": "/metadata/annotations/x~1y" },
        ]);
        let wanted = json!({ "metadata": { "uid": "1", "finalizers": ["a"], "annotations": {} } });
        assert_eq!(after(&before, "json-patch", &patch), wanted);
        let other = json!([{ "op": "test", "path": "/metadata/uid", "value": "2" }, { "op": "remove", "path": "/metadata/uid" }]);
        assert_eq!(apply(&before, &other, "application/json-patch+json"), Patched::TestFailed);
        for path in ["/metadata/annotations/gone", "/metadata/finalizers/2", "/status/conditions/0"] {
            let gone = json!([{ "op": "remove", "path": path }]);
            assert_eq!(apply(&before, &gone, "application/json-patch+json"), Patched::TestFailed, "{path}");
        }
    }

    #[test]
    fn each_write_gives_an_object_a_newer_version() {
        let object = json!({ "metadata": { "resourceVersion": "41" } });
        assert_eq!(as_newer(object), json!({ "metadata": { "resourceVersion": "42" } }));
        assert_eq!(as_newer(json!({ "kind": "Node" })), json!({ "kind": "Node" }));
    }
}
