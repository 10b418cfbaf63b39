//! What repeats in the file of facts is written there once, and named by a `$ref`.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Deeper than anything that does not lead back to itself.
const DEPTH: usize = 100;

/// The value with everything in its place.
pub(super) fn expand(root: &Value, value: &Value) -> Result<Value> {
    expand_at(root, value, 0)
}

fn expand_at(root: &Value, value: &Value, depth: usize) -> Result<Value> {
    ensure!(depth < DEPTH, "a $ref leads back to itself");
    Ok(match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                return expand_at(root, target.with_context(|| format!("{reference} leads nowhere"))?, depth + 1);
            }
            let each = members.iter().map(|(name, member)| Ok((name.clone(), expand_at(root, member, depth + 1)?)));
            Value::Object(each.collect::<Result<_>>()?)
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| expand_at(root, item, depth + 1)).collect::<Result<_>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_shared_comes_to_its_places_and_a_circle_is_an_error() {
        let root = json!({
            "paths": [{ "$ref": "#/shared/a" }, { "b": { "$ref": "#/shared/b" } }],
            "shared": { "a": { "x": { "$ref": "#/shared/b" } }, "b": [1] },
        });
        assert_eq!(expand(&root, &root["paths"]).unwrap(), json!([{ "x": [1] }, { "b": [1] }]));
        for (shared, expected) in [
            (json!({ "a": { "y": { "$ref": "#/shared/a" } } }), "back to itself"),
            (json!({}), "#/shared/a leads nowhere"),
        ] {
            let root = json!({ "paths": { "$ref": "#/shared/a" }, "shared": shared });
            let error = expand(&root, &root["paths"]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
