//! Schemas of OpenAPI 3.0 as JSON Schema, and what JSON Schema does not look at: members that nobody declared.

use anyhow::{Result, anyhow};
use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

/// A schema of the document, ready for use.
pub(super) struct Schema {
    validator: Validator,
    declared: Value,
}

/// Where a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Response,
}

impl Schema {
    pub(super) fn new(declared: &Value) -> Result<Self> {
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .build(&json_schema(declared))
            .map_err(|error| anyhow!("the schema cannot be used: {error}"))?;
        Ok(Self { validator, declared: declared.clone() })
    }

    /// What the schema forbids, each with its place in the value.
    pub(super) fn errors(&self, value: &Value) -> Vec<String> {
        self.validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// Members that the schema does not know, and members of a request that only answers have.
    pub(super) fn strangers(&self, value: &Value, way: Way) -> Vec<String> {
        let mut found = Vec::new();
        strangers(value, &[&self.declared], way, "", &mut found);
        found
    }

    pub(super) fn declared(&self) -> &Value {
        &self.declared
    }
}

/// OpenAPI 3.0 says `nullable` where JSON Schema has a type `null`; the rest that is used here is the same.
fn json_schema(schema: &Value) -> Value {
    let Value::Object(declared) = schema else { return schema.clone() };
    let mut own = Map::new();
    for (keyword, value) in declared {
        let converted = match (keyword.as_str(), value) {
            ("properties", Value::Object(members)) => {
                members.iter().map(|(name, member)| (name.clone(), json_schema(member))).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter().map(json_schema).collect(),
            ("items" | "additionalProperties" | "not", value) => json_schema(value),
            ("nullable" | "readOnly" | "example" | "examples" | "default" | "description", _) => continue,
            (_, value) => value.clone(),
        };
        own.insert(keyword.clone(), converted);
    }
    if declared.get("nullable") == Some(&Value::Bool(true)) {
        return json!({ "anyOf": [{ "type": "null" }, own] });
    }
    Value::Object(own)
}

/// All parts of the schemas, whether they hold together or exclude each other.
fn parts<'a>(schemas: &[&'a Value]) -> Vec<&'a Value> {
    let mut all: Vec<&Value> = schemas.to_vec();
    let mut next = 0;
    while let Some(schema) = all.get(next).copied() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            all.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        next += 1;
    }
    all
}

fn strangers(value: &Value, schemas: &[&Value], way: Way, at: &str, found: &mut Vec<String>) {
    let parts = parts(schemas);
    match value {
        Value::Object(members) => {
            let others: Vec<&Value> = parts.iter().filter_map(|part| part.get("additionalProperties")).collect();
            let any_other = others.iter().any(|other| **other != Value::Bool(false));
            if !any_other && !parts.iter().any(|part| part.get("properties").is_some()) {
                return; // any object
            }
            for (name, member) in members {
                let at = format!("{at}/{name}");
                let known: Vec<&Value> = parts.iter().filter_map(|part| part.get("properties")?.get(name)).collect();
                match (known.is_empty(), any_other) {
                    (true, false) => found.push(format!("{at}: not in the document")),
                    (true, true) => strangers(member, &others, way, &at, found),
                    (false, _) => {
                        let is_read_only = known.iter().any(|part| part.get("readOnly") == Some(&Value::Bool(true)));
                        if way == Way::Request && is_read_only {
                            found.push(format!("{at}: read-only in the document"));
                        }
                        strangers(member, &known, way, &at, found);
                    }
                }
            }
        }
        Value::Array(items) => {
            let each: Vec<&Value> = parts.iter().filter_map(|part| part.get("items")).collect();
            for (place, item) in items.iter().enumerate() {
                strangers(item, &each, way, &format!("{at}/{place}"), found);
            }
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_allowed_where_the_document_says_nullable_and_only_there() {
        let schema = Schema::new(&json!({
            "properties": {
                "ids": { "type": "array", "nullable": true, "items": { "type": "integer" } },
                "kind": { "allOf": [{ "type": "string", "enum": ["a"], "nullable": true }, { "description": "x" }] },
                "name": { "type": "string" },
            }
        }))
        .unwrap();
        assert_eq!(schema.errors(&json!({ "ids": null, "kind": null, "name": "n" })), [""; 0]);
        assert_eq!(schema.errors(&json!({ "ids": ["1"] })).len(), 1);
        assert_eq!(schema.errors(&json!({ "name": null })).len(), 1);
    }

    #[test]
    fn a_member_that_no_part_declares_is_found_at_every_depth() {
        let schema = Schema::new(&json!({
            "allOf": [
                { "properties": { "a": { "properties": { "x": {} } }, "list": { "items": { "properties": { "i": {} } } } } },
                { "properties": { "a": { "properties": { "y": {} } }, "id": { "readOnly": true }, "free": { "type": "object" } } },
            ]
        }))
        .unwrap();
        let fine = json!({ "a": { "x": 1, "y": 2 }, "list": [{ "i": 1 }], "free": { "what": "ever" } });
        assert_eq!(schema.strangers(&fine, Way::Request), [""; 0]);
        let wrong = json!({ "a": { "z": 1 }, "list": [{}, { "j": 1 }], "b": 1, "id": 5 });
        let found = schema.strangers(&wrong, Way::Request);
        assert_eq!(
            found,
            [
                "/a/z: not in the document",
                "/b: not in the document",
                "/id: read-only in the document",
                "/list/1/j: not in the document"
            ]
        );
        assert_eq!(schema.strangers(&json!({ "id": 5 }), Way::Response), [""; 0]);
    }
}
